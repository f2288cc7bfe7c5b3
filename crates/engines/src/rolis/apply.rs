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

use highwater_core::hooks::{self, Fact, Point, Site};
use highwater_core::log::{EntryHeader, EntryKind};
use highwater_core::{EntryIndex, Epoch, Timestamp, planted};

use super::checked::CheckedEntry;
use super::shared::Report;
use super::watermark::{Arrival, OpenClaim, Start};
use super::worker::{Mode, RolisWorker, recheck};
use crate::seam::{Counters, Nanos, Next, Outbox};

/// Where the following of the decided log stands.
///
/// Invariant: `apply <= scan <= decided + 1`.
#[derive(Debug)]
pub struct Replay {
    /// Next entry to look at.
    pub scan: EntryIndex,
    /// Next entry to install.
    pub apply: EntryIndex,
    /// Bytes of its body that are installed.
    offset: usize,
    /// Every transaction of this stream at or below is installed.
    reached: Timestamp,
    /// Transactions at or below are in the copied state: not installed again.
    pub floor: Timestamp,
    /// Claims whose index is not decided here yet.
    claims: Vec<OpenClaim>,
    /// Of an epoch that this worker leads: the first entry that the mark has not passed.
    above_mark: EntryIndex,
    /// While waiting for other streams at the first entry of a later epoch: how many such entries were announced.
    arrived: usize,
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
            claims: Vec::new(),
            above_mark: start,
            arrived: 0,
            counted_to: EntryIndex(0),
            held: (EntryIndex(0), 0, 0),
        }
    }

    /// Whether everything looked at is installed.
    pub fn caught_up(&self) -> bool {
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

    /// The mark holds the next transaction back: when to look again. Who moves the mark wakes the others; what else may
    /// free it (readers, another worker's roll-back) is looked for.
    fn recheck(&mut self, now: Nanos) -> Next {
        if (self.held.0, self.held.1) != (self.apply, self.offset) {
            self.held = (self.apply, self.offset, now);
        }
        recheck(now, self.held.2, HELD_BACK_RECHECK)
    }
}

/// How much to install in one turn, in bytes of log: keeps acknowledgements prompt.
const APPLY_BYTES: u32 = 256 << 10;
/// How soon to look again at entries that the mark holds back.
const HELD_BACK_RECHECK: Nanos = 500_000;

impl RolisWorker {
    /// Looks at every decided entry not looked at yet, as far as the current epoch goes.
    pub(super) fn look_at_decided(&mut self, out: &mut Outbox) {
        if self.replay.scan > self.stream.decided() && self.replay.claims.is_empty() {
            return;
        }
        let shared = self.shared.clone();
        let progress = &shared.progress;
        if !self.replay.claims.is_empty() {
            self.replay.claims.retain(|claim| !progress.claim(*claim));
        }
        let first = self.replay.scan;
        while self.replay.scan <= self.stream.decided() {
            // Legal: a mark may lag. Another turn looks.
            if hooks::buggify(Site::LookLater) {
                self.again = true;
                break;
            }
            hooks::point(Point::Look);
            let held = CheckedEntry::held(&self.stream, self.replay.scan)
                .expect("decided entries are kept until installed");
            let entry = held.open();
            let header = entry.header;
            hooks::tell(|| Fact::Decided { stream: self.id, index: self.replay.scan, entry: held.bytes() });
            match header.kind {
                EntryKind::Batch => {
                    assert_eq!(
                        header.epoch,
                        progress.epoch(),
                        "an epoch opens only once every stream has entered it"
                    );
                    let transactions = header.count > 0 && self.lead.led != Some(header.epoch);
                    progress.publish(self.id, header.index, header.closed_ts, transactions);
                    for claim in entry.claims() {
                        let claim =
                            OpenClaim { stream: claim.stream, index: claim.index, closed: header.closed_ts };
                        if !progress.claim(claim) {
                            self.replay.keep(claim);
                        }
                    }
                }
                EntryKind::EpochChange => {
                    if !self.enter(&header, out) {
                        return;
                    }
                }
            }
            self.replay.scan = self.replay.scan.next();
        }
        if self.replay.scan > first && (self.funnel.is_some() || progress.others_wait(self.id)) {
            out.wake_workers = true;
        }
    }

