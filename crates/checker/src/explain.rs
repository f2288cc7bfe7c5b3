//! Cycles in sentences: the transactions, then why each comes before the next.

use crate::graph::{Cycle, PROCESS, REALTIME, RW, WR, WW};
use crate::history::{History, Status};
use crate::infer::{Lists, NO_TXN, Tables, UNPLACED};
use crate::words;

/// Only if a key is used in two ways, which is reported as a broken history.
const NO_REASON: &str = "a key is used both as a list and as a register";

/// Finds the values behind the edges again.
pub(crate) struct Explainer<'a> {
    pub(crate) tables: &'a Tables<'a>,
    pub(crate) lists: &'a Lists,
}

/// What a committed transaction saw of a key before its own writes.
enum Seen<'a> {
    List(&'a [i64]),
    Register(Option<i64>),
}

impl Explainer<'_> {
    /// A cycle as a story.
    pub(crate) fn cycle(&self, cycle: &Cycle) -> String {
        let mut said = String::new();
        let first = cycle.txns[0];
        let round = cycle.txns.iter().zip(cycle.txns.iter().skip(1).chain([&first]));
        for (step, ((from, to), kind)) in round.zip(&cycle.kinds).enumerate() {
            let reason = self.reason(*from, *to, *kind);
            let turn = if step + 1 == cycle.txns.len() { "But T" } else { "T" };
            said.push_str(&format!("{turn}{from} comes before T{to}: {reason}.\n"));
        }
        said.push_str("No serial order allows all of this.");
        words::story(self.tables.history, &cycle.txns, &said)
    }

    fn reason(&self, from: u32, to: u32, kind: u8) -> String {
        let keys = self.keys(from);
        let mut found = keys.iter().filter(|key| self.tables.usable(**key));
        let reason = match kind {
            _ if kind & RW != 0 => found.find_map(|key| self.read_write(from, to, *key, kind)),
            _ if kind & WR != 0 => found.find_map(|key| self.write_read(from, to, *key)),
            _ if kind & WW != 0 => found.find_map(|key| self.write_write(from, to, *key)),
            _ if kind & PROCESS != 0 => Some(self.client(from, to)),
            _ => Some(self.real_time(from, to)),
        };
        reason.unwrap_or_else(|| NO_REASON.into())
    }

    fn history(&self) -> &History {
        self.tables.history
    }

    fn keys(&self, txn: u32) -> Vec<u32> {
        let mut keys: Vec<u32> = self.history().txns[txn as usize].ops.iter().map(|op| op.key().0).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn seen(&self, txn: u32, key: u32) -> Option<Seen<'_>> {
        let reads = self.tables.reads(key);
        let read = &reads[reads.binary_search_by_key(&txn, |read| read.txn).ok()?];
        Some(match self.tables.is_list(key) {
            true => Seen::List(&self.tables.list(read)[..read.len as usize]),
            false => Seen::Register(self.tables.register(read)),
        })
    }

    /// The first value of a transaction's appends to a list that `fits` its place.
    fn append(&self, txn: u32, key: u32, fits: impl Fn(u32) -> bool) -> Option<i64> {
        let mut writes = self.tables.writes(key).iter().filter(|write| write.txn == txn && fits(write.place));
        Some(writes.next()?.value)
    }

    /// What a transaction left in a register.
    fn left(&self, txn: u32, key: u32) -> Option<i64> {
        Some(self.tables.writes(key).iter().find(|write| write.txn == txn && write.last)?.value)
    }

    fn write_read(&self, from: u32, to: u32, key: u32) -> Option<String> {
        let name = self.tables.name(key);
        match self.seen(to, key)? {
            Seen::List(list) => {
                let value = self.append(from, key, |place| (place as usize) < list.len())?;
                Some(format!("T{to} read the {value} that T{from} appended to {name}"))
            }
            Seen::Register(value) => (value? == self.left(from, key)?)
                .then(|| format!("T{to} read {name} = {}, which T{from} wrote", words::register(value))),
        }
    }

    fn write_write(&self, from: u32, to: u32, key: u32) -> Option<String> {
        let name = self.tables.name(key);
        if !self.tables.is_list(key) {
            let Seen::Register(old) = self.seen(to, key)? else { return None };
            let (left, new) = (self.left(from, key)?, self.left(to, key)?);
            return (old == Some(left)).then(|| {
                format!("T{to} read {name} = {left}, which T{from} wrote, and replaced it by {new}")
            });
        }
        let writers = self.lists.writers(key);
        let first = writers.iter().position(|writer| *writer == from)?;
        let old = self.append(from, key, |place| place as usize == first)?;
        match writers.iter().rposition(|writer| *writer == to).filter(|place| *place > first) {
            Some(later) => {
                let new = self.append(to, key, |place| place as usize == later)?;
                Some(format!("in {name} the {old} of T{from} stands before the {new} of T{to}"))
            }
            None => {
                let new = self.append(to, key, |place| place == UNPLACED)?;
                let last = writers.iter().rfind(|writer| **writer != NO_TXN);
                (self.lists.whole(key) && last.is_some()).then(|| {
                    format!("T{from} appended {old} to {name}; T{to} appended {new}, which no read shows, so that it can only stand later")
                })
            }
        }
    }

    fn read_write(&self, from: u32, to: u32, key: u32, kind: u8) -> Option<String> {
        let name = self.tables.name(key);
        match self.seen(from, key)? {
            Seen::List(list) => {
                let value =
                    self.append(to, key, |place| place == UNPLACED || place as usize >= list.len())?;
                Some(format!(
                    "T{from} read {name} = {}, without the {value} that T{to} appended",
                    words::list(list)
                ))
            }
            Seen::Register(old) => {
                let new = self.left(to, key)?;
                let why = match (old, self.seen(to, key)) {
                    (None, _) => "which is how everything begins".into(),
                    (_, Some(Seen::Register(read))) if read == old => {
                        format!("which T{to} read and replaced")
                    }
                    (Some(old), _) if kind & REALTIME != 0 => self.older_by_clock(key, old, new)?,
                    (Some(old), _) if kind & PROCESS != 0 => self.older_by_client(key, old, new)?,
                    _ => return None,
                };
                let old = words::register(old);
                Some(format!("T{from} read {name} = {old}, an older value than the {new} of T{to}, {why}"))
            }
        }
    }

    /// Committed transactions that met a value of a register, by reading it or by leaving it there; and, as writers only,
    /// those of unknown outcome.
    fn met(&self, key: u32, value: i64) -> Vec<u32> {
        let reads = self.tables.reads(key).iter();
        let mut txns: Vec<u32> =
            reads.filter(|read| self.tables.register(read) == Some(value)).map(|read| read.txn).collect();
        txns.extend(self.tables.writer(key, value).map(|at| self.tables.writes(key)[at].txn));
        txns
    }

    fn older_by_clock(&self, key: u32, old: i64, new: i64) -> Option<String> {
        let txn = |id: &u32| &self.history().txns[*id as usize];
        let clocked = |value: i64| self.met(key, value).into_iter().filter(|id| !txn(id).snap);
        let early = clocked(old).filter(|id| txn(id).status == Status::Ok).min_by_key(|id| txn(id).t1)?;
        let late = clocked(new).max_by_key(|id| txn(id).t0)?;
        (txn(&early).t1? < txn(&late).t0)
            .then(|| format!("since T{early}, which met {old}, ended before T{late}, which met {new}, began"))
    }

    fn older_by_client(&self, key: u32, old: i64, new: i64) -> Option<String> {
        let txn = |id: u32| &self.history().txns[id as usize];
        let late = self.met(key, new);
        self.met(key, old).into_iter().find_map(|early| {
            let follows =
                |late: &&u32| txn(**late).process == txn(early).process && txn(**late).t0 >= txn(early).t0;
            let late = late.iter().find(follows)?;
            let client = txn(early).process;
            Some(format!("since client {client} met {old} in T{early} and then {new} in T{late}"))
        })
    }

    fn client(&self, from: u32, to: u32) -> String {
        let (a, b) = (&self.history().txns[from as usize], &self.history().txns[to as usize]);
        match a.place.filter(|_| a.process != b.process) {
            Some(place) => format!("they were sent over connection {}, in this order", place.connection),
            None => format!("they are transactions of client {}, in this order", a.process),
        }
    }

    fn real_time(&self, from: u32, to: u32) -> String {
        let (a, b) = (&self.history().txns[from as usize], &self.history().txns[to as usize]);
        let end = a.t1.expect("only what ended comes before something in real time");
        format!("T{from} ended at {}, before T{to} began at {}", words::time(end), words::time(b.t0))
    }
}
