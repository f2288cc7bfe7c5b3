//! A machine's disk, as its replica sees it: records, in the order of writing, and how many of them are surely there.
//!
//! How records come to bytes and back, and what befalls the bytes, is the journal's business, with tests of its own. Here a crash
//! leaves what was synced, and of the rest what comes before some point.

use bytes::Bytes;
use highwater_core::Random;
use highwater_engines::{Nanos, Replica};

use crate::network::Channel;

/// One machine's disk.
#[derive(Default)]
pub(super) struct Disk {
    pub records: Vec<(Channel, Bytes)>,
    /// How many of them survive a crash.
    pub synced: usize,
    /// It is at work.
    pub syncing: bool,
    /// Of each worker: bytes of its records that were written in this life, and are synced.
    positions: Vec<u64>,
}

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

    /// What was written up to here is synced: where that moves each worker.
    pub fn take_position(&mut self, upto: usize, workers: u16) -> Vec<Option<u64>> {
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
