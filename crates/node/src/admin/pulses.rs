//! Whether the workers turn: each is sent a letter now and then, and counts those that it has read.

use highwater_seam::Nanos;

use crate::shared::{Shared, WorkerLetter};

/// A worker that reads no letter for as long is stuck. What executes and goes on is let go on for 38 s.
pub const LONGEST_TURN: Nanos = 60_000_000_000;

/// What each worker was asked.
pub struct Pulses(Vec<Asked>);

#[derive(Clone, Copy, Default)]
struct Asked {
    letters: u64,
    /// When the last one was sent.
    at: Nanos,
}

impl Pulses {
    /// Of so many workers.
    pub fn new(workers: usize) -> Pulses {
        Pulses(vec![Asked::default(); workers])
    }

    /// Sends each a letter that has none to read.
    pub fn ask(&mut self, now: Nanos, shared: &Shared) {
        for (worker, asked) in self.0.iter_mut().enumerate() {
            if shared.pulses_of(worker) == asked.letters {
                *asked = Asked { letters: asked.letters + 1, at: now };
                shared.workers[worker].post(WorkerLetter::Pulse);
            }
        }
    }

    /// A worker that has not read its letter for too long, if there is one.
    pub fn stuck(&self, now: Nanos, shared: &Shared) -> Option<usize> {
        self.0.iter().enumerate().position(|(worker, asked)| {
            shared.pulses_of(worker) != asked.letters && now.saturating_sub(asked.at) >= LONGEST_TURN
        })
    }
}
