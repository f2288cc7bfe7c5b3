//! Bounds on the age of what followers show, on three real replicas: a token makes a client read its own writes anywhere, and a replica
//! that is cut off says so instead of showing an old state.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

mod processes;

use processes::{Client, Cluster, PATIENCE};

/// A read with a bound ends within a few election timeouts, whatever happens; machines in tests are slow.
const BOUNDED: Duration = Duration::from_secs(10);

/// How old a snapshot is that is shown again: `engines.rolis.snapshot_age_us`.
const SNAPSHOT_AGE: Duration = Duration::from_millis(10);

/// Sends words that are separated by spaces; the first line of the reply, or the bulk in it.
fn say(client: &mut Client, words: &str) -> String {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let (line, content) = client.call(&words).unwrap();
    if line.starts_with('$') { String::from_utf8(content).unwrap() } else { line }
}

/// A connection that reads this replica's snapshots.
fn reader(cluster: &Cluster, replica: usize) -> Client {
    let mut client = Client::connect(cluster.port(replica)).unwrap();
    assert_eq!(say(&mut client, "READONLY"), "+OK");
    client
}

/// Reads until the replica can answer as it is asked: at first it may have no snapshot, and no leader that vouches for it.
fn read_until_fresh(client: &mut Client) -> String {
    let started = Instant::now();
    loop {
        let answer = say(client, "GET a");
        let retry = ["-NOTFRESH", "-CONFLICT"];
        if !processes::refused(&answer) && !retry.iter().any(|word| answer.starts_with(word)) {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "{answer}");
    }
}

fn token(client: &mut Client) -> u64 {
    say(client, "HW.TOKEN").strip_prefix(':').unwrap().parse().unwrap()
}

fn signal(cluster: &Cluster, replica: usize, signal: Signal) {
    let child = cluster.replicas[replica].as_ref().expect("it runs");
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

/// Returns once none of its threads runs any more: on a busy machine one may still answer when the signal is sent.
fn stop(cluster: &Cluster, replica: usize) {
    signal(cluster, replica, Signal::STOP);
    let child = cluster.replicas[replica].as_ref().expect("it runs");
    let stands = |thread: std::io::Result<std::fs::DirEntry>| {
        // A thread that has ended meanwhile stands, too.
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|state| state.is_empty() || state.starts_with('T'))
    };
    let started = Instant::now();
    while !std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().all(stands) {
        assert!(started.elapsed() < PATIENCE, "replica {replica} does not stand still");
        std::thread::yield_now();
    }
}

#[test]
fn a_token_makes_writes_readable_on_every_replica() {
    let cluster = Cluster::start("tokens", "durability = \"memory\"", None);
    let (leader, mut writer) = cluster.leader();
    let mut readers: Vec<Client> = (0..3).map(|replica| reader(&cluster, replica)).collect();
    let mut last = 0;
    for round in 0..100 {
        let value = round.to_string();
        assert_eq!(say(&mut writer, &format!("SET a {value}")), "+OK");
        let written = token(&mut writer);
        assert!(written > last, "{written} after {last}");
        for reader in &mut readers {
            assert_eq!(say(reader, &format!("HW.FRESHNESS SINCE {written}")), "+OK");
            assert_eq!(read_until_fresh(reader), value);
            assert!(token(reader) >= written, "who read it has seen it");
        }
        last = written;
    }
    let mut follower = reader(&cluster, (leader + 1) % 3);
    say(&mut follower, &format!("HW.FRESHNESS SINCE {}", u64::MAX >> 3));
    let asked = Instant::now();
    let answer = say(&mut follower, "GET a");
    assert!(answer.starts_with("-NOTFRESH this replica has not got as far"), "{answer}");
    assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
}

