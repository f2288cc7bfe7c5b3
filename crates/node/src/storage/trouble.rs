//! The trouble with a node's files besides want of room, in words, for the status and the log.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The parts that have trouble, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The folder, or what of the journal is being written, is not what a later start would find. Nothing is acknowledged.
    Folder,
    /// The journal cannot open its next file.
    Journal,
    /// Files are gone that a start needs; the next checkpoint makes up for them.
    Kept,
    /// The last checkpoint could not be written.
    Checkpoint,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Troubles(Mutex<BTreeMap<Part, String>>);

impl Troubles {
    /// A part has this trouble now, or none; whether that is news.
    pub fn set(&self, part: Part, words: Option<String>) -> bool {
        let mut troubles = self.troubles();
        let before = match words.clone() {
            Some(words) => troubles.insert(part, words),
            None => troubles.remove(&part),
        };
        before != words
    }

    /// Whether a part has trouble.
    pub fn has(&self, part: Part) -> bool {
        self.troubles().contains_key(&part)
    }

    /// The worst, in words.
    pub fn words(&self) -> Option<String> {
        self.troubles().values().next().cloned()
    }

    fn troubles(&self) -> MutexGuard<'_, BTreeMap<Part, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
