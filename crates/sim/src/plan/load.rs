//! What clients ask for in a run.

use highwater_seam::Nanos;
use highwater_seam::options::MIN_TRANSACTION_BYTES;
use serde::{Deserialize, Serialize};

use super::machines::Sizes;

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Each has one open transaction at most.
    pub clients: u16,
    /// All together start this many; fewer if they have to wait.
    pub transactions: u32,
    /// How many keys of a kind are in use at a time; few make conflicts.
    pub keys: u32,
    /// A key is left for a fresh one after so many appends.
    pub appends_per_key: u32,
    /// Operations per transaction, at most.
    pub operations: u32,
    /// Of a hundred operations on lists, rows and registers, how many only read.
    pub read_percent: u8,
    /// A client that hears nothing for this long, in ns, gives its request up: outcome unknown.
    pub patience_ns: Nanos,
    /// How the kinds of work are weighed.
    pub mix: Mix,
    /// Which workers have work.
    pub workers: Busy,
    /// One in so many requests goes to any replica instead of the leader; 0 for none.
    pub astray: u16,
    /// Of a hundred requests, how many only read, on the snapshot of any replica.
    #[serde(default)]
    pub snapshot_percent: u8,
    /// Of a hundred of those, how many ask for freshness: by a bound or a token.
    #[serde(default)]
    pub fresh_percent: u8,
    /// How large blobs are.
    #[serde(default)]
    pub sizes: Sizes,
    /// Further clients that count, each in a counter of its own, under a session: they repeat what was not answered.
    #[serde(default)]
    pub counters: u8,
    /// Further clients that coordinate their transactions themselves.
    #[serde(default)]
    pub delegates: u8,
    /// Further clients that send up to 64 transactions over one connection without waiting.
    #[serde(default)]
    pub pipelines: u8,
}

impl Load {
    /// What the largest transaction that clients ask for has in the log, in bytes: its blobs with the longest keys, and as
    /// much as anything else needs.
    pub(crate) fn largest_transaction(&self) -> usize {
        let keys = self.operations as usize * (highwater_core::limits::MAX_KEY_BYTES + 64);
        let blobs = self.sizes.largest_transaction(self.operations) as usize;
        let all = MIN_TRANSACTION_BYTES + if blobs > 0 { blobs + keys } else { 0 };
        all.min(highwater_core::limits::MAX_TRANSACTION_BYTES)
    }
}

/// Weights; 0 leaves a kind out. See [`library`](crate::library) for what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    pub lists: u8,
    pub rows: u8,
    pub registers: u8,
    pub toggles: u8,
    pub bank: u8,
    pub audit: u8,
    #[serde(default)]
    pub blobs: u8,
    /// Scans of toggles alone: drawn for none, set where they are looked for.
    #[serde(default, skip_serializing_if = "none")]
    pub glances: u8,
}

fn none(weight: &u8) -> bool {
    *weight == 0
}

impl Mix {
    /// In the order of the fields.
    pub fn weights(&self) -> [u8; 8] {
        let Mix { lists, rows, registers, toggles, bank, audit, blobs, glances } = *self;
        [lists, rows, registers, toggles, bank, audit, blobs, glances]
    }
}

/// Which workers have work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Busy {
    /// Any, at every request.
    Any,
    /// Each client has its own.
    Home,
    /// A few for a while, then others: streams fall silent and wake.
    Few,
}
