//! Copying the state: how a replica that lost its memory, or fell behind what is kept of the log, gets a store again
//! while the cluster runs.
//!
//! The receiver's controller asks a donor's for a *floor* R (everything at or below R is installed at the donor) and, per
//! stream, the first entry that may hold more. Then worker i of the receiver gets part i of the store from worker i of
//! the donor, as a fuzzy scan: records are read one by one while the donor goes on. At the same time it follows the log
//! from that first entry on, skipping what is at or below R. Installing is by timestamp, so the two may meet in any
//! order. The scan saw nothing newer than what was released by its end; once the receiver has applied the log that far,
//! its store is a state that existed.
//!
//! Tombstones are copied, too, and neither side unlinks any meanwhile: an older write may still be on its way.
//!
//! A leader can be a donor, but its store is ahead of the watermark: a chunk leaves only when the mark has passed the
//! time at which it was read, and every timestamp in it.
//!
//! # The two state machines, side by side
//!
//! Nothing here knows an engine: it needs a [`Store`](highwater_store::Store), and *positions* in it, which are timestamps
//! ([`Source`]). The engine carries the words between nodes and does what a [`Step`] says. Of each replica the controller keeps one
//! [`Receiver`] and one [`Donor`], and each worker one [`Installer`] and one [`Sender`], for its part of the store.
//!
//! | receiver's controller | receiver's worker | between them | donor's worker | donor's controller |
//! |---|---|---|---|---|
//! | **wanted**: needs a store, waits for a leader | | | | |
//! | **parking**: every worker lets go of the old store | answers when it has | | | |
//! | **asking**: a donor has a second to answer | | `CopyRequest` → | | keeps tombstones from now on, then chooses the floor; refuses if its own store is no good |
//! | | | | finds its log's first entry above the floor, **announces** the copy | **granting**: waits for all workers |
//! | **arriving**: a new store, the log from those entries on | asks once it is connected | ← `CopyGrant` | | |
//! | | **arriving** | `CopyStart` → | **sending**, if it was announced and the store is sound | |
//! | | installs by timestamp, acknowledges | ← `CopyChunk`, `CopyAck` → | reads as far as the window allows; sends what is settled | |
//! | | the last chunk names the position at which the copy is complete | ← `CopyChunk` | **finished** | |
//! | **catching up**: all parts are here | applies the log | `CopyFinished` → | | tombstones may go again |
//! | **complete**: the log is applied up to the latest of those positions | | | | |
//!
//! Whatever goes wrong on the way (a refusal, a lost connection, a chunk that is missing or damaged, silence) leads back to
//! *wanted*, with a fresh store: what an earlier donor sent may have been deleted since, unseen by the next one.
//!
//! # One copy, step by step
//!
//! One worker, one stream; the donor is a follower. `a = 1 @20` is the value 1 with timestamp 20.
//!
//! | | donor | receiver | receiver's store |
//! |---|---|---|---|
//! | 1 | grants: R = 50, and entry 8 is the first that may hold more | follows the stream from entry 8 on | empty |
//! | 2 | the scan reads a = 1 @20: chunk 0 | | empty |
//! | 3 | installs entry 8, a = 3 @58: the scan is past a | installs chunk 0 | a = 1 @20 |
//! | 4 | installs entry 9: b deleted @64, c = 7 @66 | | a = 1 @20 |
//! | 5 | the scan reads b deleted @64, c = 7 @66: chunk 1, the last; the mark is 66 | installs chunk 1 | a = 1 @20, b deleted @64, c = 7 @66 |
//! | 6 | | installs entry 8: 58 is newer than 20 | a = 3 @58, b deleted @64, c = 7 @66 |
//! | 7 | | looks at entry 9: nothing in it is newer | as at the donor at 66 |
//!
//! The store of row 5 never was a state: it has c, and not the a that came before. So it is complete only when the log is applied up
//! to 66, in row 7. The tombstone travels because an older put of b, of another stream, may come to the receiver later, and must
//! find that b is gone. Entries 8 and 9 may come before the chunks as well: the result is the same.

use highwater_core::NodeId;

mod donor;
pub mod hooks;
mod installer;
#[cfg(test)]
mod late;
mod message;
mod receiver;
mod sender;

pub use donor::{Donor, Terms};
pub use installer::Installer;
pub use message::CopyMessage;
pub use receiver::{RETRY_AFTER, Receiver, Step};
pub use sender::{Sender, Sent, Source};

/// A copy, as its donor knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyName {
    /// Who gets it.
    pub receiver: NodeId,
    /// The receiver's number for it.
    pub copy: u64,
}

/// The checksum in front of a chunk's records.
const CRC_BYTES: usize = 4;
