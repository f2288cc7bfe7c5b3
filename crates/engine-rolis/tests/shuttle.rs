//! A whole replica, and a follower's snapshots, under random schedules: real stores, real workers, a real controller.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p highwater-engine-rolis --release --test shuttle`; with `--features planted` and a
//! bug's name in `PLANTED` they must fail.
#![cfg(shuttle)]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_consensus::{Members, Voter};
use highwater_core::log::{Key, TxWriter};
use highwater_core::{
    Abort, Clock, EntryIndex, Epoch, Incarnation, IndexKind, KeyKind, Library, NodeId, Outcome, Procedure,
    ProcedureId, Registry, Schema, StreamId, TableId, TableSpec, Timestamp, Transaction,
};
use highwater_engine_rolis::Rolis;
use highwater_engine_rolis::marks::Marks;
use highwater_engine_rolis::snapshots::Offer;
use highwater_kit::code::Builds;
#[cfg(feature = "planted")]
use highwater_seam::Engine;
use highwater_seam::{ControlOutbox, Options, Outbox, Request, Token, Worker};
use highwater_store::{Applier, SnapshotTx, Store};
use shuttle::thread;

const TABLE: TableId = TableId(0);

struct Counters;

impl Library for Counters {
    fn tables(&self) -> Vec<TableSpec> {
        vec![TableSpec { name: "counters", keys: KeyKind::U64, index: IndexKind::Hash }]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Count>();
    }
}

/// Reads two counters and adds 1 to the one that the argument names; replies with what it read.
struct Count;

impl Procedure for Count {
    const NAME: &'static str = "count";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        for at in 0..2u64 {
            let value = tx.get(TABLE, &at.to_be_bytes())?.map_or(0, |value| value[0]);
            reply.push(value);
            if args == [at as u8] {
                tx.put(TABLE, &at.to_be_bytes(), &[value + 1])?;
            }
        }
        Ok(())
    }
}

/// Plants the bug that is asked for: on this thread, on which shuttle runs all of its own.
fn plant() {
    #[cfg(feature = "planted")]
    highwater_core::planted::plant(std::env::var("PLANTED").ok().map(|name| {
        let mut bugs = <Rolis as Engine>::BUGS.iter().copied().flatten().copied();
        bugs.find(|bug| bug.name == name).expect("PLANTED is a bug's name")
    }));
}

/// Each worker asks for so many transactions.
const EACH: u64 = 2;

/// A worker that asks itself, one after another, while the others go on. What each reply told, and how many replies were
/// out when it was asked for.
fn work(
    mut worker: Box<dyn Worker>,
    at: u64,
    now: Arc<AtomicU64>,
    released: Arc<AtomicU64>,
) -> Vec<(u64, [u8; 2])> {
    let (mut out, mut told, mut asked, mut open) = (Outbox::default(), Vec::new(), 0, None);
    while released.load(Ordering::Relaxed) < 2 * EACH {
        let time = now.fetch_add(100_000, Ordering::Relaxed);
        if open.is_none() && asked < EACH {
            let before = released.load(Ordering::Relaxed);
            // Both workers add to both counters.
            let args = [((at + asked) % 2) as u8];
            let request = Request::new(Token(asked), ProcedureId(0), &args);
            if worker.submit(time, request).is_ok() {
                (asked, open) = (asked + 1, Some(before));
            }
        }
        worker.turn(time, &mut out);
        for reply in &out.replies {
            assert_eq!(reply.outcome, Outcome::Committed);
            let saw: [u8; 2] = out.content(reply).try_into().unwrap();
            told.push((open.take().expect("one is open"), saw));
            released.fetch_add(1, Ordering::Relaxed);
        }
        assert!(out.frames.is_empty(), "there is nobody else");
        out.clear();
        thread::yield_now();
    }
    told
}

/// A cluster of one: birth, an election, an epoch, transactions on two workers, with the controller between them.
#[test]
fn a_replica_with_two_workers_is_strictly_serializable() {
    plant();
    let test = || {
        let mut options = Options::new(NodeId(0), 1, 2, Incarnation(1));
        (options.heartbeat, options.election_timeout) = (1_000_000, 3_000_000);
        let replica = Rolis::build(options, &Counters, Arc::new(Clock::counter()));
        let (now, released): (Arc<AtomicU64>, Arc<AtomicU64>) = Default::default();
        let mut controller = replica.controller;
        let workers: Vec<_> = replica
            .workers
            .into_iter()
            .zip(0..)
            .map(|(worker, at)| {
                let (now, released) = (now.clone(), released.clone());
                thread::spawn(move || work(worker, at, now, released))
            })
            .collect();
        let mut out = ControlOutbox::default();
        while released.load(Ordering::Relaxed) < 2 * EACH {
            controller.turn(now.fetch_add(100_000, Ordering::Relaxed), &mut out);
            thread::yield_now();
        }
        let told: Vec<(u64, [u8; 2])> =
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        // Each transaction adds 1 somewhere: in their serial order they saw 0, 1, 2, .. in all.
        let mut sums: Vec<u64> = told.iter().map(|(_, saw)| u64::from(saw[0]) + u64::from(saw[1])).collect();
        for ((before, _), sum) in told.iter().zip(&sums) {
            assert!(sum >= before, "{before} were released when it was asked for; it saw {sum}");
        }
        sums.sort_unstable();
        assert_eq!(sums, (0..2 * EACH).collect::<Vec<_>>(), "{told:?}");
    };
    shuttle::check_random(test, 150);
    shuttle::check_pct(test, 50, 3);
}

