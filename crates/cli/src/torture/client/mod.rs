//! `highwater torture-client`: a process of clients, each with one connection and one history file.
//!
//! It runs until its standard input ends, and says every tenth of a second on standard output, in a line of JSON, how
//! far it is.

pub mod carrier;
pub mod fresh;
mod roles;
pub mod session;
pub mod work;

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use highwater_checker::Status;
use highwater_engines::EngineKind;
use serde::{Deserialize, Serialize};

use crate::counting::{Counted, Counter};
use crate::failure::{Failure, Result};
use crate::machine::monotonic_ns;
use fresh::{Bounded, Fresh};
use roles::Step;
use work::Lists;

/// How often it says how far it is.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// Beside one client of so many stands one who counts.
const COUNTER_EVERY: u64 = 4;
/// What must not happen is told so often.
const TROUBLES: usize = 10;
/// Before asking again when nobody leads.
const NOBODY_LEADS: Duration = Duration::from_millis(10);

/// `highwater torture-client`.
#[derive(Debug, Args)]
pub struct ClientArgs {
    /// The replicas' engine.
    #[arg(long)]
    pub engine: EngineKind,
    /// The replicas' RESP addresses.
    #[arg(long, value_delimiter = ',', required = true)]
    pub doors: Vec<SocketAddr>,
    /// Number of the first client.
    #[arg(long)]
    pub first: u64,
    /// How many clients this process is.
    #[arg(long)]
    pub count: u64,
    /// How many there are in all, in all processes.
    #[arg(long)]
    pub of: u64,
    /// Transactions per second of one client, at most.
    #[arg(long)]
    pub rate: f64,
    /// Seed of what is drawn.
    #[arg(long)]
    pub seed: u64,
    /// Nobody counts: what was acknowledged may be lost.
    #[arg(long)]
    pub no_counters: bool,
    /// Directory of the history files.
    #[arg(long)]
    pub history: PathBuf,
}

/// How many transactions ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// Committed.
    pub ok: u64,
    /// Surely not applied.
    pub fail: u64,
    /// Unknown.
    pub info: u64,
    /// Of these, because the replica closed the connection before it had answered.
    #[serde(default)]
    pub broken: u64,
}

impl Outcomes {
    /// All of both.
    pub fn plus(self, more: Outcomes) -> Outcomes {
        Outcomes {
            ok: self.ok + more.ok,
            fail: self.fail + more.fail,
            info: self.info + more.info,
            broken: self.broken + more.broken,
        }
    }
}

/// How far a process is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Of the transactions on whoever leads, or on any replica where nobody does.
    pub transactions: Outcomes,
    /// Of the reads on snapshots.
    pub snapshots: Outcomes,
    /// Of these, those that asked for freshness.
    #[serde(default)]
    pub bounded: Bounded,
    /// When the last of these transactions committed, on `CLOCK_MONOTONIC` in nanoseconds; 0: none yet.
    pub last_ok_ns: u64,
    /// The newest generation of each list.
    pub generations: Vec<u32>,
    /// What must not happen, in words.
    pub trouble: Vec<String>,
    /// What those who count know, once all is over.
    #[serde(default)]
    pub counted: Vec<Counted>,
}

/// What the clients of a process share.
#[derive(Debug, Default)]
struct Common {
    over: AtomicBool,
    transactions: Counts,
    snapshots: Counts,
    bounded: Mutex<Bounded>,
    last_ok_ns: AtomicU64,
    lists: Lists,
    trouble: Mutex<Vec<String>>,
    counted: Mutex<Vec<Counted>>,
}

#[derive(Debug, Default)]
struct Counts {
    by_status: [AtomicU64; 3],
    broken: AtomicU64,
}

impl Counts {
    fn add(&self, status: Status, broken: u64) {
        let at = match status {
            Status::Ok => 0,
            Status::Fail => 1,
            Status::Info => 2,
        };
        self.by_status[at].fetch_add(1, Ordering::Relaxed);
        self.broken.fetch_add(broken, Ordering::Relaxed);
    }

    fn outcomes(&self) -> Outcomes {
        let [ok, fail, info] = self.by_status.each_ref().map(|count| count.load(Ordering::Relaxed));
        Outcomes { ok, fail, info, broken: self.broken.load(Ordering::Relaxed) }
    }
}

