//! What a script may use: instructions, memory, and in the worst case time.
//!
//! Lua calls a hook every [`EVERY`] instructions. The collector stands still between hooks, so that the growth of memory is what was
//! allocated: a concatenation of long strings is one instruction, and is paid for by its bytes. The count is the same wherever and however often
//! a script runs. What it cannot see (a comparison of two long strings, `table.insert` in front of a million) is bounded by the
//! host's clock, if it gave one: a long time after which no script is merely slow.

use std::cell::Cell;

use mlua::{Lua, MultiValue, Table, Value, ffi};

use crate::crowds::Crowds;
use crate::raise::Raise;
use crate::{life, watch};

/// Instructions between two looks.
pub const EVERY: u32 = 500;
/// So many bytes allocated are worth one instruction.
const BYTES_PER_INSTRUCTION: u64 = 64;
/// So many are, where something is done with each of them.
const EACH_BYTES_PER_INSTRUCTION: u64 = 8;
/// So many bytes take long enough for a look at the clock.
const LONG_BYTES: usize = 1 << 16;
/// A run that has taken so much may have tables that grow slowly.
const LARGE_BYTES: usize = 1 << 17;
/// Bytes of garbage before the first collection.
const GARBAGE_BYTES: usize = 1 << 20;
/// A script that runs for so long is ended whatever it has counted.
pub const PATIENCE_MS: u64 = 5_000;
/// What ends sooner by the wall's clock has not used more of the CPU: that clock is left alone.
pub const QUICK_MS: u64 = 20;

/// The bounds of every script of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions of a run; 0: no bound.
    pub instructions: u64,
    /// Bytes that a run may take beside its keys and arguments.
    pub memory_bytes: usize,
    /// The host's clocks, for [`PATIENCE_MS`]. `None` where everything has to repeat itself: nothing is bounded by time.
    pub clock: Option<Clocks>,
}

/// Two clocks, both in ms.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Any that goes on while this thread runs, and costs next to nothing.
    pub wall: fn() -> u64,
    /// This thread's CPU time, which costs a call of the kernel: only asked once a run has lasted for [`QUICK_MS`].
    pub cpu: fn() -> u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { instructions: 40_000_000, memory_bytes: 64 << 20, clock: None }
    }
}

thread_local! {
    static LIMITS: Cell<Option<Limits>> = const { Cell::new(None) };
}

/// Bounds this thread's scripts from now on.
pub fn limit(limits: Limits) {
    LIMITS.set(Some(limits));
}

/// The bounds of this thread's scripts.
pub fn limits() -> Limits {
    LIMITS.get().unwrap_or_default()
}

/// Why a run is over, whatever its script thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// It has executed what it may.
    Instructions,
    /// It has taken longer than anything should.
    Time,
    /// Whoever watches its worker has asked for its end.
    Asked,
}

/// What is left of a run's bounds.
#[derive(Debug)]
pub struct Budget {
    limits: Cell<Limits>,
    left: Cell<i64>,
    /// Instructions so far, without what memory is worth.
    executed: Cell<u64>,
    /// Memory in use when it was looked at last.
    seen_bytes: Cell<usize>,
    /// Memory in use at which garbage is collected.
    collect_at: Cell<usize>,
    /// When the run began, by the wall's clock.
    began_ms: Cell<u64>,
    /// The thread's CPU time when the run was found not to be a quick one.
    long_since_ms: Cell<Option<u64>>,
    /// Instructions since the clock was looked at.
    since_look: Cell<u64>,
    spent: Cell<Option<Spent>>,
    /// The machine's own state.
    state: Cell<*mut ffi::lua_State>,
    /// Memory in use at which the growth of tables is looked at.
    watch_at: Cell<usize>,
    crowds: Crowds,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            limits: Cell::default(),
            left: Cell::default(),
            executed: Cell::default(),
            seen_bytes: Cell::default(),
            collect_at: Cell::default(),
            began_ms: Cell::default(),
            long_since_ms: Cell::default(),
            since_look: Cell::default(),
            spent: Cell::default(),
            state: Cell::new(std::ptr::null_mut()),
            watch_at: Cell::new(usize::MAX),
            crowds: Crowds::default(),
        }
    }
}

