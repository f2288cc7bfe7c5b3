//! A client whose transactions are procedures, without threads or sockets: for simulators, and for programs with an event loop of their own.
//!
//! A procedure cannot wait for an answer here. So it runs with what is known, and where something is missing that is asked for, and it runs again
//! from its start: procedures keep nothing beyond an attempt.

use bytes::Bytes;
use highwater_core::codec::Malformed;
use highwater_core::{Library, Nanos, NodeId, Outcome, ProcedureId, Random, Registry};
use highwater_kit::validation::own::pause;
use highwater_kit::validation::tx::{MeerkatTx, execute};
use highwater_seam::{Request, Token};

use crate::attempts::Attempts;
use crate::cache::{Cache, Missing};
use crate::core::{Core, Ended, Settings, Trouble};

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// As a replica would have said; with the reply.
    Outcome(Outcome, Vec<u8>),
    /// Nothing was done: no replica took it.
    Trouble(Trouble),
}

/// How far a transaction is.
enum Stage {
    /// An attempt runs when it is time.
    Waits(Nanos),
    /// Something is missing.
    Reads(Missing),
    /// It has run, and needs a stamp.
    Stamps(Outcome),
    /// Replicas validate it.
    Proposed(Outcome),
}

struct Job {
    procedure: ProcedureId,
    args: Vec<u8>,
    attempts: Attempts,
    reply: Vec<u8>,
    stage: Stage,
}

/// See the module.
pub struct Stepped {
    core: Core,
    registry: Registry<MeerkatTx<Cache>>,
    tx: MeerkatTx<Cache>,
    random: Random,
    most_attempts: u32,
    patience: Nanos,
    job: Option<Job>,
    done: Option<Done>,
}

impl Stepped {
    /// A client of a cluster that has this library; transactions write so many bytes at most, and are tried so often.
    pub fn new<L: Library>(library: &L, settings: Settings, most: usize, most_attempts: u32) -> Stepped {
        let mut registry = Registry::new();
        library.register(&mut registry);
        Stepped {
            core: Core::new(settings),
            registry,
            tx: MeerkatTx::over(Cache::new(library.schema()), most),
            random: Random::new(settings.seed ^ 0x57e9),
            most_attempts,
            patience: settings.patience,
            job: None,
            done: None,
        }
    }

    /// The connection to a node is up.
    pub fn up(&mut self, node: NodeId) {
        self.core.up(node);
    }

    /// It is lost.
    pub fn down(&mut self, now: Nanos, node: NodeId) {
        self.core.down(now, node);
        self.step(now);
    }

    /// A node says something.
    ///
    /// # Errors
    /// If it makes no sense: the connection is of no use.
    pub fn hear(&mut self, now: Nanos, from: NodeId, message: &Bytes) -> Result<(), Malformed> {
        self.core.hear(now, from, message)?;
        self.step(now);
        Ok(())
    }

    /// Begins a transaction: a procedure of the library, by its id.
    ///
    /// # Panics
    /// If one is under way.
    pub fn begin(&mut self, now: Nanos, procedure: ProcedureId, args: Vec<u8>) {
        assert!(self.job.is_none(), "one transaction at a time");
        self.done = None;
        let attempts = Attempts::new(now);
        self.job = Some(Job { procedure, args, attempts, reply: Vec::new(), stage: Stage::Waits(now) });
        self.step(now);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Nanos) {
        self.core.tick(now);
        self.step(now);
    }

    /// When to [`tick`](Stepped::tick) next.
    pub fn next(&self) -> Option<Nanos> {
        let own = self.job.as_ref().and_then(|job| match job.stage {
            Stage::Waits(at) => Some(at),
            _ => None,
        });
        own.into_iter().chain(self.core.next()).min()
    }

    /// What to send, in order.
    pub fn take_outgoing(&mut self) -> Vec<(NodeId, Bytes)> {
        self.core.take_outgoing()
    }

