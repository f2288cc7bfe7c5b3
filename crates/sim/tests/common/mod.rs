//! Lists that grow: the strictest workload that a test can check in linear time.
//!
//! `list.step` reads some lists whole and appends one unique value to some others. So each reply tells exactly which appends
//! it saw and, by the lengths, where in every list it stands. After a run, [`Lists::verify`] compares all replies with the
//! final lists:
//!
//! - what an acknowledged transaction appended is in the final list, where its reply said; once;
//! - what it read is a prefix of the final list: nothing that was seen is ever lost, read-only transactions included;
//! - *strict serializability*: "came before" as the lists tell it (read this before that was appended, appended after that
//!   was read) together with real time (answered before the other was asked) has no cycle.

// Each test file uses its share.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

use highwater_core::{Incarnation, NodeId, Outcome};
use highwater_engines::EngineKind;
use highwater_seam::{Nanos, Options, Token};
use highwater_sim::{World, WorldOptions};

pub mod chaos;
pub mod cluster;
pub mod library;
mod verify;

use library::{ACCOUNTS, ListLibrary, balance};

pub const MS: Nanos = 1_000_000;

/// A transaction on lists, and how it ended.
#[derive(Clone, Debug)]
struct Asked {
    value: u32,
    reads: Vec<u8>,
    appends: Vec<u8>,
    at: Nanos,
    /// Of a read on a snapshot: which replica's, in which life.
    snapshot_of: Option<(NodeId, Incarnation)>,
    /// When, and per list what was there before.
    seen: Option<(Nanos, Vec<Vec<u32>>)>,
}

/// A world of lists, its clients, and what they know.
pub struct Lists {
    pub world: World<ListLibrary>,
    pub workers: u16,
    /// Lists that are used; few make conflicts.
    pub lists: u8,
    /// Requests go to these workers only; the others stay silent.
    pub busy: Vec<u16>,
    tokens: u64,
    values: u32,
    asked: BTreeMap<u64, Asked>,
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Whether [`load`](Lists::load) also reads snapshots on followers.
    pub reads_snapshots: bool,
    /// Requests of which a sum of nothing is expected.
    audits: BTreeSet<u64>,
    /// Sums that came.
    pub audited: u64,
    /// Rows that they found.
    pub rows_audited: u64,
}

/// Short timeouts, small limits.
pub fn small(options: &mut Options) {
    options.heartbeat = 5 * MS;
    options.election_timeout = 30 * MS;
    options.log_retain_bytes = 32 << 10;
    options.max_in_flight_bytes = 16 << 10;
    options.max_entry_bytes = 1 << 10;
    options.own.set("snapshot_age_us", 3000);
}

/// The same with a pipeline of one and hardly any log kept.
pub fn tiny(options: &mut Options) {
    small(options);
    options.pipeline_entries = 1;
    options.max_in_flight_requests = 4;
    options.max_in_flight_bytes = 2 << 10;
    options.log_retain_bytes = 2 << 10;
    options.own.set("snapshot_age_us", 0);
}

impl Lists {
    /// A world whose nodes are all started.
    pub fn start(seed: u64, nodes: u8, workers: u16, tune: fn(&mut Options)) -> Lists {
        Lists::prepared(seed, nodes, workers, tune, |_| {})
    }

    /// The same; the world is prepared before they start.
    pub fn prepared(
        seed: u64,
        nodes: u8,
        workers: u16,
        tune: fn(&mut Options),
        prepare: impl FnOnce(&mut World<ListLibrary>),
    ) -> Lists {
        Lists::on(EngineKind::Rolis, seed, nodes, workers, tune, prepare)
    }

    /// The same on another engine.
    pub fn on(
        engine: EngineKind,
        seed: u64,
        nodes: u8,
        workers: u16,
        tune: fn(&mut Options),
        prepare: impl FnOnce(&mut World<ListLibrary>),
    ) -> Lists {
        let options = WorldOptions { seed, engine, nodes, workers, tune: tune.into() };
        let mut lists = Lists {
            world: World::new(options, ListLibrary),
            workers,
            lists: 6,
            busy: (0..workers).collect(),
            tokens: 0,
            values: 0,
            asked: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            reads_snapshots: false,
            audits: BTreeSet::new(),
            audited: 0,
            rows_audited: 0,
        };
        prepare(&mut lists.world);
        for id in lists.world.ids() {
            lists.world.start(id);
        }
        lists.wait_for(2000 * MS, "a leader", |lists| lists.world.leader().is_some());
        lists
    }

