//! A worker's part in copies of the state.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::Voter;
use highwater_core::{NodeId, Timestamp};
use highwater_kit::copy::{CopyMessage, CopyName, Installer, Sender, Source};
use highwater_kit::validation::message::TAG;
use highwater_seam::{Endpoint, Frame, Nanos, Next, Outbox};
use highwater_store::Store;

use super::answers::Answers;
use super::context::Context;
use super::peers::Peers;
use crate::shared::Report;

/// A store that holds nothing but what is decided: whatever is read of it may be copied.
struct Settled;

impl Source for Settled {
    fn is_sound(&self) -> bool {
        true
    }

    fn position(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn settled(&self) -> Timestamp {
        Timestamp::MAX
    }
}

#[derive(Default)]
pub(super) struct Copies {
    installer: Installer,
    sender: Sender,
}

impl Copies {
    /// A copy of this store is about to be granted.
    pub fn announce(&mut self, name: CopyName) {
        self.sender.announce(name);
    }

    /// This worker's part of a copy comes from there.
    pub fn expect(&mut self, now: Nanos, donor: NodeId, copy: u64, store: &Arc<Store>) {
        self.installer = Installer::expect(now, donor, copy, store.clone());
    }

    /// The part that came belongs to a store that is gone.
    pub fn expect_nothing(&mut self) {
        self.installer = Installer::default();
    }

    /// The store is no good to anybody.
    pub fn refuse_all(&mut self) {
        self.sender.refuse_all();
    }

    /// A connection is up, or down.
    pub fn peer_changed(&mut self, peer: NodeId) {
        self.installer.peer_changed(peer);
        self.sender.peer_changed(peer);
    }

    /// `sends`: others may have this store.
    pub fn hear(
        &mut self,
        now: Nanos,
        from: Voter,
        (message, body): (CopyMessage, &Bytes),
        (sends, store): (bool, &Arc<Store>),
        context: &Context,
    ) {
        match message {
            CopyMessage::CopyStart { copy } => {
                let part = (context.at as usize, context.options().workers as usize);
                self.sender.start(from, copy, sends, store, part);
            }
            CopyMessage::CopyChunk { copy, seq, complete_at } => {
                let came = self.installer.take(now, from.node, (copy, seq), complete_at, body);
                context.cell().copied.fetch_add(came as u64, Ordering::Relaxed);
            }
            CopyMessage::CopyAck { copy, seq } => self.sender.acknowledged(from, copy, seq),
        }
    }

    /// Sends and installs parts of a state.
    pub fn turn(
        &mut self,
        now: Nanos,
        context: &Context,
        peers: &Peers,
        answers: &mut Answers,
        out: &mut Outbox,
    ) -> Next {
        let worker = context.at;
        let mut post = |node: NodeId, message: CopyMessage, body: Bytes| {
            let mut head = Vec::with_capacity(32);
            message.encode(&mut head);
            debug_assert!(head[0] < TAG, "messages of copies have tags of their own");
            out.frames.push((Endpoint { node, worker }, Frame { head: head.into(), body }));
        };
        let sent = self.sender.turn(now, &Settled, &mut post);
        self.installer.acknowledge(|node, message| post(node, message, Bytes::new()));
        let connected = |node: NodeId| peers.is_connected(node);
        let wanted = self.installer.watch(now, connected, |node, message| post(node, message, Bytes::new()));
        // A receiver notices by itself.
        self.sender.take_refused();
        if let Some((copy, _)) = self.installer.take_completed() {
            answers.report(context, Report::Copied { worker, copy });
        }
        if let Some(copy) = self.installer.take_stalled() {
            answers.report(context, Report::Stalled(copy));
        }
        sent.next.sooner(wanted)
    }
}
