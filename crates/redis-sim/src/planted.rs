//! The door's planted bugs beside the engines': see [`highwater_sim::planted`].

use highwater_core::planted::Bug;
use highwater_redis::planted::ALL;
use highwater_sim::planted;

/// All of them.
pub fn all() -> Vec<&'static Bug> {
    planted::all().into_iter().chain(ALL.iter().copied()).collect()
}

/// The bug of a name.
pub fn by_name(name: &str) -> Option<&'static Bug> {
    all().into_iter().find(|bug| bug.name == name)
}
