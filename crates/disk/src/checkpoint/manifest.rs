//! The manifest: what a checkpoint is, and the file that makes it one.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use highwater_core::codec::{Malformed, Reader, put_bytes, put_varint};
use highwater_core::library::RESERVED;
use highwater_core::{IndexKind, KeyKind, Schema, TableSpec, Timestamp};

use super::error::Error;
use super::files::read_whole;
use super::format::{FORMAT_VERSION, MANIFEST_MAGIC, continued};
use super::names::{Kind, Name};
use crate::disk::Disk;

/// A published checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Counts a folder's checkpoints, from 1; numbers of those that failed may be missing.
    pub number: u64,
    /// Everything at or below was in the store when the scan began.
    pub floor: Timestamp,
    /// Once the log is applied from the floor up to here, the store is a state that existed.
    pub complete_at: Timestamp,
    /// The tables, by id.
    pub tables: Vec<TableShape>,
    /// The parts, by number.
    pub parts: Vec<Part>,
    /// What the engine wants to know when it goes on from here: epoch, members, where each stream's log goes on. Its business.
    pub engine: Vec<u8>,
}

/// What a checkpoint knows of a table: enough to notice that it isn't the same. The index may be another kind than it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Its name in the schema.
    pub name: String,
    /// How its keys are stored.
    pub keys: KeyKind,
}

/// One file of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Bytes of the file.
    pub len: u64,
    /// CRC-32 over the file, its checksums left out.
    pub crc: u32,
    /// Records, tombstones included.
    pub records: u64,
    /// The largest timestamp among them; zero if there are none.
    pub newest: Timestamp,
}

/// Most bytes of an engine's own in a manifest.
pub const MAX_ENGINE_BYTES: usize = 16 << 20;
/// Most bytes of a manifest: an engine's, and room for 65,535 parts and 255 tables with long names.
const MAX_MANIFEST_BYTES: usize = 64 << 20;
/// Bytes in front of tables, parts and the engine's own.
const HEAD_BYTES: usize = 40;
/// Bytes in front of what the checksum covers: magic, version, two zeros, the checksum.
const COVERED_FROM: usize = 16;

impl Manifest {
    /// The file's name.
    pub fn file(&self) -> String {
        manifest_name(self.number)
    }

    /// The name of a part's file.
    ///
    /// # Panics
    /// Unless there is such a part.
    pub fn part_file(&self, part: usize) -> String {
        assert!(part < self.parts.len(), "parts are numbered from 0");
        Name { number: self.number, kind: Kind::Part(part as u16) }.to_string()
    }

    /// Bytes of all parts.
    pub fn len_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// Records of all parts, tombstones included.
    pub fn records(&self) -> u64 {
        self.parts.iter().map(|part| part.records).sum()
    }

    /// Reads the manifest of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`], [`Error::NewerFormat`].
    pub fn read(disk: &impl Disk, number: u64) -> Result<Manifest, Error> {
        let file = manifest_name(number);
        let bytes = read_whole(disk, &file, MAX_MANIFEST_BYTES)?;
        check(&file, &bytes)?;
        let manifest = Manifest::decode(&bytes).map_err(|malformed| {
            // Its checksum is right: whoever wrote it was wrong.
            Error::damaged(&file, 0, malformed.to_string())
        })?;
        if manifest.number != number {
            let what = format!("it is the manifest of checkpoint {}", manifest.number);
            return Err(Error::damaged(&file, COVERED_FROM as u64, what));
        }
        Ok(manifest)
    }

    /// Tables that can take the records, whatever program wrote them. All are ordered: their index is not part of a checkpoint.
    pub fn schema(&self) -> Schema {
        let table = |shape: &TableShape| TableSpec {
            name: kept(&shape.name),
            keys: shape.keys,
            index: IndexKind::Ordered,
        };
        Schema::new(self.tables.iter().map(table).collect())
    }

    /// Whether a store of this schema can take the records: its first tables must be those of the checkpoint. It may have
    /// more behind them, or in [reserved](RESERVED) places, which a later build has added and of which there is nothing yet.
    ///
    /// # Errors
    /// [`Error::OtherSchema`], with the first difference in words.
    pub fn check_schema(&self, schema: &Schema) -> Result<(), Error> {
        let own = TableShape::all(schema);
        let differs = |(id, (theirs, own)): (usize, (&TableShape, &TableShape))| {
            (theirs != own && theirs.name != RESERVED)
                .then(|| format!("table {id} is {theirs} there and {own} here"))
        };
        let tables = self.tables.iter().zip(&own).enumerate();
        let counts = || {
            let (theirs, own) = (self.tables.len(), own.len());
            (theirs > own).then(|| format!("it has {theirs} of them, and there are {own} here"))
        };
        match tables.filter_map(differs).next().or_else(counts) {
            Some(what) => Err(Error::OtherSchema { file: self.file(), what }),
            None => Ok(()),
        }
    }

    /// The bytes of the file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + 32 * self.parts.len() + self.engine.len());
        out.extend_from_slice(&MANIFEST_MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&[0; COVERED_FROM - 10]);
        for word in [self.number, self.floor.0, self.complete_at.0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        put_varint(&mut out, self.tables.len() as u64);
        for table in &self.tables {
            out.push(match table.keys {
                KeyKind::U64 => 0,
                KeyKind::Bytes => 1,
            });
            put_bytes(&mut out, table.name.as_bytes());
        }
        put_varint(&mut out, self.parts.len() as u64);
        for part in &self.parts {
            out.extend_from_slice(&part.len.to_le_bytes());
            out.extend_from_slice(&part.crc.to_le_bytes());
            out.extend_from_slice(&part.records.to_le_bytes());
            out.extend_from_slice(&part.newest.0.to_le_bytes());
        }
        put_bytes(&mut out, &self.engine);
        let crc = checksum(&out);
        out[COVERED_FROM - 4..COVERED_FROM].copy_from_slice(&crc.to_le_bytes());
        assert!(out.len() <= MAX_MANIFEST_BYTES, "a manifest has {} bytes", out.len());
        out
    }

