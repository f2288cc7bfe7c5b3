use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use highwater_core::{Incarnation, Library, NodeId, Schema, Timestamp};
use highwater_disk::checkpoint::published;
use highwater_disk::journal::{MIN_SEGMENT_BYTES, read, read_to_damage};
use highwater_disk::{Journal, JournalOptions};
use highwater_redis::Product;
use highwater_seam::LogPosition;
use highwater_store::Store;

use super::super::checkpoint::Preamble;
use super::super::founding::write_checkpoint;
use super::*;

/// A node's folder with a journal in small segments.
struct Node {
    path: PathBuf,
    disk: DataDirectory,
    life: u64,
    journal: Journal<DataDirectory>,
}

impl Node {
    fn new(path: PathBuf, incarnation: u64) -> Node {
        let disk = DataDirectory::open(&path).unwrap();
        let identity = Identity::new("north", NodeId(1), Incarnation(incarnation));
        identity.write(&disk).unwrap();
        let options =
            JournalOptions { journal: incarnation, writers: 2, segment_bytes: 2 * MIN_SEGMENT_BYTES };
        let (journal, _) = Journal::open(disk.clone(), options, &mut |_| {}).unwrap();
        Node { path, disk, life: incarnation, journal }
    }

    /// Publishes a checkpoint of all that was written so far.
    fn checkpoint(&self) {
        let store = Store::new(Schema::new(Product.tables()));
        let positions = self.journal.synced().iter().map(|synced| LogPosition(*synced)).collect();
        let words = Preamble { incarnation: self.life, positions }.encode();
        write_checkpoint(&self.disk, &store, Timestamp(1000), 1, words).unwrap();
    }

    /// A byte of a file changes.
    fn spoil(&self, name: &str, at: usize) {
        let mut bytes = fs::read(self.path.join(name)).unwrap();
        bytes[at] ^= 1;
        fs::write(self.path.join(name), bytes).unwrap();
    }

    fn write(&mut self, records: u64) {
        for at in 0..records {
            self.journal.append(0, &[at as u8; 1000]).unwrap();
            self.journal.sync().unwrap();
        }
    }
}

fn records(chain: &Chain) -> u64 {
    read(&chain.disk, &mut |_| {}).unwrap().records
}

fn place(path: &Path) -> Arc<dyn Place> {
    Arc::new(FolderPlace::new(path))
}

fn copy(archive: &mut Archive, node: &Node) -> Copied {
    archive.copy(&node.path, |_| {}).unwrap()
}

#[test]
fn each_copy_brings_what_is_new_and_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::new(folder.path().join("node"), 5);
    let mut archive = Archive::begin(place(&folder.path().join("archive")), "north").unwrap();
    assert!(archive.chains().unwrap().is_empty());
    let mut all = 0;
    for more in [1, 0, 2, 40, 1, 0, 7] {
        node.write(more);
        all += more;
        let copied = copy(&mut archive, &node);
        let chains = archive.chains().unwrap();
        assert_eq!((chains.len(), records(&chains[0])), (1, all));
        assert_eq!(copied.brought.journal_bytes == 0, more == 0 && all > 0, "{copied:?}");
        assert_eq!((copied.chain, copied.began), (1, None));
    }
    let second = Archive::begin(place(&folder.path().join("archive")), "north").unwrap_err();
    assert!(second.contains("another process: one at a time"), "{second}");
    drop(archive);
    let mut again = Archive::begin(place(&folder.path().join("archive")), "north").unwrap();
    assert_eq!(copy(&mut again, &node).brought.journal_bytes, 0);
}

