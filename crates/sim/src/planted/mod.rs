//! The proof that simulator and checker bite: mistakes planted in the product on purpose, each of which runs drawn from
//! seeds must catch. Only with the feature `planted`.
//!
//! A [`hunt`] runs plan after plan with one bug planted until one fails; then the same plan once more without the bug,
//! which must pass: so a catch is the bug's, not the simulator's. A [`survey`] hunts several times from seeds far apart.
//!
//! The bugs are listed by those who could make the mistake, and an engine says which may be planted in its replicas. Here is how
//! they are hunted; `circumstances` turns drawn plans to where a bug can show.

mod circumstances;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use highwater_core::planted::{Bug, plant};
use highwater_engines::EngineKind;

use crate::house::Empty;
use crate::{Failure, House, Plan, run_in};

/// A plan that failed with a bug planted.
#[derive(Debug)]
pub struct Catch {
    /// How many plans it took, this one included.
    pub seeds: u64,
    /// How it failed.
    pub failure: Box<Failure>,
}

/// What several hunts for one bug found.
#[derive(Debug)]
pub struct Row {
    pub bug: &'static Bug,
    /// Plans that each hunt took, in ascending order; hunts that found nothing are missing.
    pub seeds: Vec<u64>,
    /// How many hunts there were.
    pub hunts: u64,
    /// Plans that one hunt may take.
    pub most: u64,
    /// The catch of the hunt with the smallest first seed that made one.
    pub failure: Option<Box<Failure>>,
    /// Plans that fail without the bug, too: each is a bug of its own, in the product or in the simulator.
    pub tainted: Vec<Box<Failure>>,
}

impl Row {
    /// Whether every hunt caught the bug.
    pub fn caught(&self) -> bool {
        self.seeds.len() as u64 == self.hunts
    }

    /// The median number of plans; `None` if most hunts found nothing.
    pub fn median(&self) -> Option<u64> {
        self.seeds.get(self.hunts as usize / 2).copied()
    }

    /// The anomaly, in one line of at most `width` characters.
    pub fn anomaly(&self, width: usize) -> String {
        let Some(failure) = &self.failure else {
            return format!("not caught within {} plans", self.most);
        };
        let words = failure.what.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = format!("{}: {words}", failure.kind);
        if text.chars().count() <= width {
            return text;
        }
        text.chars().take(width.saturating_sub(2)).chain("..".chars()).collect()
    }
}

/// Runs the plans of seeds from `first` on with `bug` planted until one fails that passes without it; `most` at most.
/// Says which plans failed without it, too: they prove nothing, and something else.
pub fn hunt(bug: &'static Bug, first: u64, most: u64) -> (Option<Catch>, Vec<Box<Failure>>) {
    hunt_in(&Empty, bug, first, most)
}

/// The same in a house with guests, whose door may have bugs, too: those are hunted on the default engine.
pub fn hunt_in<H: House>(
    house: &H,
    bug: &'static Bug,
    first: u64,
    most: u64,
) -> (Option<Catch>, Vec<Box<Failure>>) {
    let engine = simulated().find(|engine| bugs_of(*engine).any(|known| known.name == bug.name));
    let engine = engine.unwrap_or(EngineKind::Rolis);
    let mut tainted = Vec::new();
    for seed in first..first + most {
        let mut plan = Plan::draw_for(engine, seed);
        if plan.is_long() {
            // Hours with a fault every few timeouts: not what a hunt has the time for.
            continue;
        }
        circumstances::turn(&mut plan, bug.shows);
        plant(Some(bug));
        let ended = run_in(house, &plan);
        plant(None);
        let Err(failure) = ended else { continue };
        match run_in(house, &plan) {
            Ok(_) => return (Some(Catch { seeds: seed - first + 1, failure }), tainted),
            Err(failure) => tainted.push(failure),
        }
    }
    (None, tainted)
}

/// How far apart the seeds of hunts begin.
const APART: u64 = 1_000_000;

/// Hunts for a bug `hunts` times, on `threads` threads, from seeds that have nothing in common.
pub fn survey<H: House + Sync>(house: &H, bug: &'static Bug, hunts: u64, most: u64, threads: usize) -> Row {
    let next = AtomicU64::new(0);
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, hunts as usize) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= hunts {
                        break;
                    }
                    let ended = hunt_in(house, bug, at * APART + 1, most);
                    sender.send((at, ended)).expect("the receiver outlives the hunts");
                }
            });
        }
    });
    drop(sender);
    let mut ended: Vec<_> = receiver.into_iter().collect();
    ended.sort_by_key(|(at, _)| *at);
    let mut row = Row { bug, seeds: Vec::new(), hunts, most, failure: None, tainted: Vec::new() };
    for (_, (catch, tainted)) in ended {
        row.tainted.extend(tainted);
        if let Some(catch) = catch {
            row.seeds.push(catch.seeds);
            row.failure.get_or_insert(catch.failure);
        }
    }
    row.seeds.sort_unstable();
    row
}

/// The engines whose whole runs are simulated.
fn simulated() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.iter().copied().filter(|engine| engine.abilities().replicates)
}

/// The bugs that may be planted in an engine's replicas, and in clients that coordinate.
fn bugs_of(engine: EngineKind) -> impl Iterator<Item = &'static Bug> {
    let clients = engine.abilities().client_coordinators.then_some(highwater_meerkat_client::planted::ALL);
    engine.bugs().chain(clients.into_iter().flatten().copied())
}

/// Every bug once, in the order of the engines and their lists.
pub fn all() -> Vec<&'static Bug> {
    let mut all: Vec<&'static Bug> = Vec::new();
    for bug in simulated().flat_map(bugs_of) {
        if all.iter().all(|known| known.name != bug.name) {
            all.push(bug);
        }
    }
    all
}

/// The bug of a name.
pub fn by_name(name: &str) -> Option<&'static Bug> {
    all().into_iter().find(|bug| bug.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two bugs of one name would be hunted as one.
    #[test]
    fn every_bug_has_a_name_of_its_own() {
        for engine in EngineKind::ALL {
            for bug in bugs_of(*engine) {
                let same = |other: &&'static Bug| other.name == bug.name;
                assert_eq!(bugs_of(*engine).filter(same).count(), 1, "{}", bug.name);
                assert!(by_name(bug.name).is_some_and(|found| std::ptr::eq(found, bug)), "{}", bug.name);
            }
        }
    }
}
