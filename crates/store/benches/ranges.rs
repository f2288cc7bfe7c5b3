//! The ordered index beside other ordered maps: range scans of 10, 100 and 1,000 rows, point lookups and inserts, in CPU time of one core.
//!
//! ```text
//! cargo bench -p highwater-store --bench ranges [-- [integers] [texts] [rows=N] [rounds=N]]
//! ```
//!
//! The work is the same for all: keys are byte strings (of 8 or of 24 bytes, in no order), values have 32 bytes, and whoever reads copies key and value
//! out. What is not the same favours the others: ours runs each operation as a transaction of its own, which remembers what it read, validates it, draws a
//! timestamp and writes a log; the others only pin a guard, and `BTreeMap`, which no second thread may touch, not even that.
#![cfg(not(any(loom, shuttle)))]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::ops::ControlFlow;
use std::sync::Arc;

use crossbeam_skiplist::SkipMap;
use highwater_core::log::TxWriter;
use highwater_core::{
    Clock, Direction, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction,
};
use highwater_store::{Occ, Store};
use masstree::{MassTree15, RangeBound};
use scc::{Guard, TreeIndex};

const VALUE: usize = 32;
const LENGTHS: [usize; 3] = [10, 100, 1000];
/// Lookups of one round.
const LOOKUPS: usize = 200_000;
/// Rows that the scans of one round visit.
const SCANNED: usize = 400_000;
const TABLE: TableId = TableId(0);

/// CPU time of this thread.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A map under test. `out` receives copies of what is read.
trait Map<const N: usize> {
    fn name(&self) -> &'static str;
    /// Whether a scan begins behind `from`. (A start of another length would make `masstree` a hundred times slower.)
    fn leaves_out_start(&self) -> bool {
        false
    }
    fn insert(&mut self, key: &[u8; N], value: &[u8; VALUE]);
    fn get(&mut self, key: &[u8; N], out: &mut Vec<u8>);
    /// The first `limit` rows at or above `from`.
    fn scan(&mut self, from: &[u8; N], limit: usize, out: &mut Vec<u8>);
}

fn copy(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

struct Ours(Occ);

impl Ours {
    fn new(keys: KeyKind) -> Ours {
        let store =
            Store::new(Schema::new(vec![TableSpec { name: "rows", keys, index: IndexKind::Ordered }]));
        Ours(Occ::new(store, Arc::new(Clock::system())))
    }

    fn commit(&mut self) {
        let ts = self.0.commit().expect("one worker alone has no conflicts");
        if self.0.log_len() > 64 << 10 {
            let mut log = self.0.log().take(Vec::new());
            log.clear();
            *self.0.log() = TxWriter::new(log);
            self.0.collect(Timestamp(ts.0 - 1));
        }
    }
}

impl<const N: usize> Map<N> for Ours {
    fn name(&self) -> &'static str {
        "highwater"
    }
    fn insert(&mut self, key: &[u8; N], value: &[u8; VALUE]) {
        self.0.begin();
        self.0.put(TABLE, key, value).expect("the row fits");
        self.commit();
    }
    fn get(&mut self, key: &[u8; N], out: &mut Vec<u8>) {
        self.0.begin();
        let value = self.0.get(TABLE, key).expect("nobody is in the way").expect("the key is there");
        copy(key, value, out);
        self.commit();
    }
    fn scan(&mut self, from: &[u8; N], limit: usize, out: &mut Vec<u8>) {
        self.0.begin();
        let mut left = limit;
        let range = (Bound::Included(&from[..]), Bound::Unbounded);
        let visit = |key: &[u8], value: &[u8]| {
            copy(key, value, out);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.0.scan(TABLE, range, Direction::Forward, visit).expect("nobody is in the way");
        self.commit();
    }
}

struct Masstree(MassTree15<[u8; VALUE]>);

impl<const N: usize> Map<N> for Masstree {
    fn name(&self) -> &'static str {
        "masstree"
    }
    fn leaves_out_start(&self) -> bool {
        // Version 0.9.5 does so with keys of more than 8 bytes.
        N > 8
    }
    fn insert(&mut self, key: &[u8; N], value: &[u8; VALUE]) {
        self.0.insert_with_guard(key, *value, &self.0.guard());
    }
    fn get(&mut self, key: &[u8; N], out: &mut Vec<u8>) {
        let guard = self.0.guard();
        copy(key, &*self.0.get_ref(key, &guard).expect("the key is there"), out);
    }
    fn scan(&mut self, from: &[u8; N], limit: usize, out: &mut Vec<u8>) {
        let mut left = limit;
        let visit = |key: &[u8], value: &[u8; VALUE]| {
            copy(key, value, out);
            left -= 1;
            left > 0
        };
        let (from, to) = (RangeBound::Included(from), RangeBound::Unbounded);
        self.0.scan_intra_leaf_batch_ref(from, to, visit, &self.0.guard());
    }
}

struct Scc<const N: usize>(TreeIndex<[u8; N], [u8; VALUE]>);

impl<const N: usize> Map<N> for Scc<N> {
    fn name(&self) -> &'static str {
        "scc::TreeIndex"
    }
    fn insert(&mut self, key: &[u8; N], value: &[u8; VALUE]) {
        self.0.insert_sync(*key, *value).expect("the key is new");
    }
    fn get(&mut self, key: &[u8; N], out: &mut Vec<u8>) {
        let guard = Guard::new();
        copy(key, self.0.peek(key, &guard).expect("the key is there"), out);
    }
    fn scan(&mut self, from: &[u8; N], limit: usize, out: &mut Vec<u8>) {
        let guard = Guard::new();
        self.0.range(*from.., &guard).take(limit).for_each(|(key, value)| copy(key, value, out));
    }
}

