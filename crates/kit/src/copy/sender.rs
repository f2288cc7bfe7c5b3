//! The donor's worker: reads its part of the store and sends it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use highwater_core::Voter;
use highwater_core::limits::{CHUNK_BYTES, COPY_WINDOW_BYTES, MAX_CHUNK_BYTES};
use highwater_core::{NodeId, Timestamp, hooks};
use highwater_seam::{Nanos, Next};
use highwater_store::{Export, Store};

use super::hooks::{EXPORT, REFUSE_COPY, SMALL_CHUNK};
use super::message::CopyMessage;
use super::{CRC_BYTES, CopyName};

/// What a donor's engine knows of its store. A *position* is a timestamp: everything in a store is at or below some.
pub trait Source {
    /// Whether everything in the store has happened, or will once the settled position has passed it.
    fn is_sound(&self) -> bool;

    /// At or above everything that stands in the store now, but for what is newer by its own timestamp.
    fn position(&self) -> Timestamp;

    /// Nothing at or below will be taken back.
    fn settled(&self) -> Timestamp;
}

/// The parts of one worker's store that are being sent, one to each receiver.
#[derive(Default)]
pub struct Sender {
    /// Copies of this store that the controller announced and nobody has asked for yet.
    announced: Vec<CopyName>,
    sending: Vec<Sending>,
    refused: Vec<CopyName>,
}

struct Sending {
    receiver: Voter,
    copy: u64,
    export: Export,
    next: u32,
    acked: u32,
    /// Bytes of each chunk that was read and is not acknowledged, oldest first.
    sizes: VecDeque<usize>,
    finished: bool,
    /// Chunks that wait until the position at which they were read is settled; the last one is marked.
    held: VecDeque<(Bytes, Timestamp, bool)>,
    /// Everything is read.
    read: bool,
}

/// How a turn of a [`Sender`] ended.
pub struct Sent {
    /// When it wants another one.
    pub next: Next,
    /// The largest position that a chunk waits for, if one does.
    pub waits_for: Option<Timestamp>,
}

/// How soon to look again at a chunk that waits.
const HELD_RECHECK: Nanos = 500_000;

impl Sender {
    /// The controller is about to grant a copy of the store as it is here.
    pub fn announce(&mut self, name: CopyName) {
        self.announced.retain(|known| known.receiver != name.receiver);
        self.announced.push(name);
    }

    /// Starts to send part `part` of `parts` of the store, if it `may`.
    ///
    /// Only of a store that this very copy was granted from: the question may come late, to a later life of the node that
    /// granted it, or after its store was replaced.
    pub fn start(&mut self, receiver: Voter, copy: u64, may: bool, store: &Arc<Store>, part: (usize, usize)) {
        let name = CopyName { receiver: receiver.node, copy };
        let granted = self.announced.iter().position(|known| *known == name);
        let granted = granted.map(|at| self.announced.swap_remove(at)).is_some();
        if !granted || !may || refuses_all_the_same() {
            return self.refused.push(name);
        }
        self.sending.retain(|sending| sending.receiver.node != receiver.node);
        self.sending.push(Sending {
            receiver,
            copy,
            export: store.export(part.0, part.1),
            next: 0,
            acked: 0,
            sizes: VecDeque::new(),
            finished: false,
            held: VecDeque::new(),
            read: false,
        });
    }

    /// The controller does not give this copy any more, and keeps no tombstones for it once all workers have let go: who asks for it late is
    /// refused.
    pub fn end(&mut self, name: CopyName) {
        self.announced.retain(|known| *known != name);
        self.sending.retain(|sending| sending.name() != name);
    }

    /// The receiver has installed chunks up to `seq`.
    pub fn acknowledged(&mut self, receiver: Voter, copy: u64, seq: u32) {
        let meant = |sending: &&mut Sending| sending.receiver == receiver && sending.copy == copy;
        if let Some(sending) = self.sending.iter_mut().find(meant) {
            while sending.acked <= seq && sending.acked < sending.next {
                sending.acked += 1;
                sending.sizes.pop_front();
            }
        }
        self.sending.retain(|sending| !sending.finished || sending.acked < sending.next);
    }

    /// The connection to `peer` was lost or is new: a copy to it starts anew.
    pub fn peer_changed(&mut self, peer: NodeId) {
        self.sending.retain(|sending| sending.receiver.node != peer);
    }

    /// The store may no longer be sent.
    pub fn refuse_all(&mut self) {
        self.refused.extend(self.sending.drain(..).map(|sending| sending.name()));
    }

