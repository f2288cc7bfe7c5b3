//! Lua 5.1 for scripts that strangers write: its libraries as Redis has them, in bounds. It knows no command, no key and no transaction.
//!
//! | where | what |
//! |---|---|
//! | `run`, `budget` | what a run's functions know of it: instructions, memory, and in the worst case time |
//! | `watch`, `life` | looks at those that come early; whoever watches the thread |
//! | `compile` | texts to functions, within a time |
//! | `natives` | functions of ours in the place of Lua's, and the libraries below |
//! | `strings`, `patterns`, `cjson`, `msgpack`, `packs`, `bits` | libraries |
//! | `costs`, `tables`, `crowds` | what stands in front of Lua's own functions, and of its memory |
//! | `raise` | errors on their way through Lua |
//! | `sha1`, `dump` | names of scripts; what `FUNCTION DUMP` gives |
//!
//! `docs/internals/scripts.md` says what is bounded by what. The machine that puts these together, and the way to the transaction, are
//! `highwater_redis::scripts`.

mod bits;
pub mod budget;
mod cjson;
pub mod compile;
pub mod costs;
mod crowds;
pub mod dump;
pub mod life;
mod msgpack;
pub mod natives;
mod packs;
mod patterns;
pub mod raise;
pub mod run;
pub mod sha1;
mod strings;
mod tables;
pub mod watch;

/// Longest text of a script or of a library.
pub const MAX_SCRIPT_BYTES: usize = 1 << 20;
/// Texts of all scripts that are kept, and of all libraries; each removed by one command.
pub const MAX_KEPT_BYTES: u64 = 32 << 20;

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
