//! The primitives that the store synchronises with: see [`highwater_core::sync`].

pub use highwater_core::sync::*;
