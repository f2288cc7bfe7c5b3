//! What a transaction costs as it grows.

use std::ops::Bound::Unbounded;
use std::ops::ControlFlow;

use highwater_core::{Direction, IndexKind, KeyKind, Schema, TableSpec, Transaction, View};

use super::*;
use highwater_core::TableId;

const TABLE: TableId = TableId(0);
const KINDS: [(KeyKind, IndexKind); 4] = [
    (KeyKind::U64, IndexKind::Hash),
    (KeyKind::Bytes, IndexKind::Hash),
    (KeyKind::U64, IndexKind::Ordered),
    (KeyKind::Bytes, IndexKind::Ordered),
];

fn occ((keys, index): (KeyKind, IndexKind)) -> Occ {
    let store = Store::new(Schema::new(vec![TableSpec { name: "table", keys, index }]));
    Occ::new(store, Arc::new(Clock::counter()))
}

/// Every key once, in no order that an index would like.
fn keys(n: u64) -> impl Iterator<Item = [u8; 8]> {
    (0..n).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
}

/// What `INCR` does: reads, and writes one more.
fn increment(occ: &mut Occ, key: &[u8]) {
    let old = occ.get(TABLE, key).unwrap().map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()));
    occ.put(TABLE, key, &(old + 1).to_le_bytes()).unwrap();
}

/// Looks at slots and nodes, which is where a transaction finds what it touched.
fn work(occ: &Occ) -> u64 {
    occ.sets.work()
}

/// Once: `EXEC` of 100,000 `INCR`s of new keys took 20 to 42 s, in which all clients of all workers waited: every insert
/// looked through all index nodes that the transaction relied on, 64 times under the table's mutex when it split a
/// segment.
#[test]
fn a_large_transaction_does_work_in_proportion_to_its_size() {
    // `EXEC` of 100,000 `INCR`s of new keys once took 20 seconds and more.
    for kind in KINDS {
        for n in [100, 1000, 30_000] {
            let mut occ = occ(kind);
            for round in 1..=2 {
                let before = work(&occ);
                occ.begin();
                keys(n).for_each(|key| increment(&mut occ, &key));
                occ.commit().expect("nobody is in the way");
                let each = (work(&occ) - before) / n;
                assert!(each <= 24, "{kind:?}, {n} keys, round {round}: {each} looks a key");
            }
        }
    }
}

#[test]
fn a_large_scan_that_finds_its_own_writes_again_does_work_in_proportion_too() {
    for kind in [(KeyKind::U64, IndexKind::Ordered), (KeyKind::Bytes, IndexKind::Ordered)] {
        let mut occ = occ(kind);
        let n = 10_000;
        occ.begin();
        keys(n).for_each(|key| increment(&mut occ, &key));
        occ.commit().expect("nobody is in the way");
        let before = work(&occ);
        occ.begin();
        // Scanned before they are written: validation finds each locked, by itself.
        let mut seen = 0;
        let count = |_: &[u8], _: &[u8]| {
            seen += 1;
            ControlFlow::Continue(())
        };
        occ.scan(TABLE, (Unbounded, Unbounded), Direction::Forward, count).unwrap();
        assert_eq!(seen, n);
        keys(n).for_each(|key| increment(&mut occ, &key));
        occ.commit().expect("nobody is in the way");
        let each = (work(&occ) - before) / n;
        assert!(each <= 24, "{kind:?}: {each} looks a key");
    }
}

#[test]
fn asking_for_one_absent_key_again_and_again_is_remembered_once() {
    for kind in KINDS {
        let mut occ = occ(kind);
        let n = 10_000;
        let before = work(&occ);
        occ.begin();
        for other in keys(n) {
            assert_eq!(occ.get(TABLE, &[0xff; 8]).unwrap(), None);
            occ.put(TABLE, &other, b"").unwrap();
        }
        occ.commit().expect("nobody is in the way");
        let each = (work(&occ) - before) / n;
        assert!(each <= 24, "{kind:?}: {each} looks a key");
    }
}

