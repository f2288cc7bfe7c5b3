//! What the threads of a node share, and the letters that they send each other.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use highwater_core::{Epoch, NodeId};
use highwater_engines::EngineKind;
use highwater_redis::meter::Meter;
use highwater_redis::meter::events::{Events, STALLED};
use highwater_redis::meter::hot::HotKey;
use highwater_redis::meter::slow::SlowLog;
use highwater_redis::modules::compiler::Compiler;
use highwater_seam::hot::{COUNTERS, hottest};
use highwater_seam::{CheckpointNews, Counters, Nanos, Service};
use highwater_store::Store;
use highwater_workloads::Workload;

use crate::admin::protocol::{AdminRequest, AdminResponse, ElectionReport};
use crate::clock::{Stopwatch, monotonic, unix_ms};
use crate::held::{Held, HeldBytes};
use crate::letter_box::LetterBox;
use crate::load::{RunSpec, WorkerStats};
use crate::memory::Provisions;
use crate::relay::{Relay, Relayed};
use crate::roster::Roster;
use crate::storage::JournalQueues;
use crate::tls::{Keys, Wire};
use crate::transport::traffic::Traffic;
use crate::transport::{Arrival, Channel, Established};
use crate::worker::LocalRequest;

/// One per node, behind an `Arc`.
pub struct Shared {
    pub node: NodeId,
    /// Which engine runs.
    pub engine: EngineKind,
    /// The workers' letter boxes.
    pub workers: Vec<LetterBox<WorkerLetter>>,
    /// Frames for the workers that came over other workers' connections.
    relays: Vec<Relay>,
    /// The control thread's.
    pub control: LetterBox<ControlLetter>,
    /// The store's memory, kept ahead of need.
    pub provisions: Provisions,
    /// The compiler of modules.
    pub compiler: Arc<Compiler>,
    /// The admin port's.
    pub admin: LetterBox<AdminLetter>,
    /// Jobs under way that operators asked for.
    pub jobs: AtomicUsize,
    /// The workers' counters.
    pub counters: Vec<Arc<Counters>>,
    /// Names of the registered procedures, by id.
    pub procedures: Vec<&'static str>,
    /// Who belongs, and where.
    pub roster: Roster,
    /// For stamps of requests.
    pub stopwatch: Stopwatch,
    /// When the process started.
    pub started: Nanos,
    /// Names of the store's tables, by id.
    tables: OnceLock<Vec<&'static str>>,
    /// The store, as long as the replica has it.
    store: OnceLock<Weak<Store>>,
    /// The most bytes that it used at any summary.
    used_peak: AtomicU64,
    /// When the process began, or the last checkpoint was published, in Unix time in s.
    saved_unix_s: AtomicU64,
    /// The last checkpoint failed.
    save_failed: AtomicBool,
    /// If what is written goes to a disk.
    journal: OnceLock<Arc<JournalQueues>>,
    /// If doors speak TLS.
    keys: OnceLock<Arc<Keys>>,
    /// What clients' sockets stand on, if not on epoll.
    ring: AtomicBool,
    /// The process was asked to end.
    leaving: AtomicBool,
    disk_is_stale: AtomicBool,
    left_behind: AtomicBool,
    ending: AtomicBool,
    /// Workers that owe no client a reply any more, once it is ending.
    drained: AtomicUsize,
    stopping: AtomicBool,
    /// Workers that take no letters any more.
    closed: Vec<AtomicBool>,
    clients: Vec<Padded>,
    /// Letters of the admin port's that each worker has read.
    pulses: Vec<Padded>,
    /// What the workers measure of their clients' requests.
    pub meters: Vec<Arc<Meter>>,
    /// Slow transactions.
    pub slow: Arc<SlowLog>,
    /// What happened lately.
    pub events: Events,
    /// Bytes to and from peers.
    pub traffic: Traffic,
    /// Checkpoints published, and those that failed.
    checkpoints: [AtomicU64; 2],
    /// Written by the control thread.
    elections: Mutex<ElectionReport>,
    /// What each thread holds: the workers by index, then the control thread, then the admin port's.
    held: Vec<Held>,
    summary: Mutex<Summary>,
}

