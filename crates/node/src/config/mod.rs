//! One replica's configuration: a TOML file, environment variables and flags over documented defaults.
//!
//! What must be the same on every node stands under `cluster` and is compared when nodes connect; the rest is this
//! node's own business.

mod admin;
mod auth;
pub(crate) mod contact;
mod error;
pub mod memory;
mod merge;
mod nodes;
mod own;
#[cfg(test)]
mod tests;
mod tls;
mod validate;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use highwater_core::{ClockChoice, Incarnation, Levels, NodeId};
use highwater_engines::EngineKind;
use highwater_seam::Options;
use serde::{Deserialize, Serialize};

pub use admin::read_token;
pub use auth::AuthConfig;
pub use error::ConfigError;
pub use nodes::NodeConfig;
pub use tls::{ClientAuth, PeerTls, SecurityConfig, TlsConfig};

pub use highwater_redis::Redirect;

/// A file of more bytes than this is no configuration.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The whole configuration; `default.toml` beside this file documents every key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which entry of `cluster.nodes` this process is.
    pub node: u8,
    /// The same on every node.
    pub cluster: ClusterConfig,
    /// When silence counts as death.
    pub timeouts: TimeoutConfig,
    /// How entries are cut.
    pub batching: BatchingConfig,
    /// What may pile up.
    pub limits: LimitConfig,
    /// Settings of an engine's own, by its name: see [`Engine::SETTINGS`](highwater_seam::Engine::SETTINGS).
    pub engines: BTreeMap<String, BTreeMap<String, u64>>,
    /// How the data is kept.
    pub store: StoreConfig,
    /// Where it is kept on disk.
    pub storage: StorageConfig,
    /// Who may do what, before the cluster says so.
    pub auth: AuthConfig,
    /// Which doors speak TLS.
    pub tls: TlsConfig,
    /// What is refused otherwise.
    pub security: SecurityConfig,
    /// How the process runs.
    pub threads: ThreadConfig,
    /// How clients are spoken to.
    pub server: ServerConfig,
    /// Who may use the admin port.
    pub admin: AdminConfig,
    /// Which transactions are slow.
    pub slowlog: SlowlogConfig,
    /// What is written to standard error.
    pub log: LogConfig,
    /// What the node speaks: its build's levels. No key of a file: only who rehearses an upgrade says otherwise.
    #[serde(skip)]
    pub levels: Levels,
}

/// The same on every node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// The cluster's name.
    pub id: String,
    /// The engine's name.
    pub engine: String,
    /// Worker threads per node.
    pub workers: u16,
    /// What a reply promises.
    pub durability: Durability,
    /// All nodes, by id.
    pub nodes: Vec<NodeConfig>,
}

/// What a reply promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// In the memories of a majority.
    Memory,
    /// In the memories of a majority; on their disks `storage.async_window_ms` later.
    Async,
    /// On the disks of a majority.
    Sync,
}

impl Durability {
    /// As the engine calls it.
    pub fn level(self) -> highwater_core::Durability {
        match self {
            Durability::Memory => highwater_core::Durability::Memory,
            Durability::Async => highwater_core::Durability::Async,
            Durability::Sync => highwater_core::Durability::Sync,
        }
    }
}

/// Where a node with a disk keeps its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageConfig {
    /// The folder of all nodes' folders.
    pub dir: PathBuf,
    /// MiB of journal between two checkpoints.
    pub checkpoint_mb: u64,
    /// How many checkpoints are kept.
    pub checkpoints_kept: usize,
    /// Threads that write one.
    pub checkpoint_threads: usize,
    /// With `async`: how many milliseconds the disk may be behind what is accepted.
    pub async_window_ms: u64,
    /// With `memory`: start although the folder holds data, which is not read.
    pub ignore_data: bool,
}

/// When silence counts as death.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeoutConfig {
    /// See [`Options::heartbeat`].
    pub heartbeat_ms: u64,
    /// See [`Options::election_timeout`].
    pub election_timeout_ms: u64,
}

/// How entries are cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchingConfig {
    /// See [`Options::max_entry_bytes`].
    pub max_entry_bytes: usize,
    /// See [`Options::batch_delay`]; in microseconds.
    pub batch_delay_us: u64,
    /// See [`Options::pipeline_entries`].
    pub pipeline_entries: usize,
}

