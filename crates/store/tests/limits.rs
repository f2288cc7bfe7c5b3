//! Transactions that are too large, or for which no memory is left, end with a word; and leave nothing behind.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use highwater_core::limits::{MAX_KEY_BYTES, MAX_TRANSACTION_BYTES, MAX_VALUE_BYTES};
use highwater_core::{Abort, Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Transaction, View};
use highwater_store::occ::Phase;
use highwater_store::{Occ, Store};

const TABLES: [TableId; 2] = [TableId(0), TableId(1)];

fn occ() -> Occ {
    let table = |name, index| TableSpec { name, keys: KeyKind::Bytes, index };
    let schema = Schema::new(vec![table("hash", IndexKind::Hash), table("tree", IndexKind::Ordered)]);
    let mut occ = Occ::new(Store::new(schema), Arc::new(Clock::counter()));
    occ.keep_undo(true);
    occ
}

/// Sets one key in a transaction of its own.
fn set(occ: &mut Occ, table: TableId, key: &[u8], len: usize) -> Result<(), Abort> {
    occ.begin();
    let ended = occ.put(table, key, &vec![7; len]).and_then(|()| occ.commit().map(drop));
    match ended {
        Err(Abort::Conflict) => unreachable!("nobody else is at work"),
        Err(_) => drop(occ.commit_rollback().unwrap()),
        Ok(()) => occ.forget_undo(highwater_core::Timestamp::MAX),
    }
    assert_eq!(occ.phase(), Phase::Idle);
    occ.log().take(Vec::new());
    ended
}

fn rows(occ: &Occ) -> usize {
    let mut rows = 0;
    TABLES.iter().for_each(|table| occ.store().for_each(*table, &mut |_, _| rows += 1));
    rows
}

#[test]
fn a_transaction_writes_up_to_the_limit_and_not_beyond() {
    let mut occ = occ();
    let value = vec![1; MAX_VALUE_BYTES];
    occ.begin();
    for key in 0..3u8 {
        occ.put(TABLES[0], &[key], &value).unwrap();
    }
    assert_eq!(occ.put(TABLES[1], &[3], &value), Err(Abort::TooLarge));
    // What fits still does.
    occ.put(TABLES[1], &[4], &value[..MAX_VALUE_BYTES - 1000]).unwrap();
    assert!(occ.log().open_bytes() <= MAX_TRANSACTION_BYTES);
    occ.commit().unwrap();
    assert_eq!(rows(&occ), 4);
}

#[test]
fn keys_and_values_beyond_their_limits_are_bad_requests() {
    let mut occ = occ();
    for table in TABLES {
        occ.begin();
        let (key, value) = (vec![0; MAX_KEY_BYTES + 1], vec![0; MAX_VALUE_BYTES + 1]);
        assert_eq!(occ.put(table, &key, b""), Err(Abort::BadRequest));
        assert_eq!(occ.insert(table, &key, b""), Err(Abort::BadRequest));
        assert_eq!(occ.delete(table, &key), Err(Abort::BadRequest));
        assert_eq!(occ.get(table, &key), Err(Abort::BadRequest));
        assert_eq!(occ.put(table, b"", &value), Err(Abort::BadRequest));
        assert_eq!(occ.insert(table, b"", &value), Err(Abort::BadRequest));
        assert_eq!(occ.put(table, &vec![0; 2 * MAX_TRANSACTION_BYTES], b""), Err(Abort::BadRequest));
        occ.put(table, &key[1..], &value[1..]).unwrap();
        occ.commit().unwrap();
    }
    assert_eq!(rows(&occ), 2);
}

