//! What simulated clients ask for: drawn operations, over keys that are left for fresh ones after enough writes.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engines::Nanos;

use crate::library::{ACCOUNTS, OPENING, Op, TOGGLE_LISTS};
use crate::plan::{Busy, Load};
use crate::random::Random;

/// What lives under keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    List,
    Rows,
    Register,
}

impl Kind {
    /// A key's name in a history.
    pub(super) fn name(self, key: u32) -> String {
        let letter = match self {
            Kind::List => 'l',
            Kind::Rows => 's',
            Kind::Register => 'x',
        };
        format!("{letter}{key}")
    }
}

/// Draws transactions.
pub struct Work {
    load: Load,
    workers: u16,
    values: u32,
    /// Per kind of list and slot: the key in use, and how many appends it has had.
    slots: BTreeMap<(Kind, u32), (u32, u32)>,
    next_key: u32,
    busy: Vec<u16>,
    busy_until: Nanos,
    /// Keys that were ever used, for the reads at the end.
    used: BTreeSet<(Kind, u32)>,
}

impl Work {
    /// For so many workers; which of them are busy is drawn from `now` on.
    pub fn new(load: Load, workers: u16, now: Nanos) -> Work {
        Work {
            load,
            workers,
            values: 0,
            slots: BTreeMap::new(),
            next_key: 0,
            busy: (0..workers).collect(),
            busy_until: now,
            used: BTreeSet::new(),
        }
    }

    /// The worker that a client with this `home` asks.
    pub(super) fn worker(&mut self, random: &mut Random, now: Nanos, home: u16) -> u16 {
        let workers = u64::from(self.workers);
        match self.load.workers {
            Busy::Any => random.below(workers) as u16,
            Busy::Home => home,
            Busy::Few => {
                if now >= self.busy_until {
                    let count = 1 + random.below(workers);
                    self.busy = (0..count).map(|_| random.below(workers) as u16).collect();
                    self.busy_until = now + random.between(5_000_000, 60_000_000);
                }
                self.busy[random.below(self.busy.len() as u64) as usize]
            }
        }
    }

    /// A transaction's operations.
    pub fn ops(&mut self, random: &mut Random) -> Vec<Op> {
        let count = 1 + random.below(self.load.operations.into());
        (0..count).map(|_| self.op(random, self.load.read_percent)).collect()
    }

    /// What a snapshot read asks for: nothing that writes.
    pub fn reads(&mut self, random: &mut Random) -> Vec<Op> {
        let count = 1 + random.below(self.load.operations.into());
        let only_reads = |op: &Op| !matches!(op, Op::Audit(_));
        let mut ops: Vec<Op> = (0..count).map(|_| self.op(random, 100)).filter(only_reads).collect();
        if ops.is_empty() {
            ops.push(Op::Total);
        }
        ops
    }

    fn op(&mut self, random: &mut Random, read_percent: u8) -> Op {
        let weights = self.load.mix.weights();
        let mut at = random.below(weights.iter().map(|weight| u64::from(*weight)).sum());
        let mut kind = 0;
        while at >= u64::from(weights[kind]) {
            at -= u64::from(weights[kind]);
            kind += 1;
        }
        let slot = random.below(self.load.keys.into()) as u32;
        let reads = random.below(100) < u64::from(read_percent);
        match (kind, reads) {
            (0, true) => Op::Read(self.key(Kind::List, slot, false)),
            (0, false) => Op::Append(self.key(Kind::List, slot, true), self.value()),
            (1, true) => Op::Scan(self.key(Kind::Rows, slot, false)),
            (1, false) => Op::AddRow(self.key(Kind::Rows, slot, true), self.value()),
            (2, true) => Op::Get(self.key(Kind::Register, slot, false)),
            (2, false) => Op::Set(self.key(Kind::Register, slot, true), self.value()),
            // Toggles keep their keys, so that tombstones come and go; their lists are short of a few hundred.
            (3, true) => Op::Peek(0, self.load.keys),
            (3, false) => {
                self.used.insert((Kind::List, TOGGLE_LISTS + slot));
                Op::Toggle(slot, self.value())
            }
            (4, true) => Op::Total,
            (4, false) => {
                let account = |random: &mut Random| random.below(ACCOUNTS.into()) as u32;
                let (from, to) = (account(random), account(random));
                Op::Transfer(from, to, 1 + random.below(u64::from(OPENING) / 2) as u32)
            }
            _ => Op::Audit(self.value()),
        }
    }

    /// The key of a slot; a fresh one after enough writes.
    fn key(&mut self, kind: Kind, slot: u32, writes: bool) -> u32 {
        let fresh = self.next_key;
        let (key, count) = self.slots.entry((kind, slot)).or_insert((fresh, 0));
        if *key == fresh && *count == 0 {
            self.next_key += 1;
        }
        if writes {
            *count += 1;
            if *count > self.load.appends_per_key {
                (*key, *count) = (self.next_key, 1);
                self.next_key += 1;
            }
        }
        let key = *key;
        self.used.insert((kind, key));
        key
    }

    fn value(&mut self) -> u32 {
        self.values += 1;
        self.values
    }

    /// One small request for each worker: proof of progress.
    pub(super) fn probes(&mut self) -> Vec<Vec<Op>> {
        (0..self.workers).map(|_| vec![Op::Audit(self.value())]).collect()
    }

    /// Reads of every key that was ever used, in requests of a few.
    pub fn last_reads(&self) -> Vec<Vec<Op>> {
        let reads = self.used.iter().map(|(kind, key)| match kind {
            Kind::List => Op::Read(*key),
            Kind::Rows => Op::Scan(*key),
            Kind::Register => Op::Get(*key),
        });
        let all: Vec<Op> = reads.chain([Op::Total, Op::Peek(0, self.load.keys)]).collect();
        all.chunks(8).map(<[Op]>::to_vec).collect()
    }
}
