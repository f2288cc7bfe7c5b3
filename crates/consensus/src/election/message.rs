//! What the controllers of two replicas say to each other about who leads.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Ballot, Epoch, Timestamp};

use crate::codec::{ballot, put_ballot};
use crate::{Members, Tail};

/// Changes of epoch to one set of voters, none of which a voter knows to be decided in every stream.
///
/// A takeover that is cut short leaves a change behind, and a cluster may see thousands of them. So that promises stay
/// short, each set of voters is named once, with what a candidate needs to know of all its changes: the newest, for the
/// candidate goes on with it and needs the agreement of its voters; and for each stream the newest one known to be
/// decided (see `Election::decided_by_all_accounts`). Older changes to the same voters would say nothing more. A new
/// set of voters takes an epoch that opened, so the list is as long as the admissions that the voter missed, whatever
/// failed between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingChange {
    /// The new voters, in the newest epoch that changes to them.
    pub members: Members,
    /// Per stream: the newest epoch whose change to these voters is known to be decided there; 0 if none is.
    pub decided: Vec<Epoch>,
}

impl PendingChange {
    /// Adds a change that stands in the log of `stream` (one of `streams`), and whether it is known to be decided
    /// there, to what a promise names.
    pub fn note(
        all: &mut Vec<PendingChange>,
        streams: usize,
        stream: usize,
        change: &Members,
        decided: bool,
    ) {
        // Where nodes are found and who was removed goes with the voters: a change that differs in these is another one.
        let same = |known: &PendingChange| known.members.is_like(change);
        let at = all.iter().position(same).unwrap_or_else(|| {
            all.push(PendingChange { members: change.clone(), decided: vec![Epoch(0); streams] });
            all.len() - 1
        });
        let known = &mut all[at];
        if change.epoch > known.members.epoch {
            known.members = change.clone();
        }
        if decided {
            let streams = known.decided.len().max(stream + 1);
            known.decided.resize(streams, Epoch(0));
            known.decided[stream] = known.decided[stream].max(change.epoch);
        }
    }
}

/// What a voter knows when it promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// What is promised.
    pub ballot: Ballot,
    /// The newest membership that the voter knows to be decided *in every stream*. Decided in some streams only, it
    /// does not replace its predecessor yet: in the others a majority of the predecessor may have decided what no new
    /// member holds.
    pub members: Members,
    /// Newer memberships in its logs, of whatever stream; each set of voters once.
    pub pending: Vec<PendingChange>,
    /// Where each stream's log stands, by number of the stream.
    pub tails: Vec<Tail>,
    /// Above every timestamp in its logs: the new leader's clock starts above it.
    pub above_all: Timestamp,
    /// The voter may have accepted more than it knows of: see [`Election::set_forgets`](super::Election::set_forgets).
    pub forgets: bool,
}

/// What a heartbeat says of its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The leader cannot serve, as far as it knows: it hears no quorum, or its workers are not at work. That is no sign of
    /// life: it only asks who is there.
    Asks,
    /// It can serve.
    Vouches,
    /// It can, and nobody wants anything: it would like to rest, if all know what that means.
    Calm,
    /// It rests: the next heartbeat may come up to a timeout later than usual.
    Rests,
}

impl Beat {
    /// As it is written down. Builds from before there was `Calm` take everything but 0 for a leader that vouches.
    fn of(byte: u8) -> Beat {
        let known = [Beat::Asks, Beat::Vouches, Beat::Calm, Beat::Rests];
        known.get(usize::from(byte)).copied().unwrap_or(Beat::Vouches)
    }
}

