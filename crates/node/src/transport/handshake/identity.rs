//! What must be the same on all nodes.

use std::fmt;

use highwater_core::codec::{Malformed, Reader};
use highwater_core::schema::{IndexKind, KeyKind};
use highwater_core::{Durability, Incarnation, Level, Levels, NodeId, Schema, Speaks};
use highwater_engines::EngineKind;

/// What must be the same on all nodes, and who this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's name.
    pub cluster: String,
    /// This node.
    pub node: NodeId,
    /// This life of its memory.
    pub incarnation: Incarnation,
    /// How many nodes the cluster has, if that never changes; else 0.
    pub nodes: u8,
    /// How many workers each node has.
    pub streams: u16,
    /// Which engine runs.
    pub engine: EngineKind,
    /// The levels that it speaks, and the one that it uses by now.
    pub speaks: Speaks,
    /// The tables; the log names them by number. At a level that two nodes speak they have the same ones.
    pub schema: Schema,
    /// The procedures. Only what they write travels, so builds may differ in them.
    pub procedures: Fingerprint,
    /// What its vote is worth.
    pub durability: Durability,
}

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

    fn of(items: impl Iterator<Item = impl AsRef<str>>) -> Fingerprint {
        let mut fingerprint = Fingerprint { count: 0, hash: FNV_START };
        for item in items {
            fingerprint.count += 1;
            fingerprint.hash = fnv(fnv(fingerprint.hash, item.as_ref().as_bytes()), &[0xff]);
        }
        fingerprint
    }
}

impl Identity {
    /// The tables that it has at a level.
    pub fn tables(&self, level: Level) -> Fingerprint {
        Fingerprint::of_tables(&self.schema, level)
    }
}

/// As it travels: one byte each. Builds before levels say zeros, and mean the first.
pub(super) fn speaks_bytes(speaks: Speaks) -> [u8; 3] {
    [speaks.levels.oldest.0, speaks.levels.newest.0, speaks.in_use.0]
}

/// Reads it.
pub(super) fn read_speaks(reader: &mut Reader<'_>) -> Result<Speaks, Malformed> {
    let [oldest, newest, in_use] = [reader.u8()?, reader.u8()?, reader.u8()?].map(Level);
    if newest < Level::FIRST {
        return Ok(Speaks::FIRST);
    }
    let speaks = Speaks { levels: Levels { oldest, newest }, in_use };
    if speaks.levels.speak(in_use) { Ok(speaks) } else { Err(Malformed("levels")) }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (hash {:016x})", self.count, self.hash)
    }
}

/// A cluster's name as it travels.
pub(super) fn cluster_hash(name: &str) -> u64 {
    fnv(FNV_START, name.as_bytes())
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: stable over versions, good enough to tell apart what people named.
fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use highwater_core::TableSpec;

    use super::*;

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
