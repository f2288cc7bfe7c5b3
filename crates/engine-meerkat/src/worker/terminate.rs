//! The worker as a backup coordinator: it ends transactions whose coordinators have fallen silent. Section 5.3.2 of the paper.
//!
//! Views of a transaction are numbered; of a view above 0 the replica `view mod n` is the proposer. It has a majority promise to hear no
//! earlier view, learns what they know, proposes what is safe, has it accepted by a majority, and tells everybody.
//!
//! What is safe, by the promises, in this order: what somebody knows to be the outcome; the proposal that was accepted in the latest
//! view; to commit, if a majority found it valid; to abort, if it cannot have committed on the fast path: those who found it valid and
//! those who were not heard are fewer than that takes. (The paper asks for a majority of equal votes, and does not say what follows if
//! there is none.) Else it waits for more promises; and if none come, a change of epoch settles it.
//!
//! Who promises without having validated will not do so later: its vote is no.
//!
//! Invariants:
//! - A record of a transaction that is over everywhere is not made again, whatever comes late; nothing is accepted over a known outcome.
//! - Of a promise, this replica's own included, nothing counts that is on no disk, where disks are promised.
//! - Whoever accepts in such a view that it commits has what it writes: it comes with the proposal to who promised without it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use highwater_core::{NodeId, Timestamp};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::own::bit;
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::quorum::Quorums;
use highwater_seam::Nanos;

use super::MeerkatWorker;
use crate::hooks;

/// Transactions that are taken over at a beat, at most.
const MOST: usize = 64;

/// A transaction by its coordinator and timestamp.
pub(super) type Name = (NodeId, Timestamp);
/// Whether a replica found it valid, what it accepted, and its payload.
pub(super) type Promised = (bool, Option<(u32, bool)>, Option<Payload>);

enum Stage {
    /// `whole`: those who have what it writes, by their promises: a bit each, as the others.
    Preparing {
        promises: u32,
        valid: u32,
        whole: u32,
        accepted: Option<(u32, bool)>,
    },
    Accepting {
        commit: bool,
        by: u32,
        whole: u32,
    },
    Telling {
        commit: bool,
        heard: u32,
    },
}

struct Termination {
    view: u32,
    stage: Stage,
    since: Nanos,
}

/// The transactions that this worker takes over.
#[derive(Default)]
pub(super) struct Terminations(BTreeMap<Name, Termination>, Yielded);

/// Those that are left to somebody else, and until when: two who take turns to overtake each other end nothing.
type Yielded = BTreeMap<Name, Nanos>;

impl Terminations {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether somebody is at work on it: this worker, or one that it was left to.
    #[cfg(feature = "delegates")]
    pub fn has(&self, name: Name) -> bool {
        self.0.contains_key(&name) || self.1.contains_key(&name)
    }

    pub fn clear(&mut self) {
        self.0.clear();
        self.1.clear();
    }

    /// Somebody promised a later view: it is left to that one. Whether this worker had taken it over.
    fn overtaken(&mut self, name: Name, view: u32) -> bool {
        let earlier = |own: &Termination| own.view < view && !matches!(own.stage, Stage::Telling { .. });
        let over = self.0.get(&name).is_some_and(earlier);
        if over {
            self.0.remove(&name);
        }
        over
    }

    /// `from` knows the outcome.
    pub fn over(&mut self, name: Name, from: NodeId, commit: bool) {
        if let Some(own) = self.0.get_mut(&name) {
            match &mut own.stage {
                Stage::Telling { heard, .. } => *heard |= bit(from),
                _ => own.stage = Stage::Telling { commit, heard: bit(from) },
            }
        }
    }

    pub fn settled(&mut self, name: Name, from: NodeId) {
        if let Some(Termination { stage: Stage::Telling { heard, .. }, .. }) = self.0.get_mut(&name) {
            *heard |= bit(from);
        }
    }
}

