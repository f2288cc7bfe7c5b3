//! A node's way to an open epoch: promises of all its streams at once, then every worker takes its stream over, then requests.

use std::collections::{BTreeMap, BTreeSet};

use highwater_consensus::{Members, PendingChange, Plan, Promise, Quorums, Tail, Voter};
use highwater_core::{Ballot, StreamId, Timestamp};
use highwater_seam::Nanos;

use crate::messages::{Command, EpochStart};

/// Where this node stands between a ballot and an open epoch.
#[derive(Default)]
pub struct Leadership {
    fence: Option<Fence>,
    takeover: Option<TakeOver>,
    /// The ballot under which this node leads, once the epoch is open.
    leading: Option<Ballot>,
    /// Takeovers in a row that took too long.
    given_up: u32,
    /// When the streams were last asked to promise.
    asked_at: Nanos,
    /// How long it took until this node was elected with the promises that it asked for then.
    promises_took: Nanos,
}

/// Collects what the streams answer to a promise.
struct Fence {
    ballot: Ballot,
    answers: BTreeMap<StreamId, Fenced>,
}

/// What a stream answers to a promise.
pub struct Fenced {
    /// Where its log stands.
    pub tail: Tail,
    /// Changes of epoch in its log that are not known to be decided in all streams, and whether each is decided in this one.
    pub pending: Vec<(Members, bool)>,
    /// Above every timestamp in it.
    pub high: Timestamp,
}

/// A takeover under way.
struct TakeOver {
    ballot: Ballot,
    members: Members,
    ready: BTreeSet<StreamId>,
    deadline: Nanos,
}

/// A takeover or a change that takes longer than this many election timeouts is given up.
pub const PATIENCE: u64 = 10;
/// The time that a takeover gets is doubled so many times at most.
const MOST_DOUBLINGS: u32 = 2;

impl Leadership {
    /// The ballot under which this node leads.
    pub fn leading(&self) -> Option<Ballot> {
        self.leading
    }

    /// Whether a takeover is under way.
    pub fn takes_over(&self) -> bool {
        self.takeover.is_some()
    }

    /// Whether this very takeover is under way.
    pub fn takes_over_under(&self, ballot: Ballot) -> bool {
        self.takeover.as_ref().is_some_and(|takeover| takeover.ballot == ballot)
    }

    /// The ballot of the takeover, and how many streams are ready.
    pub fn progress(&self) -> Option<(Ballot, usize)> {
        self.takeover.as_ref().map(|takeover| (takeover.ballot, takeover.ready.len()))
    }

    /// The streams are asked to promise `ballot`.
    pub fn fence(&mut self, now: Nanos, ballot: Ballot) {
        let again = self.fence.as_ref().is_some_and(|fence| fence.ballot == ballot);
        if !again {
            self.asked_at = now;
        }
        self.takeover = None;
        self.fence = Some(Fence { ballot, answers: BTreeMap::new() });
    }

    /// A stream has promised. All answers, once all `streams` have.
    pub fn fenced(
        &mut self,
        ballot: Ballot,
        stream: StreamId,
        answer: Fenced,
        streams: usize,
    ) -> Option<BTreeMap<StreamId, Fenced>> {
        let fence = self.fence.as_mut().filter(|fence| fence.ballot == ballot)?;
        fence.answers.insert(stream, answer);
        if fence.answers.len() < streams {
            return None;
        }
        self.fence.take().map(|fence| fence.answers)
    }

    /// How many timeouts the next takeover gets. Where they fail, more of them help nobody, and each leaves an epoch behind.
    pub fn patience(&self) -> u64 {
        PATIENCE << self.given_up.min(MOST_DOUBLINGS)
    }

    /// What this leader has to grant to disks: a promise is one sync, or two if the disk was at one, and so is everything else that waits
    /// for one. 0 as long as promises come at once. If they took very long, that was no disk: this machine slept, say.
    pub fn disk_patience(&self, timeout: Nanos) -> Nanos {
        self.promises_took.saturating_sub(timeout).min(PATIENCE * timeout)
    }

    /// The promises that a ballot needs are there.
    pub fn won(&mut self, now: Nanos) {
        self.promises_took = now.saturating_sub(self.asked_at);
    }

    /// The workers take their streams over.
    pub fn take_over(&mut self, ballot: Ballot, members: Members, deadline: Nanos) {
        self.takeover = Some(TakeOver { ballot, members, ready: BTreeSet::new(), deadline });
    }

