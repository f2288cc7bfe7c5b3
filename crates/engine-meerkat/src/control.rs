//! What controllers say to each other. Long messages travel in pieces.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::wire::{List, Shared, Wire};
use highwater_core::{Epoch, NodeId, Random, Timestamp, wire};
use highwater_kit::validation::record::Told;
use highwater_kit::witness::{DiskWord, Met};

use super::change::{Change, Life, OfWorkers};

wire! {
    /// An attempt to decide a change of epoch: numbers grow, nodes tell two of one number apart. (The paper names one recovery coordinator
    /// for each epoch, and does not say how its successor learns what it has decided.)
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Round: "round" {
        pub number: u64,
        /// Its leader.
        pub node: NodeId,
    }
}

wire! {
    /// How a node stands.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Standing: "standing" {
        /// It knows of no cluster.
        #[default]
        Unborn = 0,
        /// It has promised, or accepted, the first epoch.
        Bearing = 1,
        /// It takes no part: it lost its memory, or missed too much.
        Outside = 2,
        /// It copies the state.
        Learning = 3,
        /// It holds the state, and hears outcomes.
        Ready = 4,
        Voting = 5,
    }
}

wire! {
    /// Said at every heartbeat.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Beat: "beat" {
        /// The last epoch that it has begun.
        pub epoch: Epoch,
        /// How it stands.
        pub standing: Standing,
        /// The nodes that it hears: a bit each.
        pub hears: u32,
        /// Bytes that its store may still grow by.
        pub room: u64,
        /// Its disk is about to be full.
        pub low: bool,
        /// The time that its clock showed.
        pub clock: Timestamp,
    }
}

wire! {
    /// The rest on the disk of a voter that may have forgotten the end of what it knew.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Rest: "rest" {
        /// The last epoch that all its workers had begun.
        pub began: Epoch,
        /// Everything of that epoch is there up to here: it was over everywhere.
        pub to: Timestamp,
        /// And what is later than this can be left out: its checkpoint has nothing later.
        pub from: Timestamp,
    }
}

/// Whether what a node knows of an epoch is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    #[default]
    Whole,
    /// Votes, accepted proposals and outcomes may be missing. What is left of the state, if it is one.
    Forgot(Option<Rest>),
}