/// What is safe to propose, if anything is yet, by who promised, who of them found it valid, and the latest proposal that was accepted.
pub fn safe(quorums: Quorums, promises: u32, valid: u32, accepted: Option<(u32, bool)>) -> Option<bool> {
    let (promises, valid) = (promises.count_ones(), valid.count_ones());
    if promises < quorums.majority {
        return None;
    }
    if let Some((_, commit)) = accepted {
        return Some(commit);
    }
    if valid >= quorums.majority {
        return Some(true);
    }
    (valid + quorums.all - promises < quorums.fast).then_some(false)
}

impl MeerkatWorker {
    /// Takes transactions over that have been under way for too long: the more of the others' turns went by, the more likely it is this
    /// replica's.
    ///
    /// If votes are withheld until a transaction's time has come, it is not under way for too long before: whoever takes it over has those votes
    /// taken back, and it could never commit.
    pub(super) fn terminate_overdue(&mut self, now: Nanos) {
        let patience = self.times.overdue(self.context.options());
        if self.votes() && now > patience {
            self.terminations.1.retain(|_, until| *until > now);
            let clock =
                if self.context.shared.strict { self.context.shared.clock.now() } else { Timestamp::MAX };
            for name in self.records.overdue(now - patience, clock, MOST) {
                if self.terminations.1.contains_key(&name) {
                    continue;
                }
                let begun = self.terminations.0.get(&name).map(|own| own.since);
                if begun.is_none_or(|since| now - since >= patience) {
                    self.take_over(now, name);
                }
            }
        }
        self.end_abandoned(now);
        let names: Vec<Name> = self.terminations.0.keys().copied().collect();
        for name in names {
            self.go_on_with(now, name);
        }
    }

    pub(super) fn take_over(&mut self, now: Nanos, name: Name) {
        let (node, ts) = name;
        let n = u32::from(self.context.options().nodes);
        let record = self.records.entry(now, node, ts);
        // The next view of which this replica is the proposer.
        let turns = (n + u32::from(self.context.me.0) - record.view % n) % n;
        let view = record.view + if turns == 0 { n } else { turns };
        let view = hooks::view(view);
        let open = |own: &Termination| match own.stage {
            Stage::Preparing { promises, .. } => {
                promises.count_ones() >= self.context.shared.quorums.majority
            }
            _ => false,
        };
        if self.terminations.0.get(&name).is_some_and(open) {
            // Promises leave it open, and no more have come: only a change of epoch can settle it.
            self.context.cell().stuck.store(true, Ordering::Relaxed);
        }
        let stage = Stage::Preparing { promises: 0, valid: 0, whole: 0, accepted: None };
        self.terminations.0.insert(name, Termination { view, stage, since: now });
        if let Ok(about) = self.promise(now, name, view) {
            self.vouch(now, self.context.me, Message { ts, about });
        }
        self.ask_for(name);
    }

    /// Asks whoever has not answered.
    fn ask_for(&mut self, name: Name) {
        let reachable = self.reachable() & !bit(self.context.me);
        let Some(own) = self.terminations.0.get(&name) else { return };
        let (silent, commits, whole) = match own.stage {
            Stage::Preparing { promises, .. } => (reachable & !promises, None, 0),
            Stage::Accepting { commit, by, whole } => (reachable & !by, Some(commit), whole),
            Stage::Telling { .. } => return,
        };
        let (view, payload) =
            (own.view, self.records.get(name.0, name.1).and_then(|own| own.payload.clone()));
        for node in (0..self.context.options().nodes).map(NodeId).filter(|node| silent & bit(*node) != 0) {
            let lacks = commits == Some(true) && whole & bit(node) == 0 && !hooks::promises_at_once();
            let about = match commits {
                None => About::Prepare { view },
                Some(commit) => About::Accept { view, commit, payload: payload.clone().filter(|_| lacks) },
            };
            self.post.for_one(node, &Message { ts: name.1, about });
        }
    }

