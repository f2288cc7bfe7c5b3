//! The check, from a history to a verdict.

use crate::explain::Explainer;
use crate::findings::Findings;
use crate::graph::{Edges, PROCESS, REALTIME, RW, WR, WW, cycles};
use crate::history::{History, Status};
use crate::infer::{Lists, Order, Registers, Tables, broken};
use crate::verdict::{Counts, Options, Verdict};

/// Holds a history against a level.
pub fn check(history: &History, options: &Options) -> Verdict {
    check_with(history, options, &mut |_| {})
}

/// The same; `step` is told what begins, in a few words.
pub fn check_with(history: &History, options: &Options, step: &mut dyn FnMut(&'static str)) -> Verdict {
    let mut findings = Findings::new(options.explain);
    step("looking at each transaction");
    broken(history, &mut findings);
    let mut tables = Tables::new(history, &mut findings);
    step("ordering versions");
    let lists = Lists::infer(&mut tables, &mut findings);
    let registers = Registers::infer(&mut tables, &mut findings);
    step("drawing dependencies");
    let mut edges = Edges::new(history.txns.len());
    lists.link(&tables, &mut edges);
    registers.link(&tables, options.level, &mut edges);
    Order { history, happened: &tables.happened, options }.link(&mut edges);
    let mut counts = count(history, &tables, &edges);
    step("looking for cycles");
    let graph = edges.finish();
    let before = |a: u32, b: u32| gap(history, a, b);
    let (cycles, knots) = cycles(&graph, before);
    drop(graph);
    counts.knots = knots;
    let explainer = Explainer { tables: &tables, lists: &lists };
    for cycle in &cycles {
        findings.report(cycle.kind, &cycle.txns, || explainer.cycle(cycle));
    }
    let Findings { mut anomalies, found, .. } = findings;
    anomalies.sort_by_key(|anomaly| anomaly.kind);
    Verdict { level: options.level, anomalies, found, counts }
}

/// By how many ns `b` ended before `a` began; negative if it did not.
fn gap(history: &History, a: u32, b: u32) -> i64 {
    let (a, b) = (&history.txns[a as usize], &history.txns[b as usize]);
    let end = b.t1.filter(|_| b.status == Status::Ok).unwrap_or(b.t0);
    i64::try_from(i128::from(a.t0) - i128::from(end)).unwrap_or(i64::MAX)
}

fn count(history: &History, tables: &Tables<'_>, edges: &Edges) -> Counts {
    let of = |status: Status| history.txns.iter().filter(|txn| txn.status == status).count();
    let happened = tables.happened.iter().filter(|happened| **happened).count();
    let ok = of(Status::Ok);
    Counts {
        txns: history.txns.len(),
        ok,
        fail: of(Status::Fail),
        info: of(Status::Info),
        info_seen: happened - ok,
        snap: history.txns.iter().filter(|txn| txn.snap && txn.status == Status::Ok).count(),
        ops: history.txns.iter().map(|txn| txn.ops.len()).sum(),
        keys: history.keys.len(),
        ww: edges.count(|kind| kind == WW),
        wr: edges.count(|kind| kind == WR),
        rw: edges.count(|kind| kind & RW != 0),
        process: edges.count(|kind| kind == PROCESS),
        realtime: edges.count(|kind| kind == REALTIME),
        knots: 0,
    }
}
