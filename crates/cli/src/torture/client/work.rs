//! What the clients do: grow lists, move money, count it.
//!
//! Lists are string keys to which `APPEND key "value,"` appends. They are retired once they are long: everybody who reads
//! a list at its limit goes on with the slot's next generation, so that clients need not talk to each other.
//! An account is a register: `balance:id`, where the id is written once and never again; the checker sees the id, the
//! clients check that the balances always add up.

use std::sync::atomic::{AtomicU32, Ordering};

use highwater_workloads::random::{Rng, mix};

use crate::wire::Reply;

/// Lists alive at a time.
pub const SLOTS: usize = 20;
/// Slots that half of the operations go to.
const HOT_SLOTS: u64 = 5;
/// Accounts.
pub const ACCOUNTS: usize = 8;
/// What each account begins with.
pub const OPENING: i64 = 100;
/// Operations of a transaction, at most.
const MAX_OPS: u64 = 8;

/// A list: its slot and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// Which slot.
    pub slot: usize,
    /// How many lists the slot had before.
    pub generation: u32,
}

impl List {
    /// Its key.
    pub fn key(self) -> String {
        format!("l{}.{}", self.slot, self.generation)
    }

    /// Elements after which it is retired: 32 to 128.
    fn limit(self) -> usize {
        32 + (mix((self.slot as u64) << 32 | u64::from(self.generation)) % 97) as usize
    }
}

/// An account's key.
pub fn account(number: usize) -> String {
    format!("b{number}")
}

/// Which lists are alive, as one process knows.
#[derive(Debug)]
pub struct Lists([AtomicU32; SLOTS]);

