//! Replicas, network and clients under one queue of events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use highwater_core::{Clock, Incarnation, Library, NodeId, Outcome, ProcedureId};
use highwater_engines::{
    ControlOutbox, EngineKind, Nanos, Next, Options, Outbox, Refusal, Replica, Request, Role, Status, Token,
    build,
};

use crate::network::{Channel, Link, Network, Payload};
use crate::random::Random;

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Everything random follows from it.
    pub seed: u64,
    /// Which engine.
    pub engine: EngineKind,
    /// How many replicas.
    pub nodes: u8,
    /// How many workers each.
    pub workers: u16,
    /// Adjusts the engine's options after the defaults.
    pub tune: Tune,
}

/// A change of the engine's options, the same for every node and every life.
#[derive(Clone)]
pub struct Tune(Arc<dyn Fn(&mut Options) + Send + Sync>);

impl<F: Fn(&mut Options) + Send + Sync + 'static> From<F> for Tune {
    fn from(change: F) -> Tune {
        Tune(Arc::new(change))
    }
}

impl std::fmt::Debug for Tune {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tune")
    }
}

/// A reply as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Which replica's worker answered.
    pub from: (NodeId, u16),
    /// Which request.
    pub token: Token,
    /// How it ended.
    pub outcome: Outcome,
    /// The reply.
    pub bytes: Vec<u8>,
    /// When.
    pub at: Nanos,
}

#[derive(Debug)]
enum Event {
    Turn { node: NodeId, life: u64, who: Channel },
    Arrive { link: Link, generation: u64, to: NodeId, payload: Payload },
    Connect { link: Link },
    Lost { link: Link, generation: u64 },
    Resume { node: NodeId, life: u64 },
}

struct Node {
    life: u64,
    incarnation: Incarnation,
    replica: Option<Replica>,
    /// Takes no turn before this (a pause); what arrives waits.
    paused: bool,
    held: Vec<Event>,
    /// When each worker, and the controller, is to have its next turn.
    due: BTreeMap<Channel, Nanos>,
}

/// Replicas, network and clients.
pub struct World<L: Library> {
    /// Virtual time.
    pub now: Nanos,
    /// Every choice.
    pub random: Random,
    /// Connections.
    pub network: Network,
    /// Replies not yet taken by the test.
    pub replies: Vec<Reply>,
    /// What controllers said, for reports: `(when, node, what)`.
    pub log: Vec<(Nanos, NodeId, String)>,
    /// Turns that workers took, and frames that they sent.
    pub work: (u64, u64),
    options: WorldOptions,
    library: L,
    nodes: Vec<Node>,
    queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    events: BTreeMap<u64, Event>,
    seq: u64,
    /// Mixes every event: equal for equal runs.
    trace: u64,
}

/// How soon a broken connection is tried again.
const RECONNECT: Nanos = 2_000_000;
/// How long a worker's turn takes.
const TURN: Nanos = 5_000;

impl<L: Library> World<L> {
    /// A world whose nodes are all down.
    pub fn new(options: WorldOptions, library: L) -> World<L> {
        let random = Random::new(options.seed);
        let node = || Node {
            life: 0,
            incarnation: Incarnation(0),
            replica: None,
            paused: false,
            held: Vec::new(),
            due: BTreeMap::new(),
        };
        World {
            now: 0,
            random,
            network: Network::with_delay(20_000, 100_000),
            replies: Vec::new(),
            log: Vec::new(),
            work: (0, 0),
            nodes: (0..options.nodes).map(|_| node()).collect(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            seq: 0,
            trace: 0,
            options,
            library,
        }
    }

    /// Every node's id.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<L> {
        (0..self.options.nodes).map(NodeId)
    }

    /// A number that two runs share exactly if they did the same.
    pub fn trace_hash(&self) -> u64 {
        self.trace
    }

    fn push(&mut self, at: Nanos, event: Event) {
        self.seq += 1;
        self.queue.push(Reverse((at, self.seq)));
        self.events.insert(self.seq, event);
    }

    /// Starts a node with empty memory.
    pub fn start(&mut self, id: NodeId) {
        let incarnation = Incarnation(self.random.bits());
        let mut options = Options::new(id, self.options.nodes, self.options.workers, incarnation);
        (self.options.tune.0)(&mut options);
        let incarnation = options.incarnation;
        let replica = build(self.options.engine, options, &self.library, Arc::new(Clock::counter()));
        let node = &mut self.nodes[id.0 as usize];
        assert!(node.replica.is_none(), "{id} is running");
        node.life += 1;
        node.incarnation = incarnation;
        node.replica = Some(replica);
        node.paused = false;
        node.due.clear();
        for channel in self.channels() {
            self.schedule(id, channel, self.now);
            for other in self.ids().filter(|other| *other != id) {
                let at = self.now + self.random.below(RECONNECT);
                self.push(at, Event::Connect { link: Link::new(id, other, channel) });
            }
        }
    }

