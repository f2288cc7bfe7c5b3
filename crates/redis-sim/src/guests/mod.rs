//! The guests of a run: clients with a connection each, the way to the nodes, and the hosts there.
//!
//! A guest types a command, or a few at once, waits for the replies or loses its patience, and goes on. It follows redirections. Who loses its patience, or hears
//! that its connection broke, connects anew; the old connection is closed at some time, or never. What it types is drawn by its kind:
//! `expiring`, `queues`, `interactive`.

mod expiring;
mod interactive;
mod queues;
mod ruling;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use highwater_checker::{History, Level, Options, check};
use highwater_core::clock::Stopwatch;
use highwater_core::{NodeId, Outcome, Random, Timestamp};
use highwater_seam::{Nanos, Service};
use highwater_sim::faults::Hand;
use highwater_sim::house::TOKENS;
use highwater_sim::network::Channel;
use highwater_sim::plan::Redis;
use highwater_sim::{FailureKind, Guests, Plan, World};

use crate::door::node_at;
use crate::host::{Host, Output};
use crate::ledger::{Given, Ledger};
use crate::library::Joined;
use crate::model::Op;
use crate::order;
use crate::reply::Reply;
use crate::wires::Wires;
use expiring::Expiring;
use interactive::{Interactive, Transactions};
use queues::Queues;
use ruling::{Ruled, Ruler};

const MS: Nanos = 1_000_000;
/// A packet takes at least this long, and up to so much more.
const HOP: (Nanos, Nanos) = (5_000, 60_000);
/// What a clock on a wall shows at the beginning.
const BEGIN_MS: u64 = 1_700_000_000_000;
/// So many commands are typed at once, at most.
const MOST_AT_ONCE: u64 = 8;
/// The stopwatch of hosts that forward.
static STOPWATCH: LazyLock<Stopwatch> = LazyLock::new(Stopwatch::calibrate);
/// Between looks of hosts whose threads were not at hand.
const AGAIN: Nanos = MS / 10;
/// The answer to what took longer than a request may.
const ENDED: &str = "ERR too large: it was ended because it took longer than a request may";

/// What a guest types next.
pub(crate) struct Typed {
    words: Vec<String>,
    /// What is judged in order.
    op: Option<Op>,
    /// How long it may wait for data itself.
    waits: Nanos,
}

impl Typed {
    fn judged(op: Op) -> Typed {
        let waits = match op.waits() {
            None => 0,
            Some((_, 0)) => Nanos::MAX / 4,
            Some((_, ms)) => ms * MS,
        };
        Typed { words: op.words(), op: Some(op), waits }
    }

    fn bytes(&self) -> Vec<u8> {
        let words = self.words.iter();
        let begin = format!("*{}\r\n", self.words.len());
        words.fold(begin, |all, word| all + &format!("${}\r\n{word}\r\n", word.len())).into_bytes()
    }
}

/// How a command ended for its guest.
pub(crate) enum Heard {
    Reply(Reply),
    /// It will not be told.
    Nothing,
}

enum Kind {
    Expiring,
    Queue {
        pushes: bool,
    },
    Interactive(Interactive),
    /// Types what the first kind does, and many commands at once.
    Pipelined,
    /// Changes what a user may, again and again.
    Ruler(Ruler),
    /// Writes as that user, while it may.
    Ruled(Ruled),
    /// Looks at everything in the end, and gives what others wait for.
    Steward,
}

struct Guest {
    kind: Kind,
    aim: NodeId,
    worker: u16,
    /// Its connection: a number, and where it leads.
    line: Option<(u64, NodeId, u16)>,
    input: Vec<u8>,
    /// The command that it waits for: its number, and what it is. Of a pipeline the first one.
    open: Option<(u64, Option<Op>)>,
    /// Replies that it waits for.
    awaits: usize,
    left: u32,
}

enum Step {
    /// A guest types.
    Type(usize),
    /// Bytes arrive at a node.
    Arrive { node: NodeId, worker: u16, line: u64, bytes: Vec<u8>, ops: Vec<Op> },
    /// Bytes arrive at a guest.
    Told { guest: usize, line: u64, bytes: Vec<u8> },
    /// A guest hears that its connection is gone.
    Broken { guest: usize, line: u64 },
    /// A node hears so.
    Close { node: NodeId, worker: u16, line: u64 },
    /// A guest's patience is over.
    GiveUp { guest: usize, command: u64 },
    /// An engine's reply is handed out.
    Given(Given),
    /// A clock on a wall jumps.
    Jump,
    /// The steward gives to those who wait.
    Give,
}

