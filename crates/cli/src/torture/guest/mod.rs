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
mod job;
mod memory;
mod sizes;

use std::io::{self, BufRead};
use std::sync::mpsc;
use std::thread;

use super::schedule::FaultKind;
use crate::failure::{Failure, Result};
use job::Job;
pub use job::{GuestArgs, Told};

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
    let mut job = Job::new(args, go_on);
    match args.job {
        FaultKind::Sizes => sizes::run(&mut job)?,
        FaultKind::Memory => memory::run(&mut job)?,
        FaultKind::Floods => floods::pipelines(&mut job),
        FaultKind::HalfClose => floods::half_closes(&mut job),
        FaultKind::Stalled => crowds::stalled(&mut job),
        FaultKind::Vanish => crowds::vanish(&mut job),
        FaultKind::Storms => crowds::storms(&mut job),
        FaultKind::Hogs => hogs::cpu(&mut job),
        FaultKind::MemoryHogs => hogs::memory(&mut job),
        other => return Err(Failure::usage(format!("{} is no job for a guest", other.name()))),
    }
    job.tell()
}
