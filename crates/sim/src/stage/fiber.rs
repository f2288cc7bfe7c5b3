//! A worker's turn as a coroutine: it may be suspended anywhere inside the product's code.

use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use highwater_core::{Incarnation, NodeId, ProcedureId, contain};
use highwater_engines::{Frame, Nanos, Next, Outbox, Refusal, Request, Token, Worker};

use super::{Stage, Why};

/// What waits for a worker's turn.
pub(crate) enum Input {
    Frame(NodeId, Frame),
    Request(Token, ProcedureId, Vec<u8>),
    Read(Token, ProcedureId, Vec<u8>),
    Up(NodeId, Incarnation),
    Down(NodeId),
}

/// What a turn came to.
pub(crate) struct Turned {
    pub worker: Box<dyn Worker>,
    pub out: Outbox,
    pub next: Next,
    pub refused: Vec<(Token, Refusal)>,
}

type Turn = Coroutine<(), Why, Turned, DefaultStack>;

/// Suspends the coroutine that runs now.
#[derive(Clone, Copy)]
pub(super) struct Suspender(NonNull<Yielder<(), Why>>);

impl Suspender {
    pub fn suspend(self, why: Why) {
        // Whoever runs meanwhile, on the same thread, is not in the middle of a procedure.
        let aside = contain::aside();
        // SAFETY: the yielder lives on its coroutine's stack for as long as the coroutine runs, and the stage holds a
        // suspender only between `resume` entering that coroutine and the coroutine leaving it again.
        unsafe { self.0.as_ref() }.suspend(why);
        aside.return_to();
    }
}

/// A turn under way. Whoever drops it has it run to its end first ([`Stage::drain`]); what a failing test leaves behind
/// is leaked, because unwinding a suspended turn could fail again.
pub(crate) struct Fiber {
    turn: Option<Turn>,
    suspender: Rc<Cell<Option<Suspender>>>,
}

impl Fiber {
    /// A turn of `worker` at the time `now` of its machine.
    pub fn new(stage: &Rc<Stage>, mut worker: Box<dyn Worker>, now: Nanos, inputs: Vec<Input>) -> Fiber {
        let stack = stage.stacks.borrow_mut().pop();
        let stack = stack.unwrap_or_default();
        let suspender: Rc<Cell<Option<Suspender>>> = Rc::default();
        let (own, weak) = (suspender.clone(), Rc::downgrade(stage));
        let turn = Turn::with_stack(stack, move |yielder, ()| {
            own.set(Some(Suspender(NonNull::from(yielder))));
            if let Some(stage) = weak.upgrade() {
                stage.current.set(own.get());
            }
            let mut refused = Vec::new();
            for input in inputs {
                match input {
                    Input::Frame(from, frame) => worker.deliver(now, from, frame),
                    Input::Up(peer, incarnation) => worker.peer_up(now, peer, incarnation),
                    Input::Down(peer) => worker.peer_down(now, peer),
                    Input::Request(token, procedure, args) => {
                        let request = Request { token, procedure, args: &args };
                        refused.extend(worker.submit(now, request).err().map(|why| (token, why)));
                    }
                    Input::Read(token, procedure, args) => {
                        let request = Request { token, procedure, args: &args };
                        refused.extend(worker.submit_snapshot(now, request).err().map(|why| (token, why)));
                    }
                }
            }
            let mut out = Outbox::default();
            let next = worker.turn(now, &mut out);
            Turned { worker, out, next, refused }
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

impl Drop for Fiber {
    fn drop(&mut self) {
        // One that panicked is done, and can be dropped.
        if let Some(turn) = self.turn.take().filter(|turn| !turn.done()) {
            std::mem::forget(turn);
        }
    }
}
