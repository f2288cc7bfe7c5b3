//! Registers: a read names its writer, but not what came before or after. The order of versions is known in part:
//!
//! - nothing comes before everything that was written;
//! - what a transaction read of a key comes before what it then wrote to it;
//! - at level `session`: what a client read or wrote first comes before what it read or wrote later;
//! - at level `strict`: a version that some transaction had read or written when it ended comes before every other version
//!   that a transaction which began later read or wrote. (Were it the other way round, the later of the two accesses
//!   would have met the other version.) Snapshot reads don't count here.
//!
//! Only what follows for readers is drawn, "this one read a version older than what that one wrote"; that a writer comes
//! before another is then said by real time itself. The order is incomplete: a history of registers that passes may still
//! have no serial order.

use super::access::{NO_TXN, Read, Write};
use super::tables::Tables;
use crate::findings::Findings;
use crate::graph::{CONT, Edges, PROCESS, REALTIME, RW, WR, WW};
use crate::history::{Status, Txn};
use crate::verdict::{AnomalyKind, Level};
use crate::words;

/// Beyond so many edges that a helper node cannot stand for, the rest of a bundle is left out.
const SINGLE_EDGES: usize = 256;

/// The reads of registers, resolved to their writers.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    reads: Vec<Resolved>,
}

/// A read of a register.
#[derive(Clone, Copy, Debug)]
struct Resolved {
    key: u32,
    /// Which write of the key, as an index into [`Tables::writes`]; `None` for the absent value.
    of: Option<u32>,
    reader: u32,
    /// The reader also wrote the key.
    writes: bool,
}

impl Registers {
    /// Finds the writers; reports reads that cannot be, and marks who happened.
    pub(crate) fn infer(tables: &mut Tables<'_>, findings: &mut Findings) -> Registers {
        let mut reads = Vec::new();
        for key in 0..tables.keys() {
            if !tables.usable(key) || tables.is_list(key) {
                continue;
            }
            let from = reads.len();
            for read in tables.reads(key).to_vec() {
                let of = match tables.register(&read) {
                    None => None,
                    Some(value) => match written(tables, &read, value, findings) {
                        Some(at) => Some(at),
                        None => continue,
                    },
                };
                reads.push(Resolved { key, of, reader: read.txn, writes: read.writes });
            }
            reads[from..].sort_unstable_by_key(|read| (read.of, read.reader));
            lost_updates(tables, &reads[from..], findings);
        }
        Registers { reads }
    }

    /// Draws the dependencies.
    pub(crate) fn link(&self, tables: &Tables<'_>, level: Level, edges: &mut Edges) {
        for reads in self.reads.chunk_by(|a, b| a.key == b.key) {
            let key = reads[0].key;
            let writes = tables.writes(key);
            link_nothing(tables, key, reads, edges);
            for same in reads.chunk_by(|a, b| a.of == b.of) {
                let Some(write) = same[0].of.map(|at| &writes[at as usize]) else { continue };
                let next: Vec<u32> = same.iter().filter(|read| read.writes).map(|read| read.reader).collect();
                for read in same {
                    edges.link(write.txn, read.reader, WR);
                    next.iter().take(SINGLE_EDGES).for_each(|next| edges.link(read.reader, *next, RW));
                }
                next.iter().for_each(|next| edges.link(write.txn, *next, WW));
            }
            match level {
                Level::Serializable => {}
                Level::Session => link_sessions(tables, key, reads, edges),
                Level::Strict => Clocked::new(tables, key, reads).link(reads, edges),
            }
        }
    }
}

