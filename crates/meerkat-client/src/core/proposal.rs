//! Votes, the decision, and who is told of it: sections 5.2.2 and 5.2.3 of the paper, on the client's machine.

use highwater_core::{Epoch, Nanos, NodeId, Timestamp, planted};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::own::{Decision, Phase, Tally};
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::quorum::Quorums;
use highwater_meerkat_wire::{Ahead, Ask, Late};

use super::replica::bit;
use super::{Core, Stamp};

/// The shortest time in which a reply may be expected.
const LEAST_PATIENCE: Nanos = 1_000_000;
/// No answer is waited for longer than so many timeouts before it is asked for again.
const MOST_TIMEOUTS: u64 = 4;
/// Nobody of whom more could be learnt is left: for so many timeouts it is waited for all the same.
const DOUBTS_FOR: u64 = 4;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is committed.
    Committed {
        /// By one round trip.
        fast: bool,
    },
    /// It is not, and never will be.
    Aborted {
        /// What was in the way: the next attempt has to be above.
        hint: Timestamp,
        /// It came too late.
        late: Option<Late>,
    },
    /// Nobody who could be asked says which.
    Unknown,
}

/// A transaction that replicas validate.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    epoch: Epoch,
    ts: Timestamp,
    home: NodeId,
    lead: Ahead,
    /// It came too late to a replica whose clock showed this.
    late: Option<Timestamp>,
    hint: Timestamp,
    payload: Payload,
    quorums: Quorums,
    tally: Tally,
    /// Who says that it is over everywhere, and not what became of it: a bit each.
    gone: u32,
    since: Nanos,
    /// When this round began, and whether its time is over.
    round: Nanos,
    is_late: bool,
    /// When those are asked again who have not answered, and how often they were.
    again: (Nanos, u32),
    /// Since when nothing more can be expected of anybody.
    doubtful: Option<Nanos>,
}

/// A decision that the home has not heard.
#[derive(Clone, Debug)]
pub(super) struct Telling {
    pub home: NodeId,
    commit: bool,
    payload: Payload,
    pub again: Nanos,
    times: u32,
}

/// A home that has not heard after so many tellings has ended it by itself, or does not live.
const MOST_TELLINGS: u32 = 10;

impl Core {
    /// Proposes what was executed, at the [stamp](Core::stamp) that is held.
    ///
    /// # Panics
    /// If none is.
    pub fn propose(&mut self, now: Nanos, payload: Payload) {
        let stamp = self.stamp.expect("there is a stamp");
        if !self.has_read_in(stamp.epoch) {
            self.drop_stamp();
            self.ended = Some(Ended::Aborted { hint: Timestamp::ZERO, late: None });
            return;
        }
        self.stamp = None;
        let Stamp { epoch, ts, home, lead, .. } = stamp;
        let again = (now + self.ask_after(0), 0);
        self.ended = None;
        self.proposal = Some(Proposal {
            epoch,
            ts,
            home,
            lead,
            late: None,
            hint: Timestamp::ZERO,
            payload: payload.clone(),
            quorums: self.quorums(),
            tally: Tally::NONE,
            gone: 0,
            since: now,
            round: now,
            is_late: false,
            again,
            doubtful: None,
        });
        self.send_all(&Ask::Validate { epoch, ts, payload }, !0);
    }

    /// How the attempt ended, once that is known.
    pub fn ended(&mut self) -> Option<Ended> {
        self.ended.take()
    }

    fn send_all(&mut self, ask: &Ask, whom: u32) {
        let nodes: Vec<NodeId> =
            self.nodes().filter(|node| whom & bit(*node) != 0 && self.replica(*node).up).collect();
        let bytes = ask.encode();
        self.out.extend(nodes.into_iter().map(|node| (node, bytes.clone())));
    }

    fn patience(&self) -> Nanos {
        (4 * self.round_trip).clamp(LEAST_PATIENCE, self.beat().max(LEAST_PATIENCE))
    }

    fn ask_after(&self, times: u32) -> Nanos {
        (self.beat().max(8 * self.round_trip) << times.min(6)).min(MOST_TIMEOUTS * self.timeout())
    }

    /// When something is due.
    pub(super) fn due(&self, proposal: &Proposal) -> Nanos {
        let late = proposal.round + self.patience();
        let waits = proposal.tally.phase == Phase::Validating && !proposal.is_late;
        let end = proposal.since + self.settings.patience;
        let doubt = proposal.doubtful.map_or(end, |since| since + DOUBTS_FOR * self.timeout());
        let next = proposal.again.0.min(end).min(doubt);
        if waits { next.min(late) } else { next }
    }

