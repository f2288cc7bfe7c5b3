//! The state of an election on one node, what it asks of its host, and what the host may ask of it.

use std::collections::{BTreeMap, BTreeSet};

use highwater_core::{Ballot, Epoch, NodeId};

use super::message::{ElectionMessage, Promise};
use super::signs::{Heard, Signs};
use crate::{Members, Nanos, Quorums, Voter};

/// Settings of an election.
#[derive(Clone, Copy, Debug)]
pub struct ElectionOptions {
    /// How many nodes there are at first; ids are `0..nodes`. Others are told of by [`Election::peer_up`].
    pub nodes: u8,
    /// How often a leader says that it lives.
    pub heartbeat: Nanos,
    /// Shortest silence after which a follower asks for votes. Each waits up to as much again, at random, so that
    /// seldom two stand at once; and longer where signs of life are often late (`suspicion`).
    pub timeout: Nanos,
}

/// What the host must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionEvent {
    /// Have every stream promise the ballot, and when all have, call [`Election::fenced`] with their tails. If this
    /// node led under another ballot, it no longer does.
    Fence(Ballot),
    /// This node won: have every stream take over under the ballot.
    Won {
        ballot: Ballot,
        /// What each voter promised, the own promise included.
        promises: BTreeMap<Voter, Promise>,
        /// Who must accept: a majority of each membership that may be in force.
        quorums: Quorums,
        /// The newest membership that any promise knows, decided or not: the one to go on with.
        members: Members,
        /// Too few remember all that they accepted, and all voters promised instead: what was decided last may be lost. Who did not
        /// promise may hold it still ([`Members::after_loss`]).
        lossy: bool,
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
    /// Everybody else that was ever heard of, and was not removed: whom this node speaks to.
    pub(super) peers: BTreeSet<NodeId>,
    /// The highest ballot that was promised. The streams promise it, too; they may be ahead or behind for a moment.
    pub(super) promised: Ballot,
    /// The ballot of the last promise that was answered. Of two ballots of one epoch a node answers only one. Two
    /// majorities have a node in common, so only one of the two candidates can win.
    pub(super) answered: Ballot,
    /// The streams have been asked to promise `promised`, and not all of them have: with a disk that may take long.
    ///
    /// Meanwhile this node neither stands nor says yes to anybody. It could not keep its word before its disk has done what was asked of
    /// it, and a higher ballot would only be the next thing to ask: where syncs take longer than timeouts, nobody would ever win.
    pub(super) fencing: bool,
    /// The ballot for which this life asks for promises, until it has won or given up. They count even if they come late, as long as
    /// nothing higher was promised here.
    pub(super) prepared: Option<Ballot>,
    /// Highest epoch heard of, promised or not: the next ballot of this node is above it.
    pub(super) highest: Epoch,
    /// The newest membership known to be decided; `None` before the first meeting.
    pub(super) members: Option<Members>,
    /// See [`Election::set_eligible`].
    pub(super) eligible: bool,
    pub(super) standing: Standing,
    /// The ballot of the current (or last) pre-vote.
    pub(super) asked: Ballot,
    /// Who said yes to it, and whether that one forgets.
    pub(super) granted: Vec<(Voter, bool)>,
    /// While this node asked, it has kept its yes from another.
    ///
    /// Invariant: whoever asks through a whole wait and does so rests for the next one, and gives its yes to anybody. For it may be one
    /// that cannot win, because it hears a part of a majority only, and the other one could.
    pub(super) denied: bool,
    /// See [`Election::set_forgets`].
    pub(super) forgets: bool,
    /// The promises of `promised`, while this node prepares it.
    pub(super) promises: BTreeMap<Voter, Promise>,
    /// Somebody promised a rival's higher ballot of the epoch that this node prepares: if it wins, it takes the next
    /// epoch.
    pub(super) outbid: bool,
    /// The ballot of the leader that this node follows; `None` if it has promised a ballot since of which no leader
    /// showed up.
    pub(super) following: Option<Ballot>,
    /// That leader's signs of life.
    pub(super) signs: Signs,
    /// The leader's process is known to be dead: no patience is due.
    pub(super) suspected: bool,
    /// The host finds this node's workers in order: see [`Election::set_sound`].
    pub(super) sound: bool,
    /// When to act next: a follower asks, a candidate asks anew, a leader sends heartbeats.
    pub(super) deadline: Nanos,
    /// The random part of a follower's deadline, kept so that each sign of life moves the deadline by the same.
    pub(super) spread: Nanos,
    /// When each voter last answered a heartbeat, or sent something to a stream.
    pub(super) heard_from: BTreeMap<Voter, Heard>,
    /// When somebody last wanted something of this node: see [`Election::stir`].
    pub(super) stirred_at: Nanos,
    /// See [`Election::rests`].
    pub(super) rests: bool,
    /// Who answered a calm heartbeat since this node last sent another one.
    pub(super) patient: BTreeSet<NodeId>,
    pub(super) random: u64,
    pub(super) out: Vec<(NodeId, ElectionMessage)>,
    pub(super) events: Vec<ElectionEvent>,
}

