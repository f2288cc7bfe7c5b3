//! Mistakes that Rolis could make, to be planted in its `hooks`: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
    SilentStreamIgnored = "silent-stream-ignored" {
        mistake: "the mark is the minimum over the streams that have said something in this epoch",
        breaks: "the mark passes transactions whose dependencies are not decided",
        shows: Torn,
        within: 2000,
    }
    ClaimUnchecked = "claim-unchecked" {
        mistake: "a claim \"stream j is closed behind index k\" counts before k is decided",
        breaks: "the mark passes what stream j has not decided",
        shows: Torn,
        within: 2000,
    }
    QuietKept = "quiet-kept" {
        mistake: "a worker executes again without taking back that it is quiet",
        breaks: "others claim that it is closed above transactions that it has open",
        shows: Any,
        within: 2000,
    }
    EntryReleasedWhole = "entry-released-whole" {
        mistake: "the leader releases whole entries once the mark reaches their first transaction",
        breaks: "acknowledged transactions above the final mark are lost",
        shows: Torn,
        within: 2000,
    }
    EntrySkippedWhole = "entry-skipped-whole" {
        mistake: "at the end of an epoch whole entries are skipped that reach beyond the final mark",
        breaks: "acknowledged transactions below the mark are lost",
        shows: Torn,
        within: 2000,
    }
    ReadUnmarked = "read-unmarked" {
        mistake: "a read-only transaction is answered without waiting for the mark",
        breaks: "reads of what never happens; stale reads from a deposed leader",
        shows: Torn,
        within: 2000,
    }
    ReadAboveMark = "read-above-mark" {
        mistake: "a read that saw what is above the mark leaves once followers confirm the lead",
        breaks: "reads of what never happens",
        shows: Torn,
        within: 2000,
    }
    ReadUnconfirmed = "read-unconfirmed" {
        mistake: "a read that saw nothing above the mark leaves at once",
        breaks: "stale reads from a deposed leader",
        shows: Torn,
        within: 2000,
    }
    AnswerOutlived = "answer-outlived" {
        mistake: "that followers once confirmed the lead counts for reads that run later",
        breaks: "stale reads from a deposed leader",
        shows: Torn,
        within: 2000,
    }
    FinalMarkIgnored = "final-mark-ignored" {
        mistake: "what is above the final mark of an ended epoch is installed",
        breaks: "transactions without those that they depend on; replicas differ",
        shows: Torn,
        within: 2000,
    }
    NoRollBack = "no-roll-back" {
        mistake: "a deposed leader keeps what it executed above the final mark",
        breaks: "its store holds what never happened",
        shows: Any,
        within: 2000,
    }
    UndoForgotten = "undo-forgotten" {
        mistake: "before-images go once the own stream is closed, not once the mark has passed",
        breaks: "a deposed leader cannot roll everything back",
        shows: Torn,
        within: 2000,
    }
    TombstoneEarly = "tombstone-early" {
        mistake: "followers unlink tombstones by the mark, not by what all streams have applied",
        breaks: "an older insert brings a deleted row back",
        shows: Any,
        within: 2000,
    }
    ClockNotAdvanced = "clock-not-advanced" {
        mistake: "the new leader's clock is not moved past the old log",
        breaks: "timestamps go back from one epoch to the next",
        shows: Any,
        within: 2000,
    }
    PinOvertaken = "pin-overtaken" {
        mistake: "appliers go past the timestamp at which a snapshot is just being pinned",
        breaks: "the snapshot lacks the versions that they replaced",
        shows: Pinned,
        within: 2000,
    }
    SnapshotIncomplete = "snapshot-incomplete" {
        mistake: "a follower shows a snapshot before every stream is installed up to it",
        breaks: "a state that no serial execution passes through",
        shows: Shown,
        within: 2000,
    }
    RestoredAboveMark = "restored-above-mark" {
        mistake: "a state that is restored from a disk holds all of its log up to the wanted moment, whatever became of it",
        breaks: "what was rolled back is there, and half of what is later than the moment",
        shows: Unpowered,
        within: 2000,
    }
}
