//! The searches.

use std::fmt::{Debug, Formatter, Result};
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::*;

const X: Set = 1;
const Y: Set = 2;
const Z: Set = 4;

impl Model for Bounds {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        self.steps(state, steps);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        self.step(state, step).map(|state| state.like(self.nodes, &self.intents))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always("safe", |bounds: &Bounds, state: &State| bounds.judge(state).is_ok()),
            Property::sometimes("one commits, and no other is aborted", |_, state: &State| {
                let all = state.txs.iter().fold(0, |all, tx| all | tx.said);
                all == outcome::COMMIT
            }),
            Property::sometimes("one is aborted", |_, state: &State| {
                state.txs.iter().any(|tx| tx.said == outcome::ABORT)
            }),
        ];
        if self.epochs > 1 {
            all.push(Property::sometimes("a change commits what nobody had decided", |_, state: &State| {
                let behind = |tx: &Tx| state.replicas.iter().any(|replica| replica.epoch == tx.epoch);
                state.txs.iter().any(|tx| tx.said == outcome::COMMIT && tx.told == 0 && behind(tx))
            }));
        }
        if self.epochs > 2 && self.wipes > 0 {
            all.push(Property::sometimes("who lost its memory votes again", |_, state: &State| {
                members(state.wiped).any(|node| state.replicas[node].standing == Standing::Voter)
            }));
        }
        all
    }
}

impl Debug for Bounds {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Bounds { nodes, intents, views, epochs, rounds, wipes, trims, strict, mistake, .. } = self;
        write!(
            f,
            "{nodes} nodes, {intents:?}, {views} views, {epochs} epochs, {rounds} rounds, {wipes} wipes"
        )?;
        write!(f, ", trims: {trims}, strict: {strict}, mistake: {mistake:?}")
    }
}

pub fn intent(node: usize, reads: Set, writes: Set) -> Intent {
    Intent { node, reads, writes, deletes: 0, scans: false }
}

impl Intent {
    /// Deletes some of what it writes.
    pub fn deleting(self, deletes: Set) -> Intent {
        Intent { deletes, ..self }
    }

    /// Scans what it reads.
    pub fn scanning(self) -> Intent {
        Intent { scans: true, ..self }
    }
}

pub fn bounds(nodes: usize, intents: &[Intent]) -> Bounds {
    Bounds {
        nodes,
        intents: intents.to_vec(),
        views: 1,
        epochs: 1,
        rounds: 1,
        wipes: 0,
        trims: false,
        strict: false,
        mistake: None,
        rules: Arc::new(Rules::new(nodes, false, None)),
    }
}

impl Bounds {
    pub fn with(self, views: usize, epochs: u8, rounds: u8, wipes: u8) -> Bounds {
        Bounds { views, epochs, rounds, wipes, ..self }
    }

    pub fn trimmed(self) -> Bounds {
        Bounds { trims: true, ..self }
    }

    pub fn strict(self) -> Bounds {
        Bounds { strict: true, rules: Arc::new(Rules::new(self.nodes, true, self.mistake)), ..self }
    }

    pub fn wrong(self, mistake: Mistake) -> Bounds {
        let rules = Arc::new(Rules::new(self.nodes, self.strict, Some(mistake)));
        Bounds { mistake: Some(mistake), rules, ..self }
    }
}

/// Transactions in the order of their timestamps.
fn read_of_the_old() -> [Intent; 2] {
    [intent(0, 0, X), intent(1, X, 0)]
}

fn lost_update() -> [Intent; 2] {
    [intent(0, X, X), intent(1, X, X)]
}

fn write_skew() -> [Intent; 2] {
    [intent(0, X, Y), intent(1, Y, X)]
}

fn overwritten() -> [Intent; 2] {
    [intent(0, X, 0), intent(1, 0, X)]
}

fn one() -> [Intent; 1] {
    [intent(0, X, X)]
}

fn three() -> [Intent; 3] {
    [intent(0, 0, X), intent(1, X, Y), intent(2, Y, X)]
}

/// A key is inserted and deleted, and another transaction finds no trace of it.
fn came_and_went() -> [Intent; 3] {
    [intent(0, 0, X), intent(0, X, X).deleting(X), intent(1, X, Y)]
}

/// A scan passes a key that another transaction writes, or deletes, and one that nobody does.
fn scanned(deletes: Set) -> [Intent; 2] {
    [intent(0, 0, X).deleting(deletes), intent(1, X | Y, Z).scanning()]
}

fn search(what: &str, bounds: Bounds) {
    let started = Instant::now();
    let checker = bounds.clone().checker().threads(2).spawn_dfs().join();
    let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    let seconds = started.elapsed().as_secs_f64();
    println!("{what}: {states} states, {steps} steps, up to {depth} deep, {seconds:.1} s");
    if let Some(path) = checker.discovery("safe") {
        panic!("{what}: {:?}: {:#?}", bounds.judge(path.last_state()), path.into_actions());
    }
    checker.assert_properties();
}

/// The mistake is found, breadth first.
fn caught(mistake: Mistake, bounds: Bounds) {
    let bounds = bounds.wrong(mistake);
    let checker = bounds.clone().checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let path = checker.discovery("safe").unwrap_or_else(|| panic!("{mistake:?} was not found"));
    let what = bounds.judge(path.last_state()).expect_err("the last state breaks a promise");
    println!("{mistake:?}: {what}, after {} states: {:?}", checker.unique_state_count(), path.into_actions());
}

