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
mod suspicion;
mod voter;

use std::collections::BTreeMap;

use highwater_core::hooks::{self, Site};
use highwater_core::{Ballot, Epoch, NodeId};

pub use message::{ElectionMessage, PendingChange, Promise};
pub use suspicion::SILENCE;

use crate::{Members, Nanos, Quorums, Voter};
use suspicion::Signs;

/// Settings of an election.
#[derive(Clone, Copy, Debug)]
pub struct ElectionOptions {
    /// How many nodes there are; ids are `0..nodes`.
    pub nodes: u8,
    /// How often a leader says that it lives.
    pub heartbeat: Nanos,
    /// Shortest silence after which a follower stands; each waits up to so much longer, at random, and more where signs of
    /// life are late (`suspicion`).
    pub timeout: Nanos,
}

/// What the host must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionEvent {
    /// Have every stream promise the ballot and answer with [`Election::fenced`]. If this node led, it no longer does.
    Fence(Ballot),
    /// Take over the streams under the ballot.
    Won {
        /// The ballot.
        ballot: Ballot,
        /// What each voter promised, the own promise included.
        promises: BTreeMap<Voter, Promise>,
        /// Who must accept.
        quorums: Quorums,
        /// The newest membership that any promise knows, decided or not: the one to go on with.
        members: Members,
    },
    /// Somebody leads under this ballot: follow.
    Follow(Ballot),
}

/// Where this node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Follows, or waits.
    Follower,
    /// Asks who else misses the leader.
    Asking,
    /// Asks for promises.
    Preparing,
    /// Won; sends heartbeats.
    Leading,
}

/// The election, on one node.
///
/// Invariants: `promised` never moves back; leads and prepares only under a ballot of its own that equals `promised`.
#[derive(Debug)]
pub struct Election {
    me: Voter,
    options: ElectionOptions,
    promised: Ballot,
    /// The last promise that was answered. Of two ballots with the same epoch only one gets an answer, so only one can
    /// win.
    answered: Ballot,
    /// Highest epoch heard of, promised or not.
    highest: Epoch,
    members: Option<Members>,
    eligible: bool,
    standing: Standing,
    /// The ballot of the current pre-vote.
    asked: Ballot,
    /// Yeses to it.
    granted: Vec<Voter>,
    promises: BTreeMap<Voter, Promise>,
    /// Somebody promised a higher ballot of the epoch that this node prepares.
    outbid: bool,
    /// Under which ballot a leader was heard.
    following: Option<Ballot>,
    signs: Signs,
    /// The leader's process is known to be gone.
    suspected: bool,
    /// The host finds this node's workers in order.
    sound: bool,
    /// When to act next: stand, give up, send heartbeats.
    deadline: Nanos,
    /// The random part of it.
    spread: Nanos,
    /// When each voter last answered a heartbeat, or sent something to a stream.
    heard_from: BTreeMap<Voter, suspicion::Heard>,
    random: u64,
    out: Vec<(NodeId, ElectionMessage)>,
    events: Vec<ElectionEvent>,
}

impl Election {
    /// A node that knows no membership yet: inert until [`set_members`](Election::set_members).
    pub fn new(me: Voter, options: ElectionOptions, seed: u64) -> Election {
        Election {
            me,
            options,
            promised: Ballot::default(),
            answered: Ballot::default(),
            highest: Epoch::default(),
            members: None,
            eligible: false,
            standing: Standing::Follower,
            asked: Ballot::default(),
            granted: Vec::new(),
            promises: BTreeMap::new(),
            outbid: false,
            following: None,
            signs: Signs::default(),
            suspected: false,
            sound: true,
            deadline: Nanos::MAX,
            spread: 0,
            heard_from: BTreeMap::new(),
            random: seed | 1,
            out: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Where this node stands.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// What was promised.
    pub fn promised(&self) -> Ballot {
        self.promised
    }

    /// The newest membership known to be decided.
    pub fn members(&self) -> Option<&Members> {
        self.members.as_ref()
    }

    /// Whether this life of this node votes, as far as it knows.
    pub fn votes(&self) -> bool {
        self.members.as_ref().is_some_and(|members| members.contains(self.me))
    }

    /// A membership is decided. Older ones than the known are ignored.
    pub fn set_members(&mut self, now: Nanos, members: Members) {
        let newer = self.members.as_ref().is_none_or(|known| members.epoch > known.epoch);
        if newer {
            self.highest = self.highest.max(members.epoch);
            self.members = Some(members);
            if self.deadline == Nanos::MAX {
                self.wait(now);
            }
        }
    }

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

    /// Moves the waiting messages out.
    pub fn drain(&mut self) -> std::vec::Drain<'_, (NodeId, ElectionMessage)> {
        self.out.drain(..)
    }

    /// Moves the waiting events out.
    pub fn events(&mut self) -> Vec<ElectionEvent> {
        std::mem::take(&mut self.events)
    }

    fn broadcast(&mut self, message: ElectionMessage) {
        for node in (0..self.options.nodes).map(NodeId).filter(|node| *node != self.me.node) {
            self.out.push((node, message.clone()));
        }
    }

    fn random_below(&mut self, bound: u64) -> u64 {
        // xorshift64: good enough to keep candidates apart.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound.max(1)
    }
}
