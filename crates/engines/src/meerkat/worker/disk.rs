//! The worker's part in durability: what it writes, what waits for that, and how it comes back. See [`journal`](crate::meerkat::journal).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_core::{NodeId, Timestamp};

use super::MeerkatWorker;
use crate::meerkat::change::Ended;
use crate::meerkat::journal::{Kept, Record, Waits};
use crate::meerkat::message::{About, Message};
use crate::meerkat::own::Vote;
use crate::meerkat::record::Told;
use crate::meerkat::shared::Report;
use crate::seam::{LogPosition, Nanos};

/// How much is written before it is noted down which records are not needed any more.
const NOTE_AFTER: u64 = 64 << 10;

impl MeerkatWorker {
    /// Says what others will count on, this node's own coordinator included: once it is on disk, where that is promised.
    pub(super) fn vouch(&mut self, now: Nanos, to: NodeId, message: Message) {
        match message.about {
            // A refusal may be forgotten.
            About::Vote { valid: false, .. } | About::Overtaken { .. } => {
                self.go(now, Waits::Say(to, message))
            }
            _ => self.wait(now, Waits::Say(to, message)),
        }
    }

    /// Does something once all that was written is on disk, where others count on the disk; else at once.
    pub(super) fn wait(&mut self, now: Nanos, what: Waits) {
        if let Some(what) = self.journal.after(what, false) {
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
                _ => unreachable!("a node tells itself nothing else"),
            },
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
        self.wait(now, Waits::Report(Report::Kept(number)));
    }

    /// What a checkpoint needs that begins here is written once more: what is known of transactions that may not be over everywhere.
    pub(super) fn write_anew(&mut self, number: u64, kept: &Arc<Vec<Kept>>) {
        let position = self.journal.position();
        if self.at == 0 {
            kept.iter().for_each(|kept| self.journal.write(&Record::Kept(kept.clone())));
        }
        let epoch = self.began;
        self.journal.write(&Record::Began { epoch, afresh: false, ended: Vec::new() });
        for (node, (ts, _)) in self.gone.iter().enumerate().filter(|(_, (ts, _))| *ts > Timestamp::ZERO) {
            self.journal.write(&Record::Trimmed(NodeId(node as u8), *ts));
        }
        for told in self.records.tell() {
            self.journal.write(&Record::Known(epoch, told));
        }
        self.report(Report::CheckpointFrom { worker: self.at, number, position });
    }

    pub(super) fn settle_checkpoint(&mut self, number: u64) {
        let settled = Waits::Report(Report::CheckpointSettled(number));
        if let Some(Waits::Report(report)) = self.journal.after(settled, true) {
            self.report(report);
        }
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
        remembered().any = true;
        // Not a time: an order.
        self.replayed += 1;
        let now = self.replayed;
        match record {
            Record::Told(epoch, told) if epoch == self.began => self.replay_told(now, told, true),
            Record::Known(epoch, told) if epoch == self.began => self.replay_told(now, told, false),
            Record::Told(..) | Record::Known(..) => Ok(()),
            Record::Began { epoch, afresh, ended } => {
                remembered().lost |= afresh;
                if epoch > self.began {
                    self.began = epoch;
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
            Record::Kept(kept) => {
                remembered().add(kept);
                Ok(())
            }
        }
    }

    /// `installs`: if it committed what it wrote is not in the store yet.
    fn replay_told(&mut self, now: Nanos, told: Told, installs: bool) -> Result<(), String> {
        let Told { ts, valid, accepted, outcome, payload } = told;
        let node = self.shared.layout.coordinator(ts).node;
        self.latest = self.latest.max(ts);
        let record = self.records.entry(now, node, ts);
        record.valid = valid.or(record.valid);
        record.accepted = accepted.or(record.accepted);
        if let Some((view, _)) = accepted {
            record.view = record.view.max(view);
        }
        if record.payload.is_none()
            && let Some(payload) = payload
        {
            let len = payload.len();
            (record.payload, record.written) = (Some(payload), true);
            self.records.add_bytes(len);
        }
        let Some(commit) = outcome else { return Ok(()) };
        if self.records.get(node, ts).is_some_and(|record| record.outcome.is_some()) {
            return Ok(());
        }
        if !installs {
            self.records.end(now, node, ts, commit);
            return Ok(());
        }
        match self.conclude(now, node, ts, commit, None) {
            true => Ok(()),
            false => Err(format!("nothing says what {ts} wrote, which committed")),
        }
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
