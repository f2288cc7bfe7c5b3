//! The controller: joins election, takeover, membership and state copies of one replica into one story.
//!
//! - **Birth.** Nodes greet each other. When all of them have met and none knows of a membership, the first one declares
//!   it ([`Control::Genesis`]). A node that meets one who knows of a membership has lost its memory: it becomes a learner.
//!   So a cluster forms only when all its members are up for the first time; two that lost their memory can never
//!   overrule one that did not.
//! - **Takeover.** See [`highwater_consensus::Election`] for how a candidate wins. Then: every worker takes its stream
//!   over and starts the new epoch in it; when every stream has entered the epoch and everything older is applied, it
//!   opens.
//! - **Change of membership.** The leader quiesces (everything it executed is released), then wins a new epoch that names
//!   the new members. There is no other path.
//! - **Copy.** [`super::rejoin`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use highwater_consensus::{Election, ElectionOptions, Members, Standing, Voter};
use highwater_core::hooks::{self, Point, Site};
use highwater_core::{Ballot, Epoch, Incarnation, NodeId, Schema, StreamId, Timestamp};
use highwater_store::Store;

use super::control::Control;
use super::health::Health;
use super::ledger::Ledger;
use super::rejoin::{Grant, Rejoin};
use super::shared::{Command, Report, Shared};
use super::takeover::{Fence, TakeOver};
use crate::memory::{MemoryStatus, Shares};
use crate::seam::{ControlOutbox, Controller, Nanos, Next, Status};

/// The controller of a Rolis replica.
pub struct RolisController {
    pub(super) shared: Arc<Shared>,
    pub(super) schema: Schema,
    pub(super) store: Arc<Store>,
    pub(super) me: Voter,
    pub(super) election: Election,
    /// Which life of each peer is connected.
    pub(super) peers: BTreeMap<NodeId, Incarnation>,
    /// Peers that said hello without knowing of a membership.
    pub(super) unborn: BTreeSet<Voter>,
    pub(super) hello_at: Nanos,
    /// Who said that the cluster lives, while this node knows of no membership.
    pub(super) living_cluster: Option<NodeId>,
    pub(super) health: Health,
    /// The workers are in order: what heartbeats vouch for.
    pub(super) sound: bool,
    /// Takeovers in a row that took too long.
    pub(super) given_up: u32,
    pub(super) fence: Option<Fence>,
    pub(super) takeover: Option<TakeOver>,
    /// The ballot under which this node leads, once the epoch is open.
    pub(super) leading: Option<Ballot>,
    pub(super) change: Option<Change>,
    pub(super) rejoin: Rejoin,
    /// The clock went back: this node does not stand before it has passed what it showed.
    pub(super) clock_stands: Option<Timestamp>,
    pub(super) ledger: Ledger,
    pub(super) out: Vec<(NodeId, Control)>,
    pub(super) events: Vec<String>,
    pub(super) wake_workers: bool,
}

/// A change of membership under way: the leader quiesces first.
pub(super) struct Change {
    pub(super) voter: Voter,
    pub(super) quiesced: BTreeSet<StreamId>,
    pub(super) campaigning: bool,
    pub(super) deadline: Nanos,
}

/// How often a node without a membership greets.
const HELLO_EVERY: Nanos = 100_000_000;
/// A takeover or a change that takes longer than this many election timeouts is given up.
pub(super) const PATIENCE: u64 = 10;

impl RolisController {
    /// The controller of a fresh replica.
    pub fn new(shared: Arc<Shared>, schema: Schema, store: Arc<Store>) -> RolisController {
        let options = &shared.options;
        let me = Voter { node: options.node, incarnation: options.incarnation };
        let election_options = ElectionOptions {
            nodes: options.nodes,
            heartbeat: options.heartbeat,
            timeout: options.election_timeout,
        };
        RolisController {
            election: Election::new(me, election_options, options.seed),
            schema,
            store,
            me,
            peers: BTreeMap::new(),
            unborn: BTreeSet::new(),
            hello_at: 0,
            living_cluster: None,
            health: Health::new(options.workers as usize),
            sound: true,
            given_up: 0,
            fence: None,
            takeover: None,
            leading: None,
            change: None,
            rejoin: Rejoin::new(options.seed),
            clock_stands: None,
            ledger: Ledger::default(),
            out: Vec::new(),
            events: Vec::new(),
            wake_workers: false,
            shared,
        }
    }

    pub(super) fn command_all(&mut self, mut command: impl FnMut(StreamId) -> Command) {
        for (at, mailbox) in self.shared.commands.iter().enumerate() {
            hooks::point(Point::Control);
            mailbox.put(command(StreamId(at as u16)));
        }
        self.wake_workers = true;
    }

    pub(super) fn workers(&self) -> usize {
        self.shared.options.workers as usize
    }

    pub(super) fn voter(&self, node: NodeId) -> Option<Voter> {
        self.peers.get(&node).map(|incarnation| Voter { node, incarnation: *incarnation })
    }

    // ---- birth ----

