//! Replicas that run full: what grows is refused, everything else goes on, nobody falls over and nothing is lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::MS;
use highwater_core::{
    Abort, Incarnation, IndexKind, KeyKind, Library, NodeId, Outcome, Procedure, Registry, TableId,
    TableSpec, Transaction, View,
};
use highwater_engines::EngineKind;
use highwater_seam::options::MIN_TRANSACTION_BYTES;
use highwater_seam::{Nanos, Options, Refusal, Token};
use highwater_sim::network::Channel;
use highwater_sim::{World, WorldOptions};

const TABLES: [TableId; 2] = [TableId(0), TableId(1)];
const LEN: usize = 8_000;

#[derive(Clone, Copy, Debug)]
struct Rows;

impl Library for Rows {
    fn tables(&self) -> Vec<TableSpec> {
        vec![
            TableSpec { name: "hash", keys: KeyKind::U64, index: IndexKind::Hash },
            TableSpec { name: "tree", keys: KeyKind::U64, index: IndexKind::Ordered },
        ]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Set>();
        registry.register::<Get>();
        registry.register::<Delete>();
    }
}

/// Sets a row in both tables. Arguments: key u64, length u64, what it is full of u8.
struct Set;

impl Procedure for Set {
    const NAME: &'static str = "rows.set";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let len = u64::from_le_bytes(args[8..16].try_into().expect("8 bytes"));
        let value = vec![args[16]; len as usize];
        TABLES.iter().try_for_each(|table| tx.put(*table, &args[..8], &value))
    }
}

/// Argument: key u64. Reply: how long its rows are in all.
struct Get;

impl Procedure for Get {
    const NAME: &'static str = "rows.get";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let mut len = 0;
        for table in TABLES {
            len += tx.get(table, &args[..8])?.map_or(0, <[u8]>::len) as u64;
        }
        reply.extend_from_slice(&len.to_le_bytes());
        Ok(())
    }
}

/// Argument: key u64.
struct Delete;

impl Procedure for Delete {
    const NAME: &'static str = "rows.delete";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        TABLES.iter().try_for_each(|table| tx.delete(*table, &args[..8]).map(drop))
    }
}

/// Node 2 has the least memory, whoever leads.
fn tune(options: &mut Options) {
    options.max_transaction_bytes = MIN_TRANSACTION_BYTES;
    options.memory_bytes = (36 - 4 * u64::from(options.node.0)) << 20;
    options.heartbeat = 5 * MS;
    options.election_timeout = 25 * MS;
    options.fit_memory();
}

struct Cluster {
    world: World<Rows>,
    tokens: u64,
    turn: u16,
    /// What is acknowledged: the length of each row.
    rows: BTreeMap<u64, usize>,
}

impl Cluster {
    fn start(seed: u64, engine: EngineKind, tune: fn(&mut Options)) -> Cluster {
        let options = WorldOptions { seed, engine, nodes: 3, workers: 2, tune: tune.into() };
        let mut world = World::new(options, Rows);
        world.ids().for_each(|id| world.start(id));
        let mut cluster = Cluster { world, tokens: 0, turn: 0, rows: BTreeMap::new() };
        cluster.wait(5_000 * MS, |world| world.leader().is_some());
        cluster
    }

    fn wait(&mut self, patience: Nanos, done: impl Fn(&World<Rows>) -> bool) {
        let deadline = self.world.now + patience;
        while !done(&self.world) {
            assert!(self.world.now < deadline, "it takes too long: {:#?}", self.world.log);
            self.world.run_until(self.world.now + MS);
        }
    }

    /// Asks until somebody takes it and answers for good.
    fn ask(&mut self, procedure: &str, args: &[u8]) -> (Outcome, Vec<u8>) {
        let deadline = self.world.now + 20_000 * MS;
        loop {
            assert!(self.world.now < deadline, "nobody answers: {:#?}", self.world.log);
            let Some(leader) = self.world.leader() else {
                self.world.run_until(self.world.now + MS);
                continue;
            };
            self.tokens += 1;
            self.turn = (self.turn + 1) % 2;
            let (token, code) = (Token(self.tokens), self.world.procedure(procedure));
            let taken: Result<(), Refusal> = self.world.submit(leader, self.turn, token, code, args);
            for _ in 0..if taken.is_ok() { 400 } else { 1 } {
                let answer = self.world.replies.iter().position(|reply| reply.token == token);
                if let Some(at) = answer {
                    let reply = self.world.replies.swap_remove(at);
                    if matches!(reply.outcome, Outcome::Unknown | Outcome::Conflict) {
                        break;
                    }
                    return (reply.outcome, reply.bytes);
                }
                self.world.run_until(self.world.now + MS / 10);
            }
        }
    }

    fn set(&mut self, key: u64, len: usize) -> Outcome {
        let args = [&key.to_le_bytes()[..], &(len as u64).to_le_bytes(), &[key as u8]].concat();
        let outcome = self.ask("rows.set", &args).0;
        if outcome == Outcome::Committed {
            self.rows.insert(key, len);
        }
        outcome
    }