    /// Promises to hear no earlier view; or says that there was a later one.
    fn promise(&mut self, now: Nanos, (node, ts): Name, view: u32) -> Result<About, u32> {
        self.announce_pending(now);
        let record = self.records.entry(now, node, ts);
        if record.view > view
            || record.view == view && view > 0 && record.accepted.is_some_and(|(at, _)| at == view)
        {
            return Err(record.view);
        }
        record.view = view;
        if record.withheld {
            self.take_back(now, node, ts);
        }
        let record = self.records.entry(now, node, ts);
        let valid = *record.valid.get_or_insert(false);
        Ok(About::Promise { view, valid, accepted: record.accepted, payload: record.payload.clone() })
    }

    /// Leaves a transaction to the proposer of `view` for a while: the longer, the more views came to nothing.
    fn give_way(&mut self, now: Nanos, name: Name, view: u32) {
        let rounds = view / u32::from(self.context.options().nodes);
        let least = self.times.overdue(self.context.options());
        let most = least << rounds.min(4);
        let until = now + least + self.random.below(most);
        self.terminations.1.insert(name, until);
    }

    pub(super) fn on_overtaken_by(&mut self, now: Nanos, name: Name, view: u32) {
        if self.terminations.overtaken(name, view) {
            self.give_way(now, name, view);
        }
    }

    pub(super) fn on_prepare(&mut self, now: Nanos, from: NodeId, name: Name, view: u32) {
        let (node, ts) = name;
        if let Some(commit) = self.records.get(node, ts).and_then(|record| record.outcome) {
            let payload = self.records.get(node, ts).and_then(|record| record.payload.clone());
            // More than `Over`: whoever asks may not know what it writes.
            let about = About::Settle { commit, payload: payload.filter(|_| commit) };
            return self.post.for_one(from, &Message { ts, about });
        }
        if self.is_closed(node, ts) {
            return;
        }
        let about = match self.promise(now, name, view) {
            Ok(promise) => {
                self.give_way(now, name, view);
                promise
            }
            Err(view) => About::Overtaken { view },
        };
        if hooks::promises_at_once() {
            return self.post.for_one(from, &Message { ts, about });
        }
        self.vouch(now, from, Message { ts, about });
    }

    pub(super) fn on_promise(&mut self, now: Nanos, from: NodeId, name: Name, view: u32, promised: Promised) {
        let quorums = self.context.shared.quorums;
        let (found_valid, latest, its_payload) = promised;
        let (node, ts) = name;
        if self.is_closed(node, ts) || self.records.get(node, ts).is_none_or(|own| own.outcome.is_some()) {
            // It is over: what comes late makes no record of it again, and nothing more is proposed.
            return self.go_on_with(now, name);
        }
        let Some(own) = self.terminations.0.get_mut(&name).filter(|own| own.view == view) else { return };
        let Stage::Preparing { promises, valid, whole, accepted } = &mut own.stage else { return };
        *promises |= bit(from);
        if its_payload.is_some() {
            *whole |= bit(from);
        }
        if found_valid {
            *valid |= bit(from);
        }
        if latest.is_some_and(|(at, _)| accepted.is_none_or(|(before, _)| before < at)) {
            *accepted = latest;
        }
        let (proposal, whole) = (safe(quorums, *promises, *valid, *accepted), *whole);
        self.learn(now, name, its_payload);
        let known = self.records.get(node, ts).is_some_and(|own| own.payload.is_some());
        // Somebody of every majority has what it writes, and may not have promised yet.
        let Some(commit) = proposal.filter(|commit| !commit || known) else { return };
        if self.accept(now, node, ts, view, commit).is_err() {
            self.terminations.0.remove(&name);
            return;
        }
        let own = self.terminations.0.get_mut(&name).expect("it was just there");
        own.stage = Stage::Accepting { commit, by: 0, whole };
        self.ask_for(name);
        self.vouch(now, self.context.me, Message { ts, about: About::Accepted { view } });
        self.go_on_with(now, name);
    }