#[test]
fn a_copy_that_was_interrupted_or_spoiled_at_its_end_is_made_good() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::new(folder.path().join("node"), 5);
    let mut archive = Archive::begin(place(&folder.path().join("archive")), "north").unwrap();
    node.write(3);
    copy(&mut archive, &node);
    node.write(1);
    let chain = archive.chains().unwrap().remove(0);
    let file = folder.path().join("archive/chain-0001/journal-0000000000000001");
    let whole = fs::read(&file).unwrap();
    for (cut, spoil) in
        [(0, None), (100, None), (4096, None), (5000, None), (9000, Some(4100)), (9000, Some(8192))]
    {
        let mut bytes = whole[..cut.min(whole.len())].to_vec();
        if let Some(at) = spoil {
            bytes[at] ^= 1;
        }
        fs::write(&file, bytes).unwrap();
        copy(&mut archive, &node);
        assert_eq!(records(&chain), 4, "cut at {cut}, spoiled at {spoil:?}");
    }
}

#[test]
fn a_gap_or_another_life_begins_another_chain() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::new(folder.path().join("node"), 5);
    let mut archive = Archive::begin(place(&folder.path().join("archive")), "north").unwrap();
    node.write(3);
    copy(&mut archive, &node);
    node.write(40);
    // The node needs nothing of that any more.
    let upto = node.journal.synced()[0];
    node.journal.release(0, upto).unwrap();
    node.journal.release(1, 0).unwrap();
    let copied = copy(&mut archive, &node);
    assert_eq!((copied.chain, copied.began.is_some()), (2, true));
    drop(node);
    fs::remove_dir_all(folder.path().join("node")).unwrap();
    let mut node = Node::new(folder.path().join("node"), 6);
    node.write(1);
    let copied = copy(&mut archive, &node);
    assert_eq!((copied.chain, copied.began), (3, Some("another node, or another life of it")));
    let lives: Vec<String> =
        archive.chains().unwrap().into_iter().map(|chain| chain.of.unwrap().incarnation).collect();
    assert_eq!(lives, ["5", "5", "6"]);
}

/// It was, and came to its end: so a chain that has not what its oldest checkpoint needs was one like others, and damaged for ever.
/// Once: a first copy that found the journal's beginning gone in two chains ("its files change faster than they are
/// copied") left both without it; the next copy went on in the second and ended well, so that its oldest checkpoint
/// lacked its journal for ever, and `verify` said damage.
#[test]
fn a_first_copy_that_found_the_journal_s_beginning_gone_is_not_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::new(folder.path().join("node"), 5);
    node.write(3);
    node.checkpoint();
    node.write(40);
    let upto = node.journal.synced()[0];
    node.journal.release(0, upto).unwrap();
    node.journal.release(1, 0).unwrap();
    let mut archive = Archive::begin(place(&folder.path().join("archive")), "north").unwrap();
    let refused = archive.copy(&node.path, |_| {}).unwrap_err();
    assert!(refused.contains("change faster than they are copied"), "{refused}");
    node.checkpoint();
    for file in fs::read_dir(&node.path).unwrap().map(|file| file.unwrap()) {
        if file.file_name().to_str().unwrap().starts_with("checkpoint-0001") {
            fs::remove_file(file.path()).unwrap();
        }
    }
    let copied = copy(&mut archive, &node);
    let chains = archive.chains().unwrap();
    let finished: Vec<bool> = chains.iter().map(|chain| was_copied(&chain.disk).unwrap()).collect();
    assert_eq!((copied.chain, finished), (3, vec![false, false, true]));
}

#[test]
fn what_is_no_archive_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    assert!(Archive::open(place(&path)).unwrap_err().contains("it is no archive"));
    Archive::begin(place(&path), "north").unwrap();
    assert!(
        Archive::begin(place(&path), "south").unwrap_err().contains("of cluster \"north\", not \"south\"")
    );
    fs::write(path.join(ARCHIVE), "{\"format\": 2, \"cluster\": \"north\"}").unwrap();
    assert!(Archive::open(place(&path)).unwrap_err().contains("format 2, and this binary knows 1"));
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter"), "dear").unwrap();
    assert!(Archive::begin(place(&other), "north").unwrap_err().contains("is not empty, and no archive"));
    let mut archive = Archive {
        place: place(folder.path()),
        cluster: "north".into(),
        ends: BTreeMap::new(),
        damaged: BTreeMap::new(),
    };
    assert!(archive.copy(&other, |_| {}).unwrap_err().contains("no node was ever started"));
}