    /// Lets time pass; takes what was answered.
    pub fn run(&mut self, length: Nanos) {
        let until = self.world.now + length;
        self.world.run_until(until);
        self.take_replies();
    }

    pub fn wait_for(&mut self, limit: Nanos, what: &str, mut holds: impl FnMut(&Lists) -> bool) {
        let deadline = self.world.now + limit;
        while !holds(self) {
            assert!(self.world.now < deadline, "{what} within {} ms\n{}", limit / MS, self.story());
            self.run(MS);
        }
    }

    /// The controllers' last words, every status and stream.
    pub fn story(&self) -> String {
        cluster::story(&self.world)
    }

    /// Whether a controller said this.
    pub fn said(&self, what: &str) -> usize {
        self.world.log.iter().filter(|(_, _, said)| said.contains(what)).count()
    }

    /// Submits one transaction; whether it was taken.
    pub fn ask(&mut self, to: NodeId, worker: u16, reads: &[u8], appends: &[u8]) -> Option<Token> {
        self.tokens += 1;
        self.values += 1;
        let token = Token(self.tokens);
        let mut args = self.values.to_le_bytes().to_vec();
        args.push(reads.len() as u8);
        args.extend_from_slice(reads);
        args.extend_from_slice(appends);
        let procedure = self.world.procedure("list.step");
        self.world.submit(to, worker, token, procedure, &args).ok()?;
        let (reads, appends) = (reads.to_vec(), appends.to_vec());
        let (value, at) = (self.values, self.world.now);
        self.asked.insert(token.0, Asked { value, reads, appends, at, snapshot_of: None, seen: None });
        Some(token)
    }

    /// Asks for lists as a snapshot of a replica shows them; whether it was taken.
    pub fn ask_snapshot(&mut self, to: NodeId, worker: u16, reads: &[u8]) -> Option<Token> {
        self.tokens += 1;
        self.values += 1;
        let (token, value, at) = (Token(self.tokens), self.values, self.world.now);
        let mut args = value.to_le_bytes().to_vec();
        args.push(reads.len() as u8);
        args.extend_from_slice(reads);
        let life = self.world.status(to)?.incarnation;
        let procedure = self.world.procedure("list.step");
        self.world.submit_snapshot(to, worker, token, procedure, &args).ok()?;
        let (reads, appends, snapshot_of) = (reads.to_vec(), Vec::new(), Some((to, life)));
        self.asked.insert(token.0, Asked { value, reads, appends, at, snapshot_of, seen: None });
        Some(token)
    }

    /// Asks for the sum of all balances, on a snapshot of a replica.
    pub fn audit_snapshot(&mut self, to: NodeId, worker: u16) -> Option<Token> {
        self.tokens += 1;
        let token = Token(self.tokens);
        let procedure = self.world.procedure("list.audit");
        self.world.submit_snapshot(to, worker, token, procedure, &[]).ok()?;
        self.audits.insert(token.0);
        Some(token)
    }

    /// Moves some money.
    pub fn pay(&mut self, leader: NodeId, worker: u16) {
        self.tokens += 1;
        let mut some = |below| self.world.random.below(below) as u8;
        let args = [some(ACCOUNTS), some(ACCOUNTS), some(4)];
        let procedure = self.world.procedure("list.pay");
        let _ = self.world.submit(leader, worker, Token(self.tokens), procedure, &args);
    }

    /// What a read saw.
    pub fn seen(&self, token: Token) -> Option<&Vec<Vec<u32>>> {
        self.asked.get(&token.0)?.seen.as_ref().map(|(_, seen)| seen)
    }

    /// How many reads on snapshots were answered.
    pub fn snapshots_read(&self) -> usize {
        self.asked.values().filter(|asked| asked.snapshot_of.is_some() && asked.seen.is_some()).count()
    }