impl Election {
    /// A node that knows no membership yet: inert until [`set_members`](Election::set_members).
    pub fn new(me: Voter, options: ElectionOptions, seed: u64) -> Election {
        Election {
            me,
            peers: (0..options.nodes).map(NodeId).filter(|node| *node != me.node).collect(),
            options,
            promised: Ballot::default(),
            answered: Ballot::default(),
            fencing: false,
            prepared: None,
            highest: Epoch::default(),
            members: None,
            eligible: false,
            standing: Standing::Follower,
            asked: Ballot::default(),
            granted: Vec::new(),
            denied: false,
            forgets: false,
            promises: BTreeMap::new(),
            outbid: false,
            following: None,
            signs: Signs::default(),
            suspected: false,
            sound: true,
            deadline: Nanos::MAX,
            spread: 0,
            heard_from: BTreeMap::new(),
            stirred_at: 0,
            rests: false,
            patient: BTreeSet::new(),
            random: seed | 1,
            out: Vec::new(),
            events: Vec::new(),
        }
    }

    /// A node whose disk says what its streams promised: the same voter, before it knows its membership.
    ///
    /// Whom it answered in that epoch nobody wrote down, and a stream may have promised a rival of the one that was answered. So it
    /// answers nobody more in that epoch; a candidate that needs it takes the next.
    pub fn recover(me: Voter, options: ElectionOptions, seed: u64, promised: Ballot) -> Election {
        let nobody = Ballot { epoch: promised.epoch, node: NodeId(u8::MAX) };
        let highest = promised.epoch;
        Election { promised, answered: nobody, highest, ..Election::new(me, options, seed) }
    }

    /// Where this node stands.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    pub fn promised(&self) -> Ballot {
        self.promised
    }

    /// The newest membership known to be decided.
    pub fn members(&self) -> Option<&Members> {
        self.members.as_ref()
    }

    /// Whether this voter may have accepted more than it knows of. Its host says so when it comes back from a crash with
    /// [`Durability::Async`](highwater_core::Durability::Async), and takes it back once this node has caught up with what was accepted
    /// before that.
    ///
    /// Invariant: an election is won with the promises of a majority that forget nothing, or of *all* voters. The former lose nothing:
    /// what was decided, one of them holds. The latter keep what any disk holds; what none of them does is lost.
    pub fn set_forgets(&mut self, forgets: bool) {
        self.forgets = forgets;
    }

    /// See [`set_forgets`](Election::set_forgets).
    pub fn forgets(&self) -> bool {
        self.forgets
    }

    /// Whether this life of this node votes, as far as it knows.
    pub fn votes(&self) -> bool {
        self.members.as_ref().is_some_and(|members| members.contains(self.me))
    }

    /// The connection to a node is up: it is spoken to from now on, whether it votes or not.
    pub fn peer_up(&mut self, peer: NodeId) {
        self.was_patient(peer);
        let removed = self.members.as_ref().is_some_and(|members| members.has_removed(peer));
        if peer != self.me.node && !removed {
            self.peers.insert(peer);
        }
    }

    /// A membership is decided in every stream. One that is older than the known one is ignored.
    ///
    /// # Panics
    /// If somebody who was removed is not, as of the newer one.
    pub fn set_members(&mut self, now: Nanos, members: Members) {
        let newer = self.members.as_ref().is_none_or(|known| members.epoch > known.epoch);
        if newer {
            let stay_removed =
                |known: &Members| known.removed().iter().all(|voter| members.has_removed(voter.node));
            assert!(
                self.members.as_ref().is_none_or(stay_removed),
                "{:?} comes before {members:?}",
                self.members
            );
            let voters = members.voters().iter().map(|voter| voter.node);
            self.peers.extend(voters.filter(|node| *node != self.me.node));
            self.peers.retain(|node| !members.has_removed(*node));
            self.highest = self.highest.max(members.epoch);
            self.members = Some(members);
            if self.deadline == Nanos::MAX {
                self.wait(now);
            }
        }
    }

    /// Whether this node waits for its own streams to promise. Of a rival's ballot they may have heard by themselves, and never
    /// promise the lower one: that is not waited for.
    pub(super) fn is_fencing(&self) -> bool {
        self.fencing && !self.outbid
    }

    /// Has the streams promise.
    pub(super) fn fence(&mut self, ballot: Ballot) {
        self.fencing = true;
        self.events.push(ElectionEvent::Fence(ballot));
    }

    /// Moves the waiting messages out.
    pub fn drain(&mut self) -> std::vec::Drain<'_, (NodeId, ElectionMessage)> {
        self.out.drain(..)
    }

    /// Moves the waiting events out.
    pub fn events(&mut self) -> Vec<ElectionEvent> {
        std::mem::take(&mut self.events)
    }

    /// Sets the deadline to a timeout from now, and a random part of another.
    pub(super) fn wait(&mut self, now: Nanos) {
        self.spread = self.random_below(self.options.timeout);
        self.deadline = now + self.options.timeout + self.spread;
    }

    pub(super) fn broadcast(&mut self, message: ElectionMessage) {
        for node in &self.peers {
            self.out.push((*node, message.clone()));
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
