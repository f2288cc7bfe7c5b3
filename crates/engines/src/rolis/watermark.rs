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

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use highwater_consensus::Members;
use highwater_core::hooks::{self, Fact};
use highwater_core::{EntryIndex, Epoch, StreamId, Timestamp, planted};

/// How far every stream of this replica is. Shared by its workers; each worker writes its own cell.
#[derive(Debug)]
pub struct Progress {
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
}

/// What the workers know of the end of the current epoch.
#[derive(Debug, Default)]
struct Ends {
    arrivals: Vec<Option<Arrival>>,
    finals: BTreeMap<Epoch, Timestamp>,
    /// The membership of the current epoch, once an epoch was entered through a change.
    members: Option<Members>,
}

/// A worker has decided the first entry of a later epoch.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// First entries of later epochs that stand here without a transaction between them, in order. More than one if a
    /// takeover was interrupted by another one, or if this stream was silent for a whole epoch.
    pub starts: Vec<Start>,
    /// Last entry of the epoch that ends.
    pub last: EntryIndex,
    /// Claims of this stream's entries in the ending epoch that were not effective yet.
    pub claims: Vec<OpenClaim>,
}

/// The first entry of an epoch in one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The epoch.
    pub epoch: Epoch,
    /// Where the entry stands.
    pub index: EntryIndex,
    /// Above every older timestamp.
    pub base: Timestamp,
    /// The epoch's voters.
    pub members: Members,
}

/// A claim whose index is not decided yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenClaim {
    /// The silent stream.
    pub stream: StreamId,
    /// Must be decided for the claim to count.
    pub index: EntryIndex,
    /// Closed up to this.
    pub closed: Timestamp,
}