    /// Copies that cannot go on: to be told to the controller.
    pub fn take_refused(&mut self) -> Vec<CopyName> {
        std::mem::take(&mut self.refused)
    }

    /// Reads one chunk for each receiver that has room; hands what may leave to `send`.
    pub fn turn(
        &mut self,
        now: Nanos,
        source: &impl Source,
        mut send: impl FnMut(NodeId, CopyMessage, Bytes),
    ) -> Sent {
        let mut sent = Sent { next: Next::Idle, waits_for: None };
        for sending in &mut self.sending {
            // Before anything is read, and after: what is read of a store that is not may be rolled back in between.
            let sound = source.is_sound();
            if sound && sending.read_some(source) {
                sent.next = Next::Now;
            }
            if sending.held.is_empty() && (sound || sending.read) {
                continue;
            }
            if !sound || !source.is_sound() {
                self.refused.push(sending.name());
                continue;
            }
            let settled = source.settled();
            while let Some((chunk, read_at, last)) = sending.held.pop_front_if(|(_, at, _)| *at <= settled) {
                let complete_at = last.then_some(read_at);
                let head = CopyMessage::CopyChunk { copy: sending.copy, seq: sending.next, complete_at };
                send(sending.receiver.node, head, chunk);
                sending.next += 1;
                sending.finished = last;
            }
            if let Some((_, read_at, _)) = sending.held.back() {
                sent.waits_for = sent.waits_for.max(Some(*read_at));
                sent.next = sent.next.sooner(Next::At(now + HELD_RECHECK));
            }
        }
        let refused = &self.refused;
        self.sending.retain(|sending| !refused.contains(&sending.name()));
        sent
    }
}

impl Sending {
    fn name(&self) -> CopyName {
        CopyName { receiver: self.receiver.node, copy: self.copy }
    }

    /// Reads a chunk, unless the receiver has enough to do; whether it did.
    fn read_some(&mut self, source: &impl Source) -> bool {
        if self.read || self.sizes.iter().sum::<usize>() >= COPY_WINDOW_BYTES {
            return false;
        }
        let mut chunk = Vec::with_capacity(CHUNK_BYTES + (CHUNK_BYTES >> 2));
        chunk.extend_from_slice(&[0; CRC_BYTES]);
        self.read = !self.export.next_chunk(chunk_bytes(), &mut chunk);
        hooks::point(EXPORT);
        assert!(chunk.len() <= MAX_CHUNK_BYTES, "a chunk exceeds its budget by one record at most");
        let crc = crc32fast::hash(&chunk[CRC_BYTES..]);
        chunk[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        self.sizes.push_back(chunk.len());
        // The clock may have gone back since another worker committed what was read.
        let read_at = source.position().max(self.export.newest());
        self.held.push_back((chunk.into(), read_at, self.read));
        true
    }
}

fn refuses_all_the_same() -> bool {
    hooks::buggify(REFUSE_COPY)
}

/// Bytes to read for a chunk.
fn chunk_bytes() -> usize {
    if hooks::buggify(SMALL_CHUNK) { 1 } else { CHUNK_BYTES }
}

#[cfg(test)]
mod tests {
    use highwater_core::{Incarnation, Schema};

    use super::super::late::Settled;
    use super::*;

    /// Whoever took it for this copy's would read more than the receiver has room for, and let go of what has not arrived.
    #[test]
    fn a_late_word_of_an_earlier_copy_or_life_acknowledges_nothing() {
        let store = Store::new(Schema::new(Vec::new()));
        let receiver = |life| Voter { node: NodeId(2), incarnation: Incarnation(life) };
        let mut sender = Sender::default();
        sender.announce(CopyName { receiver: NodeId(2), copy: 8 });
        sender.start(receiver(5), 8, true, &store, (0, 1));
        sender.turn(0, &Settled, |_, _, _| ());
        let waits = |sender: &Sender| sender.sending.iter().map(|sending| sending.acked).collect::<Vec<_>>();
        assert_eq!(waits(&sender), [0], "its only chunk is on its way");
        sender.acknowledged(receiver(5), 7, 0);
        assert_eq!(waits(&sender), [0], "of an earlier copy");
        sender.acknowledged(receiver(4), 8, 0);
        assert_eq!(waits(&sender), [0], "of an earlier life");
        sender.acknowledged(receiver(5), 8, 0);
        assert_eq!(waits(&sender), [0; 0], "it has arrived, and that was all");
    }
}