    /// A replica says something to a transaction.
    pub(super) fn heard_about(&mut self, now: Nanos, from: NodeId, epoch: Epoch, message: Message) {
        let Message { ts, about } = message;
        if let About::Over { .. } = about {
            self.home_knows(from, epoch, ts);
            self.over_before_proposed(from, epoch, ts);
        }
        let same = |proposal: &&mut Proposal| {
            // Invariant: what voters of another epoch say counts for nothing in this one.
            proposal.ts == ts && (proposal.epoch == epoch || planted!(VotesOfAnyEpoch))
        };
        let strict = self.strict();
        let Some(proposal) = self.proposal.as_mut().filter(same) else { return };
        match about {
            About::Vote { valid, late, hint } => {
                if proposal.tally.voted() & bit(from) != 0 {
                    return;
                }
                if strict && proposal.tally.voted() == 0 && proposal.tally.phase == Phase::Validating {
                    // Votes wait for their time, all for the same.
                    (proposal.round, proposal.is_late) = (now, false);
                }
                if valid {
                    proposal.tally.valid |= bit(from);
                } else {
                    proposal.tally.invalid |= bit(from);
                    proposal.hint = proposal.hint.max(hint);
                }
                if late {
                    proposal.late = proposal.late.max(Some(hint));
                }
                self.decide(now);
            }
            About::Accepted { view: 0 } => {
                if let Phase::Accepting { by, .. } = &mut proposal.tally.phase {
                    *by |= bit(from);
                    self.decide(now);
                }
            }
            About::Overtaken { .. } => {
                // Whoever overtook it, or somebody who knows, says what became of it.
                proposal.tally.phase = Phase::Overtaken;
            }
            About::Over { commit } => self.settle(now, commit, false, Some(from)),
            _ => {}
        }
    }

    /// Its home need not be told what became of a transaction any more.
    fn home_knows(&mut self, from: NodeId, epoch: Epoch, ts: Timestamp) {
        if self.telling.get(&(epoch, ts)).is_some_and(|telling| telling.home == from) {
            self.telling.remove(&(epoch, ts));
        }
    }

    /// The home has ended a stamp that was not used yet.
    fn over_before_proposed(&mut self, from: NodeId, epoch: Epoch, ts: Timestamp) {
        self.stamp.take_if(|stamp| (stamp.home, stamp.epoch, stamp.ts) == (from, epoch, ts));
    }

    /// It is over everywhere, and this replica does not know any more what became of it.
    pub(super) fn heard_gone(&mut self, now: Nanos, from: NodeId, epoch: Epoch, ts: Timestamp) {
        self.home_knows(from, epoch, ts);
        self.over_before_proposed(from, epoch, ts);
        if let Some(proposal) = self.proposal.as_mut().filter(|own| (own.epoch, own.ts) == (epoch, ts)) {
            proposal.gone |= bit(from);
            self.doubt(now);
        }
    }

    /// Somebody has said how it stands.
    pub(super) fn epoch_heard(&mut self, now: Nanos, from: NodeId) {
        let epoch = self.epoch();
        // A stamp of an epoch that is over counts for nothing.
        if self.stamp.is_some_and(|stamp| epoch.is_some_and(|epoch| epoch > stamp.epoch)) {
            self.drop_stamp();
        }
        if self.home.is_some_and(|home| !self.replica(home).serves()) {
            self.home = None;
            self.asked_stamp = None;
        }
        if self.question.as_ref().is_some_and(|question| question.due <= now || self.home.is_none()) {
            self.ask_elsewhere(now);
        }
        if planted!(VotesOfAnyEpoch) {
            self.propose_in(from);
        }
        self.doubt(now);
    }

    /// What must not be: the next epoch's voters are asked, too.
    fn propose_in(&mut self, from: NodeId) {
        let Some(epoch) = self.replica(from).serves_in() else { return };
        let Some(Proposal { ts, payload, .. }) = self.proposal.clone() else { return };
        self.send(from, &Ask::Validate { epoch, ts, payload });
    }

    /// Whether more can be expected of anybody: of voters who are in the epoch still, or may come back to it, or know how it ended.
    fn doubt(&mut self, now: Nanos) {
        let Some(proposal) = &self.proposal else { return };
        let (epoch, gone) = (proposal.epoch, proposal.gone);
        let hopeful = self.serving_in(epoch) & !gone != 0;
        let moved = self.epoch().is_some_and(|latest| latest > epoch);
        let doubtful = !hopeful && (moved || gone != 0);
        if let Some(proposal) = &mut self.proposal {
            proposal.doubtful = if doubtful { proposal.doubtful.or(Some(now)) } else { None };
        }
    }

