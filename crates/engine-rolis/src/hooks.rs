//! The places where a simulator steps into Rolis, and the lines that planted bugs would change: all of it in this file and the log host's, under names, so
//! that the code that calls them reads on. Outside a simulator, and without the feature `planted`, nothing is left of any of them
//! but a load of a flag ([`highwater_core::hooks`], [`highwater_core::planted`]).

use highwater_core::hooks::{self, Fact, Point, Site};
use highwater_core::{Epoch, StreamId, Timestamp, planted};
#[cfg(not(loom))]
pub use highwater_log_host::hooks::{decided, leaves_unknown};

use crate::facts::MarkFact;

// ---- interruptions: between two steps others may get a turn ----

/// A worker is no longer quiet, and has not drawn a timestamp since.
#[inline(always)]
pub fn unquiet() {
    hooks::point(Point::new("Unquiet"));
}

/// A transaction is committed in the store; its reply does not wait yet.
#[inline(always)]
pub fn committed() {
    hooks::point(Point::new("Committed"));
}

/// An entry's closing timestamp is taken, its claims are not.
#[inline(always)]
pub fn closing() {
    hooks::point(Point::new("Seal"));
}

/// A decided entry is about to be looked at.
#[inline(always)]
pub fn looks() {
    hooks::point(Point::new("Look"));
}

/// A snapshot's timestamp is chosen, but not pinned yet.
#[inline(always)]
pub fn pins() {
    hooks::point(Point::new("Pin"));
}

/// Tombstones are about to be unlinked.
#[inline(always)]
pub fn collects() {
    hooks::point(Point::new("Collect"));
}

/// Somebody waits for another worker; whether that is a simulated one, which runs on the same thread.
#[inline(always)]
pub fn simulated() -> bool {
    hooks::simulated()
}

/// Lets other workers run.
#[inline(always)]
pub fn waits() {
    hooks::wait();
}

// ---- rare choices: legal, each for the reason given ----

const SEAL_EARLY: Site = Site::new("SealEarly");
const SEAL_LATE: Site = Site::new("SealLate");
const LOOK_LATER: Site = Site::new("LookLater");
const APPLY_LITTLE: Site = Site::new("ApplyLittle");
const BUSY: Site = Site::new("Busy");
const TRIM_EARLY: Site = Site::new("TrimEarly");
const PUT_OFF: Site = Site::new("PutOff");

/// Every choice that a replica may get to. Plans are drawn in this order: in another one, each seed means another run.
#[cfg(not(loom))]
pub const SITES: &[Site] = &[
    SEAL_EARLY,
    SEAL_LATE,
    LOOK_LATER,
    APPLY_LITTLE,
    highwater_log_host::hooks::SEND_LATER,
    highwater_store::hooks::CONFLICT,
    BUSY,
    highwater_consensus::hooks::ASK_EARLY,
    highwater_consensus::hooks::SKIP_PRE_VOTE,
    highwater_log_host::hooks::STEP_DOWN,
    highwater_log_host::hooks::OLD_STATUS,
    TRIM_EARLY,
    highwater_kit::copy::hooks::REFUSE_COPY,
    highwater_kit::copy::hooks::SMALL_CHUNK,
    highwater_log_host::hooks::HAND_OVER,
    highwater_consensus::hooks::NO_ANSWER,
    PUT_OFF,
    highwater_log_host::hooks::HEAR_LATE,
];

/// A request is refused for want of room: a client must bear it at any time.
#[inline(always)]
pub fn is_busy() -> bool {
    hooks::buggify(BUSY)
}

/// A request is put off as if it had met conflicts in all its attempts: a host must bear it at any time.
#[inline(always)]
pub fn puts_off() -> bool {
    hooks::buggify(PUT_OFF)
}

/// An entry is sealed sooner than it had to be: when to seal is a matter of speed.
#[inline(always)]
pub fn seals_early() -> bool {
    hooks::buggify(SEAL_EARLY)
}

/// An entry that is due stays open: while something is open the next turn comes at once.
#[inline(always)]
pub fn seals_late() -> bool {
    hooks::buggify(SEAL_LATE)
}

/// A decided entry is looked at in another turn: a mark may lag.
#[inline(always)]
pub fn looks_later() -> bool {
    hooks::buggify(LOOK_LATER)
}

/// A turn applies next to nothing: how much it does is a matter of latency.
#[inline(always)]
pub fn applies_little() -> bool {
    hooks::buggify(APPLY_LITTLE)
}

/// Decided entries go at once: what is kept is a service to those who lag, and they copy the state without it.
#[inline(always)]
pub fn trims_early() -> bool {
    hooks::buggify(TRIM_EARLY)
}

// ---- facts, for an observer of all nodes ----

/// The mark of an epoch that has not ended here.
#[inline(always)]
pub fn mark(epoch: Epoch, mark: Timestamp) {
    hooks::tell_own(|| MarkFact::Mark(epoch, mark));
}

