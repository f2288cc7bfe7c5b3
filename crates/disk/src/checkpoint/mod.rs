//! Checkpoints: a running store written into files, from which it is loaded after a restart.
//!
//! A checkpoint is a *fuzzy* scan, as the copy of a state between nodes is (`highwater_kit::copy`): the donor is the running
//! replica, the receiver is a set of files. The caller chooses a *floor*, a timestamp up to which everything is in the
//! store. Then records are read one by one, while others write. What was read never was a state: it lacks some of what was
//! written meanwhile. It becomes one once the log is applied from the floor up to the position at which the scan ended,
//! *complete_at*, because installing is by timestamp: what the scan saw is not installed again, what it missed is.
//! docs/internals/checkpoint.md has the argument and the bytes.
//!
//! # Writing
//!
//! [`Writer::begin`] gives one [`PartWriter`] for each part; they are written by whichever threads, in steps of a chunk, and nobody
//! else waits for them. Then [`Writer::publish`] makes a checkpoint of the parts, once what was read is settled; and
//! [`remove_old`] removes those that are too many.
//!
//! Publication is one renaming. In front of it the parts are synced, the manifest under another name is, and the names of
//! both are; so whenever a manifest has its name, everything that it speaks of is there, whatever was interrupted. Removal is the
//! same backwards: first the manifest, for good, then the parts. Parts without a manifest are
//! [leftovers](remove_leftovers).
//!
//! # Loading
//!
//! A [`Loader`] goes from the newest manifest to the oldest, and gives one [`PartLoader`] for each part. Every byte is under a
//! checksum, and is checked before it is installed. If one is wrong, the caller [says so](Loader::skip), takes a fresh store and
//! asks for the next older checkpoint. That helps only as far as the log still goes on from there, which the engine knows.
//!
//! What is not damage (other tables, a newer format, no memory) is never answered with an older checkpoint.

mod error;
mod files;
mod format;
mod loader;
mod manifest;
mod names;
mod part_reader;
mod part_writer;
mod retention;
mod verify;
mod writer;

pub use error::Error;
pub use format::FORMAT_VERSION;
pub use loader::{Loader, Loading, PartLoader, Skipped};
pub use manifest::{MAX_ENGINE_BYTES, Manifest, Part, TableShape, manifest_name};
pub use part_reader::PartReader;
pub use part_writer::{PartWriter, WriteStep, WrittenPart};
pub use retention::{published, remove_leftovers, remove_old};
pub use verify::{verify, verify_part};
pub use writer::{Begun, Scan, Writer};
