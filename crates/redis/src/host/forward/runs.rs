//! Engines and what is looked at before they are asked, as far as forwarding needs them.

use highwater_seam::{Nanos, Refusal, Request, Taken, Worker};

use super::message::Ask;

/// The judgement on a request before it is submitted.
pub enum Judged {
    May,
    /// A pause holds it back.
    Waits,
    /// Its user may not; what the client is told.
    Denied(String),
}

/// Whoever says which requests of other nodes, or of clients that asked other nodes, may be run here.
pub trait Judge {
    /// Whether a pause holds it. (Its arguments are not looked at: it may be asked in each turn.)
    fn pauses(&self, ask: &Ask) -> bool;

    /// Gives a request this node's time, and judges it.
    fn prepare(&self, ask: &Ask, args: &mut [u8]) -> Judged;
}

/// For tests: one that asks for no arguments.
#[cfg(any(test, feature = "testing"))]
impl<F: Fn(&Ask, &mut [u8]) -> Judged> Judge for F {
    fn pauses(&self, ask: &Ask) -> bool {
        matches!(self(ask, &mut []), Judged::Waits)
    }

    fn prepare(&self, ask: &Ask, args: &mut [u8]) -> Judged {
        self(ask, args)
    }
}

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
