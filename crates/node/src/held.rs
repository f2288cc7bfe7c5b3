//! Bytes held by the edges of a node, by part: each thread says what it holds, anyone adds it up.
//!
//! One [`Held`] per thread, written by that thread only, with plain stores once per turn; the numbers are as old as
//! its last turn. What the store and the engines hold is counted where they allocate it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What one thread holds, in bytes. Written by its owner only, read by anyone.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Held {
    /// Received from clients (or operators) and not executed: receive buffers, `MULTI` queues, watched keys, the
    /// request on offer. As allocated.
    pub requests: AtomicU64,
    /// Released and not written: output of clients (or operators). As allocated.
    pub replies: AtomicU64,
    /// Frames that wait for a peer's socket. Bodies are log entries and chunks of copies, passed by reference: most
    /// of these bytes are the log's, too, and wait for several peers at once.
    pub sending: AtomicU64,
    /// Receive buffers of the connections to peers. Entries that the log keeps point into them: up to as many of
    /// these bytes are the log's, too.
    pub receiving: AtomicU64,
}

/// A part of [`Held`]; also the sum over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBytes {
    /// See [`Held::requests`].
    pub requests: u64,
    /// See [`Held::replies`].
    pub replies: u64,
    /// See [`Held::sending`].
    pub sending: u64,
    /// See [`Held::receiving`].
    pub receiving: u64,
}

impl HeldBytes {
    /// What is the edges' alone: what waits to be sent is the logs', too.
    pub fn own(&self) -> u64 {
        self.requests + self.replies + self.receiving
    }
}

impl Held {
    /// Says what is held now; only the owner does. A line that did not change is not written.
    #[inline]
    pub fn set(&self, now: HeldBytes) {
        let HeldBytes { requests, replies, sending, receiving } = now;
        let parts = [
            (&self.requests, requests),
            (&self.replies, replies),
            (&self.sending, sending),
            (&self.receiving, receiving),
        ];
        for (known, bytes) in parts {
            if known.load(Ordering::Relaxed) != bytes {
                known.store(bytes, Ordering::Relaxed);
            }
        }
    }

    /// What its owner said last.
    pub fn get(&self) -> HeldBytes {
        HeldBytes {
            requests: self.requests.load(Ordering::Relaxed),
            replies: self.replies.load(Ordering::Relaxed),
            sending: self.sending.load(Ordering::Relaxed),
            receiving: self.receiving.load(Ordering::Relaxed),
        }
    }
}

impl std::ops::Add for HeldBytes {
    type Output = HeldBytes;

    fn add(self, other: HeldBytes) -> HeldBytes {
        HeldBytes {
            requests: self.requests + other.requests,
            replies: self.replies + other.replies,
            sending: self.sending + other.sending,
            receiving: self.receiving + other.receiving,
        }
    }
}

impl std::iter::Sum for HeldBytes {
    fn sum<I: Iterator<Item = HeldBytes>>(parts: I) -> HeldBytes {
        parts.fold(HeldBytes::default(), std::ops::Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_part_by_part() {
        let threads = [Held::default(), Held::default()];
        let first = HeldBytes { requests: 1, replies: 10, sending: 100, receiving: 1000 };
        threads[0].set(first);
        threads[1].set(HeldBytes { replies: 5, ..HeldBytes::default() });
        let sum: HeldBytes = threads.iter().map(Held::get).sum();
        assert_eq!(sum, HeldBytes { replies: 15, ..first });
        threads[0].set(HeldBytes::default());
        assert_eq!(threads[0].get(), HeldBytes::default());
    }
}
