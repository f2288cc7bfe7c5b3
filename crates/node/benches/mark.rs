//! What the mark and wake-ups cost with more workers than this machine has cores: the cells and the wakers alone, without transactions.
//!
//! ```text
//! cargo bench -p highwater-node --bench mark [-- workers=1,2,8,16,64]
//! ```
//!
//! One thread is a leader's worker. `still`: nobody else moves, all cells are in its cache. `moving`: a second thread, on another core if there is
//! one, is all other workers at once and moves their cells as fast as it can, which is faster than 63 cores do: each of them seals an entry every
//! few dozen microseconds. docs/performance.md has the sum for 64 cores.
#![cfg(not(any(loom, shuttle)))]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use highwater_core::{EntryIndex, Epoch, StreamId, Timestamp};
use highwater_engine_rolis::watermark::Watermark;
use highwater_node::poll::{Interest, Poller};
use highwater_node::waker::Waker;

const TURNS: u64 = 200_000;
const WAKES: u64 = 5_000;

fn main() {
    let asked = std::env::args().find_map(|word| word.strip_prefix("workers=").map(String::from));
    let asked = asked.unwrap_or_else(|| "1,2,8,16,64".into());
    let counts = asked.split(',').map(|count| count.parse().expect("workers=N,N"));
    println!(
        "workers   mark, still   mark, moving   own entry decided   quiet and back   wake all, awake   (ns)"
    );
    for workers in counts {
        row(workers);
    }
    println!("waking one that sleeps: {:.0} ns for the one who wakes", wake_a_sleeper());
}

fn row(workers: u16) {
    let watermark = Watermark::new(workers.into());
    let still = each(TURNS, |_| {
        black_box(watermark.mark_in(Epoch(0)));
    });
    let (moving, moves) = beside(&watermark, workers, || {
        each(TURNS, |_| {
            black_box(watermark.mark_in(Epoch(0)));
        })
    });
    let own = each(TURNS, |turn| watermark.publish(StreamId(0), EntryIndex(turn), Timestamp(turn), true));
    let quiet = each(TURNS, |turn| {
        watermark.go_quiet(StreamId(0), EntryIndex(turn));
        black_box(watermark.unquiet(StreamId(0)));
    });
    let wakers: Vec<Waker> = (1..workers).map(|_| Waker::new().expect("there are descriptors")).collect();
    let wake = each(TURNS / 10, |_| {
        wakers.iter().for_each(|waker| {
            waker.take();
            waker.wake();
        })
    });
    println!(
        "{workers:>7}   {still:>11.1}   {moving:>12.1}   {own:>17.1}   {quiet:>14.1}   {wake:>15.1}   {moves:.1} M moves/s of others"
    );
}

/// Nanoseconds of each of so many calls.
fn each(calls: u64, mut call: impl FnMut(u64)) -> f64 {
    let began = Instant::now();
    (1..=calls).for_each(&mut call);
    began.elapsed().as_nanos() as f64 / calls as f64
}

/// Measures while another thread moves all cells but the first; and how many millions of times a second it did.
fn beside(watermark: &Watermark, workers: u16, measure: impl FnOnce() -> f64) -> (f64, f64) {
    let (over, moves) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ts = 1;
            while !over.load(Ordering::Relaxed) && workers > 1 {
                for stream in 1..workers {
                    watermark.publish(StreamId(stream), EntryIndex(ts), Timestamp(ts), true);
                }
                ts += 1;
                moves.store(ts * u64::from(workers - 1), Ordering::Relaxed);
            }
        });
        let began = Instant::now();
        let found = measure();
        let rate = moves.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64() / 1e6;
        over.store(true, Ordering::Relaxed);
        (found, rate)
    })
}

/// Nanoseconds that waking costs who wakes, if the other one sleeps.
fn wake_a_sleeper() -> f64 {
    let (waker, over) =
        (Arc::new(Waker::new().expect("there are descriptors")), Arc::new(AtomicBool::new(false)));
    let asleep = Arc::new(AtomicBool::new(false));
    let sleeper = std::thread::spawn({
        let (waker, over, asleep) = (waker.clone(), over.clone(), asleep.clone());
        move || {
            let mut poller = Poller::new().expect("there are descriptors");
            poller.add(&*waker, 0, Interest::EDGE).expect("it can be watched");
            while !over.load(Ordering::Relaxed) {
                waker.take();
                if waker.try_sleep() {
                    asleep.store(true, Ordering::Relaxed);
                    poller.wait(Some(1_000_000_000)).expect("waiting works");
                    waker.awake();
                }
            }
        }
    });
    let mut nanos = 0;
    for _ in 0..WAKES {
        while !asleep.swap(false, Ordering::Relaxed) {
            std::thread::yield_now();
        }
        // It has said so, and is about to be in the kernel.
        let pause = Instant::now();
        while pause.elapsed().as_micros() < 20 {
            std::hint::spin_loop();
        }
        let began = Instant::now();
        waker.wake();
        nanos += began.elapsed().as_nanos();
    }
    over.store(true, Ordering::Relaxed);
    waker.wake();
    sleeper.join().expect("the sleeper ends");
    nanos as f64 / WAKES as f64
}
