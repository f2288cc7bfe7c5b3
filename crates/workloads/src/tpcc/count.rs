//! What a transaction of each kind reads, writes and logs: the tables of docs/workloads.md, which a test compares.

use std::collections::BTreeSet;
use std::fmt;

use highwater_core::{Abort, TableId, View};

use super::Tpcc;
use super::generator::KINDS;
use super::layout::LayoutKind;
use crate::tables;
use crate::testing::{Runner, Tables};
use crate::workload::Workload;

/// Prints what this module counts.
pub const COMMAND: &str = "cargo run --release -p highwater-workloads --example tpcc_rows";
/// Transactions that are counted.
const TRANSACTIONS: usize = 10_000;
/// Seed of their stream.
const SEED: u64 = 11;

/// Sums over transactions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub transactions: usize,
    /// Rows looked up, and rows and index entries visited by scans.
    pub read: usize,
    /// Rows and index entries put or deleted.
    pub written: usize,
    /// Bytes of the values put.
    pub value_bytes: usize,
    /// What goes into the log.
    pub log_bytes: usize,
}

/// Of each kind what its commits did, and the log of the whole mix.
#[derive(Clone, Debug)]
pub struct Counts {
    layout: LayoutKind,
    /// By the names of [`KINDS`], in their order.
    pub kinds: Vec<(&'static str, Count)>,
    /// Of all transactions, those that roll back included.
    pub mix: Count,
}

impl Counts {
    /// Runs the mix and counts. Tells of each transaction how it ended.
    pub fn of(tpcc: &Tpcc, runner: &mut Runner, mut ended: impl FnMut(&str, Result<(), Abort>)) -> Counts {
        let mut kinds: Vec<_> = KINDS.iter().map(|name| (*name, Count::default())).collect();
        let (mut generator, mut args, mut mix) = (tpcc.generator(0, 1, SEED), Vec::new(), Count::default());
        for _ in 0..TRANSACTIONS {
            let (name, kind) = &mut kinds[generator.next(&mut args)];
            let (result, _) = runner.run(name, &args);
            ended(name, result);
            mix.add(runner);
            if result.is_ok() {
                kind.add(runner);
            }
        }
        Counts { layout: tpcc.config.layout, kinds, mix }
    }
}

impl Count {
    fn add(&mut self, runner: &Runner) {
        let last = &runner.last;
        let looked_up: BTreeSet<_> = last.reads.iter().collect();
        let written: BTreeSet<_> = last.writes.iter().collect();
        self.transactions += 1;
        self.read += looked_up.len() + last.scanned;
        self.written += written.len();
        self.value_bytes += last.value_bytes;
        self.log_bytes += runner.last_log_bytes;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in self.kinds.iter().map(|(name, count)| (*name, count)).chain([("mix", &self.mix)])
        {
            let each = |sum: usize| sum as f64 / count.transactions.max(1) as f64;
            let Count { read, written, value_bytes, log_bytes, .. } = *count;
            write!(f, "| {}, {} ", self.layout, name.trim_start_matches("tpcc."))?;
            write!(f, "| {:.1} | {:.1} ", each(read), each(written))?;
            writeln!(f, "| {:.0} | {:.0} |", each(value_bytes), each(log_bytes))?;
        }
        Ok(())
    }
}

/// Of each table that has rows: how many, and how many bytes its values and keys have on average.
pub fn rows(runner: &Runner) -> String {
    let mut text = String::new();
    for (id, table) in tables::all().iter().enumerate() {
        let (mut rows, mut key_bytes, mut value_bytes) = (0, 0, 0);
        let tables: &Tables = runner.view();
        tables.for_each(TableId(id as u8), &mut |key, value| {
            rows += 1;
            key_bytes += key.len();
            value_bytes += value.len();
        });
        if rows > 0 {
            let each = |sum: usize| sum as f64 / f64::from(rows);
            let (key, value) = (each(key_bytes), each(value_bytes));
            text += &format!("| {} | {rows} | {key:.0} | {value:.0} |\n", table.name);
        }
    }
    text
}
