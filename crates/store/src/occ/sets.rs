//! What a transaction has touched: arenas that are reused, and emptied in O(1).

use highwater_core::TableId;
use highwater_core::log::WriteAt;

use crate::index::{NodeSeen, NodeSet};
use crate::record::Record;

/// Marks "no write".
const NONE: u32 = u32::MAX;

/// A record that the transaction has touched.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub record: Record,
    /// The word that was read, if any was.
    pub seen: Option<Seen>,
    pub table: TableId,
    /// Index of the write of this record among the writes.
    write: u32,
}

/// A word that the transaction relies on; never 0, as a record that was read is there or a tombstone.
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

/// Finds accesses by hash: open addressing, emptied by a new stamp.
struct Map {
    slots: Box<[Slot]>,
    /// Slots with another stamp are empty.
    stamp: u32,
    used: usize,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u64,
    stamp: u32,
    access: u32,
}

impl Map {
    fn new() -> Map {
        Map { slots: vec![Slot::default(); 256].into(), stamp: 1, used: 0 }
    }

    #[inline]
    fn clear(&mut self) {
        self.used = 0;
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.slots.fill(Slot::default());
            self.stamp = 1;
        }
    }

    /// The access of this hash that `matches`.
    #[inline]
    fn find(&self, hash: u64, matches: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 20) as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.stamp != self.stamp {
                return None;
            }
            if slot.hash == hash && matches(slot.access as usize) {
                return Some(slot.access as usize);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn add(&mut self, hash: u64, access: usize) {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        self.used += 1;
        self.put(Slot { hash, stamp: self.stamp, access: access as u32 });
    }

    #[inline]
    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = (slot.hash >> 20) as usize & mask;
        while self.slots[at].stamp == self.stamp {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Slot::default(); self.slots.len() * 2].into();
        let old = std::mem::replace(&mut self.slots, larger);
        for slot in old {
            if slot.stamp == self.stamp {
                self.put(slot);
            }
        }
    }
}

/// The read set, write set and node set of one transaction.
pub(super) struct Sets {
    pub accesses: Vec<Access>,
    pub writes: Vec<Write>,
    pub nodes: Vec<NodeSeen>,
    /// Whether the last insertion changed a node that this transaction relies on.
    pub disturbed: bool,
    map: Map,
}

impl Sets {
    pub fn new() -> Sets {
        Sets {
            accesses: Vec::new(),
            writes: Vec::new(),
            nodes: Vec::new(),
            disturbed: false,
            map: Map::new(),
        }
    }

    #[inline]
    pub fn clear(&mut self) {
        self.accesses.clear();
        self.writes.clear();
        self.nodes.clear();
        self.map.clear();
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

    /// Remembers what a scan read; not to be found by key again.
    #[inline]
    pub fn add_scanned(&mut self, table: TableId, record: Record, seen: Seen) {
        self.accesses.push(Access { record, seen: Some(seen), table, write: NONE });
    }

    /// Adds a write to an access that has none.
    #[inline]
    pub fn add_write(&mut self, access: usize, at: WriteAt, delete: bool, created: bool) {
        let Access { record, table, .. } = self.accesses[access];
        self.accesses[access].write = self.writes.len() as u32;
        let access = access as u32;
        self.writes.push(Write { record, at, table, delete, created, access, before: 0 });
    }
}

impl NodeSet for Sets {
    #[inline]
    fn replaced(&mut self, old: NodeSeen, new: &[NodeSeen]) {
        for at in 0..self.nodes.len() {
            if self.nodes[at] == old {
                self.disturbed = true;
                self.nodes[at] = new[0];
                self.nodes.extend_from_slice(&new[1..]);
            }
        }
    }
}
