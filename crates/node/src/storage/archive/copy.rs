//! From a node's folder, which the node may be writing to, to a chain: checkpoints that are not there, and what came of the journal.

use std::io;

use highwater_disk::checkpoint::{Error, Manifest, manifest_name, published, remove_leftovers};
use highwater_disk::journal::{SegmentSummary, Summary, read_from, segments};
use highwater_disk::{Disk, DiskFile, JournalError};

use super::super::checkpoint::Preamble;
use super::super::directory::{DataDirectory, DirectoryFile};
use super::chain_disk::ChainDisk;
use super::place::{Place, Source};
use super::proof::mark;

/// A node writes while its files are read: what looks damaged is looked at so often.
const LOOKS: u32 = 5;

/// Why a copy came to nothing, or not to its end.
pub(super) enum CopyError {
    /// The chain cannot go on with what is there; why.
    Gap(&'static str),
    /// Anything else.
    Words(String),
}

impl From<String> for CopyError {
    fn from(why: String) -> CopyError {
        CopyError::Words(why)
    }
}

/// What a copy brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    /// Checkpoints that were not there.
    pub checkpoints: Vec<u64>,
    /// Bytes of them.
    pub checkpoint_bytes: u64,
    /// Bytes of the journal that were not there.
    pub journal_bytes: u64,
}

/// Brings what is new in a node's folder to a chain of the same life, which ends as `known` says; and where it ends after that.
pub(super) fn copy_into(
    place: &dyn Place,
    chain: &ChainDisk,
    known: Option<Summary>,
    source: &DataDirectory,
    life: u64,
    told: &mut impl FnMut(u64),
) -> Result<(Brought, Summary), CopyError> {
    let mut bytes = 0;
    let mut copy = Copy {
        place,
        chain,
        source,
        told: &mut |more| {
            bytes += more;
            told(bytes);
        },
    };
    let (checkpoints, checkpoint_bytes) = copy.checkpoints(known.is_none())?;
    let begins = segments(chain).map_err(|error| error.to_string())?.is_empty();
    let (journal, journal_bytes) = copy.journal(known, life)?;
    if begins && !goes_back_far_enough(chain, &journal)? {
        return Err(CopyError::Gap("the node removed files while they were copied"));
    }
    if let Some(last) = journal.segments.last() {
        mark(place, chain, last)?;
    }
    let end = Summary {
        journal: journal.journal,
        segments: journal.segments.last().cloned().into_iter().collect(),
        ..Summary::default()
    };
    Ok((Brought { checkpoints, checkpoint_bytes, journal_bytes }, end))
}

/// Whether the journal holds what the oldest checkpoint needs: the node may have removed it between the one copy and the other.
fn goes_back_far_enough(chain: &ChainDisk, journal: &Summary) -> Result<bool, CopyError> {
    let words = |error: Error| error.to_string();
    let Some(oldest) = published(chain).map_err(words)?.first().copied() else { return Ok(true) };
    let manifest = Manifest::read(chain, oldest).map_err(words)?;
    let (preamble, _) = Preamble::decode(&manifest.engine).map_err(|why| why.0.to_string())?;
    let begins = journal.segments.first().map(|first| first.positions.clone()).unwrap_or_default();
    Ok(begins.iter().zip(&preamble.positions).all(|(begins, needed)| *begins <= needed.0))
}

/// From where to where.
struct Copy<'a> {
    place: &'a dyn Place,
    chain: &'a ChainDisk,
    source: &'a DataDirectory,
    /// Told how many bytes more were copied.
    told: &'a mut dyn FnMut(u64),
}

