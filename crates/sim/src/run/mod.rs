//! Runs a [`Plan`] and judges it.
//!
//! 1. All replicas start; once one leads, or at once, clients ask and faults happen, for the plan's length. The product's
//!    own assertions and the world's watch over every step; and whoever could serve must serve (`duty`).
//! 2. All faults are undone. A majority (all but the plan's `absent`) must serve again within a bound; then everybody
//!    comes back, must catch up, and serve.
//! 3. Every key is read once more, and the whole is judged: one order of all acknowledged transactions that respects real
//!    time; equal digests; the bank's total; acknowledged audit rows present and refused ones absent; toggles that agree
//!    with their counts; one leader an epoch.

//!
//! | file | what |
//! |---|---|
//! | [`mod`](self) | a run on a thread of its own, whose panic is a failure |
//! | `stages` | the run: its stages, and how time passes in them |
//! | `duty` | since when a majority owes service |
//! | `endure` | whoever owes service serves |
//! | `judge` | what is asked of a run that came to its end; the story of one that did not |
//! | `failure`, `summary` | what comes of it |

mod duty;
mod endure;
mod failure;
mod judge;
mod stages;
mod summary;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use highwater_seam::Nanos;

use crate::house::{Empty, House};
use crate::isolate::{Broken, isolated};
use crate::plan::Plan;
use crate::world::World;
use failure::Verdict;
pub use failure::{Failure, FailureKind};
use stages::Run;
pub use summary::Summary;

/// CPU time after which a run counts as endless.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a plan and judges it; panics of the product are failures.
///
/// # Errors
/// What is wrong, and the story.
pub fn run(plan: &Plan) -> Result<Summary, Box<Failure>> {
    run_in(&Empty, plan)
}

/// The same with guests in the house.
///
/// # Errors
/// As [`run`].
pub fn run_in<H: House>(house: &H, plan: &Plan) -> Result<Summary, Box<Failure>> {
    judged(house, plan, |_| {})
}

/// The same; `listener` sees a line for every event.
///
/// # Errors
/// As [`run`].
pub fn run_tracing<H: House>(
    house: &H,
    plan: &Plan,
    listener: impl FnMut(&str) + Send + 'static,
) -> Result<Summary, Box<Failure>> {
    judged(house, plan, |world| world.on_event(listener))
}

fn judged<H: House>(
    house: &H,
    plan: &Plan,
    prepare: impl FnOnce(&mut World<H::Library>) + Send + 'static,
) -> Result<Summary, Box<Failure>> {
    let started = Instant::now();
    let clock = Arc::new(AtomicU64::new(0));
    let (host, job, told) = (house.clone(), plan.clone(), Arc::clone(&clock));
    let ended = isolated(PATIENCE, move || {
        let mut run = Run::new(&host, &job, told, Nanos::MAX);
        prepare(&mut run.world);
        run.all()
    });
    let (kind, what) = match ended {
        Ok(Ok(summary)) => return Ok(Summary { took: started.elapsed(), ..summary }),
        Ok(Err(Verdict { kind, what, at, story })) => {
            return Err(Box::new(Failure { kind, what, at, plan: plan.clone(), story }));
        }
        Err(Broken::Panicked { message, place }) => (FailureKind::Assertion(place), message),
        Err(Broken::Hangs) => (FailureKind::Hangs, format!("no end after {} s of work", PATIENCE.as_secs())),
    };
    // The world is gone. The same run again, up to the step that broke it, tells the story.
    let at = clock.load(Ordering::Relaxed);
    let (host, job) = (house.clone(), plan.clone());
    let again = isolated(PATIENCE, move || {
        let mut run = Run::new(&host, &job, Arc::default(), at);
        match run.stages() {
            Err(verdict) => verdict.story,
            Ok(_) => run.story(),
        }
    });
    let story = again.unwrap_or_else(|_| "the story broke off".into());
    Err(Box::new(Failure { kind, what, at, plan: plan.clone(), story }))
}
