//! Mistakes that the host of a log could make, to be planted in its `hooks`: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
    BoundUnproved = "bound-unproved" {
        mistake: "a follower takes its leader's last answer for a proof, however old it is",
        breaks: "reads that must be fresh miss what was acknowledged long before",
        shows: Misled,
        within: 2000,
    }
    VouchUnasked = "vouch-unasked" {
        mistake: "a leader vouches for followers without a word from a majority",
        breaks: "a deposed leader, cut off with a follower, lets it miss what the next one acknowledged",
        shows: Misled,
        within: 2000,
    }
    StuckIsSound = "stuck-is-sound" {
        mistake: "a worker that takes no turns any more is in order",
        breaks: "its leader goes on leading and acknowledges nothing",
        shows: Jammed,
        within: 2000,
    }
    HungDiskIsSound = "hung-disk-is-sound" {
        mistake: "a leader that takes nothing more because its disk hangs is in order",
        breaks: "nobody is served, though the others' disks go on",
        shows: Hung,
        within: 2000,
    }
    AbandonedGoesOn = "abandoned-goes-on" {
        mistake: "the workers of a leader that gives its lead up are not told",
        breaks: "they go on taking requests, on a disk without room for example, until another leader's promise stops them",
        shows: Burdened,
        within: 2000,
    }
    HandedOverUnreleased = "handed-over-unreleased" {
        mistake: "a leader hands its lead over while replies still wait for the mark",
        breaks: "clients are told that nobody knows what became of their requests, though nothing failed",
        shows: HandedOver,
        within: 2000,
    }
    PromiseUnsynced = "promise-unsynced" {
        mistake: "a candidate hears of a promise before it is on disk",
        breaks: "after a crash the old leader is helped again, behind the back of the new one",
        shows: Unpowered,
        within: 2000,
    }
    CheckpointUnsettled = "checkpoint-unsettled" {
        mistake: "a checkpoint is published before the mark has passed what was scanned",
        breaks: "after a crash the store holds what was rolled back, or half of a transaction",
        shows: Unpowered,
        within: 2000,
    }
    CheckpointMissesTombstones = "checkpoint-misses-tombstones" {
        mistake: "tombstones are unlinked while a checkpoint is scanned",
        breaks: "after a crash an older write of the log brings back what was deleted",
        shows: Unpowered,
        within: 2000,
    }
    LevelRaisedEarly = "level-raised-early" {
        mistake: "a leader raises the level in use once a majority of the members can read it",
        breaks: "a member that runs an older build is cut off for good: nobody may send it anything any more",
        shows: Mixed,
        within: 2000,
    }
    EpochEndSkipped = "epoch-end-skipped" {
        mistake: "a takeover ends the old epoch in all streams but the last",
        breaks: "the final mark is never known; nobody serves any more",
        shows: Any,
        within: 2000,
    }
    OpensEarly = "opens-early" {
        mistake: "an epoch opens before a quorum knows that its beginning is decided",
        breaks: "later candidates do not learn of a change of members that is in force",
        shows: Newborn,
        within: 2000,
    }
    PromiseUnfenced = "promise-unfenced" {
        mistake: "streams answer a candidate without promising",
        breaks: "the old leader goes on deciding behind the new one's back",
        shows: Defied,
        within: 2000,
    }
    CopyStartsLate = "copy-starts-late" {
        mistake: "whoever copies the state follows the log from its present end, not from the copy's floor",
        breaks: "writes between floor and end are missing",
        shows: Mortal,
        within: 2000,
    }
    CopyUnheld = "copy-unheld" {
        mistake: "a leader that gives a copy sends what is above the mark",
        breaks: "the receiver holds what may never happen",
        shows: Any,
        within: 2000,
    }
}
