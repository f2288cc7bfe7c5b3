//! A worker's part in catching up with what its node may have forgotten.
//!
//! With [`Durability::Async`](highwater_core::Durability::Async) a voter that comes back from a crash may lack what it accepted last, and
//! its promises help nobody ([`Election::set_forgets`](highwater_consensus::Election::set_forgets)). It has caught up with one stream when
//! it knows as much of it to be decided as the log of that stream's leader had at some moment after its start, and that leader had
//! something decided after that moment. The second is what a [probe](crate::probes) asks for.
//!
//! Why the first is enough: what this voter had accepted was in the log of a leader. If that was this leader, or one before it, it is in
//! this leader's log, or was never decided. If it was one after it, a majority had promised a later ballot before this process began,
//! and could have decided nothing for this leader since.

use highwater_consensus::Stream;
use highwater_core::NodeId;
use highwater_core::sync::Ordering;
use highwater_seam::{Nanos, Next};

use crate::context::{Context, Turn};
use crate::messages::Report;
use crate::probes::{ProbeMessage, Probes};

/// How far a worker is with it.
#[derive(Debug, Default)]
pub struct Recall {
    /// When the worker's first turn was: what is heard of a moment after it is heard of after the crash.
    since: Option<Nanos>,
    done: bool,
}

impl Recall {
    /// Asks `leader`, or reports that this stream has caught up. For workers of a node that forgets.
    pub fn turn(
        &mut self,
        context: &Context,
        stream: &Stream,
        (probes, leader): (&mut Probes, Option<NodeId>),
        turn: &mut Turn<'_>,
    ) -> (Option<(NodeId, ProbeMessage)>, Next) {
        let since = *self.since.get_or_insert(turn.now);
        if self.done {
            return (None, Next::Idle);
        }
        if probes.log(since).is_some_and(|log| log <= stream.decided()) {
            self.done = true;
            turn.report(context, Report::Recalled(context.id));
            return (None, Next::Idle);
        }
        let again_after = context.options().election_timeout / 2;
        (probes.ask(turn.now, leader, again_after), Next::At(turn.now + again_after))
    }

    /// Whether the node of this worker forgets.
    #[inline]
    pub fn is_due(context: &Context) -> bool {
        context.shared.forgets.load(Ordering::Relaxed)
    }
}