    /// At the first entry of a later epoch: whether to go on behind it.
    fn enter(&mut self, header: &EntryHeader, out: &mut Outbox) -> bool {
        let shared = self.shared.clone();
        let progress = &shared.progress;
        if header.epoch > progress.epoch() {
            if self.replay.arrived > 0 && self.replay.counted_to == self.stream.decided() {
                return false;
            }
            self.replay.counted_to = self.stream.decided();
            let starts = self.starts_at(header.index);
            if starts.len() == self.replay.arrived {
                return false;
            }
            self.replay.arrived = starts.len();
            let claims = std::mem::take(&mut self.replay.claims);
            if !progress.arrive(self.id, Arrival { starts, last: EntryIndex(header.index.0 - 1), claims }) {
                return false;
            }
            out.wake_workers = true;
        }
        // Behind: the first entry of the epoch entered, or that of an epoch that never opened. Who skips it, once it is
        // trimmed, is told the members of the epoch entered.
        progress.members().into_iter().for_each(|members| self.stream.know_members(members));
        if header.epoch == progress.epoch() {
            self.roll_back_speculation(header.epoch);
            self.replay.arrived = 0;
            self.report(Report::Entered(header.epoch), out);
        }
        true
    }

    /// The first entries of later epochs that stand at `index` and right behind it.
    fn starts_at(&self, index: EntryIndex) -> Vec<Start> {
        let start = |at: u64| {
            let entry = CheckedEntry::held(&self.stream, EntryIndex(at))
                .expect("decided entries are kept until installed");
            let header = entry.header();
            (header.kind == EntryKind::EpochChange).then(|| Start {
                epoch: header.epoch,
                index: EntryIndex(at),
                base: header.closed_ts,
                members: entry.members(),
            })
        };
        (index.0..=self.stream.decided().0).map_while(start).collect()
    }

    /// The epoch that this worker led has ended: what it executed above the final mark never happened.
    fn roll_back_speculation(&mut self, entered: Epoch) {
        let Some(led) = self.lead.led.filter(|led| *led < entered) else { return };
        let progress = &self.shared.progress;
        let preserved = progress.final_mark(led).expect("an epoch that was led here has ended here");
        if self.lead.speculated {
            self.lead.speculated = false;
            if !planted!(NoRollBack) {
                self.occ.roll_back(preserved);
            }
            // Release; pairs with the Acquire in `apply_some`: who sees no speculation left sees it rolled back.
            self.shared.speculating.fetch_sub(1, Ordering::Release);
        }
    }

    /// Installs what the mark has passed, about `budget` bytes of it.
    pub(super) fn apply_some(&mut self, budget: u32) -> Applying {
        let progress = &self.shared.progress;
        let mut left = budget as i64;
        let mut state = Applying::CaughtUp;
        while self.replay.apply < self.replay.scan {
            if left <= 0 {
                state = Applying::More;
                break;
            }
            let entry = CheckedEntry::held(&self.stream, self.replay.apply)
                .expect("entries are kept until installed");
            let header = entry.header();
            if header.kind == EntryKind::Batch && header.count > 0 && self.lead.led != Some(header.epoch) {
                // What this node speculated has to go first: its timestamps may exceed those of the next leader.
                if self.shared.speculating.load(Ordering::Acquire) > 0 {
                    state = Applying::HeldBack;
                    break;
                }
                // The mark of the entry's epoch, or what became of it.
                let current = progress.mark_in(header.epoch);
                let goal = current
                    .or_else(|| progress.final_mark(header.epoch))
                    .expect("a looked-at entry's epoch is the current one or has ended");
                let bound = self.shared.rounds.admit(goal);
                let clamped = bound < goal;
                let bound =
                    if current.is_none() && planted!(FinalMarkIgnored) { Timestamp::MAX } else { bound };
                let whole = header.last_ts > bound && current.is_none() && planted!(EntrySkippedWhole);
                let bound = if whole { Timestamp::ZERO } else { bound };
                let applied = entry.apply(&mut self.applier, self.replay.offset, self.replay.floor, bound);
                if applied.transactions > 0 {
                    hooks::tell(|| Fact::Applied(header.epoch, self.id, applied.last_ts));
                }
                Counters::add(&self.counters.applied, applied.transactions);
                self.replay.offset += applied.bytes;
                left -= applied.bytes as i64 + 64;
                let done = self.replay.offset == header.body_len as usize;
                if !done && (current.is_some() || clamped) {
                    self.replay.reached = bound;
                    state = Applying::HeldBack;
                    break;
                }
            }
            self.replay.reached = self.replay.reached.max(header.last_ts);
            self.replay.apply = self.replay.apply.next();
            self.replay.offset = 0;
        }
        // At the end of an epoch the cells of the next one may be there before this worker has rolled back.
        let caught_up = self.replay.caught_up() && self.replay.arrived == 0;
        progress.publish_applied(self.id, self.replay.reached, caught_up);
        // One is kept in any case: `locate` compares its timestamp.
        let installed = EntryIndex(self.behind_the_mark().0.saturating_sub(2));
        // Legal: what is kept beyond is a service to those who lag; they copy the state without it.
        let early = hooks::buggify(Site::TrimEarly);
        let keep = if early { 0 } else { self.shared.options.log_retain_bytes as u64 };
        self.again |= self.stream.trim(installed, keep);
        state
    }

