//! Random transactions against a `BTreeMap`: all four kinds of table, scans both ways, aborts, deletes and collection;
//! and everything that was committed, applied on a follower from the log.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use highwater_core::{
    Abort, Clock, Direction, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction, View,
};
use highwater_store::{Applier, Importer, Occ, Store};
use proptest::prelude::*;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Op {
    Get(u64),
    Version(u64),
    Put(u64, usize),
    Insert(u64, usize),
    Delete(u64),
    Scan(Bound<u64>, Bound<u64>, bool, usize),
    /// Hints at a run of keys, there or not.
    Hint(u64, u64),
    /// Puts a run of keys, upwards or downwards: splits.
    Fill(u64, u64, bool),
    /// Deletes a run of keys: leaves that become empty.
    Clear(u64, u64),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Commit,
    Abort,
    Rollback,
}

fn ops(keys: u64) -> impl Strategy<Value = Op> {
    let key = 0..keys;
    let len = prop_oneof![4 => 0..64usize, 1 => 0..3000usize, 1 => 4000..9000usize];
    let bound = move || {
        prop_oneof![
            3 => (0..keys).prop_map(Bound::Included),
            3 => (0..keys).prop_map(Bound::Excluded),
            1 => Just(Bound::Unbounded)
        ]
    };
    prop_oneof![
        2 => key.clone().prop_map(Op::Get),
        1 => key.clone().prop_map(Op::Version),
        4 => (key.clone(), len.clone()).prop_map(|(key, len)| Op::Put(key, len)),
        4 => (key.clone(), len).prop_map(|(key, len)| Op::Insert(key, len)),
        4 => key.prop_map(Op::Delete),
        1 => (0..keys, 0..400u64, any::<bool>()).prop_map(|(from, n, up)| Op::Fill(from, n, up)),
        1 => (0..keys, 0..400u64).prop_map(|(from, n)| Op::Clear(from, n)),
        3 => (0..keys, 0..100u64).prop_map(|(from, n)| Op::Hint(from, n)),
        2 => (bound(), bound(), any::<bool>(), 1..300usize).prop_map(|(a, b, up, n)| Op::Scan(a, b, up, n)),
    ]
}

fn transactions(keys: u64) -> impl Strategy<Value = Vec<(Vec<Op>, End)>> {
    let end = prop_oneof![6 => Just(End::Commit), 1 => Just(End::Abort), 1 => Just(End::Rollback)];
    proptest::collection::vec((proptest::collection::vec(ops(keys), 1..12), end), 1..150)
}

/// The lower ones leave no gaps, the upper ones do.
fn integer(key: u64) -> u64 {
    if key < 1000 { key } else { key * 0x0101 }
}

/// Byte keys share long prefixes and end differently, some being prefixes of others.
fn encode(kind: KeyKind, key: u64) -> Vec<u8> {
    match kind {
        KeyKind::U64 => integer(key).to_be_bytes().to_vec(),
        KeyKind::Bytes => {
            let mut bytes = b"warehouse/".to_vec();
            bytes.extend_from_slice(&(key / 40).to_be_bytes());
            bytes.extend(std::iter::repeat_n(key as u8 % 3, (key % 40) as usize));
            bytes
        }
    }
}

fn bounds(kind: KeyKind, from: Bound<u64>, to: Bound<u64>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (from.map(|key| encode(kind, key)), to.map(|key| encode(kind, key)))
}

fn expected(
    map: &Map,
    range: &(Bound<Vec<u8>>, Bound<Vec<u8>>),
    up: bool,
    n: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let inside = |key: &Vec<u8>| {
        let from = match &range.0 {
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
            Bound::Unbounded => true,
        };
        from && match &range.1 {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        }
    };
    let pairs = map.iter().filter(|(key, _)| inside(key)).map(|(key, value)| (key.clone(), value.clone()));
    if up { pairs.take(n).collect() } else { pairs.rev().take(n).collect() }
}

const TABLE: TableId = TableId(1);

fn store(keys: KeyKind, index: IndexKind) -> Arc<Store> {
    let other = TableSpec { name: "other", keys: KeyKind::U64, index: IndexKind::Hash };
    Store::new(Schema::new(vec![other, TableSpec { name: "table", keys, index }]))
}

