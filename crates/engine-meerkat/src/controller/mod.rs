//! The controller: who takes part, and changes of epoch (section 5.3.1 of the paper).
//!
//! Each change of epoch is one instance of Paxos. A node that has a reason to, leads an attempt (a [`Round`]): it asks for promises;
//! whoever promises has its workers pause, and tells all their records. With the promises of a majority it knows what became of
//! every transaction ([`merge`](super::merge)), and who takes part from then on; a majority of the old epoch has to accept that before
//! anybody acts on it. (The paper sends the result at once. If only one replica gets it and its sender dies, the next recovery coordinator
//! may decide otherwise, and that replica's clients have seen what never happened.) Then all install it, and begin.
//!
//! Reasons: a node that lost its memory wants in, a learner has its copy, a voter is gone, a transaction cannot be settled otherwise, a
//! voter does not hear outcomes and too many are kept for it, an earlier attempt was begun and came to nothing.
//!
//! | file | what |
//! |---|---|
//! | `mod` | what it joins, and its turn |
//! | `attempt` | the node that leads one: promises, proposal, decision |
//! | `accept` | everybody's part: pause, promise, accept, begin |
//! | `reasons` | whether a change is wanted, and who takes part then |
//! | `copies` | a learner's way to the state, and a donor's part in it |
//! | `disk` | what is kept, checkpoints, coming back |
//! | `evidence` | whether a disk that comes back is the newest that there was |
//! | `forgot` | what is left when replicas forgot |
//! | `thin` | what travels without what both sides have |
//! | `describe` | statuses |

mod accept;
mod attempt;
mod copies;
mod describe;
mod disk;
mod evidence;
mod forgot;
mod reasons;
#[cfg(test)]
mod tests;
mod thin;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_core::{Epoch, Incarnation, Levels, NodeId, Random, Schema, Timestamp, hooks};
use highwater_kit::validation::marks::Marks;
use highwater_kit::validation::marks_of;
use highwater_kit::validation::own::bit;
use highwater_kit::validation::record::Told;
use highwater_seam::memory::MemoryStatus;
use highwater_seam::{CheckpointNews, ControlOutbox, Controller, DiskState, Nanos, Next, Resume, Status};
use highwater_store::Store;

use super::change::{Change, Members};
use super::control::{Assembly, Beat, Control, Memory, Round, Standing, pieces};
use super::shared::{Command, Report, Shared};
use attempt::Attempt;
use copies::Copying;
use disk::Keeping;
use evidence::Evidence;
use reasons::Barred;
use thin::fill_change;

/// Changes that are kept for voters that are behind, at most.
const MOST_KEPT: usize = 16;
/// The same, in bytes; the last one is kept whatever it takes.
const MOST_KEPT_BYTES: usize = 32 << 20;

/// Bytes of long messages that leave for a node between two heartbeats: what its connection and its memory hold of them is bounded.
const PACE_BYTES: usize = 4 << 20;

/// Another node, as this one knows it.
#[derive(Clone, Copy, Default)]
struct Peer {
    life: Incarnation,
    connected: bool,
    /// Its process has ended: nothing listens where it was.
    refused: bool,
    heard: Nanos,
    /// Another life of it that a change took in since this one was heard last: that one is the later.
    named: Option<Incarnation>,
    beat: Beat,
    /// When it was last told what is decided, and how often without its getting on: what is decided may be long, and whoever tells it
    /// again on a slow wire, or to a busy node, makes it slower.
    told: (Nanos, u32),
}

/// What the workers told when they paused.
struct Paused {
    epoch: Epoch,
    records: Vec<Option<Vec<Told>>>,
    latest: Timestamp,
    /// All of it, once all have.
    whole: Option<Arc<Vec<Vec<Told>>>>,
}

