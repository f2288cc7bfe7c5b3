//! A checkpoint under way, as the controller knows it; and what of the engine is in one.
//!
//! It is a copy of the state to this replica's own disk, and stands on the same argument ([`crate::copy`]): everything at or below
//! the floor was in the store when the scan began, and the log goes on from there. What is written here is where it goes on.

use std::collections::BTreeMap;

use highwater_consensus::{Members, RecoveryPoint};
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{EntryIndex, Epoch, StreamId, Timestamp};

use crate::seam::{LogPosition, Nanos};

/// What a checkpoint needs of a stream.
///
/// Invariant: `point.last < start <= decided + 1`. What is behind the point comes from the records, and all that is before `start` is
/// decided there: so the log that is recovered has no hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStart {
    /// First entry that the scan may lack.
    pub start: EntryIndex,
    /// Where recovery begins.
    pub point: RecoveryPoint,
    /// Known to be decided when the checkpoint was complete: the log on disk goes so far.
    pub decided: EntryIndex,
}

impl StreamStart {
    fn is_sound(&self) -> bool {
        self.point.last < self.start && self.start <= self.decided.next()
    }
}

/// The engine's words in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The epoch of the floor.
    pub epoch: Epoch,
    /// The newest membership that was known.
    pub members: Members,
    /// By stream.
    pub streams: Vec<StreamStart>,
}

/// Format of [`Contents`].
const VERSION: u8 = 1;

impl Contents {
    /// `version u8 | epoch u64 | members | count u16 | (start u64 | point | decided u64)*`
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        self.members.encode(&mut out);
        out.extend_from_slice(&(self.streams.len() as u16).to_le_bytes());
        for stream in &self.streams {
            out.extend_from_slice(&stream.start.0.to_le_bytes());
            stream.point.encode(&mut out);
            out.extend_from_slice(&stream.decided.0.to_le_bytes());
        }
        out
    }

    /// Reads what [`encode`](Contents::encode) wrote.
    ///
    /// # Errors
    /// If it is something else, or of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Contents, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return Err(Malformed("version of a checkpoint's words"));
        }
        let epoch = Epoch(reader.u64()?);
        let members = Members::decode(&mut reader)?;
        let count = reader.u16()?;
        let mut streams = Vec::new();
        for _ in 0..count {
            let start = EntryIndex(reader.u64()?);
            let point = RecoveryPoint::decode(&mut reader)?;
            let decided = EntryIndex(reader.u64()?);
            let stream = StreamStart { start, point, decided };
            if !stream.is_sound() {
                return Err(Malformed("where a stream goes on behind a checkpoint"));
            }
            streams.push(stream);
        }
        if reader.is_empty() { Ok(Contents { epoch, members, streams }) } else { Err(Malformed("length")) }
    }
}

/// What a replica goes on from, while its records are handed in.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// The engine's words.
    pub contents: Contents,
    /// Everything at or below was in the store when the scan began.
    pub floor: Timestamp,
    /// The store is a state once the log is applied so far.
    pub complete_at: Timestamp,
    /// Where each writer's records begin.
    pub positions: Vec<LogPosition>,
}

/// A checkpoint under way, if there is one.
#[derive(Default)]
pub struct Checkpointing {
    /// Counts those that were begun, so that late answers are known.
    number: u64,
    stage: Option<Stage>,
    /// No other one before this.
    pub not_before: Nanos,
}

/// A checkpoint that waits for this stream.
#[derive(Clone, Copy, Debug)]
pub struct Settling {
    /// Which one.
    pub number: u64,
    /// Everything that was scanned is at or below.
    pub complete_at: Timestamp,
    /// The epoch that this replica led when the scan ended: what was scanned is settled if the mark *of that epoch* passes it, and
    /// may be taken back if that epoch ends before. `None`: it followed, and all of it is settled.
    pub led: Option<Epoch>,
}

/// What is known of a stream when a checkpoint begins.
pub type Located = (EntryIndex, LogPosition, RecoveryPoint);

enum Stage {
    /// The workers look where their logs go on.
    Locating { epoch: Epoch, floor: Timestamp, found: BTreeMap<StreamId, Located> },
    /// The host scans.
    Scanning { epoch: Epoch, found: BTreeMap<StreamId, Located> },
    /// The workers wait until what was scanned is settled, and on disk.
    Settling {
        epoch: Epoch,
        found: BTreeMap<StreamId, Located>,
        complete_at: Timestamp,
        decided: BTreeMap<StreamId, EntryIndex>,
    },
    /// The host publishes; workers' positions.
    Publishing(Vec<LogPosition>),
}

/// What the workers found, all of them.
pub struct Settled {
    /// The epoch of the floor.
    pub epoch: Epoch,
    /// At or above everything that was scanned.
    pub complete_at: Timestamp,
    /// By stream.
    pub streams: Vec<StreamStart>,
    /// What of each stream's records is not needed.
    pub released: Vec<LogPosition>,
}

impl Checkpointing {
    /// Whether one is under way.
    pub fn is_under_way(&self) -> bool {
        self.stage.is_some()
    }

