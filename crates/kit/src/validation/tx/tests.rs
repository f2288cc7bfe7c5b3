//! Execution: what is read, what is remembered of it, and what is written.

use std::ops::Bound::Unbounded;

use highwater_core::{Clock, Schema, TableSpec};
use highwater_store::Occ;

use super::*;

const TABLE: TableId = TableId(0);

/// A store with `b`, `d` and `f`, and the timestamp that wrote them.
fn store() -> (Arc<Store>, Timestamp) {
    let spec = TableSpec { name: "t", keys: KeyKind::Bytes, index: IndexKind::Ordered };
    let store = Store::new(Schema::new(vec![spec]));
    let mut occ = Occ::new(store.clone(), Arc::new(Clock::counter()));
    Occ::begin(&mut occ);
    for key in [b"b", b"d", b"f"] {
        occ.put(TABLE, key, b"old").unwrap();
    }
    let ts = occ.commit().unwrap();
    (store, ts)
}

fn begin(store: Arc<Store>) -> MeerkatTx {
    let mut tx = MeerkatTx::new(store, MAX_TRANSACTION_BYTES);
    tx.begin();
    tx
}

#[test]
fn a_transaction_sees_its_own_writes_and_says_what_it_read() {
    let (store, ts) = store();
    let mut tx = begin(store);
    assert_eq!(tx.get(TABLE, b"b"), Ok(Some(&b"old"[..])));
    tx.put(TABLE, b"b", b"newer than that").unwrap();
    assert_eq!(tx.get(TABLE, b"b"), Ok(Some(&b"newer than that"[..])));
    assert_eq!((tx.insert(TABLE, b"d", b"x"), tx.insert(TABLE, b"e", b"x")), (Ok(false), Ok(true)));
    assert_eq!((tx.delete(TABLE, b"e"), tx.delete(TABLE, b"e")), (Ok(true), Ok(false)));
    tx.put(TABLE, b"z", b"blind").unwrap();
    let payload = tx.end(Timestamp(1 << 40));
    let reads: Vec<_> = payload.reads().map(|read| (read.key.to_vec(), read.version)).collect();
    let expected = [(b"b", ts), (b"d", ts), (b"e", Timestamp::ZERO)];
    assert_eq!(reads, expected.map(|(key, version)| (key.to_vec(), version)));
    let writes: Vec<_> = payload.writes().map(|write| write.value.map(<[u8]>::to_vec)).collect();
    assert_eq!(writes, [Some(b"newer than that".to_vec()), None, Some(b"blind".to_vec())]);
    assert_eq!(Payload::parse(payload.bytes().clone()), Ok(payload));
}

#[test]
fn a_scan_has_own_writes_in_their_places_and_counts_as_far_as_it_went() {
    for direction in [Direction::Forward, Direction::Backward] {
        let (store, ts) = store();
        let mut tx = begin(store);
        tx.put(TABLE, b"a", b"own").unwrap();
        tx.put(TABLE, b"d", b"own").unwrap();
        tx.put(TABLE, b"e", b"own").unwrap();
        tx.delete(TABLE, b"b").unwrap();
        let mut seen = Vec::new();
        let all = (Unbounded, Unbounded);
        tx.scan(TABLE, all, direction, |key, value| {
            seen.push((key.to_vec(), value.to_vec()));
            if key == b"d" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        let (expected, inside, outside): (&[(&[u8], &[u8])], _, _) = match direction {
            Direction::Forward => (&[(b"a", b"own"), (b"d", b"own")], b"c", b"e"),
            Direction::Backward => (&[(b"f", b"old"), (b"e", b"own"), (b"d", b"own")], b"e", b"c"),
        };
        let expected: Vec<_> = expected.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert_eq!(seen, expected);
        let payload = tx.end(Timestamp(1 << 40));
        let scan = payload.scans().next().unwrap();
        assert!(scan.covers(b"d") && scan.covers(inside) && !scan.covers(outside), "{scan:?}");
        assert_eq!((scan.version_of(b"d"), scan.items.len()), (ts, 2), "own writes are none of the store's");
    }
}

#[test]
fn a_key_that_changes_between_two_reads_is_a_conflict() {
    let (store, _) = store();
    let mut tx = begin(store.clone());
    assert!(tx.get(TABLE, b"b").is_ok());
    // A clock of its own: later than the one that wrote the rows.
    let clock = Arc::new(Clock::counter());
    clock.advance_past(Timestamp(1 << 20));
    let mut occ = Occ::new(store, clock);
    Occ::begin(&mut occ);
    occ.put(TABLE, b"b", b"changed").unwrap();
    occ.commit().unwrap();
    assert_eq!(tx.get(TABLE, b"b"), Err(Abort::Conflict));
}

/// Whatever a transaction may read and write, its payload fits into a frame.
#[test]
fn what_is_read_is_bounded_by_what_a_frame_carries() {
    let (store, _) = store();
    let mut tx = begin(store);
    let key = |at: u32| [&at.to_be_bytes()[..], &vec![7; MAX_KEY_BYTES - 4]].concat();
    let refused = (0..).find_map(|at| tx.get(TABLE, &key(at)).err());
    assert_eq!(refused, Some(Abort::TooLarge));
    let payload = tx.end(Timestamp(1));
    assert!(payload.len() > 40 << 20 && payload.len() + MAX_TRANSACTION_BYTES < MAX_FRAME_BODY_BYTES);
}
