//! Leading: execute speculatively, release what the mark has passed. [`seal`](super::seal) hands the entries out.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_core::hooks::{self, Fact, Point, Site};
use highwater_core::log::{EntryHeader, EntryKind};
use highwater_core::{Ballot, EntryIndex, Epoch, Outcome, ProcedureId, StreamId, Timestamp, planted};
use highwater_store::Occ;

use super::apply::Applying;
use super::checked::CheckedEntry;
use super::pending::Pending;
use super::seal::fresh_entry;
use super::shared::{EpochStart, Report};
use super::worker::{Mode, RolisWorker, recheck, sooner};
use crate::attempt::attempt;
use crate::memory::Grant;
use crate::options::Options;
use crate::seam::{Counters, Nanos, Next, Outbox, Refusal, Request, Token};

/// What a leading worker keeps.
#[derive(Debug)]
pub struct Lead {
    /// Take no more requests; report when everything is released.
    pub quiescing: bool,
    quiesced: bool,
    /// The epoch that this worker last led on its present store: its own entries are in the store already.
    pub led: Option<Epoch>,
    /// Its before-images are kept: [`super::apply`] rolls back what the final mark does not preserve.
    pub speculated: bool,
    /// Timestamp of the last transaction executed in that epoch, whether it wrote or not.
    pub last_executed: Timestamp,
    pub(super) pending: Pending,
    pub(super) retries: VecDeque<Retry>,
    /// What transactions may still make the store grow by.
    grant: Grant,
    pub(super) open: Open,
    /// The entries above the mark.
    pub(super) unreleased: Unreleased,
    /// `closed_ts` of the last sealed entry.
    pub(super) sealed: Timestamp,
    /// Somebody beside the replies needs the stream closed up to here (a state copy).
    pub close_up_to: Timestamp,
    pub(super) quiet: bool,
    /// A long request waits until it can be executed apart; until then at most.
    apart_by: Option<Nanos>,
    /// The clock was found at or below this, though it had been there before: no more requests, until another epoch.
    pub(super) clock_stands: Option<Timestamp>,
    /// The controller knows.
    clock_told: bool,
    /// Requests ran since the last turn: there may be more to come for the open entry.
    pub(super) busy: bool,
    /// When the open entry was begun, about.
    pub(super) opened_at: Nanos,
    /// When the last entry was sealed.
    pub(super) sealed_at: Nanos,
    /// The buffer of an entry that was copied out of it.
    pub(super) spare: Vec<u8>,
    /// Length of the last entry: the next one will be about as long.
    pub(super) last_len: usize,
    /// Transactions in the last entry that had any.
    pub(super) last_count: u32,
    reply: Vec<u8>,
    random: u64,
}

/// The transactions in the open entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Open {
    pub(super) count: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

/// Sealed entries that the mark has not passed: what a follower may hold and be unable to install. Bounded, so that a
/// follower that takes nothing more until it has installed something can always do so.
#[derive(Debug, Default)]
pub(super) struct Unreleased {
    /// `closed_ts` and length of each.
    entries: VecDeque<(Timestamp, u64)>,
    /// Their lengths in all.
    pub(super) bytes: u64,
}

impl Unreleased {
    pub(super) fn sealed(&mut self, closed: Timestamp, len: u64) {
        self.entries.push_back((closed, len));
        self.bytes += len;
    }

    fn released(&mut self, mark: Timestamp) {
        while let Some((_, len)) = self.entries.pop_front_if(|(closed, _)| *closed <= mark) {
            self.bytes -= len;
        }
    }
}

/// A request that met too many conflicts for one turn.
#[derive(Debug)]
pub(super) struct Retry {
    token: Token,
    procedure: ProcedureId,
    args: Vec<u8>,
    attempts: u32,
}

/// Attempts in a row before a request waits for the next turn.
const ATTEMPTS_IN_A_ROW: u32 = 4;
/// Requests that may wait for another attempt before new ones are refused.
const MAX_RETRIES_WAITING: usize = 256;
/// The longest transaction, all its attempts in a row included, takes no more election timeouts than this: two seconds, for one that
/// writes 64 MiB in pieces of a few bytes.
const LONG_EXECUTION: u64 = 16;
/// How long a long request waits to be executed apart: many round trips.
const APART_PATIENCE: Nanos = 50_000_000;
/// How soon to look again while another stream holds replies back (wake-ups make it sooner).
const WAITING_RECHECK: Nanos = 500_000;

