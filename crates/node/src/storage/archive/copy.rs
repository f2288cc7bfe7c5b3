//! From a node's folder, which the node may be writing to, to a chain: checkpoints that are not there, and what came of the journal.

use std::io;
use std::path::Path;

use highwater_disk::checkpoint::{Error, Manifest, published, remove_leftovers};
use highwater_disk::journal::{SegmentSummary, Summary, read_from, segments};
use highwater_disk::{Disk, DiskFile, JournalError};

use super::super::checkpoint::Preamble;
use super::super::directory::DataDirectory;

/// Bytes copied at once.
const PIECE: usize = 1 << 20;
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

/// Brings what is new in a node's folder to the chain in `to`, of the same life.
pub(super) fn copy_into(
    to: &Path,
    source: &DataDirectory,
    life: u64,
    told: &mut impl FnMut(u64),
) -> Result<Brought, CopyError> {
    let target = DataDirectory::open(to).map_err(|error| error.to_string())?;
    let mut bytes = 0;
    let begins = segments(&target).map_err(|error| error.to_string())?.is_empty();
    let (checkpoints, checkpoint_bytes) = copy_checkpoints(source, &target, &mut bytes, told)?;
    let journal_bytes = copy_journal(source, &target, life, &mut bytes, told)?;
    if begins && !goes_back_far_enough(&target)? {
        return Err(CopyError::Gap("the node removed files while they were copied"));
    }
    Ok(Brought { checkpoints, checkpoint_bytes, journal_bytes })
}

/// Whether the journal holds what the oldest checkpoint needs: the node may have removed it between the one copy and the other.
fn goes_back_far_enough(chain: &DataDirectory) -> Result<bool, CopyError> {
    let words = |error: Error| error.to_string();
    let Some(oldest) = published(chain).map_err(words)?.first().copied() else { return Ok(true) };
    let manifest = Manifest::read(chain, oldest).map_err(words)?;
    let (preamble, _) = Preamble::decode(&manifest.engine).map_err(|why| why.0.to_string())?;
    let first = segments(chain).map_err(|error| error.to_string())?.first().copied().unwrap_or(0);
    let summary = read_from(chain, first, &mut |_| {}).map_err(|error| error.to_string())?;
    let begins = summary.segments.first().map(|first| first.positions.clone()).unwrap_or_default();
    Ok(begins.iter().zip(&preamble.positions).all(|(begins, needed)| *begins <= needed.0))
}

/// Those that are not there; their numbers and bytes.
fn copy_checkpoints(
    source: &DataDirectory,
    target: &DataDirectory,
    bytes: &mut u64,
    told: &mut impl FnMut(u64),
) -> Result<(Vec<u64>, u64), CopyError> {
    let words = |error: Error| error.to_string();
    let there = published(source).map_err(words)?;
    let mut known = published(target).map_err(words)?;
    // One that an interruption left half is copied again.
    known.retain(|number| Manifest::read(target, *number).is_ok());
    remove_leftovers(target).map_err(words)?;
    let (mut copied, before) = (Vec::new(), *bytes);
    for number in there.difference(&known) {
        let Ok(manifest) = Manifest::read(source, *number) else {
            // The node removes old ones.
            continue;
        };
        let mut parts = (0..manifest.parts.len()).map(|part| manifest.part_file(part));
        let mut copy = |name: &str, to: &str| {
            let end = source.open(name)?.len()?;
            copy_file(source, target, (name, to), (0, end), bytes, told)
        };
        let new = manifest.file() + "-new";
        let whole = parts
            .try_for_each(|name| copy(&name, &name))
            .and_then(|()| copy(&manifest.file(), &new))
            .and_then(|()| target.sync_names())
            .and_then(|()| target.rename(&new, &manifest.file()));
        match whole {
            Ok(()) => copied.push(*number),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(CopyError::Words(format!("cannot copy checkpoint {number}: {error}"))),
        }
    }
    target.sync_names().map_err(|error| error.to_string())?;
    Ok((copied, *bytes - before))
}

/// What came since; how many bytes.
fn copy_journal(
    source: &DataDirectory,
    target: &DataDirectory,
    life: u64,
    bytes: &mut u64,
    told: &mut impl FnMut(u64),
) -> Result<u64, CopyError> {
    let before = *bytes;
    let last = segments(target).map_err(|error| error.to_string())?.last().copied();
    let has = match last {
        None => Summary::default(),
        // What an interruption left half is copied again as a whole.
        Some(last) => read_from(target, last, &mut |_| {}).unwrap_or_default(),
    };
    let first = last.unwrap_or(0);
    let there = look(source, first)?;
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
    for known in &has.segments {
        if !ends_alike(source, target, known).map_err(|error| error.to_string())? {
            return Err(CopyError::Gap("the node went on from an older copy of its disk"));
        }
    }
    for segment in &there.segments {
        let known = has.segments.iter().find(|known| known.number == segment.number);
        let from = known.map_or(0, |known| known.end);
        if from >= segment.end {
            continue;
        }
        match copy_file(source, target, (&segment.file, &segment.file), (from, segment.end), bytes, told) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(CopyError::Gap("the node removed files while they were copied"));
            }
            Err(error) => return Err(CopyError::Words(format!("cannot copy {}: {error}", segment.file))),
        }
    }
    target.sync_names().map_err(|error| error.to_string())?;
    Ok(*bytes - before)
}

/// So much of a segment's end is compared, in bytes: some groups, with their numbers and checksums.
const COMPARED: u64 = 64 << 10;

/// Whether what was copied of a segment is still there: else the chain and the node tell different stories.
fn ends_alike(source: &DataDirectory, target: &DataDirectory, segment: &SegmentSummary) -> io::Result<bool> {
    let from = segment.end.saturating_sub(COMPARED);
    let read = |disk: &DataDirectory| {
        let mut bytes = vec![0; (segment.end - from) as usize];
        let read = disk.open(&segment.file)?.read_at(from, &mut bytes)?;
        bytes.truncate(read);
        io::Result::Ok(bytes)
    };
    Ok(read(source)? == read(target)?)
}

/// What a node's journal holds from a segment on. It may be written meanwhile.
fn look(source: &DataDirectory, first: u64) -> Result<Summary, CopyError> {
    let mut looks = 0;
    loop {
        looks += 1;
        match read_from(source, first, &mut |_| {}) {
            Ok(summary) => return Ok(summary),
            Err(error @ JournalError::Format { .. }) => return Err(CopyError::Words(error.to_string())),
            Err(error) if looks == LOOKS => return Err(CopyError::Words(error.to_string())),
            Err(_) => {}
        }
    }
}

/// Copies a piece of a file to its place, and syncs it.
fn copy_file(
    source: &DataDirectory,
    target: &DataDirectory,
    (name, to_name): (&str, &str),
    (from, to): (u64, u64),
    bytes: &mut u64,
    told: &mut impl FnMut(u64),
) -> io::Result<()> {
    let reads = source.open(name)?;
    let mut writes = match target.open(to_name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => target.create(to_name, 0)?,
        opened => opened?,
    };
    let (mut at, mut piece) = (from, vec![0; PIECE]);
    while at < to {
        let wanted = (to - at).min(PIECE as u64) as usize;
        let read = reads.read_at(at, &mut piece[..wanted])?;
        if read < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        writes.write_at(at, &piece[..read])?;
        at += read as u64;
        *bytes += read as u64;
        told(*bytes);
    }
    writes.set_len(to)?;
    writes.sync()
}
