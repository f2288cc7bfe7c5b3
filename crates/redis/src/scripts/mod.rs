//! Lua scripts: `EVAL` and its like, and functions.
//!
//! # The story
//!
//! A script is one data command, and so a part of a transaction like any other: `redis.call` runs the commands that clients run, on
//! the same [`Keyspace`](super::keyspace::Keyspace). It sees everything at one moment, others see all of it or nothing, and it runs again if it met a
//! conflict. Engines replicate what it wrote, not its text.
//!
//! Everything follows from "it may run again":
//!
//! - *Nothing is left behind.* A script changes its own variables only. Its globals cannot be changed (`prelude.lua`), libraries are loaded
//!   for each call, settings of `cjson` and seeds end with the run.
//! - *It repeats itself.* Its time and its chance are its request's [moment](super::moment); its bounds are counted, not measured.
//! - *It ends.* By the count of its instructions and of the bytes that it takes ([`budget`]), on a stack that is watched; by an alarm, if
//!   those take longer than they should.
//!
//! # Where to look
//!
//! - [`vm`]: the machine of a thread, what it remembers, and how a run begins and ends. [`bridge`]: the way to the transaction.
//! - `prelude.lua`, `natives`: what a script finds around it. `redis`: the table `redis`. `values`: RESP to Lua and back.
//! - `strings`, `patterns`, `cjson`, `msgpack`, `packs`, `bits`: libraries. `raise`: errors on their way through Lua.
//! - `compile`: texts to functions, within a time. `costs`: what Lua's own functions cost; `tables`: those that are ours instead. `watch`: looks that
//!   come early. `crowds`: tables that grow slowly.
//! - [`shebang`]: first lines. [`sha1`]: names. [`dump`]: what `FUNCTION DUMP` gives.
//! - Rows and commands: [`commands::scripts`](super::commands::scripts), [`commands::functions`](super::commands::functions).
//!
//! docs/internals/scripts.md says what is bounded by what, and where we differ from Redis.

mod bits;
pub mod bridge;
pub mod budget;
mod cjson;
mod compile;
mod costs;
mod crowds;
pub mod dump;
mod msgpack;
mod natives;
mod packs;
mod patterns;
mod raise;
mod redis;
pub mod sha1;
pub mod shebang;
mod strings;
mod tables;
mod values;
pub mod vm;
mod watch;

/// Longest text of a script or of a library.
pub const MAX_SCRIPT_BYTES: usize = 1 << 20;
/// Texts of all scripts that are kept, and of all libraries; each removed by one command.
pub const MAX_KEPT_BYTES: u64 = 32 << 20;
/// Functions of a library.
pub const MAX_FUNCTIONS: usize = 1024;

/// The text of an error that a script ended with, or could not begin for: with its code, as the client gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed(pub Vec<u8>);

impl Failed {
    /// One that is always the same.
    pub fn text(text: &str) -> Failed {
        Failed(text.as_bytes().to_vec())
    }

    /// One that quotes something.
    pub fn quoting(before: &str, quoted: &[u8], behind: &str) -> Failed {
        Failed([before.as_bytes(), quoted, behind.as_bytes()].concat())
    }
}
