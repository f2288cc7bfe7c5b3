//! The coordinator of this worker's own transactions: sections 5.2.1 and 5.2.2 of the paper.

use std::sync::atomic::Ordering;

use highwater_core::{NodeId, Outcome, Timestamp};
use highwater_kit::validation::lanes::Retry;
use highwater_kit::validation::marks::InTheWay;
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::own::{Asked, Decision, Joined, Own, Phase, Vote, bit};
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::quorum::Quorums;
use highwater_kit::validation::record::Told;
use highwater_kit::validation::validate::validate;
use highwater_seam::{Counters, Nanos, Request};

use super::MeerkatWorker;
use super::together::{Behind, Ran};
use crate::hooks;
use crate::journal::Waits;

/// So far ahead of its clock a coordinator proposes, in ticks, because its own replica was past it already.
const MOST_AT_HOME: u64 = 4096;
/// No clock moves by more in a nanosecond, but by leaps.
const FASTEST: u64 = 8;
/// By how much clocks move that are read and not looked at for time: the simulator's.
const BY_READING: u64 = 1 << 16;
/// One that moves by less than one part in so many of a nanosecond for each stands still: what it shows it was told by others.
const SLOWEST: u64 = 64;
/// Attempts before one is proposed ahead of the clock where real time is not promised.
const MARGIN_AFTER: u32 = 3;

impl MeerkatWorker {
    /// Takes a request: the first attempt.
    pub(super) fn begin_own(&mut self, now: Nanos, request: &Request<'_>) {
        self.attempt(now, Asked::of(now, request), Timestamp::ZERO);
    }

    /// Executes it, and proposes it to the replicas.
    pub(super) fn attempt(&mut self, now: Nanos, mut asked: Asked, hint: Timestamp) {
        (asked.attempts, asked.held) = (asked.attempts + 1, false);
        let shared = &self.context.shared;
        let tx = self.executor.tx();
        tx.set_as_of(self.as_of);
        // By so many bytes it may make the store grow.
        tx.set_room(shared.room.load(Ordering::Relaxed));
        tx.refuse_writes(shared.disk_full.load(Ordering::Relaxed));
        let Some(Ran { outcome, reply, joined }) = self.run_all(&asked) else {
            return self.put_off(now, asked, hint);
        };
        let hint = joined.iter().fold(hint, |hint, behind| hint.max(behind.hint));
        let size = self.executor.tx().size();
        let usual = if self.context.shared.strict { self.lead.ticks(now, size) } else { 0 };
        let lead =
            usual.max(if self.context.shared.strict { asked.lead } else { self.margin(asked.attempts) });
        let advanced = self.no_time();
        let above = self.executor.tx().seen().max(hint);
        // What one transaction needs says nothing of the others.
        let ts = if lead > usual { self.stamps.ahead(above, lead) } else { self.stamps.next(above, lead) };
        assert!(self.as_of < ts, "what is over everywhere by now is below {ts}");
        let payload = self.executor.tx().end(ts);
        Counters::add(&self.context.counters.executed, 1 + joined.len() as u64);
        // Of what several want together the lane is known.
        asked = if joined.is_empty() {
            asked.wants(&payload)
        } else {
            Asked { reads: payload.only_reads(), ..asked }
        };
        if !asked.waited && self.owns.lanes.is_crowded(now, &asked) {
            // Who comes new waits behind those that want the same, and is no attempt: it would be in their way.
            (asked.attempts, asked.waited) = (asked.attempts - 1, true);
            return self.owns.lanes.put_off(Retry { at: now, asked, hint }, false);
        }
        asked.waited = true;
        self.announce_pending(now);
        let looked = self.look(ts, &payload);
        if let Err(Vote { late, hint: way, .. }) = looked {
            // What is refused at home needs a second round, if it can commit at all: nobody else is asked, and nothing is left behind.
            if late {
                // The clock goes on between two looks.
                let needed = (2 * self.needed(ts, (lead, advanced), way) + 2).min(MOST_AT_HOME);
                // Once that is no attempt: nobody but this replica's clock was in the way.
                asked.attempts -= u32::from(asked.lead == 0);
                asked.lead = self.lead.late(now, size, needed, MOST_AT_HOME);
            }
            let hint = hint.max(way);
            self.put_back(now, joined, hint);
            if !late && self.rows.marks().is_writer(asked.lane, way) {
                Counters::add(&self.context.counters.conflicts, 1);
                (asked.attempts, asked.held) = (asked.attempts - 1, true);
                return self.look_soon(now, asked, hint);
            }
            return self.put_off(now, asked, hint);
        }
        Counters::add(&self.context.counters.log_bytes, payload.len() as u64);
        self.outcomes.open(ts);
        let record = self.records.entry(now, self.context.me, ts);
        record.payload = Some(payload.clone());
        self.records.add_bytes(payload.len());
        let vote = self.found(now, self.context.me, ts, looked);
        let own = Own {
            asked,
            outcome,
            reply,
            payload: payload.clone(),
            valid: 0,
            invalid: 0,
            hint: Timestamp::ZERO,
            lead: (if self.context.shared.strict { lead } else { 0 }, advanced),
            phase: Phase::Validating,
            since: now,
            again: (now + self.times.ask_after(0, self.context.options()), 0),
            counts: false,
            joined: joined.into_iter().map(|behind| behind.joined).collect(),
        };
        self.owns.add(ts, own);
        self.post.for_all(&Message { ts, about: About::Validate { payload } });
        if let Some(Vote { valid, late, hint }) = vote {
            self.vouch(now, self.context.me, Message { ts, about: About::Vote { valid, late, hint } });
        }
    }

