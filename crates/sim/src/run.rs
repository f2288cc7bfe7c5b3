//! Runs a [`Plan`] and judges it.
//!
//! 1. All replicas start; once one leads, clients ask and faults happen, for the plan's length. The product's own
//!    assertions and the world's watch over every step.
//! 2. All faults are undone. A majority (all but the plan's `absent`) must serve again within a bound; then everybody
//!    comes back, must catch up, and serve.
//! 3. Every key is read once more, and the whole is judged: one order of all acknowledged transactions that respects real
//!    time; equal digests; the bank's total; acknowledged audit rows present and refused ones absent; toggles that agree
//!    with their counts; one leader an epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use highwater_checker::{Options, check};
use highwater_core::NodeId;
use highwater_engines::{Nanos, Role};

use crate::clients::Clients;
use crate::faults::Hand;
use crate::isolate::{Broken, isolated};
use crate::library::{self, ACCOUNTS, OPENING, Op, SimLibrary};
use crate::plan::Plan;
use crate::stage::Buggify;
use crate::world::{World, WorldOptions};

const MS: Nanos = 1_000_000;
/// Wall-clock time after which a run counts as endless.
const PATIENCE: Duration = Duration::from_secs(60);
/// No figure of a status is older than this.
const STALE: Nanos = 30 * MS;
/// How many steps go by between looks at the sizes of logs.
const WATCH_EVERY: u64 = 64;
/// Controllers' last words that are kept per node for a report.
const LAST_WORDS: usize = 14;

/// What a good run did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The seed of its plan.
    pub seed: u64,
    /// Transactions that clients asked for.
    pub asked: u64,
    /// Transactions that were acknowledged.
    pub acknowledged: u64,
    /// Epochs that were opened after the first.
    pub failovers: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// How requests ended: committed, unknown, conflict, refused, given up.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Virtual time, in ns.
    pub simulated: Nanos,
    /// Equal for equal runs.
    pub trace: u64,
    /// Wall-clock time that the run took on its thread, judging included.
    pub took: Duration,
}

/// How a run fails: what a shrunk plan has to keep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// An assertion of the product, by `file:line`.
    Assertion(String),
    /// No leader, no progress, no convergence in time: which.
    Stuck(&'static str),
    /// The world's watch over all nodes saw a broken invariant.
    Invariant,
    /// The checker found an anomaly.
    Anomaly,
    /// Replicas differ.
    Diverged,
    /// A promise about single things is broken: bank, audit, toggles, one answer, one leader.
    Promise(&'static str),
    /// Two runs of one plan are not the same.
    Differs,
    /// It does not end.
    Hangs,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Assertion(place) => write!(f, "assertion at {place}"),
            FailureKind::Stuck(what) => write!(f, "stuck: {what}"),
            FailureKind::Invariant => f.write_str("broken invariant"),
            FailureKind::Anomaly => f.write_str("not strictly serializable"),
            FailureKind::Diverged => f.write_str("replicas differ"),
            FailureKind::Promise(what) => write!(f, "broken promise: {what}"),
            FailureKind::Differs => f.write_str("not deterministic"),
            FailureKind::Hangs => f.write_str("endless"),
        }
    }
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Of which kind.
    pub kind: FailureKind,
    /// What is wrong, in words.
    pub what: String,
    /// When, in virtual time.
    pub at: Nanos,
    /// What was run.
    pub plan: Plan,
    /// Faults, the last words of every node, and how each stands.
    pub story: String,
}

