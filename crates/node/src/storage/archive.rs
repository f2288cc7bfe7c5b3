//! An archive: what nodes of a cluster wrote to their disks, kept for as long as somebody wants it. A backup is restored from it.
//!
//! It is a folder of *chains*. A chain holds checkpoints of one node in one life, and its journal without a gap from the first of them on:
//! the same files as the node has, but none is ever removed. So whatever reads a node's folder reads a chain.
//!
//! ```text
//! archive.json                 {"format": 1, "cluster": "north"}
//! chain-0001/chain.json        {"node": 0, "incarnation": "4f36b94f34c1d956"}
//! chain-0001/checkpoint-0007.manifest, .part-0, ..
//! chain-0001/journal-..
//! ```
//!
//! Copying goes on where it ended: checkpoints that are not there, and of the journal what came since. It needs nothing of the node but its
//! files, which do not change once they are written. Where the node removed something before it was copied, or begins another life, a new
//! chain begins.
//!
//! Invariant: in a chain, a checkpoint whose manifest is there is whole, and every group of the journal before the last is.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use highwater_disk::checkpoint::{Error, Manifest, published, remove_leftovers};
use highwater_disk::journal::{SegmentSummary, Summary, read_from, segments};
use highwater_disk::{Disk, DiskFile, Identity, JournalError};
use serde::{Deserialize, Serialize};

use super::checkpoint::Preamble;
use super::directory::{DataDirectory, DirectoryError};

/// Version of the layout.
const FORMAT: u32 = 1;
const ARCHIVE: &str = "archive.json";
const CHAIN: &str = "chain.json";
const PREFIX: &str = "chain-";
/// An archive and a chain that are being begun.
const NEW_ARCHIVE: &str = "archive.new";
const NEW_CHAIN: &str = "new-chain";
const LOCK: &str = "lock";
/// Bytes copied at once.
const PIECE: usize = 1 << 20;
/// A node writes while its files are read: what looks damaged is looked at so often.
const LOOKS: u32 = 5;

/// A folder of chains.
#[derive(Clone, Debug)]
pub struct Archive {
    path: PathBuf,
    /// Whose.
    pub cluster: String,
    /// Of whoever writes to it.
    lock: Option<DataDirectory>,
}

#[derive(Serialize, Deserialize)]
struct ArchiveFile {
    format: u32,
    cluster: String,
}

/// Whose files a chain has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainFile {
    /// The node.
    pub node: u8,
    /// Its life, in hexadecimal digits.
    pub incarnation: String,
}

/// A chain of an archive.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Chains are counted from 1.
    pub number: u32,
    /// Where.
    pub path: PathBuf,
    /// Whose; or why nobody knows.
    pub of: Result<ChainFile, String>,
}

/// What a copy brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// To which chain.
    pub chain: u32,
    /// It is a new one; why, if there was one before.
    pub began: Option<&'static str>,
    /// Checkpoints that were not there.
    pub checkpoints: Vec<u64>,
    /// Bytes of them.
    pub checkpoint_bytes: u64,
    /// Bytes of the journal that were not there.
    pub journal_bytes: u64,
}

impl Archive {
    /// The archive that is there, or a new one of this cluster's; for this process alone to write to.
    ///
    /// # Errors
    /// In words, if it is another cluster's, or something else, or another process writes to it.
    pub fn begin(path: &Path, cluster: &str) -> Result<Archive, String> {
        let at = |error: io::Error| format!("cannot begin an archive in {}: {error}", path.display());
        // What an interrupted beginning left is nobody's.
        let ours = [ARCHIVE, NEW_ARCHIVE, LOCK].map(OsString::from);
        if !path.join(ARCHIVE).exists() && path.exists() {
            for entry in fs::read_dir(path).map_err(at)? {
                if !ours.contains(&entry.map_err(at)?.file_name()) {
                    return Err(format!("{} is not empty, and no archive", path.display()));
                }
            }
        }
        let lock = DataDirectory::open(path).map_err(|error| match error {
            DirectoryError::Locked { .. } => {
                format!("{} is being written to by another process: one at a time", path.display())
            }
            error => error.to_string(),
        })?;
        if !path.join(ARCHIVE).exists() {
            write_json(&path.join(ARCHIVE), &ArchiveFile { format: FORMAT, cluster: cluster.into() })?;
        }
        let archive = Archive { lock: Some(lock), ..Archive::open(path)? };
        if archive.cluster != cluster {
            return Err(format!(
                "{} is an archive of cluster \"{}\", not \"{cluster}\"",
                path.display(),
                archive.cluster
            ));
        }
        Ok(archive)
    }