/// What may pile up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitConfig {
    /// See [`Options::max_in_flight_bytes`].
    pub max_in_flight_bytes: usize,
    /// See [`Options::max_in_flight_requests`].
    pub max_in_flight_requests: usize,
    /// See [`Options::log_retain_bytes`].
    pub log_retain_bytes: usize,
    /// See [`Options::max_attempts`].
    pub max_attempts: u32,
    /// See [`Options::max_transaction_rows`].
    pub transaction_rows: u64,
    /// Memory in MiB that this node may use; 0: see [`memory`].
    pub memory_mb: u64,
    /// Client connections per worker.
    pub clients_per_worker: usize,
    /// Bytes that wait for one peer on one connection.
    pub send_queue_bytes: usize,
    /// Bytes received from all clients of a worker and not executed.
    pub request_bytes_per_worker: usize,
    /// Bytes of replies to all clients of a worker, executed and not written.
    pub reply_bytes_per_worker: usize,
    /// Seconds of a client's silence.
    pub idle_timeout_s: u64,
    /// Seconds in which a client takes nothing of its replies.
    pub stuck_timeout_s: u64,
    /// Sessions that may be open.
    pub sessions: u64,
    /// Sessions that one user may have open.
    pub sessions_per_user: u64,
    /// Seconds for which a session that nobody uses is kept.
    pub session_idle_s: u64,
    /// Instructions of a run of a script; 0: no bound.
    pub script_instructions: u64,
    /// Memory in MiB of a run of a script.
    pub script_memory_mb: u64,
    /// Fuel of a call of a module's procedure; 0: no bound.
    pub procedure_fuel: u64,
    /// Memory in MiB of a call of a module's procedure.
    pub procedure_memory_mb: u64,
}

/// How the data is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Memory in MiB that is taken from the system, and touched, before the node starts.
    pub reserve_mb: u64,
    /// Where commit timestamps come from.
    pub clock: ClockSource,
}

/// Where commit timestamps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// See [`ClockChoice::Auto`].
    Auto,
    /// See [`ClockChoice::Tsc`].
    Tsc,
    /// See [`ClockChoice::Os`].
    Os,
}

/// Who may use the admin port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminConfig {
    /// What everybody has to know; empty: nothing.
    pub token: Secret,
    /// A file that holds it, instead.
    pub token_file: PathBuf,
    /// Names by which browsers may call this node.
    pub hosts: Vec<String>,
}

/// Which transactions are slow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowlogConfig {
    /// Those that are executed for so many microseconds or longer; negative: none.
    pub slower_than_us: i64,
}

/// Text that is shown to nobody.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "secret" })
    }
}

/// How the process runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadConfig {
    /// Where workers run.
    pub pin: Pin,
    /// End when standard input closes.
    pub lifeline: bool,
}

/// Where workers run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "threads.pin must be \"none\", \"auto\" or a list of cores like [0, 1]")]
pub enum Pin {
    /// By name.
    Policy(PinPolicy),
    /// Worker i on the i-th of these cores.
    Cores(Vec<usize>),
}

/// Where workers run, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinPolicy {
    /// Wherever the system likes.
    None,
    /// Worker i on core i.
    Auto,
}

/// How clients are spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// How a client is told that another node serves.
    pub redirect: Redirect,
    /// Whether what clients ask of a node that does not serve goes on to the one that does.
    pub forward: Forward,
    /// What clients' sockets stand on.
    pub io: Io,
    /// Whether the node hosts the workloads of benchmarks.
    pub benchmarks: Benchmarks,
}

/// Whether a node hosts the tables and procedures of benchmarks (`tpcc.new_order`, `bank.transfer`, ..). The same on every node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Benchmarks {
    /// There are none.
    Off,
    /// There are, and clients may call them, as far as their users may call procedures.
    On,
}

/// What clients' sockets stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// A ring, where the kernel gives one that will do; else epoll.
    Auto,
    Epoll,
    /// A ring, or the node does not start.
    Uring,
}

impl Io {
    /// For nodes that tests start within themselves: as the variable `HIGHWATER_SERVER_IO` says, which processes read by themselves.
    ///
    /// # Panics
    /// If it says something else.
    pub fn of_environment() -> Io {
        match std::env::var("HIGHWATER_SERVER_IO").as_deref() {
            Ok("auto") => Io::Auto,
            Err(_) | Ok("epoll") => Io::Epoll,
            Ok("uring") => Io::Uring,
            Ok(other) => panic!("HIGHWATER_SERVER_IO is {other}, not auto, epoll or uring"),
        }
    }
}

/// Whether what clients ask of a node that does not serve goes on to the one that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forward {
    /// They are told who serves.
    Off,
    /// It does, and they get that node's answer.
    On,
}

