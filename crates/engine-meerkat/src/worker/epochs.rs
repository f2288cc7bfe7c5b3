//! The controller's commands, and so changes of epoch, as a worker lives through them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_core::{Epoch, NodeId, Outcome};
use highwater_seam::Nanos;

use super::MeerkatWorker;
use crate::change::Ended;
use crate::journal::Record;
use crate::shared::{Begin, Command, Report, Seat};

impl MeerkatWorker {
    pub(super) fn take_commands(&mut self, now: Nanos) {
        let shared = self.context.shared.clone();
        for command in shared.commands[self.context.at as usize].take() {
            match command {
                Command::Pause(epoch) => self.pause(now, epoch),
                Command::Begin(begin) => self.begin(now, &begin),
                Command::Forget => self.forget(),
                Command::Announce(name) => self.copies.announce(name),
                Command::Keep(number, kept) => self.keep(now, number, kept),
                Command::CheckpointFrom { number, kept } => self.write_anew(number, &kept),
                Command::CheckpointSettle(number, newest) => self.settle_checkpoint(now, number, newest),
                Command::Expect { donor, copy } => {
                    self.copies.expect(now, donor, copy, self.rows.store());
                }
            }
        }
    }

    /// From here on nothing that was not told takes part in the old epoch.
    fn pause(&mut self, now: Nanos, epoch: Epoch) {
        // What it tells is of the epoch before the one that is promised.
        match self.sitting.seat() {
            Some(seat) => assert_eq!(seat.epoch.next(), epoch, "a worker pauses behind what it begins"),
            // Of one that forgot what it had of that it tells nothing.
            None if self.sitting.began().next() != epoch => self.records.clear(),
            None => {}
        }
        self.sitting.pause(epoch);
        self.journal.forget_words();
        self.post.clear();
        for ts in self.unripe.take() {
            let node = self.context.shared.layout.coordinator(ts).node;
            if self.records.get(node, ts).is_some_and(|record| record.withheld && record.outcome.is_none()) {
                self.take_back(0, node, ts);
            }
        }
        let latest = self.latest.max(self.stamps.last()).max(self.context.shared.clock.now());
        let (worker, records) = (self.context.at, self.records.tell());
        // What it tells is on disk where it need not have been so far; and that it has paused, but of who has forgotten what it does not tell.
        if self.sitting.seat().is_some() {
            self.journal.write(&Record::Paused(epoch));
        }
        self.wait_always(now, Report::Paused { worker, epoch, records, latest });
    }

    /// Installs what the change of epoch decided, and begins anew with nothing under way.
    fn begin(&mut self, now: Nanos, begin: &Arc<Begin>) {
        let Begin { change, store, marks, afresh, more } = &**begin;
        if change.epoch < self.sitting.began() {
            // Of a replica that comes back: it had begun that before it ended, and a later one.
            return;
        }
        if *afresh {
            self.forget();
            self.rows.replace(store, marks);
            self.executor.replace(store, self.context.options());
            self.copies.expect_nothing();
        }
        // Who begins afresh gets all of this with the copy, and must not install it by itself: what was over everywhere may be named
        // here, and a later delete of the same key, over as well, may not be, whose tombstone is gone.
        let settled: &[Ended] = if *afresh { &[] } else { &change.ended[self.context.at as usize] };
        let mut ended_here = Vec::new();
        // Invariant: what was written of an epoch is installed by the cut of the change that ended it, if it has one.
        if self.sitting.began() == change.epoch && !more {
            self.install_held(None);
        }
        if self.sitting.began() < change.epoch {
            // It is written as a whole, below.
            self.journal.hold(true);
            self.install_held(change.cut);
            ended_here = self.install_ended(now, settled);
            self.journal.hold(false);
        }
        assert!(
            *more || !self.earlier.holds(),
            "what was written of an epoch waits for a change that is over"
        );
        let votes = change.members.has_voter((self.context.me, self.context.options().incarnation));
        let under_way = self.owns.take_all();
        for (ts, _) in under_way.iter() {
            assert!(self.records.get(self.context.me, *ts).is_some(), "an own transaction has a record");
        }
        let outcome =
            |worker: &Self, ts| worker.records.get(worker.context.me, ts).and_then(|record| record.outcome);
        let ended: Vec<_> =
            under_way.into_iter().map(|own| (outcome(self, own.0) == Some(true), own)).collect();
        for (commit, own) in ended {
            self.end(now, own, commit);
        }
        if !votes {
            // Nothing was done: another replica may.
            for retry in self.owns.lanes.take_all() {
                self.answers.reply(retry.asked.token, Outcome::Conflict, &[]);
            }
        }
        self.void_grants();
        // A replica that comes back may have begun it before it ended: then its records are of this epoch.
        if self.sitting.began() < change.epoch {
            self.sitting.begin(change.epoch);
            self.records.clear();
            self.gone.clear();
            let (epoch, afresh) = (change.epoch, *afresh);
            self.journal.write(&Record::Began { epoch, afresh, cut: change.cut, ended: ended_here });
            self.settling.begin();
            self.context.cell().noted.store(0, Ordering::Relaxed);
        }
        self.journal.forget_words();
        self.unripe.clear();
        self.terminations.clear();
        self.post.clear();
        self.peers.begin();
        self.stamps.observe(change.base);
        let seat = Seat { epoch: change.epoch, members: change.members.clone(), votes };
        let listeners = seat.others(self.context.me).chain(self.journal.is_sync().then_some(self.context.me));
        self.outcomes.begin(listeners.collect::<Vec<NodeId>>().into_iter());
        self.sitting.take(seat);
        let cell = self.context.cell();
        cell.oldest.store(Nanos::MAX, Ordering::SeqCst);
        cell.closed.store(0, Ordering::Relaxed);
        cell.stuck.store(false, Ordering::Relaxed);
        self.beat.begin(now);
        self.wait_always(now, Report::Begun(change.epoch));
    }

    /// This replica missed what became of the epoch that it was in: of what it coordinated it knows nothing.
    fn forget(&mut self) {
        for (_, own) in self.owns.take_all() {
            own.tokens().for_each(|token| self.answers.reply(token, Outcome::Unknown, &[]));
        }
        for retry in self.owns.lanes.take_all() {
            self.answers.reply(retry.asked.token, Outcome::Conflict, &[]);
        }
        self.forget_grants();
        // Marks and store are replaced before anything is validated again.
        self.sitting.leave();
        self.peers.forget();
        self.outcomes.begin(std::iter::empty());
        self.journal.forget_words();
        self.earlier.take_held();
        self.records.clear();
        self.unripe.clear();
        self.terminations.clear();
        self.post.clear();
        self.copies.refuse_all();
        self.context.cell().oldest.store(Nanos::MAX, Ordering::SeqCst);
    }
}
