//! The places where a simulator steps into the life of a replicated log, and the lines that planted bugs would change: all of it in this file, under names, so
//! that the code that calls them reads on. An engine has a file of its own for what it does with the log. Outside a simulator, and without the
//! feature `planted`, nothing is left of any of them but a load of a flag ([`highwater_core::hooks`], [`highwater_core::planted`](mod@highwater_core::planted)).

use bytes::Bytes;
use highwater_consensus::Voter;
use highwater_core::hooks::{self, CONTROL, Frequency, Site};
use highwater_core::{EntryIndex, Epoch, Incarnation, Level, NodeId, StreamId, Timestamp, planted};

use crate::facts::LogFact;

// ---- interruptions: between two steps others may get a turn ----

/// A controller is about to take its next step.
#[inline(always)]
pub fn controls() {
    hooks::point(CONTROL);
}

// ---- rare choices: legal, each for the reason given. An engine puts them among its own: plans are drawn in that order ----

/// See [`steps_down`].
pub const STEP_DOWN: Site = Site::new("StepDown").made(Frequency::Seldom);
/// See [`status_stays_old`].
pub const OLD_STATUS: Site = Site::new("OldStatus");
/// See [`hands_over_unasked`].
pub const HAND_OVER: Site = Site::new("HandOver").made(Frequency::Seldom);
/// See [`sends_later`].
pub const SEND_LATER: Site = Site::new("SendLater");
/// See [`hears_late`].
pub const HEAR_LATE: Site = Site::new("HearLate");

/// A controller looks at what its workers told, and at all that was told behind it, in another turn: it might have come later, and by then be
/// about something that was replaced.
#[inline(always)]
pub fn hears_late() -> bool {
    hooks::buggify(HEAR_LATE)
}

/// Frames leave in another turn: the network might as well have been slower.
#[inline(always)]
pub fn sends_later() -> bool {
    hooks::buggify(SEND_LATER)
}

/// Figures stay old: they are for people and reports.
#[inline(always)]
pub fn status_stays_old() -> bool {
    hooks::buggify(OLD_STATUS)
}

/// A leader gives its lead up, as if its heartbeats were lost for a while.
#[inline(always)]
pub fn steps_down() -> bool {
    hooks::buggify(STEP_DOWN)
}

/// A leader hands its lead over, as if an operator had asked for it.
#[inline(always)]
pub fn hands_over_unasked() -> bool {
    hooks::buggify(HAND_OVER)
}

// ---- facts, for an observer of all nodes ----

/// This entry is decided.
#[inline(always)]
pub fn decided(stream: StreamId, index: EntryIndex, entry: &Bytes) {
    hooks::tell_own(|| LogFact::Decided { stream, index, entry: entry.clone() });
}

/// This node was elected, and begins to take over.
pub fn takes_over(epoch: Epoch) {
    hooks::tell_own(|| LogFact::TakesOver(epoch));
}

/// This node was elected by all voters, because too few remember everything.
pub fn loses(epoch: Epoch) {
    hooks::tell_own(|| LogFact::Loses(epoch));
}

/// This node opens the epoch.
pub fn leads(epoch: Epoch) {
    hooks::tell_own(|| LogFact::Leads(epoch));
}

/// This node gives its lead up.
pub fn gives_up() {
    hooks::tell_own(|| LogFact::GivesUp);
}

/// A worker that leads takes a request.
#[inline(always)]
pub fn takes() {
    hooks::tell_own(|| LogFact::Takes);
}

/// This leader tells another node to stand: everything it executed is released.
pub fn hands_over() {
    hooks::tell_own(|| LogFact::HandsOver);
}

/// It leads on instead.
pub fn takes_back() {
    hooks::tell_own(|| LogFact::TakesBack);
}

/// The lead is lost with so many replies that nobody can give.
pub fn leaves_unknown(replies: usize) {
    hooks::tell_own(|| LogFact::LeavesUnknown(replies));
}

/// A node is connected, in this life if it counts, and reads up to this level.
pub fn hears_levels(node: NodeId, incarnation: Option<Incarnation>, newest: Level) {
    if let Some(incarnation) = incarnation {
        hooks::tell_own(|| LogFact::HearsLevels(Voter { node, incarnation }, newest));
    }
}

/// This leader of these voters raises the level in use.
pub fn raises(level: Level, voters: Vec<Voter>) {
    hooks::tell_own(|| LogFact::Raises(level, voters));
}

/// An entry arrived of a level above what this node said that it reads.
pub fn unreadable(level: Level) {
    hooks::tell_own(|| LogFact::Unreadable(level));
}

// ---- planted bugs: what each would change; `highwater sim planted` shows that each is caught ----

/// Whether the workers of a leader that gives its lead up take nothing more: so it is.
pub fn stops_taking() -> bool {
    !planted!(AbandonedGoesOn)
}

/// Whether a leader raises the level once a majority can read it: all must.
pub fn raises_early() -> bool {
    planted!(LevelRaisedEarly)
}

/// Whether a worker that takes no turns, or a stream that stands still, counts as such.
pub fn notices_trouble() -> bool {
    !planted!(StuckIsSound)
}

/// Whether a leader that takes nothing more because its disk hangs makes way.
pub fn notices_hung_disks() -> bool {
    !planted!(HungDiskIsSound)
}

/// Whether a follower takes an old answer of its leader for a proof of today: never.
pub fn believes_old_proofs() -> bool {
    planted!(BoundUnproved)
}

/// Whether a leader vouches before anybody has confirmed that it leads: never.
pub fn vouches_unasked() -> bool {
    planted!(VouchUnasked)
}

/// Whether the next leader stands before all that this one executed is released: never.
pub fn stands_unreleased() -> bool {
    planted!(HandedOverUnreleased)
}

/// Whether a report leaves before what it vouches for is on disk: never.
pub fn reports_unsynced() -> bool {
    planted!(PromiseUnsynced)
}

/// Whether a checkpoint is published before what it scanned is settled.
pub fn checkpoints_unsettled() -> bool {
    planted!(CheckpointUnsettled)
}

/// Whether tombstones stay while a checkpoint is scanned.
pub fn checkpoint_keeps_tombstones() -> bool {
    !planted!(CheckpointMissesTombstones)
}

/// Whether a takeover starts its epoch in this stream, of so many: it does in all of them.
pub fn starts_epoch_in(stream: StreamId, streams: u16) -> bool {
    !(planted!(EpochEndSkipped) && streams > 1 && stream.0 + 1 == streams)
}

/// Whether an epoch opens though no quorum knows yet that its beginning is decided: never.
pub fn opens_early() -> bool {
    planted!(OpensEarly)
}

/// Whether a stream answers a candidate without promising: never.
pub fn fences_unpromised(foreign: bool) -> bool {
    foreign && planted!(PromiseUnfenced)
}

/// Whether who copies a state follows the log from its present end: never, but from the copy's floor.
pub fn copy_starts_late() -> bool {
    planted!(CopyStartsLate)
}

/// Up to where chunks of a copy may leave.
pub fn settled(mark: Timestamp) -> Timestamp {
    if planted!(CopyUnheld) { Timestamp::MAX } else { mark }
}

/// How many bytes of records lie between two points from which recovery may begin.
#[inline(always)]
pub fn recovery_points_every(bytes: u64) -> u64 {
    if hooks::simulated() { 1000 } else { bytes }
}
