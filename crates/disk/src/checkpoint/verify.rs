//! Reads checkpoints to their last byte without loading them: whether a node that starts could.

use highwater_core::KeyKind;
use highwater_core::codec::Malformed;
use highwater_store::{ExportedRecord, ExportedRecords};

use super::error::Error;
use super::manifest::Manifest;
use super::part_reader::PartReader;
use crate::disk::Disk;

/// Reads a part and checks everything that loading it would. Returns how many records it has. `told`: how many bytes more were read.
///
/// # Errors
/// [`Error::Io`], [`Error::Damaged`].
///
/// # Panics
/// Unless there is such a part.
pub fn verify_part(
    disk: &impl Disk,
    manifest: &Manifest,
    part: usize,
    told: &mut dyn FnMut(u64),
) -> Result<u64, Error> {
    let mut reader = PartReader::open(disk, manifest, part)?;
    let (mut records, mut before) = (0, 0);
    while let Some(chunk) = reader.next_chunk()? {
        let counted = count(manifest, chunk);
        records += counted.map_err(|malformed| reader.nonsense(malformed))?;
        let (read, _) = reader.progress();
        told(read - before);
        before = read;
    }
    told(reader.progress().0 - before);
    reader.check_records(records)?;
    Ok(records)
}

/// Reads a checkpoint to its last byte.
///
/// # Errors
/// The first part that is wrong.
pub fn verify(disk: &impl Disk, number: u64) -> Result<Manifest, Error> {
    let manifest = Manifest::read(disk, number)?;
    for part in 0..manifest.parts.len() {
        verify_part(disk, &manifest, part, &mut |_| {})?;
    }
    Ok(manifest)
}

/// How many records there are, each of which its table can take.
fn count(manifest: &Manifest, chunk: &[u8]) -> Result<u64, Malformed> {
    let mut records = 0;
    for record in ExportedRecords::new(chunk) {
        let ExportedRecord { table, key, .. } = record?;
        let table = manifest.tables.get(usize::from(table.0)).ok_or(Malformed("table"))?;
        if table.keys == KeyKind::U64 && key.len() != 8 {
            return Err(Malformed("key (wrong kind for its table)"));
        }
        records += 1;
    }
    Ok(records)
}
