//! The worker's part in durability: what it writes, what waits for that, and how it comes back. See [`journal`](crate::journal).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_core::{Durability, NodeId, Timestamp, planted};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::own::Vote;
use highwater_kit::validation::record::Told;
use highwater_seam::{LogPosition, Nanos};

use super::{MeerkatWorker, Whom};
use crate::change::Ended;
use crate::journal::{End, Kept, Record, Waits};
use crate::shared::Report;

/// How much is written before it is noted down which records are not needed any more.
const NOTE_AFTER: u64 = 64 << 10;

impl MeerkatWorker {
    /// Says what others will count on, this node's own coordinator included: once it is on disk, where that is promised.
    pub(super) fn vouch(&mut self, now: Nanos, to: impl Into<Whom>, message: Message) {
        // A refusal may be forgotten.
        let forgettable = matches!(
            message.about,
            About::Vote { valid: false, .. }
                | About::Overtaken { .. }
                | About::Promise { valid: false, accepted: None, .. }
        );
        let what = match to.into() {
            Whom::Node(node) => Waits::Say(node, message),
            Whom::Client(client) => Waits::Tell(client, message),
        };
        if forgettable { self.go(now, what) } else { self.wait(now, what) }
    }

    /// Does something once all that was written is on disk, where others count on the disk; else at once.
    pub(super) fn wait(&mut self, now: Nanos, what: Waits) {
        if let Some(what) = self.journal.after(now, what, false) {
            self.go(now, what);
        }
    }

    fn go(&mut self, now: Nanos, what: Waits) {
        match what {
            Waits::Say(to, message) if to != self.me => self.post.for_one(to, &message),
            Waits::Say(_, Message { ts, about }) => match about {
                About::Vote { valid, late, hint } => {
                    self.on_vote(now, self.me, ts, Vote { valid, late, hint });
                }
                About::Accepted { view: 0 } => self.on_accepted(now, self.me, ts),
                About::Accepted { view } => {
                    let node = self.shared.layout.coordinator(ts).node;
                    self.on_accepted_later(now, self.me, (node, ts), view);
                }
                About::Promise { view, valid, accepted, payload } => {
                    let node = self.shared.layout.coordinator(ts).node;
                    self.on_promise(now, self.me, (node, ts), view, (valid, accepted, payload));
                }
                _ => unreachable!("a node tells itself nothing else"),
            },
            Waits::Tell(client, message) => self.tell_about(client, message),
            Waits::Heard(node, number) if node == self.me => self.outcomes.heard(node, number),
            Waits::Heard(node, number) => {
                if let Some(peer) = &mut self.peers[node.0 as usize] {
                    peer.safe = peer.safe.max(number);
                }
            }
            Waits::Report(report) => self.report(report),
        }
    }

    pub(super) fn on_synced(&mut self, now: Nanos, position: LogPosition) {
        self.journal.synced(position);
        while let Some(what) = self.journal.due() {
            self.go(now, what);
        }
    }

    /// More is known of a transaction: `valid`, `accepted` or `outcome`, whatever is news. What it reads and writes goes along once.
    pub(super) fn note(&mut self, now: Nanos, node: NodeId, told: Told) {
        if !self.journal.writes() || self.journal.replays() {
            return;
        }
        let record = self.records.entry(now, node, told.ts);
        // What does not commit need not be known.
        let wants = !record.written && told.outcome != Some(false);
        let payload = record.payload.clone().filter(|_| wants);
        record.written |= payload.is_some();
        self.cell().written.store(self.latest.0, Ordering::Relaxed);
        self.journal.write(&Record::Told(self.began, Told { payload, ..told }));
    }

    /// Notes down which records are not needed any more, now and then: who comes back tells only what is left.
    pub(super) fn write_trimmed(&mut self, at_least: bool) {
        let position = self.journal.position().0;
        if position == self.noted || !at_least && position < self.noted + NOTE_AFTER {
            return;
        }
        for (node, (ts, news)) in self.gone.iter_mut().enumerate() {
            if std::mem::take(news) {
                self.journal.write(&Record::Trimmed(NodeId(node as u8), *ts));
            }
        }
        self.noted = self.journal.position().0;
    }

    pub(super) fn keep(&mut self, now: Nanos, number: u64, kept: Kept) {
        self.journal.write(&Record::Kept(kept));
        self.wait_always(now, Report::Kept(number));
    }

