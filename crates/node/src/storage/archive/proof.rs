//! What a chain proves that it does not hold any more: somebody cut files of its journal, or removed some, or a copy was interrupted.
//!
//! What is cut where a group ends looks whole. So every copy leaves a mark when it has come to its end, a small file whose name says how far
//! the journal was copied: `copied-SEGMENT-OFFSET`, the segment in decimal digits as in its file's name, the offset in hexadecimal ones. Only
//! the furthest stays. A chain of an earlier build has none; then its checkpoints tell, of which each was written when the journal was at
//! least where its records go on.
//!
//! A copy may go on while a chain is read. So what the chain [promises](Promises) is noted first: what is promised was copied before that, and a
//! journal that is read afterwards holds it. The other way round, every mark that came in between would say that the file was cut. Between the
//! steps of a copy a chain looks as if the copy had been interrupted there: [`Lacks::unfinished`].

use highwater_disk::checkpoint::Manifest;
use highwater_disk::journal::{SegmentSummary, Summary, segment_name};
use highwater_disk::{Disk, DiskFile};
use highwater_seam::LogPosition;
use serde_json::json;

use super::super::remains::checkpoints;
use super::chain_disk::ChainDisk;
use super::place::Place;

const PREFIX: &str = "copied-";

/// How far a journal was copied: the segment, and the offset in its file.
type Mark = (u64, u64);

/// What a chain says that its journal holds, noted *before* that is read.
#[derive(Clone, Debug)]
pub struct Promises {
    /// Its checkpoints, oldest first, each with where the journal goes on behind it.
    pub checkpoints: Vec<(Manifest, Vec<LogPosition>)>,
    /// How far a copy came that came to its end; `None` before the first one did.
    mark: Option<Mark>,
}

impl Promises {
    /// Of a chain of this life.
    ///
    /// # Errors
    /// In words, if the chain cannot be read.
    pub fn of(chain: &ChainDisk, life: u64) -> Result<Promises, String> {
        let mark = marks(chain)?.into_iter().map(|(mark, _)| mark).max();
        Ok(Promises { checkpoints: checkpoints(chain, life)?, mark })
    }
}

/// What is missing of a chain's journal, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// In front of what is there: early moments are gone.
    pub beginning: Option<String>,
    /// Behind it: so are the last ones.
    pub end: Option<String>,
    /// Everything that was copied by copies that came to their end is there. Another one was interrupted, or is under way.
    pub unfinished: bool,
    /// The journal is damaged in the middle: no step of a copy leaves that.
    pub damaged: bool,
}

impl Lacks {
    /// Of a chain that promised this before its journal was read, which holds what its summary says. That may be of a part up to damage.
    ///
    /// # Errors
    /// In words, if the chain cannot be read.
    pub fn of(chain: &ChainDisk, promised: &Promises, journal: &Summary) -> Result<Lacks, String> {
        let (Some(first), Some(last)) = (journal.segments.first(), journal.segments.last()) else {
            return Ok(Lacks::default());
        };
        let mut lacks = Lacks::default();
        let before =
            |begin: &[u64], needed: &[u64]| needed.iter().zip(begin).any(|(needed, begin)| needed < begin);
        for (manifest, positions) in &promised.checkpoints {
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
        lacks.unfinished = lacks.end.is_some() && lacks.beginning.is_none();
        if let Some(mark) = promised.mark.filter(|mark| *mark > (last.number, last.end)) {
            let (file, offset) = (segment_name(mark.0), mark.1);
            let what = if mark.0 == last.number { "the file was cut" } else { "files were cut or removed" };
            lacks.end = Some(format!(
                "the journal ends in {} at offset {}, and had been copied up to offset {offset} of {file}: {what}",
                last.file, last.end
            ));
            lacks.unfinished = false;
        }
        if let Some(damage) = &journal.damage {
            lacks.end = Some(damage.to_string());
            lacks.unfinished = false;
            lacks.damaged = true;
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

/// Whether a copy to a chain ever came to its end.
///
/// # Errors
/// In words.
pub fn was_copied(chain: &ChainDisk) -> Result<bool, String> {
    Ok(!marks(chain)?.is_empty())
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

/// How far copies came, each with its file. A folder is listed in no order, so that the new mark may be missed and the one before be gone: who
/// finds none looks once more.
fn marks(chain: &ChainDisk) -> Result<Vec<(Mark, String)>, String> {
    let parse = |name: &str| {
        let (segment, offset) = name.strip_prefix(PREFIX)?.split_once('-')?;
        Some((segment.parse().ok()?, u64::from_str_radix(offset, 16).ok()?))
    };
    let look = || {
        let names = chain.names().map_err(|error| format!("cannot read {chain}: {error}"))?;
        Ok(names.into_iter().filter_map(|name| Some((parse(&name)?, name))).collect())
    };
    let found: Vec<(Mark, String)> = look()?;
    if found.is_empty() { look() } else { Ok(found) }
}