#[test]
fn what_was_taken_back_leaves_nothing_and_what_was_read_still_counts() {
    for kind in KINDS {
        let mut occ = occ(kind);
        let mut other = Occ::new(occ.store().clone(), Arc::new(Clock::counter()));
        let [read, fresh, gone, end] = [1u64, 2, 3, 4].map(u64::to_be_bytes);
        occ.begin();
        [read, gone].iter().for_each(|key| occ.put(TABLE, key, b"old").unwrap());
        occ.commit().unwrap();
        for interferes in [false, true] {
            let before = occ.log_len();
            occ.begin();
            occ.get(TABLE, &read).unwrap();
            occ.put(TABLE, &read, b"new").unwrap();
            assert!(occ.insert(TABLE, &fresh, b"new").unwrap());
            assert!(occ.delete(TABLE, &gone).unwrap());
            occ.drop_writes();
            assert!(!occ.wrote());
            assert_eq!(occ.get(TABLE, &read).unwrap(), Some(&b"old"[..]), "{kind:?}");
            occ.put(TABLE, &end, b"end").unwrap();
            if interferes {
                other.begin();
                other.put(TABLE, &read, b"other").unwrap();
                other.commit().unwrap();
                assert_eq!(
                    occ.commit(),
                    Err(highwater_core::Abort::Conflict),
                    "{kind:?}: what it read was overwritten"
                );
                continue;
            }
            occ.commit().unwrap();
            // The header, one write and its value.
            assert!(occ.log_len() - before < 64, "{kind:?}: what was taken back is not in the log");
            occ.begin();
            assert_eq!(occ.get(TABLE, &fresh).unwrap(), None, "{kind:?}");
            assert_eq!(occ.get(TABLE, &gone).unwrap(), Some(&b"old"[..]), "{kind:?}");
            assert_eq!(occ.get(TABLE, &end).unwrap(), Some(&b"end"[..]), "{kind:?}");
            occ.commit().unwrap();
        }
    }
}

/// Of a cluster in which not everybody knows the second table, say.
#[test]
fn only_so_many_tables_are_written() {
    let specs =
        ["first", "second"].map(|name| TableSpec { name, keys: KeyKind::U64, index: IndexKind::Hash });
    let mut occ = Occ::new(Store::new(Schema::new(specs.to_vec())), Arc::new(Clock::counter()));
    let key = 1u64.to_be_bytes();
    let put = |occ: &mut Occ, table| {
        occ.begin();
        let put = occ.put(TableId(table), &key, b"x");
        occ.commit().map(drop).and(put)
    };
    occ.set_tables(1);
    assert_eq!(
        [0, 1, 2].map(|table| put(&mut occ, table)),
        [Ok(()), Err(Abort::TooNew), Err(Abort::BadRequest)]
    );
    occ.refuse_writes(true);
    assert_eq!([0, 1].map(|table| put(&mut occ, table)), [Err(Abort::DiskFull), Err(Abort::TooNew)]);
    occ.set_tables(2);
    assert_eq!([0, 1].map(|table| put(&mut occ, table)), [Err(Abort::DiskFull); 2], "that is not over");
    occ.refuse_writes(false);
    assert_eq!([0, 1].map(|table| put(&mut occ, table)), [Ok(()); 2]);
    occ.begin();
    assert_eq!(occ.get(TableId(1), &key).unwrap(), Some(&b"x"[..]));
    occ.commit().unwrap();
}

#[test]
fn what_was_announced_is_looked_up_once_and_no_key_is_accessed_twice() {
    for kind in [(KeyKind::U64, IndexKind::Hash), (KeyKind::U64, IndexKind::Ordered)] {
        let mut occ = occ(kind);
        let keys: Vec<_> = (0..150u64).collect();
        let wanted: Vec<_> = keys.iter().map(|&key| (TABLE, key)).collect();
        occ.begin();
        keys.iter().for_each(|key| occ.put(TABLE, &key.to_be_bytes(), b"old").unwrap());
        occ.commit().unwrap();
        // Dropped: nothing would keep what it found.
        occ.prefetch(&wanted);
        occ.begin();
        assert_eq!(occ.sets.accesses.len(), 0, "{kind:?}");
        occ.get(TABLE, &keys[3].to_be_bytes()).unwrap();
        occ.prefetch(&wanted);
        occ.prefetch(&wanted);
        for key in &keys {
            match key % 3 {
                0 => assert_eq!(occ.get(TABLE, &key.to_be_bytes()).unwrap(), Some(&b"old"[..]), "{kind:?}"),
                1 => occ.put(TABLE, &key.to_be_bytes(), b"new").unwrap(),
                _ => assert!(!occ.insert(TABLE, &key.to_be_bytes(), b"new").unwrap(), "{kind:?}"),
            }
        }
        assert_eq!(occ.sets.accesses.len(), keys.len(), "{kind:?}");
        occ.commit().unwrap();
    }
}