    /// What this replica says to a transaction that has a record with a payload, once and for all; `None`: not yet.
    pub(super) fn vote(&mut self, now: Nanos, node: NodeId, ts: Timestamp) -> Option<Vote> {
        let record = self.records.entry(now, node, ts);
        if let Some(valid) = record.valid {
            return (!record.withheld).then_some(Vote { valid, ..Vote::VALID });
        }
        let payload = record.payload.clone().expect("a transaction that is validated has a payload");
        self.announce_pending(now);
        let looked = self.look(ts, &payload);
        self.found(now, node, ts, looked)
    }

    /// Whether a transaction can stand here: if so it is marked. Else why not.
    fn look(&mut self, ts: Timestamp, payload: &Payload) -> Result<(), Vote> {
        self.latest = self.latest.max(ts);
        if let Some(hint) = self.is_late(ts) {
            Counters::add(&self.context.cell().too_late, 1);
            return Err(Vote { valid: false, late: true, hint });
        }
        let valid = validate(self.rows.marks(), self.executor.tx().latest(), payload, ts);
        if valid.is_err() {
            Counters::add(&self.context.cell().in_the_way, 1);
        }
        valid.map_err(|InTheWay(hint)| Vote { valid: false, late: false, hint })
    }

    /// What was found goes into the record, for good.
    fn found(&mut self, now: Nanos, node: NodeId, ts: Timestamp, looked: Result<(), Vote>) -> Option<Vote> {
        let withheld = looked.is_ok() && self.context.shared.strict;
        if let Some(epoch) = self.sitting.epoch().filter(|_| looked.is_ok()) {
            hooks::found(epoch, ts);
        }
        let record = self.records.entry(now, node, ts);
        record.valid = Some(looked.is_ok());
        (record.marked, record.withheld) = (looked.is_ok(), withheld);
        if withheld {
            self.unripe.add(ts, now);
            return None;
        }
        if looked.is_ok() {
            self.note(now, node, Told { valid: Some(true), ..Told::of(ts) });
        }
        Some(looked.err().unwrap_or(Vote::VALID))
    }

    fn quorums(&self) -> Quorums {
        hooks::counts(self.context.shared.quorums)
    }

    /// A replica has said whether it found a transaction of this worker's valid.
    pub(super) fn on_vote(&mut self, now: Nanos, from: NodeId, ts: Timestamp, vote: Vote) {
        self.count(now, from, ts, vote);
        self.decide(now, ts, false);
    }

    fn count(&mut self, now: Nanos, from: NodeId, ts: Timestamp, vote: Vote) {
        let Some(own) = self.owns.all.get_mut(&ts) else { return };
        if vote.valid {
            own.valid |= bit(from);
        } else {
            own.invalid |= bit(from);
            own.hint = own.hint.max(vote.hint);
        }
        assert!(own.valid & own.invalid == 0, "a replica votes once on {ts}");
        if vote.late {
            let (lead, since, bytes) = (own.lead, own.since, own.payload.len());
            self.learn_lead(now, ts, (lead, since, bytes), vote.hint);
        }
    }

    /// A transaction, proposed `since` then, came too late to a replica whose clock showed `shown`.
    fn learn_lead(
        &mut self,
        now: Nanos,
        ts: Timestamp,
        proposed: ((u64, u64), Nanos, usize),
        shown: Timestamp,
    ) {
        let needed = self.lead_for(now, ts, proposed, shown);
        if let Some(own) = self.owns.all.get(&ts) {
            // Marks stand for as long as it is ahead. What was cut off once does not take as long again, as a rule.
            let most = self.most_lead(own.asked.attempts);
            let own = self.owns.all.get_mut(&ts).expect("it was just there");
            own.asked.lead = own.asked.lead.max(needed.min(most));
        }
    }

