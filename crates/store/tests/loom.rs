//! The two word-level protocols, over all executions that the memory model allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p highwater-store --release --test loom`
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use highwater_store::guard::Guards;
use highwater_store::word::{DEAD, RecordWord, TOMBSTONE};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// A record of two words.
struct Pair {
    word: RecordWord,
    value: [AtomicUsize; 2],
}

impl Pair {
    fn new() -> Arc<Pair> {
        Arc::new(Pair { word: RecordWord::new(TOMBSTONE), value: [AtomicUsize::new(0), AtomicUsize::new(0)] })
    }

    fn read(&self) -> Option<(u64, [usize; 2])> {
        let mut value = [0; 2];
        let word = self.word.read(|| {
            for (to, from) in value.iter_mut().zip(&self.value) {
                *to = from.load(Ordering::Relaxed);
            }
        });
        word.ok().map(|word| (word, value))
    }

    fn write(&self, ts: u64) -> Option<u64> {
        let before = self.word.lock().ok()?;
        assert!(before != DEAD);
        for to in &self.value {
            to.store(ts as usize, Ordering::Relaxed);
        }
        self.word.unlock(ts);
        Some(before)
    }
}

#[test]
fn a_stable_read_belongs_to_its_word() {
    loom::model(|| {
        let pair = Pair::new();
        let writer = {
            let pair = pair.clone();
            thread::spawn(move || {
                pair.write(1);
                pair.write(2);
            })
        };
        match pair.read() {
            Some((TOMBSTONE, value)) => assert_eq!(value, [0; 2]),
            Some((ts, value)) => assert_eq!(value, [ts as usize; 2]),
            None => {}
        }
        writer.join().unwrap();
        assert_eq!(pair.read(), Some((2, [2; 2])));
    });
}

#[test]
fn writers_exclude_each_other_and_see_what_came_before() {
    loom::model(|| {
        let pair = Pair::new();
        let write = |ts: u64| {
            let pair = pair.clone();
            thread::spawn(move || {
                let before = pair.word.lock().ok()?;
                let old = pair.value.each_ref().map(|word| word.load(Ordering::Relaxed));
                assert_eq!(old, [(before & !TOMBSTONE) as usize; 2]);
                for to in &pair.value {
                    to.store(ts as usize, Ordering::Relaxed);
                }
                pair.word.unlock(ts);
                Some(())
            })
        };
        let (one, two) = (write(1), write(2));
        let wrote = [one.join().unwrap(), two.join().unwrap()];
        assert!(wrote.iter().any(Option::is_some), "they do not block each other for ever");
        let (ts, value) = pair.read().unwrap();
        assert_eq!(value, [ts as usize; 2]);
    });
}

#[test]
fn a_dead_record_is_never_locked_again() {
    loom::model(|| {
        let pair = Pair::new();
        let collector = {
            let pair = pair.clone();
            thread::spawn(move || {
                let took = pair.word.try_lock(TOMBSTONE);
                if took {
                    pair.word.unlock(DEAD);
                }
                took
            })
        };
        let wrote = match pair.word.lock() {
            Ok(DEAD) | Err(_) => false,
            Ok(_) => {
                pair.word.unlock(5);
                true
            }
        };
        let died = collector.join().unwrap();
        assert!(!(wrote && died), "either revived or dead");
        let last = pair.word.load();
        assert_eq!(
            last,
            if died {
                DEAD
            } else if wrote {
                5
            } else {
                TOMBSTONE
            }
        );
    });
}

/// The store's use of guards: unlink, stamp, and use the memory again when that is safe. Loom reports a reader that
/// touches memory while it is being reused as a data race.
#[test]
fn nothing_is_reused_under_a_pinned_reader() {
    struct Shared {
        guards: Guards,
        /// Which thing can be found; 2: none.
        linked: AtomicUsize,
        things: [UnsafeCell<u64>; 2],
    }
    // SAFETY: that is what is tested.
    unsafe impl Sync for Shared {}
    loom::model(|| {
        let shared = Arc::new(Shared {
            guards: Guards::new(2),
            linked: AtomicUsize::new(0),
            things: [UnsafeCell::new(7), UnsafeCell::new(7)],
        });
        let slot = shared.guards.join();
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                let slot = shared.guards.join();
                for _ in 0..2 {
                    shared.guards.pin(slot);
                    // The index's pointers are loaded with acquire.
                    let found = shared.linked.load(Ordering::Acquire);
                    if found < 2 {
                        // SAFETY: the thing was linked when the guard was pinned.
                        shared.things[found].with(|thing| assert_eq!(unsafe { *thing }, 7));
                    }
                    shared.guards.unpin(slot);
                }
            })
        };
        let mut stamped = Vec::new();
        for thing in 0..2 {
            // Unlinks thing 0, then thing 1, as `Heap::reclaim` does it.
            shared.linked.store(thing + 1, Ordering::Release);
            let stamp = shared.guards.stamp();
            stamped.push((stamp, thing));
            shared.guards.advance(stamp);
            let safe = shared.guards.safe();
            stamped.retain(|&(stamp, thing)| {
                if stamp < safe {
                    // SAFETY: nobody can find it any more.
                    shared.things[thing].with_mut(|thing| unsafe { *thing = 0 });
                }
                stamp >= safe
            });
        }
        reader.join().unwrap();
        shared.guards.leave(slot);
        // With the reader gone, everything can be reused.
        let safe = shared.guards.safe();
        assert!(stamped.iter().all(|&(stamp, _)| stamp < safe));
    });
}
