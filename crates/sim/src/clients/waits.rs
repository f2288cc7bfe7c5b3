//! How long clients wait.

use highwater_seam::Nanos;

/// A request or a reply takes at least this long, and up to so much more.
pub(super) const HOP: (Nanos, Nanos) = (5_000, 60_000);
/// A client that was refused waits up to this long.
pub(super) const REFUSED_WAIT: Nanos = 2_000_000;
