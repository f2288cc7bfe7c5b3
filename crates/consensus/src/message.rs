//! What the streams of two replicas say to each other.
//!
//! Messages may be lost, repeated and reordered. Each is handled by comparing ballots and indexes, never by counting
//! messages.
//!
//! | from | to | messages |
//! |---|---|---|
//! | leader | follower | `Adopt`, `Accept`, `Decide`, `TooFar`, `Confirm` |
//! | follower | leader | `Accepted`, `Pull`, `Confirmed` |
//! | new leader | holder of the best log | `Fetch`, answered by `Fetched` |
//! | anyone | a sender under an old ballot | `Stale` |

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Ballot, EntryIndex};

use crate::codec::{ballot, index, put_ballot, put_index};
use crate::{Members, Tail};

/// A message of one stream. Those marked *entry* travel with one log entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Leader to follower, *entry*: replace what follows `start - 1` in your log by the entries `start..=upto` of mine.
    /// This is the one at `index`. An empty range (`start == upto + 1`) travels as one message without an entry.
    /// The follower's log counts as accepted under `ballot` once it holds all of them, not before.
    Adopt {
        /// The leader's ballot.
        ballot: Ballot,
        /// First index of the range.
        start: EntryIndex,
        /// Last index of the range: the end of the log that the leader took over, or more. The follower's log counts
        /// once it holds everything up to here.
        upto: EntryIndex,
        /// Index of the entry that travels along.
        index: EntryIndex,
        /// What the leader knows to be decided.
        decided: EntryIndex,
    },
    /// Leader to follower, *entry*: append this at `index`. Taken only by a log that was adopted under `ballot` and
    /// ends just before.
    Accept {
        /// The leader's ballot.
        ballot: Ballot,
        /// Where the entry goes.
        index: EntryIndex,
        /// What the leader knows to be decided.
        decided: EntryIndex,
        /// Largest index that the leader knows all replicas know to be decided. Nobody will pull an entry up to here, so
        /// everybody may drop it early.
        known_by_all: EntryIndex,
    },
    /// Follower to leader: my log equals yours up to `index`, accepted under `ballot`.
    Accepted {
        /// The leader's ballot.
        ballot: Ballot,
        /// Accepted up to here; 0 while an adoption is incomplete.
        index: EntryIndex,
        /// Received up to here, adopted or not. It only tells the leader how much is still in flight; it is no vote.
        received: EntryIndex,
        /// What the follower knows to be decided. A leader with nothing else to say repeats `Decide` until it hears
        /// here that its last word has arrived.
        decided: EntryIndex,
    },
    /// Leader to follower: decided up to `decided`; you were sent everything up to `last`.
    Decide {
        /// The leader's ballot.
        ballot: Ballot,
        /// Decided up to here.
        decided: EntryIndex,
        /// Last index that was sent to this follower. If its log ends earlier, a message was lost, and it pulls.
        last: EntryIndex,
        /// As in [`Message::Accept`].
        known_by_all: EntryIndex,
        /// Whether the follower shall answer even if it misses nothing: its last answer may have been lost.
        ask: bool,
    },
    /// Follower to leader: this is where my log stands; send me what I lack.
    Pull {
        /// What the follower had promised when its log stood so. If that is not the leader's ballot, the tail says
        /// nothing: another leader may have changed the log since.
        promised: Ballot,
        /// Its log.
        tail: Tail,
        /// How far a range to adopt has come, so that the leader need not send that again; 0 if none is on its way.
        received: EntryIndex,
    },
    /// Leader to follower: I have dropped the entry that you need next. Copy the state of a replica instead.
    TooFar {
        /// The leader's ballot.
        ballot: Ballot,
        /// First index that the leader holds.
        first: EntryIndex,
        /// The newest membership that the leader knows to be decided in every stream. No change of epoch before `first`
        /// is newer, so a follower that goes on at `first` has missed no membership.
        members: Option<Members>,
    },
    /// New leader to the holder of the log it must adopt: send me `from..=upto`.
    Fetch {
        /// The new leader's ballot.
        ballot: Ballot,
        /// First index wanted.
        from: EntryIndex,
        /// Last index wanted.
        upto: EntryIndex,
    },
    /// The answer, *entry*.
    Fetched {
        /// The new leader's ballot.
        ballot: Ballot,
        /// Index of the entry that travels along.
        index: EntryIndex,
        /// The holder has sent a window's worth and stops here; the new leader has to ask for the rest.
        paused: bool,
    },
    /// To a sender whose ballot is too low: I promised this one. A deposed leader learns so that it is deposed.
    Stale {
        /// What was promised.
        promised: Ballot,
    },
    /// Leader to follower: do you still follow me? An earlier build does not know this question, and does not answer.
    Confirm {
        /// The leader's ballot.
        ballot: Ballot,
        /// Which of its questions under this ballot.
        number: u64,
    },
    /// The answer: when that question came I had promised no higher ballot. It says nothing of the log, and waits for no disk.
    Confirmed {
        /// The leader's ballot.
        ballot: Ballot,
        /// Which question.
        number: u64,
    },
}

