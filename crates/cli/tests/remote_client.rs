//! `highwater-remote` on three real processes, whose leaders are killed in the middle of what it does.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use highwater_remote::{Client, Effect, Options, cmd};

mod processes;

use processes::{Cluster, PATIENCE};

#[test]
fn counters_are_exact_though_leaders_are_killed() {
    let mut cluster = Cluster::start("remote-client", "durability = \"sync\"", None);
    let (leader, _) = cluster.leader();
    // A follower's address is enough.
    let nodes = [format!("127.0.0.1:{}", cluster.port((leader + 1) % 3))];
    let client = Client::connect(Options { patience: PATIENCE, ..Options::new(nodes) }).unwrap();
    let over = AtomicBool::new(false);
    let [once, moved, sure, perhaps] = [const { AtomicU64::new(0) }; 4];
    let again = || !over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let (client, again) = (&client, &again);
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let (once, moved, sure, perhaps) = (&once, &moved, &sure, &perhaps);
        for _ in 0..2 {
            scope.spawn(move || {
                while again() {
                    client.once::<i64>(cmd("INCR").arg("once")).unwrap();
                    count(once);
                }
            });
            scope.spawn(move || {
                while again() {
                    let added = client.transaction(&["moved"], |tx| {
                        let n: Option<u64> = tx.read(cmd("GET").arg("moved"))?;
                        tx.queue(cmd("SET").arg("moved").arg(n.unwrap_or(0) + 1));
                        Ok(())
                    });
                    added.unwrap();
                    count(moved);
                }
            });
            scope.spawn(move || {
                while again() {
                    match client.run::<i64>(cmd("INCR").arg("blind")) {
                        Ok(_) => count(sure),
                        Err(error) if error.effect() == Effect::Unknown => count(perhaps),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for _ in 0..3 {
            let (leader, _) = cluster.leader();
            cluster.kill(leader);
            cluster.leader();
            cluster.run(leader);
            // It is back when it knows who leads: the next one may be killed.
            let node = [format!("127.0.0.1:{}", cluster.port(leader))];
            let back = Client::connect(Options { patience: PATIENCE, ..Options::new(node) }).unwrap();
            back.once::<i64>(cmd("INCR").arg("rounds")).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    let get = |key| client.read::<u64>(cmd("GET").arg(key)).unwrap();
    assert_eq!(get("rounds"), 3);
    assert_eq!(get("once"), once.into_inner());
    assert_eq!(get("moved"), moved.into_inner());
    let (sure, perhaps) = (sure.into_inner(), perhaps.into_inner());
    assert!((sure..=sure + perhaps).contains(&get("blind")), "{sure} and {perhaps}: {}", get("blind"));
    cluster.none_died();
}
