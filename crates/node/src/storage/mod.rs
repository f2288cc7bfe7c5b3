//! What a node keeps on disk: the directory it is in, and the thread that keeps the journal.
//!
//! Formats and recovery are in `highwater-disk`, which opens no file; here are the files. A third thread looks whether they still are where a later start finds them. Workers never wait for a disk: they put
//! what is to be written into a queue and are woken when it is synced.

pub mod archive;
pub mod checkpoint;
pub mod directory;
pub mod founding;
pub mod journal;
pub mod lives;
pub mod owner;
pub mod progress;
pub mod queue;
pub mod recovery;
pub mod remains;
pub mod survey;
pub mod trouble;
pub mod watch;

pub use checkpoint::{CheckpointDesk, CheckpointRules, CheckpointThread, Preamble};
pub use directory::{DataDirectory, DirectoryError};
pub use journal::JournalThread;
pub use progress::StartProgress;
pub use queue::JournalQueues;
pub use recovery::Storage;
pub use watch::FolderWatch;
