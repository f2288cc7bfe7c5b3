//! WebAssembly modules: procedures that come at run time.
//!
//! # The story
//!
//! A module is rows, as a script is: loading one is a transaction, so it is on every node, survives, and is there after a failover.
//! Its procedures are the functions that it exports as `procedure:NAME`. A call is one data command ([`commands::modules`](super::commands::modules)) and so a
//! part of a transaction like any other. Engines replicate what it wrote, not its code.
//!
//! As of scripts, everything follows from "it may run again":
//!
//! - *Nothing is left behind.* Every attempt has an instance of its own, whose memory is as the module describes it.
//! - *It repeats itself.* A module can ask for nothing but the functions of [`ABI`]: the data, its arguments, the request's
//!   [moment](super::moment). Threads and what processors do differently are switched off; a NaN has one form.
//! - *It ends.* By fuel, which is counted; by memory and stack, which are bounded.
//!
//! # Versions
//!
//! A call reads the module's row in its transaction and runs what the row says. So it conflicts with whoever replaces the module meanwhile, and no
//! transaction runs two versions of one procedure, nor the wrong one.
//!
//! # Where to look
//!
//! - [`catalogue`]: the rows. [`data`]: what a procedure may do to the data. [`compiler`]: the thread that compiles.
//! - With feature `wasm`: `machine`, the compiler and the places where instances stand; `compiled`, what is asked of a module, and the cache;
//!   `cost`, what of one would take too long to compile;
//!   `host`, the functions of the ABI; `run`, one call, and `state`, what is known of it. Without it: `absent`.
//!
//! docs/internals/wasm.md has the ABI, what is bounded by what, and where compiling takes place.

pub mod catalogue;
pub mod data;

#[cfg(feature = "wasm")]
pub mod compiled;
pub mod compiler;
#[cfg(feature = "wasm")]
pub mod cost;
#[cfg(feature = "wasm")]
mod host;
#[cfg(feature = "wasm")]
mod machine;
#[cfg(feature = "wasm")]
mod run;
#[cfg(feature = "wasm")]
pub mod state;
#[cfg(feature = "wasm")]
pub use compiled::{check, compile, is_warm, prepare};
#[cfg(feature = "wasm")]
pub use run::call;

#[cfg(not(feature = "wasm"))]
mod absent;
#[cfg(not(feature = "wasm"))]
pub use absent::{call, check, is_warm, prepare};

use std::cell::{Cell, RefCell};

use highwater_core::Abort;

use super::errors::CommandError;
use super::keyspace::Failure;
use super::scripts::budget::Clocks;

pub use super::schema::MODULES;

/// What modules import from: its number is the version of the functions there.
pub const ABI: &str = "highwater1";
/// What the names of exported procedures begin with.
pub const PROCEDURE: &str = "procedure:";

/// Longest module, in bytes.
pub const MAX_MODULE_BYTES: usize = 1 << 20;
/// All modules together, in bytes.
pub const MAX_KEPT_BYTES: u64 = 32 << 20;
/// Procedures of a module.
pub const MAX_PROCEDURES: usize = 256;
/// Longest name of a module, or of a procedure in it, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Whether this can be the name of a module, or of a procedure in it.
pub fn is_name(name: &[u8]) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Why a module is not at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unready {
    /// It cannot be loaded, or run.
    Refused(CommandError),
    /// It is being compiled.
    Compiling,
}

impl From<CommandError> for Unready {
    fn from(why: CommandError) -> Unready {
        Unready::Refused(why)
    }
}

impl From<Unready> for Failure {
    fn from(why: Unready) -> Failure {
        match why {
            Unready::Refused(why) => why.into(),
            Unready::Compiling => Abort::NotReady.into(),
        }
    }
}

/// The line in which clients wait that load a module of this name; no key of theirs is likely to be called so.
pub fn line_of_loads(name: &[u8]) -> Vec<u8> {
    [b"\0modules\0load\0", name].concat()
}

/// The line in which clients wait that call a module of this name.
pub fn line_of_calls(name: &[u8]) -> Vec<u8> {
    [b"\0modules\0call\0", name].concat()
}

/// A module that was looked at, and may be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// In the binary format, whatever it came in.
    pub bytes: Vec<u8>,
    /// The names of its procedures, in their order.
    pub procedures: Vec<String>,
}

/// The bounds of every call on a thread.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Fuel of a call, an instruction each; 0: no bound.
    pub fuel: u64,
    /// Bytes of an instance's memory.
    pub memory_bytes: usize,
    /// The host's clocks, as [of scripts](super::scripts::budget::Limits::clock).
    pub clock: Option<Clocks>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { fuel: 400_000_000, memory_bytes: 16 << 20, clock: None }
    }
}

thread_local! {
    static LIMITS: Cell<Option<Limits>> = const { Cell::new(None) };
    static HOSTED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Bounds this thread's calls from now on.
pub fn limit(limits: Limits) {
    LIMITS.set(Some(limits));
}

/// The bounds of this thread's calls.
pub fn limits() -> Limits {
    LIMITS.get().unwrap_or_default()
}

/// Names the procedures that this thread's node hosts itself. Modules may not have procedures of these names.
pub fn host(names: Vec<&'static str>) {
    HOSTED.set(names);
}

/// Whether the node hosts a procedure of this name itself.
pub fn is_hosted(name: &str) -> bool {
    HOSTED.with_borrow(|names| names.contains(&name))
}