#[test]
fn a_disk_that_went_back_begins_another_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node");
    let mut node = Node::new(path.clone(), 5);
    let mut archive = Archive::begin(place(&folder.path().join("archive")), "north").unwrap();
    node.write(2);
    let file = path.join("journal-0000000000000001");
    let earlier = fs::read(&file).unwrap();
    node.write(2);
    copy(&mut archive, &node);
    drop(node);
    fs::write(&file, earlier).unwrap();
    let mut node = Node::new(path, 5);
    let record = [7; 3000];
    node.journal.append(1, &record).unwrap();
    node.journal.sync().unwrap();
    let copied = copy(&mut archive, &node);
    assert_eq!((copied.chain, copied.began), (2, Some("the node went on from an older copy of its disk")));
    let chains = archive.chains().unwrap();
    assert_eq!([records(&chains[0]), records(&chains[1])], [4, 3]);
}

/// Two nodes by turns: each has its chain, and nothing is copied twice.
#[test]
fn each_node_goes_on_in_its_own_chain_and_a_chain_without_its_file_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = [5, 6].map(|life| Node::new(folder.path().join(format!("node-{life}")), life));
    let path = folder.path().join("archive");
    let mut archive = Archive::begin(place(&path), "north").unwrap();
    for round in 0..3 {
        for (at, node) in nodes.iter_mut().enumerate() {
            node.write(1);
            let copied = copy(&mut archive, node);
            assert_eq!(copied.chain as usize, at + 1);
            assert_eq!(copied.began.is_some(), round == 0 && at == 1);
        }
    }
    fs::write(path.join("chain-0002").join(CHAIN), "{").unwrap();
    let before = records(&archive.chains().unwrap()[1]);
    nodes[1].write(1);
    assert_eq!(copy(&mut archive, &nodes[1]).chain, 3);
    let chains = archive.chains().unwrap();
    assert!(chains[1].of.is_err() && chains.len() == 3);
    assert_eq!((records(&chains[1]), records(&chains[2])), (before, before + 1));
}

/// A store of objects keeps a journal file in pieces, and a folder does not read them: their first would look like the whole.
#[test]
fn pieces_of_a_store_s_files_are_refused_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::new(folder.path().join("node"), 5);
    let path = folder.path().join("archive");
    let mut archive = Archive::begin(place(&path), "north").unwrap();
    node.write(1);
    copy(&mut archive, &node);
    fs::write(path.join("chain-0001/journal-0000000000000001.at-0000000000001000"), "piece").unwrap();
    let why = read(&archive.chains().unwrap()[0].disk, &mut |_| {}).unwrap_err().to_string();
    assert!(why.contains("is read by its URL there"), "{why}");
}

/// What a chain lacks, in words.
fn lacks(archive: &Archive) -> Lacks {
    let chain = archive.chains().unwrap().remove(0);
    let promised = Promises::of(&chain.disk, 5).unwrap();
    let summary = read_to_damage(&chain.disk, 0, &mut |_| ControlFlow::Continue(())).unwrap();
    Lacks::of(&chain.disk, &promised, &summary).unwrap()
}