    /// Tells the controller something once all that was written is on disk, whatever else need not wait for it.
    pub(super) fn wait_always(&mut self, now: Nanos, report: Report) {
        if let Some(what) = self.journal.after(now, Waits::Report(report), true) {
            self.go(now, what);
        }
    }

    /// Notes down how far all is over everywhere, where what is left of disks may have to be cut there: for the sake of what any worker of
    /// this replica has written.
    pub(super) fn write_closed(&mut self, beat: bool) {
        if beat && self.working().is_some() && self.shared.owes_notes() {
            self.note_closed();
        }
    }

    /// Who has nothing to do does not say how far it is by itself.
    pub(super) fn ask_how_far(&mut self) {
        if planted!(IdleIsLeftAlone) {
            return;
        }
        let settles = self.settles.map(|(_, newest)| newest);
        let Some(ts) = settles.into_iter().chain(self.shared.awaited()).max() else { return };
        let Some(seat) = &self.seat else { return };
        self.stamps.close_above(ts);
        for (node, _) in seat.members.voters.iter().filter(|(node, _)| *node != self.me) {
            let behind = |peer: &super::Peer| peer.connected && peer.closed < ts;
            if self.peers[node.0 as usize].as_ref().is_some_and(behind) {
                self.post.for_one(*node, &Message { ts, about: About::HowFar });
            }
        }
    }

    fn note_closed(&mut self) {
        let closed = self.shared.closed();
        if closed > self.closed {
            self.closed = closed;
            self.journal.write(&Record::Closed(closed));
            self.cell().noted.store(closed.0, Ordering::Relaxed);
        }
    }

    /// What a checkpoint needs that begins here is written once more: what is known of transactions that may not be over everywhere.
    pub(super) fn write_anew(&mut self, number: u64, kept: &Arc<Vec<Kept>>) {
        let position = self.journal.position();
        if self.at == 0 {
            kept.iter().for_each(|kept| self.journal.write(&Record::Kept(kept.clone())));
        }
        let epoch = self.began;
        self.journal.write(&Record::Began { epoch, afresh: false, cut: None, ended: Vec::new() });
        if self.closed > Timestamp::ZERO {
            self.journal.write(&Record::Closed(self.closed));
        }
        if let Some(epoch) = self.paused {
            self.journal.write(&Record::Paused(epoch));
        }
        for (node, (ts, _)) in self.gone.iter().enumerate().filter(|(_, (ts, _))| *ts > Timestamp::ZERO) {
            self.journal.write(&Record::Trimmed(NodeId(node as u8), *ts));
        }
        for told in self.records.tell() {
            self.journal.write(&Record::Known(epoch, told));
        }
        self.report(Report::CheckpointFrom { worker: self.at, number, position });
    }

    /// A checkpoint holds what is decided, and may have to be left out: not what is over everywhere, and noted down to be.
    pub(super) fn settle_checkpoint(&mut self, now: Nanos, number: u64, newest: Timestamp) {
        self.settles = Some((number, newest));
        self.restless = super::RESTLESS;
        self.next_beat = self.next_beat.min(now);
    }

    pub(super) fn settle_when_closed(&mut self, now: Nanos) {
        let is_async = self.shared.options.durability == Durability::Async;
        let closed = |newest| !is_async || self.shared.closed() >= newest;
        let Some((number, _)) = self.settles.filter(|(_, newest)| closed(*newest)) else { return };
        self.settles = None;
        if is_async {
            self.note_closed();
        }
        let worker = self.at;
        self.wait_always(now, Report::CheckpointSettled { worker, number });
    }

    // ---- coming back ----