    fn get(&mut self, key: u64) -> usize {
        let (outcome, reply) = self.ask("rows.get", &key.to_le_bytes());
        assert_eq!(outcome, Outcome::Committed, "reads go on");
        u64::from_le_bytes(reply.try_into().expect("8 bytes")) as usize / 2
    }

    fn delete(&mut self, key: u64) {
        let (outcome, _) = self.ask("rows.delete", &key.to_le_bytes());
        assert_eq!(outcome, Outcome::Committed, "deletes go on");
        self.rows.remove(&key);
    }

    /// Sets rows until one is refused; how many there are then.
    fn fill(&mut self) -> usize {
        let mut key = 0;
        loop {
            assert!(key < 20_000, "it is never full");
            if !self.rows.contains_key(&key) {
                match self.set(key, LEN) {
                    Outcome::Committed => {}
                    outcome => {
                        assert_eq!(outcome, Outcome::OutOfMemory);
                        return self.rows.len();
                    }
                }
            }
            key += 1;
        }
    }

    /// No store is larger than its share; all replicas hold what was acknowledged.
    fn verify(&mut self) {
        let all_follow = |world: &World<Rows>| world.converged().is_ok();
        self.wait(20_000 * MS, all_follow);
        self.world.finish_turns();
        for id in self.world.ids() {
            let controller = &self.world.replica(id).expect("it is up").controller;
            let (memory, store) = (controller.memory(), controller.store());
            // The slack is for what is under way between a commit and what the others report.
            let most = memory.shares.store + memory.shares.slack;
            assert!(memory.used <= most, "{id} uses {} of {:?}", memory.used, memory.shares);
            for table in TABLES {
                let mut rows = BTreeMap::new();
                store.for_each(table, &mut |key, value| {
                    let key = u64::from_le_bytes(key.try_into().expect("8 bytes"));
                    assert!(value.iter().all(|byte| *byte == key as u8));
                    rows.insert(key, value.len());
                });
                assert_eq!(rows, self.rows, "on {id}");
            }
        }
    }
}

#[test]
fn a_full_cluster_refuses_what_grows_and_serves_the_rest_until_there_is_room_again() {
    for engine in [EngineKind::Rolis, EngineKind::Strawman] {
        let mut cluster = Cluster::start(1, engine, tune);
        let full = cluster.fill();
        cluster.verify();
        // The smallest decides, and not much of it is left unused.
        let mut smallest = Options::new(NodeId(2), 3, 2, Incarnation(1));
        tune(&mut smallest);
        let budget = smallest.shares().expect("it fits").store;
        let used = (full * 2 * LEN) as u64;
        assert!(used <= budget && used > budget / 2, "{used} of {budget} bytes in {full} rows");
        // Full: reads, deletes, rows of the same length and shorter ones.
        assert_eq!(cluster.get(0), LEN);
        assert_eq!(cluster.set(0, LEN), Outcome::Committed);
        assert_eq!(cluster.set(1, 10), Outcome::Committed);
        assert_eq!(cluster.set(2, 30_000), Outcome::OutOfMemory);
        assert_eq!(cluster.get(2), LEN);
        // A flood of what is refused takes no memory.
        let refused = (0..300).filter(|key| cluster.set(50_000 + key, LEN) == Outcome::OutOfMemory).count();
        assert!(refused > 290, "{refused} of 300: a worker may have had a little of its grant left");
        cluster.verify();
        // Room comes back.
        (0..full as u64 / 2).for_each(|key| cluster.delete(key));
        let again = cluster.fill();
        assert!(again + 4 >= full * 9 / 10, "{again} rows after {full}");
        cluster.verify();
    }
}

#[test]
fn a_full_cluster_survives_its_leader_and_takes_a_replica_back() {
    for seed in 0..3 {
        let mut cluster = Cluster::start(seed, EngineKind::Rolis, tune);
        let full = cluster.fill();
        let leader = cluster.world.leader().expect("it answered");
        cluster.world.kill(leader);
        cluster.wait(5_000 * MS, |world| world.leader().is_some_and(|other| other != leader));
        // Whoever leads now: what grows is refused, the rest goes on. The dead one's word still counts.
        let still = cluster.fill();
        assert!(still - full < full / 10, "{full} rows, then {still}");
        assert_eq!(cluster.get(5), LEN);
        cluster.delete(5);
        // It copies the state while the cluster is full.
        cluster.world.start(leader);
        cluster.wait(20_000 * MS, |world| {
            world
                .status(leader)
                .is_some_and(|status| status.role == "follower" && status.copying_bytes.is_none())
        });
        cluster.verify();
        (0..full as u64 / 2).for_each(|key| cluster.delete(key));
        assert!(cluster.fill() + 4 >= full * 9 / 10);
        cluster.verify();
    }
}