impl Lead {
    /// Not leading.
    pub fn new(options: &Options, id: StreamId) -> Lead {
        Lead {
            quiescing: false,
            quiesced: false,
            led: None,
            speculated: false,
            last_executed: Timestamp::ZERO,
            pending: Pending::default(),
            retries: VecDeque::new(),
            grant: Grant::of(id.0 as usize),
            open: Open::default(),
            unreleased: Unreleased::default(),
            sealed: Timestamp::ZERO,
            close_up_to: Timestamp::ZERO,
            quiet: false,
            apart_by: None,
            clock_stands: None,
            clock_told: false,
            busy: false,
            opened_at: 0,
            sealed_at: 0,
            spare: Vec::new(),
            last_len: 0,
            last_count: 0,
            reply: Vec::new(),
            random: (options.seed ^ (u64::from(id.0) + 1).wrapping_mul(0xd129_0f8a_21b7_4a05)) | 1,
        }
    }
}

impl Lead {
    /// Bytes of the arguments that wait for another attempt.
    #[inline]
    fn retry_bytes(&self) -> usize {
        self.retries.iter().map(|retry| retry.args.len()).sum()
    }
}

impl RolisWorker {
    /// Whether a request would be taken.
    #[inline]
    pub(super) fn ready_to_lead(&self) -> Result<(), Refusal> {
        let Mode::Leading { .. } = self.mode else {
            let leader = self.shared.leader().filter(|leader| *leader != self.me.node);
            return Err(Refusal::NotServing { ask: leader });
        };
        if self.shared.no_quorum.load(Ordering::Relaxed) {
            return Err(Refusal::NoQuorum);
        }
        let options = &self.shared.options;
        // An open entry at its limit is sealed before more goes in: an entry exceeds it by one transaction at most.
        let full = self.lead.quiescing
            || self.lead.clock_stands.is_some()
            || self.occ.log_len() >= options.max_entry_bytes
            || self.lead.pending.len() >= options.max_in_flight_requests
            || self.lead.pending.bytes() >= options.max_in_flight_bytes
            || self.occ.undo_bytes() >= options.max_in_flight_bytes
            || self.lead.retries.len() >= MAX_RETRIES_WAITING
            || self.lead.retry_bytes() >= options.max_in_flight_bytes
            || self.lead.unreleased.bytes >= options.max_in_flight_bytes as u64
            // Legal: a client must bear it at any time.
            || hooks::buggify(Site::Busy);
        if full { Err(Refusal::Busy) } else { Ok(()) }
    }

    /// The epoch is open: everything older is applied on all workers.
    pub(super) fn open(&mut self, ballot: Ballot) {
        let base = self.shared.progress.closed(self.id);
        assert_eq!(
            self.shared.progress.epoch(),
            ballot.epoch,
            "an epoch opens after every stream has entered it"
        );
        assert!(self.replay.caught_up(), "an epoch opens after everything older is applied");
        self.mode = Mode::Leading { ballot };
        hooks::tell(|| Fact::Leads(ballot.epoch));
        let lead = &mut self.lead;
        lead.led = Some(ballot.epoch);
        assert!(!lead.speculated, "an earlier epoch's final mark is met before another one opens");
        lead.speculated = true;
        self.shared.speculating.fetch_add(1, Ordering::AcqRel);
        // Transactions write to the store from here on, and keep no versions for followers' readers.
        self.shared.rounds.void();
        if let Some(funnel) = &self.funnel {
            let store = Some(self.store.clone());
            *funnel.lock() =
                super::funnel::Open { epoch: Some(ballot.epoch), floor: base, store, ..Default::default() };
        }
        lead.last_executed = base;
        lead.sealed = base;
        lead.close_up_to = base;
        lead.open = Open::default();
        lead.unreleased = Unreleased::default();
        lead.busy = false;
        (lead.quiescing, lead.quiesced, lead.quiet) = (false, false, false);
        (lead.clock_stands, lead.clock_told, lead.apart_by) = (None, false, None);
        self.occ.log().take(fresh_entry());
        self.occ.log().set_most(self.shared.options.max_transaction_bytes);
        self.occ.set_room(0);
        self.occ.keep_undo(true);
        self.occ.set_floor(base);
    }

