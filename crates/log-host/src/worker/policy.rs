//! The engine's part of a worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater_consensus::Stream;
use highwater_core::{Ballot, EntryIndex, Epoch, Incarnation, NodeId, Timestamp};
use highwater_seam::engine::Abilities;
use highwater_seam::{Nanos, Next, Outbox, Refusal, Request, Taken};
use highwater_store::Store;

use crate::context::{Context, Turn, With};
use crate::probes::Probes;
use crate::progress::Progress;

/// An engine's part of a worker with a stream: how requests become entries, what decided ones mean, how they get into a store, and when replies may leave.
/// The host calls, and lends what belongs to it for the call. One worker has one policy, of a static type.
///
/// A worker does one thing with its stream at a time. While it follows: `look`, `follow`. While it takes over: `look`, `apply`, until the epoch opens. Then
/// `begin`, and while it leads `submit`, `look`, `lead`; at last `end`, which may come before anything that was executed is decided.
pub trait Policy: Send {
    /// The meaning of positions, shared by a replica's workers.
    type Marks: Progress;

    /// Requests that ask for more are refused.
    const ABILITIES: Abilities;

    // ---- where it stands ----

    /// How far it has followed the log.
    fn cursor(&self) -> Cursor;

    /// No decided transaction of this stream is missing at or below this, in the epoch that every stream has entered.
    fn closed(&self, context: &With<Self::Marks>) -> Timestamp;

    /// For people who look for a fault.
    fn describe(&self) -> String;

    // ---- following ----

    /// From `first` on the log holds other entries than when this was told last, or none: what was executed of them did not happen. Told before anything
    /// else that may look at the log, and before `end`, but requests may be submitted in between; of decided entries nothing is replaced. For engines that execute entries before they are decided.
    fn replaced(&mut self, _first: EntryIndex, _context: &With<Self::Marks>) {}

