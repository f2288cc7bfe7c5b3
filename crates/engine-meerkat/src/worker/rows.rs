//! The store as a replica of everybody's transactions sees it: what is marked there, what is installed, and what may be unlinked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_core::Timestamp;
use highwater_kit::validation::marks::{Linger, Marks};
use highwater_kit::validation::payload::Payload;
use highwater_seam::Nanos;
use highwater_store::{Applier, Store};

use super::context::Context;

pub(super) struct Rows {
    store: Arc<Store>,
    marks: Arc<Marks>,
    applier: Applier,
    linger: Linger,
    /// The latest timestamp that the worker had met when it was last looked which tombstones may go.
    met: Timestamp,
}

impl Rows {
    pub fn new(store: &Arc<Store>, marks: &Arc<Marks>) -> Rows {
        let applier = Applier::new(store.clone());
        let (linger, met) = (Linger::default(), Timestamp::ZERO);
        Rows { store: store.clone(), marks: marks.clone(), applier, linger, met }
    }

    /// From here on another store, and its marks.
    pub fn replace(&mut self, store: &Arc<Store>, marks: &Arc<Marks>) {
        (self.store, self.marks) = (store.clone(), marks.clone());
        self.applier = Applier::new(store.clone());
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Installs what a transaction writes.
    pub fn apply(&mut self, payload: &Payload) {
        let applied = self.applier.apply(payload.transaction(), Timestamp::ZERO, Timestamp::MAX);
        applied.expect("a coordinator encodes what its own tables know");
    }

    pub fn has_tombstones(&self) -> bool {
        self.applier.has_tombstones()
    }

    /// When to look again which tombstones may go.
    pub fn next(&self) -> Nanos {
        self.linger.next()
    }

    /// Says up to where tombstones wait that have done so for a while: none that is younger, of which others are about to say that it is over.
    fn tell_graves(&mut self, now: Nanos, context: &Context, latest: Timestamp) {
        if now < self.linger.next() {
            return;
        }
        let waits = self.applier.has_tombstones() && !context.shared.keeps_all_tombstones();
        let graves = if waits { self.met.0 } else { 0 };
        context.cell().graves.store(graves, Ordering::Relaxed);
        self.met = latest;
    }

    /// Unlinks tombstones that nobody needs. Whether more are due. `latest`: the latest timestamp that the worker has met.
    pub fn collect(&mut self, now: Nanos, context: &Context, latest: Timestamp) -> bool {
        self.tell_graves(now, context, latest);
        let shared = &context.shared;
        let long = self.linger.look(now, shared.options.election_timeout, || shared.closed());
        // What was closed in another epoch says nothing of this one.
        let upto = if shared.keeps_all_tombstones() { Timestamp::ZERO } else { long.min(shared.closed()) };
        let marks = &self.marks;
        self.applier.collect_telling(upto, |table, key, ts| marks.collected(table, key, ts))
    }
}
