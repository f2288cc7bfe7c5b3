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
    /// There was no room for the thread that resolves, and that was said.
    unable: AtomicBool,
    /// This node's name, and where it listens for the others.
    own: Mutex<Option<(NodeId, SocketAddr)>>,
    warned: AtomicBool,
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
        if address.is_none() {
            self.resolve();
        }
    }

    /// Where a node is, if that is known.
    pub fn get(self: &Arc<Directory>, node: NodeId) -> Option<SocketAddr> {
        let address = self.known().get(&node).and_then(|(_, address)| *address);
        if address.is_none() {
            self.resolve();
        }
        address
    }

    /// Has a thread learn what the names mean, unless there is one. Where there is no room for it, that is tried again when somebody asks.
    fn resolve(self: &Arc<Directory>) {
        if self.resolves.swap(true, Ordering::Relaxed) {
            return;
        }
        let weak = Arc::downgrade(self);
        let spawned = std::thread::Builder::new().name("resolver".into()).spawn(move || resolve(&weak));
        if let Err(error) = spawned {
            self.resolves.store(false, Ordering::Relaxed);
            if !self.unable.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "cannot start the thread that finds out what names of nodes mean: {error}; it is tried again"
                );
            }
        }
    }

    /// This node listens for the others at this address.
    pub fn listens(&self, me: NodeId, address: SocketAddr) {
        *self.own.lock().expect("nobody panics while holding it") = Some((me, address));
    }

    /// Whether this node listens where only its own machine reaches it, while others are on other machines: in words, with what to do. The
    /// log has it once.
    pub fn why_unreachable(&self) -> Option<String> {
        let (me, own) = (*self.own.lock().expect("nobody panics while holding it"))?;
        if !own.ip().is_loopback() {
            return None;
        }
        let known = self.known();
        let elsewhere = known.iter().filter(|(node, _)| **node != me).find_map(|(node, (_, address))| {
            let address = (*address)?;
            (!address.ip().is_loopback()).then_some((*node, address))
        });
        let (other, address) = elsewhere?;
        let name = known.get(&me).map_or("", |(name, _)| name);
        let why = format!(
            "{me} listens for the other nodes at {own} ({name} in cluster.nodes), which only its own machine reaches, while {other} is at \
             {address}: others cannot connect. Give the name the address of this machine's network (/etc/hosts may say 127.0.1.1), or \
             write that address as this node's peer"
        );
        drop(known);
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("{why}");
        }
        Some(why)
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
        let _said = directory.why_unreachable();
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

    /// On Debian a machine's own name means 127.0.1.1. A cluster of such names never formed, and nothing said why.
    #[test]
    fn who_listens_at_loopback_while_others_are_elsewhere_is_told_so() {
        let at = |ip: [u8; 4], [first, second]: [&str; 2]| {
            let directory = Arc::<Directory>::default();
            // No name is looked up here.
            directory.resolves.store(true, Ordering::Relaxed);
            for (id, name) in ["db0:7100", first, second].into_iter().enumerate() {
                directory.set(NodeId(id as u8), name.into());
            }
            directory.listens(NodeId(0), (ip, 7100).into());
            directory.why_unreachable()
        };
        for own in [[127, 0, 0, 1], [127, 0, 1, 1]] {
            let why = at(own, ["127.0.0.1:7101", "10.0.0.2:7100"]).unwrap();
            for words in ["n0", "db0:7100", "n2", "10.0.0.2:7100", "/etc/hosts"] {
                assert!(why.contains(words), "{why}");
            }
        }
        assert_eq!(at([127, 0, 1, 1], ["127.0.0.1:7101", "db2:7100"]), None, "nothing is known of the other");
        assert_eq!(at([10, 0, 0, 1], ["127.0.0.1:7101", "10.0.0.2:7100"]), None);
        let directory =
            Directory::new([(NodeId(0), "[::1]:7100".into()), (NodeId(1), "[fd00::2]:7100".into())]);
        directory.listens(NodeId(0), "[::1]:7100".parse().unwrap());
        assert!(directory.why_unreachable().unwrap().contains("[fd00::2]:7100"));
    }
}
