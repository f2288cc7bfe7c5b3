//! All writes by key and value, all first reads by key.

use super::access::{Read, Write};
use super::within;
use crate::findings::Findings;
use crate::history::{History, Key, Op, Status};
use crate::verdict::AnomalyKind;
use crate::words;

/// Writes and reads of a history, grouped by key.
#[derive(Debug)]
pub(crate) struct Tables<'h> {
    pub(crate) history: &'h History,
    /// By key, then value.
    writes: Vec<Write>,
    write_starts: Vec<u32>,
    /// By key, then transaction.
    reads: Vec<Read>,
    read_starts: Vec<u32>,
    /// Keys whose values name no writer.
    tainted: Vec<bool>,
    /// Transactions that happened: committed, or of unknown outcome and seen.
    pub(crate) happened: Vec<bool>,
}

impl<'h> Tables<'h> {
    /// Collects; reports what a transaction contradicts by itself, and values written twice.
    pub(crate) fn new(history: &'h History, findings: &mut Findings) -> Tables<'h> {
        let (mut writes, mut reads) = (Vec::new(), Vec::new());
        let mut scratch = within::Scratch::default();
        for (id, txn) in history.txns.iter().enumerate() {
            within::collect(history, id as u32, txn, &mut scratch, &mut writes, &mut reads, findings);
        }
        writes.sort_unstable_by_key(|write| (write.key, write.value, write.txn, write.op));
        reads.sort_unstable_by_key(|read| (read.key, read.txn));
        let keys = history.keys.len();
        let write_starts = starts(keys, writes.iter().map(|write| write.key));
        let read_starts = starts(keys, reads.iter().map(|read| read.key));
        let happened = history.txns.iter().map(|txn| txn.status == Status::Ok).collect();
        let tainted = vec![false; keys];
        let mut tables = Tables { history, writes, write_starts, reads, read_starts, tainted, happened };
        tables.duplicates(findings);
        tables
    }

    fn duplicates(&mut self, findings: &mut Findings) {
        for pair in self.writes.windows(2) {
            let [a, b] = pair else { continue };
            if (a.key, a.value) == (b.key, b.value) {
                self.tainted[a.key as usize] = true;
                let txns: &[u32] = if a.txn == b.txn { &[a.txn] } else { &[a.txn, b.txn] };
                findings.report(AnomalyKind::DuplicateWrite, txns, || {
                    let (key, value) = (self.history.keys.name(Key(a.key)), a.value);
                    let said = format!(
                        "The value {value} was sent to {key} by T{} and again by T{}, so a read of it does not say whose \
                         it is. This is the load's fault, not the database's; {key} is left out of the rest of the check.",
                        a.txn, b.txn
                    );
                    words::story(self.history, txns, &said)
                });
            }
        }
    }

    pub(crate) fn keys(&self) -> u32 {
        self.tainted.len() as u32
    }

    /// False if the values of the key prove nothing.
    pub(crate) fn usable(&self, key: u32) -> bool {
        !self.tainted[key as usize]
    }

    pub(crate) fn name(&self, key: u32) -> &'h str {
        self.history.keys.name(Key(key))
    }

    fn write_range(&self, key: u32) -> std::ops::Range<usize> {
        self.write_starts[key as usize] as usize..self.write_starts[key as usize + 1] as usize
    }

    /// A key's writes by value.
    pub(crate) fn writes(&self, key: u32) -> &[Write] {
        &self.writes[self.write_range(key)]
    }

    /// A key's reads, one a transaction.
    pub(crate) fn reads(&self, key: u32) -> &[Read] {
        let range = self.read_starts[key as usize] as usize..self.read_starts[key as usize + 1] as usize;
        &self.reads[range]
    }

    /// Who wrote a value, as an index into [`Tables::writes`].
    pub(crate) fn writer(&self, key: u32, value: i64) -> Option<usize> {
        self.writes(key).binary_search_by_key(&value, |write| write.value).ok()
    }

    pub(crate) fn place(&mut self, key: u32, write: usize, place: u32) {
        let at = self.write_starts[key as usize] as usize + write;
        self.writes[at].place = place;
    }

    pub(crate) fn status(&self, txn: u32) -> Status {
        self.history.txns[txn as usize].status
    }

    /// What a list read returned, own appends included.
    pub(crate) fn list(&self, read: &Read) -> &'h [i64] {
        match &self.history.txns[read.txn as usize].ops[read.op as usize] {
            Op::ReadList { value: Some(list), .. } => list,
            _ => &[],
        }
    }

    /// What a register read returned.
    pub(crate) fn register(&self, read: &Read) -> Option<i64> {
        match &self.history.txns[read.txn as usize].ops[read.op as usize] {
            Op::ReadReg { value: Some(value), .. } => *value,
            _ => None,
        }
    }

    /// True if the key is a list; a key that nobody touched is one, too.
    pub(crate) fn is_list(&self, key: u32) -> bool {
        let op = |txn: u32, op: u32| &self.history.txns[txn as usize].ops[op as usize];
        let write = self.writes(key).first().map(|write| op(write.txn, write.op));
        write.or(self.reads(key).first().map(|read| op(read.txn, read.op))).is_none_or(Op::is_list)
    }
}

/// Where each key's rows begin, among rows sorted by key.
fn starts(keys: usize, rows: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut starts = vec![0; keys + 1];
    rows.for_each(|key| starts[key as usize + 1] += 1);
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    starts
}
