//! What the controllers of two replicas say to each other.

use bytes::Bytes;
use highwater_consensus::{ElectionMessage, Members};
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{EntryIndex, Epoch, Level, Timestamp};
use highwater_kit::witness::DiskWord;
use highwater_seam::memory::Told;

use crate::members::handover::HandOverMessage;

/// A message between controllers. The sender's identity comes with the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlMessage {
    /// Who leads.
    Election(ElectionMessage),
    /// I am here. `born`: I know of a membership, so the cluster exists.
    Hello {
        /// Whether the sender knows of a membership.
        born: bool,
    },
    /// You vote: all nodes met for the first time, and this is the first membership; or you missed that, and it is a later
    /// one.
    Genesis(Members),
    /// I need a copy of the state.
    CopyRequest {
        /// Names the copy.
        copy: u64,
    },
    /// You can have it from me.
    CopyGrant {
        /// Names the copy.
        copy: u64,
        /// The epoch that the donor is in.
        epoch: Epoch,
        /// The newest membership that the donor knows: the changes before `starts` will not be seen in the log.
        members: Members,
        /// Everything at or below will be in the copied state.
        floor: Timestamp,
        /// Per stream: the first entry that may hold more.
        starts: Vec<EntryIndex>,
    },
    /// Not from me, or not now.
    CopyRefuse {
        /// Names the copy.
        copy: u64,
    },
    /// I have my copy; tombstones may go.
    CopyFinished {
        /// Names the copy.
        copy: u64,
    },
    /// To the leader: my store is complete and I keep up; let me vote.
    LearnerReady,
    /// How my disk is: does anybody know that it should be newer?
    Disk(DiskWord),
    /// The same of the newest start alone, as the first builds say it: to those who say it so.
    DiskInShort(DiskWord),
    /// The answer, of a voter: what it knows of the disk of the node that it answers.
    DiskJudged {
        /// In which start of its process that node asked.
        start: u64,
        /// The disk is older than what it told before.
        stale: bool,
    },
    /// What my store may use, and uses; and whether my disk has room.
    Memory(Told),
    /// About a lead that is handed over.
    HandOver(HandOverMessage),
    /// Whether my store is complete.
    Store { complete: bool },
    /// You do not belong to the membership, which is this: you are new, or you were removed.
    Membership(Members),
    /// This level is in use.
    Level(Level),
}

/// What a donor grants: the fields of [`ControlMessage::CopyGrant`].
pub struct Granted {
    /// The epoch that the donor is in.
    pub epoch: Epoch,
    /// The newest membership that it knows.
    pub members: Members,
    /// Everything at or below will be in the copied state.
    pub floor: Timestamp,
    /// Per stream: the first entry that may hold more.
    pub starts: Vec<EntryIndex>,
}