impl Progress {
    /// No epoch yet; `streams` streams.
    pub fn new(streams: usize) -> Progress {
        Progress {
            epoch: AtomicU64::new(0),
            base: AtomicU64::new(0),
            cells: (0..streams).map(|_| Cell::default()).collect(),
            ends: Mutex::new(Ends { arrivals: vec![None; streams], ..Ends::default() }),
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

    /// The mark, if `epoch` is the current one. `None`: it ended; ask [`final_mark`](Progress::final_mark).
    #[inline]
    pub fn mark_in(&self, epoch: Epoch) -> Option<Timestamp> {
        let closed = self.cells.iter().map(|cell| cell.closed.load(Ordering::Acquire));
        let mark = if planted!(SilentStreamIgnored) {
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
            hooks::tell(|| Fact::Mark(epoch, mark));
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

    /// The final mark of an epoch that ended here.
    pub fn final_mark(&self, epoch: Epoch) -> Option<Timestamp> {
        self.ends.lock().expect("no worker panics here").finals.get(&epoch).copied()
    }

    /// The membership of the current epoch, if it was entered through a change.
    pub fn members(&self) -> Option<Members> {
        self.ends.lock().expect("no worker panics here").members.clone()
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

    /// Applies a claim, if its index is decided here. To be called in the epoch of the claim only.
    #[inline]
    pub fn claim(&self, claim: OpenClaim) -> bool {
        let cell = self.cell(claim.stream);
        let holds = cell.decided.load(Ordering::Acquire) >= claim.index.0 || planted!(ClaimUnchecked);
        if holds && cell.closed.load(Ordering::Relaxed) < claim.closed.0 {
            cell.closed.fetch_max(claim.closed.0, Ordering::AcqRel);
        }
        holds
    }

    /// How far a stream is closed.
    pub fn closed(&self, stream: StreamId) -> Timestamp {
        Timestamp(self.cell(stream).closed.load(Ordering::Acquire))
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
        let _ends = self.ends.lock().expect("no worker panics here");
        // The streams may have left the epoch that the controller still believes to lead: then the mark is a follower's,
        // and runs ahead of what is installed.
        let floor = if leading == Some(self.epoch()) { self.mark() } else { self.applied_floor() };
        (floor.0 >= self.base.load(Ordering::SeqCst)).then(|| (self.epoch(), floor))
    }

    /// On a leader: the owner of `stream` has nothing open behind entry `last`, and will call
    /// [`unquiet`](Progress::unquiet) before it takes another timestamp.
    #[inline]
    pub fn go_quiet(&self, stream: StreamId, last: EntryIndex) {
        self.cell(stream).quiet.store(last.0 << 1 | 1, Ordering::Release);
    }

    /// On a leader: the owner of `stream` is about to take timestamps again.
    #[inline]
    pub fn unquiet(&self, stream: StreamId) {
        self.cell(stream).quiet.store(0, Ordering::Relaxed);
        // The store must be visible before the next timestamp is read; pairs with the fence in `quiet_index`: either
        // the claimer sees that this worker is no longer quiet, or this worker's next timestamp exceeds the claimer's.
        fence(Ordering::SeqCst);
    }

    /// On a leader: the last entry of `stream`, if it is quiet. To be called *after* the claiming timestamp was read.
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

    /// The owner of `stream` found the first entry of a later epoch (or, later, that a further one follows). It looks no
    /// further until the epoch has changed. Returns whether it has changed now.
    ///
    /// The next epoch is the first one that every stream has entered. It is the same on every replica: what is common to
    /// all streams comes in the same order in each, so a longer look never finds an earlier common one.
    pub fn arrive(&self, stream: StreamId, arrival: Arrival) -> bool {
        let mut ends = self.ends.lock().expect("no worker panics here");
        let current = self.epoch();
        if arrival.starts.iter().any(|start| start.epoch <= current) {
            return true;
        }
        let slot = &mut ends.arrivals[stream.0 as usize];
        match slot {
            Some(known) => {
                assert!(arrival.starts.starts_with(&known.starts), "what is decided stays");
                known.starts = arrival.starts;
            }
            None => *slot = Some(arrival),
        }
        let entered = |arrival: &Option<Arrival>, epoch: Epoch| {
            arrival.as_ref().is_some_and(|arrival| arrival.starts.iter().any(|start| start.epoch == epoch))
        };
        let first = ends.arrivals[0].iter().flat_map(|arrival| &arrival.starts).map(|start| start.epoch);
        let Some(goal) =
            first.into_iter().find(|goal| ends.arrivals.iter().all(|arrival| entered(arrival, *goal)))
        else {
            return false;
        };
        self.switch(&mut ends, current, goal);
        true
    }

    /// Every stream has entered the same later epoch: fixes the final mark and starts the cells anew.
    fn switch(&self, ends: &mut Ends, current: Epoch, goal: Epoch) {
        let arrivals: Vec<Arrival> =
            ends.arrivals.iter_mut().map(|arrival| arrival.take().expect("all arrived")).collect();
        let starts: Vec<&Start> = arrivals
            .iter()
            .map(|arrival| arrival.starts.iter().find(|start| start.epoch == goal).expect("all entered"))
            .collect();
        let before = self.mark();
        let mut closed: Vec<Timestamp> =
            self.cells.iter().map(|cell| Timestamp(cell.closed.load(Ordering::Acquire))).collect();
        for claim in arrivals.iter().flat_map(|arrival| &arrival.claims) {
            let about = claim.stream.0 as usize;
            if claim.index <= arrivals[about].last {
                closed[about] = closed[about].max(claim.closed);
            }
        }
        let final_mark = closed.into_iter().min().expect("there are streams");
        assert!(final_mark >= before, "the mark never moves back: {final_mark} after {before}");
        let base = starts[0].base;
        assert!(base > final_mark, "the next epoch begins above the last one");
        hooks::tell(|| Fact::Final(current, final_mark));
        ends.finals.insert(current, final_mark);
        ends.members = Some(starts[0].members.clone());
        self.base.store(base.0, Ordering::SeqCst);
        self.epoch.store(goal.0, Ordering::SeqCst);
        for (cell, start) in self.cells.iter().zip(&starts) {
            assert_eq!(
                (start.base, &start.members),
                (base, &starts[0].members),
                "one change for all streams"
            );
            cell.caught_up.store(false, Ordering::Release);
            cell.quiet.store(0, Ordering::Release);
            cell.decided.store(start.index.0, Ordering::Release);
            cell.closed.store(base.0, Ordering::Release);
        }
    }

    /// Starts anew from a copied state: in `epoch`, with everything at or below `floor` installed, and stream i known up
    /// to before `starts[i]`. `members`: a membership of that epoch or later. No worker may use the cells meanwhile.
    pub fn restart(&self, epoch: Epoch, members: Members, floor: Timestamp, starts: &[EntryIndex]) {
        let mut ends = self.ends.lock().expect("no worker panics here");
        ends.arrivals.fill(None);
        hooks::tell(|| Fact::Restarted);
        ends.finals.clear();
        ends.members = Some(members);
        self.base.store(floor.0, Ordering::SeqCst);
        self.epoch.store(epoch.0, Ordering::SeqCst);
        for (cell, start) in self.cells.iter().zip(starts) {
            cell.decided.store(start.0 - 1, Ordering::Release);
            cell.closed.store(floor.0, Ordering::Release);
            cell.applied.store(floor.0, Ordering::Release);
            cell.caught_up.store(true, Ordering::Release);
            cell.quiet.store(0, Ordering::Release);
            cell.waiting.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_consensus::Voter;
    use highwater_core::{Incarnation, NodeId};

    fn s(stream: u16) -> StreamId {
        StreamId(stream)
    }

    fn publish(progress: &Progress, stream: u16, decided: u64, closed: u64) {
        progress.publish(s(stream), EntryIndex(decided), Timestamp(closed), false);
    }

    fn start(epoch: u64, index: u64, base: u64) -> Start {
        let voter = Voter { node: NodeId(0), incarnation: Incarnation(1) };
        let members = Members::new(Epoch(epoch), vec![voter]);
        Start { epoch: Epoch(epoch), index: EntryIndex(index), base: Timestamp(base), members }
    }

    fn arrival(epoch: u64, index: u64, base: u64, claims: Vec<OpenClaim>) -> Arrival {
        Arrival { starts: vec![start(epoch, index, base)], last: EntryIndex(index - 1), claims }
    }

    fn mark(progress: &Progress) -> u64 {
        progress.mark().0
    }

    #[test]
    fn a_silent_stream_holds_the_mark() {
        let progress = Progress::new(3);
        publish(&progress, 0, 5, 100);
        publish(&progress, 1, 7, 200);
        assert_eq!(mark(&progress), 0, "stream 2 said nothing: nothing is safe");
        publish(&progress, 2, 1, 50);
        assert_eq!(mark(&progress), 50);
    }

    #[test]
    fn a_claim_counts_once_its_index_is_decided() {
        let progress = Progress::new(2);
        publish(&progress, 0, 5, 100);
        let claim = OpenClaim { stream: s(1), index: EntryIndex(3), closed: Timestamp(100) };
        publish(&progress, 1, 2, 40);
        assert!(!progress.claim(claim), "entry 3 of stream 1 is not decided here");
        assert_eq!(mark(&progress), 40);
        publish(&progress, 1, 3, 60);
        assert!(progress.claim(claim));
        assert_eq!(mark(&progress), 100);
    }

    #[test]
    fn paper_figure_7_the_mark_is_the_minimum_over_streams() {
        let progress = Progress::new(5);
        for (round, expected) in
            [([12, 27, 8, 9, 11], 8), ([59, 46, 45, 48, 50], 45), ([85, 80, 75, 73, 70], 70)]
        {
            for (stream, closed) in round.into_iter().enumerate() {
                publish(&progress, stream as u16, 1, closed);
            }
            assert_eq!(mark(&progress), expected);
        }
    }

    #[test]
    fn paper_figure_8_the_final_mark_skips_what_may_miss_its_dependencies() {
        let progress = Progress::new(5);
        for (stream, closed) in [42, 44, 41, 21, 50].into_iter().enumerate() {
            publish(&progress, stream as u16, 3, closed);
        }
        for stream in 0..5 {
            assert_eq!(progress.arrive(s(stream), arrival(1, 4, 1000, vec![])), stream == 4);
        }
        assert_eq!(progress.final_mark(Epoch(0)), Some(Timestamp(21)), "26 and 41 in stream 3 are skipped");
        assert_eq!((progress.epoch(), mark(&progress)), (Epoch(1), 1000));
        assert_eq!(progress.mark_in(Epoch(0)), None);
    }

    #[test]
    fn a_claim_about_a_lost_tail_does_not_count_at_the_end_of_the_epoch() {
        let progress = Progress::new(2);
        publish(&progress, 0, 5, 100);
        publish(&progress, 1, 2, 40);
        let lost = OpenClaim { stream: s(1), index: EntryIndex(3), closed: Timestamp(100) };
        let kept = OpenClaim { stream: s(1), index: EntryIndex(2), closed: Timestamp(70) };
        assert!(!progress.arrive(s(0), arrival(1, 6, 1000, vec![lost, kept])));
        assert!(progress.arrive(s(1), arrival(1, 3, 1000, vec![])));
        assert_eq!(progress.final_mark(Epoch(0)), Some(Timestamp(70)));
    }

    #[test]
    fn an_epoch_that_started_in_some_streams_only_is_passed_over() {
        let progress = Progress::new(2);
        publish(&progress, 0, 5, 100);
        publish(&progress, 1, 2, 40);
        assert!(!progress.arrive(s(0), arrival(1, 6, 1000, vec![])));
        assert!(!progress.arrive(s(1), arrival(2, 3, 2000, vec![])));
        let mut later = arrival(1, 6, 1000, vec![]);
        later.starts.push(start(2, 7, 2000));
        assert!(progress.arrive(s(0), later));
        assert_eq!(progress.final_mark(Epoch(0)), Some(Timestamp(40)));
        assert_eq!((progress.epoch(), mark(&progress)), (Epoch(2), 2000));
    }

    #[test]
    fn a_stream_that_was_silent_for_a_whole_epoch_does_not_hide_it() {
        let progress = Progress::new(2);
        let mut silent = arrival(1, 1, 1000, vec![]);
        silent.starts.push(start(2, 2, 2000));
        assert!(!progress.arrive(s(0), silent));
        assert!(
            progress.arrive(s(1), arrival(1, 1, 1000, vec![])),
            "epoch 1 was entered by all and may hold much"
        );
        assert_eq!((progress.epoch(), mark(&progress)), (Epoch(1), 1000));
    }

    #[test]
    fn the_applied_floor_waits_for_every_stream() {
        let progress = Progress::new(2);
        progress.publish(s(0), EntryIndex(1), Timestamp(100), true);
        progress.publish(s(1), EntryIndex(1), Timestamp(90), true);
        assert_eq!(progress.applied_floor(), Timestamp(0));
        progress.publish_applied(s(0), Timestamp(90), false);
        progress.publish_applied(s(1), Timestamp(90), true);
        assert_eq!(progress.applied_floor(), Timestamp(90));
        publish(&progress, 1, 2, 95);
        progress.publish_applied(s(0), Timestamp(95), true);
        assert_eq!(progress.applied_floor(), Timestamp(95), "an empty entry needs no installing");
    }
}
