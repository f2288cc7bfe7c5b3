//! `highwater torture-guest`: one process that uses the machine or the cluster as nobody should, for a while.
//!
//! | job | what it does |
//! |---|---|
//! | `sizes` | keys and values from one byte to the limit, transactions of thousands of operations, a restart while they are there |
//! | `memory` | fills the cluster until it refuses, deletes, fills again, a restart while it is full |
//! | `floods` | pipelines of up to 100,000 commands, with and without reading meanwhile |
//! | `half-close` | commands, then the end of the sending side: all replies must still come |
//! | `stalled` | asks for megabytes and does not read them |
//! | `vanish` | connections that idle, stop in the middle of a command, or break |
//! | `storms` | connections by the hundred, again and again |
//! | `hogs`, `memory-hogs` | burns a CPU; faults in memory and walks over it |
//!
//! What it wrote and was told committed it reads again, wherever its job gives it the time. It says what it did in lines of
//! JSON on standard output, the last one before it ends. A line on standard input lets it go on after a restart it asked
//! for; the end of standard input ends it.

mod caller;
mod crowds;
mod expected;
mod floods;
mod hogs;
mod memory;
mod sizes;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use highwater_workloads::random::{Rng, mix};
use serde::{Deserialize, Serialize};

use super::plan::FaultKind;
use crate::failure::{Failure, Result};
use caller::Caller;

/// What must not happen is told so often.
const TROUBLES: usize = 10;

/// `highwater torture-guest`.
#[derive(Clone, Debug, Args)]
pub struct GuestArgs {
    /// The replicas' RESP addresses.
    #[arg(long, value_delimiter = ',', required = true)]
    pub doors: Vec<SocketAddr>,
    /// What to do.
    #[arg(long)]
    pub job: FaultKind,
    /// This guest's number: its keys' own.
    #[arg(long)]
    pub number: u64,
    /// Seed of what is drawn.
    #[arg(long)]
    pub seed: u64,
    /// For how long, where the job has no other end.
    #[arg(long)]
    pub lasts_ms: u64,
    /// MiB that a replica may take; what a memory hog takes.
    #[arg(long, default_value_t = 0)]
    pub memory_mb: u64,
}

/// What a guest tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// It waits for a replica to be restarted.
    pub waits: bool,
    /// How often it did what.
    pub counts: BTreeMap<String, u64>,
    /// What must not happen, in words.
    pub trouble: Vec<String>,
}

/// A guest at work.
pub struct Guest {
    args: GuestArgs,
    rng: Rng,
    ends: Instant,
    told: Told,
    go_on: Receiver<()>,
}

/// Runs the guest.
pub fn run(args: &GuestArgs) -> Result<()> {
    // Whatever happens to its parent happens to it: a hog must not stay.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| Failure::cannot_start(format!("no signal at the parent's end: {error}")))?;
    let (going, go_on) = mpsc::channel();
    thread::spawn(move || {
        let lines = io::stdin().lock().lines();
        lines.map_while(io::Result::ok).all(|_| going.send(()).is_ok());
        std::process::exit(0);
    });
    let mut guest = Guest {
        rng: Rng::new(mix(args.seed ^ mix(args.number))),
        ends: Instant::now() + Duration::from_millis(args.lasts_ms),
        told: Told::default(),
        go_on,
        args: args.clone(),
    };
    match args.job {
        FaultKind::Sizes => sizes::run(&mut guest)?,
        FaultKind::Memory => memory::run(&mut guest)?,
        FaultKind::Floods => floods::pipelines(&mut guest),
        FaultKind::HalfClose => floods::half_closes(&mut guest),
        FaultKind::Stalled => crowds::stalled(&mut guest),
        FaultKind::Vanish => crowds::vanish(&mut guest),
        FaultKind::Storms => crowds::storms(&mut guest),
        FaultKind::Hogs => hogs::cpu(&mut guest),
        FaultKind::MemoryHogs => hogs::memory(&mut guest),
        other => return Err(Failure::usage(format!("{} is no job for a guest", other.name()))),
    }
    guest.tell()
}

impl Guest {
    fn caller(&mut self) -> Caller {
        Caller::new(self.args.doors.clone(), self.rng.u64())
    }

    fn over(&self) -> bool {
        Instant::now() >= self.ends
    }

    /// Something was done, so often.
    fn count(&mut self, what: &str, n: u64) {
        if n > 0 {
            *self.told.counts.entry(what.to_string()).or_default() += n;
        }
    }

    /// Something happened that must not.
    fn complain(&mut self, trouble: String) {
        // The first ones tell enough.
        if self.told.trouble.len() < TROUBLES {
            let (job, number) = (self.args.job.name(), self.args.number);
            self.told.trouble.push(format!("{job} {number}: {trouble}"));
        }
    }

    /// A key of this guest's own.
    fn key(&self, name: impl std::fmt::Display) -> Vec<u8> {
        format!("g{}:{name}", self.args.number).into_bytes()
    }

    /// Asks for the restart of a replica, and waits until it is back.
    fn wait_for_restart(&mut self) -> Result<()> {
        self.told.waits = true;
        self.tell()?;
        self.told.waits = false;
        self.go_on.recv().map_err(Failure::negative)
    }

    fn tell(&self) -> Result<()> {
        let line = serde_json::to_string(&self.told).map_err(Failure::negative)? + "\n";
        io::stdout().write_all(line.as_bytes()).map_err(Failure::negative)
    }
}

/// A number between two, each order of magnitude as likely as the next.
fn log_uniform(rng: &mut Rng, low: u64, high: u64) -> u64 {
    let (from, to) = ((low.max(1) as f64).ln(), (high.max(1) as f64).ln());
    ((from + rng.unit() * (to - from)).exp() as u64).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_magnitude_is_drawn() {
        let mut rng = Rng::new(1);
        let mut seen = [0; 6];
        for _ in 0..600 {
            let drawn = log_uniform(&mut rng, 1, 100_000);
            assert!((1..=100_000).contains(&drawn));
            seen[drawn.ilog10() as usize] += 1;
        }
        assert!(seen[..5].iter().all(|count| *count > 60), "{seen:?}");
        assert_eq!(log_uniform(&mut rng, 7, 7), 7);
    }
}
