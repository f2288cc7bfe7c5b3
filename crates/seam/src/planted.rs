//! Mistakes that any engine or its host could make, to be planted here and in hosts: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
    AmnesiacVoter = "amnesiac-voter" {
        mistake: "a node that lost its memory votes as the one it was",
        breaks: "its promises and what it accepted are forgotten",
        shows: Mortal,
        within: 2000,
    }
    SyncErrorIgnored = "sync-error-ignored" {
        mistake: "a host goes on after a sync that failed, as if it had not",
        breaks: "what was in it is gone from the disk, and counts as durable",
        shows: Failing,
        within: 2000,
    }
    UnopenedCounts = "unopened-counts" {
        mistake: "a host takes for synced what it had no file to write to, for none could be opened",
        breaks: "it is nowhere, and counts as durable",
        shows: Starved,
        within: 2000,
    }
    TrimmedBeforePublished = "trimmed-before-published" {
        mistake: "a host removes the log that a checkpoint stands for before the checkpoint is there",
        breaks: "if it never comes, what was in that log is gone",
        shows: Unpowered,
        within: 2000,
    }
    ClusterIdKept = "cluster-id-kept" {
        mistake: "a cluster that begins from the disks of another one keeps its id",
        breaks: "nodes of the old one that come back take part in the new one",
        shows: Founded,
        within: 2000,
    }
}
