//! A thread that keeps the store's memory ahead of need (see [`Store::provision`]), and gives back what is not needed.
//!
//! It is the least important thread of the node: whatever it does not get done, a worker does by itself, a little slower.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Duration;

use highwater_store::Store;

/// How often it looks while the store grows.
const BUSY: Duration = Duration::from_millis(5);
/// And while it does not.
const IDLE: Duration = Duration::from_millis(100);
/// Less than this of freed buffers may stay with the system's allocator.
const KEPT_BY_ALLOCATOR: u64 = 16 << 20;
/// Less of the processor than a worker gets, by about a half for each two steps.
const NICE: i32 = 4;

/// What the thread is told by the others.
#[derive(Default)]
pub struct Provisions {
    told: Mutex<Told>,
    news: Condvar,
}

#[derive(Default)]
struct Told {
    /// A copy replaces the store; the old one must not be kept for this.
    store: Weak<Store>,
    stopped: bool,
}

impl Provisions {
    /// This is the replica's store from now on.
    pub fn set_store(&self, store: &Arc<Store>) {
        let mut told = self.told();
        if !std::ptr::eq(told.store.as_ptr(), Arc::as_ptr(store)) {
            told.store = Arc::downgrade(store);
        }
    }

    /// Ends [`Provisions::run`].
    pub fn stop(&self) {
        self.told().stopped = true;
        self.news.notify_all();
    }

    /// The thread's loop: keeps the store's memory below `limit` bytes, as far as it depends on this thread. `collect`
    /// gives all workers a turn.
    /// `buffers`: what the node's edges hold; if that was much more before, the system's allocator is asked to give back what
    /// it keeps of it.
    pub fn run(&self, limit: u64, collect: impl Fn(), buffers: impl Fn() -> u64) {
        let _ = rustix::process::setpriority_process(None, NICE);
        let mut peak = 0;
        let mut told = self.told();
        while !told.stopped {
            let store = told.store.upgrade();
            drop(told);
            let provision = store.map(|store| store.provision(limit)).unwrap_or_default();
            if provision.collect {
                collect();
            }
            let held = buffers();
            peak = peak.max(held);
            if peak - held > KEPT_BY_ALLOCATOR.max(held) {
                highwater_store::give_back_freed();
                peak = held;
            }
            let pause = if provision.growing { BUSY } else { IDLE };
            told = match self.news.wait_timeout(self.told(), pause) {
                Ok((told, _)) => told,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;

    use highwater_core::Schema;

    use super::*;

    /// The thread follows the replica to its next store, keeps none alive, and ends when it is told to.
    #[test]
    fn the_thread_follows_the_store_and_ends() {
        let provisions = Arc::new(Provisions::default());
        let first = Store::new(Schema::new(Vec::new()));
        first.reserve(8 << 20);
        provisions.set_store(&first);
        let (ended, end) = mpsc::channel();
        let thread = {
            let provisions = provisions.clone();
            std::thread::spawn(move || {
                provisions.run(u64::MAX, || (), || 0);
                ended.send(()).unwrap();
            })
        };
        let second = Store::new(Schema::new(Vec::new()));
        provisions.set_store(&second);
        let gone = Arc::downgrade(&first);
        drop(first);
        while gone.upgrade().is_some() {
            std::thread::yield_now();
        }
        provisions.stop();
        end.recv().unwrap();
        thread.join().unwrap();
    }
}
