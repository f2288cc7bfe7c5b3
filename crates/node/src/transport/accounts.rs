//! Connections that are alive at one end only.
//!
//! A side that has given a connection up resets it. A middlebox between the two (a proxy, a firewall, a balancer) may keep
//! that to itself, and answer the other side's keepalive in its peer's name. Then the other side believes itself connected:
//! if it has something to say, nobody hears it; if it has not, nobody dials. No timer of TCP ends that, because the
//! connection to the middlebox is well. So the ends compare what they know, over the control connection:
//!
//! - Each connection has a *number*, drawn by who dials and told in its hello; of one channel a later one is larger.
//! - Each side tells the other its *account*: of each worker, the number of the last connection, whether it is up, and how
//!   many bytes it has written to it. It tells it at once when a worker's connection is lost; otherwise when it looks
//!   (every two election timeouts), and only if it changed, or if nothing at all was said since the last look.
//! - Who holds a connection that the other side's account says is down, or that was followed by a later one, gives it up.
//!   Then the dialer dials. An account of an earlier connection is older than this one, and says nothing.
//! - Who is told of more bytes than have come has the connection's worker look, once per look of its own. The worker finds
//!   them in its socket, or finds progress; or it does not read because their receiver has no room. Otherwise they are
//!   under way; after [`LOOKS`] looks without a byte they are lost, and so is the connection.
//! - A control connection on which nothing came during [`SILENT_LOOKS`] looks is lost: its peer would have told its account.
//! - A peer that is known in another life now has no connections of its earlier one.
//!
//! What is slow is not taken for dead. Looks are counted, not time: who was stopped has slept through any time, and through
//! one look. A worker in the middle of a long transaction does not look at all. A slow link makes progress. A peer that is
//! stopped tells nothing new, so nobody misses its bytes; only its control connection is given up after a while, as it is
//! when its machine vanishes.
//!
//! An idle cluster pays a frame of some 30 bytes every second look between two followers, and nothing on connections that
//! heartbeats keep alive. No worker wakes for it. A connection over which both sides have nothing to say may be lost
//! unnoticed: it is found out by the first bytes that it loses.
//!
//! Nodes of builds that keep no accounts draw no number (0), and hear nothing of this.
//!
//! Behind the first account over a control connection stands an *introduction*: where the node says that it is found, by its own config. So a
//! leader notices that an operator ordered it at other addresses. Builds that do not know it pass over it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Incarnation, NodeId};
use highwater_seam::Nanos;

use super::gauge::Gauge;
use super::{Channel, Established};

/// Looks without a byte after which bytes that were sent do not come any more.
pub const LOOKS: u32 = 4;
/// Looks without a byte after which a control connection is lost.
pub const SILENT_LOOKS: u32 = 8;
/// How many election timeouts lie between two looks.
pub const TIMEOUTS_PER_LOOK: u64 = 2;

/// What a side says of its connection to the other one's worker of the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Of the last connection; 0 if there was none.
    pub number: u32,
    /// Whether it is up.
    pub up: bool,
    /// Bytes written to it.
    pub sent: u64,
}

/// As they travel, by worker: `count u16 | (number u32 | up u8 | sent u64)*`.
pub fn encode(accounts: &[Account]) -> Bytes {
    let mut out = Vec::with_capacity(2 + 13 * accounts.len());
    out.extend_from_slice(&(accounts.len() as u16).to_le_bytes());
    for Account { number, up, sent } in accounts {
        out.extend_from_slice(&number.to_le_bytes());
        out.push((*up).into());
        out.extend_from_slice(&sent.to_le_bytes());
    }
    out.into()
}

/// Takes them apart. What follows them is a later build's.
pub fn decode(bytes: &[u8]) -> Result<Vec<Account>, Malformed> {
    let mut reader = Reader::new(bytes);
    let count = reader.u16()?;
    let mut account = || Ok(Account { number: reader.u32()?, up: reader.u8()? != 0, sent: reader.u64()? });
    (0..count).map(|_| account()).collect()
}

