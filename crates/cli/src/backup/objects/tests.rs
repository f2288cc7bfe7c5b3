use std::fs;

use highwater_disk::Disk;
use highwater_node::storage::DataDirectory;
use object_store::PutPayload;
use object_store::memory::InMemory;

use super::*;

/// A store in memory, with a place in it that this process may write to, and a file to copy from.
struct World {
    store: Arc<InMemory>,
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
}

fn open(store: &Arc<InMemory>) -> Objects {
    Objects::of(store.clone(), Path::from("a/b"), "memory:///a/b".into(), Duration::ZERO).unwrap()
}

impl World {
    fn new(len: usize) -> World {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..len).map(|at| (at * 31 + at / 251) as u8).collect();
        fs::write(folder.path().join("file"), &bytes).unwrap();
        World { store: Arc::new(InMemory::new()), folder, bytes }
    }

    fn claimed(&self) -> Objects {
        let place = open(&self.store);
        place.claim().unwrap();
        place
    }

    /// Has the place extend, or store, a file by a piece of ours; how many bytes it told of.
    fn copy(&self, place: &Objects, path: &str, range: (usize, usize), whole: bool) -> io::Result<u64> {
        let file = DataDirectory::read_only(self.folder.path()).unwrap().open("file").unwrap();
        let mut told = 0;
        let mut tell = |more| told += more;
        let source = Source::new(&file, (range.0 as u64, range.1 as u64), &mut tell);
        if whole { place.store(path, source) } else { place.extend(path, source) }?;
        Ok(told)
    }

    fn read(&self, path: &str) -> Vec<u8> {
        let file = open(&self.store).open(path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
        bytes
    }

    fn names(&self, place: &Objects) -> Vec<String> {
        let list = self.store.list(Some(&Path::from("a/b/chain-0001"))).try_collect::<Vec<ObjectMeta>>();
        let objects = place.calls.wait(list).unwrap();
        let mut names: Vec<String> =
            objects.iter().map(|object| object.location.filename().unwrap().to_string()).collect();
        names.sort();
        names
    }
}

const FILE: &str = "chain-0001/journal-1";

#[test]
fn a_growing_file_is_in_pieces_of_which_short_last_ones_are_replaced() {
    let world = World::new(30 << 20);
    let place = world.claimed();
    let mut at = 0;
    for (to, pieces) in [(5, 1), (100_000, 1), (1 << 20, 1), ((1 << 20) + 1, 2), (20 << 20, 4), (30 << 20, 6)]
    {
        assert_eq!(world.copy(&place, FILE, (at, to), false).unwrap(), (to - at) as u64);
        assert!(world.read(FILE) == world.bytes[..to], "{to}");
        assert_eq!(world.names(&place).len(), pieces, "{to} {:?}", world.names(&place));
        at = to;
    }
    // Another process goes on, and knows no more than what is there.
    drop(place);
    let place = world.claimed();
    // What was found to be spoiled is written again, and what is behind goes.
    world.copy(&place, FILE, (9 << 20, 10 << 20), false).unwrap();
    assert!(world.read(FILE) == world.bytes[..10 << 20]);
    world.copy(&place, FILE, (0, 3), false).unwrap();
    assert_eq!(
        (world.read(FILE), world.names(&place)),
        (world.bytes[..3].to_vec(), vec!["journal-1".into()])
    );
    let gap = world.copy(&place, FILE, (7, 9), false).unwrap_err();
    assert!(gap.to_string().contains("it ends at 3"), "{gap}");
    assert_eq!(place.files("chain-0001").unwrap(), ["journal-1"]);
    place.remove(FILE).unwrap();
    assert!(world.names(&place).is_empty());
}

