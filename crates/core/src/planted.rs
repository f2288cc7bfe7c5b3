//! Planted bugs: mistakes that somebody could make, each behind a switch, to prove that simulator and checker catch them.
//!
//! They exist only with the feature `planted`, which nothing but the simulator's own command and tests asks for. Without it
//! [`planted!`](crate::planted!) is the literal `false`: the optimiser leaves nothing of a branch behind it, and there is
//! nothing here to ask.
//!
//! A bug is planted for the calling thread: a simulated run stays on one thread, and several seeds may run side by side.

/// Whether a bug is planted in this thread; `false`, literally, without the feature `planted`.
#[cfg(not(feature = "planted"))]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

/// Whether a bug is planted in this thread; `false`, literally, without the feature `planted`.
#[cfg(feature = "planted")]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::on($crate::planted::Bug::$bug)
    };
}

#[cfg(feature = "planted")]
pub use list::{Bug, current, on, plant};

#[cfg(feature = "planted")]
mod list {
    use std::cell::Cell;

    macro_rules! bugs {
        ($($(#[$doc:meta])* $bug:ident = $name:literal,)*) => {
            /// A mistake that somebody could make.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub enum Bug {
                $($(#[$doc])* $bug,)*
            }

            impl Bug {
                /// All of them.
                pub const ALL: &[Bug] = &[$(Bug::$bug),*];

                /// Its name on the command line.
                pub fn name(self) -> &'static str {
                    match self {
                        $(Bug::$bug => $name,)*
                    }
                }
            }
        };
    }

    // A test of the command looks for the names in its default build, which must not hold any.
    bugs! {
        /// The mark is the minimum over the streams that have said something in this epoch.
        SilentStreamIgnored = "silent-stream-ignored",
        /// A claim about another stream counts though its index is not decided here.
        ClaimUnchecked = "claim-unchecked",
        /// A worker executes again without taking back that it is quiet.
        QuietKept = "quiet-kept",
        /// The leader releases whole entries: if the mark reached the first transaction, then the rest, too.
        EntryReleasedWhole = "entry-released-whole",
        /// At the end of an epoch followers skip whole entries that reach beyond the final mark.
        EntrySkippedWhole = "entry-skipped-whole",
        /// A read-only transaction's reply waits for the replies before it only, not for the mark.
        ReadUnmarked = "read-unmarked",
        /// What is above the final mark of an epoch is installed all the same.
        FinalMarkIgnored = "final-mark-ignored",
        /// The takeover ends the old epoch in all streams but the last one.
        EpochEndSkipped = "epoch-end-skipped",
        /// A deposed leader keeps what it executed above the final mark.
        NoRollBack = "no-roll-back",
        /// A leader forgets before-images once its own stream is closed so far, not once the mark has passed.
        UndoForgotten = "undo-forgotten",
        /// A write from the log is installed over a newer one.
        ReplayUnordered = "replay-unordered",
        /// Followers unlink tombstones by the mark, though a stream may yet apply older writes.
        TombstoneEarly = "tombstone-early",
        /// The receiver of a state copy follows the log from where it is decided now, not from the copy's floor.
        CopyStartsLate = "copy-starts-late",
        /// A copied record is installed over a newer one from the log.
        CopyUnordered = "copy-unordered",
        /// A leader that gives a copy sends what is above the mark.
        CopyUnheld = "copy-unheld",
        /// The lead passes to the longest log, whatever ballot it was accepted under.
        LongestLogWins = "longest-log-wins",
        /// A follower's streams answer a candidate without promising anything.
        PromiseUnfenced = "promise-unfenced",
        /// A part of an adopted range counts as the whole.
        HalfAdopted = "half-adopted",
        /// An entry that arrives twice is appended twice.
        DuplicateAppended = "duplicate-appended",
        /// An entry that arrives ahead of its predecessor is appended.
        GapIgnored = "gap-ignored",
        /// One voter less than a majority decides.
        MinorityDecides = "minority-decides",
        /// A restarted node votes as the one it was before.
        AmnesiacVoter = "amnesiac-voter",
        /// A promise counts for the node, whichever of its lives gave it.
        PromiseByNode = "promise-by-node",
        /// An epoch opens before a quorum knows that all of its beginning is decided.
        OpensEarly = "opens-early",
        /// The new leader's clock is not moved past the old log.
        ClockNotAdvanced = "clock-not-advanced",
        /// A transaction takes its timestamp after what it read is validated, not before.
        StampedLate = "stamped-late",
        /// Appliers go past the timestamp at which a snapshot is just being pinned.
        PinOvertaken = "pin-overtaken",
        /// A follower shows a snapshot as soon as it is pinned, whatever is still to be installed below it.
        SnapshotIncomplete = "snapshot-incomplete",
        /// What a transaction read is not validated.
        ReadsUnvalidated = "reads-unvalidated",
        /// Validation accepts a record that another transaction has locked.
        LockIgnored = "lock-ignored",
        /// What a transaction did not find, or scanned past, is not validated.
        PhantomsAllowed = "phantoms-allowed",
        /// A leader vouches for itself whether it hears a quorum or not.
        VouchesBlindly = "vouches-blindly",
        /// A worker that takes no turns any more is in order.
        StuckIsSound = "stuck-is-sound",
        /// Writes that make a store grow are charged to nobody's memory.
        GrowthUnpaid = "growth-unpaid",
    }

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug for this thread, in the place of any other; or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// What is planted in this thread.
    pub fn current() -> Option<Bug> {
        PLANTED.get()
    }

    /// Whether this bug is planted in this thread.
    #[inline]
    pub fn on(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}
