//! What a transaction costs, and what applying it costs, in CPU time of one core: TPC-C and YCSB++ through [`Occ`] and
//! [`Applier`], without network or replication.
//!
//! ```text
//! cargo bench -p highwater-store --bench transactions [-- [tpcc] [silo] [fast] [ycsb] [ycsb100] [seconds=N] [rounds=N]]
//! ```
//!
//! `silo` is TPC-C in Silo's tables: all of them ordered, whole rows written. `fast` is TPC-C with order ids that are drawn outside.
//!
//! `rounds=N` runs exactly N times 5,000 transactions instead of some seconds: for counting instructions, as the
//! difference between two counts of rounds.
#![cfg(not(any(loom, shuttle)))]

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use highwater_core::log::TxWriter;
use highwater_core::{Abort, Clock, Library, Registry, Schema, Timestamp};
use highwater_store::{Applier, Occ, Store};
use highwater_workloads::tpcc::{self, Tpcc};
use highwater_workloads::ycsb::{self, Ycsb};
use highwater_workloads::{AllWorkloads, Workload};

/// Entries of about this size, as a leader under load makes them.
const ENTRY: usize = 64 << 10;
/// Memory that each store takes ahead, so that the kernel's clearing of pages is not measured.
const RESERVE: u64 = 1 << 30;

/// CPU time of this thread.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct Bench {
    store: Arc<Store>,
    occ: Occ,
    registry: Registry<Occ>,
    args: Vec<u8>,
    reply: Vec<u8>,
    committed: u64,
    rolled_back: u64,
}

impl Bench {
    fn new() -> Bench {
        let store = Store::new(Schema::new(AllWorkloads.tables()));
        store.reserve(RESERVE);
        let mut registry = Registry::new();
        AllWorkloads.register(&mut registry);
        let mut occ = Occ::new(store.clone(), Arc::new(Clock::system()));
        *occ.log() = TxWriter::new(Vec::with_capacity(2 * ENTRY));
        Bench { store, occ, registry, args: vec![], reply: vec![], committed: 0, rolled_back: 0 }
    }

    /// Runs the request in `self.args`; hands sealed entries to `log`.
    fn run(&mut self, procedure: highwater_core::ProcedureId, log: &mut impl FnMut(&[u8])) {
        self.occ.begin();
        self.reply.clear();
        match self.registry.run(procedure, &mut self.occ, &self.args, &mut self.reply) {
            Ok(()) => {
                let ts = self.occ.commit().expect("one worker alone has no conflicts");
                self.committed += 1;
                if self.committed.is_multiple_of(16) {
                    self.occ.collect(Timestamp(ts.0 - 1));
                }
            }
            Err(Abort::Rollback) => {
                self.occ.commit_rollback().expect("one worker alone has no conflicts");
                self.rolled_back += 1;
            }
            Err(abort) => panic!("{abort:?}: {}", String::from_utf8_lossy(&self.reply)),
        }
        if self.occ.log().len() >= ENTRY {
            let mut entry = self.occ.log().take(Vec::new());
            log(&entry);
            entry.clear();
            self.occ.log().take(entry);
        }
    }

    fn load(&mut self, workload: &dyn Workload, log: &mut impl FnMut(&[u8])) {
        for (name, args) in workload.load(0, 1) {
            self.args = args;
            let procedure = self.registry.find(name).expect("load procedures are registered");
            self.run(procedure, log);
        }
        self.committed = 0;
    }
}

/// A follower on a thread of its own: takes batches of entries, gives the emptied buffers back.
struct Follower {
    store: Arc<Store>,
    batches: SyncSender<Vec<Vec<u8>>>,
    done: Receiver<(Vec<Vec<u8>>, Applied)>,
}

#[derive(Clone, Copy, Default)]
struct Applied {
    bytes: usize,
    transactions: u64,
    writes: u64,
    cpu_ns: u64,
}

