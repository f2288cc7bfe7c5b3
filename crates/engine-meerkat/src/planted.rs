//! Mistakes that Meerkat could make, to be planted in it: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
    MajorityIsFast = "majority-is-fast" {
        mistake: "a transaction commits at once when a majority found it valid, not a supermajority",
        breaks: "a backup coordinator or a change of epoch that hears others aborts it",
        shows: Mortal,
        within: 2000,
    }
    MarksLeft = "marks-left" {
        mistake: "a transaction that is refused, or aborted, leaves its marks",
        breaks: "whoever writes what it read is refused for ever",
        shows: Contended,
        within: 2000,
    }
    AcceptedForgotten = "accepted-forgotten" {
        mistake: "a change of epoch does not look at accepted proposals",
        breaks: "what was decided on the slow path is decided otherwise",
        shows: Mortal,
        within: 2000,
    }
    OutcomeLost = "outcome-lost" {
        mistake: "a replica that has not validated a transaction does not install it when it commits",
        breaks: "replicas differ",
        shows: Any,
        within: 2000,
    }
    NotRevalidated = "not-revalidated" {
        mistake: "a change of epoch commits what may have committed on the fast path without a look at what it is in conflict with",
        breaks: "two transactions in conflict commit",
        shows: Mortal,
        within: 2000,
    }
    ViewShared = "view-shared" {
        mistake: "every backup coordinator proposes in view 1",
        breaks: "two proposals of one view: both are decided",
        shows: Halved,
        within: 2000,
    }
    TrimmedEarly = "trimmed-early" {
        mistake: "a replica forgets a transaction as soon as it is over there",
        breaks: "a change of epoch does not learn that it committed",
        shows: Mortal,
        within: 2000,
    }
    RtsNotRaised = "rts-not-raised" {
        mistake: "a read that commits leaves no trace",
        breaks: "a write with an earlier timestamp comes between it and what it read",
        shows: Contended,
        within: 2000,
    }
    OldEpochCounts = "old-epoch-counts" {
        mistake: "a replica that promised a change of epoch goes on in the old one",
        breaks: "what it finds valid or accepts after that is not in what the change decides",
        shows: Mortal,
        within: 2000,
    }
    OwnInstalledAgain = "own-installed-again" {
        mistake: "a change of epoch that names a replica's own transaction, over everywhere, has it installed there again",
        breaks: "a record is made of what is over everywhere; a row would stand again whose tombstone is gone",
        shows: Mortal,
        within: 2000,
    }
    PromiseAtOnce = "promise-at-once" {
        mistake: "a promise tells a vote that is on no disk, and who accepts later has not what is written",
        breaks: "what was acknowledged is on one disk of three",
        shows: Halting,
        within: 2000,
    }
    YesUnsynced = "yes-unsynced" {
        mistake: "a replica says that it found a transaction valid before that is on its disk",
        breaks: "what committed with its vote is lost with the power",
        shows: Unpowered,
        within: 2000,
    }
    HeardUnsynced = "heard-unsynced" {
        mistake: "a replica says that it has heard an outcome before that is on its disk",
        breaks: "others forget it, and it comes back without",
        shows: Unpowered,
        within: 4000,
    }
    ForgetfulIsWhole = "forgetful-is-whole" {
        mistake: "a replica that crashed without all on its disk takes what it finds there for all that it knew",
        breaks: "a change of epoch counts on votes and outcomes that it has forgotten",
        shows: Forgetful,
        within: 2000,
    }
    CutIgnored = "cut-ignored" {
        mistake: "a replica that goes on from a cut of its disk installs what came later, too",
        breaks: "it differs from the others, and has what was lost",
        shows: Darkened,
        within: 2000,
    }
    LostNamesIgnored = "lost-names-ignored" {
        mistake: "a host goes on as the node that it was though its journal's files are gone and its identity is there",
        breaks: "its promises and what it accepted are forgotten, and it votes: with Rolis the others know better",
        shows: Nameless,
        within: 2000,
    }
    OldDiskVotes = "old-disk-votes" {
        mistake: "a replica that comes back with its disk takes part whatever others say of that disk",
        breaks: "a copy that is older lacks votes and outcomes that others count on, and what was over everywhere",
        shows: Restored,
        within: 2000,
    }
    IdleIsLeftAlone = "idle-is-left-alone" {
        mistake: "who waits for everything to be over does not ask those who have nothing to do how far they are",
        breaks: "tombstones stay for as long as one worker's number is idle everywhere",
        shows: Any,
        within: 2000,
    }
    HomeProposes = "home-proposes" {
        mistake: "a home ends the stamp of a client that is gone by a proposal of its own in view 0",
        breaks: "two proposals of one view: the client's may be decided, too",
        shows: Any,
        within: 2000,
    }
    GoneIsClosed = "gone-is-closed" {
        mistake: "a home closes the stamp of a client that is gone without ending it",
        breaks: "replicas that found it valid keep its marks for ever, or install it when others do not",
        shows: Any,
        within: 2000,
    }
    DamageCutsShort = "damage-cuts-short" {
        mistake: "a node takes damage in the middle of its journal for the end of it",
        breaks: "it votes without what stood behind that",
        shows: Rotten,
        within: 2000,
    }
    LifeKeptInBetween = "life-kept-in-between" {
        mistake: "a node that sets its lost journal aside is who it was, if its start ends before its identity says otherwise",
        breaks: "it votes as one that it has forgotten",
        shows: Interrupted,
        within: 2000,
    }
}

pub use strict::{LateIsValid, VotesUnripe};

/// Those that engine `meerkat-strict` alone could make.
pub mod strict {
    highwater_core::bugs! {
        LateIsValid = "late-is-valid" {
            mistake: "a transaction below a replica's clock is not refused where real time is promised",
            breaks: "it may come before one that was answered before it was asked for",
            shows: Belated,
            within: 2000,
        }
        VotesUnripe = "votes-unripe" {
            mistake: "a replica says yes before its clock has come to a transaction's time, where real time is promised",
            breaks: "a later transaction may get an earlier timestamp",
            shows: Any,
            within: 2000,
        }
    }
}
