//! The thread that writes a node's checkpoints, and what of the journal goes with each.
//!
//! The engine says when a scan begins and when it may be published (its orders); this thread does it, and tells the control
//! thread. It runs with a low priority: a checkpoint that takes longer harms nobody, and a worker that waits for a core does.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use highwater_core::Timestamp;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::limits::CHUNK_BYTES;
use highwater_core::threads::share_out;
use highwater_disk::checkpoint::{
    Error, Manifest, PartWriter, Scan, WriteStep, Writer, WrittenPart, published, remove_old,
};
use highwater_disk::{Disk, DiskFile};
use highwater_seam::{CheckpointNews, LogPosition, releasable};
use highwater_store::Store;

use super::queue::JournalQueues;
use super::trouble::Part;

/// What stands in front of the engine's words in a manifest: `incarnation u64 | writers u16 | position u64 * writers`.
///
/// A checkpoint is of use only with the journal behind it, which is of the same life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// The life of the node's memory that it is of.
    pub incarnation: u64,
    /// Where each writer's records go on.
    pub positions: Vec<LogPosition>,
}

impl Preamble {
    /// In front of an engine's words.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.incarnation.to_le_bytes().to_vec();
        out.extend_from_slice(&(self.positions.len() as u16).to_le_bytes());
        self.positions.iter().for_each(|position| out.extend_from_slice(&position.0.to_le_bytes()));
        out
    }

    /// Reads what a manifest holds: this, and the engine's own words.
    ///
    /// # Errors
    /// If it is something else.
    pub fn decode(bytes: &[u8]) -> Result<(Preamble, &[u8]), Malformed> {
        let mut reader = Reader::new(bytes);
        let incarnation = reader.u64()?;
        let count = reader.u16()?;
        let positions = (0..count).map(|_| reader.u64().map(LogPosition)).collect::<Result<_, _>>()?;
        let rest = bytes.len() - reader.rest().len();
        Ok((Preamble { incarnation, positions }, &bytes[rest..]))
    }
}

/// How checkpoints are written.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointRules {
    /// This life of the node.
    pub incarnation: u64,
    /// Files of a checkpoint: as many threads can load it at once.
    pub parts: u16,
    /// Threads that write it.
    pub threads: usize,
    /// How many are kept.
    pub keep: NonZeroUsize,
}

enum Job {
    Scan {
        number: u64,
        floor: Timestamp,
        store: Arc<Store>,
    },
    Publish {
        number: u64,
        complete_at: Timestamp,
        engine: Vec<u8>,
        released: (Vec<LogPosition>, LogPosition),
    },
    Abandon,
}

/// The other threads' end.
#[derive(Debug)]
pub struct CheckpointDesk {
    jobs: Sender<Job>,
    /// The last scan that was asked for.
    asked: AtomicU64,
    /// Scans up to this number are of no use. A flag would be taken back by the next scan, and a long one that was given up would be finished
    /// before it.
    abandoned: Arc<AtomicU64>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Job::Scan { .. } => "scan",
            Job::Publish { .. } => "publish",
            Job::Abandon => "abandon",
        })
    }
}

impl CheckpointDesk {
    /// Has the store scanned.
    pub fn scan(&self, number: u64, floor: Timestamp, store: Arc<Store>) {
        let before = self.asked.swap(number, Ordering::Relaxed);
        assert!(before < number, "a checkpoint's number is not used again");
        self.post(Job::Scan { number, floor, store });
    }

    /// Has what was scanned published. `released`: what it releases of the journal, and where what was written for it ends.
    pub fn publish(
        &self,
        number: u64,
        complete_at: Timestamp,
        engine: Vec<u8>,
        released: (Vec<LogPosition>, LogPosition),
    ) {
        self.post(Job::Publish { number, complete_at, engine, released });
    }

    /// What was scanned, or is being, is of no use.
    pub fn abandon(&self) {
        self.abandoned.fetch_max(self.asked.load(Ordering::Relaxed), Ordering::Release);
        self.post(Job::Abandon);
    }

    fn post(&self, job: Job) {
        // The thread ends when the node does: nobody is left to hear of it.
        let _ = self.jobs.send(job);
    }
}

