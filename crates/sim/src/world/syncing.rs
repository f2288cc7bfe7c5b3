//! Disks at work: what was written is brought down, and whoever wrote it is told.

use highwater_core::{Library, NodeId};
use highwater_engines::{LogPosition, Nanos};

use super::World;
use super::disk::Disk;
use super::event::Event;
use crate::network::Channel;
use crate::stage::Input;
use crate::units::MS;

/// How long it takes to sync, at most; one in a hundred takes thirty times as long.
const SYNC: Nanos = 2 * MS;

impl<L: Library> World<L> {
    /// Has a disk bring down what was written, unless it is at it already.
    pub(super) fn sync(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0 as usize];
        let (upto, life) = (node.disk.records.len(), node.life);
        if node.disk.syncing || node.disk.synced == upto {
            return;
        }
        node.disk.syncing = true;
        let slow = if self.disks.one_in(100) { 30 } else { 1 };
        let at = self.now + 1 + self.disks.below(slow * SYNC);
        self.queue.push(at, Event::Synced { node: id, life, upto });
    }

    /// It has.
    pub(super) fn synced(&mut self, id: NodeId, life: u64, upto: usize) {
        let (now, workers) = (self.now, self.options.workers);
        let node = &mut self.nodes[id.0 as usize];
        if node.life != life || node.replica.is_none() {
            return;
        }
        let moved = node.disk.take_position(upto, workers);
        for (at, position) in moved.into_iter().enumerate() {
            let Some(position) = position else { continue };
            let who = Channel::Worker(at as u16);
            // The thread takes it in with its next turn.
            self.nodes[id.0 as usize].slot(who).inbox.push(Input::Synced(LogPosition(position)));
            self.schedule(id, who, now);
        }
        self.sync(id);
    }

    /// Whether the replicas have disks.
    pub fn durable(&self) -> bool {
        self.durable
    }

    /// Ends a process, and its disk with it.
    pub fn wipe(&mut self, id: NodeId) {
        self.kill(id);
        self.nodes[id.0 as usize].disk = Disk::default();
    }

    /// Power fails everywhere at once.
    pub fn cut_power(&mut self) {
        self.ids().for_each(|id| self.kill(id));
    }
}
