//! The coordinator of this worker's own transactions, as Meerkat's: sections 5.2.1 and 5.2.2 of the paper.

use highwater_core::{NodeId, Timestamp, planted};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::own::{Asked, Decision, Own, Phase, Vote, bit};
use highwater_kit::validation::quorum::Quorums;
use highwater_seam::Nanos;

use super::worker::TapirWorker;

/// The shortest time in which a reply may be expected; the same as Meerkat's.
const LEAST_PATIENCE: Nanos = 1_000_000;

impl TapirWorker {
    /// Executes it, and proposes it to the replicas.
    pub(super) fn attempt(&mut self, now: Nanos, mut asked: Asked, hint: Timestamp) {
        asked.attempts += 1;
        let common = &mut self.common;
        let Some(outcome) = common.storage.execute(&asked) else { return self.put_off(now, asked, hint) };
        let ts = self.stamps.next(common.storage.seen().max(hint), 0);
        let payload = common.storage.end(ts);
        common.count_execution(&payload);
        self.outcomes.open(ts);
        common.add(now, ts, asked, (outcome, payload.clone()));
        if let Some(vote) = self.vote(self.coordinator, ts, &payload) {
            self.count(self.common.me, ts, vote);
        }
        // A refusal at home is most likely one everywhere; but others may know better, and it must be over for all.
        self.common.post.for_all(&Message { ts, about: About::Validate { payload } });
        self.decide(now, ts, false);
    }

    /// A replica has said whether it found a transaction of this worker's valid.
    pub(super) fn on_vote(&mut self, now: Nanos, from: NodeId, ts: Timestamp, vote: Vote) {
        self.count(from, ts, vote);
        self.decide(now, ts, false);
    }

    fn count(&mut self, from: NodeId, ts: Timestamp, vote: Vote) {
        let Some(own) = self.common.owns.all.get_mut(&ts) else { return };
        if vote.valid {
            own.valid |= bit(from);
        } else {
            own.invalid |= bit(from);
            own.hint = own.hint.max(vote.hint);
        }
        assert!(own.valid & own.invalid == 0, "a replica votes once on {ts}");
    }

    fn quorums(&self) -> Quorums {
        if planted!(OneIsEnough) { Quorums { fast: 1, ..self.quorums } } else { self.quorums }
    }

    /// Replicas that take messages, this one included: a bit each.
    pub(super) fn reachable(&self) -> u32 {
        self.common.listeners().fold(bit(self.common.me), |all, node| all | bit(node))
    }

    /// What follows from what is known of a transaction of this worker's. `late`: no more is expected.
    fn decide(&mut self, now: Nanos, ts: Timestamp, late: bool) {
        let (quorums, reachable) = (self.quorums(), self.reachable());
        let Some(own) = self.common.owns.all.get_mut(&ts) else { return };
        let late = late || own.voted() & reachable == reachable;
        match own.decide(quorums, late) {
            Decision::Wait => {}
            Decision::Settle { commit, fast } => {
                self.common.count(|cell| if fast { &cell.fast } else { &cell.slow });
                self.settle(now, ts, commit);
            }
            Decision::Propose { commit } => {
                own.phase = Phase::Accepting { commit, by: bit(self.common.me) };
                own.since = now;
                self.record.accept(self.coordinator, ts, commit);
                self.common
                    .post
                    .for_all(&Message { ts, about: About::Accept { view: 0, commit, payload: None } });
                self.decide(now, ts, false);
            }
        }
    }

    /// A replica has accepted what this worker proposed.
    pub(super) fn on_accepted(&mut self, now: Nanos, from: NodeId, ts: Timestamp) {
        let Some(own) = self.common.owns.all.get_mut(&ts) else { return };
        if let Phase::Accepting { by, .. } = &mut own.phase {
            *by |= bit(from);
            self.decide(now, ts, false);
        }
    }

    /// It is decided: all are told, and the client is, or there is another attempt.
    fn settle(&mut self, now: Nanos, ts: Timestamp, commit: bool) {
        let own = self.common.owns.remove(ts, commit, (0, 0)).expect("what is decided was under way");
        self.conclude(self.coordinator, ts, commit, None);
        self.outcomes.push(ts, commit, own.payload.clone(), own.voted());
        if commit {
            return self.common.answer(now, &own);
        }
        let Own { asked, hint, .. } = own;
        self.put_off(now, asked, hint);
    }

    fn put_off(&mut self, now: Nanos, asked: Asked, hint: Timestamp) {
        self.stamps.observe(hint);
        self.common.put_off(now, asked, hint);
    }

    /// How long a reply may take before no more are expected.
    pub(super) fn patience(&self) -> Nanos {
        let beat = self.common.node.options.heartbeat;
        (4 * self.common.round_trip).clamp(LEAST_PATIENCE, beat.max(LEAST_PATIENCE))
    }

    /// Those that have waited long enough go the slow path.
    pub(super) fn decide_late(&mut self, now: Nanos) {
        let patience = self.patience();
        let late = |own: &Own| own.phase == Phase::Validating && own.since + patience <= now;
        let all = self.common.owns.all.iter();
        let late: Vec<_> = all.filter(|(_, own)| late(own)).map(|(ts, _)| *ts).collect();
        late.into_iter().for_each(|ts| self.decide(now, ts, true));
    }

    /// The connection to a replica is new: it is asked again what it has not answered.
    pub(super) fn ask_again(&mut self, node: NodeId) {
        for (ts, own) in &self.common.owns.all {
            let about = match own.phase {
                Phase::Validating if own.voted() & bit(node) == 0 => {
                    About::Validate { payload: own.payload.clone() }
                }
                Phase::Accepting { commit, by } if by & bit(node) == 0 => {
                    About::Accept { view: 0, commit, payload: None }
                }
                Phase::Validating | Phase::Accepting { .. } | Phase::Overtaken => continue,
            };
            self.common.post.for_one(node, &Message { ts: *ts, about });
        }
    }
}
