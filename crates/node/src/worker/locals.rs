//! Requests of the program that the node is part of: they come by letter, and are answered by a call.
//!
//! They run as clients' do, on this worker, and are answered when they are released. What is answered by nobody any more, because the node
//! has ended, is dropped: the program sees its [`Answer`] go without having been called.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use highwater_core::{Outcome, ProcedureId};
use highwater_redis::host::token::{Owner, keeper, pack};
use highwater_seam::{Nanos, Refusal, Request, Session, Worker};

use crate::shared::{Shared, WorkerLetter};

/// Requests in a turn.
const BUDGET: usize = 64;
/// What may wait to be submitted on one worker; beyond it a request is refused as [`Refusal::Busy`].
const MAX_WAITING: usize = 4096;
/// How soon a worker that was busy is asked again, if nothing else gives it a turn.
const AGAIN: Nanos = 1_000_000;

/// How a request of the program ended; or why it was not even tried, and nothing was done.
pub type Ended = Result<(Outcome, Vec<u8>), Refusal>;

/// Who is told, once.
pub type Answer = Box<dyn FnOnce(Ended) + Send>;

/// A transaction that the program asks for.
pub struct LocalRequest {
    /// The code to run.
    pub procedure: ProcedureId,
    /// Its arguments.
    pub args: Vec<u8>,
    /// Whose request it is, if it is to run once however often it is asked for.
    pub session: Option<Session>,
    /// It only reads, and the replica's own snapshot is good enough.
    pub snapshot: bool,
    /// Who is told.
    pub answer: Answer,
}

/// See the module.
pub struct Locals {
    shared: Arc<Shared>,
    index: usize,
    waiting: VecDeque<LocalRequest>,
    under_way: HashMap<u64, Answer>,
    requests: u64,
    /// The worker had no room.
    again: Option<Nanos>,
}

impl Locals {
    /// Of this worker.
    pub fn new(shared: Arc<Shared>, index: usize) -> Locals {
        Locals {
            shared,
            index,
            waiting: VecDeque::new(),
            under_way: HashMap::new(),
            requests: 0,
            again: None,
        }
    }

    /// One came.
    pub fn take(&mut self, request: LocalRequest) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(request);
        } else {
            (request.answer)(Err(Refusal::Busy));
        }
    }

    /// Submits what the worker takes.
    pub fn submit(&mut self, now: Nanos, engine: &mut dyn Worker) {
        self.again = None;
        for _ in 0..BUDGET {
            let Some(request) = self.waiting.pop_front() else { return };
            self.requests += 1;
            let token = pack(Owner::Keeper, keeper::LOCALS, self.requests);
            let asked =
                Request { session: request.session, ..Request::new(token, request.procedure, &request.args) };
            let submitted =
                if request.snapshot { engine.submit_snapshot(now, asked) } else { engine.submit(now, asked) };
            match submitted {
                Ok(_) => {
                    self.under_way.insert(self.requests, request.answer);
                }
                Err(Refusal::Busy) => {
                    self.waiting.push_front(request);
                    self.again = Some(now + AGAIN);
                    return;
                }
                Err(refusal) => (request.answer)(Err(refusal)),
            }
        }
        self.again = (!self.waiting.is_empty()).then_some(now);
    }

    /// The node is ending: nothing more is submitted.
    pub fn refuse(&mut self, why: Refusal) {
        self.again = None;
        self.waiting.drain(..).for_each(|request| (request.answer)(Err(why)));
    }

    pub fn released(&mut self, number: u64, outcome: Outcome, reply: &[u8]) {
        if let Some(answer) = self.under_way.remove(&number) {
            answer(Ok((outcome, reply.to_vec())));
        }
    }

    /// Whether one waits for its end.
    pub fn owes(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// When it wants a turn.
    pub fn next(&self) -> Option<Nanos> {
        self.again
    }
}

/// However the worker's thread ends, nobody waits for it in vain.
impl Drop for Locals {
    fn drop(&mut self) {
        self.shared.close_locals(self.index);
    }
}

impl Shared {
    /// Hands a worker a request of the program. If the worker has ended its answer is dropped uncalled.
    pub fn ask_worker(&self, worker: usize, request: LocalRequest) {
        self.workers[worker].post(WorkerLetter::Local(request));
        // Pairs with the fence in `close_locals`: one of the two threads sees what the other has done, and drops the letter.
        fence(Ordering::SeqCst);
        if self.locals_are_closed(worker) {
            drop(self.workers[worker].take());
        }
    }

    /// The worker takes no more letters.
    fn close_locals(&self, worker: usize) {
        self.mark_locals_closed(worker);
        fence(Ordering::SeqCst);
        drop(self.workers[worker].take());
    }
}
