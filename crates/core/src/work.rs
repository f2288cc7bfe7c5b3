//! The work of a transaction, counted in rows: so that none does more than one may, and so that whoever watches its worker
//! sees that it goes on.
//!
//! Engines' transactions count here what takes time: each row that is looked up in an index or passed by a scan, and, four times
//! as much, each that is added; and the bytes of long values, each time that they are read. To touch a short row again that the transaction
//! has touched is not counted: what does so for ever is not at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::DEFAULT_TRANSACTION_ROWS;
use crate::transaction::Abort;

/// A row that is added counts as so many that are looked up: it takes a place in an index, in the log and in the store.
pub const ADDED: usize = 4;

/// So many bytes of a value that is read count as a row that is looked up: to copy them takes about as long.
pub const BYTES_A_ROW: usize = 4096;

/// No time at all: nothing executes, nothing is to end.
const NEVER: u64 = u64::MAX;

/// One worker's transactions, as whoever watches the worker sees them, and what the watcher asks of them.
///
/// The worker writes `steps` and `since`, the watcher the others. Each word stands for itself: nothing is read together with another as one picture.
#[derive(Debug)]
#[repr(align(128))]
pub struct Progress {
    /// Steps ever: whoever watches compares two looks.
    steps: AtomicU64,
    /// Since when the worker executes, in the watcher's time; [`NEVER`] if it does not.
    since: AtomicU64,
    /// The execution, named by its `since`, behind whose open transaction none is to begin: an order that comes late meets no other one.
    pauses: AtomicU64,
    /// The one whose open transaction is to end.
    ends: AtomicU64,
}

impl Default for Progress {
    fn default() -> Progress {
        let [since, pauses, ends] = [NEVER; 3].map(AtomicU64::new);
        Progress { steps: AtomicU64::new(0), since, pauses, ends }
    }
}

impl Progress {
    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// The worker executes since then; `u64::MAX`: it does not.
    #[inline]
    pub fn executes(&self, since: u64) {
        self.since.store(since, Ordering::Relaxed);
    }

    /// Since when the worker executes; `u64::MAX`: it does not.
    pub fn executes_since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// Asks that what has been executing since then takes no further transaction before it has paused.
    pub fn pause(&self, since: u64) {
        self.pauses.store(since, Ordering::Relaxed);
    }

    /// Asks for the end of what has been executing since then. It ends at its next row, if it is not about to commit.
    pub fn end(&self, since: u64) {
        self.ends.store(since, Ordering::Relaxed);
    }

    fn has_to_pause(&self) -> bool {
        let pauses = self.pauses.load(Ordering::Relaxed);
        pauses != NEVER && pauses == self.executes_since()
    }

    #[inline(always)]
    fn is_asked(&self) -> bool {
        self.ends.load(Ordering::Relaxed) != NEVER
    }

    /// Whether what executes now was asked to end.
    #[cold]
    fn has_to_end(&self) -> bool {
        self.ends.load(Ordering::Relaxed) == self.executes_since()
    }
}

/// The work of a worker's transactions, one after another.
#[derive(Clone, Debug)]
pub struct Work {
    /// Rows of the open transaction, or else of the last one.
    rows: u64,
    /// Most of them.
    most: u64,
    /// The same, or none at all once the transaction was asked to end.
    bound: u64,
    /// Rows of all transactions that have begun, but for the last.
    before: u64,
    /// Grows with every row, and with what is done for many of them.
    steps: u64,
    progress: Option<Arc<Progress>>,
}

impl Default for Work {
    fn default() -> Work {
        let most = DEFAULT_TRANSACTION_ROWS;
        Work { rows: 0, most, bound: most, before: 0, steps: 0, progress: None }
    }
}

impl Work {
    /// From now on a transaction may pass so many rows.
    pub fn set_most(&mut self, rows: u64) {
        (self.most, self.bound) = (rows, rows);
    }

    /// Rows that the open transaction may still pass.
    pub fn left(&self) -> u64 {
        self.bound.saturating_sub(self.rows)
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
        self.bound = self.most;
    }

    /// So many rows are passed.
    ///
    /// # Errors
    /// [`Abort::TooLarge`] if they are more than the transaction may pass, or if it was asked to end.
    #[inline]
    pub fn pass(&mut self, rows: usize) -> Result<(), Abort> {
        self.rows += rows as u64;
        self.step();
        if self.rows > self.bound { Err(Abort::TooLarge) } else { Ok(()) }
    }

