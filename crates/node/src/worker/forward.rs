//! A worker's connections to the same workers of other nodes, over which clients' requests are forwarded. What they say to each other, and what
//! holds, [`highwater_redis::host::forward`] tells.

use std::sync::Arc;

use highwater_core::{NodeId, Outcome, Timestamp};
use highwater_redis::Door;
use highwater_redis::host::forward::guests::{GuestLimits, Guests};
use highwater_redis::host::forward::message::{Message, format};
use highwater_redis::host::forward::upstream::Upstream;
use highwater_redis::host::{Gate, Watch};
use highwater_seam::{Nanos, Refusal, Worker};

use super::clients::Clients;
use super::keys::KEY_FORWARD;
use crate::clock::{Stopwatch, Ticks, unix_ms};
use crate::config::Forward;
use crate::poll::{Event, Poller};
use crate::transport::link::LinkLimits;
use crate::transport::peers::{Lost, Peers};
use crate::transport::{Arrival, Channel, Established};

/// One worker's connections for requests that are forwarded, and both sides of them.
pub struct Forwarding {
    channel: Channel,
    links: Peers,
    /// What this worker's clients ask of the leader.
    pub upstream: Upstream,
    guests: Guests,
    stopwatch: Stopwatch,
    /// What this build makes of requests.
    format: u64,
    /// Nodes that said what makes no sense.
    nonsense: Vec<NodeId>,
    lost: Vec<Lost>,
}

/// What each part may hold, of what the clients of a worker may: an eighth, and no more than a few MiB.
fn part(limit: usize) -> usize {
    (limit / 8).clamp(64 << 10, 8 << 20)
}

impl Forwarding {
    /// Nobody is connected.
    pub fn new(
        index: usize,
        forward: Forward,
        links: LinkLimits,
        clients: super::Limits,
        door: Arc<Door>,
        watch: Watch,
    ) -> Forwarding {
        let limits = GuestLimits { queued: part(clients.requests), owed: part(clients.replies) };
        // What waits is bounded by what is asked and owed: a connection is not cut for it.
        let links = LinkLimits { queued: usize::MAX, ..links };
        Forwarding {
            channel: Channel::Forward(index as u16),
            links: Peers::new(links, KEY_FORWARD),
            upstream: Upstream::new(forward == Forward::On, part(clients.requests)),
            stopwatch: watch.stopwatch,
            format: format(&watch.names),
            guests: Guests::new(door, watch, limits),
            nonsense: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Takes a connection over.
    pub fn adopt(&mut self, connection: Established, poller: &Poller) {
        let peer = connection.peer;
        self.upstream.lost(peer);
        match self.links.adopt(connection, poller) {
            Ok(_) => {
                self.guests.enter(peer);
                let hello = Message::Hello { format: self.format }.frame(&[]);
                let lost = self.links.send(std::iter::once((peer, self.channel, hello)), poller);
                lost.into_iter().for_each(|lost| self.down(lost));
            }
            Err(lost) => self.down(lost),
        }
    }

    /// The connection to this node, if there is one, ends: what has not arrived there is not begun there.
    pub fn hang_up(&mut self, node: NodeId) {
        if let Some(lost) = self.links.cut(node) {
            self.down(lost);
        }
    }

    fn down(&mut self, lost: Lost) {
        self.upstream.lost(lost.peer);
        self.guests.leave(lost.peer);
        self.lost.push(lost);
    }

    /// Connections that ended since the last call.
    pub fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }

    /// Something happened on a connection.
    pub fn event(&mut self, node: usize, event: Event, poller: &Poller, clients: &mut Clients) {
        let Forwarding { links, upstream, guests, stopwatch, format, nonsense, .. } = self;
        let mut sides = Sides { upstream, guests, clients, nonsense, format: *format, moment: None };
        let taken = links.event(node, event, poller, |arrival| sides.take(arrival, *stopwatch));
        if let Err(lost) = taken {
            self.down(lost);
        }
        self.end_nonsense();
    }

    /// Goes on with connections that stood still because somebody had no room.
    pub fn retry(&mut self, poller: &Poller, clients: &mut Clients) {
        let Forwarding { links, upstream, guests, stopwatch, format, nonsense, .. } = self;
        let mut sides = Sides { upstream, guests, clients, nonsense, format: *format, moment: None };
        let lost = links.retry(poller, |arrival| sides.take(arrival, *stopwatch));
        lost.into_iter().for_each(|lost| self.down(lost));
        self.end_nonsense();
    }

    fn end_nonsense(&mut self) {
        for node in std::mem::take(&mut self.nonsense) {
            self.hang_up(node);
        }
    }

    /// Looks who leads, and tells clients what has become of what they asked of who does no more.
    pub fn look(&mut self, now: Nanos, ready: Result<(), Refusal>, clients: &mut Clients) {
        if let Some(node) = self.upstream.look(now, ready) {
            self.hang_up(node);
        }
        for (at, seq) in self.upstream.take_unknown() {
            clients.unanswered(at, seq, self.stopwatch.now());
        }
        for ((at, seq), why) in self.upstream.take_denied() {
            let now = self.stopwatch.now();
            clients.released(at, seq, now, Outcome::Denied, Timestamp::ZERO, why.as_bytes());
        }
        for (at, seq) in self.upstream.take_refused() {
            clients.refused(at, seq, self.stopwatch.now(), Refusal::NotServing { ask: None }, 0);
        }
    }

    /// Submits what other nodes ask.
    pub fn serve(&mut self, now: Nanos, engine: &mut dyn Worker, gate: Gate, ending: Option<Refusal>) {
        self.guests.tell_time(unix_ms());
        if ending.is_some() {
            self.upstream.refuse_paused();
        }
        if gate == Gate::Open {
            self.upstream.run_again(now, engine, &self.guests);
        }
        let links = &self.links;
        self.guests.serve(now, engine, gate, ending, |node| links.queued(node));
    }

    /// Wakes clients of other nodes that wait for data.
    pub fn wake(&mut self, clients: impl Iterator<Item = (NodeId, u64)>) {
        self.guests.wake(clients);
    }

    /// See [`Guests::released`].
    pub fn released(
        &mut self,
        number: u64,
        outcome: highwater_core::Outcome,
        at: highwater_core::Timestamp,
        reply: &[u8],
    ) {
        self.guests.released(number, outcome, at, reply);
    }

    /// Sends what is to be sent.
    pub fn flush(&mut self, poller: &Poller) {
        let channel = self.channel;
        let frames = self.upstream.drain().chain(self.guests.drain());
        let lost = self.links.send(frames.map(|(node, frame)| (node, channel, frame)), poller);
        lost.into_iter().for_each(|lost| self.down(lost));
    }

    /// Whether another turn would find something to do.
    pub fn has_more(&self, clients: &Clients) -> bool {
        let room = |node| self.guests.has_room(node) && !clients.is_full_of_output();
        self.upstream.has_more()
            || self.guests.has_more(|node| self.links.queued(node))
            || self.links.stuck().any(room)
    }

    /// Whether another node's client waits for an answer, or for the rest of one.
    pub fn owes(&self) -> bool {
        self.guests.owes() || self.links.held_bytes().0 > 0
    }

    /// Bytes that wait for sockets or for their turn, and bytes of receive buffers.
    pub fn held_bytes(&self) -> (usize, usize) {
        let (sending, receiving) = self.links.held_bytes();
        (sending + self.upstream.held_bytes(), receiving + self.guests.held_bytes())
    }

    /// Gives back what receive buffers do not need; whether anything came since the last call.
    pub fn rest(&mut self) -> bool {
        self.links.rest()
    }
}

/// Whoever takes what comes.
struct Sides<'a> {
    upstream: &'a mut Upstream,
    guests: &'a mut Guests,
    clients: &'a mut Clients,
    nonsense: &'a mut Vec<NodeId>,
    format: u64,
    /// Read once for all that comes together.
    moment: Option<Ticks>,
}

