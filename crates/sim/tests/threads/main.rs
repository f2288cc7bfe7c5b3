//! Whole replicas on real threads: a thread for each worker and each controller of three replicas, frames in memory
//! between them, leaders that are killed and paused; the simulator's clients, and its judges.
//!
//! What the simulator cannot show, since its workers take turns on one core: two cores at once in the store, the marks
//! and the mailboxes of one replica. What this cannot do: repeat a run. `STRESS_SECONDS` makes it longer, `SEED` another one;
//! `SLOWNESS` stretches the timeouts, for a sanitizer.
//!
//! Does it bite? `PLANTED=no-roll-back STRESS_SECONDS=60 cargo test -p highwater-sim --features planted --test threads`

#![allow(clippy::unwrap_used)] // a test may fail so

mod clients;
mod cluster;

use highwater_checker::check;
use highwater_core::NodeId;
use highwater_seam::Options;
use highwater_sim::Random;
use highwater_sim::library::{self, ACCOUNTS, OPENING};

use clients::Clients;
use cluster::Cluster;

const MS: u64 = 1_000_000;

/// Small limits, so that entries, pipelines and logs end often; timeouts that a busy machine keeps.
fn tune(options: &mut Options) {
    let slowness = number("SLOWNESS", 1);
    options.heartbeat = 15 * MS * slowness;
    options.election_timeout = 100 * MS * slowness;
    options.max_entry_bytes = 4 << 10;
    options.max_in_flight_bytes = 64 << 10;
    options.log_retain_bytes = 64 << 10;
    options.own.set("snapshot_age_us", 1000);
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

#[test]
fn three_replicas_on_real_threads_lose_and_reorder_nothing() {
    let (seed, seconds) = (number("SEED", 1), number("STRESS_SECONDS", 5));
    let mut random = Random::new(seed);
    let mut cluster = Cluster::start(3, 2, seed, tune);
    cluster.wait("a leader", |cluster| cluster.leader().is_some());
    let mut clients = Clients::start(&cluster, seed);
    let (mut kills, mut pauses) = (0, 0);
    let end = cluster.now() + seconds * 1000 * MS;
    while cluster.now() < end {
        let strike_at = cluster.now() + random.between(100, 500) * MS;
        cluster.wait_until(strike_at, |_| false);
        // Memory is lost only while all three hold all of it; a pause may come at any time.
        let victim = match cluster.leader() {
            Some(leader) if random.one_in(3) => leader,
            _ => NodeId(random.below(3) as u8),
        };
        let victim = if random.one_in(2) { cluster.leader().unwrap_or(victim) } else { victim };
        if random.one_in(2) && cluster.is_whole() {
            cluster.kill(victim);
            cluster.wait_until(cluster.now() + random.below(200) * MS, |_| false);
            cluster.revive(victim);
            kills += 1;
        } else {
            cluster.pause(victim, true);
            cluster.wait_until(cluster.now() + random.between(20, 400) * MS, |_| false);
            cluster.pause(victim, false);
            pauses += 1;
        }
    }
    cluster.wait("all three in service again", Cluster::is_whole);
    clients.finish();
    cluster.wait("three equal logs", Cluster::is_converged);
    let epochs = cluster.epoch();
    let stores = cluster.stop();
    let journal = clients.journal();
    println!(
        "{kills} kills, {pauses} pauses, epoch {epochs:?}, {} transactions asked for, {} acknowledged, {} on snapshots",
        journal.asked(),
        journal.acknowledged(),
        journal.snapshot_reads()
    );
    let history = journal.history();
    let verdict = check(&history, &highwater_checker::Options::strict());
    assert!(verdict.anomalies.is_empty(), "{:?}\n{}", verdict.found, verdict.anomalies[0].text);
    assert_eq!(journal.contradictions(), None);
    let (written, refused) = journal.audits();
    for store in &stores {
        assert_eq!(library::total(&**store), u64::from(ACCOUNTS * OPENING));
        assert!(written.iter().all(|row| library::audited(&**store, *row)), "what was acknowledged is there");
        assert!(!refused.iter().any(|row| library::audited(&**store, *row)), "what was refused is not there");
        assert_eq!(store.digest(), stores[0].digest(), "{:?}", store.differences(&stores[0], 4));
    }
    assert!(journal.acknowledged() > 100 * seconds, "there was progress");
    assert!(kills + pauses > 0);
}
