//! Simulated clients: each has one open transaction at most, is impatient, and writes down what it saw.

use std::collections::{BTreeMap, BTreeSet};

use highwater_checker::{History, Op as Entry, Status, Txn};
use highwater_core::{NodeId, Outcome, ProcedureId};
use highwater_engines::{Nanos, Refusal, Token};

use crate::faults::Hand;
use crate::library::{self, ACCOUNTS, OPENING, Op, STEPS, Seen, SimLibrary, TOGGLE_LISTS};
use crate::plan::{Busy, Load};
use crate::random::Random;
use crate::world::{Refused, Reply, World};

/// A request or a reply takes at least this long, and up to so much more.
const HOP: (Nanos, Nanos) = (5_000, 60_000);
/// A client that was refused waits up to this long.
const REFUSED_WAIT: Nanos = 2_000_000;

/// A transaction, from its invocation on.
#[derive(Clone, Debug)]
struct Asked {
    client: usize,
    process: u64,
    ops: Vec<Op>,
    invoked: Nanos,
    /// How it ended, when, and what it saw; `None` while open, or forever.
    ended: Option<(Status, Nanos, Vec<Seen>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Thinks; then asks.
    Ask,
    /// Its request arrives at a node's worker.
    Arrive(u64, NodeId, u16),
    /// Hears no more of this request.
    GiveUp(u64),
}

struct Client {
    process: u64,
    /// Whom it believes to lead.
    aim: NodeId,
    home: u16,
    open: Option<u64>,
}

/// All clients of a run, and what they saw.
pub struct Clients {
    random: Random,
    load: Load,
    workers: u16,
    replicas: u8,
    think: Nanos,
    clients: Vec<Client>,
    steps: BTreeMap<(Nanos, u64), (usize, Step)>,
    seq: u64,
    processes: u64,
    values: u32,
    /// Per kind of list and slot: the key in use, and how many appends it has had.
    slots: BTreeMap<(Kind, u32), (u32, u32)>,
    next_key: u32,
    busy: Vec<u16>,
    busy_until: Nanos,
    left: u32,
    asked: BTreeMap<u64, Asked>,
    procedure: Option<ProcedureId>,
    /// Keys that were ever used, for the reads at the end.
    used: BTreeSet<(Kind, u32)>,
    /// What no database may do: found while listening.
    pub wrong: Option<String>,
    /// Mixes what clients saw: equal for equal runs.
    pub trace: u64,
    /// How often a request ended so.
    pub outcomes: BTreeMap<&'static str, u64>,
}

/// What lives under keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    List,
    Rows,
    Register,
}

impl Kind {
    fn name(self, key: u32) -> String {
        let letter = match self {
            Kind::List => 'l',
            Kind::Rows => 's',
            Kind::Register => 'x',
        };
        format!("{letter}{key}")
    }
}

impl Clients {
    /// Clients that begin now and spread their requests over `length`.
    pub fn new(load: Load, replicas: u8, workers: u16, seed: u64, now: Nanos, length: Nanos) -> Clients {
        let mut random = Random::new(seed ^ 0x00c1_1e27);
        let clients: Vec<Client> = (0..load.clients)
            .map(|at| Client {
                process: u64::from(at),
                aim: NodeId(random.below(replicas.into()) as u8),
                home: at % workers,
                open: None,
            })
            .collect();
        let think = length * u64::from(load.clients) / u64::from(load.transactions.max(1));
        let mut all = Clients {
            random,
            load,
            workers,
            replicas,
            think,
            processes: u64::from(load.clients),
            clients,
            steps: BTreeMap::new(),
            seq: 0,
            values: 0,
            slots: BTreeMap::new(),
            next_key: 0,
            busy: (0..workers).collect(),
            busy_until: now,
            left: load.transactions,
            asked: BTreeMap::new(),
            procedure: None,
            used: BTreeSet::new(),
            wrong: None,
            trace: 0,
            outcomes: BTreeMap::new(),
        };
        for at in 0..all.clients.len() {
            let start = now + all.random.below(all.think + 1);
            all.plan_step(start, at, Step::Ask);
        }
        all
    }

    /// When a client wants to do something next.
    pub fn next(&self) -> Option<Nanos> {
        self.steps.first_key_value().map(|((at, _), _)| *at)
    }

    /// No new transactions; those that are open may end.
    pub fn stop(&mut self) {
        self.left = 0;
    }

    /// Whether no transaction is open.
    pub fn quiet(&self) -> bool {
        self.clients.iter().all(|client| client.open.is_none())
    }

