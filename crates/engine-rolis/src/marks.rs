//! The meaning of positions of a replica's logs in Rolis: the watermark, the snapshots that followers show below it, and how fresh they are known to be.
//! Nothing here is touched by a transaction but plain loads.

use std::sync::Arc;

use highwater_consensus::Members;
use highwater_core::sync::Ordering;
use highwater_core::{Clock, EntryIndex, Epoch, Timestamp};
use highwater_log_host::progress::Progress;
use highwater_log_host::shared::Shared;
use highwater_seam::{Figure, Nanos, Options};
use highwater_store::Store;

use crate::hooks;
use crate::reads::bounded::PATIENCE;
use crate::reads::proven::Proven;
use crate::reads::snapshots::{Offer, Rounds};
use crate::settings::SNAPSHOT_AGE_US;
use crate::watermark::Watermark;

/// Figures of the strawman; none otherwise.
pub type Figures = Box<dyn Fn() -> Vec<Figure> + Send + Sync>;

/// One per replica, for its workers and its controller.
pub struct Marks {
    pub watermark: Watermark,
    /// Snapshots for followers' readers.
    pub rounds: Rounds,
    /// How fresh they are known to be.
    pub proven: Proven,
    /// Source of commit timestamps.
    clock: Arc<Clock>,
    /// A search is given up after so long.
    patience: Nanos,
    /// See [`SNAPSHOT_AGE_US`].
    snapshot_age: Nanos,
    /// The strawman's own figures.
    figures: Figures,
}

impl Marks {
    /// Those of a fresh replica with a stream for each worker.
    pub fn new(options: &Options, clock: Arc<Clock>, figures: Figures) -> Marks {
        Marks {
            watermark: Watermark::new(options.workers.into()),
            rounds: Rounds::default(),
            proven: Proven::default(),
            clock,
            patience: PATIENCE * options.election_timeout,
            snapshot_age: options.own.get(&SNAPSHOT_AGE_US) * 1000,
            figures,
        }
    }

    /// Whether this replica's store is one that followers' snapshots can be taken of: it belongs to a cluster, is
    /// complete, and holds nothing whose fate is open.
    pub fn has_snapshots(&self, shared: &Shared) -> bool {
        let rereads = shared.rereads.load(Ordering::SeqCst) > 0;
        self.watermark.epoch() > Epoch(0)
            && !rereads
            && !self.rounds.store_is_incomplete()
            && shared.is_certain()
    }

    /// The same for reports: nobody reads for it.
    fn shows(&self, settled: bool) -> bool {
        settled && self.watermark.epoch() > Epoch(0) && !self.rounds.store_is_incomplete()
    }

    /// A snapshot of `store` at or above `least`, for reads of which the first was asked for at `since`; see [`Rounds::offer`].
    pub fn snapshot(
        &self,
        shared: &Shared,
        (now, since): (Nanos, Nanos),
        least: Timestamp,
        store: &Arc<Store>,
    ) -> Offer {
        let times = (now, since, self.snapshot_age);
        self.rounds.offer(times, least, store, &self.watermark, || self.has_snapshots(shared))
    }
}

impl Progress for Marks {
    fn epoch(&self) -> Epoch {
        self.watermark.epoch()
    }

    fn members(&self) -> Option<Members> {
        self.watermark.members()
    }

    fn mark(&self) -> Timestamp {
        self.watermark.mark()
    }

    fn mark_in(&self, epoch: Epoch) -> Option<Timestamp> {
        self.watermark.mark_in(epoch)
    }

    fn applied(&self) -> Timestamp {
        self.watermark.applied_floor()
    }

    fn copy_point(&self, leading: Option<Epoch>) -> Option<(Epoch, Timestamp)> {
        self.watermark.copy_point(leading)
    }

    fn position(&self, leads: bool) -> Timestamp {
        if leads { self.clock.now() } else { self.watermark.mark() }
    }

    fn base(&self, high: Timestamp) -> Timestamp {
        if hooks::advances_clock() {
            self.clock.advance_past(high);
        }
        self.clock.now()
    }

    fn restart(&self, epoch: Epoch, members: Members, floor: Timestamp, starts: &[EntryIndex]) {
        self.watermark.restart(epoch, members, floor, starts);
        self.rounds.lose_store();
    }

    fn store_is_complete(&self) {
        self.rounds.store_is_complete();
    }

    fn figures(&self) -> Vec<Figure> {
        (self.figures)()
    }

    fn fresh_since(&self, settled: bool) -> Option<Nanos> {
        self.shows(settled).then(|| self.proven.since(self.watermark.applied_floor())).flatten()
    }

    fn want_freshness(&self, now: Nanos, settled: bool) {
        // Who comes while it is under way is served by the same answer.
        if self.shows(settled) && !self.finds_freshness(now) {
            self.proven.want(now);
        }
    }

    fn finds_freshness(&self, now: Nanos) -> bool {
        self.proven.wanted().is_some_and(|since| now < since + self.patience)
    }

    fn vouched(&self, asked: Nanos, upto: Timestamp) {
        self.proven.vouched(asked, upto);
    }
}
