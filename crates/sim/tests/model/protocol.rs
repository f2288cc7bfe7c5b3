//! Three replicas, two streams: what can happen, one atomic step at a time.
//!
//! A log is accepted as a whole under one ballot (decision 0002), so a replica's log is always the beginning of what some
//! leader wrote: ballot and length say everything. What a leader wrote under a ballot never changes; an `Accept` may come
//! at any later time or never. That is loss, delay and reordering of messages, pauses and partitions of any shape.
//! Repetition has no effect on lengths; the streams' handling of it is tested elsewhere (`crates/consensus/tests`).
//!
//! Leaders know at once what a majority has accepted: knowing later could only release less.

use super::state::{Ballot, Entry, Lead, NODES, Replica, STREAMS, State, Tail};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The leader of a ballot executes a transaction in a stream.
    Execute(Ballot, usize),
    /// It seals what is open there (an empty entry if nothing is, and somebody waits).
    Seal(Ballot, usize),
    /// A replica takes the next entry, or the whole of what was taken over.
    Accept(Ballot, usize, usize),
    /// A replica wants to lead.
    Campaign(usize),
    /// A stream of a replica promises.
    Promise(Ballot, usize, usize),
    /// A candidate has a majority's promises.
    Lead(Ballot),
    /// A replica's memory is gone; it does not come back as a voter.
    Crash(usize),
    /// Only with [`Mistake::Amnesia`]: it does.
    Forget(usize),
}

/// A mistake that the search must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A replica that lost its memory votes.
    Amnesia,
    /// A new leader takes the longest log instead of that of the highest ballot.
    LongestLog,
    /// A replica that promised accepts from an older leader.
    NoFence,
    /// A silent stream does not hold the mark.
    SilentStream,
    /// Released by transaction, replayed by whole entries.
    Granularity,
    /// A claim counts before its index is decided.
    EarlyClaim,
    /// A claim about a stream that has something open.
    RashClaim,
}

/// How much may happen.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Ballots, the first leader's included.
    pub ballots: usize,
    /// Transactions per stream of the first leader, and of each later one.
    pub transactions: (usize, usize),
    /// Crashes.
    pub crashes: u8,
    /// What is wrong.
    pub mistake: Option<Mistake>,
}

impl Bounds {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Replica 0 leads epoch 1 and everybody knows.
    pub fn start(&self) -> State {
        let replica = Replica { up: true, promised: [1; STREAMS], accepted: [(1, 1); STREAMS] };
        let first = Entry::Change { epoch: 1, base: 1 };
        let lead = Lead {
            node: 0,
            leading: true,
            promises: Default::default(),
            log: [vec![first], vec![first]],
            taken: [0; STREAMS],
            base: 1,
            executed: Vec::new(),
            decided: [1; STREAMS],
        };
        State { replicas: [replica; NODES], leads: vec![lead], crashes: 0 }
    }

