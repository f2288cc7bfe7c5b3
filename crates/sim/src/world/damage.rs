//! Bytes on a machine's disk that are not what was written, though a sync said that they are there.
//!
//! Nobody notices before the node starts again. Then the rule is that of the node (`storage::survey`): it begins from the newest checkpoint whose
//! every byte is right, with the journal behind that, and the journal has to be whole. A damaged checkpoint stays where it is. A node that
//! finds nothing to begin from does not start; its operator moves the folder away, and it copies the state of the others as a new life.

use highwater_core::{Library, NodeId};
use highwater_engines::EngineKind;

use super::World;
use super::disk::Disk;
use crate::faults::Part;

/// A group at the end of a journal is taken for one that a crash tore.
const LAST: usize = 1;

impl Disk {
    /// The checkpoint from which a start begins; `None`: the journal's beginning.
    ///
    /// # Errors
    /// Why there is no start, in words.
    pub fn base(&self) -> Result<Option<usize>, &'static str> {
        if self.rotten.is_some_and(|at| at >= self.gone()) {
            return Err("the journal is damaged in the middle");
        }
        // What stands behind the oldest of them is kept, so the journal leads on from each.
        match self.checkpoints.iter().rposition(|checkpoint| !checkpoint.rotten) {
            Some(at) => Ok(Some(at)),
            None if self.gone() == 0 => Ok(None),
            None => Err(
                "none of the checkpoints can be loaded, and the journal does not go back to the beginning",
            ),
        }
    }

    /// Whether a start leads to all that the disk was relied on for. What was copied since the checkpoint from which it begins is not on the disk.
    fn leads(&self, workers: u16, engine: EngineKind) -> bool {
        match self.base() {
            Ok(base) if engine == EngineKind::Rolis => self.can_begin_from(workers, base),
            Ok(base) => base.is_none_or(|at| at + 1 == self.checkpoints.len()),
            Err(_) => false,
        }
    }

    /// Damages a part of it; whether there is enough of it.
    pub fn rot(&mut self, part: Part, draw: impl FnOnce(u64) -> u64) -> bool {
        match part {
            Part::Journal => {
                let middle = self.synced.saturating_sub(self.gone() + LAST);
                if middle > 1 {
                    self.rotten = Some(self.gone() + draw(middle as u64) as usize);
                }
                middle > 1
            }
            Part::Checkpoints(newest) => {
                let newest = self.checkpoints.iter_mut().rev().take(newest.into());
                newest.map(|checkpoint| checkpoint.rotten = true).count() > 0
            }
        }
    }

    /// The findings of a start: the damaged checkpoints that it passed.
    pub fn find_damage(&mut self, base: Option<usize>) {
        let passed = self.checkpoints.iter_mut().skip(base.map_or(0, |at| at + 1));
        passed.for_each(|checkpoint| checkpoint.known = true);
    }

    /// Takes what stands before the damage for all that there is.
    pub fn cut_at_damage(&mut self, workers: u16) {
        if let Some(at) = self.rotten.take() {
            self.records.truncate(at.saturating_sub(self.gone()));
            self.bring_down(workers);
        }
    }
}

impl<L: Library> World<L> {
    /// Damages a part of a node's disk, be its process up or not; whether there is such a part.
    pub fn rot(&mut self, id: NodeId, part: Part) -> bool {
        let World { nodes, disks, .. } = self;
        let disk = &mut nodes[usize::from(id.0)].disk;
        // Two harms at once would be more than the plan counts on.
        !disk.fails && disk.lacks.is_none() && disk.rot(part, |below| disks.below(below))
    }

    /// Whether a node that starts on its disk has all that it is relied on for.
    pub fn disk_leads(&self, id: NodeId) -> bool {
        self.nodes[usize::from(id.0)].disk.leads(self.options.workers, self.options.engine)
    }

    /// A node does not start; an operator moves its folder away.
    pub(super) fn move_away(&mut self, id: NodeId, why: &str) {
        self.log.push((self.now, id, format!("the node does not start: {why}; its folder is moved away")));
        self.mark("damaged disks that led nowhere");
        self.nodes[usize::from(id.0)].disk.empty();
    }
}

/// Whether a node takes damage in the middle of its journal for the end of it: never.
#[cfg(feature = "planted")]
pub(super) fn takes_damage_for_the_end() -> bool {
    highwater_core::planted::on(&highwater_engine_meerkat::planted::DamageCutsShort)
}

#[cfg(not(feature = "planted"))]
pub(super) fn takes_damage_for_the_end() -> bool {
    false
}
