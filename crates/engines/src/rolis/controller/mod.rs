//! The controller: joins election, takeover, membership and state copies of one replica into one story.
//!
//! - **Birth.** Nodes greet each other. When all of them have met and none knows of a membership, the first one declares
//!   it ([`ControlMessage::Genesis`]). A node that meets one who knows of a membership has lost its memory: it becomes a learner.
//!   So a cluster forms only when all its members are up for the first time; two that lost their memory can never
//!   overrule one that did not.
//! - **Takeover.** See [`highwater_consensus::Election`] for how a candidate wins. Then: every worker takes its stream
//!   over and starts the new epoch in it; when every stream has entered the epoch and everything older is applied, it
//!   opens.
//! - **Change of membership.** The leader quiesces (everything it executed is released), then wins a new epoch that names
//!   the new members. There is no other path.
//! - **Copy.** [`crate::copy`].
//!
//! Each part keeps its own state and knows what comes next: [`Birth`], [`Leadership`], [`Admission`], [`Health`], [`Ledger`],
//! [`Receiver`] and [`Donor`]. What one part's news means for the others stands here, in `copies` and, in words, in `describe`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::{
    Election, ElectionEvent, ElectionOptions, Members, Promise, Quorums, Standing, Voter,
};
use highwater_core::codec::Reader;
use highwater_core::{Ballot, Epoch, Incarnation, NodeId, Schema, StreamId, Timestamp};
use highwater_store::Store;

use super::admission::Admission;
use super::birth::Birth;
use super::control::{ControlMessage, Granted};
use super::desk::Desk;
use super::health::{Health, hear_streams, watch_service};
use super::hooks;
use super::ledger::Ledger;
use super::messages::{Command, EpochStart, Report};
use super::shared::{Past, Shared};
use super::takeover::{Fenced, Leadership, PATIENCE, plan, promise};
use crate::copy::{Donor, Receiver};
use crate::memory::MemoryStatus;
use crate::options::Options;
use crate::seam::{ControlOutbox, Controller, Nanos, Next, Status};

mod copies;
mod describe;

/// The controller of a Rolis replica.
pub struct RolisController {
    desk: Desk,
    schema: Schema,
    store: Arc<Store>,
    election: Election,
    birth: Birth,
    health: Health,
    leadership: Leadership,
    admission: Admission,
    receiver: Receiver,
    donor: Donor,
    /// A learner with a complete store asks for its vote again at this time.
    ready_at: Nanos,
    /// The clock went back: this node does not stand before it has passed what it showed.
    clock_stands: Option<Timestamp>,
    ledger: Ledger,
    /// The newest membership that an earlier life wrote, until all of it is recovered.
    remembered: Option<Members>,
    /// Epoch of the newest membership that is written.
    written: Option<Epoch>,
}

fn election_options(options: &Options) -> ElectionOptions {
    ElectionOptions { nodes: options.nodes, heartbeat: options.heartbeat, timeout: options.election_timeout }
}

/// What a controller writes: a membership that is decided.
fn record(members: &Members) -> Bytes {
    let mut bytes = Vec::new();
    members.encode(&mut bytes);
    bytes.into()
}

impl RolisController {
    /// The controller of a fresh replica.
    pub fn new(shared: Arc<Shared>, schema: Schema, store: Arc<Store>) -> RolisController {
        let options = &shared.options;
        let election_options = election_options(options);
        let (seed, workers) = (options.seed, options.workers as usize);
        let desk = Desk::new(shared);
        RolisController {
            election: Election::new(desk.me, election_options, seed),
            schema,
            store,
            birth: Birth::default(),
            health: Health::new(workers),
            leadership: Leadership::default(),
            admission: Admission::default(),
            receiver: Receiver::new(seed),
            donor: Donor::default(),
            ready_at: 0,
            clock_stands: None,
            ledger: Ledger::default(),
            remembered: None,
            written: None,
            desk,
        }
    }

    // ---- birth ----

    fn on_hello(&mut self, now: Nanos, from: Voter, born: bool) {
        if self.birth.hear(from, born, self.election.members(), &mut self.desk) {
            self.try_genesis(now);
        }
    }

