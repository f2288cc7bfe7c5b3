//! How long one huge transaction takes; and what another worker notices of it.
//!
//! ```text
//! cargo bench -p highwater-store --bench large [-- keys=N]
//! ```
//!
//! A worker does nothing else meanwhile: so this is how long its other clients wait. Those of other workers should not
//! notice, but for the caches and the clock's speed: `neighbour` is the longest of the small transactions that a second
//! thread runs meanwhile on the same table.
#![cfg(not(any(loom, shuttle)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater_core::{Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Transaction};
use highwater_store::{Occ, Store};

const TABLE: TableId = TableId(0);

/// Nanoseconds of the monotonic clock.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// As `redis-benchmark` and most applications name them.
fn key(number: u64) -> Vec<u8> {
    format!("counter:{number:012}").into_bytes()
}

/// What `INCR` does.
fn increment(occ: &mut Occ, key: &[u8]) {
    let old = occ.get(TABLE, key).expect("nobody is in the way");
    let old = old.map_or(0, |text| text.iter().fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0')));
    occ.put(TABLE, key, (old + 1).to_string().as_bytes()).expect("nobody is in the way");
}

fn timed(name: &str, keys: u64, work: impl FnOnce()) {
    let start = now();
    work();
    let took = now() - start;
    println!("{name}: {keys} keys in {:.1} ms, {} ns each", took as f64 / 1e6, took / keys);
}

/// Small transactions of their own keys until told to stop; the longest.
fn neighbour(store: Arc<Store>, clock: Arc<Clock>, stop: &AtomicBool) -> (u64, u64) {
    let mut occ = Occ::new(store, clock);
    let (mut count, mut longest) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let start = now();
        occ.begin();
        increment(&mut occ, &key(u64::MAX - count % 100_000));
        // A conflict is possible where the two meet in a bucket that is split.
        let _ = occ.commit();
        occ.log().take(Vec::new());
        longest = longest.max(now() - start);
        count += 1;
    }
    (count, longest)
}

fn main() {
    let keys = std::env::args().find_map(|arg| arg.strip_prefix("keys=")?.parse().ok()).unwrap_or(100_000);
    for (name, index) in [("hash", IndexKind::Hash), ("ordered", IndexKind::Ordered)] {
        let store = Store::new(Schema::new(vec![TableSpec { name: "keys", keys: KeyKind::Bytes, index }]));
        let clock = Arc::new(Clock::system());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| neighbour(store.clone(), clock.clone(), &stop));
            let mut occ = Occ::new(store.clone(), clock.clone());
            for what in ["new", "existing"] {
                timed(&format!("{name}: MULTI of INCRs, {what}"), keys, || {
                    occ.begin();
                    (0..keys).for_each(|at| increment(&mut occ, &key(at)));
                    occ.commit().expect("nobody else writes these keys");
                });
                occ.log().take(Vec::new());
            }
            timed(&format!("{name}: MGET"), keys, || {
                let mut reply = Vec::new();
                occ.begin();
                for at in 0..keys {
                    reply.extend_from_slice(
                        occ.get(TABLE, &key(at)).expect("not locked").expect("it is there"),
                    );
                }
                occ.commit().expect("nobody else writes these keys");
            });
            stop.store(true, Ordering::Relaxed);
            let (count, longest) = other.join().expect("it ends when it is told to");
            println!("{name}: neighbour, {count} transactions, the longest {:.2} ms", longest as f64 / 1e6);
        });
    }
}