    /// Leads no more. What is speculative stays in the store until the final mark tells what to roll back.
    pub(super) fn close_lead(&mut self, out: &mut Outbox) {
        if let Some(funnel) = &self.funnel {
            *funnel.lock() = super::funnel::Open::default();
            out.wake_workers = true;
        }
        self.lead.pending.fail(out);
        self.lead.grant.give_back(&self.shared.account);
        // The receivers would wait for a mark that this epoch may never reach.
        self.copies.refuse_all();
        for retry in self.lead.retries.drain(..) {
            // Never committed, not even speculatively.
            out.reply(retry.token, Outcome::Conflict, &[]);
        }
        self.occ.log().take(fresh_entry());
        (self.lead.quiescing, self.lead.quiesced, self.lead.quiet) = (false, false, false);
        self.shared.progress.set_waiting(self.id, false);
    }

    /// A transaction may take long, and is no reason to think that this worker is stuck.
    fn expect_execution(&self, now: Nanos) {
        self.pulse().executes(now, now + LONG_EXECUTION * self.shared.options.election_timeout);
    }

    /// Runs a request to its speculative commit.
    #[inline]
    pub(super) fn execute(&mut self, now: Nanos, request: Request<'_>) {
        if !self.lead.busy {
            self.lead.busy = true;
            if self.lead.open.count == 0 {
                self.lead.opened_at = now;
            }
            self.expect_execution(now);
        }
        if !self.attempt(request.token, request.procedure, request.args) {
            let args = request.args.to_vec();
            let attempts = ATTEMPTS_IN_A_ROW;
            self.lead.retries.push_back(Retry {
                token: request.token,
                procedure: request.procedure,
                args,
                attempts,
            });
        }
    }

    /// Whether a request should come again later, because executing it now would hold up the other workers.
    ///
    /// A worker that executes closes nothing: the mark, and with it everybody's replies, would wait for a transaction that
    /// touches a million keys. While it is *quiet* the others close its stream for it; so a long request is executed only when
    /// this worker has nothing open and nothing undecided (a decision would have to be counted by this worker), or when that has
    /// not come about for a while.
    pub(super) fn waits_to_be_apart(&mut self, now: Nanos, args: &[u8]) -> bool {
        let options = &self.shared.options;
        if args.len() < options.long_request_bytes || options.workers == 1 || self.funnel.is_some() {
            return false;
        }
        // What another one, which never came again, once waited for is over.
        let waiting = self.lead.apart_by.filter(|by| now < by + APART_PATIENCE);
        let by = *self.lead.apart_by.insert(waiting.unwrap_or(now + APART_PATIENCE));
        if self.is_apart() || now >= by {
            self.lead.apart_by = None;
            return false;
        }
        true
    }

    /// Whether the others can close this stream while this worker executes: it is quiet, and they know that all of it is decided.
    fn is_apart(&self) -> bool {
        self.lead.quiet && self.stream.undecided() == 0 && self.replay.scan > self.stream.last()
    }

    /// A few attempts in a row; whether one succeeded.
    #[inline]
    fn attempt(&mut self, token: Token, procedure: ProcedureId, args: &[u8]) -> bool {
        let was_quiet = self.lead.quiet;
        for _ in 0..ATTEMPTS_IN_A_ROW {
            self.lead.grant.look(&self.shared.account, &mut self.occ);
            let before = self.occ.log().len();
            let RolisWorker {
                registry, occ, lead: Lead { reply, quiet, .. }, funnel, mode, shared, id, ..
            } = self;
            let commit = |occ: &mut Occ, roll_back: bool| {
                if *quiet && !planted!(QuietKept) {
                    if !roll_back && funnel.is_none() {
                        occ.lock()?;
                    }
                    // Just before the timestamp is drawn, which exceeds all that others claimed of this stream meanwhile.
                    *quiet = false;
                    occ.set_floor(shared.progress.unquiet(*id));
                    hooks::point(Point::Unquiet);
                }
                match (&*funnel, &*mode) {
                    (Some(funnel), Mode::Leading { ballot }) => funnel.commit(ballot.epoch, occ, roll_back),
                    _ if roll_back => occ.commit_rollback(),
                    _ => occ.commit(),
                }
            };
            let ended = attempt(registry, occ, (procedure, args), reply, commit);
            if let Some((ts, outcome)) = ended {
                let more = outcome == Outcome::OutOfMemory
                    && self.lead.grant.more(&self.shared.account, &mut self.occ);
                if !more {
                    self.executed(ts, token, outcome, before);
                    return true;
                }
            }
            if was_quiet && !self.lead.quiet {
                // Nothing is left of this attempt: the others may go on closing this stream.
                self.be_quiet();
            }
            if ended.is_some() {
                continue;
            }
            if let Some(least) = self.occ.take_clock_stands() {
                self.lead.clock_stands = Some(least);
                return false;
            }
            Counters::add(&self.counters.conflicts, 1);
            self.back_off();
        }
        false
    }

