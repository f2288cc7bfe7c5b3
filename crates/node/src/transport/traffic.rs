//! Bytes to and from each peer, over all connections that there were.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use highwater_core::NodeId;

use super::gauge::Gauge;
use super::{Channel, Established};

/// What went through this node's connections: the gauges of the present ones, and the sums of those before.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<BTreeMap<(NodeId, Channel), Line>>);

#[derive(Debug)]
struct Line {
    gauge: Arc<Gauge>,
    /// Sent and received over earlier connections.
    before: (u64, u64),
}

impl Line {
    fn all(&self) -> (u64, u64) {
        (self.before.0 + self.gauge.sent(), self.before.1 + self.gauge.received())
    }
}

impl Traffic {
    /// A connection begins; it is the only one of its channel.
    pub fn adopted(&self, connection: &Established) {
        let mut lines = self.lines();
        let place = (connection.peer, connection.channel);
        let before = lines.get(&place).map_or((0, 0), Line::all);
        lines.insert(place, Line { gauge: connection.gauge.clone(), before });
    }

    /// Sent to and received from each peer.
    pub fn of_peers(&self) -> BTreeMap<NodeId, (u64, u64)> {
        let mut sums: BTreeMap<NodeId, (u64, u64)> = BTreeMap::new();
        for ((peer, _), line) in &*self.lines() {
            let sum = sums.entry(*peer).or_default();
            let (sent, received) = line.all();
            (sum.0, sum.1) = (sum.0 + sent, sum.1 + received);
        }
        sums
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<(NodeId, Channel), Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
