//! The replicas of a demo or a benchmark: processes of this very binary on free loopback ports.
//!
//! They end with the command: each holds the reading end of a pipe as its lifeline, signals and panics are taken care
//! of by [`interrupt`], and everything else by [`Fleet::finish`] or by dropping the fleet. Each is reaped. Their
//! configs and logs stand in a temporary directory, which stays when something failed and goes when all went well.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use highwater_engines::EngineKind;
use highwater_node::admin::protocol::StatusReport;
use highwater_node::config::{Config, NodeConfig};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::admin::{AdminClient, AdminError, failure_at};
use crate::answers;
use crate::disks;
use crate::failure::{Failure, Kind, Result};
use crate::interrupt;
use crate::layout::Layout;

/// How long the first election may take.
const ELECTION: Duration = Duration::from_secs(30);
/// How long a replica may take to end by itself.
const GOODBYE: Duration = Duration::from_secs(5);

/// What to start.
#[derive(Clone, Debug)]
pub struct FleetSpec {
    /// Which engine.
    pub engine: EngineKind,
    /// How many replicas.
    pub replicas: u8,
    /// Workers per replica.
    pub workers: u16,
    /// Config keys that override the defaults.
    pub set: Vec<(String, String)>,
    /// Other defaults, of each replica by itself.
    pub own: Vec<Vec<(String, String)>>,
    /// Keep configs and logs even if all goes well.
    pub keep: bool,
    /// MiB of a disk of its own for each replica, in this process's mount namespace; else they write beside their logs.
    pub disk_mb: Option<u64>,
}

impl FleetSpec {
    /// Replicas of an engine; all else as by default.
    pub fn of(
        engine: EngineKind,
        replicas: u8,
        workers: u16,
        set: &[(String, String)],
        keep: bool,
    ) -> FleetSpec {
        FleetSpec { engine, replicas, workers, set: set.to_vec(), own: Vec::new(), keep, disk_mb: None }
    }
}

/// Running replicas.
#[derive(Debug)]
pub struct Fleet {
    engine: EngineKind,
    replicas: Vec<ReplicaProcess>,
    /// Gone with the fleet, unless files are kept.
    directory: TempDir,
    keep_files: AtomicBool,
}

#[derive(Debug)]
struct ReplicaProcess {
    admin: SocketAddr,
    resp: SocketAddr,
    command: Vec<String>,
    config: PathBuf,
    log: PathBuf,
    /// The process, unless it was killed.
    child: Option<Child>,
}

impl Fleet {
    /// Starts the replicas. They have not elected anybody yet.
    pub fn start(spec: &FleetSpec) -> Result<Fleet> {
        Fleet::start_as(spec, Layout::loopback(spec.replicas)?)
    }

    /// Starts the replicas in these places.
    pub fn start_as(spec: &FleetSpec, layout: Layout) -> Result<Fleet> {
        let directory = fresh_directory()?;
        interrupt::keeps_files_in(directory.path());
        let (engine, keep_files) = (spec.engine, AtomicBool::new(spec.keep));
        let mut fleet = Fleet { engine, replicas: Vec::new(), directory, keep_files };
        let certificates = make_certificates(spec, fleet.directory())?;
        for (node, command) in (0..spec.replicas).zip(layout.commands) {
            let nodes = &layout.views[usize::from(node)];
            let mut config = config_of(spec, &certificates, node, nodes)?;
            if config.storage.dir == Config::default().storage.dir {
                // What these replicas write goes with them.
                config.storage.dir = fleet.directory().join("data");
            }
            // In namespaces of their own their addresses are no loopback ones, and nobody else is there.
            config.security.open = true;
            if let Some(mib) = spec.disk_mb {
                let disk = fleet.disk(usize::from(node));
                disks::mount(&disk, mib)?;
                config.storage.dir = disk;
            }
            let path = fleet.directory().join(format!("node-{node}.toml"));
            fs::write(&path, config.to_toml()).map_err(|error| cannot_write(&path, &error))?;
            let admin = nodes[usize::from(node)].admin.parse().map_err(Failure::cannot_start)?;
            let resp = nodes[usize::from(node)].resp.parse().map_err(Failure::cannot_start)?;
            let log = fleet.directory().join(format!("node-{node}.log"));
            fleet.replicas.push(ReplicaProcess { admin, resp, command, config: path, log, child: None });
        }
        for node in 0..fleet.len() {
            fleet.start_again(node)?;
        }
        Ok(fleet)
    }

