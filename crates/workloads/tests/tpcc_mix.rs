//! TPC-C end to end: the population, the mix, and what a transaction costs in the log.

#![allow(clippy::unwrap_used)]

use highwater_core::{Abort, TableId, View};
use highwater_workloads::Workload;
use highwater_workloads::testing::Runner;
use highwater_workloads::tpcc::count::{self, Counts};
use highwater_workloads::tpcc::generator::{KINDS, MIX};
use highwater_workloads::tpcc::layout::{Layout, LayoutKind, Silo, Split};
use highwater_workloads::tpcc::{Config, Tpcc};

fn small(layout: LayoutKind, warehouses: u16, fast_ids: bool) -> Tpcc {
    Tpcc::new(Config { layout, warehouses, fast_ids, scale: 0.02, seed: 42 })
}

/// Fails with the explanations, not only the names.
fn assert_consistent(workload: &dyn Workload, view: &dyn View) {
    for check in workload.check(view) {
        assert_eq!(check.result, Ok(()), "{}", check.name);
    }
}

#[test]
fn thousands_of_transactions_keep_every_condition() {
    for (layout, fast_ids) in LayoutKind::ALL.into_iter().flat_map(|layout| [(layout, false), (layout, true)])
    {
        let tpcc = small(layout, 2, fast_ids);
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
    deliver_all::<Split>();
    deliver_all::<Silo>();
}

fn deliver_all<L: Layout>() {
    let tpcc = small(L::KIND, 1, false);
    let mut runner = Runner::loaded(&tpcc);
    let mut generator = tpcc.generator(0, 1, 1);
    let mut args = Vec::new();
    while runner.view().len(L::TABLES.new_order) > 0 {
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
        let tpcc = small(LayoutKind::Split, 2, true);
        let mut runner = Runner::loaded(&tpcc);
        runner.run_mix(&tpcc, seed, 800);
        runner.view().clone()
    };
    assert!(run(1) == run(1));
    assert!(run(1) != run(2));
}

#[test]
fn a_repeated_load_changes_nothing() {
    for layout in LayoutKind::ALL {
        let tpcc = small(layout, 1, false);
        let mut runner = Runner::loaded(&tpcc);
        let before = runner.view().clone();
        for (name, args) in tpcc.load(0, 3) {
            assert_eq!(runner.run(name, &args).0, Ok(()));
        }
        assert!(*runner.view() == before);
    }
}

#[test]
fn fast_ids_resume_behind_existing_orders() {
    for layout in LayoutKind::ALL {
        let fresh = || small(layout, 1, true);
        let mut runner = Runner::loaded(&fresh());
        runner.run_mix(&fresh(), 1, 300);
        // A new process starts its counters at the population's end, where ids are taken...
        let outcomes = runner.run_mix(&fresh(), 2, 300);
        assert!(outcomes.contains_key(&("tpcc.new_order", "bad request")));
        // ...unless it looks.
        let tpcc = fresh();
        tpcc.resume(runner.view());
        let outcomes = runner.run_mix(&tpcc, 3, 300);
        assert!(!outcomes.contains_key(&("tpcc.new_order", "bad request")), "{outcomes:?}");
        assert_consistent(&tpcc, runner.view());
    }
}

#[test]
fn the_layouts_live_beside_each_other() {
    let (split, silo) = (small(LayoutKind::Split, 1, false), small(LayoutKind::Silo, 1, false));
    let mut runner = Runner::loaded(&split);
    assert!(!runner.failing(&silo).is_empty(), "nothing is loaded there");
    for (name, args) in silo.load(0, 1) {
        assert_eq!(runner.run(name, &args).0, Ok(()));
    }
    runner.run_mix(&split, 1, 300);
    assert_consistent(&silo, runner.view());
    runner.run_mix(&silo, 1, 300);
    assert_consistent(&split, runner.view());
    assert_consistent(&silo, runner.view());
}

/// The one test at full scale: cardinalities as in clause 4.3.3, chunks of modest size, and what docs/workloads.md says that
/// transactions read, write and log.
#[test]
fn at_full_scale_the_counts_are_those_of_the_docs() {
    let pages = std::thread::scope(|scope| {
        let silo = scope.spawn(at_full_scale::<Silo>);
        [at_full_scale::<Split>(), silo.join().unwrap()]
    });
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workloads.md");
    let docs = std::fs::read_to_string(path).unwrap();
    for page in pages {
        let (missing, hint) = (page.lines().find(|line| !docs.contains(line)), count::COMMAND);
        assert_eq!(missing, None, "docs/workloads.md lacks this line of `{hint}`:\n{page}");
    }
}

/// Loads, checks and counts; returns the tables of the docs.
fn at_full_scale<L: Layout>() -> String {
    let tpcc = Tpcc::new(Config { layout: L::KIND, warehouses: 1, ..Config::default() });
    let mut runner = Runner::new();
    for (name, args) in (0..3).flat_map(|part| tpcc.load(part, 3)) {
        assert_eq!(runner.run(name, &args).0, Ok(()));
        let rows = runner.last.writes.len();
        assert!(rows <= 1200 && runner.last_log_bytes <= 256 << 10, "{name}: {rows} rows");
    }
    let (tables, view) = (L::TABLES, runner.view());
    let expected: [(TableId, usize); 8] = [
        (tables.item, 100_000),
        (tables.stock, 100_000),
        (tables.customer, 30_000),
        (tables.customer_by_name, 30_000),
        (tables.history, 30_000),
        (tables.order, 30_000),
        (tables.order_by_customer, 30_000),
        (tables.new_order, 9_000),
    ];
    for (table, rows) in expected {
        assert_eq!(view.len(table), rows, "{table}");
    }
    assert!((295_000..305_000).contains(&view.len(tables.order_line)));

    let rows = count::rows(&runner);
    let counts = Counts::of(&tpcc, &mut runner, |name, result| {
        assert!(matches!(result, Ok(()) | Err(Abort::Rollback)), "{name}: {result:?}");
    });
    for read_only in ["tpcc.order_status", "tpcc.stock_level"] {
        let (_, each) = counts.kinds.iter().find(|(name, _)| *name == read_only).unwrap();
        assert_eq!((each.written, each.log_bytes), (0, 0), "{read_only}");
    }
    assert_consistent(&tpcc, runner.view());
    format!("{rows}{counts}")
}

#[test]
fn the_mix_is_within_tolerance() {
    let tpcc = small(LayoutKind::Split, 3, false);
    let mut generator = tpcc.generator(1, 4, 5);
    let (mut args, mut counts) = (Vec::new(), [0u64; 5]);
    const COUNT: u64 = 50_000;
    (0..COUNT).for_each(|_| counts[generator.next(&mut args)] += 1);
    for ((count, share), name) in counts.iter().zip(MIX).zip(KINDS) {
        let percent = *count as f64 * 100.0 / COUNT as f64;
        assert!((percent - share as f64).abs() < 0.7, "{name}: {percent} %, expected {share}");
    }
}
