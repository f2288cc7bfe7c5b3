//! Everybody's part in a change of epoch: pause and promise, accept, begin.
//!
//! Invariants:
//! - Who promised the next epoch does nothing more in this one: its workers have paused before the promise leaves.
//! - Nothing of a change takes effect here before it is decided.
//! - Who missed a change takes no part any more, until it has copied the state.
//! - Who came back with its disk does none of it before others have said that it is the newest ([`evidence`](super::evidence)).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_core::{Epoch, Incarnation, NodeId, Timestamp, hooks};
use highwater_kit::validation::marks_of;
use highwater_kit::validation::record::Told;
use highwater_seam::Nanos;
use highwater_store::Store;

use highwater_core::wire::Wire;

use super::disk::After;
use super::thin::{Name, Payloads, fill_change, thin};
use super::{MeerkatController, Paused};
use crate::change::{Change, Members};
use crate::control::{Control, Memory, Round, Standing};
use crate::facts::{Began, Cut};
use crate::journal::Kept;
use crate::shared::{Begin, Command};

impl MeerkatController {
    /// Whether this node has a say in whether this epoch begins. If the sender is behind it is told what is decided.
    fn may_answer(&mut self, from: NodeId, epoch: Epoch) -> bool {
        if epoch <= self.epoch {
            self.tell_decided(from, Epoch(epoch.0 - 1));
            return false;
        }
        if !self.is_cleared() {
            return false;
        }
        let born = self.standing == Standing::Unborn || self.standing == Standing::Bearing;
        epoch == self.epoch.next() && (self.has_say() || (epoch == Epoch(1) && born))
    }

    pub(super) fn on_prepare(&mut self, now: Nanos, from: NodeId, epoch: Epoch, round: Round) {
        if !self.may_answer(from, epoch) {
            return;
        }
        if round < self.promised {
            return self.send(from, Control::Refuse { epoch, round: self.promised });
        }
        self.promised = round;
        self.stirred = now;
        if self.paused.as_ref().is_none_or(|paused| paused.epoch != epoch) {
            self.pause(epoch);
        }
        self.promise();
    }

    pub(super) fn pause(&mut self, epoch: Epoch) {
        let workers = self.shared.options.workers as usize;
        self.set_open(None);
        // At its birth there is nothing to tell.
        let whole = (self.epoch == Epoch(0)).then(|| Arc::new(vec![Vec::new(); workers]));
        if whole.is_none() {
            self.pause_workers(epoch);
        }
        let records = vec![None; workers];
        // So that clocks begin together: workers add theirs when they pause, and at birth there is nothing else.
        let latest = self.shared.clock.now();
        self.paused = Some(Paused { epoch, records, latest, whole });
    }

    pub(super) fn on_paused(
        &mut self,
        now: Nanos,
        worker: u16,
        epoch: Epoch,
        records: Vec<Told>,
        latest: Timestamp,
    ) {
        let Some(paused) = self.paused.as_mut().filter(|paused| paused.epoch == epoch) else { return };
        let seen = records.iter().map(|told| told.ts).max();
        paused.latest = paused.latest.max(latest).max(seen.unwrap_or_default());
        paused.records[worker as usize] = Some(records);
        if paused.records.iter().all(Option::is_some) && paused.whole.is_none() {
            let all = std::mem::take(&mut paused.records).into_iter().flatten().collect();
            paused.whole = Some(Arc::new(all));
            self.stirred = now;
            self.promise();
        }
    }

