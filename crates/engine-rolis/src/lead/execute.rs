//! Executing requests speculatively: attempts, conflicts, and requests that have to come again.

use highwater_consensus::Stream;
use highwater_core::sync::Ordering;
use highwater_core::{Abort, EntryIndex, Outcome, Registry, Timestamp};
use highwater_kit::attempt::{Ends, attempt};
use highwater_kit::call::Call;
use highwater_kit::retries::{ATTEMPTS_IN_A_ROW, Again, Retries};
use highwater_seam::memory::Grant;
use highwater_seam::{Counters, Nanos, Outbox, Request, Taken, Token};
use highwater_store::Occ;

use crate::context::{Context, Turn};
use crate::hooks;
use crate::lead::confirming::Confirming;
use crate::lead::feed::Feed;
use crate::lead::pending::Pending;
use crate::lead::seal::Sealer;
use crate::settings::LONG_REQUEST_BYTES;
use highwater_log_host::messages::Report;

/// Runs procedures.
pub struct Executor {
    registry: Registry<Occ>,
    /// Requests that met too many conflicts for one turn.
    retries: Retries,
    /// What transactions may still make the store grow by.
    grant: Grant,
    /// A long request waits until it can be executed apart; until then at most.
    apart_by: Option<Nanos>,
    /// See [`LONG_REQUEST_BYTES`].
    long_request_bytes: usize,
    /// The controller knows that the clock stands.
    clock_told: bool,
    reply: Vec<u8>,
    /// Rows that all transactions had passed when the turn began.
    turn_began: u64,
    /// Never 0.
    random: u64,
}

/// Rows that a turn's transactions pass before no further one begins in it: a quarter of a second, about. So a turn takes no longer than that and its
/// longest transaction, however many long ones wait. Those whose time no row tells, scripts and modules, are paused by the controller.
pub const ROWS_A_TURN: u64 = 1 << 18;
/// An attempt that passed more rows and met a conflict is not repeated in the same turn.
const ROWS_TO_REPEAT: u64 = ROWS_A_TURN / 4;
/// How long a long request waits to be executed apart: many round trips.
const APART_PATIENCE: Nanos = 50_000_000;

/// What a transaction goes through to its commit.
pub struct Path<'a, F> {
    /// The store, as a transaction sees it.
    pub occ: &'a mut Occ,
    /// Where it commits.
    pub feed: &'a F,
    /// What it is recorded in.
    pub sealer: &'a mut Sealer,
    /// Where its reply waits for the mark.
    pub pending: &'a mut Pending,
    /// Where it waits for a majority's word, if it saw nothing above the mark.
    pub confirming: &'a mut Confirming,
    /// The worker's stream, which is quiet or not.
    pub stream: &'a Stream,
}

impl Executor {
    /// The executor of worker `context`. `registry`: its procedures, as a leader runs them.
    pub fn new(context: &Context, registry: Registry<Occ>) -> Executor {
        let (id, options) = (context.id.0, context.options());
        Executor {
            registry,
            retries: Retries::default(),
            grant: Grant::of(id as usize),
            apart_by: None,
            long_request_bytes: options.own.get(&LONG_REQUEST_BYTES) as usize,
            clock_told: false,
            reply: Vec::new(),
            turn_began: 0,
            random: (options.seed ^ (u64::from(id) + 1).wrapping_mul(0xd129_0f8a_21b7_4a05)) | 1,
        }
    }

    /// An epoch opens.
    pub fn begin(&mut self) {
        (self.clock_told, self.apart_by) = (false, None);
    }

    /// The lead is over.
    pub fn end(&mut self, context: &Context, out: &mut Outbox) {
        self.grant.give_back(&context.shared.account);
        for token in self.retries.give_up() {
            out.reply(token, Outcome::Conflict, &[]);
        }
    }

    /// Whether this turn's transactions have done so much that the next one waits for another turn.
    #[inline]
    pub fn has_done_enough(&self, occ: &Occ) -> bool {
        is_enough(self.turn_began, occ)
    }

    /// Whether requests wait for another attempt.
    #[inline]
    pub fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// Whether more of them would be too many; their arguments take `most_bytes` at most.
    #[inline]
    pub fn is_full(&self, most_bytes: usize) -> bool {
        self.retries.is_full(most_bytes)
    }

