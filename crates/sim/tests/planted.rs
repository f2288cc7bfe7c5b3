//! Every planted bug is caught, and no plan fails without it: `highwater sim planted` in small.
//!
//! `ONLY=no-roll-back,half-adopted HUNTS=5 MOST=500` in the environment look closer at some.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use highwater_core::planted::Bug;
use highwater_sim::house::Empty;
use highwater_sim::planted::{all, by_name, survey};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// Several bugs at a time.
fn each(bugs: &[&'static Bug], threads: usize, look: impl Fn(&'static Bug) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    look(bug);
                }
            });
        }
    });
}

#[test]
fn every_planted_bug_is_caught() {
    let wanted = std::env::var("ONLY").ok();
    // Those of doors are hunted where there is one.
    let ours = |name: &&str| !name.starts_with("redis-");
    let named =
        |names: String| names.split(',').filter(ours).map(|name| by_name(name).expect(name)).collect();
    let bugs: Vec<&'static Bug> = wanted.map_or_else(all, named);
    let (missed, tainted) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    each(&bugs, 2, |bug| {
        let started = Instant::now();
        let row = survey(&Empty, bug, number("HUNTS", 1), number("MOST", bug.within), 1);
        let (name, took) = (bug.name, started.elapsed().as_secs_f64());
        println!("{name:24} {:?} plans, {took:.1} s: {}", row.seeds, row.anomaly(200));
        if !row.caught() {
            missed.lock().unwrap().push(name);
        }
        for (at, failure) in row.tainted.iter().enumerate() {
            // Its seed alone does not tell: the bug's circumstances are in its plan.
            let plan = format!("{}/tainted-{name}-{at}.json", env!("CARGO_TARGET_TMPDIR"));
            std::fs::write(&plan, failure.plan.to_json()).unwrap();
            tainted.lock().unwrap().push(format!("as for {name}, {failure}; highwater sim --plan {plan}"));
        }
    });
    let (missed, tainted) = (missed.into_inner().unwrap(), tainted.into_inner().unwrap());
    assert!(missed.is_empty(), "not caught: {missed:?}");
    assert!(tainted.is_empty(), "these fail without a bug: {tainted:#?}");
}