    /// The archive that is there.
    ///
    /// # Errors
    /// In words, if there is none, or a later version's.
    pub fn open(path: &Path) -> Result<Archive, String> {
        let file: ArchiveFile = read_json(&path.join(ARCHIVE))
            .map_err(|why| format!("{}: {why}: it is no archive", path.display()))?;
        if file.format != FORMAT {
            let found = file.format;
            return Err(format!("{}: format {found}, and this binary knows {FORMAT}", path.display()));
        }
        Ok(Archive { path: path.into(), cluster: file.cluster, lock: None })
    }

    /// Its chains, oldest first.
    ///
    /// # Errors
    /// In words.
    pub fn chains(&self) -> Result<Vec<Chain>, String> {
        let at = |error: io::Error| format!("{}: {error}", self.path.display());
        let mut chains = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(at)? {
            let path = entry.map_err(at)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.strip_prefix(PREFIX).and_then(|digits| digits.parse().ok());
            if let Some(number) = number.filter(|number| chain_name(*number) == name) {
                let of = read_json(&path.join(CHAIN));
                chains.push(Chain { number, path, of });
            }
        }
        chains.sort_by_key(|chain| chain.number);
        Ok(chains)
    }

    /// Copies what is new in a node's folder; the node may run. `told`: how many bytes have been copied so far.
    ///
    /// # Errors
    /// In words. What was copied stays, and the next copy goes on from there.
    pub fn copy(&self, from: &Path, mut told: impl FnMut(u64)) -> Result<Copied, String> {
        let words = |error: &dyn std::fmt::Display| format!("{}: {error}", from.display());
        let source = DataDirectory::read_only(from).map_err(|error| error.to_string())?;
        let identity = Identity::read(&source).map_err(|error| words(&error))?;
        let identity = identity.ok_or_else(|| words(&"no node was ever started on it"))?;
        if identity.cluster != self.cluster {
            return Err(words(&format!(
                "it belongs to cluster \"{}\", the archive to \"{}\"",
                identity.cluster, self.cluster
            )));
        }
        let of = ChainFile { node: identity.node.0, incarnation: format!("{:x}", identity.incarnation.0) };
        let chains = self.chains()?;
        let life = identity.incarnation.0;
        let (last, own) = (chains.last(), chains.iter().rev().find(|chain| chain.of.as_ref() == Ok(&of)));
        let (chain, mut began) = match own {
            Some(chain) => (chain.clone(), None),
            None => {
                (self.begin_chain(last, of.clone())?, last.map(|_| "another node, or another life of it"))
            }
        };
        let mut copied = match copy_into(&chain, &source, life, &mut told) {
            Err(CopyError::Gap(why)) => {
                let chain = self.begin_chain(self.chains()?.last(), of)?;
                began = Some(why);
                copy_into(&chain, &source, life, &mut told)
            }
            copied => copied,
        }
        .map_err(|error| match error {
            CopyError::Gap(_) => words(&"its files change faster than they are copied; try again"),
            CopyError::Words(why) => why,
        })?;
        copied.began = began;
        Ok(copied)
    }

    /// Made under another name first: a chain without its file would be nobody's.
    fn begin_chain(&self, last: Option<&Chain>, of: ChainFile) -> Result<Chain, String> {
        assert!(self.lock.is_some(), "only who has it for itself writes to an archive");
        let number = last.map_or(Some(1), |last| last.number.checked_add(1));
        let number = number.ok_or("the archive has no number left for another chain")?;
        let path = self.path.join(chain_name(number));
        let new = self.path.join(NEW_CHAIN);
        let at = |error: io::Error| format!("{}: {error}", new.display());
        if new.exists() {
            fs::remove_dir_all(&new).map_err(at)?;
        }
        fs::create_dir_all(&new).map_err(at)?;
        write_json(&new.join(CHAIN), &of)?;
        let named = fs::rename(&new, &path).and_then(|()| fs::File::open(&self.path)?.sync_all());
        named.map_err(at)?;
        Ok(Chain { number, path, of: Ok(of) })
    }
}

fn chain_name(number: u32) -> String {
    format!("{PREFIX}{number:04}")
}

