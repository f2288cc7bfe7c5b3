//! A host for whole replicas: threads, queues in memory, and a director who kills and pauses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use highwater_core::{Clock, Epoch, Incarnation, Levels, NodeId, Outcome, ProcedureId};
use highwater_engines::EngineKind;
use highwater_seam::{
    ControlOutbox, Controller, Endpoint, Frame, Nanos, Next, Options, Outbox, Refusal, Request, Status,
    Token, Worker,
};
use highwater_sim::library::{STEPS, SimLibrary};
use highwater_store::Store;

/// What reaches a thread.
pub enum Input {
    Up(NodeId, Incarnation),
    Down(NodeId),
    Frame(Endpoint, Frame),
    Control(NodeId, Bytes),
    Request {
        token: Token,
        args: Vec<u8>,
        snap: bool,
    },
    /// Somebody of the same replica may have made way.
    Wake,
}

/// How a request ended.
pub enum Answer {
    Outcome(Outcome, Vec<u8>),
    Refused(Refusal),
}

/// What waits for a thread; rings when something comes.
pub struct Inbox<T> {
    queue: Mutex<VecDeque<T>>,
    bell: Condvar,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox { queue: Mutex::default(), bell: Condvar::new() }
    }
}

impl<T> Inbox<T> {
    pub fn put(&self, input: T) {
        self.queue.lock().unwrap().push_back(input);
        self.bell.notify_one();
    }

    /// Takes everything; waits for something, or until the time has come.
    pub fn take(&self, wait: Duration) -> VecDeque<T> {
        let queue = self.queue.lock().unwrap();
        let (mut queue, _) = self.bell.wait_timeout_while(queue, wait, |queue| queue.is_empty()).unwrap();
        std::mem::take(&mut queue)
    }
}

/// One life of a node: what others need to reach it. Workers' inboxes, then the controller's.
struct Life {
    incarnation: Incarnation,
    inboxes: Vec<Inbox<Input>>,
    stop: AtomicBool,
    paused: Mutex<bool>,
    resumed: Condvar,
    status: Mutex<Option<Status>>,
}

/// What all threads share.
pub struct Hub {
    started: Instant,
    lives: Vec<RwLock<Option<Arc<Life>>>>,
    pub workers: usize,
    pub answers: Inbox<(Token, Answer, Nanos)>,
    /// Rings when a controller has told how it stands.
    news: Inbox<()>,
}

impl Hub {
    pub fn now(&self) -> Nanos {
        self.started.elapsed().as_nanos() as Nanos
    }

    fn life(&self, node: NodeId) -> Option<Arc<Life>> {
        self.lives[node.0 as usize].read().unwrap().clone()
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.lives.len() as u8).map(NodeId)
    }

    /// Whether somebody is there to take it.
    pub fn submit(&self, node: NodeId, worker: usize, token: Token, args: Vec<u8>, snap: bool) -> bool {
        let life = self.life(node);
        life.is_some_and(|life| {
            life.inboxes[worker].put(Input::Request { token, args, snap });
            true
        })
    }
}

/// The replicas, for the director.
pub struct Cluster {
    pub hub: Arc<Hub>,
    seed: u64,
    tune: fn(&mut Options),
    births: u64,
    threads: BTreeMap<NodeId, Vec<JoinHandle<Option<Arc<Store>>>>>,
}

/// How long the director waits for anything.
const PATIENCE: Nanos = 60_000_000_000;

impl Cluster {
    pub fn start(nodes: u8, workers: usize, seed: u64, tune: fn(&mut Options)) -> Cluster {
        let hub = Arc::new(Hub {
            started: Instant::now(),
            lives: (0..nodes).map(|_| RwLock::default()).collect(),
            workers,
            answers: Inbox::default(),
            news: Inbox::default(),
        });
        let mut cluster = Cluster { hub, seed, tune, births: 0, threads: BTreeMap::new() };
        cluster.hub.nodes().for_each(|node| cluster.revive(node));
        cluster
    }

    pub fn now(&self) -> Nanos {
        self.hub.now()
    }