#[test]
fn every_schedule_without_failures_is_safe() {
    search("read of the old", bounds(3, &read_of_the_old()));
    search("lost update", bounds(3, &lost_update()));
    search("write skew", bounds(3, &write_skew()));
    search("of four nodes", bounds(4, &overwritten()));
    search("with real time", bounds(3, &overwritten()).strict());
    search("scanned", bounds(3, &scanned(0)));
    search("deleted and scanned", bounds(3, &scanned(X)));
}

#[test]
fn every_schedule_of_backup_coordinators_is_safe() {
    search("one backup", bounds(3, &one()).with(2, 1, 1, 0));
    search("two backups", bounds(3, &one()).with(3, 1, 1, 0));
    search("one backup, trimmed", bounds(3, &one()).with(2, 1, 1, 0).trimmed());
    search("one backup, with real time", bounds(3, &one()).with(2, 1, 1, 0).strict());
}

#[test]
fn every_schedule_of_a_change_of_epoch_is_safe() {
    search("two transactions", bounds(3, &write_skew()).with(1, 2, 1, 0));
    search("two attempts and a backup", bounds(3, &one()).with(2, 2, 2, 0));
    search("scanned", bounds(3, &scanned(0)).with(1, 2, 1, 0));
    search("a memory is lost", bounds(3, &read_of_the_old()).with(1, 2, 1, 1));
    search("a memory is lost, and votes again", bounds(3, &one()).with(1, 3, 1, 1));
}

#[test]
fn mistakes_without_failures_are_found() {
    caught(Mistake::ReadersUnmarked, bounds(3, &read_of_the_old()));
    caught(Mistake::RtsNotRaised, bounds(3, &read_of_the_old()));
    caught(Mistake::StampBelowRead, bounds(3, &overwritten()));
    caught(Mistake::LateIsValid, bounds(3, &overwritten()).strict());
    caught(Mistake::VotesUnripe, bounds(3, &overwritten()).strict());
}

#[test]
fn mistakes_of_backup_coordinators_are_found() {
    let backup = |intents: &[Intent], nodes| bounds(nodes, intents).with(2, 1, 1, 0);
    caught(Mistake::MajorityIsFast, backup(&one(), 3));
    caught(Mistake::PromiseForgets, backup(&one(), 3));
    caught(Mistake::BackupRash, backup(&one(), 4));
    caught(Mistake::ViewShared, bounds(3, &one()).with(3, 1, 1, 0));
    caught(Mistake::ClosedRevived, backup(&one(), 3).trimmed());
}

#[test]
fn mistakes_of_changes_of_epoch_are_found() {
    let change = |intents: &[Intent], nodes| bounds(nodes, intents).with(1, 2, 1, 0);
    caught(Mistake::MajorityIsFast, change(&one(), 3));
    caught(Mistake::RefusalsDecideEarly, change(&write_skew(), 3));
    caught(Mistake::ChangeForgets, change(&one(), 3));
    caught(Mistake::OldEpochCounts, change(&one(), 3));
    caught(Mistake::AtOnce, bounds(3, &one()).with(1, 2, 2, 0));
    caught(Mistake::Coarse, change(&overwritten(), 4));
}

/// The larger ones; `MODEL` says which, by number.
#[test]
#[ignore = "minutes, and gigabytes"]
fn every_schedule_of_meerkat_in_larger_spaces_is_safe() {
    for at in crate::chosen("0,1,2,3,4,5,6,7") {
        let (what, bounds) = larger(at);
        search(what, bounds);
    }
}

fn larger(at: usize) -> (&'static str, Bounds) {
    match at {
        0 => ("read of the old, one backup", bounds(3, &read_of_the_old()).with(2, 1, 1, 0)),
        1 => ("write skew, one backup", bounds(3, &write_skew()).with(2, 1, 1, 0)),
        2 => ("read of the old, two attempts", bounds(3, &read_of_the_old()).with(1, 2, 2, 0)),
        3 => ("overwritten, real time, a change", bounds(3, &overwritten()).with(1, 2, 1, 0).strict()),
        4 => ("four nodes, overwritten, a change", bounds(4, &overwritten()).with(1, 2, 1, 0)),
        5 => ("four nodes, write skew, a change, trims", bounds(4, &write_skew()).with(1, 2, 1, 0).trimmed()),
        6 => ("read of the old, a memory votes again", bounds(3, &read_of_the_old()).with(1, 3, 1, 1)),
        7 => ("three transactions", bounds(3, &three())),
        8 => ("four nodes, two attempts, a backup", bounds(4, &one()).with(2, 2, 2, 0)),
        9 => ("five nodes, read of the old, a change", bounds(5, &read_of_the_old()).with(1, 2, 1, 0)),
        10 => ("one, two attempts, a backup, a memory lost", bounds(3, &one()).with(2, 2, 2, 1)),
        11 => ("three transactions, a change", bounds(3, &three()).with(1, 2, 1, 0)),
        12 => ("one, two backups, a change", bounds(3, &one()).with(3, 2, 1, 0)),
        13 => {
            ("read of the old, a backup, real time", bounds(3, &read_of_the_old()).with(2, 1, 1, 0).strict())
        }
        14 => ("real time, a memory votes again", bounds(3, &overwritten()).with(1, 3, 1, 1).strict()),
        15 => ("write skew, two attempts, a memory lost", bounds(3, &write_skew()).with(1, 2, 2, 1)),
        16 => ("one, three epochs, two attempts at each", bounds(3, &one()).with(1, 3, 2, 1)),
        17 => ("a key that came and went", bounds(3, &came_and_went()).trimmed()),
        _ => panic!("MODEL={at}: there is no such space"),
    }
}
