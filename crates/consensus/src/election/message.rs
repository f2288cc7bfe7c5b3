//! A message between the controllers of two replicas, about who leads.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::wire::{Form, Kind, List, Wire};
use highwater_core::{Ballot, Epoch, Random, Timestamp, wire};

use crate::{Members, Tail};

wire! {
    /// Changes of epoch to one set of voters, none of which a voter knows to be decided in every stream.
    ///
    /// A takeover that is cut short leaves a change behind, and a cluster may see thousands of them. So that promises stay
    /// short, each set of voters is named once, with what a candidate needs to know of all its changes: the newest, for the
    /// candidate goes on with it and needs the agreement of its voters; and for each stream the newest one known to be
    /// decided (see `Election::decided_by_all_accounts`). Older changes to the same voters would say nothing more. A new
    /// set of voters takes an epoch that opened, so the list is as long as the admissions that the voter missed, whatever
    /// failed between them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PendingChange: "pending change" {
        /// The new voters, in the newest epoch that changes to them.
        pub members: Members,
        /// Per stream: the newest epoch whose change to these voters is known to be decided there; 0 if none is.
        pub decided: Vec<Epoch> as List<u16>,
    }
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

const BEATS: [Beat; 4] = [Beat::Asks, Beat::Vouches, Beat::Calm, Beat::Rests];

/// Builds from before there was `Calm` take everything but 0 for a leader that vouches.
impl Wire for Beat {
    const NAME: &'static str = "beat";

    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn take(from: &mut Reader<'_>) -> Result<Beat, Malformed> {
        let byte = from.u8()?;
        Ok(BEATS.get(usize::from(byte)).copied().unwrap_or(Beat::Vouches))
    }

    fn form() -> String {
        "u8".into()
    }

    fn draw(random: &mut Random) -> Beat {
        random.pick(&BEATS)
    }
}

wire! {
    /// An answer to whoever asks whether it would be promised its ballot.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Voice: "voice" flags {
        /// It would.
        pub granted = 1,
        /// As in [`Promise::forgets`].
        pub forgets = 2,
    }
}

wire! {
    /// A message between the controllers of two replicas, about who leads.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum ElectionMessage: "election message" {
        /// Would you promise this ballot, because you miss the leader, too?
        PreVote = 1 {
            /// The ballot that the sender would take.
            ballot: Ballot,
        },
        /// The answer.
        PreVoteReply = 2 {
            /// The ballot of the question.
            ballot: Ballot,
            /// Whether the voter would.
            voice: Voice,
            /// The ballot that it promised already: a loser learns how high to aim.
            promised: Ballot,
        },
        /// Promise this ballot, and tell what you accepted.
        Prepare = 3 {
            /// The ballot to promise.
            ballot: Ballot,
        },
        /// The promise; every stream of the sender is bound.
        Promise = 4 (promise: Promise),
        /// The leader is there.
        Heartbeat = 5 {
            /// The leader's ballot.
            ballot: Ballot,
            /// How it is.
            beat: Beat,
            /// The membership in force, as the leader knows it.
            members: Members,
        },
        /// The follower lives and follows.
        HeartbeatReply = 6 {
            /// The leader's ballot.
            ballot: Ballot,
        },
        /// The same, in answer to a heartbeat of a calm leader: the next one may come up to a timeout later.
        Patient = 8 {
            /// The leader's ballot.
            ballot: Ballot,
        },
        /// To a sender whose ballot is too low, or a rival's: I promised this one.
        Stale = 7 {
            promised: Ballot,
        },
    }
}

/// In the count of tails, of which there are never so many.
const FORGETS: u16 = 1 << 15;

type Pending = List<u32>;

/// Whether the voter forgets is bit 15 of the count of tails.
impl Wire for Promise {
    const NAME: &'static str = "promise";

    fn put(&self, out: &mut Vec<u8>) {
        self.ballot.put(out);
        self.members.put(out);
        <Pending as Form<_>>::put(&self.pending, out);
        let flag = if self.forgets { FORGETS } else { 0 };
        (self.tails.len() as u16 | flag).put(out);
        self.tails.iter().for_each(|tail| tail.put(out));
        self.above_all.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Promise, Malformed> {
        let (ballot, members) = (Wire::take(from)?, Wire::take(from)?);
        let pending = <Pending as Form<_>>::take(from)?;
        let count = u16::take(from)?;
        let tails = (0..count & !FORGETS).map(|_| Tail::take(from)).collect::<Result<_, _>>()?;
        let above_all = Wire::take(from)?;
        Ok(Promise { ballot, members, pending, tails, above_all, forgets: count & FORGETS != 0 })
    }

    fn draw(random: &mut Random) -> Promise {
        Promise {
            ballot: Wire::draw(random),
            members: Wire::draw(random),
            pending: <Pending as Form<_>>::draw(random),
            tails: <List<u16> as Form<_>>::draw(random),
            above_all: Wire::draw(random),
            forgets: Wire::draw(random),
        }
    }
}

impl Promise {
    /// Its parts, as documents describe them.
    pub fn kinds() -> Vec<Kind> {
        let tails = format!("u16 (bit 15: forgets) × {}", Tail::form());
        let fields = [
            ("ballot", Ballot::form()),
            ("members", Members::form()),
            ("pending", <Pending as Form<Vec<PendingChange>>>::form()),
            ("tails", tails),
            ("above_all", Timestamp::form()),
        ];
        vec![Kind::of("Promise", fields)]
    }
}
