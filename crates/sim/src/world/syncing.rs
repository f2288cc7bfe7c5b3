//! Disks at work: what was written is brought down, and whoever wrote it is told.

use highwater_core::{Epoch, Library, NodeId};
use highwater_seam::{Nanos, Status};

use super::World;
use super::event::Event;
use crate::faults::Lack;
use crate::network::{Channel, Link};
use crate::stage::Input;
use crate::units::MS;

/// How long it takes to sync, at most; one in a hundred takes thirty times as long.
const SYNC: Nanos = 2 * MS;
/// One sync in so many needs the journal's next file.
const NEW_FILE_ONE_IN: u64 = 4;

impl<L: Library> World<L> {
    /// Has a disk bring down what was written, unless it is at it already.
    pub(super) fn sync(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0 as usize];
        let (upto, life) = (node.disk.written(), node.life);
        if node.disk.syncing || node.disk.synced == upto {
            return;
        }
        if !node.disk.take_room() {
            // What is written waits; when there is room, somebody says so.
            return;
        }
        if let Some(lack) = node.disk.lacks
            && self.disks.one_in(NEW_FILE_ONE_IN)
        {
            match lack {
                Lack::Broken => {
                    self.log.push((self.now, id, "the journal's next file cannot be opened".into()));
                    self.kill(id);
                    return self.start_later(id);
                }
                _ if counts_unopened() => node.disk.unopened = true,
                Lack::Descriptors | Lack::Room => return self.stand(id),
            }
        }
        let node = &mut self.nodes[id.0 as usize];
        node.disk.syncing = true;
        let slow = if self.disks.one_in(100) { 30 } else { 1 };
        let at = self.now + 1 + node.disk.slowness + self.disks.below(slow * SYNC);
        self.queue.push(at, Event::Synced { node: id, life, upto });
    }

    /// No file can be opened for what is to be brought down: it waits, and the replica is told as of a disk without room.
    fn stand(&mut self, id: NodeId) {
        self.nodes[id.0 as usize].disk.stands = true;
        self.mark("syncs that waited for a file");
        self.schedule(id, Channel::Control, self.now);
    }

    /// No file of a node's can be created or opened from now on, those that are open aside; or they can again.
    pub fn fail_open(&mut self, id: NodeId, lack: Option<Lack>) {
        let disk = &mut self.nodes[id.0 as usize].disk;
        (disk.lacks, disk.stands) = (lack, disk.stands && lack.is_some());
        self.schedule(id, Channel::Control, self.now);
        if self.is_up(id) {
            self.sync(id);
        }
    }

    /// It has.
    pub(super) fn synced(&mut self, id: NodeId, life: u64, upto: usize) {
        let (now, workers) = (self.now, self.options.workers);
        let synced_before = self.nodes[id.0 as usize].disk.synced;
        let node = &mut self.nodes[id.0 as usize];
        if node.life != life || node.replica.is_none() {
            return;
        }
        if node.disk.hung {
            return node.disk.untold.push(Event::Synced { node: id, life, upto });
        }
        let fails = std::mem::take(&mut node.disk.fails);
        if fails && !ignores_failed_syncs() {
            // Whether anything of it is there nobody knows: the process ends.
            self.log.push((now, id, "a sync failed".into()));
            return self.kill(id);
        }
        let moved = node.disk.take_position(upto, workers);
        if fails || std::mem::take(&mut node.disk.unopened) {
            node.disk.lose(synced_before..upto);
        }
        for (at, position) in moved.into_iter().enumerate() {
            let Some(position) = position else { continue };
            let who = Channel::Worker(at as u16);
            // The thread takes it in with its next turn.
            self.nodes[id.0 as usize].slot(who).inbox.push(Input::Synced(position));
            self.schedule(id, who, now);
        }
        self.want_checkpoint(id);
        self.sync(id);
    }

    /// Since when something was lost by replicas that may have forgotten it.
    pub fn lost_since(&mut self) -> Option<Nanos> {
        let told = self.stage.watch.borrow_mut().take_lost_since();
        self.nodes.iter().filter_map(|node| node.disk.lost_since).chain(told).min()
    }

    /// Replicas that have caught up miss nothing any more. To be called now and then.
    pub fn forget_losses(&mut self) {
        let caught_up = |world: &World<L>, id: NodeId| world.status(id).is_some_and(|status| !status.forgets);
        for id in self
            .ids()
            .filter(|id| self.nodes[usize::from(id.0)].disk.lost_since.is_some())
            .collect::<Vec<_>>()
        {
            if caught_up(self, id) {
                self.nodes[usize::from(id.0)].disk.lost_since = None;
            }
        }
    }

    /// Whether disks are behind what replicas accept.
    pub fn is_behind(&self) -> bool {
        self.behind
    }

    /// Whether the replicas have disks.
    pub fn durable(&self) -> bool {
        self.durable
    }

    /// A disk is about to be full, and takes so many bytes yet; or has room again. Its replica is told.
    pub fn fill_disk(&mut self, id: NodeId, room: Option<u64>) {
        let now = self.now;
        self.nodes[id.0 as usize].disk.room = room;
        self.schedule(id, Channel::Control, now);
        self.sync(id);
    }

    /// Every sync of a disk takes so much longer from now on.
    pub fn slow_disk(&mut self, id: NodeId, by: Nanos) {
        self.nodes[id.0 as usize].disk.slowness = by;
    }

    /// A disk answers nothing from now on, neither to the journal nor to who writes a checkpoint; or does again.
    pub fn hang_disk(&mut self, id: NodeId, hangs: bool) {
        self.nodes[id.0 as usize].disk.hung = hangs;
        self.tell_what_is_untold(id);
    }

    /// Whoever writes a node's checkpoints stands still from now on, wherever it stands; or goes on.
    pub fn hang_checkpoints(&mut self, id: NodeId, hangs: bool) {
        self.nodes[id.0 as usize].disk.holds_checkpoints = hangs;
        self.tell_what_is_untold(id);
    }

    fn tell_what_is_untold(&mut self, id: NodeId) {
        let disk = &mut self.nodes[id.0 as usize].disk;
        if !disk.hung && !disk.holds_checkpoints {
            for event in std::mem::take(&mut disk.untold) {
                self.queue.push(self.now + 1, event);
            }
        }
    }

    /// Whether a disk answers.
    pub fn disk_answers(&self, id: NodeId) -> bool {
        !self.nodes[id.0 as usize].disk.hung
    }

    /// The next sync of a disk fails, and its process ends with it.
    pub fn fail_sync(&mut self, id: NodeId) {
        self.nodes[id.0 as usize].disk.fails = true;
    }

    /// No sync fails any more.
    pub fn spare_sync(&mut self, id: NodeId) {
        self.nodes[id.0 as usize].disk.fails = false;
    }

    /// Ends a process, and its disk with it.
    pub fn wipe(&mut self, id: NodeId) {
        self.kill(id);
        self.nodes[id.0 as usize].disk.empty();
    }

    /// Nodes of which an earlier life is lost, if no node knows of a cluster: while they are there, none is born.
    pub fn barren(&self) -> Vec<NodeId> {
        let knows = |status: Status| status.epoch > Epoch(0) || !status.members.is_empty();
        if self.ids().any(|id| self.status(id).is_none_or(knows)) {
            return Vec::new();
        }
        self.ids().filter(|id| self.nodes[id.0 as usize].disk.past).collect()
    }

    /// A node's disk turned out to be stale.
    pub(super) fn set_aside(&mut self, id: NodeId, life: u64) {
        if self.nodes[id.0 as usize].life == life && self.is_up(id) {
            self.mark("stale disks that were recognised");
            self.wipe(id);
            self.nodes[id.0 as usize].disk.past = true;
            self.start(id);
        }
    }

    /// Whether there can be a copy of a node's disk that is older than its last start, and every other node knows that it is older: each of
    /// them has been connected to the node, in its present life, for so long.
    pub fn has_older_disk(&mut self, id: NodeId, met_for: Nanos) -> bool {
        let since = self.now.saturating_sub(met_for);
        let mut others = self.ids().filter(|other| *other != id);
        let met = others.all(|other| {
            let connection = self.network.get(Link::new(id, other, Channel::Control));
            connection.is_some_and(|connection| connection.alive && connection.since <= since)
        });
        met && self.nodes[id.0 as usize].disk.has_older()
    }

    /// Ends a process, and puts such a copy in the place of its disk, that was started so many times while nobody heard of it.
    pub fn restore_older(&mut self, id: NodeId, unheard: u16) {
        self.kill(id);
        let (now, workers) = (self.now, self.options.workers);
        let World { nodes, disks, .. } = self;
        let disk = &mut nodes[id.0 as usize].disk;
        disk.restore(workers, disks);
        (0..unheard).for_each(|_| disk.begin_unheard(now, workers, disks));
    }

    /// Ends a process; of its disk only the identity is left.
    pub fn lose_names(&mut self, id: NodeId) {
        self.kill(id);
        self.nodes[id.0 as usize].disk.lose_names();
    }

    /// Whether a node is down, and its disk has what it was relied on for.
    pub fn is_down_with_its_disk(&self, id: NodeId) -> bool {
        !self.is_up(id) && self.has_its_disk(id)
    }

    /// Whether there is something on a node's disk that a crash leaves there, and it is not a copy of what was there before.
    pub fn has_its_disk(&self, id: NodeId) -> bool {
        let disk = &self.nodes[id.0 as usize].disk;
        disk.synced > 0 && !disk.is_older && self.disk_leads(id)
    }

    /// Power fails everywhere at once.
    pub fn cut_power(&mut self) {
        self.ids().for_each(|id| self.kill(id));
    }
}

/// Whether a host goes on after a sync that failed: never.
#[cfg(feature = "planted")]
fn ignores_failed_syncs() -> bool {
    highwater_core::planted::on(&highwater_seam::planted::SyncErrorIgnored)
}

#[cfg(not(feature = "planted"))]
fn ignores_failed_syncs() -> bool {
    false
}

/// Whether a host takes for synced what it had no file to write to: never.
#[cfg(feature = "planted")]
fn counts_unopened() -> bool {
    highwater_core::planted::on(&highwater_seam::planted::UnopenedCounts)
}

#[cfg(not(feature = "planted"))]
fn counts_unopened() -> bool {
    false
}