    /// Until when a long request waits to be executed apart.
    pub fn apart_by(&self) -> Option<Nanos> {
        self.apart_by
    }

    /// Runs a request to its speculative commit, or puts it off.
    #[inline]
    pub fn execute<F: Feed>(
        &mut self,
        now: Nanos,
        request: Request<'_>,
        context: &Context,
        path: &mut Path<'_, F>,
    ) -> Taken {
        if path.sealer.request_comes(now) {
            context.executes(now);
        }
        if !hooks::puts_off() && self.attempt(request.token, Call::of(&request), context, path) {
            return Taken::Placed;
        }
        self.retries.put_off(&request)
    }

    /// Whether a request should come again later, because executing it now would hold up the other workers.
    ///
    /// A worker that executes closes nothing: the mark, and with it everybody's replies, would wait for a transaction that
    /// touches a million keys. While it is *quiet* the others close its stream for it; so a long request is executed only when
    /// this worker has nothing open and nothing undecided (a decision would have to be counted by this worker), or when that has
    /// not come about for a while.
    #[inline]
    pub fn waits_to_be_apart(
        &mut self,
        now: Nanos,
        args: &[u8],
        context: &Context,
        is_apart: impl FnOnce() -> bool,
    ) -> bool {
        if args.len() < self.long_request_bytes || context.options().workers == 1 {
            return false;
        }
        // What another one, which never came again, once waited for is over.
        let waiting = self.apart_by.filter(|by| now < by + APART_PATIENCE);
        let by = *self.apart_by.insert(waiting.unwrap_or(now + APART_PATIENCE));
        if is_apart() || now >= by {
            self.apart_by = None;
            return false;
        }
        true
    }

    /// A few attempts in a row; whether one succeeded.
    #[inline(always)]
    fn attempt<F: Feed>(
        &mut self,
        token: Token,
        call: Call<'_>,
        context: &Context,
        path: &mut Path<'_, F>,
    ) -> bool {
        let Executor { registry, grant, reply, .. } = self;
        let Path { occ, feed, sealer, pending, confirming, stream } = path;
        let account = &context.shared.account;
        let was_quiet = sealer.is_quiet();
        for _ in 0..ATTEMPTS_IN_A_ROW {
            grant.look(account, occ);
            let before = occ.log().len();
            let mut ends = Ending { context, feed: *feed, sealer, confirming, at_mark: false };
            let ended = attempt(registry, occ, call, reply, &mut ends);
            let at_mark = ends.at_mark;
            if let Some((mark, outcome)) = ended.filter(|_| at_mark) {
                confirming.push(mark, token, outcome, reply);
                Counters::add(&context.counters.executed, 1);
                return true;
            }
            if let Some((ts, outcome)) = ended {
                let more = outcome == Outcome::OutOfMemory && grant.more(account, occ);
                if !more {
                    let read_only = occ.log().len() == before;
                    hooks::committed();
                    sealer.executed(ts, read_only);
                    let leaves = hooks::release_time(ts, read_only, pending.last());
                    pending.push(leaves, token, outcome, reply);
                    Counters::add(&context.counters.executed, 1);
                    return true;
                }
            }
            if was_quiet && !sealer.is_quiet() {
                // Nothing is left of this attempt: the others may go on closing this stream.
                sealer.be_quiet(context, stream);
            }
            if ended.is_some() {
                continue;
            }
            if let Some(least) = occ.take_clock_stands() {
                sealer.clock_stood(least);
                return false;
            }
            context.counters.conflict(occ);
            if occ.work().rows() > ROWS_TO_REPEAT {
                return false;
            }
            back_off(&mut self.random);
        }
        false
    }

    /// The same, apart from where requests come for the first time.
    #[cold]
    fn attempt_again<F: Feed>(
        &mut self,
        token: Token,
        call: Call<'_>,
        context: &Context,
        path: &mut Path<'_, F>,
    ) -> bool {
        self.attempt(token, call, context, path)
    }

