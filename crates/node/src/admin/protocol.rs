//! What the admin port speaks: JSON lines, one request a line, one or more response lines each.
//!
//! The admin port is for operators and for `highwater bench`/`demo`, which drive replicas as separate processes. It is
//! no data path: a load runs inside the workers, and only its counts come out here.

use highwater_core::{Level, Levels, NodeId};
use highwater_redis::meter::events::Event;
use highwater_redis::meter::hot::HotKey;
use highwater_redis::meter::slow::Slow;
use highwater_seam::MemberChange;
use serde::{Deserialize, Serialize};

use super::work::{JournalReport, PeerReport, WorkReport};
use crate::config::NodeConfig;
use crate::config::contact::contact;

/// A request: one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum AdminRequest {
    /// Who are you, who leads, how far are you? Answer: [`AdminResponse::Status`].
    Status,
    /// The same, once the replica has found out how fresh it is, or has tried for as long as a read with a bound may wait: it asks whoever
    /// leads, who asks a majority. Not for watching a cluster at rest, which it disturbs. Answer: [`AdminResponse::Status`].
    Freshness,
    /// Reads the files of TLS again, for connections that come. Answer: [`AdminResponse::Done`].
    ReloadCertificates,
    /// Populates the database through the workers of this replica, which must lead. Answers:
    /// [`AdminResponse::Progress`] a few times a second, then [`AdminResponse::Done`] once all of it is released.
    Load {
        /// What to load.
        workload: WorkloadSpec,
    },
    /// Starts a load inside the workers; it goes on while this replica leads. Answer: [`AdminResponse::Done`] once
    /// started. Counters start at 0.
    Run {
        /// What to run.
        workload: WorkloadSpec,
        /// Unreleased transactions per worker, at most.
        in_flight: u32,
        /// Transactions per second over all workers; as fast as possible if absent.
        rate: Option<f64>,
        /// Seed of the request streams.
        seed: u64,
        /// Every n-th request of a worker writes an acknowledged-sequence row, for counting losses. 0: none.
        audit_every: u32,
        /// First generator number of the audit rows: worker i writes as `audit_base + i`. Unique per run.
        audit_base: u32,
    },
    /// Counts of the running (or last) load. Answer: [`AdminResponse::Load`].
    LoadStats,
    /// Sets every count and histogram of the running load to 0: ends the warm-up. Answer: [`AdminResponse::Done`].
    ResetStats,
    /// Stops the load; answers [`AdminResponse::Load`] when its last transaction is released or given up.
    Stop,
    /// Runs the workload's consistency conditions on this replica's store, which must be quiescent. Answer:
    /// [`AdminResponse::Checks`].
    Check {
        /// Whose conditions.
        workload: WorkloadSpec,
    },
    /// A digest of the store, which must be quiescent. Answer: [`AdminResponse::Digest`].
    Digest,
    /// How many audit rows of generator `generator` with sequence numbers in `acknowledged` (inclusive ranges) are
    /// missing here. Answer: [`AdminResponse::AuditMissing`].
    AuditMissing {
        /// The generator number.
        generator: u32,
        /// Ranges of acknowledged sequence numbers.
        acknowledged: Vec<(u32, u32)>,
    },
    /// Hands the lead over to a node, or to whoever can best. Of the leader. Answer: [`AdminResponse::HandedOver`].
    HandOver {
        /// To whom, by id.
        #[serde(default)]
        to: Option<u8>,
    },
    /// Another membership is wanted; asked again until it is done. Answer: [`AdminResponse::Member`].
    Member {
        /// What is wanted.
        change: MemberRequest,
    },
    /// Ends the process cleanly: what it leads is handed over first. Answer: [`AdminResponse::Done`], at once.
    Shutdown,
    /// Slow transactions. Answer: [`AdminResponse::Slow`].
    Slow,
    /// What happened lately. Answer: [`AdminResponse::Events`].
    Events,
    /// The keys with most conflicts. Answer: [`AdminResponse::HotKeys`].
    HotKeys {
        /// Forget them then.
        #[serde(default)]
        reset: bool,
    },
}

/// A workload and its options: what `highwater_workloads` builds one from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// `tpcc`, `ycsb`, `bank`, `ycsb-t` or `retwis`.
    pub name: String,
    /// `key=value` options, e.g. `("warehouses", "2")`.
    pub options: Vec<(String, String)>,
}

