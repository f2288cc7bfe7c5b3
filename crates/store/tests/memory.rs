//! The store's memory: how much there is of what, that it serves again, that nothing leaks.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use highwater_core::{Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction, View};
use highwater_store::{Applier, Importer, Memory, Occ, SnapshotTx, Store};

const TABLE: TableId = TableId(0);
const KINDS: [(KeyKind, IndexKind); 4] = [
    (KeyKind::U64, IndexKind::Hash),
    (KeyKind::Bytes, IndexKind::Hash),
    (KeyKind::U64, IndexKind::Ordered),
    (KeyKind::Bytes, IndexKind::Ordered),
];

fn store((keys, index): (KeyKind, IndexKind)) -> Arc<Store> {
    Store::new(Schema::new(vec![TableSpec { name: "table", keys, index }]))
}

fn occ(store: &Arc<Store>) -> Occ {
    Occ::new(store.clone(), Arc::new(Clock::counter()))
}

/// In no order.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn put(occ: &mut Occ, key: &[u8], value: &[u8]) -> Timestamp {
    occ.begin();
    occ.put(TABLE, key, value).unwrap();
    let ts = occ.commit().unwrap();
    occ.log().take(Vec::new());
    ts
}

fn delete(occ: &mut Occ, key: &[u8]) -> Timestamp {
    occ.begin();
    assert!(occ.delete(TABLE, key).unwrap());
    let ts = occ.commit().unwrap();
    occ.log().take(Vec::new());
    ts
}

/// The parts make up the whole.
fn sound(store: &Store) -> Memory {
    let memory = store.memory();
    assert_eq!(memory.used() + memory.free, memory.reserved, "{memory:?}");
    assert!(memory.spare <= memory.free, "{memory:?}");
    memory
}

/// What is taken for a record is never more than was said before, and not much less.
#[test]
fn the_cost_of_a_record_is_known_before() {
    for kind in KINDS {
        for (key_len, value_len, count) in [
            (8, 0, 40_000),
            (8, 1, 40_000),
            (8, 100, 40_000),
            (8, 1000, 9000),
            (8, 4000, 3000),
            (8, 5000, 3000),
            (8, 300_000, 50),
            (60, 30, 30_000),
            (5000, 10, 2000),
        ] {
            if kind.0 == KeyKind::U64 && key_len != 8 {
                continue;
            }
            let store = store(kind);
            let mut occ = occ(&store);
            let before = sound(&store).used();
            let mut name = vec![b'k'; key_len];
            let (mut least, mut most) = (f64::MAX, 0f64);
            for number in 0..count {
                name[key_len - 8..].copy_from_slice(&key(number));
                put(&mut occ, &name, &vec![1; value_len]);
                if number >= 1000 && number % 50 == 0 || number + 1 == count {
                    // What was split is not reclaimed yet.
                    let memory = sound(&store);
                    let grown = memory.used() - memory.retired - before;
                    let part = grown as f64 / ((number + 1) * Store::cost(key_len, value_len)) as f64;
                    (least, most) = (least.min(part), most.max(part));
                }
            }
            let what = format!("{kind:?}, key {key_len}, value {value_len}: {least:.2} to {most:.2} of it");
            assert!(most <= 1.0, "{what}");
            assert!(least > 0.45, "{what}");
            // Overwriting costs no more either, whatever the old value was.
            let before = sound(&store);
            for number in 0..count.min(1000) {
                name[key_len - 8..].copy_from_slice(&key(number));
                put(&mut occ, &name, &vec![2; value_len + value_len / 3 + 50]);
            }
            let grown = sound(&store).used().saturating_sub(before.used() - before.retired);
            let retired = sound(&store).retired;
            let said = count.min(1000) * Store::cost(key_len, value_len + value_len / 3 + 50);
            assert!(grown - retired.min(grown) <= said, "{what}: {grown} more, {said} were said");
        }
    }
}

