//! What is fuzzed: one function per kind of bytes that come from outside, which panics if the product does what it must
//! not.
//!
//! The same functions run under libFuzzer (`/fuzz`, outside of the workspace) and, for seconds, in `tests/targets.rs`,
//! both from the inputs in `corpus/`. What is asked of every target: no panic; what was decided does not depend on how
//! the bytes were cut; what is read can be written and read again; and no allocation much larger than the input, whatever
//! lengths it announces ([`memory`]).

mod cut;
mod log;
mod lua;
pub mod memory;
mod peers;
mod resp;
mod state;
mod words;

/// A kind of bytes from outside.
#[derive(Clone, Copy)]
pub struct Target {
    /// Names it on the command line, and its folder in the corpus.
    pub name: &'static str,
    /// Takes bytes; panics if the product does what it must not. Whether they meant something: a corpus in which nothing
    /// does is out of date.
    pub run: fn(&[u8]) -> bool,
    /// The largest single allocation that an input of `len` bytes may cause: `so much + so many times len`.
    pub largest_allocation: (usize, usize),
    /// Code in C runs, which may end the process: the tests run batches in processes of their own.
    pub alone: bool,
}

const KIB: usize = 1 << 10;

/// All of them.
pub const TARGETS: &[Target] = &[
    // Inline commands and arrays; then `redis.exec`, which gets its arguments from embedded callers, too.
    Target { name: "resp", run: resp::stream, largest_allocation: (64 * KIB, 64), alone: false },
    // A few bytes can make a value as long as one may be.
    Target { name: "exec", run: resp::exec, largest_allocation: (48 * 1024 * KIB, 64), alone: false },
    // A receive buffer has at least a chunk.
    Target { name: "frames", run: peers::frames, largest_allocation: (1100 * KIB, 8), alone: false },
    Target { name: "peers", run: peers::messages, largest_allocation: (1100 * KIB, 64), alone: false },
    Target { name: "handshake", run: peers::handshake, largest_allocation: (64 * KIB, 8), alone: false },
    // Once a tombstone is unlinked a store has half a megabyte to remember it by.
    Target { name: "entry", run: log::entry, largest_allocation: (576 * KIB, 64), alone: false },
    Target {
        name: "transactions",
        run: log::transactions,
        largest_allocation: (576 * KIB, 64),
        alone: false,
    },
    Target { name: "chunk", run: state::chunk, largest_allocation: (256 * KIB, 64), alone: false },
    Target { name: "admin", run: words::admin, largest_allocation: (64 * KIB, 64), alone: false },
    Target { name: "config", run: words::config, largest_allocation: (256 * KIB, 64), alone: false },
    // What a script may take is counted, and so is what is made of it: an answer, an array of what it holds.
    Target { name: "lua", run: lua::calls, largest_allocation: (48 * 1024 * KIB, 64), alone: true },
    Target { name: "scripts", run: lua::costly, largest_allocation: (256 * 1024 * KIB, 64), alone: true },
];

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<Target> {
        TARGETS.iter().find(|target| target.name == name).copied()
    }

    /// Runs it, and asks how much it allocated at a time. Whether the bytes meant something.
    ///
    /// # Panics
    /// If something is wrong.
    pub fn check(&self, bytes: &[u8]) -> bool {
        memory::forget();
        let understood = (self.run)(bytes);
        let (fixed, factor) = self.largest_allocation;
        let (largest, most) = (memory::largest(), fixed + factor * bytes.len());
        assert!(
            largest <= most,
            "{} bytes of input made {} allocate {largest} at a time",
            bytes.len(),
            self.name
        );
        understood
    }
}
