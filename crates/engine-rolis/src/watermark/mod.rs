//! The watermark: what is safe.
//!
//! *mark = min over streams of closed*, where a stream is **closed** up to C if every transaction of the epoch at or
//! below C that will ever be in it is in its decided entries. Below the mark nothing can be missing; so a result at or
//! below it may be released, and a write at or below it may be applied. One definition, on leader and follower alike.
//!
//! A stream becomes closed further in two ways:
//! - one of its own entries is decided: closed up to that entry's `closed_ts`;
//! - another stream's decided entry carries a **claim** about it: "decided up to index k, it is closed up to my
//!   `closed_ts`". The claim counts once k is decided here, too. So a silent stream does not hold the mark.
//!
//! # Three streams, one claim
//!
//! Stream 2 has been quiet since its entry 2. Worker 1 seals entry 7 at time 130, sees that, and adds the claim "stream 2, decided
//! up to 2, is closed up to 130". What each stream is closed up to, on the leader:
//!
//! | decided, and looked at | stream 0 | stream 1 | stream 2 | mark |
//! |---|---|---|---|---|
//! | so far | 100 | 90 | 60 | 60 |
//! | entry 7 of stream 1, `closed_ts` 130, with the claim | 100 | 130 | 130 | 100 |
//! | entry 6 of stream 0, `closed_ts` 150 | 150 | 130 | 130 | 130 |
//!
//! Without the claim the mark would stand at 60 until somebody asks something of worker 2. A follower may learn of entry 7 before
//! it has entry 2 of stream 2:
//!
//! | decided, and looked at | stream 0 | stream 1 | stream 2 | mark |
//! |---|---|---|---|---|
//! | so far | 100 | 90 | 40 | 40 |
//! | entry 7 of stream 1: entry 2 of stream 2 is not decided here, so the claim is kept aside | 100 | 130 | 40 | 40 |
//! | entry 2 of stream 2, `closed_ts` 60: closed up to 60, and then the claim counts | 100 | 130 | 130 | 100 |
//!
//! Had the claim counted at once, the mark would have been 100 in the second row, and a transaction at 55 in entry 2 missing below it.
//!
//! # Epochs
//!
//! All this is per epoch. An epoch ends in each stream where the first entry of a later epoch stands. When that is known
//! for every stream, the epoch's **final mark** is known, too: a function of the decided logs only, hence the same on
//! every replica. What is at or below it is applied, what is above is skipped, everywhere, for ever. Then the cells start
//! anew at the next epoch's base timestamp, which exceeds every timestamp of the past.
//!
//! A later epoch may have started in some streams only, its leader lost before the others (a takeover interrupted by
//! another takeover). It never opened, so it holds no transaction; the streams go on to the first epoch that all of them
//! entered.

use highwater_core::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence};
use highwater_core::{EntryIndex, Epoch, StreamId, Timestamp};

use crate::hooks;

mod arrival;
mod epochs;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use arrival::Ends;
pub use arrival::{Arrival, OpenClaim, Start};

/// How far every stream of this replica is. Shared by its workers; each worker writes its own cell.
#[derive(Debug)]
pub struct Watermark {
    /// The epoch that the cells speak of. Changes before the cells do, so that a reader who sees a new cell sees the new
    /// epoch as well.
    epoch: AtomicU64,
    /// Where that epoch begins: every older transaction is at or below.
    base: AtomicU64,
    cells: Box<[Cell]>,
    ends: Mutex<Ends>,
}

/// One stream. Two cache lines of its own: a worker that commits writes no line that another one writes.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell {
    /// Last decided entry of the epoch that this replica has looked at.
    decided: AtomicU64,
    /// Closed up to this timestamp. Only grows within an epoch.
    closed: AtomicU64,
    /// Every transaction of this stream at or below is installed, unless `caught_up`.
    applied: AtomicU64,
    /// Every entry looked at is installed: applied as far as it is closed.
    caught_up: AtomicBool,
    /// On a leader: `index << 1 | 1` while the worker has nothing open and will announce itself before it commits again;
    /// `index` is its last entry.
    quiet: AtomicU64,
    /// On a leader: the worker holds replies that wait for other streams.
    waiting: AtomicBool,
    /// On a leader: the largest timestamp up to which this worker may have claimed others to be closed.
    claiming: AtomicU64,
}

