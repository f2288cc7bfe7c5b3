//! Clusters in virtual time: lost, repeated, late and reordered messages, broken connections, partitions, pauses, crashes
//! that lose the memory, or all but what is on disk. One seed draws everything. First faults, with safety checked at every step; then healing, and
//! the cluster must make progress, agree, and fall silent.
//!
//! `HIGHWATER_SEEDS=FROM..TO` runs other seeds.

mod checks;
mod cluster;
mod faults;

use crate::common::Node;
use cluster::{MS, Simulation};
use highwater_consensus::*;
use highwater_core::{Durability, Epoch};

/// One cluster's story; returns how many steps it took, how often a leader found out that it led, and how often one overruled
/// what a stream held.
fn run(seed: u64, durability: Durability) -> (u64, u64, u64) {
    let mut simulation = Simulation::new(seed, durability);
    // Many short stories and a few long ones.
    let most = simulation.rng.below(500 * MS);
    let time = simulation.rng.below(most);
    simulation.run_for(time);
    simulation.heal();
    let decided = |simulation: &Simulation| simulation.history.iter().map(Vec::len).sum::<usize>();
    let before = decided(&simulation);
    simulation.expect("progress", |simulation| decided(simulation) >= before + 30);
    simulation.expect("everyone votes", |simulation| {
        let alive = simulation.nodes.iter().map(|node| node.me);
        let all = Members::new(Epoch(0), alive.collect());
        let votes = |node: &Node| node.members().voters() == all.voters();
        simulation.nodes.iter().all(votes)
    });
    simulation.load = false;
    simulation.expect("agreement, and silence", |simulation| {
        let now = simulation.now;
        let lengths: Vec<u64> = simulation.history.iter().map(|history| history.len() as u64).collect();
        simulation.nodes.iter_mut().all(|node| {
            let mut streams = node.streams.iter_mut().zip(&lengths);
            streams.all(|(stream, length)| {
                stream.decided().0 == *length && stream.last().0 == *length && stream.tick(now).is_none()
            })
        })
    });
    (simulation.steps, simulation.confirmed, simulation.replacements)
}

/// The seeds to run, and whether they were asked for.
fn seeds() -> (std::ops::Range<u64>, bool) {
    let Ok(range) = std::env::var("HIGHWATER_SEEDS") else { return (0..600, false) };
    let (from, to) = range.split_once("..").expect("HIGHWATER_SEEDS=FROM..TO");
    (from.parse().unwrap()..to.parse().unwrap(), true)
}

/// Before it landed: followers that had grown patient left all candidacies to one that had not, whose log ended
/// before what anybody kept: it won and gave up for ever. Patience is for leaders that were heard.
#[test]
fn every_seed_stays_safe_and_converges() {
    run_all(Durability::Memory);
}

/// With disks that lose what was not synced: nodes come back as the voters that they were, and all may crash at once. In one of ten a
/// sync takes two to eight election timeouts.
#[test]
fn every_seed_with_disks_stays_safe_and_converges() {
    run_all(Durability::Sync);
}

/// With disks that what is accepted does not wait for. In one of three a majority may crash at once, and forget.
#[test]
fn every_seed_with_disks_behind_stays_safe_and_converges() {
    run_all(Durability::Async);
}

fn run_all(durability: Durability) {
    let (range, asked) = seeds();
    let (mut steps, mut confirmed, mut replacements) = (0, 0, 0);
    for seed in range.clone() {
        let run = std::panic::catch_unwind(|| run(seed, durability));
        let run = run.unwrap_or_else(|_| panic!("seed {seed} failed: HIGHWATER_SEEDS={seed}..{}", seed + 1));
        (steps, confirmed, replacements) = (steps + run.0, confirmed + run.1, replacements + run.2);
    }
    assert!(asked || confirmed > range.end - range.start, "leaders hear that they lead: {confirmed}");
    assert!(
        asked || 20 * replacements > range.end - range.start,
        "leaders overrule what others held: {replacements}"
    );
    if asked {
        println!("{range:?}: {steps} steps");
    }
}
