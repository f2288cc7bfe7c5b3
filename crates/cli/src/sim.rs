//! `highwater sim`: whole runs in the simulator, each drawn from one seed, judged, shrunk if they fail.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use highwater_core::Durability;
use highwater_engines::EngineKind;
use highwater_redis_sim::WithDoor;
use highwater_sim::shrink::shrink;
use highwater_sim::{Failure as Broken, Plan, Summary, report, run_in, run_tracing};

use crate::failure::{Failure, Result};
use crate::flags::concat_help;
use crate::numbers::short;
use crate::planted::{self, PlantedArgs};
use crate::progress::Progress;

/// How many seeds run if nothing else is asked for.
const RUNS: u64 = 200;
/// How long a failing plan is shrunk.
const SHRINK_FOR: Duration = Duration::from_secs(60);
/// More failures than this are counted, not shrunk.
const SHRINK_MOST: u64 = 5;

/// `highwater sim`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimArgs {
    /// Something else than runs.
    #[command(subcommand)]
    pub action: Option<SimAction>,
    /// Run this seed, twice: both runs must be the same.
    #[arg(long, value_name = "N", conflicts_with_all = ["runs", "minutes", "plan"])]
    pub seed: Option<u64>,
    /// Run this many seeds.
    #[arg(long, value_name = "K", conflicts_with_all = ["minutes", "plan"], value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: Option<u64>,
    /// Run seeds for this many minutes.
    #[arg(long, value_name = "M", conflicts_with = "plan", value_parser = some_minutes)]
    pub minutes: Option<f64>,
    /// Run a saved plan, twice.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// The first seed of many.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub from: u64,
    /// Run these seeds, the last one not among them.
    #[arg(long, value_name = "A..B", value_parser = some_seeds, conflicts_with_all = ["seed", "runs", "minutes", "plan", "from"])]
    pub seeds: Option<Range<u64>>,
    /// Write each seed's trace into this file, a line a seed. Two builds behave alike if their files are equal.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "minutes", "plan"])]
    pub traces: Option<PathBuf>,
    /// Which engine: any that replicates. Processes end only with one that goes on when a replica is lost (rolis, strawman, meerkat, meerkat-strict).
    #[arg(long, default_value = "rolis", value_name = "E", value_parser = engine)]
    pub engine: EngineKind,
    /// Seeds at a time; as many as there are cores if absent.
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Run every seed twice, and compare.
    #[arg(long)]
    pub twice: bool,
    /// Give the replicas disks: who comes back is who it was, nobody is spared, and the power may fail everywhere.
    #[arg(long, conflicts_with = "plan")]
    pub disks: bool,
    /// The same, and what is accepted does not wait for the disks (durability `async`).
    #[arg(long, conflicts_with_all = ["plan", "disks"])]
    pub disks_behind: bool,
    /// Print every event of the run; with --seed or --plan.
    #[arg(long, conflicts_with_all = ["runs", "minutes"])]
    pub trace: bool,
    /// Do not shrink what fails.
    #[arg(long)]
    pub no_shrink: bool,
    /// Where reports of failures go, and plans that reproduce them.
    #[arg(long, value_name = "DIR", default_value = "sim-failures")]
    pub report: PathBuf,
}

/// Something else than runs.
#[derive(Debug, Subcommand)]
pub enum SimAction {
    /// Hunt for bugs that were planted on purpose; needs a build with the feature `planted`.
    #[command(after_help = concat_help("cargo run --release --features planted -- sim planted\n  cargo run --release --features planted -- sim planted --only BUG --repeats 9"))]
    Planted(PlantedArgs),
}

/// An engine of which there is more than one replica. Of one that does not go on when a replica is lost none is.
fn engine(name: &str) -> std::result::Result<EngineKind, String> {
    let engine: EngineKind = name.parse()?;
    if !engine.abilities().replicates {
        return Err(format!("{engine} does not replicate: there is nothing to simulate"));
    }
    Ok(engine)
}

/// A length of time that is one, in minutes.
fn some_minutes(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(minutes) if minutes > 0.0 && minutes <= 1e6 => Ok(minutes),
        _ => Err("must be above 0 and at most 1000000".into()),
    }
}

/// Seeds from the first on to the one before the second.
fn some_seeds(text: &str) -> std::result::Result<Range<u64>, String> {
    let bad = || format!("`{text}` is no A..B with A below B");
    let (first, end) = text.split_once("..").ok_or_else(bad)?;
    match (first.parse(), end.parse()) {
        (Ok(first), Ok(end)) if first < end => Ok(first..end),
        _ => Err(bad()),
    }
}

impl SimArgs {
    /// Many seeds: which ones. Without an end if they run for some minutes.
    fn range(&self) -> Range<u64> {
        let runs = self.runs.or(self.minutes.is_none().then_some(RUNS));
        let end = runs.map_or(u64::MAX, |runs| self.from.saturating_add(runs));
        self.seeds.clone().unwrap_or(self.from..end)
    }

