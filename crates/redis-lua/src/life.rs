//! Shows whoever watches a thread that what it does goes on, and hears whether it should.

use std::cell::Cell;

thread_local! {
    static WATCHER: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
}

/// From now on this is called where something goes on for long on this thread; it says whether that may.
pub fn watched_by(watcher: fn() -> bool) {
    WATCHER.set(Some(watcher));
}

/// Tells the watcher that something goes on; whether it may. It may if nobody watches.
pub(crate) fn goes_on() -> bool {
    WATCHER.get().is_none_or(|watcher| watcher())
}
