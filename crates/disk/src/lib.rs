//! What a replica keeps on disk, whatever its engine: formats, and how each is recovered after a crash at any moment.
//!
//! Nothing here opens a file. A [`Disk`] is handed in: the node's is a directory, the simulator's loses, tears and spoils what
//! was not synced, as the faults of a run ask.

pub mod ballast;
pub mod behind;
pub mod checkpoint;
mod disk;
pub mod identity;
pub mod journal;
mod mark;
pub mod simulated;
pub mod stale;
mod tables;

pub use ballast::Ballast;
pub use disk::{Disk, DiskFile, lacks_descriptor};
pub use identity::{Identity, IdentityError};
pub use journal::{Journal, JournalError, JournalOptions};
pub use simulated::SimulatedDisk;
pub use tables::Tables;