    /// A value of so many bytes is read: one that is long takes as long as many rows, each time that it is looked at.
    ///
    /// # Errors
    /// As of [`pass`](Work::pass).
    #[inline]
    pub fn read(&mut self, bytes: usize) -> Result<(), Abort> {
        if bytes < BYTES_A_ROW { Ok(()) } else { self.pass(bytes / BYTES_A_ROW) }
    }

    /// Rows are about to be passed, and others to be added.
    ///
    /// # Errors
    /// [`Abort::TooLarge`] if they are more than the transaction may still pass: better now than when most of them are done.
    pub fn expect(&mut self, passed: u64, added: u64) -> Result<(), Abort> {
        self.step();
        let rows = added.saturating_mul(ADDED as u64).saturating_add(passed);
        if rows > self.left() { Err(Abort::TooLarge) } else { Ok(()) }
    }

    /// The transaction goes on, whatever it is that it does.
    ///
    /// # Errors
    /// [`Abort::TooLarge`] if it was asked to end.
    pub fn go_on(&mut self) -> Result<(), Abort> {
        self.pass(0)
    }

    /// The worker goes on, and cannot end what it does.
    #[inline]
    pub fn step(&mut self) {
        self.steps += 1;
        if let Some(progress) = &self.progress {
            progress.steps.store(self.steps, Ordering::Relaxed);
            if progress.is_asked() && progress.has_to_end() {
                self.bound = 0;
            }
        }
    }

    /// Whether the worker was asked to pause before another transaction.
    pub fn has_to_pause(&self) -> bool {
        self.progress.as_ref().is_some_and(|progress| progress.has_to_pause())
    }

    /// Whether the open transaction, or else the last one, was asked to end.
    pub fn was_ended(&self) -> bool {
        self.bound < self.most
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

    /// Once: a value of 8 MB read a hundred thousand times by one `MULTI` or `BITOP` held all clients for 78 s and cost
    /// the lead: to read a row again counted nothing.
    #[test]
    fn long_values_count_as_many_rows() {
        let mut work = Work::default();
        work.set_most(10);
        assert_eq!([0, 1, 4095].map(|bytes| work.read(bytes)), [Ok(()); 3]);
        assert_eq!(work.rows(), 0);
        assert_eq!([5 * 4096, 5 * 4096, 4096].map(|bytes| work.read(bytes).is_ok()), [true, true, false]);
    }

    #[test]
    fn what_cannot_fit_is_refused_before_it_is_done() {
        let mut work = Work::default();
        work.set_most(20);
        assert_eq!(
            [(0, 5), (20, 0), (1, 5), (0, u64::MAX), (u64::MAX, 1)]
                .map(|(passed, added)| work.expect(passed, added).is_ok()),
            [true, true, false, false, false]
        );
        work.pass(4).expect("it may");
        assert_eq!([4, 5].map(|added| work.expect(0, added).is_ok()), [true, false]);
    }

    #[test]
    fn what_was_asked_to_end_ends_and_nothing_else_does() {
        let (mut work, progress) = (Work::default(), Arc::new(Progress::default()));
        work.show(progress.clone());
        progress.executes(7);
        work.begin();
        progress.end(7);
        assert_eq!(
            (work.pass(1), work.go_on(), work.was_ended()),
            (Err(Abort::TooLarge), Err(Abort::TooLarge), true)
        );
        // The order for that one is still there when the next one begins.
        progress.executes(8);
        work.begin();
        assert_eq!((work.pass(1), work.go_on(), work.was_ended()), (Ok(()), Ok(()), false));
    }

    /// Once: sixty pipelined scripts of a quarter of a second on ten connections were one turn: the first reply came
    /// after 59 s, and the lead was lost.
    #[test]
    fn who_was_asked_to_pause_does_once() {
        let (mut work, progress) = (Work::default(), Arc::new(Progress::default()));
        work.show(progress.clone());
        assert!(!work.has_to_pause());
        progress.executes(7);
        progress.pause(7);
        assert!(work.has_to_pause() && work.pass(1).is_ok());
        for next in [NEVER, 8] {
            progress.executes(next);
            assert!(!work.has_to_pause());
        }
    }
}
