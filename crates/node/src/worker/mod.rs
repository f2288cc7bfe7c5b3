//! A worker's thread: one event loop around one engine worker.
//!
//! A turn: take letters and frames that other workers received for this one, run clients' and the load's requests
//! (bounded), give the engine its turn, write its frames, hand out its replies. Then look at the sockets: at once and only
//! now and then while there is work to do, or asleep until something arrives, the engine's deadline passes, or another
//! thread wakes it.
//!
//! No transaction changes threads: who reads a request executes, replicates and answers it.

mod arrivals;
mod client;
mod clients;
#[cfg(feature = "delegates")]
mod coordinators;
#[cfg(not(feature = "delegates"))]
#[path = "no_coordinators.rs"]
mod coordinators;
mod crowd;
mod farewell;
mod forward;
mod keepers;
mod keys;
mod lists;
mod loading;
mod locals;
mod on_ring;
mod rationing;
mod serving;
mod sweep;
#[cfg(test)]
mod tests;
mod tidings;
mod writing;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use highwater_redis::Door;
use highwater_redis::host::token::{Owner, keeper, unpack};
use highwater_redis::host::{Expiry, Modules, Sessions, Users, Watch, users};
use highwater_seam::{Nanos, Next, Outbox, Refusal, Worker};

use crate::clock::monotonic;
use crate::config::Forward;
use crate::held::HeldBytes;
use crate::load::{Appetite, Driver, Loader};
use crate::poll::{Interest, Poller};
use crate::shared::Shared;
use crate::tls::Keys;
use crate::transport::Channel;
use crate::transport::link::LinkLimits;
use crate::transport::peers::Peers;
use crate::uring::{self, Ring};
use crate::waker::Waker;

use clients::Clients;
pub use clients::Rules;
use coordinators::Coordinators;
pub use crowd::Limits;
use forward::Forwarding;
use keepers::{Desk, Keepers};
use keys::{KEY_PEER, KEY_WAKER};
use locals::Locals;
pub use locals::{Answer, Ended, LocalRequest};
use writing::Writing;

/// A busy worker looks at its sockets as often. A look costs about half a microsecond.
const LOOK_EVERY: Nanos = 100_000;

/// How often to look for receive buffers that nobody fills.
const REST_EVERY: Nanos = 1_000_000_000;

/// What a worker thread is made of.
pub struct Setup {
    /// Its number.
    pub index: usize,
    /// Its share of the engine.
    pub engine: Box<dyn Worker>,
    /// Where its clients connect.
    pub listener: TcpListener,
    /// What all RESP connections share.
    pub door: Arc<Door>,
    /// What their requests are measured by.
    pub watch: Watch,
    /// What clients may do.
    pub rules: Rules,
    /// What a connection to another node may hold.
    pub links: LinkLimits,
    /// One worker of a replica that keeps sessions has them end.
    pub sessions: Option<Sessions>,
    /// One worker has expired keys removed.
    pub expiry: Option<Expiry>,
    /// One worker has the node's users follow the table.
    pub users: Option<Users>,
    /// One worker has the modules compiled that others loaded.
    pub modules: Option<Modules>,
    /// If its door speaks TLS.
    pub keys: Option<Arc<Keys>>,
    /// Whether what its clients ask goes on to the leader.
    pub forward: Forward,
    /// Where its clients' sockets stand, if not with epoll.
    pub ring: Option<Ring>,
}

/// One worker's thread.
pub struct WorkerThread {
    shared: Arc<Shared>,
    index: usize,
    engine: Box<dyn Worker>,
    out: Outbox,
    poller: Poller,
    peers: Peers,
    clients: Clients,
    coordinators: Coordinators,
    load: Option<Driver>,
    /// The ticket of a stop that waits for the last release.
    stop_ticket: Option<u64>,
    loader: Option<(u64, Loader)>,
    /// Loads so far: tells their tokens apart.
    loads_started: u64,
    last_look: Nanos,
    /// When to look for receive buffers that nobody fills; while something comes from peers.
    rests_at: Option<Nanos>,
    /// The node is ending, and no client waits for a reply of this worker.
    drained: bool,
    /// If the node has a disk.
    writing: Option<Writing>,
    /// Requests of the program that the node is part of.
    locals: Locals,
    keepers: Keepers,
    forwarding: Forwarding,
    /// What the ring receives into; 0 without one.
    ring_bytes: usize,
}