impl Failure {
    /// Two runs of this plan were not the same.
    pub fn differs(plan: &Plan) -> Box<Failure> {
        let what = "two runs have different traces".to_string();
        Box::new(Failure {
            kind: FailureKind::Differs,
            what,
            at: 0,
            plan: plan.clone(),
            story: String::new(),
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at as f64 / MS as f64;
        write!(f, "seed {}: {} at {at:.3} ms: {}", self.plan.seed, self.kind, self.what)
    }
}

/// Runs a plan and judges it; panics of the product are failures.
///
/// # Errors
/// What is wrong, and the story.
pub fn run(plan: &Plan) -> Result<Summary, Box<Failure>> {
    judged(plan, |_| {})
}

/// The same; `listener` sees a line for every event.
///
/// # Errors
/// As [`run`].
pub fn run_tracing(
    plan: &Plan,
    listener: impl FnMut(&str) + Send + 'static,
) -> Result<Summary, Box<Failure>> {
    judged(plan, |world| world.on_event(listener))
}

fn judged(
    plan: &Plan,
    prepare: impl FnOnce(&mut World<SimLibrary>) + Send + 'static,
) -> Result<Summary, Box<Failure>> {
    let started = Instant::now();
    let clock = Arc::new(AtomicU64::new(0));
    let (job, shared) = (plan.clone(), Arc::clone(&clock));
    let ended = isolated(PATIENCE, move || {
        let mut run = Run::new(&job, shared, Nanos::MAX);
        prepare(&mut run.world);
        run.all()
    });
    let (kind, what) = match ended {
        Ok(Ok(summary)) => return Ok(Summary { took: started.elapsed(), ..summary }),
        Ok(Err(Verdict { kind, what, at, story })) => {
            return Err(Box::new(Failure { kind, what, at, plan: plan.clone(), story }));
        }
        Err(Broken::Panicked { message, place }) => (FailureKind::Assertion(place), message),
        Err(Broken::Hangs) => (FailureKind::Hangs, format!("no end after {} s", PATIENCE.as_secs())),
    };
    // The world is gone. The same run again, up to the step that broke it, tells the story.
    let at = clock.load(Ordering::Relaxed);
    let job = plan.clone();
    let again = isolated(PATIENCE, move || {
        let mut run = Run::new(&job, Arc::default(), at);
        match run.stages() {
            Err(verdict) => verdict.story,
            Ok(_) => run.story(),
        }
    });
    let story = again.unwrap_or_else(|_| "the story broke off".into());
    Err(Box::new(Failure { kind, what, at, plan: plan.clone(), story }))
}

/// Why a run ends before its end.
struct Verdict {
    kind: FailureKind,
    what: String,
    at: Nanos,
    story: String,
}

struct Run {
    plan: Plan,
    world: World<SimLibrary>,
    clients: Clients,
    hand: Hand,
    /// Where the run is, for those who watch from outside.
    clock: Arc<AtomicU64>,
    /// Stops here.
    end: Nanos,
    steps: u64,
}

impl Run {
    fn new(plan: &Plan, clock: Arc<AtomicU64>, end: Nanos) -> Run {
        let settings = plan.settings;
        let options = WorldOptions {
            seed: plan.seed,
            engine: plan.engine().expect("a plan names an engine"),
            nodes: plan.replicas,
            workers: plan.workers,
            tune: (move |options: &mut highwater_engines::Options| settings.apply(options)).into(),
        };
        let mut world = World::new(options, SimLibrary);
        world.lenient = true;
        plan.network(&mut world.network);
        world.buggify(plan.buggify());
        plan.interleaving().into_iter().for_each(|how| world.interleave(how));
        for (id, (rate, ahead)) in (0..plan.replicas).map(NodeId).zip(&plan.clocks) {
            world.clock(id).set_rate(0, *rate);
            ahead.iter().for_each(|ahead| world.clock(id).follow_time(*ahead));
        }
        world.ids().collect::<Vec<_>>().into_iter().for_each(|id| world.start(id));
        let idle = crate::plan::Load { transactions: 0, ..plan.load };
        let clients = Clients::new(idle, plan.replicas, plan.workers, plan.seed, 0, plan.length_ns);
        Run { plan: plan.clone(), world, clients, hand: Hand::new(&[], 0), clock, end, steps: 0 }
    }

    fn all(mut self) -> Result<Summary, Verdict> {
        let stages = self.stages()?;
        self.world.finish_turns();
        self.judge()?;
        Ok(stages)
    }

    fn stages(&mut self) -> Result<Summary, Verdict> {
        self.wait("a first leader", |run| run.world.leader().is_some())?;
        let Plan { load, replicas, workers, seed, length_ns, .. } = self.plan;
        self.clients = Clients::new(load, replicas, workers, seed, self.world.now, length_ns);
        self.hand = Hand::new(&self.plan.faults, self.world.now);
        self.advance(self.world.now + length_ns)?;
        self.heal()?;
        Ok(self.summary())
    }

    /// The second stage.
    fn heal(&mut self) -> Result<(), Verdict> {
        self.clients.stop();
        self.hand.rest(&mut self.world);
        self.world.buggify(Buggify::default());
        self.world.network.faults.datagrams = None;
        for id in self.world.ids().collect::<Vec<_>>() {
            if !self.world.is_up(id) {
                self.world.start(id);
            }
        }
        self.wait("open transactions end", |run| run.clients.quiet())?;
        self.converge("replicas that were left alone converge")?;
        self.leave_out()?;
        self.serve("all replicas together serve", Clients::probes)?;
        self.converge("all replicas converge")?;
        for reads in self.clients.last_reads() {
            self.serve("the last reads are answered", |_| vec![reads.clone()])?;
        }
        self.converge("all replicas converge at the end")
    }

    /// Some replicas are cut off; the others must serve alone.
    fn leave_out(&mut self) -> Result<(), Verdict> {
        let absent: Vec<NodeId> = (0..self.plan.absent)
            .map(|at| NodeId(((self.plan.seed + u64::from(at)) % u64::from(self.plan.replicas)) as u8))
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

    /// The leader takes requests and releases them, within a bound. A retry is a new transaction.
    fn serve(
        &mut self,
        what: &'static str,
        requests: impl Fn(&mut Clients) -> Vec<Vec<Op>>,
    ) -> Result<(), Verdict> {
        let deadline = self.deadline();
        let mut tokens = Vec::new();
        while self.world.now < self.end {
            let (all, failed) = self.clients.answered(&tokens);
            if all && !tokens.is_empty() {
                break;
            }
            self.at_most(deadline, what)?;
            if (tokens.is_empty() || failed)
                && let Some(leader) = self.world.leader()
            {
                let requests = requests(&mut self.clients);
                tokens = self.clients.request(self.world.now, leader, &requests);
            }
            self.advance(self.world.now + MS / 5)?;
        }
        Ok(())
    }

    /// Lets time pass for clients, faults and replicas.
    fn advance(&mut self, until: Nanos) -> Result<(), Verdict> {
        while self.world.now < until && self.world.now < self.end {
            let next = [self.clients.next(), self.hand.next(self.world.now)].into_iter().flatten().min();
            let step = next.unwrap_or(until).clamp(self.world.now + 1, self.world.now + MS).min(until);
            self.clock.store(step, Ordering::Relaxed);
            self.world.run_until(step);
            self.steps += 1;
            if self.steps.is_multiple_of(WATCH_EVERY) {
                self.world.observe();
            }
            if let Some(wrong) = self.world.violations().into_iter().next() {
                return self.fail(FailureKind::Invariant, wrong);
            }
            self.hand.act(&mut self.world);
            self.clients.act(&mut self.world, &self.hand);
            if let Some(wrong) = self.clients.wrong.take() {
                return self.fail(FailureKind::Promise("one answer to one request"), wrong);
            }
        }
        Ok(())
    }

    fn deadline(&self) -> Nanos {
        self.world.now + 3000 * MS + 100 * self.plan.settings.election_timeout
    }

    fn wait(&mut self, what: &'static str, holds: impl Fn(&Run) -> bool) -> Result<(), Verdict> {
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
        self.fail(
            FailureKind::Stuck(what),
            format!("not within {} ms: {what}", (self.deadline() - self.world.now) / MS),
        )
    }

    fn fail<T>(&self, kind: FailureKind, what: String) -> Result<T, Verdict> {
        Err(Verdict { kind, what, at: self.world.now, story: self.story() })
    }

    fn converge(&mut self, what: &'static str) -> Result<(), Verdict> {
        // Figures of a status may be old.
        self.advance(self.world.now + STALE)?;
        self.wait(what, Run::settled)
    }

    /// Whether everyone votes, has a store, and has applied what the leader has.
    fn settled(&self) -> bool {
        let world = &self.world;
        let Some(at) = world.leader().and_then(|leader| world.status(leader)) else { return false };
        world.ids().all(|id| {
            world.status(id).is_some_and(|status| {
                let votes = |member: &highwater_engines::Member| {
                    member.node == id && member.voter && member.incarnation == status.incarnation
                };
                at.members.iter().any(votes)
                    && status.epoch == at.epoch
                    && status.copying_bytes.is_none()
                    && status
                        .streams
                        .iter()
                        .zip(&at.streams)
                        .all(|(own, leads)| own.applied == leads.accepted && leads.decided == leads.accepted)
            })
        })
    }

    fn summary(&self) -> Summary {
        Summary {
            seed: self.plan.seed,
            asked: self.clients.asked(),
            acknowledged: self.clients.acknowledged(),
            failovers: (self.leaders().len() as u64).saturating_sub(1),
            faults: self.hand.done.clone(),
            outcomes: self.clients.outcomes.clone(),
            simulated: self.world.now,
            trace: self.world.trace_hash() ^ self.clients.trace,
            took: Duration::ZERO,
        }
    }

    /// Epochs that were opened, by their leaders' own accounts.
    fn leaders(&self) -> BTreeMap<&str, BTreeSet<NodeId>> {
        let mut leaders: BTreeMap<&str, BTreeSet<NodeId>> = BTreeMap::new();
        for (_, node, said) in &self.world.log {
            if let Some(epoch) = said.strip_prefix("leading ").and_then(|said| said.split(' ').next()) {
                leaders.entry(epoch).or_default().insert(*node);
            }
        }
        leaders
    }

    fn judge(&self) -> Result<(), Verdict> {
        self.judge_replicas()?;
        if let Some((epoch, who)) = self.leaders().into_iter().find(|(_, who)| who.len() > 1) {
            return self.fail(FailureKind::Promise("one leader an epoch"), format!("{who:?} led {epoch}"));
        }
        let verdict = check(&self.clients.history(), &Options::strict());
        if let Some(first) = verdict.anomalies.first() {
            let kinds: Vec<String> =
                verdict.found.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            return self.fail(FailureKind::Anomaly, format!("{}. First: {}", kinds.join(", "), first.text));
        }
        if let Some(wrong) = self.clients.contradictions() {
            return self.fail(FailureKind::Promise("what a transaction sees is of one moment"), wrong);
        }
        Ok(())
    }

    fn judge_replicas(&self) -> Result<(), Verdict> {
        let store = |id: NodeId| self.world.replica(id).expect("all are up").controller.store();
        let (written, refused) = self.clients.audits();
        for id in self.world.ids() {
            let store = store(id);
            if let Some(row) = written.iter().find(|row| !library::audited(&*store, **row)) {
                let what = format!("{id} has lost audit row {row}; {}", self.clients.who_audits(*row));
                return self.fail(FailureKind::Promise("what was acknowledged is there"), what);
            }
            if let Some(row) = refused.iter().find(|row| library::audited(&*store, **row)) {
                let what = format!("{id} holds audit row {row}; {}", self.clients.who_audits(*row));
                return self.fail(FailureKind::Promise("what was refused is not there"), what);
            }
            let total = library::total(&*store);
            if total != u64::from(ACCOUNTS * OPENING) {
                let what = format!("{id}'s accounts hold {total}, not {}", ACCOUNTS * OPENING);
                return self.fail(FailureKind::Promise("the bank's total never changes"), what);
            }
        }
        let first = store(NodeId(0)).digest();
        match self.world.ids().find(|id| store(*id).digest() != first) {
            Some(id) => {
                let differ = store(id).differences(&store(NodeId(0)), 4).join("; ");
                self.fail(
                    FailureKind::Diverged,
                    format!("{id}'s rows are not those of {}: {differ}", NodeId(0)),
                )
            }
            None => Ok(()),
        }
    }

    /// The faults, the last words of every node, and how each stands.
    fn story(&self) -> String {
        let mut text = String::from("faults:\n");
        for (at, what) in &self.hand.said {
            let _ = writeln!(text, "{:>10.3} ms {what}", *at as f64 / MS as f64);
        }
        for id in self.world.ids() {
            let _ = writeln!(text, "{id}, last events:");
            let own: Vec<_> = self.world.log.iter().filter(|(_, node, _)| *node == id).collect();
            for (at, _, what) in &own[own.len().saturating_sub(LAST_WORDS)..] {
                let _ = writeln!(text, "{:>10.3} ms {what}", *at as f64 / MS as f64);
            }
            match self.world.status(id) {
                None => text.push_str("  is down\n"),
                Some(status) => {
                    let leads = if status.role == Role::Leader { " (leads)" } else { "" };
                    let _ = writeln!(text, "  {status:?}{leads}");
                }
            }
            for worker in self.world.replica(id).map_or(&[][..], |replica| &replica.workers) {
                let _ = writeln!(text, "  {}", worker.describe());
            }
        }
        text
    }
}
