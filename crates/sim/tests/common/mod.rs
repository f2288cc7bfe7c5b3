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
use std::fmt::Write as _;
use std::ops::{Bound, ControlFlow};

use highwater_core::{
    Abort, Direction, Incarnation, IndexKind, KeyKind, Library, NodeId, Outcome, Procedure, Registry,
    TableId, TableSpec, Transaction, View,
};
use highwater_engines::{EngineKind, Nanos, Options, Role, Status, Token};
use highwater_sim::{World, WorldOptions};

pub const MS: Nanos = 1_000_000;
const LISTS: TableId = TableId(0);
const SCRATCH: TableId = TableId(1);
const PURSES: TableId = TableId(2);
const COINS: TableId = TableId(3);
/// Accounts whose balances add up to nothing.
const ACCOUNTS: u64 = 8;

/// The library of these tests.
#[derive(Clone, Copy, Debug)]
pub struct ListLibrary;

impl Library for ListLibrary {
    fn tables(&self) -> Vec<TableSpec> {
        vec![
            TableSpec { name: "lists", keys: KeyKind::U64, index: IndexKind::Hash },
            TableSpec { name: "scratch", keys: KeyKind::U64, index: IndexKind::Ordered },
            TableSpec { name: "purses", keys: KeyKind::U64, index: IndexKind::Hash },
            TableSpec { name: "coins", keys: KeyKind::U64, index: IndexKind::Ordered },
        ]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Step>();
        registry.register::<Toggle>();
        registry.register::<Pay>();
        registry.register::<Audit>();
    }
}

/// Arguments: value u32, count of lists to read u8, the lists (u8 each), the lists to append to (u8 each). Reply: per
/// list, read ones first, its length u32 and its values before the append.
struct Step;

impl Procedure for Step {
    const NAME: &'static str = "list.step";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let reads = args[4] as usize;
        for (at, list) in args[5..].iter().enumerate() {
            let key = u64::from(*list).to_be_bytes();
            let mut values = tx.get(LISTS, &key)?.unwrap_or_default().to_vec();
            reply.extend_from_slice(&(values.len() as u32 / 4).to_le_bytes());
            reply.extend_from_slice(&values);
            if at >= reads {
                values.extend_from_slice(&args[..4]);
                tx.put(LISTS, &key, &values)?;
            }
        }
        Ok(())
    }
}

/// Inserts a key, or deletes it if it is there: tombstones come and go. Argument: key u8.
struct Toggle;

impl Procedure for Toggle {
    const NAME: &'static str = "list.toggle";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let key = u64::from(args[0]).to_be_bytes();
        if !tx.delete(SCRATCH, &key)? {
            tx.insert(SCRATCH, &key, b"here")?;
        }
        Ok(())
    }
}

/// Moves money between two accounts, which both tables keep. Balances may be negative; an account with nothing in it is
/// no row. Arguments: from u8, to u8, amount u8.
struct Pay;

impl Procedure for Pay {
    const NAME: &'static str = "list.pay";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let amount = i64::from(args[2]);
        for (account, change) in [(args[0], -amount), (args[1], amount)] {
            let key = u64::from(account).to_be_bytes();
            for table in [PURSES, COINS] {
                match tx.get(table, &key)?.map_or(0, balance) + change {
                    0 => drop(tx.delete(table, &key)?),
                    now => tx.put(table, &key, &now.to_le_bytes())?,
                }
            }
        }
        Ok(())
    }
}

/// Adds all balances up, four times: what the purses hold, what the coins hold by key, and by scans both ways. Reply: the
/// sums, i64 each, and how many rows each found, u64.
struct Audit;

impl Procedure for Audit {
    const NAME: &'static str = "list.audit";

    fn run<T: Transaction>(tx: &mut T, _: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let mut found = Vec::new();
        for table in [PURSES, COINS] {
            let (mut sum, mut rows) = (0, 0u64);
            for account in 0..ACCOUNTS {
                if let Some(value) = tx.get(table, &account.to_be_bytes())? {
                    (sum, rows) = (sum + balance(value), rows + 1);
                }
            }
            found.push((sum, rows));
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let (mut sum, mut rows) = (0, 0u64);
            tx.scan(COINS, (Bound::Unbounded, Bound::Unbounded), direction, |_, value| {
                (sum, rows) = (sum + balance(value), rows + 1);
                ControlFlow::Continue(())
            })?;
            found.push((sum, rows));
        }
        for (sum, rows) in found {
            reply.extend_from_slice(&sum.to_le_bytes());
            reply.extend_from_slice(&rows.to_le_bytes());
        }
        Ok(())
    }
}

