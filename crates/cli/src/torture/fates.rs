//! Which transactions survived the crashes that followed, by what later lives of the cluster showed.
//!
//! Every list is read once all is over: what was appended to it before a crash and is not there is *gone*. A version of an account is
//! overwritten sooner or later, so there it is asked what a later life met: that version *survived*, and all that it replaced,
//! transfer by transfer, as far as their clients know what they read; what replaced it before the crash is gone. Of the rest nothing is
//! known for sure.
//!
//! A transaction is **lost** if something that it wrote is gone; or if it saw what a lost one of its life wrote, and nothing of its own
//! is known to have survived. One of which nothing is known, but that it wrote and began after a lost one was acknowledged, is taken for
//! lost as well: it has to be, if what is lost is a suffix.

use std::collections::{BTreeMap, HashMap, HashSet};

use highwater_checker::{History, Key, Op, Status, Txn};

/// A value under a key: it is written once at most.
type Value = (Key, i64);

/// What became of every transaction.
#[derive(Debug, Default)]
pub struct Fates {
    /// Of each transaction, how many crashes were before it began.
    lives: Vec<usize>,
    lost: HashSet<usize>,
    survived: HashSet<Value>,
    gone: HashSet<Value>,
}

impl Fates {
    /// `crashes`: when all replicas were dead, in order, on the clock of the history.
    pub fn of(history: &History, crashes: &[u64]) -> Fates {
        let life = |txn: &Txn| crashes.partition_point(|crash| *crash <= txn.t0);
        let mut fates = Fates { lives: history.txns.iter().map(life).collect(), ..Fates::default() };
        let mut writers = HashMap::new();
        for (id, txn) in history.txns.iter().enumerate() {
            writers.extend(written(txn).map(|value| (value, id)));
        }
        fates.look(history, &writers, crashes.len());
        for life in 0..crashes.len() {
            fates.lose(history, &writers, life);
        }
        fates
    }

