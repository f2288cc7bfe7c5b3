//! One stream for all workers: the paper's strawman (figure 2), so that the difference can be shown.
//!
//! Worker 0 owns the only stream. Every worker executes, but commits under one lock and appends to one open entry: the
//! order of the lock is the order of the log. Everything else is Rolis.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use highwater_core::log::ENTRY_HEADER_BYTES;
use highwater_core::{Abort, Epoch, Incarnation, Levels, NodeId, Outcome, Registry, Timestamp};
use highwater_kit::attempt::{Ends, attempt};
use highwater_kit::call::Call;
use highwater_kit::retries::{ATTEMPTS_IN_A_ROW, Again, Retries};
use highwater_seam::memory::Grant;
use highwater_seam::{
    Counters, Endpoint, Figure, Frame, Nanos, Next, Outbox, Refusal, Request, Taken, Token, Worker,
};
use highwater_store::{Occ, Store};

use crate::abilities::ABILITIES;
use crate::hooks;
use crate::lead::pending::Pending;
use crate::marks::Marks;
use crate::strawman::lock_waits::LockWaits;
use highwater_log_host::messages::Report;
use highwater_log_host::shared::Shared;

/// The shared open entry.
pub struct Funnel {
    open: Mutex<SharedEntry>,
    /// What they wait for it.
    waits: LockWaits,
    /// More is refused until the entry is sealed.
    max_entry_bytes: usize,
}

/// What the lock protects.
#[derive(Default)]
pub struct SharedEntry {
    /// The epoch that this node leads; `None` if it leads none: nothing may commit.
    pub epoch: Option<Epoch>,
    /// Transactions in wire form.
    pub bytes: Vec<u8>,
    /// How many.
    pub count: u32,
    /// Timestamp of the first one.
    pub first: Timestamp,
    /// Timestamp of the last one.
    pub last: Timestamp,
    /// The next timestamp exceeds this: everything committed, and what was closed.
    pub floor: Timestamp,
    /// Too much is undecided: requests are refused.
    pub full: bool,
    /// The store of the epoch.
    pub store: Option<Arc<Store>>,
    /// How many of its tables may be written, as the epoch opened.
    pub tables: usize,
}

impl Funnel {
    /// Closed until worker 0 leads.
    pub fn new(max_entry_bytes: usize, workers: usize) -> Funnel {
        Funnel { open: Mutex::default(), waits: LockWaits::new(workers), max_entry_bytes }
    }

    /// What the workers waited for each other.
    pub fn figures(&self) -> [Figure; 3] {
        self.waits.figures()
    }
}

/// The funnel as one worker comes to it.
pub struct Entrance {
    funnel: Arc<Funnel>,
    /// The worker.
    at: usize,
}

impl Entrance {
    /// That of worker `at`.
    pub fn new(funnel: Arc<Funnel>, at: usize) -> Entrance {
        Entrance { funnel, at }
    }

    /// Locks the open entry.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, SharedEntry> {
        self.funnel.waits.lock(self.at, &self.funnel.open)
    }

    /// As it commits in `epoch`, and in no other.
    #[inline]
    pub fn in_epoch(&self, epoch: Epoch) -> InEpoch<'_> {
        InEpoch { entrance: self, epoch }
    }
}

/// Ends transactions in the order of the log, in one epoch only.
pub struct InEpoch<'a> {
    entrance: &'a Entrance,
    epoch: Epoch,
}

impl InEpoch<'_> {
    fn end(&self, occ: &mut Occ, roll_back: bool) -> Result<Timestamp, Abort> {
        let (mut open, most) = (self.entrance.lock(), self.entrance.funnel.max_entry_bytes);
        if open.epoch != Some(self.epoch) {
            occ.abort();
            return Err(Abort::Conflict);
        }
        // Others may have committed since this worker looked: an entry exceeds its size by one transaction at most.
        let transaction = occ.log().open_bytes();
        if open.bytes.len() > most && open.bytes.len() + transaction > most + occ.log().most() {
            occ.abort();
            return Err(Abort::Conflict);
        }
        occ.set_floor(open.floor);
        let ts = if roll_back { occ.commit_rollback()? } else { occ.commit()? };
        open.floor = ts;
        let log = occ.log();
        if log.len() > ENTRY_HEADER_BYTES {
            open.bytes.extend_from_slice(&log.bytes()[ENTRY_HEADER_BYTES..]);
            if open.count == 0 {
                open.first = ts;
            }
            open.last = ts;
            open.count += 1;
            open.full |= open.bytes.len() >= most;
            let mut buffer = log.take(Vec::new());
            buffer.truncate(ENTRY_HEADER_BYTES);
            log.take(buffer);
        }
        Ok(ts)
    }
}