/// See the module.
pub struct House {
    random: Random,
    redis: Redis,
    nodes: u8,
    workers: u16,
    think: Nanos,
    patience: Nanos,
    steps: BTreeMap<(Nanos, u64), Step>,
    seq: u64,
    hosts: BTreeMap<NodeId, Host>,
    /// Between hosts that forward, and what these measure by: nothing depends on it.
    wires: Wires,
    forwards: Option<Stopwatch>,
    guests: Vec<Guest>,
    /// Whose connection a number is.
    lines: BTreeMap<u64, usize>,
    walls: Vec<u64>,
    jump_every: Nanos,
    ledger: Ledger,
    expiring: Expiring,
    queues: Queues,
    transactions: Transactions,
    /// What the steward has yet to do.
    chores: Vec<Op>,
    stopped: bool,
    hosts_look_at: Nanos,
    trace: u64,
}

impl House {
    /// The guests of a plan, who begin now.
    pub fn new(plan: &Plan, redis: Redis, now: Nanos) -> House {
        let mut random = Random::new(Random::new(plan.seed ^ 0x9_e575).bits());
        let nodes = plan.nodes();
        let kinds = (0..redis.expiring)
            .map(|_| Kind::Expiring)
            .chain((0..redis.queues).map(|at| Kind::Queue { pushes: at % 2 == 0 }))
            .chain((0..redis.interactive).map(|_| Kind::Interactive(Interactive::default())))
            .chain((0..redis.pipelined).map(|_| Kind::Pipelined))
            .chain((0..redis.users).map(|user| Kind::Ruler(Ruler::new(user))))
            .chain((0..2 * redis.users).map(|at| Kind::Ruled(Ruled::new(at / 2))))
            .chain([Kind::Steward]);
        let guests: Vec<Guest> = kinds
            .map(|kind| Guest {
                kind,
                aim: NodeId(random.below(plan.replicas.into()) as u8),
                worker: random.below(plan.workers.into()) as u16,
                line: None,
                input: Vec::new(),
                open: None,
                awaits: 0,
                left: redis.commands.into(),
            })
            .collect();
        let walls = (0..nodes).map(|_| random.below(u64::from(redis.skew_ms) + 1)).collect();
        let mut house = House {
            think: plan.length_ns / u64::from(redis.commands) + 1,
            patience: plan.load.patience_ns.min(plan.length_ns / 4),
            jump_every: plan.length_ns / 6,
            random,
            redis,
            nodes,
            workers: plan.workers,
            steps: BTreeMap::new(),
            seq: 0,
            hosts: BTreeMap::new(),
            wires: Wires::default(),
            forwards: redis.forward.then(|| *STOPWATCH),
            lines: BTreeMap::new(),
            walls,
            ledger: Ledger::default(),
            expiring: Expiring::new(redis.keys),
            queues: Queues::new(redis.keys),
            transactions: Transactions::new(redis.keys),
            chores: Vec::new(),
            stopped: false,
            hosts_look_at: now,
            trace: 0,
            guests,
        };
        for guest in 0..house.guests.len() {
            let start = now + house.random.below(house.think);
            house.plan(start, Step::Type(guest));
        }
        if redis.jumps {
            house.plan(now + house.jump_every, Step::Jump);
        }
        house
    }

    fn plan(&mut self, at: Nanos, step: Step) {
        self.seq += 1;
        self.steps.insert((at, self.seq), step);
    }

    fn hop(&mut self) -> Nanos {
        HOP.0 + self.random.below(HOP.1)
    }

    /// What the clock on a machine's wall shows.
    fn unix_ms(&self, world: &mut World<Joined>, node: NodeId) -> u64 {
        let now = world.now;
        BEGIN_MS + self.walls[usize::from(node.0)] + world.clock(node).local(now) / MS
    }

