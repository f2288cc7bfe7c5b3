//! What an engine needs to know before it starts.

use bytes::Bytes;
use highwater_core::level::REHEARSED;
use highwater_core::limits::{
    COPY_WINDOW_BYTES, DEFAULT_TRANSACTION_ROWS, MAX_CHUNK_BYTES, MAX_NODES, MAX_OPERATIONS, MAX_SEAL_BYTES,
    MAX_TRANSACTION_BYTES, MAX_WORKERS,
};
use highwater_core::log::{CLAIM_BYTES, ENTRY_HEADER_BYTES};
use highwater_core::{Durability, Incarnation, Level, Levels, Nanos, NodeId, planted};

use crate::settings::Own;
use crate::shares::Shares;

/// Least that a transaction may be limited to.
pub const MIN_TRANSACTION_BYTES: usize = 64 << 10;
/// Least rows that a transaction may be limited to: what the library does by itself takes some thousands.
pub const MIN_TRANSACTION_ROWS: u64 = 10_000;

/// Settings of one replica. Cluster-wide ones must be the same on every node; the handshake compares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many nodes there are at first.
    pub nodes: u8,
    /// Who founds the cluster, if it does not exist yet, and where each is found, in the host's words. Which nodes belong later is
    /// decided by those that do.
    pub founders: Vec<(NodeId, Bytes)>,
    /// Cluster-wide: how many workers, and so streams, each replica has.
    pub workers: u16,
    /// This node.
    pub node: NodeId,
    /// This life of its memory: never used before. Random.
    pub incarnation: Incarnation,
    /// Seed for everything random inside (election timeouts, back-off).
    pub seed: u64,
    /// How often the leader says that it lives.
    pub heartbeat: Nanos,
    /// Shortest silence after which a follower stands for election; each waits up to twice as long, at random.
    pub election_timeout: Nanos,
    /// An entry is sealed at the latest at this size in bytes.
    pub max_entry_bytes: usize,
    /// A busy worker keeps an entry open this long at most, to fill it; an idle one seals at once.
    pub batch_delay: Nanos,
    /// Sealed and undecided entries per stream. Small entries when the network keeps up, large ones when it doesn't.
    pub pipeline_entries: usize,
    /// Bytes of log per stream that are above the mark (undecided ones are among them), beyond which requests are refused.
    /// Also of replies that wait, and of before-images that are kept, per worker.
    pub max_in_flight_bytes: usize,
    /// Unreleased replies per worker, beyond which requests are refused.
    pub max_in_flight_requests: usize,
    /// Decided entries kept per stream, for peers that lag; one that lags further copies the state anew.
    pub log_retain_bytes: usize,
    /// Most bytes of one transaction in the log; see [`MAX_TRANSACTION_BYTES`].
    pub max_transaction_bytes: usize,
    /// Most rows that one transaction may look up, scan and add, one that is added counted [`ADDED`](highwater_core::work::ADDED) times:
    /// one that would take longer is refused.
    pub max_transaction_rows: u64,
    /// Cluster-wide: what a reply promises. A replica that has a disk, and comes back with it, is the voter that it was.
    pub durability: Durability,
    /// With [`Durability::Async`]: how far the disk may be behind what is accepted. Where it is further behind, what is accepted waits
    /// for it.
    pub disk_window: Nanos,
    /// With [`Durability::Async`]: this process comes back from a crash, and an earlier one may have accepted more than is on the disk.
    pub forgets: bool,
    /// An earlier life of this node, of which nothing is left, was part of a cluster: it founds none ([`highwater_core::evidence`]).
    pub has_a_past: bool,
    /// What this node speaks: its build's, or, where an upgrade is rehearsed, those of another one.
    pub levels: Levels,
    /// Memory that this node may use, in bytes; `u64::MAX`: no limit. See [`Shares`].
    pub memory_bytes: u64,
    /// Attempts of one transaction before its client is told of the conflict.
    pub max_attempts: u32,
    /// The engine's own.
    pub own: Own,
}

impl Options {
    /// Sane defaults for `nodes` nodes with `workers` workers each.
    pub fn new(node: NodeId, nodes: u8, workers: u16, incarnation: Incarnation) -> Options {
        let same = planted!(AmnesiacVoter);
        let incarnation = if same { Incarnation(u64::from(node.0) + 1) } else { incarnation };
        Options {
            nodes,
            founders: (0..nodes).map(|node| (NodeId(node), Bytes::new())).collect(),
            workers,
            node,
            incarnation,
            seed: incarnation.0 ^ u64::from(node.0).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            heartbeat: 20_000_000,
            election_timeout: 120_000_000,
            max_entry_bytes: 256 << 10,
            batch_delay: 3_000_000,
            pipeline_entries: 4,
            max_in_flight_bytes: 8 << 20,
            max_in_flight_requests: 20_000,
            log_retain_bytes: 64 << 20,
            max_transaction_bytes: MAX_TRANSACTION_BYTES,
            max_transaction_rows: DEFAULT_TRANSACTION_ROWS,
            durability: Durability::Memory,
            disk_window: 100_000_000,
            forgets: false,
            has_a_past: false,
            levels: Levels::default(),
            memory_bytes: u64::MAX,
            max_attempts: 100,
            own: Own::default(),
        }
    }

    /// Longest entry of a stream: what is sealed at the latest, and one transaction more.
    pub fn longest_entry(&self) -> usize {
        let claims = self.workers as usize * CLAIM_BYTES;
        ENTRY_HEADER_BYTES + self.max_entry_bytes + self.max_transaction_bytes + claims
    }

