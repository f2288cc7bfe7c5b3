//! The bounded queues between workers and the journal's thread.
//!
//! A worker puts in what its turn wants written, and never waits: what finds no room stays with it, and it is woken when there
//! is. The thread empties all queues, appends and syncs once, tells each worker how far it is synced, and wakes it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use highwater_core::Generation;
use highwater_core::evidence::Starts;
use highwater_disk::journal::Files;
use highwater_redis::meter::histogram::Histogram;
use highwater_seam::{DiskState, LogPosition, Nanos};

use super::trouble::{Part, Troubles};

/// A queue takes writes until it holds so many bytes: enough for one sync to be worth it, little enough for memory.
const MAX_QUEUED_BYTES: usize = 4 << 20;

const SECOND: Nanos = 1_000_000_000;
/// A disk that has not answered for so long hangs, for whoever asks how it is.
const HANGS_AFTER: Nanos = 2 * SECOND;

/// What a checkpoint takes beyond the records that the journal brought: what frames them, and what came while it was written.
const CHECKPOINT_SLACK_BYTES: u64 = 2 << 20;

/// All queues of a node.
pub struct JournalQueues {
    workers: Vec<Queue>,
    /// Wakes a worker.
    wake: Box<dyn Fn(usize) + Send + Sync>,
    /// The journal's, once it runs.
    thread: OnceLock<Thread>,
    full: AtomicBool,
    low: AtomicBool,
    /// Length of the last checkpoint.
    checkpoint_bytes: AtomicU64,
    /// What [`taken`](JournalQueues::taken) was when it was begun.
    taken_before: AtomicU64,
    /// A checkpoint is scanned, and can be published once what it relies on is synced.
    checkpoint_waits: AtomicBool,
    /// Bytes of memory that the store takes.
    store_bytes: AtomicU64,
    /// The state is being copied, or needs to be.
    copies: AtomicBool,
    ballast: BallastState,
    /// Bytes of the disk that the journal took in this life, with what fills its blocks.
    taken: AtomicU64,
    /// The start of a process on this disk.
    starts: OnceLock<Arc<Starts>>,
    /// How long syncs took.
    syncs: Histogram,
    /// Since when the journal's thread is at what it took out of the queues last; 0 if it is at nothing.
    at_work_since: AtomicU64,
    /// The trouble with the files besides want of room.
    pub troubles: Troubles,
    /// See [`is_lost`](JournalQueues::is_lost).
    lost: AtomicBool,
    /// The looks at the folder, by two threads.
    looks: Mutex<Looks>,
    files: Mutex<NodeFiles>,
}

/// The looks at the folder. The watch looks, and the journal's thread if nobody has for a while; either may be held up in the middle.
#[derive(Debug, Default)]
struct Looks {
    /// The last one that was begun.
    begun: Generation,
    /// The latest one of those whose findings count.
    told: Generation,
    /// When somebody looked last.
    at: Option<Instant>,
}

/// Which files have to be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFiles {
    /// The files of the journal.
    pub journal: Option<Files>,
    /// Those of the newest checkpoint.
    pub checkpoint: Vec<String>,
}

/// What is known of the disk's [ballast](highwater_disk::Ballast).
#[derive(Default)]
struct BallastState {
    /// Bytes that are held, and that should be.
    held: AtomicU64,
    wanted: AtomicU64,
    /// The disk was full, and not all of it is held again.
    straits: AtomicBool,
    /// A checkpoint is being written where its part was: the journal's thread leaves it alone.
    in_use: Mutex<bool>,
    /// A checkpoint has used its part: it is to be looked after.
    gone: AtomicBool,
}

/// One worker's.
#[derive(Default)]
#[repr(align(128))]
struct Queue {
    writes: Mutex<Writes>,
    /// Bytes of the writes, so that others need no lock to know. Written under the lock.
    bytes: AtomicUsize,
    synced: AtomicU64,
    released: AtomicU64,
}

#[derive(Default)]
struct Writes {
    queue: Vec<Bytes>,
    /// The worker found no room.
    waiting: bool,
}