    /// Processes end and begin, and with them their hosts.
    fn follow_processes(&mut self, world: &World<Joined>) {
        let has_users = self.redis.users > 0;
        for node in (0..self.nodes).map(NodeId) {
            let process = world.process(node);
            if self.hosts.get(&node).map(Host::process) == process {
                continue;
            }
            if let Some(ended) = self.hosts.remove(&node) {
                let at = world.now + self.hop();
                self.wires.end(node, at);
                self.ledger.rules.ended((node, ended.process()));
                let broken: Vec<(u64, usize)> =
                    self.lines.iter().map(|(line, guest)| (*line, *guest)).collect();
                for (line, guest) in broken {
                    if self.guests[guest].line.is_some_and(|(own, to, _)| own == line && to == node) {
                        let at = world.now + self.hop();
                        self.plan(at, Step::Broken { guest, line });
                    }
                }
            }
            if let Some(host) = process
                .and_then(|process| Host::new(world, node, process, (7 + process, has_users), self.forwards))
            {
                self.hosts.insert(node, host);
            }
        }
    }

    /// Hosts that forward are connected, and what has arrived over their connections is handed in. Whether anything has.
    fn carry(&mut self, world: &World<Joined>) -> bool {
        if self.forwards.is_none() {
            return false;
        }
        let is_removed =
            |node: &NodeId| world.status(*node).is_some_and(|status| status.service == Service::Removed);
        let (removed, up): (Vec<NodeId>, Vec<NodeId>) = self.hosts.keys().copied().partition(is_removed);
        let House { wires, random, hosts, workers, .. } = self;
        removed.into_iter().for_each(|node| wires.part(node, world.now));
        wires.connect(world.now, &up, *workers, &mut || HOP.0 + random.below(HOP.1));
        let flows = |(from, to, worker)| world.network.flows(from, to, Channel::Worker(worker));
        let arrivals = wires.arrivals(world.now, flows);
        let any = !arrivals.is_empty();
        for arrival in arrivals {
            if let Some(host) = hosts.get_mut(&arrival.to) {
                host.forwarded(arrival);
            }
        }
        any
    }

    /// Sends what hosts have for clients and for each other.
    fn dispatch(&mut self, now: Nanos, node: NodeId, output: Output) {
        for (line, bytes) in output.bytes {
            let (guest, at) = (self.lines[&line], now + self.hop());
            self.plan(at, Step::Told { guest, line, bytes });
        }
        for line in output.closed {
            let (guest, at) = (self.lines[&line], now + self.hop());
            self.plan(at, Step::Broken { guest, line });
        }
        for (to, worker) in output.cut {
            let at = now + self.hop();
            self.wires.hang_up((node, to, worker), at);
        }
        for (to, worker, frame) in output.frames {
            let at = now + self.hop();
            self.wires.send((node, to, worker), at, frame);
        }
    }

    fn take_replies(&mut self, world: &mut World<Joined>) {
        let (ours, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut world.replies).into_iter().partition(|reply| reply.token.0 >= TOKENS);
        world.replies = others;
        let (ours_refused, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut world.refused).into_iter().partition(|refused| refused.token.0 >= TOKENS);
        world.refused = others;
        for refused in ours_refused {
            // It was taken in, and nothing was done.
            let (outcome, moment) = (Outcome::Conflict, Timestamp::ZERO);
            self.plan(
                refused.at,
                Step::Given(Given { token: refused.token, outcome, moment, bytes: Vec::new() }),
            );
        }
        for reply in ours {
            let (token, outcome, moment) = (reply.token, reply.outcome, reply.moment);
            self.plan(reply.at, Step::Given(Given { token, outcome, moment, bytes: reply.bytes }));
        }
    }

