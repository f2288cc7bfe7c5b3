//! `highwater checkpoint verify`.

use std::time::Instant;

use highwater_core::KeyKind;
use highwater_core::codec::Malformed;
use highwater_disk::Disk;
use highwater_disk::checkpoint::{Error, Manifest, PartReader, published};
use highwater_store::{ExportedRecord, ExportedRecords};
use serde_json::{Value, json};

use super::args::{VerifyArgs, verdict};
use crate::failure::Result;
use crate::numbers;
use crate::output::print;
use crate::progress::Progress;

/// What is known of a checkpoint whose every byte was looked at.
struct Verified {
    number: u64,
    bytes: u64,
    records: u64,
    seconds: f64,
    /// Of each file that is wrong the first thing.
    errors: Vec<Error>,
}

/// Runs the command.
pub(super) fn run(args: &VerifyArgs) -> Result<()> {
    let (folder, numbers) = args.chosen.find()?;
    let mut progress = Progress::new();
    let mut all = Vec::new();
    for &number in &numbers {
        progress.step(&format!("checkpoint {number}"));
        let verified = verify(&folder, number, &mut progress);
        // A running node removes its old ones.
        let gone = published(&folder).is_ok_and(|there| !there.contains(&number));
        if gone {
            progress.clear();
            eprintln!("highwater: checkpoint {number} was removed meanwhile");
        } else {
            all.push(verified);
        }
    }
    progress.clear();
    drop(progress);
    let damaged = all.iter().filter(|verified| !verified.errors.is_empty()).count();
    let text = match args.json {
        true => format!("{}\n", report(&all)),
        false => all.iter().map(line).collect(),
    };
    print(&text)?;
    verdict(damaged, all.len())
}

/// What is wrong with a folder's checkpoints, in words; nothing if all of them are whole.
///
/// # Errors
/// If the folder cannot be read.
pub fn damage_of(folder: &impl Disk, progress: &mut Progress) -> std::result::Result<Vec<String>, Error> {
    let numbers = published(folder)?;
    let errors = numbers.into_iter().flat_map(|number| verify(folder, number, progress).errors);
    Ok(errors.map(|error| error.to_string()).collect())
}

fn verify(folder: &impl Disk, number: u64, progress: &mut Progress) -> Verified {
    let began = Instant::now();
    let mut verified = Verified { number, bytes: 0, records: 0, seconds: 0.0, errors: Vec::new() };
    match Manifest::read(folder, number) {
        Ok(manifest) => {
            for part in 0..manifest.parts.len() {
                let outcome = verify_part(folder, &manifest, part, &mut verified, progress);
                verified.errors.extend(outcome.err());
            }
        }
        Err(error) => verified.errors.push(error),
    }
    verified.seconds = began.elapsed().as_secs_f64();
    verified
}

fn verify_part(
    folder: &impl Disk,
    manifest: &Manifest,
    part: usize,
    verified: &mut Verified,
    progress: &mut Progress,
) -> std::result::Result<(), Error> {
    let mut reader = PartReader::open(folder, manifest, part)?;
    let (before, all) = (verified.bytes, manifest.len_bytes());
    let mut records = 0;
    while let Some(chunk) = reader.next_chunk()? {
        let counted = count(manifest, chunk);
        records += counted.map_err(|malformed| reader.nonsense(malformed))?;
        verified.bytes = before + reader.progress().0;
        progress.count(&format!("checkpoint {}", manifest.number), verified.bytes, Some(all));
    }
    verified.bytes = before + reader.progress().0;
    verified.records += records;
    reader.check_records(records)
}

/// How many records there are, each of which its table can take.
fn count(manifest: &Manifest, chunk: &[u8]) -> std::result::Result<u64, Malformed> {
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

fn line(verified: &Verified) -> String {
    let Verified { number, bytes, records, seconds, errors } = verified;
    let bytes = numbers::bytes(*bytes);
    if errors.is_empty() {
        return format!("checkpoint {number:<6} whole    {records} records, {bytes}, {seconds:.1} s\n");
    }
    errors.iter().map(|error| format!("checkpoint {number:<6} DAMAGED  {error}\n")).collect()
}

fn report(all: &[Verified]) -> Value {
    let checkpoint = |verified: &Verified| {
        let errors: Vec<String> = verified.errors.iter().map(Error::to_string).collect();
        json!({
            "number": verified.number, "whole": errors.is_empty(), "bytes": verified.bytes,
            "records": verified.records, "seconds": verified.seconds, "errors": errors,
        })
    };
    json!({"checkpoints": all.iter().map(checkpoint).collect::<Vec<_>>()})
}
