//! What each worker lets its controller see without a word between them: when it took its last turn and when the next is
//! due, whether what it executes goes on, since when its stream stands still, and whom it heard when.
//!
//! A worker stores a few plain words a turn, on cache lines of its own; the controller reads them at its heartbeats. So a
//! heartbeat can vouch for the workers ([`crate::members::health`]), and what travels between workers counts as a sign of life
//! between nodes.

use std::sync::Arc;

use highwater_core::limits::MAX_NODE_ID;
use highwater_core::sync::{AtomicU64, Ordering};
use highwater_core::{Epoch, NodeId, Progress};
use highwater_seam::{Nanos, Next};

/// No time at all: nothing is due, nothing waits.
pub const NEVER: Nanos = Nanos::MAX;

/// A place for every id that a node may have.
const IDS: usize = MAX_NODE_ID as usize + 1;

/// One worker's. Each field is written by the worker only, and stands for itself: no two are read together as one picture.
#[derive(Debug)]
#[repr(align(128))]
pub struct Pulse {
    turned_at: AtomicU64,
    due_at: AtomicU64,
    still_since: AtomicU64,
    waiting_bytes: AtomicU64,
    unsynced_since: AtomicU64,
    unsynced_bytes: AtomicU64,
    /// Since when it executes, and the steps of that.
    progress: Arc<Progress>,
    led_at: AtomicU64,
    led_epoch: AtomicU64,
    heard: [AtomicU64; IDS],
}

impl Default for Pulse {
    fn default() -> Pulse {
        Pulse {
            turned_at: AtomicU64::new(0),
            due_at: AtomicU64::new(NEVER),
            still_since: AtomicU64::new(NEVER),
            waiting_bytes: AtomicU64::new(0),
            unsynced_since: AtomicU64::new(NEVER),
            unsynced_bytes: AtomicU64::new(0),
            progress: Arc::default(),
            led_at: AtomicU64::new(0),
            led_epoch: AtomicU64::new(0),
            heard: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Pulse {
    /// A turn at `now` has ended; the next one is due by `next`.
    #[inline]
    pub fn turned(&self, now: Nanos, next: Next) {
        let due = match next {
            Next::Now => now,
            Next::At(at) => at,
            Next::Idle => NEVER,
        };
        self.turned_at.store(now, Ordering::Relaxed);
        self.progress.executes(NEVER);
        self.due_at.store(due, Ordering::Relaxed);
    }

    /// Work has come since the last turn: another one is due.
    #[inline]
    pub fn stirred(&self, now: Nanos) {
        self.due_at.store(now, Ordering::Relaxed);
    }

    /// Requests are about to be executed: one may take long, and the turn behind it is due later.
    #[inline]
    pub fn executes(&self, now: Nanos, due_by: Nanos) {
        self.due_at.store(due_by, Ordering::Relaxed);
        self.progress.executes(now);
    }

    /// Since when it has been executing; [`NEVER`] if it is not.
    pub fn executes_since(&self) -> Nanos {
        self.progress.executes_since()
    }

    /// Asks what has been executing since then to begin no further transaction before it has paused.
    pub fn pause(&self, since: Nanos) {
        self.progress.pause(since);
    }

    /// Asks what has been executing since then to end.
    pub fn end(&self, since: Nanos) {
        self.progress.end(since);
    }

    /// The word in which its transactions show that they go on.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Steps of its transactions, ever: whoever finds more of them than at the last look knows that it goes on.
    pub fn steps(&self) -> u64 {
        self.progress.steps()
    }

    /// So many bytes wait to be decided: on a slow network that takes its time.
    #[inline]
    pub fn waiting_bytes(&self, bytes: u64) {
        self.waiting_bytes.store(bytes, Ordering::Relaxed);
    }

    /// See [`waiting_bytes`](Pulse::waiting_bytes).
    pub fn waits_for_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// The oldest record that is not on this node's disk was handed out then; [`NEVER`] if all are. And so many bytes are not; 0 unless this
    /// worker leads.
    #[inline]
    pub fn unsynced(&self, since: Nanos, bytes: u64) {
        self.unsynced_since.store(since, Ordering::Relaxed);
        self.unsynced_bytes.store(bytes, Ordering::Relaxed);
    }

    /// See [`unsynced`](Pulse::unsynced).
    pub fn unsynced_since(&self) -> Nanos {
        self.unsynced_since.load(Ordering::Relaxed)
    }

    /// See [`unsynced`](Pulse::unsynced).
    pub fn unsynced_bytes(&self) -> u64 {
        self.unsynced_bytes.load(Ordering::Relaxed)
    }

    /// Since when something waits to be decided or released without any progress; [`NEVER`] if nothing waits.
    #[inline]
    pub fn still_since(&self, since: Nanos) {
        self.still_since.store(since, Ordering::Relaxed);
    }

    /// Something came from a peer's worker.
    #[inline]
    pub fn hear(&self, from: NodeId, now: Nanos) {
        // Ids are checked where nodes greet each other; what is above has no place, and counts for nobody else.
        if let Some(heard) = self.heard.get(usize::from(from.0)) {
            heard.store(now, Ordering::Relaxed);
        }
    }

    /// Something came from the leader of `epoch`, as such.
    #[inline]
    pub fn hear_leader(&self, epoch: Epoch, now: Nanos) {
        // If the controller sees one without the other, an old time counts for a new epoch or nothing counts: no harm.
        self.led_epoch.store(epoch.0, Ordering::Relaxed);
        self.led_at.store(now, Ordering::Relaxed);
    }

    /// When the last turn was.
    pub fn last_turn(&self) -> Nanos {
        self.turned_at.load(Ordering::Relaxed)
    }

    /// When the next one is due.
    pub fn due(&self) -> Nanos {
        self.due_at.load(Ordering::Relaxed)
    }

    /// See [`still_since`](Pulse::still_since).
    pub fn standing_still(&self) -> Nanos {
        self.still_since.load(Ordering::Relaxed)
    }

    /// Whether it executes something, or something of its stream waits to be decided or released.
    pub fn is_busy(&self) -> bool {
        self.executes_since() != NEVER || self.standing_still() != NEVER
    }

    /// The leader that was heard last, by its epoch, and when.
    pub fn leader_heard(&self) -> (Epoch, Nanos) {
        let at = self.led_at.load(Ordering::Relaxed);
        (Epoch(self.led_epoch.load(Ordering::Relaxed)), at)
    }

    /// When a peer's worker was heard last; 0 if never.
    pub fn heard(&self, from: NodeId) -> Nanos {
        self.heard.get(usize::from(from.0)).map_or(0, |heard| heard.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Ids were taken modulo 32: as long as node 35 said something, node 3 counted as heard.
    #[test]
    fn each_node_is_heard_for_itself_whatever_its_id() {
        let pulse = Pulse::default();
        for id in 0..=MAX_NODE_ID {
            pulse.hear(NodeId(id), 1000 + u64::from(id));
        }
        for id in 0..=MAX_NODE_ID {
            assert_eq!(pulse.heard(NodeId(id)), 1000 + u64::from(id), "node {id}");
        }
        let pulse = Pulse::default();
        pulse.hear(NodeId(35), 7);
        assert_eq!((pulse.heard(NodeId(35)), pulse.heard(NodeId(3))), (7, 0));
    }
}