    /// Without a promise of real time: how far ahead of its clock one is proposed that was refused again and again, in ticks. Others may read what it
    /// writes all the time, at timestamps that are as late as their clocks when it arrives: it has to be later than those, by a round trip or two.
    fn margin(&self, attempts: u32) -> u64 {
        let ticks = |time: Nanos| self.context.shared.layout.ticks(self.pace.units_in(time));
        match attempts.checked_sub(MARGIN_AFTER) {
            Some(more) => (ticks(self.times.round_trip()) << more.min(10))
                .min(ticks(self.context.options().election_timeout)),
            None => 0,
        }
    }

    /// How far ahead a transaction is proposed at most, after so many attempts, in ticks: half as long as others wait for a coordinator, and twice as
    /// far each time.
    pub(super) fn most_lead(&self, attempts: u32) -> u64 {
        let units = self.pace.units_in(self.context.options().election_timeout);
        (self.context.shared.layout.ticks(units) << attempts.saturating_sub(1).min(6)).max(MOST_AT_HOME)
    }

    /// The same: how far ahead it would have had to be, in ticks.
    pub(super) fn lead_for(
        &mut self,
        now: Nanos,
        ts: Timestamp,
        (mut lead, since, bytes): ((u64, u64), Nanos, usize),
        shown: Timestamp,
    ) -> u64 {
        // What this node's clock shows of its time, and so of some round trips. One that leapt meanwhile says nothing of that.
        let (layout, elapsed) = (self.context.shared.layout, now.saturating_sub(since));
        let shows = self.context.shared.clock.now();
        let mut took = self.needed(ts, lead, shows);
        // One that stands still moves by what others tell alone: that is its pace, and nothing that is made up for.
        if took.saturating_sub(lead.0) < layout.ticks(elapsed / SLOWEST) {
            lead.1 = self.no_time();
            took = self.needed(ts, lead, shows);
        }
        let took = took.min(layout.ticks(FASTEST.saturating_mul(elapsed) + BY_READING));
        let most = took.saturating_mul(4 * self.times.round_trip()) / elapsed.max(1);
        // It had come by now: whatever clocks show, it did not take longer.
        let needed = self.needed(ts, lead, shown).min(took);
        self.lead.late(now, bytes, needed, most)
    }

    /// The distance that this node's clock has moved, all in all, while no time passed for it: others told it theirs, or it leapt. In its units.
    pub(super) fn no_time(&self) -> u64 {
        self.context.shared.clock.advanced_by().saturating_add(self.pace.leapt())
    }

    /// From the proposal of `ts`, `lead` ticks ahead, to the moment at which a clock showed `shown`, in ticks; so far as this node's own clock
    /// was advanced meanwhile it was behind that one, and is not any more: the frame that told `shown` told the sender's clock, too. The same goes for
    /// its leaps.
    fn needed(&self, ts: Timestamp, (lead, before): (u64, u64), shown: Timestamp) -> u64 {
        let layout = self.context.shared.layout;
        let since = layout.ticks(self.no_time().saturating_sub(before));
        (lead + layout.ticks_between(ts, shown)).saturating_sub(layout.ticks_between(shown, ts) + since)
    }

    /// How long a transaction took, without the time for which it had to be ahead of the clock.
    pub(super) fn round_trip_of(&self, ts: Timestamp, lead: (u64, u64), took: Nanos) -> Nanos {
        if lead.0 == 0 {
            return took;
        }
        let ticks = self.needed(ts, lead, self.context.shared.clock.now()).max(1);
        (u128::from(took) * u128::from(ticks.saturating_sub(lead.0)) / u128::from(ticks)) as Nanos
    }

    /// What follows from what is known of a transaction of this worker's. `late`: no more is expected.
    pub(super) fn decide(&mut self, now: Nanos, ts: Timestamp, late: bool) {
        let (quorums, reachable) = (self.quorums(), self.reachable());
        let Some(own) = self.owns.all.get_mut(&ts) else { return };
        let late = late || own.voted() & reachable == reachable;
        match own.decide(quorums, late) {
            Decision::Wait => {}
            Decision::Settle { commit, fast } => {
                let most = self.context.options().election_timeout;
                let (lead, since, bytes) = (own.lead, own.since, own.payload.len());
                // On the slow path it commits though some came too late for it.
                let in_time = own.invalid == 0;
                let whole = now.saturating_sub(since).min(most);
                // What is refused is refused when it arrives: nobody waited until its time had come. Taken for the rest of a longer time, round trips would
                // seem ever shorter to whoever comes too late, and leads are bounded by them.
                let took = if commit { self.round_trip_of(ts, lead, whole) } else { whole };
                self.times.decided(whole, took);
                self.lead.follow(self.times.round_trip());
                if commit && in_time {
                    self.lead.in_time(now, bytes, lead.0);
                }
                let cell = self.context.cell();
                let path = if fast { &cell.fast } else { &cell.slow };
                Counters::add(path, 1);
                self.settle(now, ts, commit, None);
            }
            Decision::Propose { commit } => self.propose(now, ts, commit),
        }
    }

