//! Changes of epoch, as a worker lives through them; and its part in copies of the state.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::Voter;
use highwater_core::{Epoch, NodeId, Outcome, Timestamp};
use highwater_kit::copy::{CopyMessage, Installer, Source};
use highwater_kit::validation::message::TAG;
use highwater_kit::validation::tx::MeerkatTx;
use highwater_seam::{Endpoint, Frame, Nanos, Next, Outbox};
use highwater_store::Applier;

use super::MeerkatWorker;
use crate::change::Ended;
use crate::journal::Record;
use crate::shared::{Begin, Command, Report, Seat};

/// A store that holds nothing but what is decided: whatever is read of it may be copied.
struct Settled;

impl Source for Settled {
    fn is_sound(&self) -> bool {
        true
    }

    fn position(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn settled(&self) -> Timestamp {
        Timestamp::MAX
    }
}

impl MeerkatWorker {
    pub(super) fn take_commands(&mut self, now: Nanos) {
        let shared = self.shared.clone();
        for command in shared.commands[self.at as usize].take() {
            match command {
                Command::Pause(epoch) => self.pause(now, epoch),
                Command::Begin(begin) => self.begin(now, &begin),
                Command::Forget => self.forget(),
                Command::Announce(name) => self.sender.announce(name),
                Command::Keep(number, kept) => self.keep(now, number, kept),
                Command::CheckpointFrom { number, kept } => self.write_anew(number, &kept),
                Command::CheckpointSettle(number, newest) => self.settle_checkpoint(now, number, newest),
                Command::Expect { donor, copy } => {
                    self.installer = Installer::expect(now, donor, copy, self.store.clone());
                }
            }
        }
    }

    /// From here on nothing that was not told takes part in the old epoch.
    fn pause(&mut self, now: Nanos, epoch: Epoch) {
        // What it tells is of the epoch before the one that is promised.
        match &self.seat {
            Some(seat) => assert_eq!(seat.epoch.next(), epoch, "a worker pauses behind what it begins"),
            // Of one that forgot what it had of that it tells nothing.
            None if self.began.next() != epoch => self.records.clear(),
            None => {}
        }
        self.paused = Some(epoch);
        self.journal.forget_words();
        self.post.clear();
        for ts in std::mem::take(&mut self.unripe).into_keys() {
            let node = self.shared.layout.coordinator(ts).node;
            if self.records.get(node, ts).is_some_and(|record| record.withheld && record.outcome.is_none()) {
                self.take_back(0, node, ts);
            }
        }
        let latest = self.latest.max(self.stamps.last()).max(self.shared.clock.now());
        let (worker, records) = (self.at, self.records.tell());
        // What it tells is on disk where it need not have been so far; and that it has paused, but of who has forgotten what it does not tell.
        if self.seat.is_some() {
            self.journal.write(&Record::Paused(epoch));
        }
        self.wait_always(now, Report::Paused { worker, epoch, records, latest });
    }

    /// Installs what the change of epoch decided, and begins anew with nothing under way.
    fn begin(&mut self, now: Nanos, begin: &Arc<Begin>) {
        let Begin { change, store, marks, afresh, more } = &**begin;
        if change.epoch < self.began {
            // Of a replica that comes back: it had begun that before it ended, and a later one.
            return;
        }
        if *afresh {
            self.forget();
            self.store = store.clone();
            self.marks = marks.clone();
            let options = &self.shared.options;
            self.tx = MeerkatTx::new(store.clone(), options.max_transaction_bytes)
                .of_rows(options.max_transaction_rows);
            self.applier = Applier::new(store.clone());
            self.installer = Installer::default();
        }
        // Who begins afresh gets all of this with the copy, and must not install it by itself: what was over everywhere may be named
        // here, and a later delete of the same key, over as well, may not be, whose tombstone is gone.
        let settled: &[Ended] = if *afresh { &[] } else { &change.ended[self.at as usize] };
        let mut ended_here = Vec::new();
        // Invariant: what was written of an epoch is installed by the cut of the change that ended it, if it has one.
        if self.began == change.epoch && !more {
            self.install_held(None);
        }
        if self.began < change.epoch {
            // It is written as a whole, below.
            self.journal.hold(true);
            self.install_held(change.cut);
            ended_here = self.install_ended(now, settled);
            self.journal.hold(false);
        }
        assert!(
            *more || self.held.is_empty(),
            "what was written of an epoch waits for a change that is over"
        );
        let votes = change.members.has_voter((self.me, self.shared.options.incarnation));
        let under_way = self.owns.take_all();
        for (ts, _) in under_way.iter() {
            assert!(self.records.get(self.me, *ts).is_some(), "an own transaction has a record");
        }
        let outcome = |worker: &Self, ts| worker.records.get(worker.me, ts).and_then(|record| record.outcome);
        let ended: Vec<_> =
            under_way.into_iter().map(|(ts, own)| (own, outcome(self, ts) == Some(true))).collect();
        for (own, commit) in ended {
            self.end(now, own, commit);
        }
        if !votes {
            // Nothing was done: another replica may.
            for retry in self.owns.lanes.take_all() {
                self.done.reply(retry.asked.token, Outcome::Conflict, &[]);
            }
        }
        self.void_grants();
        // A replica that comes back may have begun it before it ended: then its records are of this epoch.
        if self.began < change.epoch {
            self.began = change.epoch;
            self.records.clear();
            self.gone.fill((Timestamp::ZERO, false));
            let (epoch, afresh) = (change.epoch, *afresh);
            self.journal.write(&Record::Began { epoch, afresh, cut: change.cut, ended: ended_here });
            self.closed = Timestamp::ZERO;
            self.cell().noted.store(0, Ordering::Relaxed);
        }
        self.journal.forget_words();
        self.unripe.clear();
        self.terminations.clear();
        self.post.clear();
        for peer in self.peers.iter_mut().flatten() {
            (peer.heard, peer.safe) = (0, 0);
            peer.closed = Timestamp::ZERO;
            peer.told = (0, Timestamp::ZERO);
            peer.met = false;
        }
        self.stamps.observe(change.base);
        let seat = Seat { epoch: change.epoch, members: change.members.clone(), votes };
        let listeners = seat.others(self.me).chain(self.journal.is_sync().then_some(self.me));
        self.outcomes.begin(listeners.collect::<Vec<NodeId>>().into_iter());
        self.seat = Some(seat);
        self.paused = None;
        let cell = self.cell();
        cell.oldest.store(Nanos::MAX, Ordering::SeqCst);
        cell.closed.store(0, Ordering::Relaxed);
        cell.stuck.store(false, Ordering::Relaxed);
        self.next_beat = now;
        self.restless = super::RESTLESS;
        self.wait_always(now, Report::Begun(change.epoch));
    }

