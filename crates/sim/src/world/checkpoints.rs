//! Checkpoints of simulated machines: scans that take their time while everything else goes on, and publications.
//!
//! Some scans stand still before they begin, as they do behind one that is long: what they find comes when their replica leads no more, say.
//!
//! A publication waits for the disk. Most take a moment, some so long that much happens meanwhile: its replica falls behind, copies a state,
//! and what is published then is of the store before. Whatever engine it is, a voter that speaks of no copy has its store on its
//! disk ([`World::check_kept`]).

use std::sync::Arc;

use highwater_core::{Library, NodeId};
use highwater_seam::{CheckpointNews, CheckpointOrder, Nanos, Service};

use super::World;
use super::disk::{Publication, Scan};
use super::event::Event;
use super::node::Node;
use crate::network::Channel;
use crate::stage::Input;
use crate::units::MS;

/// A chunk takes so long at most, and so do most publications.
const STEP: Nanos = MS;
/// One publication in so many waits for a slow disk,
const SLOW_ONE_IN: u64 = 4;
/// and takes so many election timeouts at most.
const SLOW_TIMEOUTS: u64 = 20;
/// One scan in so many stands still,
const SLOW_SCAN_ONE_IN: u64 = 8;
/// for so many election timeouts at most.
const SLOW_SCAN_TIMEOUTS: u64 = 8;
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
                    let of = Arc::downgrade(&store);
                    node.disk.publication = None;
                    node.disk.scan = Some(Scan { number, of, floor, parts, chunks: Vec::new(), newest });
                    let slow = self.disks.one_in(SLOW_SCAN_ONE_IN) && !self.publishes_promptly;
                    let most = if slow { SLOW_SCAN_TIMEOUTS * self.election_timeout } else { STEP };
                    self.plan_checkpoint(id, number, most);
                }
                CheckpointOrder::Publish { number, complete_at, engine, released, anew } => {
                    if trims_before_published() {
                        node.disk.trim(&node.disk.synced_of(released.clone()), workers);
                    }
                    node.disk.publication = Some(Publication { complete_at, engine, released, anew });
                    let slow = self.disks.one_in(SLOW_ONE_IN) && !self.publishes_promptly;
                    let most = if slow { SLOW_TIMEOUTS * self.election_timeout } else { STEP };
                    self.plan_checkpoint(id, number, most);
                }
                CheckpointOrder::Abandon(_) => {
                    (node.disk.scan, node.disk.publication) = (None, None);
                    self.mark("checkpoints given up");
                }
            }
        }
    }

    /// No publication waits for a slow disk any more, nor does one that is under way: whoever wants to see what comes of a cluster whose
    /// faults are over says so, as to the [network](crate::network::Network::heal). Or they wait again.
    pub fn publish_promptly(&mut self, promptly: bool) {
        self.publishes_promptly = promptly;
        let under_way =
            |node: &Node| node.disk.publication.as_ref().and(node.disk.scan.as_ref()).map(|scan| scan.number);
        let all: Vec<_> =
            self.ids().filter_map(|id| Some((id, under_way(&self.nodes[usize::from(id.0)])?))).collect();
        // The step that was planned finds nothing left to do.
        all.into_iter().filter(|_| promptly).for_each(|(id, number)| self.plan_checkpoint(id, number, STEP));
    }

    /// It goes on after so long at most, and what each sync of the disk takes beside.
    fn plan_checkpoint(&mut self, id: NodeId, number: u64, most: Nanos) {
        let at = self.now + 1 + self.nodes[id.0 as usize].disk.slowness + self.disks.below(most);
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
        if node.disk.hung || node.disk.holds_checkpoints {
            return node.disk.untold.push(Event::Checkpoint { node: id, life, number });
        }
        let Some(scan) = node.disk.scan.take_if(|scan| scan.number == number) else { return };
        if let Some(publication) = node.disk.publication.take() {
            if fails || node.disk.lacks.is_some() {
                return self.tell_of_checkpoint(id, CheckpointNews::Failed(number));
            }
            let late = node.replica.as_ref().is_some_and(|replica| !scan.is_of(&replica.controller.store()));
            node.disk.publish(scan, publication, keep, workers);
            self.mark("checkpoints published");
            if late {
                self.mark("checkpoints published of a store that was replaced");
            }
            return self.tell_of_checkpoint(id, CheckpointNews::Published(number));
        }
        let mut scan = scan;
        let more = scan.step(budget as usize);
        let newest = scan.newest;
        node.disk.scan = Some(scan);
        if more {
            self.plan_checkpoint(id, number, STEP);
        } else {
            self.tell_of_checkpoint(id, CheckpointNews::Scanned { number, newest });
        }
    }

    /// A voter that does not say that it copies a state can be counted on: its store is the one with which its process began, or there is
    /// a checkpoint of it on its disk. To be called when its controller has had a turn.
    pub(super) fn check_kept(&mut self, id: NodeId) {
        let node = &self.nodes[id.0 as usize];
        let Some(replica) = node.replica.as_ref().filter(|_| self.durable) else { return };
        let store = replica.controller.store();
        if node.disk.keeps(&store) {
            return;
        }
        let status = replica.controller.status(node.clock.local(self.now));
        let votes = status.service >= Service::Standby && status.votes_by(&status);
        if votes && status.copying_bytes.is_none() {
            let what = format!(
                "{id} copied its state, and says nothing of that; no checkpoint of it is on its disk"
            );
            self.stage.watch.borrow_mut().note(what);
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
    highwater_core::planted::on(&highwater_seam::planted::TrimmedBeforePublished)
}

#[cfg(not(feature = "planted"))]
fn trims_before_published() -> bool {
    false
}