impl Sides<'_> {
    /// Takes a message; gives it back if there is no room for it.
    fn take(&mut self, arrival: Arrival, stopwatch: Stopwatch) -> Result<(), Arrival> {
        let from = arrival.from;
        let (message, content) = match Message::of(&arrival.frame) {
            Ok(read) => read,
            Err(why) => {
                self.complain(from, why.0);
                return Ok(());
            }
        };
        match message {
            Message::Hello { format } if format == self.format => self.upstream.ready(from),
            Message::Hello { .. } => tracing::warn!(
                "{from} has other commands or procedures: what clients ask is not forwarded between it and this node until both run \
                 one build"
            ),
            Message::Ask(ask) => {
                if !self.guests.has_room(from) {
                    return Err(arrival);
                }
                self.guests.ask(from, ask, Guests::own(arrival.frame));
            }
            Message::Answer { number, outcome, at } => {
                if self.clients.is_full_of_output() {
                    return Err(arrival);
                }
                let moment = *self.moment.get_or_insert_with(|| stopwatch.now());
                if let Some((slot, seq)) = self.upstream.answered(from, number) {
                    self.clients.answered(slot, seq, moment, outcome, at, content);
                }
            }
            Message::Refused { number, refusal, slot } => {
                let moment = *self.moment.get_or_insert_with(|| stopwatch.now());
                if let Some((at, seq)) = self.upstream.refused(from, number, refusal) {
                    self.clients.refused(at, seq, moment, refusal, slot);
                }
            }
            Message::Line { client } => {
                if let Err(why) = self.guests.line(from, client, content) {
                    self.complain(from, why);
                }
            }
            Message::Leave { client } => self.guests.leave_line(from, client),
            Message::Wake { client } => self.clients.wake_by_id(client),
        }
        Ok(())
    }

    fn complain(&mut self, from: NodeId, why: &str) {
        tracing::error!("{from} sent nonsense about forwarded requests: {why}");
        self.nonsense.push(from);
    }
}
