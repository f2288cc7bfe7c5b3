//! Names that two builds must have alike, as a number.

use std::fmt;

use crate::level::Level;
use crate::schema::{IndexKind, KeyKind, Schema};

/// A list of names that two builds must have alike, in the same order: how many there are, and a hash of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// How many.
    pub count: u16,
    /// FNV-1a over each item's bytes, each item ended by a byte that no text has.
    pub hash: u64,
}

impl Fingerprint {
    /// Of the tables that there are at a level: name, kind of keys and kind of index of each.
    pub fn of_tables(schema: &Schema, level: Level) -> Fingerprint {
        Fingerprint::of(schema.iter().take(schema.tables_at(level)).map(|(_, table)| {
            let keys = match table.keys {
                KeyKind::U64 => "u64",
                KeyKind::Bytes => "bytes",
            };
            let index = match table.index {
                IndexKind::Hash => "hash",
                IndexKind::Ordered => "ordered",
            };
            format!("{} {keys} {index}", table.name)
        }))
    }

    /// Of the procedures' names and versions.
    pub fn of_procedures(names: &[&'static str], versions: &[u32]) -> Fingerprint {
        assert_eq!(names.len(), versions.len(), "each has a version");
        Fingerprint::of(names.iter().zip(versions).map(|(name, version)| format!("{name} {version}")))
    }

    /// A name as it travels: a cluster's, say.
    pub fn of_name(name: &str) -> u64 {
        fnv(FNV_START, name.as_bytes())
    }

    fn of(items: impl Iterator<Item = impl AsRef<str>>) -> Fingerprint {
        let mut fingerprint = Fingerprint { count: 0, hash: FNV_START };
        for item in items {
            fingerprint.count += 1;
            fingerprint.hash = fnv(fnv(fingerprint.hash, item.as_ref().as_bytes()), &[0xff]);
        }
        fingerprint
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (hash {:016x})", self.count, self.hash)
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: stable over versions, good enough to tell apart what people named.
fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::TableSpec;

    fn tables(tables: &[(&'static str, KeyKind, IndexKind)]) -> Fingerprint {
        let spec = |&(name, keys, index)| TableSpec { name, keys, index };
        Fingerprint::of_tables(&Schema::new(tables.iter().map(spec).collect()), Level::FIRST)
    }

    #[test]
    fn tables_of_a_later_level_count_from_it_on() {
        let table = |name| TableSpec { name, keys: KeyKind::U64, index: IndexKind::Hash };
        let old = Schema::new(vec![table("a")]);
        let new = old.clone().with_tables_of(Level(2), vec![table("b")]);
        let at = |schema: &Schema, level| Fingerprint::of_tables(schema, Level(level));
        assert_eq!(at(&new, 1), at(&old, 1));
        assert_eq!(at(&new, 2), at(&Schema::new(vec![table("a"), table("b")]), 2));
        assert_ne!(at(&new, 2), at(&old, 2), "builds that both say they know the level");
    }

    #[test]
    fn whatever_changes_the_meaning_of_a_log_changes_the_fingerprint() {
        use {IndexKind::*, KeyKind::*};
        let mut seen = vec![
            tables(&[("a", U64, Hash), ("b", Bytes, Ordered)]),
            tables(&[("b", Bytes, Ordered), ("a", U64, Hash)]),
            tables(&[("a", Bytes, Hash), ("b", Bytes, Ordered)]),
            tables(&[("a", U64, Ordered), ("b", Bytes, Ordered)]),
            tables(&[("a", U64, Hash), ("c", Bytes, Ordered)]),
            tables(&[("a", U64, Hash)]),
            tables(&[]),
        ];
        assert_eq!(seen[0], tables(&[("a", U64, Hash), ("b", Bytes, Ordered)]), "and nothing else does");
        seen.sort_by_key(|fingerprint| fingerprint.hash);
        assert!(seen.windows(2).all(|pair| pair[0].hash != pair[1].hash), "{seen:?}");
    }

    #[test]
    fn names_do_not_run_into_each_other() {
        let of = |names: &[&'static str]| Fingerprint::of_procedures(names, &vec![1; names.len()]);
        assert_ne!(of(&["bank.pay", "er"]).hash, of(&["bank.payer", ""]).hash);
        assert_ne!(of(&["bank.pay", "bank.read"]), of(&["bank.read", "bank.pay"]));
        assert_eq!(of(&["bank.pay"]), of(&["bank.pay"]));
        assert_ne!(
            of(&["bank.pay"]),
            Fingerprint::of_procedures(&["bank.pay"], &[2]),
            "it means something else now"
        );
    }
}