struct Skip<const N: usize>(SkipMap<[u8; N], [u8; VALUE]>);

impl<const N: usize> Map<N> for Skip<N> {
    fn name(&self) -> &'static str {
        "crossbeam-skiplist"
    }
    fn insert(&mut self, key: &[u8; N], value: &[u8; VALUE]) {
        self.0.insert(*key, *value);
    }
    fn get(&mut self, key: &[u8; N], out: &mut Vec<u8>) {
        copy(key, self.0.get(key).expect("the key is there").value(), out);
    }
    fn scan(&mut self, from: &[u8; N], limit: usize, out: &mut Vec<u8>) {
        self.0.range(*from..).take(limit).for_each(|row| copy(row.key(), row.value(), out));
    }
}

struct Std<const N: usize>(BTreeMap<[u8; N], [u8; VALUE]>);

impl<const N: usize> Map<N> for Std<N> {
    fn name(&self) -> &'static str {
        "BTreeMap (one thread)"
    }
    fn insert(&mut self, key: &[u8; N], value: &[u8; VALUE]) {
        self.0.insert(*key, *value);
    }
    fn get(&mut self, key: &[u8; N], out: &mut Vec<u8>) {
        copy(key, self.0.get(key).expect("the key is there"), out);
    }
    fn scan(&mut self, from: &[u8; N], limit: usize, out: &mut Vec<u8>) {
        self.0.range(*from..).take(limit).for_each(|(key, value)| copy(key, value, out));
    }
}

/// Key number `at`: all different, in no order.
fn integer(at: usize) -> [u8; 8] {
    (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Likewise, of text that begins alike.
fn text(at: usize) -> [u8; 24] {
    let text = format!("order:{:018}", (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 5);
    text.into_bytes().try_into().expect("6 characters and 18 digits")
}

/// What an operation costs, per operation and in the order of the maps.
fn measure<const N: usize>(
    maps: &mut [Box<dyn Map<N>>],
    rounds: usize,
    label: &str,
    operation: impl Fn(&mut dyn Map<N>, usize, &mut Vec<u8>) -> usize,
) {
    let mut times = vec![Vec::new(); maps.len()];
    for round in 0..rounds {
        let mut expected: Option<Vec<u8>> = None;
        for (map, times) in maps.iter_mut().zip(&mut times) {
            let mut out = Vec::with_capacity(64 << 10);
            let start = cpu_ns();
            let count = operation(&mut **map, round, &mut out);
            times.push((cpu_ns() - start) as f64 / count as f64);
            let expected = expected.get_or_insert_with(|| out.clone());
            let alike = *expected == out || map.leaves_out_start() && expected.len() == out.len();
            assert!(alike, "{} reads something else", map.name());
        }
    }
    let cells = times.iter_mut().map(|times| {
        times.sort_by(f64::total_cmp);
        format!("{:>9.0}", times[times.len() / 2])
    });
    println!("{label:<22}{}", cells.collect::<Vec<_>>().join(" "));
}

fn run<const N: usize>(name: &str, kind: KeyKind, rows: usize, rounds: usize, key: fn(usize) -> [u8; N]) {
    let mut maps: Vec<Box<dyn Map<N>>> = vec![
        Box::new(Ours::new(kind)),
        Box::new(Masstree(MassTree15::new())),
        Box::new(Scc(TreeIndex::new())),
        Box::new(Skip(SkipMap::new())),
        Box::new(Std(BTreeMap::new())),
    ];
    let names: Vec<_> = maps.iter().map(|map| map.name()).collect();
    println!("{name}, {rows} rows of {N} and {VALUE} bytes; ns an operation: {}", names.join(", "));
    let keys: Vec<_> = (0..rows).map(key).collect();
    measure(&mut maps, 1, "insert", |map, _, _| {
        keys.iter().for_each(|key| map.insert(key, &[key[N - 1]; VALUE]));
        rows
    });
    // Another order than that of the insertions, and another one in each round.
    let pick = |round: usize, at: usize| &keys[(at * 7919 + round * 104_729) % rows];
    measure(&mut maps, rounds, "get", |map, round, out| {
        for at in 0..LOOKUPS {
            if at % 512 == 0 {
                out.clear();
            }
            map.get(pick(round, at), out);
        }
        LOOKUPS
    });
    for length in LENGTHS {
        measure(&mut maps, rounds, &format!("scan of {length}"), |map, round, out| {
            for at in 0..SCANNED / length {
                out.clear();
                map.scan(pick(round, at), length, out);
            }
            SCANNED / length
        });
    }
}

fn main() {
    let args: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let option = |name: &str, otherwise: usize| {
        let given = args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
        given.map_or(otherwise, |value| value.parse().expect("a number"))
    };
    let (rows, rounds) = (option("rows", 1_000_000), option("rounds", 5));
    let wanted: Vec<_> = args.iter().filter(|arg| !arg.contains('=')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|arg| *arg == name);
    if wants("integers") {
        run("integers", KeyKind::U64, rows, rounds, integer);
    }
    if wants("texts") {
        run("texts", KeyKind::Bytes, rows, rounds, text);
    }
}
