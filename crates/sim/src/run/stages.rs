//! The stages of a run, and how time passes in them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use highwater_core::{Level, NodeId};
use highwater_seam::Nanos;
use highwater_seam::observer::{EPOCHS, LOSSES, RAISES, TAKEOVERS};

use super::duty::Duty;
use super::failure::{FailureKind, Verdict};
use super::summary::Summary;
use crate::clients::Clients;
use crate::faults::Hand;
use crate::house::{Guests, House};
use crate::library::Op;
use crate::plan::{Load, Plan};
use crate::stage::Buggify;
use crate::units::MS;
use crate::world::{World, WorldOptions};

/// No figure of a status is older than this.
const STALE: Nanos = 30 * MS;
/// An operator waits for a birth for so many election timeouts, once nothing is in its way but a node that may have forgotten it.
const BIRTH_TIMEOUTS: u64 = 30;
/// A learner of Meerkat's that lagged all along is taken in again after so many election timeouts at the latest.
const BARRED_TIMEOUTS: u64 = 1 << 10;
/// How many steps go by between looks at the sizes of logs.
const WATCH_EVERY: u64 = 64;

/// A plan under way.
pub(super) struct Run<H: House> {
    pub plan: Plan,
    pub house: H,
    pub world: World<H::Library>,
    pub clients: Clients,
    /// Clients of another kind, if the plan has some.
    pub guests: Option<Box<dyn Guests<H::Library>>>,
    pub hand: Hand,
    /// Where the run is, for those who watch from outside.
    clock: Arc<AtomicU64>,
    /// Stops here.
    pub end: Nanos,
    steps: u64,
    /// Epochs that were won after a loss.
    losses: u64,
    /// Since when a majority owes service.
    pub duty: Duty,
}

impl<H: House> Run<H> {
    /// All replicas start; nobody asks for anything yet. It stops at `end`, and says by `clock` where it is.
    pub fn new(house: &H, plan: &Plan, clock: Arc<AtomicU64>, end: Nanos) -> Run<H> {
        let wanted = plan.clone();
        let options = WorldOptions {
            seed: plan.seed,
            engine: plan.engine().expect("a plan names an engine"),
            nodes: plan.replicas,
            workers: plan.workers,
            tune: (move |options: &mut highwater_seam::Options| wanted.tune(options)).into(),
        };
        let mut world = World::new(options, house.library());
        world.lenient = true;
        world.may_lose = plan.may_lose();
        plan.network(&mut world.network);
        world.buggify(plan.buggify());
        plan.interleaving().into_iter().for_each(|how| world.interleave(how));
        world.interleave_controllers(plan.interleaving.is_some_and(|how| how.controllers));
        world.costs = plan.machines.costs();
        for (id, (rate, ahead)) in (0..plan.replicas).map(NodeId).zip(&plan.clocks) {
            world.clock(id).set_rate(0, *rate);
            ahead.iter().for_each(|ahead| world.clock(id).follow_time(*ahead));
        }
        for (id, newest) in (0..plan.replicas).map(NodeId).zip(&plan.levels) {
            world.set_build(id, Level(*newest));
        }
        world.ids().collect::<Vec<_>>().into_iter().for_each(|id| world.start(id));
        let idle = Load { transactions: 0, ..plan.load };
        let clients = Clients::new(idle, plan.nodes(), plan.workers, plan.seed, 0, plan.length_ns);
        Run {
            plan: plan.clone(),
            house: house.clone(),
            world,
            clients,
            guests: None,
            hand: Hand::new(&[], 0, 0),
            clock,
            end,
            steps: 0,
            losses: 0,
            duty: Duty::default(),
        }
    }

    /// All of it; and the judgement.
    pub fn all(mut self) -> Result<Summary, Verdict> {
        let stages = self.stages()?;
        self.world.finish_turns();
        self.judge()?;
        Ok(stages)
    }

