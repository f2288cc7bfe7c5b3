//! Three real replicas whose address space ends soon: filled over RESP until one refuses, emptied and filled again, one of
//! them killed while they are full. Nobody dies of it, and nothing that was acknowledged is lost. Where the machine is so busy that the lead
//! changes by itself, what has no known outcome is asked again.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

mod processes;

use processes::{Answer, Client, Cluster, PATIENCE, refused};

/// What `ulimit -v` gives each, in KiB; a node takes three quarters of it.
const ADDRESS_SPACE: u64 = 1_000_000;
const VALUE: usize = 200_000;

fn key(number: usize) -> Vec<u8> {
    format!("row:{number}").into_bytes()
}

/// Asks the leader until the outcome is known. `true`: it may have been done before.
fn ask(cluster: &Cluster, client: &mut Client, parts: &[&[u8]]) -> (Answer, bool) {
    let (started, mut again) = (Instant::now(), false);
    loop {
        match client.call(parts) {
            Some(answer) if !refused(&answer.0) && !answer.0.starts_with("-UNKNOWN ") => {
                return (answer, again);
            }
            Some((line, _)) => again |= !refused(&line),
            None => again = true,
        }
        assert!(started.elapsed() < PATIENCE, "no outcome");
        *client = cluster.leader().1;
    }
}

/// Sets rows until memory is full.
fn fill(cluster: &Cluster, client: &mut Client, rows: &mut BTreeSet<usize>) {
    for number in 0..100_000 {
        if rows.contains(&number) {
            continue;
        }
        let value = vec![number as u8; VALUE];
        let ((answer, _), again) = ask(cluster, client, &[b"SET", &key(number), &value]);
        if answer != "+OK" {
            assert_eq!(answer, "-OOM command not allowed when used memory > 'maxmemory'.");
            // Of unknown outcome, and refused now: if it is there, it is this one.
            if again && ask(cluster, client, &[b"EXISTS", &key(number)]).0.0 == ":1" {
                rows.insert(number);
            }
            return;
        }
        rows.insert(number);
    }
    panic!("it is never full");
}

/// Asks for a block of one command; what `EXEC` says.
fn block(cluster: &Cluster, client: &mut Client, command: &[&[u8]]) -> String {
    let lost = ["-MOVED ", "-CLUSTERDOWN ", "-UNKNOWN ", "-EXECABORT "];
    let started = Instant::now();
    loop {
        let said = [&[&b"MULTI"[..]][..], command, &[b"EXEC"]].map(|parts| client.call(parts));
        match said {
            [.., Some((line, _))] if !lost.iter().any(|code| line.starts_with(code)) => return line,
            _ => *client = cluster.leader().1,
        }
        assert!(started.elapsed() < PATIENCE, "no outcome");
    }
}

/// Deletes a key that is there.
fn delete(cluster: &Cluster, client: &mut Client, key: &[u8]) {
    let ((line, _), again) = ask(cluster, client, &[b"DEL", key]);
    assert!(line == ":1" || again && line == ":0", "{line}");
}

fn verify(cluster: &Cluster, client: &mut Client, rows: &BTreeSet<usize>) {
    for number in rows {
        let ((line, value), _) = ask(cluster, client, &[b"GET", &key(*number)]);
        assert!(
            value.len() == VALUE && value.iter().all(|byte| *byte == *number as u8),
            "row {number}: {line}"
        );
    }
}

#[test]
fn replicas_that_are_full_refuse_what_grows_and_survive() {
    let mut cluster = Cluster::start("memory", "durability = \"memory\"", Some(ADDRESS_SPACE));
    let mut client = cluster.leader().1;
    let mut rows = BTreeSet::new();
    let items: Vec<Vec<u8>> = (0..500).map(|n| vec![n as u8; 100]).collect();
    let push: Vec<&[u8]> =
        [&b"RPUSH"[..], b"list"].into_iter().chain(items.iter().map(Vec::as_slice)).collect();
    assert_eq!(client.call(&push).unwrap().0, ":500");
    fill(&cluster, &mut client, &mut rows);
    let full = rows.len();
    let (used, most) =
        (Cluster::memory(&mut client, "used_memory"), Cluster::memory(&mut client, "maxmemory"));
    assert!(used <= most && used > most / 2, "{used} of {most}");
    assert!(full * VALUE > 100 << 20, "{full} rows");
    // In a block the whole is refused; reads, deletes and shorter values go on.
    let ended = block(&cluster, &mut client, &[b"SET", b"new", &vec![1; VALUE]]);
    assert!(ended.starts_with("-OOM"), "{ended}");
    assert_eq!(ask(&cluster, &mut client, &[b"SET", &key(0), &vec![0; VALUE]]).0.0, "+OK");
    verify(&cluster, &mut client, &rows);
    // To remove what is large needs no room.
    delete(&cluster, &mut client, b"list");
    let flushed = ask(&cluster, &mut client, &[b"FLUSHALL"]).0.0;
    assert!(flushed.starts_with("-TOOLARGE "), "{flushed}");
    // Room comes back.
    for number in 0..full / 2 {
        delete(&cluster, &mut client, &key(number));
        rows.remove(&number);
    }
    fill(&cluster, &mut client, &mut rows);
    assert!(rows.len() + 20 >= full * 9 / 10, "{} rows after {full}", rows.len());
    cluster.none_died();
    // The leader dies while they are full, and comes back.
    let leader = cluster.leader().0;
    let mut child = cluster.replicas[leader].take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (other, mut client) = cluster.leader();
    assert_ne!(other, leader);
    verify(&cluster, &mut client, &rows);
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
    verify(&cluster, &mut client, &rows);
    assert_eq!(ask(&cluster, &mut client, &[b"FLUSHALL", b"ASYNC"]).0.0, "+OK");
    assert_eq!(ask(&cluster, &mut client, &[b"DBSIZE"]).0.0, ":0");
    cluster.none_died();
}
