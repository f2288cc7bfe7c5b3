//! What operators ask of a node over RESP, and its host knows: slow transactions, latencies, hot keys.

use super::command::Opcode;
use crate::meter::histogram::POWERS;
use crate::meter::hot::HotKey;
use crate::meter::slow::Slow;

/// What the host of the door keeps.
pub trait Operations: Send + Sync {
    /// The last slow transactions, the latest first.
    fn slow(&self, most: usize) -> Vec<Slow>;
    /// How many are kept.
    fn slow_len(&self) -> usize;
    /// Forgets them.
    fn reset_slow(&self);
    /// Those since the latencies were last reset, the latest first.
    fn watched(&self) -> Vec<Slow>;
    /// Resets the latencies; whether there was anything.
    fn reset_watched(&self) -> bool;
    /// From how many microseconds on a transaction is slow; `None`: none is.
    fn slower_than_us(&self) -> Option<u64>;
    /// How many commands of this kind were ever taken.
    fn calls(&self, command: Opcode) -> u64;
    /// How long requests took whose command this is, from submission to release, by powers of two microseconds.
    fn latency_of(&self, command: Opcode) -> [u64; POWERS];
    /// The keys with most conflicts, the hottest first.
    fn hot_keys(&self) -> Vec<HotKey>;
    /// Forgets them.
    fn reset_hot_keys(&self);
}

/// A host that keeps nothing.
pub struct Nothing;

impl Operations for Nothing {
    fn slow(&self, _: usize) -> Vec<Slow> {
        Vec::new()
    }

    fn slow_len(&self) -> usize {
        0
    }

    fn reset_slow(&self) {}

    fn watched(&self) -> Vec<Slow> {
        Vec::new()
    }

    fn reset_watched(&self) -> bool {
        false
    }

    fn slower_than_us(&self) -> Option<u64> {
        None
    }

    fn calls(&self, _: Opcode) -> u64 {
        0
    }

    fn latency_of(&self, _: Opcode) -> [u64; POWERS] {
        [0; POWERS]
    }

    fn hot_keys(&self) -> Vec<HotKey> {
        Vec::new()
    }

    fn reset_hot_keys(&self) {}
}
