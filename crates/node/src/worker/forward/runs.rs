//! Engines, as far as forwarding needs them.

use highwater_engines::{Nanos, Refusal, Request, Taken, Worker};

/// Whoever runs what is forwarded: a worker of an engine, or what stands for one in a simulated node.
pub trait Runs {
    /// See [`Worker::submit`].
    ///
    /// # Errors
    /// As there.
    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal>;

    /// See [`Worker::unreleased_reply_bytes`].
    fn unreleased_reply_bytes(&self) -> usize;
}

impl<W: Worker + ?Sized> Runs for W {
    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        Worker::submit(self, now, request)
    }

    fn unreleased_reply_bytes(&self) -> usize {
        Worker::unreleased_reply_bytes(self)
    }
}