/// An archive whose newest file was cut, where a group ends or elsewhere, or removed, was called whole, and less was restored.
#[test]
fn what_was_cut_or_removed_behind_the_last_copy_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::new(folder.path().join("node"), 5);
    let path = folder.path().join("archive");
    let mut archive = Archive::begin(place(&path), "north").unwrap();
    let mut marks = Vec::new();
    for more in [2, 1, 0, 3, 5] {
        node.write(more);
        copy(&mut archive, &node);
        assert_eq!(lacks(&archive), Lacks::default());
        let names = archive.chains().unwrap()[0].disk.names().unwrap();
        marks.extend(names.into_iter().filter(|name| name.starts_with("copied-")));
    }
    marks.dedup();
    assert_eq!(marks.len(), 4, "one at a time, and a new one only where something was copied: {marks:?}");
    let chain = path.join("chain-0001");
    let mut files: Vec<PathBuf> = fs::read_dir(&chain).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.file_name().unwrap().to_str().unwrap().starts_with("journal-"));
    files.sort();
    assert!(files.len() > 1, "{files:?}");
    let last = files.last().unwrap();
    let whole = fs::read(last).unwrap();
    let name = last.file_name().unwrap().to_str().unwrap();
    for (cut, words) in
        [(4096, "the file was cut"), (4096 + 900, "the file was cut"), (0, "files were cut or removed")]
    {
        fs::write(last, &whole[..cut]).unwrap();
        let why = lacks(&archive).end.unwrap();
        assert!(why.contains(name) && why.contains(words), "{cut}: {why}");
    }
    fs::remove_file(last).unwrap();
    let why = lacks(&archive).end.unwrap();
    assert!(why.contains(name) && why.contains("files were cut or removed"), "{why}");
    // The node still has it.
    copy(&mut archive, &node);
    assert_eq!((lacks(&archive), fs::read(last).unwrap()), (Lacks::default(), whole.clone()));
    // Of a copy that was cut off there is no mark, and what stands half behind the last whole group tells.
    node.write(1);
    let behind = [&whole[..], &[7; 100]].concat();
    fs::write(last, behind).unwrap();
    assert!(lacks(&archive).end.unwrap().contains("a copy was interrupted"));
    copy(&mut archive, &node);
    assert_eq!(lacks(&archive), Lacks::default());
}

/// The checkpoint came to the old chain before it was found that the disk had gone back: that chain was called damaged for ever.
#[test]
fn a_disk_that_went_back_brings_nothing_to_the_chain_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node");
    let mut node = Node::new(path.clone(), 5);
    let mut archive = Archive::begin(place(&folder.path().join("archive")), "north").unwrap();
    node.write(2);
    let file = path.join("journal-0000000000000001");
    let earlier = fs::read(&file).unwrap();
    node.write(2);
    copy(&mut archive, &node);
    let before = archive.chains().unwrap()[0].disk.names().unwrap();
    drop(node);
    fs::write(&file, earlier).unwrap();
    let mut node = Node::new(path, 5);
    node.write(1);
    node.checkpoint();
    // Once by what this process knows, once by what is there.
    for again in [false, true] {
        if again {
            drop(archive);
            fs::remove_dir_all(folder.path().join("archive/chain-0002")).unwrap();
            archive = Archive::begin(place(&folder.path().join("archive")), "north").unwrap();
        }
        let copied = copy(&mut archive, &node);
        assert_eq!(
            (copied.chain, copied.began),
            (2, Some("the node went on from an older copy of its disk"))
        );
        let chains = archive.chains().unwrap();
        assert_eq!(chains[0].disk.names().unwrap(), before, "nothing came to chain 1");
        assert_eq!(published(&chains[1].disk).unwrap().len(), 1);
    }
}

