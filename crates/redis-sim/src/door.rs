//! The door of a simulated node: what its connections share, without sockets, files and other nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_core::NodeId;
use highwater_redis::acl::change::News;
use highwater_redis::{Door, Procedures, Redirect, Topology, Waiting};

/// Workers that were woken: a bit each.
pub type Woken = Arc<AtomicU64>;

/// What a guest is told of where a node's door is.
pub fn address(node: NodeId) -> String {
    format!("10.0.0.{}:6379", node.0)
}

/// The node of an address.
pub fn node_at(address: &str) -> Option<NodeId> {
    address.strip_prefix("10.0.0.")?.strip_suffix(":6379")?.parse().ok().map(NodeId)
}

/// The door of one life of a node. `has_users`: nothing is known of its users before it has read them.
pub fn door(node: NodeId, procedures: Procedures, salt: u64, has_users: bool) -> (Arc<Door>, Woken) {
    let woken = Woken::default();
    let wakes = woken.clone();
    let door = Door {
        node,
        salt,
        run_id: salt,
        addresses: Box::new(|node| Some(address(node))),
        redirect: Redirect::Moved,
        topology: Box::new(|| Topology { cluster: "simulated".into(), members: Vec::new() }),
        waiting: Waiting::new(Box::new(move |worker| {
            wakes.fetch_or(1 << worker, Ordering::Relaxed);
        })),
        ..Door::bare(procedures)
    };
    if !has_users {
        // Nobody waits for the table of them.
        door.access.install(&News { whole: true, ..News::default() });
    }
    (Arc::new(door), woken)
}