impl Watermark {
    /// No epoch yet; `streams` streams.
    pub fn new(streams: usize) -> Watermark {
        Watermark {
            epoch: AtomicU64::new(0),
            base: AtomicU64::new(0),
            cells: (0..streams).map(|_| Cell::default()).collect(),
            ends: Mutex::new(Ends::new(streams)),
        }
    }

    fn cell(&self, stream: StreamId) -> &Cell {
        &self.cells[stream.0 as usize]
    }

    /// The epoch that the cells speak of.
    #[inline]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// The mark, if `epoch` is the current one. `None`: it ended; ask [`final_mark`](Watermark::final_mark).
    #[inline]
    pub fn mark_in(&self, epoch: Epoch) -> Option<Timestamp> {
        let closed = self.cells.iter().map(|cell| cell.closed.load(Ordering::Acquire));
        let mark = if hooks::ignores_silent_streams() {
            let base = self.base.load(Ordering::SeqCst);
            closed.filter(|closed| *closed > base).min().or(Some(base))
        } else {
            closed.min()
        };
        // Whoever saw a cell of a later epoch sees that epoch here: `switch` stores the epoch first, and the Acquire
        // above pairs with the Release stores of the cells.
        let current = self.epoch.load(Ordering::Acquire) == epoch.0;
        let mark = Timestamp(mark.expect("there are streams"));
        if current {
            hooks::mark(epoch, mark);
        }
        current.then_some(mark)
    }

    /// The mark of the current epoch, for reports.
    pub fn mark(&self) -> Timestamp {
        loop {
            if let Some(mark) = self.mark_in(self.epoch()) {
                return mark;
            }
        }
    }

    /// The owner of `stream` has looked at its decided entries up to `decided`, which close it up to `closed`.
    /// `transactions`: they hold some that are not installed yet.
    #[inline]
    pub fn publish(&self, stream: StreamId, decided: EntryIndex, closed: Timestamp, transactions: bool) {
        let cell = self.cell(stream);
        if transactions {
            // Before `closed` grows: see `applied_floor`.
            cell.caught_up.store(false, Ordering::Release);
        }
        cell.closed.fetch_max(closed.0, Ordering::AcqRel);
        // Release: a claimer that sees this index sees what it closes.
        cell.decided.store(decided.0, Ordering::Release);
    }

    /// Applies a claim, if its index is decided here. To be called in the epoch of the claim; or by a stream that waits at its end,
    /// which another worker may end meanwhile: the next epoch's cells begin above every timestamp of the past, so an older claim
    /// moves none of them.
    #[inline]
    pub fn claim(&self, claim: OpenClaim) -> bool {
        let cell = self.cell(claim.stream);
        let holds = cell.decided.load(Ordering::Acquire) >= claim.index.0 || hooks::trusts_claims();
        if holds && cell.closed.load(Ordering::Relaxed) < claim.closed.0 {
            cell.closed.fetch_max(claim.closed.0, Ordering::AcqRel);
        }
        holds
    }

    /// How far a stream is closed.
    pub fn closed(&self, stream: StreamId) -> Timestamp {
        Timestamp(self.cell(stream).closed.load(Ordering::Acquire))
    }

    /// The same, if `epoch` is the current one.
    pub fn closed_in(&self, epoch: Epoch, stream: StreamId) -> Option<Timestamp> {
        // The Acquire pairs with the Release in `switch`, which stores the epoch first: who sees a later epoch's cell sees that epoch.
        let closed = self.closed(stream);
        (self.epoch() == epoch).then_some(closed)
    }

    /// The owner of `stream` has installed its transactions at or below `applied`; or, if `caught_up`, of all entries
    /// that it has looked at.
    #[inline]
    pub fn publish_applied(&self, stream: StreamId, applied: Timestamp, caught_up: bool) {
        let cell = self.cell(stream);
        cell.applied.store(applied.0, Ordering::Release);
        cell.caught_up.store(caught_up, Ordering::Release);
    }

