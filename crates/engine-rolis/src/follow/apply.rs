//! Following the decided log: look at each entry once for what it says about the watermark, then install what the mark
//! has passed.
//!
//! Two cursors run behind `decided`. `scan` is the next entry to *look at*: its closing timestamp and claims move the
//! mark; at the first entry of a later epoch it waits for the other streams. `apply` (with an offset inside the entry:
//! an entry may straddle the mark) is the next one to *install*.
//!
//! Every decided transaction is installed or skipped by one comparison, at the granularity of transactions: at or below
//! the mark of its epoch, or, once the epoch has ended, its final mark.

use std::sync::atomic::Ordering;

use highwater_consensus::Stream;
use highwater_core::log::{EntryHeader, EntryKind};
use highwater_core::{EntryIndex, Epoch, Timestamp};
use highwater_log_host::messages::Report;
use highwater_log_host::worker::entries::CheckedEntry;
use highwater_log_host::worker::policy::{Applying, Cursor};
use highwater_seam::{Counters, Nanos, Next};
use highwater_store::{Applier, Occ};

use crate::context::{Context, Turn, recheck};
use crate::hooks;
use crate::lead::speculation::Speculation;
use crate::watermark::{Arrival, OpenClaim, Start};

/// Where the following of the decided log stands.
///
/// Invariant: `apply <= scan <= decided + 1`.
#[derive(Debug)]
pub struct Replay {
    /// Next entry to look at.
    scan: EntryIndex,
    /// Next entry to install.
    apply: EntryIndex,
    /// Bytes of its body that are installed.
    offset: usize,
    /// Every transaction of this stream at or below is installed.
    reached: Timestamp,
    /// Transactions at or below are in the copied state: not installed again.
    floor: Timestamp,
    /// The first entry that may hold others.
    start: EntryIndex,
    /// Claims whose index is not decided here yet.
    claims: Vec<OpenClaim>,
    /// The first entry behind which neither a copy of this state nor a checkpoint can go on yet: see [`first_above`](Replay::first_above).
    above: EntryIndex,
    /// While waiting for other streams at the first entry of a later epoch: how many such entries were announced.
    arrived: usize,
    /// The epoch that ends there.
    waiting_in: Epoch,
    /// What was decided when they were counted.
    counted_to: EntryIndex,
    /// Where the mark held this stream back last, and since when.
    held: (EntryIndex, usize, Nanos),
}

impl Default for Replay {
    fn default() -> Self {
        Replay::starting_at(EntryIndex(1), Timestamp::ZERO)
    }
}

impl Replay {
    /// Starts with the entry `start`; transactions at or below `floor` are there already.
    pub fn starting_at(start: EntryIndex, floor: Timestamp) -> Replay {
        Replay {
            scan: start,
            apply: start,
            offset: 0,
            reached: floor,
            floor,
            start,
            claims: Vec::new(),
            above: start,
            arrived: 0,
            waiting_in: Epoch(0),
            counted_to: EntryIndex(0),
            held: (EntryIndex(0), 0, 0),
        }
    }

    /// Whether everything looked at is installed.
    fn caught_up(&self) -> bool {
        self.apply == self.scan
    }

    /// A claim whose index is not decided yet. Of several about one index the highest says all: while one stream stands
    /// still, the others go on claiming.
    fn keep(&mut self, claim: OpenClaim) {
        let known = self
            .claims
            .iter_mut()
            .rev()
            .find(|known| (known.stream, known.index) == (claim.stream, claim.index));
        match known {
            Some(known) => known.closed = known.closed.max(claim.closed),
            None => self.claims.push(claim),
        }
    }

    /// The next entry to look at.
    #[inline]
    pub fn scan(&self) -> EntryIndex {
        self.scan
    }

    /// How far it is.
    #[inline]
    pub fn cursor(&self) -> Cursor {
        Cursor { scan: self.scan, apply: self.apply, begun: (self.start, self.floor) }
    }

    /// Whether the stream waits, at the first entry of a later epoch, for the other streams.
    fn waits_for_others(&self) -> bool {
        self.arrived > 0
    }

    /// Something holds the next transaction back: when to look again. Who moves the mark wakes the others; what else may
    /// free it (readers, another worker's roll-back) is looked for.
    fn recheck(&mut self, now: Nanos) -> Next {
        if (self.held.0, self.held.1) != (self.apply, self.offset) {
            self.held = (self.apply, self.offset, now);
        }
        recheck(now, self.held.2, HELD_BACK_RECHECK)
    }

