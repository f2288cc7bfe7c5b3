//! Clients that coordinate their transactions themselves: each has a connection of its own to every replica, over which messages take time, may
//! be lost with it, and sometimes one by one; it crashes now and then in the middle of a transaction, with a word to the replicas or without.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_checker::Status;
use highwater_core::{Library, NodeId, Outcome, Random};
use highwater_meerkat_client::core::Settings;
use highwater_meerkat_client::stepped::{Done, Stepped};
use highwater_seam::options::MIN_TRANSACTION_BYTES;
use highwater_seam::{ClientId, Nanos};

use super::journal::Journal;
use super::waits::{HOP, REFUSED_WAIT};
use super::work::Work;
use crate::faults::Hand;
use crate::library::{self, STEPS, SimLibrary};
use crate::plan::Load;
use crate::world::World;

/// Tokens from here on are theirs, and processes.
const TOKENS: u64 = 1 << 41;
/// Attempts of one transaction.
const MOST_ATTEMPTS: u32 = 20;
/// One connection breaks by itself at so many messages.
const BREAKS: u64 = 400;
/// A client crashes during one transaction in so many.
const CRASHES: u64 = 30;
/// A message is late once in so many times.
const LATE: u64 = 60;

#[derive(Clone, Debug)]
enum Step {
    /// Asks for its next transaction, or goes on after a crash.
    Ask,
    /// Connects to a node.
    Connect(NodeId),
    /// A message arrives at a node's worker.
    There(ClientId, Bytes),
    /// A message arrives here.
    Here(ClientId, Bytes),
    /// The node hears that a connection is lost.
    LostThere(ClientId),
    /// The client hears it.
    LostHere(ClientId),
    /// What the client wants to do by itself.
    Tick,
    /// It crashes, in its so-manyth life.
    Crash(u64),
}

/// One end of a connection each: what was sent before it broke may arrive, or not.
struct Link {
    owner: usize,
    node: NodeId,
    /// The process there.
    life: u64,
    open_here: bool,
    open_there: bool,
    /// Messages keep their order: when the last one arrives there, and here.
    last: [Nanos; 2],
}

struct Delegate {
    core: Stepped,
    life: u64,
    worker: u16,
    process: u64,
    token: Option<u64>,
    links: BTreeMap<NodeId, ClientId>,
    /// When it was planned to do something by itself.
    ticks: Option<Nanos>,
    up: bool,
}

/// All of them.
pub struct Delegates {
    random: Random,
    load: Load,
    replicas: u8,
    think: Nanos,
    left: u32,
    delegates: Vec<Delegate>,
    links: BTreeMap<ClientId, Link>,
    steps: BTreeMap<(Nanos, u64), (usize, Step)>,
    seq: u64,
    /// Of so many messages one is lost, and one repeated; whether they overtake each other.
    lossy: Option<u64>,
    reorders: bool,
    stopped: bool,
    /// Mixes what they saw.
    pub trace: u64,
    /// How often things happened.
    pub marks: BTreeMap<&'static str, u64>,
}

impl Delegates {
    /// Those that the load wants.
    pub fn new(
        load: &Load,
        (replicas, workers): (u8, u16),
        seed: u64,
        now: Nanos,
        length: Nanos,
    ) -> Delegates {
        let mut random = Random::new(seed ^ 0xde1e_6a7e);
        let number = if load.transactions > 0 { usize::from(load.delegates) } else { 0 };
        let left = if number > 0 { load.transactions / 2 } else { 0 };
        let think = length * number as u64 / u64::from(left.max(1));
        let (lossy, reorders) = (random.one_in(3).then(|| random.between(20, 200)), random.one_in(4));
        let mut all = Delegates {
            random,
            load: *load,
            replicas,
            think,
            left,
            delegates: Vec::new(),
            links: BTreeMap::new(),
            steps: BTreeMap::new(),
            seq: TOKENS,
            lossy,
            reorders,
            stopped: false,
            trace: 0,
            marks: BTreeMap::new(),
        };
        for at in 0..number {
            let delegate = all.fresh(at as u16 % workers, 0);
            all.delegates.push(delegate);
            let start = now + all.random.below(think + 1);
            all.plan(start, at, Step::Ask);
            all.connect_all(now, at);
        }
        all
    }

