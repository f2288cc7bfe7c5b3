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
//! - **Hand-over.** The leader quiesces and has another node stand: [`HandOver`].
//! - **Levels.** What all members can read, the leader allows everybody to write: [`Raising`].
//! - **Copy.** [`highwater_kit::copy`].
//!
//! Each part keeps its own state and knows what comes next: `Birth`, `Leadership`, `Admission`, [`Health`], `Ledger`,
//! [`HandOver`], `Stores`, [`Raising`], [`Receiver`] and [`Donor`]. What one part's news means for the others stands here, in `birth`, `takeover`,
//! `admission`, `handover`, `copies`, `checkpoints`, `disks` and, in words, in `describe`.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::{Election, ElectionOptions, Members};
use highwater_core::codec::Reader;
use highwater_core::{Epoch, Incarnation, Level, Levels, NodeId, Schema, StreamId, Timestamp};
use highwater_kit::copy::{Donor, Receiver};
use highwater_kit::witness::Witness;
use highwater_seam::memory::MemoryStatus;
use highwater_seam::options::Options;
use highwater_seam::{
    CheckpointNews, ControlOutbox, Controller, DiskState, Handover, LogPosition, MemberAnswer, MemberChange,
    Nanos, Next, Resume, Status,
};
use highwater_store::Store;

use crate::control::{ControlMessage, Granted};
use crate::desk::Desk;
use crate::disk::checkpoint::Checkpointing;
use crate::disk::disk_room::DiskRoom;
use crate::disk::founded::Founded;
use crate::disk::moment::{Moment, Timekeeper};
use crate::hooks;
use crate::members::admission::Admission;
use crate::members::birth::Birth;
use crate::members::handover::HandOver;
use crate::members::health::{Health, hear_streams, watch_service};
use crate::members::ledger::Ledger;
use crate::members::raising::{self, Raising};
use crate::members::stores::Stores;
use crate::members::takeover::{Fenced, Leadership};
use crate::messages::{Command, Report};
use crate::pulse::Pulse;
use crate::shared::{Past, Shared};

mod admission;
mod birth;
mod checkpoints;
mod copies;
mod describe;
mod disks;
mod handover;
#[cfg(test)]
mod late;
mod takeover;

/// The controller of a replica whose workers keep logs.
pub struct LogController {
    desk: Desk,
    schema: Schema,
    store: Arc<Store>,
    election: Election,
    birth: Birth,
    health: Health,
    leadership: Leadership,
    admission: Admission,
    handing: HandOver,
    /// Whoever wins the epoch that was promised last is waited for until then.
    awaits_leader: Nanos,
    /// How often the workers were asked to be quiet.
    quiets: u64,
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
    checkpointing: Checkpointing,
    /// What the workers may forget once it is published.
    released: Vec<LogPosition>,
    /// Where what this controller wrote once more for a checkpoint begins and ends.
    written_anew: (LogPosition, LogPosition),
    disk_room: DiskRoom,
    timekeeper: Timekeeper,
    /// This node's.
    disk: DiskState,
    /// What it knows of the others'.
    witness: Witness,
    /// Nodes whose builds tell, and read, no more of a disk than its newest start.
    short_words: BTreeSet<NodeId>,
    /// Its disk is older than what it told, or holds what the cluster lost.
    stale: bool,
    /// The newest membership that was looked at for what the cluster lost.
    examined: Option<Members>,
    /// Streams that have caught up with what an earlier process may have accepted.
    recalled: BTreeSet<StreamId>,
    /// Reports of workers that were not looked at yet.
    reports: VecDeque<Report>,
    stores: Stores,
    raising: Raising,
    /// The membership that the host was told of last, and whether that is all it has to know.
    enrolled: (Option<Members>, bool),
    /// Another node said that this one was removed.
    told_removed: bool,
}

fn election_options(options: &Options) -> ElectionOptions {
    // Peers are told of when they are met.
    ElectionOptions { nodes: 0, heartbeat: options.heartbeat, timeout: options.election_timeout }
}

