//! Where the replicas of a fleet are, and how each is started.

use highwater_node::config::NodeConfig;
use highwater_node::free_loopback_ports;

use crate::failure::{Failure, Result};

/// Where the replicas are and how each is started.
#[derive(Clone, Debug)]
pub struct Layout {
    /// By node: all nodes' addresses as that node is told them. They differ where proxies stand between replicas.
    pub views: Vec<Vec<NodeConfig>>,
    /// By node: the words between this binary's name and `--config`.
    pub commands: Vec<Vec<String>>,
}

impl Layout {
    /// All on free loopback ports, by `highwater serve`.
    pub fn loopback(replicas: u8) -> Result<Layout> {
        let nodes = free_addresses(replicas)?;
        Ok(Layout {
            views: vec![nodes; usize::from(replicas)],
            commands: vec![vec!["serve".into()]; usize::from(replicas)],
        })
    }
}

/// Loopback addresses that nobody listens at.
fn free_addresses(replicas: u8) -> Result<Vec<NodeConfig>> {
    let ports = free_loopback_ports(3 * usize::from(replicas))
        .map_err(|error| Failure::cannot_start(format!("no free loopback ports: {error}")))?;
    let address = |port: u16| format!("127.0.0.1:{port}");
    let nodes = (0..replicas).zip(ports.chunks_exact(3)).map(|(id, ports)| NodeConfig {
        id,
        peer: address(ports[0]),
        resp: address(ports[1]),
        admin: address(ports[2]),
        announce: None,
    });
    Ok(nodes.collect())
}
