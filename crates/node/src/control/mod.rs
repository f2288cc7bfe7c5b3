//! The control thread: the replica's [`Controller`], connections to the other controllers (a message is a frame with a head
//! and no body), the peer port, signals.
//!
//! Heartbeats depend on it, so nothing here may take long: the admin port has a thread of its own that reads, parses
//! and writes ([`admin`](crate::admin)), and asks here only for what the controller knows; jobs that read the whole store
//! run on threads of their own, too.

pub(crate) mod checkpoints;
pub(crate) mod inspect;
mod leaving;
mod loads;
mod newcomers;
mod serve;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use bytes::Bytes;
use highwater_core::{Level, NodeId};
use highwater_seam::{CheckpointNews, ControlOutbox, Controller, Frame, Nanos, Next};

use crate::admin::protocol::{AdminRequest, AdminResponse};
use crate::clock::monotonic;
use crate::config::contact::{contact, contradiction};
use crate::config::{Forward, NodeConfig};
use crate::held::HeldBytes;
use crate::poll::{Event, Interest, Poller};
use crate::shared::{ControlLetter, Shared, Summary, WorkerLetter};
use crate::tls::PeerLock;
use crate::transport::accounts::{Accounts, Order, introduction};
use crate::transport::directory::Directory;
use crate::transport::handshake::Identity;
use crate::transport::incoming::{Called, Incoming, Living};
use crate::transport::link::{Closed, LinkLimits};
use crate::transport::outgoing::{Dialed, Outgoing};
use crate::transport::peers::{Lost, Peers};
use crate::transport::{Channel, Established};

use checkpoints::Checkpoints;
use leaving::Leaving;
use loads::Loads;
use newcomers::Newcomers;

/// Kinds of poller keys, as [`worker`](crate::worker) has them.
const KEY_WAKER: u64 = 0;
const KEY_SIGNAL: u64 = 1 << 40;
const KEY_LIFELINE: u64 = 2 << 40;
const KEY_LINK: u64 = 3 << 40;
const KEY_OUTGOING: u64 = 4 << 40;
const KEY_INCOMING: u64 = 5 << 40;
const KEY_RELOAD: u64 = 6 << 40;
const KIND_MASK: u64 = 0xff_ffff << 40;

/// The other threads learn of the controller's state at least as often, while it has anything to do.
const SUMMARY_EVERY: Nanos = 20_000_000;

/// How often receive buffers that nobody fills are given back, while the controller has anything to do.
const REST_EVERY: Nanos = 1_000_000_000;

/// How often it is looked whether the replica has found out how fresh it is, if nobody says so.
const CURIOUS_EVERY: Nanos = 10_000_000;

/// How long replies under way are waited for when the node is asked to end. Without a majority they never come.
const END_PATIENCE: Nanos = 1_000_000_000;

/// What a control thread is made of.
pub struct Setup {
    /// The replica's controller.
    pub controller: Box<dyn Controller>,
    /// Who we are.
    pub identity: Identity,
    /// Where the others are.
    pub directory: Arc<Directory>,
    /// Where the others call.
    pub peer_listener: TcpListener,
    /// The word of this node's own config on it.
    pub own: NodeConfig,
    /// How many may call at a time who have not said who they are.
    pub callers: usize,
    /// Whether TLS is spoken with them.
    pub lock: PeerLock,
    /// Readable when the process is asked to end.
    pub signals: UnixStream,
    /// Readable when certificates are to be read again.
    pub reloads: UnixStream,
    /// Whether to end when standard input does.
    pub lifeline: bool,
    /// What a connection to another node may hold.
    pub links: LinkLimits,
    /// How often connections are looked at: see [`accounts`](crate::transport::accounts).
    pub looks_every: Nanos,
    /// If there is a disk.
    pub checkpoints: Option<Checkpoints>,
    /// Whether what clients ask goes on to the leader.
    pub forward: Forward,
}