    /// What may happen next.
    pub fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for ballot in 1..=state.leads.len() as Ballot {
            for stream in 0..STREAMS {
                actions.extend([Action::Execute(ballot, stream), Action::Seal(ballot, stream)]);
                for node in 0..NODES {
                    actions.extend([
                        Action::Accept(ballot, stream, node),
                        Action::Promise(ballot, stream, node),
                    ]);
                }
            }
            actions.push(Action::Lead(ballot));
        }
        actions.extend((0..NODES).flat_map(|node| [Action::Campaign(node), Action::Crash(node)]));
        if self.is(Mistake::Amnesia) {
            actions.extend((0..NODES).map(Action::Forget));
        }
    }

    /// The state behind a step; `None` if it cannot be made.
    pub fn step(&self, before: &State, action: Action) -> Option<State> {
        let may = match action {
            Action::Execute(ballot, stream) => self.may_execute(before, ballot, stream),
            Action::Seal(ballot, stream) => self.may_seal(before, ballot, stream),
            Action::Accept(ballot, stream, node) => self.may_accept(before, ballot, stream, node),
            Action::Campaign(node) => before.replicas[node].up && before.leads.len() < self.ballots,
            Action::Promise(ballot, stream, node) => {
                let replica = &before.replicas[node];
                replica.up && replica.promised[stream] < ballot && !before.lead(ballot).leading
            }
            Action::Lead(ballot) => self.may_lead(before, ballot),
            Action::Crash(node) => before.replicas[node].up && before.crashes < self.crashes,
            Action::Forget(node) => !before.replicas[node].up,
        };
        may.then(|| {
            let mut state = before.clone();
            self.apply(&mut state, action);
            state
        })
    }

    /// Whether a ballot's leader lives and a stream of it has not promised a higher ballot.
    fn leads(&self, state: &State, ballot: Ballot, stream: usize) -> bool {
        let lead = state.lead(ballot);
        let replica = &state.replicas[lead.node as usize];
        lead.leading && replica.up && replica.promised[stream] == ballot
    }

    fn may_execute(&self, state: &State, ballot: Ballot, stream: usize) -> bool {
        let lead = state.lead(ballot);
        let most = if ballot == 1 { self.transactions.0 } else { self.transactions.1 };
        let executed = lead.executed.iter().filter(|of| **of as usize == stream).count();
        executed < most && self.leads(state, ballot, stream) && lead.opened()
    }

    fn may_seal(&self, state: &State, ballot: Ballot, stream: usize) -> bool {
        let lead = state.lead(ballot);
        self.leads(state, ballot, stream) && lead.sealed(stream) < lead.clock()
    }

    pub fn may_accept(&self, state: &State, ballot: Ballot, stream: usize, node: usize) -> bool {
        let (lead, replica) = (state.lead(ballot), &state.replicas[node]);
        let (held, len) = replica.accepted[stream];
        let news = held < ballot || held == ballot && (len as usize) < lead.log[stream].len();
        let fenced = replica.promised[stream] > ballot && !self.is(Mistake::NoFence);
        lead.leading && lead.node as usize != node && replica.up && news && !fenced
    }

    fn may_lead(&self, state: &State, ballot: Ballot) -> bool {
        let lead = state.lead(ballot);
        let own = &state.replicas[lead.node as usize];
        let complete = |tails: &[Tail; STREAMS]| tails.iter().all(Option::is_some);
        let majority = lead.promises.iter().filter(|tails| complete(tails)).count() > NODES / 2;
        let fenced = own.promised == [ballot; STREAMS] && complete(&lead.promises[lead.node as usize]);
        !lead.leading && own.up && fenced && majority
    }

    fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Execute(ballot, stream) => state.lead_mut(ballot).executed.push(stream as u8),
            Action::Seal(ballot, stream) => self.seal(state, ballot, stream),
            Action::Accept(ballot, stream, node) => {
                let lead = &mut state.leads[ballot as usize - 1];
                let replica = &mut state.replicas[node];
                let (held, len) = replica.accepted[stream];
                let len = if held == ballot { len + 1 } else { lead.taken[stream] };
                replica.accepted[stream] = (ballot, len);
                replica.promised[stream] = replica.promised[stream].max(ballot);
                lead.decided[stream] = lead.decided[stream].max(len);
            }
            Action::Campaign(node) => state.leads.push(Lead {
                node: node as u8,
                leading: false,
                promises: Default::default(),
                log: Default::default(),
                taken: [0; STREAMS],
                base: 0,
                executed: Vec::new(),
                decided: [0; STREAMS],
            }),
            Action::Promise(ballot, stream, node) => {
                let tail = state.replicas[node].accepted[stream];
                state.replicas[node].promised[stream] = ballot;
                state.lead_mut(ballot).promises[node][stream] = Some(tail);
            }
            Action::Lead(ballot) => self.lead(state, ballot),
            Action::Crash(node) => {
                state.replicas[node].up = false;
                state.crashes += 1;
            }
            Action::Forget(node) => {
                state.replicas[node] =
                    Replica { up: true, promised: [0; STREAMS], accepted: [(0, 0); STREAMS] };
            }
        }
    }

    fn seal(&self, state: &mut State, ballot: Ballot, stream: usize) {
        let lead = state.lead_mut(ballot);
        let (closed, other) = (lead.clock(), 1 - stream);
        let quiet = !lead.has_open(other) || self.is(Mistake::RashClaim);
        let claim = (quiet && lead.sealed(other) < closed).then_some(lead.log[other].len() as u8);
        lead.log[stream].push(Entry::Batch { epoch: ballot, closed, claim });
        state.hold_all(ballot, stream);
    }

    fn lead(&self, state: &mut State, ballot: Ballot) {
        let promises = std::mem::take(&mut state.lead_mut(ballot).promises);
        let complete = || promises.iter().filter(|tails| tails.iter().all(Option::is_some));
        let written = |tail: Tail, stream: usize| -> &[Entry] {
            match tail {
                Some((of, len)) if of > 0 => &state.leads[of as usize - 1].log[stream][..len as usize],
                _ => &[],
            }
        };
        let mut log: [Vec<Entry>; STREAMS] = Default::default();
        let mut high = 0;
        for (stream, log) in log.iter_mut().enumerate() {
            let rank = |tail: &Tail| match *tail {
                Some((of, len)) if self.is(Mistake::LongestLog) => (len, of),
                Some(tail) => tail,
                None => (0, 0),
            };
            let tails = complete().map(|tails| tails[stream]);
            *log = written(tails.max_by_key(rank).flatten(), stream).to_vec();
            for tail in complete().map(|tails| tails[stream]) {
                let closed = written(tail, stream).iter().map(|entry| match entry {
                    Entry::Change { base, .. } => *base,
                    Entry::Batch { closed, .. } => *closed,
                });
                high = high.max(closed.max().unwrap_or(0));
            }
        }
        let lead = state.lead_mut(ballot);
        lead.leading = true;
        lead.base = high + 1;
        lead.taken = [log[0].len() as u8, log[1].len() as u8];
        lead.log = log;
        for stream in 0..STREAMS {
            let base = state.lead(ballot).base;
            state.lead_mut(ballot).log[stream].push(Entry::Change { epoch: ballot, base });
            state.hold_all(ballot, stream);
        }
    }
}
