//! The work of a transaction, counted in rows: so that none does more than one may, and so that whoever watches its worker
//! sees that it goes on.
//!
//! Engines' transactions count here what takes time: each row that is looked up in an index or passed by a scan, and, four times
//! as much, each that is added. To touch a row again that the transaction has touched is not counted: what does so for ever is not at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::DEFAULT_TRANSACTION_ROWS;
use crate::transaction::Abort;

/// A row that is added counts as so many that are looked up: it takes a place in an index, in the log and in the store.
pub const ADDED: usize = 4;

/// Steps of one worker, ever. Written by that worker alone; whoever watches compares two looks.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress(AtomicU64);

impl Progress {
    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the transactions of a worker have done, one after another.
#[derive(Clone, Debug)]
pub struct Work {
    /// Rows of the open transaction, or else of the last one.
    rows: u64,
    /// Most of them.
    most: u64,
    /// Rows of all transactions that have begun, but for the last.
    before: u64,
    /// Grows with every row, and with what is done for many of them.
    steps: u64,
    progress: Option<Arc<Progress>>,
}

impl Default for Work {
    fn default() -> Work {
        Work { rows: 0, most: DEFAULT_TRANSACTION_ROWS, before: 0, steps: 0, progress: None }
    }
}

impl Work {
    /// From now on a transaction may pass so many rows.
    pub fn set_most(&mut self, rows: u64) {
        self.most = rows;
    }

    /// Rows that the open transaction may still pass.
    pub fn left(&self) -> u64 {
        self.most.saturating_sub(self.rows)
    }

    /// Most rows that a transaction may pass.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Shows every step there from now on.
    pub fn show(&mut self, progress: Arc<Progress>) {
        self.progress = Some(progress);
    }

    /// A transaction begins.
    #[inline]
    pub fn begin(&mut self) {
        self.before += self.rows;
        self.rows = 0;
    }

    /// So many rows are passed.
    ///
    /// # Errors
    /// [`Abort::TooLarge`] if they are more than the transaction may pass.
    #[inline]
    pub fn pass(&mut self, rows: usize) -> Result<(), Abort> {
        self.rows += rows as u64;
        self.step();
        if self.rows > self.most { Err(Abort::TooLarge) } else { Ok(()) }
    }

    /// The worker goes on, whatever it is that it does.
    #[inline]
    pub fn step(&mut self) {
        self.steps += 1;
        if let Some(progress) = &self.progress {
            progress.0.store(self.steps, Ordering::Relaxed);
        }
    }

    /// Rows of the open transaction, or else of the last one.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows of all transactions so far.
    pub fn all_rows(&self) -> u64 {
        self.before + self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_most_are_refused_and_the_next_transaction_begins_anew() {
        let mut work = Work::default();
        work.set_most(3);
        for _ in 0..2 {
            work.begin();
            assert_eq!([2, 1, 1].map(|rows| work.pass(rows)), [Ok(()), Ok(()), Err(Abort::TooLarge)]);
        }
        assert_eq!((work.rows(), work.all_rows()), (4, 8));
    }

    #[test]
    fn who_watches_sees_every_step() {
        let (mut work, progress) = (Work::default(), Arc::new(Progress::default()));
        work.step();
        work.show(progress.clone());
        work.step();
        let seen = progress.steps();
        work.pass(5).expect("it may");
        assert!(seen > 0 && progress.steps() > seen);
    }
}