impl Ends<Occ> for InEpoch<'_> {
    fn commit(&mut self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        self.end(occ, false)
    }

    fn roll_back(&mut self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        self.end(occ, true)
    }
}

/// Any worker but the first: executes, and leaves the stream to worker 0.
pub struct FunnelWorker {
    shared: Arc<Shared>,
    marks: Arc<Marks>,
    funnel: Entrance,
    counters: Arc<Counters>,
    registry: Registry<Occ>,
    occ: Option<Occ>,
    /// The epoch in which it may commit.
    epoch: Option<Epoch>,
    pending: Pending,
    retries: Retries,
    /// The clock stood: another attempt would fare no better.
    gave_up: Vec<Token>,
    /// To be told to the controller; see [`crate::lead`].
    clock_stands: Option<Timestamp>,
    reply: Vec<u8>,
    committed: bool,
    grant: Grant,
}

/// How soon to look at the mark again while replies wait.
const RECHECK: Nanos = 200_000;

impl FunnelWorker {
    /// Worker `at`, which waits for the node to lead.
    pub fn new(
        at: usize,
        (shared, marks): (Arc<Shared>, Arc<Marks>),
        funnel: Arc<Funnel>,
        registry: Registry<Occ>,
        counters: Arc<Counters>,
    ) -> FunnelWorker {
        FunnelWorker {
            shared,
            marks,
            funnel: Entrance::new(funnel, at),
            counters,
            registry,
            occ: None,
            epoch: None,
            pending: Pending::default(),
            retries: Retries::default(),
            gave_up: Vec::new(),
            clock_stands: None,
            reply: Vec::new(),
            committed: false,
            grant: Grant::of(at),
        }
    }

    /// Follows the node into its lead, or out of it.
    fn notice_lead(&mut self, out: &mut Outbox) {
        let watermark = &self.marks.watermark;
        if let Some(led) = self.epoch
            && self.funnel.lock().epoch != Some(led)
        {
            self.pending.fail(out);
            for token in self.retries.give_up() {
                out.reply(token, Outcome::Conflict, &[]);
            }
            self.grant.give_back(&self.shared.account);
            // The epoch first: the final mark is there before the epoch moves on. If it moved on without one, the store
            // was replaced by a copy, and this one goes with what it holds.
            let moved_on = watermark.epoch() != led;
            let preserved = watermark.final_mark(led);
            if moved_on || preserved.is_some() {
                let mut occ = self.occ.take().expect("it led with a store");
                if let Some(preserved) = preserved {
                    occ.roll_back(preserved);
                }
                // Release; pairs with the Acquire in `apply_some`.
                self.shared.speculating.fetch_sub(1, Ordering::Release);
                self.epoch = None;
                out.wake_workers = true;
            }
            return;
        }
        if self.epoch.is_none() {
            let open = self.funnel.lock();
            let (Some(epoch), Some(store)) = (open.epoch, &open.store) else { return };
            let mut occ = Occ::new(store.clone(), self.shared.clock.clone());
            // As the stream's worker writes; what is raised meanwhile waits for the next epoch.
            occ.set_tables(open.tables);
            let mut header = Vec::with_capacity(16 << 10);
            header.resize(ENTRY_HEADER_BYTES, 0);
            occ.log().take(header);
            occ.log().set_most(self.shared.options.max_transaction_bytes);
            occ.work().set_most(self.shared.options.max_transaction_rows);
            occ.set_room(0);
            occ.keep_undo(true);
            self.shared.speculating.fetch_add(1, Ordering::AcqRel);
            (self.occ, self.epoch) = (Some(occ), Some(epoch));
        }
    }
}

impl FunnelWorker {
    /// A few attempts in a row; whether one ended other than by a conflict.
    fn execute(&mut self, epoch: Epoch, token: Token, call: Call<'_>) -> bool {
        let occ = self.occ.as_mut().expect("it leads with a store");
        for _ in 0..ATTEMPTS_IN_A_ROW {
            self.grant.look(&self.shared.account, occ);
            let ends = &mut self.funnel.in_epoch(epoch);
            if let Some((ts, outcome)) = attempt(&self.registry, occ, call, &mut self.reply, ends) {
                if outcome == Outcome::OutOfMemory && self.grant.more(&self.shared.account, occ) {
                    continue;
                }
                self.pending.push(ts, token, outcome, &self.reply);
                Counters::add(&self.counters.executed, 1);
                self.committed = true;
                return true;
            }
            if let Some(least) = occ.take_clock_stands() {
                self.clock_stands = Some(least);
                self.gave_up.push(token);
                return true;
            }
            self.counters.conflict(occ);
            std::hint::spin_loop();
            hooks::waits();
        }
        false
    }

