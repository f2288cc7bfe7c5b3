//! What the controllers of two replicas say to each other about who leads.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Ballot, Timestamp};

use crate::message::{ballot, put_ballot};
use crate::{Members, Tail};

/// A change of membership that a voter does not know to be decided in every stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The new membership.
    pub members: Members,
    /// Per stream: whether the voter knows it to be decided there. What is decided in every stream, each by somebody's
    /// knowledge, is in force.
    pub decided_in: Vec<bool>,
}

/// What a voter knows when it promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// What is promised.
    pub ballot: Ballot,
    /// The newest membership that the voter knows to be decided *in every stream*: only then does a majority of it hold
    /// what its predecessor decided.
    pub members: Members,
    /// Newer memberships in its logs, of whatever stream.
    pub pending: Vec<Pending>,
    /// One per stream.
    pub tails: Vec<Tail>,
    /// Above every timestamp in its logs.
    pub high: Timestamp,
}

/// What the controllers of two replicas say to each other about who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionMessage {
    /// Would you promise this ballot?
    PreVote {
        /// The ballot that the sender would take.
        ballot: Ballot,
    },
    /// The answer.
    PreVoteReply {
        /// The ballot of the question.
        ballot: Ballot,
        /// Whether the voter would.
        granted: bool,
        /// What it promised already: a loser learns how high to aim.
        promised: Ballot,
    },
    /// Promise this ballot, and tell what you accepted.
    Prepare {
        /// The ballot to promise.
        ballot: Ballot,
    },
    /// The promise; every stream of the sender is bound.
    Promise(Promise),
    /// The leader lives.
    Heartbeat {
        /// The leader's ballot.
        ballot: Ballot,
        /// The membership in force, as the leader knows it.
        members: Members,
    },
    /// The follower lives and follows.
    HeartbeatReply {
        /// The leader's ballot.
        ballot: Ballot,
    },
    /// To a sender whose ballot is too low: I promised this one.
    Stale {
        /// What was promised.
        promised: Ballot,
    },
}

impl ElectionMessage {
    /// Appends `tag u8 | fields`, all little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ElectionMessage::PreVote { ballot } => head(out, 1, *ballot),
            ElectionMessage::PreVoteReply { ballot, granted, promised } => {
                head(out, 2, *ballot);
                out.push((*granted).into());
                put_ballot(out, *promised);
            }
            ElectionMessage::Prepare { ballot } => head(out, 3, *ballot),
            ElectionMessage::Promise(promise) => {
                head(out, 4, promise.ballot);
                promise.members.encode(out);
                out.push(promise.pending.len() as u8);
                for pending in &promise.pending {
                    pending.members.encode(out);
                    out.extend_from_slice(&(pending.decided_in.len() as u16).to_le_bytes());
                    out.extend(pending.decided_in.iter().map(|decided| u8::from(*decided)));
                }
                out.extend_from_slice(&(promise.tails.len() as u16).to_le_bytes());
                promise.tails.iter().for_each(|tail| tail.encode(out));
                out.extend_from_slice(&promise.high.0.to_le_bytes());
            }
            ElectionMessage::Heartbeat { ballot, members } => {
                head(out, 5, *ballot);
                members.encode(out);
            }
            ElectionMessage::HeartbeatReply { ballot } => head(out, 6, *ballot),
            ElectionMessage::Stale { promised } => head(out, 7, *promised),
        }
    }

    /// Reads what [`encode`](ElectionMessage::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<ElectionMessage, Malformed> {
        let tag = reader.u8()?;
        let first = ballot(reader)?;
        Ok(match tag {
            1 => ElectionMessage::PreVote { ballot: first },
            2 => ElectionMessage::PreVoteReply {
                ballot: first,
                granted: reader.u8()? != 0,
                promised: ballot(reader)?,
            },
            3 => ElectionMessage::Prepare { ballot: first },
            4 => {
                let members = Members::decode(reader)?;
                let pending = (0..reader.u8()?).map(|_| Pending::decode(reader)).collect::<Result<_, _>>()?;
                let tails = (0..reader.u16()?).map(|_| Tail::decode(reader)).collect::<Result<_, _>>()?;
                let high = Timestamp(reader.u64()?);
                ElectionMessage::Promise(Promise { ballot: first, members, pending, tails, high })
            }
            5 => ElectionMessage::Heartbeat { ballot: first, members: Members::decode(reader)? },
            6 => ElectionMessage::HeartbeatReply { ballot: first },
            7 => ElectionMessage::Stale { promised: first },
            _ => return Err(Malformed("election message tag")),
        })
    }
}

fn head(out: &mut Vec<u8>, tag: u8, ballot: Ballot) {
    out.push(tag);
    put_ballot(out, ballot);
}

impl Pending {
    fn decode(reader: &mut Reader<'_>) -> Result<Pending, Malformed> {
        let members = Members::decode(reader)?;
        let streams = reader.u16()? as usize;
        let decided_in = reader.take(streams)?.iter().map(|decided| *decided != 0).collect();
        Ok(Pending { members, decided_in })
    }
}
