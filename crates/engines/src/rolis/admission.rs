//! A change of membership under way: the leader lets everything it executed be released, then wins a new epoch that names the new
//! members.

use std::collections::BTreeSet;

use highwater_consensus::Voter;
use highwater_core::StreamId;

use crate::seam::Nanos;

/// Who is being admitted, if anybody is.
#[derive(Default)]
pub struct Admission(Option<Change>);

struct Change {
    voter: Voter,
    quiesced: BTreeSet<StreamId>,
    campaigning: bool,
    deadline: Nanos,
}

impl Admission {
    /// Admits `voter`, once the workers are quiet.
    pub fn begin(&mut self, voter: Voter, deadline: Nanos) {
        self.0 = Some(Change { voter, quiesced: BTreeSet::new(), campaigning: false, deadline });
    }

    /// Whether a change is under way.
    pub fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// A stream is quiet; whether all are now, for the first time: the epoch may change.
    pub fn quiesced(&mut self, stream: StreamId, streams: usize) -> bool {
        let Some(change) = &mut self.0 else { return false };
        change.quiesced.insert(stream);
        let now = change.quiesced.len() == streams && !change.campaigning;
        change.campaigning |= now;
        now
    }

    /// Whom the epoch that is being won is for.
    pub fn admitted(&self) -> Option<Voter> {
        self.0.as_ref().filter(|change| change.campaigning).map(|change| change.voter)
    }

    /// The streams do not get quiet in time.
    pub fn is_late(&self, now: Nanos) -> bool {
        self.0.as_ref().is_some_and(|change| !change.campaigning && now >= change.deadline)
    }

    /// It is over, or given up.
    pub fn end(&mut self) {
        self.0 = None;
    }
}