    /// If all nodes have met and none knows of a membership, the first one declares it.
    fn try_genesis(&mut self, now: Nanos) {
        if self.election.members().is_none()
            && let Some(members) = self.birth.first_members(&self.desk)
        {
            self.on_genesis(now, members);
            self.election.campaign(now);
        }
    }

    fn on_genesis(&mut self, now: Nanos, members: Members) {
        // Who holds data is no newborn, even if it does not know its membership any more: a leader will tell.
        let newborn = !self.birth.has_a_past() || members.epoch > Epoch(0);
        if newborn && self.election.members().is_none() && members.contains(self.desk.me) {
            self.desk.note(match members.epoch {
                Epoch(0) => format!("all {} nodes have met: the cluster is born", members.voters().len()),
                epoch => format!("the cluster was born without a word to this node, which votes in {epoch}"),
            });
            // Whoever knows tells all: who declared it may die before the last one hears of it.
            let me = self.desk.me.node;
            for voter in members.voters().iter().filter(|voter| voter.node != me) {
                self.desk.send(voter.node, ControlMessage::Genesis(members.clone()));
            }
            self.learn_members(now, members);
        }
    }

    /// Greets, while no membership is known; says when it wants to be called again.
    fn greet(&mut self, now: Nanos) -> Option<Nanos> {
        if self.election.members().is_some() {
            return None;
        }
        if self.birth.greet(now, &mut self.desk) {
            self.try_genesis(now);
        }
        Some(self.birth.next_at())
    }

    /// A membership is decided.
    fn learn_members(&mut self, now: Nanos, members: Members) {
        let newborn = self.election.members().is_none();
        self.election.set_members(now, members);
        self.birth.end();
        if newborn && !self.election.votes() {
            self.want_store(now);
        }
        self.refresh_eligibility();
    }

    /// A learner without a store: it copies one. With disks every log is whole, so it follows the log from its beginning.
    fn want_store(&mut self, now: Nanos) {
        if self.desk.shared.options.durable {
            self.desk.note(
                "this node does not vote: it reads what it lacks of the log, from its beginning, and asks to vote",
            );
            self.receiver.have_store();
        } else {
            self.desk.note("this node has lost its memory: it copies the state and asks to vote again");
            self.receiver.want(now);
        }
    }

    fn refresh_eligibility(&mut self) {
        let able = self.receiver.store_is_complete()
            && self.health.stuck(&self.desk.shared).is_none()
            && self.clock_stands.is_none();
        let eligible = self.election.votes() && able;
        self.election.set_eligible(eligible);
    }

    /// Writes the membership that the election knows, from wherever, unless it is written.
    fn remember_members(&mut self) {
        let Some(members) = self.election.members() else { return };
        if self.written.is_none_or(|written| written < members.epoch) {
            self.written = Some(members.epoch);
            self.desk.write(|| record(members));
        }
    }

    // ---- takeover ----

    fn on_election_events(&mut self, now: Nanos) {
        for event in self.election.events() {
            match event {
                ElectionEvent::Fence(ballot) => self.start_fence(now, ballot),
                ElectionEvent::Follow(ballot) => self.follow(now, ballot),
                ElectionEvent::Won { ballot, promises, quorums, members } => {
                    self.take_over(now, ballot, promises, quorums, members);
                }
            }
        }
    }

    fn start_fence(&mut self, now: Nanos, ballot: Ballot) {
        let foreign = ballot.node != self.desk.me.node;
        if self.leadership.leading().is_some_and(|leading| leading < ballot) {
            self.end_lead(now);
            if foreign {
                self.desk.note(format!("deposed by {ballot}"));
            }
        }
        if foreign {
            self.admission.end();
        }
        self.leadership.fence(ballot);
        self.desk.command_all(|_| Command::Fence(ballot));
    }

    fn on_fenced(&mut self, now: Nanos, ballot: Ballot, stream: StreamId, answer: Fenced) {
        let Some(answers) = self.leadership.fenced(ballot, stream, answer, self.desk.workers()) else {
            return;
        };
        // Read after every stream answered: a change that one of them saw decided in all is known here.
        if let Some(members) = self.desk.shared.watermark.members() {
            self.learn_members(now, members);
        }
        let Some(members) = self.election.members().cloned() else { return };
        self.election.fenced(now, promise(ballot, members, answers));
    }