    /// All of it but the judgement.
    pub fn stages(&mut self) -> Result<Summary, Verdict> {
        if !self.plan.from_birth {
            self.wait("a first leader", |run| run.world.leader().is_some())?;
        }
        let Plan { load, workers, seed, length_ns, .. } = self.plan;
        self.clients = Clients::new(load, self.plan.nodes(), workers, seed, self.world.now, length_ns);
        if !self.world.engine().abilities().real_time {
            self.clients.expect_the_past();
        }
        self.guests = self.house.guests(&self.plan, self.world.now);
        self.hand = Hand::new(&self.plan.faults, self.world.now, self.plan.settings.election_timeout);
        self.advance(self.world.now + length_ns)?;
        self.endure()?;
        self.heal()?;
        Ok(self.summary())
    }

    /// The second stage.
    fn heal(&mut self) -> Result<(), Verdict> {
        self.clients.stop();
        self.guests.iter_mut().for_each(|guests| guests.stop());
        self.hand.rest(&mut self.world);
        for id in self.world.outdated() {
            self.world.kill(id);
        }
        self.world.buggify(Buggify::default());
        self.world.network.faults.datagrams = None;
        for id in self.world.ids().collect::<Vec<_>>() {
            if !self.world.is_up(id) {
                self.world.start(id);
            }
        }
        if let Some(end) = self.world.starved_until() {
            // What such a turn hands out leaves when it is over.
            self.advance(end)?;
        }
        self.look_after_the_unborn()?;
        self.wait("open transactions end", |run| run.clients.quiet())?;
        self.wait("guests' commands end", Run::guests_are_quiet)?;
        self.wait("what operators ordered is done", |run| !run.world.has_orders())?;
        self.converge_unless_barred("replicas that were left alone converge")?;
        self.leave_out()?;
        self.serve("all replicas together serve", Clients::probes)?;
        self.converge("all replicas converge")?;
        self.wait("all use the level that all can", |run| run.world.use_what_all_can())?;
        self.guests.iter_mut().for_each(|guests| guests.look_at_all());
        self.wait("guests' last looks are answered", Run::guests_are_quiet)?;
        for reads in self.clients.last_reads() {
            self.serve("the last reads are answered", |_| vec![reads.clone()])?;
        }
        self.show()?;
        // Last: a request that a client gave up and sent again may still have been on its way; and what a leader executes of itself stands in its store before
        // others have it.
        self.guests.iter_mut().for_each(|guests| guests.rest());
        self.converge("all replicas converge at the end")?;
        self.forget()
    }

    /// Transactions that are over everywhere are forgotten, where replicas say to each other that it is: records, and tombstones once nobody writes below them. The
    /// last delete is asked for on one worker, and all others have nothing to do.
    fn forget(&mut self) -> Result<(), Verdict> {
        if !self.world.engine().abilities().leaderless {
            return Ok(());
        }
        self.serve("a last delete is answered", Clients::last_delete)?;
        self.wait("nothing is left of what is over everywhere", |run| {
            run.world.belonging().all(|id| run.world.keeps_nothing(id))
        })?;
        // What a slow connection still had may have changed meanwhile who takes part: a learner that copies is no replica yet.
        self.converge("all replicas converge once that is forgotten")
    }

    /// All nodes are there and hear each other, and no cluster is born, since one of them may have forgotten that it was: it says so, and what
    /// helps. Nobody was ever served, so an operator moves its folder away.
    fn look_after_the_unborn(&mut self) -> Result<(), Verdict> {
        let timeout = self.plan.settings.election_timeout;
        let patience = self.world.now + BIRTH_TIMEOUTS * timeout;
        while !self.world.barren().is_empty() && self.world.now < patience {
            self.advance(self.world.now + timeout)?;
        }
        for id in self.world.barren() {
            self.world.mark("folders that an operator moved away before the birth");
            self.world.wipe(id);
            self.world.start(id);
        }
        Ok(())
    }

    /// Some replicas are cut off; the others must serve alone.
    fn leave_out(&mut self) -> Result<(), Verdict> {
        let members: Vec<NodeId> = self.world.belonging().collect();
        let absent: Vec<NodeId> = (0..usize::from(self.plan.absent).min((members.len() - 1) / 2))
            .map(|at| members[(self.plan.seed as usize + at) % members.len()])
            .collect();
        if absent.is_empty() {
            return Ok(());
        }
        for away in &absent {
            for id in self.world.ids().filter(|id| !absent.contains(id)).collect::<Vec<_>>() {
                self.world.network.cut(*away, id);
                self.world.network.cut(id, *away);
            }
        }
        self.serve("a majority alone serves", Clients::probes)?;
        self.world.network.heal();
        self.converge("replicas that were away converge")
    }

