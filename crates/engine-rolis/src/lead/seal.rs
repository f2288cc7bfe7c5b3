//! Handing entries out: when, and what an entry says about other streams.
//!
//! # When an entry is sealed
//!
//! Batching clocks itself, because each message costs as much as several transactions. Under light load, when few
//! transactions come during a round trip, each entry leaves as soon as nothing else is undecided, and latency is a round
//! trip; a request that comes alone, as the one before did, is not even waited with for another look. When more come, entries leave at short intervals whenever the worker has run out of requests. A worker that is
//! kept busy goes on for longer, or to half an entry's bytes: entries cost it time that it has not got. One that finds only few requests whenever
//! it looks has some left, and goes on for such a short interval. Undecided entries are limited; while the network is slow the
//! open entry grows, up to its limit in bytes.
//!
//! An *empty* entry is sealed when a reply waits for this stream to be closed beyond the last entry (a roll-back's, or that of a read which
//! saw something above the mark): at once if nothing is undecided, else after the same short interval, so that many share a round trip. And when replies wait for another stream that went quiet meanwhile: the new entry carries a claim
//! about it. What the last entry claimed is not claimed again: if that stream stands still, there would be an entry for each round trip.
//!
//! # Quiet
//!
//! A worker with nothing open announces itself quiet. It takes that back before it draws another timestamp, so a claim
//! "stream j is closed up to my timestamp" by a worker that saw it quiet *after* reading that timestamp is true. It executes
//! meanwhile: what it reads and locks has no timestamp yet.

use std::collections::VecDeque;

use bytes::Bytes;
use highwater_consensus::Stream;
use highwater_core::log::{Claim, ENTRY_HEADER_BYTES, EntryHeader, EntryKind};
use highwater_core::{Abort, Ballot, StreamId, Timestamp};
use highwater_seam::{Counters, Nanos, Outbox};
use highwater_store::Occ;

use crate::context::Context;
use crate::hooks;
use crate::lead::feed::Feed;
use crate::lead::pending::Pending;
use highwater_log_host::worker::entries::{FRESH_BYTES, fresh_entry};

/// The open entry, and where the stream is closed.
///
/// Invariants: `sealed <= last_executed`, or nothing was executed since; every timestamp that is still to be drawn exceeds both.
/// While `quiet`, nothing is open.
#[derive(Debug, Default)]
pub struct Sealer {
    open: OpenEntry,
    /// Timestamp of the last transaction executed in this epoch, whether it wrote or not.
    last_executed: Timestamp,
    /// `closed_ts` of the last sealed entry.
    sealed: Timestamp,
    /// Somebody beside the replies needs the stream closed up to here (a state copy).
    close_up_to: Timestamp,
    /// What the last sealed entry claims of other streams.
    claimed: Vec<Claim>,
    /// The entries above the mark.
    unreleased: Unreleased,
    /// The others may claim that this stream is closed; this worker takes that back before it draws a timestamp.
    quiet: bool,
    /// The clock was found at or below this, though it had been there before: no more requests, until another epoch.
    clock_stands: Option<Timestamp>,
    /// How many requests ran since the last turn: if any did, there may be more to come for the open entry.
    came: u32,
    /// When the open entry was begun, about.
    opened_at: Nanos,
    /// When the last entry was sealed.
    sealed_at: Nanos,
    /// The buffer of an entry that was copied out of it.
    spare: Vec<u8>,
    /// Length of the last entry: the next one will be about as long.
    last_len: usize,
    /// Transactions executed since the last entry, those that only read and wait for the mark among them.
    executed: u32,
    /// The same between the last entry and the one before it, or, if there were none, before that.
    last_count: u32,
}

/// The transactions in the open entry.
#[derive(Clone, Copy, Debug, Default)]
struct OpenEntry {
    count: u32,
    first: Timestamp,
    last: Timestamp,
}

/// An entry that takes no more transactions.
struct Closed {
    /// Its `closed_ts`.
    at: Timestamp,
    /// Room for a header, and the transactions.
    buffer: Vec<u8>,
    claims: Vec<Claim>,
}

/// Sealed entries that the mark has not passed: what a follower may hold and be unable to install. Bounded, so that a
/// follower that takes nothing more until it has installed something can always do so.
#[derive(Debug, Default)]
struct Unreleased {
    /// `closed_ts` and length of each.
    entries: VecDeque<(Timestamp, u64)>,
    /// Their lengths in all.
    bytes: u64,
}

impl Unreleased {
    fn sealed(&mut self, closed: Timestamp, len: u64) {
        self.entries.push_back((closed, len));
        self.bytes += len;
    }