    fn on_hello(&mut self, now: Nanos, from: Voter, born: bool) {
        if !born && self.election.members().is_none() {
            self.unborn.retain(|known| known.node != from.node);
            self.unborn.insert(from);
            self.try_genesis(now);
        } else if born {
            self.unborn.clear();
            self.living_cluster = Some(from.node);
        } else {
            // The sender lost its memory: our hello tells it that the cluster exists, the leader's heartbeat the rest. Or
            // this very life of it votes, and does not know: there may be no leader until it does.
            self.out.push((from.node, Control::Hello { born: true }));
            if let Some(members) = self.election.members()
                && members.contains(from)
            {
                self.out.push((from.node, Control::Genesis(members.clone())));
            }
        }
    }

    /// If all nodes have met and none knows of a membership, the first one declares it.
    fn try_genesis(&mut self, now: Nanos) {
        let all = self.unborn.len() + 1 == self.shared.options.nodes as usize;
        if all && self.me.node == NodeId(0) && self.election.members().is_none() {
            let members = Members::new(Epoch(0), self.unborn.iter().copied().chain([self.me]).collect());
            self.on_genesis(now, members);
            self.election.campaign(now);
        }
    }

    fn on_genesis(&mut self, now: Nanos, members: Members) {
        if self.election.members().is_none() && members.contains(self.me) {
            self.events.push(match members.epoch {
                Epoch(0) => format!("all {} nodes have met: the cluster is born", members.voters().len()),
                epoch => format!("the cluster was born without a word to this node, which votes in {epoch}"),
            });
            // Whoever knows tells all: who declared it may die before the last one hears of it.
            for node in members.voters().iter().map(|voter| voter.node).filter(|node| *node != self.me.node) {
                self.out.push((node, Control::Genesis(members.clone())));
            }
            self.learn_members(now, members);
        }
    }

    /// A membership is decided.
    pub(super) fn learn_members(&mut self, now: Nanos, members: Members) {
        let newborn = self.election.members().is_none();
        self.election.set_members(now, members);
        self.living_cluster = None;
        if newborn && !self.election.votes() {
            self.events
                .push("this node has lost its memory: it copies the state and asks to vote again".into());
            self.rejoin.want(now);
        }
        self.refresh_eligibility();
    }

    pub(super) fn refresh_eligibility(&mut self) {
        let able = self.rejoin.store_is_complete()
            && self.health.stuck(&self.shared).is_none()
            && self.clock_stands.is_none();
        let eligible = self.election.votes() && able;
        self.election.set_eligible(eligible);
    }

    // ---- the clock ----

    /// A worker cannot draw a timestamp. Another node can: clocks of different nodes are not compared, and its epoch's
    /// timestamps exceed all of this one's.
    fn on_clock_stands(&mut self, now: Nanos, least: Timestamp) {
        self.clock_stands = self.clock_stands.max(Some(least));
        if self.leading.is_some() || self.takeover.is_some() {
            self.abandon(now, &format!("the clock went back below {least} and does not move past it"));
        }
        self.refresh_eligibility();
    }

    fn watch_clock(&mut self) {
        if self.clock_stands.is_some_and(|least| self.shared.clock.now() > least) {
            self.clock_stands = None;
            self.events.push("the clock has passed what it showed before: this node may lead again".into());
            self.refresh_eligibility();
        }
    }

    // ---- change of membership ----

    fn on_learner_ready(&mut self, now: Nanos, from: Voter) {
        let votes = self.election.members().is_some_and(|members| members.contains(from));
        if votes || self.leading.is_none() || self.change.is_some() || self.takeover.is_some() {
            return;
        }
        self.events.push(format!("{from:?} has caught up: changing the epoch to let it vote"));
        let deadline = now + PATIENCE * self.shared.options.election_timeout;
        self.change = Some(Change { voter: from, quiesced: BTreeSet::new(), campaigning: false, deadline });
        self.command_all(|_| Command::Quiesce);
    }

    fn on_quiesced(&mut self, now: Nanos, stream: StreamId) {
        let workers = self.workers();
        let Some(change) = &mut self.change else { return };
        change.quiesced.insert(stream);
        if change.quiesced.len() == workers && !change.campaigning {
            change.campaigning = true;
            self.election.campaign(now);
            if self.election.standing() != Standing::Preparing {
                // A worker is stuck, say: this node may not stand now. The learner asks again.
                self.change = None;
                self.command_all(|_| Command::Resume);
            }
        }
    }

    fn watch_deadlines(&mut self, now: Nanos) {
        if self.takeover.as_ref().is_some_and(|takeover| now >= takeover.deadline) {
            self.given_up += 1;
            self.abandon(now, "the takeover takes too long");
        }
        if self.change.as_ref().is_some_and(|change| !change.campaigning && now >= change.deadline) {
            self.change = None;
            self.events.push("the change of membership takes too long: going on without it".into());
            self.command_all(|_| Command::Resume);
        }
        // Legal: as if its heartbeats were lost for a while.
        if self.leading.is_some() && hooks::buggify(Site::StepDown) {
            self.abandon(now, "for no reason");
        }
    }