    #[inline]
    fn executed(&mut self, ts: Timestamp, token: Token, outcome: Outcome, log_before: usize) {
        hooks::point(Point::Committed);
        let lead = &mut self.lead;
        assert!(ts > lead.last_executed && ts > lead.sealed, "timestamps of a worker grow: {ts}");
        lead.last_executed = ts;
        if self.occ.log().len() > log_before {
            if lead.open.count == 0 {
                lead.open.first = ts;
            }
            lead.open.last = ts;
            lead.open.count += 1;
        }
        let read_only = self.occ.log().len() == log_before;
        let ts =
            if read_only && planted!(ReadUnmarked) { lead.pending.last().unwrap_or_default() } else { ts };
        lead.pending.push(ts, token, outcome, &lead.reply);
        Counters::add(&self.counters.executed, 1);
    }

    /// Spins for a short random time, so that two that collided do not collide again.
    fn back_off(&mut self) {
        let random = &mut self.lead.random;
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        for _ in 0..*random % 256 {
            std::hint::spin_loop();
        }
        hooks::wait();
    }

    /// Gives every waiting request another round of attempts; whether there is no room for them now.
    fn retry(&mut self, now: Nanos, out: &mut Outbox) -> bool {
        if !self.lead.retries.is_empty() {
            self.expect_execution(now);
        }
        for _ in 0..self.lead.retries.len() {
            if self.lead.clock_stands.is_some() {
                break;
            }
            let options = &self.shared.options;
            let in_flight = options.max_in_flight_bytes;
            let full = self.occ.log_len() >= options.max_entry_bytes
                || self.lead.unreleased.bytes >= in_flight as u64
                || self.lead.pending.bytes() >= in_flight
                || self.occ.undo_bytes() >= in_flight;
            if full {
                return true;
            }
            let Some(mut retry) = self.lead.retries.pop_front() else { break };
            if self.attempt(retry.token, retry.procedure, &retry.args) {
                continue;
            }
            retry.attempts += ATTEMPTS_IN_A_ROW;
            if retry.attempts >= self.shared.options.max_attempts {
                out.reply(retry.token, Outcome::Conflict, &[]);
            } else {
                self.lead.retries.push_back(retry);
            }
        }
        false
    }