    /// The leader takes requests and releases them, within a bound.
    fn serve(
        &mut self,
        what: &'static str,
        requests: impl Fn(&mut Clients) -> Vec<Vec<Op>>,
    ) -> Result<(), Verdict> {
        self.insist(what, |run| {
            let Some(leader) = run.world.leader() else { return Vec::new() };
            let requests = requests(&mut run.clients);
            run.clients.request(run.world.now, leader, &requests)
        })
    }

    /// Every replica shows what it has, if clients of this plan ask for that.
    fn show(&mut self) -> Result<(), Verdict> {
        if self.plan.load.snapshot_percent == 0 {
            return Ok(());
        }
        for id in self.world.belonging().collect::<Vec<_>>() {
            self.insist("every replica shows a snapshot", |run| {
                let reads = run.clients.last_reads();
                run.clients.request_snapshot(run.world.now, id, &reads[..1])
            })?;
            if self.plan.load.fresh_percent == 0 {
                continue;
            }
            self.insist("every replica proves that it is fresh", |run| {
                let reads = run.clients.last_reads();
                run.clients.request_fresh(run.world.now, id, &reads[..1])
            })?;
        }
        Ok(())
    }

    /// Asks, again and again, until everything is answered, within a bound. A retry is a new transaction.
    fn insist(&mut self, what: &'static str, ask: impl Fn(&mut Run<H>) -> Vec<u64>) -> Result<(), Verdict> {
        let deadline = self.deadline();
        let mut tokens = Vec::new();
        while self.world.now < self.end {
            let (all, failed) = self.clients.answered(&tokens);
            if all && !tokens.is_empty() {
                break;
            }
            self.at_most(deadline, what)?;
            if tokens.is_empty() || failed {
                tokens = ask(self);
            }
            self.advance(self.world.now + MS / 5)?;
        }
        Ok(())
    }

    /// Lets time pass for clients, faults and replicas.
    pub fn advance(&mut self, until: Nanos) -> Result<(), Verdict> {
        // In long runs nothing happens for long.
        let stride = MS.max(self.plan.settings.election_timeout / 50);
        while self.world.now < until && self.world.now < self.end {
            let guests = self.guests.as_ref().and_then(|guests| guests.next());
            let next =
                [self.clients.next(), self.hand.next(self.world.now), guests].into_iter().flatten().min();
            let step = next.unwrap_or(until).clamp(self.world.now + 1, self.world.now + stride).min(until);
            self.clock.store(step, Ordering::Relaxed);
            self.world.run_until(step);
            self.steps += 1;
            if self.steps.is_multiple_of(WATCH_EVERY) {
                self.world.observe();
            }
            if let Some(wrong) = self.world.violations().into_iter().next() {
                return self.fail(FailureKind::Invariant, wrong);
            }
            self.watch_losses()?;
            self.hand.act(&mut self.world);
            if let Some(guests) = &mut self.guests
                && let Err(wrong) = guests.act(&mut self.world, &self.hand)
            {
                return self.fail(FailureKind::Promise("guests are told what is so"), wrong);
            }
            self.clients.act(&mut self.world, &self.hand);
            self.watch_service()?;
            if let Some(wrong) = self.clients.wrong.take() {
                return self.fail(FailureKind::Promise("one answer to one request"), wrong);
            }
            if let Some(missed) = self.clients.missed.take() {
                return self.fail(FailureKind::Promise("a replica is as fresh as it says"), missed);
            }
        }
        Ok(())
    }

    /// A cluster that went on from the best of all its disks may have lost what was not on any; whatever was acknowledged since the oldest
    /// record that a crash took is in doubt.
    fn watch_losses(&mut self) -> Result<(), Verdict> {
        let losses = self.world.seen().count(LOSSES);
        if std::mem::replace(&mut self.losses, losses) == losses {
            self.world.forget_losses();
            return Ok(());
        }
        if !self.plan.may_lose() {
            return self.fail(
                FailureKind::Promise("who is spared forgets nothing"),
                "all voters had to promise".into(),
            );
        }
        if let Some(since) = self.world.lost_since() {
            self.clients.journal.lose_since(since);
        }
        Ok(())
    }