pub struct ControlThread {
    shared: Arc<Shared>,
    controller: Box<dyn Controller>,
    out: ControlOutbox,
    poller: Poller,
    reloads: UnixStream,
    signals: UnixStream,
    /// Before the links, for fields are dropped in this order: whoever sees this node go finds that nobody listens any more.
    incoming: Incoming,
    links: Peers,
    outgoing: Outgoing,
    accounts: Accounts,
    newcomers: Newcomers,
    /// The last word that was said of that.
    misplaced: Option<String>,
    /// The word of this node's own config on it.
    own: NodeConfig,
    directory: Arc<Directory>,
    /// No connection leaves this thread whose other side has not shown a certificate.
    certified_only: bool,
    /// The newest level that each node reads, as it said over its last connection.
    reads: BTreeMap<NodeId, Level>,
    /// Who is connected, and when each was heard last.
    living: Living,
    loads: Loads,
    checkpoints: Option<Checkpoints>,
    leaving: Leaving,
    /// Connections that want to know how fresh the replica is.
    curious: Vec<u64>,
    summarised: Nanos,
    /// When the links' receive buffers were last asked what they do not need.
    rested: Nanos,
    /// When the node ends even if replies are still owed.
    ends_by: Option<Nanos>,
}

impl ControlThread {
    /// Ready to run.
    pub fn new(shared: Arc<Shared>, setup: Setup) -> io::Result<ControlThread> {
        let poller = Poller::new()?;
        poller.add(&shared.control.waker, KEY_WAKER, Interest::EDGE)?;
        poller.add(&setup.signals, KEY_SIGNAL, Interest::READ)?;
        poller.add(&setup.reloads, KEY_RELOAD, Interest::READ)?;
        if setup.lifeline {
            watch_lifeline(&poller)?;
        }
        let mut outgoing =
            Outgoing::new(setup.identity.clone(), setup.lock.clone(), setup.directory.clone(), KEY_OUTGOING);
        outgoing.set_forwards(setup.forward == Forward::On);
        let mut accounts = Accounts::new(setup.looks_every);
        accounts.introduce(contact(&setup.own, false));
        Ok(ControlThread {
            links: Peers::new(setup.links, KEY_LINK),
            incoming: Incoming::new(
                setup.identity,
                setup.lock.clone(),
                setup.peer_listener,
                setup.callers,
                &poller,
                KEY_INCOMING,
            )?,
            outgoing,
            certified_only: setup.lock.is_required(),
            accounts,
            newcomers: Newcomers::default(),
            misplaced: None,
            own: setup.own,
            directory: setup.directory,
            living: Living::default(),
            reads: BTreeMap::new(),
            loads: Loads::default(),
            checkpoints: setup.checkpoints,
            leaving: Leaving::default(),
            curious: Vec::new(),
            controller: setup.controller,
            out: ControlOutbox::default(),
            signals: setup.signals,
            reloads: setup.reloads,
            summarised: 0,
            rested: 0,
            ends_by: None,
            shared,
            poller,
        })
    }

    /// Until the node stops.
    pub fn run(mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        self.meet_roster(monotonic());
        while !shared.stopping() {
            shared.control.waker.take();
            let now = monotonic();
            for letter in shared.control.take() {
                self.read_letter(now, letter);
            }
            let next = self.turn(now)?;
            self.wait(next)?;
        }
        if self.controller.status(monotonic()).forgets {
            shared.leave_behind();
        }
        Ok(())
    }

