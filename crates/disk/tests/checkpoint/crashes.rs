//! The power fails, or the disk does, at every call that changes something.

use std::collections::BTreeMap;

use highwater_disk::checkpoint::{published, remove_leftovers};
use highwater_disk::simulated::Fault;
use highwater_disk::{Ballast, SimulatedDisk};
use highwater_store::Digest;

use super::support::{FROM_BALLAST, How, Leader, Loaded, PLENTY, SMALL, checkpoint, load, schema};

/// Rounds of writing, publishing and removing.
const ROUNDS: u64 = 4;

/// What a run of rounds left.
struct Run {
    disk: SimulatedDisk,
    leader: Leader,
    /// What the store was, by the number of the checkpoint that may have been made of it.
    states: BTreeMap<u64, Digest>,
    /// The newest checkpoint whose publication succeeded.
    published: Option<u64>,
    how: How,
    /// Whether nothing failed.
    is_whole: bool,
}

impl Run {
    /// Rounds until the first that fails.
    fn new(disk: SimulatedDisk, how: How) -> Run {
        let (leader, states) = (Leader::new(schema()), BTreeMap::new());
        let mut run = Run { disk, leader, states, published: None, how, is_whole: true };
        for _ in 0..ROUNDS {
            if !run.round() {
                run.is_whole = false;
                break;
            }
        }
        run
    }

    fn round(&mut self) -> bool {
        let rows = 3 + self.states.len() as u64;
        self.leader.fill(rows, 40);
        // Leftovers go before a number is taken. A disk that cannot even be listed takes no checkpoint.
        let Ok(all) = published(&self.disk) else { return false };
        self.states.insert(all.last().map_or(1, |last| last + 1), self.leader.store.digest());
        let hold = |ballast: Ballast| ballast.hold(&self.disk, 3000);
        if self.how.from_ballast
            && [Ballast::Checkpoint, Ballast::Manifest].into_iter().any(|b| hold(b).is_err())
        {
            return false;
        }
        match checkpoint(&self.disk, &self.leader, self.how) {
            Ok(manifest) => {
                self.published = Some(manifest.number);
                true
            }
            Err(_) => false,
        }
    }

    /// Loads every checkpoint that looks published: it is whole, and is what the store was.
    fn check(&self, words: &str) {
        let newest = published(&self.disk).unwrap().last().copied();
        assert!(newest >= self.published, "{words}: {newest:?}, not {:?}", self.published);
        for number in published(&self.disk).unwrap() {
            // What an operator would do who wants an older one.
            let disk = self.disk.fork(0);
            for newer in published(&disk).unwrap().range(number + 1..) {
                disk.lose(&format!("checkpoint-{newer:04}.manifest"));
            }
            let loaded = load(&disk, schema(), PLENTY).unwrap();
            assert!(loaded.skipped.is_empty(), "{words}: {:?}", loaded.skipped);
            assert_eq!(loaded.number(), Some(number), "{words}");
            self.check_state(&loaded, words);
        }
    }

    fn check_state(&self, loaded: &Loaded, words: &str) {
        if let Some((manifest, store)) = &loaded.found {
            assert_eq!(Some(&store.digest()), self.states.get(&manifest.number), "{words}");
            assert_eq!(manifest.engine, b"engine");
        }
    }
}

/// How many calls change something if all goes well.
fn changes(how: How) -> u64 {
    let run = Run::new(SimulatedDisk::new(0), how);
    assert_eq!(run.published, Some(ROUNDS));
    assert_eq!(published(&run.disk).unwrap().into_iter().collect::<Vec<_>>(), [ROUNDS - 1, ROUNDS]);
    run.check("no fault");
    run.disk.changes()
}

#[test]
fn after_a_power_failure_at_any_call_what_was_published_is_loaded() {
    for how in [SMALL, FROM_BALLAST] {
        power_fails_at_any_call(how);
    }
}

fn power_fails_at_any_call(how: How) {
    let changes = changes(how);
    assert!(changes > 60, "{changes} calls");
    for at in 0..changes {
        for seed in 0..6 {
            let disk = SimulatedDisk::new(at * 100 + seed);
            disk.fail_power(at);
            let mut run = Run::new(disk, how);
            let words = format!("power fails at call {at}, seed {seed}");
            assert!(!run.disk.is_powered() && !run.is_whole, "{words}");
            run.disk.crash();
            run.check(&words);
            // It fails again while the node that has just come back cleans up and writes the next one.
            run.disk.fail_power(seed * 3);
            let _ = remove_leftovers(&run.disk);
            run.round();
            run.disk.crash();
            run.check(&format!("{words}, and again"));
            remove_leftovers(&run.disk).unwrap();
            assert!(remove_leftovers(&run.disk).unwrap().is_empty());
            assert!(run.round(), "{words}: the next attempt works");
            run.disk.crash();
            run.check(&format!("{words}, then a whole round"));
        }
    }
}

#[test]
fn an_error_of_any_call_publishes_nothing_half_and_the_next_attempt_works() {
    for how in [SMALL, FROM_BALLAST] {
        any_call_fails(how);
    }
}

fn any_call_fails(how: How) {
    let changes = changes(how);
    for fault in [Fault::FailWrite, Fault::FailSync, Fault::FailSyncNames, Fault::FailNames] {
        let mut failed = 0;
        for after in 0..changes {
            let disk = SimulatedDisk::new(after);
            disk.inject(fault, after);
            let mut run = Run::new(disk, how);
            run.disk.heal();
            failed += u64::from(!run.is_whole);
            let words = format!("{fault:?} at {after}");
            run.check(&words);
            assert!(run.round(), "{words}: the next attempt works");
            run.check(&words);
            run.disk.crash();
            run.check(&format!("{words}, and a crash"));
        }
        assert!(failed >= ROUNDS, "{fault:?}: {failed} calls failed");
    }
}

/// A disk that lies may lose what was published: then an older checkpoint is loaded, or none. Never something else.
#[test]
fn a_disk_that_lies_is_found_out() {
    let changes = changes(SMALL);
    let (mut skipped, mut older) = (0, 0);
    for fault in [Fault::LoseWrite, Fault::MisdirectWrite, Fault::LieAboutSync] {
        for after in 0..changes {
            let disk = SimulatedDisk::new(after);
            disk.inject(fault, after);
            let run = Run::new(disk, SMALL);
            run.disk.crash();
            let words = format!("{fault:?} at {after}");
            let loaded = load(&run.disk, schema(), PLENTY).unwrap();
            run.check_state(&loaded, &words);
            skipped += loaded.skipped.len();
            older += usize::from(!loaded.skipped.is_empty() && loaded.found.is_some());
        }
    }
    assert!(skipped > 10 && older > 5, "{skipped} skipped, {older} times an older one was loaded");
}

/// What is read wrong, or not at all, is not loaded.
#[test]
fn bad_reads_lead_to_the_older_checkpoint() {
    let run = Run::new(SimulatedDisk::new(1), SMALL);
    for fault in [Fault::CorruptRead, Fault::FailRead] {
        for after in 0.. {
            run.disk.inject(fault, after);
            let loaded = load(&run.disk, schema(), PLENTY).unwrap();
            run.disk.heal();
            let words = format!("{fault:?} at {after}");
            run.check_state(&loaded, &words);
            if loaded.skipped.is_empty() {
                assert!(after > 10 && loaded.number() == Some(ROUNDS), "{words}");
                break;
            }
            assert_eq!(loaded.number(), Some(ROUNDS - 1), "{words}");
            let said = loaded.skipped[0].1.to_string();
            assert!(said.contains("checkpoint-0004."), "{words}: {said}");
        }
    }
}
