//! Whom to ask: learnt from what nodes answer.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// More nodes than a cluster has: what is learnt beyond replaces what was learnt first.
const MAX_NODES: usize = 64;

#[derive(Debug)]
struct Known {
    nodes: Vec<String>,
    /// Those that were named; they are never forgotten.
    named: usize,
    /// Who leads, by what was heard last.
    leader: Option<String>,
    /// Whom to ask next, if nobody is known to lead.
    next: usize,
}

/// The nodes of a cluster, for all requests of a client.
#[derive(Debug)]
pub struct Topology(Mutex<Known>);

impl Topology {
    /// At first everybody may lead.
    pub fn new(nodes: &[String]) -> Topology {
        Topology(Mutex::new(Known { nodes: nodes.to_vec(), named: nodes.len(), leader: None, next: 0 }))
    }

    /// Whom to ask now.
    pub fn leader(&self) -> String {
        let known = self.lock();
        known.leader.clone().unwrap_or_else(|| known.nodes[known.next % known.nodes.len()].clone())
    }

    /// All, those that do not lead first: whom readers ask. `turn` says with whom to begin.
    pub fn readers(&self, turn: usize) -> Vec<String> {
        let known = self.lock();
        let mut nodes = known.nodes.clone();
        let count = nodes.len();
        nodes.rotate_left(turn % count);
        nodes.sort_by_key(|node| Some(node) == known.leader.as_ref());
        nodes
    }

    /// That node took a request.
    pub fn served(&self, node: &str) {
        let mut known = self.lock();
        if known.leader.as_deref() != Some(node) {
            known.leader = Some(node.to_string());
        }
    }

    /// `node` says that `leader` leads, or that nobody does.
    pub fn referred(&self, node: &str, leader: Option<&str>) {
        let mut known = self.lock();
        match leader {
            Some(leader) => {
                known.learn(leader);
                known.leader = Some(leader.to_string());
            }
            None => known.give_up(node),
        }
    }

    /// That node does not answer.
    pub fn failed(&self, node: &str) {
        self.lock().give_up(node);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The next one is behind it. What was heard of another one stays.
    fn give_up(&mut self, node: &str) {
        if self.leader.as_deref().is_some_and(|leader| leader != node) {
            return;
        }
        self.leader = None;
        let at = self.nodes.iter().position(|known| known == node);
        self.next = at.map_or(self.next, |at| at + 1) % self.nodes.len();
    }

    fn learn(&mut self, node: &str) {
        if self.nodes.iter().any(|known| known == node) {
            return;
        }
        if self.nodes.len() >= MAX_NODES.max(self.named + 1) {
            self.nodes.remove(self.named);
        }
        self.nodes.push(node.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_named_is_asked_and_then_the_next() {
        let topology = Topology::new(&["a:1".into(), "b:1".into()]);
        assert_eq!(topology.leader(), "a:1");
        topology.referred("a:1", Some("c:1"));
        assert_eq!(topology.leader(), "c:1");
        assert_eq!(topology.readers(0), ["a:1", "b:1", "c:1"]);
        assert_eq!(topology.readers(1), ["b:1", "a:1", "c:1"]);
        // Somebody else's trouble says nothing of the leader.
        topology.failed("a:1");
        assert_eq!(topology.leader(), "c:1");
        topology.failed("c:1");
        assert_eq!(topology.leader(), "a:1", "the one behind the last");
        topology.referred("a:1", None);
        assert_eq!(topology.leader(), "b:1");
        topology.served("b:1");
        topology.failed("b:1");
        assert_eq!(topology.leader(), "c:1");
        for port in 0..200 {
            topology.referred("c:1", Some(&format!("d:{port}")));
        }
        assert_eq!(topology.readers(0).len(), MAX_NODES);
        assert!(topology.readers(0).contains(&"b:1".to_string()), "what was named stays");
    }
}
