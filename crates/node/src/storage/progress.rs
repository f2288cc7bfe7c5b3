//! How far a node is on its way from its files to a replica.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Shared between who starts the node and who is asked how far that is.
#[derive(Debug, Default)]
pub struct StartProgress {
    step: Mutex<Step>,
    done: AtomicU64,
    given_up: Arc<AtomicBool>,
}

/// What is being done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// Nothing yet.
    #[default]
    Opens,
    /// A checkpoint of so many bytes.
    Loads {
        number: u64,
        /// How long it is.
        bytes: u64,
    },
    /// The journal, whose files have so many bytes.
    Reads {
        /// The last of them has more room than records.
        at_most: u64,
    },
    /// Threads and connections.
    Begins,
}

impl StartProgress {
    /// The progress of a start that is given up once this is true: whatever takes long looks at it now and then.
    pub fn until(given_up: Arc<AtomicBool>) -> StartProgress {
        StartProgress { given_up, ..StartProgress::default() }
    }

    /// Whether nobody wants the node to start any more.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Another step begins.
    pub fn begin(&self, step: Step) {
        *self.step.lock().expect("nobody panics here") = step;
        self.done.store(0, Ordering::Relaxed);
    }

    /// So many more bytes are done; how many that makes.
    pub fn add(&self, bytes: u64) -> u64 {
        self.done.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    pub fn words(&self) -> String {
        let step = *self.step.lock().expect("nobody panics here");
        let done = self.done.load(Ordering::Relaxed) >> 20;
        match step {
            Step::Opens => "opening its files".into(),
            Step::Loads { number, bytes } => {
                format!("loading checkpoint {number}: {done} of {} MiB", bytes >> 20)
            }
            Step::Reads { at_most } => {
                format!("reading the journal: {done} of at most {} MiB", at_most >> 20)
            }
            Step::Begins => "beginning to serve".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_counts_from_the_beginning() {
        let progress = StartProgress::default();
        assert_eq!(progress.words(), "opening its files");
        progress.begin(Step::Loads { number: 7, bytes: 2 << 30 });
        assert_eq!(progress.add(3 << 20), 3 << 20);
        assert_eq!(progress.words(), "loading checkpoint 7: 3 of 2048 MiB");
        progress.begin(Step::Reads { at_most: 64 << 20 });
        assert_eq!(progress.words(), "reading the journal: 0 of at most 64 MiB");
    }
}
