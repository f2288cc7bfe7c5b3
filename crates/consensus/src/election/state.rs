//! The state of an election on one node, and what is said and asked of it.

use std::collections::BTreeMap;

use highwater_core::{Ballot, Epoch, NodeId};

use super::message::{ElectionMessage, Promise};
use super::signs::{Heard, Signs};
use crate::{Members, Nanos, Quorums, Voter};

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
    pub(super) me: Voter,
    pub(super) options: ElectionOptions,
    pub(super) promised: Ballot,
    /// The last promise that was answered. Of two ballots with the same epoch only one gets an answer, so only one can
    /// win.
    pub(super) answered: Ballot,
    /// Highest epoch heard of, promised or not.
    pub(super) highest: Epoch,
    pub(super) members: Option<Members>,
    pub(super) eligible: bool,
    pub(super) standing: Standing,
    /// The ballot of the current pre-vote.
    pub(super) asked: Ballot,
    /// Yeses to it.
    pub(super) granted: Vec<Voter>,
    pub(super) promises: BTreeMap<Voter, Promise>,
    /// Somebody promised a higher ballot of the epoch that this node prepares.
    pub(super) outbid: bool,
    /// Under which ballot a leader was heard.
    pub(super) following: Option<Ballot>,
    pub(super) signs: Signs,
    /// The leader's process is known to be gone.
    pub(super) suspected: bool,
    /// The host finds this node's workers in order.
    pub(super) sound: bool,
    /// When to act next: stand, give up, send heartbeats.
    pub(super) deadline: Nanos,
    /// The random part of it.
    pub(super) spread: Nanos,
    /// When each voter last answered a heartbeat, or sent something to a stream.
    pub(super) heard_from: BTreeMap<Voter, Heard>,
    pub(super) random: u64,
    pub(super) out: Vec<(NodeId, ElectionMessage)>,
    pub(super) events: Vec<ElectionEvent>,
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

    /// Moves the waiting messages out.
    pub fn drain(&mut self) -> std::vec::Drain<'_, (NodeId, ElectionMessage)> {
        self.out.drain(..)
    }

    /// Moves the waiting events out.
    pub fn events(&mut self) -> Vec<ElectionEvent> {
        std::mem::take(&mut self.events)
    }

    /// Sets the deadline to a randomised timeout from now.
    pub(super) fn wait(&mut self, now: Nanos) {
        self.spread = self.random_below(self.options.timeout);
        self.deadline = now + self.options.timeout + self.spread;
    }

    pub(super) fn broadcast(&mut self, message: ElectionMessage) {
        for node in (0..self.options.nodes).map(NodeId).filter(|node| *node != self.me.node) {
            self.out.push((node, message.clone()));
        }
    }

    pub(super) fn random_below(&mut self, bound: u64) -> u64 {
        // xorshift64: good enough to keep candidates apart.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound.max(1)
    }
}