    /// A few reads on each replica, and payments on those who believe to lead.
    fn load_snapshots(&mut self, leaders: &[NodeId]) {
        for leader in leaders {
            for _ in 0..self.world.random.below(3) {
                let worker = self.world.random.below(self.workers.into()) as u16;
                self.pay(*leader, worker);
            }
        }
        for id in self.world.ids() {
            let worker = self.world.random.below(self.workers.into()) as u16;
            match self.world.random.below(6) {
                0 => drop(self.audit_snapshot(id, worker)),
                1 | 2 => {
                    let count = 1 + self.world.random.below(u64::from(self.lists)) as u8;
                    let first = self.world.random.below(self.lists.into()) as u8;
                    let reads: Vec<u8> = (0..count).map(|at| (first + at) % self.lists).collect();
                    self.ask_snapshot(id, worker, &reads);
                }
                _ => {}
            }
        }
    }

    /// Whether the transaction was acknowledged.
    pub fn acknowledged(&self, token: Token) -> bool {
        self.asked.get(&token.0).is_some_and(|asked| asked.seen.is_some())
    }

    /// How many were.
    pub fn all_acknowledged(&self) -> usize {
        self.asked.values().filter(|asked| asked.seen.is_some()).count()
    }

    /// A few random requests to everyone who believes to lead.
    pub fn load(&mut self) {
        let leads = |id: &NodeId| self.world.status(*id).is_some_and(|status| status.leads());
        let leaders: Vec<NodeId> = self.world.ids().filter(leads).collect();
        if self.reads_snapshots {
            self.load_snapshots(&leaders);
        }
        for leader in leaders {
            for _ in 0..self.world.random.below(6) {
                let at = self.world.random.below(self.busy.len() as u64) as usize;
                let worker = self.busy[at];
                if self.world.random.one_in(6) {
                    self.tokens += 1;
                    let key = self.world.random.below(8) as u8;
                    let procedure = self.world.procedure("list.toggle");
                    let _ = self.world.submit(leader, worker, Token(self.tokens), procedure, &[key]);
                    continue;
                }
                let mut some = |most: u64| -> Vec<u8> {
                    let count = self.world.random.below(most + 1);
                    (0..count).map(|_| self.world.random.below(self.lists.into()) as u8).collect()
                };
                let (reads, mut appends) = (some(3), some(2));
                appends.sort_unstable();
                appends.dedup();
                if !reads.is_empty() || !appends.is_empty() {
                    self.ask(leader, worker, &reads, &appends);
                }
            }
        }
    }

    fn take_replies(&mut self) {
        for reply in std::mem::take(&mut self.world.replies) {
            let outcome = match reply.outcome {
                Outcome::Committed => "committed",
                Outcome::Unknown => "unknown",
                Outcome::Conflict => "conflict",
                Outcome::TooLarge => "too large",
                Outcome::OutOfMemory => "out of memory",
                Outcome::Denied => "denied",
                Outcome::RolledBack | Outcome::BadRequest | Outcome::DiskFull => "other",
            };
            *self.outcomes.entry(outcome).or_default() += 1;
            if reply.outcome != Outcome::Committed {
                continue;
            }
            if self.audits.remove(&reply.token.0) {
                let found: Vec<i64> = reply.bytes.chunks_exact(8).map(balance).collect();
                let even = found.chunks_exact(2).all(|pair| pair == [0, found[1]]);
                assert!(even, "n{:?} shows sums and rows {found:?}\n{}", reply.from, self.story());
                self.audited += 1;
                self.rows_audited += found[1] as u64;
                continue;
            }
            let Some(asked) = self.asked.get_mut(&reply.token.0) else { continue };
            assert!(asked.seen.is_none(), "one answer to one request");
            let mut rest = &reply.bytes[..];
            let mut seen = Vec::new();
            while !rest.is_empty() {
                let (length, behind) = rest.split_at(4);
                let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
                seen.push(numbers(&behind[..4 * length]));
                rest = &behind[4 * length..];
            }
            assert_eq!(seen.len(), asked.reads.len() + asked.appends.len());
            asked.seen = Some((reply.at, seen));
        }
    }
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|chunk| u32::from_le_bytes(chunk.try_into().expect("four bytes"))).collect()
}

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}