    fn greet(&mut self, now: Nanos) -> Option<Nanos> {
        if self.election.members().is_some() {
            return None;
        }
        if now >= self.hello_at {
            self.hello_at = now + HELLO_EVERY;
            let peers: Vec<NodeId> = self.peers.keys().copied().collect();
            self.out.extend(peers.into_iter().map(|node| (node, Control::Hello { born: false })));
            self.try_genesis(now);
        }
        Some(self.hello_at)
    }

    fn on_report(&mut self, now: Nanos, report: Report) {
        match report {
            Report::Fenced { ballot, stream, tail, pending, high } => {
                self.on_fenced(now, ballot, stream, (tail, pending, high));
            }
            Report::Met(ballot) => self.election.met(now, ballot),
            Report::TakeOverFailed(ballot) => {
                if self.takeover.as_ref().is_some_and(|takeover| takeover.ballot == ballot) {
                    self.abandon(now, "the log that must be adopted is no longer kept");
                }
            }
            Report::Ready { ballot, stream } => self.on_ready(now, ballot, stream),
            Report::Entered(_) => {
                if let Some(members) = self.shared.progress.members() {
                    self.learn_members(now, members);
                }
            }
            Report::ClockStands { least } => self.on_clock_stands(now, least),
            Report::Quiesced(stream) => self.on_quiesced(now, stream),
            Report::Parked(stream, members) => self.on_parked(now, stream, members),
            Report::TooFar(stream) => self.on_too_far(now, stream),
            Report::Located { receiver, copy, stream, start } => {
                self.on_located(receiver, copy, stream, start)
            }
            Report::Copied { copy, stream, complete_at } => self.on_copied(copy, stream, complete_at),
            Report::CopyRefused { receiver, copy } => self.refuse_copy(receiver, copy),
            Report::CopyStalled { copy } => self.on_copy_stalled(now, copy),
        }
    }
}

impl Controller for RolisController {
    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation) {
        self.peers.insert(peer, incarnation);
        let born = self.election.members().is_some();
        self.out.push((peer, Control::Hello { born }));
        self.tell_memory(peer);
        self.copy_peer_changed(now, peer);
    }

    fn peer_down(&mut self, now: Nanos, peer: NodeId, refused: bool) {
        self.peers.remove(&peer);
        self.unborn.retain(|voter| voter.node != peer);
        self.election.peer_down(now, peer, refused);
        self.copy_peer_changed(now, peer);
    }

    fn deliver(&mut self, now: Nanos, from: NodeId, message: Bytes) {
        let (Some(sender), Ok(message)) = (self.voter(from), Control::decode(&message)) else { return };
        match message {
            Control::Election(message) => {
                self.hear_streams();
                self.election.deliver(now, sender, message);
            }
            Control::Hello { born } => self.on_hello(now, sender, born),
            Control::Genesis(members) => self.on_genesis(now, members),
            Control::CopyRequest { copy } => self.on_copy_request(sender, copy),
            Control::CopyGrant { copy, epoch, members, floor, starts } => {
                self.on_copy_grant(now, from, copy, Grant { epoch, members, floor, starts })
            }
            Control::CopyRefuse { copy } => self.on_copy_stalled(now, copy),
            Control::CopyFinished { copy } => self.stop_serving(from, Some(copy)),
            Control::Memory(told) => self.ledger.hear(sender, told),
            Control::LearnerReady => self.on_learner_ready(now, sender),
        }
    }

    fn turn(&mut self, now: Nanos, out: &mut ControlOutbox) -> Next {
        for report in self.shared.clone().reports.take() {
            hooks::point(Point::Control);
            self.on_report(now, report);
        }
        self.watch_clock();
        self.feel_pulses(now);
        hooks::point(Point::Control);
        let mut next = [self.election.tick(now), self.greet(now), self.turn_rejoining(now)];
        hooks::point(Point::Control);
        self.on_election_events(now);
        hooks::point(Point::Control);
        self.watch_deadlines(now);
        self.watch_service(now);
        self.shared.set_leader(self.known_leader(now));
        self.turn_memory(now);
        if self.takeover.is_some() || self.change.is_some() {
            next[1] = Some(next[1].unwrap_or(Nanos::MAX).min(now + self.shared.options.heartbeat));
        }
        out.messages.extend(self.out.drain(..).map(|(to, message)| (to, message.encode())));
        out.messages
            .extend(self.election.drain().map(|(to, message)| (to, Control::Election(message).encode())));
        out.events.append(&mut self.events);
        out.wake_workers |= std::mem::take(&mut self.wake_workers);
        next.into_iter().flatten().min().map_or(Next::Idle, Next::At)
    }

    fn status(&self, now: Nanos) -> Status {
        self.describe(now)
    }

    fn memory(&self) -> MemoryStatus {
        let shares = Shares::of(&self.shared.options).expect("the host validated the options");
        let logs = self.streams().iter().map(|stream| stream.log_bytes).sum();
        MemoryStatus { shares, used: self.store.used(), logs, most: self.shared.account.most() }
    }

    fn store(&self) -> Arc<Store> {
        self.store.clone()
    }
}
