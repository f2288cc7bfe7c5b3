//! Replicas, network and clients under one queue of events.
//!
//! | file | what |
//! |---|---|
//! | [`mod`](self) | what a world is made of, and what a test may ask of it |
//! | `faults` | crashes, pauses, slowness, connections that break |
//! | `turns` | whose turn it is, and what comes of it |
//! | `delegates` | what clients that coordinate say to workers |
//! | `links` | connections are made and lost, frames travel |
//! | [`clock`] | each machine's own clocks |
//! | `disk`, `syncing`, `checkpoints` | each machine's disk, and its work |
//! | `damage`, [`starting`] | what is not as it was written; a process starts, or ends between two steps of that |
//! | `anew` | a new cluster begins from what the disks hold |
//! | `order`, `orders` | operators' orders: who shall come, who shall go |
//! | `node`, `event`, `queue` | a process and its machine; what will happen; when |

mod anew;
mod checkpoints;
pub mod clock;
mod damage;
mod delegates;
mod disk;
mod event;
mod faults;
mod levels;
mod links;
mod node;
pub(crate) mod order;
mod orders;
mod queue;
pub mod remains;
pub mod starting;
mod syncing;
mod turns;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use highwater_core::hooks::{self, Site};
use highwater_core::{Durability, Incarnation, Library, NodeId, Outcome, ProcedureId, Timestamp};
use highwater_engines::EngineKind;
use highwater_seam::options::MIN_TRANSACTION_BYTES;
use highwater_seam::{
    ClientId, Freshness, Nanos, Options, Refusal, Replica, Request, Service, Session, Status, Taken, Token,
};

use crate::network::{Channel, Network};
use crate::stage::{Actor, Buggify, Input, Interleaving, Stage};
use crate::trace::{Trace, What};
use crate::watch::{Limits, Seen, Watch};
use clock::NodeClock;
use event::Event;
use highwater_core::Random;
use node::Node;
use order::Order;
use queue::Queue;

/// How a request is to run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Submission {
    Transaction,
    Read,
}

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Everything random follows from it.
    pub seed: u64,
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

/// What turns cost, beside a moment each, in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// For each step: a [point](highwater_core::hooks::Point) in a transaction, an application, a copy and so on.
    pub step: Nanos,
    /// For 1,024 bytes that come in or go out.
    pub kib: Nanos,
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
    /// The moment of which it speaks: see [`Released::at`](highwater_seam::Released::at).
    pub moment: Timestamp,
    /// The reply.
    pub bytes: Vec<u8>,
    /// When.
    pub at: Nanos,
}

/// What a worker says to a client that coordinates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToClient {
    /// Which replica's worker.
    pub from: (NodeId, u16),
    /// Over which connection.
    pub client: ClientId,
    pub bytes: Bytes,
    /// When it leaves.
    pub at: Nanos,
}

/// A request that was taken in and refused later: only in worlds with [`Interleaving`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which request.
    pub token: Token,
    /// Why. Nothing was done.
    pub why: Refusal,
    /// When.
    pub at: Nanos,
}

