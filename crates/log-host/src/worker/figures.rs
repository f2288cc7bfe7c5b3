//! A worker's figures for `status`: published now and then, for people and reports.

use highwater_consensus::Stream;
use highwater_core::{EntryIndex, Timestamp};
use highwater_seam::{Nanos, Next};

use crate::context::Context;
use crate::hooks;
use crate::shared::StreamStatus;

/// What was published last, and when more may be.
#[derive(Debug, Default)]
pub struct Figures {
    /// Last entry, last decided and last applied one.
    published: Option<(EntryIndex, EntryIndex, EntryIndex)>,
    /// By how many entries all peers lagged then: who is slow says so when all else stands still.
    lag: u64,
    next_at: Nanos,
}

/// How often they are refreshed.
const EVERY: Nanos = 2_000_000;

impl Figures {
    /// Publishes the figures if they changed, now and then; says when it wants to be called again.
    pub fn refresh(
        &mut self,
        now: Nanos,
        context: &Context,
        stream: &Stream,
        applied: EntryIndex,
        closed: impl FnOnce() -> Timestamp,
    ) -> Next {
        let state = Some((stream.last(), stream.decided(), applied));
        if state == self.published && stream.lag() == self.lag {
            return Next::Idle;
        }
        if now < self.next_at || hooks::status_stays_old() {
            return Next::At(self.next_at.max(now + 1));
        }
        (self.published, self.lag) = (state, stream.lag());
        self.next_at = now + EVERY;
        let (shared, at) = (&context.shared, context.id.0 as usize);
        *shared.stream_status[at].lock().expect("nobody panics here") = StreamStatus {
            accepted: stream.last(),
            decided: stream.decided(),
            applied,
            closed: closed(),
            log_bytes: stream.log_bytes(),
        };
        *shared.lags[at].lock().expect("nobody panics here") = stream.lags();
        Next::Idle
    }
}
