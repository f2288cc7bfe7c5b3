//! The surroundings of a worker's parts, and the things that a turn carries through them.

use std::sync::Arc;

use highwater_consensus::Voter;
use highwater_core::sync::Ordering;
use highwater_core::{Level, NodeId, StreamId, Work};
use highwater_seam::options::Options;
use highwater_seam::{Counters, Nanos, Next, Outbox, Refusal};

use crate::members::health::LONG_EXECUTION;
use crate::messages::Report;
use crate::pulse::Pulse;
use crate::shared::Shared;

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