fn bytes_of(args: &MultiValue) -> usize {
    args.iter().filter_map(Value::as_string).map(|text| text.as_bytes().len()).sum()
}

impl Budget {
    /// A run begins on the machine with this state: from here on it is charged.
    pub fn begin(&self, lua: &Lua, state: *mut ffi::lua_State, limits: Limits) -> mlua::Result<()> {
        self.limits.set(limits);
        self.state.set(state);
        self.crowds.forget();
        self.left.set(if limits.instructions == 0 { i64::MAX } else { limits.instructions as i64 });
        self.executed.set(0);
        self.spent.set(None);
        self.began_ms.set(limits.clock.map_or(0, |clock| (clock.wall)()));
        self.long_since_ms.set(None);
        watch::begin(state, limits.clock.is_some());
        if lua.used_memory() > self.collect_at.get() {
            self.collect(lua)?;
        }
        self.seen_bytes.set(lua.used_memory());
        Ok(())
    }

    /// All that it takes is its own from here on: its keys and arguments are there.
    pub fn settle_arguments(&self, lua: &Lua) -> mlua::Result<()> {
        let used = lua.used_memory();
        self.seen_bytes.set(used);
        lua.set_memory_limit(used + self.limits.get().memory_bytes)?;
        self.watch_at.set(used + LARGE_BYTES);
        Ok(())
    }

    /// It is over: what is done to the machine now is ours.
    pub fn end(&self, lua: &Lua) {
        watch::end();
        self.watch_at.set(usize::MAX);
        // SAFETY: the machine is alive, as `lua` is.
        unsafe { self.crowds.leave(self.state.get()) };
        lua.set_memory_limit(0).expect("this allocator has a limit");
        self.limits.set(Limits { instructions: 0, clock: None, ..Limits::default() });
        self.left.set(i64::MAX);
    }

    /// So many instructions, or what is worth them, were executed.
    pub fn charge(&self, lua: &Lua, instructions: u64) -> mlua::Result<()> {
        let used = lua.used_memory();
        let allocated = used.saturating_sub(self.seen_bytes.get()) as u64;
        let owed = watch::take_owed();
        self.executed.set(self.executed.get() + instructions);
        self.take(instructions.saturating_add(owed).saturating_add(allocated / BYTES_PER_INSTRUCTION));
        self.seen_bytes.set(used);
        if used > self.watch_at.get() {
            // SAFETY: the state is that of `lua`, and this stays where it is for as long as the machine has functions of ours. `end` leaves.
            unsafe { self.crowds.watch(self.state.get()) };
        }
        if used > self.collect_at.get() {
            self.collect(lua)?;
            let live = lua.used_memory();
            self.seen_bytes.set(live);
            // What was garbage when the run began hides nothing of what it takes.
            self.watch_at.set(self.watch_at.get().min(live.saturating_add(LARGE_BYTES)));
        }
        self.check(owed > 0)
    }

