//! A fingerprint of a store's content, to compare replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use highwater_core::TableId;

use crate::store::Store;

/// 128 bits over all live `(table, key, timestamp, value)`, whatever their order, and the number of rows of each table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Sum of the rows' hashes.
    pub hash: u128,
    /// Live rows, by table.
    pub rows: Vec<u64>,
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x} {:?}", self.hash, self.rows)
    }
}

impl Store {
    /// The digest of a store that nobody writes to.
    pub fn digest(&self) -> Digest {
        let mut hash = 0u128;
        let rows = self.schema().iter().map(|(table, _)| {
            let mut rows = 0;
            self.for_each_live(table, |ts, key, value| {
                rows += 1;
                hash = hash.wrapping_add(row(table, ts, key, value));
            });
            rows
        });
        let rows = rows.collect();
        Digest { hash, rows }
    }
}

impl Store {
    /// In words, the first `most` rows in which two stores that nobody writes to differ: for reports.
    pub fn differences(&self, other: &Store, most: usize) -> Vec<String> {
        let mut words = Vec::new();
        for (table, spec) in self.schema().iter() {
            let rows = |store: &Store| {
                let mut rows = BTreeMap::new();
                store.for_each_live(table, |ts, key, value| {
                    rows.insert(key.to_vec(), (ts, value.to_vec()));
                });
                rows
            };
            let (own, others) = (rows(self), rows(other));
            let keys: BTreeSet<_> = own.keys().chain(others.keys()).collect();
            let differing = keys.into_iter().filter(|key| own.get(*key) != others.get(*key));
            words.extend(differing.take(most - words.len()).map(|key| {
                let show = |row: Option<&(u64, Vec<u8>)>| match row {
                    Some((ts, value)) => format!("{} of t{ts}", value.escape_ascii()),
                    None => "nothing".into(),
                };
                let key_words = key.escape_ascii();
                format!("{} {key_words}: {} / {}", spec.name, show(own.get(key)), show(others.get(key)))
            }));
        }
        words
    }
}

/// Two independent 64-bit FNV-like hashes with a strong finish. No defence against malice is needed here.
fn row(table: TableId, ts: u64, key: &[u8], value: &[u8]) -> u128 {
    let mut low = Mixer(0x243f_6a88_85a3_08d3);
    let mut high = Mixer(0x1319_8a2e_0370_7344);
    for mixer in [&mut low, &mut high] {
        for word in [u64::from(table.0), ts, key.len() as u64, value.len() as u64] {
            mixer.add(word);
        }
        for bytes in [key, value] {
            for chunk in bytes.chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                mixer.add(u64::from_le_bytes(word));
            }
        }
    }
    u128::from(high.finish()) << 64 | u128::from(low.finish())
}

struct Mixer(u64);

impl Mixer {
    fn add(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (product >> 64) as u64 ^ (product as u64).rotate_left(23) ^ self.0.rotate_left(5);
    }

    fn finish(mut self) -> u64 {
        self.add(0);
        self.add(0x5851_f42d_4c95_7f2d);
        self.0
    }
}
