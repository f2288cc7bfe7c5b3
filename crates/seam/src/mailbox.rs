//! A queue for rare messages between threads of one process: an engine's workers and controller, a host's threads.

use std::collections::VecDeque;

use highwater_core::sync::{AtomicBool, Mutex, Ordering};

/// A queue for rare messages. Whoever puts one in wakes the owner, in its own way.
#[derive(Debug)]
pub struct Mailbox<T> {
    queue: Mutex<VecDeque<T>>,
    /// Not false while the queue holds something, but for who holds its lock.
    full: AtomicBool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox { queue: Mutex::new(VecDeque::new()), full: AtomicBool::new(false) }
    }
}

impl<T> Mailbox<T> {
    /// Puts a message in.
    pub fn put(&self, message: T) {
        let mut queue = self.queue.lock().expect("nobody panics while holding a mailbox");
        queue.push_back(message);
        // Release; pairs with the Acquire in `take`: who sees the flag finds the message.
        self.full.store(true, Ordering::Release);
    }

    /// Takes all messages out. Costs one load if there are none.
    #[inline]
    pub fn take(&self) -> VecDeque<T> {
        if !self.full.load(Ordering::Acquire) {
            return VecDeque::new();
        }
        let mut queue = self.queue.lock().expect("nobody panics while holding a mailbox");
        self.full.store(false, Ordering::Release);
        std::mem::take(&mut queue)
    }
}
