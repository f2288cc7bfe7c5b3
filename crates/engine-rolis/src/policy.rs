//! Rolis as a policy of the [log's host](highwater_log_host): joins the parts of a worker, and hands each what else it may touch.
//!
//! [`lead`](crate::lead) executes, seals and releases; [`apply`](crate::follow::apply) follows the decided log; [`reads`](crate::reads) reads snapshots of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_consensus::Stream;
use highwater_core::{Ballot, EntryIndex, Epoch, Registry, Timestamp};
use highwater_log_host::context::With;
use highwater_log_host::worker::entries::fresh_entry;
use highwater_log_host::worker::policy::{Applying, Asking, Cursor, Policy};
use highwater_seam::engine::Abilities;
use highwater_seam::{Nanos, Next, Outbox, Refusal, Request, Taken};
use highwater_store::{Applier, Occ, SnapshotTx, Store};

use crate::abilities::ABILITIES;
use crate::context::{Context, Turn};
use crate::follow::apply::Replay;
use crate::hooks;
use crate::lead::Lead;
use crate::lead::feed::Feed;
use crate::lead::speculation::Speculation;
use crate::marks::Marks;
use crate::reads::Reads;
use crate::reads::bounded::Bounded;

/// How much is installed in one turn, in bytes of log: keeps acknowledgements prompt.
const APPLY_BYTES: u32 = 256 << 10;

/// A worker's part of Rolis; with the strawman's feed, the strawman's.
pub struct RolisPolicy<F> {
    /// The store, as a transaction sees it.
    occ: Occ,
    /// The store, as a follower of the log sees it.
    applier: Applier,
    feed: F,
    lead: Lead,
    speculation: Speculation,
    replay: Replay,
    reads: Reads,
    bounded: Bounded,
}

impl<F: Feed> RolisPolicy<F> {
    /// Follows an empty log into this store. Its procedures come as a leader runs them, and as a follower does.
    pub fn new(
        context: &Context,
        store: &Arc<Store>,
        (registry, readers): (Registry<Occ>, Registry<SnapshotTx>),
        feed: F,
    ) -> RolisPolicy<F> {
        let mut occ = Occ::new(store.clone(), context.shared.clock.clone());
        occ.set_tables(store.schema().tables_at(context.options().levels.oldest));
        RolisPolicy {
            occ,
            applier: Applier::new(store.clone()),
            feed,
            lead: Lead::new(context, registry),
            speculation: Speculation::default(),
            replay: Replay::default(),
            reads: Reads::new(readers),
            bounded: Bounded::default(),
        }
    }

    /// Unlinks tombstones that no reader and no older write can need.
    fn collect_garbage(&mut self, leads: bool, context: &Context, turn: &mut Turn<'_>) {
        let shared = &context.shared;
        if shared.receiving_copy.load(Ordering::SeqCst) || shared.serving_copies.load(Ordering::SeqCst) > 0 {
            return;
        }
        // Another worker's roll-back may restore what our tombstone replaced: the record has to be in its index still, though
        // the marks of the new epoch have passed the tombstone's timestamp.
        if !leads && !shared.is_certain() {
            return;
        }
        let watermark = &context.marks.watermark;
        let floor = if leads {
            watermark.mark()
        } else {
            hooks::tombstone_floor(|| watermark.applied_floor(), || watermark.mark())
        };
        hooks::collects();
        // Bounded work: a large delete takes several turns, and no other traffic may come to give them.
        turn.again |= self.applier.collect(floor) | self.occ.collect(floor);
    }
}

impl<F: Feed> Policy for RolisPolicy<F> {
    type Marks = Marks;

    const ABILITIES: Abilities = ABILITIES;

    #[inline]
    fn cursor(&self) -> Cursor {
        self.replay.cursor()
    }

    #[inline]
    fn closed(&self, context: &With<Marks>) -> Timestamp {
        context.marks.watermark.closed(context.id)
    }

    fn describe(&self) -> String {
        format!("{:?}", self.replay)
    }

    #[inline]
    fn look(&mut self, context: &With<Marks>, stream: &mut Stream, turn: &mut Turn<'_>) {
        let parts = (&mut self.speculation, &mut self.occ);
        let moved = self.replay.look(context, stream, parts, turn);
        if moved && (F::SHARED || context.marks.watermark.others_wait(context.id)) {
            turn.out.wake_workers = true;
        }
    }

    fn apply(
        &mut self,
        budget: u32,
        context: &With<Marks>,
        stream: &mut Stream,
        turn: &mut Turn<'_>,
    ) -> Applying {
        let parts = (&self.speculation, &mut self.applier);
        self.replay.apply(budget, context, stream, parts, turn)
    }

