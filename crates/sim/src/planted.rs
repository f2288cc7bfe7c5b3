//! The proof that simulator and checker bite: mistakes planted in the product on purpose, each of which runs drawn from
//! seeds must catch. Only with the feature `planted`.
//!
//! A [`hunt`] runs plan after plan with one bug planted until one fails; then the same plan once more without the bug,
//! which must pass: so a catch is the bug's, not the simulator's. A [`survey`] hunts several times from seeds far apart.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use highwater_core::hooks::Site;
use highwater_core::planted::{Bug, plant};
use highwater_engines::Nanos;

use crate::faults::{Fault, LASTING, Scheduled, Victim};
use crate::plan::{Busy, Interleaved, Load, Mix};
use crate::units::US;
use crate::{Failure, Plan, run};
use highwater_core::Random;

/// What is to be known of a planted bug.
#[derive(Clone, Copy)]
pub struct Case {
    /// What the product does wrong.
    pub mistake: &'static str,
    /// Which promise or invariant that breaks.
    pub breaks: &'static str,
    /// Turns a drawn plan to where this bug can show at all.
    pub bias: fn(&mut Plan),
    /// Plans that may pass in a row before the bug counts as missed.
    pub most: u64,
}

/// A plan that failed with a bug planted.
#[derive(Debug)]
pub struct Catch {
    /// How many plans it took, this one included.
    pub seeds: u64,
    /// How it failed.
    pub failure: Box<Failure>,
}

/// What several hunts for one bug found.
#[derive(Debug)]
pub struct Row {
    /// Which bug.
    pub bug: Bug,
    /// Plans that each hunt took, in ascending order; hunts that found nothing are missing.
    pub seeds: Vec<u64>,
    /// How many hunts there were.
    pub hunts: u64,
    /// Plans that one hunt may take.
    pub most: u64,
    /// The catch of the hunt with the smallest first seed that made one.
    pub failure: Option<Box<Failure>>,
    /// Plans that fail without the bug, too: each is a bug of its own, in the product or in the simulator.
    pub tainted: Vec<Box<Failure>>,
}

impl Row {
    /// Whether every hunt caught the bug.
    pub fn caught(&self) -> bool {
        self.seeds.len() as u64 == self.hunts
    }

    /// The median number of plans; `None` if most hunts found nothing.
    pub fn median(&self) -> Option<u64> {
        self.seeds.get(self.hunts as usize / 2).copied()
    }

    /// The anomaly, in one line of at most `width` characters.
    pub fn anomaly(&self, width: usize) -> String {
        let Some(failure) = &self.failure else {
            return format!("not caught within {} plans", self.most);
        };
        let words = failure.what.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = format!("{}: {words}", failure.kind);
        if text.chars().count() <= width {
            return text;
        }
        text.chars().take(width.saturating_sub(2)).chain("..".chars()).collect()
    }
}

/// Runs the plans of seeds from `first` on with `bug` planted until one fails that passes without it; `most` at most.
/// Says which plans failed without it, too: they prove nothing, and something else.
pub fn hunt(bug: Bug, first: u64, most: u64) -> (Option<Catch>, Vec<Box<Failure>>) {
    let mut tainted = Vec::new();
    for seed in first..first + most {
        let mut plan = Plan::draw(seed);
        if plan.is_long() {
            // Hours with a fault every few timeouts: not what a hunt has the time for.
            continue;
        }
        (case(bug).bias)(&mut plan);
        plant(Some(bug));
        let ended = run(&plan);
        plant(None);
        let Err(failure) = ended else { continue };
        match run(&plan) {
            Ok(_) => return (Some(Catch { seeds: seed - first + 1, failure }), tainted),
            Err(failure) => tainted.push(failure),
        }
    }
    (None, tainted)
}

/// How far apart the seeds of hunts begin.
const APART: u64 = 1_000_000;

/// Hunts for a bug `hunts` times, on `threads` threads, from seeds that have nothing in common.
pub fn survey(bug: Bug, hunts: u64, most: u64, threads: usize) -> Row {
    let next = AtomicU64::new(0);
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, hunts as usize) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= hunts {
                        break;
                    }
                    let ended = hunt(bug, at * APART + 1, most);
                    sender.send((at, ended)).expect("the receiver outlives the hunts");
                }
            });
        }
    });
    drop(sender);
    let mut ended: Vec<_> = receiver.into_iter().collect();
    ended.sort_by_key(|(at, _)| *at);
    let mut row = Row { bug, seeds: Vec::new(), hunts, most, failure: None, tainted: Vec::new() };
    for (_, (catch, tainted)) in ended {
        row.tainted.extend(tainted);
        if let Some(catch) = catch {
            row.seeds.push(catch.seeds);
            row.failure.get_or_insert(catch.failure);
        }
    }
    row.seeds.sort_unstable();
    row
}

