//! A copy falls between any two reads of who looks. (A verify in CI called an archive cut that was being written to.)

use std::fs;
use std::io;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use highwater_core::{Library, NodeId, Schema, Timestamp};
use highwater_disk::{Journal, JournalOptions};
use highwater_engine_rolis::remains::Moment;
use highwater_node::storage::DataDirectory;
use highwater_node::storage::archive::{Archive, FolderPlace, Place, PlaceFile, Source};
use highwater_node::storage::founding::Founding;
use highwater_redis::Product;
use highwater_store::Store;

use super::*;
use crate::backup::args::MomentArgs;
use crate::backup::moment::{Span, find};

/// A node's folder, a journal that goes on in it, and an archive of it.
struct World {
    folder: tempfile::TempDir,
    journal: Journal<DataDirectory>,
    archive: Archive,
    noted: u64,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let one = NonZeroU16::MIN;
        let founding = Founding::new("north".into(), &[NodeId(0)], one).unwrap();
        let voter = founding.voters[0];
        let store = Store::new(Schema::new(Product.tables()));
        let path = founding.write(folder.path(), voter, &store, Timestamp(1000)).unwrap();
        let segment_bytes = 2 * highwater_disk::journal::MIN_SEGMENT_BYTES;
        let options = JournalOptions { journal: voter.incarnation.0, writers: 2, segment_bytes };
        let (journal, _) = Journal::open(DataDirectory::open(path).unwrap(), options, &mut |_| {}).unwrap();
        // The first file has room that nobody needs any more, and every copy would look through it.
        for file in journal_files(&folder.path().join("node-0")) {
            if file.metadata().unwrap().len() > 1 << 20 {
                fs::OpenOptions::new().write(true).open(file).unwrap().set_len(64 << 10).unwrap();
            }
        }
        let place = Arc::new(FolderPlace::new(folder.path().join("archive")));
        let archive = Archive::begin(place, "north").unwrap();
        World { folder, journal, archive, noted: 1000 }
    }

    fn node(&self) -> PathBuf {
        self.folder.path().join("node-0")
    }

    /// So many groups more in the node's journal.
    fn write(&mut self, groups: u64) {
        for _ in 0..groups {
            self.noted += 1;
            let moment = Moment { unix_ms: self.noted, mark: Timestamp(1000) };
            self.journal.append(1, &moment.record()).unwrap();
            self.journal.sync().unwrap();
        }
    }

    fn copy(&mut self) {
        self.archive.copy(&self.node(), |_| {}).unwrap();
    }

    /// What a copy does first: some bytes of what is new, which end within a group.
    fn begin_copy(&mut self) {
        let to = journal_files(&self.folder.path().join("archive/chain-0001")).pop().unwrap();
        let end = to.metadata().unwrap().len() as usize;
        let from = fs::read(self.node().join(to.file_name().unwrap())).unwrap();
        // Less than the head of a group.
        fs::write(to, &from[..end + 40]).unwrap();
    }
}

/// A journal's files, in order.
fn journal_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.file_name().unwrap().to_str().unwrap().starts_with("journal-"));
    files.sort();
    files
}

/// What happens before a read of this number.
type Step = Box<dyn FnMut(u64) + Send>;

/// A place in which something happens between reads.
#[derive(Clone)]
struct Stepping {
    inner: Arc<FolderPlace>,
    step: Arc<Mutex<(u64, Step)>>,
}

impl std::fmt::Debug for Stepping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl Stepping {
    fn new(path: &Path, step: Step) -> Stepping {
        Stepping { inner: Arc::new(FolderPlace::new(path)), step: Arc::new(Mutex::new((0, step))) }
    }

    fn read(&self) {
        let mut step = self.step.lock().unwrap();
        step.0 += 1;
        let at = step.0;
        (step.1)(at);
    }

    fn reads(&self) -> u64 {
        self.step.lock().unwrap().0
    }

    fn only_chain(&self) -> Chain {
        Archive::open(Arc::new(self.clone())).unwrap().chains().unwrap().remove(0)
    }
}

impl Place for Stepping {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn claim(&self) -> Result<(), String> {
        unreachable!("it is read")
    }

    fn confirm(&self) -> io::Result<()> {
        unreachable!("it is read")
    }

    fn is_claimed(&self) -> io::Result<bool> {
        self.read();
        self.inner.is_claimed()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.read();
        self.inner.names()
    }

