//! Mistakes that consensus could make, to be planted in it: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
    LongestLogWins = "longest-log-wins" {
        mistake: "a takeover adopts the longest log, not the one of the highest ballot",
        breaks: "decided entries are replaced by ones that were given up",
        shows: Any,
        within: 2000,
    }
    HalfAdopted = "half-adopted" {
        mistake: "a part of an adopted range counts as the whole",
        breaks: "decided entries behind it are cut off and outranked",
        shows: Halved,
        within: 2000,
    }
    DuplicateAppended = "duplicate-appended" {
        mistake: "an entry that comes twice is appended twice",
        breaks: "an entry stands at an index that is not its own",
        shows: Any,
        within: 2000,
    }
    GapIgnored = "gap-ignored" {
        mistake: "an entry that comes ahead of its predecessor is appended",
        breaks: "an entry stands at an index that is not its own",
        shows: Any,
        within: 2000,
    }
    MinorityDecides = "minority-decides" {
        mistake: "one acknowledgement less than a majority decides",
        breaks: "acknowledged transactions are lost with their leader",
        shows: Torn,
        within: 2000,
    }
    PromiseByNode = "promise-by-node" {
        mistake: "a promise counts for the node, whichever of its lives gave it",
        breaks: "a learner's empty log stands for the log that was lost",
        shows: Mortal,
        within: 2000,
    }
    RemovedVoterCounted = "removed-voter-counted" {
        mistake: "the promises and acknowledgements of a voter that was removed count",
        breaks: "what too few voters hold is decided, and lost with one of them",
        shows: Moving,
        within: 2000,
    }
    VouchesBlindly = "vouches-blindly" {
        mistake: "a leader vouches for itself whether it hears a quorum or not",
        breaks: "whoever hears it keeps the others from electing another: nobody serves",
        shows: Stranded,
        within: 2000,
    }
    VoteUnsynced = "vote-unsynced" {
        mistake: "a leader counts its own log as its vote before it is on disk",
        breaks: "what was decided with its vote is lost with the power",
        shows: Unpowered,
        within: 2000,
    }
    AcknowledgedUnsynced = "acknowledged-unsynced" {
        mistake: "a follower acknowledges an entry before it is on disk",
        breaks: "what was decided with its vote is lost with the power",
        shows: Unpowered,
        within: 2000,
    }
    ForgetfulCounted = "forgetful-counted" {
        mistake: "the promise of a voter counts that may have forgotten what it accepted before its crash",
        breaks: "acknowledged transactions are lost though no majority crashed",
        shows: Forgetful,
        within: 2000,
    }
    HalfRecovered = "half-recovered" {
        mistake: "of an adoption that is on disk in part, that part counts as the whole",
        breaks: "entries that an earlier vote was for are gone, and the rest outranks those who have them",
        shows: Unpowered,
        within: 2000,
    }
}
