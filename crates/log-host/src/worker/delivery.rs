//! Peers' frames, by what they are about, and a stream's words to them.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::{Message, Voter};
use highwater_kit::copy::CopyMessage;
use highwater_seam::{Endpoint, Frame, Nanos, Outbox};

use crate::probes::ProbeMessage;
use crate::progress::Progress;
use crate::wire::{Head, carried_entry};

use super::entries::own_entry;
use super::policy::Policy;
use super::{LogWorker, Mode};

impl<P: Policy> LogWorker<P> {
    pub(super) fn deliver_to_stream(&mut self, now: Nanos, sender: Voter, frame: (Message, Bytes)) {
        let (message, body) = frame;
        if self.context.shared.uncleared.load(Ordering::Relaxed) {
            // As if it were lost: whoever sent it asks again.
            return;
        }
        if let Some(index) = carried_entry(&message)
            && !self.can_take(now, sender, &body, index)
        {
            return;
        }
        let leads = message.of_leader();
        self.watch_disk(now);
        self.stream.deliver(now, sender, message, own_entry(body));
        // Under the ballot that this stream follows: a leader of the past is no leader.
        if let Some(ballot) = leads.filter(|ballot| *ballot == self.stream.promised()) {
            self.context.pulse().hear_leader(ballot.epoch, now);
        }
    }

    /// Has accepted entries wait for the disk if that is too far behind.
    pub(super) fn watch_disk(&mut self, now: Nanos) {
        self.stream.wait_for_disk(self.gate.is_behind(now, self.context.options().disk_window));
    }

    pub(super) fn deliver_to_copy(&mut self, now: Nanos, sender: Voter, message: CopyMessage, body: &Bytes) {
        match message {
            CopyMessage::CopyStart { copy } => {
                let part = (self.context.id.0 as usize, self.context.options().workers as usize);
                let may = self.may_send();
                self.sender.start(sender, copy, may, &self.store, part);
            }
            CopyMessage::CopyChunk { copy, seq, complete_at } => {
                let bytes = self.installer.take(now, sender.node, (copy, seq), complete_at, body);
                self.context.shared.copied_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            CopyMessage::CopyAck { copy, seq } => self.sender.acknowledged(sender, copy, seq),
        }
    }

    pub(super) fn deliver_probe(&mut self, sender: Voter, message: ProbeMessage) {
        match message {
            ProbeMessage::Vouch { asked, upto, log } => {
                self.probes.answered(asked, upto, log);
                self.context.marks.vouched(asked, upto);
            }
            ProbeMessage::Probe { asked } => {
                let Mode::Leading(ballot) = self.mode else { return };
                let Some(mark) = self.context.marks.mark_in(ballot.epoch) else { return };
                if self.policy.prove_lead(&self.context) {
                    self.vouching.take(sender, asked, ballot, mark, &self.stream);
                }
            }
        }
    }

    /// Hands out what the stream has to say; when to do so again with what spares are not sent yet.
    pub(super) fn hand_out_frames(&mut self, now: Nanos, out: &mut Outbox) -> Option<Nanos> {
        let busy = matches!(self.mode, Mode::Leading(_)) && self.policy.has_many();
        let LogWorker { context, gate, spares, stream, unable, .. } = self;
        if stream.has_output() {
            spares.choose(busy, stream);
        }
        let mut send = |(after, to, frame)| gate.send(after, to, frame, out);
        for envelope in stream.drain() {
            if unable.contains(&envelope.to) {
                continue;
            }
            // A spare's word is needed as little as its acknowledgement.
            let may_wait = matches!(envelope.message, Message::Accept { .. } | Message::Confirm { .. });
            let to = Endpoint { node: envelope.to, worker: context.id.0 };
            let head = Head::Stream(envelope.message).encode();
            spares.send(now, may_wait, (envelope.after, to, Frame { head, body: envelope.entry }), &mut send);
        }
        spares.flush(now, busy, send)
    }
}
