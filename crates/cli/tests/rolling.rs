//! Three real replicas with disks, restarted one by one under load: nobody is left with a request of unknown outcome, and the lead
//! moves without a timeout.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

mod processes;

use processes::{Client, Cluster, PATIENCE};

const CLIENTS: usize = 4;
/// Acknowledged by all clients together between two restarts.
const ENOUGH: u64 = 200;
/// Silence after which followers stand by themselves at the earliest.
const ELECTION_TIMEOUT: Duration = Duration::from_millis(120);

/// What one client saw.
#[derive(Default)]
struct Seen {
    acknowledged: u64,
    /// Answers by which nobody knows what became of the request: `UNKNOWN`, or a connection that broke.
    doubts: Vec<String>,
}

struct Load<'a> {
    ports: [u16; 3],
    leader: usize,
    pulse: &'a Pulse,
    over: &'a AtomicBool,
}

impl Load<'_> {
    /// Adds 1 to a counter, again and again, wherever it is referred to.
    fn count(&self, name: &str) -> Seen {
        let mut seen = Seen::default();
        let mut aim = self.leader;
        let mut client = None;
        while !self.over.load(Ordering::Relaxed) {
            let Some(mut open) = client.take().or_else(|| Client::connect(self.ports[aim])) else {
                // Nothing was asked.
                aim = (aim + 1) % 3;
                continue;
            };
            match open.call(&[b"INCR", name.as_bytes()]) {
                Some((line, _)) if line.starts_with(':') => {
                    seen.acknowledged += 1;
                    self.pulse.beat();
                    client = Some(open);
                }
                Some((line, _)) if line.starts_with("-MOVED ") => {
                    let named = self.ports.iter().position(|port| line.contains(&format!(":{port}")));
                    aim = named.unwrap_or((aim + 1) % 3);
                }
                Some((line, _)) if line.starts_with("-CLUSTERDOWN ") => aim = (aim + 1) % 3,
                other => seen.doubts.push(format!("node {aim}: {other:?}")),
            }
        }
        seen
    }
}

/// When something was acknowledged, by whatever client.
struct Pulse(Mutex<Beat>);

struct Beat {
    count: u64,
    last: Instant,
    longest: Duration,
}

impl Pulse {
    fn new() -> Pulse {
        Pulse(Mutex::new(Beat { count: 0, last: Instant::now(), longest: Duration::ZERO }))
    }

    fn beat(&self) {
        let mut beat = self.0.lock().unwrap();
        (beat.count, beat.longest) = (beat.count + 1, beat.longest.max(beat.last.elapsed()));
        beat.last = Instant::now();
    }

    fn count(&self) -> u64 {
        self.0.lock().unwrap().count
    }

    /// The longest time between two acknowledgements, until the condition holds and one more came.
    fn longest_silence(&self, mut until: impl FnMut() -> bool) -> Duration {
        let started = Instant::now();
        self.0.lock().unwrap().longest = Duration::ZERO;
        let mut enough = None;
        while enough.is_none_or(|enough| self.count() < enough) {
            assert!(started.elapsed() < PATIENCE, "it takes too long");
            thread::sleep(Duration::from_millis(2));
            if enough.is_none() && until() {
                enough = Some(self.count() + 1);
            }
        }
        self.0.lock().unwrap().longest
    }
}

fn status(cluster: &Cluster, id: usize) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["status", "--json", "--cluster", "--admin", &format!("127.0.0.1:{}", cluster.admin_port(id))])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[test]
fn all_nodes_are_restarted_one_by_one_and_no_request_is_in_doubt() {
    let mut cluster = Cluster::start("rolling", "durability = \"sync\"", None);
    roll(&mut cluster, &[]);
}