    fn released(&mut self, mark: Timestamp) {
        while let Some((_, len)) = self.entries.pop_front_if(|(closed, _)| *closed <= mark) {
            self.bytes -= len;
        }
    }
}

/// For how long an entry stays open at the most while requests come: `came` of them since the last turn.
fn open_for(came: u32, batch_delay: Nanos) -> Nanos {
    if came > FEW { batch_delay } else { batch_delay / SPACING_DIVISOR }
}

/// Entries of a worker that is not kept busy follow each other after this part of the batch delay, at the soonest,
const SPACING_DIVISOR: Nanos = 12;
/// unless only so many transactions came for the last one, and it is decided.
const FEW: u32 = 4;

impl Sealer {
    /// An epoch opens, above `base`.
    pub fn begin(&mut self, base: Timestamp) {
        let Sealer { came: _, opened_at, sealed_at, spare, last_len, last_count, .. } = std::mem::take(self);
        let closed = Sealer { last_executed: base, sealed: base, close_up_to: base, ..Sealer::default() };
        *self = Sealer { opened_at, sealed_at, spare, last_len, last_count, ..closed };
    }

    /// The lead is over: what was quiet is no longer announced by this worker.
    pub fn end(&mut self) {
        self.quiet = false;
    }

    /// Whether no transaction is in the open entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.open.count == 0
    }

    /// Whether the others may claim that this stream is closed.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether requests ran since the last turn.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.came > 0
    }

    /// Up to where the last entry closed the stream.
    pub fn sealed(&self) -> Timestamp {
        self.sealed
    }

    /// Bytes of the entries above the mark.
    #[inline]
    pub fn unreleased_bytes(&self) -> u64 {
        self.unreleased.bytes
    }

    /// The mark has come to `mark`.
    pub fn released(&mut self, mark: Timestamp) {
        self.unreleased.released(mark);
    }

    /// What the clock had to exceed and did not, if it once did not.
    #[inline]
    pub fn clock_stands(&self) -> Option<Timestamp> {
        self.clock_stands
    }

    /// The clock did not come to exceed `least`.
    pub fn clock_stood(&mut self, least: Timestamp) {
        self.clock_stands = self.clock_stands.max(Some(least));
    }

    /// Somebody needs the stream closed up to here.
    pub fn close_up_to(&mut self, position: Timestamp) {
        self.close_up_to = self.close_up_to.max(position);
    }

    /// A request is about to be executed; whether it is the first one since the last turn.
    #[inline]
    pub fn request_comes(&mut self, now: Nanos) -> bool {
        self.came += 1;
        if self.came > 1 {
            return false;
        }
        if self.is_empty() {
            self.opened_at = now;
        }
        true
    }

    /// To be called, if the stream [is quiet](Sealer::is_quiet), right before a transaction draws its timestamp, which has to exceed all that others
    /// claimed of the stream meanwhile. What it writes is locked first, so that the others can go on closing the stream until then.
    #[cold]
    pub fn wake_up<F: Feed>(
        &mut self,
        context: &Context,
        occ: &mut Occ,
        roll_back: bool,
    ) -> Result<(), Abort> {
        assert!(self.quiet, "only who is quiet is woken up");
        if hooks::takes_quiet_back() {
            if !roll_back && !F::SHARED {
                occ.lock()?;
            }
            self.quiet = false;
            occ.set_floor(context.marks.watermark.unquiet(context.id));
            hooks::unquiet();
        }
        Ok(())
    }

    /// A transaction was executed at `ts`.
    #[inline]
    pub fn executed(&mut self, ts: Timestamp, read_only: bool) {
        assert!(ts > self.last_executed && ts > self.sealed, "timestamps of a worker grow: {ts}");
        self.last_executed = ts;
        self.executed += 1;
        if !read_only {
            if self.open.count == 0 {
                self.open.first = ts;
            }
            self.open.last = ts;
            self.open.count += 1;
        }
    }

    /// Whether something needs the stream to be closed beyond the last sealed entry.
    fn wants_closing(&self, pending: &Pending) -> bool {
        pending.last().max(Some(self.close_up_to)) > Some(self.sealed)
    }

    /// Seals and proposes the open entry if it is due, or an empty one if somebody needs it.
    pub fn seal_what_is_due<F: Feed>(
        &mut self,
        now: Nanos,
        ballot: Ballot,
        context: &Context,
        feed: &F,
        pending: &Pending,
        (occ, stream): (&mut Occ, &mut Stream),
    ) {
        let options = context.options();
        let full = self.unreleased.bytes >= options.max_in_flight_bytes as u64;
        let (open_bytes, needed) = feed.gathered(occ, full, options.max_entry_bytes);
        self.close_up_to(needed);
        let in_flight = stream.undecided();
        let room = in_flight < options.pipeline_entries as u64;
        let came = std::mem::take(&mut self.came);
        let due = if open_bytes > 0 {
            let large = open_bytes >= options.max_entry_bytes / 2;
            let lone = self.is_lone(came) && in_flight == 0;
            let idle = lone || came == 0 && now >= self.due_when_idle(context, stream);
            let old = now.saturating_sub(self.opened_at) >= open_for(came, options.batch_delay);
            let may_seal = room && (idle || old || large || hooks::seals_early());
            may_seal && !hooks::seals_late() || open_bytes >= options.max_entry_bytes
        } else {
            let closes = self.wants_closing(pending) && now >= self.closing_due(context, stream);
            room && (closes || self.held_back_by_quiet_stream(ballot, context, pending, stream))
        };
        if due {
            self.sealed_at = now;
            self.seal(ballot, context, feed, occ, stream);
        }
    }

    /// Whether one request came since the last turn, as one did for the last entry: that of a client which waits for each reply, and is alone.
    fn is_lone(&self, came: u32) -> bool {
        came == 1 && self.executed == 1 && self.last_count == 1
    }

    /// Whether more than a few transactions come between two entries.
    #[inline]
    pub fn has_many(&self) -> bool {
        self.last_count > FEW
    }

    /// When the next entry is due if no more requests come; `None`: nothing wants one, or there is no room for it.
    pub fn due(&self, context: &Context, pending: &Pending, stream: &Stream) -> Option<Nanos> {
        let room = stream.undecided() < context.options().pipeline_entries as u64;
        match self.is_empty() {
            _ if !room => None,
            // An entry that stays open waits for requests only as long as they come.
            false => Some(self.due_when_idle(context, stream)),
            true => self.wants_closing(pending).then(|| self.closing_due(context, stream)),
        }
    }

    /// When the open entry is due if no more requests come.
    fn due_when_idle(&self, context: &Context, stream: &Stream) -> Nanos {
        let light = !self.has_many() && stream.undecided() == 0;
        if light { 0 } else { self.spaced(context) }
    }

    /// When an empty entry is due for those who wait for this stream to be closed.
    fn closing_due(&self, context: &Context, stream: &Stream) -> Nanos {
        if stream.undecided() == 0 { 0 } else { self.spaced(context) }
    }

    /// How soon an entry follows the last one, at the soonest, while much comes.
    fn spaced(&self, context: &Context) -> Nanos {
        self.sealed_at + context.options().batch_delay / SPACING_DIVISOR
    }

    /// Whether replies wait only because another stream has been quiet since this one's last claim.
    fn held_back_by_quiet_stream(
        &self,
        ballot: Ballot,
        context: &Context,
        pending: &Pending,
        stream: &Stream,
    ) -> bool {
        let first = pending.first().unwrap_or(self.close_up_to);
        let waiting = pending.first().is_some() || self.close_up_to > Timestamp::ZERO;
        if !waiting || stream.undecided() > 0 {
            return false;
        }
        let watermark = &context.marks.watermark;
        if watermark.mark_in(ballot.epoch).is_none_or(|mark| mark >= first) {
            return false;
        }
        // The last entry closes this stream beyond `first`, and with it what it claims of another one, once that is decided so far.
        let behind = |stream: StreamId| {
            let quiet = watermark.quiet_index(stream).map(|index| Claim { stream, index });
            watermark.closed(stream) < first && quiet.is_some_and(|claim| !self.claimed.contains(&claim))
        };
        context.other_streams().any(behind)
    }

    /// Closes the open entry and proposes it.
    fn seal<F: Feed>(
        &mut self,
        ballot: Ballot,
        context: &Context,
        feed: &F,
        occ: &mut Occ,
        stream: &mut Stream,
    ) {
        let shared = &context.shared;
        if F::SHARED {
            let gathered = feed.take(shared.clock.now(), fresh_entry()).expect("the feed is shared");
            let (first, last) = gathered.span;
            self.open = OpenEntry { count: gathered.count, first, last };
            let entry = Closed { at: gathered.closed, buffer: gathered.bytes, claims: Vec::new() };
            return self.propose(ballot, entry, context, occ, stream);
        }
        let reading = shared.clock.now();
        if reading < self.sealed {
            // It was there already. What is sealed now closes the stream as far as before.
            self.clock_stood(self.sealed);
        }
        let at = reading.max(self.last_executed).max(self.sealed);
        context.marks.watermark.claiming(context.id, at);
        hooks::closing();
        // After the clock was read: see `Watermark::unquiet`.
        let claims = context
            .other_streams()
            .filter_map(|stream| {
                context.marks.watermark.quiet_index(stream).map(|index| Claim { stream, index })
            })
            .collect();
        let buffer = occ.log().take(self.next_entry());
        self.propose(ballot, Closed { at, buffer, claims }, context, occ, stream);
    }

    fn propose(
        &mut self,
        ballot: Ballot,
        entry: Closed,
        context: &Context,
        occ: &mut Occ,
        stream: &mut Stream,
    ) {
        let Closed { at: closed, mut buffer, claims } = entry;
        let open = std::mem::take(&mut self.open);
        let header = EntryHeader {
            kind: EntryKind::Batch,
            level: context.level,
            stream: context.id,
            epoch: ballot.epoch,
            index: stream.next_index(),
            first_ts: if open.count > 0 { open.first } else { closed },
            last_ts: if open.count > 0 { open.last } else { closed },
            closed_ts: closed,
            count: open.count,
            body_len: 0,
            claims: 0,
        };
        header.seal(&mut buffer, &claims);
        self.claimed = claims;
        Counters::add(&context.counters.entries, 1);
        Counters::add(&context.counters.log_bytes, buffer.len() as u64);
        self.unreleased.sealed(closed, buffer.len() as u64);
        self.sealed = closed;
        self.last_len = buffer.len();
        let executed = std::mem::take(&mut self.executed);
        if executed > 0 {
            self.last_count = executed;
        }
        occ.set_floor(closed);
        // Entries are kept for a while: a small one in a large buffer would keep all of it.
        let entry = if buffer.len() < buffer.capacity() / 2 {
            let entry = Bytes::copy_from_slice(&buffer);
            self.spare = buffer;
            entry
        } else {
            Bytes::from(buffer)
        };
        stream.propose(entry);
    }

    /// An empty entry, in the buffer of the last one if that is free.
    fn next_entry(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.spare);
        buffer.clear();
        // Room from the start: what grows by doubling is copied as it grows. But from much more room than that each entry is copied, too.
        let room = (self.last_len + self.last_len / 4).max(FRESH_BYTES);
        if buffer.capacity() > 4 * room {
            buffer = Vec::new();
        }
        buffer.reserve(room);
        buffer.resize(ENTRY_HEADER_BYTES, 0);
        buffer
    }

    /// With nothing open and nothing to close: lets the others claim that this stream is silent.
    pub fn go_quiet(&mut self, context: &Context, pending: &Pending, stream: &Stream, out: &mut Outbox) {
        let idle = self.is_empty() && !self.wants_closing(pending);
        if idle && !self.quiet {
            self.be_quiet(context, stream);
            out.wake_workers |= context.marks.watermark.others_wait(context.id);
        } else if self.quiet {
            // An empty entry was sealed meanwhile: the announcement names the last one.
            self.be_quiet(context, stream);
        }
    }

    /// Lets the others claim that this stream is silent.
    pub fn be_quiet(&mut self, context: &Context, stream: &Stream) {
        self.quiet = true;
        context.marks.watermark.go_quiet(context.id, stream.last());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a request.
    fn run(sealer: &mut Sealer) {
        sealer.request_comes(1);
        sealer.executed(sealer.last_executed.next(), false);
    }

    /// A worker that ran so many requests for its last entry, and so many since.
    fn ran(last_count: u32, requests: u32) -> Sealer {
        let mut sealer = Sealer { last_count, ..Sealer::default() };
        (0..requests).for_each(|_| run(&mut sealer));
        sealer
    }

    #[test]
    fn who_finds_few_requests_keeps_an_entry_open_for_a_short_interval() {
        let delay = 12_000;
        let open: Vec<_> = [1, FEW, FEW + 1, 64].map(|came| open_for(came, delay)).into();
        assert_eq!(open, [delay / SPACING_DIVISOR, delay / SPACING_DIVISOR, delay, delay]);
    }

    #[test]
    fn a_client_is_alone_while_one_request_comes_for_each_entry() {
        let is_lone = |mut sealer: Sealer| {
            let came = std::mem::take(&mut sealer.came);
            sealer.is_lone(came)
        };
        assert!(is_lone(ran(1, 1)));
        assert!(!is_lone(ran(1, 2)), "another one came with it");
        assert!(!is_lone(ran(2, 1)), "there were two of late");
        assert!(!is_lone(ran(0, 1)), "nothing is known yet");
        let mut earlier = ran(1, 1);
        earlier.came = 0;
        run(&mut earlier);
        assert!(!is_lone(earlier), "the open entry holds an earlier one");
    }
}
