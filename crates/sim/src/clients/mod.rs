//! Simulated clients: each has one open transaction at most, is impatient, and writes down what it saw. `pipelines` has others, which send many at
//! once.

mod counters;
mod delegates;
mod fresh;
mod journal;
mod pipelines;
mod waits;
mod wanted;
mod work;

use std::collections::BTreeMap;

use highwater_checker::Status;
use highwater_core::{Library, NodeId, Outcome, ProcedureId};
use highwater_seam::{Nanos, Refusal, Token};

use crate::faults::Hand;
use crate::library::{self, Op, STEPS};
use crate::plan::Load;
use crate::world::{Refused, Reply, World};
use counters::Counters;
use delegates::Delegates;
use fresh::Answers;
use highwater_core::Random;
use journal::Asked;
pub use journal::Journal;
use pipelines::Pipelines;
use waits::{HOP, REFUSED_WAIT};
use wanted::Wanted;
pub use work::Work;

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
    work: Work,
    left: u32,
    answers: Answers,
    /// What they saw.
    pub journal: Journal,
    /// Those who count.
    pub counters: Counters,
    /// Those who coordinate.
    pub delegates: Delegates,
    /// Those who send many requests at once.
    pub pipelines: Pipelines,
    procedure: Option<ProcedureId>,
    /// What no database may do: found while listening.
    pub wrong: Option<String>,
    /// Mixes what clients saw: equal for equal runs.
    pub trace: u64,
    /// What a read that asked for freshness did not see.
    pub missed: Option<String>,
    /// The time, by worker, at which a transaction of its number was acknowledged last, at whatever node; snapshot reads aside.
    served: Vec<Nanos>,
    /// How often a request ended so.
    pub outcomes: BTreeMap<&'static str, u64>,
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
            work: Work::new(load, workers, now),
            left: load.transactions,
            answers: Answers::default(),
            journal: Journal::default(),
            counters: Counters::new(&load, (replicas, workers), seed, now, length),
            delegates: Delegates::new(&load, (replicas, workers), seed, now, length),
            pipelines: Pipelines::new(&load, (replicas, workers), seed, now, length),
            procedure: None,
            wrong: None,
            missed: None,
            trace: 0,
            served: vec![0; usize::from(workers)],
            outcomes: BTreeMap::new(),
        };
        for at in 0..all.clients.len() {
            let start = now + all.random.below(all.think + 1);
            all.plan_step(start, at, Step::Ask);
        }
        all
    }

    /// Since when no worker's number has been without service: the earliest of what each acknowledged last.
    pub fn served_at(&self) -> Nanos {
        self.served.iter().copied().min().unwrap_or(0)
    }

    fn serves(&mut self, reply: &Reply) {
        let served = &mut self.served[usize::from(reply.from.1)];
        *served = reply.at.max(*served);
    }

    /// When a client wants to do something next.
    pub fn next(&self) -> Option<Nanos> {
        let own = self.steps.first_key_value().map(|((at, _), _)| *at);
        let others = [self.counters.next(), self.delegates.next(), self.pipelines.next()];
        own.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// No new transactions; those that are open may end.
    pub fn stop(&mut self) {
        self.left = 0;
        self.counters.stop();
        self.delegates.stop();
        self.pipelines.stop();
    }

    /// Whether no transaction is open.
    pub fn quiet(&self) -> bool {
        self.clients.iter().all(|client| client.open.is_none())
            && self.counters.quiet()
            && self.delegates.quiet()
            && self.pipelines.quiet()
    }

    /// Does what clients do up to now; takes the replies.
    pub fn act<L: Library>(&mut self, world: &mut World<L>, hand: &Hand) {
        for reply in std::mem::take(&mut world.replies) {
            if Pipelines::owns(reply.token) {
                self.hear_of_many(&reply, hand);
            } else if Counters::owns(reply.token) {
                self.mix(reply.token.0 ^ reply.at);
                self.counters.hear(&reply, hand);
            } else {
                self.hear(&reply, hand);
            }
        }
        for Refused { token, why, at } in std::mem::take(&mut world.refused) {
            if Pipelines::owns(token) {
                self.pipelines.refused(&mut self.journal, Refused { token, why, at });
                continue;
            }
            if Counters::owns(token) {
                self.counters.refused(at, token.0, why);
                continue;
            }
            let aim = self.clients[self.journal.0[&token.0].client].aim;
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
        self.counters.act(world, hand);
        self.delegates.act(world, hand, &mut self.work, &mut self.journal);
        self.pipelines.act(world, hand, &mut self.work, &mut self.journal);
        let trace = std::mem::take(&mut self.delegates.trace);
        self.mix(trace);
        self.wrong = self.wrong.take().or_else(|| self.counters.wrong.take());
    }

    fn plan_step(&mut self, at: Nanos, client: usize, step: Step) {
        self.seq += 1;
        self.steps.insert((at, self.seq), (client, step));
    }

    fn hop(&mut self) -> Nanos {
        HOP.0 + self.random.below(HOP.1)
    }

    fn ask<L: Library>(&mut self, world: &World<L>, client: usize) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let percent = u64::from(self.load.snapshot_percent);
        if percent > 0 && self.random.below(100) < percent {
            let (ops, aim) = (self.work.reads(&mut self.random), self.any_node());
            let worker = self.work.worker(&mut self.random, world.now, self.clients[client].home);
            let wanted = self.answers.draw(&mut self.random, self.load.fresh_percent, world.now);
            self.invoke(world.now, client, ops, Some(wanted), aim, worker);
            return;
        }
        let ops = self.work.ops(&mut self.random);
        let astray = self.load.astray > 0 && self.random.one_in(self.load.astray.into());
        if astray {
            self.clients[client].aim = self.any_node();
        }
        let Client { home, aim, .. } = self.clients[client];
        let worker = self.work.worker(&mut self.random, world.now, home);
        self.invoke(world.now, client, ops, None, aim, worker);
    }

    fn any_node(&mut self) -> NodeId {
        NodeId(self.random.below(self.replicas.into()) as u8)
    }

    /// `reads`: on a replica's snapshot, and what it asks of that.
    fn invoke(
        &mut self,
        now: Nanos,
        client: usize,
        ops: Vec<Op>,
        reads: Option<Wanted>,
        aim: NodeId,
        worker: u16,
    ) -> u64 {
        self.seq += 1;
        let token = self.seq;
        let process = self.clients[client].process;
        self.clients[client].open = Some(token);
        let (snap, wanted) = (reads.is_some(), reads.unwrap_or_default());
        let asked = Asked { client, snap, wanted, ..Asked::new(process, ops, now) };
        self.journal.0.insert(token, asked);
        let hop = self.hop();
        self.plan_step(now + hop, client, Step::Arrive(token, aim, worker));
        self.plan_step(now + self.load.patience_ns, client, Step::GiveUp(token));
        token
    }

    fn arrive<L: Library>(
        &mut self,
        world: &mut World<L>,
        hand: &Hand,
        token: u64,
        node: NodeId,
        worker: u16,
    ) {
        // Those who probe stand beside the nodes.
        let probes = self.journal.0[&token].client >= usize::from(self.load.clients);
        if hand.shuns(node) && !probes {
            return;
        }
        if self.procedure.is_none() && world.ids().any(|id| world.is_up(id)) {
            self.procedure = Some(world.procedure(STEPS));
        }
        let Some(procedure) = self.procedure else { return };
        let asked = &self.journal.0[&token];
        let (args, token_) = (library::encode(&asked.ops), Token(token));
        let taken = if asked.snap {
            world.submit_fresh(node, worker, (token_, asked.wanted.freshness), procedure, &args)
        } else {
            world.submit(node, worker, token_, procedure, &args)
        };
        if let Err(refusal) = taken {
            self.refused(world.now, token, node, refusal);
        }
    }

    /// Nothing was done, and the client is told so.
    fn refused(&mut self, now: Nanos, token: u64, node: NodeId, refusal: Refusal) {
        let hop = self.hop();
        let asked = self.journal.0.get_mut(&token).expect("every token was asked");
        let (client, snap, at) = (asked.client, asked.snap, now + hop);
        asked.ended = Some((Status::Fail, at, Vec::new()));
        self.count("refused");
        let aim = match refusal {
            Refusal::NotServing { ask: Some(leader) } => leader,
            Refusal::Busy => node,
            Refusal::NotServing { ask: None } | Refusal::NoQuorum => self.any_node(),
            Refusal::Unsupported => unreachable!("of an engine that cannot do it nothing is asked"),
        };
        if self.clients[client].open == Some(token) {
            // Of the lead nothing was learnt by a replica that has no snapshot to show.
            if !snap {
                self.clients[client].aim = aim;
            }
            let wait = self.random.below(REFUSED_WAIT);
            self.next_round(client, at + wait);
        }
    }

    /// One of those that send many at once.
    fn hear_of_many(&mut self, reply: &Reply, hand: &Hand) {
        self.mix(reply.token.0 ^ reply.at);
        match self.pipelines.hear(reply, hand, &mut self.journal) {
            Ok(()) if reply.outcome == Outcome::Committed => self.serves(reply),
            Ok(()) => {}
            Err(wrong) => self.wrong = Some(wrong),
        }
    }

    fn hear(&mut self, reply: &Reply, hand: &Hand) {
        let (token, hop) = (reply.token.0, self.hop());
        self.mix(token);
        self.mix(reply.at);
        reply.bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
        let at = reply.at + hop;
        let (status, name) = match self.journal.hear(reply, at) {
            Ok(ended) => ended,
            Err(wrong) => {
                self.wrong = Some(wrong);
                return;
            }
        };
        // We hear it even if the client has given up, or cannot be reached: more is known, and nothing false.
        let asked = &self.journal.0[&token];
        if let Some(missed) = self.answers.missed(reply, asked).filter(|_| status == Status::Ok) {
            self.missed = Some(missed);
            return;
        }
        self.answers.hear(reply, asked);
        if status == Status::Ok && !asked.snap {
            let served = &mut self.served[usize::from(reply.from.1)];
            *served = reply.at.max(*served);
        }
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

    /// The largest blob that was written, in bytes.
    pub fn largest_blob(&self) -> u32 {
        self.work.largest
    }

    /// One small request for each worker: proof of progress.
    pub fn probes(&mut self) -> Vec<Vec<Op>> {
        self.work.probes()
    }

    /// A request that writes a key and deletes it.
    pub fn last_delete(&mut self) -> Vec<Vec<Op>> {
        self.work.last_delete()
    }

    /// Reads of every key that was ever used, in requests of a few.
    pub fn last_reads(&self) -> Vec<Vec<Op>> {
        self.work.last_reads()
    }

    /// The order of transactions need not agree with real time.
    pub fn expect_the_past(&mut self) {
        self.counters.expect_the_past();
    }

    /// Asks `node` for these, each from a client of its own and through the next worker. Returns the requests.
    pub fn request(&mut self, now: Nanos, node: NodeId, requests: &[Vec<Op>]) -> Vec<u64> {
        self.request_as(now, node, requests, None)
    }

    /// The same, of the replica's snapshot.
    pub fn request_snapshot(&mut self, now: Nanos, node: NodeId, requests: &[Vec<Op>]) -> Vec<u64> {
        self.request_as(now, node, requests, Some(Wanted::default()))
    }

    /// The same, of a snapshot that holds all that was acknowledged by now.
    pub fn request_fresh(&mut self, now: Nanos, node: NodeId, requests: &[Vec<Op>]) -> Vec<u64> {
        self.request_as(now, node, requests, Some(Wanted::within(0, now)))
    }

    fn request_as(
        &mut self,
        now: Nanos,
        node: NodeId,
        requests: &[Vec<Op>],
        reads: Option<Wanted>,
    ) -> Vec<u64> {
        let ask = |(at, ops): (usize, &Vec<Op>)| {
            let client = self.fresh_client(node);
            self.invoke(now, client, ops.clone(), reads, node, at as u16 % self.workers)
        };
        requests.iter().enumerate().map(ask).collect()
    }

    fn fresh_client(&mut self, aim: NodeId) -> usize {
        let process = self.processes;
        self.processes += 1;
        self.clients.push(Client { process, aim, home: 0, open: None });
        self.clients.len() - 1
    }

    /// Whether all of these were acknowledged; and whether all have ended, some otherwise.
    pub fn answered(&self, tokens: &[u64]) -> (bool, bool) {
        let ok = |token: &u64| self.journal.0[token].status() == Some(Status::Ok);
        let open = |token: &u64| self.clients[self.journal.0[token].client].open == Some(*token);
        let (all, over) = (tokens.iter().all(ok), !tokens.iter().any(open));
        (all, over && !all)
    }
}