/// A response: one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum AdminResponse {
    /// The request was carried out.
    Done,
    /// The request cannot be carried out; says what to do instead.
    Error {
        /// One line.
        message: String,
    },
    /// The node is on its way from its files to a replica, and can answer nothing else.
    Starting {
        /// How far.
        doing: String,
    },
    /// Loading goes on.
    Progress {
        /// Requests released.
        done: u64,
        /// Requests in all, if known.
        total: Option<u64>,
    },
    /// The lead is another node's, which serves.
    HandedOver {
        to: u8,
        /// For how long requests waited, in milliseconds: until the old leader heard that the new one serves.
        paused_ms: f64,
    },
    /// See [`AdminRequest::Status`].
    Status(Box<StatusReport>),
    /// See [`AdminRequest::LoadStats`].
    Load(Box<LoadReport>),
    /// See [`AdminRequest::Check`].
    Checks {
        /// One per condition.
        checks: Vec<CheckReport>,
    },
    /// See [`AdminRequest::Digest`].
    Digest {
        /// Hex; equal exactly if the stores are (up to hash collisions).
        digest: String,
        /// Live rows over all tables.
        rows: u64,
        /// Live bytes (keys and values).
        bytes: u64,
    },
    /// See [`AdminRequest::Member`].
    Member {
        /// How far it is.
        state: MemberState,
        /// What it waits for, or why it is refused; else empty.
        why: String,
        /// If it is `elsewhere`: who leads, as far as is known,
        leader: Option<u8>,
        /// and where operators find that node.
        admin: Option<String>,
    },
    /// See [`AdminRequest::AuditMissing`].
    AuditMissing {
        /// How many are missing.
        missing: u64,
    },
    /// See [`AdminRequest::Slow`].
    Slow {
        /// The latest first.
        slow: Vec<Slow>,
    },
    /// See [`AdminRequest::Events`].
    Events {
        /// In order.
        events: Vec<Event>,
    },
    /// See [`AdminRequest::HotKeys`].
    HotKeys {
        /// The hottest first.
        keys: Vec<HotKey>,
    },
}

/// A change of who belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "member", rename_all = "snake_case")]
pub enum MemberRequest {
    /// This node votes, once it runs and holds everything.
    Add {
        /// Who, and where.
        node: NodeConfig,
        /// There it is, whatever the node says of itself: something stands in between.
        #[serde(default)]
        as_given: bool,
    },
    /// This node votes no more, and its id is never used again.
    Remove { id: u8 },
    /// `node` votes in the place of node `id`; or, if it is the same, it is found at other addresses.
    Replace {
        /// Who goes.
        id: u8,
        /// Who comes, and where.
        node: NodeConfig,
        /// See [`Add`](MemberRequest::Add).
        #[serde(default)]
        as_given: bool,
    },
}

impl MemberRequest {
    /// A node that is to become a member; and whether what it says of itself does not matter.
    pub fn newcomer(&self) -> Option<(&NodeConfig, bool)> {
        match self {
            MemberRequest::Add { node, as_given } => Some((node, *as_given)),
            MemberRequest::Replace { id, node, as_given } if node.id != *id => Some((node, *as_given)),
            MemberRequest::Remove { .. } | MemberRequest::Replace { .. } => None,
        }
    }

    /// For the engine, which takes addresses for opaque.
    pub fn of_engine(&self) -> MemberChange {
        match self {
            MemberRequest::Add { node, .. } => {
                MemberChange::Add { node: NodeId(node.id), contact: contact(node, false) }
            }
            MemberRequest::Remove { id } => MemberChange::Remove { node: NodeId(*id) },
            MemberRequest::Replace { id, node, .. } => MemberChange::Replace {
                node: NodeId(*id),
                by: NodeId(node.id),
                contact: contact(node, false),
            },
        }
    }
}

/// How far a change of membership is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// It is so.
    Done,
    /// It is under way.
    Waits,
    /// It cannot be.
    Refused,
    /// Another node decides.
    Elsewhere,
}

/// The result of one consistency condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Its name, e.g. `tpcc-1`.
    pub name: String,
    /// Why it does not hold, with the keys involved; `None` if it holds.
    pub failure: Option<String>,
}

