//! Who was refused at the peer port, and why: what the log and `highwater status` say of it.
//!
//! A node that says its name is complained of once for each reason. Who did not get as far as that is known by its address only; anybody may
//! come from many, so there is a bound to how many addresses are remembered and how many lines are written.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use highwater_core::NodeId;
use highwater_seam::Nanos;

const SECOND: Nanos = 1_000_000_000;
/// Strangers' addresses that are remembered.
const MAX_STRANGERS: usize = 32;
/// What a stranger tries again and again is told of in the status for so long after the last time.
const STANDS: Nanos = 5 * SECOND;
/// And in the log once in so long,
const SAY_AGAIN: Nanos = 60 * SECOND;
/// where strangers have at most so many lines in that time.
const MAX_LINES: u32 = 20;

/// See the module.
#[derive(Debug, Default)]
pub struct Complaints {
    nodes: BTreeMap<NodeId, String>,
    strangers: BTreeMap<IpAddr, Stranger>,
    /// Lines about strangers since then.
    lines: (Nanos, u32),
}

#[derive(Debug)]
struct Stranger {
    why: String,
    /// When it came last, and when the log said so.
    last: Nanos,
    said: Nanos,
}

impl Complaints {
    /// A node that said its name was refused.
    pub fn of_node(&mut self, node: NodeId, from: SocketAddr, why: &str) {
        if self.nodes.get(&node).is_none_or(|before| reason(before) != why) {
            tracing::warn!("refused {node} ({from}): {why}");
        }
        self.nodes.insert(node, format!("refused {node} ({from}): {why}"));
    }

    /// It is welcome now.
    pub fn settle(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Somebody was refused who did not say, or prove, its name.
    pub fn of_stranger(&mut self, now: Nanos, from: SocketAddr, why: &str) {
        let known = self.strangers.get_mut(&from.ip());
        if let Some(known) = known.filter(|known| known.why == why && now - known.said < SAY_AGAIN) {
            known.last = now;
            return;
        }
        if self.strangers.len() >= MAX_STRANGERS {
            let oldest = self.strangers.iter().min_by_key(|(_, stranger)| stranger.last);
            let oldest = oldest.map(|(address, _)| *address);
            oldest.map(|address| self.strangers.remove(&address));
        }
        self.strangers.insert(from.ip(), Stranger { why: why.into(), last: now, said: now });
        if now - self.lines.0 >= SAY_AGAIN {
            self.lines = (now, 0);
        }
        self.lines.1 += 1;
        match self.lines.1.cmp(&MAX_LINES) {
            std::cmp::Ordering::Less => tracing::warn!("refused {from} at the peer port: {why}"),
            std::cmp::Ordering::Equal => {
                tracing::warn!(
                    "refused {from} at the peer port: {why}; more of them are not told for a minute"
                );
            }
            std::cmp::Ordering::Greater => {}
        }
    }

    /// Who was refused and was not welcome since, and why.
    pub fn standing(&self, now: Nanos) -> impl Iterator<Item = String> {
        let strangers = self.strangers.iter().filter(move |(_, stranger)| now - stranger.last < STANDS);
        let strangers = strangers.map(|(address, stranger)| format!("refused {address}: {}", stranger.why));
        self.nodes.values().cloned().chain(strangers)
    }
}

fn reason(complaint: &str) -> &str {
    complaint.split_once("): ").map_or(complaint, |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 7100).into()
    }

    #[test]
    fn strangers_are_told_of_while_they_come_and_forgotten_then() {
        let mut complaints = Complaints::default();
        let now = 1000 * SECOND;
        complaints.of_stranger(now, from(1), "no");
        complaints.of_stranger(now + 4 * SECOND, from(1), "no");
        let standing = |complaints: &Complaints, at| complaints.standing(at).collect::<Vec<_>>();
        assert_eq!(standing(&complaints, now + 8 * SECOND), ["refused 10.0.0.1: no"]);
        assert_eq!(standing(&complaints, now + 9 * SECOND), [""; 0]);
        for last in 0..=255 {
            complaints.of_stranger(now + u64::from(last), from(last), "no");
        }
        assert_eq!(complaints.strangers.len(), MAX_STRANGERS);
        assert!(complaints.lines.1 > MAX_LINES, "and only so many were written");
        complaints.of_node(NodeId(1), from(1), "other engine");
        assert!(standing(&complaints, now + 100 * SECOND) == ["refused n1 (10.0.0.1:7100): other engine"]);
        complaints.settle(NodeId(1));
        assert_eq!(standing(&complaints, now + 100 * SECOND), [""; 0]);
    }
}
