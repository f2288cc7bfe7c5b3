//! Changes of epoch: each is one instance of Paxos. See `controller/`.

use super::*;
use Step::{Agree, Enter, Join, Merge, Pause};

impl Bounds {
    pub(super) fn steps_of_epochs(&self, state: &State, steps: &mut Vec<Step>) {
        for round in 1..=self.rounds {
            for node in 0..self.nodes {
                steps.extend([Pause(node, round), Enter(node, round)]);
                steps.extend((self.rounds > 1).then_some(Agree(node, round)));
            }
            for epoch in 1..self.epochs {
                let promised = state.attempts[epoch as usize - 1][round as usize - 1].promises;
                let promised = (0..self.nodes).filter(|node| promised[*node].is_some());
                let promised = promised.fold(0, |all, node| all | bit(node));
                let enough = |of: &Set| of.count_ones() >= self.majority();
                steps.extend(rules::subsets(promised).filter(enough).map(|of| Merge(epoch, round, of)));
            }
        }
        for node in members(state.wiped) {
            for donor in 0..self.nodes {
                steps.extend((2..=self.epochs).map(|epoch| Join(node, donor, epoch)));
            }
        }
    }

    /// By what an epoch begins.
    pub(super) fn change(&self, state: &State, epoch: u8) -> Option<Change> {
        let attempts = state.attempts.get((epoch as usize).checked_sub(2)?)?;
        let chosen = attempts.iter().find(|attempt| self.takes_effect(attempt));
        chosen.and_then(|attempt| attempt.proposal)
    }

    fn takes_effect(&self, attempt: &Attempt) -> bool {
        let at_once = self.rounds == 1 || self.is(Mistake::AtOnce);
        self.is_chosen(attempt) || at_once && attempt.proposal.is_some()
    }

    fn voters(&self, state: &State, epoch: u8) -> Set {
        let all = (1 << self.nodes) - 1;
        self.change(state, epoch).map_or(all, |change| change.voters)
    }

    /// Voters and learners: all who are told outcomes.
    pub(super) fn taking_part(&self, state: &State, epoch: u8) -> Set {
        let all = (1 << self.nodes) - 1;
        self.change(state, epoch).map_or(all, |change| change.voters | change.learners)
    }

    /// Whether a node has a say in whether its epoch ends, and may answer this attempt.
    fn answers(&self, state: &State, node: usize, round: u8) -> bool {
        let Replica { standing, epoch, promised, .. } = state.replicas[node];
        standing == Standing::Voter && epoch < self.epochs && promised <= round
    }

