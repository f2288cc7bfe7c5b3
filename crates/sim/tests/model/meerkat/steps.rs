//! What can happen next, and what comes of it: transactions, their coordinators, and backups. Changes of epoch: `epochs`.

use super::*;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A transaction runs at its coordinator, which validates it by itself and asks the others.
    Begin(usize),
    /// A node validates a transaction.
    Validate(usize, usize),
    /// A node says yes: its clock has come so far.
    Ripen(usize, usize),
    /// A node's clock goes on.
    Tick(usize),
    /// A coordinator has heard votes that decide it so.
    Settle(usize, bool),
    /// It has heard votes by which it proposes this: the slow path.
    Propose(usize, bool),
    /// A node promises a view of a transaction.
    Promise(usize, usize, usize),
    /// A backup coordinator has heard promises by which it proposes this in its view.
    Back(usize, usize, bool),
    /// A node accepts the proposal of a view.
    Accept(usize, usize, usize),
    /// Who proposed in a view has heard that a majority accepted.
    Learn(usize, usize),
    /// A node hears what became of a transaction.
    Conclude(usize, usize),
    /// A node forgets a transaction.
    Trim(usize, usize),
    /// A node learns how far all is over everywhere, and drops tombstones up to there.
    Collect(usize),
    /// A node loses its memory.
    Wipe(usize),
    /// A node promises an attempt to change its epoch.
    Pause(usize, u8),
    /// Whoever leads an attempt to end this epoch has heard these promises, and proposes.
    Merge(u8, u8, Set),
    /// A node accepts that.
    Agree(usize, u8),
    /// A node begins the next epoch by it.
    Enter(usize, u8),
    /// A node without memory begins this epoch, and copies what another one has.
    Join(usize, usize, u8),
}

use Step::{
    Accept, Agree, Back, Begin, Collect, Conclude, Enter, Join, Learn, Merge, Pause, Promise, Propose, Ripen,
    Settle, Tick, Trim, Validate, Wipe,
};

impl Bounds {
    /// Everybody votes in epoch 1, and nothing has happened.
    pub fn start(&self) -> State {
        let mut state = State {
            replicas: Default::default(),
            txs: Default::default(),
            attempts: Default::default(),
            wiped: 0,
        };
        for replica in &mut state.replicas[..self.nodes] {
            (replica.standing, replica.epoch) = (Standing::Voter, 1);
        }
        state
    }