    fn follow(&mut self, context: &With<Marks>, stream: &mut Stream, turn: &mut Turn<'_>) -> Next {
        let budget = if hooks::applies_little() { 1 } else { APPLY_BYTES };
        let applying = self.apply(budget, context, stream, turn);
        let next = self.replay.next(applying, turn.now);
        self.collect_garbage(false, context, turn);
        next
    }

    fn next(&mut self, applying: Applying, now: Nanos) -> Next {
        self.replay.next(applying, now)
    }

    fn begin(&mut self, epoch: Epoch, context: &With<Marks>, store: &Arc<Store>) {
        let base = context.marks.watermark.closed(context.id);
        self.speculation.begin(epoch, context);
        let tables = store.schema().tables_at(context.level);
        self.feed.open(epoch, base, (store, tables));
        self.lead.begin(epoch, base, context, &mut self.occ);
    }

    #[inline]
    fn admits(&self, context: &With<Marks>) -> Result<(), Refusal> {
        self.lead.admits(context, &self.occ)
    }

    #[inline]
    fn submit(
        &mut self,
        now: Nanos,
        request: Request<'_>,
        context: &With<Marks>,
        stream: &Stream,
    ) -> Result<Taken, Refusal> {
        let stream = (stream, self.replay.scan());
        self.lead.submit(now, request, context, (&mut self.occ, &self.feed), stream)
    }

    #[inline]
    fn lead(
        &mut self,
        ballot: Ballot,
        context: &With<Marks>,
        stream: &mut Stream,
        turn: &mut Turn<'_>,
    ) -> Next {
        let no_room = self.lead.turn(ballot, context, (&mut self.occ, &self.feed), stream, turn);
        // A lone voter decides by itself, at once.
        self.look(context, stream, turn);
        self.apply(u32::MAX, context, stream, turn);
        self.lead.release(ballot, context, &mut self.occ, stream, turn);
        self.collect_garbage(true, context, turn);
        self.lead.report_quiesced(context, stream, turn);
        self.lead.next(turn.now, no_room, context, (stream, self.replay.scan()))
    }

    fn end(&mut self, context: &With<Marks>, out: &mut Outbox) {
        self.feed.close(out);
        self.lead.end(context, &mut self.occ, out);
    }

    fn quiesce(&mut self, round: Option<u64>) {
        self.lead.quiesce(round);
    }

    #[inline]
    fn close_up_to(&mut self, position: Timestamp) {
        self.lead.close_up_to(position);
    }

    fn prove_lead(&mut self, context: &With<Marks>) -> bool {
        self.lead.prove_lead(context)
    }

    #[inline]
    fn has_many(&self) -> bool {
        self.lead.has_many()
    }

    #[inline]
    fn is_busy(&self) -> bool {
        self.lead.is_busy()
    }

    #[inline]
    fn reply_bytes(&self) -> usize {
        self.lead.pending_bytes()
    }

    #[inline]
    fn still_since(&mut self, now: Nanos, leads: bool, stream: &Stream) -> Nanos {
        self.lead.still_since(now, leads, stream)
    }

    fn submit_snapshot(
        &mut self,
        now: Nanos,
        request: Request<'_>,
        context: &With<Marks>,
    ) -> Result<Taken, Refusal> {
        // The strawman's other workers know no store while they follow: no snapshots there.
        if F::SHARED || !context.marks.has_snapshots(&context.shared) {
            return Err(context.refer());
        }
        match request.freshness {
            Some(freshness) => self.bounded.submit(now, request, freshness)?,
            None => self.reads.submit(now, request, Timestamp::ZERO)?,
        }
        Ok(Taken::Placed)
    }

    #[inline]
    fn read(
        &mut self,
        store: Option<&Arc<Store>>,
        mut asking: Asking<'_>,
        context: &With<Marks>,
        turn: &mut Turn<'_>,
    ) -> Next {
        let bounded = if self.bounded.is_empty() {
            Next::Idle
        } else {
            self.bounded.turn(store.is_some(), context, &mut asking, &mut self.reads, turn)
        };
        let proving = context.marks.proven.turn(context, &mut asking, turn);
        self.reads.turn(store, context, turn).sooner(bounded).sooner(proving)
    }

    fn adopt(&mut self, store: &Arc<Store>, (start, floor): (EntryIndex, Timestamp), context: &With<Marks>) {
        self.occ = Occ::new(store.clone(), context.shared.clock.clone());
        self.occ.set_tables(store.schema().tables_at(context.level));
        self.occ.log().take(fresh_entry());
        self.applier = Applier::new(store.clone());
        self.reads.leave_store();
        self.speculation.leave_store(&context.shared);
        self.replay = Replay::starting_at(start, floor);
    }

    fn recovered(&mut self, begins: Option<(EntryIndex, Timestamp)>) {
        if let Some((start, floor)) = begins {
            self.replay = Replay::starting_at(start, floor);
        }
        hooks::restarted();
    }

    fn set_tables(&mut self, tables: usize) {
        self.occ.set_tables(tables);
    }
}