    /// Once all workers have paused.
    pub(super) fn promise(&mut self) {
        let Some(paused) = self.paused.as_ref().filter(|_| self.is_cleared()) else { return };
        let Some(records) = paused.whole.clone().filter(|_| self.promised.number > 0) else { return };
        let base = self.history.back().map_or(Timestamp::ZERO, |change| change.base);
        let (epoch, latest) = (paused.epoch, paused.latest.max(base));
        let (round, accepted) = (self.promised, self.accepted.clone());
        if self.epoch == Epoch(0) {
            self.standing = Standing::Bearing;
        }
        let (memory, standing) = (self.forgot, self.standing);
        let records = Arc::new(thin(&records));
        let promise = Control::Promise { epoch, round, accepted, latest, records, memory, standing };
        self.keep_on_disk(Kept::Promised { epoch, round }, After::Send(round.node, promise));
    }

    pub(super) fn on_accept(&mut self, now: Nanos, from: NodeId, round: Round, change: Arc<Change>) {
        let epoch = change.epoch;
        if !self.may_answer(from, epoch) {
            return;
        }
        if round < self.promised {
            return self.send(from, Control::Refuse { epoch, round: self.promised });
        }
        if epoch == Epoch(1) && !change.members.has_voter((self.me, self.life)) {
            // Of another life of this node's memory.
            return;
        }
        let Some(change) = fill_change(&change, self.told(epoch)) else {
            return self.send(from, Control::Lack { epoch, round });
        };
        (self.promised, self.stirred) = (round, now);
        if let Some((before, known)) = &self.accepted {
            assert!(*before != round || **known == *change, "an attempt has one proposal");
        }
        self.accepted = Some((round, change.clone()));
        if self.paused.is_none() {
            self.pause(epoch);
        }
        if epoch == Epoch(1) {
            self.standing = Standing::Bearing;
        }
        let accepted = Control::Accepted { epoch, round };
        self.keep_on_disk(Kept::Accepted { round, change }, After::Send(from, accepted));
    }

    /// What this node promised without the payloads that are asked for.
    pub(super) fn on_fetch(&mut self, from: NodeId, epoch: Epoch, round: Round, names: &[Name]) {
        let Some(told) = self.told(epoch) else { return };
        let payloads = Payloads::of(told);
        let mut records = vec![Vec::new(); told.len()];
        for name in names {
            if let (Some(payload), Some(of)) = (payloads.get(*name), records.get_mut(usize::from(name.0))) {
                of.push(Told { payload: Some(payload.clone()), ..Told::of(name.1) });
            }
        }
        self.send(from, Control::Payloads { epoch, round, records });
    }

    /// What this node accepted in a round is decided.
    pub(super) fn on_chosen(&mut self, now: Nanos, from: NodeId, epoch: Epoch, round: Round) {
        if epoch <= self.epoch {
            return;
        }
        let accepted = self.accepted.clone();
        match accepted.filter(|(of, change)| (*of, change.epoch) == (round, epoch)) {
            Some((_, change)) => self.on_decided(now, &change),
            None => self.send(from, Control::Lack { epoch, round }),
        }
    }

    pub(super) fn on_decided(&mut self, now: Nanos, change: &Arc<Change>) {
        if change.epoch <= self.epoch || !self.is_cleared() {
            return;
        }
        self.bar(now, change);
        self.credit(now, change);
        let me: (NodeId, Incarnation) = (self.me, self.life);
        // Who forgot has what it may have up to a cut, or nothing.
        let forgot = self.forgot != Memory::Whole;
        let has_state = if forgot { change.cut.is_some() } else { self.standing != Standing::Outside };
        let follows = change.epoch == self.epoch.next()
            && has_state
            && (change.epoch == Epoch(1) || self.members.as_ref().is_some_and(|members| members.has(me)));
        let (was_voter, votes) = (self.is_voter(), change.members.has_voter(me));
        let takes_part = change.members.has(me);
        if takes_part && follows && (votes || !was_voter) {
            self.begin(now, change, false);
        } else if takes_part && !votes {
            self.begin(now, change, true);
        } else {
            self.stay_outside(change);
        }
    }