/// A part whose byte had changed on the node's disk was archived as whole, and `verify` failed for ever.
#[test]
fn a_damaged_checkpoint_is_left_out_and_told_of_and_what_lacks_a_part_is_copied_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::new(folder.path().join("node"), 5);
    let path = folder.path().join("archive");
    let mut archive = Archive::begin(place(&path), "north").unwrap();
    for _ in 0..2 {
        node.write(1);
        node.checkpoint();
    }
    let len = fs::metadata(node.path.join("checkpoint-0002.part-0")).unwrap().len() as usize;
    node.spoil("checkpoint-0002.part-0", len - 1);
    for round in 0..2 {
        let brought = copy(&mut archive, &node).brought;
        assert_eq!(brought.checkpoints, if round == 0 { vec![1] } else { vec![] });
        let [(2, why)] = &brought.damaged[..] else { panic!("{brought:?}") };
        assert!(why.contains("checkpoint-0002.part-0 is damaged"), "{why}");
    }
    let chain = archive.chains().unwrap().remove(0);
    assert_eq!(published(&chain.disk).unwrap().into_iter().collect::<Vec<_>>(), [1]);
    assert!(!chain.disk.names().unwrap().iter().any(|name| name.starts_with("checkpoint-0002")));
    drop(chain);
    // A damaged manifest is told of as well, and what follows is copied.
    node.spoil("checkpoint-0002.manifest", 20);
    node.checkpoint();
    drop(archive);
    let mut archive = Archive::begin(place(&path), "north").unwrap();
    let brought = copy(&mut archive, &node).brought;
    assert_eq!((brought.checkpoints, brought.damaged[0].0), (vec![3], 2));
    // Somebody removed a part from the archive; the node still has it.
    fs::remove_file(path.join("chain-0001/checkpoint-0001.part-0")).unwrap();
    drop(archive);
    let mut archive = Archive::begin(place(&path), "north").unwrap();
    assert_eq!(copy(&mut archive, &node).brought.checkpoints, [1]);
    assert!(highwater_disk::checkpoint::verify(&archive.chains().unwrap()[0].disk, 1).is_ok());
}

/// A place of which another process removes what this one has stored, and that it may have lost.
#[derive(Debug)]
struct Contested {
    inner: FolderPlace,
    removes: bool,
    lost: bool,
}

impl Place for Contested {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn claim(&self) -> Result<(), String> {
        self.inner.claim()
    }

    fn confirm(&self) -> io::Result<()> {
        if self.lost {
            Err(io::Error::other("another process has taken it over"))
        } else {
            self.inner.confirm()
        }
    }

    fn is_claimed(&self) -> io::Result<bool> {
        self.inner.is_claimed()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.inner.names()
    }

    fn files(&self, folder: &str) -> io::Result<Vec<String>> {
        self.inner.files(folder)
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn PlaceFile>> {
        self.inner.open(path)
    }

    fn publish(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.inner.publish(path, bytes)
    }

    fn store(&self, path: &str, source: Source<'_>) -> io::Result<()> {
        self.inner.store(path, source)?;
        if self.removes { self.inner.remove(path) } else { Ok(()) }
    }

    fn extend(&self, path: &str, source: Source<'_>) -> io::Result<()> {
        self.inner.extend(path, source)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }
}

/// A writer stood still for half a minute, another one took over and removed its parts as nobody's, and the first one woke and published the
/// manifest.
#[test]
fn a_manifest_is_published_by_who_still_is_the_writer_and_only_with_its_parts() {
    for (removes, lost, words) in
        [(true, false, "was copied, and is not there"), (false, true, "another process has taken it over")]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut node = Node::new(folder.path().join("node"), 5);
        node.write(1);
        node.checkpoint();
        let inner = FolderPlace::new(folder.path().join("archive"));
        let mut archive = Archive::begin(Arc::new(Contested { inner, removes, lost }), "north").unwrap();
        let why = archive.copy(&node.path, |_| {}).unwrap_err();
        assert!(why.contains(words), "{why}");
        assert!(published(&archive.chains().unwrap()[0].disk).unwrap().is_empty());
    }
}

/// Once: an archive could not begin beside `lost+found`.
#[test]
fn an_archive_begins_at_the_root_of_a_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::new(folder.path().join("elsewhere/node"), 5);
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("lost+found")).unwrap();
    let mut archive = Archive::begin(place(&root), "north").unwrap();
    node.write(1);
    assert_eq!(copy(&mut archive, &node).chain, 1);
    assert!(root.join("lost+found").exists());
}

/// Somebody moved the archive away while it was being written to.
#[test]
fn a_folder_that_is_gone_is_not_this_process_s_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    let place = FolderPlace::new(&path);
    place.claim().unwrap();
    place.confirm().unwrap();
    fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    assert!(place.confirm().unwrap_err().to_string().contains("removed or moved away"));
}
