//! What can happen next, and what comes of it.

use super::*;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A leader writes in a stream.
    Write(Ballot, usize),
    /// A node takes the next entry of a stream, or the whole of what was taken over.
    Accept(Ballot, usize, usize),
    /// It learns how much of that is decided.
    Learn(Ballot, usize, usize),
    /// It hears the leader of an open epoch, and so who its members are.
    Hear(Ballot, usize),
    /// A stranger copies the state.
    Copy(usize),
    /// Somebody stands; for a change of its own, or for none.
    Stand(usize, Option<Change>),
    Promise(Ballot, usize),
    Win(Ballot),
    Open(Ballot),
}

impl Bounds {
    /// Node 0 leads epoch 1, everybody who votes has its beginning, knows it to be decided, and has everything before.
    pub fn start(&self) -> State {
        let members = Members { epoch: 1, voters: self.voters, removed: 0 };
        let log = vec![Entry::Change(members)];
        let replica = |node: usize| {
            let votes = self.voters & bit(node) != 0;
            let accepted = if votes { (1, 1) } else { (0, 0) };
            Replica { promised: 1, accepted: [accepted; 2], known: [accepted.1; 2], members, complete: votes }
        };
        let held = std::array::from_fn(|node| u8::from(self.voters & bit(node) != 0));
        let first = Lead {
            node: 0,
            phase: Phase::Opened,
            change: None,
            promises: [None; NODES],
            log: [log.clone(), log],
            taken: [0; STREAMS],
            members,
            quorums: vec![members],
            held: [held; STREAMS],
            decided: [1; STREAMS],
            knows: [0; STREAMS],
        };
        State { replicas: std::array::from_fn(replica), leads: vec![first] }
    }

    /// Those who vote, or may.
    fn nodes(&self) -> impl Iterator<Item = usize> + Clone {
        let all = self
            .changes
            .iter()
            .filter_map(|change| change.admits)
            .fold(self.voters, |all, node| all | bit(node));
        (0..NODES).filter(move |node| all & bit(*node) != 0)
    }