fn balance(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().expect("eight bytes"))
}

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
    options.snapshot_age = 3 * MS;
}

/// The same with a pipeline of one and hardly any log kept.
pub fn tiny(options: &mut Options) {
    small(options);
    options.pipeline_entries = 1;
    options.max_in_flight_requests = 4;
    options.max_in_flight_bytes = 2 << 10;
    options.log_retain_bytes = 2 << 10;
    options.snapshot_age = 0;
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
        let options = WorldOptions { seed, engine: EngineKind::Rolis, nodes, workers, tune: tune.into() };
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
        let mut text = String::new();
        let skip = self.world.log.len().saturating_sub(60);
        for (at, node, what) in &self.world.log[skip..] {
            let _ = writeln!(text, "{:>9.3} ms {node} {what}", *at as f64 / MS as f64);
        }
        for id in self.world.ids() {
            let _ = writeln!(text, "{id}: {:?}", self.world.status(id));
            for worker in self.world.replica(id).map_or(&[][..], |replica| &replica.workers) {
                let _ = writeln!(text, "  {}", worker.describe());
            }
        }
        text
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
        let leads = |id: &NodeId| self.world.status(*id).is_some_and(|status| status.role == Role::Leader);
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
                Outcome::RolledBack | Outcome::BadRequest => "other",
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

    /// Whether everyone votes, has a store, and has applied what the leader has.
    pub fn settled(&self) -> bool {
        let world = &self.world;
        let Some(at) = world.leader().and_then(|leader| world.status(leader)) else { return false };
        world.ids().all(|id| {
            world.status(id).is_some_and(|status| {
                let voter =
                    at.members.iter().any(|m| m.node == id && m.voter && m.incarnation == status.incarnation);
                let same = status.streams.iter().zip(&at.streams);
                voter
                    && status.epoch == at.epoch
                    && status.copying_bytes.is_none()
                    && same
                        .clone()
                        .all(|(own, leads)| own.applied == leads.accepted && leads.decided == leads.accepted)
            })
        })
    }

    /// Whether everyone votes and has a store: so that one may be killed.
    pub fn whole(&self) -> bool {
        let world = &self.world;
        let Some(at) = world.leader().and_then(|leader| world.status(leader)) else { return false };
        world.ids().all(|id| {
            world.status(id).is_some_and(|status| {
                status.copying_bytes.is_none()
                    && at
                        .members
                        .iter()
                        .any(|m| m.node == id && m.voter && m.incarnation == status.incarnation)
            })
        })
    }

    /// The final list on a node.
    pub fn list(&self, id: NodeId, list: u8) -> Vec<u32> {
        let store = self.world.replica(id).expect("the node is up").controller.store();
        numbers(&store.get(LISTS, &u64::from(list).to_be_bytes()).unwrap_or_default())
    }

    /// Lets everything settle, then compares what the clients were told with what is there, on every node.
    pub fn verify(&mut self) {
        self.world.calm();
        for id in self.world.ids().filter(|id| !self.world.is_up(*id)).collect::<Vec<_>>() {
            self.world.start(id);
        }
        self.run(50 * MS);
        self.wait_for(5000 * MS, "all replicas converge", Lists::settled);
        self.run(50 * MS);
        self.wait_for(5000 * MS, "all replicas converge again", Lists::settled);
        // Service goes on.
        let leader = self.world.leader().expect("settled worlds have one");
        let last = (0..self.workers)
            .filter_map(|worker| self.ask(leader, worker, &[0, 1], &[2]))
            .collect::<Vec<_>>();
        assert_eq!(last.len(), self.workers as usize, "a settled leader takes requests\n{}", self.story());
        let served = |lists: &Lists| last.iter().all(|token| lists.acknowledged(*token));
        self.wait_for(1000 * MS, "a settled cluster serves", served);
        self.run(50 * MS);
        self.wait_for(5000 * MS, "all replicas converge at the end", Lists::settled);
        let digest = |id: NodeId| self.world.replica(id).expect("settled").controller.store().digest();
        for id in self.world.ids() {
            assert_eq!(digest(id), digest(NodeId(0)), "{id} differs\n{}", self.story());
        }
        self.check_history();
        self.check_leaders();
    }

    /// An epoch has one leader, ever.
    fn check_leaders(&self) {
        let mut leaders: BTreeMap<&str, NodeId> = BTreeMap::new();
        for (_, node, said) in &self.world.log {
            if let Some(epoch) = said.strip_prefix("leading ").and_then(|said| said.split(' ').next()) {
                let first = *leaders.entry(epoch).or_insert(*node);
                assert_eq!(first, *node, "two led {epoch}\n{}", self.story());
            }
        }
    }

    fn check_history(&self) {
        let finals: Vec<Vec<u32>> = (0..self.lists).map(|list| self.list(NodeId(0), list)).collect();
        for (list, values) in finals.iter().enumerate() {
            let once: BTreeSet<u32> = values.iter().copied().collect();
            assert_eq!(once.len(), values.len(), "list {list} holds a value twice\n{}", self.story());
        }
        let acknowledged: Vec<(&Asked, Nanos, &Vec<Vec<u32>>)> =
            self.asked.values().filter_map(|a| a.seen.as_ref().map(|(at, seen)| (a, *at, seen))).collect();
        for (asked, _, seen) in &acknowledged {
            for (at, (list, values)) in asked.reads.iter().chain(&asked.appends).zip(*seen).enumerate() {
                let whole = &finals[*list as usize];
                assert!(
                    whole.starts_with(values),
                    "{asked:?} saw in list {list} what was lost; finally {whole:?}\n{}",
                    self.story()
                );
                if at >= asked.reads.len() {
                    assert_eq!(
                        whole.get(values.len()),
                        Some(&asked.value),
                        "{asked:?} was acknowledged and lost in list {list}: {whole:?}\n{}",
                        self.story()
                    );
                }
            }
        }
        self.check_order(&finals, &acknowledged);
    }

    /// Puts all that took effect into one order that respects the lists and real time, or fails.
    ///
    /// Nodes: the acknowledged, and those of unknown outcome whose value is there. Per list: the appends in order, and each
    /// reader between the append that it saw last and the next. Real time goes through a chain of instants, so that it takes
    /// few edges. Reads on snapshots have an order in real time only among those of one replica.
    fn check_order(&self, finals: &[Vec<u32>], acknowledged: &[(&Asked, Nanos, &Vec<Vec<u32>>)]) {
        let by_value: BTreeMap<u32, usize> =
            acknowledged.iter().enumerate().map(|(at, (asked, _, _))| (asked.value, at)).collect();
        let mut ids = by_value.clone();
        let mut nodes = acknowledged.len();
        for value in finals.iter().flatten() {
            ids.entry(*value).or_insert_with(|| {
                nodes += 1;
                nodes - 1
            });
        }
        let starts: BTreeMap<u32, Nanos> = self.asked.values().map(|asked| (asked.value, asked.at)).collect();
        let mut edges: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        let ends: BTreeMap<u32, Nanos> =
            acknowledged.iter().map(|(asked, end, _)| (asked.value, *end)).collect();
        let replicas: BTreeMap<u32, _> =
            acknowledged.iter().map(|(asked, _, _)| (asked.value, asked.snapshot_of)).collect();
        let kinds: BTreeSet<_> = replicas.values().copied().chain([None]).collect();
        for kind in kinds {
            let of_kind: Vec<(u32, usize)> = ids
                .iter()
                .filter(|(value, _)| replicas.get(value).copied().flatten() == kind)
                .map(|(value, at)| (*value, *at))
                .collect();
            // Instants, in order; instant i has the id `first + i`.
            let first = edges.len();
            let instants: BTreeSet<Nanos> =
                of_kind.iter().filter_map(|(value, _)| ends.get(value).copied()).collect();
            let instants: Vec<Nanos> = instants.into_iter().collect();
            edges.resize(first + instants.len(), Vec::new());
            for at in 1..instants.len() {
                edges[first + at - 1].push(first + at);
            }
            for (value, at) in of_kind {
                if let Some(end) = ends.get(&value) {
                    edges[at].push(first + instants.binary_search(end).expect("listed"));
                }
                // The last instant before it was asked.
                let before = instants.partition_point(|instant| *instant < starts[&value]);
                if before > 0 {
                    edges[first + before - 1].push(at);
                }
            }
        }
        for list in finals {
            for pair in list.windows(2) {
                edges[ids[&pair[0]]].push(ids[&pair[1]]);
            }
        }
        for (at, (asked, _, seen)) in acknowledged.iter().enumerate() {
            for (list, values) in asked.reads.iter().chain(&asked.appends).zip(*seen) {
                if let Some(last) = values.last() {
                    edges[ids[last]].push(at);
                }
                if let Some(next) = finals[*list as usize].get(values.len())
                    && ids[next] != at
                {
                    edges[at].push(ids[next]);
                }
            }
        }
        let mut into = vec![0; edges.len()];
        edges.iter().flatten().for_each(|to| into[*to] += 1);
        let mut ready: Vec<usize> = (0..edges.len()).filter(|at| into[*at] == 0).collect();
        let mut ordered = 0;
        while let Some(at) = ready.pop() {
            ordered += 1;
            for to in &edges[at] {
                into[*to] -= 1;
                if into[*to] == 0 {
                    ready.push(*to);
                }
            }
        }
        let stuck: Vec<&Asked> =
            acknowledged.iter().enumerate().filter(|(at, _)| into[*at] > 0).map(|(_, a)| a.0).collect();
        assert_eq!(ordered, edges.len(), "no serial order in real time exists: {stuck:#?}\n{}", self.story());
    }
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|chunk| u32::from_le_bytes(chunk.try_into().expect("four bytes"))).collect()
}

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// One run: what it is made of and what befalls it follow from the seed.
pub fn faults(seed: u64) -> Lists {
    faults_with(seed, if seed.is_multiple_of(3) { tiny } else { small }, |_| {})
}