/// Replicas, network and clients.
pub struct World<L: Library> {
    /// The level in use was raised.
    raised: bool,
    /// Whoever starts is of the build that was set, though the others may refuse it for its age by now.
    pub careless: bool,
    /// Virtual time.
    pub now: Nanos,
    /// Every choice.
    pub random: Random,
    /// Connections.
    pub network: Network,
    /// Replies not yet taken by the test.
    pub replies: Vec<Reply>,
    /// Not yet taken by the test.
    pub to_clients: Vec<ToClient>,
    /// Requests refused after they were taken in; not yet taken by the test.
    pub refused: Vec<Refused>,
    /// What controllers said, for reports: `(when, node, what)`.
    pub log: Vec<(Nanos, NodeId, String)>,
    /// Turns that workers took, and frames that they sent.
    pub work: (u64, u64),
    /// What turns cost, in virtual time; nothing by default.
    pub costs: Costs,
    /// How often things happened that have no other witness.
    pub marks: BTreeMap<&'static str, u64>,
    /// Violations of what must hold over all nodes wait for [`violations`](World::violations) instead of panicking.
    pub lenient: bool,
    /// What disks do: apart from the rest, so that a world without them is the same.
    disks: Random,
    /// A majority may crash though it forgets: what was acknowledged last may be lost.
    pub may_lose: bool,
    durable: bool,
    behind: bool,
    election_timeout: Nanos,
    /// No publication of a checkpoint waits for a slow disk.
    publishes_promptly: bool,
    /// Who there is, of this cluster: a bit each.
    known: u32,
    /// Which of the clusters that there were this one is.
    cluster: u64,
    /// What operators wait for, or what not everybody knows yet.
    orders: Vec<Order>,
    options: WorldOptions,
    library: L,
    nodes: Vec<Node>,
    queue: Queue<Event>,
    stage: Rc<Stage>,
    trace: Trace,
}

/// How long a worker's turn takes.
const TURN: Nanos = 5_000;

impl<L: Library> World<L> {
    /// A world whose nodes are all down.
    pub fn new(options: WorldOptions, library: L) -> World<L> {
        let mut engine = Options::new(NodeId(0), options.nodes, options.workers, Incarnation(0));
        engine.max_transaction_bytes = MIN_TRANSACTION_BYTES;
        (options.tune.0)(&mut engine);
        let stage = Stage::new(options.seed, Watch::new(options.engine, Limits::of(&engine)));
        World {
            now: 0,
            random: Random::new(options.seed),
            disks: Random::new(options.seed ^ 0xd15c_d15c),
            durable: engine.durability.has_disk(),
            behind: engine.durability == Durability::Async,
            election_timeout: engine.election_timeout,
            publishes_promptly: false,
            orders: Vec::new(),
            cluster: 0,
            known: ((1u64 << options.nodes) - 1) as u32,
            network: Network::with_delay(20_000, 100_000),
            replies: Vec::new(),
            to_clients: Vec::new(),
            refused: Vec::new(),
            log: Vec::new(),
            work: (0, 0),
            costs: Costs::default(),
            marks: BTreeMap::new(),
            raised: false,
            careless: false,
            lenient: false,
            may_lose: false,
            nodes: (0..options.nodes).map(|_| Node::new(options.workers)).collect(),
            queue: Queue::new(),
            stage,
            trace: Trace::new(options.engine, options.nodes),
            options,
            library,
        }
    }

    /// From now on workers may be interrupted in the middle of their turns, or not any more. Not with an engine that does
    /// not bear it.
    pub fn interleave(&mut self, interleaving: impl Into<Option<Interleaving>>) {
        if self.options.engine.abilities().interruptible {
            self.stage.interleaving.set(interleaving.into());
        }
    }

    /// Whether controllers are interrupted, too, in the same way.
    pub fn interleave_controllers(&mut self, yes: bool) {
        self.stage.controllers.set(yes);
    }

    /// From now on rare choices are made so often.
    pub fn buggify(&mut self, rates: Buggify) {
        self.stage.buggify.replace(rates);
    }

    /// How often a rare choice was made; how often a worker was interrupted in the middle of a turn.
    pub fn chosen(&self, site: Site) -> u64 {
        self.stage.chosen(site)
    }

    /// How often a worker was interrupted in the middle of a turn.
    pub fn interruptions(&self) -> u64 {
        self.stage.interruptions.get()
    }

    /// How often a controller was.
    pub fn controllers_interrupted(&self) -> u64 {
        self.stage.controllers_interrupted.get()
    }

    pub(crate) fn mark(&mut self, what: &'static str) {
        *self.marks.entry(what).or_default() += 1;
    }

    /// A machine's clocks.
    pub fn clock(&mut self, id: NodeId) -> &mut NodeClock {
        &mut self.machine(id).clock
    }

