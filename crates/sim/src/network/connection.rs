//! One connection: two directions, two ends that believe different things for a while.

use std::collections::{BTreeMap, VecDeque};

use highwater_core::Incarnation;
use highwater_seam::Nanos;

use super::link::{Channel, Payload};

const MS: Nanos = 1_000_000;

/// What a connection carries. Each has its own: a copy on a worker's does not delay heartbeats between controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Bytes in a millisecond, in each direction.
    pub bytes_per_ms: u64,
    /// A connection on which more would wait in one direction breaks; one frame always fits.
    pub backlog_bytes: u64,
}

/// A frame on its way.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub sent: Nanos,
    pub arrives: Nanos,
    pub payload: Payload,
}

/// The state of one connection. Sides are 0 for the lower node, 1 for the higher.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// Counts the times it was made; what is told of an earlier time is void.
    pub generation: u64,
    /// Frames may be sent.
    pub alive: bool,
    /// When it was made.
    pub since: Nanos,
    /// Whose lives it joins.
    pub lives: [Incarnation; 2],
    /// Which ends believe that it is up: they hear of its loss later.
    pub believed: [bool; 2],
    /// On their way to each side, in order.
    pub under_way: [VecDeque<InFlight>; 2],
    /// When the last frame to each side arrives.
    last: [Nanos; 2],
    /// From when on the wire to each side is free.
    free: [Nanos; 2],
    /// By side and worker: when the last frame was passed on that came here for a worker of another number.
    passed_on: BTreeMap<(usize, Channel), Nanos>,
}

impl Connection {
    /// Made (again), between these lives of its ends.
    pub fn connect(&mut self, now: Nanos, lives: [Incarnation; 2]) {
        self.alive = true;
        self.since = now;
        self.lives = lives;
        self.generation += 1;
        self.believed = [true; 2];
        self.under_way.iter_mut().for_each(VecDeque::clear);
        self.last = [now; 2];
        self.free = [now; 2];
    }

    /// A frame of `bytes` that leaves at `leaves` takes its place on the wire to `side`, behind all before it: says when
    /// it is off. `None`: too much waits there already. One frame is always taken, however long.
    pub fn occupy(&mut self, side: usize, leaves: Nanos, bytes: u64, wire: Option<Wire>) -> Option<Nanos> {
        let Some(Wire { bytes_per_ms, backlog_bytes }) = wire else { return Some(leaves) };
        let free = &mut self.free[side];
        let waiting = free.saturating_sub(leaves) * bytes_per_ms / MS;
        if waiting > 0 && waiting + bytes > backlog_bytes {
            return None;
        }
        *free = (*free).max(leaves) + bytes * MS / bytes_per_ms;
        Some(*free)
    }

    /// A frame to `side` that would take until `at`; says when it arrives, behind all before it.
    pub fn send(&mut self, side: usize, sent: Nanos, at: Nanos, payload: Payload) -> Nanos {
        let arrives = at.max(self.last[side] + 1);
        self.last[side] = arrives;
        self.under_way[side].push_back(InFlight { sent, arrives, payload });
        arrives
    }

    /// A frame for a worker of another number came to `side`, and would be passed on at `at`: says when it is, behind all
    /// before it, of earlier connections, too.
    pub fn pass_on(&mut self, side: usize, worker: Channel, at: Nanos) -> Nanos {
        let last = self.passed_on.entry((side, worker)).or_default();
        *last = at.max(*last + 1);
        *last
    }

    /// Breaks it: of what is under way to each side, `keep` of `len` frames still arrive. Returns the others, and when
    /// the last one arrives at each side.
    pub fn break_off(&mut self, mut keep: impl FnMut(usize) -> usize) -> ([Vec<InFlight>; 2], [Nanos; 2]) {
        self.alive = false;
        let mut last = [0; 2];
        let lost = [0, 1].map(|side| {
            let queue = &mut self.under_way[side];
            let lost = queue.split_off(keep(queue.len()));
            last[side] = queue.back().map_or(0, |frame| frame.arrives);
            lost.into()
        });
        (lost, last)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn frames_queue_behind_each_other_and_overflow() {
        let mut connection = Connection::default();
        connection.connect(10, Default::default());
        let wire = Some(Wire { bytes_per_ms: 1000, backlog_bytes: 2500 });
        assert_eq!(connection.occupy(1, 10, 1_000_000, None), Some(10));
        let mut off = |side, leaves, bytes| connection.occupy(side, leaves, bytes, wire);
        assert_eq!(off(1, 10, 2000), Some(2 * MS + 10));
        assert_eq!(off(0, 10, 1000), Some(MS + 10), "each direction has its own");
        assert_eq!(off(1, MS + 10, 500), Some(2 * MS + MS / 2 + 10), "behind the first");
        assert_eq!(off(1, MS + 10, 2000), None, "1500 wait already");
        assert_eq!(off(1, 9 * MS, 9_000_000), Some(9009 * MS), "an idle wire takes any frame");
    }

    #[test]
    fn order_is_kept_and_a_break_loses_a_suffix_of_each_direction() {
        let mut connection = Connection::default();
        connection.connect(10, Default::default());
        let payload = || Payload::Control(Bytes::new());
        let arrivals: Vec<_> =
            [50, 20, 70].into_iter().map(|at| connection.send(1, 10, at, payload())).collect();
        assert_eq!(arrivals, [50, 51, 70]);
        connection.send(0, 10, 30, payload());
        let (lost, last) = connection.break_off(|len| len.min(2));
        assert_eq!((lost[0].len(), lost[1].len(), last), (0, 1, [30, 51]));
        assert!(!connection.alive && connection.believed == [true; 2]);
    }
}
