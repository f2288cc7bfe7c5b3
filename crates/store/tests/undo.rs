//! Rolling back what a deposed leader executed above the final mark.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater_core::{Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction, View};
use highwater_store::{Occ, Store};

const HASH: TableId = TableId(0);
const TREE: TableId = TableId(1);

fn schema() -> Schema {
    Schema::new(vec![
        TableSpec { name: "hash", keys: KeyKind::U64, index: IndexKind::Hash },
        TableSpec { name: "tree", keys: KeyKind::Bytes, index: IndexKind::Ordered },
    ])
}

fn contents(store: &Store) -> BTreeMap<(u8, Vec<u8>), Vec<u8>> {
    let mut all = BTreeMap::new();
    for table in [HASH, TREE] {
        store.for_each(table, &mut |key, value| {
            all.insert((table.0, key.to_vec()), value.to_vec());
        });
    }
    all
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// One random transaction; its timestamp.
fn run(occ: &mut Occ, random: &mut Random) -> Timestamp {
    occ.begin();
    for _ in 0..1 + random.below(4) {
        let number = random.below(40);
        let key = number.to_be_bytes();
        let table = if random.below(2) == 0 { HASH } else { TREE };
        let value = vec![random.below(256) as u8; random.below(200) as usize];
        if random.below(4) == 0 {
            occ.delete(table, &key).expect("nobody else is at work");
        } else {
            occ.put(table, &key, &value).expect("nobody else is at work");
        }
    }
    occ.commit().expect("nobody else is at work")
}

/// Two workers take turns; all above a random mark is rolled back; the rest is as if the others had never run.
/// Once: the next leader's timestamps need not exceed those that are rolled back: a write of the next epoch that came
/// before the roll-back was skipped as older, or undone. Now nothing is applied before all workers have rolled back.
#[test]
fn rolling_back_restores_exactly_what_the_mark_preserves() {
    for seed in 1..400u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let clock = Arc::new(Clock::counter());
        let store = Store::new(schema());
        let mut workers: Vec<Occ> = (0..2).map(|_| Occ::new(store.clone(), clock.clone())).collect();
        workers.iter_mut().for_each(|occ| occ.keep_undo(true));
        let mut states = vec![(Timestamp::ZERO, contents(&store))];
        for _ in 0..random.below(60) {
            let worker = random.below(2) as usize;
            let ts = run(&mut workers[worker], &mut random);
            states.push((ts, contents(&store)));
        }
        let (mark, expected) = states[random.below(states.len() as u64) as usize].clone();
        // The mark has been passing by; what is released is forgotten, and its tombstones are collected.
        let seen = Timestamp(random.below(mark.0 + 1));
        for occ in &mut workers {
            occ.forget_undo(seen);
            occ.collect(seen);
        }
        let first = random.below(2) as usize;
        workers[first].roll_back(mark);
        workers[1 - first].roll_back(mark);
        assert_eq!(contents(&store), expected, "seed {seed}");
        // Restored tombstones and placeholders go away.
        for _ in 0..10 {
            for occ in &mut workers {
                occ.collect(clock.now());
            }
        }
        assert_eq!(contents(&store), expected, "seed {seed} after collecting");
    }
}

/// Nothing is unlinked that a roll-back has to find, though the caller asks for it; and a roll-back puts back what is
/// missing, whatever has become of the record's memory.
#[test]
fn a_roll_back_finds_what_was_collected_too_early() {
    for table in [HASH, TREE] {
        let clock = Arc::new(Clock::counter());
        let store = Store::new(schema());
        let mut workers: Vec<Occ> = (0..2).map(|_| Occ::new(store.clone(), clock.clone())).collect();
        let key = |number: u64| number.to_be_bytes();
        let write = |occ: &mut Occ, number: u64, value: Option<&[u8]>| -> Timestamp {
            occ.begin();
            match value {
                Some(value) => occ.put(table, &key(number), value).unwrap(),
                None => drop(occ.delete(table, &key(number)).unwrap()),
            }
            occ.commit().unwrap()
        };
        let mut mark = Timestamp::ZERO;
        for number in 0..100 {
            mark = write(&mut workers[0], number, Some(&[number as u8; 100]));
        }
        let expected = contents(&store);
        workers.iter_mut().for_each(|occ| occ.keep_undo(true));
        for number in 0..100 {
            write(&mut workers[(number % 2) as usize], number, None);
        }
        // The mark has not moved, but the floor is said to have.
        for _ in 0..20 {
            for occ in &mut workers {
                occ.collect(Timestamp::MAX);
            }
        }
        // New records in whatever memory has become free, of the same keys and of others.
        for number in 0..300 {
            write(&mut workers[(number / 2 % 2) as usize], number, Some(&[0xee; 100]));
        }
        // The one that wrote a key anew first: to it, nothing seems to have been there before.
        workers[1].roll_back(mark);
        workers[0].roll_back(mark);
        assert_eq!(contents(&store), expected, "{table:?}");
        drop(workers);
        let mut last = Occ::new(store.clone(), clock.clone());
        for _ in 0..20 {
            last.collect(Timestamp::MAX);
        }
        assert_eq!(contents(&store), expected, "{table:?}");
    }
}

/// Workers that are told different marks restore something odd, but touch no memory that is not theirs. (They kept
/// pointers to records once.)
#[test]
fn a_roll_back_to_different_marks_is_sound() {
    for seed in 1..300u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let clock = Arc::new(Clock::counter());
        let store = Store::new(schema());
        let mut workers: Vec<Occ> = (0..3).map(|_| Occ::new(store.clone(), clock.clone())).collect();
        let mut stamps = vec![Timestamp::ZERO];
        for _ in 0..4 {
            workers.iter_mut().for_each(|occ| occ.keep_undo(true));
            for _ in 0..40 {
                stamps.push(run(&mut workers[random.below(3) as usize], &mut random));
            }
            for occ in &mut workers {
                occ.roll_back(stamps[random.below(stamps.len() as u64) as usize]);
                for _ in 0..10 {
                    occ.collect(Timestamp::MAX);
                }
            }
            // Everything that is there can be read, and is whole.
            contents(&store);
            store.digest();
        }
        let memory = store.memory();
        assert_eq!(memory.used() + memory.free, memory.reserved);
        assert_eq!(memory.before_images, 0);
    }
}
