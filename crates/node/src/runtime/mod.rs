//! Builds a replica and runs its threads until it is asked to end.

mod disks;
mod doors;
mod signals;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use core_affinity::CoreId;
use highwater_core::{Clock, Incarnation, Levels, NodeId, Speaks};
use highwater_disk::{Disk, stale};
use highwater_kit::code::Code;
use highwater_redis::meter::Meter;
use highwater_redis::{Callables, host};
#[cfg(feature = "wasm")]
use highwater_redis::{Door, modules::compiler::Compiler};
use highwater_seam::Replica;
use signal_hook::consts::SIGXFSZ;

use crate::admin::starting::Starting;
use crate::admin::thread::AdminThread;
use crate::config::{self, Config, ConfigError, Durability, PeerTls, Pin, PinPolicy};
use crate::control::{self, ControlThread};
use crate::descriptors::{self, Shares};
use crate::error::NodeError;
use crate::library::hosted;
use crate::logging;
use crate::own_address;
use crate::roster::{self, Roster};
use crate::shared::{ControlLetter, Shared};
use crate::storage::recovery::ThisStart;
use crate::storage::{DataDirectory, StartProgress, Storage, owner, recovery};
use crate::tls::{Keys, PeerLock};
use crate::transport::accounts::TIMEOUTS_PER_LOOK;
use crate::transport::directory::Directory;
use crate::transport::handshake::{Fingerprint, Identity};
use crate::transport::socket;
use crate::worker::{self, LocalRequest, WorkerThread};
use disks::Disks;
use doors::{door, guard, link_limits, rules, watch};
pub use signals::Signals;
use signals::{Asked, Pipes};

/// Runs one replica until SIGTERM, SIGINT, an admin's shutdown or the end of its lifeline.
pub fn run(config: Config) -> Result<(), NodeError> {
    if config::memory::address_limit().is_some() {
        highwater_store::one_arena();
    }
    config.validate()?;
    config.check_doors()?;
    let _logging = logging::install(&config.log)?;
    descriptors::raise_limit();
    let asked = Arc::new(Asked::take(Signals::Take).map_err(system("take signals"))?);
    let config = match config.cluster.durability {
        Durability::Memory => roster::recall(config)?,
        Durability::Async | Durability::Sync => config,
    };
    let ignored = Arc::new(AtomicBool::new(false));
    // A file that reaches the process's limit is a full disk (EFBIG), and no reason to be killed.
    let handler = signal_hook::flag::register(SIGXFSZ, ignored);
    handler.map_err(system("take a signal"))?;
    live(&config, hosted(config.server.benchmarks), &asked)
}

/// Life after life, until it was asked to end.
fn live(config: &Config, code: &dyn Code, asked: &Arc<Asked>) -> Result<(), NodeError> {
    loop {
        let (node, start) = match run_once(config, code, asked) {
            Ok(Some(begun)) => begun,
            Ok(None) => {
                tracing::info!("ended, as asked, before it served");
                return Ok(());
            }
            // The folder is marked: opened again, it begins another life.
            Err(NodeError::StaleDisk) => continue,
            Err(error) => return Err(error),
        };
        let shared = node.shared.clone();
        match node.wait() {
            Err(NodeError::StaleDisk) => recovery::mark_stale(config)?,
            Ok(()) if config.cluster.durability.level().has_disk() && shared.all_is_on_disk() => {
                return recovery::end_in_order(config, start);
            }
            ended => return ended,
        }
    }
}

/// For `map_err`: the system refused that.
fn system(what: &'static str) -> impl Fn(io::Error) -> NodeError {
    move |error| NodeError::System { what, error }
}

