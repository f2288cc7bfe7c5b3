//! Three real replicas whose address space ends soon: filled over RESP until one refuses, emptied and filled again, one of
//! them killed while they are full. Nobody dies of it, and nothing that was acknowledged is lost.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

mod processes;

use processes::{Client, Cluster, PATIENCE};

/// What `ulimit -v` gives each, in KiB; a node takes three quarters of it.
const ADDRESS_SPACE: u64 = 1_000_000;
const VALUE: usize = 200_000;

fn key(number: usize) -> Vec<u8> {
    format!("row:{number}").into_bytes()
}

/// Sets rows until memory is full.
fn fill(client: &mut Client, rows: &mut BTreeSet<usize>) {
    for number in 0..100_000 {
        if rows.contains(&number) {
            continue;
        }
        let value = vec![number as u8; VALUE];
        let (answer, _) = client.call(&[b"SET", &key(number), &value]).expect("it answers");
        if answer != "+OK" {
            assert_eq!(answer, "-OOM command not allowed when used memory > 'maxmemory'.");
            return;
        }
        rows.insert(number);
    }
    panic!("it is never full");
}

fn verify(client: &mut Client, rows: &BTreeSet<usize>) {
    for number in rows {
        let (line, value) = client.call(&[b"GET", &key(*number)]).expect("it answers");
        assert!(
            value.len() == VALUE && value.iter().all(|byte| *byte == *number as u8),
            "row {number}: {line}"
        );
    }
}

#[test]
fn replicas_that_are_full_refuse_what_grows_and_survive() {
    let mut cluster = Cluster::start("memory", "durability = \"memory\"", Some(ADDRESS_SPACE));
    let (leader, mut client) = cluster.leader();
    let mut rows = BTreeSet::new();
    let items: Vec<Vec<u8>> = (0..500).map(|n| vec![n as u8; 100]).collect();
    let push: Vec<&[u8]> =
        [&b"RPUSH"[..], b"list"].into_iter().chain(items.iter().map(Vec::as_slice)).collect();
    assert_eq!(client.call(&push).unwrap().0, ":500");
    fill(&mut client, &mut rows);
    let full = rows.len();
    let (used, most) =
        (Cluster::memory(&mut client, "used_memory"), Cluster::memory(&mut client, "maxmemory"));
    assert!(used <= most && used > most / 2, "{used} of {most}");
    assert!(full * VALUE > 100 << 20, "{full} rows");
    // In a block the whole is refused; reads, deletes and shorter values go on.
    client.call(&[b"MULTI"]).unwrap();
    client.call(&[b"SET", b"new", &vec![1; VALUE]]).unwrap();
    assert!(client.call(&[b"EXEC"]).unwrap().0.starts_with("-OOM"));
    assert_eq!(client.call(&[b"SET", &key(0), &vec![0; VALUE]]).unwrap().0, "+OK");
    verify(&mut client, &rows);
    // To remove what is large needs no room.
    assert_eq!(client.call(&[b"DEL", b"list"]).unwrap().0, ":1");
    let flushed = client.call(&[b"FLUSHALL"]).unwrap().0;
    assert!(flushed.starts_with("-TOOLARGE "), "{flushed}");
    // Room comes back.
    for number in 0..full / 2 {
        assert_eq!(client.call(&[b"DEL", &key(number)]).unwrap().0, ":1");
        rows.remove(&number);
    }
    fill(&mut client, &mut rows);
    assert!(rows.len() + 20 >= full * 9 / 10, "{} rows after {full}", rows.len());
    cluster.none_died();
    // The leader dies while they are full, and comes back.
    let mut child = cluster.replicas[leader].take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (other, mut client) = cluster.leader();
    assert_ne!(other, leader);
    verify(&mut client, &rows);
    cluster.run(leader);
    let started = Instant::now();
    loop {
        let mut back = loop {
            if let Some(client) = Client::connect(cluster.port(leader)) {
                break client;
            }
            assert!(started.elapsed() < PATIENCE, "it does not come back");
            std::thread::sleep(Duration::from_millis(20));
        };
        let (_, info) = back.call(&[b"INFO", b"replication"]).unwrap();
        if String::from_utf8_lossy(&info).contains("highwater_role:follower") {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "it does not vote again");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (_, mut client) = cluster.leader();
    verify(&mut client, &rows);
    assert_eq!(client.call(&[b"FLUSHALL", b"ASYNC"]).unwrap().0, "+OK");
    assert_eq!(client.call(&[b"DBSIZE"]).unwrap().0, ":0");
    cluster.none_died();
}
