//! What a node's threads have counted, as it travels in a status: only sums since the process started, so that whoever asks
//! twice knows what came between.

use std::collections::BTreeMap;

use highwater_redis::command::Opcode;
use highwater_redis::meter::OUTCOMES;
use highwater_redis::meter::histogram::{Counts, CountsReport};
use serde::{Deserialize, Serialize};

use crate::shared::Shared;
use crate::storage::JournalQueues;

/// What workers did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkReport {
    /// Transactions whose commit was released, whoever asked.
    pub committed: u64,
    /// Those that decided to roll back.
    pub rolled_back: u64,
    /// Attempts that ended in a conflict.
    pub conflicts: u64,
    /// Requests of clients that ended, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// From the submission of a client's request to its release.
    pub latency: CountsReport,
    /// Commands taken, by family.
    pub commands: BTreeMap<String, u64>,
    /// Slow transactions.
    pub slow: u64,
    /// Keys that expired and were removed.
    pub expired: u64,
}

/// Bytes to and from a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerReport {
    pub node: u8,
    /// Bytes sent to it.
    pub sent: u64,
    /// Bytes received from it.
    pub received: u64,
}

/// What the journal did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalReport {
    /// Bytes of the disk that it took.
    pub bytes: u64,
    /// How long syncs took.
    pub syncs: CountsReport,
    /// Checkpoints published,
    pub checkpoints: u64,
    /// and those that failed.
    pub failed_checkpoints: u64,
}

impl WorkReport {
    /// Of a node.
    pub fn of(shared: &Shared) -> WorkReport {
        let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
        let (mut latency, mut commands) = (Counts::default(), BTreeMap::<String, u64>::new());
        for meter in &shared.meters {
            for ((_, name), count) in OUTCOMES.iter().zip(meter.outcomes()) {
                *outcomes.entry((*name).into()).or_default() += count;
            }
            latency.add(&meter.latency());
            for opcode in Opcode::all() {
                let count = meter.commands.taken(opcode);
                if count > 0 {
                    *commands.entry(opcode.spec().group.into()).or_default() += count;
                }
            }
        }
        WorkReport {
            committed: shared.total(|counters| &counters.committed),
            rolled_back: shared.total(|counters| &counters.rolled_back),
            conflicts: shared.total(|counters| &counters.conflicts),
            outcomes,
            latency: latency.report(),
            commands,
            slow: shared.slow.ever(),
            expired: shared.expired(),
        }
    }
}

impl PeerReport {
    /// Of all peers that there ever was a connection to.
    pub fn all(shared: &Shared) -> Vec<PeerReport> {
        let peers = shared.traffic.of_peers().into_iter();
        peers.map(|(node, (sent, received))| PeerReport { node: node.0, sent, received }).collect()
    }
}

impl JournalReport {
    /// Of a node with a disk.
    pub fn of(queues: &JournalQueues, shared: &Shared) -> JournalReport {
        let (checkpoints, failed_checkpoints) = shared.checkpoints();
        JournalReport {
            bytes: queues.taken(),
            syncs: queues.syncs().counts().report(),
            checkpoints,
            failed_checkpoints,
        }
    }
}
