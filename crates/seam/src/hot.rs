//! Hot keys: those at which transactions meet most, found in little memory.
//!
//! A sketch after Metwally, Agrawal and El Abbadi ("Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005):
//! so many counters, each of one key. A key that has none takes over the least one, with its count, which may be that much too
//! many from then on. Whatever was met more often than all conflicts divided by the counters has one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use highwater_core::TableId;
use highwater_core::log::Key;

/// Counters of a sketch.
pub const COUNTERS: usize = 64;

/// One worker's sketch: written by its worker when a transaction meets another one, and at no other time; read by anyone.
#[derive(Debug, Default)]
pub struct HotKeys(Mutex<Vec<Hot>>);

/// A key, and how often it was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hot {
    /// Which table.
    pub table: TableId,
    /// The key, or its first bytes.
    pub key: HotKey,
    /// How often, at most,
    pub met: u64,
    /// and by how many that may be too many.
    pub error: u64,
}

/// A key in its own memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HotKey {
    /// Of a table with integer keys.
    U64(u64),
    /// Of one with byte strings.
    Bytes(Box<[u8]>),
}

impl HotKey {
    fn is(&self, other: Key<'_>) -> bool {
        match (self, other) {
            (HotKey::U64(own), Key::U64(other)) => *own == other,
            (HotKey::Bytes(own), Key::Bytes(other)) => **own == *other,
            _ => false,
        }
    }
}

impl From<Key<'_>> for HotKey {
    fn from(key: Key<'_>) -> HotKey {
        match key {
            Key::U64(key) => HotKey::U64(key),
            Key::Bytes(key) => HotKey::Bytes(key.into()),
        }
    }
}

impl HotKeys {
    /// Two transactions met at this key.
    #[cold]
    pub fn met(&self, table: TableId, key: Key<'_>) {
        let mut kept = self.kept();
        if let Some(hot) = kept.iter_mut().find(|hot| hot.table == table && hot.key.is(key)) {
            hot.met += 1;
            return;
        }
        let new = |error| Hot { table, key: key.into(), met: error + 1, error };
        if kept.len() < COUNTERS {
            return kept.push(new(0));
        }
        let least = kept.iter_mut().min_by_key(|hot| hot.met).expect("there are some");
        *least = new(least.met);
    }

    /// All that are counted, in no order.
    pub fn all(&self) -> Vec<Hot> {
        self.kept().clone()
    }

    /// Forgets all.
    pub fn reset(&self) {
        self.kept().clear();
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Hot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hottest of several sketches together, the hottest first; so many at most.
pub fn hottest(sketches: impl IntoIterator<Item = Vec<Hot>>, most: usize) -> Vec<Hot> {
    let mut all: Vec<Hot> = sketches.into_iter().flatten().collect();
    all.sort_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
    all.dedup_by(|later, kept| {
        let same = (later.table, &later.key) == (kept.table, &kept.key);
        if same {
            kept.met += later.met;
            kept.error += later.error;
        }
        same
    });
    all.sort_by_key(|hot| std::cmp::Reverse(hot.met));
    all.truncate(most);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_above_its_share_is_found_whatever_else_comes() {
        let keys = HotKeys::default();
        for n in 0..10_000u64 {
            keys.met(TableId(1), Key::U64(n));
            if n % 20 == 0 {
                keys.met(TableId(0), Key::Bytes(b"hot"));
            }
        }
        let hottest = hottest([keys.all()], 1);
        assert_eq!(
            (hottest[0].table, hottest[0].key.is(Key::Bytes(b"hot"))),
            (TableId(0), true),
            "{hottest:?}"
        );
        assert!(hottest[0].met >= 500 && hottest[0].met - hottest[0].error <= 500, "{hottest:?}");
        assert_eq!(keys.all().len(), COUNTERS);
        keys.reset();
        assert!(keys.all().is_empty());
    }

    #[test]
    fn sketches_of_several_workers_add_up() {
        let sketches = [HotKeys::default(), HotKeys::default()];
        for (times, sketch) in [(3, &sketches[0]), (4, &sketches[1])] {
            (0..times).for_each(|_| sketch.met(TableId(0), Key::Bytes(b"a")));
        }
        (0..5).for_each(|_| sketches[0].met(TableId(0), Key::U64(7)));
        let all = hottest(sketches.iter().map(HotKeys::all), 10);
        assert_eq!(all.iter().map(|hot| hot.met).collect::<Vec<_>>(), [7, 5]);
    }
}
