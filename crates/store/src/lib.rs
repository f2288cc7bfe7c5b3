//! Highwater's in-memory tables: hash and ordered indexes over records, OCC transactions on the leader, log application
//! on followers, state transfer.
//!
//! - [`word`] and `record`: what is stored, and how it is read without locks.
//! - [`guard`] and `heap`: when and where memory is used again.
//! - `gone`: when keys were deleted of which there is no trace.
//! - `hash` and `tree`: the two indexes, each with versions that prove absence.
//! - [`occ`]: transactions. [`applier`]: a follower's way to write. [`snapshot`]: its readers. [`latest`]: newest versions, for
//!   who validates by timestamps. [`export`],
//!   [`import`], [`exported`] (the bytes between them), [`digest`]: state transfer, comparison.
//! - [`hooks`]: where a simulator may step in.
//!
//! This crate knows no network, no replication and no file. docs/internals/occ.md tells the whole story.

pub mod guard;
pub mod sync;
pub mod word;

#[cfg(not(loom))]
pub mod applier;
#[cfg(not(loom))]
pub mod digest;
#[cfg(not(loom))]
pub mod export;
#[cfg(not(loom))]
pub mod exported;
#[cfg(not(loom))]
mod gone;
#[cfg(not(loom))]
mod grave;
#[cfg(not(loom))]
mod graveyard;
#[cfg(not(loom))]
mod hash;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
pub mod hooks;
#[cfg(not(loom))]
pub mod import;
#[cfg(not(loom))]
mod index;
#[cfg(not(loom))]
mod keys;
#[cfg(not(loom))]
pub mod latest;
#[cfg(not(loom))]
pub mod occ;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(not(loom))]
mod reader;
#[cfg(not(loom))]
mod record;
#[cfg(not(loom))]
mod seen;
#[cfg(not(loom))]
pub mod snapshot;
#[cfg(not(loom))]
mod store;
#[cfg(not(loom))]
mod tree;
#[cfg(not(loom))]
mod versions;

#[cfg(not(loom))]
pub use applier::{Applied, Applier};
#[cfg(not(loom))]
pub use digest::Digest;
#[cfg(not(loom))]
pub use export::Export;
#[cfg(not(loom))]
pub use exported::{ExportedRecord, ExportedRecords};
#[cfg(not(loom))]
pub use heap::{Memory, Provision, give_back_freed, one_arena};
#[cfg(not(loom))]
pub use import::Importer;
#[cfg(not(loom))]
pub use latest::{Latest, Version};
#[cfg(not(loom))]
pub use occ::Occ;
#[cfg(not(loom))]
pub use snapshot::{Snapshot, SnapshotTx};
#[cfg(not(loom))]
pub use store::Store;