/// One life: from what is on the disk, if there is one; and which start of a process on that disk it is. `None`: it was asked to end before
/// it began, and what it began on its disk is undone.
fn run_once(
    config: &Config,
    code: &dyn Code,
    asked: &Arc<Asked>,
) -> Result<Option<(Node, ThisStart)>, NodeError> {
    owner::check(config)?;
    let fresh = fresh_incarnation()?;
    let progress = Arc::new(StartProgress::until(asked.ends.clone()));
    let files = match config.cluster.durability {
        Durability::Memory => None,
        Durability::Async | Durability::Sync => {
            match recovery::open(config, &code.schema(), fresh, progress.clone()) {
                Err(_) if asked.to_end() => return Ok(None),
                files => Some(files?),
            }
        }
    };
    let starting = match files.as_ref().map(|_| answer_while_starting(config, &progress, asked)).transpose() {
        Err(_) if asked.to_end() => return Ok(None),
        starting => starting?,
    };
    let start = files.as_ref().map(|files| files.start).unwrap_or_default();
    // Who comes back with its disk is who it was.
    let incarnation = files.as_ref().map_or(fresh, |files| files.identity.incarnation);
    let mut options = config.options(incarnation);
    options.forgets = files.as_ref().is_some_and(|files| files.forgets);
    options.has_a_past = files.as_ref().is_some_and(|files| files.identity.past);
    announce_memory(&options);
    let (clock, why) = Clock::chosen(config.clock())
        .map_err(|why| ConfigError(format!("store.clock is \"tsc\", but {why}")))?;
    tracing::info!(clock = clock.source_name(), "commit timestamps: {why}");
    let (engine, clock) = (config.engine()?, Arc::new(clock));
    let build = || {
        let replica = highwater_engines::build(engine, options.clone(), code, clock.clone());
        if config.store.reserve_mb > 0 {
            tracing::info!(mb = config.store.reserve_mb, "reserving memory");
            reserve(&replica, config.store.reserve_mb, asked);
        }
        replica
    };
    // Its own name may be waited for, and its end be asked for meanwhile.
    let begun = |node: Result<Node, NodeError>| match node {
        Err(_) if asked.to_end() => Ok(None),
        node => Ok(Some((node?, start))),
    };
    match files {
        None => {
            let without = (None::<Storage<DataDirectory>>, None);
            begun(Node::begin(config, incarnation, build(), without, asked))
        }
        Some(files) => {
            let (path, lacks_nothing) = (files.path(), !files.forgets);
            let recovered = files.recover(build);
            if asked.to_end() {
                drop(recovered);
                if lacks_nothing {
                    recovery::end_in_order(config, start)?;
                }
                tracing::info!("asked to end while it read {}", path.display());
                return Ok(None);
            }
            let (replica, storage) = recovered?;
            let admin = starting.map(Starting::end).transpose();
            let admin = admin.map_err(|error| NodeError::System { what: "keep the admin port", error })?;
            let files = (Some(storage), admin);
            begun(Node::begin(config, incarnation, replica, files, asked))
        }
    }
}

/// Takes memory for the store, for as long as the node is to start.
fn reserve(replica: &Replica, mb: u64, asked: &Asked) {
    const AT_ONCE_MB: u64 = 256;
    let mut left = mb;
    while left > 0 && !asked.to_end() {
        let more = left.min(AT_ONCE_MB);
        replica.controller.store().reserve(more << 20);
        left -= more;
    }
}

/// Has the admin port say how far the start is.
fn answer_while_starting(
    config: &Config,
    progress: &Arc<StartProgress>,
    asked: &Asked,
) -> Result<Starting, NodeError> {
    let listener = listen("admin", &config.this_node().admin, asked, socket::listen)?;
    let keys = load_keys(config, config.tls.admin)?;
    Starting::answer(listener, (guard(config, None)?, keys), progress.clone(), Shares::of(config).operators)
        .map_err(|error| NodeError::System { what: "set up the admin port", error })
}

/// What a door speaks TLS with, if it does.
fn load_keys(config: &Config, speaks: bool) -> Result<Option<Arc<Keys>>, NodeError> {
    let keys = speaks.then(|| Keys::load(config)).transpose();
    Ok(keys.map_err(|why| ConfigError(format!("tls: {why}")))?.map(Arc::new))
}

/// Says that a door is open that is to be locked one day.
fn announce_lock(config: &Config) {
    if config.tls.peer == PeerTls::Optional {
        tracing::warn!(
            "tls.peer is \"optional\": whoever reaches the peer port without TLS is let in. Say \"required\" once all nodes speak it"
        );
    }
}

/// Says how the memory is divided.
fn announce_memory(options: &highwater_seam::Options) {
    let shares = options.shares().expect("the configuration was validated");
    let mib = |bytes: u64| bytes >> 20;
    tracing::info!(
        mib = mib(shares.whole),
        data = mib(shares.store),
        logs = mib(shares.logs),
        work = mib(shares.work),
        buffers = mib(shares.buffers),
        "memory budget; a transaction has at most {} KiB",
        options.max_transaction_bytes >> 10
    );
}

/// A running replica.
pub struct Node {
    shared: Arc<Shared>,
    threads: Vec<(String, JoinHandle<io::Result<()>>)>,
    resp: SocketAddr,
    admin: SocketAddr,
}

