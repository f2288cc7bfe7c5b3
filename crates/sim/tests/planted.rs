//! Every planted bug is caught, and no plan fails without it: `highwater sim planted` in small.
//!
//! `ONLY=no-roll-back,half-adopted HUNTS=5 MOST=500` in the environment look closer at some.

use highwater_core::planted::Bug;
use highwater_sim::planted::{by_name, case, survey};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

#[test]
fn every_planted_bug_is_caught() {
    let wanted = std::env::var("ONLY").ok();
    let named = |names: String| names.split(',').map(|name| by_name(name).expect(name)).collect();
    let bugs: Vec<Bug> = wanted.map_or_else(|| Bug::ALL.to_vec(), named);
    let (mut missed, mut tainted) = (Vec::new(), Vec::new());
    for bug in bugs {
        let started = std::time::Instant::now();
        let row = survey(bug, number("HUNTS", 1), number("MOST", case(bug).most), 2);
        let (name, took) = (bug.name(), started.elapsed().as_secs_f64());
        println!("{name:24} {:?} plans, {took:.1} s: {}", row.seeds, row.anomaly(200));
        if !row.caught() {
            missed.push(name);
        }
        tainted.extend(row.tainted.iter().map(|failure| format!("as for {name}, {failure}")));
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
    assert!(tainted.is_empty(), "these fail without a bug: {tainted:#?}");
}