#[test]
fn a_large_file_comes_in_parts_and_is_read_from_anywhere() {
    let world = World::new((21 << 20) + 7);
    let place = world.claimed();
    for len in [0, 1, 8 << 20, world.bytes.len()] {
        world.copy(&place, "chain-0001/checkpoint-0001.part-0", (0, len), true).unwrap();
        assert!(world.read("chain-0001/checkpoint-0001.part-0") == world.bytes[..len], "{len}");
    }
    let file = open(&world.store).open("chain-0001/checkpoint-0001.part-0").unwrap();
    let mut buffer = vec![0; 100_000];
    for at in [0, 100_000, 200_000, 20 << 20, 5, 64 << 10, world.bytes.len() - 9, world.bytes.len(), 70 << 20]
    {
        let read = file.read_at(at as u64, &mut buffer).unwrap();
        let end = (at + buffer.len()).min(world.bytes.len());
        assert!(buffer[..read] == world.bytes[at.min(end)..end], "{at}");
    }
}

#[test]
fn two_that_both_believe_to_be_the_writer_do_not_spoil_anything() {
    let world = World::new(3 << 20);
    let place = world.claimed();
    world.copy(&place, FILE, (0, 1000), false).unwrap();
    // The other one does not ask.
    let other = open(&world.store);
    let elsewhere = Path::from("elsewhere");
    let claim = Claim::take(Arc::new(InMemory::new()), &elsewhere, Duration::ZERO, |_| {});
    let claim = Arc::new(other.calls.wait(claim).unwrap());
    other.claim.set((claim, other.calls.begin(async {}))).unwrap();
    world.copy(&other, FILE, (1000, 2000), false).unwrap();
    let refused = world.copy(&place, FILE, (1000, 1500), false).unwrap_err();
    assert!(refused.to_string().contains("another process has written to this archive"), "{refused}");
    assert!(world.read(FILE) == world.bytes[..2000]);
    other.publish("chain-0001/chain.json", b"other").unwrap();
    let refused = place.publish("chain-0001/chain.json", b"this").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    // What is the same is as good as written.
    place.publish("chain-0001/chain.json", b"other").unwrap();
    // It looks again, and goes on from what is there.
    world.copy(&place, FILE, (2000, 2500), false).unwrap();
    assert!(world.read(FILE) == world.bytes[..2500]);
}

#[test]
fn a_piece_that_is_missing_is_damage_and_no_end() {
    let world = World::new(20 << 20);
    let place = world.claimed();
    world.copy(&place, FILE, (0, 20 << 20), false).unwrap();
    let names = world.names(&place);
    assert_eq!(names[1], "journal-1.at-0000000000800000");
    let path = place.path("chain-0001").join(names[1].as_str());
    place.calls.wait(world.store.delete(&path)).unwrap();
    let error = open(&world.store).open(FILE).err().unwrap();
    assert!(error.to_string().contains("its piece at offset 8388608 is missing"), "{error}");
}

/// A machine was paused for longer than a writer may be silent. The next writer removed the parts of a checkpoint that had no manifest yet; and
/// the first one, which had woken and not looked at its claim yet, published it.
#[test]
fn a_writer_that_was_taken_for_dead_finds_out_before_it_publishes() {
    let world = World::new(1000);
    let place = world.claimed();
    const PART: &str = "chain-0001/checkpoint-0001.part-0";
    world.copy(&place, PART, (0, 1000), true).unwrap();
    place.confirm().unwrap();
    place.confirm().unwrap();
    // Its words about its claim cross each other, and it stays the writer.
    let (claim, _) = place.claim.get().unwrap();
    let both = futures_util::future::join(claim.confirm(Duration::ZERO), claim.confirm(Duration::ZERO));
    assert!(matches!(place.calls.wait(both), (Ok(()), Ok(()))));
    // What another process does to the file is seen, though this one believes to know it.
    assert_eq!(place.files("chain-0001").unwrap(), ["checkpoint-0001.part-0"]);
    place.calls.wait(world.store.delete(&place.path(PART))).unwrap();
    assert!(place.open(PART).is_ok(), "it is remembered");
    place.confirm().unwrap();
    assert_eq!(place.open(PART).err().unwrap().kind(), io::ErrorKind::NotFound);
    // And so is another writer.
    let theirs = PutPayload::from(&b"{}"[..]);
    place.calls.wait(world.store.put(&place.path(WRITER), theirs)).unwrap();
    assert!(place.confirm().unwrap_err().to_string().contains("another process"));
    assert!(place.publish("chain-0001/checkpoint-0001.manifest", b"manifest").is_err());
}
