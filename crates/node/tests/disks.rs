//! Three real replicas, threads and sockets and all, on simulated disks: full ones and slow ones.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use highwater_core::evidence::{Start, Starts};
use highwater_core::{Clock, Incarnation};
use highwater_disk::{Disk, DiskFile, Journal, JournalOptions, SimulatedDisk};
use highwater_node::config::{Benchmarks, Durability};
use highwater_node::library::hosted;
use highwater_node::storage::Storage;
use highwater_node::{Config, Node, Signals};

mod common;

const PATIENCE: Duration = Duration::from_secs(60);
const SEGMENT_BYTES: u64 = 1 << 20;

/// A simulated disk whose syncs take time.
#[derive(Clone)]
struct SlowDisk {
    disk: SimulatedDisk,
    /// So long.
    sync_ms: Arc<AtomicU64>,
}

struct SlowFile(<SimulatedDisk as Disk>::File, Arc<AtomicU64>);

impl SlowDisk {
    fn new(seed: u64) -> SlowDisk {
        SlowDisk { disk: SimulatedDisk::new(seed), sync_ms: Arc::default() }
    }

    fn file(&self, file: <SimulatedDisk as Disk>::File) -> SlowFile {
        SlowFile(file, self.sync_ms.clone())
    }
}

impl Disk for SlowDisk {
    type File = SlowFile;

    fn names(&self) -> std::io::Result<Vec<String>> {
        self.disk.names()
    }

