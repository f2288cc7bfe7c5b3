//! Three real replicas with disks, all killed at once under load, again and again: what was acknowledged is there, and who comes back is
//! who it was.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

mod processes;

use processes::{Client, Cluster, PATIENCE};

const ROUNDS: usize = 3;
const CLIENTS: usize = 4;
/// Acknowledged in each round, by each client, before the power fails.
const ENOUGH: u64 = 100;

/// Adds 1 to a counter until nobody answers any more; how often that was acknowledged. `enough` counts clients that had their share.
fn count(port: u16, name: &str, enough: &std::sync::atomic::AtomicUsize, over: &AtomicBool) -> u64 {
    let mut acknowledged = 0;
    let Some(mut client) = Client::connect(port) else { return 0 };
    while !over.load(Ordering::Relaxed) {
        match client.call(&[b"INCR", name.as_bytes()]) {
            Some((line, _)) if line.starts_with(':') => acknowledged += 1,
            _ => break,
        }
        if acknowledged == ENOUGH {
            enough.fetch_add(1, Ordering::Relaxed);
        }
    }
    acknowledged
}

#[test]
fn nothing_acknowledged_is_lost_when_all_are_killed_at_once() {
    let mut cluster = Cluster::start("disks", "durability = \"sync\"", None);
    let mut acknowledged = [0; CLIENTS];
    for round in 0..=ROUNDS {
        let (leader, mut client) = cluster.leader();
        for (at, least) in acknowledged.iter_mut().enumerate() {
            let (_, value) = client.call(&[b"GET", format!("counter:{at}").as_bytes()]).expect("it answers");
            let value: u64 = String::from_utf8(value).unwrap().parse().unwrap_or(0);
            // One request of each client may have been under way.
            assert!(
                (*least..=*least + 1).contains(&value),
                "round {round}: counter {at} is {value}, {least} acknowledged"
            );
            *least = value;
        }
        if round == ROUNDS {
            break;
        }
        let (enough, over) = (std::sync::atomic::AtomicUsize::new(0), AtomicBool::new(false));
        let port = cluster.port(leader);
        let counted: Vec<u64> = thread::scope(|scope| {
            let (enough, over) = (&enough, &over);
            let counting: Vec<_> = (0..CLIENTS)
                .map(|at| scope.spawn(move || count(port, &format!("counter:{at}"), enough, over)))
                .collect();
            let started = Instant::now();
            while enough.load(Ordering::Relaxed) < CLIENTS {
                assert!(started.elapsed() < PATIENCE, "the clients get no answers");
                thread::yield_now();
            }
            cluster.kill_all();
            over.store(true, Ordering::Relaxed);
            counting.into_iter().map(|client| client.join().unwrap()).collect()
        });
        acknowledged.iter_mut().zip(counted).for_each(|(sum, counted)| *sum += counted);
        (0..3).for_each(|id| cluster.run(id));
    }
    cluster.none_died();
    cluster.kill_all();
    let journal = cluster.directory().join("node-0");
    let verified =
        Command::new(env!("CARGO_BIN_EXE_highwater")).args(["log", "verify"]).arg(&journal).output();
    let verified = verified.unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let log = std::fs::read_to_string(cluster.directory().join("0.log")).unwrap();
    assert!(!log.contains("has lost its memory"), "{log}");
}

/// A folder that is somebody else's, or in use, is refused with words.
#[test]
fn a_folder_belongs_to_one_node_of_one_cluster() {
    let mut cluster = Cluster::start("folders", "durability = \"sync\"", None);
    cluster.leader();
    let config = cluster.directory().join("0.toml");
    let serve = |overrides: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(["serve", "--config"])
            .arg(&config)
            .args(overrides)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, words) = serve(&[]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("node-0") && words.contains("another process has locked it"), "{words}");
    cluster.kill_all();
    let (code, words) = serve(&["--set", "cluster.id=other"]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("belongs to cluster \"highwater\", not \"other\""), "{words}");
    let (code, words) = serve(&["--set", "cluster.workers=3"]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("another number of workers"), "{words}");
}

/// Who lost its journal must not vote as who it was; and a journal without its beginning is refused.
#[test]
fn an_identity_without_its_journal_is_another_life() {
    let mut cluster = Cluster::start("journals", "durability = \"sync\"", None);
    let (_, mut client) = cluster.leader();
    assert_eq!(client.call(&[b"SET", b"kept", b"value"]).map(|(line, _)| line).as_deref(), Some("+OK"));
    cluster.kill_all();
    let folder = cluster.directory().join("node-1");
    let journal = |name: &str| name.starts_with("journal-");
    for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()) {
        if journal(entry.file_name().to_str().unwrap()) {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    (0..3).for_each(|id| cluster.run(id));
    let (_, mut client) = cluster.leader();
    let answer = client.call(&[b"GET", b"kept"]).unwrap();
    let log = std::fs::read_to_string(cluster.directory().join("1.log")).unwrap();
    assert_eq!(answer, ("$5".to_string(), b"value".to_vec()), "{log}");
    assert!(log.contains("begins another life"), "{log}");
    cluster.none_died();
}
