//! The worker as a replica: it validates, accepts, and installs what is decided.

use std::sync::atomic::Ordering;

use highwater_core::{NodeId, Timestamp};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::own::Vote;
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::record::Told;
use highwater_kit::validation::validate::unmark;
use highwater_seam::{Counters, Nanos};

use super::{MeerkatWorker, Whom};
use crate::hooks;
use crate::journal::Waits;

impl MeerkatWorker {
    pub(super) fn on_message(&mut self, now: Nanos, from: NodeId, voter: bool, message: Message) {
        let Message { ts, about } = message;
        let node = self.context.shared.layout.coordinator(ts).node;
        let votes = self.votes();
        match about {
            About::Validate { payload } if votes && voter => self.on_validate(now, from, ts, payload),
            About::Vote { valid, late, hint } if voter && node == self.context.me => {
                self.on_vote(now, from, ts, Vote { valid, late, hint });
            }
            About::Accept { view, commit, payload } if votes && voter => {
                self.on_accept(now, from, ts, (view, commit), payload);
            }
            About::Accepted { view } if voter => match view {
                0 => self.on_accepted(now, from, ts),
                _ => self.on_accepted_later(now, from, (node, ts), view),
            },
            About::Overtaken { view } if voter => {
                if node == self.context.me {
                    self.on_overtaken(ts);
                }
                self.on_overtaken_by(now, (node, ts), view);
            }
            About::Outcome { number, commit, payload } if node == from => {
                self.on_outcome(now, from, number, (ts, commit), payload);
            }
            About::Over { commit } => self.on_over(now, from, (node, ts), commit),
            About::Prepare { view } if votes && voter => self.on_prepare(now, from, (node, ts), view),
            About::Promise { view, valid, accepted, payload } if voter => {
                self.on_promise(now, from, (node, ts), view, (valid, accepted, payload));
            }
            About::Settle { commit, payload } => self.on_settle(now, from, (node, ts), commit, payload),
            About::Settled => self.terminations.settled((node, ts), from),
            About::HowFar => {
                // Its clock may be far behind.
                self.stamps.close_above(ts);
                self.beat.rouse_at(now + self.context.beat());
                // What was said of it may be lost.
                self.peers.tell_anew(from);
            }
            // From, or to, somebody without a vote.
            _ => {}
        }
    }

    fn on_validate(&mut self, now: Nanos, from: NodeId, ts: Timestamp, payload: Payload) {
        if !self.is_closed(from, ts) {
            self.validate(now, from, (from, ts), payload);
        }
    }

    /// A coordinator, a worker or a client, asks whether a transaction of `node`'s can commit.
    pub(super) fn validate(
        &mut self,
        now: Nanos,
        asks: impl Into<Whom>,
        (node, ts): (NodeId, Timestamp),
        payload: Payload,
    ) {
        let asks = asks.into();
        let record = self.records.entry(now, node, ts);
        if let Some(commit) = record.outcome {
            return self.answer(asks, Message { ts, about: About::Over { commit } });
        }
        self.learn(now, (node, ts), Some(payload));
        if let Some(Vote { valid, late, hint }) = self.vote(now, node, ts) {
            self.vouch(now, asks, Message { ts, about: About::Vote { valid, late, hint } });
        }
    }

    /// Whether a transaction is over everywhere, by the word of its coordinator: what comes is late, and must not make a record. If there
    /// is none, what it wrote must not be installed again: the tombstone of a later delete may be gone.
    ///
    /// Two facts say so, of own ones as well: what is closed, and up to where records have gone. [`Records::entry`](highwater_kit::validation::record::Records::entry)
    /// asserts what follows.
    pub(super) fn is_closed(&self, node: NodeId, ts: Timestamp) -> bool {
        if node == self.context.me && !hooks::closes_own() {
            return false;
        }
        if ts <= self.gone.upto(node) {
            return true;
        }
        if node == self.context.me {
            return ts <= self.closed();
        }
        self.peers.has_closed(node, ts)
    }

    fn on_accept(
        &mut self,
        now: Nanos,
        from: NodeId,
        ts: Timestamp,
        (view, commit): (u32, bool),
        payload: Option<Payload>,
    ) {
        let node = self.context.shared.layout.coordinator(ts).node;
        if self.is_closed(node, ts) {
            return;
        }
        self.learn(now, (node, ts), payload);
        let known = self.records.get(node, ts).is_some_and(|record| record.payload.is_some());
        // Whoever proposes in a view above 0 sends what it writes along: see `terminate`.
        if view == 0 || !commit || known || hooks::promises_at_once() {
            self.consider(now, from, (node, ts), (view, commit));
        }
    }

    /// A transaction's reads and writes go into its record, if that has it not yet.
    pub(super) fn learn(&mut self, now: Nanos, (node, ts): (NodeId, Timestamp), payload: Option<Payload>) {
        let Some(payload) = payload else { return };
        let record = self.records.entry(now, node, ts);
        if record.payload.is_none() {
            let len = payload.len();
            record.payload = Some(payload);
            self.records.add_bytes(len);
        }
    }

