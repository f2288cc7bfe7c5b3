//! Three real replicas whose disks are behind what they accept (`cluster.durability = "async"`).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::thread;
use std::time::{Duration, Instant};

mod processes;

use processes::{Client, Cluster, PATIENCE};

/// How far a disk may be behind, by the settings of these clusters, and as long again for this machine.
const WINDOW: Duration = Duration::from_millis(200);

fn start(name: &str) -> Cluster {
    Cluster::start(name, "durability = \"async\"", None)
}

/// Adds 1 until some time has passed; how often that was acknowledged, and how often before the last window began.
fn count(client: &mut Client) -> (u64, u64) {
    let (began, mut acknowledged) = (Instant::now(), Vec::new());
    while began.elapsed() < 4 * WINDOW {
        let answer = client.call(&[b"INCR", b"counter"]).unwrap();
        assert!(answer.0.starts_with(':'), "{answer:?}");
        acknowledged.push(Instant::now());
    }
    let surely = acknowledged.iter().filter(|at| at.elapsed() > WINDOW).count();
    (surely as u64, acknowledged.len() as u64)
}

fn counter(cluster: &Cluster) -> u64 {
    let began = Instant::now();
    loop {
        let (_, mut client) = cluster.leader();
        let answer = client.call(&[b"GET", b"counter"]).filter(|(line, _)| line.starts_with('$'));
        if let Some((_, value)) = answer {
            return String::from_utf8(value).unwrap().parse().unwrap();
        }
        assert!(began.elapsed() < PATIENCE, "no answer");
    }
}

fn wait_for(what: &str, cluster: &Cluster, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        let logs = (0..3).map(|id| cluster.log(id)).collect::<Vec<_>>().join("\n");
        assert!(began.elapsed() < PATIENCE, "{what}:\n{logs}");
        thread::yield_now();
    }
}

#[test]
fn after_a_crash_of_all_everybody_has_to_be_back_and_what_is_lost_is_within_the_window() {
    let mut cluster = start("crash");
    let (surely, most) = count(&mut cluster.leader().1);
    cluster.kill_all();
    for id in [0, 1] {
        cluster.run(id);
    }
    wait_for("who waits for the third says so", &cluster, || {
        let status = std::process::Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(["status", "--admin", &format!("127.0.0.1:{}", cluster.admin_port(0))])
            .output()
            .unwrap();
        String::from_utf8_lossy(&status.stdout).contains("all voters have to be here")
    });
    (0..2).for_each(|id| cluster.kill(id));
    let shown = |folders: &[usize]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(["recover", "--from"]);
        command.args(folders.iter().map(|id| cluster.directory().join(format!("node-{id}"))));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(shown(&[0, 1]).contains("the majority is lost"), "{}", shown(&[0, 1]));
    assert!(shown(&[0, 1, 2]).contains("all voters are here"), "{}", shown(&[0, 1, 2]));
    (0..3).for_each(|id| cluster.run(id));
    let found = counter(&cluster);
    assert!(
        (surely..=most).contains(&found),
        "{found} of {most}, of which {surely} were acknowledged before"
    );
    cluster.none_died();
    let logs = (0..3).map(|id| cluster.log(id)).collect::<String>();
    assert!(logs.contains("goes on from the best of all its disks"), "{logs}");
    let (_, more) = count(&mut cluster.leader().1);
    assert_eq!(counter(&cluster), found + more);
}

#[test]
fn after_an_orderly_end_of_all_a_majority_is_enough_and_nothing_is_lost() {
    let mut cluster = start("orderly");
    let (_, most) = count(&mut cluster.leader().1);
    (0..3).for_each(|id| cluster.terminate(id));
    for id in 0..3 {
        let began = Instant::now();
        while !cluster.has_ended(id) {
            assert!(began.elapsed() < PATIENCE, "replica {id} does not end");
            thread::yield_now();
        }
    }
    for id in [0, 1] {
        cluster.run(id);
    }
    assert_eq!(counter(&cluster), most);
}

#[test]
fn who_crashed_alone_catches_up_and_is_the_voter_that_it_was() {
    let mut cluster = start("alone");
    let (leader, mut client) = cluster.leader();
    let (_, first) = count(&mut client);
    let victim = (leader + 1) % 3;
    cluster.kill(victim);
    let (_, second) = count(&mut client);
    cluster.run(victim);
    wait_for("it catches up", &cluster, || cluster.log(victim).contains("caught up with all that"));
    assert!(!cluster.log(victim).contains("has lost its memory"));
    // It is needed now.
    cluster.kill((leader + 2) % 3);
    let (_, third) = count(&mut client);
    assert_eq!(counter(&cluster), first + second + third);
}