    fn attempt<'a>(&self, state: &'a mut State, epoch: u8, round: u8) -> &'a mut Attempt {
        &mut state.attempts[epoch as usize - 1][round as usize - 1]
    }

    /// It does nothing more in its epoch, and tells what it knows.
    pub(super) fn pause(&self, state: &mut State, node: usize, round: u8) -> bool {
        let Replica { epoch, promised, accepted, .. } = state.replicas[node];
        if !self.answers(state, node, round) || promised == round {
            return false;
        }
        if self.attempt(state, epoch, round).proposal.is_some() {
            return false;
        }
        self.stop(state, node, round);
        let Replica { clock, mut records, .. } = state.replicas[node];
        let met = |(_, record): &(usize, &Record)| record.known || record.trimmed;
        let latest = records.iter().enumerate().filter(met).map(|(tx, _)| ts(tx)).max();
        for record in records.iter_mut().filter(|record| record.known) {
            let yes = matches!(record.vote, Vote::Yes | Vote::Withheld);
            let vote = if yes { Vote::Yes } else { Vote::No };
            *record = Record { vote, view: 0, behind: 0, ..*record };
        }
        records.iter_mut().for_each(|record| record.trimmed = false);
        let latest = latest.unwrap_or(0).max(clock);
        let promise = Promise { accepted, latest, records };
        self.attempt(state, epoch, round).promises[node] = Some(promise);
        true
    }

    fn stop(&self, state: &mut State, node: usize, round: u8) {
        state.replicas[node].promised = round;
        for tx in 0..self.intents.len() {
            self.take_back(state, node, tx);
        }
    }

    pub(super) fn merge(&self, state: &mut State, epoch: u8, round: u8, of: Set) -> bool {
        let attempt = *self.attempt(state, epoch, round);
        let promises: Vec<Promise> = members(of).filter_map(|node| attempt.promises[node]).collect();
        if attempt.proposal.is_some() || (promises.len() as u32) < self.majority() {
            return false;
        }
        let accepted = promises.iter().map(|promise| promise.accepted).max().unwrap_or(0);
        let change = match accepted {
            0 => self.ended(state, epoch, &promises),
            accepted => self.attempt(state, epoch, accepted).proposal.expect("it was accepted"),
        };
        let attempt = self.attempt(state, epoch, round);
        (attempt.proposal, attempt.promises) = (Some(change), [None; NODES]);
        true
    }

    /// What these promises say of an epoch.
    fn ended(&self, state: &State, epoch: u8, promises: &[Promise]) -> Change {
        let replies: Vec<_> = promises.iter().map(|promise| promise.records).collect();
        let own = matches!(
            self.mistake,
            Some(
                Mistake::ChangeForgets | Mistake::NotRevalidated | Mistake::Coarse | Mistake::OldEpochCounts
            )
        );
        let ended = if own { self.merged(state, &replies) } else { product::merged(self, state, &replies) };
        let before = self.change(state, epoch).map_or(0, |change| change.base);
        let base = promises.iter().map(|promise| promise.latest).fold(before, Ts::max);
        let members = self.voters(state, epoch);
        let votes = |node: &usize| match state.replicas[*node] {
            Replica { standing: Standing::Voter, .. } => members & bit(*node) != 0,
            Replica { standing: Standing::Ready, epoch: at, .. } => at == epoch,
            _ => false,
        };
        let voters = (0..self.nodes).filter(votes).fold(0, |all, node| all | bit(node));
        Change { ended, base, voters, learners: ((1 << self.nodes) - 1) & !voters }
    }

    pub(super) fn agree(&self, state: &mut State, node: usize, round: u8) -> bool {
        let Replica { epoch, accepted, .. } = state.replicas[node];
        if !self.answers(state, node, round) || accepted == round {
            return false;
        }
        if self.attempt(state, epoch, round).proposal.is_none() {
            return false;
        }
        self.stop(state, node, round);
        state.replicas[node].accepted = round;
        self.attempt(state, epoch, round).by |= bit(node);
        true
    }

    /// It installs what the change decided, and begins with nothing under way.
    pub(super) fn enter(&self, state: &mut State, node: usize, round: u8) -> bool {
        let Replica { standing, epoch, .. } = state.replicas[node];
        if standing == Standing::Outside || epoch >= self.epochs {
            return false;
        }
        let attempt = *self.attempt(state, epoch, round);
        let Some(change) = attempt.proposal.filter(|_| self.takes_effect(&attempt)) else { return false };
        for tx in (0..self.intents.len()).filter(|tx| state.txs[*tx].epoch == epoch).collect::<Vec<_>>() {
            let Record { known, outcome, .. } = state.replicas[node].records[tx];
            let unfinished = (known && outcome.is_none()).then_some(false);
            if let Some(commit) = change.ended[tx].or(unfinished) {
                self.conclude(state, node, tx, commit);
            }
        }
        let replica = &mut state.replicas[node];
        let votes = change.voters & bit(node) != 0;
        *replica = Replica {
            standing: if votes { Standing::Voter } else { Standing::Ready },
            epoch: epoch + 1,
            promised: 0,
            accepted: 0,
            clock: if self.strict { replica.clock.max(change.base) } else { 0 },
            records: Default::default(),
            ..*replica
        };
        true
    }

    /// A learner begins, and copies a voter that has begun this epoch or a later one.
    pub(super) fn join(&self, state: &mut State, node: usize, donor: usize, epoch: u8) -> bool {
        let Some(change) = self.change(state, epoch) else { return false };
        let Replica { standing, epoch: at, installed, .. } = state.replicas[donor];
        let may = state.replicas[node].standing == Standing::Outside
            && change.learners & bit(node) != 0
            && standing == Standing::Voter
            && at >= epoch;
        if may {
            let clock = if self.strict { change.base } else { 0 };
            state.replicas[node] =
                Replica { standing: Standing::Ready, epoch, installed, clock, ..Replica::default() };
        }
        may
    }

    /// Of attempts nobody can answer any more only what took effect counts.
    pub(super) fn forget_attempts(&self, state: &mut State) {
        for (at, attempts) in state.attempts.iter_mut().enumerate() {
            let here =
                |replica: &Replica| replica.standing == Standing::Voter && replica.epoch == at as u8 + 1;
            let over = !state.replicas.iter().any(here);
            for attempt in attempts {
                if self.is_chosen(attempt) {
                    attempt.by = (1 << NODES) - 1;
                } else if over && !self.takes_effect(attempt) {
                    *attempt = Attempt::default();
                }
                if over {
                    attempt.promises = [None; NODES];
                }
            }
        }
    }
}
