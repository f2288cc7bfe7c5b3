//! Every engine, by name. What one looks like from outside is [`highwater_seam`]; what they are made of, `highwater_kit`.

#![cfg(not(loom))]

#[cfg(not(any(feature = "rolis", feature = "meerkat", feature = "laboratory")))]
compile_error!("a build wants an engine: feature rolis, meerkat or laboratory");

pub mod registry;

pub use registry::{EngineKind, build};