    /// A stream is ready. Whether all `streams` are.
    pub fn ready(&mut self, ballot: Ballot, stream: StreamId, streams: usize) -> bool {
        let Some(takeover) = self.takeover.as_mut().filter(|takeover| takeover.ballot == ballot) else {
            return false;
        };
        takeover.ready.insert(stream);
        takeover.ready.len() >= streams
    }

    /// The epoch opens: its members.
    pub fn open(&mut self, ballot: Ballot) -> Members {
        let members = self.takeover.take().expect("what is ready is under way").members;
        self.leading = Some(ballot);
        self.given_up = 0;
        members
    }

    /// The takeover takes too long.
    pub fn is_late(&mut self, now: Nanos) -> bool {
        let late = self.takeover.as_ref().is_some_and(|takeover| now >= takeover.deadline);
        self.given_up += u32::from(late);
        late
    }

    /// The takeover is given up.
    pub fn stop_taking_over(&mut self) {
        self.takeover = None;
    }

    /// Leads no more; whether it did.
    pub fn end(&mut self) -> bool {
        self.leading.take().is_some()
    }
}

/// What this node promises a candidate, for all its streams. `members`: the newest membership that it knows to be decided; `forgets`: as
/// the election says.
pub fn promise(
    ballot: Ballot,
    members: Members,
    answers: BTreeMap<StreamId, Fenced>,
    forgets: bool,
) -> Promise {
    let streams = answers.len();
    let mut pending: Vec<PendingChange> = Vec::new();
    for (stream, answer) in &answers {
        for (change, decided) in answer.pending.iter().filter(|(change, _)| change.epoch > members.epoch) {
            PendingChange::note(&mut pending, streams, stream.0 as usize, change, *decided);
        }
    }
    let above_all = answers.values().map(|answer| answer.high).max().unwrap_or_default();
    let tails = answers.into_values().map(|answer| answer.tail).collect();
    Promise { ballot, members, pending, tails, above_all, forgets }
}

/// What a worker needs to take its stream over.
pub fn plan(
    ballot: Ballot,
    stream: StreamId,
    promises: &BTreeMap<Voter, Promise>,
    quorums: &Quorums,
    start: &EpochStart,
) -> Command {
    let of_stream = |(voter, promise): (&Voter, &Promise)| {
        promise.tails.get(stream.0 as usize).map(|tail| (*voter, *tail))
    };
    let tails = promises.iter().filter_map(of_stream).collect();
    Command::TakeOver { plan: Plan { ballot, tails, quorums: quorums.clone() }, start: start.clone() }
}

#[cfg(test)]
mod tests {
    use highwater_core::{Epoch, Incarnation, NodeId};

    use super::*;

    /// Promises of two ballots would make a quorum of neither, and a stream that is ready for one is not for the other.
    #[test]
    fn answers_to_an_earlier_ballot_are_none_to_this_one() {
        let [before, ballot] = [1, 2].map(|epoch| Ballot { epoch: Epoch(epoch), node: NodeId(0) });
        let answer = || Fenced { tail: Tail::default(), pending: Vec::new(), high: Timestamp(3) };
        let mut leadership = Leadership::default();
        leadership.fence(0, before);
        leadership.fence(1, ballot);
        assert!(leadership.fenced(before, StreamId(0), answer(), 1).is_none());
        assert!(leadership.fenced(ballot, StreamId(0), answer(), 1).is_some());
        let voter = Voter { node: NodeId(0), incarnation: Incarnation(1) };
        leadership.take_over(ballot, Members::new(Epoch(0), vec![voter]), 9);
        assert!(!leadership.takes_over_under(before) && leadership.takes_over_under(ballot));
        assert!(!leadership.ready(before, StreamId(0), 1) && leadership.ready(ballot, StreamId(0), 1));
    }

    /// Once: a candidate whose machine slept while it collected promises took that for a slow disk, and gave its takeover
    /// six times as long: ten timeouts became a thousand. Disks are granted ten timeouts each at most.
    #[test]
    fn a_leader_whose_machine_slept_does_not_take_its_disk_to_be_as_slow() {
        let (timeout, ballot) = (500, Ballot { epoch: Epoch(2), node: NodeId(0) });
        let patience_after = |took: Nanos| {
            let mut leadership = Leadership::default();
            leadership.fence(1000, ballot);
            leadership.won(1000 + took);
            leadership.disk_patience(timeout)
        };
        assert_eq!(patience_after(500), 0);
        assert_eq!(patience_after(2500), 2000, "four timeouts for two syncs");
        assert_eq!(patience_after(1_000_000), PATIENCE * timeout);
    }
}
