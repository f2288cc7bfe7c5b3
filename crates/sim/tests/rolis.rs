//! Rolis under faults: acknowledged transactions survive, replicas converge, money is conserved.

// Helpers of tests unwrap as tests do.

use std::collections::BTreeSet;

use crate::common::MS;
use crate::common::cluster::{converged, story, whole};
use highwater_core::{NodeId, Outcome};
use highwater_engines::EngineKind;
use highwater_seam::{Nanos, Token};
use highwater_sim::{World, WorldOptions};
use highwater_workloads::{AllWorkloads, Workload};

struct Run {
    world: World<AllWorkloads>,
    bank: Box<dyn Workload>,
    sequence: u32,
    open: BTreeSet<u64>,
    acknowledged: Vec<u32>,
    asked: Vec<u32>,
    tokens: u64,
    /// Per token of an audit row: its sequence number.
    audits: std::collections::BTreeMap<u64, u32>,
    committed: u64,
}

impl Run {
    fn new(seed: u64, nodes: u8, workers: u16) -> Run {
        Run::with_engine(EngineKind::Rolis, seed, nodes, workers)
    }

    fn with_engine(engine: EngineKind, seed: u64, nodes: u8, workers: u16) -> Run {
        let options = WorldOptions {
            seed,
            engine,
            nodes,
            workers,
            tune: (|options: &mut highwater_seam::Options| {
                options.heartbeat = 5 * MS;
                options.election_timeout = 30 * MS;
                options.log_retain_bytes = 64 << 10;
                options.max_in_flight_bytes = 32 << 10;
                options.max_entry_bytes = 4 << 10;
            })
            .into(),
        };
        let bank = highwater_workloads::Options::parse("bank", [("accounts", "50")]).unwrap().build();
        Run {
            world: World::new(options, AllWorkloads),
            bank,
            sequence: 0,
            open: BTreeSet::new(),
            acknowledged: Vec::new(),
            asked: Vec::new(),
            tokens: 0,
            audits: Default::default(),
            committed: 0,
        }
    }

    fn wait_for(&mut self, limit: Nanos, what: &str, mut holds: impl FnMut(&World<AllWorkloads>) -> bool) {
        let deadline = self.world.now + limit;
        while !holds(&self.world) {
            assert!(self.world.now < deadline, "{what} within {} ms\n{}", limit / MS, self.story());
            let until = self.world.now + MS;
            self.world.run_until(until);
            self.take_replies();
        }
    }

    fn story(&self) -> String {
        story(&self.world)
    }

    fn take_replies(&mut self) {
        for reply in std::mem::take(&mut self.world.replies) {
            self.open.remove(&reply.token.0);
            if reply.outcome == Outcome::Committed {
                self.committed += 1;
                if let Some(sequence) = self.audits.remove(&reply.token.0) {
                    self.acknowledged.push(sequence);
                }
            }
        }
    }

    fn load(&mut self) {
        for (name, args) in self.bank.load(0, 1) {
            let procedure = self.world.procedure(name);
            loop {
                let leader = self.world.leader().expect("a leader");
                self.tokens += 1;
                if self.world.submit(leader, 0, Token(self.tokens), procedure, &args).is_ok() {
                    break;
                }
                let until = self.world.now + MS;
                self.world.run_until(until);
            }
        }
    }

    /// Submits a few requests to whoever leads.
    fn step(&mut self, workers: u16, generators: &mut [Box<dyn highwater_workloads::Generator>]) {
        let audit = self.world.procedure("audit.append");
        let kinds: Vec<_> = self.bank.kinds().iter().map(|kind| self.world.procedure(kind)).collect();
        let leaders: Vec<NodeId> = self
            .world
            .ids()
            .filter(|id| self.world.status(*id).is_some_and(|status| status.leads()))
            .collect();
        let mut args = Vec::new();
        for leader in leaders {
            for _ in 0..self.world.random.below(6) {
                let worker = self.world.random.below(workers.into()) as u16;
                self.tokens += 1;
                let token = Token(self.tokens);
                if self.world.random.one_in(3) {
                    self.sequence += 1;
                    args.clear();
                    args.extend_from_slice(&7u32.to_le_bytes());
                    args.extend_from_slice(&self.sequence.to_le_bytes());
                    if self.world.submit(leader, worker, token, audit, &args).is_ok() {
                        self.audits.insert(token.0, self.sequence);
                        self.asked.push(self.sequence);
                    }
                } else {
                    let kind = generators[worker as usize].next(&mut args);
                    let _ = self.world.submit(leader, worker, token, kinds[kind], &args);
                }
                self.open.insert(token.0);
            }
        }
    }

