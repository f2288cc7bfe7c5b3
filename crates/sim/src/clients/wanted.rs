//! What simulated readers ask of a snapshot's freshness.
//!
//! Bounds are measured by the clocks of the replicas that read, which run fast or slow; what a bound promises is written down in the
//! world's time, with some room for that.

use highwater_core::Timestamp;
use highwater_seam::{Freshness, Nanos};

/// What a snapshot read asks for; by default nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    pub(super) freshness: Option<Freshness>,
    /// What ended before this moment has to be in it.
    pub(super) since: Option<Nanos>,
    /// Its snapshot has to be at or above this.
    pub(super) least: Timestamp,
}

/// A clock that is slower than the world's takes so much longer, in percent.
const SLOWEST: u64 = 150;
impl Wanted {
    /// Of a read that begins at `now`.
    pub(super) fn within(age: Nanos, now: Nanos) -> Wanted {
        let since = now.saturating_sub(age * SLOWEST / 100);
        Wanted { freshness: Some(Freshness::Within(age)), since: Some(since), least: Timestamp::ZERO }
    }
}
