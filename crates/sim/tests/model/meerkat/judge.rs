//! What must hold in every state.

use super::*;

impl Bounds {
    /// The first promise that is broken.
    pub fn judge(&self, state: &State) -> Result<(), &'static str> {
        let said = |tx: usize| state.txs[tx].said;
        if (0..self.intents.len()).any(|tx| said(tx) == outcome::COMMIT | outcome::ABORT) {
            return Err("a transaction has two outcomes");
        }
        let committed = (0..self.intents.len()).filter(|tx| said(*tx) == outcome::COMMIT);
        let committed: Set = committed.fold(0, |all, tx| all | bit(tx));
        for tx in members(committed) {
            let Tx { versions, after, .. } = state.txs[tx];
            for key in members(self.intents[tx].reads) {
                let earlier = committed & (bit(tx) - 1);
                let newest = self.version(earlier, key);
                let absent = self.is_absent(newest, key) && self.is_absent(versions[key], key);
                if newest != versions[key] && !absent {
                    return Err("a committed read did not see the newest write before it");
                }
            }
            if after >> (tx + 1) != 0 {
                return Err("a transaction is before one that was answered before it began");
            }
        }
        for replica in state.replicas.iter().filter(|replica| replica.standing != Standing::Outside) {
            let before = |tx: &usize| (1..replica.epoch).contains(&state.txs[*tx].epoch);
            if members(committed).filter(before).any(|tx| replica.installed & bit(tx) == 0) {
                return Err("a replica begins an epoch without what committed before");
            }
        }
        for replica in state.replicas.iter().filter(|replica| replica.standing != Standing::Outside) {
            let under_way = |tx: &usize| {
                let record = replica.records[*tx];
                replica.epoch == state.txs[*tx].epoch && record.known && record.outcome.is_none()
            };
            if (0..self.intents.len()).filter(under_way).any(|tx| state.txs[tx].closed) {
                return Err("a transaction that is over everywhere is under way again");
            }
        }
        for attempts in &state.attempts {
            let mut chosen = attempts.iter().filter(|attempt| self.is_chosen(attempt));
            let first = chosen.next().and_then(|attempt| attempt.proposal);
            if chosen.any(|attempt| attempt.proposal != first) {
                return Err("a change of epoch has two results");
            }
        }
        Ok(())
    }

    /// Whether a majority has accepted the result of an attempt.
    pub fn is_chosen(&self, attempt: &Attempt) -> bool {
        attempt.proposal.is_some() && attempt.by.count_ones() >= self.majority()
    }
}

impl State {
    /// The same with nodes in another order, if those that coordinate nothing are like in another one: the first of all these.
    pub fn like(&self, nodes: usize, intents: &[Intent]) -> State {
        let fixed = intents.iter().fold(0, |all, intent| all | bit(intent.node));
        let free: Vec<usize> = (0..nodes).filter(|node| fixed & bit(*node) == 0).collect();
        let orders: &[&[usize]] = match free.len() {
            0 | 1 => return *self,
            2 => &[&[1, 0]],
            _ => &[&[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]],
        };
        let renamed = |order: &&[usize]| {
            let mut to: [usize; NODES] = std::array::from_fn(|node| node);
            order.iter().enumerate().for_each(|(at, other)| to[free[at]] = free[*other]);
            self.renamed(&to)
        };
        orders.iter().map(renamed).fold(*self, Ord::min)
    }

    /// The same where each node is called otherwise.
    fn renamed(&self, to: &[usize; NODES]) -> State {
        let set = |of: Set| members(of).fold(0, |all, node| all | bit(to[node]));
        let mut other = State { wiped: set(self.wiped), ..*self };
        for (node, at) in to.iter().enumerate() {
            other.replicas[*at] = self.replicas[node];
        }
        for (tx, before) in other.txs.iter_mut().zip(&self.txs) {
            (tx.yes, tx.no) = (set(before.yes), set(before.no));
            for view in 0..VIEWS {
                tx.accepted[view] = set(before.accepted[view]);
                for (node, at) in to.iter().enumerate() {
                    tx.promises[view][*at] = before.promises[view][node];
                }
            }
        }
        for (attempt, before) in other.attempts.iter_mut().flatten().zip(self.attempts.iter().flatten()) {
            attempt.by = set(before.by);
            for (node, at) in to.iter().enumerate() {
                attempt.promises[*at] = before.promises[node];
            }
            if let Some(change) = &mut attempt.proposal {
                (change.voters, change.learners) = (set(change.voters), set(change.learners));
            }
        }
        other
    }
}