    /// A record that an earlier life wrote.
    pub(super) fn replay(&mut self, bytes: &Bytes) -> Result<(), String> {
        if !self.journal.replays() {
            let from = self.cell().resumed.load(Ordering::Relaxed);
            self.journal.replay_from(LogPosition(from));
            self.shared.keeps_tombstones.store(true, Ordering::SeqCst);
        }
        self.journal.recovered(bytes);
        let record =
            Record::decode(bytes).map_err(|why| format!("a record is none of Meerkat's: {why:?}"))?;
        let remembered = || self.shared.remembered.lock().expect("nobody panics with it");
        remembered().any |= !matches!(record, Record::Kept(Kept::Met(_)));
        // Not a time: an order.
        self.replayed += 1;
        let now = self.replayed;
        match record {
            Record::Told(epoch, told) if epoch == self.began => self.replay_told(now, told, true),
            Record::Known(epoch, told) if epoch == self.began => self.replay_told(now, told, false),
            Record::Told(..) | Record::Known(..) => Ok(()),
            Record::Began { epoch, afresh, cut, ended } => {
                remembered().lost |= afresh;
                if epoch > self.began {
                    self.began = epoch;
                    (self.closed, self.had_paused) = (Timestamp::ZERO, None);
                    self.install_held(cut);
                    self.install_ended(now, &ended);
                    self.records.clear();
                    self.gone.fill((Timestamp::ZERO, false));
                }
                Ok(())
            }
            Record::Trimmed(node, ts) => {
                self.records.trim(node, ts, Nanos::MAX);
                let gone =
                    self.gone.get_mut(node.0 as usize).ok_or("a record of a node that there is not")?;
                *gone = (ts.max(gone.0), false);
                Ok(())
            }
            Record::Closed(ts) => {
                self.closed = self.closed.max(ts);
                Ok(())
            }
            Record::Paused(epoch) => {
                self.had_paused = Some(epoch);
                Ok(())
            }
            Record::Kept(kept) => {
                remembered().add(kept);
                Ok(())
            }
        }
    }

    /// All was handed in.
    pub(super) fn tell_end(&mut self) {
        let end = End { began: self.began, closed: self.closed, paused: self.had_paused };
        let mut remembered = self.shared.remembered.lock().expect("nobody panics with it");
        remembered.ends.insert(self.at, end);
    }

    /// What an earlier life wrote is installed, up to `cut` if there is one. Nothing of it is, before it is known that it need not be left out.
    pub(super) fn install_held(&mut self, cut: Option<Timestamp>) {
        for (ts, payload) in std::mem::take(&mut self.held) {
            if cut.is_none_or(|cut| ts <= cut || planted!(CutIgnored)) {
                self.install(ts, &payload);
            }
        }
    }

    /// `installs`: if it committed what it wrote is not in the store yet.
    fn replay_told(&mut self, now: Nanos, told: Told, installs: bool) -> Result<(), String> {
        let Told { ts, valid, accepted, outcome, payload, .. } = told;
        let node = self.shared.layout.coordinator(ts).node;
        self.latest = self.latest.max(ts);
        let gone = self.gone.get(node.0 as usize).ok_or("a record of a node that there is not")?.0;
        if ts <= gone && self.records.get(node, ts).is_none() {
            // It was over everywhere, and an earlier build made a record of it again.
            return Ok(());
        }
        let record = self.records.entry(now, node, ts);
        record.valid = valid.or(record.valid);
        record.accepted = accepted.or(record.accepted);
        if let Some((view, _)) = accepted {
            record.view = record.view.max(view);
        }
        record.written |= payload.is_some();
        self.learn(now, (node, ts), payload);
        let Some(commit) = outcome else { return Ok(()) };
        if self.records.get(node, ts).is_some_and(|record| record.outcome.is_some()) {
            return Ok(());
        }
        if installs && commit {
            let payload = self.records.get(node, ts).and_then(|record| record.payload.clone());
            let payload = payload.ok_or_else(|| format!("nothing says what {ts} wrote, which committed"))?;
            self.held.insert(ts, payload);
        }
        self.records.end(now, node, ts, commit);
        Ok(())
    }

    /// What became of transactions of the epoch before; of those that are not named none committed. Those that were not known here.
    ///
    /// Only these may be installed again by whoever comes back: of the others, tombstones of later deletes may be gone.
    pub(super) fn install_ended(&mut self, now: Nanos, ended: &[Ended]) -> Vec<Ended> {
        let mut news = Vec::new();
        for one in ended {
            let Ended { ts, commit, payload } = one;
            let node = self.shared.layout.coordinator(*ts).node;
            let known = match self.records.get(node, *ts) {
                Some(record) => record.outcome.is_some(),
                None => self.is_closed(node, *ts),
            };
            if !known {
                news.push(one.clone());
            }
            let known = self.conclude(now, node, *ts, *commit, payload.clone());
            assert!(known, "a change of epoch tells what {ts} writes");
        }
        for (node, ts) in self.records.unfinished() {
            self.conclude(now, node, ts, false, None);
        }
        news
    }
}
