//! What the other engines are measured against.

pub mod silo;
