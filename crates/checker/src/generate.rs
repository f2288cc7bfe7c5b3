//! Random histories that are right by construction: a serial execution, seen by clients whose transactions overlap.
//!
//! Each transaction takes effect at one instant between its beginning and its end; those instants are the serial order. A
//! snapshot read takes the state of an earlier instant. The same seed gives the same history.

use crate::history::{History, Key, Op, Status, Txn};

/// Splitmix64: a seed in, numbers out.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(limit)) >> 64) as u64
    }

    /// True in `share` of the cases.
    pub fn chance(&mut self, share: f64) -> bool {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64 <= share && share > 0.0
    }
}

/// What a generated history looks like.
#[derive(Clone, Debug)]
pub struct Shape {
    /// How many transactions, those that read everything at the end not counted.
    pub txns: usize,
    /// Clients at work at one time.
    pub clients: usize,
    /// Keys in use at one time.
    pub live_keys: usize,
    /// Operations of a transaction, at most.
    pub ops: u64,
    /// Share of keys that are registers; the others are lists.
    pub registers: f64,
    /// Share of transactions that abort.
    pub fail: f64,
    /// Share of transactions of unknown outcome; half of them happen.
    pub info: f64,
    /// Share of transactions that are snapshot reads.
    pub snap: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            txns: 1000,
            clients: 16,
            live_keys: 20,
            ops: 8,
            registers: 0.0,
            fail: 0.02,
            info: 0.02,
            snap: 0.1,
        }
    }
}

/// A key and all its versions: the instant of each, and the value.
struct Track {
    key: Key,
    register: bool,
    /// A key is retired after so many versions.
    full: usize,
    versions: Vec<(u64, i64)>,
}

struct Client {
    process: u64,
    /// When its transaction begins.
    t0: u64,
    /// When it takes effect.
    at: u64,
}

struct Generator<'a> {
    shape: &'a Shape,
    random: Random,
    history: History,
    tracks: Vec<Track>,
    /// Indexes into `tracks`.
    live: Vec<usize>,
    next_value: i64,
}

/// Makes a history.
pub fn generate(seed: u64, shape: &Shape) -> History {
    let random = Random::new(seed);
    let mut generator =
        Generator { shape, random, history: History::new(), tracks: vec![], live: vec![], next_value: 0 };
    for _ in 0..shape.live_keys {
        let fresh = generator.fresh_key();
        generator.live.push(fresh);
    }
    let mut clients: Vec<Client> =
        (0..shape.clients as u64).map(|process| Client { process, t0: 0, at: 0 }).collect();
    clients.iter_mut().for_each(|client| generator.schedule(client, 1));
    let mut next_process = shape.clients as u64;
    for _ in 0..shape.txns {
        let next = (0..clients.len()).min_by_key(|client| clients[*client].at).expect("a client at least");
        let client = &mut clients[next];
        let end = client.at + 1 + generator.random.below(1_000_000);
        let txn = generator.transaction(client, end);
        if txn.status == Status::Info {
            client.process = next_process;
            next_process += 1;
        }
        generator.history.push(txn);
        generator.schedule(client, end);
    }
    let quiet = clients.iter().map(|client| client.at + 2_000_000).max().unwrap_or(0);
    generator.read_everything(next_process, quiet);
    generator.history
}

impl Generator<'_> {
    /// A client's next transaction begins at `from` or soon after.
    fn schedule(&mut self, client: &mut Client, from: u64) {
        client.t0 = from + self.random.below(100_000);
        client.at = client.t0 + 1 + self.random.below(1_000_000);
    }

    fn fresh_key(&mut self) -> usize {
        let register = self.random.chance(self.shape.registers);
        let key = self.history.keys.intern(&format!("k{}", self.tracks.len()));
        let full = 32 + self.random.below(97) as usize;
        self.tracks.push(Track { key, register, full, versions: vec![] });
        self.tracks.len() - 1
    }

    /// One transaction takes effect, or doesn't.
    fn transaction(&mut self, client: &Client, end: u64) -> Txn {
        let shape = self.shape;
        let status = match () {
            () if self.random.chance(shape.fail) => Status::Fail,
            () if self.random.chance(shape.info) => Status::Info,
            () => Status::Ok,
        };
        let snap = status == Status::Ok && self.random.chance(shape.snap);
        let happens = status == Status::Ok || (status == Status::Info && self.random.chance(0.5));
        let seen = if snap { client.at.saturating_sub(self.random.below(5_000_000)) } else { client.at };
        // Read-only, write-only and mixed ones.
        let writes = [0.0, 1.0, 0.5][self.random.below(3) as usize];
        let mut ops = Vec::new();
        for _ in 0..=self.random.below(shape.ops) {
            let slot = self.random.below(self.live.len() as u64) as usize;
            let at = self.live[slot];
            if snap || !self.random.chance(writes) {
                ops.push(self.read(at, seen, status == Status::Ok));
                continue;
            }
            self.next_value += 1;
            let (track, value) = (&mut self.tracks[at], self.next_value);
            let key = track.key;
            ops.push(if track.register { Op::Write { key, value } } else { Op::Append { key, value } });
            if happens {
                track.versions.push((client.at, value));
                if track.versions.len() >= track.full {
                    self.live[slot] = self.fresh_key();
                }
            }
        }
        let t1 = (status != Status::Info).then_some(end);
        Txn { process: client.process, t0: client.t0, t1, status, ops, snap, since: None, place: None }
    }

    fn read(&self, at: usize, seen: u64, told: bool) -> Op {
        let Track { key, register, versions, .. } = &self.tracks[at];
        let visible = &versions[..versions.partition_point(|(time, _)| *time <= seen)];
        match register {
            true => Op::ReadReg { key: *key, value: told.then(|| visible.last().map(|(_, value)| *value)) },
            false => Op::ReadList {
                key: *key,
                value: told.then(|| visible.iter().map(|(_, value)| *value).collect()),
            },
        }
    }

    /// Reads every key when all else is over.
    fn read_everything(&mut self, process: u64, from: u64) {
        for (number, keys) in (0..self.tracks.len()).collect::<Vec<_>>().chunks(8).enumerate() {
            let t0 = from + 2_000 * number as u64;
            let ops = keys.iter().map(|at| self.read(*at, t0, true)).collect();
            self.history.push(Txn {
                process,
                t0,
                t1: Some(t0 + 1_000),
                status: Status::Ok,
                ops,
                snap: false,
                since: None,
                place: None,
            });
        }
    }
}
