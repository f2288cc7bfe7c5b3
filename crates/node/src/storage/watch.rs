//! The thread that looks whether a node's folder still is the one that it has open.
//!
//! A folder that was removed, moved or replaced under a running node takes writes and syncs as before, and no later start finds them. So
//! the folder is looked at once a second. What is lost that way the journal does not tell to be durable: see
//! [`JournalQueues::is_lost`]. Files that the node only needs to start again (earlier segments, the newest checkpoint) may be made up for
//! by another checkpoint, which is asked for.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater_disk::journal::segment_name;
use highwater_disk::{Disk, identity};

use super::queue::JournalQueues;
use super::trouble::Part;

/// How often it looks.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How soon it sees that the node ends.
const STOP_EVERY: Duration = Duration::from_millis(100);
/// So many missing files are named.
const NAMED: usize = 3;

/// The thread.
pub struct FolderWatch<D: Disk> {
    disk: D,
    queues: Arc<JournalQueues>,
    /// The disk says whose it is: without that file no start knows the journal again.
    has_identity: bool,
    /// Files that were not there at the last look. A file counts as missing the second time: it may have been removed rightly in between.
    missed: BTreeSet<String>,
}

impl<D: Disk> FolderWatch<D> {
    /// Ready to run.
    pub fn new(disk: D, queues: Arc<JournalQueues>) -> FolderWatch<D> {
        let has_identity = disk.names().is_ok_and(|names| names.iter().any(|name| name == identity::NAME));
        FolderWatch { disk, queues, has_identity, missed: BTreeSet::new() }
    }

    /// Until `stopping` says so; the disk.
    pub fn run(mut self, stopping: impl Fn() -> bool) -> D {
        let mut looked = Instant::now();
        while !stopping() {
            std::thread::park_timeout(STOP_EVERY);
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.look();
            }
        }
        self.disk
    }

    /// Looks once, and says what is news.
    pub fn look(&mut self) {
        let findings = self.queues.findings();
        // What cannot be told now is as it was: a folder that is lost is not found again by want of a descriptor.
        let Ok(mut lost) = self.disk.why_lost() else { return };
        self.queues.looked();
        let missing = if lost.is_none() { self.find_missing() } else { Ok(Default::default()) };
        let Ok((written, kept)) = missing else { return };
        if lost.is_none() && !written.is_empty() {
            lost = Some(format!("{} in its folder was removed", list(&written)));
        }
        match lost.map(|why| words_of(&why)) {
            Some(why) if self.queues.set_lost(why.clone()) => tracing::error!("{why}"),
            None if self.queues.set_found(findings) => {
                tracing::warn!("the folder is there again, and this node goes on");
            }
            Some(_) | None => {}
        }
        let kept = (!kept.is_empty()).then(|| {
            format!(
                "{} in its folder was removed: this node could not start again before it has written another checkpoint, which it does now",
                list(&kept)
            )
        });
        if self.queues.troubles.set(Part::Kept, kept.clone()) {
            match kept {
                Some(why) => tracing::error!("{why}"),
                None => tracing::info!("another checkpoint makes up for the files that were removed"),
            }
        }
    }

    /// Files that are missing the second time: those that are written, and those that a start needs.
    fn find_missing(&mut self) -> io::Result<(Vec<String>, Vec<String>)> {
        let before = self.queues.files();
        let there = self.disk.names()?;
        let after = self.queues.files();
        let there: BTreeSet<String> = there.into_iter().collect();
        let (mut written, mut kept): (Vec<String>, Vec<String>) = Default::default();
        written.extend(self.has_identity.then(|| identity::NAME.into()));
        if let (Some(before), Some(after)) = (before.journal, after.journal) {
            for number in before.first.max(after.first)..=before.last.min(after.last) {
                let is_written = after.written.is_some_and(|first| number >= first);
                let files = if is_written { &mut written } else { &mut kept };
                files.push(segment_name(number));
            }
        }
        if before.checkpoint == after.checkpoint {
            kept.extend(after.checkpoint);
        }
        let missing = |files: &mut Vec<String>| files.retain(|name| !there.contains(name));
        missing(&mut written);
        missing(&mut kept);
        let now: BTreeSet<String> = written.iter().chain(&kept).cloned().collect();
        let missed = std::mem::replace(&mut self.missed, now);
        [&mut written, &mut kept].into_iter().for_each(|files| files.retain(|name| missed.contains(name)));
        Ok((written, kept))
    }
}

/// The words on a folder that is lost.
pub fn words_of(why: &str) -> String {
    format!(
        "{why}: no later start would find what is written now, so this node acknowledges nothing more; put the folder back as it was, or \
         stop the node, move away what is left of the folder, and start it: it copies the state of the others"
    )
}