    fn turn(&mut self, now: Nanos) -> io::Result<Option<Nanos>> {
        let mut dialed = Vec::new();
        self.outgoing.turn(now, &self.poller, &mut dialed);
        self.take_dialed(now, dialed);
        self.incoming.turn(now, &self.poller);
        self.keep_accounts(now);
        self.end_if_drained(now);
        self.loads.turn(now, &self.shared);
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.turn(now, &mut *self.controller);
        }
        if let Some(journal) = self.shared.journal() {
            self.controller.set_disk(journal.disk_state());
            self.controller.set_wall_clock(unix_ms());
        }
        let next = self.controller.turn(now, &mut self.out);
        let news = !self.out.events.is_empty();
        self.hand_out(now);
        self.watch_level(now);
        let leaving = self.leaving.turn(now, &mut *self.controller, &self.shared);
        let curious = self.answer_curious(now);
        if news || now - self.summarised >= SUMMARY_EVERY {
            self.summarise(now);
        }
        if now - self.rested >= REST_EVERY {
            self.rested = now;
            self.links.rest();
        }
        let engine = match next {
            Next::Now => Some(now),
            Next::At(at) => Some(at),
            Next::Idle => None,
        };
        let deadlines = [
            engine,
            leaving,
            curious,
            self.outgoing.deadline(),
            self.incoming.deadline(),
            self.accounts.deadline(),
            self.loads.deadline(),
            self.ends_by,
        ];
        Ok(deadlines.into_iter().flatten().min())
    }

    /// Once the node was asked to end: stops it when the workers owe nothing any more, or patience ends. Until then it
    /// goes on as a replica: replies need the others.
    fn end_if_drained(&mut self, now: Nanos) {
        if self.shared.ending() {
            let by = *self.ends_by.get_or_insert(now + END_PATIENCE);
            if self.shared.all_drained() || now >= by {
                self.shared.stop();
            }
        }
    }

    fn hand_out(&mut self, now: Nanos) {
        if !self.out.events.is_empty() {
            let status = self.controller.status(now);
            let state = (&*status.role, status.epoch.0, status.ask.map(|node| node.0));
            let keep = |event: &String| self.shared.events.keep(unix_ms(), "engine", state, event);
            self.out.events.iter().for_each(keep);
        }
        for event in self.out.events.drain(..) {
            tracing::info!(node = %self.shared.node, "{event}");
        }
        if let Some(journal) = self.shared.journal() {
            // Few and small: what finds no room goes with the next.
            journal.put(self.shared.workers.len(), &mut self.out.writes);
        } else {
            assert!(self.out.writes.is_empty(), "the engine writes to a disk, and this host has none");
        }
        for order in self.out.checkpoint.drain(..) {
            let checkpoints =
                self.checkpoints.as_mut().expect("an engine that writes nothing checkpoints nothing");
            checkpoints.take(self.shared.node, order, &*self.controller);
        }
        for peer in std::mem::take(&mut self.out.hang_up) {
            self.hang_up(now, peer);
        }
        if std::mem::take(&mut self.out.disk_is_stale) {
            self.shared.end_this_life();
        }
        if let Some(roster) = self.out.roster.take() {
            self.shared.roster.decide(&roster);
            self.meet_roster(now);
        }
        let frame = |head| Frame { head, body: Bytes::new() };
        let messages = self.out.messages.drain(..).map(|(to, head)| (to, Channel::Control, frame(head)));
        let lost = self.links.send(messages, &self.poller);
        if std::mem::take(&mut self.out.wake_workers) {
            self.shared.wake_workers();
        }
        lost.into_iter().for_each(|lost| self.link_lost(now, lost));
    }

    /// Dials whom the roster lists, and has no more to do with those who were removed.
    fn meet_roster(&mut self, now: Nanos) {
        for node in self.shared.roster.nodes() {
            self.directory.set(NodeId(node.id), node.peer);
            self.outgoing.add(now, NodeId(node.id), self.living.knows(NodeId(node.id)));
        }
        let misplaced = self.why_misplaced();
        if let Some(why) = misplaced.as_ref().filter(|_| misplaced != self.misplaced) {
            tracing::warn!("{why}");
        }
        self.misplaced = misplaced;
        let removed = self.shared.roster.removed();
        for peer in &removed {
            if !self.outgoing.remove(*peer) {
                continue;
            }
            self.hang_up(now, *peer);
        }
        self.incoming.set_removed(removed);
    }

    /// Whether the cluster decided that this node is found where it is not.
    fn why_misplaced(&self) -> Option<String> {
        let decided = self.shared.roster.node(self.shared.node)?;
        let why = contradiction(&decided, &self.own)?;
        let id = self.own.id;
        Some(format!(
            "{why}: clients and nodes are told the former; `highwater member replace {id}` moves it"
        ))
    }

    /// Says in handshakes which level is in use, and ends what there is with nodes that do not read it: they were welcomed before.
    fn watch_level(&mut self, now: Nanos) {
        let Some(level) = self.controller.level() else { return };
        self.incoming.set_level(level);
        self.outgoing.set_level(level);
        while let Some((peer, newest)) = self.reads.iter().find(|(_, newest)| **newest < level) {
            let (peer, newest) = (*peer, *newest);
            tracing::warn!(%peer, "{level} is in use, and its build reads up to {newest}: start it with a newer build");
            self.reads.remove(&peer);
            self.hang_up(now, peer);
        }
    }

    /// Ends all connections to a node.
    fn hang_up(&mut self, now: Nanos, peer: NodeId) {
        self.shared.tell_workers(|| WorkerLetter::HangUp(peer));
        if let Some(lost) = self.links.hang_up(peer, Closed::Ended) {
            self.link_lost(now, lost);
        }
    }

    fn summarise(&mut self, now: Nanos) {
        let status = self.controller.status(now);
        self.summarised = now;
        self.shared.provisions.set_store(&self.controller.store());
        let memory = self.controller.memory();
        let memory = (memory.used, memory.most);
        self.shared.set_summary(Summary {
            service: status.service,
            role: status.role,
            epoch: status.epoch,
            ask: status.ask,
            memory,
            up: self.links.up(),
        });
        let (sending, receiving) = self.links.held_bytes();
        self.shared.held_by_control().set(HeldBytes {
            sending: sending as u64,
            receiving: receiving as u64,
            ..HeldBytes::default()
        });
    }

    fn wait(&mut self, deadline: Option<Nanos>) -> io::Result<()> {
        let timeout = deadline.map(|at| at.saturating_sub(monotonic()));
        let asleep = self.shared.control.waker.try_sleep();
        let count = self.poller.wait(if asleep { timeout } else { Some(0) });
        self.shared.control.waker.awake();
        let now = monotonic();
        for at in 0..count? {
            let event = self.poller.event(at);
            self.take_event(now, event)?;
        }
        Ok(())
    }

    fn take_event(&mut self, now: Nanos, event: Event) -> io::Result<()> {
        match event.key & KIND_MASK {
            KEY_SIGNAL => {
                tracing::info!("asked to end");
                // Once is enough: a second signal finds the default action restored.
                self.poller.remove(&self.signals)?;
                self.shared.leave();
            }
            KEY_RELOAD => {
                let mut seen = [0; 64];
                // A byte for each signal; one reading answers them all.
                if self.reloads.read(&mut seen).is_ok_and(|count| count == 0) {
                    self.poller.remove(&self.reloads)?;
                }
                // What came of it stands in the log.
                let _ = self.shared.reload_keys();
            }
            KEY_LIFELINE => self.pull_lifeline(),
            KEY_LINK => {
                let (controller, node) = (&mut *self.controller, (event.key & !KIND_MASK) as usize);
                let (living, accounts) = (&mut self.living, &mut self.accounts);
                let (mut orders, mut introduced) = (Vec::new(), Vec::new());
                let taken = self.links.event(node, event, &self.poller, |arrival| {
                    living.heard(now, arrival.from);
                    match arrival.to {
                        Channel::Accounts => {
                            accounts.heard(arrival.from, &arrival.frame.head, &mut orders);
                            introduced
                                .extend(introduction(&arrival.frame.head).map(|said| (arrival.from, said)));
                        }
                        _ => controller.deliver(now, arrival.from, arrival.frame.head),
                    }
                    Ok(())
                });
                for (peer, said) in introduced {
                    let (roster, controller) = (&self.shared.roster, &mut *self.controller);
                    self.newcomers.introduced(now, peer, &said, roster, controller);
                }
                self.carry_out(now, orders);
                if let Err(lost) = taken {
                    self.link_lost(now, lost);
                }
            }
            KEY_OUTGOING => {
                let mut dialed = Vec::new();
                self.outgoing.event(event, now, &self.poller, &mut dialed);
                self.take_dialed(now, dialed);
            }
            KEY_INCOMING => match self.incoming.event(event, now, &self.poller, &self.living) {
                Some(Called::Node(connection)) => {
                    if connection.channel == Channel::Control {
                        self.outgoing.arrived(connection.peer);
                    }
                    self.adopt(now, connection);
                }
                Some(Called::Client { stream, worker }) => {
                    assert!(
                        !self.certified_only || stream.is_certified(),
                        "a client's certificate was looked at"
                    );
                    self.shared.workers[usize::from(worker)].post(WorkerLetter::Coordinator(stream));
                }
                None => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// Tells who wants to know how fresh the replica is, once that is found out; when to look again if it is not.
    fn answer_curious(&mut self, now: Nanos) -> Option<Nanos> {
        if self.curious.is_empty() {
            return None;
        }
        if self.controller.is_finding_freshness(now) {
            return Some(now + CURIOUS_EVERY);
        }
        for connection in std::mem::take(&mut self.curious) {
            self.serve_admin(now, connection, AdminRequest::Status);
        }
        None
    }

    fn serve_admin(&mut self, now: Nanos, connection: u64, request: AdminRequest) {
        if let AdminRequest::Freshness = request {
            self.controller.find_freshness(now);
            self.shared.wake_workers();
            return self.curious.push(connection);
        }
        if let AdminRequest::HandOver { to } = request {
            match self.controller.hand_over(now, to.map(NodeId)) {
                Ok(()) => self.leaving.wait(connection),
                Err(message) => self.shared.answer(connection, AdminResponse::Error { message }),
            }
            return;
        }
        let misplaced = self.why_misplaced();
        let context = serve::Context {
            now,
            shared: &self.shared,
            controller: &mut *self.controller,
            loads: &mut self.loads,
            refusals: self
                .incoming
                .refusals(now)
                .chain(self.outgoing.refusals())
                .chain(self.directory.why_unreachable())
                .chain(misplaced)
                .collect(),
            newcomers: &mut self.newcomers,
        };
        if let Some(response) = context.serve(connection, request) {
            self.shared.answer(connection, response);
        }
    }

    fn take_dialed(&mut self, now: Nanos, dialed: Vec<Dialed>) {
        for dialed in dialed {
            match dialed {
                Dialed::Established(connection) => self.adopt(now, connection),
                Dialed::Removed(peer) => {
                    tracing::info!(%peer, "a node of the cluster says that this one was removed");
                    self.outgoing.give_up();
                    self.controller.told_removed();
                }
                Dialed::Refused(peer) => {
                    tracing::info!(%peer, "nothing listens there any more");
                    self.controller.peer_down(now, peer, true);
                }
            }
        }
    }

    /// Hands a connection to the thread that owns its channel.
    fn adopt(&mut self, now: Nanos, connection: Established) {
        let Established { peer, incarnation, levels, channel, .. } = connection;
        assert!(
            !self.certified_only || connection.stream.is_certified(),
            "a peer's certificate was looked at"
        );
        self.reads.insert(peer, levels.newest);
        self.shared.traffic.adopted(&connection);
        tracing::debug!(%peer, %incarnation, %channel, "connected");
        let mut orders = Vec::new();
        self.accounts.adopted(now, &connection, &mut orders);
        match channel {
            Channel::Worker(index) | Channel::Forward(index) => {
                self.shared.workers[index as usize].post(WorkerLetter::Adopt(connection))
            }
            Channel::Accounts => unreachable!("no connection is made for accounts alone"),
            Channel::Control => match self.links.adopt(connection, &self.poller) {
                Ok(replaces) => {
                    if replaces {
                        self.controller.peer_down(now, peer, false);
                    }
                    tracing::info!(%peer, %incarnation, "peer is up");
                    self.living.met(now, peer, incarnation);
                    self.controller.peer_up(now, peer, incarnation, levels);
                }
                Err(lost) => self.link_lost(now, lost),
            },
        }
        self.carry_out(now, orders);
    }

    /// Compares with the other nodes which connections there are.
    fn keep_accounts(&mut self, now: Nanos) {
        let mut orders = Vec::new();
        self.accounts.turn(now, &mut orders);
        self.carry_out(now, orders);
    }

    fn carry_out(&mut self, now: Nanos, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Tell(peer, head) => {
                    let frame = Frame { head, body: Bytes::new() };
                    let told = std::iter::once((peer, Channel::Accounts, frame));
                    let lost = self.links.send(told, &self.poller);
                    lost.into_iter().for_each(|lost| self.link_lost(now, lost));
                }
                Order::HangUp(peer) => {
                    let lost = self.links.hang_up(peer, Closed::Silent);
                    lost.into_iter().for_each(|lost| self.link_lost(now, lost));
                }
                Order::GiveUp { peer, worker, generation } => {
                    self.shared.workers[usize::from(worker)].post(WorkerLetter::GiveUp { peer, generation });
                }
                Order::Look { peer, worker, generation, bytes } => {
                    let letter = WorkerLetter::Look { peer, generation, bytes };
                    self.shared.workers[usize::from(worker)].post(letter);
                }
            }
        }
    }

    fn link_lost(&mut self, now: Nanos, lost: Lost) {
        tracing::info!(peer = %lost.peer, "control connection lost: {}", lost.why);
        self.accounts.lost(lost.peer, Channel::Control, lost.generation);
        self.outgoing.lost(now, lost.peer, Channel::Control, lost.generation);
        self.living.lost(lost.peer);
        self.controller.peer_down(now, lost.peer, false);
    }

    fn read_letter(&mut self, now: Nanos, letter: ControlLetter) {
        match letter {
            ControlLetter::Lost { peer, channel, generation } => {
                self.accounts.lost(peer, channel, generation);
                self.outgoing.lost(now, peer, channel, generation)
            }
            ControlLetter::Load { ticket, answer } => {
                self.loads.answer(ticket, answer, &self.shared);
            }
            ControlLetter::Checkpoint(news) => {
                if let (CheckpointNews::Failed(_), Some(checkpoints)) = (news, &mut self.checkpoints) {
                    checkpoints.failed(now);
                }
                self.controller.checkpoint(now, news);
                match news {
                    CheckpointNews::Published(_) => {
                        self.shared.checkpoint_published(self.controller.keeps_store())
                    }
                    CheckpointNews::Failed(_) => self.shared.checkpoint_failed(),
                    CheckpointNews::Wanted | CheckpointNews::Scanned { .. } => {}
                }
            }
            ControlLetter::Start { connection, spec } => self.loads.start(connection, spec, &self.shared),
            ControlLetter::Ask { connection, request } => self.serve_admin(now, connection, request),
        }
    }

    /// Somebody wrote to standard input, or closed it.
    fn pull_lifeline(&mut self) {
        let mut ignored = [0; 256];
        match rustix::io::read(std::io::stdin(), &mut ignored) {
            Ok(n) if n > 0 => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            _ => {
                tracing::info!("standard input closed");
                self.shared.stop();
            }
        }
    }
}

fn watch_lifeline(poller: &Poller) -> io::Result<()> {
    match poller.add(std::io::stdin(), KEY_LIFELINE, Interest::READ) {
        // Standard input is a file: it never closes.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!("threads.lifeline has no effect: standard input is a file");
            Ok(())
        }
        other => other,
    }
}

/// Milliseconds since 1970; 0 if the system's clock is not set.
fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
