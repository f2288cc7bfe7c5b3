//! Mistakes that any engine could make, to be planted here: see [`highwater_core::planted`](mod@highwater_core::planted).

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
    OldCheckpointCounts = "old-checkpoint-counts" {
        mistake: "a checkpoint that is published late, of the store before, counts for the one that was copied since",
        breaks: "what was copied is on no disk, and everybody counts on it",
        shows: Outrun,
        within: 2000,
    }
    StaleDiskVotes = "stale-disk-votes" {
        mistake: "a node is believed that comes back with a disk older than what it told",
        breaks: "what it once accepted is lost with the only other node that has it",
        shows: Restored,
        within: 2000,
    }
    UnheardStartsCount = "unheard-starts-count" {
        mistake: "a disk is judged by how often it was started and how much is on it, not by which starts those were",
        breaks: "an older copy passes once it was started without being heard, and votes without what it accepted",
        shows: Unheard,
        within: 2000,
    }
    ClusterIdKept = "cluster-id-kept" {
        mistake: "a cluster that begins from the disks of another one keeps its id",
        breaks: "nodes of the old one that come back take part in the new one",
        shows: Founded,
        within: 2000,
    }
    SessionApart = "session-apart" {
        mistake: "what a session keeps of a request is written by a transaction of its own, behind the request's",
        breaks: "a crash between the two forgets that the request happened, and a retry does it twice",
        shows: Retried,
        within: 2000,
    }
    PutOffIsPlaced = "put-off-is-placed" {
        mistake: "a worker says of a request that it puts off that it has its place in the order",
        breaks: "what a client sends behind it over the same connection takes effect before it",
        shows: Hurried,
        within: 2000,
    }
    RetryTwice = "retry-twice" {
        mistake: "a request runs again that its session has an end of",
        breaks: "a retry does it twice",
        shows: Retried,
        within: 2000,
    }
}
