//! A turn as a coroutine: it may be suspended anywhere inside the product's code.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use highwater_core::{Incarnation, Levels, NodeId, ProcedureId};
use highwater_seam::{
    CheckpointNews, ClientId, ControlOutbox, Controller, Endpoint, Frame, Freshness, LogPosition, Nanos,
    Next, Outbox, Refusal, Request, Session, Token, Worker,
};

use super::actor::Why;
use super::suspender::Suspender;
use super::{SPINS, Stage};

/// What waits for a thread's turn.
pub(crate) enum Input {
    Frame(Endpoint, Frame),
    Message(NodeId, Bytes),
    Request(Token, ProcedureId, Vec<u8>, Option<Session>),
    Read(Token, ProcedureId, Vec<u8>, Option<Freshness>),
    /// The disk has brought down what the worker wrote up to here.
    Synced(LogPosition),
    /// What became of a checkpoint: for controllers.
    Checkpoint(CheckpointNews),
    Up(NodeId, Incarnation, Levels),
    /// A client that coordinates: it is connected, says something, is gone.
    ClientUp(ClientId),
    Client(ClientId, Bytes),
    ClientDown(ClientId),
    /// Whether its machine refuses connections: for controllers.
    Down(NodeId, bool),
}

impl Input {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        let len = match self {
            Input::Frame(_, frame) => frame.head.len() + frame.body.len(),
            Input::Message(_, message) => message.len(),
            Input::Request(_, _, args, _) | Input::Read(_, _, args, _) => args.len(),
            Input::Client(_, message) => message.len(),
            Input::Synced(_) | Input::Checkpoint(_) | Input::Up(..) | Input::Down(..) => 0,
            Input::ClientUp(_) | Input::ClientDown(_) => 0,
        };
        len as u64
    }

    /// A worker takes it; says if it refuses.
    pub fn hand_to_worker(self, worker: &mut dyn Worker, now: Nanos) -> Option<(Token, Refusal)> {
        match self {
            Input::Frame(from, frame) => worker.deliver(now, from, frame),
            Input::Synced(position) => worker.synced(now, position),
            Input::Up(peer, incarnation, levels) => worker.peer_up(now, peer, incarnation, levels),
            Input::Down(peer, _) => worker.peer_down(now, peer),
            Input::ClientUp(client) => worker.client_up(now, client).expect("the engine has such clients"),
            Input::Client(client, message) => {
                let heard = worker.deliver_client(now, client, message);
                heard.expect("clients say what makes sense");
            }
            Input::ClientDown(client) => worker.client_down(now, client),
            Input::Request(token, procedure, args, session) => {
                let request = Request { session, ..Request::new(token, procedure, &args) };
                let taken = worker.submit(now, request);
                return taken.err().map(|why| (token, why));
            }
            Input::Read(token, procedure, args, freshness) => {
                let request = Request { freshness, ..Request::new(token, procedure, &args) };
                let taken = worker.submit_snapshot(now, request);
                return taken.err().map(|why| (token, why));
            }
            Input::Message(..) | Input::Checkpoint(_) => unreachable!("what is for controllers goes to them"),
        }
        None
    }

    /// A controller takes it.
    pub fn hand_to_controller(self, controller: &mut dyn Controller, now: Nanos) {
        match self {
            Input::Message(from, message) => controller.deliver(now, from, message),
            Input::Up(peer, incarnation, levels) => controller.peer_up(now, peer, incarnation, levels),
            Input::Down(peer, refused) => controller.peer_down(now, peer, refused),
            Input::Checkpoint(news) => controller.checkpoint(now, news),
            Input::Frame(..) | Input::Request(..) | Input::Read(..) | Input::Synced(_) => {
                unreachable!("frames and requests are for workers")
            }
            Input::ClientUp(_) | Input::Client(..) | Input::ClientDown(_) => {
                unreachable!("clients speak with workers")
            }
        }
    }
}

