//! Mistakes that these systems could make, to be planted in them: see [`highwater_core::planted`](mod@highwater_core::planted).

pub use kuafu::NumbersAhead;
pub use meerkat_pb::UnmarkedEarly;
pub use tapir::OneIsEnough;

/// Those of engine `meerkat-pb`.
pub mod meerkat_pb {
    highwater_core::bugs! {
        UnmarkedEarly = "unmarked-early" {
            mistake: "the primary takes a transaction's marks away as soon as it was found valid, before it is installed",
            breaks: "who reads in between is found valid with the old version, and both commit",
            shows: Contended,
            within: 500,
        }
    }
}

/// Those of engine `tapir`.
pub mod tapir {
    highwater_core::bugs! {
        OneIsEnough = "one-is-enough" {
            mistake: "a transaction commits at once when its own replica found it valid",
            breaks: "two that are in conflict commit at different replicas",
            shows: Contended,
            within: 500,
        }
    }
}

/// Those of engine `kuafu`.
pub mod kuafu {
    highwater_core::bugs! {
        NumbersAhead = "numbers-ahead" {
            mistake: "a worker takes numbers from the shared counter in advance, some at a time",
            breaks: "the order of the numbers is not that of the transactions",
            shows: Contended,
            within: 500,
        }
    }
}
