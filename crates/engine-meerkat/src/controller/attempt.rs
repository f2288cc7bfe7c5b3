//! The node that leads an attempt to change the epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use highwater_core::{Epoch, Incarnation, NodeId, Timestamp, hooks};
use highwater_kit::validation::record::Told;
use highwater_seam::Nanos;

use super::MeerkatController;
use super::forgot::choose;
use super::thin::{Name, Payloads, fill, has, is_whole, thin_change};
use crate::change::{Change, Members};
use crate::control::{Control, Memory, Round, Standing};
use crate::facts::Asked;
use crate::merge::{Unclear, merge};

/// What a node promised.
struct Promised {
    life: Incarnation,
    accepted: Option<(Round, Arc<Change>)>,
    latest: Timestamp,
    records: Arc<Vec<Vec<Told>>>,
    memory: Memory,
}

fn told(of: Vec<&Promised>) -> Vec<&[Vec<Told>]> {
    of.into_iter().map(|promised| &promised.records[..]).collect()
}

enum Stage {
    Preparing(BTreeMap<NodeId, Promised>),
    Accepting {
        change: Arc<Change>,
        /// Whose payloads nodes have, by their promises.
        has: BTreeMap<NodeId, BTreeSet<Name>>,
        by: BTreeMap<NodeId, Incarnation>,
    },
}

pub(super) struct Attempt {
    epoch: Epoch,
    round: Round,
    stage: Stage,
    begun: Nanos,
    asked: Nanos,
    /// How often others were asked: on a slow wire whoever asks again makes it slower.
    times: u32,
    /// Why the promises so far did not suffice, though a majority made them.
    unclear: Option<Unclear>,
}

impl Attempt {
    /// Why it cannot go on with the promises that it has, if that is so.
    pub fn unclear(&self) -> Option<Unclear> {
        self.unclear
    }

    fn has_answered(&self, node: NodeId) -> bool {
        match &self.stage {
            Stage::Preparing(promises) => promises.contains_key(&node),
            Stage::Accepting { by, .. } => by.contains_key(&node),
        }
    }
}

impl MeerkatController {
    /// Leads an attempt to begin the next epoch.
    pub(super) fn begin_attempt(&mut self, now: Nanos, why: &str) {
        let epoch = self.epoch.next();
        let round = Round { number: self.promised.number + 1, node: self.me };
        self.note(format!("asks for {epoch}: {why}"));
        hooks::tell_own(|| Asked);
        self.attempt = Some(Attempt {
            epoch,
            round,
            stage: Stage::Preparing(BTreeMap::new()),
            begun: now,
            asked: now,
            times: 0,
            unclear: None,
        });
        self.stirred = now;
        self.send_all(&Control::Prepare { epoch, round });
    }

    /// Whether a node has a say in the attempt under way, in the life that it lives now.
    fn counts(&self, node: NodeId, life: Incarnation) -> bool {
        match &self.members {
            Some(members) => members.has_say((node, life)),
            None => true,
        }
    }

    pub(super) fn on_promise(
        &mut self,
        now: Nanos,
        from: NodeId,
        (epoch, round): (Epoch, Round),
        accepted: Option<(Round, Arc<Change>)>,
        (latest, records, memory, standing): (Timestamp, Arc<Vec<Vec<Told>>>, Memory, Standing),
    ) {
        let Some(life) = self.life_of(from).filter(|life| self.counts(from, *life)) else { return };
        if records.len() != self.shared.options.workers as usize {
            return;
        }
        // It counts as it stands now. What it said last may be of before it crashed, and its next beat is on its way.
        if let Some(peer) = &mut self.peers[from.0 as usize] {
            (peer.beat.epoch, peer.beat.standing) = (Epoch(epoch.0.saturating_sub(1)), standing);
        }
        let Some(attempt) = self.attempt.as_mut().filter(|own| (own.epoch, own.round) == (epoch, round))
        else {
            return;
        };
        if let Stage::Preparing(promises) = &mut attempt.stage {
            promises.insert(from, Promised { life, accepted, latest, records, memory });
            self.stirred = now;
            self.propose(now, false);
        }
    }