/// The level of each node, as it says itself.
fn levels(cluster: &serde_json::Value) -> Vec<Option<u64>> {
    let nodes = cluster["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    nodes.iter().map(|node| node["status"]["level"].as_u64()).collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nodes_are_upgraded_one_by_one_and_the_level_rises_with_the_last() {
    const NEWER: &[&str] = &["--rehearse-level", "2"];
    let mut cluster = Cluster::start("upgrade", "durability = \"sync\"", None);
    let (first, _) = cluster.leader();
    let upgrade = |cluster: &mut Cluster, node: usize, flags: &[&str]| {
        cluster.terminate(node);
        wait_until("it ends", || cluster.has_ended(node));
        cluster.run_with(node, flags);
    };
    let calm = |cluster: &Cluster| status(cluster, first)["no_restart"].is_null();
    wait_until("all vote", || calm(&cluster));
    // A first one comes, and is taken back.
    let (other, last) = ((first + 1) % 3, (first + 2) % 3);
    upgrade(&mut cluster, other, NEWER);
    let newest =
        |view: &serde_json::Value, node: usize| view["nodes"][node]["status"]["levels"]["newest"].as_u64();
    wait_until("it votes", || calm(&cluster) && newest(&status(&cluster, first), other) == Some(2));
    let seen = status(&cluster, first);
    assert_eq!(levels(&seen), [Some(1); 3], "{seen}");
    upgrade(&mut cluster, other, &[]);
    wait_until("it votes", || calm(&cluster) && newest(&status(&cluster, first), other) == Some(1));
    // All come, under load.
    roll(&mut cluster, NEWER);
    wait_until("all use it", || levels(&status(&cluster, first)) == [Some(2); 3]);
    // Too late: its disk was written at the newer level, and this build says so.
    cluster.kill(last);
    cluster.run(last);
    wait_until("it gives up", || cluster.log(last).contains("start this node with a newer build"));
    cluster.replicas[last].take().unwrap().wait().unwrap();
    cluster.run_with(last, NEWER);
    wait_until("it votes", || calm(&cluster));
}

/// Restarts all nodes with these flags, under load.
fn roll(cluster: &mut Cluster, flags: &[&str]) {
    let (first, _) = cluster.leader();
    let (pulse, over) = (Pulse::new(), AtomicBool::new(false));
    let ports = [cluster.port(0), cluster.port(1), cluster.port(2)];
    let load = Load { ports, leader: first, pulse: &pulse, over: &over };
    let counters: Vec<String> = (0..CLIENTS).map(|at| format!("counter:{at}")).collect();
    let mut gaps = Vec::new();
    let seen: Vec<Seen> = thread::scope(|scope| {
        let load = &load;
        let counting: Vec<_> = counters.iter().map(|name| scope.spawn(move || load.count(name))).collect();
        let work = || {
            let enough = pulse.count() + ENOUGH;
            pulse.longest_silence(|| pulse.count() >= enough);
        };
        // Whoever leads is asked to end, three times: each step is a hand-over.
        let mut left: Vec<usize> = vec![0, 1, 2];
        while !left.is_empty() {
            work();
            let (leads, _) = cluster.leader();
            let node = if left.contains(&leads) { leads } else { left[0] };
            left.retain(|id| *id != node);
            cluster.terminate(node);
            let gap = pulse.longest_silence(|| cluster.has_ended(node));
            println!(
                "node {node} ({}): {gap:?} without an answer",
                if node == leads { "led" } else { "followed" }
            );
            gaps.push(gap);
            cluster.run_with(node, flags);
            pulse.longest_silence(|| {
                let cluster = status(cluster, (node + 1) % 3);
                cluster["no_restart"].is_null() && cluster["leader"].is_u64()
            });
        }
        work();
        over.store(true, Ordering::Relaxed);
        counting.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let (_, mut client) = cluster.leader();
    cluster.none_died();
    let logs: String = (0..3).map(|id| cluster.log(id)).collect();
    for (name, seen) in counters.iter().zip(&seen) {
        assert!(seen.doubts.is_empty(), "{logs}\n{name}: {:?}", seen.doubts);
        let (_, value) = client.call(&[b"GET", name.as_bytes()]).unwrap();
        let value: u64 = String::from_utf8(value).unwrap().parse().unwrap();
        assert_eq!(value, seen.acknowledged, "{name}");
    }
    assert!(logs.contains("leads now: requests waited for"), "{logs}");
    assert!(!logs.contains("ending without a successor"), "{logs}");
    // On a busy machine one of them may wait for a core.
    gaps.sort();
    assert!(gaps[1] < ELECTION_TIMEOUT, "{logs}\n{gaps:?}");
}

#[test]
fn an_operator_moves_the_lead() {
    let cluster = Cluster::start("lead", "durability = \"memory\"", None);
    let (first, _) = cluster.leader();
    let to = (first + 1) % 3;
    let hand_over = |at: usize, to: usize| {
        let admin = format!("127.0.0.1:{}", cluster.admin_port(at));
        let output = Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(["hand-over", "--admin", &admin, "--to", &to.to_string()])
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), text)
    };
    // Asked at one that follows.
    let (code, text) = hand_over((first + 2) % 3, to);
    let logs: String = (0..3).map(|id| cluster.log(id)).collect();
    assert_eq!(code, Some(0), "{text}\n{logs}");
    assert!(text.contains(&format!("node {to} leads, node {first} follows; requests waited for")), "{text}");
    assert_eq!(cluster.leader().0, to);
    let (code, text) = hand_over(to, to);
    assert_eq!((code, text.contains("leads already")), (Some(0), true), "{text}");
    let (code, text) = hand_over(to, 7);
    assert_eq!((code, text.contains("is no voter")), (Some(1), true), "{text}");
}