    /// Walks over a table's pairs, and charges each: a step to the next may walk along a chain of thousands.
    ///
    /// # Errors
    /// Those of `each`; that the run is over.
    pub fn pairs(
        &self,
        lua: &Lua,
        table: &Table,
        mut each: impl FnMut(Value, Value) -> mlua::Result<()>,
    ) -> mlua::Result<()> {
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.charge(lua, 1)?;
            each(key, value)?;
        }
        Ok(())
    }

    /// The watch over the growth of tables.
    pub fn crowds(&self) -> &Crowds {
        &self.crowds
    }

    /// The same for work that allocates nothing, and reads bytes as quickly as memory gives them.
    pub fn charge_bytes(&self, bytes: usize) -> mlua::Result<()> {
        self.take(1 + bytes as u64 / BYTES_PER_INSTRUCTION);
        self.check(bytes > LONG_BYTES)
    }

    /// The same for work that does something with each of so many bytes.
    pub fn charge_each_byte(&self, bytes: usize) -> mlua::Result<()> {
        self.take(1 + bytes as u64 / EACH_BYTES_PER_INSTRUCTION);
        self.check(bytes > LONG_BYTES)
    }

    /// The same for a function that takes any number of arguments, and copies its texts: a few MB of memory can be thousands of arguments of so
    /// many MB.
    ///
    /// # Errors
    /// That the run is over, or that they are longer together than the memory that it may have.
    pub fn charge_arguments(&self, args: &MultiValue) -> mlua::Result<()> {
        let bytes = bytes_of(args);
        self.charge_bytes(bytes)?;
        if bytes > self.limits.get().memory_bytes {
            return Err(mlua::Error::MemoryError("not enough memory".into()));
        }
        Ok(())
    }

    /// The same for one that reads them as numbers, byte by byte.
    ///
    /// # Errors
    /// That the run is over.
    pub fn charge_numbers(&self, args: &MultiValue) -> mlua::Result<()> {
        self.charge_each_byte(bytes_of(args))
    }

    fn take(&self, instructions: u64) {
        let instructions = instructions.min(1 << 40);
        self.left.set(self.left.get().saturating_sub(instructions as i64));
        self.since_look.set(self.since_look.get() + instructions);
    }

    /// `long`: more than some instructions' worth was done since the last look, so the clock is looked at in any case.
    fn check(&self, long: bool) -> mlua::Result<()> {
        if self.left.get() < 0 && self.spent.get().is_none() {
            self.spent.set(Some(Spent::Instructions));
        }
        let due = long || self.since_look.get() >= 2 * u64::from(EVERY);
        if due {
            self.since_look.set(0);
        }
        if due
            && let Some(clock) = self.limits.get().clock
            && self.out_of_patience(clock)
        {
            self.spent.set(Some(Spent::Time));
        }
        if watch::expired() {
            self.spent.set(Some(Spent::Time));
        }
        // What is bounded may show that it goes on: else a script of some seconds would cost the lead.
        if due && !life::goes_on() {
            self.spent.set(Some(Spent::Asked));
        }
        if self.spent.get().is_some() { Err(Raise::Over.into()) } else { Ok(()) }
    }

    /// Whether the run has used the CPU for too long: counted from when it was no quick one any more, which is a look late at most.
    fn out_of_patience(&self, clock: Clocks) -> bool {
        match self.long_since_ms.get() {
            Some(since) => (clock.cpu)().saturating_sub(since) > PATIENCE_MS,
            None => {
                if (clock.wall)().saturating_sub(self.began_ms.get()) > QUICK_MS {
                    self.long_since_ms.set(Some((clock.cpu)()));
                }
                false
            }
        }
    }

    /// What is used up, if something is.
    pub fn spent(&self) -> Option<Spent> {
        self.spent.get()
    }

    /// Instructions that are left.
    pub fn left(&self) -> u64 {
        self.left.get().max(0) as u64
    }

    /// Instructions executed so far: the same in every attempt. (What is allocated is not quite: a text may be there already.)
    pub fn executed(&self) -> u64 {
        self.executed.get()
    }

    /// Collects all garbage. Who is alive is looked at, and pays.
    fn collect(&self, lua: &Lua) -> mlua::Result<()> {
        // SAFETY: the state that asks executes.
        unsafe { lua.exec_raw::<()>((), watch::correct) }?;
        lua.gc_collect()?;
        // A collection sets the collector going.
        lua.gc_stop();
        let live = lua.used_memory();
        self.take(live as u64 / BYTES_PER_INSTRUCTION * 4);
        // Half of what a run may take is for garbage, at most.
        let garbage = live.clamp(GARBAGE_BYTES, (self.limits.get().memory_bytes / 2).max(GARBAGE_BYTES));
        self.collect_at.set(live + garbage);
        Ok(())
    }

    /// The machine is built: its garbage is collected from here on.
    pub fn settle(&self, lua: &Lua) -> mlua::Result<()> {
        self.collect(lua)?;
        self.left.set(i64::MAX);
        Ok(())
    }
}