    /// Proposes, if promises suffice: of a majority, and of all that may come soon. `late`: no more are expected.
    ///
    /// Invariant: a round has one proposal. Its own promise of the round is among them, so that is on this node's disk, and a later life of the node
    /// leads a later round: what others say of this one then is not about what that life proposes.
    fn propose(&mut self, now: Nanos, late: bool) {
        let quorums = self.shared.quorums;
        let Some(Attempt { epoch, stage: Stage::Preparing(promises), .. }) = &self.attempt else {
            return;
        };
        if !promises.contains_key(&self.me) {
            return;
        }
        let epoch = *epoch;
        let here = |node: &NodeId, promised: &Promised| self.life_of(*node) == Some(promised.life);
        let count = promises.iter().filter(|(node, promised)| here(node, promised)).count() as u32;
        let known = promises.values().filter_map(|promised| promised.accepted.as_ref());
        let known = known.max_by_key(|(round, _)| *round).map(|(_, change)| change.clone());
        // A cluster is born when everybody is there; but if somebody may have been told already that it is, that is what counts.
        let born_with = if epoch == Epoch(1) && known.is_none() { quorums.all } else { quorums.majority };
        let all =
            self.nodes().filter(|node| self.life_of(*node).is_some_and(|life| self.counts(*node, life)));
        let all = all.filter(|node| self.hears(now, *node)).count() as u32;
        if count < born_with || (count < all && !late) {
            return;
        }
        let has: BTreeMap<NodeId, BTreeSet<Name>> =
            promises.iter().map(|(node, promised)| (*node, has(&promised.records))).collect();
        let change = match known {
            Some(change) => change,
            None if !self.fill_promises() => return,
            None => match self.promises().map(|promises| self.change_to_be(now, epoch, promises)) {
                Some(Ok(Some(change))) => Arc::new(change),
                Some(Err(why)) => return self.wait_for_more(why),
                Some(Ok(None)) | None => return,
            },
        };
        let attempt = self.attempt.as_mut().expect("it is under way");
        attempt.unclear = None;
        attempt.stage = Stage::Accepting { change, has, by: BTreeMap::new() };
        (attempt.asked, attempt.times) = (now, 0);
        self.nodes().for_each(|node| self.ask(node));
    }

    /// These promises leave open what became of a transaction: others may tell.
    fn wait_for_more(&mut self, why: Unclear) {
        let Some(attempt) = &mut self.attempt else { return };
        if attempt.unclear.replace(why) != Some(why) {
            self.note(format!("waits for more promises: {why}"));
        }
    }

    fn promises(&self) -> Option<&BTreeMap<NodeId, Promised>> {
        match &self.attempt.as_ref()?.stage {
            Stage::Preparing(promises) => Some(promises),
            Stage::Accepting { .. } => None,
        }
    }

    /// Puts into promises what this node has itself, and asks for what it has not; whether they are whole.
    fn fill_promises(&mut self) -> bool {
        if self.promises().is_some_and(|all| all.values().all(|promised| is_whole(&promised.records))) {
            return true;
        }
        let Some(mut attempt) = self.attempt.take() else { return false };
        let (epoch, round) = (attempt.epoch, attempt.round);
        let mut whole = false;
        // Its own workers have paused as well before anybody is asked.
        if let (Stage::Preparing(promises), Some(own)) = (&mut attempt.stage, self.told(epoch)) {
            let own = Payloads::of(own);
            let mut asks = Vec::new();
            for (node, promised) in promises.iter_mut().filter(|(_, promised)| !is_whole(&promised.records)) {
                let names = fill(&mut Arc::make_mut(&mut promised.records)[..], &own);
                if !names.is_empty() {
                    asks.push((*node, names));
                }
            }
            whole = asks.is_empty();
            for (node, names) in asks {
                self.send(node, Control::Fetch { epoch, round, names });
            }
        }
        self.attempt = Some(attempt);
        whole
    }