enum CopyError {
    /// The chain cannot go on with what is there; why.
    Gap(&'static str),
    Words(String),
}

impl From<String> for CopyError {
    fn from(why: String) -> CopyError {
        CopyError::Words(why)
    }
}

fn copy_into(
    chain: &Chain,
    source: &DataDirectory,
    life: u64,
    told: &mut impl FnMut(u64),
) -> Result<Copied, CopyError> {
    let target = DataDirectory::open(&chain.path).map_err(|error| error.to_string())?;
    let mut bytes = 0;
    let begins = segments(&target).map_err(|error| error.to_string())?.is_empty();
    let (checkpoints, checkpoint_bytes) = copy_checkpoints(source, &target, &mut bytes, told)?;
    let journal_bytes = copy_journal(source, &target, life, &mut bytes, told)?;
    if begins && !goes_back_far_enough(&target)? {
        return Err(CopyError::Gap("the node removed files while they were copied"));
    }
    Ok(Copied { chain: chain.number, began: None, checkpoints, checkpoint_bytes, journal_bytes })
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

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let at = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let text = serde_json::to_string(value).map_err(|error| at(&error))? + "\n";
    let new = path.with_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::File::open(&new)?.sync_all());
    let folder = path.parent().unwrap_or(Path::new("."));
    let named = written.and_then(|()| fs::rename(&new, path));
    named.and_then(|()| fs::File::open(folder)?.sync_all()).map_err(|error| at(&error))
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use highwater_core::{Incarnation, NodeId};
    use highwater_disk::journal::{MIN_SEGMENT_BYTES, read};
    use highwater_disk::{Journal, JournalOptions};

    use super::*;

    /// A node's folder with a journal in small segments.
    struct Node {
        path: PathBuf,
        journal: Journal<DataDirectory>,
    }

    impl Node {
        fn new(path: PathBuf, incarnation: u64) -> Node {
            let disk = DataDirectory::open(&path).unwrap();
            let identity = Identity {
                cluster: "north".into(),
                node: NodeId(1),
                incarnation: Incarnation(incarnation),
                generation: 1,
            };
            identity.write(&disk).unwrap();
            let options =
                JournalOptions { journal: incarnation, writers: 2, segment_bytes: 2 * MIN_SEGMENT_BYTES };
            let (journal, _) = Journal::open(disk, options, &mut |_| {}).unwrap();
            Node { path, journal }
        }

        fn write(&mut self, records: u64) {
            for at in 0..records {
                self.journal.append(0, &[at as u8; 1000]).unwrap();
                self.journal.sync().unwrap();
            }
        }
    }

    fn records(chain: &Chain) -> u64 {
        read(&DataDirectory::read_only(&chain.path).unwrap(), &mut |_| {}).unwrap().records
    }

    fn copy(archive: &Archive, node: &Node) -> Copied {
        archive.copy(&node.path, |_| {}).unwrap()
    }

    #[test]
    fn each_copy_brings_what_is_new_and_nothing_twice() {
        let folder = tempfile::tempdir().unwrap();
        let mut node = Node::new(folder.path().join("node"), 5);
        let archive = Archive::begin(&folder.path().join("archive"), "north").unwrap();
        assert!(archive.chains().unwrap().is_empty());
        let mut all = 0;
        for more in [1, 0, 2, 40, 1, 0, 7] {
            node.write(more);
            all += more;
            let copied = copy(&archive, &node);
            let chains = archive.chains().unwrap();
            assert_eq!((chains.len(), records(&chains[0])), (1, all));
            assert_eq!(copied.journal_bytes == 0, more == 0 && all > 0, "{copied:?}");
            assert_eq!((copied.chain, copied.began), (1, None));
        }
        let second = Archive::begin(&folder.path().join("archive"), "north").unwrap_err();
        assert!(second.contains("another process: one at a time"), "{second}");
        drop(archive);
        let again = Archive::begin(&folder.path().join("archive"), "north").unwrap();
        assert_eq!(copy(&again, &node).journal_bytes, 0);
    }

    #[test]
    fn a_copy_that_was_interrupted_or_spoiled_at_its_end_is_made_good() {
        let folder = tempfile::tempdir().unwrap();
        let mut node = Node::new(folder.path().join("node"), 5);
        let archive = Archive::begin(&folder.path().join("archive"), "north").unwrap();
        node.write(3);
        copy(&archive, &node);
        node.write(1);
        let chain = archive.chains().unwrap().remove(0);
        let file = chain.path.join("journal-0000000000000001");
        let whole = fs::read(&file).unwrap();
        for (cut, spoil) in
            [(0, None), (100, None), (4096, None), (5000, None), (9000, Some(4100)), (9000, Some(8192))]
        {
            let mut bytes = whole[..cut.min(whole.len())].to_vec();
            if let Some(at) = spoil {
                bytes[at] ^= 1;
            }
            fs::write(&file, bytes).unwrap();
            copy(&archive, &node);
            assert_eq!(records(&chain), 4, "cut at {cut}, spoiled at {spoil:?}");
        }
    }

