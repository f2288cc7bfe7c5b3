//! Values of a size that the system's allocator keeps for itself when they are freed. A process of its own, for its resident
//! memory.
#![cfg(all(target_os = "linux", target_env = "gnu", not(shuttle), not(loom)))]
#![allow(clippy::unwrap_used)] // a test may fail so

use std::sync::Arc;

use highwater_core::{Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Transaction};
use highwater_store::{Occ, Store};

const TABLE: TableId = TableId(0);
const MIB: u64 = 1 << 20;

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Filled with 30 kB values and emptied, a replica kept all of that memory, and had too much of it when it was filled again
/// with others.
/// Once: values of 4 to 256 KiB that were deleted stayed with the system's allocator: all of a replica's 145 MiB resident
/// after filling with 30 kB values and emptying, and the next fill came on top; of three replicas in a group of 1 GB the
/// leader was gone in the fifth round, presumably killed for it.
#[test]
fn what_large_values_took_goes_back_to_the_system() {
    let spec = TableSpec { name: "table", keys: KeyKind::U64, index: IndexKind::Hash };
    let store = Store::new(Schema::new(vec![spec]));
    let mut occ = Occ::new(store.clone(), Arc::new(Clock::counter()));
    let before = resident();
    let value = vec![7; 30_000];
    let keys = || (0..4000u64).map(u64::to_be_bytes);
    for key in keys() {
        occ.begin();
        occ.put(TABLE, &key, &value).unwrap();
        occ.commit().unwrap();
        occ.log().take(Vec::new());
    }
    let full = resident();
    assert!(full > before + 100 * MIB, "{full} after {before}");
    let mut last = Default::default();
    for key in keys() {
        occ.begin();
        assert!(occ.delete(TABLE, &key).unwrap());
        last = occ.commit().unwrap();
        occ.log().take(Vec::new());
    }
    // As a node's threads do.
    let mut calls = 0;
    while resident() > before + 40 * MIB {
        occ.collect(last);
        store.provision(u64::MAX);
        calls += 1;
        let (stays, was) = ((resident() - before) / MIB, (full - before) / MIB);
        assert!(calls < 10_000, "{stays} MiB of {was} MiB stay: {:?}", store.memory());
    }
}
