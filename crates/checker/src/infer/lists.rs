//! Lists: the longest committed read of a key is the order of its versions, up to the first thing wrong with it.
//!
//! What happened and is not in the longest read comes after it: a committed transaction read the whole list, and lists only
//! grow. An acknowledged append that vanished is found this way.

use super::access::{NO_TXN, Read, UNPLACED};
use super::tables::Tables;
use crate::findings::Findings;
use crate::graph::{CONT, Edges, RW, WR, WW};
use crate::history::Status;
use crate::verdict::AnomalyKind;
use crate::words;

/// The order of the versions of every list.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Where each key's elements begin.
    starts: Vec<u32>,
    /// For each element who appended it; [`NO_TXN`] if nobody who happened.
    writers: Vec<u32>,
    /// True if the order holds everything that was read of the key.
    whole: Vec<bool>,
}

impl Lists {
    /// Orders the versions; reports reads that cannot be and marks who happened.
    pub(crate) fn infer(tables: &mut Tables<'_>, findings: &mut Findings) -> Lists {
        let mut lists = Lists { starts: vec![0], writers: Vec::new(), whole: Vec::new() };
        for key in 0..tables.keys() {
            let whole = !tables.usable(key) || !tables.is_list(key) || lists.key(tables, key, findings);
            lists.whole.push(whole);
            lists.starts.push(lists.writers.len() as u32);
        }
        lists
    }

    /// The writers of a key's elements, in order.
    pub(crate) fn writers(&self, key: u32) -> &[u32] {
        &self.writers[self.starts[key as usize] as usize..self.starts[key as usize + 1] as usize]
    }

    /// True if nothing that was read of the key lies beyond the order.
    pub(crate) fn whole(&self, key: u32) -> bool {
        self.whole[key as usize]
    }

    fn key(&mut self, tables: &mut Tables<'_>, key: u32, findings: &mut Findings) -> bool {
        let Some(longest) =
            tables.reads(key).iter().rev().max_by_key(|read| tables.list(read).len()).copied()
        else {
            return true;
        };
        let order = tables.list(&longest);
        let cut = compatible(tables, &longest, findings).min(distinct(tables, &longest, findings));
        // The latest element of each transaction so far, to see whether its appends keep their order.
        for (place, value) in order[..cut].iter().enumerate() {
            let Some(at) = tables.writer(key, *value) else {
                garbage(tables, key, place, *value, findings);
                self.writers.push(NO_TXN);
                continue;
            };
            tables.place(key, at, place as u32);
            let txn = tables.writes(key)[at].txn;
            match tables.status(txn) {
                Status::Ok => {}
                Status::Info => tables.happened[txn as usize] = true,
                Status::Fail => {
                    aborted(tables, key, place, txn, *value, findings);
                    self.writers.push(NO_TXN);
                    continue;
                }
            }
            self.writers.push(txn);
        }
        shuffled(tables, key, &longest, findings);
        let reads = tables.reads(key).to_vec();
        reads
            .iter()
            .filter(|read| read.len as usize <= cut)
            .for_each(|read| intermediate(tables, read, findings));
        lost_updates(tables, key, reads, findings);
        cut == order.len()
    }

    /// Draws the dependencies.
    pub(crate) fn link(&self, tables: &Tables<'_>, edges: &mut Edges) {
        for key in 0..tables.keys() {
            if tables.usable(key) && tables.is_list(key) {
                self.link_key(tables, key, edges);
            }
        }
    }

    fn link_key(&self, tables: &Tables<'_>, key: u32, edges: &mut Edges) {
        let writers = self.writers(key);
        let mut known = writers.iter().copied().filter(|txn| *txn != NO_TXN);
        let mut last = known.next();
        for txn in known {
            edges.link(last.expect("there is one before"), txn, WW);
            last = Some(txn);
        }
        let mut after = Vec::new();
        if self.whole(key) {
            after = self.unplaced(tables, key);
            last.iter().for_each(|last| after.iter().for_each(|txn| edges.link(*last, *txn, WW)));
        }
        let mut latest = Vec::new();
        for read in tables.reads(key).iter().filter(|read| read.len as usize <= writers.len()) {
            let (before, rest) = writers.split_at(read.len as usize);
            let from = before.iter().rev().find(|txn| **txn != NO_TXN);
            if let Some(from) = from {
                edges.link(*from, read.txn, WR);
            }
            // Elements of the same writer as the last one read say G1b, which has been said.
            match rest.iter().find(|txn| **txn != NO_TXN && Some(*txn) != from) {
                // If it wrote the next version itself, that one's place says the rest.
                Some(next) => edges.link(read.txn, *next, RW),
                None => latest.push(read.txn),
            }
        }
        link_all(&latest, &after, edges);
    }

    /// Who appended without anyone seeing it, though they happened.
    fn unplaced(&self, tables: &Tables<'_>, key: u32) -> Vec<u32> {
        let writes = tables.writes(key).iter();
        let mut txns: Vec<u32> = writes
            .filter(|write| write.place == UNPLACED && tables.happened[write.txn as usize])
            .map(|write| write.txn)
            .collect();
        txns.sort_unstable();
        txns.dedup();
        txns
    }
}

/// Every reader of the latest version comes before all that nobody saw.
fn link_all(readers: &[u32], writers: &[u32], edges: &mut Edges) {
    if readers.len() < 2 || writers.len() < 2 {
        readers.iter().for_each(|reader| writers.iter().for_each(|writer| edges.link(*reader, *writer, RW)));
        return;
    }
    let all = edges.helper();
    writers.iter().for_each(|writer| edges.link(all, *writer, CONT));
    for reader in readers {
        // Through the helper a reader that also wrote would come before itself.
        match writers.binary_search(reader) {
            Ok(_) => writers.iter().for_each(|writer| edges.link(*reader, *writer, RW)),
            Err(_) => edges.link(*reader, all, RW),
        }
    }
}