/// What the controllers of two replicas say to each other about who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionMessage {
    /// Would you promise this ballot, because you miss the leader, too?
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
        /// As in [`Promise::forgets`].
        forgets: bool,
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
    /// The leader is there.
    Heartbeat {
        /// The leader's ballot.
        ballot: Ballot,
        /// How it is.
        beat: Beat,
        /// The membership in force, as the leader knows it.
        members: Members,
    },
    /// The follower lives and follows.
    HeartbeatReply {
        /// The leader's ballot.
        ballot: Ballot,
    },
    /// The same, in answer to a heartbeat of a calm leader: the next one may come up to a timeout later.
    Patient {
        /// The leader's ballot.
        ballot: Ballot,
    },
    /// To a sender whose ballot is too low, or a rival's: I promised this one.
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
            ElectionMessage::PreVoteReply { ballot, granted, forgets, promised } => {
                head(out, 2, *ballot);
                out.push(u8::from(*granted) | u8::from(*forgets) << 1);
                put_ballot(out, *promised);
            }
            ElectionMessage::Prepare { ballot } => head(out, 3, *ballot),
            ElectionMessage::Promise(promise) => {
                head(out, 4, promise.ballot);
                promise.members.encode(out);
                out.extend_from_slice(&(promise.pending.len() as u32).to_le_bytes());
                promise.pending.iter().for_each(|pending| pending.encode(out));
                let flag = if promise.forgets { FORGETS } else { 0 };
                out.extend_from_slice(&(promise.tails.len() as u16 | flag).to_le_bytes());
                promise.tails.iter().for_each(|tail| tail.encode(out));
                out.extend_from_slice(&promise.above_all.0.to_le_bytes());
            }
            ElectionMessage::Heartbeat { ballot, beat, members } => {
                head(out, 5, *ballot);
                out.push(*beat as u8);
                members.encode(out);
            }
            ElectionMessage::HeartbeatReply { ballot } => head(out, 6, *ballot),
            ElectionMessage::Stale { promised } => head(out, 7, *promised),
            ElectionMessage::Patient { ballot } => head(out, 8, *ballot),
        }
    }

    /// Reads what [`encode`](ElectionMessage::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<ElectionMessage, Malformed> {
        let tag = reader.u8()?;
        let first = ballot(reader)?;
        Ok(match tag {
            1 => ElectionMessage::PreVote { ballot: first },
            2 => {
                let flags = reader.u8()?;
                let (granted, forgets) = (flags & 1 != 0, flags & 2 != 0);
                ElectionMessage::PreVoteReply { ballot: first, granted, forgets, promised: ballot(reader)? }
            }
            3 => ElectionMessage::Prepare { ballot: first },
            4 => {
                let members = Members::decode(reader)?;
                let pending =
                    (0..reader.u32()?).map(|_| PendingChange::decode(reader)).collect::<Result<_, _>>()?;
                let count = reader.u16()?;
                let (count, forgets) = (count & !FORGETS, count & FORGETS != 0);
                let tails = (0..count).map(|_| Tail::decode(reader)).collect::<Result<_, _>>()?;
                let above_all = Timestamp(reader.u64()?);
                ElectionMessage::Promise(Promise {
                    ballot: first,
                    members,
                    pending,
                    tails,
                    above_all,
                    forgets,
                })
            }
            5 => {
                let beat = Beat::of(reader.u8()?);
                ElectionMessage::Heartbeat { ballot: first, beat, members: Members::decode(reader)? }
            }
            6 => ElectionMessage::HeartbeatReply { ballot: first },
            7 => ElectionMessage::Stale { promised: first },
            8 => ElectionMessage::Patient { ballot: first },
            _ => return Err(Malformed("election message tag")),
        })
    }
}

/// In the count of tails, of which there are never so many.
const FORGETS: u16 = 1 << 15;

fn head(out: &mut Vec<u8>, tag: u8, ballot: Ballot) {
    out.push(tag);
    put_ballot(out, ballot);
}

impl PendingChange {
    fn encode(&self, out: &mut Vec<u8>) {
        self.members.encode(out);
        out.extend_from_slice(&(self.decided.len() as u16).to_le_bytes());
        self.decided.iter().for_each(|epoch| out.extend_from_slice(&epoch.0.to_le_bytes()));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<PendingChange, Malformed> {
        let members = Members::decode(reader)?;
        let decided = (0..reader.u16()?).map(|_| reader.u64().map(Epoch)).collect::<Result<_, _>>()?;
        Ok(PendingChange { members, decided })
    }
}
