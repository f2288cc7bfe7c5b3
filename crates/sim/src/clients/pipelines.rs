//! Clients that send many requests over one connection without waiting, and what a host does for such a connection.
//!
//! The host keeps to what engines promise of order ([`Taken`]): what was sent first is handed in first, nothing is handed in while a request
//! of the connection is put off, and while an engine is busy all wait. Whatever the engine, those of a connection must take effect in the order in
//! which they were sent: their [`Place`]s are in the history, for the checker.
//!
//! A connection leads to one worker of one process. It breaks with that process, or when its client loses patience; then the host drops what it has
//! not handed in, soon or late.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use highwater_checker::{Place, Status};
use highwater_core::{Library, NodeId, ProcedureId, Random};
use highwater_seam::{Nanos, Refusal, Taken, Token};

use super::journal::Journal;
use super::waits::{HOP, REFUSED_WAIT};
use super::work::Work;
use crate::faults::Hand;
use crate::library::{self, STEPS};
use crate::plan::Load;
use crate::world::{Refused, Reply, World};

/// Tokens from here on are theirs, and processes; up to those of guests.
const TOKENS: u64 = 1 << 42;
/// A connection has no more requests under way.
const MOST: usize = 64;
/// Between looks of hosts whose threads were not at hand.
const AGAIN: Nanos = 100_000;

#[derive(Clone, Debug)]
enum Step {
    /// A client sends.
    Ask(usize),
    /// Requests arrive at a host.
    Arrive(u64, Vec<u64>),
    /// A client hears that its connection is gone.
    Broken(u64),
    /// A host hears so.
    Close(u64),
    /// A client's patience with all that it sent up to this is over.
    GiveUp(u64),
}

/// A connection, as its host sees it.
struct Line {
    node: NodeId,
    worker: u16,
    /// The process at its other end, once something arrived there.
    process: Option<u64>,
    /// Requests that the engine has not got yet.
    waiting: VecDeque<u64>,
    put_off: Option<u64>,
}

struct Client {
    aim: NodeId,
    /// Its connection, and how many requests it sent over that.
    line: Option<(u64, u64)>,
    /// The request that it waits for.
    awaits: BTreeSet<u64>,
    /// A client that was refused asks elsewhere, once everything is answered.
    leaves: bool,
    /// It has planned to send.
    asks: bool,
}

/// All of them.
pub struct Pipelines {
    random: Random,
    load: Load,
    replicas: u8,
    workers: u16,
    think: Nanos,
    left: u32,
    clients: Vec<Client>,
    lines: BTreeMap<u64, Line>,
    /// The client and the connection of each request.
    owners: BTreeMap<u64, (usize, u64)>,
    steps: BTreeMap<(Nanos, u64), Step>,
    seq: u64,
    look_at: Option<Nanos>,
    procedure: Option<ProcedureId>,
    /// How often things happened.
    pub marks: BTreeMap<&'static str, u64>,
}

impl Pipelines {
    /// Those that the load wants.
    pub fn new(
        load: &Load,
        (replicas, workers): (u8, u16),
        seed: u64,
        now: Nanos,
        length: Nanos,
    ) -> Pipelines {
        let mut random = Random::new(seed ^ 0x919e_11e5);
        let number = if load.transactions > 0 { usize::from(load.pipelines) } else { 0 };
        let left = if number > 0 { load.transactions.max(200) } else { 0 };
        let client = |_| Client {
            aim: NodeId(random.below(replicas.into()) as u8),
            line: None,
            awaits: BTreeSet::new(),
            leaves: false,
            asks: false,
        };
        let clients: Vec<Client> = (0..number).map(client).collect();
        // Bursts have some ten requests.
        let think = length * number as u64 * 10 / u64::from(left.max(1));
        let mut all = Pipelines {
            random,
            load: *load,
            replicas,
            workers,
            think,
            left,
            clients,
            lines: BTreeMap::new(),
            owners: BTreeMap::new(),
            steps: BTreeMap::new(),
            seq: TOKENS,
            look_at: None,
            procedure: None,
            marks: BTreeMap::new(),
        };
        for at in 0..number {
            all.think_of(at, now);
        }
        all
    }

    /// Whether a reply to this is theirs.
    pub fn owns(token: Token) -> bool {
        token.0 >= TOKENS
    }

    /// When one wants to do something next.
    pub fn next(&self) -> Option<Nanos> {
        let own = self.steps.first_key_value().map(|((at, _), _)| *at);
        own.into_iter().chain(self.look_at).min()
    }

    /// Nothing new; what is under way may end.
    pub fn stop(&mut self) {
        self.left = 0;
    }