/// Keeps what one worker writes off the lines that others write.
#[derive(Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// What every thread may want to know of the controller's state; a few milliseconds old.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Whether the replica takes transactions.
    pub service: Service,
    /// What it does, in its engine's word.
    pub role: Cow<'static, str>,
    /// The epoch it is in.
    pub epoch: Epoch,
    /// Whom clients should ask, as far as it knows.
    pub ask: Option<NodeId>,
    /// Bytes that the store uses, and what it may come to if this node leads.
    pub memory: (u64, u64),
    /// Nodes that there is a connection to.
    pub up: Vec<NodeId>,
}

impl Summary {
    /// See [`Service::leads`].
    pub fn leads(&self) -> bool {
        self.service.leads()
    }
}

impl Shared {
    /// For a node with as many workers as there are counters.
    pub fn new(
        node: NodeId,
        engine: EngineKind,
        counters: Vec<Arc<Counters>>,
        procedures: Vec<&'static str>,
        roster: Roster,
    ) -> io::Result<Shared> {
        Ok(Shared {
            node,
            engine,
            workers: counters.iter().map(|_| LetterBox::new()).collect::<Result<_, _>>()?,
            relays: counters.iter().map(|_| Relay::default()).collect(),
            control: LetterBox::new()?,
            provisions: Provisions::default(),
            compiler: Arc::default(),
            admin: LetterBox::new()?,
            jobs: AtomicUsize::new(0),
            closed: counters.iter().map(|_| AtomicBool::new(false)).collect(),
            clients: counters.iter().map(|_| Padded::default()).collect(),
            pulses: counters.iter().map(|_| Padded::default()).collect(),
            meters: counters.iter().map(|_| Arc::default()).collect(),
            slow: Arc::new(SlowLog::new(counters.len())),
            events: Events::default(),
            traffic: Traffic::default(),
            checkpoints: Default::default(),
            elections: Mutex::default(),
            held: (0..counters.len() + 2).map(|_| Held::default()).collect(),
            counters,
            procedures,
            roster,
            stopwatch: Stopwatch::calibrate(),
            started: monotonic(),
            tables: OnceLock::new(),
            store: OnceLock::new(),
            used_peak: AtomicU64::new(0),
            saved_unix_s: AtomicU64::new(unix_ms() / 1000),
            save_failed: AtomicBool::new(false),
            journal: OnceLock::new(),
            keys: OnceLock::new(),
            ring: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            disk_is_stale: AtomicBool::new(false),
            left_behind: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            drained: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            summary: Mutex::new(Summary {
                service: Service::Starting,
                role: "starting".into(),
                epoch: Epoch(0),
                ask: None,
                memory: (0, u64::MAX),
                up: Vec::new(),
            }),
        })
    }

    /// The store that the replica keeps its data in.
    pub fn set_store(&self, store: &Arc<Store>) {
        let _known = self.tables.set(store.schema().iter().map(|(_, table)| table.name).collect());
        let _known = self.store.set(Arc::downgrade(store));
    }

    /// The store, while the replica lives.
    pub fn store(&self) -> Option<Arc<Store>> {
        self.store.get()?.upgrade()
    }

    /// The most bytes that the store has used at any summary.
    pub fn used_peak(&self) -> u64 {
        self.used_peak.load(Ordering::Relaxed)
    }

    /// When a checkpoint was last published, in Unix time in s, or when the process began; and whether one has failed since.
    pub fn last_checkpoint(&self) -> (u64, bool) {
        (self.saved_unix_s.load(Ordering::Relaxed), self.save_failed.load(Ordering::Relaxed))
    }

    /// The keys at which transactions met most, the hottest first.
    pub fn hot_keys(&self) -> Vec<HotKey> {
        let tables = self.tables.get().map_or(&[][..], Vec::as_slice);
        let sketches = self.counters.iter().map(|counters| counters.hot.all());
        hottest(sketches, COUNTERS).into_iter().map(|hot| HotKey::of(hot, tables)).collect()
    }

