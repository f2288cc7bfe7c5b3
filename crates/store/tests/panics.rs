//! Procedures that panic: on what never was it is a conflict, on what was it is their outcome; and the transaction behind
//! them is fit for the next.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use std::ops::Bound::Unbounded;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use highwater_core::{
    Abort, Clock, Direction, IndexKind, KeyKind, Procedure, ProcedureId, Registry, Schema, TableId,
    TableSpec, Timestamp, Transaction,
};
use highwater_store::{Applier, Occ, SnapshotTx, Store};

const HASH: TableId = TableId(0);
const TREE: TableId = TableId(1);
/// The same number under each, if no writer is in the middle.
const PAIR: [[u8; 8]; 2] = [[1; 8], [2; 8]];

fn store() -> Arc<Store> {
    let table = |name, index| TableSpec { name, keys: KeyKind::U64, index };
    Store::new(Schema::new(vec![table("hash", IndexKind::Hash), table("tree", IndexKind::Ordered)]))
}

fn number<T: Transaction>(tx: &mut T, key: &[u8]) -> Result<u64, Abort> {
    Ok(tx.get(HASH, key)?.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap())))
}

/// How often a procedure saw what never was.
static NONSENSE: AtomicU64 = AtomicU64::new(0);

/// Writes, and then expects the pair to be one.
struct Expect;

impl Procedure for Expect {
    const NAME: &'static str = "test.expect";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        tx.put(HASH, args, b"half done")?;
        let first = number(tx, &PAIR[0])?;
        // The other core may be anywhere by then.
        std::thread::yield_now();
        let second = number(tx, &PAIR[1])?;
        if first != second {
            NONSENSE.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(first, second, "the pair is one");
        Ok(())
    }
}

/// Panics in the middle of a scan, having written.
struct Trip;

impl Procedure for Trip {
    const NAME: &'static str = "test.trip";

    fn run<T: Transaction>(tx: &mut T, _: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        reply.extend_from_slice(b"so far");
        match tx.put(TREE, &[9; 8], b"never") {
            // A snapshot cannot be written to.
            Ok(()) | Err(Abort::BadRequest) => {}
            Err(abort) => return Err(abort),
        }
        tx.scan(TREE, (Unbounded, Unbounded), Direction::Forward, |key, _| -> ControlFlow<()> {
            panic!("row {} is in the way", key[0])
        })
    }
}

fn registry<T: Transaction>() -> (Registry<T>, ProcedureId, ProcedureId) {
    let mut registry = Registry::new();
    let (expect, trip) = (registry.register::<Expect>(), registry.register::<Trip>());
    (registry, expect, trip)
}

#[test]
fn a_panic_on_what_never_was_is_a_conflict() {
    let store = store();
    let clock = Arc::new(Clock::system());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut occ = Occ::new(store.clone(), clock.clone());
            let mut count = 0u64;
            while !stop.load(Ordering::Relaxed) {
                occ.begin();
                // Alone in writing these; it may still meet a reader's suspicion.
                let put = PAIR.iter().try_for_each(|key| occ.put(HASH, key, &count.to_le_bytes()));
                match put.map(|()| occ.commit()) {
                    Ok(_) => count += 1,
                    Err(_) => occ.abort(),
                }
            }
        });
        let (registry, expect, _) = registry::<Occ>();
        let mut occ = Occ::new(store.clone(), clock.clone());
        let mut reply = Vec::new();
        let (mut committed, mut conflicts) = (0u64, 0u64);
        while NONSENSE.load(Ordering::Relaxed) < 50 || committed < 50 {
            reply.clear();
            occ.begin();
            match registry.run(expect, &mut occ, &(committed % 7).to_be_bytes(), &mut reply) {
                Ok(()) => match occ.commit() {
                    Ok(_) => committed += 1,
                    Err(_) => conflicts += 1,
                },
                Err(Abort::BadRequest) => {
                    let text = String::from_utf8_lossy(&reply).into_owned();
                    assert!(
                        text.contains("test.expect panicked") && text.contains("the pair is one"),
                        "{text}"
                    );
                    assert!(occ.commit_rollback().is_err(), "the pair never was two numbers, at no moment");
                    conflicts += 1;
                }
                Err(_) => {
                    occ.abort();
                    conflicts += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(conflicts >= 50, "{conflicts}");
    });
}

#[test]
fn a_panic_on_what_was_is_the_outcome_and_undoes_everything() {
    let store = store();
    let mut occ = Occ::new(store.clone(), Arc::new(Clock::system()));
    let (registry, _, trip) = registry::<Occ>();
    occ.begin();
    occ.put(TREE, &[3; 8], b"row").unwrap();
    occ.commit().unwrap();
    occ.log().take(Vec::new());
    let mut reply = Vec::new();
    for _ in 0..1000 {
        reply.clear();
        occ.begin();
        assert_eq!(registry.run(trip, &mut occ, &[], &mut reply), Err(Abort::BadRequest));
        assert_eq!(reply, b"test.trip panicked: row 3 is in the way");
        let ts = occ.commit_rollback().expect("what it saw was there");
        assert!(occ.log().is_empty() && !occ.wrote());
        occ.collect(ts);
    }
    // Its guard is let go: what is retired meanwhile is used again.
    occ.begin();
    assert_eq!(occ.get(TREE, &[9; 8]), Ok(None));
    occ.put(TREE, &[9; 8], b"now").unwrap();
    occ.commit().unwrap();
    let filled = |occ: &mut Occ, len: usize| {
        occ.begin();
        occ.put(TREE, &[3; 8], &vec![7; len]).unwrap();
        occ.commit().unwrap();
        occ.log().take(Vec::new());
    };
    (0..400).for_each(|round| filled(&mut occ, 40_000 + 10_000 * (round % 2) * round));
    let memory = store.memory();
    assert!(memory.retired < 64 << 20, "{memory:?}");
}

#[test]
fn a_panic_on_a_snapshot_is_the_outcome_and_holds_no_memory_up() {
    let leader = store();
    let mut occ = Occ::new(leader, Arc::new(Clock::counter()));
    occ.begin();
    occ.put(TREE, &[3; 8], b"row").unwrap();
    let ts = occ.commit().unwrap();
    let follower = store();
    Applier::new(follower.clone()).apply(occ.log().bytes(), Timestamp::ZERO, Timestamp::MAX).unwrap();
    let (registry, _, trip) = registry::<SnapshotTx>();
    let mut tx = SnapshotTx::new(follower.pin_snapshot(ts));
    let mut reply = Vec::new();
    assert_eq!(registry.run(trip, &mut tx, &[], &mut reply), Err(Abort::BadRequest));
    assert_eq!(reply, b"test.trip panicked: row 3 is in the way");
    // Had the guard stayed pinned, nothing that was retired since could be used again.
    let mut writer = Occ::new(follower.clone(), Arc::new(Clock::system()));
    for round in 0..200 {
        writer.begin();
        writer.put(TREE, &[4; 8], &vec![7; 1 << (10 + round % 10)]).unwrap();
        writer.delete(TREE, &[4; 8]).unwrap();
        let ts = writer.commit().unwrap();
        writer.log().take(Vec::new());
        writer.collect(ts);
    }
    tx.rest();
    assert_eq!(follower.versions_kept(), 0);
    let memory = follower.memory();
    assert!(memory.retired < 32 << 20, "{memory:?}");
    tx.move_to(follower.pin_snapshot(ts));
    assert_eq!(tx.get(TREE, &[3; 8]), Ok(Some(&b"row"[..])));
}