    fn do_step(&mut self, world: &mut World<Joined>, hand: &Hand, step: Step) -> Result<(), String> {
        match step {
            Step::Type(guest) => self.type_next(world.now, guest),
            Step::Arrive { node, worker, line, bytes, ops } => {
                match self.hosts.get_mut(&node).filter(|_| !hand.shuns(node)) {
                    Some(host) => host.arrive(worker, line, &bytes, ops),
                    None => self.break_line(world.now, hand, node, line),
                }
            }
            Step::Told { guest, line, bytes } => match self.guests[guest].line {
                Some((own, node, _)) if own == line && hand.shuns(node) => {
                    self.break_line(world.now, hand, node, line);
                }
                Some((own, ..)) if own == line => {
                    self.guests[guest].input.extend_from_slice(&bytes);
                    self.read(world.now, guest)?;
                }
                _ => {}
            },
            Step::Broken { guest, line } => {
                if self.guests[guest].line.is_some_and(|(own, ..)| own == line) {
                    self.hang_up(world.now, guest);
                    self.guests[guest].aim = self.any_node();
                    self.ended(world.now, guest, Heard::Nothing)?;
                }
            }
            Step::Close { node, worker, line } => {
                self.hosts.get_mut(&node).into_iter().for_each(|host| host.close(worker, line));
            }
            Step::GiveUp { guest, command } => {
                if self.guests[guest].open.as_ref().is_some_and(|(own, _)| *own == command) {
                    self.ledger.mark("guests' commands given up");
                    self.hang_up(world.now, guest);
                    self.ended(world.now, guest, Heard::Nothing)?;
                }
            }
            Step::Given(given) => {
                self.trace = self.trace.rotate_left(7)
                    ^ given.moment.0
                    ^ given.bytes.iter().map(|b| u64::from(*b)).sum::<u64>();
                if let Some(asked) = self.ledger.released(&given, world.now) {
                    let unix_ms = self.unix_ms(world, asked.node);
                    let host = self.hosts.get(&asked.node).filter(|host| host.process() == asked.process);
                    let told = host.is_some_and(|host| host.hears(&asked));
                    self.ledger.settle(&given, &asked, told, world.now);
                    if let Some(host) =
                        self.hosts.get_mut(&asked.node).filter(|host| host.process() == asked.process)
                    {
                        host.released(world, asked, &given, unix_ms)?;
                    }
                }
            }
            Step::Give => self.give(world.now),
            Step::Jump => {
                let node = self.random.below(self.nodes.into()) as usize;
                self.walls[node] = self.random.below(u64::from(self.redis.skew_ms) + 1);
                self.ledger.mark("jumps of clocks on walls");
                if !self.stopped {
                    let at = world.now + 1 + self.random.below(2 * self.jump_every);
                    self.plan(at, Step::Jump);
                }
            }
        }
        Ok(())
    }

    /// Nothing gets through: the guest is told at once that nobody listens, or gives up in the end.
    fn break_line(&mut self, now: Nanos, hand: &Hand, node: NodeId, line: u64) {
        let wait = if hand.shuns(node) { self.patience } else { 0 };
        let (guest, at) = (self.lines[&line], now + self.hop() + wait);
        self.plan(at, Step::Broken { guest, line });
    }

    /// Whoever waits gets something under each of its keys; again and again, for others may be quicker.
    fn give(&mut self, now: Nanos) {
        let waits = |guest: &Guest| {
            guest.open.as_ref().and_then(|(_, op)| op.clone()).filter(|op| op.waits().is_some())
        };
        let wanted: Vec<Op> = self.guests.iter().filter_map(waits).collect();
        if !wanted.is_empty() {
            self.chores.extend(wanted.iter().flat_map(|op| self.queues.give(op)).collect::<Vec<_>>());
            self.plan(now, Step::Type(self.steward()));
            self.plan(now + 20 * MS, Step::Give);
        }
    }

    fn any_node(&mut self) -> NodeId {
        NodeId(self.random.below(self.nodes.into()) as u8)
    }

