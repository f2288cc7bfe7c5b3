//! The facts that an observer is told of Meerkat, and the lines that planted bugs would change: all of it in this file, under names, so that the code that calls them
//! reads on. Outside a simulator, and without the feature `planted`, nothing is left of any of them but a load of a flag
//! ([`highwater_core::hooks`], [`highwater_core::planted`](mod@highwater_core::planted)).

use highwater_core::{Epoch, Timestamp, hooks, planted};
use highwater_kit::validation::quorum::Quorums;
use highwater_seam::Nanos;

use crate::facts::{Ended, Found};

// ---- facts ----

/// A replica found a transaction valid.
#[inline(always)]
pub fn found(epoch: Epoch, ts: Timestamp) {
    hooks::tell_own(|| Found { epoch, ts });
}

/// A replica knows what became of a transaction. A name is of one epoch: who joins is told what became of transactions of the one before.
#[inline(always)]
pub fn ended(epoch: Epoch, ts: Timestamp, commit: bool) {
    hooks::tell_own(|| Ended { epoch, ts, commit });
}

// ---- planted bugs: what each would change; `highwater sim planted` shows that each is caught ----

/// A worker goes on in an epoch though it has promised the next one, or the epoch is not open.
#[inline(always)]
pub fn goes_on_when_promised() -> bool {
    planted!(OldEpochCounts)
}

/// Votes by which a coordinator decides.
#[inline(always)]
pub fn counts(quorums: Quorums) -> Quorums {
    if planted!(MajorityIsFast) { Quorums { fast: quorums.majority, ..quorums } } else { quorums }
}

/// Up to where records go, of a coordinator that has closed all up to there, and since when nothing older is under way.
#[inline(always)]
pub fn trims(closed: Timestamp, before: Nanos) -> (Timestamp, Nanos) {
    if planted!(TrimmedEarly) { (Timestamp::MAX, Nanos::MAX) } else { (closed, before) }
}

/// A replica looks whether its own transactions are over everywhere.
#[inline(always)]
pub fn closes_own() -> bool {
    !planted!(OwnInstalledAgain)
}

/// A transaction that commits is installed, whether this replica had validated it (`valid`) or not.
#[inline(always)]
pub fn installs(valid: Option<bool>) -> bool {
    valid.is_some() || !planted!(OutcomeLost)
}

/// Marks of what does not commit go.
#[inline(always)]
pub fn unmarks_aborted() -> bool {
    !planted!(MarksLeft)
}

/// A read that commits leaves its timestamp.
#[inline(always)]
pub fn raises_rts() -> bool {
    !planted!(RtsNotRaised)
}

/// The view in which a backup coordinator proposes.
#[inline(always)]
pub fn view(view: u32) -> u32 {
    if planted!(ViewShared) { 1 } else { view }
}

/// A view of a transaction may have two proposals.
#[inline(always)]
pub fn shares_views() -> bool {
    planted!(ViewShared)
}

/// A promise waits for no disk, and who accepts need not have what is written.
#[inline(always)]
pub fn promises_at_once() -> bool {
    planted!(PromiseAtOnce)
}

/// A change of epoch looks at proposals that were accepted.
#[inline(always)]
pub fn looks_at_accepted() -> bool {
    !planted!(AcceptedForgotten)
}

/// It commits what may have committed only if nothing that did is in conflict with it.
#[inline(always)]
pub fn revalidates() -> bool {
    !planted!(NotRevalidated)
}

/// A vote waits for no disk.
#[inline(always)]
pub fn votes_unsynced() -> bool {
    planted!(YesUnsynced)
}

/// Nor does the word that an outcome was heard.
#[inline(always)]
pub fn hears_unsynced() -> bool {
    planted!(HeardUnsynced)
}

/// Everything that came behind the cut of a change of epoch is left out.
#[inline(always)]
pub fn cuts() -> bool {
    !planted!(CutIgnored)
}

/// A replica that may have forgotten something says so.
#[inline(always)]
pub fn tells_that_it_forgot() -> bool {
    !planted!(ForgetfulIsWhole)
}

/// A replica takes part whatever others say of its disk.
#[inline(always)]
pub fn trusts_any_disk() -> bool {
    planted!(OldDiskVotes)
}

/// A replica that waits for everything to be over asks those who have nothing to do.
#[inline(always)]
pub fn asks_the_idle() -> bool {
    !planted!(IdleIsLeftAlone)
}

/// A transaction that comes too late is refused where real time is promised.
#[inline(always)]
pub fn refuses_late() -> bool {
    !planted!(LateIsValid)
}

/// And a vote leaves when its time has come.
#[inline(always)]
pub fn ripens() -> bool {
    !planted!(VotesUnripe)
}

/// A home proposes in view 0, too, where its client does.
#[cfg(feature = "delegates")]
#[inline(always)]
pub fn home_proposes() -> bool {
    planted!(HomeProposes)
}

/// A home closes stamps whose clients are gone without ending them.
#[cfg(feature = "delegates")]
#[inline(always)]
pub fn closes_abandoned() -> bool {
    planted!(GoneIsClosed)
}