impl JournalQueues {
    /// For so many workers, which `wake` wakes.
    pub fn new(workers: u16, wake: impl Fn(usize) + Send + Sync + 'static) -> JournalQueues {
        JournalQueues {
            workers: (0..workers).map(|_| Queue::default()).collect(),
            wake: Box::new(wake),
            thread: OnceLock::new(),
            full: AtomicBool::new(false),
            low: AtomicBool::new(false),
            checkpoint_bytes: AtomicU64::new(0),
            taken_before: AtomicU64::new(0),
            checkpoint_waits: AtomicBool::new(false),
            store_bytes: AtomicU64::new(u64::MAX),
            copies: AtomicBool::new(false),
            ballast: BallastState::default(),
            taken: AtomicU64::new(0),
            starts: OnceLock::new(),
            syncs: Histogram::default(),
            at_work_since: AtomicU64::new(0),
            troubles: Troubles::default(),
            lost: AtomicBool::new(false),
            looks: Mutex::default(),
            files: Mutex::default(),
        }
    }

    /// How long syncs took; counted by the journal's thread.
    pub fn syncs(&self) -> &Histogram {
        &self.syncs
    }

    /// The journal's thread begins to bring what there is to the disk, or has done so.
    pub(super) fn set_at_work(&self, since: Option<Nanos>) {
        self.at_work_since.store(since.unwrap_or(0), Ordering::Relaxed);
    }

    /// The trouble with the disk besides want of room, in words: with its files, or it answers nothing.
    pub fn trouble(&self, now: Nanos) -> Option<String> {
        let since = Some(self.at_work_since.load(Ordering::Relaxed)).filter(|since| *since != 0);
        let took = since.map(|since| now.saturating_sub(since)).filter(|took| *took >= HANGS_AFTER);
        let hangs =
            || took.map(|took| format!("the disk hangs: it has not answered for {} s", took / SECOND));
        self.troubles.words().or_else(hangs)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Takes a worker's writes, in order, behind all that it put in before. What is left in `writes` found no room: the worker is
    /// woken when there is some.
    pub fn put(&self, worker: usize, writes: &mut Vec<Bytes>) {
        if writes.is_empty() {
            return;
        }
        let queue = &self.workers[worker];
        {
            let mut inside = queue.writes.lock().expect("nobody panics while holding a queue");
            let mut bytes = queue.bytes.load(Ordering::Relaxed);
            let mut taken = 0;
            while taken < writes.len() && bytes < MAX_QUEUED_BYTES {
                bytes += writes[taken].len();
                taken += 1;
            }
            inside.queue.extend(writes.drain(..taken));
            inside.waiting |= !writes.is_empty();
            queue.bytes.store(bytes, Ordering::Relaxed);
        }
        self.ring();
    }

    /// How far a worker's writes are durable.
    #[inline]
    pub fn synced(&self, worker: usize) -> LogPosition {
        // Acquire; pairs with the Release in `publish`.
        LogPosition(self.workers[worker].synced.load(Ordering::Acquire))
    }

    /// A worker needs nothing of the journal up to this position any more.
    pub fn release(&self, worker: usize, up_to: LogPosition) {
        self.workers[worker].released.fetch_max(up_to.0, Ordering::Relaxed);
        self.ring();
    }

    /// Whether the disk has no room for more of the journal: writes wait until it has.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// The journal has these files now.
    pub(super) fn set_files(&self, files: Option<Files>) {
        self.node_files().journal = files;
    }

    /// These are all files of the newest checkpoint.
    pub(super) fn set_checkpoint(&self, files: Vec<String>) {
        self.node_files().checkpoint = files;
        self.troubles.set(Part::Kept, None);
    }

    /// Which files have to be there.
    pub fn files(&self) -> NodeFiles {
        self.node_files().clone()
    }

    fn node_files(&self) -> MutexGuard<'_, NodeFiles> {
        self.files.lock().expect("nobody panics while holding the files")
    }

    /// Somebody is about to look whether the folder is the one that is open: names what is found by it.
    pub(super) fn begin_look(&self) -> Generation {
        self.looks().begun.advance()
    }

    /// A look found that no later start would find what is written now, and why; or that one would (again). Whether that is news.
    ///
    /// Invariant: of two looks the one that began later counts, whichever ends first. One that began before the folder was lost, and ends late,
    /// does not have what is synced there acknowledged.
    pub(super) fn set_lost(&self, look: Generation, why: Option<String>) -> bool {
        let news = {
            let mut looks = self.looks();
            if look < looks.told {
                tracing::info!("a look at the folder ended late, after a later one: it says nothing");
                return false;
            }
            looks.told = look;
            self.lost.store(why.is_some(), Ordering::Relaxed);
            self.troubles.set(Part::Folder, why)
        };
        if news {
            self.ring();
        }
        news
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().expect("nobody panics while it is held")
    }