#[test]
fn what_was_announced_and_left_its_index_since_is_a_conflict() {
    for kind in [(KeyKind::U64, IndexKind::Hash), (KeyKind::U64, IndexKind::Ordered)] {
        for write in [false, true] {
            let mut occ = occ(kind);
            let mut other = Occ::new(occ.store().clone(), Arc::new(Clock::counter()));
            let key = 7u64.to_be_bytes();
            other.begin();
            other.put(TABLE, &key, b"old").unwrap();
            other.commit().unwrap();
            other.begin();
            assert!(other.delete(TABLE, &key).unwrap());
            let gone = other.commit().unwrap();
            occ.begin();
            occ.prefetch(&[(TABLE, 7)]);
            other.collect(gone);
            let ended = match write {
                false => occ.get(TABLE, &key).map(|_| ()),
                true => occ.put(TABLE, &key, b"new").and_then(|()| occ.commit().map(drop)),
            };
            assert_eq!(ended, Err(highwater_core::Abort::Conflict), "{kind:?}: the record is dead");
            occ.abort();
            occ.begin();
            occ.prefetch(&[(TABLE, 7)]);
            assert_eq!(occ.get(TABLE, &key).unwrap(), None, "{kind:?}");
            occ.put(TABLE, &key, b"new").unwrap();
            occ.commit().unwrap();
            assert_eq!(occ.store().get(TABLE, &key), Some(b"new".to_vec()), "{kind:?}");
        }
    }
}

/// What a read may look at.
type Look = fn(&mut Occ, &[u8; 8]);

const LOOKS: [(&str, Look); 4] = [
    ("get", |occ, key| assert!(occ.get(TABLE, key).is_ok())),
    ("version", |occ, key| assert!(occ.version(TABLE, key).is_ok())),
    ("again", |occ, key| (0..2).for_each(|_| assert!(occ.get(TABLE, key).is_ok()))),
    ("announced", |occ, key| {
        occ.prefetch(&[(TABLE, u64::from_be_bytes(*key))]);
        assert!(occ.get(TABLE, key).is_ok());
    }),
];