    /// The slow path: in view 0 the coordinator is the only proposer.
    fn propose(&mut self, now: Nanos, ts: Timestamp, commit: bool) {
        assert!(!self.delegates.has_granted(ts), "{ts} is a client's: nobody else proposes in view 0");
        let accepted = self.accept(now, self.context.me, ts, 0, commit);
        let after = self.times.ask_after(0, self.context.options());
        let own = self.owns.all.get_mut(&ts).expect("it is under way");
        if accepted.is_err() {
            own.phase = Phase::Overtaken;
            return;
        }
        own.phase = Phase::Accepting { commit, by: 0 };
        (own.since, own.again) = (now, (now + after, 0));
        self.post.for_all(&Message { ts, about: About::Accept { view: 0, commit, payload: None } });
        self.vouch(now, self.context.me, Message { ts, about: About::Accepted { view: 0 } });
    }

    /// A replica has accepted what this worker proposed.
    pub(super) fn on_accepted(&mut self, now: Nanos, from: NodeId, ts: Timestamp) {
        let Some(own) = self.owns.all.get_mut(&ts) else { return };
        if let Phase::Accepting { by, .. } = &mut own.phase {
            *by |= bit(from);
            self.decide(now, ts, false);
        }
    }

    /// A replica has promised a later view to a backup coordinator.
    pub(super) fn on_overtaken(&mut self, ts: Timestamp) {
        if let Some(own) = self.owns.all.get_mut(&ts) {
            own.phase = Phase::Overtaken;
        }
    }

    /// It is decided, by this worker, by the client that has the stamp, or by a backup coordinator, who may say what it writes.
    pub(super) fn settle(&mut self, now: Nanos, ts: Timestamp, commit: bool, payload: Option<Payload>) {
        if self.delegates.has_granted(ts) {
            return self.settle_granted(now, ts, commit, (payload, 0));
        }
        if !self.owns.all.contains_key(&ts) {
            return;
        }
        // Before it is removed: its own lane goes on by itself, or rests.
        self.conclude(now, self.context.me, ts, commit, None);
        let rest = (now + self.times.answer() * 3 / 2, now + self.times.answer() / 8);
        let own = self.owns.remove(ts, commit, rest).expect("it was just there");
        if commit && !own.counts && !own.asked.reads {
            self.wake_lane(now, own.asked.lane);
        }
        self.push_outcome(now, ts, commit, (own.payload.clone(), own.voted()));
        self.end(now, (ts, own), commit);
    }

    /// Tells all replicas, and remembers it until they have heard.
    pub(super) fn push_outcome(
        &mut self,
        now: Nanos,
        ts: Timestamp,
        commit: bool,
        (payload, known): (Payload, u32),
    ) {
        self.outcomes.push(ts, commit, payload, known);
        if self.journal.is_sync() {
            self.wait(now, Waits::Heard(self.context.me, self.outcomes.last()));
        }
    }

    /// Tells the client, or tries again.
    pub(super) fn end(&mut self, now: Nanos, (ts, own): (Timestamp, Own), commit: bool) {
        let Own { asked, outcome, reply, hint, joined, .. } = own;
        if !commit {
            Counters::add(&self.context.cell().aborted, 1);
            let tried = |joined: Joined| {
                let asked = Asked { attempts: joined.asked.attempts + 1, ..joined.asked };
                Behind { joined: Joined { asked, ..joined }, hint }
            };
            self.put_back(now, joined.into_iter().map(tried).collect(), hint);
            return self.put_off(now, asked, hint);
        }
        // Whoever hears of it may ask again over the same connection: that comes after it, though it may have been proposed further ahead than others.
        self.stamps.observe(ts);
        let done = outcome == Outcome::Committed;
        let counter =
            if done { &self.context.counters.committed } else { &self.context.counters.rolled_back };
        Counters::add(counter, 1);
        self.answers.reply(asked.token, outcome, &reply);
        for Joined { asked, reply } in joined {
            Counters::add(&self.context.counters.committed, 1);
            self.answers.reply(asked.token, Outcome::Committed, &reply);
        }
    }

