//! How a follower proves that it is fresh enough, without comparing clocks: it asks its leader, who asks a majority.
//!
//! # The story
//!
//! A read with the bound "at most S old" begins here at time b, by this node's own clock. The worker sends a [**probe**](ProbeMessage)
//! to the same-numbered worker of its leader, at its own time t0 of b - S or later. The leader notes its mark, T, has
//! an entry decided that it proposes after that, empty if there is nothing to put in, and then **vouches**: (t0, T). Then
//! everything that was acknowledged anywhere before t0 has a timestamp of at most T, and the read may run on any snapshot at or above T.
//!
//! Why, for a transaction that was acknowledged before t0:
//!
//! - *In the epoch of the leader that vouches.* It was released at or below the mark of that moment, and marks do not go back: T was
//!   read later.
//! - *In an earlier epoch.* It is at or below that one's final mark, and every later epoch begins above.
//! - *In a later epoch*: there was none yet. Before an epoch opens a majority of the voters has promised, in each stream, to accept
//!   nothing under an older ballot. Had one opened before t0, no entry that was proposed after t0 could be decided under the
//!   ballot of the leader that vouches. That is why it waits for an *entry*, and does not look at timestamps: an entry proposed before
//!   the probe came may be decided with votes from before t0, and a clock that went back may close a stream further than it shows.
//!
//! t0 is a number that only the node that asks understands; the leader sends it back.
//!
//! # A voter that forgets
//!
//! With `async` a voter comes back from a crash without what it accepted last. Whether it has caught up it finds out with the same
//! question: `recall`.
//!
//! # On demand
//!
//! A worker asks when a read waits that no earlier answer serves, and one question at a time: what comes meanwhile shares the
//! next one. Nobody reads with such a bound: nothing is sent. A question or an answer may be lost with its connection, a leader may be none
//! any more: then the worker asks again, and its reads end in an error that says so (`bounded`).

use std::collections::VecDeque;

use highwater_consensus::{Stream, Voter};
use highwater_core::{Ballot, EntryIndex, NodeId, Timestamp, wire};
use highwater_seam::Nanos;

use crate::hooks;

wire! {
    /// What workers say to each other about freshness. Its tags are 4 and 5: those of copies come before.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ProbeMessage: "message about freshness" {
        /// Follower to leader: what is acknowledged by now?
        Probe = 4 {
            /// When it was sent, by the follower's clock.
            asked: Nanos,
        },
        /// Leader to follower: what was acknowledged before the probe was sent.
        Vouch = 5 {
            /// When that was, as the follower said.
            asked: Nanos,
            /// It is at or below this.
            upto: Timestamp,
            /// How far the leader's log of this stream was then.
            log: EntryIndex,
        },
    }
}

use ProbeMessage::{Probe, Vouch};

impl ProbeMessage {
    /// Whether a head with this tag is one of these.
    pub fn has_tag(tag: u8) -> bool {
        matches!(tag, 4 | 5)
    }
}

/// A follower's side.
#[derive(Debug, Default)]
pub struct Probes {
    /// The latest answer: to what was sent then; what was acknowledged before is at or below, and so far the leader's log was.
    proof: Option<(Nanos, Timestamp, EntryIndex)>,
    /// The question that awaits an answer: when it was sent, and to whom.
    open: Option<(Nanos, NodeId)>,
}

impl Probes {
    /// A snapshot at or above this holds everything that was acknowledged before `needed`; `None`: nobody vouched for that yet.
    #[inline]
    pub fn proof(&self, needed: Nanos) -> Option<Timestamp> {
        let serves =
            |(asked, ..): &(Nanos, Timestamp, EntryIndex)| *asked >= needed || hooks::believes_old_proofs();
        self.proof.filter(serves).map(|(_, upto, _)| upto)
    }

    /// How far the log of this stream's leader was at some moment after `since`; `None`: nobody vouched for that yet.
    pub fn log(&self, since: Nanos) -> Option<EntryIndex> {
        self.proof.filter(|(asked, ..)| *asked >= since).map(|(.., log)| log)
    }

    /// Whom to send a probe now, if to anybody: a read waits for it. `again_after`: a question that has waited for so long is asked anew.
    pub fn ask(
        &mut self,
        now: Nanos,
        leader: Option<NodeId>,
        again_after: Nanos,
    ) -> Option<(NodeId, ProbeMessage)> {
        let leader = leader?;
        if self.open.is_some_and(|(asked, to)| to == leader && now < asked + again_after) {
            return None;
        }
        self.open = Some((now, leader));
        Some((leader, Probe { asked: now }))
    }

