//! The two sides of the comparison: executing requests into a log, and applying a log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use highwater_core::{Abort, Clock, Library, ProcedureId, Registry, Timestamp};
use highwater_store::{Applier, Occ, Store};
use highwater_workloads::{AllWorkloads, Workload};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::machine::thread_cpu_ns;

/// Bytes of an entry's body, about: as the engine seals them under load.
const BODY_BYTES: usize = 256 << 10;
/// Room for the transaction that goes beyond.
const SLACK_BYTES: usize = 64 << 10;
/// Transactions between two collections of tombstones.
const COLLECT_EVERY: usize = 32;
/// Log bytes of a TPC-C transaction, at most, on average: for buffers that are touched beforehand.
const TRANSACTION_BYTES: u64 = 1 << 10;

/// What a phase took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    /// CPU time over all threads.
    pub cpu_seconds: f64,
    /// From the start to the end of the slowest thread.
    pub wall_seconds: f64,
    /// Executed, or applied.
    pub transactions: u64,
}

/// Requests of each worker, drawn beforehand.
pub struct Requests(Vec<Drawn>);

/// Requests in a row, and their arguments in one piece of memory.
#[derive(Default)]
struct Drawn {
    requests: Vec<(ProcedureId, u32)>,
    args: Vec<u8>,
}

impl Drawn {
    fn push(&mut self, procedure: ProcedureId, args: &[u8]) {
        self.requests.push((procedure, args.len() as u32));
        self.args.extend_from_slice(args);
    }
}

impl Requests {
    /// Those that populate the database.
    pub fn population(workload: &dyn Workload, workers: usize) -> Requests {
        let registry = registry();
        let parts = (0..workers).map(|part| {
            let mut drawn = Drawn::default();
            for (name, args) in workload.load(part, workers) {
                drawn.push(find(&registry, name), &args);
            }
            drawn
        });
        Requests(parts.collect())
    }

    /// `transactions` of the workload's mix, over all workers.
    pub fn draw(workload: &dyn Workload, workers: usize, transactions: u64, seed: u64) -> Requests {
        let registry = registry();
        let kinds: Vec<ProcedureId> = workload.kinds().iter().map(|name| find(&registry, name)).collect();
        let share = |worker: usize| {
            let (worker, workers) = (worker as u64, workers as u64);
            transactions / workers + u64::from(worker < transactions % workers)
        };
        let parts = (0..workers).map(|worker| {
            let mut generator = workload.generator(worker, workers, seed);
            let (mut drawn, mut args) = (Drawn::default(), Vec::new());
            for _ in 0..share(worker) {
                let kind = generator.next(&mut args);
                drawn.push(kinds[kind], &args);
            }
            drawn
        });
        Requests(parts.collect())
    }
}

fn registry() -> Registry<Occ> {
    let mut registry = Registry::new();
    AllWorkloads.register(&mut registry);
    registry
}

fn find(registry: &Registry<Occ>, name: &str) -> ProcedureId {
    registry.find(name).expect("a workload names registered procedures only")
}

/// One stream of entry bodies per worker.
pub struct Log(Vec<Stream>);

#[derive(Default)]
struct Stream {
    bodies: Vec<Vec<u8>>,
    /// Buffers whose pages were touched already.
    room: Vec<Vec<u8>>,
}

impl Log {
    /// Streams without room.
    pub fn empty(workers: usize) -> Log {
        Log((0..workers).map(|_| Stream::default()).collect())
    }

    /// Streams with room for so many transactions.
    pub fn with_room(workers: usize, transactions: u64) -> Log {
        let buffers = transactions * TRANSACTION_BYTES / (BODY_BYTES * workers) as u64 + 1;
        let touched = || {
            // Ones, because zeros would be the kernel's untouched pages.
            let mut buffer = vec![1; BODY_BYTES + SLACK_BYTES];
            buffer.clear();
            buffer
        };
        let stream = |_| Stream { bodies: Vec::new(), room: (0..buffers).map(|_| touched()).collect() };
        Log((0..workers).map(stream).collect())
    }

    /// Bytes of all bodies.
    pub fn bytes(&self) -> u64 {
        self.0.iter().flat_map(|stream| &stream.bodies).map(|body| body.len() as u64).sum()
    }
}

impl Stream {
    fn buffer(&mut self) -> Vec<u8> {
        self.room.pop().unwrap_or_else(|| Vec::with_capacity(BODY_BYTES + SLACK_BYTES))
    }
}

/// How far each worker is, so that tombstones go when no older write can come any more.
struct Floors(Vec<AtomicU64>);

impl Floors {
    fn new(workers: usize) -> Floors {
        Floors((0..workers).map(|_| AtomicU64::new(0)).collect())
    }

    /// Relaxed throughout: an old value only keeps a tombstone longer.
    fn reach(&self, worker: usize, ts: Timestamp) -> Timestamp {
        self.0[worker].store(ts.0, Ordering::Relaxed);
        let floors = self.0.iter().map(|floor| floor.load(Ordering::Relaxed));
        Timestamp(floors.min().unwrap_or(0))
    }
}

