//! What controllers say to each other. Long messages travel in pieces.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Epoch, Incarnation, NodeId, Timestamp};
use highwater_kit::validation::record::Told;
use highwater_kit::witness::{DiskWord, Met};

use super::change::{Change, put_members, put_records, take_members, take_records};

/// An attempt to decide a change of epoch: numbers grow, nodes tell two of one number apart. (The paper names one recovery coordinator
/// for each epoch, and does not say how its successor learns what it has decided.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round {
    pub number: u64,
    /// Who leads it.
    pub node: NodeId,
}

/// How a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It knows of no cluster.
    #[default]
    Unborn,
    /// It has promised, or accepted, the first epoch.
    Bearing,
    /// It takes no part: it lost its memory, or missed too much.
    Outside,
    /// It copies the state.
    Learning,
    /// It holds the state, and hears outcomes.
    Ready,
    Voting,
}

impl Standing {
    const ALL: [Standing; 6] = [
        Standing::Unborn,
        Standing::Bearing,
        Standing::Outside,
        Standing::Learning,
        Standing::Ready,
        Standing::Voting,
    ];

    fn of(byte: u8) -> Result<Standing, Malformed> {
        Standing::ALL.get(usize::from(byte)).copied().ok_or(Malformed("standing"))
    }
}

/// Said at every heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// The last epoch that it has begun.
    pub epoch: Epoch,
    /// How it stands.
    pub standing: Standing,
    /// Whom it hears: a bit each.
    pub hears: u32,
    /// Bytes that its store may still grow by.
    pub room: u64,
    /// Its disk is about to be full.
    pub low: bool,
    /// What its clock showed.
    pub clock: Timestamp,
}

/// What is left on the disk of a voter that may have forgotten the end of what it knew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rest {
    /// The last epoch that all its workers had begun.
    pub began: Epoch,
    /// Everything of that epoch is there up to here: it was over everywhere.
    pub to: Timestamp,
    /// And what is later than this can be left out: its checkpoint has nothing later.
    pub from: Timestamp,
}

/// Whether what a node knows of an epoch is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    #[default]
    Whole,
    /// Votes, accepted proposals and outcomes may be missing. What is left of the state, if it is one.
    Forgot(Option<Rest>),
}

/// A message between controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// How the sender stands.
    Beat(Beat),
    /// Take part in the epoch before this one no more, and say what you know of it.
    Prepare {
        /// The epoch that is to begin.
        epoch: Epoch,
        /// By which attempt.
        round: Round,
    },
    /// It does not.
    Promise {
        /// As asked.
        epoch: Epoch,
        /// As asked.
        round: Round,
        /// What was accepted of an earlier attempt.
        accepted: Option<(Round, Arc<Change>)>,
        /// Above all timestamps that it has seen.
        latest: Timestamp,
        /// Of each worker what it knows.
        records: Arc<Vec<Vec<Told>>>,
        /// Whether that is all.
        memory: Memory,
        /// How the sender stands: its last beat may be of before it crashed.
        standing: Standing,
    },
    /// A later attempt was promised.
    Refuse {
        /// As asked.
        epoch: Epoch,
        /// That attempt.
        round: Round,
    },
    /// Take this for decided, unless you promised a later attempt.
    Accept {
        /// The attempt.
        round: Round,
        /// What it proposes.
        change: Arc<Change>,
    },
    Accepted {
        /// As proposed.
        epoch: Epoch,
        /// As proposed.
        round: Round,
    },
    /// Tell what these read and wrote, of what you promised without that.
    Fetch {
        /// As promised.
        epoch: Epoch,
        /// As promised.
        round: Round,
        /// Which: of which worker, and its timestamp.
        names: Vec<(u16, Timestamp)>,
    },
    /// What they read and wrote; no more of each than its payload.
    Payloads {
        /// As asked.
        epoch: Epoch,
        /// As asked.
        round: Round,
        /// Of each worker.
        records: Vec<Vec<Told>>,
    },
    /// What was proposed or decided came without a payload that this node has not.
    Lack {
        /// The epoch that is to begin.
        epoch: Epoch,
        /// By which attempt.
        round: Round,
    },
    /// What you accepted in this round is decided.
    Chosen {
        /// The epoch that begins.
        epoch: Epoch,
        /// By which attempt.
        round: Round,
    },
    Decided {
        /// The last change that the sender knows.
        change: Arc<Change>,
    },
    /// A learner asks for a copy of the state.
    CopyRequest {
        /// Its name for it.
        copy: u64,
        /// The epoch since which it hears outcomes.
        epoch: Epoch,
    },
    /// It gets one.
    CopyGrant {
        /// As asked.
        copy: u64,
        /// All that the donor has heard of disks.
        met: Vec<Met>,
    },
    /// How the sender's disk is.
    Disk(DiskWord),
    /// The word of a voter on that disk.
    Judged {
        /// The start that was told.
        start: u64,
        /// The disk is older than what was told of it.
        stale: bool,
        /// The last epoch that the sender has begun.
        epoch: Epoch,
        /// The voters in it.
        voters: Vec<(NodeId, Incarnation)>,
    },
}