/// The controller of a Meerkat replica.
pub struct MeerkatController {
    me: NodeId,
    life: Incarnation,
    shared: Arc<Shared>,
    schema: Schema,
    store: Arc<Store>,
    marks: Arc<Marks>,
    random: Random,
    peers: Vec<Option<Peer>>,
    assembly: Assembly,
    /// The last epoch whose change was installed here, or is being.
    epoch: Epoch,
    /// Who takes part in it. Nobody: this node knows of none, or takes no part.
    members: Option<Members>,
    /// Changes of epoch that were installed here.
    changes: u64,
    standing: Standing,
    /// Whether it knows all that it knew of the epoch that it was in.
    forgot: Memory,
    /// The last changes, the one by which it began behind the others: for voters that are behind.
    history: VecDeque<Arc<Change>>,
    /// Workers that have not installed it.
    installing: usize,
    promised: Round,
    /// What was accepted for the next epoch.
    accepted: Option<(Round, Arc<Change>)>,
    paused: Option<Paused>,
    /// The attempt that this node leads.
    attempt: Option<Attempt>,
    /// Learners that were let go: by node how often, and until when it is not taken in again.
    barred: Vec<Barred>,
    /// Attempts of this node that came to nothing, one after the other: the next one gets more time.
    failed: u32,
    /// Since when there has been a reason for a change.
    wanted: Option<Nanos>,
    /// When an attempt was last seen to go on.
    stirred: Nanos,
    copying: Option<Copying>,
    copies: u64,
    keeping: Keeping,
    evidence: Evidence,
    next_beat: Nanos,
    /// When it had its first turn.
    woke: Option<Nanos>,
    /// The latest that the clock was seen to show.
    shown: Timestamp,
    sent: u64,
    to_self: VecDeque<Control>,
    outbox: Vec<(NodeId, Bytes)>,
    /// Pieces of long messages that have not left, and how many bytes left since the last heartbeat; by node.
    long: Vec<(VecDeque<Bytes>, usize)>,
    events: Vec<String>,
    /// Commands wait for the workers.
    wakes: bool,
}

impl MeerkatController {
    /// The controller of a fresh replica.
    pub fn new(
        shared: Arc<Shared>,
        schema: Schema,
        store: Arc<Store>,
        marks: Arc<Marks>,
    ) -> MeerkatController {
        let options = &shared.options;
        MeerkatController {
            me: options.node,
            life: options.incarnation,
            random: Random::new(options.seed ^ 0x5eed),
            peers: vec![None; options.nodes as usize],
            schema,
            store,
            marks,
            assembly: Assembly::default(),
            epoch: Epoch(0),
            members: None,
            changes: 0,
            // Who had a part in a cluster bears none, and nobody takes it for a newborn.
            standing: if options.has_a_past { Standing::Outside } else { Standing::Unborn },
            forgot: Memory::Whole,
            history: VecDeque::new(),
            installing: 0,
            promised: Round::default(),
            accepted: None,
            paused: None,
            attempt: None,
            barred: vec![Barred::default(); options.nodes as usize],
            failed: 0,
            wanted: None,
            stirred: 0,
            copying: None,
            copies: 0,
            keeping: Keeping::default(),
            evidence: Evidence::default(),
            next_beat: 0,
            woke: None,
            shown: Timestamp::ZERO,
            sent: 0,
            to_self: VecDeque::new(),
            outbox: Vec::new(),
            long: (0..options.nodes).map(|_| (VecDeque::new(), 0)).collect(),
            events: Vec::new(),
            wakes: false,
            shared,
        }
    }

    fn heartbeat(&self) -> Nanos {
        self.shared.options.heartbeat
    }

    fn timeout(&self) -> Nanos {
        self.shared.options.election_timeout
    }

    fn note(&mut self, what: String) {
        self.events.push(what);
    }

    /// Tells all workers.
    fn command(&mut self, command: impl Fn() -> Command) {
        self.shared.commands.iter().for_each(|mailbox| mailbox.put(command()));
        self.wakes = true;
    }

    /// The epoch is open here from now on; or this replica takes no part for a while.
    fn set_open(&mut self, epoch: Option<Epoch>) {
        self.shared.set_open(epoch);
        self.wakes = true;
    }

    /// Sends a message, to this node too.
    fn send(&mut self, to: NodeId, message: Control) {
        if to == self.me {
            return self.to_self.push_back(message);
        }
        if !self.peers[to.0 as usize].is_some_and(|peer| peer.connected) {
            return;
        }
        self.sent += 1;
        let name = self.life.0 ^ self.sent;
        let mut pieces = pieces(&message, name);
        match pieces.pop() {
            Some(only) if pieces.is_empty() => self.outbox.push((to, only)),
            last => self.long[to.0 as usize].0.extend(pieces.into_iter().chain(last)),
        }
    }