/// Once: a `FLUSHALL` of more than a transaction may remove (1,400 rows of 200 KB) read every value before its commit
/// refused it: 31 ms in a release build, and 0.4 s in a build for tests, where the words were copied by code that nobody
/// had optimised.
#[test]
fn a_transaction_replaces_and_deletes_no_more_than_it_may_write() {
    let mut occ = occ();
    (0..5).for_each(|key| set(&mut occ, TABLES[0], &[key], MAX_VALUE_BYTES).unwrap());
    occ.begin();
    (0..5).for_each(|key| occ.put(TABLES[0], &[key], b"short").unwrap());
    assert_eq!(occ.commit(), Err(Abort::TooLarge));
    assert_eq!(occ.phase(), Phase::Open, "its end is validated, like any decision");
    occ.commit_rollback().unwrap();
    assert_eq!((rows(&occ), occ.undo_bytes()), (5, 0));
    // Who removes too much hears of it at once.
    occ.begin();
    (0..4).for_each(|key| assert!(occ.delete(TABLES[0], &[key]).unwrap()));
    assert!(!occ.delete(TABLES[0], &[3]).unwrap(), "nothing is removed twice");
    assert_eq!(occ.delete(TABLES[0], &[4]), Err(Abort::TooLarge));
    occ.commit_rollback().unwrap();
    assert_eq!((rows(&occ), occ.undo_bytes()), (5, 0));
    // What was refused does not count, nor what was taken back, nor what could not be written.
    set(&mut occ, TABLES[0], &[5], 0).unwrap();
    occ.begin();
    (0..4).for_each(|key| assert!(occ.delete(TABLES[0], &[key]).unwrap()));
    assert_eq!(occ.delete(TABLES[0], &[4]), Err(Abort::TooLarge));
    assert!(occ.delete(TABLES[0], &[5]).unwrap());
    occ.drop_writes();
    assert!(occ.delete(TABLES[0], &[4]).unwrap());
    occ.commit_rollback().unwrap();
    occ.refuse_writes(true);
    occ.begin();
    (0..5).for_each(|key| assert_eq!(occ.delete(TABLES[0], &[key]), Err(Abort::DiskFull)));
    occ.commit_rollback().unwrap();
    occ.refuse_writes(false);
    occ.begin();
    assert!(occ.delete(TABLES[0], &[5]).unwrap());
    occ.commit().unwrap();
    let kept = occ.undo_bytes();
    assert!(kept < 1000, "{kept}: of what was committed, and of nothing else");
    assert_eq!(rows(&occ), 5);
    occ.begin();
    (0..4).for_each(|key| assert!(occ.delete(TABLES[0], &[key]).unwrap()));
    occ.commit().unwrap();
    assert_eq!(rows(&occ), 1);
    assert!(occ.undo_bytes() >= kept + 4 * MAX_VALUE_BYTES);
    // Tombstones have nothing to replace, though their memory is still there.
    occ.begin();
    (0..4).for_each(|key| occ.put(TABLES[0], &[key], b"again").unwrap());
    assert!(occ.delete(TABLES[0], &[4]).unwrap());
    occ.commit().unwrap();
    assert_eq!(rows(&occ), 4);
}

#[test]
fn without_room_only_what_grows_is_refused_and_leaves_no_placeholder() {
    for table in TABLES {
        let mut occ = occ();
        (0..100).for_each(|key| set(&mut occ, table, &[key], 1000).unwrap());
        let before = occ.store().memory();
        occ.set_room(0);
        assert_eq!(set(&mut occ, table, b"new", 0), Err(Abort::OutOfMemory), "a new key");
        assert_eq!(set(&mut occ, table, &[1], 5000), Err(Abort::OutOfMemory), "a longer value");
        assert_eq!(occ.store().memory(), before);
        assert_eq!(set(&mut occ, table, &[1], 1000), Ok(()), "one of the same length");
        assert_eq!(set(&mut occ, table, &[1], 10), Ok(()), "a shorter one");
        occ.begin();
        assert_eq!(occ.get(table, &[2]).unwrap().unwrap().len(), 1000);
        assert_eq!(occ.insert(table, &[2], b"x"), Ok(false), "it exists: nothing grows");
        assert_eq!(occ.insert(table, b"new", b"x"), Err(Abort::OutOfMemory));
        assert!(occ.delete(table, &[3]).unwrap());
        occ.commit().unwrap();
        assert_eq!(rows(&occ), 99);
        // Its tombstone's memory serves again.
        assert_eq!(set(&mut occ, table, &[3], 1000), Ok(()));
        assert_eq!(occ.store().memory().records, before.records);
    }
}

