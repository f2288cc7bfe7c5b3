//! What clients saw: transactions with their times, outcomes and operations.

mod events;
mod read;
mod write;

use std::collections::HashMap;

pub use events::{write_edn, write_json_events};
pub use read::ReadError;
pub use write::Writer;

/// A key's number in a [`Keys`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

impl Key {
    /// For tables indexed by key.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The names of keys, each once.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, Key>,
}

impl Keys {
    /// The number of a name, a new one if the name is new.
    pub fn intern(&mut self, name: &str) -> Key {
        if let Some(key) = self.numbers.get(name) {
            return *key;
        }
        let key = Key(u32::try_from(self.names.len()).expect("fewer than 2^32 keys fit in memory"));
        self.names.push(name.into());
        self.numbers.insert(name.into(), key);
        key
    }

    /// A key's name.
    ///
    /// # Panics
    /// If the key is of another table.
    pub fn name(&self, key: Key) -> &str {
        &self.names[key.index()]
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// How a transaction ended, as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Told committed.
    Ok,
    /// Surely not applied.
    Fail,
    /// Unknown: a timeout, a lost connection, a killed node.
    Info,
}

/// One operation of a transaction. A key is a list or a register for a whole history, never both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Appends `value` to the list at `key`. A value goes to a key at most once in a history.
    Append {
        /// The list.
        key: Key,
        /// What is appended.
        value: i64,
    },
    /// Reads the list at `key`, this transaction's own earlier appends included.
    ReadList {
        /// The list.
        key: Key,
        /// What came back; an absent key is the empty list. `None` if the client never learned it.
        value: Option<Vec<i64>>,
    },
    /// Sets the register at `key`. A value goes to a key at most once in a history.
    Write {
        /// The register.
        key: Key,
        /// The new value.
        value: i64,
    },
    /// Reads the register at `key`, this transaction's own earlier write included.
    ReadReg {
        /// The register.
        key: Key,
        /// What came back, `Some(None)` for an absent key. `None` if the client never learned it.
        value: Option<Option<i64>>,
    },
}

impl Op {
    /// The key that the operation touches.
    pub fn key(&self) -> Key {
        match self {
            Op::Append { key, .. }
            | Op::ReadList { key, .. }
            | Op::Write { key, .. }
            | Op::ReadReg { key, .. } => *key,
        }
    }

    fn key_mut(&mut self) -> &mut Key {
        match self {
            Op::Append { key, .. }
            | Op::ReadList { key, .. }
            | Op::Write { key, .. }
            | Op::ReadReg { key, .. } => key,
        }
    }

    /// True for appends and writes.
    pub fn is_write(&self) -> bool {
        matches!(self, Op::Append { .. } | Op::Write { .. })
    }

    /// True for a read whose client never learned the value.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Op::ReadList { value: None, .. } | Op::ReadReg { value: None, .. })
    }

    /// True if the key is a list, false if it is a register.
    pub fn is_list(&self) -> bool {
        matches!(self, Op::Append { .. } | Op::ReadList { .. })
    }
}

/// One transaction, as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Txn {
    /// The client; it has at most one open transaction at a time, and none after an unknown outcome.
    pub process: u64,
    /// Taken just before the request was sent: ns, one monotonic clock for all clients.
    pub t0: u64,
    /// Taken just after the reply was read. `None` if there was no reply.
    pub t1: Option<u64>,
    /// How it ended.
    pub status: Status,
    /// The operations in program order.
    pub ops: Vec<Op>,
    /// Served by a follower from a snapshot: serializable, not necessarily the latest.
    pub snap: bool,
    /// Of a snapshot read that asked for freshness: all that ended before this moment has to be in it.
    pub since: Option<u64>,
    /// The place on its connection of one that was sent while others were under way there.
    pub place: Option<Place>,
}

/// A transaction's place among those of one connection, which sends them without waiting for the replies.
///
/// Those of a connection take effect in the order of their numbers: whoever records a place has been promised that. Each has a
/// [`process`](Txn::process) of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub connection: u64,
    /// Which of its requests.
    pub number: u64,
}

/// A recorded run: transactions in any order, and the names of their keys.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The names of the keys in `txns`.
    pub keys: Keys,
    /// The transactions; a transaction's index here is its id in verdicts.
    pub txns: Vec<Txn>,
}

impl History {
    /// No transactions yet.
    pub fn new() -> History {
        History::default()
    }

    /// Adds a transaction whose keys are of this history's table; returns its id.
    pub fn push(&mut self, txn: Txn) -> usize {
        self.txns.push(txn);
        self.txns.len() - 1
    }

    /// Adds the transactions of another recorder, with a key table of its own.
    pub fn absorb(&mut self, other: History) {
        let History { keys, txns } = other;
        let renamed: Vec<Key> = keys.names.iter().map(|name| self.keys.intern(name)).collect();
        self.txns.extend(txns.into_iter().map(|mut txn| {
            txn.ops.iter_mut().for_each(|op| *op.key_mut() = renamed[op.key().index()]);
            txn
        }));
    }
}
