//! What a transaction has touched: arenas that are reused, and emptied in O(1).

use highwater_core::TableId;
use highwater_core::limits::MAX_OPERATIONS;
use highwater_core::log::WriteAt;

use super::map::Map;
use super::nodes::Nodes;
use crate::record::Record;

/// Room for at most so many accesses is kept from one transaction to the next: the memory of a large one is given back.
const KEPT: usize = 1 << 14;

/// Marks "no write".
const NONE: u32 = u32::MAX;

/// A record that the transaction has touched.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub record: Record,
    /// The word that was read, if any was. None was of what is written blindly, nor of what was only [announced](Sets::announce).
    pub seen: Option<Seen>,
    pub table: TableId,
    /// Index of the write of this record among the writes.
    write: u32,
}

/// A word that the transaction relies on. Never 0, so that `Option<Seen>` takes no more room than a word: a record that
/// was read is live, with a timestamp, or a tombstone, with its bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen(std::num::NonZeroU64);

impl Seen {
    /// Live records have a timestamp above 0, tombstones their bit.
    #[inline]
    pub fn new(word: u64) -> Seen {
        Seen(std::num::NonZeroU64::new(word).expect("a record is live, with a timestamp, or a tombstone"))
    }

    #[inline]
    pub fn word(self) -> u64 {
        self.0.get()
    }
}

impl Access {
    #[inline]
    pub fn write(&self) -> Option<usize> {
        (self.write != NONE).then_some(self.write as usize)
    }
}

/// A record that the transaction will write.
#[derive(Clone, Copy)]
pub(super) struct Write {
    pub record: Record,
    /// Where the log has it.
    pub at: WriteAt,
    pub table: TableId,
    pub delete: bool,
    /// The record is a placeholder that this transaction has made.
    pub created: bool,
    /// Index of the record among the accesses.
    pub access: u32,
    /// The word when it was locked; to be restored on abort.
    pub before: u64,
}

/// The read set, write set and node set of one transaction.
pub(super) struct Sets {
    pub accesses: Vec<Access>,
    pub writes: Vec<Write>,
    pub nodes: Nodes,
    /// Bytes of the values that its writes remove, about.
    pub removed: usize,
    map: Map,
}

impl Sets {
    pub fn new() -> Sets {
        Sets { accesses: Vec::new(), writes: Vec::new(), nodes: Nodes::new(), removed: 0, map: Map::new() }
    }

    #[inline]
    pub fn clear(&mut self) {
        self.accesses.clear();
        self.writes.clear();
        self.removed = 0;
        if self.accesses.capacity().max(self.nodes.room()) > KEPT {
            self.shrink();
        }
        self.nodes.clear();
        self.map.clear();
    }

    /// A large transaction's memory is not kept for the small ones after it.
    #[cold]
    fn shrink(&mut self) {
        self.accesses.shrink_to(KEPT / 2);
        self.writes.shrink_to(KEPT / 2);
        self.nodes.shrink_to(KEPT / 2);
    }

    /// Whether the transaction has touched as much as one may. The bound keeps positions within the 32 bits that they
    /// have.
    #[inline]
    pub fn are_full(&self) -> bool {
        self.accesses.len() + self.nodes.len() >= MAX_OPERATIONS
    }

    /// The access of a key, if it was touched by key before. `is` compares a record's key.
    #[inline]
    pub fn find(&self, table: TableId, hash: u64, is: impl Fn(&Record) -> bool) -> Option<usize> {
        self.map.find(hash, |at| {
            let access = &self.accesses[at];
            access.table == table && is(&access.record)
        })
    }

    /// Remembers a record under its key's hash.
    #[inline]
    pub fn add(&mut self, table: TableId, hash: u64, record: Record, seen: Option<Seen>) -> usize {
        self.accesses.push(Access { record, seen, table, write: NONE });
        self.map.add(hash, self.accesses.len() - 1);
        self.accesses.len() - 1
    }

    /// Remembers what a lookup ahead of time has found under this hash, so that the key need not be looked up again. Nothing was read of it, and it
    /// need not be the key's: whoever finds it compares. Not where something of this hash was touched before: one access a key.
    #[inline]
    pub fn announce(&mut self, table: TableId, hash: u64, record: Record) {
        let (accesses, next) = (&self.accesses, self.accesses.len());
        if !self.are_full() && self.map.add_unless(hash, next, |at| accesses[at].table == table) {
            self.accesses.push(Access { record, seen: None, table, write: NONE });
        }
    }

    /// Remembers what a scan read, for validation only. It is not found by key again: to hash every key that a scan
    /// passes would cost more than to validate a few records twice.
    #[inline]
    pub fn add_scanned(&mut self, table: TableId, record: Record, seen: Seen) {
        self.accesses.push(Access { record, seen: Some(seen), table, write: NONE });
    }

    /// Adds a write to an access that has none.
    #[inline(always)]
    pub fn add_write(&mut self, access: usize, at: WriteAt, delete: bool, created: bool) {
        let Access { record, table, .. } = self.accesses[access];
        self.accesses[access].write = self.writes.len() as u32;
        let access = access as u32;
        self.writes.push(Write { record, at, table, delete, created, access, before: 0 });
    }

    /// No access has a write any more.
    pub fn forget_writes(&mut self) {
        self.removed = 0;
        for write in self.writes.drain(..) {
            self.accesses[write.access as usize].write = NONE;
        }
    }
}

#[cfg(test)]
impl Sets {
    /// Slots and nodes looked at, ever.
    pub fn work(&self) -> u64 {
        self.map.visits.get() + self.nodes.work()
    }
}