    /// What a node promised without came after it.
    pub(super) fn on_payloads(
        &mut self,
        now: Nanos,
        from: NodeId,
        (epoch, round): (Epoch, Round),
        records: &[Vec<Told>],
    ) {
        let Some(attempt) = self.attempt.as_mut().filter(|own| (own.epoch, own.round) == (epoch, round))
        else {
            return;
        };
        let Stage::Preparing(promises) = &mut attempt.stage else { return };
        if let Some(promised) = promises.get_mut(&from) {
            fill(&mut Arc::make_mut(&mut promised.records)[..], &Payloads::of(records));
            self.stirred = now;
            self.propose(now, false);
        }
    }

    /// A node has not what it said to have, because it began anew; or it knows of no decision that it is said to have accepted.
    pub(super) fn on_lack(&mut self, from: NodeId, epoch: Epoch, round: Round) {
        if epoch <= self.epoch {
            return self.tell_decided(from, Epoch(epoch.0.saturating_sub(1)));
        }
        let Some(attempt) = self.attempt.as_mut().filter(|own| (own.epoch, own.round) == (epoch, round))
        else {
            return;
        };
        if let Stage::Accepting { has, .. } = &mut attempt.stage {
            has.remove(&from);
            self.ask(from);
        }
    }

    /// What these promises make the next epoch; `None`: they do not suffice, because too many forgot.
    ///
    /// # Errors
    /// If they leave open what became of a transaction.
    fn change_to_be(
        &self,
        now: Nanos,
        epoch: Epoch,
        promises: &BTreeMap<NodeId, Promised>,
    ) -> Result<Option<Change>, Unclear> {
        let (quorums, workers) = (self.shared.quorums, self.shared.options.workers as usize);
        let latest = promises.values().map(|promised| promised.latest).max().unwrap_or_default();
        let base = latest.next();
        if epoch == Epoch(1) {
            let voters = promises.iter().map(|(node, promised)| (*node, promised.life)).collect();
            let members = Members { voters, ..Members::default() };
            let ended = vec![Vec::new(); workers];
            return Ok(Some(Change { epoch, base, members, ended, cut: None }));
        }
        let (whole, forgot): (Vec<&Promised>, Vec<&Promised>) =
            promises.values().partition(|promised| promised.memory == Memory::Whole);
        let promised = promises.keys().copied().collect::<Vec<_>>();
        let members = self.members_to_be(now, &promised);
        if whole.len() >= quorums.majority as usize && !members.voters.is_empty() {
            let ended = merge(quorums, workers, &told(whole), &told(forgot))?;
            return Ok(Some(Change { epoch, base, members, ended, cut: None }));
        }
        let mut voters = self.members.iter().flat_map(|members| &members.voters);
        let back = |(node, life): &(NodeId, Incarnation)| {
            promises.get(node).is_some_and(|promised| promised.life == *life)
        };
        if !voters.all(back) {
            return Ok(None);
        }
        let rest = |(node, promised): (&NodeId, &Promised)| match promised.memory {
            Memory::Forgot(Some(rest)) => Some((*node, rest)),
            _ => None,
        };
        let rests = promises.iter().filter_map(rest).collect();
        let Some((at, chosen)) = choose(&rests, quorums.majority as usize) else { return Ok(None) };
        // Who promised, whether it is heard right now or not: nobody else has what it has.
        let voters = chosen.iter().map(|node| (*node, promises[node].life)).collect();
        let others = self.nodes().filter(|node| !chosen.contains(node) && self.hears(now, *node));
        let learners = others.filter_map(|node| Some((node, self.life_of(node)?))).collect();
        let members = Members { voters, learners, ..Members::default() };
        Ok(Some(Change { epoch, base, members, ended: vec![Vec::new(); workers], cut: Some(at) }))
    }