/// Which write a read saw; `None` if it cannot be.
fn written(tables: &mut Tables<'_>, read: &Read, value: i64, findings: &mut Findings) -> Option<u32> {
    let (history, name) = (tables.history, tables.name(read.key));
    let reader = read.txn;
    let Some(at) = tables.writer(read.key, value) else {
        findings.report(AnomalyKind::GarbageRead, &[reader], || {
            words::story(history, &[reader], &format!("T{reader} read {name} = {value}, which nobody wrote."))
        });
        return None;
    };
    let write = tables.writes(read.key)[at];
    let txns = [write.txn, reader];
    match tables.status(write.txn) {
        Status::Fail => {
            findings.report(AnomalyKind::G1a, &txns, || {
                let said = format!(
                    "T{} was told that it did not happen, yet T{reader} read {name} = {value} from it.",
                    write.txn
                );
                words::story(history, &txns, &said)
            });
            return None;
        }
        Status::Info => tables.happened[write.txn as usize] = true,
        Status::Ok => {}
    }
    if !write.last {
        findings.report(AnomalyKind::G1b, &txns, || {
            let said = format!(
                "T{reader} read {name} = {value} in the middle of T{}, which then wrote {name} again.",
                write.txn
            );
            words::story(history, &txns, &said)
        });
        return None;
    }
    Some(at as u32)
}

/// Who read the absent value comes before all who wrote the key.
fn link_nothing(tables: &Tables<'_>, key: u32, reads: &[Resolved], edges: &mut Edges) {
    let nothing = reads.partition_point(|read| read.of.is_none());
    let (readers, writers) = (&reads[..nothing], versions(tables, key));
    if readers.is_empty() || writers.is_empty() {
        return;
    }
    let all = edges.helper();
    writers.iter().for_each(|write| edges.link(all, write.txn, CONT));
    for read in readers.iter().filter(|read| !read.writes) {
        edges.link(read.reader, all, RW);
    }
    // Through the helper these would come before themselves.
    for read in readers.iter().filter(|read| read.writes).take(SINGLE_EDGES) {
        writers.iter().for_each(|write| edges.link(read.reader, write.txn, RW));
    }
}

/// The final writes of the key by transactions that happened.
fn versions<'t>(tables: &'t Tables<'_>, key: u32) -> Vec<&'t Write> {
    let writes = tables.writes(key).iter();
    writes.filter(|write| write.last && tables.happened[write.txn as usize]).collect()
}