impl WorkerThread {
    /// Ready to run.
    pub fn new(shared: Arc<Shared>, setup: Setup) -> io::Result<WorkerThread> {
        let poller = Poller::new()?;
        let Setup { index, engine, listener, door, watch, rules, links, .. } = setup;
        let Setup { sessions, expiry, users, modules, keys, forward, ring, .. } = setup;
        let forwarding = Forwarding::new(index, forward, links, rules.limits, door.clone(), watch.clone());
        poller.add(&shared.workers[index].waker, KEY_WAKER, Interest::EDGE)?;
        let ring_bytes = ring.as_ref().map_or(0, |_| uring::MEMORY);
        Ok(WorkerThread {
            coordinators: Coordinators::new(rules, links.queued),
            clients: {
                let mut clients = Clients::new(index, listener, door, watch, rules, &poller)?;
                clients.set_keys(keys);
                clients.set_ring(ring);
                clients
            },
            peers: Peers::new(links, KEY_PEER),
            out: Outbox::default(),
            load: None,
            stop_ticket: None,
            loader: None,
            loads_started: 0,
            last_look: 0,
            rests_at: None,
            drained: false,
            writing: shared.journal().map(|queues| Writing::new(queues.clone(), index)),
            locals: Locals::new(shared.clone(), index),
            keepers: Keepers { sessions, expiry, users, modules },
            forwarding,
            ring_bytes,
            shared,
            index,
            engine,
            poller,
        })
    }

    /// Until the node stops.
    pub fn run(mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let letter_box = &shared.workers[self.index];
        while !shared.stopping() {
            letter_box.waker.take();
            let now = monotonic();
            for letter in letter_box.take() {
                self.read_letter(now, letter);
            }
            self.take_relayed(now);
            self.retry_stuck(now);
            let next = self.turn(now)?;
            match next {
                Next::Now if now - self.last_look < LOOK_EVERY => self.clients.hand_over(now),
                Next::Now => self.look(Some(0))?,
                Next::At(_) | Next::Idle => self.sleep(next)?,
            }
        }
        self.clients.say_goodbye(monotonic(), self.referral(), &self.poller);
        if self.writing.as_ref().is_some_and(Writing::waits) {
            shared.leave_behind();
        }
        Ok(())
    }

    /// Runs requests, gives the engine its turn, hands out what it has; when to come back.
    fn turn(&mut self, now: Nanos) -> io::Result<Next> {
        self.forwarding.look(now, users::standing(&*self.engine), &mut self.clients);
        self.clients.turn(now, &self.poller, self.forwarding.upstream.serial());
        self.forwarding.wake(self.clients.woken_guests());
        self.coordinators.turn(now, &mut *self.engine);
        self.rest(now);
        if self.shared.ending() {
            self.clients.part(now, self.referral(), &self.poller);
            let referral = self.referral();
            self.locals.refuse(referral);
            let gate = self.clients.gate();
            self.forwarding.serve(now, &mut *self.engine, gate, Some(referral));
        } else {
            self.clients.submit(now, &mut *self.engine, &mut self.forwarding.upstream);
            let gate = self.clients.gate();
            self.forwarding.serve(now, &mut *self.engine, gate, None);
            let meter = &self.shared.meters[self.index];
            self.locals.submit(now, &mut *self.engine);
            self.keepers.turn(&Desk { now, door: self.clients.door(), meter }, &mut *self.engine);
        }
        let appetite = self.submit_load(now);
        if let Some(writing) = &mut self.writing {
            writing.tell(now, &mut *self.engine);
        }
        let mut next = self.engine.turn(now, &mut self.out);
        if self.hand_out(now) {
            next = Next::Now;
        }
        self.clients.flush(now, &self.poller, &mut self.forwarding.upstream);
        self.forwarding.flush(&self.poller);
        self.report_lost_forwards();
        if self.coordinators.flush(now, &mut *self.engine, &self.poller) {
            next = Next::Now;
        }
        self.drain();
        self.shared.set_clients(self.index, self.clients.count() + self.coordinators.count());
        let (held, (sending, receiving)) = (self.clients.held(), self.peers.held_bytes());
        let (asked, told) = self.coordinators.held_bytes();
        let (to_others, from_others) = self.forwarding.held_bytes();
        self.shared.held_by_worker(self.index).set(HeldBytes {
            sending: sending as u64,
            receiving: (receiving + from_others + self.shared.relayed_bytes(self.index)) as u64,
            requests: (held.requests + asked + to_others + self.ring_bytes) as u64,
            replies: (held.replies + told) as u64,
        });
        let forwards = self.forwarding.has_more(&self.clients);
        if self.clients.has_more() || self.clients.is_dirty() || forwards {
            next = Next::Now;
        }
        let upstream = &self.forwarding.upstream;
        let later = (self.clients.puts_off() || upstream.is_leaving()).then(|| upstream.deadline()).flatten();
        let deadlines = [self.clients.deadline(), self.coordinators.deadline(), self.rests_at, later];
        // A node that ends gives its keepers no turn.
        let keepers = if self.shared.ending() { None } else { self.keepers.next() };
        for at in deadlines.into_iter().chain([keepers, self.locals.next()]).flatten() {
            next = next.sooner(Next::At(at));
        }
        Ok(match appetite {
            Appetite::Now => Next::Now,
            Appetite::At(at) => next.sooner(Next::At(at)),
            Appetite::None => next,
        })
    }