    /// An attempt came to nothing: another one, later, unless there were too many.
    fn put_off(&mut self, now: Nanos, asked: Asked, hint: Timestamp) {
        Counters::add(&self.context.counters.conflicts, 1);
        // Marks of what is ahead of its time stand until that has come.
        let marked = if self.context.shared.strict { self.times.answer() } else { self.times.round_trip() };
        // If this was the last attempt, the next transaction's first one need not find the same in its way.
        let ripe = self.time_of(now, hint);
        let Some(at) = asked.again(now, self.context.options(), marked, &mut self.random) else {
            return self.answers.reply(asked.token, Outcome::Conflict, &[]);
        };
        self.owns.lanes.put_off(Retry { at: at.max(ripe), asked, hint }, true);
    }

    /// One that was refused at home for a transaction that is about to end: nobody was asked, and it is no attempt.
    pub(super) fn look_soon(&mut self, now: Nanos, asked: Asked, hint: Timestamp) {
        let Some(at) = asked.soon(now, self.context.options(), self.times.answer(), &mut self.random) else {
            return self.put_off(now, asked, hint);
        };
        let at = at.max(self.time_of(now, hint));
        self.owns.lanes.put_off(Retry { at, asked, hint }, true);
    }

    /// Whatever was in the way of one transaction may be ahead of its time. This one waits until that has come, and no other transaction is proposed above
    /// it for that: whoever meets those would be ahead as well. Where real time is not promised nobody waits, and all are above it from here on; nor where
    /// the clock stands still.
    fn time_of(&mut self, now: Nanos, hint: Timestamp) -> Nanos {
        self.pace.look(now, &self.context.shared);
        if !self.context.shared.strict || !self.pace.moves() {
            self.stamps.observe(hint);
            // Clocks drift apart within an epoch: who is behind goes on from what it was refused for.
            self.context.shared.clock.advance_past(hint);
            return now;
        }
        let left = self.pace.between(self.context.shared.clock.now(), hint);
        now + left.min(2 * self.context.options().election_timeout)
    }

    /// Requests that have waited for too long end, whatever they wait for.
    pub(super) fn end_waiting(&mut self, now: Nanos) {
        while let Some(retry) = self.owns.take_over(now, self.context.options()) {
            self.answers.reply(retry.asked.token, Outcome::Conflict, &[]);
        }
    }

    /// Those that have waited long enough go the slow path.
    pub(super) fn decide_late(&mut self, now: Nanos) {
        if self.working().is_none() {
            return;
        }
        let patience = self.times.patience(self.context.beat());
        let late = |own: &Own| own.phase == Phase::Validating && own.since + patience <= now;
        let late: Vec<_> = self.owns.all.iter().filter(|(_, own)| late(own)).map(|(ts, _)| *ts).collect();
        late.into_iter().for_each(|ts| self.decide(now, ts, true));
    }

    /// Asks those again who did not answer.
    pub(super) fn ask_again(&mut self, now: Nanos) {
        let reachable = self.reachable();
        let due: Vec<Timestamp> =
            self.owns.all.iter().filter(|(_, own)| own.again.0 <= now).map(|(ts, _)| *ts).collect();
        for ts in due {
            let after = self
                .owns
                .all
                .get(&ts)
                .map_or(0, |own| self.times.ask_after(own.again.1 + 1, self.context.options()));
            let Some(own) = self.owns.all.get_mut(&ts) else { continue };
            own.again = (now + after, own.again.1 + 1);
            let validate = || About::Validate { payload: own.payload.clone() };
            let (silent, about) = match own.phase {
                Phase::Validating => (reachable & !own.voted(), validate()),
                Phase::Accepting { commit, by } => {
                    (reachable & !by, About::Accept { view: 0, commit, payload: None })
                }
                // Whoever knows says what became of it. Nothing more is proposed in view 0.
                Phase::Overtaken => (reachable, validate()),
            };
            let message = Message { ts, about };
            for node in (0..self.context.options().nodes).map(NodeId).filter(|node| *node != self.context.me)
            {
                if silent & bit(node) != 0 {
                    self.post.for_one(node, &message);
                }
            }
        }
    }

    /// The connection to a replica is new: what it was asked may be lost.
    pub(super) fn ask_soon(&mut self, now: Nanos) {
        let soon = now + self.context.beat();
        self.owns.all.values_mut().for_each(|own| own.again = (own.again.0.min(soon), 0));
    }
}