impl Wire for Memory {
    const NAME: &'static str = "memory";

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Memory::Whole => out.push(0),
            Memory::Forgot(None) => out.push(1),
            Memory::Forgot(Some(rest)) => {
                out.push(2);
                rest.put(out);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Memory, Malformed> {
        match from.u8()? {
            0 => Ok(Memory::Whole),
            1 => Ok(Memory::Forgot(None)),
            2 => Rest::take(from).map(Some).map(Memory::Forgot),
            _ => Err(Malformed("memory")),
        }
    }

    fn form() -> String {
        "u8 (0 whole, 1 nothing is left, 2 a rest) | rest, if there is one".into()
    }

    fn draw(random: &mut Random) -> Memory {
        match random.below(3) {
            0 => Memory::Whole,
            1 => Memory::Forgot(None),
            _ => Memory::Forgot(Some(Rest::draw(random))),
        }
    }
}

wire! {
    /// A message between controllers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Control: "message between controllers" {
        /// How the sender stands.
        Beat = 1 (beat: Beat),
        /// Take part in the epoch before this one no more, and say what you know of it.
        Prepare = 2 {
            /// The epoch that is to begin.
            epoch: Epoch,
            /// The attempt.
            round: Round,
        },
        /// It does not.
        Promise = 3 {
            /// As asked.
            epoch: Epoch,
            /// As asked.
            round: Round,
            /// Above all timestamps that it has seen.
            latest: Timestamp,
            /// Each worker's knowledge.
            records: Arc<Vec<Vec<Told>>> as Shared<OfWorkers>,
            /// Whether that is all.
            memory: Memory,
            /// How the sender stands: its last beat may be of before it crashed.
            standing: Standing,
            /// The proposal of an earlier attempt that was accepted.
            accepted: Option<(Round, Arc<Change>)>,
        },
        /// A later attempt was promised.
        Refuse = 4 {
            /// As asked.
            epoch: Epoch,
            /// That attempt.
            round: Round,
        },
        /// Take this for decided, unless you promised a later attempt.
        Accept = 5 {
            /// The attempt.
            round: Round,
            /// Its proposal.
            change: Arc<Change>,
        },
        Accepted = 6 {
            /// As proposed.
            epoch: Epoch,
            /// As proposed.
            round: Round,
        },
        Decided = 7 {
            /// The last change that the sender knows.
            change: Arc<Change>,
        },
        /// A learner asks for a copy of the state.
        CopyRequest = 8 {
            /// Its name for it.
            copy: u64,
            /// The epoch since which it hears outcomes.
            epoch: Epoch,
        },
        /// It gets one.
        CopyGrant = 9 {
            /// As asked.
            copy: u64,
            /// All that the donor has heard of disks.
            met: Vec<Met> as List<u32>,
        },
        /// Tell what these read and wrote, of what you promised without that.
        Fetch = 10 {
            /// As promised.
            epoch: Epoch,
            /// As promised.
            round: Round,
            /// Which: of which worker, and its timestamp.
            names: Vec<(u16, Timestamp)> as List<u32>,
        },
        /// Their reads and writes; no more of each than its payload.
        Payloads = 11 {
            /// As asked.
            epoch: Epoch,
            /// As asked.
            round: Round,
            /// Each worker's.
            records: Vec<Vec<Told>> as OfWorkers,
        },
        /// A proposal or decision came without a payload that this node has not.
        Lack = 12 {
            /// The epoch that is to begin.
            epoch: Epoch,
            /// The attempt.
            round: Round,
        },
        /// The change that you accepted in this round is decided.
        Chosen = 13 {
            /// The epoch that begins.
            epoch: Epoch,
            /// The attempt.
            round: Round,
        },
        /// How the sender's disk is.
        Disk = 14 (word: DiskWord),
        /// The word of a voter on that disk.
        Judged = 15 {
            /// The start that was told.
            start: u64,
            /// The disk is older than what was told of it.
            stale: bool,
            /// The last epoch that the sender has begun.
            epoch: Epoch,
            /// The voters in it.
            voters: Vec<Life> as List<u8>,
        },
    }
}

impl Control {
    /// Reads a message that is all there is.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(bytes: &[u8]) -> Result<Control, Malformed> {
        let reader = &mut Reader::new(bytes);
        let message = Control::decode(reader)?;
        if reader.is_empty() { Ok(message) } else { Err(Malformed("control length")) }
    }

    /// What it is, for the trace of a run.
    pub fn name(&self) -> &'static str {
        match self {
            Control::Beat(_) => "beat",
            Control::Prepare { .. } => "prepare",
            Control::Promise { .. } => "promise",
            Control::Refuse { .. } => "refuse",
            Control::Accept { .. } => "accept",
            Control::Accepted { .. } => "accepted",
            Control::Fetch { .. } => "fetch",
            Control::Payloads { .. } => "payloads",
            Control::Lack { .. } => "lack",
            Control::Chosen { .. } => "chosen",
            Control::Decided { .. } => "decided",
            Control::CopyRequest { .. } => "copy request",
            Control::CopyGrant { .. } => "copy grant",
            Control::Disk(_) => "disk",
            Control::Judged { .. } => "judged",
        }
    }
}

/// A longer message is sent in pieces of so many bytes.
const PIECE_BYTES: usize = 1 << 20;
/// Tag of a piece: `tag u8 | message u64 | number u32 | of how many u32 | bytes`.
const PIECE: u8 = 100;
/// Longest message that is put together again.
const MOST_PIECES: u32 = 4096;

