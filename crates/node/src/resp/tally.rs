//! How many commands of each kind were taken.

use std::sync::atomic::{AtomicU64, Ordering};

use super::command::{COMMANDS, Opcode};

/// Counts of the commands that a worker's connections took, those inside a `MULTI` included. Written by one thread, read by anyone.
#[derive(Debug)]
pub struct Tally(Box<[AtomicU64]>);

impl Default for Tally {
    fn default() -> Tally {
        Tally(COMMANDS.iter().map(|_| AtomicU64::new(0)).collect())
    }
}

impl Tally {
    /// One more. Only the owner counts.
    #[inline]
    pub fn count(&self, command: Opcode) {
        let count = &self.0[usize::from(command.byte())];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// How many of one kind.
    pub fn of(&self, command: Opcode) -> u64 {
        self.0[usize::from(command.byte())].load(Ordering::Relaxed)
    }
}
