//! A driver on a stub engine.

use std::sync::Arc;

use highwater_core::{Incarnation, Levels, Library, NodeId, Outcome, Registry};
use highwater_redis::host::token::unpack;
use highwater_seam::{Endpoint, Frame, Nanos, Next, Outbox, Refusal, Request, Taken, Worker};
use highwater_workloads::testing::Memory;

use super::{Driver, RunSpec};
use crate::clock::{Stopwatch, Ticks};
use crate::library::{WITH_WORKLOADS, workload};

/// Says what it is told to say, and keeps what it took.
struct Stub {
    answer: Result<(), Refusal>,
    taken: Vec<(usize, u64)>,
}

impl Worker for Stub {
    fn ready(&self) -> Result<(), Refusal> {
        self.answer
    }

    fn submit(&mut self, _: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        self.answer?;
        let (_, slot, life) = unpack(request.token);
        self.taken.push((slot, life));
        Ok(Taken::Placed)
    }

    fn peer_up(&mut self, _: Nanos, _: NodeId, _: Incarnation, _: Levels) {}
    fn peer_down(&mut self, _: Nanos, _: NodeId) {}
    fn deliver(&mut self, _: Nanos, _: Endpoint, _: Frame) {}
    fn turn(&mut self, _: Nanos, _: &mut Outbox) -> Next {
        Next::Idle
    }
    fn describe(&self) -> String {
        String::new()
    }
}

const OTHER_LEADS: Result<(), Refusal> = Err(Refusal::NotServing { ask: Some(NodeId(1)) });
const PER_SECOND: u64 = 1000;

struct Scene {
    stub: Stub,
    driver: Driver,
    stopwatch: Stopwatch,
}

impl Scene {
    fn new() -> Scene {
        let mut registry = Registry::<Memory>::new();
        WITH_WORKLOADS.register(&mut registry);
        let spec = Arc::new(RunSpec {
            workload: workload("bank", &[]).expect("there is a bank"),
            in_flight: 1000,
            rate_per_worker: Some(PER_SECOND as f64),
            seed: 1,
            audit_every: 0,
            audit_base: 0,
        });
        let stopwatch = Stopwatch::calibrate();
        let driver = Driver::new(&spec, 0, 1, &registry.names(), stopwatch, 1).expect("all is registered");
        Scene { stub: Stub { answer: OTHER_LEADS, taken: Vec::new() }, driver, stopwatch }
    }

    /// Turns of the driver for so long; how many requests it submitted meanwhile.
    fn turns(&mut self, ms: u64) -> usize {
        let (before, start) = (self.stub.taken.len(), self.stopwatch.now());
        while self.since(start) < ms * 1_000_000 {
            self.driver.submit(0, &mut self.stub);
        }
        self.stub.taken.len() - before
    }

    /// One turn: how many requests it submitted, and how many the rate allows since `start`.
    fn turn(&mut self, start: Ticks) -> (usize, usize) {
        let before = self.stub.taken.len();
        self.driver.submit(0, &mut self.stub);
        let allowed = self.since(start) * PER_SECOND / 1_000_000_000 + 1;
        (self.stub.taken.len() - before, allowed as usize)
    }

    fn since(&self, start: Ticks) -> Nanos {
        self.stopwatch.nanos(start, self.stopwatch.now())
    }
}

/// Once: a rate-limited load on a standby started its schedule when it was given: on becoming leader it submitted all
/// that had "been due" in a burst, with latencies to match.
#[test]
fn a_standby_starts_its_schedule_when_it_leads() {
    let mut scene = Scene::new();
    assert_eq!(scene.turns(30), 0);
    for _ in 0..2 {
        let start = scene.stopwatch.now();
        scene.stub.answer = Ok(());
        let (submitted, allowed) = scene.turn(start);
        assert!((1..=allowed).contains(&submitted), "{submitted} at once, {allowed} were due");
        // Nor do they look older than they are.
        let at = scene.stopwatch.now();
        for (slot, life) in std::mem::take(&mut scene.stub.taken) {
            scene.driver.released(1, at, slot, life, Outcome::Committed);
        }
        let slowest = scene.driver.stats().kinds.iter().map(|kind| kind.latency.max()).max();
        let longest = scene.stopwatch.nanos(start, at);
        assert!(
            slowest.is_some_and(|slowest| slowest <= longest + longest / 50),
            "{slowest:?} in {longest} ns"
        );
        scene.driver.reset();
        // Deposed, it starts anew the next time.
        scene.stub.answer = OTHER_LEADS;
        assert_eq!(scene.turns(30), 0);
    }
}

#[test]
fn a_leader_that_stalls_catches_up_with_its_schedule() {
    for stall in [Refusal::NoQuorum, Refusal::Busy, Refusal::NotServing { ask: None }] {
        let mut scene = Scene::new();
        scene.stub.answer = Ok(());
        scene.turns(5);
        scene.stub.answer = Err(stall);
        assert_eq!(scene.turns(30), 0);
        scene.stub.answer = Ok(());
        let start = scene.stopwatch.now();
        // A turn is bounded in time, so it may take several; a schedule that started anew would never be ahead of the rate.
        let mut submitted = 0;
        let caught_up = (0..100_000).any(|_| {
            let (more, allowed) = scene.turn(start);
            submitted += more;
            submitted >= 28 + allowed
        });
        assert!(caught_up, "{stall:?}: {submitted}, with 30 that were held up");
    }
}