    /// This replica missed what became of the epoch that it was in: of what it coordinated it knows nothing.
    fn forget(&mut self) {
        for (_, own) in self.owns.take_all() {
            own.tokens().for_each(|token| self.done.reply(token, Outcome::Unknown, &[]));
        }
        for retry in self.owns.lanes.take_all() {
            self.done.reply(retry.asked.token, Outcome::Conflict, &[]);
        }
        self.forget_grants();
        // Marks and store are replaced before anything is validated again.
        self.seat = None;
        self.paused = None;
        for peer in self.peers.iter_mut().flatten() {
            (peer.heard, peer.safe, peer.closed) = (0, 0, Timestamp::ZERO);
        }
        self.outcomes.begin(std::iter::empty());
        self.journal.forget_words();
        self.held.clear();
        self.records.clear();
        self.unripe.clear();
        self.terminations.clear();
        self.post.clear();
        self.sender.refuse_all();
        self.cell().oldest.store(Nanos::MAX, Ordering::SeqCst);
    }

    pub(super) fn on_copy(&mut self, now: Nanos, from: NodeId, message: CopyMessage, body: &Bytes) {
        let Some(peer) = &self.peers[from.0 as usize] else { return };
        let receiver = Voter { node: from, incarnation: peer.incarnation };
        match message {
            CopyMessage::CopyStart { copy } => {
                let (part, parts) = (self.at as usize, self.shared.options.workers as usize);
                let may = self.votes();
                self.sender.start(receiver, copy, may, &self.store, (part, parts));
            }
            CopyMessage::CopyChunk { copy, seq, complete_at } => {
                let came = self.installer.take(now, from, (copy, seq), complete_at, body);
                self.cell().copied.fetch_add(came as u64, Ordering::Relaxed);
            }
            CopyMessage::CopyAck { copy, seq } => self.sender.acknowledged(receiver, copy, seq),
        }
    }

    /// Sends and installs parts of a state.
    pub(super) fn copy_some(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        let worker = self.at;
        let mut post = |node: NodeId, message: CopyMessage, body: Bytes| {
            let mut head = Vec::with_capacity(32);
            message.encode(&mut head);
            debug_assert!(head[0] < TAG, "messages of copies have tags of their own");
            out.frames.push((Endpoint { node, worker }, Frame { head: head.into(), body }));
        };
        let sent = self.sender.turn(now, &Settled, &mut post);
        self.installer.acknowledge(|node, message| post(node, message, Bytes::new()));
        let peers = &self.peers;
        let connected = |node: NodeId| peers[node.0 as usize].as_ref().is_some_and(|peer| peer.connected);
        let wanted = self.installer.watch(now, connected, |node, message| post(node, message, Bytes::new()));
        // A receiver notices by itself.
        self.sender.take_refused();
        if let Some((copy, _)) = self.installer.take_completed() {
            self.report(Report::Copied { worker, copy });
        }
        if let Some(copy) = self.installer.take_stalled() {
            self.report(Report::Stalled(copy));
        }
        sent.next.sooner(wanted)
    }
}