    /// Keys that expired and were removed.
    pub fn expired(&self) -> u64 {
        self.meters.iter().map(|meter| meter.expired.load(Ordering::Relaxed)).sum()
    }

    /// A checkpoint was published; `of_this`: it is of the store in use. One that took long may be of the store before, and saves nothing of
    /// this one.
    pub fn checkpoint_published(&self, of_this: bool) {
        self.checkpoints[0].fetch_add(1, Ordering::Relaxed);
        if of_this {
            self.save_failed.store(false, Ordering::Relaxed);
            self.saved_unix_s.store(unix_ms() / 1000, Ordering::Relaxed);
        }
    }

    /// A checkpoint came to nothing.
    pub fn checkpoint_failed(&self) {
        self.checkpoints[1].fetch_add(1, Ordering::Relaxed);
        self.save_failed.store(true, Ordering::Relaxed);
    }

    /// Checkpoints published, and those that failed.
    pub fn checkpoints(&self) -> (u64, u64) {
        let [published, failed] = &self.checkpoints;
        (published.load(Ordering::Relaxed), failed.load(Ordering::Relaxed))
    }

    /// How often this node changed its part.
    pub fn elections(&self) -> ElectionReport {
        *self.elections.lock().expect("nobody panics while holding them")
    }

    /// Forgets them.
    pub fn reset_hot_keys(&self) {
        self.counters.iter().for_each(|counters| counters.hot.reset());
    }

    /// What is written goes there from now on.
    ///
    /// # Panics
    /// If there is one already.
    pub fn set_journal(&self, queues: Arc<JournalQueues>) {
        self.journal.set(queues).map_err(drop).expect("a node has one journal");
    }

    /// Doors speak TLS with these.
    pub fn set_keys(&self, keys: Option<Arc<Keys>>) {
        if let Some(keys) = keys {
            self.keys.set(keys).map_err(drop).expect("a node has one set of keys");
        }
    }

    /// Clients' sockets stand on rings.
    pub fn set_rings(&self) {
        self.ring.store(true, Ordering::Relaxed);
    }