/// The same with other settings, and something prepared.
pub fn faults_with(seed: u64, tune: fn(&mut Options), prepare: impl FnOnce(&mut Lists)) -> Lists {
    let nodes = if seed.is_multiple_of(5) { 5 } else { 3 };
    let workers = 1 + (seed % 4) as u16;
    let mut lists = Lists::start(seed, nodes, workers, tune);
    prepare(&mut lists);
    let mut cuts_until = 0;
    let mut down: Vec<NodeId> = Vec::new();
    let mut back_at = 0;
    let hardness = 10 + 10 * (seed % 5);
    for _ in 0..500 {
        lists.load();
        if lists.world.random.one_in(40) {
            // Some workers fall silent, others wake.
            let count = 1 + lists.world.random.below(workers.into()) as usize;
            lists.busy = (0..count).map(|_| lists.world.random.below(workers.into()) as u16).collect();
        }
        let length = lists.world.random.between(MS / 10, MS);
        lists.run(length);
        if cuts_until != 0 && lists.world.now > cuts_until {
            lists.world.network.heal();
            cuts_until = 0;
        }
        if back_at != 0 && lists.world.now > back_at {
            down.drain(..).for_each(|id| lists.world.start(id));
            back_at = 0;
        }
        if lists.world.random.one_in(hardness) {
            fault(&mut lists, nodes, &mut cuts_until, &mut down, &mut back_at);
        }
    }
    lists.world.network.heal();
    lists.verify();
    lists
}

