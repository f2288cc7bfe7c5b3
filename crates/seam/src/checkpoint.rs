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
        /// What the controller wrote once more, in place of what is released of it, ends here: see [`releasable`].
        anew: LogPosition,
    },
    /// What was scanned, or is being, is of no use: throw it away. Why, in words.
    Abandon(&'static str),
}

/// Of what a checkpoint releases that which a host may release, and hands back: what is synced, and of the controller no more than the
/// checkpoint `before` did, unless what it wrote `anew` is synced.
///
/// Invariant: whatever the controller remembers is on disk behind the position that is handed back for it. In an idle cluster no worker
/// writes anything for a checkpoint, so none of them waits for the sync that the controller's records need; on a full disk they wait long.
pub fn releasable(
    mut released: Vec<LogPosition>,
    anew: LogPosition,
    synced: impl Fn(usize) -> LogPosition,
    before: Option<&[LogPosition]>,
) -> Vec<LogPosition> {
    let controller = released.len() - 1;
    if synced(controller) < anew {
        let before = before.map_or(LogPosition(0), |before| before[controller]);
        released[controller] = released[controller].min(before);
    }
    released
        .iter_mut()
        .enumerate()
        .for_each(|(writer, position)| *position = (*position).min(synced(writer)));
    released
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Once: a checkpoint released what a replica had remembered (promises, members, its level) when it was published,
    /// though what had been written in its place need not be on disk by then: a power cut left neither. One in eight
    /// checkpoints of the simulator was so. What the checkpoint before released stays until the new records are synced.
    #[test]
    fn what_is_not_written_anew_on_disk_is_not_released() {
        let positions = |all: [u64; 2]| all.map(LogPosition).to_vec();
        let release = |synced: [u64; 2], before: Option<[u64; 2]>| {
            let before = before.map(positions);
            let synced = |writer: usize| LogPosition(synced[writer]);
            releasable(positions([500, 90]), LogPosition(120), synced, before.as_deref())
        };
        assert_eq!(release([600, 120], Some([300, 40])), positions([500, 90]));
        assert_eq!(release([600, 119], Some([300, 40])), positions([500, 40]), "a crash would leave neither");
        assert_eq!(release([600, 90], None), positions([500, 0]));
        assert_eq!(release([400, 130], None), positions([400, 90]));
    }
}
