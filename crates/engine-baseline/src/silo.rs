//! The same store, procedures and worker loop without replication: the denominator of every ratio.
//!
//! A transaction is released as soon as it commits. Its write set is encoded like Rolis's (the store always does) and
//! thrown away. Nothing survives the process.

use std::sync::Arc;

use bytes::Bytes;
use highwater_core::{Clock, Epoch, Incarnation, Levels, NodeId, Outcome, Registry};
use highwater_kit::attempt::{InStore, attempt};
use highwater_kit::call::Call;
use highwater_kit::code::{Builds, Code};
use highwater_kit::retries::{ATTEMPTS_IN_A_ROW, Again, Retries};
use highwater_seam::engine::{Abilities, Engine, whole};
use highwater_seam::memory::{Account, Grant, MemoryStatus};
use highwater_seam::options::Options;
use highwater_seam::{
    ControlOutbox, Controller, Counters, Endpoint, Figure, Frame, Member, Nanos, Next, Outbox, Refusal,
    Replica, Request, Service, Status, Taken, Token, Worker,
};
use highwater_store::{Occ, Store};

/// Throw the encoded writes away when this many bytes have gathered.
const LOG_BYTES: usize = 64 << 10;

struct SiloWorker {
    occ: Occ,
    registry: Registry<Occ>,
    counters: Arc<Counters>,
    clock: Arc<Clock>,
    max_attempts: u32,
    account: Arc<Account>,
    grant: Grant,
    max_in_flight_bytes: usize,
    /// Replies of the transactions since the last turn.
    done: Outbox,
    retries: Retries,
    reply: Vec<u8>,
    random: u64,
}

impl SiloWorker {
    fn back_off(&mut self, attempt: u32) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        for _ in 0..self.random % (64 << attempt.min(6)) {
            std::hint::spin_loop();
        }
    }

    /// A few attempts in a row; whether one ended other than by a conflict.
    #[inline]
    fn execute(&mut self, token: Token, call: Call<'_>) -> bool {
        for attempts in 0..ATTEMPTS_IN_A_ROW {
            self.grant.look(&self.account, &mut self.occ);
            let ended = attempt(&self.registry, &mut self.occ, call, &mut self.reply, &mut InStore);
            if let Some((_, outcome)) = ended {
                if outcome == Outcome::OutOfMemory && self.grant.more(&self.account, &mut self.occ) {
                    continue;
                }
                let counter = if outcome == Outcome::Committed {
                    &self.counters.committed
                } else {
                    &self.counters.rolled_back
                };
                Counters::add(counter, 1);
                Counters::add(&self.counters.executed, 1);
                self.done.reply(token, outcome, &self.reply);
                if self.occ.log().len() > LOG_BYTES {
                    self.throw_away();
                }
                return true;
            }
            self.counters.conflict(&mut self.occ);
            if self.occ.take_clock_stands().is_some() {
                // Nobody else could go on in its place.
                self.done.reply(token, Outcome::Conflict, &[]);
                return true;
            }
            self.back_off(attempts);
        }
        false
    }

    /// Drops what was logged; nobody reads it.
    fn throw_away(&mut self) {
        let mut buffer = self.occ.log().take(Vec::new());
        Counters::add(&self.counters.log_bytes, buffer.len() as u64);
        buffer.clear();
        buffer.shrink_to(2 * LOG_BYTES);
        self.occ.log().take(buffer);
    }

    /// Gives requests that met conflicts another round of attempts.
    fn retry(&mut self) {
        let mut retries = std::mem::take(&mut self.retries);
        let gave_up = retries.round(self.max_attempts, |retry| {
            if self.execute(retry.token, retry.call()) { Again::Done } else { Again::Conflict }
        });
        self.retries = retries;
        if let Some(token) = gave_up {
            self.done.reply(token, Outcome::Conflict, &[]);
        }
    }
}

impl Worker for SiloWorker {
    fn ready(&self) -> Result<(), Refusal> {
        // The host takes the replies at the next turn.
        let full = self.done.reply_bytes.len() >= self.max_in_flight_bytes
            || self.retries.is_full(self.max_in_flight_bytes);
        if full { Err(Refusal::Busy) } else { Ok(()) }
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.done.reply_bytes.len()
    }

    fn submit(&mut self, _now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        Silo::ABILITIES.admit(&request)?;
        self.ready()?;
        if self.execute(request.token, Call::of(&request)) {
            return Ok(Taken::Placed);
        }
        Ok(self.retries.put_off(&request))
    }

    fn peer_up(&mut self, _now: Nanos, _peer: NodeId, _incarnation: Incarnation, _levels: Levels) {}

    fn peer_down(&mut self, _now: Nanos, _peer: NodeId) {}

    fn deliver(&mut self, _now: Nanos, _from: Endpoint, _frame: Frame) {}

