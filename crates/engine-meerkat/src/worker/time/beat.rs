//! When a worker looks after what nobody answered, and tells how far it is.

use highwater_seam::Nanos;

/// How long a worker that has nothing to do goes on telling others how far it is, in heartbeats.
const RESTLESS: u32 = 3;

#[derive(Default)]
pub struct Beat {
    next: Nanos,
    /// Heartbeats for which it goes on.
    restless: u32,
}

impl Beat {
    /// Whether it is time; then the next one comes after `every`.
    pub fn is_due(&mut self, now: Nanos, every: Nanos) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + every;
        }
        due
    }

    pub fn next(&self) -> Nanos {
        self.next
    }

    pub fn is_restless(&self) -> bool {
        self.restless > 0
    }

    /// A heartbeat is over.
    pub fn pass(&mut self, busy: bool) {
        self.restless = if busy { RESTLESS } else { self.restless.saturating_sub(1) };
    }

    /// The next one comes at `at` at the latest.
    pub fn soon(&mut self, at: Nanos) {
        self.next = self.next.min(at);
    }

    /// There is something to tell.
    pub fn rouse(&mut self) {
        self.restless = RESTLESS;
    }

    /// Both.
    pub fn rouse_at(&mut self, at: Nanos) {
        self.rouse();
        self.soon(at);
    }

    /// An epoch begins.
    pub fn begin(&mut self, now: Nanos) {
        (self.next, self.restless) = (now, RESTLESS);
    }
}
