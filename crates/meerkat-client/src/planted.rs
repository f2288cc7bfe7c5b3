//! Mistakes that a client could make, to be planted in it: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
    VotesOfAnyEpoch = "votes-of-any-epoch" {
        mistake: "a client asks for votes again in the next epoch, and counts those of both",
        breaks: "it tells its application that a transaction committed which the change of epoch ended",
        shows: Mortal,
        within: 2000,
    }
}