/// One worker of a follower hardly gets any time: its stream stands still there, no mark passes, and what the other stream
/// decides cannot be installed. That log is bounded; nobody waits for this follower; and in the end it has everything.
#[test]
fn a_follower_that_cannot_install_holds_a_bounded_log_and_slows_nobody() {
    fn short(options: &mut Options) {
        options.heartbeat = 5 * MS;
        options.election_timeout = 25 * MS;
        options.max_entry_bytes = 4 << 10;
        options.max_in_flight_bytes = 32 << 10;
        options.log_retain_bytes = 64 << 10;
    }
    let mut cluster = Cluster::start(4, EngineKind::Rolis, short);
    let leader = cluster.world.leader().expect("it answered");
    let slow = cluster.world.ids().find(|id| *id != leader).expect("there are three");
    cluster.world.starve(slow, Channel::Worker(1), 1_000_000);
    let mut options = Options::new(slow, 3, 2, Incarnation(1));
    options.max_transaction_bytes = MIN_TRANSACTION_BYTES;
    short(&mut options);
    let (before, mut most) = (cluster.world.now, 0);
    for key in 0..400 {
        assert_eq!(cluster.set(key % 50, LEN), Outcome::Committed);
        let status = cluster.world.status(slow).expect("it is up");
        most = status.figure("log_bytes").iter().copied().fold(most, u64::max);
        // A violation of the same ends the run.
        cluster.world.observe();
    }
    let written = (400 / 2 * 2 * LEN) as u64;
    assert!(
        most <= options.log_retain_bytes as u64 + options.backlog_bytes() + options.longest_entry() as u64
    );
    assert!(most > options.log_retain_bytes as u64, "{most}: nothing piled up");
    assert!(written > 4 * most, "{written} bytes went through each stream");
    assert!(cluster.world.now - before < 400 * 5 * MS, "nobody waits for it");
    assert_eq!(cluster.world.leader(), Some(leader));
    cluster.world.starve(slow, Channel::Worker(1), 1);
    cluster.verify();
}

/// The same, and its vote is needed: the leader waits for it, and loses nothing.
#[test]
fn a_follower_whose_vote_is_needed_slows_the_leader_and_is_never_stuck() {
    fn short(options: &mut Options) {
        options.heartbeat = 5 * MS;
        options.election_timeout = 25 * MS;
        options.max_entry_bytes = 1 << 10;
        options.max_in_flight_bytes = 1 << 10;
        options.log_retain_bytes = 1 << 10;
    }
    for seed in 0..5 {
        let mut cluster = Cluster::start(seed, EngineKind::Rolis, short);
        let leader = cluster.world.leader().expect("it answered");
        let others: Vec<NodeId> = cluster.world.ids().filter(|id| *id != leader).collect();
        cluster.world.kill(others[0]);
        for round in 0..6 {
            cluster.world.starve(others[1], Channel::Worker(round % 2), 200);
            (0..40).for_each(|key| assert_eq!(cluster.set(key, LEN), Outcome::Committed));
            cluster.world.observe();
            cluster.world.starve(others[1], Channel::Worker(round % 2), 1);
        }
        cluster.world.start(others[0]);
        cluster.verify();
    }
}

/// A replica comes back with less memory than the data take: it says so and stays out, and the others go on. With more
/// memory it is taken back.
#[test]
fn a_replica_whose_memory_is_too_small_for_the_data_says_so_and_does_not_copy() {
    static SMALL: AtomicBool = AtomicBool::new(false);
    fn shrinking(options: &mut Options) {
        tune(options);
        let small = options.node == NodeId(2) && SMALL.load(Ordering::Relaxed);
        options.memory_bytes = if small { 27 << 20 } else { 40 << 20 };
        options.fit_memory();
    }
    let mut cluster = Cluster::start(6, EngineKind::Rolis, shrinking);
    cluster.fill();
    cluster.world.kill(NodeId(2));
    SMALL.store(true, Ordering::Relaxed);
    cluster.world.start(NodeId(2));
    let says_so = |world: &World<Rows>| {
        world.log.iter().any(|(_, node, what)| *node == NodeId(2) && what.contains("raise limits.memory_mb"))
    };
    cluster.wait(5_000 * MS, says_so);
    let status = cluster.world.status(NodeId(2)).expect("it is up");
    assert_eq!((&*status.role, status.copying_bytes.unwrap_or(0)), ("learner", 0));
    assert_eq!(cluster.get(3), LEN);
    (0..100).for_each(|key| cluster.delete(key));
    cluster.world.run_until(cluster.world.now + 200 * MS);
    (0..10).for_each(|key| assert_eq!(cluster.set(key, LEN), Outcome::Committed, "it limits nobody"));
    cluster.world.kill(NodeId(2));
    SMALL.store(false, Ordering::Relaxed);
    cluster.world.start(NodeId(2));
    cluster.verify();
}
