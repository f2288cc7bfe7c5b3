//! A learner's way to the state, and a donor's part in it.
//!
//! A learner hears all outcomes from the beginning of its epoch on, and what became of everything before is in every voter's store
//! by then. So its store is complete as soon as a copy of one is installed, that was begun by a voter that had begun the
//! epoch. Deletes that it hears meanwhile leave tombstones, and none is unlinked before that: what the copy brings later is older.

use std::collections::BTreeSet;

use highwater_core::{Epoch, NodeId};
use highwater_kit::copy::CopyName;
use highwater_kit::witness::Met;
use highwater_seam::Nanos;

use super::MeerkatController;
use crate::control::{Control, Standing};
use crate::shared::Command;

/// How long a donor may take to answer, in timeouts.
const PATIENCE: u64 = 4;

/// A copy that was asked for.
pub(super) struct Copying {
    pub donor: NodeId,
    pub copy: u64,
    granted: bool,
    asked: Nanos,
    arrived: BTreeSet<u16>,
}

impl MeerkatController {
    /// Asks for a copy, if one is needed and none is on its way.
    pub(super) fn copy(&mut self, now: Nanos) {
        if self.standing != Standing::Learning || self.keeping.copied || self.installing > 0 {
            return;
        }
        let patience = PATIENCE * self.timeout();
        let waits = |copying: &Copying| copying.granted || now < copying.asked + patience;
        if self.copying.as_ref().is_some_and(waits) {
            return;
        }
        let voters = self.members.iter().flat_map(|members| &members.voters);
        let here = |node: &NodeId| self.hears(now, *node) && self.beat_of(*node).epoch >= self.epoch;
        let donors: Vec<NodeId> = voters.map(|(node, _)| *node).filter(here).collect();
        if donors.is_empty() {
            return;
        }
        let donor = self.random.pick(&donors);
        self.copies += 1;
        let copy = (self.life.0 << 20) ^ self.copies;
        self.copying = Some(Copying { donor, copy, granted: false, asked: now, arrived: BTreeSet::new() });
        self.send(donor, Control::CopyRequest { copy, epoch: self.epoch });
    }

    /// A learner wants a copy of this node's store.
    pub(super) fn on_copy_request(&mut self, from: NodeId, copy: u64, epoch: Epoch) {
        let complete = self.standing == Standing::Voting && self.is_cleared();
        if !complete || self.epoch < epoch || self.installing > 0 {
            return;
        }
        // In front of the grant: the workers know before they are asked.
        self.command(|| Command::Announce(CopyName { receiver: from, copy }));
        self.send(from, Control::CopyGrant { copy, met: self.evidence.met() });
    }

    pub(super) fn on_copy_grant(&mut self, now: Nanos, from: NodeId, copy: u64, met: Vec<Met>) {
        let Some(copying) = self.copying.as_mut().filter(|own| (own.donor, own.copy) == (from, copy)) else {
            return;
        };
        if !std::mem::replace(&mut copying.granted, true) {
            copying.asked = now;
            self.command(|| Command::Expect { donor: from, copy });
            self.learn_met(met);
        }
    }

    pub(super) fn on_copied(&mut self, worker: u16, copy: u64) {
        let Some(copying) = self.copying.as_mut().filter(|own| own.copy == copy) else { return };
        copying.arrived.insert(worker);
        if copying.arrived.len() == self.shared.options.workers as usize
            && self.standing == Standing::Learning
        {
            self.copying = None;
            self.note("has copied the state".into());
            if self.shared.options.durability.has_disk() {
                self.keeping.copied = true;
            } else {
                self.standing = Standing::Ready;
            }
        }
    }

    pub(super) fn on_stalled(&mut self, now: Nanos, copy: u64) {
        if self.copying.as_ref().is_some_and(|own| own.copy == copy) {
            self.note("a copy of the state broke off".into());
            self.copying = None;
            self.stirred = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use highwater_core::{Clock, Incarnation, Schema};
    use highwater_store::Store;

    use super::*;
    use crate::shared::Shared;
    use highwater_kit::validation::marks_of;
    use highwater_seam::options::Options;

    const DONOR: NodeId = NodeId(1);

    /// A learner that has asked for copy 1, was refused, and asked for copy 2.
    fn learner() -> MeerkatController {
        let options = Options::new(NodeId(0), 3, 1, Incarnation(10));
        let schema = Schema::new(Vec::new());
        let marks = marks_of(&schema, &options);
        let shared = Arc::new(Shared::new(options, Arc::new(Clock::counter()), false));
        let mut controller = MeerkatController::new(shared, schema.clone(), Store::new(schema), marks);
        let arrived = BTreeSet::new();
        controller.standing = Standing::Learning;
        controller.copying = Some(Copying { donor: DONOR, copy: 2, granted: false, asked: 0, arrived });
        controller
    }

    fn granted(controller: &MeerkatController) -> Option<bool> {
        controller.copying.as_ref().map(|own| own.granted)
    }

    #[test]
    fn late_answers_about_an_earlier_copy_say_nothing_of_this_one() {
        let mut controller = learner();
        controller.on_copy_grant(1, DONOR, 1, Vec::new());
        controller.on_copy_grant(1, NodeId(2), 2, Vec::new());
        assert_eq!(granted(&controller), Some(false));
        controller.on_stalled(1, 1);
        assert_eq!(granted(&controller), Some(false), "it goes on");
        controller.on_copied(0, 1);
        assert_eq!(controller.standing, Standing::Learning, "its store is the earlier copy's");
        controller.on_copy_grant(1, DONOR, 2, Vec::new());
        assert_eq!(granted(&controller), Some(true));
        controller.on_copied(0, 2);
        assert_eq!(controller.standing, Standing::Ready);
    }

    #[test]
    fn a_copy_that_broke_off_is_asked_for_again() {
        let mut controller = learner();
        controller.on_stalled(1, 2);
        assert!(controller.copying.is_none());
    }
}