fn run(keys: KeyKind, index: IndexKind, script: &[(Vec<Op>, End)], follower_cut: usize) {
    let store = store(keys, index);
    let mut occ = Occ::new(store.clone(), Arc::new(Clock::counter()));
    let mut map = Map::new();
    let mut versions: BTreeMap<Vec<u8>, Timestamp> = BTreeMap::new();
    let mut last = Timestamp::ZERO;
    for (number, (ops, end)) in script.iter().enumerate() {
        occ.begin();
        let mut mine = map.clone();
        let mut touched = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            let value = |len: &usize| vec![(number * 7 + at) as u8; *len];
            match op {
                Op::Get(key) => {
                    let key = encode(keys, *key);
                    assert_eq!(occ.get(TABLE, &key).unwrap(), mine.get(&key).map(Vec::as_slice));
                }
                Op::Version(key) => {
                    let key = encode(keys, *key);
                    if mine.contains_key(&key) && !touched.contains(&key) {
                        assert_eq!(occ.version(TABLE, &key).unwrap(), versions[&key]);
                    }
                }
                Op::Put(key, len) => {
                    let key = encode(keys, *key);
                    occ.put(TABLE, &key, &value(len)).unwrap();
                    mine.insert(key.clone(), value(len));
                    touched.push(key);
                }
                Op::Insert(key, len) => {
                    let key = encode(keys, *key);
                    let fresh = !mine.contains_key(&key);
                    assert_eq!(occ.insert(TABLE, &key, &value(len)).unwrap(), fresh);
                    if fresh {
                        mine.insert(key.clone(), value(len));
                        touched.push(key);
                    }
                }
                Op::Delete(key) => {
                    let key = encode(keys, *key);
                    assert_eq!(occ.delete(TABLE, &key).unwrap(), mine.remove(&key).is_some());
                    touched.push(key);
                }
                Op::Fill(from, n, up) => {
                    for at in 0..*n {
                        let key = encode(keys, from + if *up { at } else { n - 1 - at });
                        occ.put(TABLE, &key, &value(&9)).unwrap();
                        mine.insert(key.clone(), value(&9));
                        touched.push(key);
                    }
                }
                Op::Clear(from, n) => {
                    for key in (*from..from + n).map(|key| encode(keys, key)) {
                        assert_eq!(occ.delete(TABLE, &key).unwrap(), mine.remove(&key).is_some());
                        touched.push(key);
                    }
                }
                Op::Hint(from, n) => {
                    let wanted: Vec<_> = (*from..from + n).map(|key| (TABLE, integer(key))).collect();
                    occ.prefetch(&wanted);
                }
                Op::Scan(from, to, up, n) => {
                    let range = bounds(keys, *from, *to);
                    let direction = if *up { Direction::Forward } else { Direction::Backward };
                    let mut seen = Vec::new();
                    let borrowed = (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice));
                    let outcome = occ.scan(TABLE, borrowed, direction, |key, value| {
                        seen.push((key.to_vec(), value.to_vec()));
                        if seen.len() == *n { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    });
                    match index {
                        IndexKind::Ordered => assert_eq!(seen, expected(&mine, &range, *up, *n)),
                        IndexKind::Hash => assert_eq!(outcome, Err(Abort::BadRequest)),
                    }
                }
            }
        }
        match end {
            End::Commit => {
                let ts = occ.commit().expect("one worker alone has no conflicts");
                assert!(ts > last);
                last = ts;
                map = mine;
                for key in touched {
                    versions.insert(key, ts);
                }
            }
            End::Abort => occ.abort(),
            End::Rollback => {
                let ts = occ.commit_rollback().expect("one worker alone has no conflicts");
                assert!(ts > last);
                assert!(!occ.wrote());
                last = ts;
            }
        }
        if number % 5 == 4 {
            occ.collect(last);
        }
    }
    let content = |store: &Store| {
        let mut content = Vec::new();
        store.for_each(TABLE, &mut |key, value| content.push((key.to_vec(), value.to_vec())));
        if index == IndexKind::Hash {
            content.sort();
        }
        content
    };
    assert_eq!(content(&store), map.clone().into_iter().collect::<Vec<_>>());
    for (key, value) in &map {
        assert_eq!(store.get(TABLE, key).as_ref(), Some(value));
    }

    // A follower that applies the log in two halves, and the first again, has the same content.
    let log = occ.log().take(Vec::new());
    let follower = crate::store(keys, index);
    let mut applier = Applier::new(follower.clone());
    let cut = Timestamp(last.0 * follower_cut as u64 / 10);
    let first = applier.apply(&log, Timestamp::ZERO, cut).unwrap();
    assert!(first.last_ts <= cut);
    let second = applier.apply(&log[first.bytes..], first.last_ts, Timestamp::MAX).unwrap();
    assert_eq!(first.bytes + second.bytes, log.len());
    let again = applier.apply(&log, first.last_ts, Timestamp::MAX).unwrap();
    assert_eq!(again.transactions, second.transactions);
    applier.apply(&log, Timestamp::ZERO, cut).unwrap();
    assert_eq!(follower.digest(), store.digest());
    applier.collect(last);
    assert_eq!(follower.digest(), store.digest());

    // So has a third one that imports what the first exports, in three parts, in any order.
    let third = crate::store(keys, index);
    let mut importer = Importer::new(third.clone());
    for part in [2, 0, 1] {
        let mut export = store.export(part, 3);
        let mut more = true;
        while more {
            let mut chunk = Vec::new();
            more = export.next_chunk(100, &mut chunk);
            importer.import(&chunk).unwrap();
        }
    }
    assert_eq!(third.digest(), store.digest());

    // When all is deleted and collected, nothing is left.
    occ.begin();
    for key in map.keys() {
        assert!(occ.delete(TABLE, key).unwrap());
    }
    let ts = occ.commit().unwrap();
    for _ in 0..200 {
        occ.collect(ts);
    }
    drop(occ);
    assert_eq!(content(&store), []);
    let mut chunk = Vec::new();
    let mut export = store.export(0, 1);
    while export.next_chunk(1 << 20, &mut chunk) {}
    assert_eq!(chunk, [], "no tombstone is left");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn hash_of_integers(script in transactions(3000), cut in 0..10usize) {
        run(KeyKind::U64, IndexKind::Hash, &script, cut);
    }

    #[test]
    fn hash_of_bytes(script in transactions(300), cut in 0..10usize) {
        run(KeyKind::Bytes, IndexKind::Hash, &script, cut);
    }

    #[test]
    fn tree_of_integers(script in transactions(3000), cut in 0..10usize) {
        run(KeyKind::U64, IndexKind::Ordered, &script, cut);
    }

    #[test]
    fn tree_of_bytes(script in transactions(3000), cut in 0..10usize) {
        run(KeyKind::Bytes, IndexKind::Ordered, &script, cut);
    }
}
