use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread, current, park};

use bytes::Bytes;
use highwater_disk::simulated::{Fault, SimulatedDisk};
use highwater_disk::{JournalOptions, journal};
use highwater_seam::LogPosition;

use super::*;
use crate::storage::DataDirectory;

/// A journal's thread, and the test in the place of its workers.
struct Running {
    queues: Arc<JournalQueues>,
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

impl Running {
    fn start<D: Disk<File: Send> + Send + 'static>(disk: D, workers: u16) -> Running {
        Running::paced(disk, workers, Duration::ZERO)
    }

    fn paced<D: Disk<File: Send> + Send + 'static>(disk: D, workers: u16, pace: Duration) -> Running {
        let options = JournalOptions { journal: 7, writers: workers, segment_bytes: 1 << 16 };
        let journal = Journal::open(disk, options, &mut |_| {}).unwrap().0;
        let waiter: Thread = current();
        let queues = Arc::new(JournalQueues::new(workers, move |_| waiter.unpark()));
        let thread = JournalThread::new(journal, queues.clone(), 0).paced(pace);
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = stopping.clone();
        let thread = std::thread::spawn(move || thread.run(|| stop.load(Ordering::Acquire)));
        Running { queues, stopping, thread }
    }

    fn wait_until(&self, what: impl Fn(&JournalQueues) -> bool) {
        while !what(&self.queues) {
            park();
        }
    }

    fn stop(self) -> io::Result<()> {
        self.stopping.store(true, Ordering::Release);
        // The thread may not have begun yet; then it finds the flag when it does.
        self.queues.ring();
        self.thread.join().unwrap()
    }
}

fn records(disk: &impl Disk) -> Vec<(u16, Vec<u8>)> {
    let mut records = Vec::new();
    journal::read(disk, &mut |record| records.push((record.writer, record.bytes.to_vec()))).unwrap();
    records
}

#[test]
fn what_workers_put_in_is_on_disk_once_they_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DataDirectory::open(folder.path()).unwrap();
    let running = Running::start(disk.clone(), 2);
    running.queues.put(0, &mut vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")]);
    running.queues.put(1, &mut vec![Bytes::from_static(b"three")]);
    running.wait_until(|queues| queues.synced(0) == LogPosition(6) && queues.synced(1) == LogPosition(5));
    let mut found = records(&disk);
    found.sort();
    assert_eq!(found, [(0, b"one".to_vec()), (0, b"two".to_vec()), (1, b"three".to_vec())]);
    running.queues.put(1, &mut vec![Bytes::from_static(b"last")]);
    running.stop().unwrap();
    assert_eq!(records(&disk).len(), 4, "what was put in before the end is synced");

    let again = Running::start(disk, 2);
    assert_eq!((again.queues.synced(0), again.queues.synced(1)), (LogPosition(6), LogPosition(9)));
    again.stop().unwrap();
}

#[test]
fn where_nobody_waits_syncs_come_at_a_pace_and_take_what_came_meanwhile() {
    const PACE: Duration = Duration::from_millis(20);
    let disk = SimulatedDisk::new(1);
    let running = Running::paced(disk.clone(), 1, PACE);
    let began = Instant::now();
    let mut put = 0;
    // All of them would fit into one group.
    while put < 4000 {
        running.queues.put(0, &mut vec![Bytes::from_static(b"one")]);
        put += 1;
        std::thread::yield_now();
    }
    running.wait_until(|queues| queues.synced(0) == LogPosition(3 * put));
    running.stop().unwrap();
    let elapsed = began.elapsed();
    let groups = journal::read(&disk, &mut |_| {}).unwrap().groups;
    let most = (elapsed.as_millis() / PACE.as_millis()) as u64 + 2;
    assert!(groups <= most && groups < put, "{groups} groups of {put} writes in {elapsed:?}");
}

