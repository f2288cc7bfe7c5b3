//! A machine's disk, as its replica sees it: records, in the order of writing, and how many of them are surely there.
//!
//! How records come to bytes and back, and what befalls the bytes, is the journal's business, with tests of its own. Here a crash
//! leaves what was synced, and of the rest what comes before some point.

use bytes::Bytes;
use highwater_core::{Library, NodeId};
use highwater_engines::{LogPosition, Nanos, Replica};

use super::World;
use super::event::Event;
use crate::network::Channel;
use crate::random::Random;
use crate::stage::Input;
use crate::units::MS;

/// One machine's disk.
#[derive(Default)]
pub(super) struct Disk {
    records: Vec<(Channel, Bytes)>,
    /// How many of them survive a crash.
    synced: usize,
    /// It is at work.
    syncing: bool,
    /// Of each worker: bytes of its records that were written in this life, and are synced.
    positions: Vec<u64>,
}

/// How long it takes to sync, at most; one in a hundred takes thirty times as long.
const SYNC: Nanos = 2 * MS;

impl Disk {
    pub fn append(&mut self, who: Channel, records: impl IntoIterator<Item = Bytes>) {
        self.records.extend(records.into_iter().map(|record| (who, record)));
    }

    /// The power is gone.
    pub fn crash(&mut self, random: &mut Random) {
        let unsynced = self.records.len() - self.synced;
        self.records.truncate(self.synced + random.below(unsynced as u64 + 1) as usize);
        (self.synced, self.syncing) = (self.records.len(), false);
        self.positions.fill(0);
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Hands a new process what it wrote.
    ///
    /// # Panics
    /// If it does not know its own records.
    pub fn recover(&self, replica: &mut Replica, now: Nanos) {
        for (who, record) in &self.records {
            let known = match who {
                Channel::Worker(at) => replica.workers[*at as usize].recover(record.clone()),
                Channel::Control => replica.controller.recover(record.clone()),
            };
            known.unwrap_or_else(|why| panic!("a record of its own is refused: {why}"));
        }
        replica.workers.iter_mut().for_each(|worker| worker.recovered());
        replica.controller.recovered(now);
    }

    fn take_position(&mut self, upto: usize, workers: u16) -> Vec<Option<u64>> {
        self.positions.resize(workers as usize, 0);
        let before = self.positions.clone();
        for (who, record) in &self.records[self.synced..upto] {
            if let Channel::Worker(at) = who {
                self.positions[*at as usize] += record.len() as u64;
            }
        }
        self.synced = upto;
        self.syncing = false;
        let moved = before.into_iter().zip(&self.positions);
        moved.map(|(before, now)| (*now > before).then_some(*now)).collect()
    }
}

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

    /// Power fails everywhere at once.
    pub fn cut_power(&mut self) {
        self.ids().for_each(|id| self.kill(id));
    }
}
