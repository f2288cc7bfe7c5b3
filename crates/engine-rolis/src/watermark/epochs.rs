//! The end of an epoch: its final mark, and where the next one begins.

use highwater_consensus::Members;
use highwater_core::sync::{MutexGuard, Ordering};
use highwater_core::{EntryIndex, Epoch, StreamId, Timestamp};

use super::Watermark;
use super::arrival::{Arrival, Ends, Start};
use crate::hooks;

impl Watermark {
    /// The ends of epochs, as far as they are known.
    ///
    /// Invariant: the epoch, the final mark of the one before and the membership change under this lock, and nobody reads the last two without
    /// it. One worker may find the next epoch in the cells while another is still in [`switch`](Watermark::switch), or while a copy takes the
    /// place of the state: who asks then how the epoch before ended, or who belongs, waits here until all of it is there. Workers take a final
    /// mark for given as soon as [`mark_in`](Watermark::mark_in) says `None`, and a promise tells the members that are known once all streams
    /// have answered.
    pub(super) fn ends(&self) -> MutexGuard<'_, Ends> {
        let ends = self.ends.lock().expect("no worker panics here");
        assert_eq!(ends.entered, self.epoch(), "an epoch ends and begins under the lock of the ends");
        ends
    }

    /// The final mark of an epoch that ended here.
    pub fn final_mark(&self, epoch: Epoch) -> Option<Timestamp> {
        self.ends().finals.get(&epoch).copied()
    }

    /// The membership of the current epoch, if it was entered through a change.
    pub fn members(&self) -> Option<Members> {
        self.ends().members.clone()
    }

    /// The owner of `stream` found the first entry of a later epoch (or, later, that a further one follows). It looks no
    /// further until the epoch has changed. Returns whether it has changed now.
    ///
    /// The next epoch is the first one that every stream has entered. It is the same on every replica: what is common to
    /// all streams comes in the same order in each, so a longer look never finds an earlier common one.
    pub fn arrive(&self, stream: StreamId, arrival: Arrival) -> bool {
        let mut ends = self.ends();
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
        hooks::final_mark(current, final_mark);
        ends.finals.insert(current, final_mark);
        ends.members = Some(starts[0].members.clone());
        ends.entered = goal;
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
        let mut ends = self.ends();
        ends.arrivals.fill(None);
        hooks::restarted();
        ends.finals.clear();
        (ends.entered, ends.members) = (epoch, Some(members));
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
