//! A new leader's worker until its epoch opens: starts the epoch in its stream, and has everything older applied.

use bytes::Bytes;
use highwater_consensus::Stream;
use highwater_core::Ballot;
use highwater_core::log::{EntryHeader, EntryKind};

use crate::context::{Context, Turn};
use crate::hooks;
use crate::messages::{EpochStart, Report};

use super::entries::fresh_entry;

/// A takeover of one stream.
#[derive(Debug)]
pub struct Opening {
    ballot: Ballot,
    start: EpochStart,
    /// The entry that starts the epoch is proposed.
    proposed: bool,
    /// The controller knows that everything older is applied.
    reported: bool,
}

impl Opening {
    /// Leads the stream under `ballot` from now on.
    pub fn new(ballot: Ballot, start: EpochStart) -> Opening {
        Opening { ballot, start, proposed: false, reported: false }
    }

    /// Under which ballot.
    pub fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// Starts the epoch, once the stream is led; whether it did now.
    pub fn start(&mut self, context: &Context, stream: &mut Stream) -> bool {
        if std::mem::replace(&mut self.proposed, true) {
            return false;
        }
        if hooks::starts_epoch_in(context.id, context.options().workers) {
            self.propose(context, stream);
        }
        true
    }

    /// The entry that ends every older epoch in this stream.
    fn propose(&self, context: &Context, stream: &mut Stream) {
        let mut buffer = fresh_entry();
        self.start.members.encode(&mut buffer);
        let header = EntryHeader::without_transactions(
            EntryKind::EpochChange,
            context.level,
            context.id,
            self.ballot.epoch,
            stream.next_index(),
            self.start.base,
        );
        header.seal(&mut buffer, &[]);
        stream.propose(Bytes::from(buffer));
    }

    /// Reports, once, that the epoch may open as far as this stream is concerned. `entered`: every stream has entered it; `caught_up`: everything
    /// decided is looked at and installed.
    pub fn report_ready(
        &mut self,
        (entered, caught_up): (bool, bool),
        context: &Context,
        stream: &mut Stream,
        turn: &mut Turn<'_>,
    ) {
        // A later candidate must find out that this epoch opened, from any majority of its members.
        let known = stream.all_is_known_to_a_quorum() || hooks::opens_early();
        if entered && known && caught_up && !self.reported {
            self.reported = true;
            turn.report(context, Report::Ready { ballot: self.ballot, stream: context.id });
        }
    }
}