    /// What clients' sockets stand on: `epoll` or `uring`.
    pub fn sockets(&self) -> &'static str {
        if self.ring.load(Ordering::Relaxed) { "uring" } else { "epoll" }
    }

    /// Reads the files of TLS again; what came of it, in words.
    pub fn reload_keys(&self) -> Result<(), String> {
        let Some(keys) = self.keys.get() else {
            return Err("no door of this node speaks TLS (tls.resp, tls.admin, tls.peer)".into());
        };
        let read = keys.reload();
        match &read {
            Ok(()) => tracing::info!("certificates are read again; connections that come use them"),
            Err(why) => {
                tracing::warn!("certificates could not be read again, and those before stay in use: {why}")
            }
        }
        read
    }

    /// Where what is written goes, if the node has a disk: a queue for each worker, and the controller's behind them.
    pub fn journal(&self) -> Option<&Arc<JournalQueues>> {
        self.journal.get()
    }

    /// Something that one of the journal's writers wrote is durable, or the disk has news for the last one, the controller.
    pub fn wake_writer(&self, writer: usize) {
        self.workers.get(writer).map_or(&self.control.waker, |worker| &worker.waker).wake();
    }

    /// The disk is older than what this node told others: it stops, to begin another life.
    pub fn end_this_life(&self) {
        self.disk_is_stale.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Whether it stopped for that.
    pub fn disk_is_stale(&self) -> bool {
        self.disk_is_stale.load(Ordering::Relaxed)
    }

    /// The disk does not hold all that this node ever accepted, though it ends in order.
    pub fn leave_behind(&self) {
        self.left_behind.store(true, Ordering::Relaxed);
    }

    /// Whether the disk holds all that this node ever accepted, once all threads have ended.
    pub fn all_is_on_disk(&self) -> bool {
        // What found no room on a full disk is in nobody's queue any more.
        let held = self.journal().is_some_and(|journal| journal.held_bytes() > 0 || journal.is_full());
        !held && !self.left_behind.load(Ordering::Relaxed)
    }

    /// Asks the process to end: what it leads is handed over first; then [`Shared::end`].
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
        self.control.waker.wake();
    }

    /// Whether it was asked to.
    pub fn leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Asks the node to end in good order: no new clients and requests; what is under way is answered, for as long as
    /// the control thread has patience; then [`Shared::stop`].
    pub fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
        self.control.waker.wake();
        self.wake_workers();
    }

    /// Whether the node was asked to end.
    #[inline]
    pub fn ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// A worker owes no client a reply any more; said once by each.
    pub fn drained(&self) {
        self.drained.fetch_add(1, Ordering::Relaxed);
        self.control.waker.wake();
    }

    /// Whether no worker owes a reply.
    pub fn all_drained(&self) -> bool {
        self.drained.load(Ordering::Relaxed) == self.workers.len()
    }

    /// Makes every thread end its loop, now.
    pub fn stop(&self) {
        // Release; pairs with the Acquire in `stopping`: letters posted before are there for a last look.
        self.stopping.store(true, Ordering::Release);
        self.provisions.stop();
        self.compiler.end();
        self.control.waker.wake();
        self.admin.waker.wake();
        self.wake_workers();
        self.journal().into_iter().for_each(|journal| journal.ring());
    }

    /// Whether to end.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Gives every sleeping worker a turn.
    #[inline]
    pub fn wake_workers(&self) {
        self.workers.iter().for_each(|worker| worker.waker.wake());
    }

    /// Whether the worker takes no letters any more.
    pub(crate) fn locals_are_closed(&self, worker: usize) -> bool {
        self.closed[worker].load(Ordering::Relaxed)
    }

    /// The worker takes no letters any more; who says so fences.
    pub(crate) fn mark_locals_closed(&self, worker: usize) {
        self.closed[worker].store(true, Ordering::Relaxed);
    }

    /// Sends all workers a letter each.
    pub fn tell_workers(&self, letter: impl Fn() -> WorkerLetter) {
        self.workers.iter().for_each(|worker| worker.post(letter()));
    }

    /// Answers the request of an admin connection.
    pub fn answer(&self, connection: u64, response: AdminResponse) {
        self.admin.post(AdminLetter { connection, response });
    }

    /// Sets how many clients a worker has; only that worker does.
    #[inline]
    pub fn set_clients(&self, worker: usize, count: usize) {
        let known = &self.clients[worker].0;
        if known.load(Ordering::Relaxed) != count as u64 {
            known.store(count as u64, Ordering::Relaxed);
        }
    }

    /// A worker has read a letter of the admin port's; only that worker says so.
    pub fn pulse(&self, worker: usize) {
        self.pulses[worker].0.store(self.pulses_of(worker) + 1, Ordering::Relaxed);
    }

    /// How many it has read.
    pub fn pulses_of(&self, worker: usize) -> u64 {
        self.pulses[worker].0.load(Ordering::Relaxed)
    }

    /// Clients of all workers.
    pub fn clients(&self) -> u64 {
        self.clients.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }

    /// Where a worker says what it holds; only that worker writes.
    #[inline]
    pub fn held_by_worker(&self, worker: usize) -> &Held {
        &self.held[worker]
    }

    /// Worker `over` has received a frame for worker `to`. Gives it back if there is no room; `over` is woken when there is.
    pub fn relay(&self, over: usize, to: usize, arrival: Arrival) -> Result<(), Arrival> {
        self.relays[to].put(over as u16, arrival)?;
        self.workers[to].waker.wake();
        Ok(())
    }

    /// What other workers have received for this one, in order.
    pub fn take_relayed(&self, worker: usize) -> VecDeque<Relayed> {
        let (frames, waiting) = self.relays[worker].take();
        waiting.into_iter().for_each(|over| self.workers[over as usize].waker.wake());
        frames
    }

    /// Bytes that wait for this worker to take them.
    pub fn relayed_bytes(&self, worker: usize) -> usize {
        self.relays[worker].held_bytes()
    }

    /// Where the control thread says what it holds.
    pub fn held_by_control(&self) -> &Held {
        &self.held[self.workers.len()]
    }

    /// Where the admin port's thread says what it holds.
    pub fn held_by_admin(&self) -> &Held {
        &self.held[self.workers.len() + 1]
    }

    /// What all threads hold, by part.
    pub fn held(&self) -> HeldBytes {
        self.held.iter().map(Held::get).sum()
    }

    /// The latest summary.
    pub fn summary(&self) -> Summary {
        self.summary.lock().expect("nobody panics while holding the summary").clone()
    }

    /// Replaces the summary, and counts and keeps what changed.
    pub fn set_summary(&self, summary: Summary) {
        self.used_peak.fetch_max(summary.memory.0, Ordering::Relaxed);
        let before = self.summary();
        let stalls = summary.service == Service::Stalled;
        let stalled = before.service == Service::Stalled;
        if (&before.role, before.epoch, before.ask, stalled)
            != (&summary.role, summary.epoch, summary.ask, stalls)
        {
            let state = (&*summary.role, summary.epoch.0, summary.ask.map(|node| node.0));
            self.events.keep(unix_ms(), "role", state, if stalls { STALLED } else { "" });
            let mut elections = self.elections.lock().expect("nobody panics while holding them");
            elections.stood += u64::from(summary.role == "candidate" && before.role != "candidate");
            elections.served += u64::from(summary.leads() && !before.leads());
            elections.epochs += u64::from(summary.epoch != before.epoch);
        }
        *self.summary.lock().expect("nobody panics while holding the summary") = summary;
    }

    /// The sum of one counter over all workers.
    pub fn total(&self, counter: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        self.counters.iter().map(|counters| counter(counters).load(Ordering::Relaxed)).sum()
    }
}

