//! Looking ahead: keys that a procedure will ask for are taken through their steps together, so that their cache misses overlap.
//!
//! First all buckets are asked for, and the nodes of trees, a level at a time; then the records. What is found is announced to the
//! transaction's sets, and the lookup that follows begins with the record.
//!
//! A processor keeps some twenty misses in flight; who asks for more waits, and has nothing in flight later, while it works. So only the first few
//! records are asked for at once. The others follow one by one, one with each operation of the transaction.

use highwater_core::TableId;

use super::sets::Sets;
use super::{Occ, Phase};
use crate::index::{Index, Way};
use crate::keys::{IntegerKeys, Keys};
use crate::store::{AnyIndex, Store};
use crate::tree::Fingers;

/// Most lookups under way. Beyond, the oldest are finished first.
const MOST: usize = 64;
/// So many records are asked for before the transaction goes on.
const LEAD: usize = 16;

/// A lookup under way.
#[derive(Clone, Copy)]
struct Wanted {
    table: TableId,
    key: u64,
    way: Way,
}

/// The lookups under way of the open transaction, in the order of its hints.
///
/// Invariant: empty unless a transaction is open, whose guard keeps what the ways lead to.
#[derive(Default)]
pub(super) struct Ahead {
    wanted: Vec<Wanted>,
    /// The first whose record was not asked for.
    next: usize,
}

impl Ahead {
    #[inline]
    pub fn clear(&mut self) {
        self.wanted.clear();
        self.next = 0;
    }

    #[inline]
    fn left(&self) -> usize {
        self.wanted.len() - self.next
    }

    /// Asks for the buckets or leaves of some keys.
    fn enter(&mut self, store: &Store, keys: &[(TableId, u64)]) {
        if self.left() == 0 {
            self.clear();
        }
        let (first, mut under_way) = (self.wanted.len(), false);
        for &(table, key) in keys {
            let way = match store.table(table) {
                Some(AnyIndex::HashU64(index)) => index.enter(key, None),
                Some(AnyIndex::TreeU64(index)) => index.enter(key, None),
                _ => continue,
            };
            under_way |= way.is_under_way();
            self.wanted.push(Wanted { table, key, way });
        }
        while under_way {
            under_way = false;
            for Wanted { table, key, way } in &mut self.wanted[first..] {
                if let (true, Some(AnyIndex::TreeU64(index))) = (way.is_under_way(), store.table(*table)) {
                    *way = index.go_on(*way, *key);
                    under_way = true;
                }
            }
        }
    }

    /// Asks for the next so many records.
    #[inline]
    fn finish(&mut self, count: usize, store: &Store, fingers: &mut [Fingers], sets: &mut Sets) {
        let end = self.wanted.len().min(self.next + count);
        for &Wanted { table, key, way } in &self.wanted[self.next..end] {
            let fingers = &mut fingers[table.0 as usize];
            let (record, hash) = match store.table(table) {
                Some(AnyIndex::HashU64(index)) => (index.peek(way, key, fingers), way.hash()),
                Some(AnyIndex::TreeU64(index)) => (index.peek(way, key, fingers), IntegerKeys::hash(key)),
                _ => continue,
            };
            if let Some(record) = record {
                record.prefetch_bytes(fingers.record_bytes());
                sets.announce(table, hash, record);
            }
        }
        self.next = end;
    }
}

impl Occ {
    /// Begins with the lookups of these keys. A hint that comes while no transaction is open is dropped.
    pub(super) fn look_ahead(&mut self, keys: &[(TableId, u64)]) {
        if self.phase != Phase::Open {
            return;
        }
        let Occ { store, fingers, sets, ahead, .. } = self;
        for keys in keys.chunks(MOST) {
            if ahead.left() + keys.len() > MOST {
                ahead.finish(MOST, store, fingers, sets);
            }
            ahead.enter(store, keys);
            ahead.finish(LEAD, store, fingers, sets);
        }
    }

    /// Goes a step further with what is left of them: to be called with each operation.
    #[inline]
    pub(super) fn go_ahead(&mut self) {
        if self.ahead.left() > 0 {
            self.take_step_ahead();
        }
    }

    #[inline(never)]
    fn take_step_ahead(&mut self) {
        let Occ { store, fingers, sets, ahead, .. } = self;
        ahead.finish(1, store, fingers, sets);
    }
}