    /// A fresh process: empty memory, a new incarnation.
    pub fn revive(&mut self, node: NodeId) {
        self.births += 1;
        let incarnation = Incarnation(self.seed << 32 | self.births);
        let (nodes, workers) = (self.hub.lives.len() as u8, self.hub.workers);
        let mut options = Options::new(node, nodes, workers as u16, incarnation);
        (self.tune)(&mut options);
        let incarnation = options.incarnation;
        let replica =
            highwater_engines::build(EngineKind::Rolis, options, &SimLibrary, Arc::new(Clock::system()));
        let steps = replica.procedures.iter().position(|name| *name == STEPS).unwrap();
        let life = Arc::new(Life {
            incarnation,
            inboxes: (0..=workers).map(|_| Inbox::default()).collect(),
            stop: AtomicBool::new(false),
            paused: Mutex::new(false),
            resumed: Condvar::new(),
            status: Mutex::default(),
        });
        // It hears of the others before they can reach it, they hear of it before it can reach them.
        let others: Vec<(NodeId, Arc<Life>)> =
            self.hub.nodes().filter_map(|other| Some((other, self.hub.life(other)?))).collect();
        for (other, their) in &others {
            life.inboxes.iter().for_each(|inbox| inbox.put(Input::Up(*other, their.incarnation)));
        }
        *self.hub.lives[node.0 as usize].write().unwrap() = Some(life.clone());
        for (_, their) in &others {
            their.inboxes.iter().for_each(|inbox| inbox.put(Input::Up(node, incarnation)));
        }
        let mut threads = Vec::new();
        for (at, worker) in replica.workers.into_iter().enumerate() {
            let seat = Seat::new(&self.hub, node, &life, at);
            threads.push(std::thread::spawn(move || seat.work(worker, ProcedureId(steps as u16))));
        }
        let seat = Seat::new(&self.hub, node, &life, workers);
        threads.push(std::thread::spawn(move || seat.control(replica.controller)));
        self.threads.insert(node, threads);
    }

    /// Ends a process between two turns of each of its threads; its machine answers that it is gone.
    pub fn kill(&mut self, node: NodeId) {
        self.end(node);
        for other in self.hub.nodes().filter_map(|other| self.hub.life(other)) {
            other.inboxes.iter().for_each(|inbox| inbox.put(Input::Down(node)));
        }
    }

    fn end(&mut self, node: NodeId) -> Vec<Option<Arc<Store>>> {
        let life = self.hub.lives[node.0 as usize].write().unwrap().take().unwrap();
        life.stop.store(true, Ordering::Release);
        life.inboxes.iter().for_each(|inbox| inbox.put(Input::Wake));
        self.threads.remove(&node).unwrap().into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    /// Its threads stand still between two turns, or go on.
    pub fn pause(&self, node: NodeId, paused: bool) {
        let life = self.hub.life(node).unwrap();
        *life.paused.lock().unwrap() = paused;
        life.resumed.notify_all();
    }

    /// Ends everything; the stores of all nodes.
    pub fn stop(mut self) -> Vec<Arc<Store>> {
        let nodes = self.hub.nodes();
        nodes.map(|node| self.end(node).into_iter().flatten().next().unwrap()).collect()
    }

    fn statuses(&self) -> Vec<Status> {
        let status = |node| self.hub.life(node)?.status.lock().unwrap().clone();
        self.hub.nodes().filter_map(status).collect()
    }

    fn leads(&self) -> Option<Status> {
        let leads = self.statuses().into_iter().filter(|status| status.leads());
        leads.max_by_key(|status| status.epoch)
    }

    pub fn leader(&self) -> Option<NodeId> {
        self.leads().map(|status| status.node)
    }

    pub fn epoch(&self) -> Epoch {
        self.leads().map_or(Epoch(0), |status| status.epoch)
    }

    /// Whether everybody votes in the leader's epoch and has a store of his own, in his present life.
    pub fn is_whole(&self) -> bool {
        let Some(leads) = self.leads() else { return false };
        let statuses = self.statuses();
        let votes = |status: &Status| {
            status.votes_by(&leads) && status.copying_bytes.is_none() && status.epoch == leads.epoch
        };
        statuses.len() == self.hub.lives.len() && statuses.iter().all(votes)
    }

    /// Whether, besides, everybody has installed what the leader has.
    pub fn is_converged(&self) -> bool {
        let Some(leads) = self.leads().filter(|_| self.is_whole()) else { return false };
        self.statuses().iter().all(|status| {
            let own = status.figure("applied");
            own == leads.figure("accepted") && own == leads.figure("decided")
        })
    }

    /// Waits until something holds, looking whenever a controller has told how it stands.
    pub fn wait(&self, what: &str, holds: impl FnMut(&Cluster) -> bool) {
        assert!(self.wait_until(self.now() + PATIENCE, holds), "{what}: {:#?}", self.statuses());
    }

    /// The same, not longer than `until`; whether it holds.
    pub fn wait_until(&self, until: Nanos, mut holds: impl FnMut(&Cluster) -> bool) -> bool {
        loop {
            if holds(self) {
                return true;
            }
            let left = until.saturating_sub(self.now());
            if left == 0 {
                return false;
            }
            self.hub.news.take(Duration::from_nanos(left));
        }
    }
}

/// A thread's place: what it reads, and whom it reaches.
struct Seat {
    hub: Arc<Hub>,
    node: NodeId,
    life: Arc<Life>,
    at: usize,
    /// Which life of each peer it was told of.
    peers: BTreeMap<NodeId, Incarnation>,
    #[cfg(feature = "planted")]
    planted: Option<&'static highwater_core::planted::Bug>,
}

impl Seat {
    fn new(hub: &Arc<Hub>, node: NodeId, life: &Arc<Life>, at: usize) -> Seat {
        Seat {
            hub: hub.clone(),
            node,
            life: life.clone(),
            at,
            peers: BTreeMap::new(),
            #[cfg(feature = "planted")]
            planted: std::env::var("PLANTED")
                .ok()
                .map(|name| highwater_sim::planted::by_name(&name).expect("PLANTED is a bug's name")),
        }
    }

