//! One client's connection: bytes in, engine requests and reply bytes out.

use std::sync::Arc;

use highwater_core::{Outcome, ProcedureId};
use highwater_engines::seam::Refusal;

use super::Door;

/// A transaction that a connection wants to run.
#[derive(Clone, Copy, Debug)]
pub struct EngineRequest<'a> {
    /// Names the request on its connection; comes back in `submitted`, `refused` and `released`.
    pub seq: u64,
    /// The code to run.
    pub procedure: ProcedureId,
    /// Its arguments; valid until the next call.
    pub args: &'a [u8],
}

/// A client's connection; see the [module](super) for how a host drives it.
pub struct Connection {}

impl Connection {
    /// A fresh connection. `id` is what `CLIENT ID` and `HELLO` answer: unique on this node.
    pub fn new(_id: u64, _door: Arc<Door>) -> Connection {
        Connection {}
    }

    /// Takes bytes from the socket. Parses nothing yet.
    pub fn receive(&mut self, _bytes: &[u8]) {}

    /// Whether the host should read more from the socket: false while enough unread input or unsent output waits,
    /// and once the connection takes no more commands.
    pub fn accepts_input(&self) -> bool {
        true
    }

    /// The next engine request, if there is one; the same one until it is [`submitted`](Self::submitted) or
    /// refused. Answers local commands on the way. `None`: needs input, waits for a `WATCH`, has too much in
    /// flight, or is closing.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<EngineRequest<'_>> {
        None
    }

    /// The engine took the request.
    pub fn submitted(&mut self, _seq: u64) {}

    /// The engine did not take the request. `Busy` leaves it where it was; the others answer it with an error.
    pub fn refused(&mut self, _seq: u64, _refusal: Refusal) {}

    /// The engine released a reply.
    pub fn released(&mut self, _seq: u64, _outcome: Outcome, _bytes: &[u8]) {}

    /// Bytes that are ready for the socket.
    pub fn output(&self) -> &[u8] {
        &[]
    }

    /// The first `n` bytes of [`output`](Self::output) were written.
    pub fn wrote(&mut self, _n: usize) {}

    /// Nothing more will come: close once the output is written.
    pub fn closing(&self) -> bool {
        false
    }
}