/// The final mark of an epoch that has ended here.
pub fn final_mark(epoch: Epoch, mark: Timestamp) {
    hooks::tell_own(|| MarkFact::Final(epoch, mark));
}

/// The marks known here are forgotten: a copied state takes their place.
pub fn restarted() {
    hooks::tell_own(|| MarkFact::Restarted);
}

/// The result of the transaction at this timestamp leaves a leader.
#[inline(always)]
pub fn released(ts: Timestamp) {
    hooks::tell_own(|| MarkFact::Released(ts));
}

/// Everything of a stream up to this timestamp of the epoch is installed from the log.
#[inline(always)]
pub fn applied(epoch: Epoch, stream: StreamId, upto: Timestamp) {
    hooks::tell_own(|| MarkFact::Applied(epoch, stream, upto));
}

/// What a leading worker holds.
#[inline(always)]
pub fn holds(undecided_bytes: u64, replies: usize) {
    hooks::tell(|| Fact::Holds { undecided_bytes, replies });
}

// ---- planted bugs: what each would change; `highwater sim planted` shows that each is caught ----

/// Whether a worker that executes takes back that it is quiet.
#[inline(always)]
pub fn takes_quiet_back() -> bool {
    !planted!(QuietKept)
}

/// When the reply of a transaction may leave: at its timestamp, whether it wrote or only read.
#[inline(always)]
pub fn release_time(ts: Timestamp, read_only: bool, last: Option<Timestamp>) -> Timestamp {
    if read_only && planted!(ReadUnmarked) { last.unwrap_or_default() } else { ts }
}

/// Up to where a read may have looked that waits for no entry: the mark.
#[inline(always)]
pub fn read_bound(mark: Timestamp) -> Timestamp {
    if planted!(ReadAboveMark) { Timestamp::MAX } else { mark }
}

/// Whether a read leaves before anybody has confirmed that this node leads: never.
#[inline(always)]
pub fn releases_unconfirmed() -> bool {
    planted!(ReadUnconfirmed)
}

/// Whether the answer to a question counts that was asked before a read ran: never.
pub fn counts_old_answers() -> bool {
    planted!(AnswerOutlived)
}

/// Up to where a leader releases: the mark. (Not `whole`, the end of the entry into which it falls.)
#[inline(always)]
pub fn release_bound(mark: Timestamp, whole: impl FnOnce() -> Timestamp) -> Timestamp {
    if planted!(EntryReleasedWhole) { whole() } else { mark }
}

/// Up to where a leader forgets before-images: the mark. (Not how far its own stream is closed.)
#[inline(always)]
pub fn undo_bound(mark: Timestamp, own: impl FnOnce() -> Timestamp) -> Timestamp {
    if planted!(UndoForgotten) { own() } else { mark }
}

/// Whether a deposed leader rolls back what is above the final mark.
pub fn rolls_back() -> bool {
    !planted!(NoRollBack)
}

/// Up to where an entry is installed that reaches to `last`: the bound as it is, whether the entry's epoch has `ended` or not.
#[inline(always)]
pub fn install_bound(bound: Timestamp, last: Timestamp, ended: bool) -> Timestamp {
    if ended && planted!(FinalMarkIgnored) {
        Timestamp::MAX
    } else if ended && last > bound && planted!(EntrySkippedWhole) {
        Timestamp::ZERO
    } else {
        bound
    }
}

/// Up to where an entry of a disk belongs to a moment that is restored.
#[inline(always)]
pub fn restored_bound(mark: Timestamp, moment: Timestamp) -> Timestamp {
    if planted!(RestoredAboveMark) { Timestamp::MAX } else { mark.min(moment) }
}

/// Up to where a follower unlinks tombstones: what every stream has applied. (Not the mark.)
#[inline(always)]
pub fn tombstone_floor(applied: impl FnOnce() -> Timestamp, mark: impl FnOnce() -> Timestamp) -> Timestamp {
    if planted!(TombstoneEarly) { mark() } else { applied() }
}

/// Whether the new leader moves its clock past the old log.
pub fn advances_clock() -> bool {
    !planted!(ClockNotAdvanced)
}

/// Whether an applier goes past the timestamp at which a snapshot is being pinned: never.
#[inline(always)]
pub fn overtakes_pins() -> bool {
    planted!(PinOvertaken)
}

/// Whether a snapshot is shown before every stream is installed up to it: never.
pub fn shows_incomplete() -> bool {
    planted!(SnapshotIncomplete)
}

/// Whether a stream that has said nothing in this epoch does not hold the mark: it does.
#[inline(always)]
pub fn ignores_silent_streams() -> bool {
    planted!(SilentStreamIgnored)
}

/// Whether a claim counts before its index is decided here: never.
#[inline(always)]
pub fn trusts_claims() -> bool {
    planted!(ClaimUnchecked)
}
