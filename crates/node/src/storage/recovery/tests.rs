//! A start reads a folder in many calls. Whichever of them fails, or is the last one before the process or the power ends: the start says so
//! in words or goes on with all there is, and the next one finds the same node with the same state.
//!
//! All calls take minutes, so of each fault some are drawn, the first and the last among them. `EVERY_CALL=1` tries all; `SEED` draws others.

use std::fs;
use std::io;
use std::num::NonZeroU16;
use std::sync::atomic::AtomicU64;

use highwater_core::{Clock, Library, Random, Schema, Timestamp};
use highwater_disk::SimulatedDisk;
use highwater_disk::journal::MIN_SEGMENT_BYTES;
use highwater_engine_rolis::remains::founding;
use highwater_engines::EngineKind;
use highwater_seam::Options;
use highwater_store::{Digest, Store};

use super::super::founding::{Founding, write_checkpoint};
use super::*;
use highwater_redis::Product;

const LIFE: Incarnation = Incarnation(77);
const FRESH: Incarnation = Incarnation(99);
const NODE: NodeId = NodeId(0);

/// A fault that befalls a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It fails with this error of the system, once.
    Fails(i32),
    /// The process ends: nothing more reaches the disk.
    Ends,
}

const EIO: Fault = Fault::Fails(5);
const FAULTS: [Fault; 6] =
    [EIO, Fault::Fails(24), Fault::Fails(12), Fault::Fails(4), Fault::Fails(28), Fault::Ends];

/// The calls that meet the fault, among so many that a start makes: some, or all if they are wanted. One more than there are is among them: the
/// fault that never comes.
fn drawn(calls: u64, some: usize, random: &mut Random) -> Vec<u64> {
    if std::env::var_os("EVERY_CALL").is_some() {
        return (0..=calls).collect();
    }
    let inner = (0..some).map(|_| random.below(calls));
    let all: BTreeSet<u64> = [0, calls - 1, calls].into_iter().chain(inner).collect();
    all.into_iter().collect()
}

fn random() -> Random {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    Random::new(seed.unwrap_or(1))
}

/// A disk of which one call, counted over the disk and all of its files, meets a fault.
#[derive(Clone)]
struct Shim<D> {
    disk: D,
    calls: Arc<Calls>,
}

struct Calls {
    /// So many passed.
    made: AtomicU64,
    fault: Fault,
    at: u64,
}

impl Calls {
    fn pass(&self) -> io::Result<()> {
        let call = self.made.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            Fault::Fails(number) if call == self.at => Err(io::Error::from_raw_os_error(number)),
            Fault::Ends if call >= self.at => Err(io::Error::other("the process has ended")),
            _ => Ok(()),
        }
    }

    /// Whether it came to the fault.
    fn met(&self) -> bool {
        self.made.load(Ordering::SeqCst) > self.at
    }
}

impl<D: Disk> Shim<D> {
    fn new(disk: D, fault: Fault, at: u64) -> Shim<D> {
        Shim { disk, calls: Arc::new(Calls { made: AtomicU64::new(0), fault, at }) }
    }

    fn file(&self, file: io::Result<D::File>) -> io::Result<ShimFile<D::File>> {
        Ok(ShimFile { file: file?, calls: self.calls.clone() })
    }
}

struct ShimFile<F> {
    file: F,
    calls: Arc<Calls>,
}

impl<D: Disk> Disk for Shim<D> {
    type File = ShimFile<D::File>;

    fn names(&self) -> io::Result<Vec<String>> {
        self.calls.pass()?;
        self.disk.names()
    }

    fn create(&self, name: &str, len: u64) -> io::Result<Self::File> {
        self.calls.pass()?;
        self.file(self.disk.create(name, len))
    }