/// A replica's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// This node's id.
    pub node: u8,
    /// This life of its memory, hex.
    pub incarnation: String,
    pub engine: String,
    /// `removed`, `starting`, `joining`, `standby`, `stalled` (it leads, and refuses requests) or `serving`.
    pub service: String,
    /// What it does, in its engine's word: `starting`, `learner`, `follower`, `candidate` or `leader`.
    pub role: String,
    pub epoch: u64,
    /// Whom clients should ask, as far as it has heard lately: who leads.
    pub leader: Option<u8>,
    /// Milliseconds since it heard a leader that vouched for itself, whoever it was; `None` on a leader, or if it never
    /// did.
    #[serde(default)]
    pub leader_silent_ms: Option<u64>,
    /// How far it is, in its engine's terms.
    pub figures: Vec<FigureReport>,
    /// Voters and learners.
    pub members: Vec<MemberReport>,
    /// Bytes received so far, while it copies the state.
    pub copying_bytes: Option<u64>,
    /// Whom it asked for the copy, once it has asked.
    #[serde(default)]
    pub copying_from: Option<u8>,
    /// It has not caught up with what it may have forgotten in a crash.
    #[serde(default)]
    pub forgets: bool,
    /// What was acknowledged to anybody at least so many milliseconds ago is in the state that it shows to bounded reads, as far as
    /// it could prove when it was last [asked](AdminRequest::Freshness); 0 on a leader, `None` if it could never, or shows none.
    #[serde(default)]
    pub freshness_ms: Option<u64>,
    /// The levels that its build speaks; `None` from builds before levels.
    #[serde(default)]
    pub levels: Option<LevelsReport>,
    /// The level in use.
    #[serde(default)]
    pub level: Option<u8>,
    /// Of who leads: the level could be raised, but for these nodes.
    #[serde(default)]
    pub held_back_by: Vec<u8>,
    /// Why it cannot serve, if it cannot.
    pub trouble: Option<String>,
    /// CPU time of the process, user and system, in nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory of the process in bytes.
    pub resident_bytes: u64,
    /// Bytes in use by the store.
    pub store_bytes: u64,
    /// What the node may use, by part.
    #[serde(default)]
    pub memory: MemoryReport,
    /// How its disk is, if it keeps a journal.
    #[serde(default)]
    pub disk: Option<DiskReport>,
    /// What the journal did, if there is one.
    #[serde(default)]
    pub journal: Option<JournalReport>,
    /// What the workers did.
    #[serde(default)]
    pub work: WorkReport,
    /// Bytes to and from each peer.
    #[serde(default)]
    pub peers: Vec<PeerReport>,
    /// Times at which this node began to stand for election, and to lead, since its process started.
    #[serde(default)]
    pub elections: ElectionReport,
    /// Seconds since the process started.
    pub uptime_seconds: f64,
    /// Transactions executed by the workers.
    pub executed: u64,
    /// Transactions applied from the log.
    pub applied: u64,
    /// Reads answered from this replica's snapshots, not as transactions.
    pub snapshot_reads: u64,
    /// Bytes of entries sealed.
    pub log_bytes: u64,
    /// Client connections open.
    pub clients: u64,
    /// What their sockets stand on: `epoll` or `uring`. Empty: the node is older than this.
    #[serde(default)]
    pub sockets: String,
    /// Where operators find each node, by id: `host:port` as in `cluster.nodes`. A loopback address is of that node's machine.
    #[serde(default)]
    pub admins: Vec<String>,
    /// Where the nodes that this one knows are found, by its config and by what the cluster decided since.
    #[serde(default)]
    pub nodes: Vec<NodeConfig>,
    /// Ids of nodes that were removed.
    #[serde(default)]
    pub removed: Vec<u8>,
    /// Nodes that this one cannot work with, and why: another engine, another durability.
    #[serde(default)]
    pub refusals: Vec<String>,
}

/// What a node may use, by part, and what its store uses, in bytes. 0 where there is no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// All of it.
    pub budget: u64,
    /// Of that, for data.
    pub store_budget: u64,
    pub log_budget: u64,
    /// For transactions under way.
    pub work_budget: u64,
    /// For buffers of connections.
    pub buffer_budget: u64,
    /// What the data may come to if this node leads: the node with the least room decides.
    pub most: u64,
    /// Used by records with their keys and values.
    pub records: u64,
    /// Used by indexes.
    pub index: u64,
    /// Unlinked, and perhaps still being read.
    pub retired: u64,
    /// Taken from the system for the store: what is free in it included.
    pub reserved: u64,
    /// Used by logs.
    pub logs: u64,
    /// Received from clients and operators, and not executed.
    pub requests: u64,
    /// Released, and not read by clients and operators.
    pub replies: u64,
    /// Frames that wait for other nodes; most of these bytes are the logs', too.
    pub sending: u64,
    /// Receive buffers for other nodes' frames; the logs point into them.
    pub receiving: u64,
}

/// How often a node changed its part, since its process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElectionReport {
    /// It stood for election.
    pub stood: u64,
    /// It began to serve.
    pub served: u64,
    /// The epoch changed.
    pub epochs: u64,
}

