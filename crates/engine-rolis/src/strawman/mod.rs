//! The strawman: all workers into one stream, under one lock, to be compared with.

pub mod feed;
pub mod funnel;
pub mod lock_waits;