/// Fill with small values, delete all, fill with larger ones, and so on: the memory is the same each time.
#[test]
fn memory_serves_again_whatever_the_size() {
    const BYTES: usize = 24 << 20;
    for kind in KINDS {
        let store = store(kind);
        let mut occ = occ(&store);
        let mut peak = 0;
        for (round, len) in [100usize, 1000, 40, 10_000, 300].into_iter().enumerate() {
            let count = (BYTES / Store::cost(8, len) as usize) as u64;
            for number in 0..count {
                put(&mut occ, &key(number), &vec![round as u8; len]);
            }
            let full = sound(&store);
            if round == 0 {
                peak = full.reserved;
            }
            // A few chunks stand ready, or are begun, of whatever use; the largest values have no part in them.
            assert!(
                full.reserved <= peak + peak / 8 + (12 << 20),
                "{kind:?}, values of {len}: {full:?}, first {peak}"
            );
            let mut last = Timestamp::ZERO;
            for number in 0..count {
                last = delete(&mut occ, &key(number));
                occ.collect(last);
            }
            // What a host does now and then; the worker itself does nothing more than look.
            for _ in 0..2000 {
                store.provision(u64::MAX);
                occ.collect(last);
            }
            let empty = sound(&store);
            assert_eq!(empty.records, 0, "{kind:?}, values of {len}");
            // A hash table keeps its segments.
            assert!(
                empty.reserved - empty.index <= peak / 2 + (4 << 20),
                "{kind:?}, values of {len} deleted: {empty:?}"
            );
        }
    }
}