    /// Transactions that were asked for.
    pub fn asked(&self) -> u64 {
        self.asked.len() as u64
    }

    /// Transactions that were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.ok().count() as u64
    }

    /// Does what clients do up to now; takes the replies.
    pub fn act(&mut self, world: &mut World<SimLibrary>, hand: &Hand) {
        for reply in std::mem::take(&mut world.replies) {
            self.hear(&reply, hand);
        }
        for Refused { token, why, at } in std::mem::take(&mut world.refused) {
            let aim = self.clients[self.asked[&token.0].client].aim;
            self.refused(at, token.0, aim, why);
        }
        while let Some(entry) = self.steps.first_entry()
            && entry.key().0 <= world.now
        {
            let (client, step) = entry.remove();
            match step {
                Step::Ask => self.ask(world, client),
                Step::Arrive(token, node, worker) => self.arrive(world, hand, token, node, worker),
                Step::GiveUp(token) => self.give_up(world.now, client, token),
            }
        }
    }

    fn plan_step(&mut self, at: Nanos, client: usize, step: Step) {
        self.seq += 1;
        self.steps.insert((at, self.seq), (client, step));
    }

    fn hop(&mut self) -> Nanos {
        HOP.0 + self.random.below(HOP.1)
    }

    fn ask(&mut self, world: &World<SimLibrary>, client: usize) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let ops = self.draw_ops();
        let astray = self.load.astray > 0 && self.random.one_in(self.load.astray.into());
        if astray {
            self.clients[client].aim = self.any_node();
        }
        let worker = self.draw_worker(world.now, client);
        self.invoke(world.now, client, ops, worker);
    }

    fn any_node(&mut self) -> NodeId {
        NodeId(self.random.below(self.replicas.into()) as u8)
    }

    fn invoke(&mut self, now: Nanos, client: usize, ops: Vec<Op>, worker: u16) -> u64 {
        self.seq += 1;
        let token = self.seq;
        let Client { process, aim, .. } = self.clients[client];
        self.clients[client].open = Some(token);
        self.asked.insert(token, Asked { client, process, ops, invoked: now, ended: None });
        let hop = self.hop();
        self.plan_step(now + hop, client, Step::Arrive(token, aim, worker));
        self.plan_step(now + self.load.patience_ns, client, Step::GiveUp(token));
        token
    }

    fn arrive(&mut self, world: &mut World<SimLibrary>, hand: &Hand, token: u64, node: NodeId, worker: u16) {
        if hand.shuns(node) {
            return;
        }
        let procedure = *self.procedure.get_or_insert_with(|| world.procedure(STEPS));
        let args = library::encode(&self.asked[&token].ops);
        if let Err(refusal) = world.submit(node, worker, Token(token), procedure, &args) {
            self.refused(world.now, token, node, refusal);
        }
    }

    /// Nothing was done, and the client is told so.
    fn refused(&mut self, now: Nanos, token: u64, node: NodeId, refusal: Refusal) {
        let hop = self.hop();
        let asked = self.asked.get_mut(&token).expect("every token was asked");
        let (client, at) = (asked.client, now + hop);
        asked.ended = Some((Status::Fail, at, Vec::new()));
        self.count("refused");
        let aim = match refusal {
            Refusal::NotLeader { leader: Some(leader) } => leader,
            Refusal::Busy => node,
            Refusal::NotLeader { leader: None } | Refusal::NoQuorum => self.any_node(),
        };
        if self.clients[client].open == Some(token) {
            self.clients[client].aim = aim;
            let wait = self.random.below(REFUSED_WAIT);
            self.next_round(client, at + wait);
        }
    }

    fn hear(&mut self, reply: &Reply, hand: &Hand) {
        let (token, hop) = (reply.token.0, self.hop());
        self.mix(token);
        self.mix(reply.at);
        reply.bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
        let Some(asked) = self.asked.get_mut(&token) else {
            self.wrong = Some(format!("{:?} answered request {token}, which nobody made", reply.from));
            return;
        };
        if asked.ended.as_ref().is_some_and(|(status, _, _)| *status != Status::Info) {
            self.wrong = Some(format!("request {token} was answered twice: {asked:?}, then {reply:?}"));
            return;
        }
        let at = reply.at + hop;
        let (status, name) = match reply.outcome {
            Outcome::Committed => (Status::Ok, "committed"),
            Outcome::Unknown => (Status::Info, "unknown"),
            Outcome::Conflict => (Status::Fail, "conflict"),
            Outcome::RolledBack | Outcome::BadRequest => (Status::Fail, "rolled back"),
        };
        let seen = if status == Status::Ok { library::decode_reply(&reply.bytes) } else { Vec::new() };
        if status == Status::Ok && seen.len() != asked.ops.len() {
            self.wrong = Some(format!("a reply tells of {} operations: {asked:?}", seen.len()));
            return;
        }
        // We hear it even if the client has given up, or cannot be reached: more is known, and nothing false.
        asked.ended = Some((status, at, seen));
        let client = asked.client;
        self.count(name);
        if self.clients[client].open == Some(token) && !hand.shuns(reply.from.0) {
            if status == Status::Info {
                self.fresh_process(client);
            }
            let wait = self.random.below(2 * self.think + 1);
            self.next_round(client, at + wait);
        }
    }

    fn give_up(&mut self, now: Nanos, client: usize, token: u64) {
        if self.clients[client].open != Some(token) {
            return;
        }
        self.count("given up");
        self.fresh_process(client);
        self.clients[client].aim = self.any_node();
        self.next_round(client, now + 1);
    }

    /// After an unknown outcome the client goes on as another: its next transaction need not come after that one.
    fn fresh_process(&mut self, client: usize) {
        self.clients[client].process = self.processes;
        self.processes += 1;
    }

    fn next_round(&mut self, client: usize, at: Nanos) {
        self.clients[client].open = None;
        self.plan_step(at, client, Step::Ask);
    }

    fn count(&mut self, what: &'static str) {
        *self.outcomes.entry(what).or_default() += 1;
    }

    fn mix(&mut self, bits: u64) {
        self.trace = (self.trace ^ bits).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn draw_worker(&mut self, now: Nanos, client: usize) -> u16 {
        match self.load.workers {
            Busy::Any => self.random.below(self.workers.into()) as u16,
            Busy::Home => self.clients[client].home,
            Busy::Few => {
                if now >= self.busy_until {
                    let count = 1 + self.random.below(self.workers.into());
                    self.busy = (0..count).map(|_| self.random.below(self.workers.into()) as u16).collect();
                    self.busy_until = now + self.random.between(5_000_000, 60_000_000);
                }
                self.busy[self.random.below(self.busy.len() as u64) as usize]
            }
        }
    }

    fn draw_ops(&mut self) -> Vec<Op> {
        let count = 1 + self.random.below(self.load.operations.into());
        (0..count).map(|_| self.draw_op()).collect()
    }

    fn draw_op(&mut self) -> Op {
        let weights = self.load.mix.weights();
        let mut at = self.random.below(weights.iter().map(|weight| u64::from(*weight)).sum());
        let mut kind = 0;
        while at >= u64::from(weights[kind]) {
            at -= u64::from(weights[kind]);
            kind += 1;
        }
        let slot = self.random.below(self.load.keys.into()) as u32;
        let reads = self.random.below(100) < u64::from(self.load.read_percent);
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
                let (from, to) = (account(&mut self.random), account(&mut self.random));
                Op::Transfer(from, to, 1 + self.random.below(u64::from(OPENING) / 2) as u32)
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
    pub fn probes(&mut self) -> Vec<Vec<Op>> {
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

    /// Asks `node` for these, each from a client of its own and through the next worker. Returns the requests.
    pub fn request(&mut self, now: Nanos, node: NodeId, requests: &[Vec<Op>]) -> Vec<u64> {
        let ask = |(at, ops): (usize, &Vec<Op>)| {
            let client = self.fresh_client(node);
            self.invoke(now, client, ops.clone(), at as u16 % self.workers)
        };
        requests.iter().enumerate().map(ask).collect()
    }

    fn fresh_client(&mut self, aim: NodeId) -> usize {
        let process = self.processes;
        self.processes += 1;
        self.clients.push(Client { process, aim, home: 0, open: None });
        self.clients.len() - 1
    }

    /// Whether all of these were acknowledged; and whether one ended otherwise.
    pub fn answered(&self, tokens: &[u64]) -> (bool, bool) {
        let status = |token: &u64| self.asked[token].ended.as_ref().map(|(status, _, _)| *status);
        let all = tokens.iter().all(|token| status(token) == Some(Status::Ok));
        let failed = tokens.iter().any(|token| {
            let asked = &self.asked[token];
            self.clients[asked.client].open != Some(*token) && status(token) != Some(Status::Ok)
        });
        (all, failed)
    }

    fn ok(&self) -> impl Iterator<Item = (&Asked, &Vec<Seen>)> {
        self.asked.values().filter_map(|asked| match &asked.ended {
            Some((Status::Ok, _, seen)) => Some((asked, seen)),
            _ => None,
        })
    }

    /// Audit rows that were acknowledged, and those that surely were not written.
    pub fn audits(&self) -> (Vec<u32>, Vec<u32>) {
        let rows = |wanted: Status| {
            let ended = self
                .asked
                .values()
                .filter(move |asked| asked.ended.as_ref().is_some_and(|(status, _, _)| *status == wanted));
            let ops = ended.flat_map(|asked| &asked.ops);
            ops.filter_map(|op| if let Op::Audit(row) = op { Some(*row) } else { None }).collect()
        };
        (rows(Status::Ok), rows(Status::Fail))
    }

    /// The transaction that was to leave an audit row, in words.
    pub fn who_audits(&self, row: u32) -> String {
        let of = self.asked.iter().find(|(_, asked)| asked.ops.contains(&Op::Audit(row)));
        of.map_or(String::new(), |(token, asked)| format!("request {token}: {asked:?}"))
    }

    /// What single replies contradict by themselves: totals, toggles, rows that were new.
    pub fn contradictions(&self) -> Option<String> {
        for (asked, seen) in self.ok() {
            for (op, seen) in asked.ops.iter().zip(seen) {
                let wrong = match (op, &seen[..]) {
                    (Op::Total, [total]) if *total != ACCOUNTS * OPENING => "the bank's total changed",
                    (Op::Toggle(..), [present, turns @ ..]) if *present as usize != turns.len() % 2 => {
                        "a toggle's presence contradicts the count of its turns"
                    }
                    (Op::Peek(..), pairs) if pairs.chunks(2).any(|pair| pair[0] != pair[1] % 2) => {
                        "a scan of toggles contradicts the counts of their turns"
                    }
                    (Op::AddRow(..), [0]) => "a row behind the last one existed",
                    (Op::Audit(..), [0]) => "an audit row existed before it was written",
                    _ => continue,
                };
                return Some(format!("{wrong}: {op:?} saw {seen:?} in {asked:?}"));
            }
        }
        None
    }

    /// What clients saw, for the checker.
    pub fn history(&self) -> History {
        let mut history = History::new();
        for asked in self.asked.values() {
            let (status, t1, seen) = match &asked.ended {
                Some((status, at, seen)) => (*status, (*status != Status::Info).then_some(*at), Some(seen)),
                None => (Status::Info, None, None),
            };
            let mut ops = Vec::new();
            for (at, op) in asked.ops.iter().enumerate() {
                let seen = seen.filter(|_| status == Status::Ok).map(|seen| &seen[at]);
                record(&mut history, &mut ops, *op, seen);
            }
            if !ops.is_empty() {
                history.push(Txn { process: asked.process, t0: asked.invoked, t1, status, ops, snap: false });
            }
        }
        history
    }
}

/// An operation as entries of a history. The bank and audits are judged elsewhere.
fn record(history: &mut History, ops: &mut Vec<Entry>, op: Op, seen: Option<&Seen>) {
    let list = |seen: Option<&[u32]>| seen.map(|seen| seen.iter().map(|value| i64::from(*value)).collect());
    let whole = seen.map(|seen| &seen[..]);
    let mut intern = |kind: Kind, key: u32| history.keys.intern(&kind.name(key));
    match op {
        Op::Read(key) => ops.push(Entry::ReadList { key: intern(Kind::List, key), value: list(whole) }),
        Op::Append(key, value) => {
            let key = intern(Kind::List, key);
            ops.push(Entry::ReadList { key, value: list(whole) });
            ops.push(Entry::Append { key, value: value.into() });
        }
        Op::Scan(key) => ops.push(Entry::ReadList { key: intern(Kind::Rows, key), value: list(whole) }),
        Op::AddRow(key, value) => {
            ops.push(Entry::Append { key: intern(Kind::Rows, key), value: value.into() });
        }
        Op::Get(key) => {
            let value = whole.map(|seen| seen.first().map(|value| i64::from(*value)));
            ops.push(Entry::ReadReg { key: intern(Kind::Register, key), value });
        }
        Op::Set(key, value) => {
            ops.push(Entry::Write { key: intern(Kind::Register, key), value: value.into() });
        }
        Op::Toggle(key, value) => {
            let key = intern(Kind::List, TOGGLE_LISTS + key);
            ops.push(Entry::ReadList { key, value: list(whole.map(|seen| &seen[1..])) });
            ops.push(Entry::Append { key, value: value.into() });
        }
        Op::Peek(..) | Op::Transfer(..) | Op::Total | Op::Audit(_) => {}
    }
}