    /// What the replicas run.
    pub fn engine(&self) -> EngineKind {
        self.engine
    }

    /// How many replicas, dead ones included.
    pub fn len(&self) -> usize {
        self.replicas.len()
    }

    /// Where configs and logs are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A replica's own disk, if it has one.
    pub fn disk(&self, node: usize) -> PathBuf {
        self.directory().join(format!("disk-{node}"))
    }

    /// A replica's folder.
    #[cfg(feature = "failing-syncs")]
    pub fn folder(&self, node: usize) -> PathBuf {
        let disk = self.disk(node);
        let dir = if disk.exists() { disk } else { self.directory().join("data") };
        dir.join(format!("node-{node}"))
    }

    /// A replica that ended by itself, as it should have: how, and its log's last line. It is reaped.
    #[cfg(feature = "failing-syncs")]
    pub fn fell(&mut self, node: usize) -> Option<(ExitStatus, String)> {
        let replica = &mut self.replicas[node];
        let status = replica.child.as_ref().and_then(ended)?;
        let mut child = replica.child.take()?;
        let _ = child.wait();
        interrupt::ended(child.id());
        Some((status, last_line(&replica.log)))
    }

    /// A replica's admin address.
    pub fn admin_address(&self, node: usize) -> SocketAddr {
        self.replicas[node].admin
    }

    /// A replica's process, if it runs.
    pub fn pid(&self, node: usize) -> Option<u32> {
        self.replicas[node].child.as_ref().map(Child::id)
    }

    /// Every replica's RESP address.
    pub fn doors(&self) -> Vec<SocketAddr> {
        self.replicas.iter().map(|replica| replica.resp).collect()
    }

    /// A new admin connection.
    pub fn admin(&self, node: usize) -> Result<AdminClient> {
        let address = self.admin_address(node);
        AdminClient::connect(address).map_err(|error| failure_at(address, error))
    }

    /// A replica's state, unless it does not answer.
    pub fn status(&self, node: usize) -> Option<StatusReport> {
        AdminClient::connect(self.admin_address(node)).ok()?.status().ok()
    }

    /// Every replica's state.
    pub fn statuses(&self) -> Vec<Option<StatusReport>> {
        (0..self.len()).map(|node| self.status(node)).collect()
    }

    /// Every replica's state; a failure if one does not answer.
    pub fn all_statuses(&self) -> Result<Vec<StatusReport>> {
        let ask = |node| {
            let mut admin = self.admin(node)?;
            admin.status().map_err(|error: AdminError| admin.failure(error))
        };
        (0..self.len()).map(ask).collect()
    }

