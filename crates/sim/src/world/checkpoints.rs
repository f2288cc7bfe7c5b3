//! Checkpoints of simulated machines: scans that take their time while everything else goes on, and publications.

use highwater_core::{Library, NodeId};
use highwater_engines::{CheckpointNews, CheckpointOrder, Nanos};

use super::World;
use super::disk::{Publication, Scan};
use super::event::Event;
use crate::network::Channel;
use crate::stage::Input;
use crate::units::MS;

/// A chunk takes so long at most, and so does a publication.
const STEP: Nanos = MS;
/// Bytes of a chunk, at most.
const CHUNK_BYTES: u64 = 2_000;
/// Somebody wants a checkpoint after one in so many syncs.
const WANTED_ONE_IN: u64 = 40;

impl<L: Library> World<L> {
    /// A disk has synced: now and then its machine wants a checkpoint.
    pub(super) fn want_checkpoint(&mut self, id: NodeId) {
        if self.disks.one_in(WANTED_ONE_IN) {
            self.tell_of_checkpoint(id, CheckpointNews::Wanted);
        }
    }

    /// What a controller wants done about a checkpoint.
    pub(super) fn take_orders(&mut self, id: NodeId, orders: Vec<CheckpointOrder>) {
        for order in orders {
            let workers = self.options.workers;
            let node = &mut self.nodes[id.0 as usize];
            match order {
                CheckpointOrder::Scan { number, floor } => {
                    let replica = node.replica.as_ref().expect("its controller just had a turn");
                    let store = replica.controller.store();
                    let parts = (0..workers).map(|part| store.export(part.into(), workers.into())).collect();
                    let newest = Default::default();
                    node.disk.publication = None;
                    node.disk.scan = Some(Scan { number, floor, parts, chunks: Vec::new(), newest });
                    self.plan_checkpoint(id, number);
                }
                CheckpointOrder::Publish { number, complete_at, engine, released, anew } => {
                    if trims_before_published() {
                        node.disk.trim(&node.disk.synced_of(released.clone()), workers);
                    }
                    node.disk.publication = Some(Publication { complete_at, engine, released, anew });
                    self.plan_checkpoint(id, number);
                }
                CheckpointOrder::Abandon(_) => {
                    (node.disk.scan, node.disk.publication) = (None, None);
                    self.mark("checkpoints given up");
                }
            }
        }
    }

    fn plan_checkpoint(&mut self, id: NodeId, number: u64) {
        let at = self.now + 1 + self.disks.below(STEP);
        let life = self.nodes[id.0 as usize].life;
        self.queue.push(at, Event::Checkpoint { node: id, life, number });
    }

    /// The machine goes on with its checkpoint: reads a chunk, or publishes.
    pub(super) fn go_on_with_checkpoint(&mut self, id: NodeId, life: u64, number: u64) {
        let (budget, keep, fails) =
            (1 + self.disks.below(CHUNK_BYTES), 1 + self.disks.below(2) as usize, self.disks.one_in(20));
        let workers = self.options.workers;
        let node = &mut self.nodes[id.0 as usize];
        if node.life != life || node.replica.is_none() {
            return;
        }
        let Some(scan) = node.disk.scan.take_if(|scan| scan.number == number) else { return };
        if let Some(publication) = node.disk.publication.take() {
            if fails {
                return self.tell_of_checkpoint(id, CheckpointNews::Failed(number));
            }
            node.disk.publish(scan, publication, keep, workers);
            self.mark("checkpoints published");
            return self.tell_of_checkpoint(id, CheckpointNews::Published(number));
        }
        let mut scan = scan;
        let more = scan.step(budget as usize);
        let newest = scan.newest;
        node.disk.scan = Some(scan);
        if more {
            self.plan_checkpoint(id, number);
        } else {
            self.tell_of_checkpoint(id, CheckpointNews::Scanned { number, newest });
        }
    }

    fn tell_of_checkpoint(&mut self, id: NodeId, news: CheckpointNews) {
        let now = self.now;
        self.nodes[id.0 as usize].slot(Channel::Control).inbox.push(Input::Checkpoint(news));
        self.schedule(id, Channel::Control, now);
    }
}

/// Whether a host removes the log that a checkpoint stands for before it is there: never.
#[cfg(feature = "planted")]
fn trims_before_published() -> bool {
    highwater_core::planted::on(&highwater_engines::planted::TrimmedBeforePublished)
}

#[cfg(not(feature = "planted"))]
fn trims_before_published() -> bool {
    false
}
