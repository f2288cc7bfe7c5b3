//! A replica: its workers and its controller.

use std::sync::Arc;

use bytes::Bytes;
use highwater_core::evidence::Starts;
use highwater_core::{Incarnation, Level, Levels, Nanos, NodeId, Signature, Timestamp};
use highwater_store::Store;

use super::checkpoint::{CheckpointNews, CheckpointOrder, Resume};
use super::counters::Counters;
use super::handover::Handover;
use super::members::{MemberAnswer, MemberChange, Roster};
use super::outbox::{Endpoint, Frame, LogPosition, Outbox};
use super::request::{ClientId, Refusal, Request, Taken};
use super::status::Status;
use crate::memory::MemoryStatus;

/// When to give the next turn, if nothing arrives before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once: there is more to do.
    Now,
    /// Not later than this.
    At(Nanos),
    /// When something arrives or somebody wakes it.
    Idle,
}

impl Next {
    /// The earlier of two.
    #[inline]
    pub fn sooner(self, other: Next) -> Next {
        match (self, other) {
            (Next::Now, _) | (_, Next::Now) => Next::Now,
            (Next::At(a), Next::At(b)) => Next::At(a.min(b)),
            (Next::At(at), Next::Idle) | (Next::Idle, Next::At(at)) => Next::At(at),
            (Next::Idle, Next::Idle) => Next::Idle,
        }
    }
}

/// One core's share of a replica.
pub trait Worker: Send {
    /// Whether [`submit`](Worker::submit) would take a request now.
    fn ready(&self) -> Result<(), Refusal>;

    /// Whether [`Busy`](Refusal::Busy) means that another replica is about to serve, and that nothing is run here before it is known which:
    /// this replica does not serve then, though it may have and may again.
    fn waits_for_leader(&self) -> bool {
        false
    }

    /// Runs a transaction to its speculative commit, or puts it off, and says which. The reply comes out of a later turn, once released.
    /// Begins with [`Abilities::admit`](crate::Abilities::admit), as [`submit_snapshot`](Worker::submit_snapshot) does.
    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal>;

    /// Whether [`Outbox::written`] is to name the rows that take effect here from now on, whichever replica was asked to write them. Nothing to do for an
    /// engine that does not [let every replica write](crate::Abilities::leaderless).
    fn tell_writes(&mut self, tells: bool) {
        let _ = tells;
    }

    /// Bytes of replies that are executed and not released. What a [`submit`](Worker::submit) adds to it is the length of
    /// that request's reply, unless it was put off: so a host knows what it will have to hold before it is released.
    fn unreleased_reply_bytes(&self) -> usize {
        0
    }

    /// Up to where what was written is released: the same as before means that nothing else is. `None`: the engine cannot say.
    fn released_up_to(&self) -> Option<Timestamp> {
        None
    }

    /// Runs a transaction that only reads on a snapshot of this replica's store: on a follower without asking anybody.
    /// Serializable: the reads of one request are of one moment, which may be past; moments never go back on one replica.
    /// A write ends it with [`BadRequest`](highwater_core::Outcome::BadRequest). The reply comes out of a later turn, or
    /// [`Conflict`](highwater_core::Outcome::Conflict) if the replica's role or store changes before: nothing was done, ask
    /// again. With a [`freshness`](Request::freshness) it waits until the replica can prove that it is so fresh, or ends as
    /// [`Denied`](highwater_core::Outcome::Denied). Reads of one freshness, or of none, have their moments in the order in which they
    /// came; one that asks for less than another one may overtake it.
    ///
    /// A leader, and an engine without snapshots, runs it as any other transaction, which may write.
    fn submit_snapshot(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        self.submit(now, request)
    }