impl ControlMessage {
    /// `tag u8 | fields`, little endian.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        match self {
            ControlMessage::Election(message) => {
                out.push(0);
                message.encode(&mut out);
            }
            ControlMessage::Hello { born } => out.extend_from_slice(&[1, (*born).into()]),
            ControlMessage::Genesis(members) => {
                out.push(2);
                members.encode(&mut out);
            }
            ControlMessage::CopyRequest { copy } => tagged(&mut out, 3, *copy),
            ControlMessage::CopyGrant { copy, epoch, members, floor, starts } => {
                tagged(&mut out, 4, *copy);
                out.extend_from_slice(&epoch.0.to_le_bytes());
                members.encode(&mut out);
                out.extend_from_slice(&floor.0.to_le_bytes());
                out.extend_from_slice(&(starts.len() as u16).to_le_bytes());
                starts.iter().for_each(|start| out.extend_from_slice(&start.0.to_le_bytes()));
            }
            ControlMessage::CopyRefuse { copy } => tagged(&mut out, 5, *copy),
            ControlMessage::CopyFinished { copy } => tagged(&mut out, 6, *copy),
            ControlMessage::LearnerReady => out.push(7),
            ControlMessage::Disk(word) => {
                out.push(22);
                word.encode(&mut out);
            }
            ControlMessage::DiskInShort(word) => {
                out.push(20);
                word.encode_short(&mut out);
            }
            ControlMessage::DiskJudged { start, stale } => {
                tagged(&mut out, 21, *start);
                out.push((*stale).into());
            }
            ControlMessage::Memory(told) => {
                out.push(8);
                for word in [told.number, told.budget, told.used, told.transaction] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
                out.push(told.disk_low.into());
            }
            ControlMessage::HandOver(message) => {
                out.push(9);
                message.encode(&mut out);
            }
            ControlMessage::Store { complete } => out.extend_from_slice(&[11, (*complete).into()]),
            ControlMessage::Membership(members) => {
                out.push(10);
                members.encode(&mut out);
            }
            ControlMessage::Level(level) => out.extend_from_slice(&[12, level.0]),
        }
        out.into()
    }

    /// Reads what [`encode`](ControlMessage::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<ControlMessage, Malformed> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            0 => ControlMessage::Election(ElectionMessage::decode(&mut reader)?),
            1 => ControlMessage::Hello { born: reader.u8()? != 0 },
            2 => ControlMessage::Genesis(Members::decode(&mut reader)?),
            3 => ControlMessage::CopyRequest { copy: reader.u64()? },
            4 => {
                let (copy, epoch) = (reader.u64()?, Epoch(reader.u64()?));
                let (members, floor) = (Members::decode(&mut reader)?, Timestamp(reader.u64()?));
                let starts =
                    (0..reader.u16()?).map(|_| reader.u64().map(EntryIndex)).collect::<Result<_, _>>()?;
                ControlMessage::CopyGrant { copy, epoch, members, floor, starts }
            }
            5 => ControlMessage::CopyRefuse { copy: reader.u64()? },
            6 => ControlMessage::CopyFinished { copy: reader.u64()? },
            7 => ControlMessage::LearnerReady,
            8 => ControlMessage::Memory(Told {
                number: reader.u64()?,
                budget: reader.u64()?,
                used: reader.u64()?,
                transaction: reader.u64()?,
                disk_low: reader.u8()? != 0,
            }),
            9 => ControlMessage::HandOver(HandOverMessage::decode(&mut reader)?),
            20 => ControlMessage::DiskInShort(DiskWord::decode_short(&mut reader)?),
            22 => ControlMessage::Disk(DiskWord::decode(&mut reader)?),
            21 => ControlMessage::DiskJudged { start: reader.u64()?, stale: reader.u8()? != 0 },
            11 => ControlMessage::Store { complete: reader.u8()? != 0 },
            10 => ControlMessage::Membership(Members::decode(&mut reader)?),
            12 => ControlMessage::Level(Level(reader.u8()?)),
            _ => return Err(Malformed("control message tag")),
        };
        if reader.is_empty() { Ok(message) } else { Err(Malformed("control message length")) }
    }
}

fn tagged(out: &mut Vec<u8>, tag: u8, copy: u64) {
    out.push(tag);
    out.extend_from_slice(&copy.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use highwater_consensus::Voter;
    use highwater_core::evidence::{Start, Starts};
    use highwater_core::{Incarnation, NodeId};

    use super::*;
    use crate::members::handover::Word;

    #[test]
    fn control_messages_round_trip_and_garbage_is_refused() {
        let starts = vec![EntryIndex(3), EntryIndex(9)];
        let voter = Voter { node: NodeId(0), incarnation: Incarnation(7) };
        let members = Members::new(Epoch(2), vec![voter]);
        let start = Start { number: 5, had: 6 };
        for message in [
            ControlMessage::Hello { born: true },
            ControlMessage::CopyRequest { copy: 1 },
            ControlMessage::CopyGrant {
                copy: 1,
                epoch: Epoch(2),
                members: members.clone(),
                floor: Timestamp(3),
                starts,
            },
            ControlMessage::CopyRefuse { copy: 1 },
            ControlMessage::CopyFinished { copy: 1 },
            ControlMessage::LearnerReady,
            ControlMessage::HandOver(HandOverMessage { epoch: Epoch(3), word: Word::ICould { held: 7 } }),
            ControlMessage::Disk(DiskWord { starts: Arc::new(Starts::new(2, vec![start; 2])), synced: 4 }),
            ControlMessage::DiskInShort(DiskWord {
                starts: Arc::new(Starts::new(2, vec![start])),
                synced: 4,
            }),
            ControlMessage::DiskJudged { start: 1, stale: true },
            ControlMessage::Memory(Told { number: 1, budget: 2, used: 3, transaction: 4, disk_low: true }),
            ControlMessage::Store { complete: true },
            ControlMessage::Membership(members.clone()),
            ControlMessage::Level(Level(2)),
        ] {
            let bytes = message.encode();
            assert_eq!(ControlMessage::decode(&bytes), Ok(message));
            for len in 0..bytes.len() {
                assert!(ControlMessage::decode(&bytes[..len]).is_err());
            }
        }
        assert!(ControlMessage::decode(&[99]).is_err());
    }
}