    /// Every node's id: the founders', and those of strangers that were [started](World::start).
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<L> {
        let known = self.known;
        (0..u32::BITS as u8).filter(move |at| known >> at & 1 == 1).map(NodeId)
    }

    /// A machine, be there a process on it or not.
    fn machine(&mut self, id: NodeId) -> &mut Node {
        while self.nodes.len() <= usize::from(id.0) {
            self.nodes.push(Node::new(self.options.workers));
            self.trace.meet();
        }
        &mut self.nodes[id.0 as usize]
    }

    /// Those that were not removed from the cluster, as far as they know.
    pub fn belonging(&self) -> impl Iterator<Item = NodeId> {
        let removed = |id: &NodeId| self.status(*id).is_some_and(|status| status.service == Service::Removed);
        self.ids().filter(move |id| !removed(id))
    }

    /// A number that two runs share exactly if they did the same: every event with its time, every byte that
    /// travelled, every reply.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash
    }

    /// The last events of a node, oldest first.
    pub fn events(&self, id: NodeId) -> Vec<String> {
        self.trace.last(id)
    }

    /// Shows every event as it happens.
    pub fn on_event(&mut self, listener: impl FnMut(&str) + 'static) {
        self.trace.listener = Some(Box::new(listener));
    }

    /// What was wrong so far over all nodes, in words.
    pub fn violations(&self) -> Vec<String> {
        self.stage.watch.borrow().violations().to_vec()
    }

    /// Looks at what cannot be told by facts: the logs' sizes. Says what was seen so far.
    pub fn observe(&mut self) -> Seen {
        for id in self.ids() {
            let (Some(replica), Some(status)) = (self.replica(id), self.status(id)) else { continue };
            let mut watch = self.stage.watch.borrow_mut();
            status.figure("log_bytes").iter().for_each(|bytes| watch.log_bytes(id, *bytes));
            watch.memory(id, replica.controller.memory());
        }
        self.seen()
    }

    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        self.stage.watch.borrow().seen()
    }

    /// Whether a node was killed, be it back or not.
    pub fn was_killed(&self, id: NodeId) -> bool {
        self.nodes[id.0 as usize].life > 1
    }

    /// Whether a node is up.
    pub fn is_up(&self, id: NodeId) -> bool {
        self.nodes.get(id.0 as usize).is_some_and(|node| node.replica.is_some())
    }

    /// The state of a node, if it is up.
    pub fn status(&self, id: NodeId) -> Option<Status> {
        let node = &self.nodes[id.0 as usize];
        node.replica.as_ref().map(|replica| replica.controller.status(node.clock.local(self.now)))
    }

    /// The replica of a node, if it is up. Workers in the middle of a turn are not in it: see
    /// [`finish_turns`](World::finish_turns).
    pub fn replica(&self, id: NodeId) -> Option<&Replica> {
        self.nodes[id.0 as usize].replica.as_ref()
    }

    /// Whether a replica that belongs to the cluster has no part in its epoch: only engines without a leader let one go.
    pub fn someone_is_outside(&self) -> bool {
        self.belonging().any(|id| self.status(id).is_some_and(|status| status.role == "outsider"))
    }

    /// The state of each node, if it is up.
    pub fn statuses(&self) -> Vec<Option<Status>> {
        self.ids().map(|id| self.status(id)).collect()
    }

    /// Who takes transactions, by its own account; of several the one of the latest epoch.
    pub fn leader(&self) -> Option<NodeId> {
        self.options.engine.serving(&self.statuses())
    }

    /// Which engine the replicas have.
    pub fn engine(&self) -> EngineKind {
        self.options.engine
    }

    /// Whether a node that is up holds no record of a transaction, and no tombstone.
    pub fn keeps_nothing(&self, id: NodeId) -> bool {
        self.replica(id).is_some_and(|replica| {
            replica.controller.memory().logs == 0 && !replica.controller.store().has_tombstones()
        })
    }

    /// Whether everyone votes and has installed all that was decided; else what is missing.
    pub fn converged(&self) -> Result<u64, String> {
        self.options.engine.converged(&self.statuses())
    }

    /// The id of a procedure.
    pub fn procedure(&self, name: &str) -> ProcedureId {
        let replica = self.nodes.iter().find_map(|node| node.replica.as_ref()).expect("a node is up");
        let at =
            replica.procedures.iter().position(|known| *known == name).expect("the procedure is registered");
        ProcedureId(at as u16)
    }

    /// What a worker of a node that is up answers to whoever wants to submit, if its thread is at hand now: between turns, and awake. Hosts
    /// with clients of their own submit at such moments only.
    pub fn ready(&self, to: NodeId, worker: u16) -> Option<Result<(), Refusal>> {
        let node = self.nodes.get(usize::from(to.0)).filter(|node| !node.paused)?;
        let (replica, slot) = (node.replica.as_ref()?, &node.slots[usize::from(worker)]);
        let at_hand =
            slot.fiber.is_none() && slot.inbox.is_empty() && !slot.stuck && slot.not_before <= self.now;
        at_hand.then(|| replica.workers[usize::from(worker)].ready())
    }

    /// A worker's answer to [`released_up_to`](highwater_seam::Worker::released_up_to), if it is [at hand](World::ready).
    pub fn released_up_to(&self, of: NodeId, worker: u16) -> Option<Timestamp> {
        self.ready(of, worker)?.ok()?;
        self.replica(of)?.workers[usize::from(worker)].released_up_to()
    }

    /// The answer of a worker to [`waits_for_leader`](highwater_seam::Worker::waits_for_leader), if its process runs and it is not in the middle of a
    /// turn.
    pub fn waits_for_leader(&self, of: NodeId, worker: u16) -> bool {
        self.replica(of).is_some_and(|replica| replica.workers[usize::from(worker)].waits_for_leader())
    }

    /// Submits a request to a worker, which gets a turn soon.
    ///
    /// With [`Interleaving`] it is taken in if the worker is in the middle of a turn, and may be refused later: see
    /// [`refused`](World::refused).
    pub fn submit(
        &mut self,
        to: NodeId,
        worker: u16,
        token: Token,
        procedure: ProcedureId,
        args: &[u8],
    ) -> Result<(), Refusal> {
        self.place(to, worker, token, procedure, args).map(|_| ())
    }

    /// The same, for whoever keeps a client's requests in order. What was taken in by a worker in the middle of a turn has no place yet.
    pub fn place(
        &mut self,
        to: NodeId,
        worker: u16,
        token: Token,
        procedure: ProcedureId,
        args: &[u8],
    ) -> Result<Taken, Refusal> {
        self.submit_as(Submission::Transaction, to, worker, Request::new(token, procedure, args))
    }

    /// The same, under a client's session.
    pub fn submit_once(
        &mut self,
        to: NodeId,
        worker: u16,
        (token, session): (Token, Option<Session>),
        procedure: ProcedureId,
        args: &[u8],
    ) -> Result<(), Refusal> {
        let request = Request { session, ..Request::new(token, procedure, args) };
        self.submit_as(Submission::Transaction, to, worker, request).map(|_| ())
    }

    /// Submits a read to a worker, to run on a snapshot of its replica.
    ///
    /// With [`Interleaving`] it is taken in whatever the replica does, and may be refused later: see
    /// [`refused`](World::refused).
    pub fn submit_snapshot(
        &mut self,
        to: NodeId,
        worker: u16,
        token: Token,
        procedure: ProcedureId,
        args: &[u8],
    ) -> Result<(), Refusal> {
        self.submit_as(Submission::Read, to, worker, Request::new(token, procedure, args)).map(|_| ())
    }

    /// The same, of a snapshot that is as fresh as asked.
    pub fn submit_fresh(
        &mut self,
        to: NodeId,
        worker: u16,
        (token, freshness): (Token, Option<Freshness>),
        procedure: ProcedureId,
        args: &[u8],
    ) -> Result<(), Refusal> {
        let request = Request { freshness, ..Request::new(token, procedure, args) };
        self.submit_as(Submission::Read, to, worker, request).map(|_| ())
    }

    fn submit_as(
        &mut self,
        submission: Submission,
        to: NodeId,
        worker: u16,
        request: Request<'_>,
    ) -> Result<Taken, Refusal> {
        let Request { token, procedure, args, session, freshness, .. } = request;
        let _entered = hooks::enter(self.stage.clone());
        let now = self.now;
        let who = Channel::Worker(worker);
        // Clients may know of a node before it is there.
        let nobody = Refusal::NotServing { ask: None };
        let node = self.nodes.get_mut(to.0 as usize).filter(|node| !node.paused).ok_or(nobody)?;
        let replica = node.replica.as_mut().ok_or(nobody)?;
        let slot = &mut node.slots[worker as usize];
        let engine = &mut replica.workers[worker as usize];
        self.stage.enter(Actor { node: to, life: node.incarnation, who });
        slot.bytes += args.len() as u64;
        let mut taken = Taken::PutOff;
        if slot.waits(&self.stage, who, now) {
            // A thread that has no turn cannot say no.
            if slot.fiber.is_none() && !slot.stuck && submission == Submission::Transaction {
                engine.ready()?;
            }
            slot.inbox.push(match submission {
                Submission::Transaction => Input::Request(token, procedure, args.to_vec(), session),
                Submission::Read => Input::Read(token, procedure, args.to_vec(), freshness),
            });
        } else {
            node.clock.tick(now);
            let local = node.clock.local(now);
            let before = self.stage.steps.get();
            taken = match submission {
                Submission::Transaction => engine.submit(local, request)?,
                Submission::Read => engine.submit_snapshot(local, request)?,
            };
            slot.steps += self.stage.steps.get() - before;
        }
        self.trace.mix(token.0);
        self.trace.note(now, to, What::Asked(worker, token));
        let at = now + self.random.below(TURN);
        self.schedule(to, who, at);
        Ok(taken)
    }

    /// Runs until virtual time `until`.
    ///
    /// # Panics
    /// If something is wrong over all nodes, unless the world is [`lenient`](World::lenient).
    pub fn run_until(&mut self, until: Nanos) {
        let _entered = hooks::enter(self.stage.clone());
        while let Some((at, number, event)) = self.queue.pop(until) {
            self.now = self.now.max(at);
            self.stage.watch.borrow_mut().set_now(self.now);
            self.trace.mix(at ^ number << 40);
            self.handle(event);
        }
        self.now = until;
        if !self.lenient {
            let violations = self.violations();
            assert!(violations.is_empty(), "{violations:#?}");
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Turn { node, life, who } => self.turn(node, life, who),
            Event::Connect { link } => self.connect(link),
            Event::Lost { link, generation, end } => self.lost(link, generation, end),
            Event::Resume { node, life } => self.resume(node, life),
            Event::Arrive { link, generation, to } => self.arrive(link, generation, to),
            Event::Datagram { link, generation, to, payload } => self.datagram(link, generation, to, payload),
            Event::PassedOn { link, lives, to, payload } => self.passed_on(link, lives, to, payload),
            Event::Late { link, lives, to, payload } => self.late(link, lives, to, payload),
            Event::Synced { node, life, upto } => self.synced(node, life, upto),
            Event::Checkpoint { node, life, number } => self.go_on_with_checkpoint(node, life, number),
            Event::SetAside { node, life } => self.set_aside(node, life),
            Event::EndsEarly { node, life } => self.end_early(node, life),
            Event::StartAgain { node } => self.start_again(node),
            Event::Flap { a, b, every, until } => self.flap(a, b, every, until),
        }
    }

    pub(crate) fn channels(&self) -> impl Iterator<Item = Channel> + use<L> {
        (0..self.options.workers).map(Channel::Worker).chain([Channel::Control])
    }

    pub(crate) fn incarnation(&self, id: NodeId) -> Incarnation {
        self.nodes[id.0 as usize].incarnation
    }
}
