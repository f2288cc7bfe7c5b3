//! How many keys there are, counted aside. The store keeps no number of its rows: each insert would write where all others write. So a thread
//! goes through the names when somebody asks and the last count is old, and whoever asks is told that one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use highwater_core::contain::contain;
use highwater_redis::keyspace::rows::is_deadline;
use highwater_redis::keyspace::{DUE, NAMES};
use highwater_redis::operations::KeyCount;
use highwater_seam::Nanos;
use highwater_store::Store;

use crate::clock::monotonic;

/// A count is as old as this at least before another one begins.
const LEAST_AGE: Nanos = 1_000_000_000;
/// And so many times as old as it took: counting takes a fiftieth of a core, however often somebody asks.
const AGE_PER_TIME: Nanos = 50;

/// See the module.
#[derive(Default)]
pub struct Census {
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    count: Option<KeyCount>,
    /// A thread counts.
    counting: bool,
    /// When the next one may begin.
    next: Nanos,
}

impl Census {
    /// The last count. Begins another one if that is old, of the store that `store` gives.
    pub fn ask(
        self: &Arc<Census>,
        now: Nanos,
        store: impl FnOnce() -> Option<Arc<Store>>,
    ) -> Option<KeyCount> {
        let mut last = self.lock();
        let known = last.count;
        if !last.counting && now >= last.next {
            last.counting = true;
            drop(last);
            self.begin(store());
        }
        known
    }

    fn begin(self: &Arc<Census>, store: Option<Arc<Store>>) {
        let census = self.clone();
        let count = move || {
            let began = monotonic();
            let counted = contain(|| store.as_deref().map(count)).ok().flatten();
            // A replica that ends waits for nobody who has its store.
            drop(store);
            census.ended(counted, began);
        };
        // Without a thread the last count stands, and the next who asks tries again.
        if std::thread::Builder::new().name("census".into()).spawn(count).is_err() {
            self.ended(None, monotonic());
        }
    }

    fn ended(&self, counted: Option<KeyCount>, began: Nanos) {
        let now = monotonic();
        let mut last = self.lock();
        last.counting = false;
        last.count = counted.or(last.count);
        last.next = now + LEAST_AGE.max(AGE_PER_TIME * (now - began));
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(store: &Store) -> KeyCount {
    KeyCount { keys: store.count(NAMES, |_| true), expires: store.count(DUE, is_deadline) }
}
