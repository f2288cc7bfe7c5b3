//! Mistakes that the door could make, to be planted here: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
    SightedKept = "redis-sighted-kept" {
        mistake: "a command that finds a key expired leaves it there",
        breaks: "where the next leader's clock is behind, it is there again",
        shows: Expiring,
        within: 400,
    }
    MovedDeadlineIgnored = "redis-moved-deadline-ignored" {
        mistake: "the sweep removes a key whose deadline was moved",
        breaks: "a key that should live is gone",
        shows: Expiring,
        within: 400,
    }
    PipelineUnordered = "redis-pipeline-unordered" {
        mistake: "a command of a connection is taken while the one before it is put off",
        breaks: "commands of one pipeline take effect out of order",
        shows: Pipelining,
        within: 400,
    }
    ForwardedOvertakes = "redis-forwarded-overtakes" {
        mistake: "what a client asked through a follower is taken while a request of it in front of that is put off",
        breaks: "commands of one pipeline take effect out of order",
        shows: Forwarding,
        within: 400,
    }
    RightsKept = "redis-rights-kept" {
        mistake: "a command that waited on offer is run by the rights with which it came",
        breaks: "who was told that a user lost a right sees it used",
        shows: Ruled,
        within: 400,
    }
    UsersUnread = "redis-users-unread" {
        mistake: "a node that begins to serve goes by the users that it knew",
        breaks: "a right that was taken away at the leader before is used at the next one",
        shows: Ruled,
        within: 400,
    }
    LastIsFirst = "redis-last-is-first" {
        mistake: "of those in line the last is woken first",
        breaks: "who came first is served last",
        shows: Waiting,
        within: 400,
    }
    EvidenceIgnored = "redis-evidence-ignored" {
        mistake: "a commit does not compare what its commands answer with what the client was told",
        breaks: "the client decided by what is not so any more: updates are lost",
        shows: Interacting,
        within: 400,
    }
    WatchIgnored = "redis-watch-ignored" {
        mistake: "an EXEC does not look whether what was watched has changed",
        breaks: "the client decided by what is not so any more: updates are lost",
        shows: Interacting,
        within: 400,
    }
}
