//! The surroundings of a worker's parts: those of any worker of a log, and the meaning of positions in Rolis.

pub use highwater_log_host::context::{Turn, recheck};

use crate::marks::Marks;

/// Which worker of which replica this is, and what it shares with the others.
pub type Context = highwater_log_host::context::With<Marks>;