    /// Hands out of long messages what may leave now.
    fn pace(&mut self) {
        for (node, (pieces, sent)) in self.long.iter_mut().enumerate() {
            while *sent < PACE_BYTES
                && let Some(piece) = pieces.pop_front()
            {
                *sent += piece.len();
                self.outbox.push((NodeId(node as u8), piece));
            }
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.shared.options.nodes).map(NodeId)
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        self.nodes().filter(move |node| *node != me)
    }

    fn send_all(&mut self, message: &Control) {
        self.nodes().for_each(|node| self.send(node, message.clone()));
    }

    /// Which life of a node is here, if one is.
    fn life_of(&self, node: NodeId) -> Option<Incarnation> {
        if node == self.me {
            return Some(self.life);
        }
        self.peers[node.0 as usize].filter(|peer| peer.connected).map(|peer| peer.life)
    }

    /// Whether a node has been heard of late.
    fn hears(&self, now: Nanos, node: NodeId) -> bool {
        let fresh = |peer: Peer| peer.connected && now.saturating_sub(peer.heard) <= 2 * self.timeout();
        node == self.me || self.peers[node.0 as usize].is_some_and(fresh)
    }

    /// Whom it hears: a bit each.
    fn heard(&self, now: Nanos) -> u32 {
        self.nodes().filter(|node| self.hears(now, *node)).fold(0, |all, node| all | bit(node))
    }

    /// What a node said of itself last.
    fn beat_of(&self, node: NodeId) -> Beat {
        if node == self.me {
            let low = self.keeping.disk.low;
            let (epoch, standing) = (self.epoch, self.standing);
            return Beat { epoch, standing, low, ..Beat::default() };
        }
        self.peers[node.0 as usize].map_or(Beat::default(), |peer| peer.beat)
    }

    fn is_voter(&self) -> bool {
        self.members.as_ref().is_some_and(|members| members.has_voter((self.me, self.life)))
    }

    fn has_say(&self) -> bool {
        self.members.as_ref().is_some_and(|members| members.has_say((self.me, self.life)))
    }

    fn room(&self) -> u64 {
        let memory = self.memory();
        match memory.shares.store {
            u64::MAX => u64::MAX,
            store => store.saturating_sub(memory.used),
        }
    }

    fn beat(&mut self, now: Nanos) {
        if now < self.next_beat {
            return;
        }
        self.next_beat = now + self.heartbeat();
        self.long.iter_mut().for_each(|(_, sent)| *sent = 0);
        let (epoch, standing, hears, room) = (self.epoch, self.standing, self.heard(now), self.room());
        let low = self.keeping.disk.low;
        self.shown = self.shared.hold_clock(self.shown);
        let clock = self.shown;
        let beat = Control::Beat(Beat { epoch, standing, hears, room, low, clock });
        self.others().for_each(|node| self.send(node, beat.clone()));
        // Every replica installs what all coordinators write: they share what the smallest has left.
        let beats: Vec<Beat> =
            self.others().filter(|node| self.hears(now, *node)).map(|node| self.beat_of(node)).collect();
        let least = beats.iter().filter(|beat| beat.standing >= Standing::Learning).map(|beat| beat.room);
        let least = least.fold(room, u64::min);
        let parts = 2 * u64::from(self.shared.options.nodes) * u64::from(self.shared.options.workers);
        let share = if least == u64::MAX { u64::MAX } else { least / parts };
        self.shared.room.store(share, Ordering::Relaxed);
        let voters = self.members.iter().flat_map(|members| &members.voters);
        let heard = voters.filter(|(node, _)| self.hears(now, *node)).count() as u32;
        self.shared.no_quorum.store(heard < self.shared.quorums.majority, Ordering::Relaxed);
        let serving = self.nodes().find(|node| {
            let beat = self.beat_of(*node);
            self.hears(now, *node) && beat.standing == Standing::Voting && beat.epoch >= self.epoch
        });
        self.shared.set_serving(serving);
        // Who has nothing to do sleeps, and others may wait for its word all the same.
        self.wakes |= self.shared.awaited().is_some();
        self.watch_disks(now);
        self.help(now);
    }