/// The introduction behind the accounts, if there is one.
pub fn introduction(bytes: &Bytes) -> Option<Bytes> {
    let count = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
    let accounts = 2 + 13 * usize::from(count);
    (bytes.len() > accounts).then(|| bytes.slice(accounts..))
}

/// What is to be done about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Tell the peer our account.
    Tell(NodeId, Bytes),
    /// Nothing comes over its control connection: hang up.
    HangUp(NodeId),
    /// The peer does not hold this connection any more.
    GiveUp {
        /// The other side.
        peer: NodeId,
        worker: u16,
        /// See [`Established::generation`].
        generation: u64,
    },
    /// The worker shall look whether so many bytes have come, and give the connection up if they never do.
    Look {
        /// The other side.
        peer: NodeId,
        worker: u16,
        /// See [`Established::generation`].
        generation: u64,
        /// Since the handshake.
        bytes: u64,
    },
}

/// One side's knowledge of all its connections. Lives on the control thread.
pub struct Accounts {
    every: Nanos,
    peers: BTreeMap<NodeId, Peer>,
    /// This node's word on itself.
    introduction: Bytes,
    /// While there is a control connection.
    looks_at: Option<Nanos>,
}

struct Peer {
    control: Option<Control>,
    /// By number; `None`: never connected.
    workers: Vec<Option<End>>,
}

/// A control connection to a peer that keeps accounts.
struct Control {
    generation: u64,
    incarnation: Incarnation,
    gauge: Arc<Gauge>,
    /// What the gauge showed at the last look.
    sent: u64,
    received: u64,
    /// Looks since something came.
    silent: u32,
    /// Our account as it was told last over this connection.
    told: Bytes,
    /// It is to be told at once.
    news: bool,
}

/// Our end of a worker's connection.
struct End {
    generation: u64,
    incarnation: Incarnation,
    number: u32,
    up: bool,
    gauge: Arc<Gauge>,
    /// Bytes that the other side says it has sent.
    expected: u64,
}

impl Peer {
    fn account(&self) -> Bytes {
        let account = |end: &Option<End>| {
            let end = end.as_ref();
            end.map_or(Account::default(), |end| Account {
                number: end.number,
                up: end.up,
                sent: end.gauge.sent(),
            })
        };
        encode(&self.workers.iter().map(account).collect::<Vec<_>>())
    }

    /// Tells our account, if there is anybody to tell it to.
    fn tell(&mut self, id: NodeId, introduction: &Bytes, even_if_known: bool, orders: &mut Vec<Order>) {
        let account = self.account();
        let Some(control) = &mut self.control else { return };
        control.news = false;
        if even_if_known || control.told != account {
            let first = control.told.is_empty();
            control.told = account.clone();
            let told = if first { [&account[..], introduction].concat().into() } else { account };
            orders.push(Order::Tell(id, told));
        }
    }

    /// Our ends that are up, with their workers.
    fn ends(&mut self) -> impl Iterator<Item = (u16, &mut End)> {
        let ends = self.workers.iter_mut().enumerate();
        ends.filter_map(|(worker, end)| Some((worker as u16, end.as_mut().filter(|end| end.up)?)))
    }
}

impl Accounts {
    /// With looks so far apart.
    pub fn new(every: Nanos) -> Accounts {
        Accounts { every, peers: BTreeMap::new(), introduction: Bytes::new(), looks_at: None }
    }

    /// This node says so of itself to everybody whom it meets from now on.
    pub fn introduce(&mut self, introduction: Bytes) {
        self.introduction = introduction;
    }