/// How a node's disk is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskReport {
    /// There is no room for another segment of the journal, or not for all of the ballast.
    pub low: bool,
    /// There is none in the present segment either: what was accepted waits.
    pub full: bool,
    /// Bytes that are held as ballast: room for a checkpoint and what it relies on, which on a full disk makes room.
    pub ballast: u64,
    /// Bytes that should be.
    pub ballast_wanted: u64,
    /// The trouble with the files besides want of room: they are not where a later start finds them, or cannot be opened.
    #[serde(default)]
    pub trouble: Option<String>,
}

/// A measure of a replica's progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureReport {
    /// What is measured.
    pub name: String,
    /// Whether there is a value for each part (worker, stream, partition), or one for all.
    pub of_parts: bool,
    /// In the order of the parts.
    pub values: Vec<u64>,
}

/// The levels that a build speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelsReport {
    /// It can write as this one does.
    pub oldest: u8,
    /// It reads all up to this one.
    pub newest: u8,
}

impl LevelsReport {
    /// As it travels.
    pub fn of(levels: Levels) -> LevelsReport {
        LevelsReport { oldest: levels.oldest.0, newest: levels.newest.0 }
    }

    /// And back.
    pub fn levels(self) -> Levels {
        Levels { oldest: Level(self.oldest), newest: Level(self.newest) }
    }
}

/// One member of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberReport {
    /// Its id.
    pub node: u8,
    /// Which life of it is admitted, hex.
    pub incarnation: String,
    /// Whether it votes.
    pub voter: bool,
    /// The levels that its build speaks, if it is connected.
    #[serde(default)]
    pub levels: Option<LevelsReport>,
    /// Whether this very life is here; on the leader only.
    #[serde(default)]
    pub connected: Option<bool>,
    /// What it has not acknowledged, in the engine's measure (entries); on the leader only.
    pub lag: Option<u64>,
    /// Milliseconds since it was last heard; on the leader only, `None` also if it never was.
    #[serde(default)]
    pub silent_ms: Option<u64>,
}

/// Counts of a load since its start or the last reset, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Seconds that the counts cover.
    pub seconds: f64,
    /// Whether it is still running.
    pub running: bool,
    /// Released commits.
    pub committed: u64,
    /// Released roll-backs that the procedures decided.
    pub user_aborts: u64,
    /// Attempts that ended in a conflict.
    pub conflict_aborts: u64,
    /// Requests given up after too many conflicts.
    pub gave_up: u64,
    /// Requests that the procedures refused as malformed; in no other count.
    #[serde(default)]
    pub bad_requests: u64,
    /// Requests whose outcome was lost with leadership.
    pub unknown: u64,
    /// From submission to release, in microseconds.
    pub released_latency_us: Quantiles,
    /// By procedure name.
    pub per_procedure: Vec<ProcedureReport>,
    /// CPU time of the load generator inside the workers, in nanoseconds, sampled.
    pub generator_cpu_ns: u64,
    /// CPU time of the whole process over the same time, in nanoseconds.
    pub process_cpu_ns: u64,
    /// Bytes of entries sealed over the same time.
    pub log_bytes: u64,
    /// Acknowledged audit rows: generator number, and inclusive ranges of acknowledged sequence numbers.
    pub audit: Vec<(u32, Vec<(u32, u32)>)>,
    /// Released commits in each 10 ms slice of the last minute, oldest first: where the gaps are.
    pub slices: Vec<u32>,
    /// Where the last slice ends, on `CLOCK_MONOTONIC` in nanoseconds; a multiple of 10 ms, so that the slices of
    /// several replicas of one machine line up.
    #[serde(default)]
    pub slices_end_ns: u64,
    /// When the first transaction of this load was released, on `CLOCK_MONOTONIC` (one clock for all processes of a
    /// machine), in nanoseconds; 0 if none was. Kept by a reset.
    #[serde(default)]
    pub first_release_ns: u64,
    /// When the last one was, on the same clock; 0 if none was. Kept by a reset.
    #[serde(default)]
    pub last_release_ns: u64,
}

impl LoadReport {
    /// What counts as throughput: commits, and the roll-backs that a workload's mix asks for. Not what was refused.
    pub fn released(&self) -> u64 {
        self.committed + self.user_aborts
    }
}

/// Counts of one procedure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcedureReport {
    pub name: String,
    /// Released commits.
    pub committed: u64,
    /// Released roll-backs.
    pub user_aborts: u64,
    /// From submission to release, in microseconds.
    pub released_latency_us: Quantiles,
}

/// Quantiles of a latency, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}