/// Appends a round: `number u64 | node u8`.
pub fn put_round(out: &mut Vec<u8>, round: Round) {
    out.extend_from_slice(&round.number.to_le_bytes());
    out.push(round.node.0);
}

/// Reads what [`put_round`] wrote.
pub fn take_round(reader: &mut Reader<'_>) -> Result<Round, Malformed> {
    Ok(Round { number: reader.u64()?, node: NodeId(reader.u8()?) })
}

impl Control {
    /// `tag u8 | fields`, little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Control::Beat(Beat { epoch, standing, hears, room, low, clock }) => {
                out.push(1);
                out.extend_from_slice(&epoch.0.to_le_bytes());
                out.push(*standing as u8);
                out.extend_from_slice(&hears.to_le_bytes());
                out.extend_from_slice(&room.to_le_bytes());
                out.push((*low).into());
                out.extend_from_slice(&clock.0.to_le_bytes());
            }
            Control::Prepare { epoch, round } => {
                out.push(2);
                out.extend_from_slice(&epoch.0.to_le_bytes());
                put_round(out, *round);
            }
            Control::Promise { epoch, round, accepted, latest, records, memory, standing } => {
                out.push(3);
                out.extend_from_slice(&epoch.0.to_le_bytes());
                put_round(out, *round);
                out.extend_from_slice(&latest.0.to_le_bytes());
                out.extend_from_slice(&(records.len() as u16).to_le_bytes());
                records.iter().for_each(|of| put_records(out, of));
                match memory {
                    Memory::Whole => out.push(0),
                    Memory::Forgot(None) => out.push(1),
                    Memory::Forgot(Some(Rest { began, to, from })) => {
                        out.push(2);
                        [began.0, to.0, from.0]
                            .iter()
                            .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
                    }
                }
                out.push(*standing as u8);
                out.push(accepted.is_some().into());
                if let Some((round, change)) = accepted {
                    put_round(out, *round);
                    change.encode(out);
                }
            }
            Control::Refuse { epoch, round } => {
                out.push(4);
                out.extend_from_slice(&epoch.0.to_le_bytes());
                put_round(out, *round);
            }
            Control::Accept { round, change } => {
                out.push(5);
                put_round(out, *round);
                change.encode(out);
            }
            Control::Accepted { epoch, round } => {
                out.push(6);
                out.extend_from_slice(&epoch.0.to_le_bytes());
                put_round(out, *round);
            }
            Control::Fetch { epoch, round, names } => {
                out.push(10);
                out.extend_from_slice(&epoch.0.to_le_bytes());
                put_round(out, *round);
                out.extend_from_slice(&(names.len() as u32).to_le_bytes());
                for (worker, ts) in names {
                    out.extend_from_slice(&worker.to_le_bytes());
                    out.extend_from_slice(&ts.0.to_le_bytes());
                }
            }
            Control::Payloads { epoch, round, records } => {
                out.push(11);
                out.extend_from_slice(&epoch.0.to_le_bytes());
                put_round(out, *round);
                out.extend_from_slice(&(records.len() as u16).to_le_bytes());
                records.iter().for_each(|of| put_records(out, of));
            }
            Control::Lack { epoch, round } | Control::Chosen { epoch, round } => {
                out.push(if matches!(self, Control::Lack { .. }) { 12 } else { 13 });
                out.extend_from_slice(&epoch.0.to_le_bytes());
                put_round(out, *round);
            }
            Control::Decided { change } => {
                out.push(7);
                change.encode(out);
            }
            Control::CopyRequest { copy, epoch } => {
                out.push(8);
                out.extend_from_slice(&copy.to_le_bytes());
                out.extend_from_slice(&epoch.0.to_le_bytes());
            }
            Control::CopyGrant { copy, met } => {
                out.push(9);
                out.extend_from_slice(&copy.to_le_bytes());
                out.extend_from_slice(&(met.len() as u32).to_le_bytes());
                met.iter().for_each(|met| met.encode(out));
            }
            Control::Disk(word) => {
                out.push(14);
                word.encode(out);
            }
            Control::Judged { start, stale, epoch, voters } => {
                out.push(15);
                out.extend_from_slice(&start.to_le_bytes());
                out.push((*stale).into());
                out.extend_from_slice(&epoch.0.to_le_bytes());
                put_members(out, voters);
            }
        }
    }

    /// Reads what [`encode`](Control::encode) wrote.
    pub fn decode(whole: &Bytes) -> Result<Control, Malformed> {
        let reader = &mut Reader::new(whole);
        let message = match reader.u8()? {
            1 => {
                let (epoch, standing) = (Epoch(reader.u64()?), reader.u8()?);
                let standing = Standing::of(standing)?;
                let (hears, room) = (reader.u32()?, reader.u64()?);
                let (low, clock) = (reader.u8()? != 0, Timestamp(reader.u64()?));
                Control::Beat(Beat { epoch, standing, hears, room, low, clock })
            }
            2 => Control::Prepare { epoch: Epoch(reader.u64()?), round: take_round(reader)? },
            3 => {
                let (epoch, round) = (Epoch(reader.u64()?), take_round(reader)?);
                let latest = Timestamp(reader.u64()?);
                let workers = reader.u16()?;
                let records = (0..workers).map(|_| take_records(whole, reader)).collect::<Result<_, _>>()?;
                let memory = match reader.u8()? {
                    0 => Memory::Whole,
                    1 => Memory::Forgot(None),
                    2 => {
                        let (began, to) = (Epoch(reader.u64()?), Timestamp(reader.u64()?));
                        Memory::Forgot(Some(Rest { began, to, from: Timestamp(reader.u64()?) }))
                    }
                    _ => return Err(Malformed("memory")),
                };
                let standing = Standing::of(reader.u8()?)?;
                let accepted = match reader.u8()? {
                    0 => None,
                    _ => Some((take_round(reader)?, Arc::new(Change::decode(whole, reader)?))),
                };
                let records = Arc::new(records);
                Control::Promise { epoch, round, accepted, latest, records, memory, standing }
            }
            4 => Control::Refuse { epoch: Epoch(reader.u64()?), round: take_round(reader)? },
            5 => {
                let round = take_round(reader)?;
                Control::Accept { round, change: Arc::new(Change::decode(whole, reader)?) }
            }
            6 => Control::Accepted { epoch: Epoch(reader.u64()?), round: take_round(reader)? },
            7 => Control::Decided { change: Arc::new(Change::decode(whole, reader)?) },
            8 => Control::CopyRequest { copy: reader.u64()?, epoch: Epoch(reader.u64()?) },
            9 => {
                let (copy, count) = (reader.u64()?, reader.u32()?);
                let met = (0..count).map(|_| Met::decode(reader)).collect::<Result<_, _>>()?;
                Control::CopyGrant { copy, met }
            }
            10 => {
                let (epoch, round) = (Epoch(reader.u64()?), take_round(reader)?);
                let count = reader.u32()?;
                let name = |_| Ok((reader.u16()?, Timestamp(reader.u64()?)));
                Control::Fetch { epoch, round, names: (0..count).map(name).collect::<Result<_, _>>()? }
            }
            11 => {
                let (epoch, round, workers) = (Epoch(reader.u64()?), take_round(reader)?, reader.u16()?);
                let records = (0..workers).map(|_| take_records(whole, reader)).collect::<Result<_, _>>()?;
                Control::Payloads { epoch, round, records }
            }
            12 => Control::Lack { epoch: Epoch(reader.u64()?), round: take_round(reader)? },
            13 => Control::Chosen { epoch: Epoch(reader.u64()?), round: take_round(reader)? },
            14 => Control::Disk(DiskWord::decode(reader)?),
            15 => {
                let (start, stale) = (reader.u64()?, reader.u8()? != 0);
                let (epoch, voters) = (Epoch(reader.u64()?), take_members(reader)?);
                Control::Judged { start, stale, epoch, voters }
            }
            _ => return Err(Malformed("control tag")),
        };
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
            return Control::decode(&bytes).map(Some);
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
        Control::decode(&whole.into()).map(Some)
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

    use super::*;
    use crate::change::{Ended, Members};

    fn change() -> Arc<Change> {
        let ended = vec![vec![Ended { ts: Timestamp(5), commit: false, payload: None }], vec![]];
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
            Control::Payloads { epoch, round, records: vec![vec![Told::of(Timestamp(4))], vec![]] },
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
        all.extend(Standing::ALL.map(beat));
        all
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
                assert!(Control::decode(&bytes.slice(..len)).is_err(), "{message:?} {len}");
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