/// The bytes to send for a message; `name` tells its pieces from others'.
pub fn pieces(message: &Control, name: u64) -> Vec<Bytes> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    if bytes.len() <= PIECE_BYTES {
        return vec![bytes.into()];
    }
    let count = bytes.len().div_ceil(PIECE_BYTES) as u32;
    let piece = |(number, part): (usize, &[u8])| {
        let mut piece = Vec::with_capacity(17 + part.len());
        piece.push(PIECE);
        piece.extend_from_slice(&name.to_le_bytes());
        piece.extend_from_slice(&(number as u32).to_le_bytes());
        piece.extend_from_slice(&count.to_le_bytes());
        piece.extend_from_slice(part);
        piece.into()
    };
    bytes.chunks(PIECE_BYTES).enumerate().map(piece).collect()
}

/// Messages that arrive in pieces.
#[derive(Default)]
pub struct Assembly(BTreeMap<NodeId, (u64, Vec<Option<Bytes>>)>);

impl Assembly {
    /// Takes what came; a message, if it is whole now.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn take(&mut self, from: NodeId, bytes: Bytes) -> Result<Option<Control>, Malformed> {
        if bytes.first() != Some(&PIECE) {
            return Control::read(&bytes).map(Some);
        }
        let mut reader = Reader::new(&bytes[1..]);
        let (name, number, count) = (reader.u64()?, reader.u32()?, reader.u32()?);
        if number >= count || count > MOST_PIECES {
            return Err(Malformed("piece"));
        }
        let (known, parts) = self.0.entry(from).or_default();
        if *known != name || parts.len() != count as usize {
            (*known, *parts) = (name, vec![None; count as usize]);
        }
        parts[number as usize] = Some(bytes.slice(bytes.len() - reader.rest().len()..));
        if parts.iter().any(Option::is_none) {
            return Ok(None);
        }
        let (_, parts) = self.0.remove(&from).unwrap_or_default();
        let whole: Vec<u8> = parts.into_iter().flatten().flatten().collect();
        Control::read(&whole).map(Some)
    }

    /// What came of `node` in pieces is not completed any more.
    pub fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use highwater_consensus::Voter;
    use highwater_core::evidence::{Known, Start, Starts};

    use highwater_core::Incarnation;
    use highwater_core::wire::testing::{check, described, golden};

    use super::*;
    use crate::change::{Ended, Members};
    use highwater_kit::validation::payload::Payload;

    fn payload() -> Payload {
        Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[])
    }

    /// All that can be told of a transaction.
    fn whole() -> Told {
        let (accepted, payload) = (Some((3, true)), Some(payload()));
        Told { ts: Timestamp(5), valid: Some(false), accepted, outcome: Some(true), payload, kept: true }
    }

    fn change() -> Arc<Change> {
        let commits = Ended { ts: Timestamp(6), commit: true, payload: Some(payload()) };
        let ended = vec![vec![Ended { ts: Timestamp(5), commit: false, payload: None }, commits], vec![]];
        let members = Members { voters: vec![(NodeId(1), Incarnation(2))], ..Members::default() };
        Arc::new(Change { epoch: Epoch(3), base: Timestamp(9), members, ended, cut: Some(Timestamp(8)) })
    }

    fn met() -> Met {
        let voter = Voter { node: NodeId(2), incarnation: Incarnation(7) };
        Met { voter, known: Known { start: 3, generation: 4, synced: 5 } }
    }

    fn every() -> Vec<Control> {
        let (epoch, round) = (Epoch(3), Round { number: 7, node: NodeId(2) });
        let told = Told { valid: Some(true), ..Told::of(Timestamp(4)) };
        let records = Arc::new(vec![vec![told], vec![]]);
        let mut all = vec![
            Control::Prepare { epoch, round },
            Control::Promise {
                epoch,
                round,
                accepted: None,
                latest: Timestamp(8),
                records: records.clone(),
                memory: Memory::Forgot(None),
                standing: Standing::Outside,
            },
            Control::Promise {
                epoch,
                round,
                accepted: None,
                latest: Timestamp(8),
                records: records.clone(),
                memory: Memory::Forgot(Some(Rest { began: Epoch(2), to: Timestamp(7), from: Timestamp(3) })),
                standing: Standing::Outside,
            },
            Control::Promise {
                epoch,
                round,
                accepted: Some((round, change())),
                latest: Timestamp(8),
                records,
                memory: Memory::Whole,
                standing: Standing::Voting,
            },
            Control::Refuse { epoch, round },
            Control::Accept { round, change: change() },
            Control::Accepted { epoch, round },
            Control::Fetch { epoch, round, names: vec![(3, Timestamp(5)), (0, Timestamp(9))] },
            Control::Payloads { epoch, round, records: vec![vec![Told::of(Timestamp(4)), whole()], vec![]] },
            Control::Lack { epoch, round },
            Control::Chosen { epoch, round },
            Control::Decided { change: change() },
            Control::CopyRequest { copy: 77, epoch },
            Control::CopyGrant { copy: 77, met: vec![met()] },
            Control::Disk(DiskWord {
                starts: Arc::new(Starts::new(9, vec![Start { number: 5, had: 6 }])),
                synced: 7,
            }),
            Control::Judged { start: 5, stale: true, epoch, voters: vec![(NodeId(1), Incarnation(2))] },
        ];
        let beat = |standing| {
            Control::Beat(Beat { epoch, standing, hears: 5, room: 99, low: true, clock: Timestamp(77) })
        };
        let standings = [
            Standing::Unborn,
            Standing::Bearing,
            Standing::Outside,
            Standing::Learning,
            Standing::Ready,
            Standing::Voting,
        ];
        all.extend(standings.map(beat));
        all
    }

    #[test]
    fn bytes_are_as_they_were_recorded() {
        let messages = every().into_iter().map(|message| {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let text = format!("{message:?}");
            (text.split([' ', '(', '{']).next().unwrap_or_default().to_string(), bytes)
        });
        golden(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/control.txt"), &Control::kinds(), messages);
        check::<Control>(2000);
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/messages.md");
        described(document, "meerkat's message between controllers", &Control::kinds());
        let parts =
            [Beat::kinds(), Round::kinds(), Rest::kinds(), Members::kinds(), Ended::kinds(), Change::kinds()];
        described(document, "meerkat's parts", &parts.concat());
    }

    #[test]
    fn messages_round_trip() {
        let mut assembly = Assembly::default();
        for message in every() {
            let mut bytes = pieces(&message, 1);
            assert_eq!(bytes.len(), 1);
            assert_eq!(assembly.take(NodeId(0), bytes.remove(0)), Ok(Some(message)));
        }
    }

    #[test]
    fn what_is_cut_off_is_an_error_and_no_panic() {
        for message in every() {
            let bytes = pieces(&message, 1).remove(0);
            for len in 0..bytes.len() {
                assert!(Control::read(&bytes[..len]).is_err(), "{message:?} {len}");
            }
        }
    }

    #[test]
    fn a_long_message_arrives_in_pieces_in_any_order() {
        let told = |ts| Told::of(Timestamp(ts));
        let records = Arc::new(vec![(0..200_000).map(told).collect::<Vec<_>>()]);
        let (epoch, round) = (Epoch(3), Round::default());
        let message = Control::Promise {
            epoch,
            round,
            accepted: None,
            latest: Timestamp(8),
            records,
            memory: Memory::Whole,
            standing: Standing::Voting,
        };
        let mut all = pieces(&message, 5);
        assert!(all.len() > 2);
        let mut assembly = Assembly::default();
        // One of an earlier message, that never came whole.
        assert_eq!(assembly.take(NodeId(0), pieces(&message, 4).remove(0)), Ok(None));
        all.reverse();
        let last = all.pop().expect("there are some");
        for piece in all {
            assert_eq!(assembly.take(NodeId(0), piece), Ok(None));
        }
        assert_eq!(assembly.take(NodeId(0), last), Ok(Some(message)));
    }
}
