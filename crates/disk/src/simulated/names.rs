//! Which file has which name: as it is seen, as it is kept, and what lies between.

use std::collections::BTreeMap;
use std::io;

use highwater_core::Random;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    seen: BTreeMap<String, u64>,
    kept: BTreeMap<String, u64>,
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Create { name: String, file: u64 },
    Rename { from: String, to: String, file: u64 },
    Remove { name: String, file: u64 },
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<u64> {
        self.seen.get(name).copied()
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.seen.keys().cloned().collect()
    }

    /// Whether a process sees the file.
    pub(super) fn is_seen(&self, file: u64) -> bool {
        self.seen.values().any(|&named| named == file)
    }

    /// Whether the file has a name, or may have one after a crash.
    pub(super) fn has(&self, file: u64) -> bool {
        self.is_seen(file)
            || self.kept.values().any(|&named| named == file)
            || self.unsynced.iter().any(|change| change.file() == file)
    }

    pub(super) fn create(&mut self, name: &str, file: u64) {
        self.change(Change::Create { name: name.into(), file });
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.get(from).ok_or(io::ErrorKind::NotFound)?;
        self.change(Change::Rename { from: from.into(), to: to.into(), file });
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        let file = self.get(name).ok_or(io::ErrorKind::NotFound)?;
        self.change(Change::Remove { name: name.into(), file });
        Ok(())
    }

    pub(super) fn replace(&mut self, name: &str, file: u64) {
        self.seen.insert(name.into(), file);
        self.kept.insert(name.into(), file);
    }

    pub(super) fn lose(&mut self, name: &str) {
        self.seen.remove(name);
        self.kept.remove(name);
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.kept);
        }
    }

    /// Keeps any of the unsynced changes and forgets the others.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        let some = random.below(4);
        for change in self.unsynced.drain(..) {
            let survives = match some {
                0 => true,
                1 => false,
                _ => random.one_in(2),
            };
            if survives {
                change.apply(&mut self.kept);
            }
        }
    }

    /// What is seen is what was kept.
    pub(super) fn crash(&mut self, random: &mut Random) {
        self.fail_sync(random);
        self.seen.clone_from(&self.kept);
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.unsynced.push(change);
    }
}

impl Change {
    fn file(&self) -> u64 {
        match self {
            Change::Create { file, .. } | Change::Rename { file, .. } | Change::Remove { file, .. } => *file,
        }
    }

    /// Names that another change survived to give to another file are left alone.
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        let forget = |names: &mut BTreeMap<String, u64>, name: &str, file| {
            if names.get(name) == Some(&file) {
                names.remove(name);
            }
        };
        match self {
            Change::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            Change::Rename { from, to, file } => {
                forget(names, from, *file);
                names.insert(to.clone(), *file);
            }
            Change::Remove { name, file } => forget(names, name, *file),
        }
    }
}