    /// A leader's turn: retry, seal, release.
    pub(super) fn turn_leading(&mut self, now: Nanos, ballot: Ballot, out: &mut Outbox) -> Next {
        self.lead.grant.next_turn(&self.shared.account, &mut self.occ);
        let no_room = self.retry(now, out);
        self.seal_what_is_due(now, ballot);
        if let Some(least) = self.lead.clock_stands
            && !self.lead.clock_told
        {
            self.lead.clock_told = true;
            self.report(Report::ClockStands { least }, out);
        }
        // A lone voter decides by itself, at once.
        self.look_at_decided(out);
        self.apply_some(u32::MAX);
        let mark = self.shared.progress.mark_in(ballot.epoch).expect("a leader's epoch is the current one");
        let kept = if planted!(UndoForgotten) { self.shared.progress.closed(self.id) } else { mark };
        self.occ.forget_undo(kept);
        self.lead.unreleased.released(mark);
        hooks::tell(|| Fact::Holds {
            undecided_bytes: self.stream.undecided_bytes(),
            replies: self.lead.pending.len(),
        });
        let bound = if planted!(EntryReleasedWhole) { self.end_of_entry_at(mark) } else { mark };
        let released = self.lead.pending.release(bound, out);
        self.again |= released.more;
        Counters::add(&self.counters.committed, released.committed);
        Counters::add(&self.counters.rolled_back, released.other);
        let waits = self.lead.pending.first().is_some_and(|first| first <= self.lead.sealed);
        self.shared.progress.set_waiting(self.id, waits);
        self.go_quiet(out);
        let full = self.lead.unreleased.bytes >= self.shared.options.max_in_flight_bytes as u64;
        if full || self.lead.quiet && self.stream.undecided() == 0 {
            // No entry is about to tell it; a follower may need it to make room.
            self.stream.announce_decided();
        }
        self.collect_garbage();
        self.report_quiesced(out);
        // Without room for them: what makes room gives a turn, too.
        let may = self.lead.clock_stands.is_none() && (!no_room || self.lead.open.count > 0);
        if !self.lead.retries.is_empty() && may {
            return Next::Now;
        }
        let next = if waits { recheck(now, self.moved.2, WAITING_RECHECK) } else { Next::Idle };
        let apart_by = self.lead.apart_by.filter(|by| *by > now);
        if apart_by.is_some() && self.is_apart() {
            // Nothing else may give the turn in which it comes again.
            return Next::Now;
        }
        let next = apart_by.map_or(next, |by| sooner(next, Next::At(by)));
        // An entry that stays open waits for requests only as long as they come.
        let room = self.stream.undecided() < self.shared.options.pipeline_entries as u64;
        if self.lead.open.count > 0 && room { sooner(next, Next::At(self.due_when_idle())) } else { next }
    }

    /// Up to where the entry reaches into which `mark` falls.
    fn end_of_entry_at(&self, mark: Timestamp) -> Timestamp {
        let decided = self.stream.decided().0;
        let entries =
            (1..=decided).rev().map_while(|index| CheckedEntry::held(&self.stream, EntryIndex(index)));
        let straddling = entries.map(|entry| entry.header()).find(|header| header.first_ts <= mark);
        straddling.map_or(mark, |header| header.last_ts.max(mark))
    }

    fn report_quiesced(&mut self, out: &mut Outbox) {
        let lead = &self.lead;
        let still =
            lead.quiescing && lead.pending.is_empty() && lead.retries.is_empty() && lead.open.count == 0;
        if still && !lead.quiesced && self.stream.undecided() == 0 {
            self.lead.quiesced = true;
            self.report(Report::Quiesced(self.id), out);
        } else if !lead.quiescing {
            self.lead.quiesced = false;
        }
    }

    /// A new leader's turn until its epoch opens: start the epoch in this stream, apply everything older.
    pub(super) fn turn_taking_over(
        &mut self,
        ballot: Ballot,
        start: EpochStart,
        mut proposed: bool,
        mut reported: bool,
        out: &mut Outbox,
    ) -> Next {
        if !self.stream.is_leading(ballot) {
            return Next::Idle;
        }
        if !proposed {
            proposed = true;
            let workers = self.shared.options.workers;
            if !(planted!(EpochEndSkipped) && workers > 1 && self.id.0 + 1 == workers) {
                self.propose_epoch(ballot, &start);
            }
            self.look_at_decided(out);
        }
        let applying = self.apply_some(4 << 20);
        // A later candidate must find out that this epoch opened, from any majority of its members.
        let known = self.stream.all_is_known_to_a_quorum() || planted!(OpensEarly);
        let entered = self.shared.progress.epoch() == ballot.epoch;
        let complete = entered && known && self.replay.caught_up();
        if complete && self.replay.scan > self.stream.decided() && !reported {
            reported = true;
            self.report(Report::Ready { ballot, stream: self.id }, out);
        }
        self.mode = Mode::TakingOver { ballot, start, proposed, reported };
        if applying == Applying::More { Next::Now } else { Next::Idle }
    }

    /// The entry that ends every older epoch in this stream.
    fn propose_epoch(&mut self, ballot: Ballot, start: &EpochStart) {
        let mut buffer = fresh_entry();
        start.members.encode(&mut buffer);
        let header = EntryHeader {
            kind: EntryKind::EpochChange,
            stream: self.id,
            epoch: ballot.epoch,
            index: self.stream.next_index(),
            first_ts: start.base,
            last_ts: start.base,
            closed_ts: start.base,
            count: 0,
            body_len: 0,
            claims: 0,
        };
        header.seal(&mut buffer, &[]);
        self.stream.propose(Bytes::from(buffer));
    }
}
