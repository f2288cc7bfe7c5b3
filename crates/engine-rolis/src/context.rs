//! The surroundings of a worker's parts: those of any worker of a log, and the meaning of positions in Rolis.

use std::ops::Deref;
use std::sync::Arc;

pub use highwater_log_host::context::{Turn, recheck};

use crate::marks::Marks;

/// Which worker of which replica this is, and what it shares with the others.
pub struct Context {
    /// As the log's host knows it: the parts of a worker that stand there take no more.
    pub log: highwater_log_host::context::Context,
    /// The meaning of positions, with the other workers and the controller.
    pub marks: Arc<Marks>,
}

impl Deref for Context {
    type Target = highwater_log_host::context::Context;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.log
    }
}
