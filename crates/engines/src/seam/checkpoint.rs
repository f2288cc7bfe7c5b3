//! What a controller and its host say to each other about checkpoints, and how a replica goes on from one.
//!
//! The host reads the store and writes files; the engine knows from which moment on a scan is of use, when what was scanned is
//! settled, and what of its log is needed with it. One checkpoint at a time:
//!
//! | host | | engine |
//! |---|---|---|
//! | wants one ([`CheckpointNews::Wanted`]), or the engine does | | keeps tombstones from now on, chooses the floor |
//! | scans the store, beside everything else | ← [`CheckpointOrder::Scan`] | |
//! | has written all parts | [`CheckpointNews::Scanned`] → | takes the position at which it is complete; waits until that is settled, and on this replica's disk |
//! | publishes | ← [`CheckpointOrder::Publish`] | |
//! | has published | [`CheckpointNews::Published`] → | needs nothing older any more |
//!
//! Either side may give up: [`CheckpointNews::Failed`], [`CheckpointOrder::Abandon`].

use highwater_core::Timestamp;

use super::LogPosition;

/// From an engine's controller to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointOrder {
    /// Scan the [store](super::Controller::store), as it is now: begin before the controller's next turn.
    Scan {
        /// The checkpoint's name between the two, never used before in this process.
        number: u64,
        /// Everything at or below is in it.
        floor: Timestamp,
    },
    /// Make a checkpoint of what was scanned.
    Publish {
        /// Which one.
        number: u64,
        /// At or above everything that was scanned, settled, and on this replica's disk.
        complete_at: Timestamp,
        /// To be handed back by [`Resume`].
        engine: Vec<u8>,
        /// For each writer, the workers and then the controller: what it wrote up to here is not needed with this checkpoint. Of
        /// that the host releases, and hands back in [`Resume`], no more than is synced by now.
        released: Vec<LogPosition>,
    },
    /// What was scanned, or is being, is of no use: throw it away. Why, in words.
    Abandon(&'static str),
}

/// From a host to its engine's controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointNews {
    /// It is time for one. Ignored while there is one, or if this replica is in no state for it: the host asks again later.
    Wanted,
    /// Everything was read, and is on disk; nothing newer than this was in it.
    Scanned {
        /// Which checkpoint.
        number: u64,
        /// The newest timestamp.
        newest: Timestamp,
    },
    /// The checkpoint of this number is published.
    Published(u64),
    /// It came to nothing: the disk is full, say.
    Failed(u64),
}

/// What a replica begins with, whose store was loaded from a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Resume<'a> {
    /// As it was ordered.
    pub floor: Timestamp,
    /// As it was published.
    pub complete_at: Timestamp,
    /// The engine's own words.
    pub engine: &'a [u8],
    /// Where each writer's records begin that are going to be handed in.
    pub positions: &'a [LogPosition],
}