    /// Waits until a replica leads and all others that live follow it; says which one. Where nobody leads, until more than half serve
    /// in one epoch; says one of them.
    pub fn wait_for_leader(&self) -> Result<usize> {
        let started = Instant::now();
        loop {
            self.none_died()?;
            let statuses = self.statuses();
            if let Some(leader) = answers::agreed(&statuses) {
                return Ok(leader);
            }
            if started.elapsed() > ELECTION {
                let roles: Vec<_> = statuses.iter().map(role).collect();
                let seconds = ELECTION.as_secs();
                let wanted = if self.engine.abilities().leaderless { "service" } else { "leader" };
                return Err(Failure::unavailable(format!(
                    "no {wanted} within {seconds} s: {}",
                    roles.join(", ")
                )));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends a replica with SIGKILL, and reaps it.
    pub fn kill(&mut self, node: usize) -> Result<()> {
        let Some(mut child) = self.replicas[node].child.take() else { return Ok(()) };
        let killed = child.kill().and_then(|()| child.wait());
        interrupt::ended(child.id());
        killed.map(drop).map_err(|error| Failure::negative(format!("cannot kill replica {node}: {error}")))
    }

    /// Asks a replica to end, as an operating system does, and waits until it has; a failure if it does not end well.
    pub fn end(&mut self, node: usize) -> Result<()> {
        self.signal(node, Signal::TERM)?;
        let Some(mut child) = self.replicas[node].child.take() else { return Ok(()) };
        let deadline = Instant::now() + GOODBYE;
        let ended = loop {
            match child.try_wait() {
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
                Ok(Some(status)) if status.success() => break Ok(()),
                Ok(Some(status)) => break Err(format!("it ended with {status}")),
                Ok(None) => break Err(format!("it runs after {} s", GOODBYE.as_secs())),
                Err(error) => break Err(error.to_string()),
            }
        };
        // Kills and reaps it if it did not listen; does nothing if it is gone.
        let _ = child.kill();
        let _ = child.wait();
        interrupt::ended(child.id());
        ended.map_err(|why| Failure::negative(format!("replica {node} was asked to end: {why}")))
    }

    /// Sends a signal to a replica, if it runs.
    pub fn signal(&self, node: usize, signal: Signal) -> Result<()> {
        let Some(child) = &self.replicas[node].child else { return Ok(()) };
        let pid = Pid::from_raw(child.id() as i32).expect("a child has an id");
        // Not reaped yet, so the id is still its own.
        kill_process(pid, signal)
            .map_err(|error| Failure::negative(format!("cannot signal replica {node}: {error}")))
    }

    /// Starts a replica that does not run, with the same config and addresses.
    pub fn start_again(&mut self, node: usize) -> Result<()> {
        let replica = &mut self.replicas[node];
        let log = File::options().create(true).append(true).open(&replica.log);
        let log = log.map_err(|error| cannot_write(&replica.log, &error))?;
        let binary = std::env::current_exe().map_err(Failure::cannot_start)?;
        let mut command = Command::new(binary);
        command.args(&replica.command).arg("--config").arg(&replica.config);
        // The pipe to its standard input is its lifeline.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let child = command
            .spawn()
            .map_err(|error| Failure::cannot_start(format!("cannot start replica {node}: {error}")))?;
        interrupt::started(child.id());
        replica.child = Some(child);
        Ok(())
    }

    /// Keeps configs and logs, whatever the outcome.
    pub fn keep_files(&self) {
        self.keep_files.store(true, Ordering::Relaxed);
    }

    /// Ends the replicas. Configs and logs stay if the outcome is a failure, which then says where they are.
    pub fn finish<T>(mut self, outcome: Result<T>) -> Result<T> {
        // A replica that died is the better explanation of whatever the command saw of it.
        let died = if outcome.is_err() { self.none_died().err() } else { None };
        self.end_all();
        match (outcome, died) {
            (Ok(value), _) => {
                if self.keep_files.load(Ordering::Relaxed) {
                    eprintln!("highwater: the replicas' logs are in {}", self.directory().display());
                }
                Ok(value)
            }
            (Err(failure), died) => {
                self.keep_files();
                let failure = died.unwrap_or(failure);
                Err(failure.hint(format!("the replicas' logs are in {}", self.directory().display())))
            }
        }
    }

    /// A failure if a replica ended by itself.
    pub fn none_died(&self) -> Result<()> {
        for (node, replica) in self.replicas.iter().enumerate() {
            let Some(child) = &replica.child else { continue };
            if let Some(status) = ended(child) {
                let why = last_line(&replica.log);
                let (message, cannot_start) =
                    (format!("replica {node} ended by itself ({status}): {why}"), status.code() == Some(3));
                let kind = if cannot_start { Kind::CannotStart } else { Kind::Negative };
                return Err(Failure { kind, message });
            }
        }
        Ok(())
    }

    fn end_all(&mut self) {
        let mut children: Vec<Child> =
            self.replicas.iter_mut().filter_map(|replica| replica.child.take()).collect();
        for child in &children {
            if let Some(pid) = Pid::from_raw(child.id() as i32) {
                // Not reaped yet, so the id is still its own; one that is dead already is as good.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let deadline = Instant::now() + GOODBYE;
        for child in &mut children {
            while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(5));
            }
            // Kill and reap whoever did not listen; both do nothing if it is gone.
            let _ = child.kill();
            let _ = child.wait();
            interrupt::ended(child.id());
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end_all();
        disks::unmount_below(self.directory());
        interrupt::files_are_settled(self.directory());
        let keep = self.keep_files.load(Ordering::Relaxed) || thread::panicking();
        self.directory.disable_cleanup(keep);
    }
}

fn role(status: &Option<StatusReport>) -> String {
    match status {
        None => "silent".into(),
        Some(StatusReport { role, trouble: None, .. }) => role.clone(),
        Some(StatusReport { role, trouble: Some(trouble), .. }) => format!("{role} ({trouble})"),
    }
}

/// Whether the process is a zombie by now, without reaping it: reaping needs the owner's exclusive access.
fn ended(child: &Child) -> Option<ExitStatus> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let pid = Pid::from_raw(child.id() as i32)?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(pid), options).ok()??;
    let raw = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code << 8,
        (None, signal) => signal.unwrap_or(0),
    };
    Some(ExitStatus::from_raw(raw))
}

fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("its log is empty").to_string()
}

