//! The connections over which nodes forward requests: one for each pair of same-numbered workers, made anew when one of both processes ends, or
//! hangs up. What is sent over one arrives in order; over a cut network it stands still.

use std::collections::{BTreeMap, VecDeque};

use highwater_core::NodeId;
use highwater_seam::{Frame, Nanos};

/// From which node to which, between which of their workers.
type Way = (NodeId, NodeId, u16);

/// News from a connection.
pub enum Came {
    /// It is there.
    Up,
    /// Something came over it.
    Frame(Frame),
    /// It is gone.
    Down,
}

/// News for the worker of a node.
pub struct Arrival {
    /// The node that hears it.
    pub to: NodeId,
    /// The node at the other end.
    pub from: NodeId,
    /// The number of both workers.
    pub worker: u16,
    /// Which of their connections, of all that there ever were.
    pub serial: u64,
    /// The news itself.
    pub came: Came,
}

/// News that have not arrived, in order: when each does, over which connection, and what it is.
type OnWay = VecDeque<(Nanos, u64, Came)>;

/// See the module.
#[derive(Default)]
pub struct Wires {
    serial: u64,
    /// Serials by pairs, the lesser node first.
    open: BTreeMap<Way, u64>,
    on_way: BTreeMap<Way, OnWay>,
}

fn pair(a: NodeId, b: NodeId, worker: u16) -> Way {
    (a.min(b), a.max(b), worker)
}

impl Wires {
    /// Each two of these nodes have a connection for each worker.
    pub fn connect(&mut self, now: Nanos, up: &[NodeId], workers: u16, hop: &mut impl FnMut() -> Nanos) {
        for (a, b) in up.iter().flat_map(|a| up.iter().map(move |b| (*a, *b))).filter(|(a, b)| a < b) {
            for worker in 0..workers {
                if !self.open.contains_key(&(a, b, worker)) {
                    self.serial += 1;
                    let serial = self.serial;
                    self.open.insert((a, b, worker), serial);
                    self.put((a, b, worker), now + hop(), serial, Came::Up);
                    self.put((b, a, worker), now + hop(), serial, Came::Up);
                }
            }
        }
    }

    /// Nothing overtakes what was sent before it.
    fn put(&mut self, way: Way, at: Nanos, serial: u64, came: Came) {
        let way = self.on_way.entry(way).or_default();
        let behind = way.back().map_or(0, |(at, ..)| *at);
        way.push_back((at.max(behind), serial, came));
    }

    /// Sends, if there is a connection.
    pub fn send(&mut self, (from, to, worker): Way, at: Nanos, frame: Frame) {
        if let Some(serial) = self.open.get(&pair(from, to, worker)).copied() {
            self.put((from, to, worker), at, serial, Came::Frame(frame));
        }
    }

    /// A node ends a connection, and takes back what has not arrived. The other one hears of it.
    pub fn hang_up(&mut self, (from, to, worker): Way, at: Nanos) {
        if let Some(serial) = self.open.remove(&pair(from, to, worker)) {
            let way = self.on_way.entry((from, to, worker)).or_default();
            way.retain(|(_, of, came)| *of != serial || !matches!(came, Came::Frame(_)));
            self.put((from, to, worker), at, serial, Came::Down);
        }
    }

    /// A process has ended, and all its connections with it. What it sent may arrive.
    pub fn end(&mut self, node: NodeId, at: Nanos) {
        let ended: Vec<_> = self.open.keys().copied().filter(|(a, b, _)| *a == node || *b == node).collect();
        for (a, b, worker) in ended {
            let serial = self.open.remove(&(a, b, worker)).expect("it is open");
            let other = if a == node { b } else { a };
            self.put((node, other, worker), at, serial, Came::Down);
        }
        self.on_way.retain(|(_, to, _), _| *to != node);
    }

    /// A node was removed: the others have no connection with it any more, nor it with them.
    pub fn part(&mut self, node: NodeId, at: Nanos) {
        let ended: Vec<_> = self.open.keys().copied().filter(|(a, b, _)| *a == node || *b == node).collect();
        for (a, b, worker) in ended {
            let serial = self.open.remove(&(a, b, worker)).expect("it is open");
            for way in [(a, b, worker), (b, a, worker)] {
                let on_way = self.on_way.entry(way).or_default();
                on_way.retain(|(_, of, came)| *of != serial || !matches!(came, Came::Frame(_)));
                self.put(way, at, serial, Came::Down);
            }
        }
    }

    /// News that have arrived by now. `flows`: whether anything gets from one node to another.
    pub fn arrivals(&mut self, now: Nanos, flows: impl Fn(Way) -> bool) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for (way, coming) in &mut self.on_way {
            let (from, to, worker) = *way;
            while let Some((_, serial, came)) =
                coming.pop_front_if(|(at, _, came)| *at <= now && (matches!(came, Came::Down) || flows(*way)))
            {
                arrivals.push(Arrival { to, from, worker, serial, came });
            }
        }
        arrivals
    }
}
