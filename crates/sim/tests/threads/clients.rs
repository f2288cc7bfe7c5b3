//! The simulator's requests, asked of threads: logical clients with one open transaction each, on one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use highwater_checker::Status;
use highwater_core::{NodeId, Outcome};
use highwater_seam::{Nanos, Refusal, Token};
use highwater_sim::clients::{Journal, Work};
use highwater_sim::library::{self, Op};
use highwater_sim::plan::{Busy, Load, Mix};
use highwater_sim::{Plan, Random};

use super::MS;
use super::cluster::{Answer, Cluster, Hub};

/// A client that hears nothing for so long goes on as another one: outcome unknown.
const PATIENCE: Nanos = 300 * MS;
/// The last reads are asked again until they are answered; not for longer than this.
const LAST_PATIENCE: Nanos = 30_000 * MS;
const CLIENTS: usize = 24;

/// The clients' thread.
pub struct Clients {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Journal>>,
    journal: Option<Journal>,
}

impl Clients {
    pub fn start(cluster: &Cluster, seed: u64) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let load = Load {
            keys: 6,
            appends_per_key: 64,
            operations: 4,
            read_percent: 50,
            mix: Mix { lists: 4, rows: 2, registers: 2, toggles: 1, bank: 1, audit: 1, ..Mix::default() },
            workers: Busy::Any,
            ..Plan::draw(seed).load
        };
        let mut asking = Asking {
            work: Work::new(load, cluster.hub.workers as u16, 0),
            hub: cluster.hub.clone(),
            random: Random::new(seed ^ 0xc11e),
            journal: Journal::default(),
            clients: (0..CLIENTS as u64)
                .map(|process| Client { process, open: None, rests_until: 0 })
                .collect(),
            tokens: 0,
            processes: CLIENTS as u64,
            aim: NodeId(0),
        };
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                asking.ask();
                asking.listen();
            }
            asking.finish();
            asking.journal
        });
        Clients { stop, thread: Some(thread), journal: None }
    }

    /// No more transactions but a last read of everything, by a leader that answers.
    pub fn finish(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.journal = self.thread.take().map(|thread| thread.join().unwrap());
    }

    /// What they saw.
    pub fn journal(self) -> Journal {
        self.journal.expect("they have finished")
    }
}

struct Client {
    process: u64,
    /// Token, and when it was asked.
    open: Option<(u64, Nanos)>,
    rests_until: Nanos,
}

struct Asking {
    hub: Arc<Hub>,
    work: Work,
    random: Random,
    journal: Journal,
    clients: Vec<Client>,
    tokens: u64,
    processes: u64,
    /// Whom they believe to lead.
    aim: NodeId,
}

impl Asking {
    /// Everybody who has nothing open asks; who has waited for too long becomes somebody else.
    fn ask(&mut self) {
        for at in 0..self.clients.len() {
            let now = self.hub.now();
            if self.clients[at].open.is_some_and(|(_, asked)| now - asked > PATIENCE) {
                self.forget(at);
                self.aim = self.any_node();
            }
            if self.clients[at].open.is_none() && now >= self.clients[at].rests_until {
                let snap = self.random.one_in(5);
                let ops =
                    if snap { self.work.reads(&mut self.random) } else { self.work.ops(&mut self.random) };
                self.invoke(at, ops, snap);
            }
        }
    }

    fn invoke(&mut self, at: usize, ops: Vec<Op>, snap: bool) -> u64 {
        self.tokens += 1;
        let (token, worker) = (self.tokens, self.random.below(self.hub.workers as u64) as usize);
        let node = if snap { self.any_node() } else { self.aim };
        let (args, now) = (library::encode(&ops), self.hub.now());
        self.journal.ask(token, self.clients[at].process, ops, snap, now);
        self.clients[at].open = Some((token, now));
        if !self.hub.submit(node, worker, Token(token), args, snap) {
            self.journal.end(token, Status::Fail, self.hub.now(), Vec::new());
            self.clients[at].open = None;
            self.aim = self.any_node();
        }
        token
    }

    fn any_node(&mut self) -> NodeId {
        NodeId(self.random.below(self.hub.nodes().count() as u64) as u8)
    }

    /// Unknown outcome: the client's next transaction need not come after this one.
    fn forget(&mut self, at: usize) {
        self.clients[at].open = None;
        self.clients[at].process = self.processes;
        self.processes += 1;
    }

    /// Takes what was answered.
    fn listen(&mut self) {
        for (Token(token), answer, at) in self.hub.answers.take(Duration::from_millis(2)) {
            let client =
                self.clients.iter().position(|client| client.open.is_some_and(|open| open.0 == token));
            let (status, seen) = match answer {
                Answer::Outcome(Outcome::Committed, bytes) => (Status::Ok, library::decode_reply(&bytes)),
                Answer::Outcome(Outcome::Unknown, _) => (Status::Info, Vec::new()),
                Answer::Outcome(_, _) => (Status::Fail, Vec::new()),
                Answer::Refused(refusal) => {
                    match refusal {
                        Refusal::NotServing { ask: Some(leader) } => self.aim = leader,
                        Refusal::NotServing { ask: None } | Refusal::NoQuorum => self.aim = self.any_node(),
                        Refusal::Busy => {}
                        Refusal::Unsupported => unreachable!("nobody asks for a session or freshness"),
                    }
                    let rest = self.random.below(2 * MS);
                    client.inspect(|client| self.clients[*client].rests_until = at + rest);
                    (Status::Fail, Vec::new())
                }
            };
            self.journal.end(token, status, at, seen);
            match client {
                Some(client) if status == Status::Info => self.forget(client),
                Some(client) => self.clients[client].open = None,
                // It has given up; what is known is known.
                None => {}
            }
        }
    }

    /// Reads every key that was ever used, until each read is acknowledged.
    fn finish(&mut self) {
        let deadline = self.hub.now() + LAST_PATIENCE;
        let mut left = self.work.last_reads();
        // One client, so that nothing else is open.
        (0..self.clients.len()).for_each(|at| self.forget(at));
        self.clients.truncate(1);
        while let Some(ops) = left.pop() {
            let asked_at = self.hub.now();
            assert!(asked_at < deadline, "the last reads are answered");
            let token = self.invoke(0, ops.clone(), false);
            while self.clients[0].open.is_some() && self.hub.now() - asked_at < PATIENCE {
                self.listen();
            }
            if self.clients[0].open.is_some() {
                self.forget(0);
                self.aim = self.any_node();
            }
            if !self.journal.has_ended_well(token) {
                left.push(ops);
            }
        }
    }
}