/// A node that a program opened for itself: from what is on its disk, if it keeps one.
pub struct Opened {
    /// The running replica.
    pub node: Node,
    config: Config,
    start: ThisStart,
}

impl Opened {
    /// Ends it in good order: it hands over what it leads, answers what is under way (for up to a second), and its disk says that it holds
    /// everything. Dropping it instead stops it at once.
    pub fn close(self) -> Result<(), NodeError> {
        self.node.stop();
        let shared = self.node.shared.clone();
        self.node.wait()?;
        if self.config.cluster.durability.level().has_disk() && shared.all_is_on_disk() {
            recovery::end_in_order(&self.config, self.start)?;
        }
        Ok(())
    }
}

impl Node {
    /// Opens a node within a program, with tables and procedures of the program's choice: `code` has all of [`Product`](highwater_redis::Product)'s, in their
    /// places, and more behind them ([`Compiled`](highwater_redis::Compiled)). Logging, signals and the process's limits are the program's business.
    ///
    /// # Errors
    /// As [`run`]'s. With [`NodeError::StaleDisk`] a running one may end, too: its folder says so from then on, and opened again, by this
    /// process or by a later one, it begins another life.
    pub fn open(config: &Config, code: &dyn Code) -> Result<Opened, NodeError> {
        config.validate()?;
        let asked = Arc::new(Asked::take(Signals::Leave).map_err(system("create a pipe"))?);
        let begun = loop {
            match run_once(config, code, &asked) {
                // The folder is marked: opened again, it begins another life.
                Err(NodeError::StaleDisk) => {}
                begun => break begun?,
            }
        };
        let (node, start) = begun.expect("nobody asks it to end before it has begun");
        Ok(Opened { node, config: config.clone(), start })
    }

    /// Starts the threads of a replica that is built already, and keeps nothing on a disk.
    pub fn start(
        config: &Config,
        incarnation: Incarnation,
        replica: Replica,
        signals: Signals,
    ) -> Result<Node, NodeError> {
        Node::start_with(config, incarnation, replica, None::<Storage<DataDirectory>>, signals)
    }