    pub(super) fn on_refuse(&mut self, epoch: Epoch, round: Round) {
        if self.attempt.as_ref().is_some_and(|own| own.epoch == epoch && own.round < round) {
            self.attempt = None;
            self.failed += 1;
            self.promised = self.promised.max(Round { number: round.number, node: NodeId(0) });
        }
    }

    pub(super) fn on_accepted(&mut self, now: Nanos, from: NodeId, epoch: Epoch, round: Round) {
        let Some(life) = self.life_of(from) else { return };
        let counts = self.counts(from, life);
        let majority = self.shared.quorums.majority as usize;
        let Some(attempt) = self.attempt.as_mut().filter(|own| (own.epoch, own.round) == (epoch, round))
        else {
            return;
        };
        let Stage::Accepting { change, by, .. } = &mut attempt.stage else { return };
        if !counts || epoch == Epoch(1) && !change.members.has_voter((from, life)) {
            return;
        }
        by.insert(from, life);
        self.stirred = now;
        if by.len() < majority {
            return;
        }
        let (change, accepted) = (change.clone(), by.keys().copied().collect::<Vec<_>>());
        for node in self.others() {
            let message = match accepted.contains(&node) {
                true => Control::Chosen { epoch, round },
                false => self.decided_for(node, &change),
            };
            self.send(node, message);
        }
        self.on_decided(now, &change);
    }

    /// Attempts at the next epoch that came to nothing, whoever led them, up to a bound: each gets twice the time of the one before. So what
    /// has to be told comes through on slow wires, and they do not overtake each other for ever.
    pub(super) fn tries(&self) -> u32 {
        let known = self.promised.number.saturating_sub(1).min(6) as u32;
        known.max(self.failed.min(6))
    }

    /// Asks again who has not answered; gives up what takes too long.
    pub(super) fn drive(&mut self, now: Nanos) {
        let (every, patience) = (self.timeout(), (6 * self.timeout()) << self.tries());
        let Some(attempt) = &self.attempt else { return };
        if now > attempt.begun + patience {
            self.attempt = None;
            self.failed += 1;
            return;
        }
        // What is lost is lost with a connection, as a rule, and then it is asked for at once.
        if now < attempt.asked + (every << (attempt.times + self.tries()).min(8)) {
            return;
        }
        let silent: Vec<NodeId> = self.nodes().filter(|node| !attempt.has_answered(*node)).collect();
        if let Some(attempt) = &mut self.attempt {
            attempt.asked = now;
            attempt.times += 1;
        }
        silent.into_iter().for_each(|node| self.ask(node));
        self.propose(now, true);
    }

    /// Asks a node for its part in the attempt that this node leads, if it has not answered.
    pub(super) fn ask(&mut self, node: NodeId) {
        let Some(attempt) = self.attempt.as_ref().filter(|attempt| !attempt.has_answered(node)) else {
            return;
        };
        let message = match &attempt.stage {
            Stage::Preparing(_) => Control::Prepare { epoch: attempt.epoch, round: attempt.round },
            Stage::Accepting { change, has, .. } => {
                let own = node == self.me;
                let change = match has.get(&node).filter(|_| !own) {
                    Some(has) => thin_change(change, has),
                    None => change.clone(),
                };
                Control::Accept { round: attempt.round, change }
            }
        };
        self.send(node, message);
    }

    /// A decision, without what a node has by its promise.
    fn decided_for(&self, node: NodeId, change: &Arc<Change>) -> Control {
        let has = match self.attempt.as_ref().map(|attempt| &attempt.stage) {
            Some(Stage::Accepting { has, .. }) => has.get(&node),
            _ => None,
        };
        Control::Decided { change: has.map_or_else(|| change.clone(), |has| thin_change(change, has)) }
    }
}