    /// The first entry that is not installed or, of the epoch that this worker leads, not below the mark: a copy of the
    /// state that begins at the mark goes on there. If the mark stands still because votes wait for their copies, that is
    /// all that moves it again.
    fn behind_the_mark(&mut self) -> EntryIndex {
        let Some(mark) = self.lead.led.and_then(|led| self.shared.progress.mark_in(led)) else {
            return self.replay.apply;
        };
        let mut at = self.replay.above_mark.max(self.stream.tail().first);
        while at < self.replay.apply
            && CheckedEntry::held(&self.stream, at).is_none_or(|entry| entry.header().closed_ts <= mark)
        {
            at = at.next();
        }
        self.replay.above_mark = at;
        at
    }

    /// A follower's turn.
    pub(super) fn turn_following(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        if self.stream.too_far().is_some() && !self.copies.told_too_far {
            self.copies.told_too_far = true;
            self.report(Report::TooFar(self.id), out);
        }
        if self.stream.has_output() && !self.replay.caught_up() {
            // Acknowledge first: the leader waits for it.
            return Next::Now;
        }
        // Legal: how much a turn applies is a matter of latency.
        let budget = if hooks::buggify(Site::ApplyLittle) { 1 } else { APPLY_BYTES };
        let applying = self.apply_some(budget);
        self.collect_garbage();
        match applying {
            Applying::More => Next::Now,
            Applying::HeldBack => self.replay.recheck(now),
            Applying::CaughtUp => Next::Idle,
        }
    }

    /// Unlinks tombstones that no reader and no older write can need.
    pub(super) fn collect_garbage(&mut self) {
        let shared = &self.shared;
        if shared.receiving_copy.load(Ordering::SeqCst) || shared.serving_copies.load(Ordering::SeqCst) > 0 {
            return;
        }
        let leads = matches!(self.mode, Mode::Leading { .. });
        // Another worker's roll-back may restore what our tombstone replaced: the record has to be in its index still, though
        // the marks of the new epoch have passed the tombstone's timestamp.
        if !leads && shared.speculating.load(Ordering::Acquire) > 0 {
            return;
        }
        let floor = match self.mode {
            Mode::Leading { .. } => self.shared.progress.mark(),
            _ if planted!(TombstoneEarly) => self.shared.progress.mark(),
            _ => self.shared.progress.applied_floor(),
        };
        hooks::point(Point::Collect);
        // Bounded work: a large delete takes several turns, and no other traffic may come to give them.
        self.again |= self.applier.collect(floor) | self.occ.collect(floor);
    }
}

/// How an attempt to install ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applying {
    /// Everything looked at is installed.
    CaughtUp,
    /// The budget is used up.
    More,
    /// The rest is above the mark.
    HeldBack,
}
