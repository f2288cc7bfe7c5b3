//! The reasons for which a command waits.

/// The reason for which a command waits, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The first of these that has something.
    pub keys: Vec<Vec<u8>>,
    /// `None`: for ever.
    pub timeout_ms: Option<u64>,
    /// Data that comes under them.
    pub what: Awaited,
}

/// The things that clients wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Data: a look that finds none answers null.
    Data,
    /// A module that is compiled: a request that comes too early is told [`COMPILING`](crate::endings::COMPILING).
    Module,
}
