//! Many requests under way on one connection: those of it take effect in the order in which they were sent, whatever befalls the replicas.

use std::collections::BTreeMap;

use highwater_engines::EngineKind;
use highwater_sim::{Plan, run};

use crate::common::number;

/// A few runs of each engine whose whole runs are simulated, with pipelines in all of them.
#[test]
fn requests_of_a_connection_keep_their_order_with_every_engine() {
    let (first, seeds) = (number("FIRST", 1), number("SEEDS", 12));
    for engine in EngineKind::ALL.iter().filter(|engine| engine.abilities().replicates) {
        let mut marks = BTreeMap::<&str, u64>::new();
        for seed in first..first + seeds {
            let mut plan = Plan::draw_for(*engine, seed);
            if plan.is_long() {
                continue;
            }
            plan.load.pipelines = 4;
            // Requests of workers that may be interrupted anywhere get their places later: they go one by one.
            plan.interleaving = plan.interleaving.filter(|_| seed % 4 == 0);
            match run(&plan) {
                Ok(run) => {
                    run.marks.iter().for_each(|(what, count)| *marks.entry(what).or_default() += count)
                }
                Err(failure) => panic!("{engine}, {failure}\n{}\n{}", plan.to_json(), failure.story),
            }
        }
        let of = |what: &str| marks.get(what).copied().unwrap_or_default();
        println!(
            "{engine}: {} placed, {} put off",
            of("pipelined requests placed"),
            of("pipelined requests put off")
        );
        let acknowledged = of("pipelined requests acknowledged");
        assert!(acknowledged > 20 * seeds, "{engine}: {acknowledged} acknowledged only: {marks:?}");
        let placed = if engine.abilities().in_order {
            "pipelined requests placed"
        } else {
            "pipelined requests put off"
        };
        assert!(of(placed) > 20 * seeds, "{engine}: {marks:?}");
    }
}