    fn follow(&mut self, now: Nanos, ballot: Ballot) {
        self.desk.note(format!("following {} in {}", ballot.node, ballot.epoch));
        if let Some(members) = self.election.members().cloned() {
            // Learned from the heartbeat itself if this node knew none.
            self.learn_members(now, members);
        }
        if !self.election.votes() && !self.receiver.had_store() {
            self.want_store(now);
            self.refresh_eligibility();
        }
        if self.election.votes() || !self.receiver.must_not_follow() {
            self.desk.command_all(|_| Command::Follow(ballot));
        }
    }

    fn take_over(
        &mut self,
        now: Nanos,
        ballot: Ballot,
        promises: BTreeMap<Voter, Promise>,
        mut quorums: Quorums,
        latest: Members,
    ) {
        let high = promises.values().map(|promise| promise.above_all).max().expect("a quorum promised");
        let clock = &self.desk.shared.clock;
        if hooks::advances_clock() {
            clock.advance_past(high);
        }
        let base = clock.now();
        // A newcomer that is gone again would be a voter that never answers.
        let wanted = self.admission.admitted().filter(|voter| self.desk.peer(voter.node) == Some(*voter));
        let members = match wanted {
            Some(voter) => latest.with(ballot.epoch, voter),
            None => latest.in_epoch(ballot.epoch),
        };
        quorums.and(members.clone());
        self.desk.note(format!("won {ballot}: taking over with {members:?}"));
        hooks::takes_over(ballot.epoch);
        let start = EpochStart { members: members.clone(), base };
        let deadline = now + self.desk.timeouts(self.leadership.patience());
        self.leadership.take_over(ballot, members, deadline);
        self.desk.command_all(|stream| plan(ballot, stream, &promises, &quorums, &start));
    }

    fn on_ready(&mut self, now: Nanos, ballot: Ballot, stream: StreamId) {
        let ready = self.leadership.ready(ballot, stream, self.desk.workers());
        if !ready || self.election.promised() != ballot {
            return;
        }
        let members = self.leadership.open(ballot);
        self.learn_members(now, members.clone());
        self.admission.end();
        self.desk.shared.no_quorum.store(false, Ordering::Relaxed);
        self.desk.note(format!("leading {} with {members:?}", ballot.epoch));
        self.desk.command_all(|_| Command::Open { ballot, members: members.clone() });
    }

    /// Gives a takeover or the lead up: somebody else shall try.
    fn abandon(&mut self, now: Nanos, why: &str) {
        self.desk.note(format!("giving up the lead: {why}"));
        self.leadership.stop_taking_over();
        self.end_lead(now);
        self.admission.end();
        self.election.abandon(now);
    }

    fn end_lead(&mut self, now: Nanos) {
        if self.leadership.end() {
            let quorum = self.election.quorum_heard(now, self.desk.silence());
            self.health.lead_ends(&self.desk.shared, quorum);
        }
    }

    fn leads(&self) -> bool {
        self.leadership.leading().is_some()
    }

    // ---- health ----

    /// Reads what the workers show: whom they heard, and how they are.
    fn feel_pulses(&mut self, now: Nanos) {
        hear_streams(&mut self.election, &self.desk);
        let felt = self.health.feel(now, self.leads(), &self.election, &mut self.desk);
        if felt.stuck_changed {
            self.refresh_eligibility();
        }
        if let Some((sound, why)) = felt.verdict {
            self.desk.note(why);
            self.election.set_sound(sound);
        }
    }

    /// A worker cannot draw a timestamp. Another node can: clocks of different nodes are not compared, and its epoch's
    /// timestamps exceed all of this one's.
    fn on_clock_stands(&mut self, now: Nanos, least: Timestamp) {
        self.clock_stands = self.clock_stands.max(Some(least));
        if self.leads() || self.leadership.takes_over() {
            self.abandon(now, &format!("the clock went back below {least} and does not move past it"));
        }
        self.refresh_eligibility();
    }

