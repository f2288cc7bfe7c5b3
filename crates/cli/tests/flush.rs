//! Three real replicas whose keyspace is emptied: of more than one transaction may remove, beside other clients, and across a failover.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

mod processes;

use processes::{Client, Cluster, PATIENCE};

const KEYS: usize = 30_000;

/// Runs a command of many words, some of them at a time.
fn fill(client: &mut Client, head: &[&[u8]], words: impl Iterator<Item = String>) {
    let words: Vec<String> = words.collect();
    for some in words.chunks(1000) {
        let parts: Vec<&[u8]> = head.iter().copied().chain(some.iter().map(String::as_bytes)).collect();
        let (line, _) = client.call(&parts).unwrap();
        assert!(line == "+OK" || line.starts_with(':'), "{line}");
    }
}

fn fill_keys(client: &mut Client) {
    fill(client, &[b"MSET"], (0..KEYS).flat_map(|n| [format!("key:{n}"), format!("value {n}")]));
}

fn size(client: &mut Client) -> usize {
    let (line, _) = client.call(&[b"DBSIZE"]).expect("it answers");
    line.strip_prefix(':').and_then(|size| size.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn a_keyspace_of_any_size_is_emptied_while_others_work() {
    let cluster = Cluster::start("flush", "durability = \"memory\"", None);
    let (leader, mut client) = cluster.leader();
    let empty = Cluster::memory(&mut client, "used_memory");
    fill_keys(&mut client);
    fill(&mut client, &[b"RPUSH", b"list"], (0..200_000).map(|n| format!("item {n}")));
    fill(&mut client, &[b"SADD", b"set"], (0..50_000).map(|n| format!("member {n}")));
    for n in 0..5 {
        let value = vec![7; 15 << 20];
        assert_eq!(client.call(&[b"SET", format!("long:{n}").as_bytes(), &value]).unwrap().0, "+OK");
    }
    let (line, _) = client.call(&[b"FLUSHALL"]).unwrap();
    assert!(line.starts_with("-TOOLARGE ") && line.contains("FLUSHALL ASYNC"), "{line}");
    assert_eq!(size(&mut client), KEYS + 7);
    let (emptied, mut written) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut other = Client::connect(cluster.port(leader)).unwrap();
            let mut written = 0;
            while !emptied.load(Ordering::Relaxed) {
                let key = format!("other:{written}");
                assert_eq!(other.call(&[b"SET", key.as_bytes(), b"1"]).unwrap().0, "+OK");
                written += 1;
            }
            written
        });
        assert_eq!(client.call(&[b"FLUSHALL", b"ASYNC"]).unwrap().0, "+OK");
        emptied.store(true, Ordering::Relaxed);
        written = other.join().unwrap();
    });
    // A step holds others up for a millisecond or so, and there are more than 60.
    assert!(written >= 10, "{written} were written meanwhile");
    assert!(size(&mut client) <= written);
    for name in ["key:0", "key:29999", "list", "set", "long:0"] {
        assert_eq!(client.call(&[b"EXISTS", name.as_bytes()]).unwrap().0, ":0");
    }
    assert_eq!(client.call(&[b"FLUSHDB", b"ASYNC"]).unwrap().0, "+OK");
    assert_eq!(size(&mut client), 0);
    // The sweep removes what the list and the set had.
    let started = Instant::now();
    while Cluster::memory(&mut client, "used_memory") > empty + (8 << 20) {
        assert!(started.elapsed() < PATIENCE, "its memory does not come back");
    }
}

#[test]
fn steps_that_are_done_survive_the_leader_and_a_repeat_goes_on() {
    let mut cluster = Cluster::start("flush", "durability = \"memory\"", None);
    let (leader, mut client) = cluster.leader();
    fill_keys(&mut client);
    let mut other = Client::connect(cluster.port(leader)).unwrap();
    let flushed = std::thread::spawn(move || client.call(&[b"FLUSHALL", b"ASYNC"]));
    let started = Instant::now();
    let seen = loop {
        let seen = size(&mut other);
        if seen < KEYS {
            break seen;
        }
        assert!(started.elapsed() < PATIENCE, "nothing is removed");
    };
    cluster.kill(leader);
    // It was done just then, or its client hears nothing.
    let flushed = flushed.join().unwrap();
    assert!(flushed.is_none_or(|(line, _)| line == "+OK"));
    let (next, mut client) = cluster.leader();
    assert_ne!(next, leader);
    assert!(size(&mut client) <= seen, "what was seen to be removed is removed");
    assert_eq!(client.call(&[b"FLUSHALL", b"ASYNC"]).unwrap().0, "+OK");
    assert_eq!(size(&mut client), 0);
}
