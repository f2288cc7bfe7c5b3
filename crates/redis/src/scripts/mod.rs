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
//! - `prelude.lua`: what a script finds around it. `redis`: the table `redis`. `values`: RESP to Lua and back. [`shebang`]: first lines.
//! - Lua's libraries, bounds and errors: [`highwater_redis_lua`], which knows no command and no key.
//! - Rows and commands: [`commands::scripts`](super::commands::scripts), [`commands::functions`](super::commands::functions).
//!
//! docs/internals/scripts.md says what is bounded by what, and where we differ from Redis.

pub mod bridge;
mod redis;
pub mod shebang;
mod values;
pub mod vm;

pub use highwater_redis_lua::{Failed, MAX_KEPT_BYTES, MAX_SCRIPT_BYTES, budget, dump, sha1};

/// Functions of a library.
pub const MAX_FUNCTIONS: usize = 1024;