impl Common {
    fn tally(&self) -> Tally {
        Tally {
            transactions: self.transactions.outcomes(),
            snapshots: self.snapshots.outcomes(),
            bounded: *self.bounded.lock().unwrap_or_else(PoisonError::into_inner),
            last_ok_ns: self.last_ok_ns.load(Ordering::Relaxed),
            generations: self.lists.generations(),
            trouble: self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            counted: self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn count(&self, status: Status, broken: u64) {
        self.transactions.add(status, broken);
        if status == Status::Ok {
            self.last_ok_ns.fetch_max(monotonic_ns(), Ordering::Relaxed);
        }
    }

    fn count_read(&self, asked: Fresh, status: Status, (broken, refused): (u64, u64)) {
        self.snapshots.add(status, broken);
        let mut bounded = self.bounded.lock().unwrap_or_else(PoisonError::into_inner);
        bounded.note(asked, status == Status::Ok, refused);
    }

    fn complain(&self, troubles: &mut Vec<String>) {
        if !troubles.is_empty() {
            let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            // The first ones tell enough.
            let room = TROUBLES.saturating_sub(trouble.len());
            trouble.extend(troubles.drain(..).take(room));
        }
    }
}

/// Runs the clients.
pub fn run(args: &ClientArgs) -> Result<()> {
    let common = Common::default();
    thread::scope(|scope| {
        let clients: Vec<_> = (args.first..args.first + args.count)
            .map(|number| {
                let common = &common;
                scope.spawn(move || {
                    let outcome = client(args, number, common);
                    // Without one of them the run is not what it claims to be.
                    common.over.store(true, Ordering::Relaxed);
                    outcome
                })
            })
            .collect();
        let counters: Vec<_> = (args.first..args.first + args.count)
            .filter(|number| number % COUNTER_EVERY == 0 && !args.no_counters)
            .map(|number| {
                let common = &common;
                scope.spawn(move || count(args, number, common))
            })
            .collect();
        let over = &common.over;
        scope.spawn(move || {
            // Whatever ends the pipe ends the load.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) && !clients.iter().any(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(TELL_EVERY);
            tell(&common)?;
        }
        let outcomes: Vec<_> =
            clients.into_iter().map(|client| client.join().expect("a client does not panic")).collect();
        for counter in counters {
            counter.join().expect("who counts does not panic");
        }
        tell(&common)?;
        outcomes.into_iter().collect::<Result<()>>()
    })
}

/// A line of JSON. Nobody reads it any more: the run is over.
fn tell(common: &Common) -> Result<()> {
    let line = serde_json::to_string(&common.tally()).map_err(Failure::negative)? + "\n";
    std::io::stdout().write_all(line.as_bytes()).map_err(Failure::negative)
}

/// One who counts, until all is over and nothing of it is open.
fn count(args: &ClientArgs, number: u64, common: &Common) {
    let counter = Counter::new(number, &args.doors, args.seed);
    match counter.run(|| common.over.load(Ordering::Relaxed)) {
        Ok(counted) => common.counted.lock().unwrap_or_else(PoisonError::into_inner).push(counted),
        Err(trouble) => common.trouble.lock().unwrap_or_else(PoisonError::into_inner).push(trouble),
    }
}

/// One client: a transaction, a pause, the next.
fn client(args: &ClientArgs, number: u64, common: &Common) -> Result<()> {
    let cannot = |error: io::Error| {
        Failure::cannot_start(format!("cannot write the history of client {number}: {error}"))
    };
    let mut client = roles::begin(args, number).map_err(cannot)?;
    let pause = Duration::from_secs_f64(1.0 / args.rate);
    let mut next = Instant::now();
    while !common.over.load(Ordering::Relaxed) {
        // A little more or less each time, so that clients do not march in step; what was missed is not made up for.
        let jitter = 0.5 + client.rng().unit();
        next = (next + pause.mul_f64(jitter)).max(Instant::now());
        if let Step::Refused = client.step(common).map_err(cannot)? {
            next += NOBODY_LEADS;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    client.finish().map_err(cannot)
}
