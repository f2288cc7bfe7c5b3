//! wip
pub mod protocol;