/// Workers put in as fast as they can, more than the queues take, and release as they are told.
#[test]
fn a_full_queue_gives_writes_back_and_wakes_whom_it_refused() {
    const EACH: u64 = 60;
    let folder = tempfile::tempdir().unwrap();
    let disk = DataDirectory::open(folder.path()).unwrap();
    let options = JournalOptions { journal: 7, writers: 3, segment_bytes: 1 << 20 };
    let journal = Journal::open(disk.clone(), options, &mut |_| {}).unwrap().0;
    let workers: Arc<std::sync::OnceLock<Vec<Thread>>> = Arc::default();
    let wake = workers.clone();
    let queues = Arc::new(JournalQueues::new(3, move |worker| {
        if let Some(workers) = wake.get() {
            workers[worker].unpark();
        }
    }));
    let stopping = AtomicBool::new(false);
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (queues, refused, stopping) = (&queues, &refused, &stopping);
        let start = Arc::new(std::sync::Barrier::new(4));
        let spawn = |worker: usize| {
            let start = start.clone();
            scope.spawn(move || {
                start.wait();
                let mut writes: Vec<Bytes> = (0..EACH).map(|n| vec![n as u8; 300_000].into()).collect();
                while !writes.is_empty() {
                    queues.put(worker, &mut writes);
                    if !writes.is_empty() {
                        refused.fetch_add(1, Ordering::Relaxed);
                        park();
                    }
                }
                while queues.synced(worker) != LogPosition(EACH * 300_000) {
                    park();
                }
                queues.release(worker, queues.synced(worker));
            })
        };
        let handles: Vec<_> = (0..3).map(spawn).collect();
        workers.set(handles.iter().map(|handle| handle.thread().clone()).collect()).unwrap();
        start.wait();
        let thread = JournalThread::new(journal, queues.clone(), 0);
        let journal = scope.spawn(move || thread.run(|| stopping.load(Ordering::Acquire)));
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        stopping.store(true, Ordering::Release);
        queues.ring();
        journal.join().unwrap().unwrap();
    });
    assert!(refused.into_inner() >= 3 && queues.held_bytes() == 0);
    let segments = disk.names().unwrap().into_iter().filter(|name| name.starts_with("journal-"));
    assert!(segments.count() <= 2, "released: {:?}", disk.names());
}

#[test]
fn a_failed_sync_ends_the_thread_and_nobody_is_told_that_it_is_durable() {
    let disk = SimulatedDisk::new(1);
    let running = Running::start(disk.clone(), 1);
    disk.inject_always(Fault::FailSync);
    running.queues.put(0, &mut vec![Bytes::from_static(b"x")]);
    running.queues.ring();
    let queues = running.queues.clone();
    let error = running.stop().unwrap_err();
    assert_eq!(error.to_string(), "cannot sync journal-0000000000000001: Input/output error (os error 5)");
    assert_eq!(queues.synced(0), LogPosition(0));
}

#[test]
fn on_a_full_disk_writes_wait_and_go_on_when_there_is_room() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(Some(1000));
    let running = Running::start(disk.clone(), 1);
    running.queues.put(0, &mut vec![Bytes::from_static(b"x")]);
    while !running.queues.is_full() {
        std::thread::yield_now();
    }
    running.queues.put(0, &mut vec![vec![0; MUCH].into(), Bytes::from_static(b"y")]);
    assert!(running.queues.held_bytes() >= MUCH, "it stays in the queue");
    disk.set_capacity(None);
    running.queues.ring();
    running.wait_until(|queues| queues.synced(0).0 > MUCH as u64);
    assert!(!running.queues.is_full());
    running.stop().unwrap();
}

#[test]
fn a_low_disk_is_told_while_writes_still_go_on_and_told_again_when_it_has_room() {
    let disk = SimulatedDisk::new(1);
    // A segment and a half, beside nothing else.
    disk.set_capacity(Some(3 << 15));
    let running = Running::start(disk.clone(), 1);
    running.queues.put(0, &mut vec![Bytes::from_static(b"x")]);
    running.wait_until(|queues| queues.is_low());
    running.queues.put(0, &mut vec![Bytes::from_static(b"y")]);
    running.wait_until(|queues| queues.synced(0).0 == 2);
    assert!(!running.queues.is_full());
    disk.set_capacity(None);
    running.wait_until(|queues| !queues.is_low());
    running.stop().unwrap();
}

/// Whether all of the ballast is.
fn holds(queues: &JournalQueues) -> bool {
    let (held, wanted) = queues.ballast();
    held > 0 && held >= wanted
}

