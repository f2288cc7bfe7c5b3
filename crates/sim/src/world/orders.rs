//! Operators' orders: who shall come, who shall go. Whoever gave one asks until it is done, as `highwater member` does.

use highwater_core::Library;
use highwater_seam::MemberAnswer;

use super::World;
use super::order::{Order, Voters};

impl<L: Library> World<L> {
    /// An operator gives an order. Who is to come is started, if it never was.
    pub(crate) fn order(&mut self, order: Order) {
        if let Some(stranger) = order.comes.filter(|node| self.ids().all(|known| known != *node)) {
            self.start(stranger);
        }
        self.orders.push(order);
    }

    /// Asks the leader for every order. Says which are done now.
    pub(crate) fn ask_for_orders(&mut self) -> Vec<Order> {
        let mut done = Vec::new();
        for at in 0..self.orders.len() {
            if self.orders[at].answered {
                continue;
            }
            let Some(leader) = self.leader() else { continue };
            match self.change_members(leader, self.orders[at].change()) {
                Some(MemberAnswer::Done) => {
                    self.orders[at].answered = true;
                    done.push(self.orders[at].clone());
                }
                // It may be had later, when others are back.
                Some(MemberAnswer::Refused(why)) => self.orders[at].answered = !why.contains("no majority"),
                Some(MemberAnswer::Waits(_) | MemberAnswer::Ask(_)) | None => {}
            }
        }
        if self.agreed() {
            self.orders.retain(|order| !order.answered);
        }
        done
    }

    /// Whether an operator waits for something.
    pub(crate) fn has_orders(&self) -> bool {
        self.orders.iter().any(|order| !order.answered)
    }

    /// Whether an order is not done, or not everybody knows that it is.
    pub(crate) fn expects_news(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Every membership that may follow on this one (a bit for each node), itself among them: a leader that died may have
    /// left any order done, be it known or not.
    pub(crate) fn after_orders(&self, members: u32) -> Vec<u32> {
        self.orders.iter().fold(vec![members], |all, order| {
            let with = all.iter().map(|members| order.apply(*members));
            with.chain(all.iter().copied()).collect()
        })
    }

    /// Who founded the cluster, a bit each.
    pub(crate) fn founders(&self) -> u32 {
        ((1u64 << self.options.nodes) - 1) as u32
    }

    /// Whether somebody leads, and all who vote and are up name the same voters.
    fn agreed(&self) -> bool {
        let Some(leader) = self.leader().and_then(|leader| self.status(leader)) else { return false };
        let members = leader.voters();
        let others = self.ids().filter(|id| members >> id.0 & 1 == 1).filter_map(|id| self.status(id));
        others.into_iter().all(|status| status.voters() == members)
    }
}
