//! What will happen, in the order of virtual time; at one time, in the order in which it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use highwater_seam::Nanos;

/// A queue of events. The heap holds numbers only: events stay where they are until they are due.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    /// When, which in the order of planning, and where.
    heap: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    events: Vec<Option<E>>,
    free: Vec<usize>,
    planned: u64,
}

impl<E> Queue<E> {
    pub fn new() -> Queue<E> {
        Queue { heap: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), planned: 0 }
    }

    pub fn push(&mut self, at: Nanos, event: E) {
        self.planned += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.events[slot] = Some(event);
                slot
            }
            None => {
                self.events.push(Some(event));
                self.events.len() - 1
            }
        };
        self.heap.push(Reverse((at, self.planned, slot)));
    }

    /// The next event, if it is due by `until`: when, its number, and what.
    pub fn pop(&mut self, until: Nanos) -> Option<(Nanos, u64, E)> {
        let Reverse((at, number, slot)) = *self.heap.peek()?;
        if at > until {
            return None;
        }
        self.heap.pop();
        self.free.push(slot);
        Some((at, number, self.events[slot].take().expect("an event is taken once")))
    }
}
