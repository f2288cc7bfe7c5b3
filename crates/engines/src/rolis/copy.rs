//! Copying the state: how a replica that lost its memory, or fell behind what is kept of the log, gets a store again
//! while the cluster runs.
//!
//! The receiver's controller asks a donor's for a *floor* R (everything at or below R is installed at the donor) and, per
//! stream, the first entry that may hold more. Then worker i of the receiver gets part i of the store from worker i of
//! the donor, as a fuzzy scan: records are read one by one while the donor goes on. At the same time it follows the log
//! from that first entry on, skipping what is at or below R. Installing is by timestamp, so the two may meet in any
//! order. The scan saw nothing newer than what was released by its end; once the receiver has applied the log that far,
//! its store is a state that existed.
//!
//! Tombstones are copied, too, and neither side unlinks any meanwhile: an older write may still be on its way.
//!
//! A leader can be a donor, but its store is ahead of the watermark: a chunk leaves only when the mark has passed the
//! time at which it was read, and every timestamp in it.
//!
//! # Donor and receiver, side by side
//!
//! One worker, one stream; the donor is a follower. `a = 1 @20` is the value 1 with timestamp 20.
//!
//! | | donor | receiver | receiver's store |
//! |---|---|---|---|
//! | 1 | grants: R = 50, and entry 8 is the first that may hold more | follows the stream from entry 8 on | empty |
//! | 2 | the scan reads a = 1 @20: chunk 0 | | empty |
//! | 3 | installs entry 8, a = 3 @58: the scan is past a | installs chunk 0 | a = 1 @20 |
//! | 4 | installs entry 9: b deleted @64, c = 7 @66 | | a = 1 @20 |
//! | 5 | the scan reads b deleted @64, c = 7 @66: chunk 1, the last; the mark is 66 | installs chunk 1 | a = 1 @20, b deleted @64, c = 7 @66 |
//! | 6 | | installs entry 8: 58 is newer than 20 | a = 3 @58, b deleted @64, c = 7 @66 |
//! | 7 | | looks at entry 9: nothing in it is newer | as at the donor at 66 |
//!
//! The store of row 5 never was a state: it has c, and not the a that came before. So it is complete only when the log is applied up
//! to 66, in row 7. The tombstone travels because an older put of b, of another stream, may come to the receiver later, and must
//! find that b is gone. Entries 8 and 9 may come before the chunks as well: the result is the same.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::Voter;
use highwater_core::hooks::{self, Point, Site};
use highwater_core::limits::{CHUNK_BYTES, COPY_WINDOW_BYTES, MAX_CHUNK_BYTES};
use highwater_core::{EntryIndex, NodeId, Timestamp, planted};
use highwater_store::{Applier, Export, Importer, Occ};

use super::apply::Replay;
use super::checked::CheckedEntry;
use super::shared::{Report, Restart};
use super::wire::Head;
use super::worker::{Mode, RolisWorker};
use crate::seam::{Endpoint, Frame, Nanos, Next, Outbox};

/// Copies that this worker sends, and the one that it receives.
#[derive(Default)]
pub struct Copies {
    /// Copies of this store that the controller announced and nobody has asked for yet: receiver and name.
    announced: Vec<(NodeId, u64)>,
    serving: Vec<Serving>,
    receiving: Option<Receiving>,
    /// A copy failed; tell the controller.
    stalled: Option<u64>,
    /// The last chunk is installed; tell the controller.
    completed: Option<(u64, Timestamp)>,
    /// Copies that cannot go on; tell the controller.
    refused: Vec<(NodeId, u64)>,
    /// Chunks to acknowledge.
    acks: Vec<(NodeId, u64, u32)>,
    /// The controller knows that the leader no longer keeps what this stream lacks.
    pub told_too_far: bool,
}

