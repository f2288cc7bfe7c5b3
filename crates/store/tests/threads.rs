//! Real threads: serializable transfers, counters and phantoms; inserts that race splits, removals and collection.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use highwater_core::{
    Abort, Clock, Direction, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction, View,
};
use highwater_store::{Applier, Importer, Occ, Store};

const KINDS: [(KeyKind, IndexKind); 4] = [
    (KeyKind::U64, IndexKind::Hash),
    (KeyKind::Bytes, IndexKind::Hash),
    (KeyKind::U64, IndexKind::Ordered),
    (KeyKind::Bytes, IndexKind::Ordered),
];
const TABLE: TableId = TableId(0);

fn store(keys: KeyKind, index: IndexKind) -> Arc<Store> {
    Store::new(Schema::new(vec![TableSpec { name: "table", keys, index }]))
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// A value that carries its number and is long enough to be torn.
fn value(number: u64, len: usize) -> Vec<u8> {
    number.to_le_bytes().iter().copied().cycle().take(len.max(8)).collect()
}

fn whole(value: &[u8]) -> bool {
    value.iter().zip(value[..8].iter().cycle()).all(|(a, b)| a == b)
}

/// A small generator of repeatable random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// Runs a transaction until it commits.
fn commit(occ: &mut Occ, mut body: impl FnMut(&mut Occ) -> Result<(), Abort>) -> Timestamp {
    loop {
        occ.begin();
        match body(occ) {
            Ok(()) => {}
            Err(Abort::Conflict) => {
                occ.abort();
                std::thread::yield_now();
                continue;
            }
            Err(abort) => panic!("{abort:?}"),
        }
        if let Ok(ts) = occ.commit() {
            return ts;
        }
        std::thread::yield_now();
    }
}

/// Starts all threads at once; each has a number and an [`Occ`].
fn in_threads<R: Send>(store: &Arc<Store>, threads: u64, body: impl Fn(u64, &mut Occ) -> R + Sync) -> Vec<R> {
    let clock = Arc::new(Clock::system());
    let barrier = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let mut occ = Occ::new(store.clone(), clock.clone());
                let (body, barrier) = (&body, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    body(thread, &mut occ)
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

#[test]
fn transfers_keep_the_total_and_values_are_never_torn() {
    const ACCOUNTS: u64 = 8;
    for (keys, index) in KINDS {
        let store = store(keys, index);
        in_threads(&store, 1, |_, occ| {
            commit(occ, |occ| (0..ACCOUNTS).try_for_each(|at| occ.put(TABLE, &key(at), &value(1000, 100))));
        });
        in_threads(&store, 3, |thread, occ| {
            let mut random = Random(thread + 1);
            let mut last = Timestamp::ZERO;
            for _ in 0..20_000 {
                let (from, to, amount) = (random.below(ACCOUNTS), random.below(ACCOUNTS), random.below(10));
                let lens = [random.below(400) as usize, random.below(400) as usize];
                let audit = random.below(4) == 0;
                let ts = commit(occ, |occ| {
                    if audit {
                        let mut total = 0;
                        for at in 0..ACCOUNTS {
                            let value = occ.get(TABLE, &key(at))?.unwrap();
                            assert!(whole(value), "a torn value was returned");
                            total += number(value);
                        }
                        // An inconsistent total may be seen, but must not commit: checked below by aborting writes.
                        if total != ACCOUNTS * 1000 {
                            occ.put(TABLE, &key(u64::MAX), b"seen!!!!")?;
                        }
                        return Ok(());
                    }
                    let have = number(occ.get(TABLE, &key(from))?.unwrap());
                    if from == to || have < amount {
                        return Ok(());
                    }
                    occ.put(TABLE, &key(from), &value(have - amount, lens[0]))?;
                    let there = number(occ.get(TABLE, &key(to))?.unwrap());
                    occ.put(TABLE, &key(to), &value(there + amount, lens[1]))
                });
                assert!(ts > last, "a worker's timestamps grow");
                last = ts;
            }
        });
        assert_eq!(store.get(TABLE, &key(u64::MAX)), None, "an audit with a wrong total committed");
        let total: u64 = (0..ACCOUNTS).map(|at| number(&store.get(TABLE, &key(at)).unwrap())).sum();
        assert_eq!(total, ACCOUNTS * 1000);
    }
}

/// Every commit's log, replayed in timestamp order on a map, explains every value that any transaction read.
#[test]
fn timestamp_order_is_a_serial_order() {
    const KEYS: u64 = 6;
    for (keys, index) in KINDS {
        let store = store(keys, index);
        let histories = in_threads(&store, 3, |thread, occ| {
            let mut random = Random(thread * 77 + 5);
            let mut history = Vec::new();
            for round in 0..20_000 {
                let (a, b, c) = (random.below(KEYS), random.below(KEYS), random.below(KEYS));
                let gone = random.below(4) == 0;
                let fresh = (thread << 32) | (round + 1);
                let mut seen = Vec::new();
                let ts = commit(occ, |occ| {
                    seen.clear();
                    if round % 2 == 0 {
                        occ.prefetch(&[a, b, c].map(|at| (TABLE, at)));
                    }
                    for at in [a, b] {
                        seen.push((at, occ.get(TABLE, &key(at))?.map(number)));
                    }
                    match () {
                        () if round % 5 == 0 => Ok(()),
                        () if gone => occ.delete(TABLE, &key(c)).map(drop),
                        () => occ.put(TABLE, &key(c), &fresh.to_le_bytes()),
                    }
                });
                let wrote = occ.wrote().then_some((c, (!gone).then_some(fresh)));
                history.push((ts, seen, wrote));
                occ.collect(Timestamp(ts.0 - 1));
            }
            history
        });
        let mut all: Vec<_> = histories.into_iter().flatten().collect();
        all.sort_by_key(|(ts, ..)| *ts);
        let mut map = BTreeMap::new();
        for (ts, seen, wrote) in all {
            for (key, value) in seen {
                assert_eq!(map.get(&key).copied(), value, "key {key} at {ts:?}, {keys:?} {index:?}");
            }
            match wrote {
                Some((key, Some(value))) => drop(map.insert(key, value)),
                Some((key, None)) => drop(map.remove(&key)),
                None => {}
            }
        }
    }
}

/// Each transaction adds a key only if a scan finds an even number of keys, and another kind only if odd: with phantoms
/// two would see the same number.
#[test]
fn scans_see_no_phantoms() {
    for keys in [KeyKind::U64, KeyKind::Bytes] {
        for direction in [Direction::Forward, Direction::Backward] {
            let store = store(keys, IndexKind::Ordered);
            let counts = in_threads(&store, 3, |thread, occ| {
                let mut random = Random(thread + 9);
                let mut counts = Vec::new();
                for _ in 0..300 {
                    let at = random.below(1 << 40);
                    let mut count = 0;
                    let mut added = false;
                    commit(occ, |occ| {
                        count = 0u64;
                        let (from, to) = (key(0), key(u64::MAX));
                        let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
                        occ.scan(TABLE, range, direction, |_, _| {
                            count += 1;
                            ControlFlow::Continue(())
                        })?;
                        added = occ.insert(TABLE, &key(at), &count.to_le_bytes())?;
                        Ok(())
                    });
                    assert!(added);
                    counts.push(count);
                }
                counts
            });
            let mut counts: Vec<_> = counts.into_iter().flatten().collect();
            counts.sort_unstable();
            assert_eq!(counts, (0..900).collect::<Vec<_>>(), "each size was seen by exactly one insert");
        }
    }
}

/// The absence of a key is protected too: of racing "insert if absent" by way of `get` and `put`, one wins.
#[test]
fn absent_keys_are_claimed_once() {
    for (keys, index) in KINDS {
        let store = store(keys, index);
        let wins = in_threads(&store, 3, |_, occ| {
            let mut wins = 0u64;
            for at in 0..20_000 {
                let mut won = false;
                commit(occ, |occ| {
                    won = occ.get(TABLE, &key(at))?.is_none();
                    if won { occ.put(TABLE, &key(at), b"mine") } else { Ok(()) }
                });
                wins += u64::from(won);
            }
            wins
        });
        assert_eq!(wins.iter().sum::<u64>(), 20_000, "{keys:?} {index:?}");
    }
}

/// Masstree's issues 35 and 40: keys were lost when an insert raced a split or a leaf's deletion. Threads insert
/// neighbouring keys, so that they meet in the same leaves; others delete and collect theirs all the time.
#[test]
fn no_key_is_lost_when_inserts_race_splits_and_removals() {
    const ROUNDS: u64 = 40_000;
    for (keys, index) in KINDS {
        let store = store(keys, index);
        in_threads(&store, 3, |thread, occ| {
            for at in 0..ROUNDS {
                let mine = at * 3 + thread;
                commit(occ, |occ| {
                    assert!(occ.insert(TABLE, &key(mine), &mine.to_le_bytes())?);
                    Ok(())
                });
                if at >= 100 && thread > 0 {
                    // Two of three threads run a queue: in at the right, out at the left.
                    let old = (at - 100) * 3 + thread;
                    let ts = commit(occ, |occ| {
                        assert!(occ.delete(TABLE, &key(old))?, "key {old} was lost");
                        Ok(())
                    });
                    occ.collect(ts);
                } else if at >= 50 {
                    let old = (at - 50) * 3 + thread;
                    commit(occ, |occ| {
                        assert_eq!(occ.get(TABLE, &key(old))?.map(number), Some(old), "key {old} was lost");
                        Ok(())
                    });
                }
            }
        });
        let mut left = Vec::new();
        store.for_each(TABLE, &mut |key, _| left.push(u64::from_be_bytes(key.try_into().unwrap())));
        left.sort_unstable();
        let kept = |at: &u64| at.is_multiple_of(3) || at / 3 >= ROUNDS - 100;
        assert_eq!(left, (0..ROUNDS * 3).filter(kept).collect::<Vec<_>>(), "{keys:?} {index:?}");
    }
}

/// A queue does not leak: index and records stay small however long it runs.
#[test]
fn a_queue_gives_its_memory_back() {
    for (keys, index) in KINDS {
        let store = store(keys, index);
        in_threads(&store, 1, |_, occ| {
            for at in 0..60_000u64 {
                let ts = commit(occ, |occ| {
                    occ.insert(TABLE, &key(at), &value(at, 64))?;
                    if at >= 100 {
                        assert!(occ.delete(TABLE, &key(at - 100))?);
                    }
                    Ok(())
                });
                occ.collect(ts);
            }
        });
        let memory = store.memory();
        assert!(memory.records < 100_000, "{keys:?} {index:?}: {memory:?}");
        assert!(memory.retired < 200_000, "{keys:?} {index:?}: {memory:?}");
        if index == IndexKind::Ordered {
            assert!(memory.index < 40_000, "{keys:?} {index:?}: {memory:?}");
        }
    }
}

/// Readers of tombstones, writers over them and their collection race on few keys; every insert that said "fresh" is
/// matched by a delete that said "there".
#[test]
fn collection_races_with_revival() {
    const KEYS: u64 = 4;
    for (keys, index) in KINDS {
        let store = store(keys, index);
        let sums = in_threads(&store, 3, |thread, occ| {
            let mut random = Random(thread + 3);
            let mut sum = [0i64; KEYS as usize];
            for _ in 0..50_000 {
                let at = random.below(KEYS);
                let add = random.below(2) == 0;
                let mut done = false;
                let ts = commit(occ, |occ| {
                    occ.prefetch(&[(TABLE, at)]);
                    done = if add {
                        occ.insert(TABLE, &key(at), &value(at, 40))?
                    } else {
                        occ.delete(TABLE, &key(at))?
                    };
                    Ok(())
                });
                sum[at as usize] += match (done, add) {
                    (false, _) => 0,
                    (true, true) => 1,
                    (true, false) => -1,
                };
                occ.collect(ts);
            }
            sum
        });
        for at in 0..KEYS {
            let sum: i64 = sums.iter().map(|sum| sum[at as usize]).sum();
            assert_eq!(sum, i64::from(store.get(TABLE, &key(at)).is_some()), "{keys:?} {index:?}");
        }
    }
}

/// Leaders commit on three threads; their logs, applied in parallel and in pieces while an export and an import run,
/// give the same content.
#[test]
fn followers_converge_whatever_the_interleaving() {
    for (keys, index) in KINDS {
        let leader = store(keys, index);
        let logs = in_threads(&leader, 3, |thread, occ| {
            let mut random = Random(thread + 21);
            for _ in 0..30_000 {
                let at = random.below(500);
                let (len, gone) = (random.below(200) as usize, random.below(3) == 0);
                commit(occ, |occ| {
                    if gone {
                        occ.delete(TABLE, &key(at)).map(drop)
                    } else {
                        occ.put(TABLE, &key(at), &value(at, len))
                    }
                });
            }
            occ.log().take(Vec::new())
        });
        let (follower, copy) = (store(keys, index), store(keys, index));
        let done = AtomicBool::new(false);
        let applied = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for log in &logs {
                let (follower, applied) = (&follower, &applied);
                scope.spawn(move || {
                    let mut applier = Applier::new(follower.clone());
                    let mut rest = &log[..];
                    let mut after = Timestamp::ZERO;
                    while !rest.is_empty() {
                        let mut transactions = highwater_core::log::Transactions::new(rest);
                        let upto = transactions.by_ref().take(97).last().unwrap().unwrap().0;
                        let result = applier.apply(rest, after, upto).unwrap();
                        assert_eq!(result.last_ts, upto);
                        rest = &rest[result.bytes..];
                        after = upto;
                        applied.fetch_add(result.transactions, Ordering::Relaxed);
                    }
                });
            }
            scope.spawn(|| {
                let mut importer = Importer::new(copy.clone());
                while !done.load(Ordering::Relaxed) {
                    let mut export = follower.export(0, 1);
                    let mut chunk = Vec::new();
                    while export.next_chunk(1000, &mut chunk) {
                        importer.import(&chunk).unwrap();
                        chunk.clear();
                    }
                    importer.import(&chunk).unwrap();
                    if applied.load(Ordering::Relaxed) >= 60_000 {
                        done.store(true, Ordering::Relaxed);
                    }
                }
            });
        });
        assert_eq!(follower.digest(), leader.digest(), "{keys:?} {index:?}");
        // The log settles what the fuzzy copy missed.
        let mut applier = Applier::new(copy.clone());
        for log in &logs {
            applier.apply(log, Timestamp::ZERO, Timestamp::MAX).unwrap();
        }
        assert_eq!(copy.digest(), leader.digest(), "{keys:?} {index:?}");
    }
}