    /// Looks at every decided entry not looked at yet, as far as the current epoch goes. Whether there was one, and the others may
    /// be able to go on for it.
    pub fn look(
        &mut self,
        context: &Context,
        stream: &mut Stream,
        (speculation, occ): (&mut Speculation, &mut Occ),
        turn: &mut Turn<'_>,
    ) -> bool {
        if self.scan > stream.decided() && self.claims.is_empty() {
            return false;
        }
        let watermark = &context.marks.watermark;
        if !self.claims.is_empty() {
            self.claims.retain(|claim| !watermark.claim(*claim));
        }
        let first = self.scan;
        while self.scan <= stream.decided() {
            if hooks::looks_later() {
                turn.again = true;
                break;
            }
            hooks::looks();
            let held =
                CheckedEntry::held(stream, self.scan).expect("decided entries are kept until installed");
            let entry = held.open();
            let header = entry.header;
            hooks::decided(context.id, self.scan, held.bytes());
            match header.kind {
                EntryKind::Batch => {
                    assert_eq!(
                        header.epoch,
                        watermark.epoch(),
                        "an epoch opens only once every stream has entered it"
                    );
                    let transactions = header.count > 0 && speculation.led() != Some(header.epoch);
                    watermark.publish(context.id, header.index, header.closed_ts, transactions);
                    for claim in entry.claims() {
                        let claim =
                            OpenClaim { stream: claim.stream, index: claim.index, closed: header.closed_ts };
                        if !watermark.claim(claim) {
                            self.keep(claim);
                        }
                    }
                }
                EntryKind::EpochChange => {
                    if !self.enter(&header, context, stream, turn) {
                        return false;
                    }
                    if header.epoch == watermark.epoch() {
                        speculation.end(header.epoch, occ, context);
                        self.arrived = 0;
                        turn.report(context, Report::Entered(header.epoch));
                    }
                }
            }
            self.scan = self.scan.next();
        }
        self.scan > first
    }

    /// At the first entry of a later epoch: whether to go on behind it.
    fn enter(
        &mut self,
        header: &EntryHeader,
        context: &Context,
        stream: &mut Stream,
        turn: &mut Turn<'_>,
    ) -> bool {
        let watermark = &context.marks.watermark;
        // Read once: another worker may end this epoch at any time.
        let current = watermark.epoch();
        if header.epoch > current {
            if self.waits_for_others() && self.counted_to == stream.decided() {
                return false;
            }
            self.counted_to = stream.decided();
            let starts = starts_at(header.index, stream);
            if starts.len() == self.arrived {
                return false;
            }
            self.arrived = starts.len();
            self.waiting_in = current;
            // They go on counting until the epoch ends.
            let claims = self.claims.clone();
            if !watermark.arrive(context.id, Arrival { starts, last: EntryIndex(header.index.0 - 1), claims })
            {
                return false;
            }
            turn.out.wake_workers = true;
        }
        self.claims.clear();
        // Now `header.epoch <= watermark.epoch()`: the first entry of the epoch entered, or that of an epoch that never opened. Who
        // skips it, once it is trimmed, is told the members of the epoch entered.
        watermark.members().into_iter().for_each(|members| stream.know_members(members));
        true
    }

    /// Installs what the mark has passed, about `budget` bytes of it.
    pub fn apply(
        &mut self,
        budget: u32,
        context: &Context,
        stream: &mut Stream,
        (speculation, applier): (&Speculation, &mut Applier),
        turn: &mut Turn<'_>,
    ) -> Applying {
        let mut left = i64::from(budget);
        let mut state = Applying::CaughtUp;
        while self.apply < self.scan {
            if left <= 0 {
                state = Applying::More;
                break;
            }
            let entry = CheckedEntry::held(stream, self.apply).expect("entries are kept until installed");
            let header = entry.header();
            let foreign = speculation.led() != Some(header.epoch);
            if header.kind == EntryKind::Batch && header.count > 0 && foreign {
                // What this node speculated has to go first: its timestamps may exceed those of the next leader.
                if !context.shared.is_certain() {
                    state = Applying::HeldBack;
                    break;
                }
                let (bytes, more) = self.install(&header, &entry, context, applier);
                left -= bytes as i64 + 64;
                if more {
                    state = Applying::HeldBack;
                    break;
                }
            }
            self.reached = self.reached.max(header.last_ts);
            self.apply = self.apply.next();
            self.offset = 0;
        }
        // Everything that this epoch has in this stream is installed, as far as others' claims close it, too. Until the others
        // arrive nothing else says so, and after a restart in the middle of a change the store counts as incomplete.
        if self.caught_up()
            && self.waits_for_others()
            && let Some(closed) = context.marks.watermark.closed_in(self.waiting_in, context.id)
        {
            self.reached = self.reached.max(closed);
        }
        // At the end of an epoch the cells of the next one may be there before this worker has rolled back.
        let caught_up = self.caught_up() && !self.waits_for_others();
        context.marks.watermark.publish_applied(context.id, self.reached, caught_up);
        self.trim(context, stream, speculation, turn);
        state
    }

