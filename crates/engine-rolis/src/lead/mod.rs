//! Leading: joins executing ([`execute`](execute)), handing entries out ([`seal`](crate::lead::seal)) and the replies that wait
//! ([`pending`](pending), [`confirming`](crate::lead::confirming)); releases what the mark has passed.

pub mod confirming;
pub mod execute;
pub mod feed;
pub mod pending;
pub mod seal;
pub mod speculation;

use highwater_consensus::Stream;
use highwater_core::{Ballot, EntryIndex, Epoch, Registry, Timestamp};
use highwater_seam::{Counters, Nanos, Next, Outbox, Refusal, Request, Taken};
use highwater_store::Occ;

use crate::context::{Context, Turn, recheck};
use crate::hooks;
use crate::lead::confirming::{Confirming, Pace};
use crate::lead::execute::{Executor, Path, is_apart};
use crate::lead::feed::Feed;
use crate::lead::pending::Pending;
use crate::lead::seal::Sealer;
use highwater_log_host::messages::Report;
use highwater_log_host::pulse::NEVER;
use highwater_log_host::worker::entries::{CheckedEntry, fresh_entry};

/// What a leading worker keeps.
pub struct Lead {
    pending: Pending,
    confirming: Confirming,
    executor: Executor,
    sealer: Sealer,
    /// Take no more requests; report under this number when everything is released.
    quiescing: Option<u64>,
    quiesced: bool,
    movement: Movement,
    /// How many reads had left when one last did, or began to wait; and when that was.
    reading: (u64, Nanos),
    /// Since when followers know less than what is decided, and no entry is open that would tell them.
    untold_since: Option<Nanos>,
}

/// What was decided, and what waited first for the mark, when something last moved; and when that was.
struct Movement {
    decided: EntryIndex,
    first: Option<Timestamp>,
    at: Nanos,
}

/// How soon to look again while another stream holds replies back (wake-ups make it sooner).
const WAITING_RECHECK: Nanos = 500_000;
/// Followers of a stream that has fallen silent are told what is decided after this part of the batch delay. The next entry tells it for
/// nothing, and clients that wait for their replies send the next requests within a round trip or two; a message for each would cost each
/// follower a second wake-up an entry.
const ANNOUNCE_DIVISOR: Nanos = 3;

impl Lead {
    /// Not leading. `registry`: the procedures, as a leader runs them.
    pub fn new(context: &Context, registry: Registry<Occ>) -> Lead {
        Lead {
            pending: Pending::default(),
            confirming: Confirming::default(),
            executor: Executor::new(context, registry),
            sealer: Sealer::default(),
            quiescing: None,
            quiesced: false,
            movement: Movement { decided: EntryIndex::NONE, first: None, at: NEVER },
            reading: (0, NEVER),
            untold_since: None,
        }
    }

    /// Whether a leading worker has room for a request.
    #[inline]
    pub fn admits(&self, context: &Context, occ: &Occ) -> Result<(), Refusal> {
        let options = context.options();
        // An open entry at its limit is sealed before more goes in: an entry exceeds it by one transaction at most.
        let full = self.quiescing.is_some()
            || self.sealer.clock_stands().is_some()
            || occ.log_len() >= options.max_entry_bytes
            || self.pending.len() + self.confirming.len() >= options.max_in_flight_requests
            || self.pending_bytes() >= options.max_in_flight_bytes
            || occ.undo_bytes() >= options.max_in_flight_bytes
            || self.executor.is_full(options.max_in_flight_bytes)
            || self.executor.has_done_enough(occ)
            || self.sealer.unreleased_bytes() >= options.max_in_flight_bytes as u64
            || hooks::is_busy();
        if full { Err(Refusal::Busy) } else { Ok(()) }
    }

    /// `epoch` opens, above `base`.
    pub fn begin(&mut self, epoch: Epoch, base: Timestamp, context: &Context, occ: &mut Occ) {
        self.sealer.begin(base);
        self.executor.begin();
        self.confirming.begin(epoch);
        self.untold_since = None;
        (self.quiescing, self.quiesced) = (None, false);
        occ.log().take(fresh_entry());
        occ.log().set_most(context.options().max_transaction_bytes);
        context.watch(occ.work());
        occ.set_room(0);
        occ.keep_undo(true);
        occ.set_floor(base);
    }

    /// Leads no more. What is speculative stays in the store until the final mark tells what to roll back.
    pub fn end(&mut self, context: &Context, occ: &mut Occ, out: &mut Outbox) {
        if !self.pending.is_empty() {
            hooks::leaves_unknown(self.pending.len());
        }
        self.pending.fail(out);
        self.confirming.fail(out);
        self.executor.end(context, out);
        self.sealer.end();
        occ.log().take(fresh_entry());
        (self.quiescing, self.quiesced) = (None, false);
        context.marks.watermark.set_waiting(context.id, false);
    }