impl Follower {
    fn start() -> Follower {
        let store = Store::new(Schema::new(AllWorkloads.tables()));
        store.reserve(RESERVE);
        let (batches, incoming) = sync_channel::<Vec<Vec<u8>>>(1);
        let (outgoing, done) = sync_channel(1);
        let mut applier = Applier::new(store.clone());
        let apply = move || {
            for mut batch in incoming {
                let mut sum = Applied::default();
                let start = cpu_ns();
                for entry in &mut batch {
                    let applied = applier.apply(entry, Timestamp::ZERO, Timestamp::MAX).expect("our own log");
                    applier.collect(Timestamp(applied.last_ts.0 - 1));
                    sum.bytes += entry.len();
                    sum.transactions += applied.transactions;
                    sum.writes += applied.writes;
                    entry.clear();
                }
                sum.cpu_ns = cpu_ns() - start;
                if outgoing.send((batch, sum)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("follower".into()).spawn(apply).expect("a thread");
        Follower { store, batches, done }
    }

    fn apply(&self, entries: &mut Vec<Vec<u8>>, spare: &mut Vec<Vec<u8>>) -> Applied {
        self.batches.send(std::mem::take(entries)).expect("the follower runs");
        let (emptied, applied) = self.done.recv().expect("the follower runs");
        spare.extend(emptied);
        applied
    }
}

/// How long to measure.
#[derive(Clone, Copy)]
enum Until {
    Seconds(f64),
    Rounds(u64),
}

fn measure(name: &str, workload: &dyn Workload, until: Until) {
    let mut bench = Bench::new();
    let follower = Follower::start();
    let (mut entries, mut spare): (Vec<Vec<u8>>, Vec<Vec<u8>>) = Default::default();
    let start = cpu_ns();
    bench.load(workload, &mut |entry| entries.push(entry.to_vec()));
    entries.push(bench.occ.log().take(Vec::with_capacity(2 * ENTRY)));
    println!("{name}: loaded in {:.1} s, {:?}", (cpu_ns() - start) as f64 / 1e9, bench.store.memory());
    let loaded = follower.apply(&mut entries, &mut Vec::new());
    println!("{name}: load applied in {:.1} s", loaded.cpu_ns as f64 / 1e9);

    let kinds: Vec<_> =
        workload.kinds().iter().map(|kind| bench.registry.find(kind).expect("registered")).collect();
    let mut generator = workload.generator(0, 1, 7);
    let (mut executing, mut round, mut sum) = (0, 0, Applied::default());
    let goes_on = |executing: u64, round: u64| match until {
        Until::Seconds(seconds) => executing < (seconds * 1e9) as u64,
        Until::Rounds(rounds) => round < rounds,
    };
    while goes_on(executing, round) {
        round += 1;
        let start = cpu_ns();
        for _ in 0..5000 {
            let kind = generator.next(&mut bench.args);
            bench.run(kinds[kind], &mut |entry| {
                let mut kept = spare.pop().unwrap_or_default();
                kept.extend_from_slice(entry);
                entries.push(kept);
            });
        }
        executing += cpu_ns() - start;
        let applied = follower.apply(&mut entries, &mut spare);
        sum.bytes += applied.bytes;
        sum.transactions += applied.transactions;
        sum.writes += applied.writes;
        sum.cpu_ns += applied.cpu_ns;
    }
    let start = cpu_ns();
    let mut generator = workload.generator(0, 1, 7);
    for _ in 0..200_000 {
        generator.next(&mut bench.args);
    }
    let generating = (cpu_ns() - start) as f64 / 200_000.0;
    let done = (bench.committed + bench.rolled_back) as f64;
    let (execute_ns, apply_ns) = (executing as f64 / done, sum.cpu_ns as f64 / done);
    println!(
        "{name}: {:.0} tx per CPU-second: {execute_ns:.0} ns each, of which generating {generating:.0}; {:.1} % rolled back",
        1e9 / execute_ns,
        100.0 * bench.rolled_back as f64 / done
    );
    println!(
        "{name}: log {:.0} bytes and {:.1} writes a transaction; applying {apply_ns:.0} ns, {:.1} times cheaper",
        sum.bytes as f64 / done,
        sum.writes as f64 / done,
        (execute_ns - generating) / apply_ns
    );
    println!("{name}: {:?}", bench.store.memory());
    entries.push(bench.occ.log().bytes().to_vec());
    follower.apply(&mut entries, &mut spare);
    assert_eq!(follower.store.digest(), bench.store.digest(), "the follower has what the leader has");
    for check in workload.check(&*bench.store) {
        assert!(check.passed(), "{check:?}");
    }
}

fn main() {
    let args: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let option = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
    let seconds = option("seconds").map_or(1.0, |value| value.parse().expect("seconds=N"));
    let rounds = option("rounds").map(|value| value.parse().expect("rounds=N"));
    let until = rounds.map_or(Until::Seconds(seconds), Until::Rounds);
    let wanted: Vec<_> = args.iter().filter(|arg| !arg.contains('=')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|arg| *arg == name);
    if wants("tpcc") {
        measure("tpcc", &Tpcc::new(tpcc::Config::default()), until);
    }
    if wants("silo") {
        let layout = tpcc::layout::LayoutKind::Silo;
        measure("silo", &Tpcc::new(tpcc::Config { layout, ..tpcc::Config::default() }), until);
    }
    if wants("fast") {
        measure("fast", &Tpcc::new(tpcc::Config { fast_ids: true, ..tpcc::Config::default() }), until);
    }
    if wants("ycsb") {
        measure("ycsb", &Ycsb::new(ycsb::Config::default()), until);
    }
    if wants("ycsb100") {
        measure("ycsb100", &Ycsb::new(ycsb::Config { value_bytes: 100, ..ycsb::Config::default() }), until);
    }
}
