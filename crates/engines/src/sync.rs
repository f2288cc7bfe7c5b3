//! The primitives that the threads of a replica synchronise with: see [`highwater_core::sync`].

pub use highwater_core::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence};
#[cfg(not(loom))]
pub use highwater_core::sync::{AtomicU32, MutexGuard};
