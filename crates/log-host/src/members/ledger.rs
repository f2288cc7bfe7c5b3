//! The controller's book of what each node's store may use, and uses, and whether its disk has room: kept on every node, so that who
//! begins to lead knows.

use std::collections::BTreeMap;

use highwater_consensus::{Members, Voter};
use highwater_core::NodeId;
use highwater_seam::Nanos;
use highwater_seam::memory::{Told, most_for};

use crate::control::ControlMessage;
use crate::desk::Desk;

/// What the nodes said.
#[derive(Debug, Default)]
pub struct Ledger {
    others: BTreeMap<NodeId, (Voter, Told)>,
    /// How often this node has told the others, and what it said it used and may use.
    number: u64,
    used: u64,
    budget: u64,
    disk_low: bool,
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

    /// Whether a node last said that its disk is about to be full.
    pub fn disk_is_low(&self, voter: Voter) -> bool {
        self.others.get(&voter.node).is_some_and(|(known, told)| *known == voter && told.disk_low)
    }

    /// Another process of the node may be there, which counts from 1 again, though its disk makes it the same life.
    pub fn peer_up(&mut self, node: NodeId) {
        if let Some((_, told)) = self.others.get_mut(&node) {
            told.number = 0;
        }
    }

    /// Takes what a node said, unless it said something later.
    pub fn hear(&mut self, from: Voter, told: Told) {
        let known = self.others.get(&from.node);
        if known.is_none_or(|(life, known)| *life != from || known.number < told.number) {
            self.others.insert(from.node, (from, told));
        }
    }

    /// Tells the others what this node's store uses if that has changed, and finds out what a leader's may come to; whether it told
    /// them. `empty`: it holds no data, nor is about to. `disk_low`: its disk is about to be full.
    pub fn turn(
        &mut self,
        now: Nanos,
        (used, empty): (u64, bool),
        disk_low: bool,
        members: Option<&Members>,
        desk: &mut Desk,
    ) -> bool {
        let budget = desk.shared.account.store;
        let heartbeat = desk.shared.options.heartbeat;
        let since = now.saturating_sub(self.told_at);
        let changed = used.abs_diff(self.used) > budget / NOTICEABLE
            || self.budget != budget_now(empty, desk)
            || self.disk_low != disk_low;
        let tells = has_limits(desk) && (changed && since >= heartbeat || since >= REPEAT * heartbeat);
        if tells {
            self.told_at = now;
            desk.peers().into_iter().for_each(|peer| self.tell(peer.node, (used, empty), disk_low, desk));
        }
        // A node that is cut off counts while it votes; another life of it, or one that may yet copy, when it is there.
        let counts = |voter: &Voter| {
            desk.peer(voter.node) == Some(*voter) || members.is_some_and(|members| members.contains(*voter))
        };
        let told = || self.others.values().filter(|(voter, _)| counts(voter)).map(|(_, told)| *told);
        let own = desk.shared.options.max_transaction_bytes as u64;
        let transaction = told().map(|told| told.transaction).fold(own, u64::min);
        let most = most_for(used, budget, told());
        desk.shared.account.set_most(most, transaction);
        tells
    }

    /// Tells a node what this one's store may use, and uses.
    pub fn tell(&mut self, peer: NodeId, (used, empty): (u64, bool), disk_low: bool, desk: &mut Desk) {
        if !has_limits(desk) {
            return;
        }
        let budget = budget_now(empty, desk);
        let transaction = desk.shared.options.max_transaction_bytes as u64;
        self.number += 1;
        (self.used, self.budget, self.disk_low) = (used, budget, disk_low);
        let told = Told { number: self.number, budget, used, transaction, disk_low };
        desk.send(peer, ControlMessage::Memory(told));
    }
}

/// Whether anything of this node can be used up.
fn has_limits(desk: &Desk) -> bool {
    desk.shared.account.store < u64::MAX || desk.shared.options.durability.has_disk()
}

/// What this node's store may use: a learner without a store limits nobody.
fn budget_now(empty: bool, desk: &Desk) -> u64 {
    if empty { u64::MAX } else { desk.shared.account.store }
}

#[cfg(test)]
mod tests {
    use highwater_core::Incarnation;

    use super::*;

    /// A leader that believed an earlier word would refuse what there is room for, or take what there is none for.
    #[test]
    fn an_earlier_word_on_memory_does_not_count_until_a_connection_is_new() {
        let node = NodeId(2);
        let voter = |life| Voter { node, incarnation: Incarnation(life) };
        let told = |number, used| Told { number, used, budget: 100, transaction: 1, disk_low: false };
        let mut ledger = Ledger::default();
        ledger.hear(voter(1), told(5, 50));
        ledger.hear(voter(1), told(4, 40));
        assert_eq!(ledger.used_by(node), Some(50), "it was overtaken");
        ledger.peer_up(node);
        ledger.hear(voter(1), told(1, 10));
        assert_eq!(ledger.used_by(node), Some(10), "a process that begins anew counts from 1");
        ledger.hear(voter(2), told(1, 20));
        assert_eq!(ledger.used_by(node), Some(20), "as does another life");
        assert!(!ledger.disk_is_low(voter(1)));
    }
}