    /// Those that may be possible.
    pub fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        for tx in 0..self.intents.len() {
            if state.txs[tx].epoch == 0 {
                steps.push(Begin(tx));
                continue;
            }
            let Tx { told, proposals, promises, .. } = &state.txs[tx];
            for commit in [true, false] {
                if proposals[0].is_none() {
                    steps.extend([Settle(tx, commit), Propose(tx, commit)]);
                }
                let open = |view: &usize| promises[*view].iter().any(Option::is_some);
                steps.extend((1..self.views).filter(open).map(|view| Back(tx, view, commit)));
            }
            let proposed = (0..self.views).filter(|view| proposals[*view].is_some());
            steps.extend(proposed.clone().map(|view| Learn(tx, view)));
            for node in (0..self.nodes).filter(|node| self.works(state, *node, tx)) {
                let Record { vote, outcome, .. } = state.replicas[node].records[tx];
                if outcome.is_some() {
                    steps.extend(self.trims.then_some(Trim(node, tx)));
                    continue;
                }
                steps.extend((vote == Vote::None).then_some(Validate(node, tx)));
                steps.extend((told != &0).then_some(Conclude(node, tx)));
                steps.extend(proposed.clone().map(|view| Accept(node, tx, view)));
                steps.extend((1..self.views).map(|view| Promise(node, tx, view)));
                steps.extend((vote == Vote::Withheld).then_some(Ripen(node, tx)));
            }
        }
        steps.extend((0..self.nodes).filter(|_| self.strict).map(Tick));
        steps.extend((0..self.nodes).filter(|_| self.trims && self.deletes()).map(Collect));
        if (state.wiped.count_ones() as u8) < self.wipes {
            steps.extend((0..self.nodes).map(Wipe));
        }
        if self.epochs > 1 {
            self.steps_of_epochs(state, steps);
        }
    }

    /// The state behind a step; `None` if it cannot be made.
    pub fn step(&self, before: &State, step: Step) -> Option<State> {
        let mut after = *before;
        let state = &mut after;
        let made = match step {
            Begin(tx) => self.begin(state, tx),
            Validate(node, tx) => self.validate(state, node, tx),
            Ripen(node, tx) => self.ripen(state, node, tx),
            Tick(node) => self.tick(state, node),
            Settle(tx, commit) => self.settle(state, tx, commit),
            Propose(tx, commit) => self.propose(state, tx, commit),
            Promise(node, tx, view) => self.promise(state, node, tx, view),
            Back(tx, view, commit) => self.back(state, tx, view, commit),
            Accept(node, tx, view) => self.accept(state, node, tx, view),
            Learn(tx, view) => self.learn(state, tx, view),
            Conclude(node, tx) => self.hear(state, node, tx),
            Trim(node, tx) => self.trim(state, node, tx),
            Collect(node) => self.collect(state, node),
            Wipe(node) => self.wipe(state, node),
            Pause(node, round) => self.pause(state, node, round),
            Merge(epoch, round, of) => self.merge(state, epoch, round, of),
            Agree(node, round) => self.agree(state, node, round),
            Enter(node, round) => self.enter(state, node, round),
            Join(node, donor, epoch) => self.join(state, node, donor, epoch),
        };
        made.then(|| {
            self.forget(&mut after);
            after
        })
    }

    /// Whether a node takes part in a transaction's epoch.
    fn works(&self, state: &State, node: usize, tx: usize) -> bool {
        let Replica { standing, epoch, promised, .. } = state.replicas[node];
        let open = promised == 0 || self.is(Mistake::OldEpochCounts);
        standing != Standing::Outside && epoch > 0 && epoch == state.txs[tx].epoch && open
    }

    /// Whether it has a say there, and the transaction is not over.
    fn may(&self, state: &State, node: usize, tx: usize) -> bool {
        let Record { outcome, trimmed, .. } = state.replicas[node].records[tx];
        let votes = state.replicas[node].standing == Standing::Voter;
        votes && self.works(state, node, tx) && outcome.is_none() && !trimmed && !state.txs[tx].closed
    }

    /// Whether its coordinator may still decide by votes.
    fn counts(&self, state: &State, tx: usize) -> bool {
        self.may(state, self.intents[tx].node, tx) && state.txs[tx].proposals[0].is_none()
    }

    fn begin(&self, state: &mut State, tx: usize) -> bool {
        let Intent { node, reads, .. } = self.intents[tx];
        let Replica { standing, epoch, promised, installed, collected, .. } = state.replicas[node];
        let base = self.change(state, epoch).map_or(0, |change| change.base);
        let alike = |later: usize| self.intents[later].node == node && state.txs[later].epoch > 0;
        let in_order = !(tx + 1..self.intents.len()).any(alike);
        let may = standing == Standing::Voter && promised == 0 && state.txs[tx].epoch == 0;
        if !may || !in_order || ts(tx) <= base {
            return false;
        }
        let mut versions = [0; KEYS];
        members(reads).for_each(|key| versions[key] = self.shown(installed, collected, key));
        if versions.iter().any(|version| *version >= ts(tx)) && !self.is(Mistake::StampBelowRead) {
            return false;
        }
        let answered = |tx: &usize| state.txs[*tx].answered;
        let after = (0..self.intents.len()).filter(answered).fold(0, |all, tx| all | bit(tx));
        state.txs[tx] = Tx { epoch, versions, as_of: collected, after, ..Tx::default() };
        self.validate(state, node, tx)
    }

    fn validate(&self, state: &mut State, node: usize, tx: usize) -> bool {
        let Replica { clock, records, .. } = state.replicas[node];
        if !self.may(state, node, tx) || records[tx].vote != Vote::None {
            return false;
        }
        let late = self.strict && ts(tx) <= clock && !self.is(Mistake::LateIsValid);
        let valid = !late && self.is_valid(state, node, tx);
        let withheld = self.strict && !self.is(Mistake::VotesUnripe);
        self.vote(
            state,
            node,
            tx,
            match valid {
                false => Vote::No,
                true if withheld => Vote::Withheld,
                true => Vote::Yes,
            },
        );
        true
    }

    fn vote(&self, state: &mut State, node: usize, tx: usize, vote: Vote) {
        let record = &mut state.replicas[node].records[tx];
        (record.known, record.vote) = (true, vote);
        match vote {
            Vote::Yes => state.txs[tx].yes |= bit(node),
            Vote::No => state.txs[tx].no |= bit(node),
            Vote::None | Vote::Withheld => {}
        }
    }

    fn ripen(&self, state: &mut State, node: usize, tx: usize) -> bool {
        let Replica { clock, records, .. } = state.replicas[node];
        let ripe = self.may(state, node, tx) && records[tx].vote == Vote::Withheld && clock >= ts(tx);
        if ripe {
            self.vote(state, node, tx, Vote::Yes);
        }
        ripe
    }

    fn tick(&self, state: &mut State, node: usize) -> bool {
        let replica = &mut state.replicas[node];
        let goes = replica.standing != Standing::Outside
            && replica.promised == 0
            && (replica.clock as usize) < self.intents.len();
        replica.clock += u8::from(goes);
        goes
    }

    fn settle(&self, state: &mut State, tx: usize, commit: bool) -> bool {
        let Tx { yes, no, .. } = state.txs[tx];
        let may = self.counts(state, tx) && self.rules.choices(yes, no).settles & outcome::of(commit) != 0;
        if may {
            self.conclude(state, self.intents[tx].node, tx, commit);
            state.txs[tx].told |= outcome::of(commit);
        }
        may
    }

    fn propose(&self, state: &mut State, tx: usize, commit: bool) -> bool {
        let Tx { yes, no, .. } = state.txs[tx];
        let may = self.counts(state, tx) && self.rules.choices(yes, no).proposes & outcome::of(commit) != 0;
        if !may {
            return false;
        }
        state.txs[tx].proposals[0] = Some(commit);
        self.accept(state, self.intents[tx].node, tx, 0)
    }

    /// The number of a view.
    fn number(&self, view: usize) -> u8 {
        if self.is(Mistake::ViewShared) { view.min(1) as u8 } else { view as u8 }
    }

    fn promise(&self, state: &mut State, node: usize, tx: usize, view: usize) -> bool {
        let (record, number) = (state.replicas[node].records[tx], self.number(view));
        let Tx { proposals, promises, .. } = state.txs[tx];
        let asked = proposals[view].is_none() && promises[view][node].is_none();
        let overtaken = record.view > number
            || record.view == number && record.accepted.is_some_and(|(at, _)| at == number);
        if !self.may(state, node, tx) || !asked || overtaken {
            return false;
        }
        if self.take_back(state, node, tx) || record.vote == Vote::None {
            self.vote(state, node, tx, Vote::No);
        }
        let record = &mut state.replicas[node].records[tx];
        record.view = number;
        let valid = matches!(record.vote, Vote::Yes | Vote::Withheld);
        let accepted = record.accepted.filter(|_| !self.is(Mistake::PromiseForgets));
        state.txs[tx].promises[view][node] = Some((valid, accepted));
        true
    }

    /// Whether a vote was withheld, which is none then.
    pub(super) fn take_back(&self, state: &mut State, node: usize, tx: usize) -> bool {
        let record = &mut state.replicas[node].records[tx];
        let withheld = record.vote == Vote::Withheld && !self.is(Mistake::WithheldTold);
        if withheld {
            record.vote = Vote::No;
        }
        withheld
    }

    fn back(&self, state: &mut State, tx: usize, view: usize, commit: bool) -> bool {
        let Tx { proposals, promises, .. } = &state.txs[tx];
        if proposals[view].is_some() {
            return false;
        }
        let promised = (0..self.nodes).filter(|node| promises[view][*node].is_some());
        let promised = promised.fold(0, |all, node| all | bit(node));
        let safe =
            rules::subsets(promised).any(|of| product::proposal(self, &promises[view], of) == Some(commit));
        if safe {
            state.txs[tx].proposals[view] = Some(commit);
        }
        safe
    }

    fn accept(&self, state: &mut State, node: usize, tx: usize, view: usize) -> bool {
        let number = self.number(view);
        let revives = self.is(Mistake::ClosedRevived)
            && state.replicas[node].standing == Standing::Voter
            && self.works(state, node, tx)
            && state.replicas[node].records[tx].outcome.is_none();
        let may = self.may(state, node, tx) || revives;
        let Some(commit) = state.txs[tx].proposals[view].filter(|_| may) else { return false };
        let record = &mut state.replicas[node].records[tx];
        if record.view > number || record.accepted == Some((number, commit)) {
            return false;
        }
        (record.known, record.view, record.accepted) = (true, number, Some((number, commit)));
        state.txs[tx].accepted[view] |= bit(node);
        true
    }

    fn learn(&self, state: &mut State, tx: usize, view: usize) -> bool {
        let Tx { proposals, accepted, told, .. } = state.txs[tx];
        let node = self.intents[tx].node;
        let Some(commit) = proposals[view] else { return false };
        let works = |node: usize| self.works(state, node, tx);
        let able = if view == 0 { self.may(state, node, tx) } else { (0..self.nodes).any(works) };
        let news = told & outcome::of(commit) == 0;
        if !able || !news && view > 0 || accepted[view].count_ones() < self.majority() {
            return false;
        }
        if view == 0 {
            self.conclude(state, node, tx, commit);
        }
        state.txs[tx].told |= outcome::of(commit);
        state.txs[tx].said |= outcome::of(commit);
        true
    }

    fn hear(&self, state: &mut State, node: usize, tx: usize) -> bool {
        let Record { outcome, trimmed, .. } = state.replicas[node].records[tx];
        let told = state.txs[tx].told;
        let may = self.works(state, node, tx) && told != 0 && outcome.is_none() && !trimmed;
        if may {
            self.conclude(state, node, tx, told & outcome::COMMIT != 0);
        }
        may
    }

    /// A transaction is over at a node.
    pub(super) fn conclude(&self, state: &mut State, node: usize, tx: usize, commit: bool) {
        state.txs[tx].said |= outcome::of(commit);
        let replica = &mut state.replicas[node];
        if replica.records[tx].outcome.is_some() {
            return;
        }
        let pending = |(_, record): &(usize, &Record)| record.known && record.outcome.is_none();
        let pending = replica.records.iter().enumerate().filter(pending);
        let pending: Set = pending.fold(0, |all, (other, _)| all | bit(other));
        let behind = if self.trims { pending & !bit(tx) } else { 0 };
        replica.records.iter_mut().for_each(|record| record.behind &= !bit(tx));
        replica.records[tx] = Record { known: true, outcome: Some(commit), behind, ..Record::default() };
        if !commit {
            return;
        }
        replica.installed |= bit(tx);
        if !self.is(Mistake::RtsNotRaised) {
            replica.read |= bit(tx);
        }
        let asked = self.intents[tx].node == node && replica.standing == Standing::Voter;
        state.txs[tx].answered |= asked && self.strict;
    }

    fn trim(&self, state: &mut State, node: usize, tx: usize) -> bool {
        let Record { outcome, behind, .. } = state.replicas[node].records[tx];
        let over = outcome.is_some() && state.txs[tx].closed && self.works(state, node, tx);
        let may = over && (behind == 0 || self.is(Mistake::TrimmedEarly));
        if may {
            state.replicas[node].records[tx] = Record { trimmed: true, ..Record::default() };
        }
        may
    }

    /// Whatever is written at or below is over everywhere, and nothing more will be.
    fn closed_up_to(&self, state: &State) -> Ts {
        let closed = |tx: &usize| state.txs[*tx].closed;
        (0..self.intents.len()).take_while(closed).last().map_or(0, ts)
    }

    fn collect(&self, state: &mut State, node: usize) -> bool {
        let upto = self.closed_up_to(state);
        let replica = &mut state.replicas[node];
        let may = replica.standing == Standing::Voter && replica.promised == 0 && replica.collected < upto;
        if may {
            replica.collected = upto;
        }
        may
    }

    /// No more than may fail are without their memory.
    fn wipe(&self, state: &mut State, node: usize) -> bool {
        let votes = |replica: &&Replica| replica.standing == Standing::Voter;
        let others = state.replicas[..self.nodes].iter().filter(votes).count() as u32 - 1;
        let may = state.replicas[node].standing == Standing::Voter
            && state.wiped & bit(node) == 0
            && others >= self.majority();
        if may {
            state.replicas[node] = Replica::default();
            state.wiped |= bit(node);
            // What a life that is over promised does not count where the result is proposed.
            state.attempts.iter_mut().flatten().for_each(|attempt| attempt.promises[node] = None);
        }
        may
    }

    /// Drops what no later step and no judge asks for.
    fn forget(&self, state: &mut State) {
        for tx in 0..self.intents.len() {
            let counts = self.counts(state, tx);
            let closed = self.trims && !state.txs[tx].closed && self.is_over(state, tx);
            let Tx { epoch, versions, as_of, after, said, answered, .. } = state.txs[tx];
            if epoch > 0 && state.replicas.iter().all(|replica| replica.epoch != epoch) {
                // Nobody who is there hears anything of it.
                state.txs[tx] = Tx { epoch, versions, as_of, after, said, answered, ..Tx::default() };
                continue;
            }
            let own = &mut state.txs[tx];
            own.closed |= closed;
            if !counts {
                (own.yes, own.no) = (0, 0);
            }
            for view in 0..self.views {
                if own.proposals[view].is_some() {
                    own.promises[view] = [None; NODES];
                }
                if own.accepted[view].count_ones() >= self.majority() {
                    own.accepted[view] = (1 << NODES) - 1;
                }
            }
        }
        self.forget_attempts(state);
    }

    /// Whether all who take part in its epoch know what became of a transaction.
    fn is_over(&self, state: &State, tx: usize) -> bool {
        let epoch = state.txs[tx].epoch;
        let knows = |node: usize| {
            let Replica { standing, epoch: at, records, .. } = state.replicas[node];
            standing != Standing::Outside && at == epoch && records[tx].outcome.is_some()
        };
        epoch > 0 && members(self.taking_part(state, epoch)).all(knows)
    }
}