    /// What the replicas keep.
    fn level(&self) -> Durability {
        match (self.disks, self.disks_behind) {
            (_, true) => Durability::Async,
            (true, _) => Durability::Sync,
            _ => Durability::Memory,
        }
    }
}

/// Runs what was asked for.
pub fn run_sim(args: &SimArgs) -> Result<()> {
    if let Some(SimAction::Planted(args)) = &args.action {
        return planted::run(args);
    }
    if args.level() != Durability::Memory && !args.engine.abilities().durable {
        return Err(Failure::usage(format!("--disks: the engine {} keeps nothing on disks", args.engine)));
    }
    if args.level() == Durability::Async && !args.engine.abilities().disks_behind {
        let why = format!("--disks-behind: the engine {} has no durability `async`", args.engine);
        return Err(Failure::usage(why).hint("--disks is durability `sync`"));
    }
    let plan = match (&args.plan, args.seed) {
        (Some(file), _) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::unreadable(format!("{}: {error}", file.display())))?;
            let bad = |error| {
                Failure::unreadable(format!("{}: {error}", file.display()))
                    .hint("a plan is what a failing run saves as seed-N.json")
            };
            Some(Plan::parse(&text).map_err(bad)?)
        }
        (None, Some(seed)) => Some(draw(args.engine, seed, args.level())),
        (None, None) => None,
    };
    match plan {
        Some(plan) => one(args, &plan),
        None => many(args),
    }
}

/// The plan of a seed.
fn draw(engine: EngineKind, seed: u64, level: Durability) -> Plan {
    let plan = Plan::draw_for(engine, seed);
    let plan = match level {
        Durability::Memory => plan,
        Durability::Async => plan.with_disks_behind(),
        Durability::Sync => plan.with_disks(),
    };
    plan.with_redis()
}

/// One plan, twice.
fn one(args: &SimArgs, plan: &Plan) -> Result<()> {
    println!("seed {}: {}", plan.seed, report::describe(plan));
    let ended = if args.trace {
        run_tracing(&WithDoor, plan, |line| println!("{line}"))
    } else {
        run_in(&WithDoor, plan)
    };
    let summary = match ended {
        Ok(summary) => summary,
        Err(broken) => return Err(fail(args, broken, !args.no_shrink)),
    };
    let again = run_in(&WithDoor, plan).map_err(|broken| fail(args, broken, false))?;
    let mut total = Total::default();
    total.add(&summary);
    println!("{}", total.describe(summary.took));
    if again.trace != summary.trace {
        let (one, other) = (summary.trace, again.trace);
        return Err(Failure::negative(format!("two runs differ: trace {one:016x}, then {other:016x}")));
    }
    println!("trace {:016x}, twice", summary.trace);
    Ok(())
}

/// Many seeds, on all threads.
fn many(args: &SimArgs) -> Result<()> {
    let jobs = args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    let minutes = args.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
    let mut traces = args.traces.as_deref().map(Traces::create).transpose()?;
    let started = Instant::now();
    let over = minutes.map(|length| started + length);
    let (mut total, mut progress, mut cpu) = (Total::default(), Progress::new(), Duration::ZERO);
    let mut failed: Vec<(u64, String)> = Vec::new();
    for (seed, ended) in sweep(args.range(), jobs, (args.engine, args.level()), args.twice, over) {
        if let Some(traces) = &mut traces {
            traces.keep(seed, &ended);
        }
        match ended {
            Ok(summary) => total.add(&summary),
            Err(broken) => {
                progress.clear();
                let shrinks = !args.no_shrink && (failed.len() as u64) < SHRINK_MOST;
                let failure = fail(args, broken, shrinks);
                eprintln!("highwater: {failure}");
                failed.push((seed, failure.message));
            }
        }
        cpu = machine_cpu();
        progress.show(&format!("{}, {} failed", total.describe(cpu), failed.len()));
    }
    progress.clear();
    traces.as_ref().map_or(Ok(()), Traces::save)?;
    println!("{}; {:.1} s on {jobs} threads", total.describe(cpu), started.elapsed().as_secs_f64());
    println!("{}", total.details());
    if failed.is_empty() {
        return Ok(());
    }
    let seeds: Vec<String> = failed.iter().take(20).map(|(seed, _)| seed.to_string()).collect();
    let message = format!(
        "{} of {} seeds failed: {}",
        failed.len(),
        total.seeds + failed.len() as u64,
        seeds.join(", ")
    );
    Err(Failure::negative(message).hint(format!("reports in {}", args.report.display())))
}

type Ended = (u64, std::result::Result<Summary, Box<Broken>>);