    pub fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        let newest = state.leads.len() as Ballot;
        if self.normal && state.leads.len() == self.ballots && state.lead(newest).phase >= Phase::Leads {
            return;
        }
        for ballot in if self.normal { newest } else { 1 }..=newest {
            steps.extend([Step::Win(ballot), Step::Open(ballot)]);
            for node in self.nodes() {
                steps.extend([Step::Promise(ballot, node), Step::Hear(ballot, node)]);
                for stream in 0..STREAMS {
                    steps.extend([Step::Accept(ballot, stream, node), Step::Learn(ballot, stream, node)]);
                }
            }
            steps.extend((0..STREAMS).map(|stream| Step::Write(ballot, stream)));
        }
        steps.extend(self.nodes().map(Step::Copy));
        if self.normal && state.lead(newest).phase == Phase::Stands {
            return;
        }
        for node in self.nodes() {
            steps.push(Step::Stand(node, None));
            steps.extend(self.changes.iter().map(|change| Step::Stand(node, Some(*change))));
        }
    }

    /// The state behind a step; `None` if it cannot be made.
    pub fn step(&self, before: &State, step: Step) -> Option<State> {
        let may = match step {
            Step::Write(ballot, _) => {
                let wrote = |stream: &Vec<Entry>| {
                    stream.iter().filter(|entry| **entry == Entry::Batch(ballot)).count()
                };
                let lead = before.lead(ballot);
                self.serves(before, ballot) && lead.log.iter().map(wrote).sum::<usize>() < self.batches
            }
            Step::Accept(ballot, stream, node) => self.may_accept(before, ballot, stream, node),
            Step::Learn(ballot, stream, node) => {
                let replica = &before.replicas[node];
                let (held, len) = replica.accepted[stream];
                held == ballot
                    && replica.promised == ballot
                    && replica.known[stream] < len.min(before.lead(ballot).decided[stream])
            }
            Step::Hear(ballot, node) => {
                let replica = &before.replicas[node];
                let news = replica.members.epoch < ballot || replica.promised < ballot;
                self.serves(before, ballot) && replica.promised <= ballot && news
            }
            Step::Copy(node) => {
                let serves = |ballot| self.serves(before, ballot);
                !before.replicas[node].complete && (1..=before.leads.len() as Ballot).any(serves)
            }
            Step::Stand(node, change) => {
                before.leads.len() < self.ballots && self.may_stand(before, node, change)
            }
            Step::Promise(ballot, node) => {
                before.replicas[node].promised < ballot && before.lead(ballot).phase == Phase::Stands
            }
            Step::Win(ballot) => {
                let lead = before.lead(ballot);
                lead.phase == Phase::Stands && before.replicas[lead.node].promised == ballot
            }
            Step::Open(ballot) => self.may_open(before, ballot),
        };
        let mut state = may.then(|| before.clone())?;
        let made = self.make(&mut state, step);
        made.then(|| {
            self.forget(&mut state);
            state
        })
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn reached(&self, quorums: &[Members], agree: Nodes) -> bool {
        quorums.iter().all(|members| members.reached(agree, self.mistake))
    }

    /// Whether a ballot's epoch is open, and its leader has heard of no other.
    fn serves(&self, state: &State, ballot: Ballot) -> bool {
        let lead = state.lead(ballot);
        lead.phase == Phase::Opened && state.replicas[lead.node].promised == ballot
    }

    pub fn may_accept(&self, state: &State, ballot: Ballot, stream: usize, node: usize) -> bool {
        let (lead, replica) = (state.lead(ballot), &state.replicas[node]);
        let (held, len) = replica.accepted[stream];
        let news = held < ballot || held == ballot && (len as usize) < lead.log[stream].len();
        let follows =
            replica.complete || replica.members.voters & bit(node) != 0 || self.is(Mistake::Incomplete);
        lead.phase >= Phase::Leads && lead.node != node && replica.promised <= ballot && news && follows
    }

    /// Who votes and has everything may stand at any time; for a change, whoever serves and has let everything be decided.
    fn may_stand(&self, state: &State, node: usize, change: Option<Change>) -> bool {
        let replica = &state.replicas[node];
        let complete = |node: usize| state.replicas[node].complete || self.is(Mistake::Incomplete);
        let able = replica.members.voters & bit(node) != 0 && complete(node);
        let Some(change) = change else { return able };
        let ballot = replica.promised;
        let lead = state.lead(ballot);
        let quiet = (0..STREAMS).all(|stream| lead.decided[stream] as usize == lead.log[stream].len());
        let comes =
            |node: usize| (lead.members.voters | lead.members.removed) & bit(node) == 0 && complete(node);
        let goes = |other: usize| lead.members.voters & bit(other) != 0 && other != node;
        able && lead.node == node
            && self.serves(state, ballot)
            && quiet
            && change.admits.is_none_or(comes)
            && change.removes.is_none_or(goes)
    }

    /// The epoch has begun in every stream, decided, and a quorum knows.
    fn may_open(&self, state: &State, ballot: Ballot) -> bool {
        let lead = state.lead(ballot);
        let known = |stream: usize| {
            let begun = lead.decided[stream] > lead.taken[stream];
            let knows = lead.knows[stream] | bit(lead.node);
            begun && self.reached(&lead.quorums, knows)
        };
        let at_work = lead.phase == Phase::Leads && state.replicas[lead.node].promised == ballot;
        at_work && (0..STREAMS).all(known)
    }

    /// Whether it could be made.
    fn make(&self, state: &mut State, step: Step) -> bool {
        match step {
            Step::Write(ballot, stream) => {
                state.leads[ballot as usize - 1].log[stream].push(Entry::Batch(ballot));
                self.hold_all(state, ballot, stream);
            }
            Step::Accept(ballot, stream, node) => {
                let lead = &mut state.leads[ballot as usize - 1];
                let replica = &mut state.replicas[node];
                let (held, len) = replica.accepted[stream];
                let len = if held == ballot { len + 1 } else { lead.taken[stream] };
                replica.accepted[stream] = (ballot, len);
                replica.promised = ballot;
                lead.held[stream][node] = lead.held[stream][node].max(len);
                self.decide(state, ballot, stream);
            }
            Step::Learn(ballot, stream, node) => {
                let decided = state.lead(ballot).decided[stream].min(state.replicas[node].accepted[stream].1);
                self.learn(state, stream, node, decided);
                let lead = &mut state.leads[ballot as usize - 1];
                if decided > lead.taken[stream] {
                    lead.knows[stream] |= bit(node);
                }
            }
            Step::Hear(ballot, node) => {
                let members = state.lead(ballot).members;
                let replica = &mut state.replicas[node];
                replica.promised = ballot;
                replica.members = replica.members.max(members);
            }
            Step::Copy(node) => state.replicas[node].complete = true,
            Step::Stand(node, change) => {
                state.leads.push(Lead {
                    node,
                    phase: Phase::Stands,
                    change,
                    promises: [None; NODES],
                    log: Default::default(),
                    taken: [0; STREAMS],
                    members: Members { epoch: 0, voters: 0, removed: 0 },
                    quorums: Vec::new(),
                    held: Default::default(),
                    decided: [0; STREAMS],
                    knows: [0; STREAMS],
                });
                let ballot = state.leads.len() as Ballot;
                self.promise(state, ballot, node);
            }
            Step::Promise(ballot, node) => self.promise(state, ballot, node),
            Step::Win(ballot) => return self.win(state, ballot),
            Step::Open(ballot) => {
                let lead = &mut state.leads[ballot as usize - 1];
                lead.phase = Phase::Opened;
                lead.quorums = vec![lead.members];
                let (node, members) = (lead.node, lead.members);
                state.replicas[node].members = state.replicas[node].members.max(members);
            }
        }
        true
    }

    fn promise(&self, state: &mut State, ballot: Ballot, node: usize) {
        let replica = &mut state.replicas[node];
        replica.promised = ballot;
        let Replica { accepted, known, members, .. } = *replica;
        state.leads[ballot as usize - 1].promises[node] = Some(Promise { accepted, known, members });
    }

    /// See `Election::on_promise`: a majority of every membership that may be in force.
    fn win(&self, state: &mut State, ballot: Ballot) -> bool {
        let lead = state.lead(ballot);
        let promises: Vec<Promise> = lead.promises.iter().flatten().copied().collect();
        let newest =
            promises.iter().map(|promise| promise.members).chain(decided_by_all_accounts(state, &promises));
        let newest = newest.max().expect("its own is there");
        let mut pending: Vec<Members> =
            promises.iter().flat_map(|promise| changes(state, promise)).map(|(_, to, _)| to).collect();
        pending.retain(|members| members.epoch > newest.epoch);
        pending.sort_unstable();
        let latest = pending.last().copied().unwrap_or(newest);
        let mut quorums = vec![newest];
        pending.into_iter().for_each(|members| and(&mut quorums, members));
        if self.is(Mistake::OldNotAsked) {
            quorums = vec![latest];
        }
        let promised =
            (0..NODES).filter(|node| lead.promises[*node].is_some()).fold(0, |all, node| all | bit(node));
        if newest.voters & bit(lead.node) == 0 || !self.reached(&quorums, promised) {
            return false;
        }
        let members = match lead.change {
            Some(change) => latest.changed(ballot, change),
            None => Members { epoch: ballot, ..latest },
        };
        and(&mut quorums, members);
        if self.is(Mistake::UsedEarly) {
            quorums = vec![members];
        }
        let second = self.changes.iter().find(|other| Some(**other) != lead.change);
        let second = match (lead.change, second) {
            (Some(_), Some(other)) if self.is(Mistake::TwoAtOnce) => latest.changed(ballot, *other),
            _ => members,
        };
        let best = |stream: usize| {
            promises.iter().map(|promise| promise.accepted[stream]).max().expect("its own is there")
        };
        let log = [0, 1].map(|stream| state.log(stream, best(stream)).to_vec());
        let lead = &mut state.leads[ballot as usize - 1];
        (lead.phase, lead.promises, lead.members, lead.quorums) =
            (Phase::Leads, [None; NODES], members, quorums);
        lead.taken = [0, 1].map(|stream: usize| log[stream].len() as u8);
        lead.log = log;
        lead.log[0].push(Entry::Change(members));
        lead.log[1].push(Entry::Change(second));
        (0..STREAMS).for_each(|stream| self.hold_all(state, ballot, stream));
        true
    }

    /// A leader holds all that it wrote.
    fn hold_all(&self, state: &mut State, ballot: Ballot, stream: usize) {
        let lead = &mut state.leads[ballot as usize - 1];
        let (node, len) = (lead.node, lead.log[stream].len() as u8);
        lead.held[stream][node] = len;
        state.replicas[node].accepted[stream] = (ballot, len);
        self.decide(state, ballot, stream);
    }

    /// See `Quorums::largest_reached`. The leader knows at once.
    fn decide(&self, state: &mut State, ballot: Ballot, stream: usize) {
        let lead = state.lead(ballot);
        let holds = |len: u8| {
            (0..NODES).filter(|node| lead.held[stream][*node] >= len).fold(0, |all, node| all | bit(node))
        };
        let lens = lead.decided[stream]..=lead.log[stream].len() as u8;
        let decided = lens.rev().find(|len| self.reached(&lead.quorums, holds(*len)));
        let (node, decided) = (lead.node, decided.unwrap_or(0).max(lead.decided[stream]));
        state.leads[ballot as usize - 1].decided[stream] = decided;
        if state.replicas[node].accepted[stream].0 == ballot {
            self.learn(state, stream, node, decided);
        }
    }

    /// What it knows of its log; and so perhaps of a membership.
    fn learn(&self, state: &mut State, stream: usize, node: usize, decided: u8) {
        let replica = &mut state.replicas[node];
        replica.known[stream] = replica.known[stream].max(decided);
        let Replica { accepted, known, members, .. } = *replica;
        let decided = |stream: usize| {
            let entries =
                state.log(stream, (accepted[stream].0, known[stream].min(accepted[stream].1))).iter();
            entries.filter_map(|entry| match entry {
                Entry::Change(members) => Some(*members),
                Entry::Batch(_) => None,
            })
        };
        let both = decided(0).filter(|members| decided(1).any(|other| other == *members)).max();
        state.replicas[node].members = both.map_or(members, |both| members.max(both));
    }

    /// Drops what no later step and no judge asks for: of ballots from which nobody can take anything any more.
    fn forget(&self, state: &mut State) {
        for at in 0..state.leads.len() {
            let ballot = at as Ballot + 1;
            if state.replicas.iter().all(|replica| replica.promised > ballot)
                && state.leads[at].phase != Phase::Opened
            {
                let lead = &mut state.leads[at];
                if lead.phase == Phase::Stands {
                    lead.promises = [None; NODES];
                }
                (lead.held, lead.knows, lead.quorums) = (Default::default(), [0; STREAMS], Vec::new());
            }
            let lead = &mut state.leads[at];
            if lead.phase == Phase::Opened {
                lead.knows = [0; STREAMS];
            }
        }
    }
}