    pub(super) fn on_accepted_later(&mut self, now: Nanos, from: NodeId, name: Name, view: u32) {
        let Some(own) = self.terminations.0.get_mut(&name).filter(|own| own.view == view) else { return };
        if let Stage::Accepting { by, .. } = &mut own.stage {
            *by |= bit(from);
            self.go_on_with(now, name);
        }
    }

    /// What follows from what is known of a transaction that was taken over.
    pub(super) fn go_on_with(&mut self, now: Nanos, name: Name) {
        let (node, ts) = name;
        if self.is_closed(node, ts) || node == self.context.me && ts <= self.closed() {
            // It is over everywhere.
            self.terminations.0.remove(&name);
            return;
        }
        let majority = self.context.shared.quorums.majority;
        let known = self.records.get(node, ts).and_then(|record| record.outcome);
        let Some(own) = self.terminations.0.get_mut(&name) else { return };
        match own.stage {
            Stage::Accepting { commit, by, .. } if by.count_ones() >= majority => {
                own.stage = Stage::Telling { commit, heard: 0 };
            }
            Stage::Preparing { .. } | Stage::Accepting { .. } if known.is_some() => {
                own.stage = Stage::Telling { commit: known.unwrap_or_default(), heard: 0 };
            }
            _ => {}
        }
        let Stage::Telling { commit, heard } = own.stage else { return };
        if node == self.context.me {
            self.settle(now, ts, commit, None);
        }
        if known.is_none() && !self.conclude(now, node, ts, commit, None) {
            // Somebody who knows what it writes will say so.
            self.terminations.0.remove(&name);
            return;
        }
        let payload = self.records.get(node, ts).and_then(|record| record.payload.clone());
        let others: Vec<NodeId> =
            self.sitting.seat().map(|seat| seat.others(self.context.me).collect()).unwrap_or_default();
        let silent: Vec<NodeId> = others.into_iter().filter(|node| heard & bit(*node) == 0).collect();
        if silent.is_empty() {
            self.terminations.0.remove(&name);
            return;
        }
        let about = About::Settle { commit, payload: payload.filter(|_| commit) };
        let message = Message { ts, about };
        for node in silent {
            if self.peers.is_connected(node) {
                self.post.for_one(node, &message);
            }
        }
    }

    /// A transaction is decided by the word of a backup coordinator, or of somebody who knows.
    pub(super) fn on_settle(
        &mut self,
        now: Nanos,
        from: NodeId,
        name: Name,
        commit: bool,
        payload: Option<Payload>,
    ) {
        let (node, ts) = name;
        if node == self.context.me && (self.owns.all.contains_key(&ts) || self.delegates.has_granted(ts)) {
            self.settle(now, ts, commit, payload.clone());
        }
        if self.conclude(now, node, ts, commit, payload) {
            self.post.for_one(from, &Message { ts, about: About::Settled });
            self.terminations.over(name, from, commit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 5.3.2.
    #[test]
    fn a_backup_coordinator_proposes_what_is_safe() {
        let three = Quorums::of(3);
        assert_eq!(safe(three, 0b001, 0b001, None), None, "no majority");
        assert_eq!(safe(three, 0b011, 0b001, Some((0, true))), Some(true), "accepted before");
        assert_eq!(safe(three, 0b011, 0b011, None), Some(true));
        assert_eq!(safe(three, 0b011, 0b001, None), Some(false), "two of three is not fast");
    }

    /// Two of five found it valid, one did not; if the two others did, it may have committed.
    #[test]
    fn it_waits_where_votes_that_it_has_not_heard_may_have_decided() {
        let five = Quorums::of(5);
        assert_eq!(safe(five, 0b00111, 0b00011, None), None);
        assert_eq!(safe(five, 0b01111, 0b00011, None), Some(false));
        assert_eq!(safe(five, 0b01111, 0b01011, None), Some(true));
        assert_eq!(safe(five, 0b00111, 0b00001, None), Some(false));
    }
}