    /// Begins one; its number.
    pub fn begin(&mut self, epoch: Epoch, floor: Timestamp) -> u64 {
        self.number += 1;
        self.stage = Some(Stage::Locating { epoch, floor, found: BTreeMap::new() });
        self.number
    }

    /// A stream's log goes on here. The floor, once all `streams` have said so: then the host scans.
    pub fn located(
        &mut self,
        number: u64,
        stream: StreamId,
        located: Located,
        streams: usize,
    ) -> Option<Timestamp> {
        let Some(Stage::Locating { epoch, floor, found }) = &mut self.stage else { return None };
        if number != self.number {
            return None;
        }
        found.insert(stream, located);
        if found.len() < streams {
            return None;
        }
        let (epoch, floor, found) = (*epoch, *floor, std::mem::take(found));
        self.stage = Some(Stage::Scanning { epoch, found });
        Some(floor)
    }

    /// The host has scanned everything.
    pub fn scanned(&mut self, complete_at: Timestamp) {
        let Some(Stage::Scanning { epoch, found }) = &mut self.stage else { return };
        let (epoch, found) = (*epoch, std::mem::take(found));
        self.stage = Some(Stage::Settling { epoch, found, complete_at, decided: BTreeMap::new() });
    }

    /// Whether the host is scanning for this very checkpoint.
    pub fn is_scanning(&self, number: u64) -> bool {
        matches!(self.stage, Some(Stage::Scanning { .. })) && number == self.number
    }

    /// Whether this very checkpoint is under way.
    pub fn is(&self, number: u64) -> bool {
        self.stage.is_some() && number == self.number
    }

    /// A stream is settled; everything, once all are: then the host publishes.
    pub fn settled(&mut self, number: u64, stream: StreamId, upto: EntryIndex) -> Option<Settled> {
        let Some(Stage::Settling { epoch, found, complete_at, decided }) = &mut self.stage else {
            return None;
        };
        if number != self.number {
            return None;
        }
        decided.insert(stream, upto);
        if decided.len() < found.len() {
            return None;
        }
        let parts = found.values().zip(decided.values());
        let streams = parts.map(|((start, _, point), decided)| StreamStart {
            start: *start,
            point: *point,
            decided: *decided,
        });
        let streams: Vec<StreamStart> = streams.collect();
        assert!(streams.iter().all(StreamStart::is_sound), "nobody could go on from {streams:?}");
        let released: Vec<LogPosition> = found.values().map(|(_, position, _)| *position).collect();
        let settled =
            Settled { epoch: *epoch, complete_at: *complete_at, streams, released: released.clone() };
        self.stage = Some(Stage::Publishing(released));
        Some(settled)
    }

    /// It is published: what the workers may forget.
    pub fn published(&mut self, number: u64) -> Option<Vec<LogPosition>> {
        match self.stage.take() {
            Some(Stage::Publishing(released)) if number == self.number => Some(released),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// It is given up, unless it is being published: that cannot be taken back, and need not be. Whether the host has to hear
    /// of it, if so; and whether tombstones were kept for it.
    pub fn give_up(&mut self) -> Option<(bool, bool)> {
        let told = match self.stage {
            None | Some(Stage::Publishing(_)) => return None,
            Some(Stage::Locating { .. }) => (false, true),
            Some(Stage::Scanning { .. }) => (true, true),
            Some(Stage::Settling { .. }) => (true, false),
        };
        self.stage = None;
        Some(told)
    }

    /// The host could not. Whether tombstones were kept for it.
    pub fn failed(&mut self, number: u64) -> bool {
        let stage = if number == self.number { self.stage.take() } else { None };
        matches!(stage, Some(Stage::Locating { .. } | Stage::Scanning { .. }))
    }
}

#[cfg(test)]
mod tests {
    use highwater_consensus::Voter;
    use highwater_core::{Ballot, Incarnation, NodeId};

    use super::*;

    #[test]
    fn words_are_read_back_and_nonsense_is_refused() {
        let voter = Voter { node: NodeId(1), incarnation: Incarnation(7) };
        let ballot = Ballot { epoch: Epoch(3), node: NodeId(1) };
        let point = RecoveryPoint { promised: ballot, accepted: ballot, last: EntryIndex(4) };
        let stream = StreamStart { start: EntryIndex(5), point, decided: EntryIndex(4) };
        let members = Members::new(Epoch(3), vec![voter]);
        let contents = Contents { epoch: Epoch(3), members, streams: vec![stream, stream] };
        let bytes = contents.encode();
        assert_eq!(Contents::decode(&bytes), Ok(contents.clone()));
        for cut in 0..bytes.len() {
            assert!(Contents::decode(&bytes[..cut]).is_err());
        }
        assert!(Contents::decode(&[&bytes[..], &[0]].concat()).is_err());
        let late = StreamStart { start: EntryIndex(4), ..stream };
        let wrong = Contents { streams: vec![late], ..contents };
        assert!(Contents::decode(&wrong.encode()).is_err());
    }
}
