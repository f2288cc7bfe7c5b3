//! The controller of all three: it waits until everybody was met, and says how the replica is. Nobody is taken in, and nobody takes over.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_core::codec::Reader;
use highwater_core::{Epoch, Incarnation, Levels, NodeId};
use highwater_seam::engine::whole;
use highwater_seam::memory::MemoryStatus;
use highwater_seam::options::Options;
use highwater_seam::{ControlOutbox, Controller, Figure, Member, Nanos, Next, Service, Status};
use highwater_store::Store;

use super::node::{Cell, Node};

/// Transactions under way at a replica, by worker.
const BUSY: &str = "under way";
/// Transactions of which it has learnt what became, by worker.
const DECIDED: &str = "decided";
/// Its own that were decided in one round trip.
const FAST: &str = "fast path";
/// Its own that took two.
const SLOW: &str = "slow path";

/// The controller of a replica.
pub struct FixedController {
    node: Arc<Node>,
    store: Arc<Store>,
    /// What the others' stores may yet grow by, in bytes.
    rooms: Vec<Option<u64>>,
    next_beat: Nanos,
    /// Everybody was met, and that was said.
    whole: bool,
    broken: bool,
}

impl FixedController {
    /// Of a fresh replica.
    pub fn new(node: Arc<Node>, store: Arc<Store>) -> FixedController {
        let rooms = vec![None; node.options.nodes as usize];
        FixedController { node, store, rooms, next_beat: 0, whole: false, broken: false }
    }

    fn service(&self) -> Service {
        match self.node.cluster() {
            None => Service::Starting,
            Some(_) if self.node.serves() && !self.node.broken() => Service::Serving,
            Some(_) => Service::Standby,
        }
    }

    fn role(&self) -> &'static str {
        match self.node.primary {
            None => "replica",
            Some(primary) if primary == self.node.options.node => "primary",
            Some(_) => "backup",
        }
    }

    fn trouble(&self) -> Option<String> {
        if self.node.broken() {
            let what =
                "a node lost its memory, and this engine cannot go on without it: start all nodes afresh";
            return Some(what.into());
        }
        let missing = self.node.lives().iter().position(Option::is_none);
        missing.map(|node| format!("waits for node {node}"))
    }

    /// Every replica installs what all coordinators write: they share what the smallest has left, as Meerkat's do.
    fn beat(&mut self, now: Nanos, out: &mut ControlOutbox) -> Next {
        let memory = self.memory();
        let (options, limit) = (&self.node.options, memory.shares.store);
        if limit == u64::MAX {
            return Next::Idle;
        }
        if now >= self.next_beat {
            self.next_beat = now + options.heartbeat;
            let room = limit.saturating_sub(memory.used);
            let others = (0..options.nodes).map(NodeId).filter(|node| *node != options.node);
            out.messages.extend(others.map(|node| (node, Bytes::copy_from_slice(&room.to_le_bytes()))));
            let least = self.rooms.iter().flatten().fold(room, |least, room| least.min(*room));
            let parts = 2 * u64::from(options.nodes) * u64::from(options.workers);
            self.node.room.store(least / parts, Ordering::Relaxed);
        }
        Next::At(self.next_beat)
    }
}

impl Controller for FixedController {
    fn peer_up(&mut self, _now: Nanos, peer: NodeId, incarnation: Incarnation, _levels: Levels) {
        // What follows, workers are told in the next turn.
        self.node.meet(peer, incarnation);
    }

    fn peer_down(&mut self, _now: Nanos, _peer: NodeId, _refused: bool) {}

    fn deliver(&mut self, _now: Nanos, from: NodeId, message: Bytes) {
        if let (Ok(room), Some(known)) = (Reader::new(&message).u64(), self.rooms.get_mut(from.0 as usize)) {
            *known = Some(room);
        }
    }

    fn turn(&mut self, now: Nanos, out: &mut ControlOutbox) -> Next {
        if self.node.cluster().is_some() && !std::mem::replace(&mut self.whole, true) {
            out.events.push(format!("{}: every node is there", self.role()));
            out.wake_workers = true;
        }
        if self.node.broken() && !std::mem::replace(&mut self.broken, true) {
            out.events.push("a node lost its memory: there is no service any more".into());
            out.wake_workers = true;
        }
        self.beat(now, out)
    }

    fn status(&self, _now: Nanos) -> Status {
        let (node, service) = (&self.node, self.service());
        let Options { node: me, incarnation, .. } = node.options;
        let figure = |name, figure: fn(&Cell) -> &std::sync::atomic::AtomicU64| {
            Figure::each(name, node.cells.iter().map(|cell| figure(cell).load(Ordering::Relaxed)))
        };
        let mut figures = vec![figure(BUSY, |cell| &cell.busy), figure(DECIDED, |cell| &cell.decided)];
        if node.primary.is_none() {
            figures.extend([figure(FAST, |cell| &cell.fast), figure(SLOW, |cell| &cell.slow)]);
        }
        let member = |(life, node): (Option<Incarnation>, u8)| {
            Some(Member {
                node: NodeId(node),
                incarnation: life?,
                voter: true,
                levels: None,
                connected: None,
                lag: None,
                heard_ago: None,
            })
        };
        Status {
            node: me,
            incarnation,
            service,
            role: self.role().into(),
            epoch: Epoch(1),
            ask: node.primary.or_else(|| (service == Service::Serving).then_some(me)),
            heard_ago: None,
            figures,
            members: node.lives().into_iter().zip(0..).filter_map(member).collect(),
            copying_bytes: None,
            copying_from: None,
            forgets: false,
            freshness: None,
            levels: node.options.levels,
            level: None,
            held_back_by: Vec::new(),
            trouble: self.trouble(),
        }
    }

    fn memory(&self) -> MemoryStatus {
        let shares = self.node.options.shares().expect("the host validated the options");
        let logs = self.node.sum(|cell| &cell.bytes) + self.node.shared_bytes.load(Ordering::Relaxed);
        MemoryStatus { shares, used: self.store.used(), logs, most: shares.store }
    }

    fn store(&self) -> Arc<Store> {
        self.store.clone()
    }
}

fn decided(status: &Status) -> u64 {
    status.figure(DECIDED).iter().sum()
}

/// See [`Engine::converged`](highwater_seam::Engine::converged): nothing is under way, and all have learnt of the same number.
pub fn converged(statuses: &[Option<Status>], serving: Option<NodeId>) -> Result<u64, String> {
    let (all, first) = whole(statuses, serving)?;
    for status in &all {
        let busy: u64 = status.figure(BUSY).iter().sum();
        if busy > 0 {
            return Err(format!("replica {} has {busy} transactions under way", status.node.0));
        }
        if decided(status) != decided(first) {
            return Err(format!("replica {} has not heard of all transactions", status.node.0));
        }
    }
    Ok(decided(first))
}

/// See [`Engine::lag`](highwater_seam::Engine::lag).
pub fn lag(own: &Status, serving: &Status) -> u64 {
    decided(serving).saturating_sub(decided(own))
}
