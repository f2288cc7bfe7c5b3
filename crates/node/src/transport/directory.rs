//! Where the nodes are: names to addresses.
//!
//! A literal address is known at once. Host names are resolved by a thread of their own, again and again, because a
//! resolver may take seconds, a peer's name may not exist before its machine does, and it may move.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use highwater_core::NodeId;

/// The peer addresses of all nodes, by id.
#[derive(Debug, Default)]
pub struct Directory {
    known: Mutex<BTreeMap<NodeId, (String, Option<SocketAddr>)>>,
    resolves: AtomicBool,
}

const RESOLVE_EVERY: Duration = Duration::from_secs(1);

impl Directory {
    /// Knows the literal addresses among `names`, and learns the others.
    pub fn new(names: impl IntoIterator<Item = (NodeId, String)>) -> Arc<Directory> {
        let directory = Arc::<Directory>::default();
        names.into_iter().for_each(|(node, name)| directory.set(node, name));
        directory
    }

    /// A node is there from now on.
    pub fn set(self: &Arc<Directory>, node: NodeId, name: String) {
        let address: Option<SocketAddr> = name.parse().ok();
        {
            let mut known = self.known();
            if known.get(&node).is_some_and(|(before, _)| *before == name) {
                return;
            }
            known.insert(node, (name, address));
        }
        if address.is_none() && !self.resolves.swap(true, Ordering::Relaxed) {
            let weak = Arc::downgrade(self);
            let spawned = std::thread::Builder::new().name("resolver".into()).spawn(move || resolve(&weak));
            spawned.expect("the system has room for a thread");
        }
    }

    /// Where a node is, if that is known.
    pub fn get(&self, node: NodeId) -> Option<SocketAddr> {
        self.known().get(&node).and_then(|(_, address)| *address)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<NodeId, (String, Option<SocketAddr>)>> {
        self.known.lock().expect("nobody panics while holding the directory")
    }
}

/// Runs until the directory is dropped.
fn resolve(directory: &Weak<Directory>) {
    while let Some(directory) = directory.upgrade() {
        let names: Vec<_> = directory.known().iter().map(|(node, (name, _))| (*node, name.clone())).collect();
        for (node, name) in names.into_iter().filter(|(_, name)| name.parse::<SocketAddr>().is_err()) {
            if let Some(address) = name.to_socket_addrs().ok().and_then(|mut found| found.next())
                && let Some((current, known)) = directory.known().get_mut(&node)
                && *current == name
            {
                *known = Some(address);
            }
        }
        drop(directory);
        std::thread::sleep(RESOLVE_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_known_at_once() {
        let directory =
            Directory::new([(NodeId(0), "127.0.0.1:7100".into()), (NodeId(1), "[::1]:7101".into())]);
        assert_eq!(directory.get(NodeId(0)), Some(([127, 0, 0, 1], 7100).into()));
        assert_eq!(directory.get(NodeId(1)).unwrap().port(), 7101);
        assert_eq!(directory.get(NodeId(2)), None);
        directory.set(NodeId(1), "127.0.0.1:7105".into());
        assert_eq!(directory.get(NodeId(1)).unwrap().port(), 7105, "it moved");
    }
}
