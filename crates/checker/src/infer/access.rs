//! What a transaction does with a key: a write, or what it saw before its own.

/// No transaction.
pub(crate) const NO_TXN: u32 = u32::MAX;
/// Not in the known order of versions.
pub(crate) const UNPLACED: u32 = u32::MAX;

/// One append or write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) key: u32,
    pub(crate) txn: u32,
    pub(crate) value: i64,
    /// The operation's place in its transaction.
    pub(crate) op: u32,
    /// Where the value stands in the list, once known.
    pub(crate) place: u32,
    /// The transaction's last write of the key.
    pub(crate) last: bool,
}

/// What a committed transaction saw of a key before its own writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) key: u32,
    pub(crate) txn: u32,
    /// A read operation of this key; the last one, for lists: it shows most.
    pub(crate) op: u32,
    /// Of a list, how much of what `op` returned is not the transaction's own.
    pub(crate) len: u32,
    /// The transaction also wrote the key.
    pub(crate) writes: bool,
}