    fn watch_clock(&mut self) {
        if self.clock_stands.is_some_and(|least| self.desk.shared.clock.now() > least) {
            self.clock_stands = None;
            self.desk.note("the clock has passed what it showed before: this node may lead again");
            self.refresh_eligibility();
        }
    }

    fn watch_deadlines(&mut self, now: Nanos) {
        if self.leadership.is_late(now) {
            self.abandon(now, "the takeover takes too long");
        }
        if self.admission.is_late(now) {
            self.admission.end();
            self.desk.note("the change of membership takes too long: going on without it");
            self.desk.command_all(|_| Command::Resume);
        }
        if self.leads() && hooks::steps_down() {
            self.abandon(now, "for no reason");
        }
    }

    // ---- change of membership ----

    fn on_learner_ready(&mut self, now: Nanos, from: Voter) {
        let votes = self.election.members().is_some_and(|members| members.contains(from));
        let free = self.leads() && !self.admission.is_under_way() && !self.leadership.takes_over();
        if votes || !free {
            return;
        }
        self.desk.note(format!("{from:?} has caught up: changing the epoch to let it vote"));
        self.admission.begin(from, now + self.desk.timeouts(PATIENCE));
        self.desk.command_all(|_| Command::Quiesce);
    }

    fn on_quiesced(&mut self, now: Nanos, stream: StreamId) {
        if self.admission.quiesced(stream, self.desk.workers()) {
            self.election.campaign(now);
            if self.election.standing() != Standing::Preparing {
                // A worker is stuck, say: this node may not stand now. The learner asks again.
                self.admission.end();
                self.desk.command_all(|_| Command::Resume);
            }
        }
    }

    // ---- memory ----

    /// What this node's store uses, and its logs if they are kept for good; and whether it holds no data, nor is about to.
    fn used(&self) -> (u64, bool) {
        (self.store.used() + self.kept_log_bytes(), !self.election.votes() && self.receiver.must_not_follow())
    }

    fn kept_log_bytes(&self) -> u64 {
        let durable = self.desk.shared.options.durable;
        if durable { self.streams().iter().map(|stream| stream.log_bytes).sum() } else { 0 }
    }

    // ---- the workers' reports ----

    fn on_report(&mut self, now: Nanos, report: Report) {
        match report {
            Report::Fenced { ballot, stream, tail, pending, high } => {
                self.on_fenced(now, ballot, stream, Fenced { tail, pending, high });
            }
            Report::Met(ballot) => self.election.met(now, ballot),
            Report::TakeOverFailed(ballot) => {
                if self.leadership.takes_over_under(ballot) {
                    self.abandon(now, "the log that must be adopted is no longer kept");
                }
            }
            Report::Ready { ballot, stream } => self.on_ready(now, ballot, stream),
            Report::Entered(_) => {
                if let Some(members) = self.desk.shared.watermark.members() {
                    self.learn_members(now, members);
                }
            }
            Report::ClockStands { least } => self.on_clock_stands(now, least),
            Report::Quiesced(stream) => self.on_quiesced(now, stream),
            Report::Parked(stream, members) => self.on_parked(now, stream, members),
            Report::TooFar(stream) => self.on_too_far(now, stream),
            Report::Located { copy, stream, start } => self.on_located(copy, stream, start),
            Report::Copied { copy, stream, complete_at } => self.on_copied(copy, stream, complete_at),
            Report::CopyRefused(copy) => self.refuse_copy(copy),
            Report::CopyStalled { copy } => self.on_copy_stalled(now, copy),
        }
    }
}

