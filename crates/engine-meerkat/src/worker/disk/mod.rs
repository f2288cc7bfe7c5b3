//! The worker's part in durability: what it writes, what waits for that, and how it comes back. See [`journal`](crate::journal).
//!
//! | file | what |
//! |---|---|
//! | `mod` | what waits; what a checkpoint needs; coming back |
//! | `gone` | up to where records are gone, and what is noted down of it |
//! | `settling` | up to where it is noted down that all is over everywhere, and the checkpoint that waits for it |
//! | `earlier` | what an earlier life wrote |

mod earlier;
mod gone;
mod settling;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_core::{NodeId, Timestamp};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::own::Vote;
use highwater_kit::validation::record::Told;
use highwater_seam::{LogPosition, Nanos};

use super::{MeerkatWorker, Whom};
use crate::change::Ended;
use crate::hooks;
use crate::journal::{End, Kept, Record, Waits};
use crate::shared::Report;
pub use earlier::Earlier;
pub use gone::Gone;
pub use settling::Settling;

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
            Waits::Say(to, message) if to != self.context.me => self.post.for_one(to, &message),
            Waits::Say(_, Message { ts, about }) => match about {
                About::Vote { valid, late, hint } => {
                    self.on_vote(now, self.context.me, ts, Vote { valid, late, hint });
                }
                About::Accepted { view: 0 } => self.on_accepted(now, self.context.me, ts),
                About::Accepted { view } => {
                    let node = self.context.shared.layout.coordinator(ts).node;
                    self.on_accepted_later(now, self.context.me, (node, ts), view);
                }
                About::Promise { view, valid, accepted, payload } => {
                    let node = self.context.shared.layout.coordinator(ts).node;
                    self.on_promise(now, self.context.me, (node, ts), view, (valid, accepted, payload));
                }
                _ => unreachable!("a node tells itself nothing else"),
            },
            Waits::Tell(client, message) => self.tell_about(client, message),
            Waits::Heard(node, number) if node == self.context.me => self.outcomes.heard(node, number),
            Waits::Heard(node, number) => self.peers.is_safe(node, number),
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
        self.context.cell().written.store(self.latest.0, Ordering::Relaxed);
        self.journal.write(&Record::Told(self.sitting.began(), Told { payload, ..told }));
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
        if beat && self.working().is_some() && self.context.shared.owes_notes() {
            self.settling.note(&mut self.journal, &self.context);
        }
    }

    /// Who has nothing to do does not say how far it is by itself.
    pub(super) fn ask_how_far(&mut self) {
        if !hooks::asks_the_idle() {
            return;
        }
        // Where votes are withheld until a transaction's time has come, one that was proposed far ahead would put off all that comes after it: nobody could
        // propose below it any more. Clocks tell each other how late it is, so it is asked for in time.
        let tells = self.context.shared.strict && self.pace.moves();
        let upto = if tells { self.context.shared.clock.now() } else { Timestamp::MAX };
        let awaits = self.settling.awaits().filter(|ts| *ts <= upto);
        let Some(ts) = awaits.into_iter().chain(self.context.shared.awaited_up_to(upto)).max() else {
            return;
        };
        let Some(seat) = self.sitting.seat() else { return };
        self.stamps.close_above(ts);
        for (node, _) in seat.members.voters.iter().filter(|(node, _)| *node != self.context.me) {
            if self.peers.is_behind(*node, ts) {
                self.post.for_one(*node, &Message { ts, about: About::HowFar });
            }
        }
    }

    /// What a checkpoint needs that begins here is written once more: what is known of transactions that may not be over everywhere.
    pub(super) fn write_anew(&mut self, number: u64, kept: &Arc<Vec<Kept>>) {
        let position = self.journal.position();
        if self.context.at == 0 {
            kept.iter().for_each(|kept| self.journal.write(&Record::Kept(kept.clone())));
        }
        let epoch = self.sitting.began();
        self.journal.write(&Record::Began { epoch, afresh: false, cut: None, ended: Vec::new() });
        if self.settling.closed() > Timestamp::ZERO {
            self.journal.write(&Record::Closed(self.settling.closed()));
        }
        if let Some(epoch) = self.sitting.paused() {
            self.journal.write(&Record::Paused(epoch));
        }
        self.gone.records().for_each(|record| self.journal.write(&record));
        for told in self.records.tell() {
            self.journal.write(&Record::Known(epoch, told));
        }
        self.report(Report::CheckpointFrom { worker: self.context.at, number, position });
    }

    /// A checkpoint holds what is decided, and may have to be left out: not what is over everywhere, and noted down to be.
    pub(super) fn settle_checkpoint(&mut self, now: Nanos, number: u64, newest: Timestamp) {
        self.settling.settle(number, newest);
        self.beat.rouse_at(now);
    }

    pub(super) fn settle_when_closed(&mut self, now: Nanos) {
        let settled = self.settling.take_settled(&mut self.journal, &self.context);
        let Some(number) = settled else { return };
        let worker = self.context.at;
        self.wait_always(now, Report::CheckpointSettled { worker, number });
    }

    // ---- coming back ----

    /// A record that an earlier life wrote.
    pub(super) fn replay(&mut self, bytes: &Bytes) -> Result<(), String> {
        if !self.journal.replays() {
            let from = self.context.cell().resumed.load(Ordering::Relaxed);
            self.journal.replay_from(LogPosition(from));
            self.context.shared.keeps_tombstones.store(true, Ordering::SeqCst);
        }
        self.journal.recovered(bytes);
        let record =
            Record::decode(bytes).map_err(|why| format!("a record is none of Meerkat's: {why:?}"))?;
        let remembered = || self.context.shared.remembered.lock().expect("nobody panics with it");
        remembered().any |= !matches!(record, Record::Kept(Kept::Met(_)));
        let now = self.earlier.next();
        match record {
            Record::Told(epoch, told) if epoch == self.sitting.began() => self.replay_told(now, told, true),
            Record::Known(epoch, told) if epoch == self.sitting.began() => self.replay_told(now, told, false),
            Record::Told(..) | Record::Known(..) => Ok(()),
            Record::Began { epoch, afresh, cut, ended } => {
                remembered().lost |= afresh;
                if epoch > self.sitting.began() {
                    self.sitting.begin(epoch);
                    self.settling.begin();
                    self.earlier.begin();
                    self.install_held(cut);
                    self.install_ended(now, &ended);
                    self.records.clear();
                    self.gone.clear();
                }
                Ok(())
            }
            Record::Trimmed(node, ts) => {
                self.records.trim(node, ts, Nanos::MAX);
                self.gone.knows(node)?;
                self.gone.went_before(node, ts);
                Ok(())
            }
            Record::Closed(ts) => {
                self.settling.closed_before(ts);
                Ok(())
            }
            Record::Paused(epoch) => {
                self.earlier.pause(epoch);
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
        let end = End {
            began: self.sitting.began(),
            closed: self.settling.closed(),
            paused: self.earlier.paused(),
        };
        let mut remembered = self.context.shared.remembered.lock().expect("nobody panics with it");
        remembered.ends.insert(self.context.at, end);
    }

    /// What an earlier life wrote is installed, up to `cut` if there is one. Nothing of it is, before it is known that it need not be left out.
    pub(super) fn install_held(&mut self, cut: Option<Timestamp>) {
        for (ts, payload) in self.earlier.take_held() {
            if cut.is_none_or(|cut| ts <= cut || !hooks::cuts()) {
                self.install(ts, &payload);
            }
        }
    }

    /// `installs`: if it committed what it wrote is not in the store yet.
    fn replay_told(&mut self, now: Nanos, told: Told, installs: bool) -> Result<(), String> {
        let Told { ts, valid, accepted, outcome, payload, .. } = told;
        let node = self.context.shared.layout.coordinator(ts).node;
        self.latest = self.latest.max(ts);
        self.gone.knows(node)?;
        if ts <= self.gone.upto(node) && self.records.get(node, ts).is_none() {
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
            self.earlier.hold(ts, payload);
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
            let node = self.context.shared.layout.coordinator(*ts).node;
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