    fn open(&self, name: &str) -> io::Result<Self::File> {
        self.calls.pass()?;
        self.file(self.disk.open(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.calls.pass()?;
        self.disk.rename(from, to)
    }

    fn reclaim(&self, from: &str, to: &str) -> io::Result<bool> {
        self.calls.pass()?;
        self.disk.reclaim(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.calls.pass()?;
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.calls.pass()?;
        self.disk.sync_names()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.calls.pass()?;
        self.disk.free_bytes()
    }

    fn why_lost(&self) -> io::Result<Option<String>> {
        self.calls.pass()?;
        self.disk.why_lost()
    }
}

impl<F: DiskFile> DiskFile for ShimFile<F> {
    fn len(&self) -> io::Result<u64> {
        self.calls.pass()?;
        self.file.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.calls.pass()?;
        self.file.read_at(offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.calls.pass()?;
        self.file.write_at(offset, bytes)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.calls.pass()?;
        self.file.set_len(len)
    }

    fn grow(&mut self, len: u64) -> io::Result<()> {
        self.calls.pass()?;
        self.file.grow(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.calls.pass()?;
        self.file.sync()
    }
}

/// The contents of a folder that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    /// Two checkpoints, and a journal of several segments that goes back to its birth.
    Whole,
    /// The older of the checkpoints is left, of the journal what it needs, and of both what an interruption leaves.
    Begun,
    /// The names of the journal's files are lost.
    Nameless,
}

/// Writes the folder of a voter of three.
fn write<D>(disk: &D, folder: Folder)
where
    D: Disk + Clone,
    D::File: DiskFile + Send,
{
    let voters = [0, 1, 2]
        .map(|node| highwater_engine_rolis::remains::Voter { node: NodeId(node), incarnation: LIFE });
    let (engine, records) = founding(1, voters.to_vec(), Timestamp(1000));
    let options = JournalOptions { journal: LIFE.0, writers: 2, segment_bytes: MIN_SEGMENT_BYTES };
    let (mut journal, _) = Journal::open(disk.clone(), options, &mut |_| {}).unwrap();
    let store = Store::new(Schema::new(Product.tables()));
    let mut identity = Identity::new("north", NODE, LIFE);
    identity.begin(disk, Start { number: 7, had: 0 }).unwrap();
    for _ in 0..2 {
        // The first record says from which moment on; it is written anew in front of each checkpoint, as all that the controller knows.
        let positions = journal.synced().iter().map(|synced| LogPosition(*synced)).collect();
        for record in std::iter::once(&records[0]).chain(std::iter::repeat_n(&records[1], 40)) {
            journal.append(1, record).unwrap();
            journal.sync().unwrap();
        }
        let words = [Preamble { incarnation: LIFE.0, positions }.encode(), engine.clone()].concat();
        write_checkpoint(disk, &store, Timestamp(1000), 2, words).unwrap();
    }
    drop(journal);
    Identity::note_begun(disk, 1).unwrap();
    match folder {
        Folder::Whole => {}
        Folder::Begun => {
            disk.create("identity.new", 100).unwrap();
            disk.create("checkpoint-0009.part-0", 100).unwrap();
        }
        Folder::Nameless => {
            let names = disk.names().unwrap();
            let lost = names.iter().filter(|name| journal::segment_number(name).is_some());
            lost.for_each(|name| disk.remove(name).unwrap());
        }
    }
    disk.sync_names().unwrap();
}

fn config() -> Config {
    let mut config = Config::default();
    config.cluster.id = "north".into();
    config.cluster.durability = Durability::Sync;
    config.cluster.nodes = [0, 1, 2].map(|_| config.cluster.nodes[0].clone()).to_vec();
    config.node = NODE.0;
    config
}

/// A node as a start found it.
#[derive(Debug, PartialEq)]
struct FoundNode {
    life: Incarnation,
    past: bool,
    synced: Vec<u64>,
    digest: Digest,
    voters: usize,
    starts: u64,
}

/// One start, up to where the node would run.
fn start<D>(disk: D) -> Result<FoundNode, NodeError>
where
    D: Disk + Clone,
    D::File: Send,
{
    let progress = Arc::new(StartProgress::default());
    let schema = Schema::new(Product.tables());
    let files = settle(disk, "folder".into(), (&config(), &schema), FRESH, progress)?;
    let (life, past) = (files.identity.incarnation, files.identity.past);
    let clock = Arc::new(Clock::counter());
    let durability = highwater_core::Durability::Sync;
    let options = || Options { durability, ..Options::new(NODE, 3, 1, life) };
    let build = || highwater_engines::build(EngineKind::Rolis, options(), &Product, clock.clone());
    let (replica, storage) = files.recover(build)?;
    let synced = storage.journal.synced().to_vec();
    let voters = replica.controller.status(0).members.len();
    let digest = replica.controller.store().digest();
    Ok(FoundNode { life, past, synced, digest, voters, starts: storage.starts.generation() })
}

/// A start met the fault, or none was to come; the folder is started once more and well. Whether there were more calls.
fn walk<D>(folder: Folder, expected: &FoundNode, fault: (Fault, u64), disk: &D, then: impl Fn()) -> bool
where
    D: Disk + Clone,
    D::File: Send,
{
    let shim = Shim::new(disk.clone(), fault.0, fault.1);
    let at = |found: Result<FoundNode, NodeError>| match found {
        Ok(found) => {
            let FoundNode { starts: _, ref synced, ref digest, voters, life, past } = found;
            let what = (life, past, synced, digest, voters);
            let FoundNode { starts: _, ref synced, ref digest, voters, life, past } = *expected;
            assert_eq!(what, (life, past, synced, digest, voters), "{folder:?}, {fault:?}");
            found.starts
        }
        Err(NodeError::Storage { why, .. }) => {
            assert!(!why.is_empty());
            0
        }
        // Whoever cannot read how far the journal goes sees only later that it is gone, and marks the folder: the next start is another life.
        Err(NodeError::StaleDisk) if folder == Folder::Nameless => 0,
        Err(other) => panic!("{folder:?}, {fault:?}: {other}"),
    };
    let first = at(start(shim.clone()));
    let (met, failed) = (shim.calls.met(), first == 0);
    assert!(met || !failed, "{folder:?}, {fault:?}: it fails without a fault");
    drop(shim);
    then();
    let may_be_marked = folder == Folder::Nameless;
    assert!(may_be_marked || !stale::is_marked(disk).unwrap(), "{folder:?}, {fault:?}");
    let second = at(start(disk.clone()));
    assert!(second > first, "{folder:?}, {fault:?}: {second} starts, {first} before");
    met
}

/// A simulated disk with this folder after a crash, and the node that a start finds on it.
fn simulated(folder: Folder) -> (SimulatedDisk, FoundNode) {
    let written = SimulatedDisk::new(1);
    write(&written, folder);
    written.crash();
    let expected = start(written.fork(2)).unwrap();
    (written, expected)
}

/// How many calls a start makes.
fn calls<D>(disk: D) -> u64
where
    D: Disk + Clone,
    D::File: Send,
{
    let shim = Shim::new(disk, Fault::Ends, u64::MAX);
    start(shim.clone()).unwrap();
    shim.calls.made.load(Ordering::SeqCst)
}

#[test]
fn whichever_call_of_a_start_fails_the_next_one_finds_all_there_is() {
    let mut random = random();
    for folder in [Folder::Whole, Folder::Begun, Folder::Nameless] {
        let (written, expected) = simulated(folder);
        let another = folder == Folder::Nameless;
        assert_eq!((expected.life, expected.past), (if another { FRESH } else { LIFE }, another));
        assert_eq!(expected.voters, if another { 0 } else { 3 });
        let calls = calls(written.fork(2));
        assert!(calls > 40, "{folder:?}: a start makes {calls} calls");
        for fault in FAULTS {
            for at in drawn(calls, 6, &mut random) {
                let disk = written.fork(3 + at);
                let met = walk(folder, &expected, (fault, at), &disk, || disk.crash());
                assert_eq!(met, at < calls, "{folder:?}, {fault:?} at {at} of {calls}");
            }
        }
    }
}

/// The power fails in the middle of each call that changes something.
#[test]
fn wherever_the_power_fails_in_a_start_the_next_one_finds_all_there_is() {
    let mut random = random();
    for folder in [Folder::Whole, Folder::Begun, Folder::Nameless] {
        let (written, expected) = simulated(folder);
        let powered = |at: u64| {
            let disk = written.fork(3 + at);
            disk.fail_power(at);
            let first = start(disk.clone());
            let fails = !disk.is_powered();
            assert!(fails || first.is_ok());
            disk.crash();
            let found = start(disk).unwrap_or_else(|error| panic!("{folder:?}, at {at}: {error}"));
            let same = FoundNode { starts: expected.starts, ..found };
            assert_eq!(same, expected, "{folder:?}, at {at}");
            fails
        };
        let disk = written.fork(3);
        let before = disk.changes();
        start(disk.clone()).unwrap();
        let changes = disk.changes() - before;
        assert!(changes > 10, "{folder:?}: it changes something in {changes} calls");
        for at in drawn(changes, 8, &mut random) {
            assert_eq!(powered(at), at < changes, "{folder:?}, at {at}");
        }
    }
}

/// The same on real files, where a process that ends leaves what the system knows.
#[test]
fn on_real_files_whichever_call_of_a_start_fails_the_next_one_finds_all_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(Schema::new(Product.tables()));
    let one = NonZeroU16::MIN;
    let founding = Founding::new("north".into(), &[0, 1, 2].map(NodeId), one).unwrap();
    let path = founding.write(folder.path(), founding.voters[0], &store, Timestamp(1000)).unwrap();
    let copy = |name: String| {
        let to = folder.path().join(name);
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(&path).unwrap().map(|entry| entry.unwrap()) {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        to
    };
    let open = |path: &Path| DataDirectory::open(path).unwrap();
    let expected = start(open(&copy("expected".into()))).unwrap();
    let calls = calls(open(&copy("counted".into())));
    assert!(calls > 20);
    let mut random = random();
    for fault in [EIO, Fault::Ends] {
        for at in drawn(calls, 6, &mut random) {
            let copied = copy(format!("{fault:?}-{at}"));
            let met = walk(Folder::Whole, &expected, (fault, at), &open(&copied), || {});
            assert_eq!(met, at < calls, "{fault:?} at {at} of {calls}");
            fs::remove_dir_all(copied).unwrap();
        }
    }
}