/// Named after this process, so that whoever finds one that was kept knows whose it is.
fn fresh_directory() -> Result<TempDir> {
    let prefix = format!("highwater-{}-", std::process::id());
    tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir()
        .map_err(|error| Failure::cannot_start(format!("cannot make a temporary directory: {error}")))
}

/// Replicas that are to speak TLS with each other (`--set tls.peer=..`) and are told no certificates get some of their own. What each of
/// them is told in addition.
fn make_certificates(spec: &FleetSpec, dir: &Path) -> Result<Vec<Vec<(String, String)>>> {
    let asks = |wanted: &str| spec.set.iter().any(|(key, _)| key == wanted);
    if !asks("tls.peer") || asks("tls.certificate") || asks("tls.peer_certificate") {
        return Ok(vec![Vec::new(); usize::from(spec.replicas)]);
    }
    let (dir, default) = (dir.join("certs"), Config::default());
    let named = spec.set.iter().rev().find(|(key, _)| key == "cluster.id");
    let cluster = named.map_or(default.cluster.id.as_str(), |(_, name)| name.trim_matches('"'));
    crate::cert::for_trial(&dir, cluster, spec.replicas)?;
    let file = |name: String| format!("{:?}", dir.join(name));
    let of = |node: u8| {
        [
            ("ca", "ca.crt".to_string()),
            ("certificate", format!("node-{node}.crt")),
            ("key", format!("node-{node}.key")),
        ]
        .map(|(key, name)| (format!("tls.peer_{key}"), file(name)))
        .to_vec()
    };
    Ok((0..spec.replicas).map(of).collect())
}

/// Settings without those of locks, for who wants to know about others before there are certificates.
pub fn without_locks(set: &[(String, String)]) -> Vec<(String, String)> {
    set.iter().filter(|(key, _)| !key.starts_with("tls.")).cloned().collect()
}

fn config_of(
    spec: &FleetSpec,
    certificates: &[Vec<(String, String)>],
    node: u8,
    nodes: &[NodeConfig],
) -> Result<Config> {
    // The environment is not asked: a benchmark is what its command line says.
    let own = spec.own.get(usize::from(node)).map_or(&[][..], Vec::as_slice);
    // Demonstrations and benchmarks keep nothing, unless they are told to; and what they run are benchmarks' procedures.
    let defaults = [("cluster.durability", "memory"), ("server.benchmarks", "on")]
        .map(|(key, value)| (key.to_string(), value.to_string()));
    // A certificate is for a node, so the settings are looked at as that node's.
    let listed = nodes.iter().map(|node| {
        let NodeConfig { id, peer, resp, admin, .. } = node;
        format!("{{id={id},peer={peer:?},resp={resp:?},admin={admin:?}}}")
    });
    let listed = format!("[{}]", listed.collect::<Vec<_>>().join(","));
    let place = [("node".to_string(), node.to_string()), ("cluster.nodes".to_string(), listed)];
    let certificates = &certificates[usize::from(node)][..];
    let layers = [&defaults, own, &place, &spec.set, certificates].concat();
    let mut config = Config::load(None, [], &layers).map_err(Failure::usage)?;
    config.node = node;
    // It would be overruled below, and what was measured or proved would be of another engine.
    if spec.set.iter().any(|(key, _)| key == "cluster.engine") && config.cluster.engine != spec.engine.name()
    {
        return Err(Failure::usage(format!(
            "--set cluster.engine: these replicas run {}; another engine is named with --engine",
            spec.engine
        )));
    }
    config.cluster.engine = spec.engine.name().to_string();
    config.cluster.workers = spec.workers;
    config.cluster.nodes = nodes.to_vec();
    config.threads.lifeline = true;
    if config.limits.memory_mb == 0 {
        // They share one machine.
        config.limits.memory_mb = (config.memory_bytes() / u64::from(spec.replicas.max(1))) >> 20;
    }
    config.validate().map_err(Failure::usage)?;
    Ok(config)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::cannot_start(format!("cannot write {}: {error}", path.display()))
}
