//! Whole runs with guests, each drawn from one seed; `highwater sim` runs many.

use std::collections::BTreeMap;

use highwater_engines::EngineKind;
use highwater_redis_sim::WithDoor;
use highwater_sim::{Plan, Summary, run_in};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

fn sweep(engine: EngineKind, seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u64> {
    let mut marks = BTreeMap::new();
    for seed in seeds {
        let plan = Plan::draw_for(engine, seed).with_redis();
        if plan.redis.is_none() {
            continue;
        }
        match run_in(&WithDoor, &plan) {
            Ok(run) => run.marks.iter().for_each(|(what, count)| *marks.entry(*what).or_default() += count),
            Err(failure) => panic!("{engine}, {failure}\n{}\n{}", plan.to_json(), failure.story),
        }
    }
    marks
}

/// Once: a receiver with all parts of a copy waited for ever in an idle cluster: claims about another stream stayed open,
/// and nobody woke the worker that holds them.
#[test]
fn a_short_sweep() {
    let first = number("FIRST", 1);
    let marks = sweep(EngineKind::Rolis, first..first + number("SEEDS", 40));
    println!("{marks:#?}");
    for (what, least) in [
        ("guests' commands answered", 1000),
        ("guests' commands judged in order", 1000),
        ("guests' requests put off", 100),
        ("guests' requests forwarded", 100),
        ("forwarded requests that were run", 100),
        ("forwarded requests put off", 5),
        ("guests' transactions committed", 100),
        ("guests' transactions committed by WATCH and EXEC", 10),
        ("guests' transactions that came to nothing", 10),
        ("guests that were woken", 20),
        ("time-outs of waiting guests", 20),
        ("guests that left while they waited", 1),
        ("rights that are gone", 20),
        ("writes of users whose rights change", 100),
        ("commands that users may not", 20),
        ("connections that ended with their user", 5),
        ("jumps of clocks on walls", 10),
        ("sweeps", 20),
    ] {
        assert!(marks.get(what).is_some_and(|count| *count >= least), "too few of {what}: {marks:#?}");
    }
}

#[test]
fn the_strawman_has_guests_too() {
    let marks = sweep(EngineKind::Strawman, 1..9);
    assert!(marks["guests' commands judged in order"] > 100, "{marks:#?}");
}

#[test]
fn a_seed_gives_one_trace() {
    let trace = |seed| {
        let summary: Summary = run_in(&WithDoor, &Plan::draw(seed).with_redis()).expect("it passes");
        (summary.trace, summary.marks)
    };
    let with_guests = (1..).filter(|seed| Plan::draw(*seed).with_redis().redis.is_some());
    for seed in with_guests.take(3) {
        assert_eq!(trace(seed), trace(seed));
    }
}