    #[test]
    fn a_gap_or_another_life_begins_another_chain() {
        let folder = tempfile::tempdir().unwrap();
        let mut node = Node::new(folder.path().join("node"), 5);
        let archive = Archive::begin(&folder.path().join("archive"), "north").unwrap();
        node.write(3);
        copy(&archive, &node);
        node.write(40);
        // The node needs nothing of that any more.
        let upto = node.journal.synced()[0];
        node.journal.release(0, upto).unwrap();
        node.journal.release(1, 0).unwrap();
        let copied = copy(&archive, &node);
        assert_eq!((copied.chain, copied.began.is_some()), (2, true));
        drop(node);
        fs::remove_dir_all(folder.path().join("node")).unwrap();
        let mut node = Node::new(folder.path().join("node"), 6);
        node.write(1);
        let copied = copy(&archive, &node);
        assert_eq!((copied.chain, copied.began), (3, Some("another node, or another life of it")));
        let lives: Vec<String> =
            archive.chains().unwrap().into_iter().map(|chain| chain.of.unwrap().incarnation).collect();
        assert_eq!(lives, ["5", "5", "6"]);
    }

    #[test]
    fn what_is_no_archive_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        assert!(Archive::open(&path).unwrap_err().contains("it is no archive"));
        Archive::begin(&path, "north").unwrap();
        assert!(Archive::begin(&path, "south").unwrap_err().contains("of cluster \"north\", not \"south\""));
        fs::write(path.join(ARCHIVE), "{\"format\": 2, \"cluster\": \"north\"}").unwrap();
        assert!(Archive::open(&path).unwrap_err().contains("format 2, and this binary knows 1"));
        let other = folder.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("letter"), "dear").unwrap();
        assert!(Archive::begin(&other, "north").unwrap_err().contains("is not empty, and no archive"));
        let archive = Archive { path: folder.path().into(), cluster: "north".into(), lock: None };
        assert!(archive.copy(&other, |_| {}).unwrap_err().contains("no node was ever started"));
    }

    #[test]
    fn a_disk_that_went_back_begins_another_chain() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        let mut node = Node::new(path.clone(), 5);
        let archive = Archive::begin(&folder.path().join("archive"), "north").unwrap();
        node.write(2);
        let file = path.join("journal-0000000000000001");
        let earlier = fs::read(&file).unwrap();
        node.write(2);
        copy(&archive, &node);
        drop(node);
        fs::write(&file, earlier).unwrap();
        let mut node = Node::new(path, 5);
        let record = [7; 3000];
        node.journal.append(1, &record).unwrap();
        node.journal.sync().unwrap();
        let copied = copy(&archive, &node);
        assert_eq!(
            (copied.chain, copied.began),
            (2, Some("the node went on from an older copy of its disk"))
        );
        let chains = archive.chains().unwrap();
        assert_eq!([records(&chains[0]), records(&chains[1])], [4, 3]);
    }

    /// Two nodes by turns: each has its chain, and nothing is copied twice.
    #[test]
    fn each_node_goes_on_in_its_own_chain_and_a_chain_without_its_file_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut nodes = [5, 6].map(|life| Node::new(folder.path().join(format!("node-{life}")), life));
        let path = folder.path().join("archive");
        let archive = Archive::begin(&path, "north").unwrap();
        for round in 0..3 {
            for (at, node) in nodes.iter_mut().enumerate() {
                node.write(1);
                let copied = copy(&archive, node);
                assert_eq!(copied.chain as usize, at + 1);
                assert_eq!(copied.began.is_some(), round == 0 && at == 1);
            }
        }
        fs::write(path.join("chain-0002").join(CHAIN), "{").unwrap();
        let before = records(&archive.chains().unwrap()[1]);
        nodes[1].write(1);
        assert_eq!(copy(&archive, &nodes[1]).chain, 3);
        let chains = archive.chains().unwrap();
        assert!(chains[1].of.is_err() && chains.len() == 3);
        assert_eq!((records(&chains[1]), records(&chains[2])), (before, before + 1));
    }
}
