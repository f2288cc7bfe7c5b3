//! A seat is what an engine is to the reader of the users ([`Users`](highwater_redis::host::Users)): it may ask one thing in a turn, which its host hands in.

use highwater_core::{Incarnation, Levels, NodeId, ProcedureId};
use highwater_seam::{Endpoint, Frame, Nanos, Next, Outbox, Refusal, Request, Taken, Worker};

/// See the module.
pub struct Seat {
    ready: Result<(), Refusal>,
    waits: bool,
    /// The question: of a snapshot, or in a transaction.
    pub asked: Option<(bool, ProcedureId, Vec<u8>)>,
}

impl Seat {
    /// The seat of a worker that says so to whoever wants to submit, and waits for another node to serve.
    pub fn new(ready: Result<(), Refusal>, waits: bool) -> Seat {
        Seat { ready, waits, asked: None }
    }

    fn ask(&mut self, snapshot: bool, request: &Request<'_>) -> Result<Taken, Refusal> {
        self.asked = Some((snapshot, request.procedure, request.args.to_vec()));
        Ok(Taken::Placed)
    }
}

impl Worker for Seat {
    fn ready(&self) -> Result<(), Refusal> {
        self.ready
    }

    fn waits_for_leader(&self) -> bool {
        self.waits
    }

    fn submit(&mut self, _: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        self.ask(false, &request)
    }

    fn submit_snapshot(&mut self, _: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        self.ask(true, &request)
    }

    fn peer_up(&mut self, _: Nanos, _: NodeId, _: Incarnation, _: Levels) {}
    fn peer_down(&mut self, _: Nanos, _: NodeId) {}
    fn deliver(&mut self, _: Nanos, _: Endpoint, _: Frame) {}

    fn turn(&mut self, _: Nanos, _: &mut Outbox) -> Next {
        Next::Idle
    }

    fn describe(&self) -> String {
        String::new()
    }
}
