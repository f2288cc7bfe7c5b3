//! Follower reads: a snapshot shows the state as of its timestamp, whatever has been applied and collected since.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use highwater_core::{
    Abort, Clock, Direction, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction,
};
use highwater_store::{Applier, Occ, Snapshot, SnapshotTx, Store};
use proptest::prelude::*;

const HASH: TableId = TableId(0);
const TREE: TableId = TableId(1);
type Map = BTreeMap<u64, Vec<u8>>;

fn store() -> Arc<Store> {
    Store::new(Schema::new(vec![
        TableSpec { name: "hash", keys: KeyKind::U64, index: IndexKind::Hash },
        TableSpec { name: "tree", keys: KeyKind::U64, index: IndexKind::Ordered },
    ]))
}

fn assert_shows(snapshot: &Arc<Snapshot>, map: &Map, keys: u64) {
    let mut tx = SnapshotTx::new(snapshot.clone());
    for number in 0..keys {
        for table in [HASH, TREE] {
            let value = tx.get(table, &number.to_be_bytes()).unwrap();
            assert_eq!(value, map.get(&number).map(Vec::as_slice), "{number} at {}", snapshot.ts());
        }
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let mut seen = Vec::new();
        tx.scan(TREE, (Bound::Unbounded, Bound::Unbounded), direction, |key, value| {
            seen.push((u64::from_be_bytes(key.try_into().unwrap()), value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
        if direction == Direction::Backward {
            seen.reverse();
        }
        assert_eq!(seen, map.clone().into_iter().collect::<Vec<_>>());
    }
    assert_eq!(tx.put(HASH, &[0; 8], b""), Err(Abort::BadRequest));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Writes go to both tables. A snapshot is pinned before the followers pass it, and read much later.
    #[test]
    fn snapshots_stand_still(
        script in proptest::collection::vec((0..30u64, proptest::option::of(0..200usize)), 10..200),
        step in 3..20usize,
    ) {
        let leader = store();
        let mut occ = Occ::new(leader, Arc::new(Clock::counter()));
        let mut map = Map::new();
        // The state after each commit.
        let mut states = Vec::new();
        for (at, (number, len)) in script.iter().enumerate() {
            occ.begin();
            for table in [HASH, TREE] {
                match len {
                    Some(len) => occ.put(table, &number.to_be_bytes(), &vec![at as u8; *len]).unwrap(),
                    None => drop(occ.delete(table, &number.to_be_bytes()).unwrap()),
                }
            }
            let ts = occ.commit().unwrap();
            match len {
                Some(len) => drop(map.insert(*number, vec![at as u8; *len])),
                None => drop(map.remove(number)),
            }
            states.push((ts, map.clone()));
        }
        let log = occ.log().take(Vec::new());
        let follower = store();
        let mut applier = Applier::new(follower.clone());
        let mut done = Timestamp::ZERO;
        let mut pinned: Vec<(Arc<Snapshot>, Map)> = Vec::new();
        for (at, (ts, map)) in states.iter().enumerate() {
            if at % step != 0 {
                continue;
            }
            let snapshot = follower.pin_snapshot(*ts);
            applier.apply(&log, done, *ts).unwrap();
            done = *ts;
            applier.collect(Timestamp::MAX);
            pinned.push((snapshot, map.clone()));
            if pinned.len() > 3 {
                // The oldest goes; what only it needed is dropped.
                pinned.remove(at % 2);
            }
            for (snapshot, map) in &pinned {
                assert_shows(snapshot, map, 30);
            }
        }
        applier.apply(&log, done, Timestamp::MAX).unwrap();
        applier.collect(Timestamp::MAX);
        for (snapshot, map) in &pinned {
            assert_shows(snapshot, map, 30);
        }
        drop(pinned);
        prop_assert_eq!(follower.versions_kept(), 0);
    }
}

/// Readers run while an applier moves pairs of values that add up to a constant.
#[test]
fn readers_see_a_constant_sum_while_an_applier_runs() {
    const ROUNDS: u64 = 20_000;
    let leader = store();
    let mut occ = Occ::new(leader, Arc::new(Clock::counter()));
    let mut marks = Vec::new();
    for round in 0..ROUNDS {
        occ.begin();
        let (a, b) = (round % 7, 7 + round % 5);
        for (number, amount) in [(a, round), (b, u64::MAX - round)] {
            for table in [HASH, TREE] {
                occ.put(table, &number.to_be_bytes(), &amount.to_le_bytes()).unwrap();
            }
        }
        marks.push(occ.commit().unwrap());
    }
    let log = occ.log().take(Vec::new());
    let follower = store();
    let (send, receive) = std::sync::mpsc::sync_channel::<(Arc<Snapshot>, u64)>(4);
    std::thread::scope(|scope| {
        let mut applier = Applier::new(follower.clone());
        scope.spawn(move || {
            let (mut rest, mut done) = (&log[..], Timestamp::ZERO);
            for (round, mark) in marks.iter().enumerate().skip(40).step_by(13) {
                let snapshot = applier.store().pin_snapshot(*mark);
                let applied = applier.apply(rest, done, *mark).unwrap();
                rest = &rest[applied.bytes..];
                done = *mark;
                send.send((snapshot, round as u64)).unwrap();
            }
        });
        scope.spawn(move || {
            for (snapshot, last) in receive {
                let mut tx = SnapshotTx::new(snapshot);
                for number in 0..12u64 {
                    let (every, offset) = if number < 7 { (7, number) } else { (5, number - 7) };
                    let round = last - (last + every - offset) % every;
                    let expected = if number < 7 { round } else { u64::MAX - round };
                    for table in [HASH, TREE] {
                        let value = tx.get(table, &number.to_be_bytes()).unwrap().unwrap();
                        assert_eq!(u64::from_le_bytes(value.try_into().unwrap()), expected);
                    }
                }
            }
        });
    });
    assert_eq!(follower.versions_kept(), 0);
}

/// Two streams write the same keys in turn, and one applier is behind: its versions have been replaced before they come,
/// but a snapshot between the two has to show them. (They used to be skipped: the snapshot showed what was there before.)
#[test]
fn a_version_that_was_replaced_before_it_came_is_shown() {
    const KEYS: u64 = 4;
    let mut occ = Occ::new(store(), Arc::new(Clock::counter()));
    let (mut map, mut states) = (Map::new(), Vec::new());
    let mut logs = [Vec::new(), Vec::new()];
    for round in 0..60u64 {
        occ.begin();
        let number = round % KEYS;
        // Rounds of seven and a key count of four: streams, keys and deletes meet in every way.
        let delete = round % 7 == 3;
        for table in [HASH, TREE] {
            match delete {
                true => drop(occ.delete(table, &number.to_be_bytes()).unwrap()),
                false => occ.put(table, &number.to_be_bytes(), &round.to_le_bytes()).unwrap(),
            }
        }
        states.push((occ.commit().unwrap(), {
            match delete {
                true => drop(map.remove(&number)),
                false => drop(map.insert(number, round.to_le_bytes().to_vec())),
            }
            map.clone()
        }));
        logs[usize::from(round % 3 == 0)].extend(occ.log().take(Vec::new()));
    }
    for cut in 1..states.len() {
        let follower = store();
        let mut appliers = [Applier::new(follower.clone()), Applier::new(follower.clone())];
        let (early, at) = (states[cut / 2].0, states[cut].0);
        for (applier, log) in appliers.iter_mut().zip(&logs) {
            applier.apply(log, Timestamp::ZERO, early).unwrap();
        }
        let snapshots = [follower.pin_snapshot(early), follower.pin_snapshot(at)];
        // One runs ahead to the end; then the other catches up, in two steps.
        let (ahead, behind) = (cut % 2, 1 - cut % 2);
        appliers[ahead].apply(&logs[ahead], early, Timestamp::MAX).unwrap();
        appliers[behind].apply(&logs[behind], early, at).unwrap();
        appliers[0].collect(early);
        assert_shows(&snapshots[1], &states[cut].1, KEYS);
        appliers[behind].apply(&logs[behind], early, Timestamp::MAX).unwrap();
        assert_shows(&snapshots[0], &states[cut / 2].1, KEYS);
        assert_shows(&snapshots[1], &states[cut].1, KEYS);
        drop(snapshots);
        assert_eq!(follower.versions_kept(), 0);
    }
}

/// One transaction reads what another then overwrites (an anti-dependency), in different streams: whoever sees the second
/// sees the first. It holds because the timestamp is taken before validation; after it, the clock might go on while the
/// value that was read is replaced.
#[test]
fn a_snapshot_shows_no_overwriter_without_the_reader_before_it() {
    let leader = store();
    let clock = Arc::new(Clock::counter());
    let mut reader = Occ::new(leader.clone(), clock.clone());
    let mut overwriter = Occ::new(leader, clock);
    let (x, y) = (1u64.to_be_bytes(), 2u64.to_be_bytes());
    reader.begin();
    assert_eq!(reader.get(HASH, &x).unwrap(), None);
    reader.put(HASH, &y, b"x was not there").unwrap();
    reader.lock().unwrap();
    reader.timestamp().unwrap();
    reader.validate().unwrap();
    overwriter.begin();
    overwriter.put(HASH, &x, b"now it is").unwrap();
    let second = overwriter.commit().unwrap();
    let first = reader.install();
    let logs = [reader.log().take(Vec::new()), overwriter.log().take(Vec::new())];
    for ts in [first, second] {
        for order in [[0, 1], [1, 0]] {
            let follower = store();
            let snapshot = follower.pin_snapshot(ts);
            for stream in order {
                Applier::new(follower.clone()).apply(&logs[stream], Timestamp::ZERO, Timestamp::MAX).unwrap();
            }
            let mut tx = SnapshotTx::new(snapshot);
            let overwritten = tx.get(HASH, &x).unwrap().is_some();
            let read = tx.get(HASH, &y).unwrap().is_some();
            assert!(read || !overwritten, "at {ts} of {first} and {second}");
        }
    }
}