    /// A connection is handed to its thread.
    pub fn adopted(&mut self, now: Nanos, connection: &Established, orders: &mut Vec<Order>) {
        let Established { peer, incarnation, channel, generation, number, .. } = *connection;
        if let Channel::Forward(_) = channel {
            // Nobody waits over it in vain for long: whoever does finds out by itself.
            return;
        }
        let gauge = connection.gauge.clone();
        let known = self.peers.entry(peer).or_insert(Peer { control: None, workers: Vec::new() });
        if let Channel::Worker(worker) = channel {
            let worker = usize::from(worker);
            if known.workers.len() <= worker {
                known.workers.resize_with(worker + 1, || None);
            }
            let end = End { generation, incarnation, number, up: true, gauge, expected: 0 };
            known.workers[worker] = Some(end);
            return;
        }
        for (worker, end) in known.ends().filter(|(_, end)| end.incarnation != incarnation) {
            orders.push(Order::GiveUp { peer, worker, generation: end.generation });
        }
        known.control = (number > 0).then(|| Control {
            generation,
            incarnation,
            gauge,
            sent: 0,
            received: 0,
            silent: 0,
            told: Bytes::new(),
            news: true,
        });
        self.looks_at.get_or_insert(now + self.every);
    }

    /// A connection is no more.
    pub fn lost(&mut self, peer: NodeId, channel: Channel, generation: u64) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        match channel {
            Channel::Worker(worker) => {
                let end = known.workers.get_mut(usize::from(worker)).and_then(Option::as_mut);
                let Some(end) = end.filter(|end| end.generation == generation) else { return };
                end.up = false;
                if let Some(control) = &mut known.control {
                    control.news = true;
                }
            }
            Channel::Forward(_) => {}
            Channel::Control | Channel::Accounts => {
                if known.control.as_ref().is_some_and(|control| control.generation == generation) {
                    known.control = None;
                }
            }
        }
    }

    /// A peer's account came over its control connection. One that cannot be read says nothing.
    pub fn heard(&mut self, peer: NodeId, bytes: &[u8], orders: &mut Vec<Order>) {
        let Ok(accounts) = decode(bytes) else { return };
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let Some(life) = known.control.as_ref().map(|control| control.incarnation) else { return };
        for (worker, end) in known.ends().filter(|(_, end)| end.incarnation == life && end.number > 0) {
            let Some(account) = accounts.get(usize::from(worker)) else { continue };
            let given_up = account.number > end.number || account.number == end.number && !account.up;
            if given_up {
                orders.push(Order::GiveUp { peer, worker, generation: end.generation });
            } else if account.number == end.number {
                end.expected = account.sent;
            }
        }
    }

    /// When to give the next turn at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        self.looks_at
    }

    /// Tells news, and looks if it is time. To be called when what has come was taken.
    pub fn turn(&mut self, now: Nanos, orders: &mut Vec<Order>) {
        let Some(at) = self.looks_at else { return };
        for (id, peer) in &mut self.peers {
            if peer.control.as_ref().is_some_and(|control| control.news) {
                peer.tell(*id, &self.introduction, false, orders);
            }
        }
        if at > now {
            return;
        }
        self.peers.iter_mut().for_each(|(id, peer)| look(*id, peer, &self.introduction, orders));
        let connected = self.peers.values().any(|peer| peer.control.is_some());
        self.looks_at = connected.then_some(now + self.every);
    }
}

/// One look at what a peer and we hold.
fn look(id: NodeId, peer: &mut Peer, introduction: &Bytes, orders: &mut Vec<Order>) {
    let Some(control) = &mut peer.control else { return };
    let (sent, received) = (control.gauge.sent(), control.gauge.received());
    control.silent = if received == control.received { control.silent + 1 } else { 0 };
    let said_nothing = sent == control.sent;
    (control.sent, control.received) = (sent, received);
    if control.silent >= SILENT_LOOKS {
        orders.push(Order::HangUp(id));
        return;
    }
    for (worker, end) in peer.ends() {
        if end.expected > end.gauge.received() && end.gauge.ask() {
            let (generation, bytes) = (end.generation, end.expected);
            orders.push(Order::Look { peer: id, worker, generation, bytes });
        }
    }
    peer.tell(id, introduction, said_nothing, orders);
}

#[cfg(test)]
mod tests;