    /// A guest types its next command, if it wants to.
    fn type_next(&mut self, now: Nanos, guest: usize) {
        if self.guests[guest].open.is_some() {
            return;
        }
        let random = &mut self.random;
        let own = &mut self.guests[guest];
        // Who is in the middle of a transaction goes on with it.
        let begins = !matches!(&own.kind, Kind::Interactive(interactive) if interactive.is_open());
        if begins && !matches!(own.kind, Kind::Steward) && (self.stopped || own.left == 0) {
            return;
        }
        let typed: Vec<Typed> = match &mut own.kind {
            Kind::Expiring => vec![Typed::judged(self.expiring.draw(random))],
            Kind::Queue { pushes } => vec![Typed::judged(self.queues.draw(*pushes, random))],
            Kind::Interactive(interactive) => vec![interactive.next(&mut self.transactions, random, now)],
            Kind::Pipelined => {
                let many = random.between(2, MOST_AT_ONCE);
                (0..many).map(|_| Typed::judged(self.expiring.draw(random))).collect()
            }
            Kind::Ruler(ruler) => ruler.next(random),
            Kind::Ruled(ruled) => ruled.next(random),
            Kind::Steward => self.chores.pop().map(Typed::judged).into_iter().collect(),
        };
        let Some(first) = typed.first() else { return };
        if begins {
            own.left = own.left.saturating_sub(typed.len() as u32);
        }
        let command = self.seq + 1;
        let (aim, worker) = (own.aim, own.worker);
        own.open = Some((command, first.op.clone()));
        own.awaits = typed.len();
        let line = match own.line {
            Some(line) => line,
            None => {
                let line = (command, aim, worker);
                own.line = Some(line);
                own.input.clear();
                self.lines.insert(command, guest);
                line
            }
        };
        let (number, node, worker) = line;
        let waits = typed.iter().map(|typed| typed.waits).max().unwrap_or_default();
        let (bytes, arrives) = (typed.iter().flat_map(Typed::bytes).collect(), now + self.hop());
        let ops = typed.into_iter().filter_map(|typed| typed.op).collect();
        self.plan(arrives, Step::Arrive { node, worker, line: number, bytes, ops });
        let patience = self.patience.saturating_add(waits);
        // Now and then one goes that waits.
        let leaves = waits > 0 && self.random.one_in(8);
        let patience = if leaves { self.random.below(self.patience) } else { patience };
        self.plan(now + patience, Step::GiveUp { guest, command });
    }

    /// A guest connects anew next time. Its old connection is closed soon, or late.
    fn hang_up(&mut self, now: Nanos, guest: usize) {
        if let Kind::Ruled(ruled) = &mut self.guests[guest].kind {
            ruled.leave();
        }
        if let Some((line, node, worker)) = self.guests[guest].line.take() {
            self.guests[guest].worker = self.random.below(self.workers.into()) as u16;
            let late = if self.random.one_in(3) { self.random.below(2 * self.patience) } else { 0 };
            let at = now + self.hop() + late;
            self.plan(at, Step::Close { node, worker, line });
        }
    }

    fn read(&mut self, now: Nanos, guest: usize) -> Result<(), String> {
        while let Some(reply) = Reply::take(&mut self.guests[guest].input) {
            if let Reply::Error(error) = &reply {
                let words: Vec<&str> = error.split(' ').collect();
                let aim = match words[0] {
                    "MOVED" => words.get(2).and_then(|address| node_at(address)),
                    "CLUSTERDOWN" | "UNKNOWN" => Some(self.any_node()),
                    // Nothing was done: it is asked again. A disk stays full for longer than its node waits.
                    "CONFLICT" | "TXOVER" | "TXTIMEOUT" | "DISKFULL" => None,
                    // A thread or a clock stood still, or leapt, in the middle of it.
                    _ if error.starts_with(ENDED) => {
                        self.ledger.mark("requests that were ended because they took too long");
                        None
                    }
                    "NOPERM" | "WRONGPASS" if matches!(self.guests[guest].kind, Kind::Ruled(_)) => {
                        self.ledger.mark("commands that users may not");
                        None
                    }
                    _ => {
                        return Err(format!(
                            "a guest is told: {error}; it asked {:?}",
                            self.guests[guest].open
                        ));
                    }
                };
                self.ledger.mark("guests' commands with errors");
                if let Some(aim) = aim {
                    self.guests[guest].aim = aim;
                    self.guests[guest].awaits = 1;
                    self.hang_up(now, guest);
                }
            }
            let own = &mut self.guests[guest];
            if own.awaits > 1 {
                own.awaits -= 1;
                if !matches!(reply, Reply::Error(_)) {
                    self.ledger.mark("guests' commands answered");
                }
                continue;
            }
            self.ended(now, guest, Heard::Reply(reply))?;
        }
        Ok(())
    }

