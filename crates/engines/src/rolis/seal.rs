//! Handing entries out: when, and what an entry says about other streams.
//!
//! # When an entry is sealed
//!
//! Batching clocks itself, because each message costs as much as several transactions. Under light load, when few
//! transactions come during a round trip, each entry leaves as soon as nothing else is undecided, and latency is a round
//! trip. When more come, entries leave at short intervals whenever the worker has run out of requests. A worker that is
//! kept busy goes on for longer, or to half an entry's bytes. Undecided entries are limited; while the network is slow the
//! open entry grows, up to its limit in bytes.
//!
//! An *empty* entry is sealed when a reply waits for this stream to be closed beyond the last entry (a read-only
//! transaction's, say), and when replies wait for another stream that went quiet meanwhile: the new entry carries a claim
//! about it.
//!
//! # Quiet
//!
//! A worker with nothing open announces itself quiet. It takes that back before it draws another timestamp, so a claim
//! "stream j is closed up to my timestamp" by a worker that saw it quiet *after* reading that timestamp is true. It executes
//! meanwhile: what it reads and locks has no timestamp yet.

use bytes::Bytes;
use highwater_core::hooks::{self, Point, Site};
use highwater_core::log::{Claim, ENTRY_HEADER_BYTES, EntryHeader, EntryKind};
use highwater_core::{Ballot, StreamId, Timestamp};

use super::lead::Open;
use super::worker::RolisWorker;
use crate::seam::{Counters, Nanos, Outbox};

/// Entries of a worker that is not kept busy follow each other at this fraction of the batch delay, at the soonest,
const SPACING: Nanos = 12;
/// unless the last one had only so many transactions, and is decided.
const FEW: u32 = 4;

impl RolisWorker {
    /// Whether something needs the stream to be closed beyond the last sealed entry.
    fn wants_closing(&self) -> bool {
        self.lead.pending.last().max(Some(self.lead.close_up_to)) > Some(self.lead.sealed)
    }

    pub(super) fn seal_what_is_due(&mut self, now: Nanos, ballot: Ballot) {
        let open_bytes = self.gather();
        let options = &self.shared.options;
        let in_flight = self.stream.undecided();
        let room = in_flight < options.pipeline_entries as u64;
        let busy = std::mem::take(&mut self.lead.busy);
        let due = if open_bytes > 0 {
            let large = open_bytes >= options.max_entry_bytes / 2;
            let idle = !busy && now >= self.due_when_idle();
            let old = now.saturating_sub(self.lead.opened_at) >= options.batch_delay;
            // Legal: when to seal is a matter of speed; while something is open the next turn comes at once.
            let now_or_never = room && (idle || old || large || hooks::buggify(Site::SealEarly));
            now_or_never && !hooks::buggify(Site::SealLate) || open_bytes >= options.max_entry_bytes
        } else {
            room && (self.wants_closing() || self.held_back_by_quiet_stream(ballot))
        };
        if due {
            self.lead.sealed_at = now;
            self.seal(ballot);
        }
    }

    /// When the open entry is due if no more requests come.
    pub(super) fn due_when_idle(&self) -> Nanos {
        let light = self.lead.last_count <= FEW && self.stream.undecided() == 0;
        if light { 0 } else { self.lead.sealed_at + self.shared.options.batch_delay / SPACING }
    }

    /// Bytes in the open entry; with a funnel, in the one that all workers share.
    fn gather(&mut self) -> usize {
        if let Some(funnel) = &self.funnel {
            let mut open = funnel.lock();
            let options = &self.shared.options;
            open.full = self.lead.unreleased.bytes >= options.max_in_flight_bytes as u64
                || open.bytes.len() >= options.max_entry_bytes;
            self.lead.close_up_to = self.lead.close_up_to.max(open.floor);
            return open.bytes.len();
        }
        self.occ.log().len() - ENTRY_HEADER_BYTES
    }

    /// Whether replies wait only because another stream has been quiet since this one's last claim.
    fn held_back_by_quiet_stream(&self, ballot: Ballot) -> bool {
        let first = self.lead.pending.first().unwrap_or(self.lead.close_up_to);
        let waiting = self.lead.pending.first().is_some() || self.lead.close_up_to > Timestamp::ZERO;
        if !waiting || self.stream.undecided() > 0 {
            return false;
        }
        let progress = &self.shared.progress;
        if progress.mark_in(ballot.epoch).is_none_or(|mark| mark >= first) {
            return false;
        }
        let behind =
            |stream: &StreamId| progress.closed(*stream) < first && progress.quiet_index(*stream).is_some();
        self.other_streams().any(|stream| behind(&stream))
    }

