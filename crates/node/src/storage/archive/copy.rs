//! From a node's folder, which the node may be writing to, to a chain: checkpoints that are not there, and what came of the journal.

use std::io;

use highwater_disk::checkpoint::{
    Error, Manifest, PartReader, manifest_name, published, remove_leftovers, verify,
};
use highwater_disk::journal::{SegmentSummary, Summary, read_from, segments};
use highwater_disk::{Disk, DiskFile, JournalError};

use super::super::checkpoint::Preamble;
use super::super::directory::{DataDirectory, DirectoryFile};
use super::Damaged;
use super::chain_disk::ChainDisk;
use super::place::{Place, Source};
use super::proof::{mark, was_copied};

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
    /// Checkpoints that were left out, because they are damaged in the node's folder, and what is wrong with each.
    pub damaged: Vec<(u64, String)>,
}

/// Brings what is new in a node's folder to a chain of the same life, which ends as `known` says; and where it ends after that.
pub(super) fn copy_into(
    place: &dyn Place,
    chain: &ChainDisk,
    known: Option<Summary>,
    (source, life, damaged): (&DataDirectory, u64, &mut Damaged),
    told: &mut impl FnMut(u64),
) -> Result<(Brought, Summary), CopyError> {
    let mut bytes = 0;
    let mut copy = Copy {
        place,
        chain,
        source,
        life,
        known_damage: damaged,
        told: &mut |more| {
            bytes += more;
            told(bytes);
        },
    };
    // Before anything is brought: else the chain had a checkpoint of another history than its journal.
    let has = copy.what_it_has(known.clone())?;
    copy.check_that_it_goes_on(&has)?;
    let Checkpoints { copied, bytes: checkpoint_bytes, damaged } = copy.checkpoints(known.is_none())?;
    // Invariant: a copy that comes to its end leaves a chain whose journal leads on from its oldest checkpoint. One that did not may have
    // brought that checkpoint and a journal without its beginning, which the node had removed in between.
    let begins = !was_copied(chain)?;
    let is_empty = segments(chain).map_err(|error| error.to_string())?.is_empty();
    let (journal, journal_bytes) = copy.journal(&has)?;
    let words = |error: JournalError| error.to_string();
    let from_the_first = match begins && !is_empty {
        true => Some(read_from(chain, 0, &mut |_| {}).map_err(words)?),
        false => None,
    };
    if begins && !goes_back_far_enough(chain, from_the_first.as_ref().unwrap_or(&journal))? {
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
    Ok((Brought { checkpoints: copied, checkpoint_bytes, journal_bytes, damaged }, end))
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
    /// The node's.
    life: u64,
    known_damage: &'a mut Damaged,
    /// Told how many bytes more were copied.
    told: &'a mut dyn FnMut(u64),
}

impl Copy<'_> {
    /// Brings the checkpoints that are not there. `afresh`: those that are there may be damaged, too.
    ///
    /// Invariant: whatever checkpoint is brought was whole, every byte, when it was. A damaged one stays where it is, and is told of.
    fn checkpoints(&mut self, afresh: bool) -> Result<Checkpoints, CopyError> {
        let words = |error: Error| error.to_string();
        let there = published(self.source).map_err(words)?;
        let mut known = published(self.chain).map_err(words)?;
        // One that is damaged is copied again, if the node still has it, and ceases to be one first.
        for number in known.clone().intersection(&there).filter(|_| afresh) {
            if is_damaged(looks_whole(self.chain, *number)).map_err(words)?
                && matches!(self.found(*number)?, Found::Whole(_))
            {
                let name = manifest_name(*number);
                self.chain.remove(&name).map_err(|error| format!("cannot remove {name}: {error}"))?;
                known.remove(number);
            }
        }
        remove_leftovers(self.chain).map_err(words)?;
        let mut brought = Checkpoints::default();
        for number in there.difference(&known) {
            match self.found(*number)? {
                Found::Whole(manifest) => {
                    if self.checkpoint(&manifest)? {
                        brought.copied.push(*number);
                        brought.bytes += manifest.len_bytes();
                    }
                }
                Found::Damaged(why) => brought.damaged.push((*number, why)),
                Found::Gone => {}
            }
        }
        Ok(brought)
    }

    /// Reads a checkpoint of the node's to its last byte.
    fn found(&mut self, number: u64) -> Result<Found, CopyError> {
        if let Some(why) = self.known_damage.get(&(self.life, number)) {
            return Ok(Found::Damaged(why.clone()));
        }
        match verify(self.source, number) {
            Ok(manifest) => Ok(Found::Whole(manifest)),
            Err(error) if error.is_damage() => {
                let there = published(self.source).map_err(|error| error.to_string())?;
                if !there.contains(&number) {
                    // The node removes old ones.
                    return Ok(Found::Gone);
                }
                self.known_damage.insert((self.life, number), error.to_string());
                Ok(Found::Damaged(error.to_string()))
            }
            Err(error) => Err(CopyError::Words(error.to_string())),
        }
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
        self.parts_are_there(manifest)?;
        let published = bytes.and_then(|bytes| self.place.publish(&self.chain.path(&name), &bytes));
        published.map_err(|error| format!("cannot copy {name}: {error}"))?;
        Ok(true)
    }

    /// Looks once more, right before a manifest makes them count: another process that took this one for dead removes parts without a manifest.
    fn parts_are_there(&self, manifest: &Manifest) -> Result<(), CopyError> {
        self.place.confirm().map_err(|error| error.to_string())?;
        for (part, wanted) in manifest.parts.iter().enumerate() {
            let name = manifest.part_file(part);
            let len = self.chain.open(&name).and_then(|file| file.len());
            if !len.as_ref().is_ok_and(|len| *len == wanted.len) {
                let why = format!(
                    "{name} was copied, and is not there: does another process write to this archive?"
                );
                return Err(CopyError::Words(why));
            }
        }
        Ok(())
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

    /// How the chain's journal ends; nothing, if what an interruption left half is to be copied again as a whole.
    fn what_it_has(&self, known: Option<Summary>) -> Result<Summary, CopyError> {
        let last = self.last()?;
        let known = known.filter(|known| known.segments.first().map(|segment| segment.number) == last);
        match (known, last) {
            (Some(known), _) if self.all_end_alike(&known)? => Ok(known),
            (None, None) => Ok(Summary::default()),
            (_, Some(last)) => match read_from(self.chain, last, &mut |_| {}) {
                Err(JournalError::Damaged { .. }) => Ok(Summary::default()),
                read => Ok(read.map_err(|error| error.to_string())?),
            },
            (Some(_), None) => Ok(Summary::default()),
        }
    }

    /// The chain's last segment.
    fn last(&self) -> Result<Option<u64>, CopyError> {
        Ok(segments(self.chain).map_err(|error| error.to_string())?.last().copied())
    }

    /// The node's journal still has what was copied last, so that what it has besides belongs to the same history.
    fn check_that_it_goes_on(&self, has: &Summary) -> Result<(), CopyError> {
        let there = segments(self.source).map_err(|error| error.to_string())?;
        if self.last()?.is_some_and(|last| !there.contains(&last)) {
            return Err(CopyError::Gap("the node has removed files that had not been copied"));
        }
        match self.all_end_alike(has)? {
            true => Ok(()),
            false => Err(CopyError::Gap("the node went on from an older copy of its disk")),
        }
    }

    /// Brings what came since; what the node's journal holds from the chain's last segment on, and how many bytes were brought.
    fn journal(&mut self, has: &Summary) -> Result<(Summary, u64), CopyError> {
        let last = self.last()?;
        let there = look(self.source, last.unwrap_or(0))?;
        if there.journal.is_some_and(|journal| journal != self.life)
            || has.journal.is_some_and(|journal| journal != self.life)
        {
            return Err(CopyError::Words(
                "the journal is of another life than the identity, or the chain: files of different folders are mixed".into(),
            ));
        }
        if last.is_some_and(|last| there.segments.first().is_none_or(|first| first.number != last)) {
            return Err(CopyError::Gap("the node has removed files that had not been copied"));
        }
        // Again: the node may have been started on an older copy meanwhile.
        self.check_that_it_goes_on(has)?;
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

/// The checkpoints that were brought.
#[derive(Default)]
struct Checkpoints {
    copied: Vec<u64>,
    bytes: u64,
    damaged: Vec<(u64, String)>,
}

/// A checkpoint of the node's.
enum Found {
    Whole(Manifest),
    Damaged(String),
    Gone,
}

/// Whether it looks like a checkpoint from outside: its parts are there, with their lengths. Their bytes are for `backup verify` to read.
fn looks_whole(disk: &impl Disk, number: u64) -> Result<(), Error> {
    let manifest = Manifest::read(disk, number)?;
    (0..manifest.parts.len()).try_for_each(|part| PartReader::open(disk, &manifest, part).map(drop))
}

fn is_damaged(looked: Result<(), Error>) -> Result<bool, Error> {
    match looked {
        Err(error) if !error.is_damage() => Err(error),
        looked => Ok(looked.is_err()),
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