/// What a copy takes, beside what its donor has.
/// Once: a copy took six times the memory: a heap for each chunk, whose memory nobody used again.
#[test]
fn a_copy_takes_no_more_memory_than_its_donor() {
    let small = |_: u64| 20usize;
    let mixed = |number: u64| [10, 100, 700, 3000, 9000][number as usize % 5];
    let big = |number: u64| 100_000 + number as usize * 1000;
    type Length<'a> = &'a dyn Fn(u64) -> usize;
    let loads: [(&str, u64, Length<'_>); 3] =
        [("small", 300_000, &small), ("mixed", 20_000, &mixed), ("big", 300, &big)];
    for kind in KINDS {
        for (name, count, len) in &loads {
            let donor = store(kind);
            let mut occ = occ(&donor);
            for number in 0..*count {
                put(&mut occ, &key(number), &vec![1; len(number)]);
            }
            let copy = store(kind);
            let mut exports: Vec<_> = (0..2).map(|part| donor.export(part, 2)).collect();
            let mut importers: Vec<_> = (0..2).map(|_| Importer::new(copy.clone())).collect();
            let mut chunk = Vec::new();
            let mut more = [true, true];
            let mut peak = 0;
            while more.contains(&true) {
                for part in 0..2 {
                    if more[part] {
                        chunk.clear();
                        more[part] = exports[part].next_chunk(64 << 10, &mut chunk);
                        importers[part].import(&chunk).unwrap();
                        peak = peak.max(sound(&copy).reserved);
                    }
                }
            }
            drop(importers);
            assert_eq!(copy.digest(), donor.digest());
            let (theirs, ours) = (sound(&donor).reserved, sound(&copy).reserved);
            println!(
                "{kind:?} {name}: donor {} KiB, copy {} KiB, at most {} KiB",
                theirs >> 10,
                ours >> 10,
                peak >> 10
            );
            // Two chunks may just have been begun.
            let most = theirs + theirs * 15 / 100 + (4 << 20);
            assert!(
                peak <= most,
                "{kind:?} {name}: {peak} for {theirs}; {:?} {:?}",
                copy.memory(),
                donor.memory()
            );
        }
    }
}

/// 256 workers, each with all that it has at a store, and visitors besides.
/// Once: 64 workers had more participants than there were guard slots: the first read panicked.
#[test]
fn a_store_has_room_for_all_workers() {
    let store = store(KINDS[0]);
    let snapshot = store.pin_snapshot(Timestamp::ZERO);
    let mut all: Vec<_> = (0..256)
        .map(|_| {
            (
                occ(&store),
                Applier::new(store.clone()),
                SnapshotTx::new(snapshot.clone()),
                Importer::new(store.clone()),
            )
        })
        .collect();
    for (number, (occ, ..)) in all.iter_mut().enumerate() {
        put(occ, &key(number as u64), b"value");
    }
    let export = store.export(0, 1).next_chunk(1 << 20, &mut Vec::new());
    assert!(!export);
    for (number, (occ, _, reader, _)) in all.iter_mut().enumerate() {
        assert_eq!(store.get(TABLE, &key(number as u64)).as_deref(), Some(&b"value"[..]));
        assert_eq!(reader.get(TABLE, &key(number as u64)).unwrap(), None, "the snapshot is older");
        let ts = delete(occ, &key(number as u64));
        occ.collect(ts);
    }
    drop(snapshot);
    drop(all);
    sound(&store);
}

/// A tombstone whose record somebody has locked at that moment is looked at again: the other may give up.
#[test]
fn a_tombstone_under_a_lock_is_not_forgotten() {
    for kind in KINDS {
        let store = store(kind);
        let clock = Arc::new(Clock::counter());
        let (mut one, mut other) = (Occ::new(store.clone(), clock.clone()), Occ::new(store.clone(), clock));
        put(&mut one, &key(1), b"value");
        let ts = delete(&mut one, &key(1));
        other.begin();
        other.put(TABLE, &key(1), b"another").unwrap();
        other.lock().unwrap();
        one.collect(ts);
        assert!(store.memory().records > 0);
        other.abort();
        one.collect(ts);
        other.collect(ts);
        assert_eq!(store.memory().records, 0, "{kind:?}: the tombstone leaked");
        // And if the other goes through with it, its value stays.
        put(&mut one, &key(1), b"value");
        let ts = delete(&mut one, &key(1));
        other.begin();
        other.put(TABLE, &key(1), b"another").unwrap();
        other.lock().unwrap();
        one.collect(ts);
        other.timestamp().unwrap();
        other.validate().unwrap();
        other.install();
        one.collect(Timestamp::MAX);
        assert_eq!(store.get(TABLE, &key(1)).as_deref(), Some(&b"another"[..]));
    }
}

/// Versions and before-images count, and stop counting.
#[test]
fn versions_and_before_images_are_in_the_account() {
    let store = store(KINDS[0]);
    let mut occ = occ(&store);
    occ.keep_undo(true);
    let mut last = put(&mut occ, &key(0), &[1; 1000]);
    for _ in 0..100 {
        last = put(&mut occ, &key(0), &[2; 1000]);
    }
    let memory = sound(&store);
    assert!((99_000..400_000).contains(&memory.before_images), "{memory:?}");
    occ.forget_undo(last);
    for round in 0..20 {
        occ.begin();
        (0..200u64).for_each(|at| occ.put(TABLE, &key(at), &[round; 10_000]).unwrap());
        last = occ.commit().unwrap();
        occ.log().take(Vec::new());
    }
    assert!(sound(&store).before_images > 19 * 200 * 10_000);
    occ.forget_undo(last);
    assert!(sound(&store).before_images < 2 << 20, "{:?}", store.memory());
    drop(occ);
    assert_eq!(sound(&store).before_images, 0);

    let snapshot = store.pin_snapshot(last);
    let mut leader = Occ::new(self::store(KINDS[0]), Arc::new(Clock::counter()));
    leader.set_floor(last);
    for round in 0..3 {
        leader.begin();
        (0..200u64).for_each(|at| leader.put(TABLE, &key(at), &[round; 500]).unwrap());
        leader.commit().unwrap();
    }
    let log = leader.log().take(Vec::new());
    Applier::new(store.clone()).apply(&log, Timestamp::ZERO, Timestamp::MAX).unwrap();
    let versions = sound(&store).versions;
    assert!((200 * 10_000..200 * 12_000).contains(&versions), "{versions}");
    drop(snapshot);
    assert_eq!(sound(&store).versions, 0);
}