pub enum WorkerLetter {
    /// A connection of its channel.
    Adopt(Established),
    /// The connection of a client that coordinates its transactions itself.
    Coordinator(Wire),
    /// The admin port wants to know whether the worker turns.
    Pulse,
    /// That node was removed from the cluster.
    HangUp(NodeId),
    /// That node does not hold this connection any more.
    GiveUp {
        /// The other side.
        peer: NodeId,
        /// Which connection.
        generation: u64,
    },
    /// That node says that it has sent so many bytes over this connection: see whether they came.
    Look {
        /// The other side.
        peer: NodeId,
        /// Which connection.
        generation: u64,
        /// Since the handshake.
        bytes: u64,
    },
    /// For its load driver; to be answered under this ticket.
    Load(u64, LoadCommand),
    /// A request of the program that the node is part of.
    Local(LocalRequest),
}

/// What a load driver is to do.
#[derive(Clone)]
pub enum LoadCommand {
    /// Load this worker's part of the data; counts requests into `done`.
    Populate {
        /// Whose data.
        workload: Arc<dyn Workload>,
        /// Requests released so far, over all workers.
        done: Arc<AtomicU64>,
    },
    /// Start a load.
    Run(Arc<RunSpec>),
    /// Send the counts.
    Report,
    /// Set the counts to 0.
    Reset,
    /// Stop the load; answer when its last transaction is released or given up.
    Stop,
}

/// To the control thread.
pub enum ControlLetter {
    /// A worker lost a connection.
    Lost {
        /// The other side.
        peer: NodeId,
        channel: Channel,
        /// Which connection of that channel.
        generation: u64,
    },
    /// A load driver's answer.
    Load {
        /// The command's ticket.
        ticket: u64,
        /// What came of it.
        answer: LoadAnswer,
    },
    /// What became of a checkpoint.
    Checkpoint(CheckpointNews),
    /// A load is prepared and can start.
    Start {
        /// The admin connection's key.
        connection: u64,
        spec: Arc<RunSpec>,
    },
    /// An operator's request; to be answered by [`Shared::answer`].
    Ask {
        /// The admin connection's key.
        connection: u64,
        /// What is wanted.
        request: AdminRequest,
    },
}

/// To the admin port's thread: an answer.
pub struct AdminLetter {
    /// The admin connection's key.
    pub connection: u64,
    /// What to say.
    pub response: AdminResponse,
}

/// A load driver's answer.
pub enum LoadAnswer {
    /// The command was carried out.
    Done,
    /// It was not.
    Failed(String),
    /// Counts.
    Stats(Box<WorkerStats>),
}