    /// Ends a node; its memory is gone.
    pub fn kill(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0 as usize];
        if node.replica.take().is_none() {
            return;
        }
        node.life += 1;
        node.held.clear();
        for channel in self.channels() {
            for other in self.ids().filter(|other| *other != id) {
                self.break_link(Link::new(id, other, channel));
            }
        }
    }

    /// Stops a node for a while; it keeps its memory, and what arrives waits.
    pub fn pause(&mut self, id: NodeId, length: Nanos) {
        let node = &mut self.nodes[id.0 as usize];
        if node.replica.is_some() && !node.paused {
            node.paused = true;
            let life = node.life;
            self.push(self.now + length, Event::Resume { node: id, life });
        }
    }

    /// Whether a node is up.
    pub fn is_up(&self, id: NodeId) -> bool {
        self.nodes[id.0 as usize].replica.is_some()
    }

    /// Breaks every connection between two nodes (they reconnect unless the network is cut).
    pub fn break_links(&mut self, a: NodeId, b: NodeId) {
        for channel in self.channels() {
            self.break_link(Link::new(a, b, channel));
        }
    }

    fn break_link(&mut self, link: Link) {
        if let Some(generation) = self.network.generation(link) {
            self.network.disconnect(link);
            let at = self.now + self.random.below(200_000);
            self.push(at, Event::Lost { link, generation });
            let again = at + 1 + self.random.below(RECONNECT);
            self.push(again, Event::Connect { link });
        }
    }

    fn channels(&self) -> Vec<Channel> {
        (0..self.options.workers).map(Channel::Worker).chain([Channel::Control]).collect()
    }

    fn schedule(&mut self, id: NodeId, who: Channel, at: Nanos) {
        let node = &mut self.nodes[id.0 as usize];
        let at = at.max(self.now);
        if node.due.get(&who).is_some_and(|due| *due <= at) {
            return;
        }
        node.due.insert(who, at);
        let life = node.life;
        self.push(at, Event::Turn { node: id, life, who });
    }

    /// The state of a node, if it is up.
    pub fn status(&self, id: NodeId) -> Option<Status> {
        self.nodes[id.0 as usize].replica.as_ref().map(|replica| replica.controller.status(self.now))
    }

    /// The replica of a node, if it is up.
    pub fn replica(&self, id: NodeId) -> Option<&Replica> {
        self.nodes[id.0 as usize].replica.as_ref()
    }

    /// Who leads an open epoch, by its own account; the highest epoch if several think so.
    pub fn leader(&self) -> Option<NodeId> {
        let leads = |id: &NodeId| self.status(*id).filter(|status| status.role == Role::Leader);
        self.ids().filter(|id| leads(id).is_some()).max_by_key(|id| leads(id).map(|status| status.epoch))
    }

    /// The id of a procedure.
    pub fn procedure(&self, name: &str) -> ProcedureId {
        let replica = self.nodes.iter().find_map(|node| node.replica.as_ref()).expect("a node is up");
        let at =
            replica.procedures.iter().position(|known| *known == name).expect("the procedure is registered");
        ProcedureId(at as u16)
    }

    /// Submits a request to a worker, which gets a turn soon.
    pub fn submit(
        &mut self,
        to: NodeId,
        worker: u16,
        token: Token,
        procedure: ProcedureId,
        args: &[u8],
    ) -> Result<(), Refusal> {
        let now = self.now;
        let node = &mut self.nodes[to.0 as usize];
        let Some(replica) = node.replica.as_mut().filter(|_| !node.paused) else {
            return Err(Refusal::NotLeader { leader: None });
        };
        replica.workers[worker as usize].submit(now, Request { token, procedure, args })?;
        let at = now + self.random.below(TURN);
        self.schedule(to, Channel::Worker(worker), at);
        Ok(())
    }

    /// Runs until virtual time `until`.
    pub fn run_until(&mut self, until: Nanos) {
        while let Some(Reverse((at, seq))) = self.queue.peek().copied() {
            if at > until {
                break;
            }
            self.queue.pop();
            self.now = self.now.max(at);
            let event = self.events.remove(&seq).expect("queued events exist");
            self.trace = (self.trace ^ at ^ (seq << 20)).wrapping_mul(0x0000_0100_0000_01b3);
            self.handle(event);
        }
        self.now = until;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Turn { node, life, who } => self.turn(node, life, who),
            Event::Connect { link } => self.connect(link),
            Event::Lost { link, generation } => self.lost(link, generation),
            Event::Resume { node, life } => self.resume(node, life),
            Event::Arrive { link, generation, to, payload } => self.arrive(link, generation, to, payload),
        }
    }

    fn resume(&mut self, id: NodeId, life: u64) {
        let node = &mut self.nodes[id.0 as usize];
        if node.life != life || !node.paused {
            return;
        }
        node.paused = false;
        let held = std::mem::take(&mut node.held);
        for event in held {
            self.handle(event);
        }
        for channel in self.channels() {
            self.nodes[id.0 as usize].due.remove(&channel);
            self.schedule(id, channel, self.now);
        }
    }

    fn connect(&mut self, link: Link) {
        let both_up = self.is_up(link.low) && self.is_up(link.high);
        if !both_up {
            return;
        }
        let flows = |from, to| self.network.flows(from, to, link.channel);
        let flows = flows(link.low, link.high) && flows(link.high, link.low);
        let awake = !self.nodes[link.low.0 as usize].paused && !self.nodes[link.high.0 as usize].paused;
        if !flows || !awake {
            return self.push(self.now + RECONNECT, Event::Connect { link });
        }
        if self.network.connect(link, self.now).is_none() {
            return;
        }
        for (id, peer) in [(link.low, link.high), (link.high, link.low)] {
            let incarnation = self.nodes[peer.0 as usize].incarnation;
            let now = self.now;
            let replica = self.nodes[id.0 as usize].replica.as_mut().expect("checked above");
            match link.channel {
                Channel::Control => replica.controller.peer_up(now, peer, incarnation),
                Channel::Worker(at) => replica.workers[at as usize].peer_up(now, peer, incarnation),
            }
            self.schedule(id, link.channel, now);
        }
    }

    fn lost(&mut self, link: Link, generation: u64) {
        if self.network.generation(link).is_some_and(|current| current > generation) {
            return;
        }
        for (id, peer) in [(link.low, link.high), (link.high, link.low)] {
            let gone = !self.is_up(peer);
            let now = self.now;
            let node = &mut self.nodes[id.0 as usize];
            if node.paused {
                node.held.push(Event::Lost { link, generation });
                continue;
            }
            let Some(replica) = node.replica.as_mut() else { continue };
            match link.channel {
                Channel::Control => replica.controller.peer_down(now, peer, gone),
                Channel::Worker(at) => replica.workers[at as usize].peer_down(now, peer),
            }
            self.schedule(id, link.channel, now);
        }
    }

    fn arrive(&mut self, link: Link, generation: u64, to: NodeId, payload: Payload) {
        if self.network.generation(link) != Some(generation) {
            return;
        }
        let from = if to == link.low { link.high } else { link.low };
        if !self.network.flows(from, to, link.channel) {
            // Standing still: the sender's transport repeats it.
            return self.push(self.now + RECONNECT, Event::Arrive { link, generation, to, payload });
        }
        let now = self.now;
        let node = &mut self.nodes[to.0 as usize];
        if node.paused {
            return node.held.push(Event::Arrive { link, generation, to, payload });
        }
        let Some(replica) = node.replica.as_mut() else { return };
        match (link.channel, payload) {
            (Channel::Control, Payload::Control(message)) => replica.controller.deliver(now, from, message),
            (Channel::Worker(at), Payload::Frame(frame)) => {
                replica.workers[at as usize].deliver(now, from, frame)
            }
            _ => unreachable!("control messages travel between controllers, frames between workers"),
        }
        let at = now + self.random.below(TURN);
        self.schedule(to, link.channel, at);
    }

    fn turn(&mut self, id: NodeId, life: u64, who: Channel) {
        let now = self.now;
        let node = &mut self.nodes[id.0 as usize];
        if node.life != life || node.paused || node.due.get(&who) != Some(&now) {
            return;
        }
        node.due.remove(&who);
        let Some(replica) = node.replica.as_mut() else { return };
        let next = match who {
            Channel::Control => {
                let mut out = ControlOutbox::default();
                let next = replica.controller.turn(now, &mut out);
                self.log.extend(out.events.into_iter().map(|event| (now, id, event)));
                for (to, message) in out.messages {
                    self.send(id, to, who, Payload::Control(message));
                }
                if out.wake_workers {
                    for worker in 0..self.options.workers {
                        self.wake(id, Channel::Worker(worker));
                    }
                }
                next
            }
            Channel::Worker(at) => {
                let mut out = Outbox::default();
                let next = replica.workers[at as usize].turn(now, &mut out);
                self.work.0 += 1;
                self.work.1 += out.frames.len() as u64;
                for reply in &out.replies {
                    let bytes = out.content(reply).to_vec();
                    let (token, outcome) = (reply.token, reply.outcome);
                    self.replies.push(Reply { from: (id, at), token, outcome, bytes, at: now });
                }
                for (to, frame) in out.frames {
                    self.send(id, to, who, Payload::Frame(frame));
                }
                if out.wake_controller {
                    self.wake(id, Channel::Control);
                }
                if out.wake_workers {
                    for worker in (0..self.options.workers).filter(|worker| *worker != at) {
                        self.wake(id, Channel::Worker(worker));
                    }
                }
                next
            }
        };
        match next {
            Next::Now => self.schedule(id, who, now + TURN),
            Next::At(at) => self.schedule(id, who, at.max(now + 1)),
            Next::Idle => {}
        }
    }

    fn wake(&mut self, id: NodeId, who: Channel) {
        let at = self.now + 1 + self.random.below(TURN);
        self.schedule(id, who, at);
    }

    fn send(&mut self, from: NodeId, to: NodeId, channel: Channel, payload: Payload) {
        let link = Link::new(from, to, channel);
        let Some(generation) = self.network.generation(link) else { return };
        let at = self.network.arrival(self.now, from, link, &mut self.random);
        self.push(at, Event::Arrive { link, generation, to, payload });
    }
}
