//! A commit clock that goes back: a transaction that needs a later one fails, in bounded time, and leaves no lock.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_core::{Abort, Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction};
use highwater_store::occ::Phase;
use highwater_store::{Occ, Store};

const TABLE: TableId = TableId(0);
const KEY: [u8; 8] = [1; 8];

/// Once: a commit clock that went back made a leader's worker spin in `timestamp`, its locks held, until it had passed.
#[test]
fn a_clock_that_went_back_fails_the_transaction_and_locks_nothing() {
    let store = Store::new(Schema::new(vec![TableSpec {
        name: "table",
        keys: KeyKind::U64,
        index: IndexKind::Hash,
    }]));
    let counter = Arc::new(AtomicU64::new(1 << 40));
    let clock = Arc::new(Clock::shared_counter(counter.clone()));
    let mut occ = Occ::new(store.clone(), clock.clone());
    occ.begin();
    occ.put(TABLE, &KEY, b"one").unwrap();
    let first = occ.commit().unwrap();

    // Back by a day, on all cores.
    counter.store(1 << 30, Ordering::Relaxed);
    let mut other = Occ::new(store.clone(), clock);
    for occ in [&mut occ, &mut other] {
        // A writer, and a reader: both have seen `first`.
        for writes in [true, false] {
            occ.begin();
            assert_eq!(occ.get(TABLE, &KEY), Ok(Some(&b"one"[..])));
            if writes {
                occ.put(TABLE, &KEY, b"two").unwrap();
            }
            let ended = if writes { occ.commit() } else { occ.commit_rollback() };
            assert_eq!(ended, Err(Abort::Conflict));
            assert_eq!((occ.take_clock_stands(), occ.take_clock_stands()), (Some(first), None));
            assert_eq!(occ.phase(), Phase::Idle);
        }
    }

    counter.store(first.0, Ordering::Relaxed);
    other.begin();
    other.put(TABLE, &KEY, b"two").expect("nobody holds its lock");
    let second = other.commit().expect("the clock has passed what it showed");
    assert!(second > first && second < Timestamp(first.0 + 10), "and was not helped along");
}
