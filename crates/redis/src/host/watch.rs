//! What a worker measures of its clients' requests: see [`meter`](crate::meter).
//!
//! A reading of the stopwatch for each request, behind its submission: the next one begins where it ended. So the time of one is
//! that of taking it from the input and of executing it to its speculative commit; attempts that had to wait for another turn
//! are not in it. Releases are stamped together, once in a turn.

use std::collections::VecDeque;
use std::sync::Arc;

use highwater_core::Outcome;
use highwater_core::clock::{Stopwatch, Ticks};

use crate::Procedures;
use crate::acl::ids::Named;
use crate::meter::Meter;
use crate::meter::slow::{Slow, SlowLog};

/// What all clients of a worker are measured by.
#[derive(Clone)]
pub struct Watch {
    pub worker: u16,
    /// Where it counts.
    pub meter: Arc<Meter>,
    /// Where slow transactions are kept.
    pub slow: Arc<SlowLog>,
    /// What it reads.
    pub stopwatch: Stopwatch,
    /// Unix time in ms, as its host knows it.
    pub unix_ms: fn() -> u64,
    /// Whose requests these are.
    pub procedures: Procedures,
    /// Names of procedures, by id.
    pub names: Vec<&'static str>,
}

/// A request that the engine has taken.
struct Asked {
    seq: u64,
    at: Ticks,
    /// The number of its command.
    command: usize,
    /// It was slow: its number in the log.
    slow: Option<u64>,
}

/// A client's requests that are not released, in order.
#[derive(Default)]
pub struct Unreleased(VecDeque<Asked>);

impl Watch {
    /// Counts for itself, keeps one slow transaction, and knows no procedures' names.
    pub fn new(worker: u16, stopwatch: Stopwatch, unix_ms: fn() -> u64, procedures: Procedures) -> Watch {
        let (meter, slow) = (Arc::default(), Arc::new(SlowLog::new(1)));
        Watch { worker, meter, slow, stopwatch, unix_ms, procedures, names: Vec::new() }
    }

    /// Whether what took from `began` to `ended` is to be kept.
    #[inline]
    pub fn is_notable(&self, began: Ticks, ended: Ticks) -> bool {
        self.slow.is_notable(ended.0.saturating_sub(began.0))
    }

    /// Keeps one; its number if it is slow.
    #[cold]
    pub fn keep(
        &self,
        (began, ended): (Ticks, Ticks),
        command: &Named,
        client: String,
        name: &[u8],
        words: Vec<Vec<u8>>,
    ) -> Option<u64> {
        let (unix_ms, took_us) = ((self.unix_ms)(), self.stopwatch.nanos(began, ended) / 1000);
        self.slow.watch(command.spec.latency_event(), unix_ms, took_us);
        self.slow.keep(Slow {
            number: 0,
            unix_ms,
            took_us,
            released_us: None,
            worker: self.worker,
            client,
            name: crate::meter::slow::shown(&name[..name.len().min(128)]),
            words,
        })
    }
}

impl Unreleased {
    /// The engine took one.
    #[inline]
    pub fn add(&mut self, seq: u64, at: Ticks, command: usize, slow: Option<u64>) {
        self.0.push_back(Asked { seq, at, command, slow });
    }

    /// One has come to nothing, and comes again.
    #[cold]
    pub fn forget(&mut self, seq: u64) {
        self.0.retain(|asked| asked.seq != seq);
    }

    /// One is released, maybe with an error: most of the time the first.
    #[inline]
    pub fn released(&mut self, seq: u64, outcome: Outcome, at: Ticks, failed: bool, watch: &Watch) {
        let asked = match self.0.front() {
            Some(first) if first.seq == seq => self.0.pop_front(),
            _ => self.0.iter().position(|asked| asked.seq == seq).and_then(|place| self.0.remove(place)),
        };
        let Some(asked) = asked else { return };
        let took = watch.stopwatch.nanos(asked.at, at);
        watch.meter.ended(asked.command, outcome, took, failed);
        if let Some(number) = asked.slow {
            watch.slow.released(usize::from(watch.worker), number, took / 1000);
        }
        if self.0.is_empty() {
            self.0.shrink_to(KEPT);
        }
    }
}

/// Places that are kept for the next requests.
const KEPT: usize = 64;