/// In each client's order: readers of what it met first come before the writer of what it met next.
fn link_sessions(tables: &Tables<'_>, key: u32, reads: &[Resolved], edges: &mut Edges) {
    let (history, writes) = (tables.history, tables.writes(key));
    // Client, time, read before write, version.
    let mut met: Vec<(u64, u64, bool, u32)> = Vec::new();
    let mut add = |txn: u32, write: bool, version: u32| {
        let Txn { process, t0, .. } = history.txns[txn as usize];
        met.push((process, t0, write, version));
    };
    reads.iter().filter_map(|read| Some((read.reader, read.of?))).for_each(|(txn, of)| add(txn, false, of));
    for (at, write) in writes.iter().enumerate() {
        if write.last && tables.happened[write.txn as usize] {
            add(write.txn, true, at as u32);
        }
    }
    met.sort_unstable();
    let pairs = met.windows(2).filter(|pair| pair[0].0 == pair[1].0 && pair[0].3 != pair[1].3);
    let mut pairs: Vec<(u32, u32)> = pairs.map(|pair| (pair[0].3, pair[1].3)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    for (old, new) in pairs {
        let from = reads.partition_point(|read| read.of < Some(old));
        let readers = reads[from..].iter().take_while(|read| read.of == Some(old)).take(SINGLE_EDGES);
        readers.for_each(|read| edges.link(read.reader, writes[new as usize].txn, RW | PROCESS));
    }
}

/// When the versions of one key were first met for certain, and when somebody last set out and then met them.
struct Clocked {
    /// By version, as an index into [`Tables::writes`]: the earliest end of a transaction that met it.
    met: Vec<u64>,
    /// Sorted: the latest beginning of a transaction that met it, writer, version.
    latest: Vec<(u64, u32, u32)>,
    /// By version: its place in `latest`.
    places: Vec<usize>,
    /// By transaction that wrote the key, sorted: the place of what it wrote.
    own: Vec<(u32, usize)>,
}

impl Clocked {
    fn new(tables: &Tables<'_>, key: u32, reads: &[Resolved]) -> Clocked {
        let writes = tables.writes(key);
        let mut met = vec![u64::MAX; writes.len()];
        let mut latest: Vec<Option<u64>> = vec![None; writes.len()];
        let mut meet = |at: u32, id: u32| {
            let txn = &tables.history.txns[id as usize];
            if !txn.snap {
                let at = at as usize;
                met[at] = met[at].min(txn.t1.filter(|_| txn.status == Status::Ok).unwrap_or(u64::MAX));
                latest[at] = latest[at].max(Some(txn.t0));
            }
        };
        for (at, write) in writes.iter().enumerate() {
            if write.last && tables.happened[write.txn as usize] {
                meet(at as u32, write.txn);
            }
        }
        reads.iter().filter_map(|read| Some((read.of?, read.reader))).for_each(|(of, txn)| meet(of, txn));
        let known = latest.iter().enumerate().filter_map(|(at, time)| Some(((*time)?, at)));
        let mut latest: Vec<(u64, u32, u32)> =
            known.map(|(time, at)| (time, writes[at].txn, at as u32)).collect();
        latest.sort_unstable();
        let mut places = vec![usize::MAX; writes.len()];
        latest.iter().enumerate().for_each(|(place, (_, _, at))| places[*at as usize] = place);
        let mut own: Vec<(u32, usize)> =
            latest.iter().zip(0..).map(|((_, txn, _), place)| (*txn, place)).collect();
        own.sort_unstable();
        Clocked { met, latest, places, own }
    }

    /// Links each reader to the writers of all versions known to be newer than what it read.
    fn link(&self, reads: &[Resolved], edges: &mut Edges) {
        // Helper `i` stands for the writers from place `i` on.
        let mut helpers = vec![NO_TXN; self.latest.len() + 1];
        let mut lowest = self.latest.len();
        for read in reads {
            let Some(of) = read.of else { continue };
            let newer = self.latest.partition_point(|(time, _, _)| *time <= self.met[of as usize]);
            // Two of those are not newer: what it read, and what it wrote itself. The helper begins after them.
            let written =
                self.own.binary_search_by_key(&read.reader, |own| own.0).ok().map(|at| self.own[at].1);
            let skip = [Some(self.places[of as usize]), written];
            let skipped = |place: usize| skip.contains(&Some(place));
            let from =
                skip.iter().flatten().filter(|place| **place < self.latest.len()).map(|place| place + 1);
            let from = from.max().unwrap_or(0).max(newer);
            for place in (newer..from).filter(|place| !skipped(*place)).take(SINGLE_EDGES) {
                edges.link(read.reader, self.latest[place].1, RW | REALTIME);
            }
            if from < self.latest.len() {
                while lowest > from {
                    lowest -= 1;
                    helpers[lowest] = edges.helper();
                    edges.link(helpers[lowest], self.latest[lowest].1, CONT);
                    if helpers[lowest + 1] != NO_TXN {
                        edges.link(helpers[lowest], helpers[lowest + 1], CONT);
                    }
                }
                edges.link(read.reader, helpers[from], RW | REALTIME);
            }
        }
    }
}

/// Reports transactions that read the same version and both wrote the key.
fn lost_updates(tables: &Tables<'_>, reads: &[Resolved], findings: &mut Findings) {
    for same in reads.chunk_by(|a, b| a.of == b.of) {
        let txns: Vec<u32> = same.iter().filter(|read| read.writes).map(|read| read.reader).collect();
        if txns.len() < 2 {
            continue;
        }
        findings.report(AnomalyKind::LostUpdate, &txns, || {
            let value = same[0].of.map(|at| tables.writes(same[0].key)[at as usize].value);
            let said = format!(
                "All of them read {} = {} and then wrote it: each went on from the same version, as if the others had not \
                 been there.",
                tables.name(same[0].key),
                words::register(value)
            );
            words::story(tables.history, &txns, &said)
        });
    }
}