    /// An answer came.
    pub fn answered(&mut self, asked: Nanos, upto: Timestamp, log: EntryIndex) {
        if self.open.is_some_and(|(open, _)| asked >= open) {
            self.open = None;
        }
        if self.proof.is_none_or(|(known, ..)| known < asked) {
            self.proof = Some((asked, upto, log));
        }
    }

    /// The connection to `peer` is another one, or none: what was asked of it may be lost.
    pub fn peer_changed(&mut self, peer: NodeId) {
        self.open.take_if(|(_, to)| *to == peer);
    }
}

/// A leader's side: who asked, and has no answer yet.
#[derive(Debug, Default)]
pub struct Vouching {
    /// Oldest first.
    waiting: VecDeque<Asked>,
}

#[derive(Debug)]
struct Asked {
    by: Voter,
    /// By the asker's clock.
    at: Nanos,
    /// Under which this node led when the question came.
    ballot: Ballot,
    /// The mark when it came.
    mark: Timestamp,
    /// The last entry that was proposed before it came.
    behind: EntryIndex,
}

/// Most questions that wait: a few of each worker that may ask. Who finds no room asks again.
const MOST_WAITING: usize = 256;

impl Vouching {
    /// Whether nobody waits for an answer.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a question, as the leader under `ballot` whose mark is `mark` now.
    pub fn take(&mut self, by: Voter, at: Nanos, ballot: Ballot, mark: Timestamp, stream: &Stream) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(Asked { by, at, ballot, mark, behind: stream.last() });
        }
    }

    /// The answers that can be given now. `leads`: under which ballot.
    pub fn answers(
        &mut self,
        leads: Option<Ballot>,
        stream: &Stream,
    ) -> impl Iterator<Item = (NodeId, ProbeMessage)> {
        let leads = leads.filter(|ballot| stream.is_leading(*ballot));
        self.waiting.retain(|asked| Some(asked.ballot) == leads);
        let decided = stream.decided();
        let ready =
            self.waiting.iter().take_while(|asked| asked.behind < decided || hooks::vouches_unasked());
        let ready = ready.count();
        let vouch = |asked: &Asked| Vouch { asked: asked.at, upto: asked.mark, log: asked.behind };
        self.waiting.drain(..ready).map(move |asked| (asked.by.node, vouch(&asked)))
    }

    /// The connection to `peer` is another one, or none: nobody awaits an answer there.
    pub fn peer_changed(&mut self, peer: NodeId) {
        self.waiting.retain(|asked| asked.by.node != peer);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const LEADER: NodeId = NodeId(1);

    #[test]
    fn one_question_at_a_time_and_another_when_it_may_be_lost() {
        let mut probes = Probes::default();
        assert_eq!(probes.ask(10, None, 100), None, "nobody to ask");
        assert_eq!(probes.ask(10, Some(LEADER), 100), Some((LEADER, Probe { asked: 10 })));
        assert_eq!(probes.ask(50, Some(LEADER), 100), None);
        assert_eq!(
            probes.ask(60, Some(NodeId(2)), 100),
            Some((NodeId(2), Probe { asked: 60 })),
            "another leads"
        );
        probes.peer_changed(LEADER);
        assert_eq!(probes.ask(70, Some(NodeId(2)), 100), None);
        probes.peer_changed(NodeId(2));
        assert_eq!(probes.ask(80, Some(LEADER), 100), Some((LEADER, Probe { asked: 80 })));
        assert_eq!(
            probes.ask(180, Some(LEADER), 100),
            Some((LEADER, Probe { asked: 180 })),
            "it waited long"
        );
    }

    #[test]
    fn an_answer_proves_what_was_before_its_question() {
        let mut probes = Probes::default();
        assert_eq!(probes.proof(0), None);
        probes.ask(10, Some(LEADER), 100);
        probes.answered(10, Timestamp(7), EntryIndex(3));
        assert_eq!((probes.log(10), probes.log(11)), (Some(EntryIndex(3)), None));
        assert_eq!((probes.proof(10), probes.proof(11)), (Some(Timestamp(7)), None));
        assert!(probes.ask(11, Some(LEADER), 100).is_some(), "nothing is open any more");
        probes.answered(5, Timestamp(6), EntryIndex(2));
        assert_eq!(probes.proof(10), Some(Timestamp(7)), "a late answer takes nothing back");
        assert_eq!(probes.ask(12, Some(LEADER), 100), None, "and the question of 11 still waits");
    }
}