impl Message {
    /// The ballot under which its sender leads, if it speaks as a leader to its followers: such a message is a sign of
    /// the leader's life.
    pub fn of_leader(&self) -> Option<Ballot> {
        match self {
            Message::Adopt { ballot, .. }
            | Message::Accept { ballot, .. }
            | Message::Decide { ballot, .. }
            | Message::TooFar { ballot, .. }
            | Message::Confirm { ballot, .. } => Some(*ballot),
            Message::Accepted { .. }
            | Message::Pull { .. }
            | Message::Fetch { .. }
            | Message::Fetched { .. }
            | Message::Stale { .. }
            | Message::Confirmed { .. } => None,
        }
    }

    /// Whether the receiver counts on the sender's state: then it is sent only when that state would survive a crash.
    pub fn vouches(&self) -> bool {
        matches!(self, Message::Accepted { .. } | Message::Pull { .. })
    }

    /// Appends `tag u8 | ballot | fields`, all little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut head = |tag: u8, ballot: Ballot, indexes: &[EntryIndex]| {
            out.push(tag);
            put_ballot(out, ballot);
            for &index in indexes {
                put_index(out, index);
            }
        };
        match *self {
            Message::Adopt { ballot, start, upto, index, decided } => {
                head(1, ballot, &[start, upto, index, decided])
            }
            Message::Accept { ballot, index, decided, known_by_all } => {
                head(2, ballot, &[index, decided, known_by_all])
            }
            Message::Accepted { ballot, index, received, decided } => {
                head(3, ballot, &[index, received, decided])
            }
            Message::Decide { ballot, decided, last, known_by_all, ask } => {
                head(4, ballot, &[decided, last, known_by_all]);
                out.push(ask.into());
            }
            Message::Pull { promised, tail, received } => {
                head(5, promised, &[received]);
                tail.encode(out);
            }
            Message::TooFar { ballot, first, ref members } => {
                head(6, ballot, &[first]);
                out.push(members.is_some().into());
                members.iter().for_each(|members| members.encode(out));
            }
            Message::Fetch { ballot, from, upto } => head(7, ballot, &[from, upto]),
            Message::Fetched { ballot, index, paused } => {
                head(8, ballot, &[index]);
                out.push(paused.into());
            }
            Message::Stale { promised } => head(9, promised, &[]),
            Message::Confirm { ballot, number } => {
                head(10, ballot, &[]);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Message::Confirmed { ballot, number } => {
                head(11, ballot, &[]);
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }

    /// Reads what [`encode`](Message::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Message, Malformed> {
        let tag = reader.u8()?;
        let ballot = ballot(reader)?;
        let message = match tag {
            1 => Message::Adopt {
                ballot,
                start: index(reader)?,
                upto: index(reader)?,
                index: index(reader)?,
                decided: index(reader)?,
            },
            2 => Message::Accept {
                ballot,
                index: index(reader)?,
                decided: index(reader)?,
                known_by_all: index(reader)?,
            },
            3 => Message::Accepted {
                ballot,
                index: index(reader)?,
                received: index(reader)?,
                decided: index(reader)?,
            },
            4 => Message::Decide {
                ballot,
                decided: index(reader)?,
                last: index(reader)?,
                known_by_all: index(reader)?,
                ask: reader.u8()? != 0,
            },
            5 => Message::Pull { promised: ballot, received: index(reader)?, tail: Tail::decode(reader)? },
            6 => {
                let first = index(reader)?;
                let members = (reader.u8()? != 0).then(|| Members::decode(reader)).transpose()?;
                Message::TooFar { ballot, first, members }
            }
            7 => Message::Fetch { ballot, from: index(reader)?, upto: index(reader)? },
            8 => Message::Fetched { ballot, index: index(reader)?, paused: reader.u8()? != 0 },
            9 => Message::Stale { promised: ballot },
            10 => Message::Confirm { ballot, number: reader.u64()? },
            11 => Message::Confirmed { ballot, number: reader.u64()? },
            _ => return Err(Malformed("stream message tag")),
        };
        if let Message::Adopt { start, upto, index, .. } = message {
            let empty = start == upto.next();
            if start == EntryIndex::NONE || !(empty || (start <= index && index <= upto)) {
                return Err(Malformed("range to adopt"));
            }
        }
        Ok(message)
    }
}
