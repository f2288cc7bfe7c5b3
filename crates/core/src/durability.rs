//! What a reply promises.

use std::fmt;

/// What a reply promises: where the transaction is by then. The same on all nodes of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// In the memories of a majority.
    #[default]
    Memory,
    /// In the memories of a majority; on their disks a little later.
    Async,
    /// On the disks of a majority.
    Sync,
}

impl Durability {
    /// All of them, the weakest first.
    pub const ALL: [Durability; 3] = [Durability::Memory, Durability::Async, Durability::Sync];

    /// As configurations say it.
    pub const fn name(self) -> &'static str {
        match self {
            Durability::Memory => "memory",
            Durability::Async => "async",
            Durability::Sync => "sync",
        }
    }

    /// Whether replicas have disks.
    #[inline]
    pub const fn has_disk(self) -> bool {
        !matches!(self, Durability::Memory)
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
