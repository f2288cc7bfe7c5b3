//! What the workers and the controller of one replica share, over all executions that the memory model allows.
//!
//! Each test has a plain word, written and read with `Relaxed`, in the place of what the protocol vouches for: rows of the
//! store, a kept version, the content of a log. Who believes the protocol must find the word as it says.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p highwater-engine-rolis --release --test loom`
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use highwater_consensus::{Members, Voter};
use highwater_core::{EntryIndex, Epoch, Incarnation, NodeId, StreamId, Timestamp};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use horizon::{Horizon, Lives};
use watermark::{Arrival, OpenClaim, Start, Watermark};

// The crate itself stands on a store, of which loom has little. These files do not, and are compiled here.
#[path = "../src/facts.rs"]
#[allow(dead_code, reason = "told by hooks that loom does not get to")]
mod facts;
#[path = "../src/hooks.rs"]
#[allow(dead_code, reason = "most are called where loom does not get to")]
mod hooks;
#[path = "../src/reads/horizon.rs"]
#[allow(dead_code, reason = "the crate uses all of it")]
mod horizon;
#[cfg(feature = "planted")]
#[path = "../src/planted.rs"]
mod planted;
#[path = "../src/watermark/mod.rs"]
#[allow(dead_code, reason = "the crate uses all of it")]
mod watermark;

const FIRST: StreamId = StreamId(0);
const SECOND: StreamId = StreamId(1);

/// As the time-stamp counter: later readings are larger, and reading it orders nothing.
fn now(clock: &AtomicU64) -> Timestamp {
    Timestamp(clock.fetch_add(1, Ordering::Relaxed) + 1)
}

fn start_of(epoch: u64, index: u64, base: u64) -> Start {
    let voter = Voter { node: NodeId(0), incarnation: Incarnation(1) };
    let members = Members::new(Epoch(epoch), vec![voter]);
    Start { epoch: Epoch(epoch), index: EntryIndex(index), base: Timestamp(base), members }
}

fn arrival(starts: Vec<Start>, last: u64, claims: Vec<OpenClaim>) -> Arrival {
    Arrival { starts, last: EntryIndex(last), claims }
}

/// Two streams in epoch 1, which begins at 0 in both.
fn in_epoch_one() -> Arc<Watermark> {
    let watermark = Arc::new(Watermark::new(2));
    let members = start_of(1, 1, 0).members;
    watermark.restart(Epoch(1), members, Timestamp(0), &[EntryIndex(1), EntryIndex(1)]);
    watermark
}

/// A worker that was quiet commits again while another one claims that it is silent: what it commits comes after the
/// claim, or there is no claim.
#[test]
fn a_claim_about_a_quiet_worker_is_true() {
    loom::model(|| {
        let watermark = in_epoch_one();
        let clock = Arc::new(AtomicU64::new(0));
        watermark.go_quiet(FIRST, EntryIndex(1));
        let worker = {
            let (watermark, clock) = (watermark.clone(), clock.clone());
            thread::spawn(move || {
                let _ = watermark.unquiet(FIRST);
                now(&clock)
            })
        };
        let closed = now(&clock);
        let claimed = watermark.quiet_index(FIRST).is_some();
        let committed = worker.join().unwrap();
        assert!(!claimed || committed > closed, "claimed up to {closed}, committed at {committed}");
    });
}

/// The same if the worker's clock went back meanwhile: it hears of the claim, whatever its clock shows.
/// Once: a worker that had been quiet while the clock went back could commit below what others had claimed of its stream:
/// released before it was decided.
#[test]
fn a_claim_is_true_even_if_the_clock_went_back() {
    loom::model(|| {
        let watermark = in_epoch_one();
        watermark.go_quiet(FIRST, EntryIndex(1));
        let worker = {
            let watermark = watermark.clone();
            // Its next timestamp exceeds this.
            thread::spawn(move || watermark.unquiet(FIRST))
        };
        let closed = Timestamp(10);
        watermark.claiming(SECOND, closed);
        let claimed = watermark.quiet_index(FIRST).is_some();
        let floor = worker.join().unwrap();
        assert!(!claimed || floor >= closed, "claimed up to {closed}, next above {floor}");
    });
}