/// Requires a majority of these, too.
fn and(quorums: &mut Vec<Members>, members: Members) {
    if quorums.iter().all(|set| set.voters != members.voters) {
        quorums.push(members);
    }
}

/// The changes in a promise's logs that its voter does not know to be decided in every stream: in which stream, to what, and whether
/// it is known to be decided there.
fn changes<'a>(state: &'a State, promise: &'a Promise) -> impl Iterator<Item = (usize, Members, bool)> + 'a {
    (0..STREAMS).flat_map(move |stream| {
        let log = state.log(stream, promise.accepted[stream]).iter().enumerate();
        log.filter_map(move |(at, entry)| match entry {
            Entry::Change(to) if to.epoch > promise.members.epoch => {
                Some((stream, *to, at < promise.known[stream] as usize))
            }
            _ => None,
        })
    })
}

/// See `Election::decided_by_all_accounts`.
fn decided_by_all_accounts(state: &State, promises: &[Promise]) -> Vec<Members> {
    let mut known: Vec<(Members, [Ballot; STREAMS])> = Vec::new();
    for (stream, to, _) in
        promises.iter().flat_map(|promise| changes(state, promise)).filter(|(.., decided)| *decided)
    {
        let at = known.iter().position(|(members, _)| members.is_like(&to)).unwrap_or_else(|| {
            known.push((to, [0; STREAMS]));
            known.len() - 1
        });
        known[at].1[stream] = known[at].1[stream].max(to.epoch);
    }
    let everywhere = known.into_iter().filter_map(|(members, decided)| {
        let oldest = decided[0].min(decided[1]);
        (oldest > 0).then_some(Members { epoch: oldest, ..members })
    });
    everywhere.collect()
}
