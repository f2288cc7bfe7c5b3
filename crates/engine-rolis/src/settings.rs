//! Rolis's own settings: the section `engines.rolis` of a configuration.

use highwater_seam::settings::Setting;

/// A snapshot serves reads on a follower until it is this old, in microseconds; then a new one is taken.
pub const SNAPSHOT_AGE_US: Setting =
    Setting { name: "snapshot_age_us", default: 10_000, least: 0, most: 60_000_000 };

/// A request with so many bytes of arguments is executed apart: when its worker has nothing undecided, so that the others need
/// not wait for it. So a worker executes one such request in a round trip.
pub const LONG_REQUEST_BYTES: Setting =
    Setting { name: "long_request_bytes", default: 1 << 20, least: 1, most: 64 << 20 };

/// All of them.
pub const ALL: &[Setting] = &[SNAPSHOT_AGE_US, LONG_REQUEST_BYTES];