fn fault(lists: &mut Lists, nodes: u8, cuts_until: &mut u64, down: &mut Vec<NodeId>, back_at: &mut u64) {
    let leader = lists.world.leader();
    let random = &mut lists.world.random;
    let any = NodeId(random.below(nodes.into()) as u8);
    // Leaders have the more interesting accidents.
    let victim = leader.filter(|_| random.one_in(2)).unwrap_or(any);
    let other = NodeId(random.below(nodes.into()) as u8);
    let soon = lists.world.now + random.between(MS, 120 * MS);
    match random.below(7) {
        // Only while everybody votes: memory is never lost beyond a minority.
        0 if down.is_empty() && lists.whole() => {
            lists.world.kill(victim);
            down.push(victim);
            *back_at = soon;
        }
        // A node that nobody counts may die at any time: in the middle of its copy, say.
        1 if down.is_empty() => {
            let learner = lists.world.ids().find(|id| {
                lists
                    .world
                    .status(*id)
                    .is_some_and(|status| status.incarnation.0 != 0 && status.role == Role::Learner)
            });
            let voters = |id: NodeId| {
                let votes = |status: Status| {
                    let own = lists.world.status(id).map(|own| own.incarnation);
                    status.members.iter().any(|member| member.node == id && Some(member.incarnation) == own)
                };
                lists.world.ids().filter_map(|id| lists.world.status(id)).any(votes)
            };
            if let Some(learner) = learner.filter(|id| !voters(*id))
                && lists.said("has caught up") == lists.said("leading")
            {
                lists.world.kill(learner);
                down.push(learner);
                *back_at = soon;
            }
        }
        2 => lists.world.pause(victim, soon - lists.world.now),
        3 if victim != other => lists.world.break_links(victim, other),
        4 => {
            for id in lists.world.ids().filter(|id| *id != victim) {
                lists.world.network.cut(id, victim);
                lists.world.network.cut(victim, id);
            }
            *cuts_until = soon;
        }
        5 if victim != other => {
            lists.world.network.cut(victim, other);
            *cuts_until = soon;
        }
        6 => {
            for id in lists.world.ids().filter(|id| *id != victim) {
                lists.world.network.cut(victim, id);
            }
            *cuts_until = soon;
        }
        _ => {}
    }
}
