//! `highwater checkpoint verify`.

use std::time::Instant;

use highwater_disk::Disk;
use highwater_disk::checkpoint::{Error, Manifest, published, verify_part};
use serde_json::{Value, json};

use super::args::{VerifyArgs, verdict};
use crate::failure::Result;
use crate::numbers;
use crate::output::print;
use crate::progress::Progress;
use crate::start;

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
    let start = start::words(&args.chosen.dir);
    let text = match args.json {
        true => format!("{}\n", report(&all, start)),
        false => {
            let start = start.map(|words| format!("start      {words}\n"));
            all.iter().map(line).chain(start).collect()
        }
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
                let (all, read) = (manifest.len_bytes(), &mut verified.bytes);
                let records = verify_part(folder, &manifest, part, &mut |more| {
                    *read += more;
                    progress.count(&format!("checkpoint {number}"), *read, Some(all));
                });
                match records {
                    Ok(records) => verified.records += records,
                    Err(error) => verified.errors.push(error),
                }
            }
        }
        Err(error) => verified.errors.push(error),
    }
    verified.seconds = began.elapsed().as_secs_f64();
    verified
}

fn line(verified: &Verified) -> String {
    let Verified { number, bytes, records, seconds, errors } = verified;
    let bytes = numbers::bytes(*bytes);
    if errors.is_empty() {
        return format!("checkpoint {number:<6} whole    {records} records, {bytes}, {seconds:.1} s\n");
    }
    errors.iter().map(|error| format!("checkpoint {number:<6} DAMAGED  {error}\n")).collect()
}

fn report(all: &[Verified], start: Option<String>) -> Value {
    let checkpoint = |verified: &Verified| {
        let errors: Vec<String> = verified.errors.iter().map(Error::to_string).collect();
        json!({
            "number": verified.number, "whole": errors.is_empty(), "bytes": verified.bytes,
            "records": verified.records, "seconds": verified.seconds, "errors": errors,
        })
    };
    json!({"checkpoints": all.iter().map(checkpoint).collect::<Vec<_>>(), "start": start})
}