/// How many elements of the longest read all other reads agree with; the first that doesn't is reported.
fn compatible(tables: &Tables<'_>, longest: &Read, findings: &mut Findings) -> usize {
    let order = tables.list(longest);
    let (mut cut, mut worst) = (order.len(), None);
    for read in tables.reads(longest.key) {
        let list = tables.list(read);
        if order[..list.len()] != *list {
            let same = order.iter().zip(list).take_while(|(a, b)| a == b).count();
            if worst.is_none() || same < cut {
                worst = Some(*read);
            }
            cut = cut.min(same);
        }
    }
    if let Some(other) = worst {
        let txns = [other.txn, longest.txn];
        findings.report(AnomalyKind::IncompatibleOrder, &txns, || {
            let said = format!(
                "T{} read {} = {}, T{} read {}. A list only grows at its end, so one of them should begin with the other; they \
                 part after {cut} elements.",
                other.txn,
                tables.name(longest.key),
                words::list(tables.list(&other)),
                longest.txn,
                words::list(order)
            );
            words::story(tables.history, &txns, &said)
        });
    }
    cut
}

/// How many elements come before the first that is there again.
fn distinct(tables: &Tables<'_>, longest: &Read, findings: &mut Findings) -> usize {
    let order = tables.list(longest);
    let mut places: Vec<(i64, usize)> = order.iter().copied().zip(0..).collect();
    places.sort_unstable();
    let again =
        places.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1]).min_by_key(|at| at.1);
    let Some((value, place)) = again else { return order.len() };
    findings.report(AnomalyKind::DuplicateElements, &[longest.txn], || {
        let said = format!(
            "T{} read {} = {}, with {value} in it more than once, though it was appended once.",
            longest.txn,
            tables.name(longest.key),
            words::list(order)
        );
        words::story(tables.history, &[longest.txn], &said)
    });
    place
}

/// The first by time to have read the element at `place`.
fn first_reader(tables: &Tables<'_>, key: u32, place: usize) -> u32 {
    let readers = tables.reads(key).iter().filter(|read| tables.list(read).len() > place);
    readers.map(|read| read.txn).min_by_key(|txn| tables.history.txns[*txn as usize].t0).unwrap_or(NO_TXN)
}

fn garbage(tables: &Tables<'_>, key: u32, place: usize, value: i64, findings: &mut Findings) {
    let reader = first_reader(tables, key, place);
    findings.report(AnomalyKind::GarbageRead, &[reader], || {
        let said = format!("T{reader} read {value} in {}, which nobody appended.", tables.name(key));
        words::story(tables.history, &[reader], &said)
    });
}

fn aborted(tables: &Tables<'_>, key: u32, place: usize, writer: u32, value: i64, findings: &mut Findings) {
    let reader = first_reader(tables, key, place);
    findings.report(AnomalyKind::G1a, &[writer, reader], || {
        let said = format!(
            "T{writer} was told that it did not happen, yet T{reader} read the {value} that it appended to {}.",
            tables.name(key)
        );
        words::story(tables.history, &[writer, reader], &said)
    });
}

/// Reports transactions whose appends to one key stand in another order than they were made.
fn shuffled(tables: &Tables<'_>, key: u32, longest: &Read, findings: &mut Findings) {
    let mut placed: Vec<_> = tables.writes(key).iter().filter(|write| write.place != UNPLACED).collect();
    placed.sort_unstable_by_key(|write| (write.txn, write.op));
    for pair in placed.windows(2).filter(|pair| pair[0].txn == pair[1].txn && pair[0].place > pair[1].place) {
        let txns = [pair[0].txn, longest.txn];
        findings.report(AnomalyKind::Internal, &txns, || {
            let said = format!(
                "T{} appended {} to {} before it appended {}, yet T{} read them the other way round: {}.",
                txns[0],
                pair[0].value,
                tables.name(key),
                pair[1].value,
                txns[1],
                words::list(tables.list(longest))
            );
            words::story(tables.history, &txns, &said)
        });
    }
}

/// Reports a read that ends with what its writer had not finished.
fn intermediate(tables: &Tables<'_>, read: &Read, findings: &mut Findings) {
    let Some(value) = tables.list(read)[..read.len as usize].last() else { return };
    let Some(write) = tables.writer(read.key, *value).map(|at| tables.writes(read.key)[at]) else { return };
    if write.last || !tables.happened[write.txn as usize] {
        return;
    }
    let txns = [write.txn, read.txn];
    findings.report(AnomalyKind::G1b, &txns, || {
        let said = format!(
            "T{} read {} up to {value}, in the middle of T{}, which then appended more to it.",
            read.txn,
            tables.name(read.key),
            write.txn
        );
        words::story(tables.history, &txns, &said)
    });
}

/// Reports transactions that saw the same version and both went on from there.
fn lost_updates(tables: &Tables<'_>, key: u32, mut reads: Vec<Read>, findings: &mut Findings) {
    reads.retain(|read| read.writes);
    reads.sort_unstable_by_key(|read| (read.len, read.txn));
    let seen = |read: &Read| &tables.list(read)[..read.len as usize];
    for group in reads.chunk_by(|a, b| seen(a) == seen(b)).filter(|group| group.len() > 1) {
        let txns: Vec<u32> = group.iter().map(|read| read.txn).collect();
        findings.report(AnomalyKind::LostUpdate, &txns, || {
            let said = format!(
                "All of them read {} = {} and then appended to it: each went on from the same version, as if the others had \
                 not been there.",
                tables.name(key),
                words::list(seen(&group[0]))
            );
            words::story(tables.history, &txns, &said)
        });
    }
}
