//! The nodes of a cluster that begins from a state: of those that `recover` and `backup restore` write.

use std::num::NonZeroU16;

use clap::Args;
use highwater_core::NodeId;
use highwater_core::limits::{MAX_NODE_ID, MAX_NODES};
use highwater_disk::identity::MAX_CLUSTER_BYTES;
use highwater_node::storage::founding::Founding;

use crate::failure::{Failure, Result};

/// Who they are.
#[derive(Clone, Debug, Args)]
pub struct Founders {
    /// The new cluster's nodes, by their ids (not how many); each gets a folder.
    #[arg(long, value_name = "ID,..", value_delimiter = ',', default_value = "0")]
    pub nodes: Vec<u8>,
    /// The new cluster's `cluster.workers`; as many as the old one had if absent.
    #[arg(long, value_name = "N")]
    pub workers: Option<NonZeroU16>,
}

impl Founders {
    /// Whether they were said on the command line, as far as that shows.
    pub fn are_named(&self) -> bool {
        self.nodes != [0] || self.workers.is_some()
    }

    /// The cluster of this id, and so many workers if no other number is wanted.
    pub fn founding(&self, cluster: &str, workers: NonZeroU16) -> Result<Founding> {
        let mut nodes: Vec<NodeId> = self.nodes.iter().copied().map(NodeId).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() != self.nodes.len() || nodes.is_empty() {
            return Err(Failure::usage("--nodes names each node once"));
        }
        if nodes.len() > MAX_NODES.into() || nodes.iter().any(|node| node.0 > MAX_NODE_ID) {
            let what = format!("--nodes names up to {MAX_NODES} nodes, with ids up to {MAX_NODE_ID}");
            return Err(Failure::usage(what));
        }
        let plain = !cluster.trim().is_empty() && !cluster.contains(char::is_control);
        if !plain || cluster.len() > MAX_CLUSTER_BYTES {
            let what = format!("--cluster is a name of 1 to {MAX_CLUSTER_BYTES} bytes on one line");
            return Err(Failure::usage(what));
        }
        Founding::new(cluster.into(), &nodes, self.workers.unwrap_or(workers)).map_err(Failure::usage)
    }
}
