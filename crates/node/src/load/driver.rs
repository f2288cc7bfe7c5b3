//! One worker's running load.

use std::sync::Arc;

use highwater_core::{Outcome, ProcedureId};
use highwater_redis::host::token::{MAX_SLOTS, Owner, pack};
use highwater_seam::{Nanos, Refusal, Request, Worker};
use highwater_workloads::Generator;
use highwater_workloads::audit::encode_append;

use super::{Appetite, RunSpec, WorkerStats};
use crate::clock::{Stopwatch, Ticks};

/// Transactions per turn, at most.
const BUDGET: usize = 64;
/// And time per turn: the sockets wait as long.
const BUDGET_NANOS: Nanos = 50_000;
/// One of so many generator calls is timed.
const SAMPLE: u64 = 64;
/// A fixed rate sleeps no shorter than this: to wake up for each request would cost more than to run it. Latency counts
/// from when a request was due, so this is in it.
const GRAIN: Nanos = 200_000;
/// How often to ask a replica that does not lead whether it does again. It wakes its workers too; this is for safety.
const PARKED: Nanos = 5_000_000;
/// How long after a stop unreleased transactions are waited for.
const STOP_PATIENCE: Nanos = 10_000_000_000;

/// Submits a load to one worker and counts what is released.
pub struct Driver {
    stopwatch: Stopwatch,
    generator: Box<dyn Generator>,
    /// By the generator's kind; the last one is the audit row's.
    procedures: Vec<ProcedureId>,
    audit: Option<Audit>,
    pace: Option<Pace>,
    /// Which life of the driver a token belongs to: late replies to an earlier one are ignored.
    life: u64,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// A request that is drawn but not submitted; its arguments are in `args`.
    drawn: Option<Drawn>,
    args: Vec<u8>,
    calls: u64,
    stop_deadline: Option<Nanos>,
    stats: WorkerStats,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    stamp: Ticks,
    kind: u16,
    /// The audit row's sequence number.
    sequence: u32,
    busy: bool,
}

#[derive(Clone, Copy)]
struct Drawn {
    kind: u16,
    sequence: u32,
    /// When it should have been submitted, with a fixed rate.
    due: Option<Ticks>,
}

struct Audit {
    every: u32,
    /// Requests until the next audit row.
    countdown: u32,
    generator: u32,
    next: u32,
}

/// A fixed rate, in ticks.
struct Pace {
    interval: f64,
    /// When the next request is due. `None` while another replica leads: the schedule starts, anew, when this one
    /// may submit. A leader without room or quorum, or between two of its own epochs, stays on its schedule: what is
    /// late then counts as late.
    next: Option<f64>,
}