    /// The transactions that began between two crashes.
    pub fn of_life<'a>(&self, history: &'a History, life: usize) -> impl Iterator<Item = (usize, &'a Txn)> {
        history.txns.iter().enumerate().filter(move |(id, _)| self.lives[*id] == life)
    }

    /// Whether the crash at the end of its life took a transaction.
    pub fn is_lost(&self, id: usize) -> bool {
        self.lost.contains(&id)
    }

    /// Whether what it wrote is known to have survived.
    pub fn is_left(&self, history: &History, id: usize) -> bool {
        written(&history.txns[id]).any(|value| self.survived.contains(&value))
    }

    /// Whether a part of it is gone, and a part survived.
    pub fn is_torn(&self, history: &History, id: usize) -> bool {
        self.is_left(history, id) && written(&history.txns[id]).any(|value| self.gone.contains(&value))
    }

    /// Finds what survived, and what is gone.
    fn look(&mut self, history: &History, writers: &HashMap<Value, usize>, last: usize) {
        // What lists show in the end, and the latest life that met a version of an account.
        let mut lists: BTreeMap<Key, (u64, &[i64])> = BTreeMap::new();
        let mut met: HashMap<Value, usize> = HashMap::new();
        for (id, txn) in history.txns.iter().enumerate().filter(|(_, txn)| is_current(txn)) {
            for op in &txn.ops {
                match op {
                    Op::ReadList { key, value: Some(shown) } => {
                        let known = lists.entry(*key).or_default();
                        *known = (*known).max((txn.t0, shown));
                    }
                    Op::ReadReg { key, value: Some(Some(value)) } => {
                        let known = met.entry((*key, *value)).or_default();
                        *known = (*known).max(self.lives[id]);
                    }
                    _ => {}
                }
            }
        }
        for (key, (_, shown)) in lists {
            self.survived.extend(shown.iter().map(|value| (key, *value)));
        }
        for (value, life) in &met {
            let written = writers.get(value).map(|writer| self.lives[*writer]);
            if written.is_some_and(|written| written < *life) || *life == last {
                self.survive(history, writers, *value);
            }
        }
        for (id, txn) in history.txns.iter().enumerate().filter(|(id, _)| self.lives[*id] < last) {
            let is_gone = |op: &&Op| match op {
                Op::Append { .. } => true,
                Op::Write { key, .. } => replaced(txn, *key)
                    .is_some_and(|before| met.get(&before).is_some_and(|life| *life > self.lives[id])),
                _ => false,
            };
            let gone = txn.ops.iter().filter(is_gone).filter_map(value_of);
            let gone: Vec<Value> = gone.filter(|value| !self.survived.contains(value)).collect();
            self.gone.extend(gone);
        }
    }

    /// A version that a later life met, and all that it replaced.
    fn survive(&mut self, history: &History, writers: &HashMap<Value, usize>, value: Value) {
        let mut version = Some(value);
        while let Some(value) = version.filter(|value| self.survived.insert(*value)) {
            version = writers.get(&value).and_then(|writer| replaced(&history.txns[*writer], value.0));
        }
    }

    /// Finds the transactions that a crash took, until no more follow from these.
    fn lose(&mut self, history: &History, writers: &HashMap<Value, usize>, life: usize) {
        let of_life: Vec<(usize, &Txn)> = self.of_life(history, life).collect();
        let mut first_told = u64::MAX;
        loop {
            let before = self.lost.len();
            for (id, txn) in &of_life {
                if !self.lost.contains(id) && self.must_be_lost(history, writers, *id, first_told) {
                    self.lost.insert(*id);
                    if is_current(txn) {
                        first_told = first_told.min(txn.t1.unwrap_or(u64::MAX));
                    }
                }
            }
            if self.lost.len() == before {
                return;
            }
        }
    }

    fn must_be_lost(
        &self,
        history: &History,
        writers: &HashMap<Value, usize>,
        id: usize,
        first_told: u64,
    ) -> bool {
        let txn = &history.txns[id];
        if txn.status == Status::Fail {
            return false;
        }
        if written(txn).any(|value| self.gone.contains(&value)) {
            return true;
        }
        if self.is_left(history, id) {
            return false;
        }
        let writes = written(txn).next().is_some();
        let lost_here = |value: &Value| {
            let writer = writers.get(value).filter(|writer| self.lives[**writer] == self.lives[id]);
            writer.is_some_and(|writer| self.lost.contains(writer) || self.gone.contains(value))
        };
        let saw_lost = txn.ops.iter().any(|op| match op {
            // Of lists everything is known.
            Op::ReadList { key, value: Some(shown) } => {
                let mut gone =
                    shown.iter().map(|value| (*key, *value)).filter(|value| self.gone.contains(value));
                gone.any(|value| lost_here(&value))
            }
            Op::ReadReg { key, value: Some(Some(version)) } => {
                let value = (*key, *version);
                !self.survived.contains(&value) && lost_here(&value)
            }
            _ => false,
        });
        saw_lost || (writes && is_current(txn) && txn.t0 > first_told)
    }
}

/// What a transaction wrote, or may have.
pub fn written(txn: &Txn) -> impl Iterator<Item = Value> {
    txn.ops.iter().filter(|op| op.is_write()).filter_map(value_of)
}

fn value_of(op: &Op) -> Option<Value> {
    match op {
        Op::Append { key, value } | Op::Write { key, value } => Some((*key, *value)),
        Op::ReadList { .. } | Op::ReadReg { .. } => None,
    }
}

/// Acknowledged, and of the latest state.
fn is_current(txn: &Txn) -> bool {
    txn.status == Status::Ok && !txn.snap
}

/// The version of an account that a transaction read, if its client knows it.
fn replaced(txn: &Txn, account: Key) -> Option<Value> {
    txn.ops.iter().find_map(|op| match op {
        Op::ReadReg { key, value: Some(Some(version)) } if *key == account => Some((*key, *version)),
        _ => None,
    })
}
