//! What a transaction will touch, said before it runs: for engines that lock or route beforehand.

use crate::ids::TableId;

/// Keys and partitions that a transaction may touch; more than it does touch is fine, less is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    keys: Vec<(TableId, Vec<u8>, Access)>,
    partitions: Vec<u32>,
}

/// What is done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read.
    Read,
    /// It is written, and perhaps read.
    Write,
}

impl Footprint {
    /// The transaction may do this with a key.
    pub fn key(&mut self, table: TableId, key: &[u8], access: Access) {
        self.keys.push((table, key.to_vec(), access));
    }

    /// The transaction may touch whatever is in a partition of the data, as its workload numbers them.
    pub fn partition(&mut self, partition: u32) {
        self.partitions.push(partition);
    }

    /// All keys, as they were said.
    pub fn keys(&self) -> impl Iterator<Item = (TableId, &[u8], Access)> {
        self.keys.iter().map(|(table, key, access)| (*table, key.as_slice(), *access))
    }

    /// All partitions, as they were said.
    pub fn partitions(&self) -> &[u32] {
        &self.partitions
    }

    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.partitions.clear();
    }
}
