//! Mistakes that any engine could make, to be planted here: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
    AmnesiacVoter = "amnesiac-voter" {
        mistake: "a node that lost its memory votes as the one it was",
        breaks: "its promises and what it accepted are forgotten",
        shows: Mortal,
        within: 2000,
    }
}
