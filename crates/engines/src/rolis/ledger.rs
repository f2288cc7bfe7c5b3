//! The controller's book of what each node's store may use, and uses: kept on every node, so that who begins to lead knows.

use std::collections::BTreeMap;

use highwater_consensus::Voter;
use highwater_core::NodeId;

use super::control::Control;
use super::controller::RolisController;
use crate::memory::{Told, most_for};
use crate::seam::Nanos;

/// What the nodes said.
#[derive(Debug, Default)]
pub struct Ledger {
    others: BTreeMap<NodeId, (Voter, Told)>,
    /// How often this node has told the others, and what it said it used and may use.
    number: u64,
    used: u64,
    budget: u64,
    /// When.
    told_at: Nanos,
}

/// A node says what it uses again after so many heartbeats: the last message may be lost.
const REPEAT: u64 = 25;
/// What it uses has changed if it did by this part of its budget.
const NOTICEABLE: u64 = 256;

impl Ledger {
    /// What a node's store used when it last said so.
    pub fn used_by(&self, node: NodeId) -> Option<u64> {
        self.others.get(&node).map(|(_, told)| told.used)
    }

    /// Takes what a node said, unless it said something later.
    pub fn hear(&mut self, from: Voter, told: Told) {
        let known = self.others.get(&from.node);
        if known.is_none_or(|(life, known)| *life != from || known.number < told.number) {
            self.others.insert(from.node, (from, told));
        }
    }
}

impl RolisController {
    /// Tells the others what this node's store uses if that has changed, and finds out what a leader's may come to.
    pub(super) fn turn_memory(&mut self, now: Nanos) {
        let (budget, used) = (self.shared.account.store, self.store.used());
        let heartbeat = self.shared.options.heartbeat;
        let since = now.saturating_sub(self.ledger.told_at);
        let changed =
            used.abs_diff(self.ledger.used) > budget / NOTICEABLE || self.ledger.budget != self.budget_now();
        if budget < u64::MAX && (changed && since >= heartbeat || since >= REPEAT * heartbeat) {
            self.ledger.told_at = now;
            let peers: Vec<NodeId> = self.peers.keys().copied().collect();
            peers.into_iter().for_each(|peer| self.tell_memory(peer));
        }
        // A node that is cut off counts while it votes; another life of it, or one that may yet copy, when it is there.
        let members = self.election.members();
        let counts = |voter: &Voter| {
            self.voter(voter.node) == Some(*voter) || members.is_some_and(|members| members.contains(*voter))
        };
        let told = || self.ledger.others.values().filter(|(voter, _)| counts(voter)).map(|(_, told)| *told);
        let own = self.shared.options.max_transaction_bytes as u64;
        let transaction = told().map(|told| told.transaction).fold(own, u64::min);
        self.shared.account.set_most(most_for(used, budget, told()), transaction);
    }

    /// What this node's store may use, if it holds data or is about to: a learner without a store limits nobody.
    fn budget_now(&self) -> u64 {
        let empty = !self.election.votes() && self.rejoin.must_not_follow();
        if empty { u64::MAX } else { self.shared.account.store }
    }

    /// Tells a node what this one's store may use, and uses.
    pub(super) fn tell_memory(&mut self, peer: NodeId) {
        if self.shared.account.store == u64::MAX {
            return;
        }
        let budget = self.budget_now();
        let transaction = self.shared.options.max_transaction_bytes as u64;
        self.ledger.number += 1;
        (self.ledger.used, self.ledger.budget) = (self.store.used(), budget);
        let told = Told { number: self.ledger.number, budget, used: self.ledger.used, transaction };
        self.out.push((peer, Control::Memory(told)));
    }
}
