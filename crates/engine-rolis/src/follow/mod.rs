//! Following a stream: what is looked at and installed.

pub mod apply;
