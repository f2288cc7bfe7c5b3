//! The surroundings of a worker's parts, and the things that a turn carries through them.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;
use highwater_consensus::Voter;
use highwater_core::sync::Ordering;
use highwater_core::{Level, NodeId, StreamId, Work};
use highwater_seam::options::Options;
use highwater_seam::{Counters, Endpoint, Frame, Nanos, Next, Outbox, Refusal};

use crate::members::health::LONG_EXECUTION;
use crate::messages::Report;
use crate::probes::ProbeMessage;
use crate::pulse::Pulse;
use crate::shared::Shared;
use crate::wire::Head;

/// Which worker of which replica this is, and what it shares with the others.
pub struct Context {
    /// The worker's stream.
    pub id: StreamId,
    /// The node, in this life of its memory.
    pub me: Voter,
    /// With the other workers and the controller.
    pub shared: Arc<Shared>,
    /// At which this worker writes: at or below the one in use, and what all its peers read. The only part that changes.
    pub level: Level,
    /// This worker's counters.
    pub counters: Arc<Counters>,
}

impl Context {
    /// The replica's settings.
    #[inline]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// This worker's signs of life, for its controller.
    #[inline]
    pub fn pulse(&self) -> &Pulse {
        &self.shared.pulses[self.id.0 as usize]
    }

    /// Transactions that count their work here pass as many rows as one may, and show this worker's pulse that they go on.
    #[inline]
    pub fn watch(&self, work: &mut Work) {
        work.set_most(self.options().max_transaction_rows);
        work.show(self.pulse().progress());
    }

    /// Transactions are about to be executed, and one may take long: that is no reason to think that this worker is stuck.
    #[inline]
    pub fn executes(&self, now: Nanos) {
        self.pulse().executes(now, now + LONG_EXECUTION * self.options().election_timeout);
    }

    /// All streams but this one.
    #[inline]
    pub fn other_streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        let me = self.id;
        (0..self.shared.options.workers).map(StreamId).filter(move |stream| *stream != me)
    }

    /// Whether this node, which leads, cannot vouch for itself, or has given the lead up: its workers refuse all requests.
    #[inline]
    pub fn has_no_quorum(&self) -> bool {
        self.shared.no_quorum.load(Ordering::Relaxed)
    }

    /// Whether this node's controller has opened an epoch, and leads.
    #[inline]
    pub fn is_led_here(&self) -> bool {
        self.shared.leader() == Some(self.me.node)
    }

    /// A message about freshness, as it goes to that node's worker of this stream.
    pub fn probe_frame(&self, node: NodeId, message: ProbeMessage) -> (Endpoint, Frame) {
        let head = Head::Probe(message).encode();
        (Endpoint { node, worker: self.id.0 }, Frame { head, body: Bytes::new() })
    }

    /// Refers a client to whoever leads; while the lead is being handed over it waits for that one.
    #[inline]
    pub fn refer(&self) -> Refusal {
        // Acquire; pairs with the Release in the controller's `hold_requests`: requests are held no more, so it is known who leads.
        if self.shared.holds_requests.load(Ordering::Acquire) {
            return Refusal::Busy;
        }
        let leader: Option<NodeId> = self.shared.leader().filter(|leader| *leader != self.me.node);
        Refusal::NotServing { ask: leader }
    }
}

/// The same, and the meaning of positions: the engine's own type of it, so that its workers load what they need without a virtual call.
pub struct With<M> {
    /// As the parts of a worker know it that know no engine.
    pub log: Context,
    /// With the other workers and the controller.
    pub marks: Arc<M>,
}

impl<M> Deref for With<M> {
    type Target = Context;

    #[inline]
    fn deref(&self) -> &Context {
        &self.log
    }
}

impl<M> DerefMut for With<M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Context {
        &mut self.log
    }
}

/// One turn of a worker.
pub struct Turn<'a> {
    /// When it began.
    pub now: Nanos,
    /// The turn's outbox.
    pub out: &'a mut Outbox,
    /// Something was left for another turn that could have been done in this one.
    pub again: bool,
}

impl Turn<'_> {
    /// Tells the controller.
    #[inline]
    pub fn report(&mut self, context: &Context, report: Report) {
        context.shared.reports.put(report);
        self.out.wake_controller = true;
    }
}

/// When to look again for what has been waited for since `since`: after `least` at first, then less and less often.
#[inline]
pub fn recheck(now: Nanos, since: Nanos, least: Nanos) -> Next {
    Next::At(now + (now.saturating_sub(since) / 8).clamp(least, LONGEST_RECHECK))
}

/// How soon to look again at the latest.
const LONGEST_RECHECK: Nanos = 20_000_000;