    fn decode(bytes: &[u8]) -> Result<Manifest, Malformed> {
        let mut reader = Reader::new(bytes);
        reader.take(COVERED_FROM)?;
        let (number, floor) = (reader.u64()?, Timestamp(reader.u64()?));
        let complete_at = Timestamp(reader.u64()?);
        let tables = (0..reader.varint()?).map(|_| table(&mut reader)).collect::<Result<_, _>>()?;
        let parts = (0..reader.varint()?).map(|_| part(&mut reader)).collect::<Result<Vec<_>, _>>()?;
        let engine = reader.bytes()?.to_vec();
        let counted = (1..=usize::from(u16::MAX)).contains(&parts.len());
        if !reader.is_empty() || !counted || floor > complete_at || complete_at > Timestamp::MAX {
            return Err(Malformed("manifest"));
        }
        Ok(Manifest { number, floor, complete_at, tables, parts, engine })
    }
}

fn table(reader: &mut Reader<'_>) -> Result<TableShape, Malformed> {
    let keys = match reader.u8()? {
        0 => KeyKind::U64,
        1 => KeyKind::Bytes,
        _ => return Err(Malformed("kind of keys")),
    };
    let name = String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| Malformed("name of a table"))?;
    Ok(TableShape { name, keys })
}

fn part(reader: &mut Reader<'_>) -> Result<Part, Malformed> {
    let (len, crc) = (reader.u64()?, reader.u32()?);
    Ok(Part { len, crc, records: reader.u64()?, newest: Timestamp(reader.u64()?) })
}

/// Whether this is a manifest that was read as it was written, and of a version that is known.
fn check(file: &str, bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() < HEAD_BYTES {
        return Err(Error::damaged(file, bytes.len() as u64, "it ends there, before a manifest could"));
    }
    if bytes[..8] != MANIFEST_MAGIC {
        return Err(Error::damaged(file, 0, "it does not begin as a manifest does"));
    }
    if bytes[COVERED_FROM - 4..COVERED_FROM] != checksum(bytes).to_le_bytes() {
        return Err(Error::damaged(file, COVERED_FROM as u64 - 4, "its checksum is wrong"));
    }
    match u16::from_le_bytes([bytes[8], bytes[9]]) {
        FORMAT_VERSION => Ok(()),
        version if version > FORMAT_VERSION => Err(Error::NewerFormat { file: file.to_string(), version }),
        version => Err(Error::damaged(file, 8, format!("there never was a format {version}"))),
    }
}

/// Over everything but the checksum itself.
fn checksum(bytes: &[u8]) -> u32 {
    continued(0, &[&bytes[..COVERED_FROM - 4], &bytes[COVERED_FROM..]])
}

/// The name of a checkpoint's manifest.
pub fn manifest_name(number: u64) -> String {
    Name { number, kind: Kind::Manifest }.to_string()
}

/// A name for as long as the process lives: a table's is that of a constant everywhere else. Each is kept once.
fn kept(name: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    all.insert(name);
    name
}

impl TableShape {
    /// Those of a schema.
    pub fn all(schema: &Schema) -> Vec<TableShape> {
        let shape = |(_, spec): (_, &highwater_core::TableSpec)| TableShape {
            name: spec.name.to_string(),
            keys: spec.keys,
        };
        schema.iter().map(shape).collect()
    }
}

impl std::fmt::Display for TableShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = match self.keys {
            KeyKind::U64 => "integer",
            KeyKind::Bytes => "byte-string",
        };
        write!(f, "{:?} with {keys} keys", self.name)
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::{IndexKind, TableSpec};

    use super::*;

    #[test]
    fn whoever_has_a_checkpoint_has_its_tables() {
        let spec = |name, keys| TableSpec { name, keys, index: IndexKind::Hash };
        let schema = Schema::new(vec![spec("a", KeyKind::U64), spec("b", KeyKind::Bytes)]);
        let tables = TableShape::all(&schema);
        let (floor, complete_at) = (Timestamp(1), Timestamp(1));
        let manifest =
            Manifest { number: 1, floor, complete_at, tables, parts: Vec::new(), engine: Vec::new() };
        assert!(manifest.check_schema(&manifest.schema()).is_ok());
        assert_eq!(TableShape::all(&manifest.schema()), manifest.tables);
    }

    #[test]
    fn a_reserved_place_may_be_taken_and_no_other_may_change() {
        let schema = |names: &[&'static str], keys| {
            let spec = |name: &&'static str| TableSpec { name, keys, index: IndexKind::Hash };
            Schema::new(names.iter().map(spec).collect())
        };
        let written = Manifest {
            number: 1,
            floor: Timestamp(1),
            complete_at: Timestamp(1),
            tables: TableShape::all(&schema(&["a", RESERVED, "b"], KeyKind::U64)),
            parts: Vec::new(),
            engine: Vec::new(),
        };
        let fits = |names, keys| written.check_schema(&schema(names, keys)).is_ok();
        assert!(fits(&["a", RESERVED, "b"], KeyKind::U64));
        assert!(fits(&["a", "new", "b", "c"], KeyKind::U64));
        assert!(!fits(&["a", "new", "c"], KeyKind::U64));
        assert!(!fits(&["a", "new"], KeyKind::U64));
        assert!(!fits(&["a", "new", "b"], KeyKind::Bytes));
    }
}