    /// Gives waiting requests another round of attempts; whether there is no room for them now.
    pub fn retry<F: Feed>(&mut self, context: &Context, path: &mut Path<'_, F>, turn: &mut Turn<'_>) -> bool {
        if !self.has_retries() {
            return false;
        }
        context.executes(turn.now);
        let options = context.options();
        let in_flight = options.max_in_flight_bytes;
        let turn_began = self.turn_began;
        let mut retries = std::mem::take(&mut self.retries);
        let mut no_room = false;
        let gave_up = retries.round(options.max_attempts, |retry| {
            if path.sealer.clock_stands().is_some() {
                return Again::Waits;
            }
            no_room = is_enough(turn_began, path.occ)
                || path.occ.log_len() >= options.max_entry_bytes
                || path.sealer.unreleased_bytes() >= in_flight as u64
                || path.pending.bytes() + path.confirming.bytes() >= in_flight
                || path.occ.undo_bytes() >= in_flight;
            match no_room {
                true => Again::Waits,
                false if self.attempt_again(retry.token, retry.call(), context, path) => Again::Done,
                false => Again::Conflict,
            }
        });
        self.retries = retries;
        if let Some(token) = gave_up {
            turn.out.reply(token, Outcome::Conflict, &[]);
        }
        no_room
    }

    /// A turn begins: what was granted and not used goes back after a while, and disks may be full.
    pub fn next_turn(&mut self, context: &Context, occ: &mut Occ) {
        self.turn_began = occ.all_rows();
        self.grant.next_turn(&context.shared.account, occ);
        occ.refuse_writes(context.shared.disk_full.load(Ordering::Relaxed));
    }

    /// Tells the controller, once, that the clock stands.
    pub fn tell_clock(&mut self, stands: Option<Timestamp>, context: &Context, turn: &mut Turn<'_>) {
        if let Some(least) = stands
            && !self.clock_told
        {
            self.clock_told = true;
            turn.report(context, Report::ClockStands { least });
        }
    }
}

/// How a leader's transactions end.
struct Ending<'a, F> {
    context: &'a Context,
    feed: &'a F,
    sealer: &'a mut Sealer,
    confirming: &'a Confirming,
    /// It ended as of the mark, and has no timestamp of its own.
    at_mark: bool,
}

impl<F: Feed> Ending<'_, F> {
    /// Ends a transaction that wrote nothing as of the mark, if it saw nothing above; the mark.
    #[inline]
    fn end_at_mark(&mut self, occ: &mut Occ) -> Result<Option<Timestamp>, Abort> {
        let Some(mark) = self.confirming.mark(&self.context.marks.watermark) else { return Ok(None) };
        self.at_mark = occ.commit_at(hooks::read_bound(mark))?;
        Ok(self.at_mark.then_some(mark))
    }

    /// The stream is quiet no more, before the transaction draws its timestamp.
    #[inline(always)]
    fn wake_up(&mut self, occ: &mut Occ, roll_back: bool) -> Result<(), Abort> {
        if self.sealer.is_quiet() {
            self.sealer.wake_up::<F>(self.context, occ, roll_back)?;
        }
        Ok(())
    }
}

impl<F: Feed> Ends<Occ> for Ending<'_, F> {
    #[inline(always)]
    fn commit(&mut self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        self.at_mark = false;
        if !occ.wrote()
            && let Some(mark) = self.end_at_mark(occ)?
        {
            return Ok(mark);
        }
        self.wake_up(occ, false)?;
        self.feed.commit(occ)
    }

    fn roll_back(&mut self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        self.at_mark = false;
        self.wake_up(occ, true)?;
        self.feed.roll_back(occ)
    }
}

/// Whether the others can close this stream while this worker executes: it is quiet, and they know that all of it is decided,
/// up to before `scan`.
pub fn is_apart(sealer: &Sealer, stream: &Stream, scan: EntryIndex) -> bool {
    sealer.is_quiet() && stream.undecided() == 0 && scan > stream.last()
}

/// Spins for a short random time, so that two that collided do not collide again.
fn back_off(random: &mut u64) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    for _ in 0..*random % 256 {
        std::hint::spin_loop();
    }
    hooks::waits();
}

/// Whether no further transaction begins in a turn: by the rows that it has passed or, if what takes long is something else, by the watcher's word.
#[inline]
fn is_enough(turn_began: u64, occ: &Occ) -> bool {
    rows_since(turn_began, occ) > ROWS_A_TURN || occ.has_to_pause()
}

/// Rows that transactions have passed since the count stood at `turn_began`. A store that was replaced meanwhile counts from nothing: none, then.
#[inline]
fn rows_since(turn_began: u64, occ: &Occ) -> u64 {
    occ.all_rows().saturating_sub(turn_began)
}
