//! What a checkpoint needs of one stream: from where on its records lead to the present state, and when what was scanned is settled
//! and on disk.

use std::collections::VecDeque;

use highwater_consensus::{Recovered, RecoveryPoint, Stream};
use highwater_core::{EntryIndex, Timestamp};
use highwater_seam::{LogPosition, Nanos, Next};

use crate::context::{Context, Turn};
use crate::disk::checkpoint::Settling;
use crate::disk::gate::Gate;
use crate::hooks;
use crate::messages::Report;

/// How many bytes of records lie between two points, at least: so much too much is read after a crash.
const POINT_EVERY: u64 = 256 << 10;
/// More points than this are thinned out.
const MOST_POINTS: usize = 4096;
/// How soon to look again at what is not settled.
const UNSETTLED_RECHECK: Nanos = 500_000;

/// The stream's state at several positions of its records.
///
/// Invariant: the first point is the one that the last checkpoint goes on from, or that of an empty stream; positions grow.
pub struct Points {
    points: VecDeque<(u64, RecoveryPoint)>,
    /// Behind the last write.
    latest: (u64, RecoveryPoint),
    settling: Option<Settling>,
}

impl Default for Points {
    fn default() -> Points {
        Points::starting_at(0, RecoveryPoint::default())
    }
}

impl Points {
    /// At `position` of the records the stream was at `point`.
    pub fn starting_at(position: u64, point: RecoveryPoint) -> Points {
        Points { points: VecDeque::from([(position, point)]), latest: (position, point), settling: None }
    }

    /// All records up to `position` lead to the stream as it is.
    #[inline]
    pub fn note(&mut self, position: u64, stream: &Stream) {
        self.latest = (position, stream.recovery_point());
        if self.wants(position) {
            self.push(position, self.latest.1);
        }
    }

    /// The same of a stream that is being recovered.
    pub fn note_recovered(&mut self, position: u64, recovered: &Recovered) {
        if self.wants(position)
            && let Some(point) = recovered.recovery_point()
        {
            self.push(position, point);
        }
    }

    #[inline]
    fn wants(&self, position: u64) -> bool {
        let (last, _) = self.points.back().expect("there is a first point");
        position - last >= hooks::recovery_points_every(POINT_EVERY)
    }

    /// All that was written leads to the stream as it is: a process begins.
    pub fn begin(&mut self, position: u64, stream: &Stream) {
        self.latest = (position, stream.recovery_point());
        if self.points.back().is_some_and(|(last, _)| position > *last) {
            self.push(position, stream.recovery_point());
        }
    }

    fn push(&mut self, position: u64, point: RecoveryPoint) {
        debug_assert!(self.points.back().is_none_or(|(last, _)| *last < position), "positions grow");
        if self.points.len() >= MOST_POINTS {
            let mut at = 0;
            self.points.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        self.points.push_back((position, point));
    }

    /// The latest point from which recovery leads to a log that has the entry `start` and all behind it, whatever becomes of it.
    /// `None`: the last checkpoint went on from further on, because this replica's store was replaced since by one that is older. It
    /// will not be for long.
    ///
    /// Each checkpoint makes a point besides: a stream that says hardly anything would hold all of the journal else, for its records
    /// stand among everybody's.
    pub fn before(&mut self, start: EntryIndex) -> Option<(LogPosition, RecoveryPoint)> {
        let (position, point) = self.latest;
        if self.points.back().is_some_and(|(last, _)| *last < position) {
            self.push(position, point);
        }
        let found = self.points.iter().rev().find(|(_, point)| point.last < start);
        found.map(|(position, point)| (LogPosition(*position), *point))
    }

    /// A checkpoint is published that goes on from here.
    pub fn published(&mut self, position: LogPosition) {
        self.points.retain(|(at, _)| *at >= position.0);
    }

    /// Reports once a checkpoint may count on this stream.
    pub fn settle(&mut self, settling: Settling) {
        self.settling = Some(settling);
    }

    /// Reports that what a checkpoint scanned is settled, and that this replica knows it after a crash, once it is so.
    pub fn turn(
        &mut self,
        context: &Context,
        stream: &mut Stream,
        gate: &mut Gate,
        close_up_to: impl FnOnce(Timestamp),
        turn: &mut Turn<'_>,
    ) -> Next {
        let Some(Settling { number, complete_at, led }) = self.settling else { return Next::Idle };
        let progress = &context.shared.progress;
        let mark = match led {
            Some(epoch) => progress.mark_in(epoch),
            None => Some(progress.mark()),
        };
        let settled = match mark {
            Some(mark) if mark < complete_at && !hooks::checkpoints_unsettled() => {
                if led.is_some() {
                    close_up_to(complete_at);
                }
                return Next::At(turn.now + UNSETTLED_RECHECK);
            }
            Some(_) => Some(stream.decided()),
            None => None,
        };
        self.settling = None;
        stream.record_decided();
        let report = Report::CheckpointSettled { number, stream: context.id, decided: settled };
        gate.report(stream.changes_made(), report, context, turn);
        Next::Idle
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::{Ballot, Epoch, NodeId};

    use super::*;

    fn point(last: u64) -> RecoveryPoint {
        let ballot = Ballot { epoch: Epoch(1), node: NodeId(0) };
        RecoveryPoint { promised: ballot, accepted: ballot, last: EntryIndex(last) }
    }

    /// A few hundred bytes of an idle stream held gigabytes of the others'.
    /// Once: a journal was never released while one stream was nearly idle: recovery points came every 256 KiB of the
    /// stream's own records, so that its few bytes held every segment. 4.1 GB after 75 s.
    #[test]
    fn each_checkpoint_leaves_behind_what_a_quiet_stream_said_before_it() {
        let mut points = Points { latest: (300, point(3)), ..Points::default() };
        assert_eq!(points.before(EntryIndex(4)), Some((LogPosition(300), point(3))), "nothing since");
        points.published(LogPosition(300));
        points.latest = (500, point(5));
        // Its last entry may be missing in the scan: the next checkpoint can go on from here.
        assert_eq!(points.before(EntryIndex(5)), Some((LogPosition(300), point(3))));
        points.latest = (600, point(6));
        assert_eq!(points.before(EntryIndex(6)), Some((LogPosition(500), point(5))));
        points.published(LogPosition(500));
        assert_eq!(points.before(EntryIndex(5)), None, "further back there is nothing any more");
    }
}