#[test]
fn who_is_cut_off_shows_nothing_old_to_who_asks_for_better() {
    let mut cluster = Cluster::start("bounds", "durability = \"memory\"", None);
    let (leader, mut writer) = cluster.leader();
    let replica = (leader + 1) % 3;
    let mut follower = reader(&cluster, replica);
    for round in 0..100 {
        let (value, bound) = (round.to_string(), round % 3 * 10);
        assert_eq!(say(&mut writer, &format!("SET a {value}")), "+OK");
        assert_eq!(say(&mut follower, &format!("HW.FRESHNESS WITHIN {bound}")), "+OK");
        let answer = read_until_fresh(&mut follower);
        assert!(bound > 0 || answer == value, "{answer} after {value} was acknowledged");
    }
    let others = [leader, (leader + 2) % 3];
    others.iter().for_each(|other| stop(&cluster, *other));
    say(&mut follower, "HW.FRESHNESS WITHIN 0");
    let asked = Instant::now();
    let answer = say(&mut follower, "GET a");
    assert!(answer.starts_with("-NOTFRESH no leader vouches"), "{answer}");
    assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
    say(&mut follower, "HW.FRESHNESS ANY");
    assert_eq!(say(&mut follower, "GET a"), "99", "who asks for nothing is served as ever");
    others.iter().for_each(|other| signal(&cluster, *other, Signal::CONT));
    say(&mut follower, "HW.FRESHNESS WITHIN 0");
    assert_eq!(read_until_fresh(&mut follower), "99");
    cluster.none_died();
}

/// What `highwater status` says of a replica.
fn status(cluster: &Cluster, replica: usize) -> serde_json::Value {
    let admin = format!("127.0.0.1:{}", cluster.admin_port(replica));
    let output = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["status", "--admin", &admin, "--json"])
        .output()
        .unwrap();
    // Exit code 4 is of a replica that is cut off: it answers all the same.
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn freshness(cluster: &Cluster, replica: usize) -> Option<Duration> {
    status(cluster, replica)["freshness_ms"].as_u64().map(Duration::from_millis)
}

/// Asks until the answer is as wanted.
fn freshness_until(cluster: &Cluster, replica: usize, wanted: impl Fn(Duration) -> bool) -> Duration {
    let started = Instant::now();
    loop {
        let told = freshness(cluster, replica);
        if let Some(told) = told.filter(|told| wanted(*told)) {
            return told;
        }
        assert!(started.elapsed() < PATIENCE, "replica {replica} says {told:?}");
    }
}

#[test]
fn a_status_says_how_fresh_a_replica_is() {
    let mut cluster = Cluster::start("fresh-status", "durability = \"memory\"", None);
    let (leader, mut writer) = cluster.leader();
    let replica = (leader + 1) % 3;
    let mut follower = reader(&cluster, replica);
    freshness_until(&cluster, replica, |_| true);
    for round in 0..20 {
        let value = round.to_string();
        assert_eq!(say(&mut writer, &format!("SET a {value}")), "+OK");
        let acknowledged = Instant::now();
        loop {
            let asked = acknowledged.elapsed();
            // What was acknowledged so long before the question is there.
            if freshness(&cluster, replica).is_some_and(|told| told <= asked) {
                break;
            }
            assert!(acknowledged.elapsed() < PATIENCE);
        }
        let known = Instant::now();
        loop {
            // Who asks for nothing may be shown a snapshot that was made a little before.
            let is_new = known.elapsed() > SNAPSHOT_AGE;
            if say(&mut follower, "GET a") == value {
                break;
            }
            assert!(!is_new, "{value} was acknowledged, and is not shown");
        }
    }
    freshness_until(&cluster, leader, |told| told.is_zero());
    // It grows while nobody vouches for the replica.
    let others = [leader, (leader + 2) % 3];
    let stopped = Instant::now();
    others.iter().for_each(|other| stop(&cluster, *other));
    let cut_off = freshness_until(&cluster, replica, |told| told > Duration::from_millis(600));
    assert!(freshness(&cluster, replica) >= Some(cut_off));
    assert!(cut_off < stopped.elapsed() + BOUNDED, "{cut_off:?}");
    others.iter().for_each(|other| signal(&cluster, *other, Signal::CONT));
    freshness_until(&cluster, replica, |told| told < Duration::from_millis(500));
    cluster.none_died();
}
