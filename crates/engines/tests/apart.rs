//! A worker that executes a long request holds up nobody else.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)] // a test may fail so
#![allow(clippy::disallowed_types)] // this is a host, with real threads

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use highwater_core::{
    Abort, Clock, Incarnation, IndexKind, KeyKind, Library, NodeId, Outcome, Procedure, ProcedureId,
    Registry, TableId, TableSpec, Transaction,
};
use highwater_engine_rolis::settings::LONG_REQUEST_BYTES;
use highwater_engines::EngineKind;
use highwater_seam::{ControlOutbox, Options, Outbox, Request, Token, Worker};

const TABLE: TableId = TableId(0);

/// How many attempts of a long request began, and how many of them may end.
static BEGAN: AtomicUsize = AtomicUsize::new(0);
static MAY_END: AtomicUsize = AtomicUsize::new(0);
/// More than are made in one turn.
const ATTEMPTS: usize = 20;

struct Notes;

impl Library for Notes {
    fn tables(&self) -> Vec<TableSpec> {
        vec![TableSpec { name: "notes", keys: KeyKind::U64, index: IndexKind::Hash }]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Note>();
    }
}

/// Writes how long its arguments are under their first byte. With long ones it reads what everybody writes, and takes until it
/// may go on.
struct Note;

impl Procedure for Note {
    const NAME: &'static str = "note";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        tx.put(TABLE, &key(args[0]), &args.len().to_be_bytes())?;
        if args.len() > 1 {
            tx.get(TABLE, &key(SHARED))?;
            let attempt = BEGAN.fetch_add(1, Ordering::SeqCst);
            while MAY_END.load(Ordering::SeqCst) <= attempt {
                thread::yield_now();
            }
        }
        Ok(())
    }
}

/// The key that the short requests write and the long one reads.
const SHARED: u8 = 2;

fn key(of: u8) -> [u8; 8] {
    u64::from(of).to_be_bytes()
}

struct Bench {
    start: Instant,
    worker: Box<dyn Worker>,
    out: Outbox,
    /// How many replies came.
    replies: usize,
}

impl Bench {
    /// Gives turns until `done`, which is told how many replies came in all.
    fn until(&mut self, what: &str, mut done: impl FnMut(usize) -> bool) {
        while !done(self.replies) {
            let now = self.start.elapsed();
            assert!(now < Duration::from_secs(20), "{what} does not come: {}", self.worker.describe());
            self.worker.turn(now.as_nanos() as u64, &mut self.out);
            assert!(self.out.replies.iter().all(|reply| reply.outcome == Outcome::Committed));
            self.replies += self.out.replies.len();
            self.out.clear();
            thread::yield_now();
        }
    }

    /// Submits a request, as soon as it is taken.
    fn submit(&mut self, args: &[u8]) {
        loop {
            let now = self.start.elapsed().as_nanos() as u64;
            let request = Request::new(Token(0), ProcedureId(0), args);
            if self.worker.submit(now, request).is_ok() {
                return;
            }
            let mut turns = 0;
            self.until("room", |_| std::mem::replace(&mut turns, 1) == 1);
        }
    }
}

/// Lets everybody end, also if a test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        MAY_END.store(usize::MAX, Ordering::SeqCst);
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A lone replica with two workers. While worker 0 executes something long, worker 1 commits and answers; also while worker 0
/// tries again and again, because what it read was written meanwhile.
#[test]
fn nobody_waits_for_who_executes_something_long() {
    let mut options = Options::new(NodeId(0), 1, 2, Incarnation(1));
    // What executes for sixteen timeouts counts as stuck.
    (options.heartbeat, options.election_timeout) = (10_000_000, 200_000_000);
    let long = vec![7; options.own.get(&LONG_REQUEST_BYTES) as usize];
    let replica = highwater_engines::build(EngineKind::Rolis, options, &Notes, Arc::new(Clock::counter()));
    let start = Instant::now();
    let (ended, answered) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut controller = replica.controller;
    let mut workers =
        replica.workers.into_iter().map(|worker| Bench { start, worker, out: Outbox::default(), replies: 0 });
    let (mut first, mut second) = (workers.next().unwrap(), workers.next().unwrap());
    thread::scope(|scope| {
        let _end = End(&ended);
        scope.spawn(|| {
            let mut out = ControlOutbox::default();
            while !ended.load(Ordering::SeqCst) {
                controller.turn(start.elapsed().as_nanos() as u64, &mut out);
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            // Right behind others: something is open, and it does not begin before that is decided.
            first.submit(&[1]);
            first.submit(&long);
            first.until("the long one", |replies| replies == 2);
            answered.store(true, Ordering::SeqCst);
            // Each needs turns of the other to have its replies released.
            first.until("the end", |_| ended.load(Ordering::SeqCst));
        });
        for attempt in 1..=ATTEMPTS {
            second.until("something long", |_| BEGAN.load(Ordering::SeqCst) == attempt);
            second.submit(&[SHARED]);
            second.until("a reply beside something long", |replies| replies == attempt);
            MAY_END.store(attempt, Ordering::SeqCst);
        }
        MAY_END.store(usize::MAX, Ordering::SeqCst);
        second.submit(&[7]);
        second.until("a reply after it", |replies| replies == ATTEMPTS + 1);
        second.until("the other's reply", |_| answered.load(Ordering::SeqCst));
    });
}
