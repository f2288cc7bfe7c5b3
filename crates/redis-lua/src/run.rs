//! A run, as its functions know it.

use std::cell::{Cell, RefCell};

use crate::budget::Budget;

/// Most of the stack that our own code may have taken where it nests, at the end of which is no script. Threads have 2 MiB of stack.
const MAX_OWN_STACK_BYTES: usize = 1200 << 10;

/// About where the stack is.
fn stack_pointer() -> usize {
    let here = 0u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// One run after another, on one machine.
#[derive(Debug, Default)]
pub struct Run {
    /// Counts runs.
    pub number: Cell<u64>,
    /// It has resumed a coroutine.
    pub coroutines: Cell<bool>,
    /// Instructions and memory.
    pub budget: Budget,
    /// The state of `math.random`, 48 bits.
    pub chance: Cell<u64>,
    /// The name of the script in errors.
    pub name: RefCell<Vec<u8>>,
    /// About where the stack was when the run began.
    stack: Cell<usize>,
    /// Its surroundings are over: nothing that it does counts any more.
    pub over: Cell<bool>,
}

impl Run {
    /// Another run begins, which errors call so, with this chance.
    pub fn begin(&self, name: &[u8], seed: u64) {
        self.number.set(self.number.get() + 1);
        self.chance.set(seed & 0xffff_ffff_ffff);
        {
            let mut known = self.name.borrow_mut();
            known.clear();
            known.extend_from_slice(name);
        }
        self.coroutines.set(false);
        self.over.set(false);
        self.stack.set(stack_pointer());
    }

    pub(crate) fn stack_used(&self) -> usize {
        self.stack.get().abs_diff(stack_pointer())
    }

    /// Whether our own code should not nest any deeper.
    pub fn is_deep(&self) -> bool {
        self.stack_used() > MAX_OWN_STACK_BYTES
    }

    /// Nothing that a script does counts any more.
    pub fn is_over(&self) -> bool {
        self.budget.spent().is_some() || self.over.get()
    }
}