    fn files(&self, folder: &str) -> io::Result<Vec<String>> {
        self.read();
        self.inner.files(folder)
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn PlaceFile>> {
        self.read();
        Ok(Box::new(SteppingFile { inner: self.inner.open(path)?, place: self.clone() }))
    }

    fn publish(&self, _: &str, _: &[u8]) -> io::Result<()> {
        unreachable!("it is read")
    }

    fn store(&self, _: &str, _: Source<'_>) -> io::Result<()> {
        unreachable!("it is read")
    }

    fn extend(&self, _: &str, _: Source<'_>) -> io::Result<()> {
        unreachable!("it is read")
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        unreachable!("it is read")
    }
}

struct SteppingFile {
    inner: Box<dyn PlaceFile>,
    place: Stepping,
}

impl PlaceFile for SteppingFile {
    fn len(&self) -> io::Result<u64> {
        self.place.read();
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.place.read();
        self.inner.read_at(offset, buffer)
    }
}

fn looked(place: &Stepping) -> Spanned {
    span(&place.only_chain(), &mut Progress::new())
}

fn whole(spanned: Spanned, when: &str) -> Span {
    let span = spanned.unwrap_or_else(|unusable| panic!("{when}: {}", unusable.why));
    assert_eq!((span.lacks.words(), span.unfinished), (Vec::<String>::new(), None), "{when}");
    span
}

/// Once: `backup verify` and `list` called an archive cut while a `backup create --follow` wrote to it: they read the
/// journal first, and what was promised of it afterwards, when a copy had come to its end in between; `restore` refused
/// the last moment for it.
#[test]
fn a_copy_between_any_two_reads_is_no_damage() {
    let mut reads = 0;
    // More groups than one segment has room for, so that the journal goes on in files that were not there.
    for at in 1.. {
        let mut world = World::new();
        world.write(3);
        world.copy();
        let path = world.folder.path().join("archive");
        let place = Stepping::new(
            &path,
            Box::new(move |now| {
                if now == at {
                    world.write(8);
                    world.copy();
                }
            }),
        );
        whole(looked(&place), &format!("a copy before read {at}"));
        if place.reads() < at {
            break;
        }
        reads = place.reads();
        assert!(journal_files(&path.join("chain-0001")).len() > 2, "the journal went on in another file");
    }
    assert!(reads > 10, "{reads}");
}

#[test]
fn a_copy_that_is_under_way_while_somebody_looks_is_waited_for() {
    for takes in [1, 10] {
        for at in (1..50).step_by(3) {
            let mut world = World::new();
            world.write(3);
            world.copy();
            let path = world.folder.path().join("archive");
            let place = Stepping::new(
                &path,
                Box::new(move |now| {
                    if now == at {
                        world.write(2);
                        world.begin_copy();
                    } else if now == at + takes {
                        world.copy();
                    }
                }),
            );
            whole(looked(&place), &format!("a copy from read {at} to {}", at + takes));
        }
    }
}

#[test]
fn a_copy_that_ended_half_way_is_said() {
    let mut world = World::new();
    world.write(3);
    world.copy();
    world.write(2);
    world.begin_copy();
    let World { folder, archive, .. } = world;
    let mut writer = Some(archive);
    let place = Stepping::new(
        &folder.path().join("archive"),
        Box::new(move |now| {
            // Its process ends while it is waited for.
            if now == 200 {
                drop(writer.take());
            }
        }),
    );
    let span = looked(&place).ok().unwrap();
    assert!(
        span.lacks.unfinished && span.lacks.words()[0].contains("a copy was interrupted"),
        "{:?}",
        span.lacks
    );
    assert!(place.reads() > 200);
}

#[test]
fn a_first_copy_that_is_under_way_is_no_damage_and_an_interrupted_one_is() {
    let mut world = World::new();
    world.write(3);
    world.copy();
    let path = world.folder.path().join("archive");
    let chain = path.join("chain-0001");
    for file in fs::read_dir(&chain).unwrap().map(|file| file.unwrap().path()) {
        let name = file.file_name().unwrap().to_str().unwrap();
        if name.starts_with("copied-") || name.starts_with("journal-") {
            fs::remove_file(file).unwrap();
        }
    }
    let place = Stepping::new(&path, Box::new(|_| {}));
    let unusable = looked(&place).err().unwrap();
    assert!(unusable.unfinished == Some(Unfinished::UnderWay) && unusable.had_something, "{}", unusable.why);
    let World { folder: _folder, archive, .. } = world;
    drop(archive);
    let unusable = looked(&place).err().unwrap();
    assert!(unusable.unfinished.is_none() && unusable.had_something, "{}", unusable.why);
}

/// A node that writes checkpoints all the time removes files while its first copy is made. The copy begins another chain and ends well; the
/// archive was called damaged for ever, and `restore` wanted to be told a chain.
#[test]
fn a_chain_whose_first_copy_was_given_up_for_another_is_no_damage() {
    let mut world = World::new();
    world.write(12);
    let path = world.folder.path().join("archive");
    world.copy();
    fs::rename(path.join("chain-0001"), path.join("chain-0002")).unwrap();
    fs::create_dir(path.join("chain-0001")).unwrap();
    fs::copy(path.join("chain-0002/chain.json"), path.join("chain-0001/chain.json")).unwrap();
    let given_up = |when: &str| {
        let archive = Archive::open(Arc::new(FolderPlace::new(&path))).unwrap();
        let chains = archive.chains().unwrap();
        assert_eq!(chains.iter().map(|chain| chain.is_succeeded).collect::<Vec<_>>(), [true, false]);
        let (unfinished, why) = match span(&chains[0], &mut Progress::new()) {
            Ok(span) => (span.unfinished, span.lacks.words().join("; ")),
            Err(unusable) => (unusable.unfinished, unusable.why),
        };
        assert_eq!(unfinished, Some(Unfinished::GivenUp), "{when}: {why}");
        let wanted = MomentArgs { at: None, timestamp: None, accepted: false, chain: None };
        let found = find(&archive, &wanted, &mut Progress::new());
        assert_eq!(found.unwrap_or_else(|failure| panic!("{when}: {failure:?}")).chain.number, 2);
    };
    // What it leaves, by how far it came.
    given_up("nothing is in it");
    let first = path.join("chain-0001");
    for file in [world.node().join("checkpoint-0001.part-0"), journal_files(&world.node()).remove(0)] {
        let (name, bytes) = (file.file_name().unwrap(), fs::read(&file).unwrap());
        fs::write(first.join(name), &bytes[..bytes.len().min(5000)]).unwrap();
        given_up(name.to_str().unwrap());
    }
    // All of a checkpoint, and the journal that the node had left when it came to that.
    for file in fs::read_dir(path.join("chain-0002")).unwrap().map(|file| file.unwrap().path()) {
        let name = file.file_name().unwrap();
        if !name.to_str().unwrap().starts_with("copied-") {
            fs::copy(&file, first.join(name)).unwrap();
        }
    }
    let beginning = fs::read(&journal_files(&first)[0]).unwrap();
    fs::remove_file(&journal_files(&first)[0]).unwrap();
    given_up("the journal's beginning is missing");
    // What no copy leaves is damage, though the chain has no mark: that may be lost, and copies of earlier builds have none.
    let damage = |at: usize| {
        let mut bytes = beginning.clone();
        bytes[at] ^= 0xff;
        let segment = journal_files(&path.join("chain-0002")).remove(0);
        fs::write(first.join(segment.file_name().unwrap()), bytes).unwrap();
    };
    damage(beginning.len() / 3);
    let chains = Archive::open(Arc::new(FolderPlace::new(&path))).unwrap().chains().unwrap();
    let unfinished = match span(&chains[0], &mut Progress::new()) {
        Ok(span) => span.unfinished,
        Err(unusable) => unusable.unfinished,
    };
    assert_eq!(unfinished, None);
    // A later chain of another life has not what this one had.
    let of = fs::read_to_string(first.join("chain.json")).unwrap();
    let life = format!("{:x}", world_life(&of) + 1);
    fs::write(first.join("chain.json"), of.replace(&format!("{:x}", world_life(&of)), &life)).unwrap();
    let chains = Archive::open(Arc::new(FolderPlace::new(&path))).unwrap().chains().unwrap();
    assert!(!chains[0].is_succeeded);
}

/// The life of which a chain says that it is.
fn world_life(chain: &str) -> u64 {
    let life = chain.split("\"incarnation\"").nth(1).and_then(|rest| rest.split('"').nth(1));
    u64::from_str_radix(life.expect("a chain says so"), 16).unwrap()
}

/// The same of a later copy: a checkpoint was brought, or half a group, and then the node had removed what comes next.
#[test]
fn a_chain_whose_later_copy_was_cut_short_for_another_is_no_damage() {
    let mut world = World::new();
    world.write(3);
    world.copy();
    let path = world.folder.path().join("archive");
    fs::create_dir(path.join("chain-0002")).unwrap();
    for file in fs::read_dir(path.join("chain-0001")).unwrap().map(|file| file.unwrap().path()) {
        fs::copy(&file, path.join("chain-0002").join(file.file_name().unwrap())).unwrap();
    }
    world.write(1);
    world.begin_copy();
    let archive = Archive::open(Arc::new(FolderPlace::new(&path))).unwrap();
    let chains = archive.chains().unwrap();
    let spanned =
        span(&chains[0], &mut Progress::new()).unwrap_or_else(|unusable| panic!("{}", unusable.why));
    assert_eq!(spanned.unfinished, Some(Unfinished::CutShort), "{:?}", spanned.lacks);
    assert!(!spanned.lacks.words().is_empty() && spanned.moments.1 > Timestamp::ZERO);
    // Where no other chain goes on it is still what it was: a copy from the same node makes it good.
    fs::remove_dir_all(path.join("chain-0002")).unwrap();
    let chains = archive.chains().unwrap();
    let spanned =
        span(&chains[0], &mut Progress::new()).unwrap_or_else(|unusable| panic!("{}", unusable.why));
    assert_eq!((spanned.unfinished, spanned.lacks.unfinished), (None, true));
}