impl Default for Lists {
    fn default() -> Lists {
        Lists(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl Lists {
    /// The slot's list.
    fn current(&self, slot: usize) -> List {
        List { slot, generation: self.0[slot].load(Ordering::Relaxed) }
    }

    /// A list was seen with so many elements.
    pub fn seen(&self, list: List, len: usize) {
        if len >= list.limit() {
            self.0[list.slot].fetch_max(list.generation + 1, Ordering::Relaxed);
        }
    }

    /// The newest generation of each slot.
    pub fn generations(&self) -> Vec<u32> {
        self.0.iter().map(|generation| generation.load(Ordering::Relaxed)).collect()
    }
}

/// One operation on a list: appends a value, or reads.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Which list.
    pub list: List,
    /// The value to append, if it is no read.
    pub append: Option<i64>,
}

/// One transaction.
#[derive(Clone, Debug)]
pub enum Task {
    /// Reads and appends, atomically.
    Lists(Vec<Step>),
    /// Moves money: reads two accounts and writes both.
    Transfer {
        /// Account numbers, different ones.
        accounts: [usize; 2],
        /// How much.
        amount: i64,
        /// The ids of the two new values.
        ids: [i64; 2],
    },
    /// Reads all accounts.
    Total,
}

/// Values that nobody else writes: the connection's number, modulo the number of connections.
#[derive(Clone, Debug)]
pub struct Values {
    next: i64,
    step: i64,
}

impl Values {
    /// The values of connection `number` of `of`.
    pub fn new(number: u64, of: u64) -> Values {
        Values { next: (number + of) as i64, step: of as i64 }
    }

    /// A fresh value.
    pub fn fresh(&mut self) -> i64 {
        let value = self.next;
        self.next += self.step;
        value
    }
}

/// Draws a transaction.
pub fn draw(rng: &mut Rng, lists: &Lists, values: &mut Values) -> Task {
    match rng.below(100) {
        0..80 => Task::Lists(draw_steps(rng, lists, values)),
        80..95 => {
            let first = rng.below(ACCOUNTS as u64) as usize;
            let second = (first + 1 + rng.below(ACCOUNTS as u64 - 1) as usize) % ACCOUNTS;
            let amount = rng.within(1, 10) as i64;
            Task::Transfer { accounts: [first, second], amount, ids: [values.fresh(), values.fresh()] }
        }
        _ => Task::Total,
    }
}

/// Draws a transaction that only reads.
pub fn draw_reads(rng: &mut Rng, lists: &Lists) -> Task {
    if rng.percent(20) {
        return Task::Total;
    }
    let count = rng.within(2, MAX_OPS);
    Task::Lists((0..count).map(|_| Step { list: draw_list(rng, lists), append: None }).collect())
}

fn draw_steps(rng: &mut Rng, lists: &Lists, values: &mut Values) -> Vec<Step> {
    // Reads only, appends only, or both.
    let reads = match rng.below(5) {
        0 => 100,
        1 => 0,
        _ => 50,
    };
    let count = rng.within(1, MAX_OPS);
    let draw_step = |_| {
        let list = draw_list(rng, lists);
        Step { list, append: (!rng.percent(reads)).then(|| values.fresh()) }
    };
    (0..count).map(draw_step).collect()
}

fn draw_list(rng: &mut Rng, lists: &Lists) -> List {
    let slots = if rng.percent(50) { HOT_SLOTS } else { SLOTS as u64 };
    lists.current(rng.below(slots) as usize)
}

/// `1,5,2,` as a list; `None` if it is none.
pub fn elements(reply: &Reply) -> Option<Vec<i64>> {
    let bytes = match reply {
        Reply::Bulk(None) => return Some(Vec::new()),
        Reply::Bulk(Some(bytes)) => std::str::from_utf8(bytes).ok()?,
        _ => return None,
    };
    bytes.split_terminator(',').map(|value| value.parse().ok()).collect()
}

/// `90:17` as balance and id.
pub fn balance(reply: &Reply) -> Option<(i64, i64)> {
    let Reply::Bulk(Some(bytes)) = reply else { return None };
    let (balance, id) = std::str::from_utf8(bytes).ok()?.split_once(':')?;
    Some((balance.parse().ok()?, id.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn values_of_different_connections_never_meet() {
        let mut all = BTreeSet::new();
        for number in 0..5 {
            let mut values = Values::new(number, 5);
            assert!((0..100).all(|_| all.insert(values.fresh())));
        }
    }

    #[test]
    fn a_long_list_is_retired_by_whoever_sees_it() {
        let lists = Lists::default();
        let list = lists.current(3);
        assert!((32..=128).contains(&list.limit()));
        lists.seen(list, list.limit() - 1);
        assert_eq!(lists.current(3), list);
        lists.seen(list, list.limit());
        lists.seen(list, list.limit() + 1);
        assert_eq!(lists.current(3), List { slot: 3, generation: 1 });
    }

    #[test]
    fn every_kind_of_transaction_is_drawn() {
        let (mut rng, lists, mut values) = (Rng::new(1), Lists::default(), Values::new(0, 1));
        let mut kinds = BTreeSet::new();
        for _ in 0..500 {
            let kind = match draw(&mut rng, &lists, &mut values) {
                Task::Lists(steps) => {
                    assert!((1..=8).contains(&steps.len()));
                    let appends = steps.iter().filter(|step| step.append.is_some()).count();
                    if appends == 0 {
                        "reads"
                    } else if appends == steps.len() {
                        "appends"
                    } else {
                        "mixed"
                    }
                }
                Task::Transfer { accounts: [from, to], .. } => {
                    assert!(from != to && from < ACCOUNTS && to < ACCOUNTS);
                    "transfer"
                }
                Task::Total => "total",
            };
            kinds.insert(kind);
        }
        assert_eq!(kinds.len(), 5);
    }

    #[test]
    fn readers_of_snapshots_write_nothing() {
        let (mut rng, lists) = (Rng::new(1), Lists::default());
        let tasks: Vec<Task> = (0..200).map(|_| draw_reads(&mut rng, &lists)).collect();
        assert!(tasks.iter().any(|task| matches!(task, Task::Total)));
        let written = tasks.iter().filter(|task| match task {
            Task::Lists(steps) => steps.len() < 2 || steps.iter().any(|step| step.append.is_some()),
            Task::Total => false,
            Task::Transfer { .. } => true,
        });
        assert_eq!(written.count(), 0);
    }
}
