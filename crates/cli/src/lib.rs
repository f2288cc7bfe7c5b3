//! Highwater as a library: what [`highwater_db`] is. (The command is this package's binary, behind the default feature `cli`.)
//!
//! A program that wants only the library takes it with `default-features = false`.

pub use highwater_db::*;
