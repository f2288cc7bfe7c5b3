//! What operators ask over RESP, out of what the node's threads keep.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::config::Config;
use crate::meter::histogram::POWERS;
use crate::meter::hot::HotKey;
use crate::meter::slow::Slow;
use crate::resp::Operations;
use crate::resp::command::Opcode;
use crate::shared::Shared;

/// A node's.
pub struct Desk {
    shared: Weak<Shared>,
    slower_than_us: Option<u64>,
    /// Slow transactions that came before are not `LATENCY`'s any more.
    watched_from: AtomicU64,
}

impl Desk {
    /// Of a node with this configuration.
    pub fn new(config: &Config, shared: &Arc<Shared>) -> Desk {
        let slower_than_us = u64::try_from(config.slowlog.slower_than_us).ok();
        Desk { shared: Arc::downgrade(shared), slower_than_us, watched_from: AtomicU64::new(0) }
    }

    fn shared(&self) -> Arc<Shared> {
        self.shared.upgrade().expect("clients are served while the node runs")
    }
}

impl Operations for Desk {
    fn slow(&self, most: usize) -> Vec<Slow> {
        self.shared().slow.latest(most)
    }

    fn slow_len(&self) -> usize {
        self.shared().slow.len()
    }

    fn reset_slow(&self) {
        self.shared().slow.reset();
    }

    fn watched(&self) -> Vec<Slow> {
        let from = self.watched_from.load(Ordering::Relaxed);
        let mut slow = self.slow(usize::MAX);
        slow.retain(|slow| slow.number >= from);
        slow
    }

    fn reset_watched(&self) -> bool {
        let had = !self.watched().is_empty();
        self.watched_from.store(self.shared().slow.ever(), Ordering::Relaxed);
        had
    }

    fn slower_than_us(&self) -> Option<u64> {
        self.slower_than_us
    }

    fn calls(&self, command: Opcode) -> u64 {
        self.shared().meters.iter().map(|meter| meter.commands.of(command)).sum()
    }

    fn latency_of(&self, command: Opcode) -> [u64; POWERS] {
        let mut sum = [0; POWERS];
        for meter in &self.shared().meters {
            let counts = meter.latency_of(command);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    fn hot_keys(&self) -> Vec<HotKey> {
        self.shared().hot_keys()
    }

    fn reset_hot_keys(&self) {
        self.shared().reset_hot_keys();
    }
}