/// What the two streams hold: timestamp, key and index in their log.
const LOGS: [&[(u64, u64)]; 2] = [&[(10, 0), (30, 1), (50, 0)], &[(20, 0), (40, 1), (60, 0)]];

fn body(ts: u64, key: u64) -> Vec<u8> {
    let mut tx = TxWriter::new(Vec::new());
    tx.begin();
    tx.put(TABLE, Key::U64(key), &[ts as u8]);
    tx.commit(Timestamp(ts));
    tx.take(Vec::new())
}

/// What a key holds once everything up to `ts` is installed.
fn expected(key: u64, ts: u64) -> Option<u8> {
    let writes = LOGS.iter().copied().flatten().filter(|(at, of)| *of == key && *at <= ts);
    writes.map(|(at, _)| *at as u8).max()
}

/// Follows one stream as `Replay::look` and `Replay::apply` do.
fn follow(marks: &Marks, store: &Arc<Store>, stream: usize) {
    let mut applier = Applier::new(store.clone());
    let (id, watermark) = (StreamId(stream as u16), &marks.watermark);
    for (&(ts, key), index) in LOGS[stream].iter().zip(2..) {
        watermark.publish(id, EntryIndex(index), Timestamp(ts), true);
        let body = body(ts, key);
        loop {
            // The last entries stay above the mark: in the end the other stream is closed no further.
            let mark = watermark.mark_in(Epoch(1)).unwrap();
            let bound = marks.rounds.admit(mark);
            if applier.apply(&body, Timestamp::ZERO, bound).unwrap().transactions > 0 {
                break watermark.publish_applied(id, Timestamp(ts), true);
            }
            watermark.publish_applied(id, bound, false);
            if mark.0 >= 50 && ts > mark.0 {
                return;
            }
            thread::yield_now();
        }
    }
}

/// Two appliers and a reader of snapshots: each shows exactly what there was at its timestamp, and none is older than the
/// one before.
#[test]
fn a_snapshot_shows_the_state_at_its_timestamp() {
    plant();
    let test = || {
        let mut options = Options::new(NodeId(0), 3, 2, Incarnation(1));
        options.own.set("snapshot_age_us", 0);
        let account = highwater_seam::memory::Account::new(&options, 2);
        let (shared, marks) =
            highwater_engine_rolis::parts(options, Arc::new(Clock::counter()), account, Box::new(Vec::new));
        let store = Store::new(Schema::new(Counters.tables()));
        let members = Members::new(Epoch(1), vec![Voter { node: NodeId(0), incarnation: Incarnation(1) }]);
        marks.watermark.restart(Epoch(1), members, Timestamp(1), &[EntryIndex(2); 2]);
        let appliers: Vec<_> = (0..2)
            .map(|stream| {
                let (marks, store) = (marks.clone(), store.clone());
                thread::spawn(move || follow(&marks, &store, stream))
            })
            .collect();
        let mut last = Timestamp::ZERO;
        for time in 1..12 {
            if let Offer::Read(snapshot, life) =
                marks.snapshot(&shared, (time, time), Timestamp::ZERO, &store)
            {
                let ts = snapshot.ts();
                assert!(ts >= last, "snapshots never go back");
                last = ts;
                let mut tx = SnapshotTx::new(snapshot);
                for key in [0, 1] {
                    let saw = tx.get(TABLE, &u64::to_be_bytes(key)).unwrap().map(|value| value[0]);
                    assert_eq!(saw, expected(key, ts.0), "key {key} at {ts}");
                }
                assert!(marks.rounds.lives(life), "nobody but appliers wrote");
            }
            thread::yield_now();
        }
        appliers.into_iter().for_each(|applier| applier.join().unwrap());
    };
    shuttle::check_random(test, 1500);
    shuttle::check_pct(test, 500, 3);
}
