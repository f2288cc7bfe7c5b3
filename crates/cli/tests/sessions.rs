//! Sessions on three real replicas: what ran under a number runs once, though its leader is killed, or all are at once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Instant;

mod processes;

use processes::{Client, Cluster, PATIENCE};

/// Asks whoever leads, until somebody does: the first line of the reply, and of what follows the bulk in it if there is one.
fn ask(cluster: &Cluster, words: &[&str]) -> String {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let started = Instant::now();
    loop {
        let (_, mut client) = cluster.leader();
        match client.call(&words) {
            Some((line, _)) if processes::refused(&line) => {}
            Some((line, _)) if line.starts_with("-UNKNOWN") => {}
            Some((line, content)) if line.starts_with('$') => return String::from_utf8(content).unwrap(),
            Some((line, _)) => return line,
            None => {}
        }
        assert!(started.elapsed() < PATIENCE, "nobody answers {words:?}");
    }
}

fn open(cluster: &Cluster) -> String {
    ask(cluster, &["HW.SESSION", "NEW"]).strip_prefix(':').unwrap().to_string()
}

fn kill_leader(cluster: &mut Cluster) -> usize {
    let (leader, _) = cluster.leader();
    let mut child = cluster.replicas[leader].take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    leader
}

#[test]
fn another_leader_knows_what_was_done() {
    let mut cluster = Cluster::start("sessions", "durability = \"memory\"", None);
    let id = open(&cluster);
    assert_eq!(ask(&cluster, &["HW.ONCE", &id, "1", "INCR", "a"]), ":1");
    let killed = kill_leader(&mut cluster);
    assert_eq!(ask(&cluster, &["HW.ONCE", &id, "1", "INCR", "a"]), ":1");
    assert_eq!(ask(&cluster, &["GET", "a"]), "1");
    // One that the dead leader never saw: it is asked for, and will not come.
    let (_, mut client) = cluster.leader();
    let parts: Vec<&[u8]> = vec![b"HW.OUTCOME", id.as_bytes(), b"2"];
    assert_eq!(client.call(&parts).unwrap().0, "*2");
    cluster.run(killed);
    let abandoned = ask(&cluster, &["HW.ONCE", &id, "2", "INCR", "a"]);
    assert!(abandoned.starts_with("-ABANDONED "), "{abandoned}");
    assert_eq!(ask(&cluster, &["HW.ONCE", &id, "3", "INCR", "a"]), ":2");
    cluster.none_died();
}

#[test]
fn sessions_survive_what_their_data_survive() {
    let mut cluster = Cluster::start("kept-sessions", "durability = \"sync\"", None);
    let id = open(&cluster);
    assert_eq!(ask(&cluster, &["HW.ONCE", &id, "1", "INCR", "a"]), ":1");
    cluster.kill_all();
    (0..3).for_each(|node| cluster.run(node));
    assert_eq!(ask(&cluster, &["HW.ONCE", &id, "1", "INCR", "a"]), ":1");
    assert_eq!(ask(&cluster, &["HW.ONCE", &id, "2", "INCR", "a"]), ":2");
    assert_ne!(open(&cluster), id);
    cluster.none_died();
}

#[test]
fn a_follower_runs_nothing_under_a_session() {
    let cluster = Cluster::start("sessions-there", "durability = \"memory\"", None);
    let id = open(&cluster);
    let (leader, _) = cluster.leader();
    let mut follower = Client::connect(cluster.port((leader + 1) % 3)).unwrap();
    follower.call(&[b"READONLY"]).unwrap();
    let (refused, _) = follower.call(&[b"HW.ONCE", id.as_bytes(), b"1", b"GET", b"a"]).unwrap();
    assert!(refused.starts_with("-MOVED "), "{refused}");
}