impl Copy<'_> {
    /// Brings the checkpoints that are not there; their numbers and bytes. `afresh`: those that are there may be damaged, too.
    fn checkpoints(&mut self, afresh: bool) -> Result<(Vec<u64>, u64), CopyError> {
        let words = |error: Error| error.to_string();
        let there = published(self.source).map_err(words)?;
        let mut known = published(self.chain).map_err(words)?;
        // One that is damaged is copied again, and ceases to be one first.
        for number in known.clone().into_iter().filter(|_| afresh) {
            match Manifest::read(self.chain, number) {
                Err(error) if error.is_damage() => {
                    if there.contains(&number) {
                        let name = manifest_name(number);
                        self.chain.remove(&name).map_err(|error| format!("cannot remove {name}: {error}"))?;
                        known.remove(&number);
                    }
                }
                read => drop(read.map_err(words)?),
            }
        }
        remove_leftovers(self.chain).map_err(words)?;
        let (mut copied, mut bytes) = (Vec::new(), 0);
        for number in there.difference(&known) {
            let Ok(manifest) = Manifest::read(self.source, *number) else {
                // The node removes old ones.
                continue;
            };
            if self.checkpoint(&manifest)? {
                copied.push(*number);
                bytes += manifest.len_bytes();
            }
        }
        Ok((copied, bytes))
    }

    /// First its parts, then what says that it is there. `false` if the node has removed it.
    fn checkpoint(&mut self, manifest: &Manifest) -> Result<bool, CopyError> {
        for part in 0..manifest.parts.len() {
            let name = manifest.part_file(part);
            let Some((file, len)) = self.opened(&name)? else { return Ok(false) };
            let source = Source::new(&file, (0, len), self.told);
            let stored = self.place.store(&self.chain.path(&name), source);
            stored.map_err(|error| format!("cannot copy {name}: {error}"))?;
        }
        let name = manifest.file();
        let Some((file, len)) = self.opened(&name)? else { return Ok(false) };
        let bytes = Source::new(&file, (0, len), self.told).next(usize::MAX);
        let published = bytes.and_then(|bytes| self.place.publish(&self.chain.path(&name), &bytes));
        published.map_err(|error| format!("cannot copy {name}: {error}"))?;
        Ok(true)
    }

    /// A file of the node's, and its length; `None` if it has removed it.
    fn opened(&self, name: &str) -> Result<Option<(DirectoryFile, u64)>, CopyError> {
        let opened = self.source.open(name).and_then(|file| {
            let len = file.len()?;
            Ok((file, len))
        });
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CopyError::Words(format!("cannot read {name}: {error}"))),
        }
    }

    /// Brings what came since; what the node's journal holds from the chain's last segment on, and how many bytes were brought.
    fn journal(&mut self, known: Option<Summary>, life: u64) -> Result<(Summary, u64), CopyError> {
        let last = segments(self.chain).map_err(|error| error.to_string())?.last().copied();
        let first = last.unwrap_or(0);
        let known = known.filter(|known| known.segments.first().map(|segment| segment.number) == last);
        let known = match known {
            Some(known) if self.all_end_alike(&known)? => Some(known),
            _ => None,
        };
        let has = match (known, last) {
            (Some(known), _) => known,
            (None, None) => Summary::default(),
            // What an interruption left half is copied again as a whole.
            (None, Some(last)) => match read_from(self.chain, last, &mut |_| {}) {
                Err(JournalError::Damaged { .. }) => Summary::default(),
                read => read.map_err(|error| error.to_string())?,
            },
        };
        let there = look(self.source, first)?;
        if there.journal.is_some_and(|journal| journal != life)
            || has.journal.is_some_and(|journal| journal != life)
        {
            return Err(CopyError::Words(
                "the journal is of another life than the identity, or the chain: files of different folders are mixed".into(),
            ));
        }
        if last.is_some_and(|last| there.segments.first().is_none_or(|first| first.number != last)) {
            return Err(CopyError::Gap("the node has removed files that had not been copied"));
        }
        if !self.all_end_alike(&has)? {
            return Err(CopyError::Gap("the node went on from an older copy of its disk"));
        }
        let mut bytes = 0;
        for segment in &there.segments {
            let known = has.segments.iter().find(|known| known.number == segment.number);
            let from = known.map_or(0, |known| known.end);
            if from >= segment.end {
                continue;
            }
            let Some((file, _)) = self.opened(&segment.file)? else {
                return Err(CopyError::Gap("the node removed files while they were copied"));
            };
            let source = Source::new(&file, (from, segment.end), self.told);
            let extended = self.place.extend(&self.chain.path(&segment.file), source);
            extended.map_err(|error| format!("cannot copy {}: {error}", segment.file))?;
            bytes += segment.end - from;
        }
        Ok((there, bytes))
    }

    /// Whether what was copied is still there: else the chain and the node tell different stories.
    fn all_end_alike(&self, has: &Summary) -> Result<bool, CopyError> {
        for segment in &has.segments {
            if !ends_alike(self.source, self.chain, segment).map_err(|error| error.to_string())? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// So much of a segment's end is compared, in bytes: some groups, with their numbers and checksums.
const COMPARED: u64 = 64 << 10;

fn ends_alike(source: &DataDirectory, chain: &ChainDisk, segment: &SegmentSummary) -> io::Result<bool> {
    Ok(end_of(source, segment)? == end_of(chain, segment)?)
}

/// Of a file that is not there nothing.
fn end_of(disk: &impl Disk, segment: &SegmentSummary) -> io::Result<Vec<u8>> {
    let from = segment.end.saturating_sub(COMPARED);
    let mut bytes = vec![0; (segment.end - from) as usize];
    let read = match disk.open(&segment.file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        opened => opened?.read_at(from, &mut bytes)?,
    };
    bytes.truncate(read);
    Ok(bytes)
}

/// What a node's journal holds from a segment on. It may be written meanwhile.
fn look(source: &DataDirectory, first: u64) -> Result<Summary, CopyError> {
    let mut looks = 0;
    loop {
        looks += 1;
        match read_from(source, first, &mut |_| {}) {
            Ok(summary) => return Ok(summary),
            Err(error @ JournalError::Format { .. }) => return Err(CopyError::Words(error.to_string())),
            // A node that runs does not read its journal, and does not know.
            Err(error @ JournalError::Damaged { .. }) if looks == LOOKS => {
                return Err(CopyError::Words(format!(
                    "{}: {error}; archive another node, and see to this one before it restarts: stop it, move its folder away, and it copies the \
                     state of the others. If no other is left, `highwater recover --from` shows what stands before the damage",
                    source.path().display()
                )));
            }
            Err(error) if looks == LOOKS => return Err(CopyError::Words(error.to_string())),
            Err(_) => {}
        }
    }
}
