//! Attempts of one transaction, one after the other.

use highwater_core::{Nanos, Timestamp};
use highwater_meerkat_wire::Late;

use crate::core::Core;

/// What is remembered from one attempt to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    count: u32,
    since: Nanos,
    hint: Timestamp,
    late: Option<Late>,
}

impl Attempts {
    /// None was made.
    pub fn new(now: Nanos) -> Attempts {
        Attempts { count: 0, since: now, hint: Timestamp::ZERO, late: None }
    }

    /// The next one begins.
    pub fn begin(&mut self, core: &mut Core) {
        self.count += 1;
        core.begin(self.hint, self.late);
    }

    /// One came to nothing: what was in the way, and whether it came too late.
    pub fn learn(&mut self, hint: Timestamp, late: Option<Late>) {
        (self.hint, self.late) = (self.hint.max(hint), late.or(self.late));
    }

    /// How many there were.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether there may be another one.
    pub fn may_go_on(&self, now: Nanos, most: u32, patience: Nanos) -> bool {
        self.count < most && now <= self.since + patience
    }
}