/// What is written to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// A level or a filter.
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: an object per line.
    Json,
}

impl Default for Config {
    fn default() -> Config {
        // A table first, as layers are: reading text into a configuration is another deserializer, and compiling that takes seconds.
        let table: toml::Table = Config::default_toml().parse().expect("the defaults are TOML");
        table.try_into().expect("the default configuration is well formed (see its test)")
    }
}

impl Config {
    /// The documented defaults: what `highwater config default` prints.
    pub fn default_toml() -> &'static str {
        include_str!("default.toml")
    }

    /// Puts `overrides` (from flags: key path and value) over `variables` (the environment, whatever is in it) over `file` over the
    /// defaults, and validates the result.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        overrides: &[(String, String)],
    ) -> Result<Config, ConfigError> {
        let text = match file {
            None => None,
            Some(path) => {
                let text = read(path);
                Some(text.map_err(|error| ConfigError(format!("cannot read {}: {error}", path.display())))?)
            }
        };
        let name = file.map_or(PathBuf::from("configuration"), Path::to_path_buf);
        let layers = merge::Layers { name: &name, file: text.as_deref(), overrides };
        let config: Config = layers.merge(Config::default_toml(), variables)?;
        config.validate()?;
        Ok(config)
    }

    /// A file's text over the defaults, validated.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        let layers = merge::Layers { name: Path::new("configuration"), file: Some(text), overrides: &[] };
        let config: Config = layers.merge(Config::default_toml(), [])?;
        config.validate()?;
        Ok(config)
    }

    /// As a file that [`Config::load`] reads back.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every setting has a TOML form")
    }

    /// Memory that this node may use, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self.limits.memory_mb {
            0 => memory::available(),
            mb => mb.saturating_mul(1 << 20),
        }
    }

    /// What everybody has to know who uses the admin port, if anything.
    ///
    /// # Errors
    /// Its file cannot be read, or it is too short to be one.
    pub fn admin_token(&self) -> Result<Option<Secret>, ConfigError> {
        admin::token(&self.admin)
    }

    /// The engine to run.
    pub fn engine(&self) -> Result<EngineKind, ConfigError> {
        self.cluster.engine.parse().map_err(|error| ConfigError(format!("cluster.engine: {error}")))
    }

    /// Where commit timestamps come from.
    pub fn clock(&self) -> ClockChoice {
        match self.store.clock {
            ClockSource::Auto => ClockChoice::Auto,
            ClockSource::Tsc => ClockChoice::Tsc,
            ClockSource::Os => ClockChoice::Os,
        }
    }

    /// This node's addresses.
    pub fn this_node(&self) -> &NodeConfig {
        let own = self.cluster.nodes.iter().find(|node| node.id == self.node);
        own.expect("a valid config lists its own node")
    }

    /// What the engine needs to know: within this node's memory.
    pub fn options(&self, incarnation: Incarnation) -> Options {
        let mut options = self.asked(incarnation);
        options.memory_bytes = self.memory_bytes();
        options.fit_memory();
        options
    }

    /// As it is set.
    fn asked(&self, incarnation: Incarnation) -> Options {
        let nodes = self.cluster.nodes.len() as u8;
        let founders = self.cluster.nodes.iter().map(|node| (NodeId(node.id), contact::contact(node, true)));
        let nanos = |ms| Duration::from_millis(ms).as_nanos() as u64;
        Options {
            heartbeat: nanos(self.timeouts.heartbeat_ms),
            election_timeout: nanos(self.timeouts.election_timeout_ms),
            max_entry_bytes: self.batching.max_entry_bytes,
            batch_delay: self.batching.batch_delay_us.saturating_mul(1_000),
            pipeline_entries: self.batching.pipeline_entries,
            max_in_flight_bytes: self.limits.max_in_flight_bytes,
            max_in_flight_requests: self.limits.max_in_flight_requests,
            log_retain_bytes: self.limits.log_retain_bytes,
            max_attempts: self.limits.max_attempts,
            max_transaction_rows: self.limits.transaction_rows,
            own: self.own(),
            founders: founders.collect(),
            durability: self.cluster.durability.level(),
            disk_window: nanos(self.storage.async_window_ms),
            levels: self.levels,
            ..Options::new(NodeId(self.node), nodes, self.cluster.workers, incarnation)
        }
    }
}

/// A file's text; of what has no end, or is no configuration, not all of it.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("it is longer than 4 MiB, and no configuration"));
    }
    Ok(text)
}
