//! Wakes a thread that sleeps in its event loop, and costs next to nothing when it does not sleep.
//!
//! A waker first publishes what it has to say (a mailbox, an engine's atomics), then calls [`Waker::wake`]. The sleeper
//! calls [`Waker::take`] before it looks for news, and [`Waker::try_sleep`] after it found none. Two flags decide
//! whether the system call is needed:
//!
//! - `told`: somebody has news that the sleeper has not begun to look for. Set by wakers, cleared by `take`.
//! - `sleeping`: the sleeper is about to block.
//!
//! No wake-up is lost: the waker writes `told`, then reads `sleeping`; the sleeper writes `sleeping`, then reads
//! `told`; with a sequentially consistent fence between write and read on both sides, at least one sees the other.
//! And no news is missed: whoever finds `told` set already leaves, because the sleeper has yet to clear it, and it
//! looks for news after that, with a fence on both sides again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// One thread's alarm clock. Register its descriptor edge-triggered: it is never read.
#[derive(Debug)]
pub struct Waker {
    told: AtomicBool,
    sleeping: AtomicBool,
    event: OwnedFd,
}

impl Waker {
    /// A waker for a thread that is awake.
    pub fn new() -> std::io::Result<Waker> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Waker { told: AtomicBool::new(false), sleeping: AtomicBool::new(false), event })
    }

    /// Makes the sleeper look for news; a system call only if it sleeps.
    #[inline]
    pub fn wake(&self) {
        // Orders the caller's news before the reading of `told`; pairs with the fence in `take`.
        fence(Ordering::SeqCst);
        if self.told.load(Ordering::Relaxed) {
            return;
        }
        self.told.store(true, Ordering::Relaxed);
        // Pairs with the fence in `try_sleep`.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed) {
            rustix::io::write(&self.event, &1u64.to_ne_bytes())
                .expect("an eventfd takes 2^64 - 2 wake-ups before it is full");
        }
    }

    /// To call before looking for news.
    #[inline]
    pub fn take(&self) {
        if self.told.load(Ordering::Relaxed) {
            self.told.store(false, Ordering::Relaxed);
            // Orders the clearing before the reading of news; pairs with the first fence in `wake`.
            fence(Ordering::SeqCst);
        }
    }

    /// Announces that the thread is about to block. False: there is news, don't. Undone by [`Waker::awake`].
    pub fn try_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::Relaxed);
        // Pairs with the second fence in `wake`.
        fence(Ordering::SeqCst);
        if self.told.load(Ordering::Relaxed) {
            self.awake();
            return false;
        }
        true
    }

    /// To call when the thread no longer blocks.
    pub fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::poll::{Interest, Poller};

    /// Waker and sleeper take turns as fast as they can; a lost wake-up would leave the sleeper in its wait.
    #[test]
    fn no_wake_up_is_lost() {
        const NEWS: u64 = 20_000;
        let (waker, published, seen) = (Waker::new().unwrap(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut poller = Poller::new().unwrap();
                poller.add(&waker, 0, Interest::EDGE).unwrap();
                loop {
                    waker.take();
                    let news = published.load(Ordering::Relaxed);
                    seen.store(news, Ordering::Release);
                    if news == NEWS {
                        return;
                    }
                    if waker.try_sleep() {
                        let slept = poller.wait(Some(10_000_000_000)).unwrap();
                        assert!(slept > 0, "slept through news {}", published.load(Ordering::SeqCst));
                        waker.awake();
                    }
                }
            });
            for news in 1..=NEWS {
                published.store(news, Ordering::Relaxed);
                waker.wake();
                // Now and then let it fall asleep, to come at it from both sides.
                while news % 3 == 0 && seen.load(Ordering::Acquire) < news {
                    std::thread::yield_now();
                }
            }
        });
    }

    #[test]
    fn an_awake_thread_is_not_written_to() {
        let waker = Waker::new().unwrap();
        waker.wake();
        let mut count = [0; 8];
        assert!(rustix::io::read(&waker, &mut count).is_err(), "nothing was written");
        assert!(!waker.try_sleep(), "there is news");
        waker.take();
        assert!(waker.try_sleep());
        waker.wake();
        waker.wake();
        rustix::io::read(&waker, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1, "the second waker found the first one's news");
    }
}
