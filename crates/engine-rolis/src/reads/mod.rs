//! Follower reads, a worker's side: requests that wait for a snapshot, and their execution on it.
//!
//! A request waits only while a round is under way ([`crate::reads::snapshots`]); then all that wait run in one go, on one
//! snapshot. If the node comes to lead, or its store is replaced, while some wait, they are told that nothing was done.

pub mod bounded;
pub mod horizon;
pub mod proven;
pub mod snapshots;

use std::sync::Arc;

use highwater_core::limits::MAX_REPLY_BYTES;
use highwater_core::{Abort, Outcome, ProcedureId, Registry, Timestamp};
use highwater_kit::call::explain;
use highwater_seam::{Counters, Nanos, Next, Outbox, RELEASE_BYTES, Refusal, Request, Token};
use highwater_store::{Snapshot, SnapshotTx, Store};

use crate::context::{Context, Turn, recheck};
use crate::lead::execute::ROWS_A_TURN;
use crate::reads::horizon::Life;
use crate::reads::snapshots::Offer;

/// The reads of one worker.
pub struct Reads {
    registry: Registry<SnapshotTx>,
    waiting: Vec<Waiting>,
    /// Their arguments, one after another.
    args: Vec<u8>,
    /// When the first of them came.
    since: Nanos,
    /// The snapshot is at or above this, or one of them asks for a later one.
    least: Timestamp,
    /// This worker has read, and will look whether the snapshots may go.
    tends: bool,
    /// Reads; between turns it holds no snapshot, or that would stay pinned.
    reader: Option<SnapshotTx>,
    reply: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    token: Token,
    procedure: ProcedureId,
    /// Where its arguments end.
    end: usize,
}

/// Most reads that wait, and run in one turn.
const MOST: usize = 1024;
/// Most bytes of their arguments, but for one request alone.
const MOST_BYTES: usize = 1 << 20;
/// How soon to look whether a round is complete.
const RECHECK: Nanos = 100_000;

impl Reads {
    /// Nobody reads.
    pub fn new(registry: Registry<SnapshotTx>) -> Reads {
        Reads {
            registry,
            waiting: Vec::new(),
            args: Vec::new(),
            since: 0,
            least: Timestamp::ZERO,
            tends: false,
            reader: None,
            reply: Vec::new(),
        }
    }

    /// Lets go of the store, which is about to be replaced.
    pub fn leave_store(&mut self) {
        self.reader = None;
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.least = Timestamp::ZERO;
        self.args.clear();
        self.args.shrink_to(MOST_BYTES);
    }

    /// Whether another one may wait.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < MOST && self.args.len() < MOST_BYTES
    }

    /// Takes a read; see [`Worker::submit_snapshot`](highwater_seam::Worker::submit_snapshot). Its snapshot has to be at or above `least`, which
    /// the mark has reached.
    pub fn submit(&mut self, now: Nanos, request: Request<'_>, least: Timestamp) -> Result<(), Refusal> {
        if !self.has_room() {
            return Err(Refusal::Busy);
        }
        self.least = self.least.max(least);
        if self.waiting.is_empty() {
            self.since = now;
        }
        self.args.extend_from_slice(request.args);
        let end = self.args.len();
        self.waiting.push(Waiting { token: request.token, procedure: request.procedure, end });
        Ok(())
    }

    /// Runs what waits, if there is a snapshot for it. `store`: the one to read, as long as only appliers write to it.
    #[inline]
    pub fn turn(&mut self, store: Option<&Arc<Store>>, context: &Context, turn: &mut Turn<'_>) -> Next {
        let shared = &context.shared;
        if self.waiting.is_empty() {
            let again = context.marks.rounds.tend(turn.now);
            self.tends &= again.is_some();
            return again.filter(|_| self.tends).map_or(Next::Idle, Next::At);
        }
        let Some(store) = store else {
            self.refuse(turn.out);
            return Next::Idle;
        };
        match context.marks.snapshot(shared, (turn.now, self.since), self.least, store) {
            Offer::Read(snapshot, life) => {
                self.read(store, (snapshot, life), context, turn);
                self.tends = true;
                Next::Now
            }
            Offer::Later => recheck(turn.now, self.since, RECHECK),
            Offer::Never => {
                self.refuse(turn.out);
                Next::Idle
            }
        }
    }

    /// Runs everything that waits on one snapshot.
    fn read(
        &mut self,
        store: &Arc<Store>,
        (snapshot, life): (Arc<Snapshot>, Life),
        context: &Context,
        Turn { now, out, .. }: &mut Turn<'_>,
    ) {
        let now = *now;
        let before = (out.replies.len(), out.reply_bytes.len());
        let at = snapshot.ts();
        let Reads { registry, waiting, args, reader, reply, .. } = self;
        let tx = match reader.as_mut().filter(|tx| Arc::ptr_eq(tx.store(), store)) {
            Some(tx) => {
                tx.move_to(snapshot);
                tx
            }
            None => {
                let tx = reader.insert(SnapshotTx::new(snapshot));
                context.watch(tx.work());
                tx
            }
        };
        // One may take long, as a leader's may.
        context.executes(now);
        let (mut start, mut done, rows) = (0, 0, tx.work().all_rows());
        for read in waiting.iter() {
            let enough = tx.work().has_to_pause() || tx.work().all_rows().saturating_sub(rows) > ROWS_A_TURN;
            if done > 0 && enough || out.reply_bytes.len() >= before.1 + RELEASE_BYTES {
                // The others in another turn: what one turn holds is bounded.
                break;
            }
            done += 1;
            reply.clear();
            reply.shrink_to(RELEASE_BYTES);
            tx.work().begin();
            let outcome = match registry.run(read.procedure, tx, &args[start..read.end], reply) {
                _ if reply.len() > MAX_REPLY_BYTES => Outcome::TooLarge,
                Ok(()) => Outcome::Committed,
                Err(Abort::Rollback) => Outcome::RolledBack,
                // Of a snapshot nothing is written: only by the procedure's own decision.
                Err(Abort::BadRequest | Abort::TooNew) => Outcome::BadRequest,
                // By the procedure's own decision: a snapshot has no conflicts.
                Err(Abort::Conflict) => Outcome::Conflict,
                Err(Abort::NotReady) => Outcome::Denied,
                Err(Abort::TooLarge) => Outcome::TooLarge,
                Err(Abort::OutOfMemory) => Outcome::OutOfMemory,
                Err(Abort::DiskFull) => Outcome::DiskFull,
            };
            if outcome == Outcome::TooLarge {
                explain(reply, context.options().max_transaction_bytes, tx.work());
            }
            out.reply_at(read.token, outcome, at, reply);
            start = read.end;
        }
        tx.rest();
        if !context.marks.rounds.lives(life) {
            // Another worker began to lead: what was read may never have been. The next turn decides.
            out.replies.truncate(before.0);
            out.reply_bytes.truncate(before.1);
            return;
        }
        Counters::add(&context.counters.snapshot_reads, done as u64);
        if done == waiting.len() {
            return self.clear();
        }
        waiting.drain(..done);
        waiting.iter_mut().for_each(|read| read.end -= start);
        args.drain(..start);
    }

    /// No snapshot will come: nothing was done.
    fn refuse(&mut self, out: &mut Outbox) {
        for read in &self.waiting {
            out.reply(read.token, Outcome::Conflict, &[]);
        }
        self.clear();
    }
}