    fn create(&self, name: &str, len: u64) -> std::io::Result<SlowFile> {
        self.disk.create(name, len).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> std::io::Result<SlowFile> {
        self.disk.open(name).map(|file| self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.disk.rename(from, to)
    }

    fn reclaim(&self, from: &str, to: &str) -> std::io::Result<bool> {
        self.disk.reclaim(from, to)
    }

    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> std::io::Result<()> {
        self.disk.sync_names()
    }

    fn free_bytes(&self) -> std::io::Result<u64> {
        self.disk.free_bytes()
    }
}

impl DiskFile for SlowFile {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn set_len(&mut self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        // What is slow here is the disk itself, until it no longer is.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(self.1.load(Ordering::Relaxed)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.0.sync()
    }
}

struct Cluster {
    nodes: Vec<Option<Node>>,
    disks: Vec<SlowDisk>,
}

impl Cluster {
    fn start(sync_ms: u64) -> Cluster {
        Cluster::start_with(sync_ms, |_| ())
    }

    fn start_with(sync_ms: u64, change: impl FnOnce(&mut Config)) -> Cluster {
        let mut config = common::config(3, 2);
        change(&mut config);
        config.cluster.durability = Durability::Sync;
        let disks: Vec<SlowDisk> = (0..3).map(SlowDisk::new).collect();
        let start = |id: u8| {
            let config = Config { node: id, ..config.clone() };
            let incarnation = Incarnation(700 + u64::from(id));
            let clock = Arc::new(Clock::chosen(config.clock()).unwrap().0);
            let options = config.options(incarnation);
            let replica =
                highwater_engines::build(config.engine().unwrap(), options, hosted(Benchmarks::On), clock);
            let options = JournalOptions { journal: incarnation.0, writers: 3, segment_bytes: SEGMENT_BYTES };
            let journal = Journal::open(disks[id as usize].clone(), options, &mut |_| {}).unwrap().0;
            let storage = Some(Storage {
                journal,
                starts: Starts::new(1, vec![Start { number: 1 + u64::from(id), had: 0 }]),
                disk: disks[id as usize].clone(),
                checkpoints: Vec::new(),
                damaged: Default::default(),
                replayed: 0,
            });
            Some(Node::start_with(&config, incarnation, replica, storage, Signals::Leave).unwrap())
        };
        disks.iter().for_each(|disk| disk.sync_ms.store(sync_ms, Ordering::Relaxed));
        Cluster { nodes: (0..3).map(start).collect(), disks }
    }

    /// From now on a sync of one node's disk takes so long; one that is under way, too.
    fn slow_one_down(&self, node: usize, sync_ms: u64) {
        self.disks[node].sync_ms.store(sync_ms, Ordering::Relaxed);
    }

    fn client(&self, node: usize) -> TcpStream {
        common::resp_client(self.nodes[node].as_ref().unwrap().resp_address())
    }

    /// From now on a sync takes so long.
    fn slow_down(&self, sync_ms: u64) {
        self.disks.iter().for_each(|disk| disk.sync_ms.store(sync_ms, Ordering::Relaxed));
    }

    /// Sends a command to each node until one answers as wanted; which.
    fn until(&self, what: &str, words: &[&[u8]], wanted: impl Fn(&str) -> bool) -> usize {
        let (begun, mut last) = (Instant::now(), Vec::new());
        while begun.elapsed() < PATIENCE {
            last.clear();
            for (id, node) in self.nodes.iter().enumerate() {
                let Some(node) = node else { continue };
                let line = call(&mut common::resp_client(node.resp_address()), words);
                if wanted(&line) {
                    return id;
                }
                last.push(line);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{what}: {last:?}");
    }
}

impl Drop for Cluster {
    /// A node that ends waits for its disk.
    fn drop(&mut self) {
        self.slow_down(0);
    }
}

/// One command, and the first line of what is answered.
fn call(client: &mut TcpStream, words: &[&[u8]]) -> String {
    client.write_all(&common::command(words)).unwrap();
    let mut line = String::new();
    // With a time-out: nothing came.
    let _ = BufReader::new(client).read_line(&mut line);
    line.trim_end().into()
}

#[test]
fn on_full_disks_writes_are_refused_reads_go_on_and_service_returns_with_room() {
    let cluster = Cluster::start(0);
    let leader = cluster.until("a leader", &[b"SET", b"kept", b"value"], |line| line == "+OK");
    // The segments that are there, and no more.
    cluster.disks.iter().for_each(|disk| disk.disk.set_capacity(Some(0)));
    let mut client = common::resp_client(cluster.nodes[leader].as_ref().unwrap().resp_address());
    let value = vec![b'x'; 64 << 10];
    let mut written = 0;
    let refusal = loop {
        let line = call(&mut client, &[b"SET", format!("key:{written}").as_bytes(), &value]);
        if line != "+OK" {
            break line;
        }
        written += 1;
        assert!(written < 100, "more was written than there was room for");
    };
    assert!(refusal.starts_with("-DISKFULL "), "{refusal}");
    for _ in 0..10 {
        assert_eq!(call(&mut client, &[b"GET", b"kept"]), "$5", "reads go on");
        client = common::resp_client(cluster.nodes[leader].as_ref().unwrap().resp_address());
        assert!(call(&mut client, &[b"DEL", b"kept"]).starts_with("-DISKFULL "), "deletes write, too");
    }
    cluster.disks.iter().for_each(|disk| disk.disk.set_capacity(None));
    cluster.until("room again", &[b"SET", b"kept", b"other"], |line| line == "+OK");
}

/// Three times an election timeout for each sync.
#[test]
fn disks_slower_than_an_election_timeout_have_a_leader_and_another_when_it_dies() {
    let mut cluster = Cluster::start(400);
    let leader = cluster.until("a leader", &[b"SET", b"kept", b"value"], |line| line == "+OK");
    drop(cluster.nodes[leader].take());
    let next = cluster.until("another leader", &[b"GET", b"kept"], |line| line == "$5");
    assert_ne!(next, leader);
}

/// A `GET` took as long as a `SET`: what proved that the leader led was an entry of the log.
/// Once: a read in `sync` waited for disks, 1,500 syncs a second were written for nothing but `GET`s, and they came to
/// half of what `memory` answers; now as many (0031)
#[test]
fn reads_wait_for_no_disk() {
    let cluster = Cluster::start(0);
    // On a starved machine an election may begin meanwhile, and its promises do wait for the disks.
    let reads = |client: &mut TcpStream| {
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        (0..100)
            .all(|_| call(client, &[b"GET", b"kept"]) == "$5" && call(client, &[b"GET", b"none"]) == "$-1")
    };
    let answered = (0..5).any(|_| {
        let leader = cluster.until("a leader", &[b"SET", b"kept", b"value"], |line| line == "+OK");
        let mut client = common::resp_client(cluster.nodes[leader].as_ref().unwrap().resp_address());
        // Now a majority has said for the first time that this node leads.
        assert_eq!(call(&mut client, &[b"GET", b"kept"]), "$5");
        cluster.slow_down(3_600_000);
        let answered = reads(&mut client);
        cluster.slow_down(0);
        answered
    });
    assert!(answered, "no syncs, no reads");
}

/// Writes to whoever takes it until so long has passed: the longest time in which nothing was acknowledged, and how many writes were
/// called unknown.
fn write_for(cluster: &Cluster, first: usize, length: Duration) -> (Duration, usize) {
    let value = vec![b'x'; 16 << 10];
    let (began, mut served, mut gap, mut unknown) = (Instant::now(), Instant::now(), Duration::ZERO, 0);
    let (mut at, mut client) = (first, cluster.client(first));
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    while began.elapsed() < length {
        let line = call(&mut client, &[b"SET", b"written", &value]);
        if line == "+OK" {
            gap = gap.max(served.elapsed());
            served = Instant::now();
            continue;
        }
        unknown += usize::from(line.starts_with("-UNKNOWN"));
        at = (at + 1) % 3;
        client = cluster.client(at);
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }
    (gap.max(served.elapsed()), unknown)
}

/// The journal's thread of the leader stands still in a sync. Everything that the leader took was decided by the others and acknowledged,
/// so nothing looked amiss; when no more could wait for the disk it took nothing at all, neither writes nor reads, for as long as the disk
/// hung, and nobody took over.
#[test]
fn a_leader_whose_disk_hangs_makes_way_and_answers_meanwhile() {
    let cluster = Cluster::start_with(0, |config| config.limits.max_in_flight_bytes = 1 << 20);
    let leader = cluster.until("a leader", &[b"SET", b"kept", b"value"], |line| line == "+OK");
    cluster.slow_one_down(leader, 3_600_000);
    let (gap, unknown) = write_for(&cluster, leader, Duration::from_secs(8));
    println!("nothing was acknowledged for {} ms", gap.as_millis());
    // Eight election timeouts until it is sure, and a hand-over; and more than that on a starved machine.
    assert!(gap < Duration::from_secs(4), "nothing was acknowledged for {gap:?}");
    assert_eq!(unknown, 0, "what was taken was decided");
    let next = cluster.until("reads", &[b"GET", b"kept"], |line| line == "$5");
    assert_ne!(next, leader);
    // The node itself is there, and says what is wrong.
    let mut client = cluster.client(leader);
    assert_eq!(call(&mut client, &[b"PING"]), "+PONG");
    assert!(call(&mut client, &[b"GET", b"kept"]).starts_with("-MOVED"));
    // It comes back with its disk, and has all of it.
    cluster.slow_one_down(leader, 0);
    cluster.until("writes", &[b"SET", b"kept", b"other"], |line| line == "+OK");
}

/// The same of a follower: nobody notices.
#[test]
fn a_follower_whose_disk_hangs_costs_nothing() {
    let cluster = Cluster::start_with(0, |config| config.limits.max_in_flight_bytes = 1 << 20);
    let leader = cluster.until("a leader", &[b"SET", b"kept", b"value"], |line| line == "+OK");
    let follower = (leader + 1) % 3;
    cluster.slow_one_down(follower, 3_600_000);
    let (gap, unknown) = write_for(&cluster, leader, Duration::from_secs(4));
    println!("nothing was acknowledged for {} ms", gap.as_millis());
    assert!(gap < Duration::from_secs(2) && unknown == 0, "{gap:?}, {unknown} unknown");
    cluster.slow_one_down(follower, 0);
}