/// To remove a collection leaves a note for whoever removes its rows.
#[test]
fn without_room_two_deletes_pay_for_a_small_row() {
    for table in TABLES {
        let mut occ = occ();
        (0..100).for_each(|key| set(&mut occ, table, &[key], 1).unwrap());
        occ.set_room(0);
        occ.begin();
        assert!(occ.delete(table, &[0]).unwrap());
        assert_eq!(occ.put(table, b"note", b""), Err(Abort::OutOfMemory), "one is not enough");
        assert!(occ.delete(table, &[1]).unwrap());
        assert_eq!(occ.put(table, b"long", &[0; 100]), Err(Abort::OutOfMemory), "no note");
        occ.put(table, b"note", b"").unwrap();
        assert_eq!(occ.put(table, b"another", b""), Err(Abort::OutOfMemory), "they have paid for one");
        assert!(!occ.delete(table, b"nothing").unwrap());
        occ.commit().unwrap();
        assert_eq!((rows(&occ), occ.room()), (99, 0));
        // What is paid for otherwise is not paid again, and tombstones pay for nothing.
        occ.begin();
        assert!(!occ.delete(table, &[0]).unwrap() && !occ.delete(table, &[1]).unwrap());
        assert_eq!(occ.put(table, b"another", b""), Err(Abort::OutOfMemory));
        occ.abort();
    }
}

/// Whoever removes the rows of what is gone notes in each of its transactions how far it has got: if that had no room, a full memory would stay full.
#[test]
fn without_room_two_deletes_pay_for_a_small_row_that_gets_longer() {
    for table in TABLES {
        let mut occ = occ();
        (0..100).for_each(|key| set(&mut occ, table, &[key], 1).unwrap());
        occ.begin();
        occ.put(table, b"note", b"").unwrap();
        occ.commit().unwrap();
        occ.set_room(0);
        for round in 0..3u8 {
            occ.begin();
            (0..2).for_each(|at| assert!(occ.delete(table, &[2 * round + at]).unwrap()));
            occ.put(table, b"note", &vec![round; 10 + 10 * usize::from(round)]).unwrap();
            occ.commit().unwrap();
        }
        assert_eq!((rows(&occ), occ.room()), (95, 0));
        occ.begin();
        occ.put(table, b"note", &[0; 60]).unwrap();
        assert_eq!(occ.commit(), Err(Abort::OutOfMemory), "nothing pays for it");
        occ.abort();
    }
}

/// What is admitted is at least what the store grows by: with any sizes, room is never overdrawn.
#[test]
fn the_store_grows_by_no_more_than_the_room_it_was_given() {
    for table in TABLES {
        for len in [0, 1, 100, 300, 1000, 1815, 3000, 4000, 5000, 100_000] {
            let mut occ = occ();
            set(&mut occ, table, b"first", 1).unwrap();
            let (before, room) = (occ.store().memory(), 1u64 << 20);
            occ.set_room(room);
            let mut written = 0u32;
            while set(&mut occ, table, &written.to_be_bytes(), len).is_ok() {
                written += 1;
            }
            let after = occ.store().memory();
            let grown =
                after.records + after.index + after.retired - before.records - before.index - before.retired;
            assert!(grown <= room, "{grown} bytes in {written} records of {len}");
            assert!(
                written as usize * (len + 200) * 2 > room as usize || len > 90_000,
                "{written} of {len} is few"
            );
        }
    }
}
