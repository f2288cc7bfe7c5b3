//! State transfer: bounded chunks that together miss nothing, whatever the values and whatever moves meanwhile.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater_core::codec::Reader;
use highwater_core::{Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction};
use highwater_store::{Importer, Occ, Store};

const TABLE: TableId = TableId(0);
const KINDS: [(KeyKind, IndexKind); 4] = [
    (KeyKind::U64, IndexKind::Hash),
    (KeyKind::Bytes, IndexKind::Hash),
    (KeyKind::U64, IndexKind::Ordered),
    (KeyKind::Bytes, IndexKind::Ordered),
];

fn store((keys, index): (KeyKind, IndexKind)) -> Arc<Store> {
    Store::new(Schema::new(vec![TableSpec { name: "table", keys, index }]))
}

fn put(occ: &mut Occ, key: &[u8], value: &[u8]) {
    occ.begin();
    occ.put(TABLE, key, value).unwrap();
    occ.commit().unwrap();
    occ.log().take(Vec::new());
}

/// The whole state in chunks; each is within `budget` and one record of `value` bytes.
fn chunks(store: &Arc<Store>, parts: usize, budget: usize, value: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for part in 0..parts {
        let mut export = store.export(part, parts);
        let mut more = true;
        while more {
            let mut chunk = Vec::new();
            more = export.next_chunk(budget, &mut chunk);
            assert!(chunk.len() < budget + value + 64, "a chunk of {} bytes", chunk.len());
            all.push(chunk);
        }
    }
    all
}

fn keys_in(chunks: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for chunk in chunks {
        let mut reader = Reader::new(chunk);
        while !reader.is_empty() {
            reader.u64().unwrap();
            reader.u8().unwrap();
            keys.push(reader.bytes().unwrap().to_vec());
            reader.bytes().unwrap();
        }
    }
    keys
}

fn assert_copies(store: &Arc<Store>, kind: (KeyKind, IndexKind), chunks: &[Vec<u8>]) {
    let copy = self::store(kind);
    let mut importer = Importer::new(copy.clone());
    for chunk in chunks {
        importer.import(chunk).unwrap();
    }
    assert_eq!(copy.digest(), store.digest(), "{kind:?}");
    let keys = keys_in(chunks);
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "{kind:?}: a key came twice");
}

/// Forty values of a megabyte are in one segment or leaf. (20 of 16 MB were one chunk of 320 MB: more than a frame.)
#[test]
fn a_chunk_is_bounded_whatever_the_values() {
    const VALUE: usize = 1 << 20;
    for kind in KINDS {
        let store = store(kind);
        let mut occ = Occ::new(store.clone(), Arc::new(Clock::counter()));
        for number in 0..40u64 {
            put(&mut occ, &number.to_be_bytes(), &vec![number as u8; VALUE]);
            put(&mut occ, &(1000 + number).to_be_bytes(), &[]);
        }
        for (parts, budget) in [(1, 64 << 10), (3, 1), (2, 3 << 20)] {
            assert_copies(&store, kind, &chunks(&store, parts, budget, VALUE));
        }
    }
}

/// Keys whose 64-bit hashes are all the same (easily made, for byte strings): a chunk ends among them, too.
#[test]
fn a_chunk_ends_among_keys_of_one_hash() {
    let kind = (KeyKind::Bytes, IndexKind::Hash);
    let store = store(kind);
    let mut occ = Occ::new(store.clone(), Arc::new(Clock::counter()));
    let (k0, k1) = (0x9e37_79b9_7f4a_7c15u64, 0xd6e8_feb8_6659_fd93u64);
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    for number in 0..500u64 {
        // The second word takes the hash's state to zero, whatever the first one was.
        let state = fold(k0 ^ 16u64.wrapping_mul(k1) ^ number, k1);
        let key = [number.to_le_bytes(), state.to_le_bytes()].concat();
        put(&mut occ, &key, &[7; 1000]);
    }
    let hashes = |part| keys_in(&[chunks(&store, 64, 1 << 20, 1000)].concat()[part..=part]).len();
    assert!((0..64).any(|part| hashes(part) == 500), "all are in one of 64 parts");
    let chunks = chunks(&store, 1, 4000, 1000);
    assert!(chunks.len() >= 100);
    assert_copies(&store, kind, &chunks);
}

/// While other keys come and go, splitting and merging what the scan goes through, every key that stays is exported.
#[test]
fn what_stays_is_exported_whatever_moves() {
    const STAY: u64 = 2000;
    for kind in KINDS {
        let store = store(kind);
        let clock = Arc::new(Clock::counter());
        let mut occ = Occ::new(store.clone(), clock.clone());
        let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        (0..STAY).for_each(|number| put(&mut occ, &key(number), &[1; 30]));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 1..=2u64 {
                let (done, mut occ) = (&done, Occ::new(store.clone(), clock.clone()));
                scope.spawn(move || {
                    let mut last = Timestamp::ZERO;
                    for round in 0.. {
                        for number in 0..3000 {
                            if done.load(Ordering::Relaxed) {
                                return;
                            }
                            occ.begin();
                            let key = key(thread << 32 | number);
                            let written = if round % 2 == 0 {
                                occ.put(TABLE, &key, &[2; 30])
                            } else {
                                occ.delete(TABLE, &key).map(drop)
                            };
                            match written.and_then(|()| occ.commit()) {
                                Ok(ts) => last = ts,
                                Err(_) => occ.abort(),
                            }
                            occ.collect(last);
                            occ.log().take(Vec::new());
                        }
                    }
                });
            }
            let expected: BTreeSet<_> = (0..STAY).map(|number| key(number).to_vec()).collect();
            for scan in 0..30 {
                let parts = 1 + scan % 2;
                let exported: BTreeSet<_> = keys_in(&chunks(&store, parts, 500, 64)).into_iter().collect();
                let missing = expected.difference(&exported).count();
                assert_eq!(missing, 0, "{kind:?}: scan {scan} missed keys");
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
