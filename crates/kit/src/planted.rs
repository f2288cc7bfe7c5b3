//! Mistakes that any engine could make with what is shared here: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
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
    OldCheckpointCounts = "old-checkpoint-counts" {
        mistake: "a checkpoint that is published late, of the store before, counts for the one that was copied since",
        breaks: "what was copied is on no disk, and everybody counts on it",
        shows: Outrun,
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
