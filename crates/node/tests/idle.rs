//! An idle cluster burns nothing. Alone in its process, so that the process's CPU time is the cluster's.

mod common;

use std::time::Duration;

use common::{Event, config, start_all};
use highwater_core::NodeId;
use highwater_node::clock::process_cpu;

/// CPU time of three nodes in a second.
const MOST_MS: f64 = 90.0;

#[test]
fn an_idle_cluster_uses_next_to_no_cpu() {
    let nodes = start_all(&config(3, 4));
    // Heartbeats are the clock: a second's worth of them. The best of a few: on a busy machine the same wake-ups cost
    // several times as much CPU time.
    let second = 1_000_000_000 / common::HEARTBEAT;
    let mut least_ms = f64::MAX;
    for _ in 0..8 {
        let before = process_cpu();
        for _ in 0..second {
            while nodes[0].events.recv_timeout(Duration::from_secs(5)).unwrap() != Event::Message(NodeId(1)) {
            }
        }
        least_ms = least_ms.min((process_cpu() - before) as f64 / 1e6);
        // 3 % of a core per node; where wake-ups are dear 2 % were seen on a quiet machine, and one thread that spins takes 100. The stub's heartbeats go
        // from everyone to everyone: more than a real engine's.
        if least_ms < MOST_MS {
            break;
        }
    }
    assert!(least_ms < MOST_MS, "3 idle nodes with 15 threads used {least_ms} ms of CPU in a second");
    println!("{least_ms} ms");
}
