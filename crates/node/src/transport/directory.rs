//! Where the nodes are: names to addresses.
//!
//! A literal address is known at once. Host names are resolved by a thread of their own, again and again, because a
//! resolver may take seconds, a peer's name may not exist before its machine does, and it may move.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use highwater_core::NodeId;

/// The peer addresses of all nodes, by id.
#[derive(Debug)]
pub struct Directory {
    names: Vec<String>,
    addresses: Mutex<Vec<Option<SocketAddr>>>,
}

const RESOLVE_EVERY: Duration = Duration::from_secs(1);

impl Directory {
    /// Knows the literal addresses among `names`, and learns the others.
    pub fn new(names: Vec<String>) -> Arc<Directory> {
        let addresses: Vec<_> = names.iter().map(|name| name.parse().ok()).collect();
        let all_literal = addresses.iter().all(Option::is_some);
        let directory = Arc::new(Directory { names, addresses: Mutex::new(addresses) });
        if !all_literal {
            let weak = Arc::downgrade(&directory);
            let spawned = std::thread::Builder::new().name("resolver".into()).spawn(move || resolve(&weak));
            spawned.expect("the system has room for a thread");
        }
        directory
    }

    /// Where a node is, if that is known.
    pub fn get(&self, node: NodeId) -> Option<SocketAddr> {
        self.addresses.lock().expect("nobody panics while holding the directory")[node.0 as usize]
    }
}

/// Runs until the directory is dropped.
fn resolve(directory: &Weak<Directory>) {
    while let Some(directory) = directory.upgrade() {
        for (at, name) in directory.names.iter().enumerate() {
            if name.parse::<SocketAddr>().is_ok() {
                continue;
            }
            if let Some(address) = name.to_socket_addrs().ok().and_then(|mut found| found.next()) {
                directory.addresses.lock().expect("nobody panics while holding the directory")[at] =
                    Some(address);
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
        let directory = Directory::new(vec!["127.0.0.1:7100".into(), "[::1]:7101".into()]);
        assert_eq!(directory.get(NodeId(0)), Some(([127, 0, 0, 1], 7100).into()));
        assert_eq!(directory.get(NodeId(1)).unwrap().port(), 7101);
    }
}