    /// Tells those what is decided who are behind.
    fn help(&mut self, now: Nanos) {
        let every = self.timeout() / 2;
        for node in self.others() {
            let due = |peer: &Peer| {
                let (at, times) = peer.told;
                peer.connected && peer.beat.epoch < self.epoch && now >= at + (every << times.min(7))
            };
            let Some(peer) = self.peers[node.0 as usize].filter(due) else { continue };
            self.tell_decided(node, peer.beat.epoch);
            if let Some(peer) = &mut self.peers[node.0 as usize] {
                peer.told = (now, peer.told.1 + 1);
            }
        }
    }

    /// Tells a node that has begun `epoch` what was decided then, if that is kept; else what was decided last.
    fn tell_decided(&mut self, node: NodeId, epoch: Epoch) {
        let next = self.history.iter().find(|change| change.epoch == epoch.next());
        if let Some(change) = next.or(self.history.back()).cloned() {
            self.send(node, Control::Decided { change });
        }
    }

    /// Whether a node that has begun `epoch` can be told all that was decided since.
    fn leads_on_from(&self, epoch: Epoch) -> bool {
        self.history.front().is_some_and(|first| first.epoch <= epoch.next())
    }

    /// Another change was decided: as many are kept as voters may be behind.
    fn keep(&mut self, change: Arc<Change>) {
        // Who is led on gets one after the other.
        if self.history.back().is_some_and(|last| last.epoch.next() != change.epoch) {
            self.history.clear();
        }
        self.history.push_back(change);
        let bytes =
            |history: &VecDeque<Arc<Change>>| history.iter().map(|change| change.bytes()).sum::<usize>();
        while self.history.len() > 1
            && (self.history.len() > MOST_KEPT || bytes(&self.history) > MOST_KEPT_BYTES)
        {
            self.history.pop_front();
        }
    }

    fn take(&mut self, now: Nanos, from: NodeId, message: Control) {
        match message {
            Control::Beat(beat) => {
                if self.shared.strict {
                    self.shared.clock.advance_past(beat.clock);
                }
                if let Some(peer) = &mut self.peers[from.0 as usize] {
                    if beat.epoch != peer.beat.epoch {
                        peer.told.1 = 0;
                    }
                    peer.beat = beat;
                }
            }
            Control::Prepare { epoch, round } => self.on_prepare(now, from, epoch, round),
            Control::Promise { epoch, round, accepted, latest, records, memory, standing } => {
                self.on_promise(now, from, (epoch, round), accepted, (latest, records, memory, standing));
            }
            Control::Refuse { epoch, round } => self.on_refuse(epoch, round),
            Control::Accept { round, change } => self.on_accept(now, from, round, change),
            Control::Accepted { epoch, round } => self.on_accepted(now, from, epoch, round),
            Control::Decided { change } => match fill_change(&change, self.told(change.epoch)) {
                Some(change) => self.on_decided(now, &change),
                None => self.send(from, Control::Lack { epoch: change.epoch, round: Round::default() }),
            },
            Control::Fetch { epoch, round, names } => self.on_fetch(from, epoch, round, &names),
            Control::Payloads { epoch, round, records } => {
                self.on_payloads(now, from, (epoch, round), &records)
            }
            Control::Lack { epoch, round } => self.on_lack(from, epoch, round),
            Control::Chosen { epoch, round } => self.on_chosen(now, from, epoch, round),
            Control::CopyRequest { copy, epoch } => self.on_copy_request(from, copy, epoch),
            Control::CopyGrant { copy, met } => self.on_copy_grant(now, from, copy, met),
            Control::Disk(word) => self.on_disk(from, &word),
            Control::Judged { start, stale, epoch, voters } => {
                self.on_judged(now, from, (start, stale), (epoch, voters));
            }
        }
    }

    /// What its workers told when they paused for this epoch.
    fn told(&self, epoch: Epoch) -> Option<&[Vec<Told>]> {
        let paused = self.paused.as_ref().filter(|paused| paused.epoch == epoch)?;
        paused.whole.as_ref().map(|whole| &whole[..])
    }

