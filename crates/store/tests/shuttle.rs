//! The whole store under random schedules: index operations that race splits and removals, and the commit protocol.
//! Nodes are small under shuttle (leaves of 3 keys, segments of 4), so that few keys make interesting structures.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p highwater-store --release --test shuttle`
#![cfg(shuttle)]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use highwater_core::codec::Reader;
use highwater_core::{
    Abort, Clock, Direction, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction, View,
};
use highwater_store::{Applier, Occ, Store};
use shuttle::thread;

const TABLE: TableId = TableId(0);
const KINDS: [(KeyKind, IndexKind); 3] = [
    (KeyKind::U64, IndexKind::Hash),
    (KeyKind::U64, IndexKind::Ordered),
    (KeyKind::Bytes, IndexKind::Ordered),
];

struct World {
    store: Arc<Store>,
    clock: Arc<Clock>,
}

impl World {
    fn new((keys, index): (KeyKind, IndexKind)) -> World {
        let store = Store::new(Schema::new(vec![TableSpec { name: "table", keys, index }]));
        World { store, clock: Arc::new(Clock::counter()) }
    }

    fn occ(&self) -> Occ {
        Occ::new(self.store.clone(), self.clock.clone())
    }

    fn fill(&self, numbers: impl Iterator<Item = u64>) {
        let mut occ = self.occ();
        for number in numbers {
            occ.begin();
            occ.put(TABLE, &key(number), &[0; 8]).unwrap();
            occ.commit().unwrap();
        }
    }
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Tries a few times; contention may win.
fn attempt(occ: &mut Occ, body: &mut dyn FnMut(&mut Occ) -> Result<(), Abort>) -> Option<Timestamp> {
    for _ in 0..4 {
        occ.begin();
        match body(occ) {
            Ok(()) => {
                if let Ok(ts) = occ.commit() {
                    return Some(ts);
                }
            }
            Err(Abort::Conflict) => occ.abort(),
            Err(abort) => panic!("{abort:?}"),
        }
        thread::yield_now();
    }
    None
}

/// Runs a test on every kind of table, under random and under priority-based schedules.
fn explore(iterations: usize, test: fn((KeyKind, IndexKind))) {
    for kind in KINDS {
        shuttle::check_random(move || test(kind), iterations);
        shuttle::check_pct(move || test(kind), iterations / 2, 3);
    }
}

/// What a transaction saw and did.
struct Done {
    ts: Timestamp,
    saw: Vec<(u64, Option<u64>)>,
    wrote: Vec<(u64, Option<u64>)>,
}

/// Asserts that the transactions in timestamp order explain all that they saw.
fn assert_serial(mut all: Vec<Done>, mut map: BTreeMap<u64, u64>) {
    all.sort_by_key(|done| done.ts);
    assert!(all.windows(2).all(|pair| pair[0].ts < pair[1].ts));
    for done in all {
        for (key, value) in done.saw {
            assert_eq!(map.get(&key).copied(), value, "key {key} at {:?}", done.ts);
        }
        for (key, value) in done.wrote {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
    }
}

/// Each thread runs some transactions that read one key and write (or delete) another: dependencies of all three
/// kinds, write skew included.
#[test]
fn timestamp_order_is_a_serial_order() {
    explore(1500, |kind| {
        let world = World::new(kind);
        world.fill(0..2);
        let threads: Vec<_> = (0..3u64)
            .map(|thread| {
                let mut occ = world.occ();
                thread::spawn(move || {
                    let mut history = Vec::new();
                    for round in 0..2u64 {
                        let (read, write) = ((thread + round) % 3, (thread + round + 1) % 3);
                        let value = (thread == 1 || round == 0).then_some(100 * thread + round + 1);
                        let mut saw = None;
                        let ts = attempt(&mut occ, &mut |occ| {
                            occ.prefetch(&[read, write].map(|number| (TABLE, number)));
                            saw = occ
                                .get(TABLE, &key(read))?
                                .map(|value| u64::from_le_bytes(value.try_into().unwrap()));
                            match value {
                                Some(value) => occ.put(TABLE, &key(write), &value.to_le_bytes()),
                                None => occ.delete(TABLE, &key(write)).map(drop),
                            }
                        });
                        if let Some(ts) = ts {
                            let wrote = vec![(write, value)];
                            history.push(Done { ts, saw: vec![(read, saw)], wrote });
                            occ.collect(Timestamp(ts.0 - 1));
                        }
                    }
                    history
                })
            })
            .collect();
        let all = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_serial(all, [(0, 0), (1, 0)].into());
    });
}

/// The anti-dependency that a timestamp taken after validation gets wrong: a reader of x and an overwriter of x.
#[test]
fn a_reader_comes_before_the_overwriter_of_what_it_read() {
    explore(3000, |kind| {
        let world = World::new(kind);
        world.fill(0..2);
        let (mut reader, mut writer) = (world.occ(), world.occ());
        let reading = thread::spawn(move || {
            reader.begin();
            let saw = match reader.get(TABLE, &key(0)) {
                Ok(value) => value.unwrap() == [0; 8],
                Err(_) => {
                    reader.abort();
                    return None;
                }
            };
            reader.put(TABLE, &key(1), &[1; 8]).unwrap();
            reader.commit().ok().map(|ts| (ts, saw))
        });
        writer.begin();
        writer.put(TABLE, &key(0), &[2; 8]).unwrap();
        let wrote = writer.commit();
        if let (Some((read_ts, saw_old)), Ok(write_ts)) = (reading.join().unwrap(), wrote) {
            assert_eq!(read_ts < write_ts, saw_old, "timestamps tell who came first");
        }
    });
}

/// Inserts race each other's splits; nobody's key is lost, whoever looks.
#[test]
fn no_insert_is_lost_in_a_split() {
    explore(600, |kind| {
        let world = World::new(kind);
        world.fill((0..3).map(|at| at * 10));
        let threads: Vec<_> = (0..3u64)
            .map(|thread| {
                let mut occ = world.occ();
                thread::spawn(move || {
                    let mut mine = Vec::new();
                    for at in 0..4 {
                        let number = at * 7 + thread + 1;
                        let ts = attempt(&mut occ, &mut |occ| {
                            occ.insert(TABLE, &key(number), &[1; 8])?;
                            Ok(())
                        });
                        if ts.is_some() {
                            mine.push(number);
                        }
                        attempt(&mut occ, &mut |occ| {
                            for number in &mine {
                                assert!(occ.get(TABLE, &key(*number))?.is_some(), "key {number} was lost");
                            }
                            Ok(())
                        });
                    }
                    mine
                })
            })
            .collect();
        let mut all: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        all.extend([0, 10, 20]);
        all.sort_unstable();
        all.dedup();
        let mut there = Vec::new();
        world.store.for_each(TABLE, &mut |key, _| there.push(u64::from_be_bytes(key.try_into().unwrap())));
        there.sort_unstable();
        assert_eq!(there, all);
    });
}

/// Removals empty leaves and merge them while inserts come to the same leaves.
#[test]
fn no_insert_is_lost_in_a_removal() {
    explore(800, |kind| {
        let world = World::new(kind);
        world.fill((0..10).map(|at| at * 10));
        let mut remover = world.occ();
        let removing = thread::spawn(move || {
            let mut gone = Vec::new();
            for number in (0..9).map(|at| at * 10) {
                let ts = attempt(&mut remover, &mut |occ| occ.delete(TABLE, &key(number)).map(drop));
                if let Some(ts) = ts {
                    gone.push(number);
                    remover.collect(ts);
                }
            }
            gone
        });
        let mut inserter = world.occ();
        let inserting = thread::spawn(move || {
            let mut mine = Vec::new();
            for number in [5, 25, 45, 65, 15] {
                let ts = attempt(&mut inserter, &mut |occ| occ.put(TABLE, &key(number), &[1; 8]));
                if ts.is_some() {
                    mine.push(number);
                }
            }
            mine
        });
        let gone = removing.join().unwrap();
        let mut expected = inserting.join().unwrap();
        expected.extend((0..10).map(|at| at * 10).filter(|number| !gone.contains(number)));
        expected.sort_unstable();
        let mut there = Vec::new();
        world.store.for_each(TABLE, &mut |key, _| there.push(u64::from_be_bytes(key.try_into().unwrap())));
        there.sort_unstable();
        assert_eq!(there, expected);
    });
}

/// Each thread finds a key absent and adds the next one's: write skew over absent keys, while the inserts split what
/// proves the absence.
#[test]
fn absence_is_protected_across_splits() {
    explore(1500, |kind| {
        let world = World::new(kind);
        world.fill((0..4).map(|at| at * 10));
        let threads: Vec<_> = (0..3u64)
            .map(|thread| {
                let mut occ = world.occ();
                thread::spawn(move || {
                    let (read, write) = (thread + 11, (thread + 1) % 3 + 11);
                    let mut saw = None;
                    let ts = attempt(&mut occ, &mut |occ| {
                        saw = occ.get(TABLE, &key(read))?.map(|_| 1);
                        occ.put(TABLE, &key(write), &[1; 8])
                    });
                    ts.map(|ts| Done { ts, saw: vec![(read, saw)], wrote: vec![(write, Some(1))] })
                })
            })
            .collect();
        let all = threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
        assert_serial(all, BTreeMap::new());
    });
}

/// "Insert if absent", by way of a lookup or a scan and a blind put: one claims the key. (The second to come finds the
/// first one's placeholder and writes to it, which changes no node: found by `threads.rs`.)
#[test]
fn an_absent_key_is_claimed_once() {
    explore(1500, |kind| {
        let world = World::new(kind);
        world.fill(0..3);
        let threads: Vec<_> = (0..3u64)
            .map(|thread| {
                let mut occ = world.occ();
                thread::spawn(move || {
                    let mut saw = None;
                    let ts = attempt(&mut occ, &mut |occ| {
                        saw = None;
                        if kind.1 == IndexKind::Ordered && thread > 0 {
                            let (from, to) = (key(5), key(9));
                            let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
                            occ.scan(TABLE, range, Direction::Forward, |_, value| {
                                saw = Some(u64::from_le_bytes(value.try_into().unwrap()));
                                ControlFlow::Continue(())
                            })?;
                        } else {
                            occ.prefetch(&[(TABLE, 7)]);
                            let value = occ.get(TABLE, &key(7))?;
                            saw = value.map(|value| u64::from_le_bytes(value.try_into().unwrap()));
                        }
                        if saw.is_none() {
                            occ.put(TABLE, &key(7), &(thread + 1).to_le_bytes())
                        } else {
                            Ok(())
                        }
                    });
                    let wrote = if saw.is_none() { vec![(7, Some(thread + 1))] } else { vec![] };
                    ts.map(|ts| Done { ts, saw: vec![(7, saw)], wrote })
                })
            })
            .collect();
        let all = threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
        assert_serial(all, BTreeMap::new());
    });
}

/// Two transactions each count the keys by a scan and add one: they must not count the same.
#[test]
fn scans_see_no_phantoms() {
    for keys in [KeyKind::U64, KeyKind::Bytes] {
        let test = move || {
            let world = World::new((keys, IndexKind::Ordered));
            world.fill((0..5).map(|at| at * 2));
            let threads: Vec<_> = (0..2u64)
                .map(|thread| {
                    let mut occ = world.occ();
                    thread::spawn(move || {
                        let direction = if thread == 0 { Direction::Forward } else { Direction::Backward };
                        let mut count = 0;
                        let ts = attempt(&mut occ, &mut |occ| {
                            count = 0;
                            occ.scan(TABLE, (Bound::Unbounded, Bound::Unbounded), direction, |_, _| {
                                count += 1;
                                ControlFlow::Continue(())
                            })?;
                            occ.put(TABLE, &key(1 + 4 * thread), &[1; 8])
                        });
                        ts.map(|ts| (ts, count))
                    })
                })
                .collect();
            let mut all: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
            all.sort_unstable();
            for (at, (_, count)) in all.iter().enumerate() {
                assert_eq!(*count, 5 + at);
            }
        };
        shuttle::check_random(test, 1500);
        shuttle::check_pct(test, 700, 3);
    }
}

/// Revivals of a key race the collection of its tombstone.
#[test]
fn collection_never_takes_a_live_record() {
    explore(1500, |kind| {
        let world = World::new(kind);
        world.fill(0..1);
        let mut collector = world.occ();
        let ts = attempt(&mut collector, &mut |occ| occ.delete(TABLE, &key(0)).map(drop)).unwrap();
        let collecting = thread::spawn(move || collector.collect(ts));
        let mut reviver = world.occ();
        let reviving = thread::spawn(move || {
            attempt(&mut reviver, &mut |occ| {
                occ.prefetch(&[(TABLE, 0)]);
                assert!(occ.insert(TABLE, &key(0), &[1; 8])?);
                Ok(())
            })
            .is_some()
        });
        let mut reader = world.occ();
        attempt(&mut reader, &mut |occ| occ.get(TABLE, &key(0)).map(drop));
        collecting.join().unwrap();
        let revived = reviving.join().unwrap();
        assert_eq!(world.store.get(TABLE, &key(0)).is_some(), revived);
    });
}

/// Two streams that wrote the same keys are applied in parallel: the newer write wins, tombstones included.
#[test]
fn appliers_agree_with_the_leader() {
    explore(500, |kind| {
        let world = World::new(kind);
        let mut streams = [world.occ(), world.occ()];
        for round in 0..6u64 {
            let occ = &mut streams[(round % 2) as usize];
            occ.begin();
            let key = key(round % 3);
            if round == 4 {
                occ.delete(TABLE, &key).unwrap();
            } else {
                occ.put(TABLE, &key, &[round as u8; 20][..8 + round as usize]).unwrap();
            }
            occ.commit().unwrap();
        }
        let follower = World::new(kind).store;
        let threads: Vec<_> = streams
            .into_iter()
            .map(|mut occ| {
                let log = occ.log().take(Vec::new());
                let mut applier = Applier::new(follower.clone());
                thread::spawn(move || {
                    applier.apply(&log, Timestamp::ZERO, Timestamp::MAX).unwrap();
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(follower.digest(), world.store.digest());
    });
}

/// Keys come and go, splitting and merging, while a scan in the smallest chunks goes by: every key that stays is exported,
/// once.
#[test]
fn a_scan_misses_nothing_that_stays() {
    explore(800, |kind| {
        let world = World::new(kind);
        world.fill((0..6).map(|at| at * 10));
        let mut writer = world.occ();
        let writing = thread::spawn(move || {
            for number in [5, 15, 16, 17, 45] {
                attempt(&mut writer, &mut |occ| occ.put(TABLE, &key(number), &[1; 8]));
            }
            for number in [15, 16, 17, 5] {
                let ts = attempt(&mut writer, &mut |occ| occ.delete(TABLE, &key(number)).map(drop));
                if let Some(ts) = ts {
                    writer.collect(ts);
                }
            }
        });
        let mut seen = Vec::new();
        for part in 0..2 {
            let mut export = world.store.export(part, 2);
            let (mut chunk, mut more) = (Vec::new(), true);
            while more {
                more = export.next_chunk(1, &mut chunk);
            }
            let mut reader = Reader::new(&chunk);
            while !reader.is_empty() {
                reader.u64().unwrap();
                reader.u8().unwrap();
                seen.push(u64::from_be_bytes(reader.bytes().unwrap().try_into().unwrap()));
                reader.bytes().unwrap();
            }
        }
        writing.join().unwrap();
        for number in (0..6).map(|at| at * 10) {
            assert_eq!(seen.iter().filter(|key| **key == number).count(), 1, "key {number} of {seen:?}");
        }
    });
}