    /// Installs a change, and takes part in what begins with it.
    fn begin(&mut self, now: Nanos, change: &Arc<Change>, afresh: bool) {
        if afresh {
            self.store = Store::new(self.schema.clone());
            // Those of this epoch it hears of.
            self.store.lacks_deletes_until(change.base);
            self.marks = marks_of(&self.schema, &self.shared.options);
            self.copying = None;
            self.leave_store();
        }
        let votes = change.members.has_voter((self.me, self.life));
        let ready = !afresh && self.standing == Standing::Ready;
        self.standing = match votes {
            true => Standing::Voting,
            false if ready => Standing::Ready,
            false => Standing::Learning,
        };
        self.shared.keeps_tombstones.store(!votes, Ordering::SeqCst);
        self.set_open(None);
        // No worker proposes now. All clocks of an epoch are about as late as the latest one was.
        self.shared.clock.advance_past(change.base);
        self.shared.base.store(change.base.0, Ordering::Relaxed);
        self.forget_attempts(now, change);
        self.members = Some(change.members.clone());
        self.changes += 1;
        self.installing = self.shared.options.workers as usize;
        let (store, marks) = (self.store.clone(), self.marks.clone());
        let begin = Arc::new(Begin { change: change.clone(), store, marks, afresh, more: false });
        self.keep_on_disk(Kept::Decided(change.clone()), After::Begin(begin));
        let ended: usize = change.ended.iter().map(Vec::len).sum();
        let names = |members: &[(NodeId, Incarnation)]| {
            members.iter().map(|(node, _)| node.to_string()).collect::<Vec<_>>().join(" ")
        };
        let Members { voters, learners, silent } = &change.members;
        let others = [(", learners ", learners), (", left behind ", silent)];
        let others: String = others
            .iter()
            .filter(|(_, who)| !who.is_empty())
            .map(|(what, who)| format!("{what}{}", names(who)))
            .collect();
        let voters = names(voters);
        self.note(format!("{} begins: voters {voters}{others}; {ended} transactions settled", change.epoch));
        if let Some(at) = change.cut {
            let window = self.shared.options.disk_window / 1_000_000;
            self.note(format!(
                "no majority remembered everything: it goes on from what disks have up to {at}. What was acknowledged in the last \
                 {window} ms before the crash may be lost, and what a replica had not heard of that took part"
            ));
            hooks::tell_own(|| Cut { epoch: change.epoch, at });
        }
        hooks::tell_own(|| {
            let mut bytes = Vec::new();
            change.put(&mut bytes);
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            Began { epoch: change.epoch, base: change.base, hash: hasher.finish() }
        });
    }

    /// This node has not installed what came before an epoch, and takes no part in it. If it is named there it keeps its say in what
    /// comes next.
    fn stay_outside(&mut self, change: &Arc<Change>) {
        self.note(format!("{} has begun without this node: it needs a copy of the state", change.epoch));
        self.standing = Standing::Outside;
        let has_say = change.members.has_say((self.me, self.life));
        self.members = has_say.then(|| change.members.clone());
        self.copying = None;
        self.leave_store();
        self.begin_nothing();
        self.set_open(None);
        self.forget_attempts(0, change);
        self.keep_on_disk(Kept::Left(change.clone()), After::Nothing);
        self.command(|| Command::Forget);
    }

    fn forget_attempts(&mut self, now: Nanos, change: &Arc<Change>) {
        self.epoch = change.epoch;
        self.keep(change.clone());
        self.promised = Round::default();
        self.accepted = None;
        self.paused = None;
        self.attempt = None;
        self.failed = 0;
        self.wanted = None;
        self.keeping.came_back = false;
        self.forgot = Memory::Whole;
        self.stirred = now;
    }

    /// A worker has installed the change; once all have, the epoch is open here.
    pub(super) fn on_begun(&mut self, epoch: Epoch) {
        if epoch != self.epoch || self.installing == 0 {
            return;
        }
        self.installing -= 1;
        if self.installing == 0 && self.paused.is_none() {
            self.set_open(Some(epoch));
        }
    }
}