    /// What has come for the next turn; `None` if the process ends.
    fn next(&mut self, next: Next) -> Option<(Nanos, VecDeque<Input>)> {
        #[cfg(feature = "planted")]
        highwater_core::planted::plant(self.planted);
        let wait = match next {
            Next::Now => Duration::ZERO,
            Next::At(at) => Duration::from_nanos(at.saturating_sub(self.hub.now())),
            Next::Idle => Duration::MAX / 4,
        };
        let inputs = self.life.inboxes[self.at].take(wait);
        let paused = self.life.paused.lock().unwrap();
        let running = |paused: &mut bool| *paused && !self.life.stop.load(Ordering::Acquire);
        drop(self.life.resumed.wait_timeout_while(paused, Duration::from_secs(5), running).unwrap());
        if self.life.stop.load(Ordering::Acquire) {
            return None;
        }
        for input in &inputs {
            match input {
                Input::Up(peer, incarnation) => drop(self.peers.insert(*peer, *incarnation)),
                Input::Down(peer) => drop(self.peers.remove(peer)),
                _ => {}
            }
        }
        Some((self.hub.now(), inputs))
    }

    /// To a seat of another node, if that lives the life that this one was told of.
    fn send(&self, to: NodeId, at: usize, input: Input) {
        let life = self.hub.life(to);
        if let Some(life) = life.filter(|life| self.peers.get(&to) == Some(&life.incarnation)) {
            life.inboxes[at].put(input);
        }
    }

    fn wake(&self, who: impl Iterator<Item = usize>) {
        who.filter(|at| *at != self.at).for_each(|at| self.life.inboxes[at].put(Input::Wake));
    }

    fn work(mut self, mut worker: Box<dyn Worker>, steps: ProcedureId) -> Option<Arc<Store>> {
        let (mut out, mut next) = (Outbox::default(), Next::Now);
        while let Some((now, inputs)) = self.next(next) {
            for input in inputs {
                match input {
                    Input::Up(peer, incarnation) => worker.peer_up(now, peer, incarnation, Levels::default()),
                    Input::Down(peer) => worker.peer_down(now, peer),
                    Input::Frame(from, frame) => worker.deliver(now, from, frame),
                    Input::Request { token, args, snap } => {
                        let request = Request::new(token, steps, &args);
                        let taken = if snap {
                            worker.submit_snapshot(now, request)
                        } else {
                            worker.submit(now, request)
                        };
                        if let Err(refusal) = taken {
                            self.hub.answers.put((token, Answer::Refused(refusal), self.hub.now()));
                        }
                    }
                    Input::Control(..) | Input::Wake => {}
                }
            }
            next = worker.turn(now, &mut out);
            out.expect_no_writes();
            let from = Endpoint { node: self.node, worker: self.at as u16 };
            for (to, frame) in out.frames.drain(..) {
                self.send(to.node, to.worker.into(), Input::Frame(from, frame));
            }
            for reply in &out.replies {
                let answer = Answer::Outcome(reply.outcome, out.content(reply).to_vec());
                self.hub.answers.put((reply.token, answer, self.hub.now()));
            }
            if out.wake_workers {
                self.wake(0..self.hub.workers);
            }
            if out.wake_controller {
                self.wake(self.hub.workers..self.hub.workers + 1);
            }
            out.clear();
        }
        None
    }

    fn control(mut self, mut controller: Box<dyn Controller>) -> Option<Arc<Store>> {
        let (mut out, mut next, mut told_at) = (ControlOutbox::default(), Next::Now, 0);
        while let Some((now, inputs)) = self.next(next) {
            for input in inputs {
                match input {
                    Input::Up(peer, incarnation) => {
                        controller.peer_up(now, peer, incarnation, Levels::default())
                    }
                    Input::Down(peer) => controller.peer_down(now, peer, true),
                    Input::Control(from, message) => controller.deliver(now, from, message),
                    Input::Frame(..) | Input::Request { .. } | Input::Wake => {}
                }
            }
            next = controller.turn(now, &mut out);
            for (to, message) in out.messages.drain(..) {
                self.send(to, self.at, Input::Control(self.node, message));
            }
            if std::mem::take(&mut out.wake_workers) {
                self.wake(0..self.hub.workers);
            }
            out.events.clear();
            if now >= told_at {
                told_at = now + 2_000_000;
                *self.life.status.lock().unwrap() = Some(controller.status(now));
                self.hub.news.put(());
            }
            // It tells how it stands, whether it has anything else to do or not.
            next = match next {
                Next::At(at) => Next::At(at.min(told_at)),
                Next::Idle => Next::At(told_at),
                Next::Now => Next::Now,
            };
        }
        Some(controller.store())
    }
}