    /// Whether no later start would find what is written now: the folder was removed, moved or replaced. Nothing becomes durable then.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Somebody has looked whether the folder still is the one that is open.
    pub(super) fn looked(&self) {
        self.looks().at = Some(Instant::now());
    }

    /// Whether somebody has looked in the last `time`.
    pub(super) fn was_looked_at_within(&self, time: Duration) -> bool {
        let looked = self.looks().at;
        looked.is_some_and(|looked| looked.elapsed() < time)
    }

    /// Whether files are gone that another checkpoint makes up for.
    pub fn is_thin(&self) -> bool {
        self.troubles.has(Part::Kept)
    }

    /// A checkpoint took so many bytes, and was begun when the journal had [taken](JournalQueues::taken) so many.
    pub fn checkpoint_took(&self, bytes: u64, taken_before: u64) {
        self.checkpoint_bytes.store(bytes, Ordering::Relaxed);
        self.taken_before.store(taken_before, Ordering::Relaxed);
    }

    /// The store takes so many bytes of memory, and is replaced by a copy, or is not (any more).
    pub fn set_state(&self, store_bytes: u64, copies: bool) {
        self.store_bytes.store(store_bytes, Ordering::Relaxed);
        if copies {
            // The last checkpoint says nothing of what comes.
            self.checkpoint_bytes.store(u64::MAX, Ordering::Relaxed);
        }
        if self.copies.swap(copies, Ordering::Relaxed) != copies {
            self.ring();
        }
    }

    /// Bytes that the next checkpoint takes at most: those of the last one and what the journal has brought since, or what the store
    /// takes in memory if that is less.
    pub fn checkpoint_room(&self) -> u64 {
        let since = self.taken().saturating_sub(self.taken_before.load(Ordering::Relaxed));
        let brought = self.checkpoint_bytes.load(Ordering::Relaxed).saturating_add(since);
        brought.min(self.store_bytes.load(Ordering::Relaxed)).saturating_add(CHECKPOINT_SLACK_BYTES)
    }

    /// A checkpoint waits for the journal, or does not any more: on a full disk that is what the ballast is for.
    pub fn set_checkpoint_waits(&self, waits: bool) {
        self.checkpoint_waits.store(waits, Ordering::Relaxed);
        self.ring();
    }

    /// Whether nothing but a sync leads on: to a checkpoint that makes room, or to a state of which one can be made.
    pub(super) fn needs_sync(&self) -> bool {
        self.checkpoint_waits.load(Ordering::Relaxed) || self.copies.load(Ordering::Relaxed)
    }

    /// A checkpoint is being written where ballast was, or is not any more.
    pub fn set_ballast_in_use(&self, in_use: bool) {
        let before = std::mem::replace(&mut *self.ballast.in_use.lock().expect("nobody panics here"), in_use);
        if before && !in_use {
            self.ballast.gone.store(true, Ordering::Relaxed);
            self.ring();
        }
    }