/// Whoever sees a worker quiet sees the whole of its last entry.
#[test]
fn a_quiet_worker_names_its_last_entry() {
    loom::model(|| {
        let watermark = in_epoch_one();
        let log = Arc::new(AtomicU64::new(0));
        let worker = {
            let (watermark, log) = (watermark.clone(), log.clone());
            thread::spawn(move || {
                for last in [2, 3] {
                    let _ = watermark.unquiet(FIRST);
                    log.store(last, Ordering::Relaxed);
                    watermark.go_quiet(FIRST, EntryIndex(last));
                }
            })
        };
        if let Some(last) = watermark.quiet_index(FIRST) {
            assert!(log.load(Ordering::Relaxed) >= last.0);
        }
        worker.join().unwrap();
    });
}

/// Everything at or below the applied floor is installed, whether a stream says so by its own entries or another one by
/// a claim.
#[test]
fn what_is_at_or_below_the_applied_floor_is_installed() {
    loom::model(|| {
        let watermark = in_epoch_one();
        let installed = Arc::new(AtomicU64::new(0));
        let owner = {
            let (watermark, installed) = (watermark.clone(), installed.clone());
            thread::spawn(move || {
                // Looks at an entry with a transaction at 10, then installs it.
                watermark.publish(FIRST, EntryIndex(2), Timestamp(10), true);
                installed.store(10, Ordering::Relaxed);
                watermark.publish_applied(FIRST, Timestamp(10), true);
            })
        };
        let claimer = {
            let watermark = watermark.clone();
            thread::spawn(move || {
                // An entry of the second stream, closed up to 20, which claims that the first is silent behind its entry 2.
                watermark.publish(SECOND, EntryIndex(2), Timestamp(20), false);
                let claim = OpenClaim { stream: FIRST, index: EntryIndex(2), closed: Timestamp(20) };
                watermark.claim(claim);
            })
        };
        let floor = watermark.applied_floor();
        assert!(floor < Timestamp(10) || installed.load(Ordering::Relaxed) == 10, "floor {floor}");
        owner.join().unwrap();
        claimer.join().unwrap();
        assert!(watermark.applied_floor() >= Timestamp(10));
    });
}

/// A claim counts only where its index is decided; then a reader of the mark finds all that is below it.
#[test]
fn below_the_mark_nothing_is_missing() {
    loom::model(|| {
        let watermark = in_epoch_one();
        let decided = Arc::new(AtomicU64::new(1));
        let owner = {
            let (watermark, decided) = (watermark.clone(), decided.clone());
            thread::spawn(move || {
                decided.store(2, Ordering::Relaxed);
                watermark.publish(FIRST, EntryIndex(2), Timestamp(10), true);
            })
        };
        let claimer = {
            let watermark = watermark.clone();
            thread::spawn(move || {
                watermark.publish(SECOND, EntryIndex(2), Timestamp(20), false);
                watermark.claim(OpenClaim { stream: FIRST, index: EntryIndex(2), closed: Timestamp(20) })
            })
        };
        let mark = watermark.mark_in(Epoch(1)).unwrap();
        assert!(mark < Timestamp(10) || decided.load(Ordering::Relaxed) == 2, "mark {mark}");
        owner.join().unwrap();
        let counted = claimer.join().unwrap();
        assert_eq!(watermark.mark_in(Epoch(1)), Some(Timestamp(if counted { 20 } else { 10 })));
    });
}