/// The first few.
fn list(names: &[String]) -> String {
    let more = if names.len() > NAMED { format!(" and {} more", names.len() - NAMED) } else { String::new() };
    format!("{}{more}", names[..names.len().min(NAMED)].join(", "))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use highwater_disk::SimulatedDisk;
    use highwater_disk::journal::Files;

    use super::*;
    use crate::storage::DataDirectory;

    fn looked(watch: &mut FolderWatch<DataDirectory>) -> (bool, Option<String>) {
        watch.look();
        watch.look();
        (watch.queues.is_lost(), watch.queues.troubles.words())
    }

    /// `status` called a node whole whose folder was removed, and it acknowledged writes that no start would have found.
    #[test]
    fn a_folder_that_is_not_there_any_more_is_lost_until_it_is_back() {
        let place = tempfile::tempdir().unwrap();
        let (path, away) = (place.path().join("node-0"), place.path().join("away"));
        let disk = DataDirectory::open(&path).unwrap();
        let queues = Arc::new(JournalQueues::new(1, |_| {}));
        let mut watch = FolderWatch::new(disk, queues);
        assert_eq!(looked(&mut watch), (false, None));
        let lost = |watch: &mut FolderWatch<DataDirectory>, words: &str| {
            let (lost, said) = looked(watch);
            let said = said.unwrap();
            assert!(lost && said.contains(words) && said.contains("acknowledges nothing"), "{said}");
        };
        fs::rename(&path, &away).unwrap();
        lost(&mut watch, "was removed or moved");
        fs::create_dir(&path).unwrap();
        lost(&mut watch, "another folder");
        fs::remove_dir(&path).unwrap();
        fs::rename(&away, &path).unwrap();
        assert_eq!(looked(&mut watch), (false, None), "it is back");
        fs::remove_file(path.join("lock")).unwrap();
        lost(&mut watch, "lock");
        fs::write(path.join("lock"), "").unwrap();
        lost(&mut watch, "lock");
        fs::remove_dir_all(&path).unwrap();
        lost(&mut watch, "was removed or moved");
    }

    /// A disk that takes so long for its names that the folder goes meanwhile, and the journal finds it gone.
    struct Slow {
        disk: SimulatedDisk,
        queues: Arc<JournalQueues>,
        goes: Cell<bool>,
    }

    impl Disk for Slow {
        type File = <SimulatedDisk as Disk>::File;

        fn names(&self) -> io::Result<Vec<String>> {
            if self.goes.take() {
                self.queues.set_lost("it was removed".into());
            }
            self.disk.names()
        }

        fn create(&self, name: &str, len: u64) -> io::Result<Self::File> {
            self.disk.create(name, len)
        }

        fn open(&self, name: &str) -> io::Result<Self::File> {
            self.disk.open(name)
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.disk.rename(from, to)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.disk.remove(name)
        }

        fn sync_names(&self) -> io::Result<()> {
            self.disk.sync_names()
        }

        fn free_bytes(&self) -> io::Result<u64> {
            self.disk.free_bytes()
        }
    }

    /// Such a look once took back what the journal had found, and the journal told what no start finds.
    #[test]
    fn a_look_that_began_before_the_folder_went_takes_nothing_back() {
        let queues = Arc::new(JournalQueues::new(1, |_| {}));
        let disk = Slow { disk: SimulatedDisk::new(1), queues: queues.clone(), goes: Cell::new(false) };
        let mut watch = FolderWatch::new(disk, queues);
        watch.disk.goes.set(true);
        watch.look();
        assert!(watch.queues.is_lost(), "found while it was looked");
        watch.look();
        assert!(!watch.queues.is_lost(), "a later look saw that it is there");
    }

    /// An error that says nothing of the folder once cleared what had been found before.
    #[test]
    fn what_cannot_be_looked_at_stays_as_it_was() {
        let place = tempfile::tempdir().unwrap();
        let (path, away) = (place.path().join("node-0"), place.path().join("away"));
        let queues = Arc::new(JournalQueues::new(1, |_| {}));
        let mut watch = FolderWatch::new(DataDirectory::open(&path).unwrap(), queues);
        fs::rename(&path, &away).unwrap();
        assert!(looked(&mut watch).0);
        // A name that leads to itself cannot be looked at.
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(looked(&mut watch).0);
        fs::remove_file(&path).unwrap();
        fs::rename(&away, &path).unwrap();
        assert!(!looked(&mut watch).0);
        fs::rename(&path, &away).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(!looked(&mut watch).0, "nothing is known, and nothing was lost before");
    }

    #[test]
    fn a_file_that_is_written_is_missed_and_one_that_is_kept_asks_for_a_checkpoint() {
        let place = tempfile::tempdir().unwrap();
        let disk = DataDirectory::open(place.path()).unwrap();
        let queues = Arc::new(JournalQueues::new(1, |_| {}));
        (1..=4).for_each(|number| drop(disk.create(&segment_name(number), 1).unwrap()));
        disk.create(identity::NAME, 1).unwrap();
        disk.create("checkpoint-0001.manifest", 1).unwrap();
        queues.set_files(Some(Files { first: 1, last: 4, written: Some(3) }));
        queues.set_checkpoint(vec!["checkpoint-0001.manifest".into()]);
        let mut watch = FolderWatch::new(disk.clone(), queues.clone());
        assert_eq!(looked(&mut watch), (false, None));
        disk.remove("checkpoint-0001.manifest").unwrap();
        watch.look();
        assert!(!queues.is_thin(), "it may have been removed by us a moment ago");
        watch.look();
        assert!(queues.is_thin() && queues.troubles.words().unwrap().contains("checkpoint-0001.manifest"));
        queues.set_checkpoint(Vec::new());
        assert!(looked(&mut watch) == (false, None) && !queues.is_thin());
        disk.remove(&segment_name(2)).unwrap();
        let (lost, said) = looked(&mut watch);
        assert!(!lost && queues.is_thin() && said.unwrap().contains(&segment_name(2)));
        queues.set_files(Some(Files { first: 3, last: 4, written: Some(3) }));
        assert_eq!(looked(&mut watch), (false, None));
        // The next one, reserved and empty: what goes there would be lost.
        disk.remove(&segment_name(4)).unwrap();
        let (lost, said) = looked(&mut watch);
        assert!(lost && said.unwrap().contains(&segment_name(4)));
        disk.create(&segment_name(4), 1).unwrap();
        assert_eq!(looked(&mut watch), (false, None));
        disk.remove(identity::NAME).unwrap();
        let (lost, said) = looked(&mut watch);
        assert!(lost && said.unwrap().contains("identity in its folder was removed"));
    }
}