pub struct CheckpointThread<D: Disk> {
    disk: D,
    rules: CheckpointRules,
    jobs: Receiver<Job>,
    abandoned: Arc<AtomicU64>,
    queues: Arc<JournalQueues>,
    /// Those on disk that can be gone on from, oldest first, and what of the journal each needs no more.
    kept: VecDeque<(u64, Vec<LogPosition>)>,
    /// Those on disk that could not be loaded. They take the place of none that is kept, and go once another one is published: until then
    /// somebody may want to look at them.
    damaged: BTreeSet<u64>,
    scanned: Option<Scanned>,
}

/// What waits for its publication.
struct Scanned {
    number: u64,
    writer: Writer,
    parts: Vec<WrittenPart>,
    begun: Instant,
    /// Bytes of the journal by then.
    taken: u64,
    /// The disk was low by then, and had room only where ballast was.
    frugal: bool,
}

/// How soon the thread looks whether the node ends.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a checkpoint waits for the journal before it is published, and how often it looks.
const SYNC_PATIENCE: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Added to the thread's niceness.
const NICER: i32 = 10;

impl<D> CheckpointThread<D>
where
    D: Disk,
    D::File: Send,
{
    /// Ready to run; and the desk to have it work from. `kept`: the checkpoints on disk that can be gone on from, and the journal's
    /// positions in them, oldest first. `damaged`: those that were found to be no good.
    pub fn new(
        disk: D,
        rules: CheckpointRules,
        queues: Arc<JournalQueues>,
        kept: Vec<(u64, Vec<LogPosition>)>,
        damaged: BTreeSet<u64>,
    ) -> (CheckpointThread<D>, CheckpointDesk) {
        let (sender, jobs) = channel();
        let abandoned = Arc::new(AtomicU64::new(0));
        let desk = CheckpointDesk { jobs: sender, asked: AtomicU64::new(0), abandoned: abandoned.clone() };
        // One that cannot be read says nothing of the next one's length.
        let newest = kept.last().and_then(|(number, _)| Manifest::read(&disk, *number).ok());
        queues.checkpoint_took(newest.as_ref().map_or(0, |manifest| manifest.len_bytes()), 0);
        if let Some(manifest) = &newest {
            queues.set_checkpoint(files_of(manifest));
        }
        let kept = kept.into();
        let thread = CheckpointThread { disk, rules, jobs, abandoned, queues, kept, damaged, scanned: None };
        (thread, desk)
    }

    /// Until `stopping` says so. What became of each order is told.
    pub fn run(mut self, stopping: impl Fn() -> bool + Sync, tell: impl Fn(CheckpointNews)) {
        // Without the right to, so be it.
        let _ = rustix::process::setpriority_process(None, NICER);
        self.release();
        while !stopping() {
            match self.jobs.recv_timeout(LOOK_EVERY) {
                Ok(job) => self.work(job, &stopping, &tell),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.drop_scanned();
    }

    /// Does it. Afterwards a checkpoint that is neither being scanned nor waits has no claim to the ballast.
    fn work(&mut self, job: Job, stopping: &(impl Fn() -> bool + Sync), tell: &impl Fn(CheckpointNews)) {
        match job {
            Job::Abandon => self.drop_scanned(),
            Job::Scan { number, floor, store } => {
                self.drop_scanned();
                match self.scan(number, floor, &store, stopping) {
                    Ok(Some(newest)) => tell(CheckpointNews::Scanned { number, newest }),
                    Ok(None) => {}
                    Err(error) => self.fail(number, &error, tell),
                }
            }
            Job::Publish { number, complete_at, engine, released } => {
                // Whoever waits for a publication begins no other checkpoint: it has to hear of this one in any case.
                let scanned = self.scanned.take_if(|scanned| scanned.number == number);
                let published = scanned.map(|scanned| {
                    self.await_sync(released.1, stopping);
                    self.publish(scanned, complete_at, &engine, released)
                });
                match published {
                    Some(Ok(())) => tell(CheckpointNews::Published(number)),
                    Some(Err(error)) => self.fail(number, &error, tell),
                    None => tell(CheckpointNews::Failed(number)),
                }
            }
        }
        if self.scanned.is_none() {
            self.queues.set_checkpoint_waits(false);
            self.queues.set_ballast_in_use(false);
        }
    }

    /// Writes all parts; the newest timestamp in them, unless it was given up.
    fn scan(
        &mut self,
        number: u64,
        floor: Timestamp,
        store: &Arc<Store>,
        stopping: &(impl Fn() -> bool + Sync),
    ) -> Result<Option<Timestamp>, Error> {
        let (begun, taken, abandoned) = (Instant::now(), self.queues.taken(), self.abandoned.clone());
        let scan = self.room_for(floor, store.used());
        self.queues.set_ballast_in_use(scan.from_ballast);
        let frugal = scan.from_ballast && self.queues.is_low();
        let (writer, parts) = Writer::begin(&self.disk, store, scan)?;
        let ended = || abandoned.load(Ordering::Acquire) >= number || stopping();
        let threads = self.rules.threads.clamp(1, parts.len());
        let mut shares: Vec<Vec<PartWriter<D::File>>> = (0..threads).map(|_| Vec::new()).collect();
        for (at, part) in parts.into_iter().enumerate() {
            shares[at % threads].push(part);
        }
        let written = share_out("checkpoint-part", shares, threads, |share| {
            let _ = rustix::process::setpriority_process(None, NICER);
            write_parts(share, &ended)
        });
        let parts = match written.into_iter().collect::<Result<Vec<_>, Error>>() {
            Ok(parts) => parts.concat(),
            Err(error) => {
                writer.abandon(&self.disk);
                return Err(error);
            }
        };
        if ended() {
            writer.abandon(&self.disk);
            return Ok(None);
        }
        let newest = parts.iter().map(|part| part.part.newest).max().unwrap_or_default();
        self.scanned = Some(Scanned { number, writer, parts, begun, taken, frugal });
        self.queues.set_checkpoint_waits(true);
        Ok(Some(newest))
    }

    /// Where a checkpoint of a store goes that takes so much memory: that is more than enough, often many times, and set aside if it is
    /// there. Else all is written into one file, which is the ballast: on a full disk a checkpoint is what makes room.
    fn room_for(&self, floor: Timestamp, used: u64) -> Scan {
        match self.disk.free_bytes().is_ok_and(|free| free >= used) {
            true => Scan { floor, parts: self.rules.parts, expected_bytes: used, from_ballast: false },
            false => Scan { floor, parts: 1, expected_bytes: 0, from_ballast: true },
        }
    }

    /// Lets the controller's writes for a checkpoint come to the disk, so that what is older can go; but not for long, for the disk may be
    /// full, and wait for the room that this checkpoint makes.
    fn await_sync(&self, anew: LogPosition, stopping: &(impl Fn() -> bool + Sync)) {
        let (begun, controller) = (Instant::now(), self.queues.workers() - 1);
        while self.queues.synced(controller) < anew && begun.elapsed() < SYNC_PATIENCE && !stopping() {
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn publish(
        &mut self,
        scanned: Scanned,
        complete_at: Timestamp,
        engine: &[u8],
        (released, anew): (Vec<LogPosition>, LogPosition),
    ) -> Result<(), Error> {
        let before = self.kept.back().map(|(_, before)| &before[..]);
        let positions = releasable(released, anew, |writer| self.queues.synced(writer), before);
        let preamble = Preamble { incarnation: self.rules.incarnation, positions: positions.clone() };
        let words = [&preamble.encode(), engine].concat();
        let manifest = scanned.writer.publish(&self.disk, scanned.parts, complete_at, words)?;
        tracing::info!(
            number = manifest.number,
            mib = manifest.len_bytes() >> 20,
            records = manifest.records(),
            ms = scanned.begun.elapsed().as_millis() as u64,
            "a checkpoint is published"
        );
        self.queues.checkpoint_took(manifest.len_bytes(), scanned.taken);
        self.queues.set_checkpoint(files_of(&manifest));
        self.queues.troubles.set(Part::Checkpoint, None);
        self.kept.push_back((manifest.number, positions));
        let removed = remove_old(&self.disk, &manifest, self.keeps(scanned.frugal), &self.damaged)?;
        for number in removed.iter().filter(|number| self.damaged.remove(*number)) {
            tracing::info!("removed checkpoint {number}, which was found damaged: another one is published");
        }
        self.kept.retain(|(number, _)| !removed.contains(number));
        if let Ok(there) = published(&self.disk) {
            // One that somebody else removed holds nothing back any more.
            self.kept.retain(|(number, _)| there.contains(number));
        }
        self.release();
        Ok(())
    }

    /// How many checkpoints are kept. Once the disk was full, or this one was written where ballast was, only the newest: the journal
    /// behind an older one is what fills it, and there may be no room for a second one that would free that.
    fn keeps(&self, frugal: bool) -> NonZeroUsize {
        if frugal || self.queues.is_in_straits() { NonZeroUsize::MIN } else { self.rules.keep }
    }

    /// What the oldest checkpoint does not need of the journal nobody does.
    fn release(&self) {
        let Some((_, positions)) = self.kept.front() else { return };
        for (writer, position) in positions.iter().enumerate() {
            self.queues.release(writer, *position);
        }
    }

    fn fail(&self, number: u64, error: &Error, tell: &impl Fn(CheckpointNews)) {
        let words = format!("a checkpoint could not be written, and the journal goes on growing: {error}");
        // A full disk is told of by itself, and in other words.
        let words = (!error.is_full()).then_some(words);
        if self.queues.troubles.set(Part::Checkpoint, words) || error.is_full() {
            tracing::warn!("a checkpoint could not be written, and the journal goes on growing: {error}");
        }
        tell(CheckpointNews::Failed(number));
    }

    fn drop_scanned(&mut self) {
        if let Some(scanned) = self.scanned.take() {
            scanned.writer.abandon(&self.disk);
        }
    }
}

/// The names of a checkpoint's files, whether they are there or not: a look at the folder misses those that are not.
fn files_of(manifest: &Manifest) -> Vec<String> {
    let parts = (0..manifest.parts.len()).map(|part| manifest.part_file(part));
    std::iter::once(manifest.file()).chain(parts).collect()
}

/// Writes parts one after the other; without the last ones if it was given up.
fn write_parts<F: DiskFile>(
    parts: Vec<PartWriter<F>>,
    ended: &impl Fn() -> bool,
) -> Result<Vec<WrittenPart>, Error> {
    let mut written = Vec::new();
    for mut part in parts {
        loop {
            if ended() {
                return Ok(written);
            }
            match part.step(CHUNK_BYTES)? {
                WriteStep::More(more) => part = more,
                WriteStep::Done(done) => {
                    written.push(done);
                    break;
                }
            }
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use highwater_core::Schema;
    use highwater_disk::simulated::SimulatedDisk;

    use super::*;

    /// The store was replaced while it was scanned, or the scan had not begun, and the next scan took the word back that gave the first one
    /// up: what was copied went to the disk only after all of the store before.
    #[test]
    fn a_scan_that_was_given_up_is_not_finished_before_the_next_one() {
        let (store, queues) = (Store::new(Schema::new(vec![])), Arc::new(JournalQueues::new(1, |_| {})));
        let rules = CheckpointRules { incarnation: 7, parts: 1, threads: 1, keep: NonZeroUsize::MIN };
        let disk = SimulatedDisk::new(1);
        let (mut thread, desk) = CheckpointThread::new(disk, rules, queues, Vec::new(), BTreeSet::new());
        desk.scan(1, Timestamp::ZERO, store.clone());
        desk.abandon();
        desk.scan(2, Timestamp::ZERO, store);
        let told = RefCell::new(Vec::new());
        while let Ok(job) = thread.jobs.try_recv() {
            thread.work(job, &|| false, &|news| told.borrow_mut().push(news));
        }
        assert_eq!(told.take(), [CheckpointNews::Scanned { number: 2, newest: Timestamp::ZERO }]);
        // Nor is anybody left waiting for one that is not there.
        desk.publish(1, Timestamp::ZERO, Vec::new(), (vec![LogPosition(0)], LogPosition(0)));
        let job = thread.jobs.try_recv().unwrap();
        thread.work(job, &|| false, &|news| told.borrow_mut().push(news));
        assert_eq!(told.take(), [CheckpointNews::Failed(1)]);
    }

    /// A thread on this disk that does what it is told; and what it said.
    struct Bench {
        thread: CheckpointThread<SimulatedDisk>,
        desk: CheckpointDesk,
        queues: Arc<JournalQueues>,
    }

    impl Bench {
        fn new(disk: &SimulatedDisk, kept: Vec<(u64, Vec<LogPosition>)>) -> Bench {
            let queues = Arc::new(JournalQueues::new(1, |_| {}));
            let rules = CheckpointRules { incarnation: 7, parts: 2, threads: 1, keep: NonZeroUsize::MIN };
            let (thread, desk) =
                CheckpointThread::new(disk.clone(), rules, queues.clone(), kept, BTreeSet::new());
            Bench { thread, desk, queues }
        }

        fn work(&mut self) -> Vec<CheckpointNews> {
            let told = RefCell::new(Vec::new());
            while let Ok(job) = self.thread.jobs.try_recv() {
                self.thread.work(job, &|| false, &|news| told.borrow_mut().push(news));
            }
            told.take()
        }

        fn scan(&mut self, number: u64) {
            self.desk.scan(number, Timestamp::ZERO, Store::new(Schema::new(vec![])));
            assert_eq!(self.work(), [CheckpointNews::Scanned { number, newest: Timestamp::ZERO }]);
        }

        fn publish(&mut self, number: u64) -> Vec<CheckpointNews> {
            let released = (vec![LogPosition(0)], LogPosition(0));
            self.desk.publish(number, Timestamp::ZERO, Vec::new(), released);
            self.work()
        }
    }

    /// Somebody who cleared up took a part away while the other was written. The checkpoint was published, the one before and the journal behind it
    /// were removed, and the node could not start again; nor did it say so.
    #[test]
    fn a_checkpoint_of_which_a_part_was_removed_meanwhile_takes_no_ones_place() {
        let disk = SimulatedDisk::new(1);
        let mut bench = Bench::new(&disk, Vec::new());
        bench.scan(1);
        assert_eq!(bench.publish(1), [CheckpointNews::Published(1)]);
        bench.scan(2);
        disk.remove("checkpoint-0002.part-1").unwrap();
        assert_eq!(bench.publish(2), [CheckpointNews::Failed(2)]);
        assert_eq!(published(&disk).unwrap(), BTreeSet::from([1]));
        let said = bench.queues.troubles.words().unwrap();
        assert!(said.contains("checkpoint-0002.part-1: cannot find"), "{said}");
        bench.scan(3);
        assert_eq!(bench.publish(3), [CheckpointNews::Published(3)]);
        assert_eq!((bench.queues.troubles.words(), published(&disk).unwrap()), (None, BTreeSet::from([2])));
    }

    /// It was the other way round: what was there was listed, and only what is missing of that was missed.
    #[test]
    fn files_that_a_checkpoint_lacks_are_missed_though_they_were_never_seen() {
        let disk = SimulatedDisk::new(1);
        let mut bench = Bench::new(&disk, Vec::new());
        bench.scan(1);
        bench.publish(1);
        let names = ["manifest", "part-0", "part-1"].map(|what| format!("checkpoint-0001.{what}"));
        assert_eq!(bench.queues.files().checkpoint, names);
        disk.remove(&names[2]).unwrap();
        let bench = Bench::new(&disk, vec![(1, vec![LogPosition(0)])]);
        assert_eq!(bench.queues.files().checkpoint, names);
    }

    #[test]
    fn a_preamble_is_read_back_and_leaves_the_engine_s_words() {
        let preamble = Preamble { incarnation: 7, positions: vec![LogPosition(3), LogPosition(9)] };
        let bytes = [&preamble.encode()[..], b"words"].concat();
        assert_eq!(Preamble::decode(&bytes), Ok((preamble, &b"words"[..])));
        for cut in 0..bytes.len() - 5 {
            assert!(Preamble::decode(&bytes[..cut]).is_err());
        }
    }
}
