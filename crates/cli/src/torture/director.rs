//! Plays the schedule: strikes, heals, and waits until the cluster is whole again.

use std::thread;
use std::time::{Duration, Instant};

use super::clients::Clients;
use super::faults::{Faults, WHOLE_AGAIN};
use super::schedule::{Episode, Schedule, Strike};
use super::watch::Watch;
use crate::answers;
use crate::failure::{Failure, Result};
use crate::machine::monotonic_ns;

/// How often the director looks at the clock.
const TURN: Duration = Duration::from_millis(5);
/// How long a whole cluster may take until it commits something.
const PROGRESS: Duration = Duration::from_secs(10);
/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_secs(5);

/// Plays a schedule.
pub struct Director<'a> {
    /// What is done to the cluster.
    pub faults: Faults<'a>,
    watch: &'a Watch,
    clients: &'a mut Clients,
    /// When the cluster was not whole: from the first strike until it was whole again.
    pub unrest: Vec<(u64, u64)>,
    /// When the progress was last shown, and how many transactions had committed then.
    shown: (Instant, u64),
    /// The longest time without a commit since it was shown.
    gap: Duration,
}

impl<'a> Director<'a> {
    /// Of a cluster that runs, under load.
    pub fn new(faults: Faults<'a>, watch: &'a Watch, clients: &'a mut Clients) -> Director<'a> {
        let shown = (Instant::now(), 0);
        Director { faults, watch, clients, unrest: Vec::new(), shown, gap: Duration::ZERO }
    }

    /// Plays episodes for so long; in the end the cluster is whole and at work.
    pub fn play(&mut self, schedule: &mut Schedule, lasts: Duration) -> Result<()> {
        self.wait_until_whole()?;
        while self.faults.elapsed() < lasts {
            let Episode { rest, strikes } = schedule.next_episode();
            self.wait(rest)?;
            let began = monotonic_ns();
            self.episode(&strikes)?;
            self.wait_until_whole()?;
            self.unrest.push((began, monotonic_ns()));
        }
        Ok(())
    }

    fn episode(&mut self, strikes: &[Strike]) -> Result<()> {
        let began = Instant::now();
        let mut strikes = strikes.iter().peekable();
        while strikes.peek().is_some() || self.faults.any_lasts() {
            while let Some(strike) = strikes.next_if(|strike| strike.after <= began.elapsed()) {
                self.faults.strike(strike)?;
            }
            self.faults.heal_what_is_due()?;
            self.turn()?;
        }
        Ok(())
    }

    /// Waits until everybody votes and something commits.
    fn wait_until_whole(&mut self) -> Result<()> {
        let began = Instant::now();
        // What a replica said before does not count: it may have died since, and come back without its memory.
        while let Err(missing) = answers::healthy(&self.watch.statuses_since(began)) {
            if began.elapsed() > WHOLE_AGAIN {
                let seconds = WHOLE_AGAIN.as_secs();
                return Err(Failure::negative(format!(
                    "the healed cluster is not whole after {seconds} s: {missing}"
                )));
            }
            self.turn()?;
        }
        let (whole, since) = (Instant::now(), monotonic_ns());
        while self.clients.tally().last_ok_ns < since {
            if whole.elapsed() > PROGRESS {
                let seconds = PROGRESS.as_secs();
                return Err(Failure::negative(format!(
                    "the whole cluster committed nothing for {seconds} s"
                )));
            }
            self.turn()?;
        }
        Ok(())
    }

    fn wait(&mut self, lasts: Duration) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < lasts {
            self.turn()?;
        }
        Ok(())
    }

    /// A moment passes.
    fn turn(&mut self) -> Result<()> {
        self.faults.turn()?;
        self.clients.none_died()?;
        let tally = self.clients.tally();
        if tally.last_ok_ns > 0 {
            self.gap = self.gap.max(Duration::from_nanos(monotonic_ns().saturating_sub(tally.last_ok_ns)));
        }
        let since = self.shown.0.elapsed();
        if since > SHOW_EVERY {
            let rate = (tally.transactions.ok - self.shown.1) as f64 / since.as_secs_f64();
            let reign = self.watch.reign().unwrap_or_else(|| "nobody served yet".into());
            let (faults, gap) = (self.faults.events.len(), self.gap.as_millis());
            self.faults
                .say(&format!("{reign}, {rate:.0} tx/s, longest gap {gap} ms, {faults} faults so far"));
            self.shown = (Instant::now(), tally.transactions.ok);
            self.gap = Duration::ZERO;
        }
        thread::sleep(TURN);
        Ok(())
    }
}