struct Serving {
    receiver: Voter,
    copy: u64,
    export: Export,
    next: u32,
    acked: u32,
    /// Bytes of each chunk that was read and is not acknowledged, oldest first.
    sizes: VecDeque<usize>,
    finished: bool,
    /// Chunks that wait for the mark to pass the time at which they were read; the last one is marked.
    held: VecDeque<(Bytes, Timestamp, bool)>,
    /// Everything is read.
    read: bool,
}

struct Receiving {
    donor: NodeId,
    copy: u64,
    next: u32,
    started: bool,
    last_at: Nanos,
    importer: Importer,
}

/// The checksum in front of a chunk's records.
const CRC_BYTES: usize = 4;
/// Silence after which a receiver gives its donor up.
const STALL: Nanos = 2_000_000_000;
/// How soon to look again at a chunk that waits for the mark.
const HELD_RECHECK: Nanos = 500_000;

impl Copies {
    /// Whether a copy is arriving.
    pub fn receiving(&self) -> bool {
        self.receiving.is_some()
    }

    /// The connection to `peer` was lost or is new: copies with it start anew.
    pub fn peer_changed(&mut self, peer: NodeId) {
        self.serving.retain(|serving| serving.receiver.node != peer);
        if let Some(receiving) = &self.receiving
            && receiving.donor == peer
            && receiving.started
        {
            self.stalled = Some(receiving.copy);
            self.receiving = None;
        }
    }

    /// The store may no longer be sent.
    pub fn refuse_all(&mut self) {
        self.refused.extend(self.serving.drain(..).map(|serving| (serving.receiver.node, serving.copy)));
    }

    /// The store is about to be replaced.
    pub fn drop_all(&mut self) {
        *self = Copies { told_too_far: self.told_too_far, ..Copies::default() };
    }

    /// The receiver has installed chunks up to `seq`.
    pub fn acknowledged(&mut self, receiver: Voter, copy: u64, seq: u32) {
        let served = |serving: &&mut Serving| serving.receiver == receiver && serving.copy == copy;
        if let Some(serving) = self.serving.iter_mut().find(served) {
            while serving.acked <= seq && serving.acked < serving.next {
                serving.acked += 1;
                serving.sizes.pop_front();
            }
        }
        self.serving.retain(|serving| !serving.finished || serving.acked < serving.next);
    }
}