impl LogController {
    /// The controller of a fresh replica.
    pub fn new(shared: Arc<Shared>, schema: Schema, store: Arc<Store>) -> LogController {
        let options = &shared.options;
        let election_options = election_options(options);
        let (seed, workers) = (options.seed, options.workers as usize);
        let desk = Desk::new(shared);
        let mut election = Election::new(desk.me, election_options, seed);
        election.set_forgets(desk.shared.options.forgets);
        LogController {
            election,
            schema,
            store,
            birth: Birth::with_a_past(desk.shared.options.has_a_past),
            health: Health::new(workers),
            leadership: Leadership::default(),
            admission: Admission::default(),
            handing: HandOver::default(),
            awaits_leader: 0,
            quiets: 0,
            receiver: Receiver::new(seed),
            donor: Donor::default(),
            ready_at: 0,
            clock_stands: None,
            ledger: Ledger::default(),
            remembered: None,
            written: None,
            checkpointing: Checkpointing::default(),
            released: Vec::new(),
            written_anew: Default::default(),
            disk_room: DiskRoom::default(),
            timekeeper: Timekeeper::default(),
            disk: DiskState::default(),
            witness: Witness::default(),
            short_words: BTreeSet::new(),
            stale: false,
            examined: None,
            recalled: BTreeSet::new(),
            reports: VecDeque::new(),
            stores: Stores::default(),
            raising: Raising::default(),
            enrolled: (None, false),
            told_removed: false,
            desk,
        }
    }

    // ---- health ----

    /// Reads what the workers show: whom they heard, and how they are.
    fn feel_pulses(&mut self, now: Nanos) {
        hear_streams(&mut self.election, &self.desk);
        self.health.feel(now, &self.election, &mut self.desk);
        self.leave_hung_disk(now);
        let stands = (self.leads(), self.handing.is_under_way());
        let felt = self.health.judge(now, stands, &self.election, &self.desk);
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

    /// Whether anything is under way here, for clients or for the cluster.
    fn is_busy(&self) -> bool {
        let changes = self.leadership.takes_over() || self.admission.is_under_way();
        let leaves = self.handing.is_under_way() || self.handing.retires();
        changes || leaves || self.desk.shared.pulses.iter().any(Pulse::is_busy)
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
        if self.leads() && hooks::hands_over_unasked() {
            // It may be refused, as an operator would be.
            let _ = self.begin_hand_over(now, None);
        }
    }

    // ---- memory ----

    /// What this node's store uses; and whether it holds no data, nor is about to.
    fn used(&self) -> (u64, bool) {
        (self.store.used(), !self.election.votes() && self.receiver.must_not_follow())
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
                if let Some(members) = self.desk.shared.progress.members() {
                    self.learn_members(now, members);
                }
            }
            Report::ClockStands { least } => self.on_clock_stands(now, least),
            Report::Quiesced(stream, round) => self.on_quiesced(now, stream, round),
            Report::Parked { parking, stream, members } => self.on_parked(now, parking, stream, members),
            Report::TooFar { stream, store } => self.on_too_far(now, stream, store),
            Report::CopyEnded { copy, stream } => self.on_copy_ended(copy, stream),
            Report::Located { copy, stream, start } => self.on_located(copy, stream, start),
            Report::Copied { copy, stream, complete_at } => self.on_copied(copy, stream, complete_at),
            Report::Recalled(stream) => self.on_recalled(stream),
            Report::Unreadable(from, level) => self.raising.cannot_read(from, level, &mut self.desk),
            Report::CopyRefused(copy) => self.refuse_copy(copy),
            Report::CopyStalled { copy } => self.on_copy_stalled(now, copy),
            Report::CheckpointFrom { number, stream, located } => {
                self.on_checkpoint_from(now, number, stream, located)
            }
            Report::CheckpointSettled { number, stream, decided } => {
                self.on_checkpoint_settled(now, number, stream, decided)
            }
        }
    }
}