    fn other_streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        let me = self.id;
        (0..self.shared.options.workers).map(StreamId).filter(move |stream| *stream != me)
    }

    /// Closes the open entry and proposes it.
    fn seal(&mut self, ballot: Ballot) {
        if let Some(funnel) = self.funnel.clone() {
            let mut shared = funnel.lock();
            let closed = self.shared.clock.now().max(shared.floor);
            shared.floor = closed;
            self.lead.open = Open { count: shared.count, first: shared.first, last: shared.last };
            shared.count = 0;
            let mut buffer = fresh_entry();
            buffer.append(&mut shared.bytes);
            drop(shared);
            return self.propose_batch(ballot, closed, buffer, &[]);
        }
        let reading = self.shared.clock.now();
        if reading < self.lead.sealed {
            // It was there already. What is sealed now closes the stream as far as before.
            self.lead.clock_stands = self.lead.clock_stands.max(Some(self.lead.sealed));
        }
        let closed = reading.max(self.lead.last_executed).max(self.lead.sealed);
        self.shared.progress.claiming(self.id, closed);
        hooks::point(Point::Seal);
        // After the clock was read: see `Progress::unquiet`.
        let progress = &self.shared.progress;
        let claims: Vec<Claim> = self
            .other_streams()
            .filter_map(|stream| progress.quiet_index(stream).map(|index| Claim { stream, index }))
            .collect();
        let next = self.next_entry();
        let buffer = self.occ.log().take(next);
        self.propose_batch(ballot, closed, buffer, &claims);
    }

    fn propose_batch(&mut self, ballot: Ballot, closed: Timestamp, mut buffer: Vec<u8>, claims: &[Claim]) {
        let open = std::mem::take(&mut self.lead.open);
        let header = EntryHeader {
            kind: EntryKind::Batch,
            stream: self.id,
            epoch: ballot.epoch,
            index: self.stream.next_index(),
            first_ts: if open.count > 0 { open.first } else { closed },
            last_ts: if open.count > 0 { open.last } else { closed },
            closed_ts: closed,
            count: open.count,
            body_len: 0,
            claims: 0,
        };
        header.seal(&mut buffer, claims);
        Counters::add(&self.counters.entries, 1);
        Counters::add(&self.counters.log_bytes, buffer.len() as u64);
        self.lead.unreleased.sealed(closed, buffer.len() as u64);
        self.lead.sealed = closed;
        self.lead.last_len = buffer.len();
        if open.count > 0 {
            self.lead.last_count = open.count;
        }
        self.occ.set_floor(closed);
        // Entries are kept for a while: a small one in a large buffer would keep all of it.
        let entry = if buffer.len() < buffer.capacity() / 2 {
            let entry = Bytes::copy_from_slice(&buffer);
            self.lead.spare = buffer;
            entry
        } else {
            Bytes::from(buffer)
        };
        self.stream.propose(entry);
    }

    /// An empty entry, in the buffer of the last one if that is free.
    fn next_entry(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.lead.spare);
        buffer.clear();
        // Room from the start: what grows by doubling is copied as it grows.
        buffer.reserve((self.lead.last_len + self.lead.last_len / 4).max(FRESH_BYTES));
        buffer.resize(ENTRY_HEADER_BYTES, 0);
        buffer
    }

    /// With nothing open and nothing to close: lets the others claim that this stream is silent.
    pub(super) fn go_quiet(&mut self, out: &mut Outbox) {
        let idle = self.lead.open.count == 0 && !self.wants_closing();
        if idle && !self.lead.quiet {
            self.be_quiet();
            out.wake_workers |= self.shared.progress.others_wait(self.id);
        } else if self.lead.quiet {
            // An empty entry was sealed meanwhile: the announcement names the last one.
            self.be_quiet();
        }
    }

    pub(super) fn be_quiet(&mut self) {
        self.lead.quiet = true;
        self.shared.progress.go_quiet(self.id, self.stream.last());
    }
}

/// Least room in a new entry's buffer.
const FRESH_BYTES: usize = 16 << 10;

/// A buffer with room for an entry's header.
pub(super) fn fresh_entry() -> Vec<u8> {
    let mut buffer = Vec::with_capacity(FRESH_BYTES);
    buffer.resize(ENTRY_HEADER_BYTES, 0);
    buffer
}