/// What a turn came to.
pub(crate) enum Turned {
    Worker { worker: Box<dyn Worker>, out: Outbox, next: Next, refused: Vec<(Token, Refusal)> },
    Controller { controller: Box<dyn Controller>, out: ControlOutbox, next: Next },
}

type Turn = Coroutine<(), Why, Turned, DefaultStack>;

/// A turn under way. Whoever drops it has it run to its end first ([`Stage::drain`]); what a failing test leaves behind
/// is leaked, because unwinding a suspended turn could fail again.
pub(crate) struct Fiber {
    turn: Option<Turn>,
    suspender: Rc<Cell<Option<Suspender>>>,
}

impl Fiber {
    /// A turn of `worker` at the time `now` of its machine.
    pub fn of_worker(
        stage: &Rc<Stage>,
        mut worker: Box<dyn Worker>,
        now: Nanos,
        inputs: Vec<Input>,
    ) -> Fiber {
        Fiber::new(stage, move || {
            let refused =
                inputs.into_iter().filter_map(|input| input.hand_to_worker(&mut *worker, now)).collect();
            let mut out = Outbox::default();
            let next = worker.turn(now, &mut out);
            Turned::Worker { worker, out, next, refused }
        })
    }

    /// A turn of `controller` at the time `now` of its machine.
    pub fn of_controller(
        stage: &Rc<Stage>,
        mut controller: Box<dyn Controller>,
        now: Nanos,
        inputs: Vec<Input>,
    ) -> Fiber {
        Fiber::new(stage, move || {
            inputs.into_iter().for_each(|input| input.hand_to_controller(&mut *controller, now));
            let mut out = ControlOutbox::default();
            let next = controller.turn(now, &mut out);
            Turned::Controller { controller, out, next }
        })
    }

    fn new(stage: &Rc<Stage>, body: impl FnOnce() -> Turned + 'static) -> Fiber {
        let stack = stage.stacks.borrow_mut().pop();
        let stack = stack.unwrap_or_default();
        let suspender: Rc<Cell<Option<Suspender>>> = Rc::default();
        let (own, weak) = (suspender.clone(), Rc::downgrade(stage));
        let turn = Turn::with_stack(stack, move |yielder, ()| {
            own.set(Some(Suspender::new(yielder)));
            if let Some(stage) = weak.upgrade() {
                stage.current.set(own.get());
            }
            body()
        });
        Fiber { turn: Some(turn), suspender }
    }

    /// Goes on until it is suspended or ends.
    pub fn resume(&mut self, stage: &Rc<Stage>) -> Result<Turned, Why> {
        let turn = self.turn.as_mut().expect("a turn that has ended is not resumed");
        stage.current.set(self.suspender.get());
        let result = turn.resume(());
        stage.current.set(None);
        match result {
            CoroutineResult::Yield(why) => Err(why),
            CoroutineResult::Return(turned) => {
                let turn = self.turn.take().expect("just resumed");
                stage.stacks.borrow_mut().push(turn.into_stack());
                Ok(turned)
            }
        }
    }

    pub fn ended(&self) -> bool {
        self.turn.is_none()
    }
}

impl Stage {
    /// Runs the turns of a dead node to their end; nobody sees what they do.
    pub fn drain(self: &Rc<Stage>, fibers: &mut [Fiber]) {
        self.draining.set(true);
        let mut rounds = 0;
        while fibers.iter().any(|fiber| !fiber.ended()) {
            rounds += 1;
            assert!(rounds < SPINS, "the turns of a dead node wait for each other");
            fibers.iter_mut().filter(|fiber| !fiber.ended()).for_each(|fiber| drop(fiber.resume(self)));
        }
        self.draining.set(false);
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        // One that panicked is done, and can be dropped.
        if let Some(turn) = self.turn.take().filter(|turn| !turn.done()) {
            std::mem::forget(turn);
        }
    }
}
