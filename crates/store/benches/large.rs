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

use highwater_core::{Abort, Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Transaction};
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
fn key(mut number: u64) -> [u8; 20] {
    let mut key = *b"counter:000000000000";
    for digit in key[8..].iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    key
}

/// What `INCR` does.
fn increment(occ: &mut Occ, key: &[u8]) -> Result<(), Abort> {
    let old = occ.get(TABLE, key)?;
    let old = old.map_or(0, |text| text.iter().fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0')));
    occ.put(TABLE, key, (old + 1).to_string().as_bytes())
}

/// The attempt that commits; and how many did not. The neighbour's keys are others, but stand in the same buckets and leaves:
/// that a key is absent is validated by these.
fn timed(name: &str, keys: u64, occ: &mut Occ, work: impl Fn(&mut Occ) -> Result<(), Abort>) {
    let mut conflicts = 0;
    loop {
        let start = now();
        occ.begin();
        let ended = work(occ).and_then(|()| occ.commit());
        let took = now() - start;
        match ended {
            Ok(_) => {
                occ.log().take(Vec::new());
                println!(
                    "{name}: {keys} keys in {:.1} ms, {} ns each ({conflicts} conflicts before)",
                    took as f64 / 1e6,
                    took / keys
                );
                return;
            }
            Err(Abort::Conflict) => {
                occ.abort();
                conflicts += 1;
            }
            Err(why) => panic!("{name}: {why:?}"),
        }
    }
}

/// Ends the neighbour, also if the transactions beside it panic.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Small transactions of their own keys until told to stop; the longest.
fn neighbour(store: Arc<Store>, clock: Arc<Clock>, stop: &AtomicBool) -> (u64, u64) {
    let mut occ = Occ::new(store, clock);
    let (mut count, mut longest, mut log) = (0, 0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let start = now();
        occ.begin();
        // A conflict is possible where the two meet.
        if increment(&mut occ, &key(u64::MAX - count % 100_000)).is_err() {
            occ.abort();
        } else {
            let _ = occ.commit();
        }
        log = occ.log().take(log);
        log.clear();
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
            let ending = StopOnDrop(&stop);
            for what in ["new", "existing"] {
                timed(&format!("{name}: MULTI of INCRs, {what}"), keys, &mut occ, |occ| {
                    (0..keys).try_for_each(|at| increment(occ, &key(at)))
                });
            }
            timed(&format!("{name}: MGET"), keys, &mut occ, |occ| {
                let mut reply = Vec::new();
                for at in 0..keys {
                    reply.extend_from_slice(occ.get(TABLE, &key(at))?.expect("it is there"));
                }
                Ok(())
            });
            drop(ending);
            let (count, longest) = other.join().expect("it ends when it is told to");
            println!("{name}: neighbour, {count} transactions, the longest {:.2} ms", longest as f64 / 1e6);
        });
    }
}
