//! The primitives that the threads of a replica synchronise with: see [`highwater_core::sync`].

#[cfg(not(loom))]
pub use highwater_core::sync::AtomicU32;
pub use highwater_core::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, fence};