    /// Looks at decided entries for what they say, as far as the present epoch goes; an engine that executes entries before they are decided executes here
    /// what was appended. Called in each turn of a worker that is not parked, after what may have changed the log.
    fn look(&mut self, context: &With<Self::Marks>, stream: &mut Stream, turn: &mut Turn<'_>);

    /// Brings into the store what may be of the entries looked at, about `budget` bytes of log; drops what need not be kept.
    fn apply(
        &mut self,
        budget: u32,
        context: &With<Self::Marks>,
        stream: &mut Stream,
        turn: &mut Turn<'_>,
    ) -> Applying;

    /// A follower's share of a turn; when it wants the next one.
    fn follow(&mut self, context: &With<Self::Marks>, stream: &mut Stream, turn: &mut Turn<'_>) -> Next;

    /// When to look again after an attempt to apply that ended so.
    fn next(&mut self, applying: Applying, now: Nanos) -> Next;

    // ---- leading ----

    /// `epoch` opens on this node: every stream has entered it, and everything older is in the store.
    fn begin(&mut self, epoch: Epoch, context: &With<Self::Marks>, store: &Arc<Store>);

    /// Whether a leading worker has room for a request.
    ///
    /// # Errors
    /// Why not.
    fn admits(&self, context: &With<Self::Marks>) -> Result<(), Refusal>;

    /// Takes a request of a leading worker that has room.
    ///
    /// # Errors
    /// It should come again later.
    fn submit(
        &mut self,
        now: Nanos,
        request: Request<'_>,
        context: &With<Self::Marks>,
        stream: &Stream,
    ) -> Result<Taken, Refusal>;

    /// A leader's share of a turn: executes, proposes, applies, releases. When it wants the next one.
    fn lead(
        &mut self,
        ballot: Ballot,
        context: &With<Self::Marks>,
        stream: &mut Stream,
        turn: &mut Turn<'_>,
    ) -> Next;

    /// Leads no more: nobody can say what becomes of what is not released.
    fn end(&mut self, context: &With<Self::Marks>, out: &mut Outbox);

    /// Takes no more requests, and reports under this number when everything is released; `None`: takes some again.
    fn quiesce(&mut self, round: Option<u64>);

    /// Somebody needs this stream closed up to here.
    fn close_up_to(&mut self, position: Timestamp);

    /// Somebody needs to know that this node still leads: an entry is to be decided that is proposed from now on. Whether one will be.
    fn prove_lead(&mut self, context: &With<Self::Marks>) -> bool;

    /// Whether more than a few requests come at a time.
    fn has_many(&self) -> bool;

    /// Whether requests ran since the last turn.
    fn is_busy(&self) -> bool;

    /// Bytes of the replies that wait.
    fn reply_bytes(&self) -> usize;

    /// Since when something waits and nothing moves; [`NEVER`](crate::pulse::NEVER) if nothing waits.
    fn still_since(&mut self, now: Nanos, leads: bool, stream: &Stream) -> Nanos;

    // ---- reading ----

    /// Takes a read of a worker that does not lead.
    ///
    /// # Errors
    /// The node that serves it, or that it should come again.
    fn submit_snapshot(
        &mut self,
        now: Nanos,
        request: Request<'_>,
        context: &With<Self::Marks>,
    ) -> Result<Taken, Refusal>;

    /// The reads' share of a turn. `store`: the one to read, while only followers write to it.
    fn read(
        &mut self,
        store: Option<&Arc<Store>>,
        asking: Asking<'_>,
        context: &With<Self::Marks>,
        turn: &mut Turn<'_>,
    ) -> Next;

    // ---- the store ----

    /// Another store takes the place of this one, which will hold everything at or below a floor; the log goes on with an entry.
    fn adopt(&mut self, store: &Arc<Store>, begins: (EntryIndex, Timestamp), context: &With<Self::Marks>);

    /// The stream has gone on from a disk; `begins`: with which entry, above which floor, if the store comes from a checkpoint.
    fn recovered(&mut self, begins: Option<(EntryIndex, Timestamp)>);

    /// So many of the store's tables may be written.
    fn set_tables(&mut self, tables: usize);
}

/// How far a worker has followed its log.
///
/// Invariant, asserted in each turn: `apply <= scan`. (Behind a copied state `scan` may be ahead of what this stream knows to be decided.)
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// The next entry to look at.
    pub scan: EntryIndex,
    /// The next entry that is not in the store completely.
    pub apply: EntryIndex,
    /// The state from which this one came lacks what this entry and later ones hold above this timestamp.
    pub begun: (EntryIndex, Timestamp),
}

impl Cursor {
    /// Whether everything looked at is in the store.
    #[inline]
    pub fn caught_up(&self) -> bool {
        self.apply == self.scan
    }

    /// The last entry that is in the store completely.
    #[inline]
    pub fn applied(&self) -> EntryIndex {
        EntryIndex(self.apply.0 - 1)
    }
}

/// How an attempt to apply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applying {
    /// Everything looked at is in the store.
    CaughtUp,
    /// The budget is used up.
    More,
    /// The rest is above the mark, or waits for readers, or for another worker's roll-back.
    HeldBack,
}

/// The way to the leader, for who has to know how fresh this replica is.
pub struct Asking<'a> {
    pub(super) probes: &'a mut Probes,
    pub(super) peers: &'a BTreeMap<NodeId, Incarnation>,
    pub(super) context: &'a Context,
}

impl Asking<'_> {
    /// The answers so far.
    #[inline]
    pub fn answers(&self) -> &Probes {
        self.probes
    }

    /// Asks the leader what is acknowledged by now, unless a question is open that is younger than `again_after`.
    pub fn ask(&mut self, again_after: Nanos, turn: &mut Turn<'_>) {
        let leader = self.context.shared.leader().filter(|leader| self.peers.contains_key(leader));
        if let Some((node, probe)) = self.probes.ask(turn.now, leader, again_after) {
            turn.out.frames.push(self.context.probe_frame(node, probe));
        }
    }
}