    /// Somebody proposes what shall be decided.
    pub(super) fn consider(
        &mut self,
        now: Nanos,
        asks: impl Into<Whom>,
        (node, ts): (NodeId, Timestamp),
        (view, commit): (u32, bool),
    ) {
        let asks = asks.into();
        if let Some(commit) = self.records.entry(now, node, ts).outcome {
            return self.answer(asks, Message { ts, about: About::Over { commit } });
        }
        let about = match self.accept(now, node, ts, view, commit) {
            Ok(()) => About::Accepted { view },
            Err(view) => About::Overtaken { view },
        };
        self.vouch(now, asks, Message { ts, about });
    }

    /// Says at once what needs no disk.
    fn answer(&mut self, to: Whom, message: Message) {
        match to {
            Whom::Node(node) => self.post.for_one(node, &message),
            Whom::Client(client) => self.tell_about(client, message),
        }
    }

    /// Accepts a proposal, unless a later view was promised: then that one.
    ///
    /// # Panics
    /// If the transaction is over, or it is to commit in a view above 0 and nobody has said what it writes.
    pub(super) fn accept(
        &mut self,
        now: Nanos,
        node: NodeId,
        ts: Timestamp,
        view: u32,
        commit: bool,
    ) -> Result<(), u32> {
        assert!(!self.is_closed(node, ts), "{ts} is over everywhere: there is nothing to accept");
        self.announce_pending(now);
        self.latest = self.latest.max(ts);
        let record = self.records.entry(now, node, ts);
        if record.view > view {
            return Err(record.view);
        }
        assert!(record.outcome.is_none(), "{ts} is over: there is nothing to accept");
        let whole = !commit || view == 0 || record.payload.is_some() || hooks::promises_at_once();
        assert!(whole, "who accepts in view {view} that {ts} commits has what it writes");
        if let Some((before, decision)) = record.accepted {
            let same = before != view || decision == commit || hooks::shares_views();
            assert!(same, "view {view} of {ts} has one proposal");
        }
        record.view = view;
        record.accepted = Some((view, commit));
        self.note(now, node, Told { accepted: Some((view, commit)), ..Told::of(ts) });
        Ok(())
    }

    fn on_outcome(
        &mut self,
        now: Nanos,
        from: NodeId,
        number: u64,
        (ts, commit): (Timestamp, bool),
        payload: Option<Payload>,
    ) {
        if !self.peers.expects(from, number) || !self.conclude(now, from, ts, commit, payload) {
            return;
        }
        self.peers.heard(from, number);
        self.wait(now, Waits::Heard(from, number));
    }

    /// A transaction is over elsewhere.
    fn on_over(&mut self, now: Nanos, from: NodeId, (node, ts): (NodeId, Timestamp), commit: bool) {
        if node == self.context.me {
            self.settle(now, ts, commit, None);
        }
        self.terminations.over((node, ts), from, commit);
        self.go_on_with(now, (node, ts));
    }

    /// A transaction is decided: it is installed here, if it commits, and its marks go. `false` if it cannot be, because nobody has said
    /// what it writes.
    pub(super) fn conclude(
        &mut self,
        now: Nanos,
        node: NodeId,
        ts: Timestamp,
        commit: bool,
        payload: Option<Payload>,
    ) -> bool {
        if self.is_closed(node, ts) && self.records.get(node, ts).is_none() {
            return true;
        }
        self.latest = self.latest.max(ts);
        let record = self.records.entry(now, node, ts);
        if let Some(before) = record.outcome {
            assert_eq!(before, commit, "{ts} has one outcome");
            return true;
        }
        self.learn(now, (node, ts), payload);
        let record = self.records.entry(now, node, ts);
        let (payload, marked) = (record.payload.clone(), record.marked);
        if commit {
            let Some(payload) = &payload else { return false };
            if hooks::installs(record.valid) {
                self.apply(payload);
            }
        }
        if let Some(payload) = &payload
            && (marked || commit)
            && (commit || hooks::unmarks_aborted())
        {
            unmark(self.rows.marks(), payload, ts, commit && hooks::raises_rts());
        }
        self.note(now, node, Told { outcome: Some(commit), ..Told::of(ts) });
        self.records.end(now, node, ts, commit);
        // Whoever took it over here asks no more, and tells those who have not heard.
        self.terminations.over((node, ts), self.context.me, commit);
        if let Some(payload) = payload.filter(|_| commit && !self.owns.all.contains_key(&ts)) {
            self.frees(&payload);
        }
        self.tell_client_of(node, ts, commit);
        if let Some(epoch) = self.sitting.epoch() {
            hooks::ended(epoch, ts, commit);
        }
        let decided = &self.context.cell().decided;
        decided.store(decided.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.beat.rouse_at(now + self.context.beat());
        true
    }

    fn apply(&mut self, payload: &Payload) {
        if !payload.transaction().is_empty() {
            self.rows.apply(payload);
            Counters::add(&self.context.counters.applied, 1);
            self.answers.written(payload);
        }
    }

    /// What committed, and has no record.
    pub(super) fn install(&mut self, ts: Timestamp, payload: &Payload) {
        self.apply(payload);
        unmark(self.rows.marks(), payload, ts, true);
    }

    /// A record of a transaction under way is about to be made: others must not drop, from here on, what it may be in conflict with.
    pub(super) fn announce_pending(&self, now: Nanos) {
        let oldest = &self.context.cell().oldest;
        if oldest.load(Ordering::SeqCst) > now {
            oldest.store(now, Ordering::SeqCst);
        }
    }
}