    fn ended(&mut self, now: Nanos, guest: usize, heard: Heard) -> Result<(), String> {
        let own = &mut self.guests[guest];
        let op = match (own.open.take(), &own.kind) {
            (Some((_, op)), _) => op,
            // Its connection broke while it thought: so did its transaction.
            (None, Kind::Interactive(interactive)) if interactive.is_open() => None,
            (None, _) => return Ok(()),
        };
        let answered = matches!(&heard, Heard::Reply(reply) if !matches!(reply, Reply::Error(_)));
        if answered {
            self.ledger.mark("guests' commands answered");
        }
        match &mut own.kind {
            Kind::Interactive(interactive) => interactive.heard(&mut self.transactions, heard, now)?,
            Kind::Ruled(ruled) => ruled.heard(answered),
            // What it has to do is to be done, whatever it takes.
            Kind::Steward if !answered => self.chores.extend(op),
            _ => {}
        }
        if matches!(self.guests[guest].kind, Kind::Interactive(_)) && !answered {
            // What is left of its transaction ends with the connection.
            self.hang_up(now, guest);
        }
        let own = &self.guests[guest];
        let goes_on = matches!(&own.kind, Kind::Interactive(interactive) if interactive.is_open());
        let wait = match &own.kind {
            _ if goes_on => self.random.below(self.think / 8 + 1),
            Kind::Steward => self.random.below(MS),
            _ => self.random.below(2 * self.think + 1),
        };
        self.plan(now + wait, Step::Type(guest));
        Ok(())
    }

    fn steward(&self) -> usize {
        self.guests.len() - 1
    }
}

impl Guests<Joined> for House {
    fn act(&mut self, world: &mut World<Joined>, hand: &Hand) -> Result<(), String> {
        self.follow_processes(world);
        self.take_replies(world);
        let mut any = self.carry(world);
        while let Some(entry) = self.steps.first_entry()
            && entry.key().0 <= world.now
        {
            any = true;
            let step = entry.remove();
            self.do_step(world, hand, step)?;
        }
        if !any && world.now < self.hosts_look_at {
            return Ok(());
        }
        self.hosts_look_at = world.now + AGAIN;
        for node in (0..self.nodes).map(NodeId) {
            let unix_ms = self.unix_ms(world, node);
            let Some(host) = self.hosts.get_mut(&node) else { continue };
            let output = host.act(world, &mut self.ledger, unix_ms)?;
            self.dispatch(world.now, node, output);
        }
        Ok(())
    }

    fn next(&self) -> Option<Nanos> {
        let own = self.steps.first_key_value().map(|((at, _), _)| *at);
        own.into_iter().chain([self.hosts_look_at]).min()
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.plan(0, Step::Give);
    }

    fn look_at_all(&mut self) {
        self.chores =
            self.expiring.looks().chain(self.queues.looks()).chain(self.transactions.looks()).collect();
        self.plan(0, Step::Type(self.steward()));
    }

    fn rest(&mut self) {
        self.hosts.values_mut().for_each(Host::rest);
    }

    fn quiet(&self) -> bool {
        let busy = |guest: &Guest| {
            guest.open.is_some()
                || matches!(&guest.kind, Kind::Interactive(interactive) if interactive.is_open())
        };
        self.chores.is_empty() && !self.guests.iter().any(busy)
    }

    fn judge(&self, _: &World<Joined>) -> Result<(), (FailureKind, String)> {
        let promise = |what| FailureKind::Promise(what);
        if let Err(why) = order::judge(&self.ledger.records) {
            return Err((promise("commands have one order, in which each answers what Redis would"), why));
        }
        let mut history = History::new();
        self.transactions.record(&mut history);
        let verdict = check(&history, &Options { level: Level::Strict, ..Options::strict() });
        if let Some(first) = verdict.anomalies.first() {
            return Err((FailureKind::Anomaly, format!("transactions that guests decide: {}", first.text)));
        }
        Ok(())
    }

    fn marks(&self) -> BTreeMap<&'static str, u64> {
        let mut marks = self.ledger.marks.clone();
        marks.extend(self.transactions.marks());
        if let Ok(judged) = order::judge(&self.ledger.records) {
            marks.insert("guests' commands judged in order", judged.compared);
            marks.insert("groups of keys of which too much was unknown", judged.left);
        }
        marks.retain(|_, count| *count > 0);
        marks
    }

    fn trace(&self) -> u64 {
        self.trace
    }

    fn describe(&self) -> String {
        let hosts: String = self.hosts.values().map(Host::describe).collect();
        let guests = self.guests.iter().enumerate().filter(|(_, guest)| guest.open.is_some());
        let said: String = guests
            .map(|(at, guest)| format!("  guest {at} on {:?}: {:?}\n", guest.line, guest.open))
            .collect();
        format!("guests:\n{said}{hosts}")
    }
}
