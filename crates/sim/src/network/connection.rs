//! One connection: two directions, two ends that believe different things for a while.

use std::collections::VecDeque;

use highwater_engines::Nanos;

use super::Payload;

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
    /// Which ends believe that it is up: they hear of its loss later.
    pub believed: [bool; 2],
    /// On their way to each side, in order.
    pub under_way: [VecDeque<InFlight>; 2],
    /// When the last frame to each side arrives.
    last: [Nanos; 2],
}

impl Connection {
    /// Made (again).
    pub fn connect(&mut self, now: Nanos) {
        self.alive = true;
        self.generation += 1;
        self.believed = [true; 2];
        self.under_way.iter_mut().for_each(VecDeque::clear);
        self.last = [now; 2];
    }

    /// A frame to `side` that would take until `at`; says when it arrives, behind all before it.
    pub fn send(&mut self, side: usize, sent: Nanos, at: Nanos, payload: Payload) -> Nanos {
        let arrives = at.max(self.last[side] + 1);
        self.last[side] = arrives;
        self.under_way[side].push_back(InFlight { sent, arrives, payload });
        arrives
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
    fn order_is_kept_and_a_break_loses_a_suffix_of_each_direction() {
        let mut connection = Connection::default();
        connection.connect(10);
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