impl RolisWorker {
    /// The first entry that may hold a transaction above `floor`, if it is still kept.
    pub(super) fn locate(&self, floor: Timestamp) -> Option<EntryIndex> {
        let tail = self.stream.tail();
        let (mut low, mut high) = (tail.first.0, tail.decided.0 + 1);
        if planted!(CopyStartsLate) {
            return Some(EntryIndex(high));
        }
        // Closing timestamps grow along a log.
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = CheckedEntry::held(&self.stream, EntryIndex(middle))
                .expect("entries between first and last are held");
            if entry.header().closed_ts > floor {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        // If even the first entry held is above the floor, so may be what was trimmed before it.
        let reaches_back = low > tail.first.0 || tail.first == EntryIndex(1);
        reaches_back.then_some(EntryIndex(low))
    }

    /// Whether this worker may send its part of the store: a leader may (see [`serve`](Self::serve)); anybody else only if
    /// no worker of this replica has executed anything whose fate is open.
    pub(super) fn may_serve(&self) -> bool {
        match self.mode {
            Mode::Parked => false,
            Mode::Leading { .. } => true,
            Mode::Following | Mode::TakingOver { .. } => {
                !self.copies.receiving() && self.shared.speculating.load(Ordering::SeqCst) == 0
            }
        }
    }

    /// The controller is about to grant a copy of the store as it is here.
    pub(super) fn announce_copy(&mut self, receiver: NodeId, copy: u64) {
        self.copies.announced.retain(|(node, _)| *node != receiver);
        self.copies.announced.push((receiver, copy));
    }

    /// Starts to send this worker's part.
    ///
    /// Only of a store that this very copy was granted from: the question may come late, to a later life of the node
    /// that granted it, or after its store was replaced.
    pub(super) fn serve_copy(&mut self, receiver: Voter, copy: u64) {
        let announced = &mut self.copies.announced;
        let granted = announced.iter().position(|at| *at == (receiver.node, copy));
        let granted = granted.map(|at| announced.swap_remove(at)).is_some();
        // Legal: a receiver asks again, or somebody else.
        if !granted || !self.may_serve() || hooks::buggify(Site::RefuseCopy) {
            return self.copies.refused.push((receiver.node, copy));
        }
        self.copies.serving.retain(|serving| serving.receiver.node != receiver.node);
        let export = self.store.export(self.id.0 as usize, self.shared.options.workers as usize);
        let serving = Serving {
            receiver,
            copy,
            export,
            next: 0,
            acked: 0,
            sizes: VecDeque::new(),
            finished: false,
            held: VecDeque::new(),
            read: false,
        };
        self.copies.serving.push(serving);
    }

    /// Goes on from a copied state that is about to arrive.
    pub(super) fn restart(&mut self, now: Nanos, restart: Restart, out: &mut Outbox) {
        let Restart { store, start, floor, donor, copy, leader } = restart;
        let tail = self.stream.tail();
        if start < tail.first {
            // The donor's log reaches further back than ours: its floor is too old for what we kept.
            return self.report(Report::CopyStalled { copy }, out);
        }
        self.occ = Occ::new(store.clone(), self.shared.clock.clone());
        self.occ.log().take(super::seal::fresh_entry());
        self.applier = Applier::new(store.clone());
        self.reads.leave_store();
        self.store = store;
        self.lead.led = None;
        if std::mem::take(&mut self.lead.speculated) {
            // The store that held it is gone.
            self.shared.speculating.fetch_sub(1, Ordering::AcqRel);
        }
        if start > tail.last.next() || self.stream.too_far().is_some() {
            let base = EntryIndex(start.0 - 1).max(tail.decided);
            self.stream.restart_after(base);
        }
        self.shared.progress.members().into_iter().for_each(|members| self.stream.know_members(members));
        self.replay = Replay::starting_at(start, floor);
        if self.stream.tail().first > start {
            return self.report(Report::CopyStalled { copy }, out);
        }
        self.mode = Mode::Following;
        self.copies = Copies::default();
        let importer = Importer::new(self.store.clone());
        self.copies.receiving =
            Some(Receiving { donor, copy, next: 0, started: false, last_at: now, importer });
        self.stream.follow(now, leader);
    }

    /// Installs a chunk.
    pub(super) fn take_chunk(
        &mut self,
        now: Nanos,
        from: NodeId,
        copy: u64,
        seq: u32,
        complete_at: Option<Timestamp>,
        body: Bytes,
    ) {
        let Some(receiving) = &mut self.copies.receiving else { return };
        if receiving.copy != copy || receiving.donor != from || seq < receiving.next {
            return;
        }
        let sound = body
            .split_at_checked(CRC_BYTES)
            .is_some_and(|(crc, records)| crc32fast::hash(records).to_le_bytes() == *crc);
        if seq > receiving.next || !sound || receiving.importer.import(&body[CRC_BYTES..]).is_err() {
            self.copies.stalled = Some(copy);
            self.copies.receiving = None;
            return;
        }
        self.shared.copied_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        receiving.next = seq + 1;
        receiving.last_at = now;
        self.copies.acks.push((from, copy, seq));
        if let Some(complete_at) = complete_at {
            self.copies.receiving = None;
            self.copies.completed = Some((copy, complete_at));
        }
    }

    /// Sends chunks as far as the windows allow; asks for and watches over the copy that is arriving.
    pub(super) fn turn_copying(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        for (to, copy, seq) in self.copies.acks.drain(..) {
            let to = Endpoint { node: to, worker: self.id.0 };
            out.frames.push((to, Frame { head: Head::CopyAck { copy, seq }.encode(), body: Bytes::new() }));
        }
        if let Some((copy, complete_at)) = self.copies.completed.take() {
            self.report(Report::Copied { copy, stream: self.id, complete_at }, out);
        }
        for (receiver, copy) in std::mem::take(&mut self.copies.refused) {
            self.report(Report::CopyRefused { receiver, copy }, out);
        }
        let mut next = Next::Idle;
        if let Some(receiving) = &mut self.copies.receiving {
            let (donor, copy) = (receiving.donor, receiving.copy);
            if !receiving.started && self.peers.contains_key(&donor) {
                receiving.started = true;
                let to = Endpoint { node: donor, worker: self.id.0 };
                out.frames.push((to, Frame { head: Head::CopyStart { copy }.encode(), body: Bytes::new() }));
            }
            if now.saturating_sub(receiving.last_at) > STALL {
                self.copies.stalled = Some(copy);
                self.copies.receiving = None;
            } else {
                next = Next::At(receiving.last_at + STALL + 1);
            }
        }
        if let Some(copy) = self.copies.stalled.take() {
            self.report(Report::CopyStalled { copy }, out);
        }
        super::worker::sooner(next, self.serve(now, out))
    }

    /// Reads one chunk for each receiver that has room; sends what may leave.
    fn serve(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        let mut next = Next::Idle;
        let leading = matches!(self.mode, Mode::Leading { .. });
        let mut serving = std::mem::take(&mut self.copies.serving);
        let mut refused = Vec::new();
        for copy in &mut serving {
            if !copy.read && copy.sizes.iter().sum::<usize>() < COPY_WINDOW_BYTES {
                let mut chunk = Vec::with_capacity(CHUNK_BYTES + (CHUNK_BYTES >> 2));
                chunk.extend_from_slice(&[0; CRC_BYTES]);
                // Legal: the size of a chunk says nothing.
                let bytes = if hooks::buggify(Site::SmallChunk) { 1 } else { CHUNK_BYTES };
                copy.read = !copy.export.next_chunk(bytes, &mut chunk);
                hooks::point(Point::Export);
                assert!(chunk.len() <= MAX_CHUNK_BYTES, "a chunk exceeds its budget by one record at most");
                let crc = crc32fast::hash(&chunk[CRC_BYTES..]);
                chunk[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
                copy.sizes.push_back(chunk.len());
                let time = if leading { self.shared.clock.now() } else { self.shared.progress.mark() };
                // The clock may have gone back since another worker committed what was read.
                let read_at = time.max(copy.export.newest());
                copy.held.push_back((chunk.into(), read_at, copy.read));
                next = Next::Now;
            }
            if copy.held.is_empty() {
                continue;
            }
            // Another worker may have begun to lead, or may have led and not know yet what became of its transactions.
            if !leading && self.shared.speculating.load(Ordering::SeqCst) > 0 {
                refused.push((copy.receiver.node, copy.copy));
                copy.finished = true;
                continue;
            }
            let mark = self.shared.progress.mark();
            while let Some((chunk, read_at, last)) =
                copy.held.pop_front_if(|(_, at, _)| !leading || *at <= mark || planted!(CopyUnheld))
            {
                let head =
                    Head::CopyChunk { copy: copy.copy, seq: copy.next, complete_at: last.then_some(read_at) };
                let to = Endpoint { node: copy.receiver.node, worker: self.id.0 };
                out.frames.push((to, Frame { head: head.encode(), body: chunk }));
                copy.next += 1;
                copy.finished = last;
            }
            if let Some((_, read_at, _)) = copy.held.back() {
                self.lead.close_up_to = self.lead.close_up_to.max(*read_at);
                next = super::worker::sooner(next, Next::At(now + HELD_RECHECK));
            }
        }
        serving.retain(|copy| !refused.contains(&(copy.receiver.node, copy.copy)));
        self.copies.serving = serving;
        for (receiver, copy) in refused {
            self.report(Report::CopyRefused { receiver, copy }, out);
        }
        next
    }
}