/// What executing came to.
#[derive(Debug, Default)]
pub struct Execution {
    /// What it took.
    pub cost: Cost,
    /// Attempts that were in each other's way.
    pub conflicts: u64,
}

/// Executes the requests on `store`, each worker's on a thread of its own, and keeps the log.
pub fn execute(store: &Arc<Store>, clock: &Arc<Clock>, requests: Requests, log: Log) -> (Execution, Log) {
    let floors = Floors::new(requests.0.len());
    let began = Instant::now();
    let workers: Vec<(Execution, Stream)> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (worker, (drawn, stream)) in requests.0.iter().zip(log.0).enumerate() {
            let occ = Occ::new(store.clone(), clock.clone());
            let executor = Executor { worker, occ, stream, floors: &floors };
            threads.push(scope.spawn(move || executor.run(drawn)));
        }
        threads.into_iter().map(|thread| thread.join().expect("an executor does not panic")).collect()
    });
    let mut total = Execution::default();
    total.cost.wall_seconds = began.elapsed().as_secs_f64();
    let mut streams = Vec::new();
    for (execution, stream) in workers {
        total.cost.cpu_seconds += execution.cost.cpu_seconds;
        total.cost.transactions += execution.cost.transactions;
        total.conflicts += execution.conflicts;
        streams.push(stream);
    }
    (total, Log(streams))
}

struct Executor<'a> {
    worker: usize,
    occ: Occ,
    stream: Stream,
    floors: &'a Floors,
}

impl Executor<'_> {
    fn run(mut self, drawn: &Drawn) -> (Execution, Stream) {
        let registry = registry();
        let began = thread_cpu_ns();
        let mut execution = Execution::default();
        let (mut reply, mut args) = (Vec::new(), &drawn.args[..]);
        for (number, &(procedure, len)) in drawn.requests.iter().enumerate() {
            let (mine, rest) = args.split_at(len as usize);
            args = rest;
            let ts = loop {
                match self.attempt(&registry, procedure, mine, &mut reply) {
                    Ok(ts) => break ts,
                    Err(_) => execution.conflicts += 1,
                }
            };
            if self.occ.log().len() >= BODY_BYTES {
                self.seal();
            }
            if number % COLLECT_EVERY == 0 {
                self.occ.collect(self.floors.reach(self.worker, ts));
            }
        }
        self.seal();
        self.floors.reach(self.worker, Timestamp::MAX);
        execution.cost.transactions = drawn.requests.len() as u64;
        execution.cost.cpu_seconds = (thread_cpu_ns() - began) as f64 / 1e9;
        (execution, self.stream)
    }

    fn attempt(
        &mut self,
        registry: &Registry<Occ>,
        procedure: ProcedureId,
        args: &[u8],
        reply: &mut Vec<u8>,
    ) -> std::result::Result<Timestamp, Abort> {
        reply.clear();
        self.occ.begin();
        match registry.run(procedure, &mut self.occ, args, reply) {
            Ok(()) => self.occ.commit(),
            Err(Abort::Rollback) => self.occ.commit_rollback(),
            Err(
                Abort::BadRequest
                | Abort::TooLarge
                | Abort::OutOfMemory
                | Abort::TooNew
                | Abort::NotReady
                | Abort::DiskFull,
            ) => {
                panic!("a workload sent nonsense: {}", String::from_utf8_lossy(reply))
            }
            Err(Abort::Conflict) => {
                self.occ.abort();
                Err(Abort::Conflict)
            }
        }
    }

    fn seal(&mut self) {
        let fresh = self.stream.buffer();
        let body = self.occ.log().take(fresh);
        self.stream.bodies.push(body);
    }
}

/// Applies the log to `store`, each stream on a thread of its own.
pub fn apply(store: &Arc<Store>, log: &Log) -> Result<Cost> {
    let floors = Floors::new(log.0.len());
    let began = Instant::now();
    let costs: Vec<Result<Cost>> = thread::scope(|scope| {
        let floors = &floors;
        let threads: Vec<_> = log
            .0
            .iter()
            .enumerate()
            .map(|(worker, stream)| scope.spawn(move || apply_stream(store, worker, stream, floors)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("an applier does not panic")).collect()
    });
    let mut total = Cost { wall_seconds: began.elapsed().as_secs_f64(), ..Cost::default() };
    for cost in costs {
        let cost = cost?;
        total.cpu_seconds += cost.cpu_seconds;
        total.transactions += cost.transactions;
    }
    Ok(total)
}

fn apply_stream(store: &Arc<Store>, worker: usize, stream: &Stream, floors: &Floors) -> Result<Cost> {
    let mut applier = Applier::new(store.clone());
    let began = thread_cpu_ns();
    let mut cost = Cost::default();
    for body in &stream.bodies {
        let applied = applier
            .apply(body, Timestamp::ZERO, Timestamp::MAX)
            .map_err(|error| Failure::negative(format!("the log makes no sense: {}", error.0)))?;
        cost.transactions += applied.transactions;
        applier.collect(floors.reach(worker, applied.last_ts));
    }
    floors.reach(worker, Timestamp::MAX);
    cost.cpu_seconds = (thread_cpu_ns() - began) as f64 / 1e9;
    Ok(cost)
}