    /// Installs of the next entry what may be: how many bytes that were, and whether more of it will have to be.
    fn install(
        &mut self,
        header: &EntryHeader,
        entry: &CheckedEntry,
        context: &Context,
        applier: &mut Applier,
    ) -> (usize, bool) {
        let (marks, id) = (&context.marks, context.id);
        // The mark of the entry's epoch, or what became of it.
        let current = marks.watermark.mark_in(header.epoch);
        let goal = current
            .or_else(|| marks.watermark.final_mark(header.epoch))
            .expect("a looked-at entry's epoch is the current one or has ended");
        let bound = marks.rounds.admit(goal);
        let clamped = bound < goal;
        let bound = hooks::install_bound(bound, header.last_ts, current.is_none());
        let applied = entry.apply(applier, self.offset, self.floor, bound);
        if applied.transactions > 0 {
            hooks::applied(header.epoch, id, applied.last_ts);
        }
        Counters::add(&context.counters.applied, applied.transactions);
        self.offset += applied.bytes;
        let done = self.offset == header.body_len as usize;
        let more = !done && (current.is_some() || clamped);
        if more {
            self.reached = bound;
        }
        (applied.bytes, more)
    }

    /// Drops what is installed and need not be kept for others.
    fn trim(
        &mut self,
        context: &Context,
        stream: &mut Stream,
        speculation: &Speculation,
        turn: &mut Turn<'_>,
    ) {
        // One is kept in any case: `locate` finds by its timestamp that nothing is missing before the first one above.
        let before = |index: EntryIndex| EntryIndex(index.0.saturating_sub(2));
        let (installed, options) = (before(self.apply), context.options());
        stream.know_installed(installed);
        let (first_above, leads) = self.first_above(context, stream, speculation);
        let mut unneeded = before(first_above);
        // If another worker of a follower is stuck the floor stands still, and what lies above it would grow for ever.
        if !leads && stream.bytes_between(unneeded.next(), installed) > options.backlog_bytes() {
            unneeded = installed;
        }
        let keep = if hooks::trims_early() { 0 } else { options.log_retain_bytes as u64 };
        // What was installed in a store that is on no disk may be on no disk at all, while those whose stores are have yet to write it
        // (`async`). A leader's disk is behind by less than this, for it takes no requests beyond.
        let volatile = context.shared.store_is_volatile.load(Ordering::Relaxed);
        let keep = if volatile { keep.max(options.backlog_bytes()) } else { keep };
        turn.again |= stream.trim(unneeded, keep);
    }

    /// The first entry that is not installed, or closes above the floor of a copy of the state, or of a checkpoint, that begins now: it goes on
    /// there. And whether this worker leads. In the epoch that this worker leads that floor is the mark, else what all streams have installed.
    ///
    /// Invariant: of the entries before it at least one is kept, if there ever was one. Floors only grow, so whoever begins at a later floor finds
    /// where to go on, however long nothing is written any more. An entry closes at its leader's clock, and the other streams may end
    /// below: had its stream kept nothing older, no checkpoint could begin here before somebody writes. And if the mark stands still because
    /// votes wait for their copies, such a copy is all that moves it again.
    fn first_above(
        &mut self,
        context: &Context,
        stream: &Stream,
        speculation: &Speculation,
    ) -> (EntryIndex, bool) {
        let watermark = &context.marks.watermark;
        let mark = speculation.led().and_then(|led| watermark.mark_in(led));
        let floor = mark.unwrap_or_else(|| watermark.applied_floor());
        let mut at = self.above.max(stream.tail().first);
        while at < self.apply
            && CheckedEntry::held(stream, at).is_none_or(|entry| entry.header().closed_ts <= floor)
        {
            at = at.next();
        }
        self.above = at;
        (at, mark.is_some())
    }

    /// When to look again after an attempt to install that ended so, whether the node follows or takes over.
    pub fn next(&mut self, applying: Applying, now: Nanos) -> Next {
        match applying {
            Applying::More => Next::Now,
            Applying::HeldBack => self.recheck(now),
            Applying::CaughtUp => Next::Idle,
        }
    }
}

/// The first entries of later epochs that stand at `index` and right behind it.
fn starts_at(index: EntryIndex, stream: &Stream) -> Vec<Start> {
    let start = |at: u64| {
        let entry =
            CheckedEntry::held(stream, EntryIndex(at)).expect("decided entries are kept until installed");
        let header = entry.header();
        (header.kind == EntryKind::EpochChange).then(|| Start {
            epoch: header.epoch,
            index: EntryIndex(at),
            base: header.closed_ts,
            members: entry.members(),
        })
    };
    (index.0..=stream.decided().0).map_while(start).collect()
}

/// How soon to look again at entries that the mark holds back.
const HELD_BACK_RECHECK: Nanos = 500_000;