#[test]
fn what_a_read_saw_is_at_or_below_the_mark_or_it_is_no_read_at_the_mark() {
    for kind in KINDS {
        let (keys, index) = kind;
        let store = Store::new(Schema::new(vec![TableSpec { name: "table", keys, index }]));
        let clock = Arc::new(Clock::counter());
        let (mut writer, mut reader) =
            (Occ::new(store.clone(), clock.clone()), Occ::new(store, clock.clone()));
        let [live, gone, absent] = [1u64, 2, 3].map(u64::to_be_bytes);
        let mut write = |run: &dyn Fn(&mut Occ)| {
            writer.begin();
            run(&mut writer);
            writer.commit().unwrap()
        };
        write(&|occ| [live, gone].iter().for_each(|key| occ.put(TABLE, key, b"old").unwrap()));
        let written = write(&|occ| occ.put(TABLE, &live, b"new").unwrap());
        let deleted = write(&|occ| assert!(occ.delete(TABLE, &gone).unwrap()));
        let below = |ts: Timestamp| Timestamp(ts.0 - 1);
        for (name, look) in LOOKS {
            if name == "announced" && keys == KeyKind::Bytes {
                continue;
            }
            for (key, newest) in [(live, Some(written)), (gone, Some(deleted)), (absent, None)] {
                reader.begin();
                look(&mut reader, &key);
                if let Some(newest) = newest {
                    assert!(
                        !reader.commit_at(below(newest)).unwrap(),
                        "{kind:?} {name} {key:?}: it saw more"
                    );
                }
                assert!(reader.commit_at(newest.unwrap_or_default()).unwrap(), "{kind:?} {name} {key:?}");
                assert_eq!(reader.phase(), Phase::Idle);
            }
        }
        if index == IndexKind::Ordered {
            // The tombstone is not shown, and was seen.
            reader.begin();
            let mut shown = 0;
            let range = (Unbounded, Unbounded);
            reader
                .scan(TABLE, range, Direction::Forward, |_, _| {
                    shown += 1;
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert!(shown == 1 && !reader.commit_at(below(deleted)).unwrap());
            assert!(reader.commit_at(deleted).unwrap());
        }
    }
}

#[test]
fn what_writes_or_was_overtaken_is_no_read_at_the_mark() {
    for kind in KINDS {
        let store = Store::new(Schema::new(vec![TableSpec { name: "table", keys: kind.0, index: kind.1 }]));
        let clock = Arc::new(Clock::counter());
        let (mut one, mut other) = (Occ::new(store.clone(), clock.clone()), Occ::new(store, clock));
        let [key, fresh] = [1u64, 2].map(u64::to_be_bytes);
        one.begin();
        one.put(TABLE, &key, b"value").unwrap();
        let first = one.commit().unwrap();
        one.begin();
        one.put(TABLE, &key, b"other").unwrap();
        assert!(!one.commit_at(Timestamp::MAX).unwrap(), "it writes");
        // What it wrote is taken back; what it read stays.
        one.drop_writes();
        one.get(TABLE, &fresh).unwrap();
        assert!(one.commit_at(first).unwrap());
        for (seen, overtaken) in [(key, key), (fresh, fresh)] {
            one.begin();
            one.get(TABLE, &seen).unwrap();
            other.begin();
            other.put(TABLE, &overtaken, b"later").unwrap();
            other.commit().unwrap();
            assert_eq!(one.commit_at(Timestamp::MAX), Err(Abort::Conflict), "{kind:?} {seen:?}");
            assert_eq!(one.phase(), Phase::Idle);
        }
        one.begin();
        one.get(TABLE, &key).unwrap();
        assert!(one.commit().unwrap() > first, "the floor is what it was");
    }
}

#[test]
fn what_was_overwritten_comes_back_whatever_its_key_and_size() {
    // Inside the record from 0 bytes on, to the word and beside it, and in a buffer of its own.
    const SIZES: [usize; 12] = [0, 1, 7, 8, 9, 24, 31, 100, 1000, 5000, 70_000, 1 << 20];
    for kind in KINDS {
        let mut occ = occ(kind);
        let key = |at: usize| match kind.0 {
            KeyKind::U64 => (at as u64 + 1).to_be_bytes().to_vec(),
            KeyKind::Bytes => vec![at as u8 + 1; at * 3],
        };
        // Key `at` has a value of one size and gets one of another; one more is deleted, and one was not there.
        let before = |at: usize| (at != 3).then(|| vec![at as u8; SIZES[at]]);
        let after = |at: usize| (at != 5).then(|| vec![!(at as u8); SIZES[(at + 7) % SIZES.len()]]);
        let commit = |occ: &mut Occ, rows: &dyn Fn(usize) -> Option<Vec<u8>>| {
            occ.begin();
            for at in 0..SIZES.len() {
                match rows(at) {
                    Some(value) => occ.put(TABLE, &key(at), &value).unwrap(),
                    None => drop(occ.delete(TABLE, &key(at)).unwrap()),
                }
            }
            occ.commit().expect("nobody is in the way")
        };
        let preserved = commit(&mut occ, &before);
        occ.keep_undo(true);
        for _ in 0..2 {
            commit(&mut occ, &after);
            commit(&mut occ, &|at| Some(vec![7; at]));
        }
        assert_eq!(occ.roll_back(preserved), SIZES.len() as u64);
        occ.begin();
        for at in 0..SIZES.len() {
            assert!(occ.get(TABLE, &key(at)).unwrap() == before(at).as_deref(), "{kind:?}, key {at}");
        }
        occ.commit().expect("nobody is in the way");
    }
}

#[test]
fn whoever_finds_a_lock_taken_keeps_none() {
    for kind in KINDS {
        let mut one = occ(kind);
        let mut other = Occ::new(one.store().clone(), one.clock.clone());
        let keys: Vec<_> = keys(40).collect();
        let put = |occ: &mut Occ, keys: &mut dyn Iterator<Item = &[u8; 8]>| {
            occ.begin();
            keys.for_each(|key| occ.put(TABLE, key, b"value").unwrap());
        };
        put(&mut one, &mut keys.iter());
        one.commit().expect("nobody is in the way");
        // Whichever is held, the first, the last or one between them, in whatever order the other takes them.
        for held in [0, 20, 39] {
            put(&mut one, &mut keys[held..=held].iter());
            one.lock().expect("nobody is in the way");
            put(&mut other, &mut keys.iter());
            assert_eq!(other.commit(), Err(Abort::Conflict));
            put(&mut other, &mut keys.iter().rev());
            assert_eq!(other.commit(), Err(Abort::Conflict));
            one.commit().expect("it has its lock");
            put(&mut other, &mut keys.iter().rev());
            other.commit().expect("nobody is in the way");
        }
    }
}