impl Controller for LogController {
    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation, levels: Levels) {
        self.desk.peer_changed(peer, Some(incarnation));
        self.election.peer_up(peer);
        let born = self.election.members().is_some() || self.birth.has_a_past();
        self.desk.send(peer, ControlMessage::Hello { born });
        self.stores.peer_up(peer, &mut self.desk);
        self.raising.peer_up(peer, levels, &mut self.desk);
        self.ledger.peer_up(peer);
        self.tell_disk(peer);
        self.ledger.tell(peer, self.used(), self.disk_room.low, &mut self.desk);
        self.copy_peer_changed(now, peer);
    }

    fn peer_down(&mut self, now: Nanos, peer: NodeId, refused: bool) {
        self.desk.peer_changed(peer, None);
        self.birth.peer_down(peer);
        self.raising.peer_down(peer);
        self.election.peer_down(now, peer, refused);
        if refused {
            self.handing.ended(now, peer);
        }
        self.copy_peer_changed(now, peer);
    }

    fn deliver(&mut self, now: Nanos, from: NodeId, message: Bytes) {
        let (Some(sender), Ok(message)) = (self.desk.peer(from), ControlMessage::read(&message)) else {
            return;
        };
        if self.turns_away(sender, &message) {
            return;
        }
        match message {
            ControlMessage::Election(_) if !self.may_vote() => {}
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
            ControlMessage::HandOver(message) => self.on_hand_over(now, sender, message),
            ControlMessage::Disk(word) => {
                self.short_words.remove(&from);
                self.on_disk(sender, &word);
            }
            ControlMessage::DiskInShort(word) => {
                // Its build asks no more of this node's disk either. A build that tells all of its starts never says this first.
                self.short_words.insert(from);
                self.on_disk(sender, &word);
            }
            ControlMessage::DiskJudged { start, stale } => self.on_disk_judged(sender, start, stale),
            ControlMessage::Store { complete } => self.stores.hear(sender, complete),
            ControlMessage::Membership(members) => self.on_membership(now, members),
            ControlMessage::Level(level) => self.raising.hear(from, level, &mut self.desk),
        }
    }

    fn recover(&mut self, record: Bytes) -> Result<(), String> {
        self.desk.recover(&record);
        if let Some(founded) = Founded::decode(&record).map_err(|why| why.0)? {
            let resumed = self.desk.shared.resumed();
            return founded.check(resumed.map(|resumed| resumed.complete_at));
        }
        if let Some(level) = raising::decode(&record).map_err(|why| why.0)? {
            return self.desk.shared.raise_by_disk(level);
        }
        if self.witness.recover(&record).map_err(|why| why.0)?
            || Moment::decode(&record).map_err(|why| why.0)?.is_some()
        {
            return Ok(());
        }
        let mut reader = Reader::new(&record);
        let members = Members::decode(&mut reader).ok().filter(|_| reader.is_empty());
        let members = members.ok_or("a record of the controller's that is no membership")?;
        let newer = self.remembered.as_ref().is_none_or(|known| known.epoch < members.epoch);
        if newer {
            self.remembered = Some(members);
        }
        Ok(())
    }

    fn resume(&mut self, from: Resume<'_>) -> Result<(), String> {
        self.resume_from(from)
    }

    fn recovered(&mut self, now: Nanos) {
        let Past { promised, members, holds, lost_store } = self.desk.shared.past();
        let options = &self.desk.shared.options;
        self.election = Election::recover(self.desk.me, election_options(options), options.seed, promised);
        self.election.set_forgets(options.forgets);
        self.witness.come_back();
        self.desk.belong();
        self.desk.shared.uncleared.store(true, Ordering::Relaxed);
        // What the controller wrote may have been lost with the power, and be in the log.
        self.examined.clone_from(&self.remembered);
        let known = self.remembered.take().into_iter().chain(members).max_by_key(|members| members.epoch);
        if holds {
            self.birth.remember_a_past();
        }
        if let Some(members) = known {
            self.written = Some(members.epoch);
            self.birth.end();
            self.election.set_members(now, members);
        }
        if lost_store {
            self.desk.note("the log on this node's disk begins behind its store: it copies the state");
            self.lose_store(now);
        } else if let Some(resumed) = self.desk.shared.resumed() {
            self.receiver.resume(resumed.complete_at);
        } else if self.election.votes() {
            self.be_born();
        }
        self.desk.shared.resume(None);
        self.refresh_eligibility();
    }

    fn checkpoint(&mut self, now: Nanos, news: CheckpointNews) {
        self.on_checkpoint_news(now, news);
    }

    fn copies_state(&self) -> bool {
        self.receiver.copies()
    }

    fn keeps_store(&self) -> bool {
        self.checkpointing.keeps_store()
    }

    fn set_disk(&mut self, disk: DiskState) {
        self.disk_room.low = disk.low;
        self.disk = disk;
    }

    fn set_wall_clock(&mut self, unix_ms: u64) {
        self.timekeeper.set(unix_ms);
    }

    fn turn(&mut self, now: Nanos, out: &mut ControlOutbox) -> Next {
        self.reports.extend(self.desk.shared.reports.take());
        while !self.reports.is_empty() && !hooks::hears_late() {
            hooks::controls();
            let report = self.reports.pop_front().expect("there is one");
            self.on_report(now, report);
        }
        self.watch_clock();
        self.feel_pulses(now);
        hooks::controls();
        self.watch_clearance();
        self.watch_loss();
        let soon = Some(now + self.desk.shared.options.heartbeat);
        if self.is_busy() {
            self.election.stir(now);
        }
        let election = if self.may_vote() { self.election.tick(now) } else { soon };
        self.desk.shared.set_rests(self.election.rests());
        let unheard = soon.filter(|_| !self.reports.is_empty());
        let mut next = [election, self.greet(now), self.turn_receiving(now), None, unheard];
        hooks::controls();
        self.on_election_events(now);
        hooks::controls();
        self.watch_deadlines(now);
        if self.leads() {
            watch_service(now, &self.election, &mut self.desk);
        }
        self.watch_disks(now);
        self.desk.shared.set_leader(self.known_leader(now));
        // Whoever waited is referred to the leader that is known by now.
        next[3] = self.turn_handing_over(now);
        let low = self.disk_room.low;
        if self.ledger.turn(now, self.used(), low, self.election.members(), &mut self.desk) {
            self.desk.peers().into_iter().for_each(|peer| self.tell_disk(peer.node));
        }
        if self.leadership.takes_over() || self.admission.is_under_way() {
            let soon = now + self.desk.shared.options.heartbeat;
            next[1] = Some(next[1].unwrap_or(Nanos::MAX).min(soon));
        }
        let changes = self.admission.is_under_way() || self.leadership.takes_over();
        let leads = self.leads() && !changes;
        let members = self.election.members().filter(|_| leads);
        self.raising.turn(now, members, &mut self.desk);
        self.remember_members();
        if self.desk.shared.options.durability.has_disk()
            && self.receiver.store_is_complete()
            && let Some(moment) = self.timekeeper.moment(self.desk.shared.progress.mark())
        {
            self.desk.write(|| moment.record());
        }
        let whole = self.receiver.store_is_complete() && !self.election.forgets();
        self.stores.turn(now, whole, &mut self.desk);
        out.roster = self.new_roster(now).or(out.roster.take());
        if self.election.members().is_some() {
            self.desk.belong();
        }
        self.desk.hand_out(out);
        out.disk_is_stale |= self.stale;
        out.messages.extend(
            self.election.drain().map(|(to, message)| (to, ControlMessage::Election(message).bytes())),
        );
        next.into_iter().flatten().min().map_or(Next::Idle, Next::At)
    }

    fn hand_over(&mut self, now: Nanos, to: Option<NodeId>) -> Result<(), String> {
        self.begin_hand_over(now, to)
    }

    fn retire(&mut self, now: Nanos) {
        self.begin_to_retire(now);
    }

    fn handover(&self, now: Nanos) -> Handover {
        self.hand_over_status(now)
    }

    fn change_members(&mut self, now: Nanos, change: MemberChange) -> MemberAnswer {
        self.on_member_change(now, change)
    }

    fn told_removed(&mut self) {
        self.on_told_removed();
    }

    fn level(&self) -> Option<Level> {
        Some(self.desk.shared.level())
    }

    fn status(&self, now: Nanos) -> Status {
        self.describe(now)
    }

    fn find_freshness(&mut self, now: Nanos) {
        self.want_freshness(now);
    }

    fn is_finding_freshness(&self, now: Nanos) -> bool {
        self.finds_freshness(now)
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