    fn fresh(&mut self, worker: u16, life: u64) -> Delegate {
        self.seq += 1;
        let settings =
            Settings { nodes: self.replicas, seed: self.random.bits(), patience: self.load.patience_ns };
        let most = MIN_TRANSACTION_BYTES.max(self.load.largest_transaction());
        Delegate {
            core: Stepped::new(&SimLibrary, settings, most, MOST_ATTEMPTS),
            life,
            worker,
            process: self.seq,
            token: None,
            links: BTreeMap::new(),
            ticks: None,
            up: true,
        }
    }

    fn connect_all(&mut self, now: Nanos, at: usize) {
        for node in (0..self.replicas).map(NodeId) {
            let when = now + HOP.0 + self.random.below(HOP.1);
            self.plan(when, at, Step::Connect(node));
        }
    }

    /// When one wants to do something next.
    pub fn next(&self) -> Option<Nanos> {
        self.steps.first_key_value().map(|((at, _), _)| *at)
    }

    /// Nothing new; whoever crashed is noticed, and what is under way goes to its end.
    pub fn stop(&mut self) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        self.left = 0;
        (self.lossy, self.reorders) = (None, false);
    }

    /// Whether each knows what became of all that it asked for, as far as it lives, and replicas have heard.
    pub fn quiet(&self) -> bool {
        let silent =
            |delegate: &Delegate| !delegate.up || (delegate.token.is_none() && delegate.core.is_quiet());
        self.delegates.iter().all(silent)
            && self.links.values().all(|link| link.open_here || !link.open_there)
    }

    /// Those that wait for something, for reports.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (at, delegate) in self.delegates.iter().enumerate() {
            if delegate.up && !(delegate.token.is_none() && delegate.core.is_quiet()) {
                let Delegate { token, core, .. } = delegate;
                text.push_str(&format!("coordinating client {at}: {token:?} {core:?}\n"));
            }
        }
        text
    }

    fn plan(&mut self, when: Nanos, at: usize, step: Step) {
        self.seq += 1;
        self.steps.insert((when, self.seq), (at, step));
    }

    fn mark(&mut self, what: &'static str) {
        *self.marks.entry(what).or_default() += 1;
    }

    /// Does what they do up to now.
    pub fn act<L: Library>(
        &mut self,
        world: &mut World<L>,
        hand: &Hand,
        work: &mut Work,
        journal: &mut Journal,
    ) {
        for said in std::mem::take(&mut world.to_clients) {
            self.carry(said.at, said.client, hand, 1, said.bytes);
        }
        if self.delegates.is_empty() {
            return;
        }
        self.notice(world, hand);
        while let Some(entry) = self.steps.first_entry()
            && entry.key().0 <= world.now
        {
            let (at, step) = entry.remove();
            self.do_step(world, hand, (work, journal), at, step);
        }
    }

    /// Connections whose process is gone, or that nobody gets through to, break.
    fn notice<L: Library>(&mut self, world: &World<L>, hand: &Hand) {
        let broken = |link: &Link| {
            let forgotten = self.stopped && !link.open_here;
            world.process(link.node) != Some(link.life) || hand.shuns(link.node) || forgotten
        };
        let lost = self.links.iter().filter(|(_, link)| broken(link)).map(|(id, _)| *id);
        let lost: Vec<ClientId> = lost.collect();
        for id in lost {
            let link = &self.links[&id];
            if world.process(link.node) != Some(link.life) {
                self.links.get_mut(&id).expect("it is there").open_there = false;
            }
            // Who is not reached finds out by itself, at some time; the other end, too.
            if self.random.one_in(20) {
                self.lose(world.now, id, false);
            }
        }
        let dead = |link: &Link| !link.open_here && !link.open_there;
        self.links.retain(|_, link| !dead(link));
    }

    /// Plans that both ends hear that a connection is lost.
    fn lose(&mut self, now: Nanos, id: ClientId, at_once: bool) {
        let Some(Link { owner, open_here, open_there, .. }) = self.links.get(&id) else { return };
        let (owner, open_here, open_there) = (*owner, *open_here, *open_there);
        let most = if at_once || self.stopped { HOP.1 } else { self.load.patience_ns / 8 + 1 };
        for (open, step) in [(open_here, Step::LostHere(id)), (open_there, Step::LostThere(id))] {
            if open {
                let when = now + HOP.0 + self.random.below(most);
                self.plan(when, owner, step);
            }
        }
    }

    /// A message travels: `way` 0 to the node, 1 to the client.
    fn carry(&mut self, now: Nanos, id: ClientId, hand: &Hand, way: usize, bytes: Bytes) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if hand.shuns(link.node) || !(link.open_here && link.open_there) {
            return;
        }
        let owner = link.owner;
        let mut when = now + HOP.0 + self.random.below(HOP.1);
        if !self.stopped && self.random.one_in(LATE) {
            when += self.random.below(self.load.patience_ns / 4 + 1);
        }
        let step = |bytes| if way == 0 { Step::There(id, bytes) } else { Step::Here(id, bytes) };
        if self.lossy.is_some_and(|rate| self.random.one_in(rate)) {
            return;
        }
        if self.lossy.is_some_and(|rate| self.random.one_in(rate)) {
            let again = when + self.random.below(self.load.patience_ns / 4 + 1);
            self.plan(again, owner, step(bytes.clone()));
        }
        if !self.reorders {
            let link = self.links.get_mut(&id).expect("it was just there");
            when = when.max(link.last[way] + 1);
            link.last[way] = when;
        }
        self.plan(when, owner, step(bytes));
        if !self.stopped && self.random.one_in(BREAKS) {
            self.mark("broken connections of coordinating clients");
            self.lose(now, id, false);
        }
    }

    fn do_step<L: Library>(
        &mut self,
        world: &mut World<L>,
        hand: &Hand,
        (work, journal): (&mut Work, &mut Journal),
        at: usize,
        step: Step,
    ) {
        let now = world.now;
        match step {
            Step::Ask => self.ask(world, (work, journal), at),
            Step::Connect(node) => self.connect(world, hand, at, node),
            Step::There(id, bytes) => {
                let Some(link) = self.links.get(&id) else { return };
                if link.open_there && world.process(link.node) == Some(link.life) {
                    let (node, worker) = (link.node, self.delegates[at].worker);
                    world.client_says(node, worker, id, bytes);
                }
                return;
            }
            Step::LostThere(id) => {
                let Some(link) = self.links.get_mut(&id) else { return };
                if std::mem::replace(&mut link.open_there, false)
                    && world.process(link.node) == Some(link.life)
                {
                    let (node, worker) = (link.node, self.delegates[at].worker);
                    world.client_down(node, worker, id);
                }
                return;
            }
            Step::Here(id, bytes) => {
                let Some(link) = self.links.get(&id).filter(|link| link.open_here) else { return };
                let node = link.node;
                let heard = self.delegates[at].core.hear(now, node, &bytes);
                heard.expect("replicas say what makes sense");
            }
            Step::LostHere(id) => {
                let Some(link) = self.links.get_mut(&id) else { return };
                if !std::mem::replace(&mut link.open_here, false) {
                    return;
                }
                let node = link.node;
                self.delegates[at].links.remove(&node);
                self.delegates[at].core.down(now, node);
                let again = now + self.random.below(REFUSED_WAIT);
                self.plan(again, at, Step::Connect(node));
            }
            Step::Tick => {
                self.delegates[at].ticks = None;
                if self.delegates[at].up {
                    self.delegates[at].core.tick(now);
                }
            }
            Step::Crash(life) => {
                if self.delegates[at].life == life && self.delegates[at].token.is_some() {
                    self.crash(now, at);
                }
            }
        }
        self.go_on(now, hand, journal, at);
    }

    fn connect<L: Library>(&mut self, world: &mut World<L>, hand: &Hand, at: usize, node: NodeId) {
        let delegate = &self.delegates[at];
        if !delegate.up || delegate.links.contains_key(&node) {
            return;
        }
        let Some(life) = world.process(node).filter(|_| !hand.shuns(node)) else {
            let again = world.now + 1 + self.random.below(4 * REFUSED_WAIT);
            self.plan(again, at, Step::Connect(node));
            return;
        };
        self.seq += 1;
        let id = ClientId(self.seq);
        let link = Link { owner: at, node, life, open_here: true, open_there: true, last: [0; 2] };
        self.links.insert(id, link);
        world.client_up(node, self.delegates[at].worker, id);
        self.delegates[at].links.insert(node, id);
        self.delegates[at].core.up(node);
    }

    fn ask<L: Library>(&mut self, world: &World<L>, (work, journal): (&mut Work, &mut Journal), at: usize) {
        if !self.delegates[at].up {
            let (worker, life) = (self.delegates[at].worker, self.delegates[at].life);
            self.delegates[at] = self.fresh(worker, life + 1);
            self.connect_all(world.now, at);
        }
        if self.left == 0 || !world.ids().any(|id| world.is_up(id)) {
            return;
        }
        self.left -= 1;
        self.seq += 1;
        let token = self.seq;
        let ops = work.ops(&mut self.random);
        let args = library::encode(&ops);
        let delegate = &mut self.delegates[at];
        journal.ask(token, delegate.process, ops, false, world.now);
        delegate.token = Some(token);
        delegate.core.begin(world.now, world.procedure(STEPS), args);
        let life = delegate.life;
        self.mark("transactions of coordinating clients");
        if self.random.one_in(CRASHES) {
            // Within a round trip or two, as a rule.
            let most = if self.random.one_in(4) { self.load.patience_ns } else { 8 * HOP.1 };
            let when = world.now + self.random.below(most);
            self.plan(when, at, Step::Crash(life));
        }
    }

    /// It is gone, and what it knew. Replicas hear so, or find out long after.
    fn crash(&mut self, now: Nanos, at: usize) {
        self.mark("crashes of coordinating clients");
        self.delegates[at].up = false;
        self.delegates[at].token = None;
        let silent = self.random.one_in(2);
        for id in std::mem::take(&mut self.delegates[at].links).into_values() {
            let Some(link) = self.links.get_mut(&id) else { continue };
            link.open_here = false;
            let most = if silent && !self.stopped { 4 * self.load.patience_ns } else { HOP.1 };
            let when = now + HOP.0 + self.random.below(most);
            self.plan(when, at, Step::LostThere(id));
        }
        let back = now + self.random.below(2 * self.think + REFUSED_WAIT);
        self.plan(back, at, Step::Ask);
    }

    /// What it says goes its way; how its transaction ended is noted down.
    fn go_on(&mut self, now: Nanos, hand: &Hand, journal: &mut Journal, at: usize) {
        if !self.delegates[at].up {
            return;
        }
        for (node, bytes) in self.delegates[at].core.take_outgoing() {
            if let Some(id) = self.delegates[at].links.get(&node) {
                self.carry(now, *id, hand, 0, bytes);
            }
        }
        if let Some(done) = self.delegates[at].core.done() {
            self.note(now, journal, at, done);
            let pause = self.random.below(2 * self.think + 1);
            self.plan(now + pause, at, Step::Ask);
        }
        let delegate = &mut self.delegates[at];
        if let Some(next) = delegate.core.next() {
            let next = next.max(now + 1);
            if delegate.ticks.is_none_or(|ticks| next < ticks) {
                delegate.ticks = Some(next);
                self.plan(next, at, Step::Tick);
            }
        }
    }

    fn note(&mut self, now: Nanos, journal: &mut Journal, at: usize, done: Done) {
        let token = self.delegates[at].token.take().expect("it asked for what has ended");
        self.trace ^= token.rotate_left(7) ^ now;
        let (status, what) = match &done {
            Done::Outcome(Outcome::Committed, _) => (Status::Ok, "commits by coordinating clients"),
            Done::Outcome(Outcome::Unknown, _) => {
                // Who does not know what became of something is not heard of again.
                self.seq += 1;
                self.delegates[at].process = self.seq;
                self.mark("unknown outcomes of coordinating clients");
                return;
            }
            Done::Outcome(Outcome::Conflict, _) => (Status::Fail, "conflicts of coordinating clients"),
            Done::Outcome(..) => (Status::Fail, "roll-backs of coordinating clients"),
            Done::Trouble(_) => (Status::Fail, "refusals of coordinating clients"),
        };
        self.mark(what);
        let seen = match done {
            Done::Outcome(Outcome::Committed, reply) => library::decode_reply(&reply),
            _ => Vec::new(),
        };
        journal.end(token, status, now, seen);
    }
}
