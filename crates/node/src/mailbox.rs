//! Letters between the threads of a node: connections handed over, commands of the load driver, reports. Off the path
//! of transactions.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::waker::Waker;

/// One thread's letter box and alarm clock. Anyone posts, its owner takes.
#[derive(Debug)]
pub struct Mailbox<T> {
    letters: Mutex<Vec<T>>,
    /// So that a busy owner finds out with one load that nothing came.
    filled: AtomicBool,
    /// Wakes the owner.
    pub waker: Waker,
}

impl<T> Mailbox<T> {
    /// An empty one.
    pub fn new() -> io::Result<Mailbox<T>> {
        Ok(Mailbox { letters: Mutex::new(Vec::new()), filled: AtomicBool::new(false), waker: Waker::new()? })
    }

    /// Adds a letter and wakes the owner.
    pub fn post(&self, letter: T) {
        {
            let mut letters = self.letters.lock().expect("nobody panics while holding a letter box");
            letters.push(letter);
            // Release; pairs with the Acquire in `take`. Under the lock, so that it can't overtake a `take`.
            self.filled.store(true, Ordering::Release);
        }
        self.waker.wake();
    }

    /// All letters, in the order of their posting.
    pub fn take(&self) -> Vec<T> {
        if !self.filled.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut letters = self.letters.lock().expect("nobody panics while holding a letter box");
        self.filled.store(false, Ordering::Relaxed);
        std::mem::take(&mut *letters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_each_sender_keep_their_order() {
        let mailbox = Mailbox::new().unwrap();
        let mut taken: Vec<(u32, u32)> = Vec::new();
        std::thread::scope(|scope| {
            let mailbox = &mailbox;
            for sender in 0..3 {
                scope.spawn(move || (0..1000).for_each(|n| mailbox.post((sender, n))));
            }
            while taken.len() < 3000 {
                taken.extend(mailbox.take());
            }
        });
        for sender in 0..3 {
            let from: Vec<u32> =
                taken.iter().filter(|letter| letter.0 == sender).map(|letter| letter.1).collect();
            assert_eq!(from, (0..1000).collect::<Vec<_>>());
        }
    }
}