    fn turn(&mut self, _now: Nanos, out: &mut Outbox) -> Next {
        if !self.retries.is_empty() {
            self.retry();
        }
        if !self.done.replies.is_empty() {
            std::mem::swap(&mut self.done.replies, &mut out.replies);
            std::mem::swap(&mut self.done.reply_bytes, &mut out.reply_bytes);
            self.done.clear();
        }
        self.grant.next_turn(&self.account, &mut self.occ);
        // Everything that committed is released: nothing older can be written any more.
        let more = self.occ.collect(self.clock.now()) || !self.retries.is_empty();
        if more { Next::Now } else { Next::Idle }
    }

    fn describe(&self) -> String {
        "leading alone".into()
    }
}

struct SiloController {
    store: Arc<Store>,
    options: Options,
    clock: Arc<Clock>,
}

impl Controller for SiloController {
    fn peer_up(&mut self, _now: Nanos, _peer: NodeId, _incarnation: Incarnation, _levels: Levels) {}

    fn peer_down(&mut self, _now: Nanos, _peer: NodeId, _refused: bool) {}

    fn deliver(&mut self, _now: Nanos, _from: NodeId, _message: Bytes) {}

    fn turn(&mut self, _now: Nanos, _out: &mut ControlOutbox) -> Next {
        Next::Idle
    }

    fn status(&self, _now: Nanos) -> Status {
        let (node, incarnation) = (self.options.node, self.options.incarnation);
        Status {
            node,
            incarnation,
            service: Service::Serving,
            role: "leader".into(),
            epoch: Epoch(1),
            ask: Some(node),
            heard_ago: None,
            figures: vec![Figure::one("clock", self.clock.now().0)],
            members: vec![Member {
                node,
                incarnation,
                voter: true,
                levels: Some(self.options.levels),
                connected: Some(true),
                lag: Some(0),
                heard_ago: Some(0),
            }],
            copying_bytes: None,
            copying_from: None,
            forgets: false,
            freshness: None,
            levels: self.options.levels,
            level: None,
            held_back_by: Vec::new(),
            trouble: None,
        }
    }

    fn memory(&self) -> MemoryStatus {
        let shares = self.options.shares().expect("the host validated the options");
        MemoryStatus { shares, used: self.store.used(), logs: 0, most: shares.store }
    }

    fn store(&self) -> Arc<Store> {
        self.store.clone()
    }
}

fn occ_of(store: &Arc<Store>, clock: &Arc<Clock>, options: &Options) -> Occ {
    let mut occ = Occ::new(store.clone(), clock.clone());
    occ.log().set_most(options.max_transaction_bytes);
    occ.work().set_most(options.max_transaction_rows);
    occ.set_room(0);
    occ
}

/// Replicates nothing.
pub struct Silo;

impl Builds for Silo {
    fn build(options: Options, code: &dyn Code, clock: Arc<Clock>) -> Replica {
        let store = Store::new(code.schema());
        let registry = code.leaders();
        let counters: Vec<Arc<Counters>> = (0..options.workers).map(|_| Arc::default()).collect();
        let account = Arc::new(Account::new(&options, counters.len()));
        let worker = |(at, counters): (usize, &Arc<Counters>)| -> Box<dyn Worker> {
            Box::new(SiloWorker {
                occ: occ_of(&store, &clock, &options),
                account: account.clone(),
                grant: Grant::of(at),
                registry: registry.clone(),
                counters: counters.clone(),
                clock: clock.clone(),
                max_attempts: options.max_attempts,
                max_in_flight_bytes: options.max_in_flight_bytes,
                done: Outbox::default(),
                retries: Retries::default(),
                reply: Vec::new(),
                random: (options.seed ^ ((at as u64 + 1) << 32)) | 1,
            })
        };
        let workers = counters.iter().enumerate().map(worker).collect();
        let (procedures, versions) = (registry.names(), registry.versions());
        let signatures = registry.signatures();
        Replica {
            controller: Box::new(SiloController { store, options, clock }),
            workers,
            counters,
            procedures,
            versions,
            signatures,
        }
    }
}

impl Engine for Silo {
    const ABILITIES: Abilities = Abilities {
        interruptible: true,
        sessions: true,
        real_time: true,
        in_order: true,
        closures: true,
        ..Abilities::NONE
    };
    #[cfg(feature = "planted")]
    const BUGS: &'static [&'static [&'static highwater_core::planted::Bug]] =
        &[highwater_kit::planted::ALL, highwater_seam::planted::ALL, highwater_store::planted::ALL];

    fn converged(statuses: &[Option<Status>]) -> Result<u64, String> {
        // Everything is installed as soon as it is done.
        whole(statuses, Self::serving(statuses)).map(|_| 0)
    }
}