/// The bug of a name.
pub fn by_name(name: &str) -> Option<Bug> {
    Bug::ALL.iter().copied().find(|bug| bug.name() == name)
}

/// As drawn.
fn any(_: &mut Plan) {}

/// Workers meet in the middle of their transactions, on few keys.
fn contended(plan: &mut Plan) {
    plan.workers = plan.workers.max(3);
    plan.interleaving =
        Some(Interleaved { one_in: 3, long_one_in: 20, longest_ns: 200 * US, controllers: false });
    plan.settings.max_in_flight_requests = plan.settings.max_in_flight_requests.max(64);
    plan.settings.max_attempts = 100;
    let mix = Mix { lists: 4, rows: 4, registers: 0, toggles: 1, bank: 2, audit: 0, blobs: 0 };
    let (operations, keys) = (plan.load.operations.max(3), 2 + (plan.seed % 3) as u32);
    plan.load =
        Load { clients: 32, transactions: 2400, keys, operations, read_percent: 50, mix, ..plan.load };
    plan.load.workers = Busy::Any;
}

/// Much work on all streams; now one stream stands still, now the leader is cut off in the middle of it.
fn torn(plan: &mut Plan) {
    plan.workers = plan.workers.max(3);
    plan.settings.batch_delay = 1000 * US;
    plan.settings.max_in_flight_requests = plan.settings.max_in_flight_requests.max(64);
    plan.load = Load { clients: 32, transactions: 2400, workers: Busy::Any, ..plan.load };
    let (timeout, workers) = (plan.settings.election_timeout, u64::from(plan.workers));
    every(plan, 7 * timeout, |round| {
        let stream = ((round + 1) % workers) as u16;
        vec![(0, timeout, Fault::Hold(stream)), (timeout / 2, 3 * timeout, Fault::Isolate(Victim::Leader))]
    });
}

/// The same, with so long interruptions that others seal meanwhile; and replicas show their snapshots all the time.
fn observed(plan: &mut Plan) {
    contended(plan);
    shown(plan);
    plan.interleaving =
        Some(Interleaved { one_in: 3, long_one_in: 4, longest_ns: 1000 * US, controllers: false });
    plan.settings.batch_delay = 0;
    plan.settings.max_entry_bytes = 1 << 10;
    plan.settings.pipeline_entries = 16;
    plan.choices.insert(format!("{:?}", Site::SealEarly), 3);
    plan.load.mix = Mix { lists: 4, ..Mix::default() };
}

/// The same on followers that are interrupted while they take them.
fn pinned(plan: &mut Plan) {
    contended(plan);
    shown(plan);
    plan.interleaving =
        Some(Interleaved { one_in: 3, long_one_in: 2, longest_ns: 1000 * US, controllers: false });
}

/// Replicas show their snapshots all the time.
fn shown(plan: &mut Plan) {
    plan.load.snapshot_percent = 40;
    plan.settings.snapshot_age = 0;
}

/// Leaders die as soon as their epochs open, over slow links, in small clusters whose members change with each death.
fn newborn(plan: &mut Plan) {
    plan.replicas = 3;
    plan.faults.retain(|fault| fault.fault.fits(3));
    plan.clocks.truncate(3);
    plan.absent = 0;
    let timeout = plan.settings.election_timeout;
    plan.delay_ns = timeout / 40;
    plan.delay_spread_ns = timeout / 80;
    every(plan, 7 * timeout, |round| {
        let follower = Victim::Node((round % 3) as u8);
        vec![(0, timeout / 4, Fault::Kill(follower)), (timeout / 2, timeout / 2, Fault::Kill(Victim::Opener))]
    });
}

/// The same, and whoever would take over is cut off in the middle of it; frames of streams are lost.
fn halved(plan: &mut Plan) {
    torn(plan);
    plan.transport.lost = 50;
    plan.settings.pipeline_entries = 16;
    plan.settings.max_entry_bytes = 1 << 10;
    plan.settings.max_in_flight_bytes = 32 << 10;
    plan.settings.log_retain_bytes = plan.settings.log_retain_bytes.max(32 << 10);
    let timeout = plan.settings.election_timeout;
    every(plan, 7 * timeout, |_| {
        [1, 2].map(|half| (half * timeout / 2, timeout, Fault::Isolate(Victim::Candidate))).to_vec()
    });
}

