//! The one way to touch data.
//!
//! A procedure is generic over [`Transaction`]; each engine instantiates it with its own, so that the fast path is
//! monomorphic. Every method may end the transaction with an [`Abort`]; the procedure passes it on with `?`.

use std::ops::{Bound, ControlFlow};

use crate::ids::{TableId, Timestamp};

/// Why a transaction cannot go on. Passed up by the procedure; the engine decides what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// Another transaction is in the way. The engine retries; the procedure runs again from its start.
    Conflict,
    /// The procedure decided to roll back. Its reply is delivered; it too waits for the watermark, because the
    /// decision reveals what was read.
    Rollback,
    /// The arguments make no sense. A deterministic result: a retry fails the same way. The reply explains.
    BadRequest,
    /// It writes, replaces, touches or answers more than one transaction may ([`limits`](crate::limits)). A deterministic
    /// result, as above; the engine says which limit in the reply.
    TooLarge,
    /// It would make the store grow, and some replica has no memory left for that. Nothing was done; what only reads,
    /// deletes or overwrites goes on.
    OutOfMemory,
    /// It writes to a table that not every replica knows by now: the [level](crate::level) in use is below the table's. Nothing was
    /// done; a retry succeeds once all nodes run builds that know it.
    TooNew,
    /// It needs what this node has not at hand yet, and gets ready meanwhile. Nothing was done, and nothing is remembered of it; the reply says
    /// what it was, and a retry succeeds after a while.
    NotReady,
    /// It writes, and too many disks are full for it to become durable. Nothing was done; what only reads goes on.
    DiskFull,
}

/// The order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Backward,
}

/// A key range: start and end bound, compared as bytes.
pub type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// What a procedure can do. Keys of a [`KeyKind::U64`](crate::KeyKind) table are exactly 8 bytes, big endian.
///
/// A transaction sees its own writes. Borrowed values live until the next call.
///
/// # What a procedure may see
///
/// Each value that it reads was committed. Two of them need not have been true at the same time: what was read is validated
/// only when the procedure has ended, and if others wrote in between, all of it is undone and it runs again. So an attempt
/// may find an order without its customer, or a sum that never was. The rules for a procedure:
///
/// - It comes to an end whatever it reads. An endless loop, a recursion that overflows the stack, or memory without bound
///   cannot be contained: the first holds its worker for ever, the others end the process.
/// - It may panic: `expect("an order has a customer")` is fine, and so are slices, arithmetic and the like. If what was read
///   does not validate, the panic is a conflict like any other, and nobody hears of it. If it does, the outcome is
///   [`BadRequest`](crate::Outcome::BadRequest) with the message in the reply (see
///   [`explain_panic`](crate::Procedure::explain_panic)). Never is it the end of the replica.
/// - It keeps nothing beyond the attempt: no statics, no files, no messages.
pub trait Transaction {
    /// The value under `key`, if there is one.
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort>;

    /// Sets the value, whether or not the key exists. Reads nothing: a blind write conflicts with no other one.
    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort>;

    /// Sets the value of a key that must not exist. `Ok(false)`: it exists and nothing was written.
    fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, Abort>;

    /// Removes the key. `Ok(false)`: there was none.
    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort>;

    /// Visits the pairs of a range in order until `visit` breaks. Protected against phantoms: a key that another
    /// transaction adds to the visited part aborts this one. The table must be ordered.
    fn scan<F>(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: F,
    ) -> Result<(), Abort>
    where
        F: FnMut(&[u8], &[u8]) -> ControlFlow<()>;

    /// The commit timestamp of what `get` would see. Of a key that does not exist: when it was deleted last, or later; it grows if the key is written
    /// and deleted again, and else only with a delete of one of few other keys. [`Timestamp::ZERO`]: no delete is known. For WATCH.
    fn version(&mut self, table: TableId, key: &[u8]) -> Result<Timestamp, Abort>;

    /// Says that the procedure goes on, though it touches no row that it has not touched: whoever watches its worker would take
    /// it for one that hangs. How long it may go on altogether stays bounded. A procedure that loops for ever must not say so.
    ///
    /// # Errors
    /// [`Abort::TooLarge`] if it has gone on for too long.
    fn goes_on(&mut self) -> Result<(), Abort> {
        Ok(())
    }

    /// Says that so many rows will be passed and so many added, at least: what cannot fit is refused before it is done.
    ///
    /// # Errors
    /// [`Abort::TooLarge`] if those are more than this transaction may.
    fn expects(&mut self, _passed: u64, _added: u64) -> Result<(), Abort> {
        Ok(())
    }

    /// Says which keys of [`KeyKind::U64`](crate::KeyKind) tables will be needed soon, so that their cache misses
    /// overlap. A hint: it reads nothing and never fails.
    fn prefetch(&mut self, _wanted: &[(TableId, u64)]) {}
}

/// A quiescent store read from outside any transaction: for consistency checks and digests.
pub trait View {
    /// A copy of the value under `key`.
    fn get(&self, table: TableId, key: &[u8]) -> Option<Vec<u8>>;

    /// Every live pair of the table; in key order if the table is ordered, else in no particular order.
    fn for_each(&self, table: TableId, visit: &mut dyn FnMut(&[u8], &[u8]));
}
