//! What a machine's disk holds, read as `highwater recover` and a restored backup read it: without its replica.

use std::sync::Arc;

use highwater_core::{Library, NodeId, Schema, StreamId, Timestamp};
use highwater_engine_rolis::remains::{Remains, Trust};
use highwater_seam::Resume;
use highwater_store::{Applier, Importer, Store};

use super::World;
use super::disk::{Checkpoint, Disk};
use crate::network::Channel;

/// A disk's files, from one of its checkpoints on.
pub struct DiskRemains {
    checkpoint: Option<Checkpoint>,
    remains: Remains,
    schema: Schema,
}

impl Disk {
    /// How many checkpoints there are.
    fn checkpoints(&self) -> usize {
        self.checkpoints.len()
    }

    /// Whether the last but one of them and the records behind it are enough.
    pub(super) fn can_spare_newest(&self, workers: u16) -> bool {
        let older = self.checkpoints().checked_sub(2);
        older
            .is_some_and(|older| !self.checkpoints[older].rotten && self.can_begin_from(workers, Some(older)))
    }

    /// Whether one of them, or the beginning, and the records behind it are enough.
    pub(super) fn can_begin_from(&self, workers: u16, checkpoint: Option<usize>) -> bool {
        self.read(workers, checkpoint).is_ok()
    }

    /// From one of them, or from the beginning.
    fn read(&self, workers: u16, checkpoint: Option<usize>) -> Result<(Option<Checkpoint>, Remains), String> {
        let checkpoint = checkpoint.map(|at| self.checkpoints[at].clone());
        let resume = checkpoint.as_ref().map(|checkpoint| Resume {
            floor: checkpoint.floor,
            complete_at: checkpoint.complete_at,
            engine: &checkpoint.engine,
            positions: &checkpoint.released,
        });
        let mut remains = Remains::new(workers.into(), resume)?;
        for (who, position, record) in &self.records {
            let writer = match who {
                Channel::Worker(at) => usize::from(*at),
                Channel::Control => usize::from(workers),
            };
            if checkpoint.as_ref().is_none_or(|checkpoint| *position > checkpoint.released[writer]) {
                remains.take(writer, record.clone())?;
            }
        }
        remains.finish()?;
        // Its log would count beside others; of a moment it says nothing.
        remains.lacks_state().map_or(Ok(()), |why| Err(why.to_string()))?;
        Ok((checkpoint, remains))
    }
}

impl DiskRemains {
    /// The first and the last moment that can be had of what is trusted.
    pub fn moments(&self, trust: Trust) -> Result<(Timestamp, Timestamp), String> {
        let reading = self.remains.read(trust)?;
        Ok((reading.earliest(), reading.latest()))
    }

    /// What a new cluster begins from: the best of these disks, with what others have more of.
    ///
    /// # Errors
    /// If there is none, or a part of a log is on none of them.
    pub fn best(mut disks: Vec<DiskRemains>) -> Result<DiskRemains, String> {
        let held =
            |disk: &DiskRemains| disk.moments(Trust::Accepted).map_or(Timestamp(0), |(_, latest)| latest);
        let best = Remains::best(disks.iter().map(|disk| (&disk.remains, held(disk))));
        let mut best = disks.swap_remove(best.ok_or("no disk can be read")?);
        let others: Vec<&Remains> = disks.iter().map(|disk| &disk.remains).collect();
        let taken = best.remains.take_best(&others);
        if taken.short > 0 { Err(format!("{} stream(s) have a gap", taken.short)) } else { Ok(best) }
    }

    /// The state of a moment.
    pub fn state_at(&self, trust: Trust, moment: Timestamp) -> Result<Arc<Store>, String> {
        let reading = self.remains.read(trust)?;
        let store = Store::new(self.schema.clone());
        if let Some(checkpoint) = &self.checkpoint {
            let mut importer = Importer::new(store.clone());
            for chunk in checkpoint.chunks.iter() {
                importer.import(chunk).expect("a checkpoint of its own");
            }
        }
        let mut applier = Applier::new(store.clone());
        for stream in 0..self.remains.entries().len() {
            reading.install(StreamId(stream as u16), &mut applier, moment)?;
        }
        drop(applier);
        Ok(store)
    }
}

impl<L: Library> World<L> {
    /// A disk's files, from each of its checkpoints on; from the beginning if there are none. Without those that lead nowhere: after
    /// them the replica copied a state.
    pub fn disk_remains(&self, id: NodeId) -> Vec<DiskRemains> {
        let node = &self.nodes[id.0 as usize];
        // What stands before damage is true, but not all that there is.
        if !self.durable || node.disk.is_empty() || node.disk.base().is_err() {
            return Vec::new();
        }
        let read = |checkpoint| {
            let (checkpoint, remains) = node.disk.read(self.options.workers, checkpoint).ok()?;
            Some(DiskRemains { checkpoint, remains, schema: self.library.schema() })
        };
        match node.disk.checkpoints() {
            0 => read(None).into_iter().collect(),
            count => {
                let whole = (0..count).filter(|at| !node.disk.checkpoints[*at].rotten);
                whole.filter_map(|at| read(Some(at))).collect()
            }
        }
    }
}
