//! A scan while others write: with the log from the floor on, in any order, it is the store.

use highwater_core::{Random, Timestamp};
use highwater_disk::SimulatedDisk;
use highwater_disk::checkpoint::{PartWriter, Scan, WriteStep, Writer};
use highwater_store::Applier;
use proptest::prelude::*;

use super::support::{Leader, PLENTY, TABLES, load, schema};

/// Writes something: new keys, overwritten and deleted ones.
fn write_some(leader: &mut Leader, random: &mut Random, keys: u64) {
    let table = random.below(TABLES.into()) as u8;
    let key = random.below(keys).to_be_bytes();
    let value = vec![random.bits() as u8; random.below(60) as usize];
    leader.write(table, &key, (!random.one_in(3)).then_some(&value));
}

/// Applies what the log has above `floor` and up to `upto`, in random order.
fn replay(applier: &mut Applier, leader: &Leader, floor: Timestamp, upto: Timestamp, random: &mut Random) {
    let wanted = |(ts, _): &&(Timestamp, Vec<u8>)| *ts > floor && *ts <= upto;
    let mut bodies: Vec<&Vec<u8>> = leader.log.iter().filter(wanted).map(|(_, body)| body).collect();
    while !bodies.is_empty() {
        let body = bodies.swap_remove(random.below(bodies.len() as u64) as usize);
        applier.apply(body, floor, upto).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_scan_and_the_log_make_the_store(
        seed in any::<u64>(),
        keys in prop_oneof![1u64..20, 20u64..2000],
        before in 0usize..1500,
        busy in 0u64..12,
        parts in 1u16..5,
        budget in 1usize..3000,
    ) {
        let mut random = Random::new(seed);
        let (disk, mut leader) = (SimulatedDisk::new(seed), Leader::new(schema()));
        (0..before).for_each(|_| write_some(&mut leader, &mut random, keys));
        let floor = leader.position();
        let scan = Scan { floor, parts, expected_bytes: random.below(100_000), from_ballast: false };
        let (writer, writing) = Writer::begin(&disk, &leader.store, scan).unwrap();
        let mut writing: Vec<Option<PartWriter<_>>> = writing.into_iter().map(Some).collect();
        let mut written = Vec::new();
        // Whichever part is next, and writes between the chunks.
        while written.len() < parts.into() {
            let at = random.below(writing.len() as u64) as usize;
            if let Some(part) = writing[at].take() {
                match part.step(budget).unwrap() {
                    WriteStep::More(part) => writing[at] = Some(part),
                    WriteStep::Done(part) => written.push(part),
                }
                (0..random.below(busy + 1)).for_each(|_| write_some(&mut leader, &mut random, keys));
            }
        }
        let (complete_at, complete) = (leader.position(), leader.store.digest());
        let manifest = writer.publish(&disk, written, complete_at, Vec::new()).unwrap();
        (0..100).for_each(|_| write_some(&mut leader, &mut random, keys));
        disk.crash();

        let loaded = load(&disk, schema(), PLENTY).unwrap();
        let (found, store) = loaded.found.unwrap();
        prop_assert_eq!(&found, &manifest);
        let mut applier = Applier::new(store.clone());
        replay(&mut applier, &leader, found.floor, complete_at, &mut random);
        prop_assert_eq!(store.digest(), complete, "as it was when the scan ended");
        replay(&mut applier, &leader, found.floor, Timestamp::MAX, &mut random);
        prop_assert_eq!(store.digest(), leader.store.digest(), "as it is now");
    }
}

/// The other way round: what is loaded late meets what the log brought, and loses where it is older.
#[test]
fn a_part_may_be_loaded_after_the_log() {
    let mut random = Random::new(5);
    let (disk, mut leader) = (SimulatedDisk::new(5), Leader::new(schema()));
    (0..800).for_each(|_| write_some(&mut leader, &mut random, 200));
    let floor = leader.position();
    super::support::publish(&disk, &leader, super::support::SMALL).unwrap();
    (0..800).for_each(|_| write_some(&mut leader, &mut random, 200));

    let store = highwater_store::Store::new(schema());
    let mut loader = highwater_disk::checkpoint::Loader::new(&disk).unwrap();
    let loading = loader.next(&disk, &store, PLENTY).unwrap().unwrap();
    let mut applier = Applier::new(store.clone());
    for (at, mut part) in loading.parts.into_iter().enumerate() {
        if at == 1 {
            replay(&mut applier, &leader, floor, Timestamp::MAX, &mut random);
        }
        while part.step().unwrap() {}
    }
    assert_eq!(store.digest(), leader.store.digest());
}

/// The scan alone is no state: without the log this would not be the store. (So the tests above test something.)
#[test]
fn without_the_log_a_scan_is_no_state() {
    let (disk, mut leader) = (SimulatedDisk::new(5), Leader::new(schema()));
    let mut random = Random::new(6);
    (0..800).for_each(|_| write_some(&mut leader, &mut random, 200));
    let scan = Scan { floor: leader.position(), parts: 1, expected_bytes: 0, from_ballast: false };
    let (writer, mut parts) = Writer::begin(&disk, &leader.store, scan).unwrap();
    let mut part = parts.remove(0);
    let written = loop {
        match part.step(300).unwrap() {
            WriteStep::More(more) => part = more,
            WriteStep::Done(written) => break written,
        }
        (0..20).for_each(|_| write_some(&mut leader, &mut random, 200));
    };
    writer.publish(&disk, vec![written], leader.position(), Vec::new()).unwrap();
    let loaded = load(&disk, schema(), PLENTY).unwrap();
    assert_ne!(loaded.digest(), Some(leader.store.digest()));
}
