//! Who leads: pre-votes, promises, heartbeats; one ballot for all streams.
//!
//! 1. **Suspicion.** A follower that gets no sign of the leader's life for a randomised time (`suspicion`), or whose host
//!    saw the leader's process gone, asks everyone: would you promise me the next epoch (`PreVote`)? A voter says yes only if it misses the
//!    leader, too. So a node that was cut off cannot depose a healthy leader when it returns.
//! 2. **Promise.** With a majority of yeses the candidate takes the next ballot and asks for promises (`Prepare`). A
//!    voter first has *every stream* promise ([`ElectionEvent::Fence`]); only then does it answer, with each stream's
//!    [`Tail`](crate::Tail).
//! 3. **Won.** With promises from a majority of every membership that may be in force, the candidate leads
//!    ([`ElectionEvent::Won`]): its host takes over the streams. From now on it sends heartbeats. Those of a leader that
//!    hears no quorum, or whose workers stand still, are no sign of life: whoever can do without it may.
//!
//! Of two ballots of one epoch a node answers only one, so an epoch has one leader at most. Two that stand at once may
//! therefore split the votes, and the one whose ballot is higher may deny its own promise to a rival that wins:
//! - Who asks holds back when it hears of a higher ballot that asks, and gives the lower one no yes; who has promised in
//!   an epoch gives no yes for the same epoch. So most duels end before anyone promises.
//! - A promise in an epoch is not replaced by one for another candidate of it: that one could not be answered, and the
//!   first may have won.
//! - A candidate that wins, or leads, and hears that somebody promised a rival of the same epoch takes the next epoch at
//!   once: nobody else has won this one, and the rival follows a higher ballot.
//!
//! None of the three matters for safety: the first is about pre-votes, the second loses a message, the third is a new
//! campaign. They end: a rival needs pre-votes of a majority that misses the leader, and whoever promised has heard
//! of one; what was granted before is used up once per node.
//!
//! Which memberships may be in force? The newest that any promise knows to be decided, and every newer one that stands
//! undecided in somebody's log. A decided change was accepted by a majority of its predecessor, so any majority of the
//! predecessor reveals it.
//!
//! Left out: what happens to the streams (the host's business), leases (reads wait for the watermark instead).

mod candidate;
mod message;
mod signs;
mod state;
mod suspicion;
mod voter;

use highwater_core::hooks::{self, Site};
use highwater_core::{Ballot, NodeId};

pub use message::{ElectionMessage, PendingChange, Promise};
pub use state::{Election, ElectionEvent, ElectionOptions, Standing};
pub use suspicion::SILENCE;

use crate::{Nanos, Voter};

impl Election {
    /// Whether this node may stand: its store is complete and clean.
    pub fn set_eligible(&mut self, eligible: bool) {
        self.eligible = eligible;
        if !eligible && matches!(self.standing, Standing::Asking | Standing::Preparing) {
            self.standing = Standing::Follower;
        }
    }

    /// Stands at once, without asking whether the leader is missed: for the first epoch, and for a leader that changes
    /// the epoch on purpose.
    pub fn campaign(&mut self, now: Nanos) {
        if self.eligible && self.votes() {
            self.prepare(now);
        }
    }

    /// Gives up standing or leading; waits before it stands again.
    pub fn abandon(&mut self, now: Nanos) {
        self.standing = Standing::Follower;
        self.following = None;
        self.give_way(now);
    }

    /// Somebody has promised `ballot`: another node, or a stream of this one that met it before the controllers did.
    pub fn met(&mut self, now: Nanos, ballot: Ballot) {
        self.highest = self.highest.max(ballot.epoch);
        if ballot <= self.promised {
            return;
        }
        let rival = ballot.epoch == self.promised.epoch;
        match self.standing {
            Standing::Leading if rival => self.prepare(now),
            Standing::Preparing if rival => self.outbid = true,
            _ => self.promise(now, ballot),
        }
    }

    /// Every stream has promised `promise.ballot`; the answer to [`ElectionEvent::Fence`].
    pub fn fenced(&mut self, now: Nanos, promise: Promise) {
        let ballot = promise.ballot;
        let answered_a_rival = self.answered.epoch == ballot.epoch && self.answered != ballot;
        if ballot != self.promised || answered_a_rival {
            return;
        }
        self.answered = ballot;
        if ballot.node == self.me.node {
            self.on_promise(now, self.me, promise);
        } else {
            self.out.push((ballot.node, ElectionMessage::Promise(promise)));
        }
    }

    /// The connection to `peer` is lost; `gone`: its process is surely dead.
    pub fn peer_down(&mut self, now: Nanos, peer: NodeId, gone: bool) {
        if gone
            && self.standing == Standing::Follower
            && self.promised.node == peer
            && self.following.is_some()
        {
            self.suspected = true;
            // A little apart from the others, so that two do not split the votes.
            self.deadline = self.deadline.min(now + self.random_below(self.options.heartbeat / 2));
        }
    }

    /// Takes a message from `from`'s controller.
    pub fn deliver(&mut self, now: Nanos, from: Voter, message: ElectionMessage) {
        match message {
            ElectionMessage::PreVote { ballot } => self.on_pre_vote(now, from, ballot),
            ElectionMessage::PreVoteReply { ballot, granted, promised } => {
                self.highest = self.highest.max(promised.epoch);
                let asked = self.standing == Standing::Asking && ballot == self.asked;
                if asked && granted && !self.granted.contains(&from) {
                    self.granted.push(from);
                    self.count_pre_votes(now);
                }
            }
            ElectionMessage::Prepare { ballot } => self.on_prepare(now, from, ballot),
            ElectionMessage::Promise(promise) => self.on_promise(now, from, promise),
            ElectionMessage::Heartbeat { ballot, vouches, members } => {
                self.on_heartbeat(now, from, ballot, vouches, members);
            }
            ElectionMessage::HeartbeatReply { ballot } => {
                if ballot == self.promised {
                    self.voter_heard(from, now);
                }
            }
            ElectionMessage::Stale { promised } => self.met(now, promised),
        }
    }

    /// Lets time pass. Says when it wants to be called again, if at all.
    pub fn tick(&mut self, now: Nanos) -> Option<Nanos> {
        self.members.as_ref()?;
        // Legal: pre-votes only keep the peace; promises decide.
        if self.standing == Standing::Follower && hooks::buggify(Site::AskEarly) {
            self.ask(now);
        }
        if self.standing == Standing::Follower && hooks::buggify(Site::SkipPreVote) {
            self.campaign(now);
        }
        if now >= self.deadline && !self.doubts_itself(now) {
            match self.standing {
                Standing::Leading => self.send_heartbeats(now),
                Standing::Follower | Standing::Asking | Standing::Preparing => self.ask(now),
            }
        }
        Some(self.deadline)
    }
}