/// A worker asks for the mark of an epoch while the last stream leaves it: the answer never exceeds the final mark, and
/// there is one once the epoch has changed.
#[test]
fn the_mark_of_an_epoch_never_passes_its_final_mark() {
    loom::model(|| {
        let watermark = in_epoch_one();
        watermark.publish(FIRST, EntryIndex(2), Timestamp(10), true);
        assert!(!watermark.arrive(FIRST, arrival(vec![start_of(2, 3, 50)], 2, Vec::new())));
        let last = {
            let watermark = watermark.clone();
            thread::spawn(move || {
                watermark.publish(SECOND, EntryIndex(2), Timestamp(12), true);
                assert!(watermark.arrive(SECOND, arrival(vec![start_of(2, 3, 50)], 2, Vec::new())));
                watermark.publish(SECOND, EntryIndex(4), Timestamp(60), true);
            })
        };
        match watermark.mark_in(Epoch(1)) {
            Some(mark) => assert!(mark <= Timestamp(10), "mark {mark}"),
            // Whoever finds that it has ended finds all of that, for it waits at the lock that the change holds.
            None => {
                assert_eq!(watermark.final_mark(Epoch(1)), Some(Timestamp(10)));
                assert_eq!(watermark.members().map(|members| members.epoch), Some(Epoch(2)));
            }
        }
        last.join().unwrap();
        assert_eq!(watermark.mark_in(Epoch(2)), Some(Timestamp(50)));
    });
}

/// Both streams arrive at once: the epoch changes once, for both, and claims that came with them count.
#[test]
fn streams_that_arrive_together_agree_on_the_final_mark() {
    loom::model(|| {
        let watermark = in_epoch_one();
        let arrive = |stream: StreamId, closed: u64, claims: Vec<OpenClaim>| {
            let watermark = watermark.clone();
            thread::spawn(move || {
                watermark.publish(stream, EntryIndex(2), Timestamp(closed), true);
                watermark.arrive(stream, arrival(vec![start_of(2, 3, 50)], 2, claims))
            })
        };
        let claim = OpenClaim { stream: FIRST, index: EntryIndex(2), closed: Timestamp(20) };
        let (first, second) = (arrive(FIRST, 10, Vec::new()), arrive(SECOND, 20, vec![claim]));
        let changed = [first.join().unwrap(), second.join().unwrap()];
        assert!(changed.contains(&true) && watermark.epoch() == Epoch(2));
        assert_eq!(watermark.final_mark(Epoch(1)), Some(Timestamp(20)));
    });
}

/// Appliers that go past the timestamp of a snapshot know that it is pinned; where it is pinned nobody has been.
#[test]
fn nobody_passes_a_pin_that_he_does_not_see() {
    // Three threads that exchange: with every schedule it takes 15 s; mistakes show with far fewer preemptions.
    let mut schedules = loom::model::Builder::new();
    schedules.preemption_bound = Some(3);
    schedules.check(|| {
        let horizon = Arc::new(Horizon::default());
        // What the store knows of pins; 0: there is none.
        let pinned = Arc::new(AtomicU64::new(0));
        let applier = |wanted: u64| {
            let (horizon, pinned) = (horizon.clone(), pinned.clone());
            thread::spawn(move || {
                let bound = horizon.admit(Timestamp(wanted));
                (bound.0, pinned.load(Ordering::Relaxed))
            })
        };
        let (one, two) = (applier(10), applier(20));
        let at = horizon.hold().0.max(5);
        pinned.store(at, Ordering::Relaxed);
        horizon.release(Timestamp(at));
        for applier in [one, two] {
            let (bound, saw) = applier.join().unwrap();
            assert!(bound <= at || saw == at, "went to {bound} past the pin at {at}");
        }
    });
}

/// A worker opens an epoch and writes while another one reads a snapshot: the reader does not believe what it read, or
/// read nothing of it.
#[test]
fn who_believes_what_he_read_has_read_no_foreign_write() {
    loom::model(|| {
        let (lives, speculating, row) =
            (Arc::new(Lives::default()), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let leader = {
            let (lives, speculating, row) = (lives.clone(), speculating.clone(), row.clone());
            thread::spawn(move || {
                // As `Speculation::begin` has it.
                speculating.fetch_add(1, Ordering::AcqRel);
                lives.end();
                // A record is unlocked with a Release.
                row.store(7, Ordering::Release);
            })
        };
        // As `Marks::snapshot` and `Reads::read` have it.
        let life = lives.present();
        if speculating.load(Ordering::Acquire) == 0 {
            // The store's readers copy with relaxed loads and an Acquire fence behind them.
            let read = row.load(Ordering::Relaxed);
            if lives.lasts(life) {
                assert_eq!(read, 0);
            }
        }
        leader.join().unwrap();
    });
}
