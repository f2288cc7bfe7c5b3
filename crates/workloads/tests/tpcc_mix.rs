//! TPC-C end to end: the population, the mix, and what a transaction costs in the log.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use highwater_core::{Abort, View};
use highwater_workloads::Workload;
use highwater_workloads::tables::tpcc as table;
use highwater_workloads::testing::Runner;
use highwater_workloads::tpcc::generator::{KINDS, MIX};
use highwater_workloads::tpcc::{Config, Tpcc};

fn small(warehouses: u16, fast_ids: bool) -> Tpcc {
    Tpcc::new(Config { warehouses, fast_ids, scale: 0.02, seed: 42 })
}

/// Fails with the explanations, not only the names.
fn assert_consistent(workload: &dyn Workload, view: &dyn View) {
    for check in workload.check(view) {
        assert_eq!(check.result, Ok(()), "{}", check.name);
    }
}

#[test]
fn thousands_of_transactions_keep_every_condition() {
    for fast_ids in [false, true] {
        let tpcc = small(2, fast_ids);
        let mut runner = Runner::loaded(&tpcc);
        assert_consistent(&tpcc, runner.view());
        let outcomes = runner.run_mix(&tpcc, 7, 6000);
        assert_consistent(&tpcc, runner.view());
        assert!(outcomes[&("tpcc.new_order", "rolled back")] > 10, "{outcomes:?}");
        // Five kinds commit, one also rolls back; nothing else happens.
        assert_eq!(outcomes.len(), 6, "{outcomes:?}");
    }
}

#[test]
fn deliveries_empty_the_new_orders_and_the_conditions_still_hold() {
    let tpcc = small(1, false);
    let mut runner = Runner::loaded(&tpcc);
    let mut generator = tpcc.generator(0, 1, 1);
    let mut args = Vec::new();
    while runner.view().len(table::NEW_ORDER) > 0 {
        while KINDS[generator.next(&mut args)] != "tpcc.delivery" {}
        assert_eq!(runner.run("tpcc.delivery", &args).0, Ok(()));
    }
    let (result, reply) = runner.run("tpcc.delivery", &args);
    assert_eq!((result, reply), (Ok(()), vec![0; 40]), "nothing to deliver is not an error");
    assert!(runner.last.writes.is_empty());
    assert_consistent(&tpcc, runner.view());
    // The largest ids are gone: the conditions must accept an empty NEW-ORDER after further orders too.
    runner.run_mix(&tpcc, 2, 500);
    assert_consistent(&tpcc, runner.view());
}

#[test]
fn a_run_is_a_function_of_its_seeds() {
    let run = |seed| {
        let tpcc = small(2, true);
        let mut runner = Runner::loaded(&tpcc);
        runner.run_mix(&tpcc, seed, 800);
        runner.view().clone()
    };
    assert!(run(1) == run(1));
    assert!(run(1) != run(2));
}

#[test]
fn a_repeated_load_changes_nothing() {
    let tpcc = small(1, false);
    let mut runner = Runner::loaded(&tpcc);
    let before = runner.view().clone();
    for (name, args) in tpcc.load(0, 3) {
        assert_eq!(runner.run(name, &args).0, Ok(()));
    }
    assert!(*runner.view() == before);
}

#[test]
fn fast_ids_resume_behind_existing_orders() {
    let mut runner = Runner::loaded(&small(1, true));
    runner.run_mix(&small(1, true), 1, 300);
    // A new process starts its counters at the population's end, where ids are taken...
    let outcomes = runner.run_mix(&small(1, true), 2, 300);
    assert!(outcomes.contains_key(&("tpcc.new_order", "bad request")));
    // ...unless it looks.
    let tpcc = small(1, true);
    tpcc.resume(runner.view());
    let outcomes = runner.run_mix(&tpcc, 3, 300);
    assert!(!outcomes.contains_key(&("tpcc.new_order", "bad request")), "{outcomes:?}");
    assert_consistent(&tpcc, runner.view());
}

/// The one test at full scale: cardinalities as in clause 4.3.3, chunks of modest size, and log bytes with keys of full
/// width.
#[test]
fn at_full_scale_the_mix_logs_at_most_400_bytes_a_transaction() {
    const COUNT: usize = 10_000;
    let tpcc = Tpcc::new(Config { warehouses: 1, ..Config::default() });
    let mut runner = Runner::new();
    for (name, args) in (0..3).flat_map(|part| tpcc.load(part, 3)) {
        assert_eq!(runner.run(name, &args).0, Ok(()));
        let rows = runner.last.writes.len();
        assert!(rows <= 1200 && runner.last_log_bytes <= 256 << 10, "{name}: {rows} rows");
    }
    assert_consistent(&tpcc, runner.view());
    let view = runner.view();
    let expected = [
        (table::ITEM, 100_000),
        (table::STOCK, 100_000),
        (table::CUSTOMER, 30_000),
        (table::HISTORY, 30_000),
        (table::ORDER, 30_000),
        (table::NEW_ORDER, 9_000),
        (table::DELIVERY, 21_000),
        (table::CUSTOMER_BY_NAME, 10_000),
    ];
    for (table, rows) in expected {
        assert_eq!(view.len(table), rows, "{table}");
    }
    assert!((295_000..305_000).contains(&view.len(table::ORDER_LINE)));

    let mut generator = tpcc.generator(0, 1, 11);
    let mut args = Vec::new();
    let mut of_kind: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for _ in 0..COUNT {
        let name = KINDS[generator.next(&mut args)];
        let result = runner.run(name, &args).0;
        assert!(matches!(result, Ok(()) | Err(Abort::Rollback)), "{name}: {result:?}");
        let [count, bytes, writes] = of_kind.entry(name).or_default();
        *count += 1;
        *bytes += runner.last_log_bytes;
        *writes += runner.last.writes.len();
    }
    let total: usize = of_kind.values().map(|[_, bytes, _]| bytes).sum();
    for (name, [count, bytes, writes]) in &of_kind {
        println!("{name}: {} bytes, {} writes each", bytes / count, writes / count);
    }
    println!("mix: {} bytes each", total / COUNT);
    assert!(total / COUNT <= 400, "{} bytes a transaction: {of_kind:?}", total / COUNT);
    assert_eq!(of_kind["tpcc.order_status"][1..], [0, 0], "read-only");
    assert_eq!(of_kind["tpcc.stock_level"][1..], [0, 0], "read-only");
    assert_consistent(&tpcc, runner.view());
}

#[test]
fn the_mix_is_within_tolerance() {
    let tpcc = small(3, false);
    let mut generator = tpcc.generator(1, 4, 5);
    let (mut args, mut counts) = (Vec::new(), [0u64; 5]);
    const COUNT: u64 = 50_000;
    (0..COUNT).for_each(|_| counts[generator.next(&mut args)] += 1);
    for ((count, share), name) in counts.iter().zip(MIX).zip(KINDS) {
        let percent = *count as f64 * 100.0 / COUNT as f64;
        assert!((percent - share as f64).abs() < 0.7, "{name}: {percent} %, expected {share}");
    }
}
