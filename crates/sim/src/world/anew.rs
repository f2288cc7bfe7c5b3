//! The power fails everywhere, and a new cluster begins from what the disks hold, as with `highwater recover`: the state is computed and
//! the founders' disks are made by the code that does it there. Other nodes of the old cluster come back with the disks that they had.
//!
//! A cluster has an id, and connections between nodes of different clusters are refused, as the handshake of the node refuses them. The
//! simulated founding draws a new one; that is all that keeps the two apart.
//!
//! Every disk is there, so nothing that was acknowledged is lost: clients go on, and their history is judged as one.

use std::sync::{Arc, Weak};

use highwater_core::{Incarnation, Library, NodeId, Timestamp};
use highwater_engine_rolis::remains::{Trust, Voter, founding};
use highwater_seam::LogPosition;
use highwater_store::Store;

use super::World;
use super::disk::{Checkpoint, Disk};
use super::remains::DiskRemains;
use crate::network::Channel;

/// Bytes of a checkpoint's chunk.
const CHUNK_BYTES: usize = 64 << 10;

impl Disk {
    /// What `highwater recover` writes: a checkpoint of a state, and a journal that says so and has the membership.
    fn founded(store: &Arc<Store>, moment: Timestamp, workers: u16, voters: Vec<Voter>) -> Disk {
        let (engine, records) = founding(workers, voters, moment);
        let mut chunks = Vec::new();
        let mut export = store.export(0, 1);
        loop {
            let mut chunk = Vec::new();
            let more = export.next_chunk(CHUNK_BYTES, &mut chunk);
            chunks.push(chunk);
            if !more {
                break;
            }
        }
        chunks.retain(|chunk| !chunk.is_empty());
        let released = vec![LogPosition(0); usize::from(workers) + 1];
        let of = Weak::new();
        let (chunks, floor, complete_at) = (Arc::new(chunks), moment, moment);
        let (rotten, known) = (false, false);
        let checkpoint = Checkpoint { of, chunks, floor, complete_at, engine, released, rotten, known };
        let mut disk = Disk::default();
        disk.checkpoints.push(checkpoint);
        disk.append(0, Channel::Control, workers, records);
        disk.bring_down(workers);
        disk
    }
}

impl<L: Library> World<L> {
    /// Ends all processes and founds a new cluster of the first so many nodes. None of them is up then.
    ///
    /// # Errors
    /// If no disk can be read. The power has failed all the same.
    pub fn found_anew(&mut self, founders: u8) -> Result<(), String> {
        self.cut_power();
        let (store, moment) = self.recover_state()?;
        let workers = self.options.workers;
        let life = |_| Incarnation(self.random.bits().max(1));
        let lives: Vec<Incarnation> = (0..founders).map(life).collect();
        let voters =
            lives.iter().zip(0..).map(|(life, node)| Voter { node: NodeId(node), incarnation: *life });
        let voters: Vec<Voter> = voters.collect();
        self.cluster += u64::from(!keeps_the_id());
        for voter in &voters {
            let node = &mut self.nodes[voter.node.0 as usize];
            node.disk = Disk::founded(&store, moment, workers, voters.clone());
            (node.incarnation, node.cluster) = (voter.incarnation, self.cluster);
        }
        self.options.nodes = founders;
        self.known = self.founders();
        self.orders.clear();
        self.stage.watch.borrow_mut().begin_anew(self.options.engine, self.known);
        self.mark("clusters founded anew");
        Ok(())
    }

    /// The best of all disks, with what others have more of, up to the last moment of it.
    fn recover_state(&self) -> Result<(Arc<Store>, Timestamp), String> {
        let newest = |id| self.disk_remains(id).pop();
        let best = DiskRemains::best(self.ids().filter_map(newest).collect())?;
        let (_, latest) = best.moments(Trust::Accepted)?;
        Ok((best.state_at(Trust::Accepted, latest)?, latest))
    }

    /// Everybody's machine, be it of this cluster or of one that is over.
    pub(super) fn machines(&self) -> impl Iterator<Item = NodeId> + use<L> {
        (0..self.nodes.len() as u8).map(NodeId)
    }

    /// Nodes of a cluster that is over.
    pub(crate) fn old_nodes(&self) -> impl Iterator<Item = NodeId> {
        let known = self.known;
        let old = move |id: &NodeId| known >> id.0 & 1 == 0 && self.nodes[id.0 as usize].life > 0;
        self.machines().filter(old)
    }
}

/// Whether a founding keeps the old cluster's id: never.
#[cfg(feature = "planted")]
fn keeps_the_id() -> bool {
    highwater_core::planted::on(&highwater_seam::planted::ClusterIdKept)
}

#[cfg(not(feature = "planted"))]
fn keeps_the_id() -> bool {
    false
}