    /// Gives requests that met conflicts another round of attempts.
    fn retry(&mut self, epoch: Epoch, out: &mut Outbox) {
        let mut retries = std::mem::take(&mut self.retries);
        let most_bytes = self.shared.options.max_in_flight_bytes;
        let gave_up = retries.round(self.shared.options.max_attempts, |retry| {
            if self.pending.bytes() >= most_bytes || self.funnel.lock().full {
                return Again::Waits;
            }
            if self.execute(epoch, retry.token, retry.call()) { Again::Done } else { Again::Conflict }
        });
        self.retries = retries;
        if let Some(token) = gave_up {
            out.reply(token, Outcome::Conflict, &[]);
        }
    }
}

impl Worker for FunnelWorker {
    fn ready(&self) -> Result<(), Refusal> {
        if self.epoch.is_none() {
            if self.shared.holds_requests.load(Ordering::Relaxed) {
                return Err(Refusal::Busy);
            }
            let leader = self.shared.leader().filter(|leader| *leader != self.shared.options.node);
            return Err(Refusal::NotServing { ask: leader });
        }
        if self.shared.no_quorum.load(Ordering::Relaxed) {
            return Err(Refusal::NoQuorum);
        }
        let options = &self.shared.options;
        let full = self.pending.len() >= options.max_in_flight_requests
            || self.pending.bytes() >= options.max_in_flight_bytes
            || self.occ.as_ref().is_some_and(|occ| occ.undo_bytes() >= options.max_in_flight_bytes)
            || self.retries.is_full(options.max_in_flight_bytes)
            || self.funnel.lock().full;
        if full { Err(Refusal::Busy) } else { Ok(()) }
    }

    fn waits_for_leader(&self) -> bool {
        self.epoch.is_none() && self.ready() == Err(Refusal::Busy)
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.pending.bytes()
    }

    fn submit(&mut self, _now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        ABILITIES.admit(&request)?;
        self.ready()?;
        let epoch = self.epoch.expect("ready said so");
        if !hooks::puts_off() && self.execute(epoch, request.token, Call::of(&request)) {
            return Ok(Taken::Placed);
        }
        Ok(self.retries.put_off(&request))
    }

    fn peer_up(&mut self, _now: Nanos, _peer: NodeId, _incarnation: Incarnation, _levels: Levels) {}

    fn peer_down(&mut self, _now: Nanos, _peer: NodeId) {}

    fn deliver(&mut self, _now: Nanos, _from: Endpoint, _frame: Frame) {}

    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        for token in self.gave_up.drain(..) {
            out.reply(token, Outcome::Conflict, &[]);
        }
        if let Some(least) = self.clock_stands.take() {
            self.shared.reports.put(Report::ClockStands { least });
            out.wake_controller = true;
        }
        self.notice_lead(out);
        if let Some(occ) = &mut self.occ {
            self.grant.next_turn(&self.shared.account, occ);
            occ.refuse_writes(self.shared.disk_full.load(Ordering::Relaxed));
        }
        if let Some(epoch) = self.epoch {
            self.retry(epoch, out);
        }
        out.wake_workers |= std::mem::take(&mut self.committed);
        let Some(epoch) = self.epoch else { return Next::At(now + 10 * RECHECK) };
        let full = self.pending.bytes() >= self.shared.options.max_in_flight_bytes || self.funnel.lock().full;
        let mut more = !(self.retries.is_empty() || full);
        if let (Some(mark), Some(occ)) = (self.marks.watermark.mark_in(epoch), &mut self.occ) {
            occ.forget_undo(mark);
            let released = self.pending.release(mark, out);
            Counters::add(&self.counters.committed, released.committed);
            Counters::add(&self.counters.rolled_back, released.other);
            more |= released.more;
            if self.shared.serving_copies.load(Ordering::Acquire) == 0 {
                more |= occ.collect(mark);
            }
        }
        if more {
            return Next::Now;
        }
        if !self.pending.is_empty() { Next::At(now + RECHECK) } else { Next::At(now + 50 * RECHECK) }
    }

    fn describe(&self) -> String {
        format!("funnel into stream 0, epoch {:?}, {} replies wait", self.epoch, self.pending.len())
    }
}