    /// The connection to the same-numbered worker of `peer` is up (again); frames sent before may be lost, those to other
    /// workers of `peer` among them. Over it the other end said that its build speaks these levels: nothing of a later one is sent.
    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation, levels: Levels);

    /// The connection to `peer` is lost.
    fn peer_down(&mut self, now: Nanos, peer: NodeId);

    /// Takes a frame. Whoever sent it lives the life that [`peer_up`](Worker::peer_up) told last of its node, and the
    /// connection to that node is up.
    fn deliver(&mut self, now: Nanos, from: Endpoint, frame: Frame);

    /// A client that coordinates its transactions itself is connected.
    ///
    /// # Errors
    /// [`Refusal::Unsupported`], if the engine has no [such clients](crate::Abilities::client_coordinators).
    fn client_up(&mut self, now: Nanos, client: ClientId) -> Result<(), Refusal> {
        let _ = (now, client);
        Err(Refusal::Unsupported)
    }

    /// Its connection is lost, or it was refused.
    fn client_down(&mut self, now: Nanos, client: ClientId) {
        let _ = (now, client);
    }

    /// Takes a message of a client that is connected, in the order in which it was sent. Answers come out of a later turn, in
    /// [`Outbox::to_clients`].
    ///
    /// # Errors
    /// In words, if no client that keeps to the rules says that: the host ends the connection. Nothing was done.
    fn deliver_client(&mut self, now: Nanos, client: ClientId, message: Bytes) -> Result<(), String> {
        let _ = (now, client, message);
        Err("this engine's clients do not coordinate".into())
    }

    /// Of what this worker handed out in [`Outbox::writes`] everything up to `position` survives a crash. Nothing to do for an
    /// engine that writes nothing.
    fn synced(&mut self, now: Nanos, position: LogPosition) {
        let _ = (now, position);
    }

    /// Before the first turn, of a replica whose process ended: a record that was written by an earlier life, in the order of
    /// writing. All that were synced come, and of the others those up to some point.
    ///
    /// # Errors
    /// In words, if it is none of this worker's, or the engine keeps nothing on a disk.
    fn recover(&mut self, record: Bytes) -> Result<(), String> {
        let _ = record;
        Err("this engine keeps nothing on a disk".into())
    }

    /// Every record was handed in, if there were any; told to all workers before it is told to the controller.
    ///
    /// # Errors
    /// In words, if something is missing.
    fn recovered(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Does what can be done now: seals and hands out entries, applies, releases.
    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next;

    /// The worker's state in words, for failure reports.
    fn describe(&self) -> String;
}

/// How a replica's disk is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskState {
    /// It is about to be full. What is written still becomes durable, but there is little room for more: an engine that goes on writing
    /// is held up when that is used up.
    pub low: bool,
    /// Starts of a process on this disk, this one the newest; none without a disk. It is durable that this one is among them.
    pub starts: Arc<Starts>,
    /// Bytes that are durable by now.
    pub synced: u64,
}

impl DiskState {
    /// This start, by a number that no other has; 0 without a disk.
    pub fn start(&self) -> u64 {
        self.starts.newest().map_or(0, |start| start.number)
    }
}

/// What a controller's turn hands out.
#[derive(Debug, Default)]
pub struct ControlOutbox {
    /// To the controller of that node. May be lost, and may be reordered over a reconnection.
    pub messages: Vec<(NodeId, Bytes)>,
    /// Commands wait for the workers.
    pub wake_workers: bool,
    /// Things that an operator would want to read in the log, in order.
    pub events: Vec<String>,
    /// They sent what this build does not read: the host ends all connections to them, and the next handshake says why.
    pub hang_up: Vec<NodeId>,
    /// With whom the node speaks has changed.
    pub roster: Option<Roster>,
    /// To be appended to the controller's log on disk, in order. Nothing waits for them.
    pub writes: Vec<Bytes>,
    /// About a checkpoint, in order. None if nobody asks for one and nothing is kept on a disk.
    pub checkpoint: Vec<CheckpointOrder>,
    /// The disk is older than what this replica once told others to be durable: the host ends the process, sets aside what is on the
    /// disk, and starts the node in another life.
    pub disk_is_stale: bool,
}

