//! What a chain proves that it does not hold any more: somebody cut files of its journal, or removed some, or a copy was interrupted.
//!
//! What is cut where a group ends looks whole. So every copy leaves a mark when it has come to its end, a small file whose name says how far
//! the journal was copied: `copied-SEGMENT-OFFSET`, the segment in decimal digits as in its file's name, the offset in hexadecimal ones. Only
//! the furthest stays. A chain of an earlier build has none; then its checkpoints tell, of which each was written when the journal was at
//! least where its records go on.

use highwater_disk::journal::{SegmentSummary, Summary, segment_name};
use highwater_disk::{Disk, DiskFile};
use serde_json::json;

use super::super::remains::checkpoints;
use super::chain_disk::ChainDisk;
use super::place::Place;

const PREFIX: &str = "copied-";

/// How far a journal was copied: the segment, and the offset in its file.
type Mark = (u64, u64);

/// What is missing of a chain's journal, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// In front of what is there: early moments are gone.
    pub beginning: Option<String>,
    /// Behind it: so are the last ones.
    pub end: Option<String>,
}

impl Lacks {
    /// Of a chain with a journal of this life, which holds what its summary says. That may be of a part up to damage.
    ///
    /// # Errors
    /// In words, if the chain cannot be read.
    pub fn of(chain: &ChainDisk, life: u64, journal: &Summary) -> Result<Lacks, String> {
        let (Some(first), Some(last)) = (journal.segments.first(), journal.segments.last()) else {
            return Ok(Lacks::default());
        };
        let mut lacks = Lacks::default();
        let checkpoints = checkpoints(chain, life)?;
        let before =
            |begin: &[u64], needed: &[u64]| needed.iter().zip(begin).any(|(needed, begin)| needed < begin);
        for (manifest, positions) in &checkpoints {
            let positions: Vec<u64> = positions.iter().map(|position| position.0).collect();
            let number = manifest.number;
            if before(&first.positions, &positions) {
                lacks.beginning.get_or_insert(format!(
                    "the journal begins with {}, and checkpoint {number} needs what came before: files were removed",
                    first.file
                ));
            }
            if before(&positions, &journal.positions) {
                lacks.end = Some(format!(
                    "the journal ends in {} at offset {}, and went further when checkpoint {number} was written: the file was cut, later ones \
                     were removed, or a copy was interrupted",
                    last.file, last.end
                ));
            }
        }
        if let Some(why) = torn(chain, last)? {
            lacks.end = Some(why);
        }
        if let Some(mark) = marks(chain)?.into_iter().map(|(mark, _)| mark).max()
            && mark > (last.number, last.end)
        {
            let (file, offset) = (segment_name(mark.0), mark.1);
            let what = if mark.0 == last.number { "the file was cut" } else { "files were cut or removed" };
            lacks.end = Some(format!(
                "the journal ends in {} at offset {}, and had been copied up to offset {offset} of {file}: {what}",
                last.file, last.end
            ));
        }
        if let Some(damage) = &journal.damage {
            lacks.end = Some(damage.to_string());
        }
        Ok(lacks)
    }

    /// Both, in words.
    pub fn words(&self) -> Vec<String> {
        self.beginning.iter().chain(&self.end).cloned().collect()
    }
}

/// Whether anything was ever copied to a chain, besides the file that says whose it is: its files are gone then, if there is no journal.
///
/// # Errors
/// In words.
pub fn had_something(chain: &ChainDisk) -> Result<bool, String> {
    let names = chain.names().map_err(|error| format!("cannot read {chain}: {error}"))?;
    Ok(names.iter().any(|name| name != super::CHAIN))
}

/// The last file goes on behind its last whole group. A copy ends where that does.
fn torn(chain: &ChainDisk, last: &SegmentSummary) -> Result<Option<String>, String> {
    let len = chain.open(&last.file).and_then(|file| file.len());
    let len = len.map_err(|error| format!("cannot read {}: {error}", last.file))?;
    let what = || {
        format!(
            "the last group of {} is not there as a whole, from offset {} on: a copy was interrupted, or the file was cut",
            last.file, last.end
        )
    };
    Ok((len > last.end).then(what))
}

/// A copy to this chain came to its end, and the journal ends there.
pub(super) fn mark(place: &dyn Place, chain: &ChainDisk, last: &SegmentSummary) -> Result<(), String> {
    let marks = marks(chain)?;
    let reached = (last.number, last.end);
    if marks.iter().any(|(mark, _)| *mark >= reached) {
        return Ok(());
    }
    let text = json!({"journal": last.file, "end": last.end}).to_string() + "\n";
    let name = format!("{PREFIX}{:016}-{:016x}", reached.0, reached.1);
    let published = place.publish(&chain.path(&name), text.as_bytes());
    published.map_err(|error| format!("cannot write {name}: {error}"))?;
    for (_, old) in marks {
        place.remove(&chain.path(&old)).map_err(|error| format!("cannot remove {old}: {error}"))?;
    }
    Ok(())
}

/// How far copies came, each with its file.
fn marks(chain: &ChainDisk) -> Result<Vec<(Mark, String)>, String> {
    let parse = |name: &str| {
        let (segment, offset) = name.strip_prefix(PREFIX)?.split_once('-')?;
        Some((segment.parse().ok()?, u64::from_str_radix(offset, 16).ok()?))
    };
    let names = chain.names().map_err(|error| format!("cannot read {chain}: {error}"))?;
    Ok(names.into_iter().filter_map(|name| Some((parse(&name)?, name))).collect())
}