/// Leaders die and come back, one after the other: changes of members, copies, takeovers that are cut short.
fn mortal(plan: &mut Plan) {
    let timeout = plan.settings.election_timeout;
    every(plan, 5 * timeout, |round| {
        let victim = if round % 3 == 2 { Victim::Candidate } else { Victim::Leader };
        vec![(0, timeout / 2, Fault::Kill(victim))]
    });
}

/// Candidates stand though a leader is at work, who does not hear them, while another follower hears both.
fn defied(plan: &mut Plan) {
    plan.load = Load { clients: 32, transactions: 2400, workers: Busy::Any, ..plan.load };
    for choice in [Site::SkipPreVote, Site::AskEarly] {
        plan.choices.insert(format!("{choice:?}"), 30);
    }
    let (timeout, replicas) = (plan.settings.election_timeout, u64::from(plan.replicas));
    every(plan, 2 * timeout, |round| {
        let from = round % replicas;
        let to = (from + 1 + round / replicas % (replicas - 1)) % replicas;
        vec![(0, 2 * timeout, Fault::OneWay(from as u8, to as u8))]
    });
}

/// The leader is left with one that hears it, for good; the others hear each other.
fn stranded(plan: &mut Plan) {
    plan.replicas = 4;
    plan.faults.retain(|fault| fault.fault.fits(4));
    plan.clocks.resize(4, (1_000_000, None));
    plan.absent = plan.absent.min(1);
    lasts(plan, Fault::Strand(Victim::Leader, 1));
}

/// One of the leader's workers gets stuck, for good.
fn jammed(plan: &mut Plan) {
    lasts(plan, Fault::Stick(Victim::Leader, 0));
}

/// Nothing else goes wrong from the middle on.
fn lasts(plan: &mut Plan, fault: Fault) {
    let at_ns = plan.length_ns / 2;
    plan.faults.retain(|fault| fault.for_ns < LASTING && fault.at_ns + fault.for_ns < at_ns);
    plan.faults.push(Scheduled { at_ns, for_ns: LASTING, fault });
}

/// Memory ends.
fn full(plan: &mut Plan) {
    crate::plan::fill_up(plan, &mut Random::new(plan.seed));
}

/// Adds faults to a plan, in rounds: what happens after the start of each, for how long.
fn every(plan: &mut Plan, period: Nanos, faults: impl Fn(u64) -> Vec<(Nanos, Nanos, Fault)>) {
    for round in 1..=plan.length_ns / period {
        for (after, for_ns, fault) in faults(round) {
            plan.faults.push(Scheduled { at_ns: round * period + after, for_ns, fault });
        }
    }
    plan.faults.sort_by_key(|fault| fault.at_ns);
}

