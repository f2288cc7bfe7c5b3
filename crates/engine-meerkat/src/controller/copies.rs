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
