//! Mistakes that a client could make, to be planted in it: listed with the engine's.

pub use highwater_engine_meerkat::planted::VotesOfAnyEpoch;