impl Driver {
    /// Starts a load on worker `worker` of `workers`. `procedures` are the registered names, by id.
    pub fn new(
        spec: &Arc<RunSpec>,
        worker: usize,
        workers: usize,
        procedures: &[&'static str],
        stopwatch: Stopwatch,
        life: u64,
    ) -> Result<Driver, String> {
        let mut names = spec.workload.kinds().to_vec();
        names.push("audit.append");
        let id = |name: &&str| {
            let at = procedures.iter().position(|known| known == name);
            at.map(|at| ProcedureId(at as u16))
                .ok_or_else(|| format!("procedure {name} is not registered here"))
        };
        let depth = spec.in_flight.clamp(1, MAX_SLOTS);
        let audit = (spec.audit_every > 0).then(|| Audit {
            every: spec.audit_every,
            countdown: spec.audit_every,
            generator: spec.audit_base + worker as u32,
            next: 0,
        });
        let pace = spec.rate_per_worker.map(|rate| Pace {
            interval: stopwatch.ticks((1e9 / rate.max(1e-3)) as u64).max(1) as f64,
            next: None,
        });
        let stats = WorkerStats::new(&names, audit.as_ref().map(|audit| audit.generator));
        Ok(Driver {
            stopwatch,
            generator: spec.workload.generator(worker, workers, spec.seed),
            procedures: names.iter().map(id).collect::<Result<_, _>>()?,
            audit,
            pace,
            life,
            slots: vec![Slot::default(); depth],
            free: (0..depth as u32).rev().collect(),
            drawn: None,
            args: Vec::new(),
            calls: 0,
            stop_deadline: None,
            stats,
        })
    }

    /// Submits what budget, depth, rate and engine allow.
    pub fn submit(&mut self, now: Nanos, engine: &mut dyn Worker) -> Appetite {
        if let Some(deadline) = self.stop_deadline {
            return if self.stopped(now) { Appetite::None } else { Appetite::At(deadline) };
        }
        let start = self.stopwatch.now();
        let mut stamp = start;
        if let Some(pace) = &mut self.pace
            && pace.next.is_none()
        {
            if let Err(Refusal::NotServing { .. }) = engine.ready() {
                return Appetite::At(now + PARKED);
            }
            pace.next = Some(start.0 as f64);
            if let Some(drawn) = &mut self.drawn {
                drawn.due = pace.step();
            }
        }
        for _ in 0..BUDGET {
            if self.free.is_empty() {
                return Appetite::None;
            }
            if self.drawn.is_none() {
                if let Some(wait) = self.wait_for_pace(stamp) {
                    let wait = self.stopwatch.nanos(start, Ticks(start.0 + wait));
                    return Appetite::At(now + wait.max(GRAIN));
                }
                self.draw();
            }
            stamp = self.stopwatch.now();
            match self.submit_drawn(now, stamp, engine) {
                Ok(()) => {}
                // The engine has a turn coming in any case.
                Err(Refusal::Busy) => return Appetite::At(now + 1_000_000),
                Err(Refusal::NotServing { ask: Some(_) }) => {
                    self.pace.iter_mut().for_each(|pace| pace.next = None);
                    return Appetite::At(now + PARKED);
                }
                Err(Refusal::NotServing { ask: None } | Refusal::NoQuorum) => {
                    return Appetite::At(now + PARKED);
                }
                Err(Refusal::Unsupported) => unreachable!("a load asks for no session and no freshness"),
            }
            if self.stopwatch.nanos(start, stamp) > BUDGET_NANOS {
                break;
            }
        }
        if self.free.is_empty() { Appetite::None } else { Appetite::Now }
    }

    /// Counts a reply.
    #[inline]
    pub fn released(&mut self, now: Nanos, at: Ticks, slot: usize, life: u64, outcome: Outcome) {
        if life != self.life || !self.slots[slot].busy {
            return;
        }
        let Slot { stamp, kind, sequence, .. } = self.slots[slot];
        self.slots[slot].busy = false;
        self.free.push(slot as u32);
        self.stats.count(kind as usize, outcome, self.stopwatch.nanos(stamp, at), now);
        if outcome == Outcome::Committed && kind as usize == self.procedures.len() - 1 {
            self.stats.audit.insert(sequence);
        }
    }

    /// The counts so far.
    pub fn stats(&self) -> WorkerStats {
        self.stats.clone()
    }

    /// Ends the warm-up.
    pub fn reset(&mut self) {
        self.stats.reset();
    }

    /// Submits no more.
    pub fn stop(&mut self, now: Nanos) {
        self.stop_deadline.get_or_insert(now + STOP_PATIENCE);
        self.stats.running = false;
    }

    /// Whether it was stopped and nothing is unreleased any more; what lasts too long is given up as unknown.
    pub fn stopped(&mut self, now: Nanos) -> bool {
        let Some(deadline) = self.stop_deadline else { return false };
        let unreleased = self.slots.len() - self.free.len();
        if unreleased > 0 && now >= deadline {
            self.stats.unknown += unreleased as u64;
            self.slots.fill(Slot::default());
            self.free = (0..self.slots.len() as u32).rev().collect();
            return true;
        }
        unreleased == 0
    }

    /// How many ticks the rate asks to wait before the next request.
    fn wait_for_pace(&self, stamp: Ticks) -> Option<u64> {
        let wait = self.pace.as_ref()?.next? - stamp.0 as f64;
        (wait > 0.0).then_some(wait as u64 + 1)
    }

    fn draw(&mut self) {
        let due = self.pace.as_mut().and_then(Pace::step);
        let audit = self.audit.as_mut().and_then(Audit::due);
        if let Some((generator, sequence)) = audit {
            encode_append(generator, sequence, &mut self.args);
            let kind = (self.procedures.len() - 1) as u16;
            self.drawn = Some(Drawn { kind, sequence, due });
            return;
        }
        self.calls += 1;
        let kind = if self.calls.is_multiple_of(SAMPLE) {
            let start = self.stopwatch.now();
            let kind = self.generator.next(&mut self.args);
            self.stats.generator_ns += SAMPLE * self.stopwatch.nanos(start, self.stopwatch.now());
            kind
        } else {
            self.generator.next(&mut self.args)
        };
        self.drawn = Some(Drawn { kind: kind as u16, sequence: 0, due });
    }

    #[inline]
    fn submit_drawn(&mut self, now: Nanos, stamp: Ticks, engine: &mut dyn Worker) -> Result<(), Refusal> {
        let Drawn { kind, sequence, due } = self.drawn.expect("a request is drawn");
        let slot = *self.free.last().expect("a slot is free");
        let token = pack(Owner::Load, slot as usize, self.life);
        engine.submit(now, Request::new(token, self.procedures[kind as usize], &self.args))?;
        self.free.pop();
        self.slots[slot as usize] = Slot { stamp: due.unwrap_or(stamp), kind, sequence, busy: true };
        self.drawn = None;
        Ok(())
    }
}

impl Pace {
    /// When the next request is due; the one after it is due an interval later.
    fn step(&mut self) -> Option<Ticks> {
        let due = self.next?;
        self.next = Some(due + self.interval);
        Some(Ticks(due as u64))
    }
}

impl Audit {
    /// The audit row that is due, if one is.
    fn due(&mut self) -> Option<(u32, u32)> {
        self.countdown -= 1;
        if self.countdown > 0 {
            return None;
        }
        self.countdown = self.every;
        self.next += 1;
        Some((self.generator, self.next - 1))
    }
}
