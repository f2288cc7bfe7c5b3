//! (in progress)

pub mod resp;
