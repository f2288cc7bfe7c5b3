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

use highwater_core::{Ballot, EntryIndex, wire};

use crate::{Members, Tail};

wire! {
    /// A message of one stream. Those marked *entry* travel with one log entry.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message: "stream message" where Message::adopts_a_range {
        /// Leader to follower, *entry*: replace what follows `start - 1` in your log by the entries `start..=upto` of mine.
        /// This is the one at `index`. An empty range (`start == upto + 1`) travels as one message without an entry.
        /// The follower's log counts as accepted under `ballot` once it holds all of them, not before.
        Adopt = 1 {
            /// The leader's ballot.
            ballot: Ballot,
            /// First index of the range.
            start: EntryIndex,
            /// Last index of the range: the end of the log that the leader took over, or more. The follower's log counts
            /// once it holds everything up to here.
            upto: EntryIndex,
            /// Index of the entry that travels along.
            index: EntryIndex,
            /// Everything up to here is decided, as far as the leader knows.
            decided: EntryIndex,
        },
        /// Leader to follower, *entry*: append this at `index`. Taken only by a log that was adopted under `ballot` and
        /// ends just before.
        Accept = 2 {
            /// The leader's ballot.
            ballot: Ballot,
            /// The entry's place.
            index: EntryIndex,
            /// Everything up to here is decided, as far as the leader knows.
            decided: EntryIndex,
            /// Largest index that the leader knows all replicas know to be decided. Nobody will pull an entry up to here, so
            /// everybody may drop it early.
            known_by_all: EntryIndex,
        },
        /// Follower to leader: my log equals yours up to `index`, accepted under `ballot`.
        Accepted = 3 {
            /// The leader's ballot.
            ballot: Ballot,
            /// Accepted up to here; 0 while an adoption is incomplete.
            index: EntryIndex,
            /// Received up to here, adopted or not. It only tells the leader how much is still in flight; it is no vote.
            received: EntryIndex,
            /// Everything up to here is decided, as far as the follower knows. A leader with nothing else to say repeats `Decide` until it hears
            /// here that its last word has arrived.
            decided: EntryIndex,
        },
        /// Leader to follower: decided up to `decided`; you were sent everything up to `last`.
        Decide = 4 {
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
        Pull = 5 {
            /// The follower's promise when its log stood so. If that is not the leader's ballot, the tail says
            /// nothing: another leader may have changed the log since.
            promised: Ballot,
            /// How far a range to adopt has come, so that the leader need not send that again; 0 if none is on its way.
            received: EntryIndex,
            /// Its log.
            tail: Tail,
        },
        /// Leader to follower: I have dropped the entry that you need next. Copy the state of a replica instead.
        TooFar = 6 {
            /// The leader's ballot.
            ballot: Ballot,
            /// First index that the leader holds.
            first: EntryIndex,
            /// The newest membership that the leader knows to be decided in every stream. No change of epoch before `first`
            /// is newer, so a follower that goes on at `first` has missed no membership.
            members: Option<Members>,
        },
        /// New leader to the holder of the log it must adopt: send me `from..=upto`.
        Fetch = 7 {
            /// The new leader's ballot.
            ballot: Ballot,
            /// First index wanted.
            from: EntryIndex,
            /// Last index wanted.
            upto: EntryIndex,
        },
        /// The answer, *entry*.
        Fetched = 8 {
            /// The new leader's ballot.
            ballot: Ballot,
            /// Index of the entry that travels along.
            index: EntryIndex,
            /// The holder has sent a window's worth and stops here; the new leader has to ask for the rest.
            paused: bool,
        },
        /// To a sender whose ballot is too low: I promised this one. A deposed leader learns so that it is deposed.
        Stale = 9 {
            promised: Ballot,
        },
        /// Leader to follower: do you still follow me? An earlier build does not know this question, and does not answer.
        Confirm = 10 {
            /// The leader's ballot.
            ballot: Ballot,
            /// Which of its questions under this ballot.
            number: u64,
        },
        /// The answer: when that question came I had promised no higher ballot. It says nothing of the log, and waits for no disk.
        Confirmed = 11 {
            /// The leader's ballot.
            ballot: Ballot,
            /// Which question.
            number: u64,
        },
    }
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

    /// A range to adopt is empty, or holds the entry that travels along.
    fn adopts_a_range(&self) -> bool {
        let Message::Adopt { start, upto, index, .. } = self else { return true };
        *start > EntryIndex::NONE && (*start == upto.next() || (start <= index && index <= upto))
    }
}