    /// Most bytes that a worker may have under way to one peer that keeps up: what fills a window, twice if it is asked for
    /// twice, with its last entry; and a copy of the state. A transport that allows less cuts the connection for it, again
    /// and again.
    pub fn most_queued_bytes(&self) -> usize {
        let (stream, copy) = (2 * self.max_in_flight_bytes + self.longest_entry(), COPY_WINDOW_BYTES);
        stream.saturating_add(copy + MAX_CHUNK_BYTES)
    }

    /// Bytes of one stream's log that a follower may hold and not have installed; beyond, it takes no further entry that
    /// has transactions. More than a leader holds above the mark (`max_in_flight_bytes` and an entry), so that what a
    /// follower waits for is never what it refused: docs/internals/replay.md.
    pub fn backlog_bytes(&self) -> u64 {
        self.log_retain_bytes.saturating_add(self.longest_entry()) as u64
    }

    /// Most bytes of one stream's log in memory: what is kept for those who lag, and the backlog; a range that a new
    /// leader makes this log adopt may come on top once more.
    pub fn most_log_bytes(&self) -> u64 {
        let backlog = self.backlog_bytes().saturating_mul(2).saturating_add(self.longest_entry() as u64);
        backlog.saturating_mul(2).saturating_add(self.log_retain_bytes as u64)
    }

    /// What logs and work may take by their own bounds, in bytes.
    fn needs(&self) -> (u64, u64) {
        let workers = u64::from(self.workers);
        let (entry, in_flight) = (self.longest_entry() as u64, self.max_in_flight_bytes as u64);
        let transaction = self.max_transaction_bytes as u64;
        let logs = workers * (self.log_retain_bytes as u64 + self.backlog_bytes());
        // An open entry; replies, before-images and arguments, each up to its bound and one transaction more.
        let work = workers * (entry + 3 * (in_flight + transaction));
        (logs, work)
    }

    /// Divides the memory; says what does not fit.
    pub fn shares(&self) -> Result<Shares, String> {
        let (logs, work) = self.needs();
        Shares::divide(self.memory_bytes, logs, work)
    }

    /// The memory that leaves `store` bytes for the store, or a little more.
    pub fn memory_for(&self, store: u64) -> u64 {
        let (logs, work) = self.needs();
        Shares::whole_for(store, logs, work)
    }

    /// Lowers what may pile up to shares of the memory, where it is more: a small node works, with smaller bounds.
    pub fn fit_memory(&mut self) {
        let share = |part: u64| (self.memory_bytes / (part * u64::from(self.workers.max(1)))) as usize;
        let (entry, retained, transaction) = (share(256), share(32), share(24));
        self.max_entry_bytes = self.max_entry_bytes.min(entry).max(1 << 10);
        self.log_retain_bytes = self.log_retain_bytes.min(retained).max(self.max_entry_bytes);
        self.max_in_flight_bytes = self.max_in_flight_bytes.min(self.log_retain_bytes);
        self.max_transaction_bytes = self.max_transaction_bytes.min(transaction).max(MIN_TRANSACTION_BYTES);
    }

    /// Checks every setting; says which one to change and how.
    pub fn validate(&self) -> Result<(), String> {
        let check = |good: bool, what: &str| if good { Ok(()) } else { Err(what.to_string()) };
        check((1..=MAX_NODES).contains(&self.nodes), "a cluster has 1 to 31 nodes")?;
        check((1..=MAX_WORKERS).contains(&self.workers), "workers (cluster.workers) must be 1 to 256")?;
        check(
            self.founders.iter().any(|(node, _)| *node == self.node),
            "the node must be one of the founders",
        )?;
        check(self.heartbeat > 0, "heartbeat must be above 0")?;
        check(
            self.election_timeout >= 3 * self.heartbeat,
            "election timeout must be at least 3 heartbeats, or late heartbeats depose healthy leaders",
        )?;
        check(self.max_entry_bytes >= 1 << 10, "max entry bytes must be at least 1 KiB")?;
        check(self.max_entry_bytes <= MAX_SEAL_BYTES, "max entry bytes must be at most 16 MiB")?;
        check(self.batch_delay <= 1_000_000_000, "batch delay must be at most one second")?;
        check(self.pipeline_entries > 0, "pipeline entries must be above 0")?;
        check(
            self.max_in_flight_bytes >= self.max_entry_bytes,
            "max in-flight bytes must be at least max entry bytes",
        )?;
        check(self.max_in_flight_requests > 0, "max in-flight requests must be above 0")?;
        check(
            self.log_retain_bytes >= self.max_in_flight_bytes,
            "log retain bytes must be at least max in-flight bytes",
        )?;
        check(
            (MIN_TRANSACTION_BYTES..=MAX_TRANSACTION_BYTES).contains(&self.max_transaction_bytes),
            "max transaction bytes must be 64 KiB to 64 MiB",
        )?;
        check(
            (MIN_TRANSACTION_ROWS..=MAX_OPERATIONS as u64).contains(&self.max_transaction_rows),
            "transaction rows (limits.transaction_rows) must be 10000 to 16777216",
        )?;
        check(
            Level::FIRST <= self.levels.oldest
                && self.levels.oldest <= self.levels.newest
                && self.levels.newest <= REHEARSED,
            "levels must be ones that this build can play",
        )?;
        check(self.max_attempts > 0, "max attempts must be above 0")?;
        check(
            (1_000_000..=10_000_000_000).contains(&self.disk_window),
            "the window of disks must be 1 ms to 10 s",
        )?;
        self.shares().map(drop)
    }
}