    /// How the transaction ended, once it has.
    pub fn done(&mut self) -> Option<Done> {
        self.done.take()
    }

    /// Whether everybody who has to hear what became of transactions has.
    pub fn is_quiet(&self) -> bool {
        self.job.is_none() && self.core.is_quiet()
    }

    /// Goes as far as it can.
    fn step(&mut self, now: Nanos) {
        while let Some(mut job) = self.job.take() {
            let went_on = self.advance(now, &mut job);
            if self.done.is_some() {
                return;
            }
            self.job = Some(job);
            if !went_on {
                return;
            }
        }
    }

    fn advance(&mut self, now: Nanos, job: &mut Job) -> bool {
        match &job.stage {
            Stage::Waits(at) if *at > now => false,
            Stage::Waits(_) => {
                job.attempts.begin(&mut self.core);
                self.tx.latest().clear();
                self.run(now, job);
                true
            }
            Stage::Reads(missing) => match self.core.answer() {
                None => false,
                Some(Ok(answer)) => {
                    self.tx.latest().fill(missing.clone(), answer);
                    self.run(now, job);
                    true
                }
                Some(Err(trouble)) => self.fail(trouble),
            },
            Stage::Stamps(outcome) => match self.core.answer() {
                None => false,
                Some(Ok(_)) => {
                    let ts = self.core.stamp().expect("it was just granted");
                    self.tx.set_as_of(self.core.as_of());
                    let payload = self.tx.end(ts);
                    self.core.propose(now, payload);
                    job.stage = Stage::Proposed(*outcome);
                    true
                }
                Some(Err(trouble)) => self.fail(trouble),
            },
            Stage::Proposed(outcome) => match self.core.ended() {
                None => false,
                Some(Ended::Committed { .. }) => self.end(*outcome, std::mem::take(&mut job.reply)),
                Some(Ended::Unknown) => self.end(Outcome::Unknown, Vec::new()),
                Some(Ended::Aborted { hint, late }) => {
                    job.attempts.learn(hint, late);
                    self.put_off(now, job)
                }
            },
        }
    }

    /// Runs the procedure with what is known.
    fn run(&mut self, now: Nanos, job: &mut Job) {
        let (room, disk_full) = self.core.room();
        self.tx.set_room(room);
        self.tx.refuse_writes(disk_full);
        let request = Request::new(Token(0), job.procedure, &job.args);
        let ran = execute(&self.registry, &mut self.tx, &request, &mut job.reply);
        if let Some(missing) = self.tx.latest().take_missing() {
            match missing.clone() {
                Missing::Key(table, key, value) => self.core.read(now, table, key, value),
                Missing::Part(_, table, direction, range, pages) => {
                    self.core.scan(now, table, direction, range, pages);
                }
            }
            job.stage = Stage::Reads(missing);
            return;
        }
        match ran {
            Some(outcome) => {
                self.core.wish(now, self.tx.seen());
                job.stage = Stage::Stamps(outcome);
            }
            None => {
                self.put_off(now, job);
            }
        }
    }

    /// Another attempt, later; unless there were too many.
    fn put_off(&mut self, now: Nanos, job: &mut Job) -> bool {
        if !job.attempts.may_go_on(now, self.most_attempts, self.patience) {
            return self.end(Outcome::Conflict, Vec::new());
        }
        let (round_trip, timeout) = (self.core.round_trip(), self.core.timeout());
        job.stage = Stage::Waits(now + pause(job.attempts.count(), round_trip, timeout, &mut self.random));
        true
    }

    fn end(&mut self, outcome: Outcome, reply: Vec<u8>) -> bool {
        self.core.give_up();
        self.done = Some(Done::Outcome(outcome, reply));
        false
    }

    fn fail(&mut self, trouble: Trouble) -> bool {
        self.core.give_up();
        self.done = Some(Done::Trouble(trouble));
        false
    }
}

impl std::fmt::Debug for Stepped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.core.fmt(f)
    }
}
