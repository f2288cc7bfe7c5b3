//! What simulated clients ask for: drawn operations, over keys that are left for fresh ones after enough writes.

use std::collections::{BTreeMap, BTreeSet};

use highwater_seam::Nanos;

use crate::library::blobs::{KeyLength, key_bytes, key_number};
use crate::library::{ACCOUNTS, OPENING, Op, TOGGLE_LISTS};
use crate::plan::{Busy, Load};
use highwater_core::Random;

/// What lives under keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    List,
    Rows,
    Register,
    Blob,
}

impl Kind {
    /// A key's name in a history.
    pub(super) fn name(self, key: u32) -> String {
        let letter = match self {
            Kind::List => 'l',
            Kind::Rows => 's',
            Kind::Register => 'x',
            Kind::Blob => 'b',
        };
        format!("{letter}{key}")
    }
}

/// Draws transactions.
pub struct Work {
    load: Load,
    workers: u16,
    values: u32,
    /// Bytes of blobs that may yet be written, and the largest so far.
    bytes_left: u64,
    pub(super) largest: u32,
    /// Per kind of list and slot: the key in use, and how many appends it has had.
    slots: BTreeMap<(Kind, u32), (u32, u32)>,
    next_key: u32,
    toggles: u32,
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
            bytes_left: load.sizes.total,
            largest: 0,
            slots: BTreeMap::new(),
            next_key: 0,
            toggles: 0,
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
            (0, true) => Op::Read(self.key(Kind::List, slot, false, random)),
            (0, false) => Op::Append(self.key(Kind::List, slot, true, random), self.value()),
            (1, true) => Op::Scan(self.key(Kind::Rows, slot, false, random)),
            (1, false) => Op::AddRow(self.key(Kind::Rows, slot, true, random), self.value()),
            (2, true) => Op::Get(self.key(Kind::Register, slot, false, random)),
            (2, false) => Op::Set(self.key(Kind::Register, slot, true, random), self.value()),
            // Toggles keep their keys, so that tombstones come and go; their lists are short of a few hundred.
            (3, true) => Op::Peek(0, self.load.keys),
            (3, false) => {
                // Where scans look at toggles alone keys come and go once, and leave no trace.
                let slot = if self.load.mix.glances > 0 { self.pass_on_toggle() } else { slot };
                self.used.insert((Kind::List, TOGGLE_LISTS + slot));
                Op::Toggle(slot, self.value())
            }
            (4, true) => Op::Total,
            (4, false) => {
                let account = |random: &mut Random| random.below(ACCOUNTS.into()) as u32;
                let (from, to) = (account(random), account(random));
                Op::Transfer(from, to, 1 + random.below(u64::from(OPENING) / 2) as u32)
            }
            (7, _) => Op::Glance(0, TOGGLE_LISTS),
            (6, true) => Op::Weigh(self.key(Kind::Blob, slot, false, random)),
            (6, false) => {
                let key = self.key(Kind::Blob, slot, true, random);
                let size = self.size(random, key_bytes(key) as u64);
                Op::Fill(key, self.value(), size)
            }
            _ => Op::Audit(self.value()),
        }
    }

    /// A blob's size: mostly small, then of any number of bits alike, now and then the largest. Few bytes once the sum is
    /// used up.
    fn size(&mut self, random: &mut Random, key: u64) -> u32 {
        let largest = self.load.sizes.largest;
        let bits = |most: u32, random: &mut Random| {
            let below = 1u64 << random.below(u64::from(most) + 1);
            (below + random.below(below)).min(largest.into()) as u32
        };
        let size = match random.below(64) {
            // Small ones alone would not fill anything.
            0..32 if self.load.sizes.memory > 0 => 1 + random.below(largest.into()) as u32,
            0 => largest - random.below(2).min(u64::from(largest) - 1) as u32,
            1..9 => bits(largest.ilog2(), random),
            _ => bits(largest.ilog2().min(7), random),
        };
        let size = if u64::from(size) + key > self.bytes_left { 1 + random.below(8) as u32 } else { size };
        self.bytes_left = self.bytes_left.saturating_sub(u64::from(size) + key);
        self.largest = self.largest.max(size);
        size
    }

    /// The key of a slot; a fresh one after enough writes.
    fn key(&mut self, kind: Kind, slot: u32, writes: bool, random: &mut Random) -> u32 {
        let (key, count) = match self.slots.get(&(kind, slot)) {
            Some((key, count)) if !writes => (*key, *count),
            Some((key, count)) if *count < self.load.appends_per_key => (*key, count + 1),
            _ => (self.fresh_key(kind, random), u32::from(writes)),
        };
        self.slots.insert((kind, slot), (key, count));
        self.used.insert((kind, key));
        key
    }

    /// Each key twice, one after the other.
    fn pass_on_toggle(&mut self) -> u32 {
        self.toggles += 1;
        (self.toggles - 1) / 2
    }

    fn fresh_key(&mut self, kind: Kind, random: &mut Random) -> u32 {
        let fresh = self.next_key;
        self.next_key += 1;
        if kind != Kind::Blob {
            return fresh;
        }
        let length = match random.below(32) {
            0 if self.bytes_left > 4 << 20 => KeyLength::Longest,
            1..4 => KeyLength::Medium,
            _ => KeyLength::Short,
        };
        key_number(fresh, length)
    }

    fn value(&mut self) -> u32 {
        self.values += 1;
        self.values
    }

    /// One small request for each worker: proof of progress. It only reads where memory may have ended.
    pub(super) fn probes(&mut self) -> Vec<Vec<Op>> {
        let full = self.load.sizes.memory > 0;
        (0..self.workers).map(|_| vec![if full { Op::Total } else { Op::Audit(self.value()) }]).collect()
    }

    /// A request that writes a key and deletes it: one that no other toggles, so it is absent before. It only reads where memory may have ended.
    pub(super) fn last_delete(&mut self) -> Vec<Vec<Op>> {
        if self.load.sizes.memory > 0 {
            return vec![vec![Op::Total]];
        }
        vec![(0..2).map(|_| Op::Toggle(TOGGLE_LISTS - 1, self.value())).collect()]
    }

    /// Reads of every key that was ever used, in requests of a few.
    pub fn last_reads(&self) -> Vec<Vec<Op>> {
        let reads = self.used.iter().map(|(kind, key)| match kind {
            Kind::List => Op::Read(*key),
            Kind::Rows => Op::Scan(*key),
            Kind::Register => Op::Get(*key),
            Kind::Blob => Op::Weigh(*key),
        });
        let all: Vec<Op> = reads.chain([Op::Total, Op::Peek(0, self.load.keys)]).collect();
        all.chunks(8).map(<[Op]>::to_vec).collect()
    }
}
