//! What every job of a guest has: its orders, its time, its own keys, and what it will tell.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use clap::Args;
use highwater_engines::EngineKind;
use highwater_workloads::random::{Rng, mix};
use serde::{Deserialize, Serialize};

use super::caller::Caller;
use crate::failure::{Failure, Result};
use crate::torture::schedule::FaultKind;

/// What must not happen is told so often.
const TROUBLES: usize = 10;
/// What was done is told so often, for the director to see that something is.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// `highwater torture-guest`.
#[derive(Clone, Debug, Args)]
pub struct GuestArgs {
    /// The replicas' engine.
    #[arg(long)]
    pub engine: EngineKind,
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

/// A job under way.
pub struct Job {
    /// What was asked for.
    pub args: GuestArgs,
    /// What the job draws from.
    pub rng: Rng,
    ends: Instant,
    told: Told,
    told_at: Instant,
    go_on: Receiver<()>,
}

impl Job {
    /// Begins now. `go_on` hears when a replica has been restarted.
    pub fn new(args: &GuestArgs, go_on: Receiver<()>) -> Job {
        Job {
            rng: Rng::new(mix(args.seed ^ mix(args.number))),
            ends: Instant::now() + Duration::from_millis(args.lasts_ms),
            told: Told::default(),
            told_at: Instant::now(),
            go_on,
            args: args.clone(),
        }
    }

    /// Asks whoever leads.
    pub fn caller(&mut self) -> Caller {
        Caller::new(self.args.doors.clone(), self.rng.u64())
    }

    /// Whether commands of a pipeline may be under way together; else each takes a round trip or two of its own.
    pub fn pipelines_overlap(&self) -> bool {
        self.args.engine.abilities().in_order
    }

    /// Whether its time is up.
    pub fn over(&self) -> bool {
        Instant::now() >= self.ends
    }

    /// Something was done, so often.
    pub fn count(&mut self, what: &str, n: u64) {
        if n > 0 {
            *self.told.counts.entry(what.to_string()).or_default() += n;
            self.goes_on();
        }
    }

    /// A step of something long was done: whoever waits for this guest hears of it now and then.
    pub fn goes_on(&mut self) {
        if self.told_at.elapsed() >= TOLD_EVERY {
            self.told_at = Instant::now();
            // Without a director nobody waits, and the end of the lifeline ends this process.
            let _ = self.tell();
        }
    }

    /// Something happened that must not.
    pub fn complain(&mut self, trouble: String) {
        // The first ones tell enough.
        if self.told.trouble.len() < TROUBLES {
            let (job, number) = (self.args.job.name(), self.args.number);
            self.told.trouble.push(format!("{job} {number}: {trouble}"));
        }
    }

    /// A key of this guest's own.
    pub fn key(&self, name: impl std::fmt::Display) -> Vec<u8> {
        format!("g{}:{name}", self.args.number).into_bytes()
    }

    /// Asks for the restart of a replica, and waits until it is back.
    pub fn wait_for_restart(&mut self) -> Result<()> {
        self.told.waits = true;
        self.tell()?;
        self.told.waits = false;
        self.go_on.recv().map_err(Failure::negative)
    }

    /// Tells, in a line of JSON, what was done so far.
    pub fn tell(&self) -> Result<()> {
        let line = serde_json::to_string(&self.told).map_err(Failure::negative)? + "\n";
        io::stdout().write_all(line.as_bytes()).map_err(Failure::negative)
    }
}

/// A number between two, each order of magnitude as likely as the next.
pub fn log_uniform(rng: &mut Rng, low: u64, high: u64) -> u64 {
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