    fn take_reports(&mut self, now: Nanos) {
        let shared = self.shared.clone();
        for report in shared.reports.take() {
            hooks::point(hooks::CONTROL);
            match report {
                Report::Paused { worker, epoch, records, latest } => {
                    self.on_paused(now, worker, epoch, records, latest);
                }
                Report::Begun(epoch) => self.on_begun(epoch),
                Report::Kept(number) => self.on_kept(number),
                Report::CheckpointFrom { worker, number, position } => {
                    self.on_checkpoint_from(worker, number, position);
                }
                Report::CheckpointSettled { worker, number } => self.on_checkpoint_settled(worker, number),
                Report::Copied { worker, copy } => self.on_copied(worker, copy),
                Report::Stalled(copy) => self.on_stalled(now, copy),
            }
        }
    }

    fn take_own(&mut self, now: Nanos) {
        while let Some(message) = self.to_self.pop_front() {
            hooks::point(hooks::CONTROL);
            self.take(now, self.me, message);
        }
    }
}

impl Controller for MeerkatController {
    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation, _levels: Levels) {
        let Some(known) = self.peers.get_mut(peer.0 as usize) else { return };
        let mut before = known.filter(|known| known.life == incarnation).unwrap_or_default();
        // Whoever may have ended meanwhile says again that it has a copy.
        before.beat.standing = match before.beat.standing {
            Standing::Ready => Standing::Learning,
            standing => standing,
        };
        *known = Some(Peer {
            life: incarnation,
            connected: true,
            refused: false,
            heard: now,
            named: None,
            told: (0, 0),
            ..before
        });
        self.assembly.forget(peer);
        self.next_beat = self.next_beat.min(now);
        self.tell_disk(peer);
        self.ask(peer);
    }

    fn peer_down(&mut self, _now: Nanos, peer: NodeId, refused: bool) {
        if let Some(Some(known)) = self.peers.get_mut(peer.0 as usize) {
            known.connected = false;
            known.refused |= refused;
            self.long[peer.0 as usize].0.clear();
        }
        self.assembly.forget(peer);
    }

    fn deliver(&mut self, now: Nanos, from: NodeId, message: Bytes) {
        let Some(Some(peer)) = self.peers.get_mut(from.0 as usize) else { return };
        (peer.heard, peer.named) = (now, None);
        if let Ok(Some(message)) = self.assembly.take(from, message) {
            self.take(now, from, message);
        }
    }

    fn recovered(&mut self, now: Nanos) {
        self.come_back(now);
    }

    fn resume(&mut self, from: Resume<'_>) -> Result<(), String> {
        self.resume_from(from)
    }

    fn checkpoint(&mut self, now: Nanos, news: CheckpointNews) {
        self.on_checkpoint_news(now, news);
    }

    fn set_disk(&mut self, disk: DiskState) {
        self.keeping.disk = disk;
    }

    fn turn(&mut self, now: Nanos, out: &mut ControlOutbox) -> Next {
        self.woke.get_or_insert(now);
        self.take_reports(now);
        self.take_own(now);
        self.watch(now);
        self.take_own(now);
        self.copy(now);
        self.keep_copied_state(now);
        self.beat(now);
        self.tell_disk_now_and_then(now);
        self.pace();
        self.take_orders(&mut out.checkpoint);
        out.messages.append(&mut self.outbox);
        out.events.append(&mut self.events);
        out.wake_workers = std::mem::take(&mut self.wakes);
        out.disk_is_stale |= self.evidence.is_stale();
        Next::At(self.next_beat)
    }

    fn status(&self, now: Nanos) -> Status {
        self.describe(now)
    }

    fn memory(&self) -> MemoryStatus {
        let shares = self.shared.options.shares().expect("the host validated the options");
        let logs = self.shared.sum(|cell| &cell.bytes);
        MemoryStatus { shares, used: self.store.used(), logs, most: shares.store }
    }

    fn keeps_store(&self) -> bool {
        self.keeping.checkpointing.keeps_store()
    }

    fn copies_state(&self) -> bool {
        match self.standing {
            Standing::Learning => !self.keeping.copied,
            Standing::Outside => true,
            _ => false,
        }
    }

    fn store(&self) -> Arc<Store> {
        self.store.clone()
    }
}
