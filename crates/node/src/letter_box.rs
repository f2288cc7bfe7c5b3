//! Letters between the threads of a node: connections handed over, commands of the load driver, reports. Off the path
//! of transactions.

use std::collections::VecDeque;
use std::io;

use highwater_seam::mailbox::Mailbox;

use crate::waker::Waker;

/// One thread's mailbox and alarm clock. Anyone posts, its owner takes. On cache lines of its own (in pairs, as CPUs fetch them): its owner looks
/// at it in each turn, and says there when it sleeps.
#[derive(Debug)]
#[repr(align(128))]
pub struct LetterBox<T> {
    letters: Mailbox<T>,
    /// Wakes the owner.
    pub waker: Waker,
}

impl<T> LetterBox<T> {
    /// An empty one.
    pub fn new() -> io::Result<LetterBox<T>> {
        Ok(LetterBox { letters: Mailbox::default(), waker: Waker::new()? })
    }

    /// Adds a letter and wakes the owner.
    pub fn post(&self, letter: T) {
        self.letters.put(letter);
        self.waker.wake();
    }

    /// All letters, in the order of their posting. Costs one load if there are none.
    pub fn take(&self) -> VecDeque<T> {
        self.letters.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_each_sender_keep_their_order() {
        let mailbox = LetterBox::new().unwrap();
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