    fn guests_are_quiet(&self) -> bool {
        self.guests.as_ref().is_none_or(|guests| guests.quiet())
    }

    fn deadline(&self) -> Nanos {
        self.world.now + self.bound()
    }

    fn wait(&mut self, what: &'static str, holds: impl Fn(&Run<H>) -> bool) -> Result<(), Verdict> {
        let deadline = self.deadline();
        while !holds(self) && self.world.now < self.end {
            self.at_most(deadline, what)?;
            self.advance(self.world.now + MS)?;
        }
        Ok(())
    }

    fn at_most(&self, deadline: Nanos, what: &'static str) -> Result<(), Verdict> {
        if self.world.now < deadline {
            return Ok(());
        }
        self.fail(FailureKind::Stuck(what), format!("not within {} ms: {what}", self.bound() / MS))
    }

    pub fn fail<T>(&self, kind: FailureKind, what: String) -> Result<T, Verdict> {
        Err(Verdict { kind, what, at: self.world.now, story: self.story() })
    }

    fn converge(&mut self, what: &'static str) -> Result<(), Verdict> {
        // Figures of a status may be old.
        self.advance(self.world.now + STALE)?;
        self.wait(what, |run| run.world.converged().is_ok())
    }

    /// The same. What befell a replica may have lasted for so long that the others let it rest before they take it in again: as long as one is outside
    /// the bound begins anew.
    fn converge_unless_barred(&mut self, what: &'static str) -> Result<(), Verdict> {
        self.advance(self.world.now + STALE)?;
        let latest = self.deadline() + BARRED_TIMEOUTS * self.plan.settings.election_timeout;
        let mut deadline = self.deadline();
        while self.world.converged().is_err() && self.world.now < self.end {
            if self.world.someone_is_outside() {
                deadline = self.deadline().min(latest);
            }
            self.at_most(deadline, what)?;
            self.advance(self.world.now + MS)?;
        }
        Ok(())
    }

    fn marks(&self) -> BTreeMap<&'static str, u64> {
        let mut marks = self.world.marks.clone();
        let mut add = |what, count: u64| {
            if count > 0 {
                marks.insert(what, count);
            }
        };
        add(TAKEOVERS, self.world.seen().count(TAKEOVERS));
        add(LOSSES, self.world.seen().count(LOSSES));
        add(RAISES, self.world.seen().count(RAISES));
        let clients = &self.clients;
        let others = [&clients.counters.marks, &clients.delegates.marks, &clients.pipelines.marks];
        for (what, count) in others.into_iter().flatten() {
            add(what, *count);
        }
        for (what, count) in self.guests.iter().flat_map(|guests| guests.marks()) {
            add(what, count);
        }
        add("interruptions of workers", self.world.interruptions());
        add("interruptions of controllers", self.world.controllers_interrupted());
        let largest = self.clients.largest_blob();
        add("runs with blobs of 64 KiB", u64::from(largest >= 64 << 10));
        add("runs with blobs of 1 MiB", u64::from(largest >= 1 << 20));
        add("runs with blobs of 16 MiB", u64::from(largest >= 16 << 20));
        add("runs with little memory", u64::from(self.plan.load.sizes.memory > 0));
        add("runs with faults from birth on", u64::from(self.plan.from_birth));
        add("runs of more than five minutes", u64::from(self.world.now > 300_000 * MS));
        marks
    }

    fn summary(&self) -> Summary {
        Summary {
            seed: self.plan.seed,
            asked: self.clients.journal.asked(),
            acknowledged: self.clients.journal.acknowledged(),
            snapshot_reads: self.clients.journal.snapshot_reads(),
            fresh_reads: self.clients.journal.fresh_reads(),
            failovers: self.world.seen().count(EPOCHS).saturating_sub(1),
            faults: self.hand.done.clone(),
            marks: self.marks(),
            outcomes: self.clients.outcomes.clone(),
            simulated: self.world.now,
            trace: self.world.trace_hash()
                ^ self.clients.trace
                ^ self.guests.as_ref().map_or(0, |guests| guests.trace()),
            took: Duration::ZERO,
        }
    }
}