    /// Gives back what receive buffers of silent peers do not need.
    fn rest(&mut self, now: Nanos) {
        if self.rests_at.is_some_and(|at| at <= now) {
            let came = self.peers.rest() | self.forwarding.rest();
            self.rests_at = came.then_some(now + REST_EVERY);
        }
    }

    /// What clients hear once the node is ending: that another one serves, if one does.
    fn referral(&self) -> Refusal {
        match self.engine.ready() {
            Err(elsewhere @ Refusal::NotServing { .. }) => elsewhere,
            Ok(()) | Err(_) => Refusal::NotServing { ask: None },
        }
    }

    /// The node is ending: says so when nobody waits for anything any more.
    fn drain(&mut self) {
        let owes = self.clients.owes() || self.locals.owes() || self.forwarding.owes();
        if self.shared.ending() && !self.drained && !owes {
            self.drained = true;
            self.shared.drained();
        }
    }

    /// Frames to the sockets, replies to who asked, wake-ups to who sleeps. Whether the load has something to go on
    /// with.
    fn hand_out(&mut self, now: Nanos) -> bool {
        let mut load_goes_on = false;
        let mut out = std::mem::take(&mut self.out);
        match &mut self.writing {
            Some(writing) => writing.take(&mut out),
            None => out.expect_no_writes(),
        }
        let frames = out.frames.drain(..).map(|(to, frame)| (to.node, Channel::Worker(to.worker), frame));
        let lost = self.peers.send(frames, &self.poller);
        for closed in lost {
            self.peer_lost(now, closed);
        }
        if !out.replies.is_empty() {
            let at = self.shared.stopwatch.now();
            for released in &out.replies {
                let (owner, slot, number) = unpack(released.token);
                match owner {
                    Owner::Client => {
                        let (outcome, when) = (released.outcome, released.at);
                        self.forwarding.upstream.ended((slot, number));
                        self.clients.released(slot, number, at, outcome, when, out.content(released));
                    }
                    Owner::Load => {
                        load_goes_on = true;
                        if let Some(load) = &mut self.load {
                            load.released(now, at, slot, number, released.outcome);
                        }
                    }
                    Owner::Keeper if slot == keeper::GUESTS => {
                        let (outcome, when) = (released.outcome, released.at);
                        self.forwarding.released(number, outcome, when, out.content(released));
                    }
                    Owner::Keeper if slot == keeper::LOCALS => {
                        self.locals.released(number, released.outcome, out.content(released));
                    }
                    Owner::Keeper => {
                        let meter = &self.shared.meters[self.index];
                        let desk = Desk { now, door: self.clients.door(), meter };
                        let (outcome, reply) = (released.outcome, out.content(released));
                        let known = self.keepers.released(&desk, slot, outcome, reply);
                        debug_assert!(known, "slot {slot} is a keeper's");
                    }
                    Owner::Loader => {
                        load_goes_on = true;
                        if let Some((_, loader)) = &mut self.loader {
                            loader.released(slot, number, released.outcome, out.content(released));
                        }
                    }
                }
            }
        }
        for (client, message) in &out.to_clients {
            self.coordinators.tell(*client, message);
        }
        if let Some(tells) = self.clients.take_written(&out.written) {
            self.engine.tell_writes(tells);
        }
        if out.wake_workers {
            let others = self.shared.workers.iter().enumerate().filter(|(at, _)| *at != self.index);
            others.for_each(|(_, other)| other.waker.wake());
        }
        if out.wake_controller {
            self.shared.control.waker.wake();
        }
        out.clear();
        self.out = out;
        load_goes_on
    }

    /// Blocks until there is something to do.
    fn sleep(&mut self, next: Next) -> io::Result<()> {
        if !self.waker().try_sleep() {
            return self.look(Some(0));
        }
        let timeout = match next {
            Next::At(at) => Some(at.saturating_sub(monotonic())),
            Next::Now | Next::Idle => None,
        };
        let looked = self.look(timeout);
        self.waker().awake();
        looked
    }

    /// What wakes this thread. Found anew each time: to count one more user of what all threads share would be to write where all read.
    fn waker(&self) -> &Waker {
        &self.shared.workers[self.index].waker
    }

    /// Looks at the sockets, and takes what they have.
    fn look(&mut self, timeout: Option<Nanos>) -> io::Result<()> {
        let count = self.clients.wait(&mut self.poller, timeout)?;
        let now = monotonic();
        self.last_look = now;
        self.clients.take_news(now);
        for at in 0..count {
            let event = self.poller.event(at);
            self.take_event(now, event);
        }
        Ok(())
    }
}