/// What is to be known of a bug.
pub fn case(bug: Bug) -> Case {
    let case = |bias: fn(&mut Plan), mistake, breaks| Case { mistake, breaks, bias, most: 2000 };
    match bug {
        Bug::SilentStreamIgnored => case(
            torn,
            "the mark is the minimum over the streams that have said something in this epoch",
            "the mark passes transactions whose dependencies are not decided",
        ),
        Bug::ClaimUnchecked => case(
            torn,
            "a claim \"stream j is closed behind index k\" counts before k is decided",
            "the mark passes what stream j has not decided",
        ),
        Bug::QuietKept => case(
            any,
            "a worker executes again without taking back that it is quiet",
            "others claim that it is closed above transactions that it has open",
        ),
        Bug::EntryReleasedWhole => case(
            torn,
            "the leader releases whole entries once the mark reaches their first transaction",
            "acknowledged transactions above the final mark are lost",
        ),
        Bug::EntrySkippedWhole => case(
            torn,
            "at the end of an epoch whole entries are skipped that reach beyond the final mark",
            "acknowledged transactions below the mark are lost",
        ),
        Bug::ReadUnmarked => case(
            torn,
            "a read-only transaction is answered without waiting for the mark",
            "reads of what never happens; stale reads from a deposed leader",
        ),
        Bug::FinalMarkIgnored => case(
            torn,
            "what is above the final mark of an ended epoch is installed",
            "transactions without those that they depend on; replicas differ",
        ),
        Bug::EpochEndSkipped => case(
            any,
            "a takeover ends the old epoch in all streams but the last",
            "the final mark is never known; nobody serves any more",
        ),
        Bug::NoRollBack => case(
            any,
            "a deposed leader keeps what it executed above the final mark",
            "its store holds what never happened",
        ),
        Bug::UndoForgotten => case(
            torn,
            "before-images go once the own stream is closed, not once the mark has passed",
            "a deposed leader cannot roll everything back",
        ),
        Bug::ReplayUnordered => case(
            any,
            "replay installs without comparing timestamps",
            "older values stay over newer ones; replicas differ",
        ),
        Bug::TombstoneEarly => case(
            any,
            "followers unlink tombstones by the mark, not by what all streams have applied",
            "an older insert brings a deleted row back",
        ),
        Bug::CopyStartsLate => case(
            mortal,
            "whoever copies the state follows the log from its present end, not from the copy's floor",
            "writes between floor and end are missing",
        ),
        Bug::CopyUnordered => case(
            mortal,
            "copied records are installed over newer ones from the log",
            "writes that arrived during the copy are lost",
        ),
        Bug::CopyUnheld => case(
            any,
            "a leader that gives a copy sends what is above the mark",
            "the receiver holds what may never happen",
        ),
        Bug::LongestLogWins => case(
            any,
            "a takeover adopts the longest log, not the one of the highest ballot",
            "decided entries are replaced by ones that were given up",
        ),
        Bug::PromiseUnfenced => case(
            defied,
            "streams answer a candidate without promising",
            "the old leader goes on deciding behind the new one's back",
        ),
        Bug::HalfAdopted => case(
            halved,
            "a part of an adopted range counts as the whole",
            "decided entries behind it are cut off and outranked",
        ),
        Bug::DuplicateAppended => case(
            any,
            "an entry that comes twice is appended twice",
            "an entry stands at an index that is not its own",
        ),
        Bug::GapIgnored => case(
            any,
            "an entry that comes ahead of its predecessor is appended",
            "an entry stands at an index that is not its own",
        ),
        Bug::MinorityDecides => case(
            torn,
            "one acknowledgement less than a majority decides",
            "acknowledged transactions are lost with their leader",
        ),
        Bug::AmnesiacVoter => case(
            mortal,
            "a node that lost its memory votes as the one it was",
            "its promises and what it accepted are forgotten",
        ),
        Bug::PromiseByNode => case(
            mortal,
            "a promise counts for the node, whichever of its lives gave it",
            "a learner's empty log stands for the log that was lost",
        ),
        Bug::OpensEarly => case(
            newborn,
            "an epoch opens before a quorum knows that its beginning is decided",
            "later candidates do not learn of a change of members that is in force",
        ),
        Bug::ClockNotAdvanced => case(
            any,
            "the new leader's clock is not moved past the old log",
            "timestamps go back from one epoch to the next",
        ),
        Bug::StampedLate => case(
            observed,
            "a transaction takes its timestamp after its reads are validated",
            "a follower's snapshot shows who overwrote what it read, but not the transaction itself",
        ),
        Bug::PinOvertaken => case(
            pinned,
            "appliers go past the timestamp at which a snapshot is just being pinned",
            "the snapshot lacks the versions that they replaced",
        ),
        Bug::SnapshotIncomplete => case(
            shown,
            "a follower shows a snapshot before every stream is installed up to it",
            "a state that no serial execution passes through",
        ),
        Bug::ReadsUnvalidated => {
            case(contended, "what a transaction read is not validated", "write skew and lost updates")
        }
        Bug::LockIgnored => case(
            contended,
            "validation accepts records that another transaction has locked",
            "of two that read what the other writes, both commit",
        ),
        Bug::PhantomsAllowed => case(
            contended,
            "absent keys and scanned ranges are not validated",
            "phantoms: rows that a scan should have seen",
        ),
        Bug::VouchesBlindly => case(
            stranded,
            "a leader vouches for itself whether it hears a quorum or not",
            "whoever hears it keeps the others from electing another: nobody serves",
        ),
        Bug::StuckIsSound => case(
            jammed,
            "a worker that takes no turns any more is in order",
            "its leader goes on leading and acknowledges nothing",
        ),
        Bug::GrowthUnpaid => case(
            full,
            "writes that make a store grow are charged to nobody's memory",
            "stores grow beyond their budgets",
        ),
    }
}