    /// The same with the files that the replica was recovered from ([`recovery`]).
    pub fn start_with<D: Disk<File: Send> + Clone + Send + 'static>(
        config: &Config,
        incarnation: Incarnation,
        replica: Replica,
        storage: Option<Storage<D>>,
        signals: Signals,
    ) -> Result<Node, NodeError> {
        let asked = Asked::take(signals).map_err(system("take signals"))?;
        Node::begin(config, incarnation, replica, (storage, None), &Arc::new(asked))
    }

    /// The same; `admin`: listens at the admin port already.
    fn begin<D: Disk<File: Send> + Clone + Send + 'static>(
        config: &Config,
        incarnation: Incarnation,
        replica: Replica,
        (storage, admin): (Option<Storage<D>>, Option<TcpListener>),
        asked: &Arc<Asked>,
    ) -> Result<Node, NodeError> {
        let durability = config.cluster.durability.level();
        if storage.is_none() && durability.has_disk() {
            let why = format!(
                "cluster.durability is \"{durability}\", and this node was given no files; use \"memory\", or `run`"
            );
            return Err(NodeError::Storage { path: config.storage.dir.clone(), why });
        }
        let Replica { mut controller, workers, counters, procedures, versions, signatures } = replica;
        // An engine that agrees on no level is told apart by the newest.
        let speaks = match controller.level() {
            Some(in_use) => Speaks { levels: config.levels, in_use },
            None => Speaks { levels: Levels::only(config.levels.newest), in_use: config.levels.newest },
        };
        let identity = Identity {
            cluster: config.cluster.id.clone(),
            node: NodeId(config.node),
            incarnation,
            nodes: if config.engine()?.abilities().members { 0 } else { config.cluster.nodes.len() as u8 },
            streams: config.cluster.workers,
            engine: config.engine()?,
            speaks,
            schema: controller.store().schema().clone(),
            procedures: Fingerprint::of_procedures(&procedures, &versions),
            durability,
        };
        let peer_listener = listen("peer", &config.this_node().peer, asked, socket::listen)?;
        let peer = peer_listener.local_addr().map_err(system("read the peer address"))?;
        let admin_listener = match admin {
            Some(listener) => listener,
            None => listen("admin", &config.this_node().admin, asked, socket::listen)?,
        };
        let resp_listeners = listen("resp", &config.this_node().resp, asked, |address| {
            socket::listen_shared(address, workers.len())
        })?;
        let resp = resp_listeners[0].local_addr().map_err(system("read the RESP address"))?;
        let admin = admin_listener.local_addr().map_err(system("read the admin address"))?;

        let roster = Roster::new(config, storage.is_none().then(|| roster::file_of(config)));
        let callables = Callables::of(&procedures, &versions, &signatures);
        let shared = Shared::new(identity.node, identity.engine, counters, procedures, roster);
        let shared = shared.map_err(system("create wake-up descriptors"))?;
        let shared = Arc::new(shared);
        shared.set_store(&controller.store());
        let disks =
            storage.map(|storage| Disks::new(config, incarnation, storage, &shared, &mut *controller));
        let (files, checkpoints) = match disks.transpose()? {
            Some(Disks { journal, checkpoint, watch, checkpoints }) => {
                (Some((journal, checkpoint, watch)), Some(checkpoints))
            }
            None => (None, None),
        };
        let provided = config.auth.users().map_err(ConfigError)?;
        let salt = random("draw what clients' requests get for chance")?;
        let door = Arc::new(door(config, incarnation, &shared, callables, provided, salt));
        let Pipes { signals, reloads } = asked.pipes().map_err(system("take signals"))?;
        tracing::info!(
            node = %identity.node, %incarnation, engine = identity.engine.name(), nodes = config.cluster.nodes.len(),
            workers = workers.len(), peer = %with_address(&config.this_node().peer, peer), %resp, %admin, "starting"
        );

        let descriptors = Shares::of(config);
        descriptors.announce(config);
        let options = config.options(incarnation);
        let shares = options.shares().expect("the configuration was validated");
        let links = link_limits(config, &options, shares.buffers);
        let names = config.cluster.nodes.iter().map(|node| (NodeId(node.id), node.peer.clone()));
        let keys = load_keys(config, config.tls.is_used())?;
        keys.iter().for_each(|keys| keys.warn_of_dates());
        shared.set_keys(keys.clone());
        let lock = PeerLock::new(config.tls.peer, keys.as_ref());
        announce_lock(config);
        let directory = Directory::new(names);
        directory.listens(identity.node, peer);
        let _said = directory.why_unreachable();
        let setup = control::Setup {
            controller,
            identity,
            lock,
            directory,
            peer_listener,
            own: config.this_node().clone(),
            callers: descriptors.callers,
            signals,
            reloads,
            lifeline: config.threads.lifeline,
            links,
            looks_every: TIMEOUTS_PER_LOOK * options.election_timeout,
            checkpoints,
            forward: config.server.forward,
        };
        let control =
            ControlThread::new(shared.clone(), setup).map_err(system("set up the control thread"))?;
        let (mut loops, rules) = (Vec::new(), rules(config, shares.buffers, descriptors.clients));
        let idle = config.limits.session_idle_s * 1_000_000_000;
        let keeps = shared.engine.abilities().sessions;
        let mut sessions = keeps.then(|| host::Sessions::new(idle, &shared.procedures));
        let mut rings = doors::rings(config, workers.len())?.into_iter();
        if rings.len() > 0 {
            shared.set_rings();
        }
        for (index, (engine, listener)) in workers.into_iter().zip(resp_listeners).enumerate() {
            let setup = worker::Setup {
                index,
                engine,
                listener,
                door: door.clone(),
                watch: watch(&shared, &door, index),
                rules,
                links,
                sessions: sessions.take(),
                expiry: (index == 0).then(|| {
                    let expiry = host::Expiry::new(&shared.procedures);
                    expiry.with_transactions_of(options.max_transaction_bytes)
                }),
                users: (index == 0).then(|| host::Users::new(door.clone())),
                modules: (cfg!(feature = "wasm") && index == 0).then(|| host::Modules::new(door.clone())),
                keys: keys.clone().filter(|_| config.tls.resp),
                forward: config.server.forward,
                ring: rings.next(),
            };
            loops.push(WorkerThread::new(shared.clone(), setup).map_err(system("set up a worker"))?);
        }

        let admin_keys = keys.filter(|_| config.tls.admin);
        let admin_thread = AdminThread::new(
            shared.clone(),
            admin_listener,
            guard(config, Some(&shared))?,
            admin_keys,
            descriptors.operators,
        )
        .map_err(system("set up the admin port"))?;
        let mut node = Node { shared, threads: Vec::new(), resp, admin };
        let clocks = highwater_redis::scripts::budget::Clocks {
            wall: || crate::clock::monotonic() / 1_000_000,
            cpu: crate::clock::thread_cpu_ms,
        };
        let scripts = highwater_redis::scripts::budget::Limits {
            instructions: config.limits.script_instructions,
            memory_bytes: (config.limits.script_memory_mb as usize) << 20,
            clock: Some(clocks),
        };
        let procedures = highwater_redis::modules::Limits {
            fuel: config.limits.procedure_fuel,
            memory_bytes: (config.limits.procedure_memory_mb as usize) << 20,
            clock: Some(clocks),
        };
        for (index, worker) in loops.into_iter().enumerate() {
            let core = core_of(&config.threads.pin, index);
            let compiler = node.shared.compiler.clone();
            let hosted = node.shared.procedures.clone();
            node.spawn(format!("worker-{index}"), move || {
                pin_to(core);
                crate::slice::ask_for_short_slices();
                highwater_redis::scripts::budget::limit(scripts);
                highwater_redis::modules::limit(procedures);
                highwater_redis::modules::host(hosted);
                highwater_redis::modules::compiler::compile_by(compiler);
                worker.run()
            })?;
        }
        #[cfg(feature = "wasm")]
        start_compiler(node.shared.compiler.clone(), Arc::downgrade(&door), procedures)?;
        let memory = node.shared.clone();
        let limit = shares.store.saturating_add(shares.slack);
        node.spawn("memory".into(), move || {
            memory.provisions.run(limit, || memory.wake_workers(), || memory.held().own());
            Ok(())
        })?;
        if let Some((journal, checkpoint, watch)) = files {
            let shared = node.shared.clone();
            node.spawn("journal".into(), move || journal.run(|| shared.stopping()))?;
            let shared = node.shared.clone();
            node.spawn("folder".into(), move || {
                let disk = watch.run(|| shared.stopping());
                if shared.disk_is_stale() {
                    // Whoever opens it next has to know, be it another process.
                    stale::mark(&disk)?;
                }
                Ok(())
            })?;
            let shared = node.shared.clone();
            node.spawn("checkpoint".into(), move || {
                let tell = |news| shared.control.post(ControlLetter::Checkpoint(news));
                checkpoint.run(|| shared.stopping(), tell);
                Ok(())
            })?;
        }
        node.spawn("admin".into(), move || admin_thread.run())?;
        let asked = asked.clone();
        node.spawn("control".into(), move || {
            // The pipes' other ends must stay open while their readers are watched.
            let _writers = asked;
            // A little ahead of the workers, so that heartbeats survive a busy machine; without the right to, so be it.
            let _ = rustix::process::setpriority_process(None, -5);
            // Anybody may ask for this: short turns, and so a core soon.
            crate::slice::ask_for_short_slices();
            control.run()
        })?;
        Ok(node)
    }

    /// Where Redis clients connect.
    pub fn resp_address(&self) -> SocketAddr {
        self.resp
    }

    /// Where operators connect.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// Bytes that its buffers hold at the moment.
    pub fn held(&self) -> crate::held::HeldBytes {
        self.shared.held()
    }

    /// Requests of its clients that it has handed to a leader, and requests of other nodes' clients that it has taken.
    pub fn forwarded(&self) -> (u64, u64) {
        let sum = |of: fn(&Meter) -> &AtomicU64| {
            self.shared.meters.iter().map(|meter| of(meter).load(Ordering::Relaxed)).sum()
        };
        (sum(|meter| &meter.forwarded), sum(|meter| &meter.taken_for_others))
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.shared.workers.len()
    }

    /// Where clients of a node are sent, by what this one knows: RESP.
    pub fn address_of(&self, node: NodeId) -> Option<String> {
        self.shared.roster.node(node).map(|node| node.resp)
    }

    /// The names of its library's procedures, by id.
    pub fn procedures(&self) -> &[&'static str] {
        &self.shared.procedures
    }

    /// Stops it at once, without waiting for that.
    pub fn halt(&self) {
        self.shared.stop();
    }

    /// Has a worker run a transaction for this program. It is answered when it is released, from the worker's thread: the answer may not
    /// wait. If the node ends before, the answer is dropped without having been called, and the outcome is unknown.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn submit(&self, worker: usize, request: LocalRequest) {
        self.shared.ask_worker(worker, request);
    }

    /// Asks it to end: if it leads it hands the lead over, for as long as its engine bears; it takes no more requests, answers
    /// those under way (for up to a second), and stops. Dropping it
    /// instead stops it at once.
    pub fn stop(&self) {
        self.shared.leave();
    }

    /// Until it ends; why, if not because it was asked to.
    pub fn wait(mut self) -> Result<(), NodeError> {
        let mut outcome = Ok(());
        for (thread, handle) in std::mem::take(&mut self.threads) {
            let ended = match handle.join() {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(NodeError::Failed { thread, error }),
                Err(_) => Err(NodeError::Panicked { thread }),
            };
            outcome = outcome.and(ended);
        }
        tracing::info!(node = %self.shared.node, "ended");
        outcome.and(if self.shared.disk_is_stale() { Err(NodeError::StaleDisk) } else { Ok(()) })
    }

    fn spawn(
        &mut self,
        name: String,
        body: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<(), NodeError> {
        let stopper = StopOnExit(self.shared.clone());
        let handle = std::thread::Builder::new().name(name.clone()).spawn(move || {
            // If this thread ends for whatever reason, a panic too, the others end with it.
            let _stopper = stopper;
            // Deadlines to the microsecond; the default is 50.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1000));
            body()
        });
        match handle {
            Ok(handle) => {
                self.threads.push((name, handle));
                Ok(())
            }
            Err(error) => {
                self.shared.stop();
                Err(NodeError::System { what: "start a thread", error })
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.stop();
        for (_, handle) in self.threads.drain(..) {
            // Its panic was printed; whoever wanted to know called `wait`.
            let _ = handle.join();
        }
    }
}

struct StopOnExit(Arc<Shared>);

impl Drop for StopOnExit {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn core_of(pin: &Pin, worker: usize) -> Option<usize> {
    match pin {
        Pin::Policy(PinPolicy::None) => None,
        Pin::Policy(PinPolicy::Auto) => {
            let cores = core_affinity::get_core_ids().filter(|cores| !cores.is_empty())?;
            Some(cores[worker % cores.len()].id)
        }
        Pin::Cores(cores) => cores.get(worker).copied(),
    }
}

fn pin_to(core: Option<usize>) {
    if let Some(id) = core
        && !core_affinity::set_for_current(CoreId { id })
    {
        tracing::warn!("cannot pin a worker to core {id}");
    }
}

/// A name, and the address that it means here; an address alone, if it is no name.
fn with_address(name: &str, address: SocketAddr) -> String {
    if name.parse::<SocketAddr>().is_ok() { address.to_string() } else { format!("{name} ({address})") }
}

/// 64 bits of the operating system's; `what` they are for, in the error where there are none.
fn random(what: &'static str) -> Result<u64, NodeError> {
    getrandom::u64().map_err(|error| NodeError::System { what, error: error.into() })
}

/// Never used before. Votes are counted by incarnation, and a replica that came back without its memory must never pass for
/// the one that promised: so all 64 bits are the operating system's, and without them there is no replica.
fn fresh_incarnation() -> Result<Incarnation, NodeError> {
    loop {
        let bits = random("draw an incarnation")?;
        // 0 stands for "none".
        if bits != 0 {
            return Ok(Incarnation(bits));
        }
    }
}

fn listen<T>(
    what: &'static str,
    address: &str,
    asked: &Asked,
    listen: impl FnOnce(SocketAddr) -> io::Result<T>,
) -> Result<T, NodeError> {
    let found = own_address::find(what, address, || asked.to_end());
    found.and_then(listen).map_err(|error| NodeError::Listen { what, address: address.to_string(), error })
}

/// Compilers go deep.
#[cfg(feature = "wasm")]
const COMPILER_STACK_BYTES: usize = 16 << 20;

/// Starts the compiler's thread. Nobody waits for its end: what it compiles then is of no use any more.
#[cfg(feature = "wasm")]
fn start_compiler(
    compiler: Arc<Compiler>,
    door: std::sync::Weak<Door>,
    procedures: highwater_redis::modules::Limits,
) -> Result<(), NodeError> {
    let run = move || {
        // Whoever waits for a module waits for seconds; others wait for a core.
        let _ = rustix::process::setpriority_process(None, 10);
        highwater_redis::modules::limit(procedures);
        let wake = |line: &[u8]| door.upgrade().iter().for_each(|door| door.waiting.wake_line(line));
        compiler.run(highwater_redis::modules::compile, wake);
    };
    let builder = std::thread::Builder::new().name("compiler".into()).stack_size(COMPILER_STACK_BYTES);
    builder.spawn(run).map(drop).map_err(|error| NodeError::System { what: "start a thread", error })
}