impl Controller for RolisController {
    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation) {
        self.desk.peer_changed(peer, Some(incarnation));
        let born = self.election.members().is_some() || self.birth.has_a_past();
        self.desk.send(peer, ControlMessage::Hello { born });
        self.ledger.peer_up(peer);
        self.ledger.tell(peer, self.used(), &mut self.desk);
        self.copy_peer_changed(now, peer);
    }

    fn peer_down(&mut self, now: Nanos, peer: NodeId, refused: bool) {
        self.desk.peer_changed(peer, None);
        self.birth.peer_down(peer);
        self.election.peer_down(now, peer, refused);
        self.copy_peer_changed(now, peer);
    }

    fn deliver(&mut self, now: Nanos, from: NodeId, message: Bytes) {
        let (Some(sender), Ok(message)) = (self.desk.peer(from), ControlMessage::decode(&message)) else {
            return;
        };
        match message {
            ControlMessage::Election(message) => {
                hear_streams(&mut self.election, &self.desk);
                self.election.deliver(now, sender, message);
            }
            ControlMessage::Hello { born } => self.on_hello(now, sender, born),
            ControlMessage::Genesis(members) => self.on_genesis(now, members),
            ControlMessage::CopyRequest { copy } => self.on_copy_request(sender, copy),
            ControlMessage::CopyGrant { copy, epoch, members, floor, starts } => {
                self.on_copy_grant(now, from, copy, Granted { epoch, members, floor, starts })
            }
            ControlMessage::CopyRefuse { copy } => self.on_copy_stalled(now, copy),
            ControlMessage::CopyFinished { copy } => self.stop_serving(from, Some(copy)),
            ControlMessage::Memory(told) => self.ledger.hear(sender, told),
            ControlMessage::LearnerReady => self.on_learner_ready(now, sender),
        }
    }

    fn recover(&mut self, record: Bytes) -> Result<(), String> {
        let mut reader = Reader::new(&record);
        let members = Members::decode(&mut reader).ok().filter(|_| reader.is_empty());
        let members = members.ok_or("a record of the controller's that is no membership")?;
        let newer = self.remembered.as_ref().is_none_or(|known| known.epoch < members.epoch);
        if newer {
            self.remembered = Some(members);
        }
        Ok(())
    }

    fn recovered(&mut self, now: Nanos) {
        let Past { promised, members, holds } = self.desk.shared.past();
        let options = &self.desk.shared.options;
        self.election = Election::recover(self.desk.me, election_options(options), options.seed, promised);
        // What the controller wrote may have been lost with the power, and be in the log.
        let known = self.remembered.take().into_iter().chain(members).max_by_key(|members| members.epoch);
        if holds {
            self.birth.remember_a_past();
        }
        if let Some(members) = known {
            self.written = Some(members.epoch);
            self.birth.end();
            self.election.set_members(now, members);
        }
        self.refresh_eligibility();
    }

    fn turn(&mut self, now: Nanos, out: &mut ControlOutbox) -> Next {
        for report in self.desk.shared.clone().reports.take() {
            hooks::controls();
            self.on_report(now, report);
        }
        self.watch_clock();
        self.feel_pulses(now);
        hooks::controls();
        let mut next = [self.election.tick(now), self.greet(now), self.turn_receiving(now)];
        hooks::controls();
        self.on_election_events(now);
        hooks::controls();
        self.watch_deadlines(now);
        if self.leads() {
            watch_service(now, &self.election, &mut self.desk);
        }
        self.desk.shared.set_leader(self.known_leader(now));
        let kept = self.kept_log_bytes();
        self.ledger.turn(now, self.used(), kept, self.election.members(), &mut self.desk);
        if self.leadership.takes_over() || self.admission.is_under_way() {
            let soon = now + self.desk.shared.options.heartbeat;
            next[1] = Some(next[1].unwrap_or(Nanos::MAX).min(soon));
        }
        self.remember_members();
        self.desk.hand_out(out);
        out.messages.extend(
            self.election.drain().map(|(to, message)| (to, ControlMessage::Election(message).encode())),
        );
        next.into_iter().flatten().min().map_or(Next::Idle, Next::At)
    }

    fn status(&self, now: Nanos) -> Status {
        self.describe(now)
    }

    fn memory(&self) -> MemoryStatus {
        let shares = self.desk.shared.options.shares().expect("the host validated the options");
        let logs = self.streams().iter().map(|stream| stream.log_bytes).sum();
        MemoryStatus { shares, used: self.store.used(), logs, most: self.desk.shared.account.most() }
    }

    fn store(&self) -> Arc<Store> {
        self.store.clone()
    }
}