/// The part of a replica that decides who leads and who belongs.
pub trait Controller: Send {
    /// The control connection to `peer`, whose build speaks these levels, is up (again).
    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation, levels: Levels);

    /// The control connection to `peer` is lost. `refused`: its machine answers but nothing listens there, so the
    /// process is surely dead.
    fn peer_down(&mut self, now: Nanos, peer: NodeId, refused: bool);

    /// Takes a message from `peer`'s controller.
    fn deliver(&mut self, now: Nanos, from: NodeId, message: Bytes);

    /// The same as [`Worker::recover`].
    fn recover(&mut self, record: Bytes) -> Result<(), String> {
        let _ = record;
        Err("this engine keeps nothing on a disk".into())
    }

    /// The same as [`Worker::recovered`].
    fn recovered(&mut self, now: Nanos) {
        let _ = now;
    }

    /// Before any record is handed in to anybody, of a replica whose store was loaded from a checkpoint: what the engine said when it
    /// was published. Records follow from [`positions`](Resume::positions) on.
    ///
    /// # Errors
    /// In words, if these are none of this engine's, or it keeps nothing on a disk.
    fn resume(&mut self, from: Resume<'_>) -> Result<(), String> {
        let _ = from;
        Err("this engine keeps nothing on a disk".into())
    }

    /// News of a [checkpoint](CheckpointOrder). What follows from it comes out of the next turn.
    fn checkpoint(&mut self, now: Nanos, news: CheckpointNews) {
        let _ = (now, news);
    }

    /// How the replica's disk is, if it has one: told before anything else, and before every turn. Nothing to do for an engine that
    /// writes nothing.
    fn set_disk(&mut self, disk: DiskState) {
        let _ = disk;
    }

    /// How late it is by the host's wall clock, in milliseconds since 1970: told before every turn. For whoever wants to know later
    /// what was committed when; nothing may depend on it.
    fn set_wall_clock(&mut self, unix_ms: u64) {
        let _ = unix_ms;
    }

    /// An operator wants another membership. Only who serves decides.
    fn change_members(&mut self, now: Nanos, change: MemberChange) -> MemberAnswer {
        let _ = (now, change);
        MemberAnswer::Refused("this engine's members are fixed".into())
    }

    /// A node of the cluster will not speak with this one, because it was removed.
    fn told_removed(&mut self) {}

    /// Does what can be done now: heartbeats, elections, epoch changes, admissions.
    fn turn(&mut self, now: Nanos, out: &mut ControlOutbox) -> Next;

    /// Begins to have another replica serve in the place of this one, which serves: `to`, or whoever can best. What becomes of it
    /// says [`handover`](Controller::handover).
    ///
    /// # Errors
    /// In words, if nothing begins: it does not serve, `to` cannot, the engine has one place to serve from.
    fn hand_over(&mut self, now: Nanos, to: Option<NodeId>) -> Result<(), String> {
        let _ = (now, to);
        Err("this engine does not hand the lead over".into())
    }

    /// The process is about to end: if this replica serves, another one shall; and it does not begin to any more. The host gives
    /// turns until [`handover`](Controller::handover) is not under way.
    fn retire(&mut self, now: Nanos) {
        let _ = now;
    }

    /// What became of the last [`hand_over`](Controller::hand_over) or [`retire`](Controller::retire).
    fn handover(&self, now: Nanos) -> Handover {
        let _ = now;
        Handover::None
    }

    /// The level in use: what this replica holds and sends is of it or older. It grows while the replica lives, and the host ends
    /// connections to nodes that do not speak it. `None`: the engine agrees on none while it runs, so that all its replicas must know
    /// the same ones.
    fn level(&self) -> Option<Level> {
        None
    }

    /// Somebody wants to know how fresh this replica is. The host wakes the workers after it, and gives turns until that
    /// [is over](Controller::is_finding_freshness); then [`Status::freshness`] says it. Nothing to do where nobody has to be asked.
    fn find_freshness(&mut self, now: Nanos) {
        let _ = now;
    }

    /// Whether that is under way. It takes as long as a read with a bound may wait, at most.
    fn is_finding_freshness(&self, now: Nanos) -> bool {
        let _ = now;
        false
    }

    /// Whether the state is being copied, or needs to be: until that is done there is none to make a checkpoint of. Cheap.
    fn copies_state(&self) -> bool {
        false
    }

    /// Whether the store in use is on this replica's disk, by a checkpoint of it or because it came from one: one that is published late may be
    /// of the store before.
    fn keeps_store(&self) -> bool {
        true
    }

    /// A consistent-enough picture for people and reports.
    fn status(&self, now: Nanos) -> Status;

    /// What the replica may use and uses. Cheap.
    fn memory(&self) -> MemoryStatus;

    /// The store in use. Another one once this replica copies the state: because it lost its memory, or fell behind what the
    /// leader keeps. A deposed leader keeps its store and rolls back.
    fn store(&self) -> Arc<Store>;
}

/// A whole replica, ready to be stepped.
pub struct Replica {
    /// Decides who leads.
    pub controller: Box<dyn Controller>,
    /// One per core; worker i owns stream i.
    pub workers: Vec<Box<dyn Worker>>,
    /// One per worker.
    pub counters: Vec<Arc<Counters>>,
    /// Names of the registered procedures; the position is the [`ProcedureId`](highwater_core::ProcedureId).
    pub procedures: Vec<&'static str>,
    /// Their versions, the same.
    pub versions: Vec<u32>,
    /// How clients call them, if they may, the same.
    pub signatures: Vec<Option<&'static Signature>>,
}
