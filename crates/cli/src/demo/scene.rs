//! What the demo shows: written by who plays and by the sampler, read by whoever draws.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use highwater_node::admin::protocol::{LoadReport, Quantiles, StatusReport};

use crate::admin::AdminClient;
use crate::answers;

/// How often the replicas are asked.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Samples kept for the sparkline.
const SAMPLES: usize = 600;
/// Samples of one second.
const SECOND: usize = 10;

/// The acts of the demo, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The replicas start and elect.
    Starting,
    /// TPC-C is loaded.
    Loading,
    /// All replicas run.
    Running,
    /// The leader is dead.
    Killed,
    /// The others carry on.
    Carrying,
    /// The victim copies the state under load.
    Rejoining,
    /// All replicas run again.
    Whole,
    /// The load stops and the replicas converge.
    Converging,
    /// Conditions, digests, audit rows.
    Checking,
}

impl Phase {
    /// Every act.
    pub const ALL: [Phase; 9] = [
        Phase::Starting,
        Phase::Loading,
        Phase::Running,
        Phase::Killed,
        Phase::Carrying,
        Phase::Rejoining,
        Phase::Whole,
        Phase::Converging,
        Phase::Checking,
    ];

    /// One word for the line of acts.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Starting => "start",
            Phase::Loading => "load",
            Phase::Running => "run",
            Phase::Killed => "kill -9",
            Phase::Carrying => "carry on",
            Phase::Rejoining => "rejoin",
            Phase::Whole => "whole",
            Phase::Converging => "converge",
            Phase::Checking => "check",
        }
    }
}

/// The state of the play.
#[derive(Debug)]
pub struct Scene {
    /// When it began.
    pub started: Instant,
    /// The current act.
    pub phase: Phase,
    /// How far a long step is, in words.
    pub progress: Option<String>,
    /// Each replica as it last answered; `None` while it does not.
    pub replicas: Vec<Option<StatusReport>>,
    /// Released transactions in each sample, newest last.
    pub released: VecDeque<u64>,
    /// Released transactions since the load began, over all leaders.
    pub released_total: u64,
    /// Latency on the current leader since it took over.
    pub latency: Quantiles,
    /// What happened, and when.
    pub events: Vec<(Duration, String)>,
    /// The play is over.
    pub over: bool,
}

impl Scene {
    fn new(replicas: usize) -> Scene {
        Scene {
            started: Instant::now(),
            phase: Phase::Starting,
            progress: None,
            replicas: vec![None; replicas],
            released: VecDeque::new(),
            released_total: 0,
            latency: Quantiles::default(),
            events: Vec::new(),
            over: false,
        }
    }

    /// Who leads, as the replicas themselves say; of several the one with the highest epoch.
    pub fn leader(&self) -> Option<&StatusReport> {
        self.replicas[answers::serving(&self.replicas)?].as_ref()
    }

    /// Transactions released in the last second.
    pub fn tps(&self) -> u64 {
        self.released.iter().rev().take(SECOND).sum()
    }

    /// Decided entries that a replica has not applied, measured against the leader.
    pub fn lag(&self, status: &StatusReport) -> Option<u64> {
        answers::lag(status, self.leader()?)
    }
}

/// A scene that several threads hold.
#[derive(Clone, Debug)]
pub struct SharedScene(Arc<Mutex<Scene>>);

impl SharedScene {
    /// Nothing happened yet.
    pub fn new(replicas: usize) -> SharedScene {
        SharedScene(Arc::new(Mutex::new(Scene::new(replicas))))
    }

    /// Look at it, or change it.
    pub fn lock(&self) -> MutexGuard<'_, Scene> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next act begins.
    pub fn enter(&self, phase: Phase) {
        let mut scene = self.lock();
        scene.phase = phase;
        scene.progress = None;
    }

    /// Something happened that a reader should know.
    pub fn event(&self, text: impl Into<String>) {
        let mut scene = self.lock();
        let at = scene.started.elapsed();
        scene.events.push((at, text.into()));
    }
}

/// Asks all replicas a few times a second until it is stopped.
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts asking.
    pub fn start(addresses: Vec<SocketAddr>, scene: SharedScene) -> Sampler {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut asked: Vec<Asked> = addresses.into_iter().map(Asked::new).collect();
            while !stopped.load(Ordering::Relaxed) {
                sample(&mut asked, &scene);
                thread::sleep(SAMPLE_EVERY);
            }
        });
        Sampler { stop, thread: Some(thread) }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A sampler that panicked has shown its message already.
            let _ = thread.join();
        }
    }
}

/// One replica as the sampler knows it.
struct Asked {
    address: SocketAddr,
    admin: Option<AdminClient>,
    /// Released so far by its current load.
    released: u64,
}

impl Asked {
    fn new(address: SocketAddr) -> Asked {
        Asked { address, admin: None, released: 0 }
    }

    fn ask(&mut self) -> Option<(StatusReport, Option<LoadReport>)> {
        if self.admin.is_none() {
            self.admin = AdminClient::connect(self.address).ok();
        }
        let answer = self.admin.as_mut()?.status().ok();
        let Some(status) = answer else {
            (self.admin, self.released) = (None, 0);
            return None;
        };
        let load = if status.leads() { self.admin.as_mut()?.load_stats().ok() } else { None };
        Some((status, load))
    }

    /// What the load released since the last look.
    fn advance(&mut self, load: &LoadReport) -> u64 {
        let released = load.released();
        let before = std::mem::replace(&mut self.released, released);
        // A smaller count is a new load's.
        released.checked_sub(before).unwrap_or(released)
    }
}

fn sample(asked: &mut [Asked], scene: &SharedScene) {
    let (mut statuses, mut released, mut latency) = (Vec::new(), 0, None);
    for replica in asked {
        let Some((status, load)) = replica.ask() else {
            statuses.push(None);
            continue;
        };
        if let Some(load) = load {
            released += replica.advance(&load);
            latency = Some(load.released_latency_us);
        }
        statuses.push(Some(status));
    }
    let mut scene = scene.lock();
    scene.replicas = statuses;
    scene.latency = latency.unwrap_or(scene.latency);
    if scene.phase >= Phase::Running {
        scene.released_total += released;
        scene.released.push_back(released);
        if scene.released.len() > SAMPLES {
            scene.released.pop_front();
        }
    }
}