/// A journal that was written to until its disk was full, but for the ballast; and how many bytes were put in.
fn on_a_full_disk() -> (Running, u64) {
    let disk = SimulatedDisk::new(1);
    let running = Running::start(disk.clone(), 1);
    running.queues.put(0, &mut vec![Bytes::from_static(b"x")]);
    running.wait_until(|queues| queues.synced(0).0 == 1);
    // The next segment is reserved behind it.
    let segments = || disk.names().unwrap().iter().filter(|name| name.starts_with("journal-")).count();
    while !holds(&running.queues) || segments() < 2 {
        std::thread::yield_now();
    }
    // Somebody else fills what is left, but for half a segment.
    let used: usize = disk.names().unwrap().iter().map(|name| disk.bytes_of(name).unwrap().len()).sum();
    disk.set_capacity(Some(used as u64 + (1 << 15)));
    let mut put = 1;
    while !running.queues.is_full() {
        running.queues.put(0, &mut vec![vec![0; 10_000].into()]);
        put += 10_000;
        while !running.queues.is_full() && running.queues.synced(0).0 < put {
            std::thread::yield_now();
        }
    }
    assert!(running.queues.synced(0).0 < put && running.queues.is_in_straits());
    let missing = put - running.queues.synced(0).0;
    assert!(missing < 1 << 16, "the ballast is enough for {missing} bytes");
    (running, put)
}

/// What is in the queues stays there, so that the ballast is enough for it; and is synced for a checkpoint, not before.
#[test]
fn on_a_full_disk_the_ballast_is_for_what_a_checkpoint_waits_for() {
    let (running, put) = on_a_full_disk();
    running.queues.set_checkpoint_waits(true);
    running.wait_until(|queues| queues.synced(0).0 == put);
    assert!(running.queues.is_in_straits() && running.queues.is_low());
    // The checkpoint gives back what is before it, and with that the ballast is taken again.
    running.queues.checkpoint_took(0, running.queues.taken());
    running.queues.set_checkpoint_waits(false);
    running.queues.release(0, LogPosition(put));
    running.wait_until(|queues| !queues.is_low());
    assert!(!running.queues.is_in_straits() && holds(&running.queues));
    running.stop().unwrap();
}

/// It catches up with what it has synced, and has nothing to make a checkpoint of before.
/// Once: (While it was built.) A node with a full disk that copied the state stayed out: what it had synced was too
/// little to catch up, and without a state there is no checkpoint that makes room. Such a node goes on in its ballast,
/// and then in as little room as there is.
#[test]
fn who_copies_the_state_goes_on_in_the_ballast() {
    let (running, put) = on_a_full_disk();
    running.queues.set_state(1000, true);
    running.wait_until(|queues| queues.synced(0).0 == put);
    running.queues.set_state(1000, false);
    running.queues.put(0, &mut vec![Bytes::from_static(b"y")]);
    running.wait_until(|queues| queues.synced(0).0 > put);
    assert!(!running.queues.is_full() && running.queues.is_low(), "what is left of the ballast is used");
    running.stop().unwrap();
}

/// More than a queue takes at once.
const MUCH: usize = 5 << 20;

/// No start finds what is synced in a folder that was lost meanwhile, whoever was to look for it and did not come to it.
#[test]
fn a_sync_that_ends_in_a_lost_folder_tells_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (path, away) = (place.path().join("node-0"), place.path().join("away"));
    let disk = DataDirectory::open(&path).unwrap();
    let running = Running::start(disk.clone(), 1);
    running.queues.put(0, &mut vec![Bytes::from_static(b"one")]);
    running.wait_until(|queues| queues.synced(0) == LogPosition(3));
    // All files that it needs for a while are there.
    let segments = || disk.names().unwrap().iter().filter(|name| name.starts_with("journal-")).count();
    while !holds(&running.queues) || segments() < 2 {
        std::thread::yield_now();
    }
    std::fs::rename(&path, &away).unwrap();
    running.queues.put(0, &mut vec![Bytes::from_static(b"two")]);
    while !running.queues.is_lost() {
        assert!(!running.thread.is_finished(), "it waits");
        std::thread::yield_now();
    }
    assert_eq!(running.queues.synced(0), LogPosition(3));
    // Whoever says that it is back is wrong: what was synced is told by nobody who has not looked.
    running.queues.set_lost(running.queues.begin_look(), None);
    while !running.queues.is_lost() {
        std::thread::yield_now();
    }
    assert_eq!(running.queues.synced(0), LogPosition(3));
    // It is back, and found again: what was synced is where a start finds it.
    std::fs::rename(&away, &path).unwrap();
    running.queues.set_lost(running.queues.begin_look(), None);
    running.wait_until(|queues| queues.synced(0) == LogPosition(6));
    running.stop().unwrap();
}