    /// Take no more requests, and report when everything is released; or take some again.
    pub fn quiesce(&mut self, quiescing: Option<u64>) {
        (self.quiescing, self.quiesced) = (quiescing, false);
    }

    /// Somebody needs the stream closed up to here.
    pub fn close_up_to(&mut self, position: Timestamp) {
        self.sealer.close_up_to(position);
    }

    /// Somebody needs to know that this node still leads: an entry is to be decided that is proposed from now on. Whether one will be:
    /// not while requests wait for another leader. While so much is above the mark that no request is taken none is sealed for this:
    /// any later one will do, and what a follower may be unable to install stays bounded.
    pub fn prove_lead(&mut self, context: &Context) -> bool {
        if self.quiescing.is_some() {
            return false;
        }
        self.want_entry(context);
        true
    }

    fn want_entry(&mut self, context: &Context) {
        if self.sealer.unreleased_bytes() < context.options().max_in_flight_bytes as u64 {
            self.sealer.close_up_to(self.sealer.sealed().next());
        }
    }

    /// Bytes of the replies that wait.
    pub fn pending_bytes(&self) -> usize {
        self.pending.bytes() + self.confirming.bytes()
    }

    /// Whether more than a few requests come at a time.
    pub fn has_many(&self) -> bool {
        self.sealer.has_many() || self.confirming.has_many()
    }

    /// Whether requests ran since the last turn.
    pub fn is_busy(&self) -> bool {
        self.sealer.is_busy()
    }

    /// Runs a request to its speculative commit or puts it off, unless it should come again later. `scan`: the first entry not looked at.
    #[inline]
    pub fn submit<F: Feed>(
        &mut self,
        now: Nanos,
        request: Request<'_>,
        context: &Context,
        (occ, feed): (&mut Occ, &F),
        (stream, scan): (&Stream, EntryIndex),
    ) -> Result<Taken, Refusal> {
        let apart = || is_apart(&self.sealer, stream, scan);
        if self.executor.waits_to_be_apart(now, request.args, context, apart) {
            return Err(Refusal::Busy);
        }
        let Lead { executor, sealer, pending, confirming, .. } = self;
        let path = &mut Path { occ, feed, sealer, pending, confirming, stream };
        Ok(executor.execute(now, request, context, path))
    }

    /// The first half of a turn: tries again what has to be, and seals what is due. Whether there was no room for another attempt.
    pub fn turn<F: Feed>(
        &mut self,
        ballot: Ballot,
        context: &Context,
        (occ, feed): (&mut Occ, &F),
        stream: &mut Stream,
        turn: &mut Turn<'_>,
    ) -> bool {
        let Lead { executor, sealer, pending, confirming, .. } = self;
        // What was not taken for that is taken in the next turn.
        turn.again |= executor.has_done_enough(occ);
        executor.next_turn(context, occ);
        let no_room =
            executor.retry(context, &mut Path { occ, feed, sealer, pending, confirming, stream }, turn);
        let last = stream.last();
        sealer.seal_what_is_due(turn.now, ballot, context, feed, pending, (occ, stream));
        executor.tell_clock(sealer.clock_stands(), context, turn);
        if !F::SHARED {
            let sealed_behind = Some(last).filter(|last| *last < stream.last());
            let entries = (sealed_behind, !sealer.is_empty());
            if confirming.ask(turn.now, entries, Pace::of(context.options()), stream) {
                self.want_entry(context);
                turn.again = true;
            }
        }
        no_room
    }

    /// The second half: releases what the mark has passed.
    pub fn release(
        &mut self,
        ballot: Ballot,
        context: &Context,
        occ: &mut Occ,
        stream: &mut Stream,
        turn: &mut Turn<'_>,
    ) {
        let watermark = &context.marks.watermark;
        let mark = watermark.mark_in(ballot.epoch).expect("a leader's epoch is the current one");
        occ.forget_undo(hooks::undo_bound(mark, || watermark.closed(context.id)));
        self.sealer.released(mark);
        hooks::holds(stream.undecided_bytes(), self.pending.len() + self.confirming.len());
        let bound = hooks::release_bound(mark, || end_of_entry_at(stream, mark));
        let released = self.pending.release(bound, turn.out);
        let confirmed = self.confirming.release(stream, turn.out);
        turn.again |= released.more || confirmed.more;
        Counters::add(&context.counters.committed, released.committed + confirmed.committed);
        Counters::add(&context.counters.rolled_back, released.other + confirmed.other);
        watermark.set_waiting(context.id, self.waits());
        self.sealer.go_quiet(context, &self.pending, stream, turn.out);
        self.announce(turn.now, context, stream);
    }