/// Results in the order in which they come.
fn sweep(
    seeds: Range<u64>,
    jobs: usize,
    (engine, level): (EngineKind, Durability),
    twice: bool,
    over: Option<Instant>,
) -> Receiver<Ended> {
    let next = Arc::new(AtomicU64::new(seeds.start));
    let (sender, receiver) = channel();
    for _ in 0..jobs {
        let (sender, next, end) = (sender.clone(), Arc::clone(&next), seeds.end);
        thread::spawn(move || {
            while over.is_none_or(|over| Instant::now() < over) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    break;
                }
                let plan = draw(engine, seed, level);
                let mut ended = run_in(&WithDoor, &plan);
                if let (true, Ok(first)) = (twice, &ended)
                    && run_in(&WithDoor, &plan).is_ok_and(|second| second.trace != first.trace)
                {
                    ended = Err(Broken::differs(&plan));
                }
                if sender.send((seed, ended)).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

/// A line for each seed: its trace, or that it failed and how. In the order of the seeds, so that files can be compared.
struct Traces {
    file: PathBuf,
    lines: BTreeMap<u64, String>,
}

impl Traces {
    /// Makes the file, so that one that cannot be written is told of before hours of runs.
    fn create(file: &Path) -> Result<Traces> {
        let traces = Traces { file: file.to_path_buf(), lines: BTreeMap::new() };
        traces.save()?;
        Ok(traces)
    }

    fn keep(&mut self, seed: u64, ended: &std::result::Result<Summary, Box<Broken>>) {
        let line = match ended {
            Ok(summary) => format!("{seed}\t{:016x}", summary.trace),
            Err(broken) => {
                format!("{seed}\tfailed: {}", broken.to_string().lines().next().unwrap_or_default())
            }
        };
        self.lines.insert(seed, line);
    }

    fn save(&self) -> Result<()> {
        let text: String = self.lines.values().flat_map(|line| [line, "\n"]).collect();
        std::fs::write(&self.file, text)
            .map_err(|error| Failure::unreadable(format!("{}: {error}", self.file.display())))
    }
}

/// Shrinks, reports and saves a failure; says it in one line.
fn fail(args: &SimArgs, broken: Box<Broken>, shrinks: bool) -> Failure {
    let seed = broken.plan.seed;
    let line = broken.to_string().lines().next().unwrap_or_default().to_string();
    let small = shrinks.then(|| {
        eprintln!("{line}; shrinking ..");
        shrink(&WithDoor, broken.clone(), SHRINK_FOR)
    });
    let small = small.as_ref().map(|small| (&*small.failure, small.tried));
    let file = args.report.join(format!("seed-{seed}.json"));
    let plan = small.map_or(&broken.plan, |(small, _)| &small.plan);
    let page = report::page(&broken, small, Some(&file.display().to_string()));
    let saved = save(&args.report, seed, &plan.to_json(), &page);
    println!("{page}");
    match saved {
        Ok(()) => Failure::negative(line).hint(format!("report in {}", args.report.display())),
        Err(error) => {
            Failure::negative(line).hint(format!("cannot write {}: {error}", args.report.display()))
        }
    }
}

fn save(directory: &Path, seed: u64, plan: &str, page: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join(format!("seed-{seed}.json")), plan)?;
    std::fs::write(directory.join(format!("seed-{seed}.txt")), page)
}

/// CPU time of this process.
fn machine_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// All good runs together.
#[derive(Debug, Default)]
struct Total {
    seeds: u64,
    simulated: Duration,
    acknowledged: u64,
    snapshot_reads: u64,
    failovers: u64,
    faults: BTreeMap<&'static str, u64>,
    outcomes: BTreeMap<&'static str, u64>,
    marks: BTreeMap<&'static str, u64>,
}

impl Total {
    fn add(&mut self, run: &Summary) {
        self.seeds += 1;
        self.simulated += Duration::from_nanos(run.simulated);
        self.acknowledged += run.acknowledged;
        self.snapshot_reads += run.snapshot_reads;
        self.failovers += run.failovers;
        run.faults.iter().for_each(|(kind, count)| *self.faults.entry(kind).or_default() += count);
        run.marks.iter().for_each(|(what, count)| *self.marks.entry(what).or_default() += count);
        run.outcomes.iter().for_each(|(kind, count)| *self.outcomes.entry(kind).or_default() += count);
    }

    fn describe(&self, cpu: Duration) -> String {
        let simulated = self.simulated.as_secs_f64();
        format!(
            "{} seeds, {:.2} simulated hours, {} transactions acknowledged, {} changes of leader, {} faults, \
             {:.1} simulated s per CPU-second",
            self.seeds,
            simulated / 3600.0,
            short(self.acknowledged as f64),
            short(self.failovers as f64),
            short(self.faults.values().sum::<u64>() as f64),
            simulated / cpu.as_secs_f64().max(1e-9),
        )
    }

    fn details(&self) -> String {
        let list = |counts: &BTreeMap<&str, u64>| {
            counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
        };
        let (faults, outcomes) = (list(&self.faults), list(&self.outcomes));
        let marks = list(&self.marks);
        format!(
            "faults: {faults}\nrequests: {outcomes}; {} snapshot reads answered\nalso: {marks}",
            self.snapshot_reads
        )
    }
}
