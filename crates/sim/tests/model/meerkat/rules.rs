//! The rules that decide, as far as they are not the product's own functions.

use super::*;

/// What a coordinator may do with its votes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Settle it so at once: a bit per outcome.
    pub settles: Set,
    /// Propose this to the replicas.
    pub proposes: Set,
}

/// Rules that depend on how many replicas there are, and on the mistake.
pub struct Rules {
    pub majority: u32,
    /// By who said yes, and who said no.
    choices: Vec<Choices>,
}

impl Rules {
    pub fn new(nodes: usize, strict: bool, mistake: Option<Mistake>) -> Rules {
        let quorums = product::quorums(nodes, strict, mistake);
        let all = (0..1 << NODES).flat_map(|yes| (0..1 << NODES).map(move |no| (yes, no)));
        let heard = all.map(|(yes, no)| {
            let (yes, no): (Set, Set) = (yes, no);
            let mut choices = Choices::default();
            if yes & no == 0 && (yes | no) >> nodes == 0 {
                subsets(yes).for_each(|yes| {
                    subsets(no).for_each(|no| product::decide(quorums, yes, no, mistake, &mut choices));
                });
            }
            choices
        });
        Rules { majority: quorums.majority, choices: heard.collect() }
    }

    /// What any part of these votes decides.
    pub fn choices(&self, yes: Set, no: Set) -> Choices {
        self.choices[(yes as usize) << NODES | no as usize]
    }
}

/// All parts of a set.
pub fn subsets(set: Set) -> impl Iterator<Item = Set> {
    (0..=set).filter(move |part| part & !set == 0)
}

impl Bounds {
    pub fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    pub fn majority(&self) -> u32 {
        self.rules.majority
    }

    fn reads(&self, tx: usize, key: usize) -> bool {
        self.intents[tx].reads & bit(key) != 0
    }

    fn writes(&self, tx: usize, key: usize) -> bool {
        self.intents[tx].writes & bit(key) != 0
    }

    /// The latest of some transactions that write a key.
    pub fn version(&self, of: Set, key: usize) -> Ts {
        members(of).filter(|tx| self.writes(*tx, key)).map(ts).max().unwrap_or(0)
    }

    /// Whether any transaction deletes.
    pub fn deletes(&self) -> bool {
        self.intents.iter().any(|intent| intent.deletes != 0)
    }

    /// Whether a version of a key is no value: none was written, or the transaction deleted it.
    pub fn is_absent(&self, version: Ts, key: usize) -> bool {
        version == 0 || self.intents[version as usize - 1].deletes & bit(key) != 0
    }

    /// The version that a replica shows of a key: not a tombstone that it has collected.
    pub fn shown(&self, installed: Set, collected: Ts, key: usize) -> Ts {
        let version = self.version(installed, key);
        if version <= collected && self.is_absent(version, key) { 0 } else { version }
    }

    /// Up to when a transaction knows all writes of a key.
    fn knows(&self, state: &State, tx: usize, key: usize) -> Ts {
        state.txs[tx].versions[key].max(state.txs[tx].as_of)
    }

    /// Algorithm 1, with the product's changes: see `validate.rs` and `marks.rs`.
    pub fn is_valid(&self, state: &State, node: usize, tx: usize) -> bool {
        let replica = &state.replicas[node];
        let marked = |other: &usize| {
            let Record { vote, outcome, .. } = replica.records[*other];
            *other != tx && outcome.is_none() && matches!(vote, Vote::Yes | Vote::Withheld)
        };
        let marked = (0..self.intents.len()).filter(marked).fold(0, |all, other| all | bit(other));
        let read = |key: usize| {
            let version = self.knows(state, tx, key);
            let between = |other: usize| self.writes(other, key) && version < ts(other) && other < tx;
            let now = self.version(replica.installed, key);
            let absent = self.is(Mistake::AbsentIsAbsent)
                && now < ts(tx)
                && self.is_absent(now, key)
                && self.is_absent(state.txs[tx].versions[key], key);
            !members(marked).any(between) && (now <= version || absent)
        };
        let write = |key: usize| {
            let readers = if self.is(Mistake::ReadersUnmarked) { 0 } else { marked };
            !members(readers | replica.read).any(|other| self.reads(other, key) && other > tx)
        };
        (0..KEYS).all(|key| (!self.reads(tx, key) || read(key)) && (!self.writes(tx, key) || write(key)))
    }

    /// Whether two transactions cannot both commit: see `Payload::conflicts`.
    fn conflict(&self, state: &State, a: usize, b: usize) -> bool {
        let (first, second) = (a.min(b), a.max(b));
        let missed = |key: usize| {
            self.writes(first, key) && self.reads(second, key) && self.knows(state, second, key) < ts(first)
        };
        (0..KEYS).any(missed)
    }

    /// What the checks of algorithm 1 would say, by all that committed.
    fn coarse(&self, state: &State, tx: usize, other: usize) -> bool {
        let late = |key: usize| {
            let overwritten =
                self.reads(tx, key) && self.writes(other, key) && state.txs[tx].versions[key] < ts(other);
            overwritten || self.writes(tx, key) && self.reads(other, key) && tx < other
        };
        (0..KEYS).any(late)
    }

    /// What a change of epoch decides by these records: `merge.rs`, stated anew, for the mistakes. A test compares the two.
    pub fn merged(&self, state: &State, replies: &[[Record; TXS]]) -> [Option<bool>; TXS] {
        let known = |tx: usize| replies.iter().map(move |of| of[tx]).filter(|record| record.known);
        let valid = |tx: usize| known(tx).filter(|record| record.vote == Vote::Yes).count() as u32;
        let accepted = |tx: usize| {
            let accepted = known(tx).filter_map(|record| record.accepted).max();
            accepted.filter(|_| !self.is(Mistake::ChangeForgets)).map(|(_, commit)| commit)
        };
        let outcome = |tx: usize| known(tx).find_map(|record| record.outcome);
        let decided =
            |tx: usize| outcome(tx).or(accepted(tx)).or((valid(tx) >= self.majority()).then_some(true));
        let all = 0..self.intents.len();
        let committed: Vec<usize> = all.filter(|tx| decided(*tx) == Some(true)).collect();
        let shown =
            product::quorums(self.nodes, self.strict, self.mistake).shown_of_fast(replies.len() as u32);
        let fourth = |tx: usize| {
            let refused = |other: &usize| match self.mistake {
                Some(Mistake::NotRevalidated) => false,
                Some(Mistake::Coarse) => self.coarse(state, tx, *other),
                _ => self.conflict(state, tx, *other),
            };
            valid(tx) >= shown.max(1) && !committed.iter().any(refused)
        };
        std::array::from_fn(|tx| known(tx).next().map(|_| decided(tx).unwrap_or_else(|| fourth(tx))))
    }
}