    /// What follows from what replicas have said.
    fn decide(&mut self, now: Nanos) {
        let Some(proposal) = &self.proposal else { return };
        let reachable = self.may_vote_in(proposal.epoch);
        let late = proposal.is_late || proposal.tally.voted() & reachable == reachable;
        match proposal.tally.decide(proposal.quorums, late) {
            Decision::Wait => {}
            Decision::Settle { commit, fast } => self.settle(now, commit, fast, None),
            Decision::Propose { commit } => {
                // In view 0 of a granted stamp nobody else proposes, and this one once.
                let after = self.ask_after(0);
                let Some(proposal) = &mut self.proposal else { return };
                assert!(proposal.tally.phase == Phase::Validating, "one proposal in view 0");
                proposal.tally.phase = Phase::Accepting { commit, by: 0 };
                (proposal.round, proposal.again) = (now, (now + after, 0));
                let (epoch, ts) = (proposal.epoch, proposal.ts);
                self.send_all(&Ask::Accept { epoch, ts, commit }, !0);
            }
        }
    }

    /// It is decided: by this client, or somebody (`by`) knows it. All replicas are told, and the home until it has heard.
    fn settle(&mut self, now: Nanos, commit: bool, fast: bool, by: Option<NodeId>) {
        let Some(proposal) = self.proposal.take() else { return };
        let Proposal { epoch, ts, home, hint, lead, late, payload, tally, since, .. } = proposal;
        let bytes = payload.len() as u32;
        let late = late.map(|shown| Late { ts, shown, lead, bytes });
        if by.is_none() && !self.strict() {
            self.learn_round_trip(now, since);
        }
        let voted = tally.voted();
        let lack = self
            .nodes()
            .filter(|node| commit && voted & bit(*node) == 0)
            .fold(0, |all, node| all | bit(node));
        let told = by.map_or(0, bit);
        let decided = |payload| Ask::Decided { epoch, ts, commit, voted, payload };
        self.send_all(&decided(None), !lack & !told);
        if lack & !told != 0 {
            self.send_all(&decided(Some(payload.clone())), lack & !told);
        }
        if by != Some(home) && self.replica(home).up {
            let again = now + self.ask_after(0);
            self.telling.insert((epoch, ts), Telling { home, commit, payload, again, times: 0 });
        }
        self.ended = Some(if commit { Ended::Committed { fast } } else { Ended::Aborted { hint, late } });
    }

    /// Asks those again who did not answer; goes the slow path; gives up at last.
    pub(super) fn decide_in_time(&mut self, now: Nanos) {
        let (patience, doubts, most) = (self.patience(), DOUBTS_FOR * self.timeout(), self.settings.patience);
        let Some(proposal) = &mut self.proposal else { return };
        let doubted = proposal.doubtful.is_some_and(|since| now >= since + doubts);
        if now >= proposal.since + most || doubted {
            self.proposal = None;
            self.ended = Some(Ended::Unknown);
            return;
        }
        if proposal.tally.phase == Phase::Validating && !proposal.is_late && now >= proposal.round + patience
        {
            proposal.is_late = true;
            self.decide(now);
        }
        self.ask_again(now);
    }

    fn ask_again(&mut self, now: Nanos) {
        let Some(times) = self.proposal.as_ref().filter(|own| own.again.0 <= now).map(|own| own.again.1 + 1)
        else {
            return;
        };
        let after = self.ask_after(times);
        let Some(proposal) = &mut self.proposal else { return };
        proposal.again = (now + after, times);
        let Proposal { epoch, ts, .. } = *proposal;
        let validate = || Ask::Validate { epoch, ts, payload: proposal.payload.clone() };
        let (silent, ask) = match proposal.tally.phase {
            Phase::Validating => (!proposal.tally.voted(), validate()),
            Phase::Accepting { commit, by } => (!by, Ask::Accept { epoch, ts, commit }),
            Phase::Overtaken => (!0, validate()),
        };
        self.send_all(&ask, silent);
    }

    /// Tells homes again what they have not heard.
    pub(super) fn tell_again(&mut self, now: Nanos) {
        let latest = self.epoch();
        // With its epoch a stamp is over.
        let alive = |epoch: Epoch, telling: &Telling| {
            telling.times < MOST_TELLINGS && latest.is_none_or(|latest| latest <= epoch)
        };
        self.telling.retain(|(epoch, _), telling| alive(*epoch, telling));
        let due: Vec<_> =
            self.telling.iter().filter(|(_, telling)| telling.again <= now).map(|(name, _)| *name).collect();
        for name in due {
            let times = self.telling.get(&name).map_or(0, |telling| telling.times + 1);
            let after = self.ask_after(times);
            let Some(telling) = self.telling.get_mut(&name) else { continue };
            (telling.again, telling.times) = (now + after, times);
            let ((epoch, ts), commit, home) = (name, telling.commit, telling.home);
            let payload = commit.then(|| telling.payload.clone());
            self.send(home, &Ask::Decided { epoch, ts, commit, voted: 0, payload });
        }
    }
}