    fn verify(&mut self) {
        // What is still in flight ends first; figures for status lag behind by a few milliseconds.
        let until = self.world.now + 50 * MS;
        self.world.run_until(until);
        self.wait_for(5000 * MS, "all replicas converge", converged);
        let until = self.world.now + 50 * MS;
        self.world.run_until(until);
        self.take_replies();
        let digests: Vec<_> =
            self.world.ids().map(|id| self.world.replica(id).unwrap().controller.store().digest()).collect();
        for id in self.world.ids() {
            let store = self.world.replica(id).unwrap().controller.store();
            assert_eq!(digests[id.0 as usize], digests[0], "{id} differs\n{}", self.story());
            for check in self.bank.check(&*store) {
                assert!(check.passed(), "{id}: {check:?}\n{}", self.story());
            }
            use highwater_core::View;
            for sequence in &self.acknowledged {
                let key = (7u64 << 32 | u64::from(*sequence)).to_be_bytes();
                let row = store.get(highwater_workloads::tables::AUDIT, &key);
                assert!(row.is_some(), "{id} lost acknowledged row {sequence}\n{}", self.story());
            }
        }
    }
}

fn chaos(seed: u64, nodes: u8, workers: u16, rounds: u64) -> (u64, u64) {
    chaos_with(EngineKind::Rolis, seed, nodes, workers, rounds)
}

fn chaos_with(engine: EngineKind, seed: u64, nodes: u8, workers: u16, rounds: u64) -> (u64, u64) {
    let mut run = Run::with_engine(engine, seed, nodes, workers);
    for id in run.world.ids() {
        run.world.start(id);
    }
    run.wait_for(2000 * MS, "a leader", |world| world.leader().is_some());
    run.load();
    let mut generators: Vec<_> =
        (0..workers).map(|worker| run.bank.generator(worker as usize, workers as usize, seed)).collect();
    let mut cuts_until = 0;
    for _ in 0..rounds {
        run.step(workers, &mut generators);
        let until = run.world.now + run.world.random.between(MS / 10, MS);
        run.world.run_until(until);
        run.take_replies();
        if cuts_until != 0 && run.world.now > cuts_until {
            run.world.network.heal();
            cuts_until = 0;
        }
        if !run.world.random.one_in(60) {
            continue;
        }
        let victim = NodeId(run.world.random.below(nodes.into()) as u8);
        let other = NodeId(run.world.random.below(nodes.into()) as u8);
        match run.world.random.below(5) {
            // Only while everybody votes, so that memory is never lost beyond a minority.
            0 if whole(&run.world) => {
                run.world.kill(victim);
                let until = run.world.now + run.world.random.below(60 * MS);
                run.world.run_until(until);
                run.world.start(victim);
            }
            1 => {
                let length = run.world.random.between(MS, 150 * MS);
                run.world.pause(victim, length);
            }
            2 if victim != other => run.world.break_links(victim, other),
            3 => {
                for id in run.world.ids().filter(|id| *id != victim) {
                    run.world.network.cut(id, victim);
                    run.world.network.cut(victim, id);
                }
                cuts_until = run.world.now + run.world.random.between(MS, 200 * MS);
            }
            4 if victim != other => {
                run.world.network.cut(victim, other);
                cuts_until = run.world.now + run.world.random.between(MS, 200 * MS);
            }
            _ => {}
        }
    }
    run.world.network.heal();
    run.verify();
    (run.committed, run.world.trace_hash())
}

#[test]
fn a_calm_cluster_commits_and_converges() {
    let mut run = Run::new(1, 3, 2);
    for id in run.world.ids() {
        run.world.start(id);
    }
    run.wait_for(1000 * MS, "a leader", |world| world.leader().is_some());
    run.load();
    let mut generators: Vec<_> = (0..2).map(|worker| run.bank.generator(worker, 2, 1)).collect();
    for _ in 0..200 {
        run.step(2, &mut generators);
        let until = run.world.now + MS;
        run.world.run_until(until);
        run.take_replies();
    }
    run.verify();
    assert!(run.committed > 300, "{} committed", run.committed);
}

#[test]
fn a_killed_leader_is_replaced_and_comes_back_as_a_voter() {
    let mut run = Run::new(2, 3, 2);
    for id in run.world.ids() {
        run.world.start(id);
    }
    run.wait_for(1000 * MS, "a leader", |world| world.leader().is_some());
    run.load();
    let mut generators: Vec<_> = (0..2).map(|worker| run.bank.generator(worker, 2, 1)).collect();
    for round in 0..400 {
        run.step(2, &mut generators);
        let until = run.world.now + MS;
        run.world.run_until(until);
        run.take_replies();
        if round == 100 {
            let leader = run.world.leader().unwrap();
            run.world.kill(leader);
        }
        if round == 150 {
            let down = run.world.ids().find(|id| !run.world.is_up(*id)).unwrap();
            run.world.start(down);
        }
    }
    run.verify();
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(chaos(77, 3, 2, 300), chaos(77, 3, 2, 300));
}

#[test]
fn chaos_with_many_seeds() {
    let runs: u64 = std::env::var("SEEDS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(30);
    let first: u64 = std::env::var("FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(1000);
    for seed in first..first + runs {
        let (nodes, workers) = (if seed % 4 == 3 { 5 } else { 3 }, 1 + (seed % 3) as u16);
        let ended = std::panic::catch_unwind(|| chaos(seed, nodes, workers, 600));
        assert!(ended.is_ok(), "seed {seed} failed");
    }
}

/// Once: `--engine strawman` ran `rolis`.
#[test]
fn the_strawman_keeps_the_same_promises() {
    for seed in 0..10 {
        chaos_with(EngineKind::Strawman, seed, 3, 1 + (seed % 3) as u16, 400);
    }
}