    /// Whether nobody waits for a reply.
    pub fn quiet(&self) -> bool {
        self.clients.iter().all(|client| client.awaits.is_empty())
    }

    fn plan(&mut self, at: Nanos, step: Step) {
        self.seq += 1;
        self.steps.insert((at, self.seq), step);
    }

    fn hop(&mut self) -> Nanos {
        HOP.0 + self.random.below(HOP.1)
    }

    fn mark(&mut self, what: &'static str) {
        *self.marks.entry(what).or_default() += 1;
    }

    /// A client sends again after a while, unless it is about to.
    fn think_of(&mut self, at: usize, now: Nanos) {
        if !std::mem::replace(&mut self.clients[at].asks, true) {
            let wait = self.random.below(2 * self.think + 1);
            self.plan(now + wait, Step::Ask(at));
        }
    }

    /// Does what they and their hosts do up to now.
    pub fn act<L: Library>(
        &mut self,
        world: &mut World<L>,
        hand: &Hand,
        work: &mut Work,
        journal: &mut Journal,
    ) {
        let now = world.now;
        while let Some(entry) = self.steps.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Step::Ask(at) => self.ask(now, at, work, journal),
                Step::Arrive(number, tokens) => self.arrive(world, hand, number, tokens),
                Step::Broken(number) => self.broken(now, number),
                Step::Close(number) => _ = self.lines.remove(&number),
                Step::GiveUp(token) => self.give_up(now, token),
            }
        }
        self.follow_processes(world);
        let numbers: Vec<u64> = self.lines.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.hand_in(world, journal, number));
        let waits = self.lines.values().any(|line| !line.waiting.is_empty() && line.put_off.is_none());
        self.look_at = waits.then_some(now + AGAIN);
    }

    /// A client sends a few requests in one piece, or many.
    fn ask(&mut self, now: Nanos, at: usize, work: &mut Work, journal: &mut Journal) {
        self.clients[at].asks = false;
        let room = (MOST - self.clients[at].awaits.len()).min(self.left as usize);
        if room == 0 || self.clients[at].leaves {
            return;
        }
        let most = self.random.pick(&[1, 4, 16, 64]);
        let many = (1 + self.random.below(most) as usize).min(room);
        self.left -= many as u32;
        let (number, sent) = match self.clients[at].line {
            Some(line) => line,
            None => self.connect(at),
        };
        let mut tokens = Vec::new();
        for place in sent..sent + many as u64 {
            self.seq += 1;
            let (token, place) = (self.seq, Place { connection: number, number: place });
            journal.send(token, work.ops(&mut self.random), place, now);
            self.owners.insert(token, (at, number));
            self.clients[at].awaits.insert(token);
            tokens.push(token);
        }
        self.clients[at].line = Some((number, sent + many as u64));
        let (last, hop) = (tokens[many - 1], self.hop());
        self.plan(now + self.load.patience_ns, Step::GiveUp(last));
        // What is sent over a connection arrives in order.
        let arrives = now + hop;
        let behind =
            self.steps.iter().filter(|(_, step)| matches!(step, Step::Arrive(to, _) if *to == number));
        let arrives = behind.map(|((at, _), _)| *at).max().map_or(arrives, |last| last.max(arrives));
        self.plan(arrives, Step::Arrive(number, tokens));
        if self.random.one_in(2) {
            // It sends more before anything is answered.
            self.clients[at].asks = true;
            let soon = now + self.hop();
            self.plan(soon, Step::Ask(at));
        }
    }

    fn connect(&mut self, at: usize) -> (u64, u64) {
        self.seq += 1;
        let (node, worker) = (self.clients[at].aim, self.random.below(self.workers.into()) as u16);
        let line = Line { node, worker, process: None, waiting: VecDeque::new(), put_off: None };
        self.lines.insert(self.seq, line);
        (self.seq, 0)
    }

    fn arrive<L: Library>(&mut self, world: &World<L>, hand: &Hand, number: u64, tokens: Vec<u64>) {
        let Some(line) = self.lines.get_mut(&number).filter(|line| !hand.shuns(line.node)) else { return };
        line.process = line.process.or(world.process(line.node));
        line.waiting.extend(tokens);
        if line.process.is_none() {
            let at = world.now + self.hop();
            self.plan(at, Step::Broken(number));
        }
    }

    /// With a process its connections are gone.
    fn follow_processes<L: Library>(&mut self, world: &World<L>) {
        let is_over = |line: &Line| line.process.is_some() && world.process(line.node) != line.process;
        let over: Vec<u64> =
            self.lines.iter().filter(|(_, line)| is_over(line)).map(|(number, _)| *number).collect();
        for number in over {
            self.lines.remove(&number);
            let at = world.now + self.hop();
            self.plan(at, Step::Broken(number));
        }
    }

    /// The client of a connection that is gone hears nothing more of what it sent over it.
    fn broken(&mut self, now: Nanos, number: u64) {
        self.lines.remove(&number);
        let of = |client: &Client| client.line.is_some_and(|(own, _)| own == number);
        let Some(at) = self.clients.iter().position(of) else { return };
        self.mark("pipelines that broke");
        self.leave(now, at);
    }

    /// A client goes on over another connection, to anybody.
    fn leave(&mut self, now: Nanos, at: usize) {
        let client = &mut self.clients[at];
        client.awaits.clear();
        client.leaves = false;
        client.aim = NodeId(self.random.below(self.replicas.into()) as u8);
        if let Some((number, _)) = self.clients[at].line.take() {
            let late = if self.random.one_in(3) { self.random.below(self.load.patience_ns) } else { 0 };
            let closed = now + self.hop() + late;
            self.plan(closed, Step::Close(number));
        }
        self.think_of(at, now);
    }

    fn give_up(&mut self, now: Nanos, token: u64) {
        let at = self.owners[&token].0;
        if self.clients[at].awaits.first().is_some_and(|oldest| *oldest <= token) {
            self.mark("pipelines given up");
            self.leave(now, at);
        }
    }

    /// A host hands in what it may.
    fn hand_in<L: Library>(&mut self, world: &mut World<L>, journal: &mut Journal, number: u64) {
        if self.procedure.is_none() && world.ids().any(|id| world.is_up(id)) {
            self.procedure = Some(world.procedure(STEPS));
        }
        let Some(procedure) = self.procedure else { return };
        while let Some(line) = self.lines.get_mut(&number)
            && line.put_off.is_none()
            && let Some(token) = line.waiting.front().copied()
        {
            let (node, worker) = (line.node, line.worker);
            if matches!(world.ready(node, worker), None | Some(Err(Refusal::Busy))) {
                return;
            }
            let args = library::encode(journal.asked_for(token));
            let taken = world.place(node, worker, Token(token), procedure, &args);
            if taken == Err(Refusal::Busy) {
                return self.mark("pipelines that waited for room");
            }
            line.waiting.pop_front();
            match taken {
                Ok(Taken::Placed) => self.mark("pipelined requests placed"),
                Ok(Taken::PutOff) => {
                    line.put_off = Some(token);
                    self.mark("pipelined requests put off");
                }
                Err(why) => self.refuse(world.now, journal, token, why),
            }
        }
    }

    /// A request that was taken in was refused.
    pub fn refused(&mut self, journal: &mut Journal, Refused { token, why, at }: Refused) {
        self.refuse(at, journal, token.0, why);
    }

    /// Nothing was done.
    fn refuse(&mut self, now: Nanos, journal: &mut Journal, token: u64, why: Refusal) {
        let at = now + self.hop();
        journal.end(token, Status::Fail, at, Vec::new());
        self.mark("pipelined requests refused");
        let client = &mut self.clients[self.owners[&token].0];
        if client.awaits.contains(&token) {
            client.leaves = true;
            if let Refusal::NotServing { ask: Some(leader) } = why {
                client.aim = leader;
            }
        }
        self.ended(at, token);
    }

    /// A reply has come.
    ///
    /// # Errors
    /// A thing that no database may do.
    pub fn hear(&mut self, reply: &Reply, hand: &Hand, journal: &mut Journal) -> Result<(), String> {
        let at = reply.at + self.hop();
        let (status, _) = journal.hear(reply, at)?;
        if status == Status::Ok {
            self.mark("pipelined requests acknowledged");
        }
        let token = reply.token.0;
        if hand.shuns(reply.from.0) {
            // The host has it; the client hears nothing.
            self.goes_on(token);
        } else {
            self.ended(at, token);
        }
        Ok(())
    }

    /// A connection of which nothing is put off any more goes on.
    fn goes_on(&mut self, token: u64) {
        let number = self.owners[&token].1;
        if let Some(line) = self.lines.get_mut(&number).filter(|line| line.put_off == Some(token)) {
            line.put_off = None;
        }
    }

    fn ended(&mut self, now: Nanos, token: u64) {
        self.goes_on(token);
        let at = self.owners[&token].0;
        let client = &mut self.clients[at];
        if !client.awaits.remove(&token) || !client.awaits.is_empty() {
            return;
        }
        if !std::mem::take(&mut client.leaves) {
            return self.think_of(at, now);
        }
        let aim = client.aim;
        let wait = self.random.below(REFUSED_WAIT);
        let anybody = self.random.one_in(4);
        self.leave(now + wait, at);
        if !anybody {
            self.clients[at].aim = aim;
        }
    }
}