    /// Has the followers told what is decided, if no entry is about to tell it: at once if one of them may need it to make room, or if
    /// somebody waits for the end of this lead; else after a while.
    fn announce(&mut self, now: Nanos, context: &Context, stream: &mut Stream) {
        let full = self.sealer.unreleased_bytes() >= context.options().max_in_flight_bytes as u64;
        let silent = self.sealer.is_quiet() && stream.undecided() == 0;
        if !(full || silent && stream.owes_announcement()) {
            self.untold_since = None;
            return;
        }
        let since = *self.untold_since.get_or_insert(now);
        if full || self.quiescing.is_some() || now >= announced_by(since, context) {
            stream.announce_decided();
            self.untold_since = None;
        }
    }

    /// Whether replies wait for other streams: this one is closed behind them.
    fn waits(&self) -> bool {
        self.pending.first().is_some_and(|first| first <= self.sealer.sealed())
    }

    /// When a leader wants its next turn. `no_room`: there was none for another attempt; `scan`: the first entry not looked at.
    pub fn next(
        &self,
        now: Nanos,
        no_room: bool,
        context: &Context,
        (stream, scan): (&Stream, EntryIndex),
    ) -> Next {
        // Without room for them: what makes room gives a turn, too.
        let may = self.sealer.clock_stands().is_none() && (!no_room || !self.sealer.is_empty());
        if self.executor.has_retries() && may {
            return Next::Now;
        }
        let next = if self.waits() { recheck(now, self.movement.at, WAITING_RECHECK) } else { Next::Idle };
        let apart_by = self.executor.apart_by().filter(|by| *by > now);
        if apart_by.is_some() && is_apart(&self.sealer, stream, scan) {
            // Nothing else may give the turn in which it comes again.
            return Next::Now;
        }
        let next = apart_by.map_or(next, |by| next.sooner(Next::At(by)));
        let next =
            self.untold_since.map_or(next, |since| next.sooner(Next::At(announced_by(since, context))));
        let pace = Pace::of(context.options());
        let next = next.sooner(self.confirming.next(now, !self.sealer.is_empty(), pace, stream));
        self.sealer.due(context, &self.pending, stream).map_or(next, |due| next.sooner(Next::At(due)))
    }

    /// Reports, once, that everything is released and nothing more is taken.
    pub fn report_quiesced(&mut self, context: &Context, stream: &Stream, turn: &mut Turn<'_>) {
        let answered = self.pending.is_empty() && self.confirming.is_empty();
        let released = answered && !self.executor.has_retries() && self.sealer.is_empty();
        if let Some(round) = self.quiescing
            && released
            && !self.quiesced
            && stream.undecided() == 0
        {
            self.quiesced = true;
            turn.report(context, Report::Quiesced(context.id, round));
        }
    }

    /// Since when something waits and nothing moves; [`NEVER`] if nothing waits. `leads`: whether this worker leads. That reads leave says
    /// nothing of writes, which wait for disks.
    pub fn still_since(&mut self, now: Nanos, leads: bool, stream: &Stream) -> Nanos {
        let (decided, first) = (stream.decided(), self.pending.first());
        let movement = &mut self.movement;
        if !leads || stream.undecided() == 0 && self.pending.is_empty() {
            movement.at = NEVER;
        } else if movement.at == NEVER || (movement.decided, movement.first) != (decided, first) {
            *movement = Movement { decided, first, at: now };
        }
        let (left, at) = &mut self.reading;
        if !leads || self.confirming.is_empty() {
            *at = NEVER;
        } else if *at == NEVER || *left != self.confirming.released() {
            (*left, *at) = (self.confirming.released(), now);
        }
        movement.at.min(*at)
    }
}

/// When followers are to be told at the latest what is decided, of which they could have been told since then.
fn announced_by(since: Nanos, context: &Context) -> Nanos {
    since + context.options().batch_delay / ANNOUNCE_DIVISOR
}

/// Up to where the entry reaches into which `mark` falls.
fn end_of_entry_at(stream: &Stream, mark: Timestamp) -> Timestamp {
    let decided = stream.decided().0;
    let entries = (1..=decided).rev().map_while(|index| CheckedEntry::held(stream, EntryIndex(index)));
    let straddling = entries.map(|entry| entry.header()).find(|header| header.first_ts <= mark);
    straddling.map_or(mark, |header| header.last_ts.max(mark))
}
