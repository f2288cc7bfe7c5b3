//! Units of virtual time, which counts in nanoseconds.

use highwater_seam::Nanos;

/// A microsecond.
pub(crate) const US: Nanos = 1_000;
/// A millisecond.
pub(crate) const MS: Nanos = 1_000_000;