    /// Every transaction at or below is installed in this replica's store.
    pub fn applied_floor(&self) -> Timestamp {
        let of_cell = |cell: &Cell| {
            // `closed` first: if an entry raised it, `caught_up` was cleared before, and is set again once installed.
            let closed = cell.closed.load(Ordering::Acquire);
            if cell.caught_up.load(Ordering::Acquire) {
                closed
            } else {
                cell.applied.load(Ordering::Acquire).min(closed)
            }
        };
        Timestamp(self.cells.iter().map(of_cell).min().expect("there are streams"))
    }

    /// From where a copy of this replica's store may start: the current epoch, and a timestamp of that epoch such that
    /// everything at or below is installed; or, while that epoch is the one that this node leads (`leading`), released.
    /// `None`: older epochs are not installed completely.
    pub fn copy_point(&self, leading: Option<Epoch>) -> Option<(Epoch, Timestamp)> {
        // The lock keeps the epoch from changing.
        let _ends = self.ends();
        // The streams may have left the epoch that the controller still believes to lead: then the mark is a follower's,
        // and runs ahead of what is installed.
        let floor = if leading == Some(self.epoch()) { self.mark() } else { self.applied_floor() };
        (floor.0 >= self.base.load(Ordering::SeqCst)).then(|| (self.epoch(), floor))
    }

    /// On a leader: the owner of `stream` has nothing open behind entry `last`, and will call
    /// [`unquiet`](Watermark::unquiet) before it takes another timestamp.
    #[inline]
    pub fn go_quiet(&self, stream: StreamId, last: EntryIndex) {
        self.cell(stream).quiet.store(last.0 << 1 | 1, Ordering::Release);
    }

    /// On a leader: the owner of `stream` is about to take timestamps again, all above the result: no claim reaches
    /// further, even if the clock went back meanwhile.
    #[must_use]
    #[inline]
    pub fn unquiet(&self, stream: StreamId) -> Timestamp {
        self.cell(stream).quiet.store(0, Ordering::Relaxed);
        // The store must be visible before the claims are looked at; pairs with the fence in `quiet_index`: either the
        // claimer sees that this worker is no longer quiet, or this worker sees what was claimed of it.
        fence(Ordering::SeqCst);
        let claimed = self.cells.iter().map(|cell| cell.claiming.load(Ordering::Relaxed)).max();
        Timestamp(claimed.expect("there are streams"))
    }

    /// On a leader: the owner of `stream` is about to look who is quiet ([`quiet_index`](Watermark::quiet_index)), and to
    /// claim of them that they are closed up to `closed`.
    #[inline]
    pub fn claiming(&self, stream: StreamId, closed: Timestamp) {
        // Before the fence in `quiet_index`.
        self.cell(stream).claiming.store(closed.0, Ordering::Relaxed);
    }

    /// On a leader: the last entry of `stream`, if it is quiet. To be called *after* the claiming timestamp was read and
    /// told ([`claiming`](Watermark::claiming)).
    #[inline]
    pub fn quiet_index(&self, stream: StreamId) -> Option<EntryIndex> {
        fence(Ordering::SeqCst);
        let quiet = self.cell(stream).quiet.load(Ordering::Acquire);
        (quiet & 1 == 1).then_some(EntryIndex(quiet >> 1))
    }

    /// On a leader: whether the owner of `stream` holds replies that other streams keep back.
    #[inline]
    pub fn set_waiting(&self, stream: StreamId, waiting: bool) {
        let cell = self.cell(stream);
        if cell.waiting.load(Ordering::Relaxed) != waiting {
            cell.waiting.store(waiting, Ordering::SeqCst);
        }
    }

    /// Whether any worker but that of `stream` waits for the mark.
    #[inline]
    pub fn others_wait(&self, stream: StreamId) -> bool {
        self.cells
            .iter()
            .enumerate()
            .any(|(at, cell)| at != stream.0 as usize && cell.waiting.load(Ordering::SeqCst))
    }
}
