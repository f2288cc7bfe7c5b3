//! What of the engine is in a checkpoint, and what its workers say of one that is under way ([`checkpointing`]).
//!
//! It is a copy of the state to this replica's own disk, and stands on the same argument ([`highwater_kit::copy`]): everything at or below
//! the floor was in the store when the scan began, and the log goes on from there. What is written here is where it goes on.

use highwater_consensus::{Members, RecoveryPoint};
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{EntryIndex, Epoch, Timestamp};
use highwater_kit::checkpointing;
use highwater_seam::LogPosition;

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

/// A checkpoint under way: it begins in the epoch of a floor, workers say where their streams go on, and up to where they are decided.
pub type Checkpointing = checkpointing::Checkpointing<(Epoch, Timestamp), Located, EntryIndex>;

/// A checkpoint that waits for this stream.
#[derive(Clone, Copy, Debug)]
pub struct Settling {
    pub number: u64,
    /// Everything that was scanned is at or below.
    pub complete_at: Timestamp,
    /// The epoch that this replica led when the scan ended: what was scanned is settled if the mark *of that epoch* passes it, and
    /// may be taken back if that epoch ends before. `None`: it followed, and all of it is settled.
    pub led: Option<Epoch>,
}

/// What is known of a stream when a checkpoint begins.
pub type Located = (EntryIndex, LogPosition, RecoveryPoint);

/// What workers found and said: where the streams go on, and what of their records is not needed.
pub fn streams_of(parts: &[(Located, EntryIndex)]) -> (Vec<StreamStart>, Vec<LogPosition>) {
    let start = |((start, _, point), decided): &(Located, EntryIndex)| StreamStart {
        start: *start,
        point: *point,
        decided: *decided,
    };
    let streams: Vec<StreamStart> = parts.iter().map(start).collect();
    assert!(streams.iter().all(StreamStart::is_sound), "nobody could go on from {streams:?}");
    (streams, parts.iter().map(|((_, position, _), _)| *position).collect())
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