    /// To be held while the ballast is looked after; `None` if a checkpoint uses it.
    pub(super) fn look_after_ballast(&self) -> Option<MutexGuard<'_, bool>> {
        Some(self.ballast.in_use.lock().expect("nobody panics here")).filter(|in_use| !**in_use)
    }

    /// Whether a checkpoint has used its ballast since this was asked last.
    pub(super) fn take_ballast_news(&self) -> bool {
        self.ballast.gone.swap(false, Ordering::Relaxed)
    }

    pub(super) fn set_ballast(&self, held: u64, wanted: u64) {
        self.ballast.held.store(held, Ordering::Relaxed);
        self.ballast.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Bytes of the disk that are held as ballast, and that should be.
    pub fn ballast(&self) -> (u64, u64) {
        (self.ballast.held.load(Ordering::Relaxed), self.ballast.wanted.load(Ordering::Relaxed))
    }

    /// Whether this is news.
    pub(super) fn set_straits(&self, straits: bool) -> bool {
        self.ballast.straits.swap(straits, Ordering::Relaxed) != straits
    }

    /// Whether the disk was full, and not all of the ballast is held again.
    pub fn is_in_straits(&self) -> bool {
        self.ballast.straits.load(Ordering::Relaxed)
    }

    /// The journal took so many more bytes of the disk.
    pub fn took(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of the disk that the journal took in this life: small groups take whole blocks.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether the disk is about to be full: there is no room for another segment of the journal or for the ballast, though there may be
    /// some in the segment that it has.
    pub fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// How the disk is.
    pub fn disk_state(&self) -> DiskState {
        let starts = self.starts.get().cloned().unwrap_or_default();
        DiskState { low: self.is_low(), starts, synced: self.synced_bytes() }
    }

    /// The process starts; `starts` are all on this disk, this one the newest. From here on [`disk_state`](JournalQueues::disk_state) says so.
    ///
    /// # Panics
    /// If that was said before.
    pub fn begin(&self, starts: Starts) {
        self.starts.set(Arc::new(starts)).expect("a process starts once");
    }

    /// Durable bytes of all writers.
    fn synced_bytes(&self) -> u64 {
        // Acquire; pairs with the Release in `publish`.
        self.workers.iter().map(|queue| queue.synced.load(Ordering::Acquire)).sum()
    }

    /// Bytes that wait for the journal's thread.
    pub fn held_bytes(&self) -> usize {
        self.workers.iter().map(|queue| queue.bytes.load(Ordering::Relaxed)).sum()
    }

    /// Makes the journal's thread look for news.
    pub fn ring(&self) {
        // Orders the caller's news before the look for the thread; pairs with the fence in `attach`.
        fence(Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// The calling thread is the journal's.
    ///
    /// # Panics
    /// If there is one already.
    pub(super) fn attach(&self) {
        self.thread.set(std::thread::current()).expect("one thread keeps the journal");
        // Whoever did not find the thread told its news before: they are found. Pairs with the fence in `ring`.
        fence(Ordering::SeqCst);
    }

    /// All that a worker put in. One that found no room is woken.
    pub(super) fn take(&self, worker: usize) -> Vec<Bytes> {
        let queue = &self.workers[worker];
        let Writes { queue: taken, waiting } = {
            let mut inside = queue.writes.lock().expect("nobody panics while holding a queue");
            queue.bytes.store(0, Ordering::Relaxed);
            std::mem::take(&mut *inside)
        };
        if waiting {
            (self.wake)(worker);
        }
        taken
    }

    pub(super) fn released(&self, worker: usize) -> u64 {
        self.workers[worker].released.load(Ordering::Relaxed)
    }

    /// Tells the workers how far they are synced, and wakes those that got on.
    pub(super) fn publish(&self, positions: &[u64]) {
        for (worker, (queue, &position)) in self.workers.iter().zip(positions).enumerate() {
            if queue.synced.load(Ordering::Relaxed) != position {
                // Release; pairs with the Acquire in `synced`.
                queue.synced.store(position, Ordering::Release);
                (self.wake)(worker);
            }
        }
    }

    /// Tells the controller, which is the last writer, if this is news; whether it is.
    pub(super) fn set_low(&self, low: bool) -> bool {
        let news = self.low.swap(low, Ordering::Relaxed) != low;
        if news {
            (self.wake)(self.workers.len() - 1);
        }
        news
    }

    /// Whether this is news.
    pub(super) fn set_full(&self, full: bool) -> bool {
        self.full.swap(full, Ordering::Relaxed) != full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_does_not_answer_is_said_to_hang() {
        let queues = JournalQueues::new(1, |_| {});
        assert_eq!(queues.trouble(100 * SECOND), None);
        queues.set_at_work(Some(100 * SECOND));
        assert_eq!(queues.trouble(101 * SECOND), None);
        let words = queues.trouble(103 * SECOND).unwrap_or_default();
        assert!(words.contains("has not answered for 3 s"), "{words}");
        queues.troubles.set(Part::Folder, Some("the folder is gone".into()));
        assert_eq!(queues.trouble(103 * SECOND).as_deref(), Some("the folder is gone"));
        queues.troubles.set(Part::Folder, None);
        queues.set_at_work(None);
        assert_eq!(queues.trouble(200 * SECOND), None);
    }

    #[test]
    fn room_for_a_checkpoint_is_no_more_than_the_store_takes() {
        let queues = JournalQueues::new(1, |_| {});
        let room = || queues.checkpoint_room() - CHECKPOINT_SLACK_BYTES;
        queues.checkpoint_took(500, 0);
        queues.took(40);
        assert_eq!(room(), 540);
        queues.set_state(520, false);
        assert_eq!(room(), 520);
        queues.set_state(2000, false);
        queues.checkpoint_took(510, 30);
        assert_eq!(room(), 520, "the last one, and what came since it was begun");
        queues.set_state(2000, true);
        assert_eq!(room(), 2000, "what was copied the journal has not brought");
        queues.set_state(3000, false);
        assert_eq!(room(), 3000);
        queues.checkpoint_took(600, 40);
        assert_eq!(room(), 600);
    }
}
