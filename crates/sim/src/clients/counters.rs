//! Clients that count: each has a counter of its own, which it increments under a session, and repeats what was not answered,
//! wherever it may, until it knows what became of it. So each knows what its counter shows.
//!
//! A client that hears nothing sends the same again, often to another replica while the first try is still under way; or it asks
//! what became of it. Now and then one rests for so long that its session expires. Of a request that was sent before its session
//! expired nobody can say what became of it: only then a counter may show one of two numbers, until the next reply.

use std::collections::BTreeMap;

use highwater_core::{Library, NodeId, Outcome, Random};
use highwater_kit::sessions::{Answer, Ask, Keeper, Kept, Most, Open};
use highwater_seam::{Nanos, Owner, Refusal, Session, Token};

use super::waits::{HOP, REFUSED_WAIT};
use crate::faults::Hand;
use crate::library::{self, Op, SESSIONS, STEPS};
use crate::plan::Load;
use crate::world::{Reply, World};

/// Tokens from here on are those of counting clients.
const TOKENS: u64 = 1 << 40;
/// The answer to what took longer than a request may.
const ENDED: &[u8] = b"it was ended because it took longer";
/// How often to look who serves, at most.
const LOOK_EVERY: Nanos = 1_000_000;
/// Sessions that may be open.
const MOST: Most = Most { of_all: 1000, of_each: 500 };

/// What a client wants to get done, again and again until it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Open,
    Count(Session),
    Ask(Session),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sends what the client wishes.
    Send,
    Arrive(u64, NodeId, u16),
    GiveUp(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolved {
    Sum(u32),
    Never,
}

#[derive(Debug)]
struct Counter {
    wish: Wish,
    /// The try that it waits for.
    open: Option<u64>,
    /// Tries of the present number so far.
    tries: u32,
    /// Those since nothing new is asked.
    last_tries: u32,
    aim: NodeId,
    home: u16,
    /// What its counter shows at least, and how many increments nobody can say anything of.
    sum: u32,
    doubtful: u32,
    /// It has nothing to do any more.
    done: bool,
}

/// Whose sessions those of a client are: its own.
fn owner(at: usize) -> Owner {
    Owner(at as u32 + 1)
}

/// All of them, and who ends their sessions.
pub struct Counters {
    random: Random,
    replicas: u8,
    workers: u16,
    think: Nanos,
    rest: Nanos,
    patience: Nanos,
    counters: Vec<Counter>,
    steps: BTreeMap<(Nanos, u64), (usize, Step)>,
    seq: u64,
    /// Every try, by its token: whose it was, and what for.
    tries: BTreeMap<u64, (usize, Wish)>,
    resolved: BTreeMap<(u64, u64), Resolved>,
    /// Keepers by node, and the sweep that it waits for.
    keepers: Vec<(Keeper, Option<u64>)>,
    /// When to look next who serves.
    looks_at: Nanos,
    stopped: bool,
    /// Who is told that a session has expired was told so of the past, perhaps: what was sent under it may yet happen. Of engines whose order need
    /// not agree with real time.
    of_the_past: bool,
    /// What no database may do.
    pub wrong: Option<String>,
    /// How often things happened.
    pub marks: BTreeMap<&'static str, u64>,
}

impl Counters {
    /// Those that the load wants.
    pub fn new(
        load: &Load,
        (replicas, workers): (u8, u16),
        seed: u64,
        now: Nanos,
        length: Nanos,
    ) -> Counters {
        let mut random = Random::new(seed ^ 0xc0_0417);
        // Nobody waits for replicas that do not serve before there is any load.
        let number = if load.transactions > 0 { usize::from(load.counters) } else { 0 };
        let counter = |at: usize| Counter {
            wish: Wish::Open,
            open: None,
            tries: 0,
            last_tries: 0,
            aim: NodeId((at % usize::from(replicas)) as u8),
            home: at as u16 % workers,
            sum: 0,
            doubtful: 0,
            done: false,
        };
        let (rest, think) = (length / 3, length / 200 + 1);
        let starts: Vec<Nanos> = (0..number).map(|_| now + random.below(20 * think)).collect();
        let mut all = Counters {
            random,
            replicas,
            workers,
            think,
            rest,
            patience: load.patience_ns.min(length / 10),
            counters: (0..number).map(counter).collect(),
            steps: BTreeMap::new(),
            seq: TOKENS,
            tries: BTreeMap::new(),
            resolved: BTreeMap::new(),
            keepers: Vec::new(),
            looks_at: 0,
            stopped: false,
            of_the_past: false,
            wrong: None,
            marks: BTreeMap::new(),
        };
        starts.into_iter().enumerate().for_each(|(at, start)| all.plan(start, at, Step::Send));
        all
    }

    /// See [`of_the_past`](Counters::of_the_past).
    pub fn expect_the_past(&mut self) {
        self.of_the_past = true;
    }

    /// Whether a reply to this is theirs.
    pub fn owns(token: Token) -> bool {
        token.0 >= TOKENS
    }

    /// When one wants to do something next.
    pub fn next(&self) -> Option<Nanos> {
        self.steps.first_key_value().map(|((at, _), _)| *at)
    }

    /// Nothing new; what is under way is repeated until its end is known.
    pub fn stop(&mut self) {
        self.stopped = true;
        for counter in &mut self.counters {
            counter.done |= counter.tries == 0;
        }
    }

    /// Whether each knows what became of all that it asked for.
    pub fn quiet(&self) -> bool {
        self.counters.iter().all(|counter| counter.done)
    }

    /// What is wrong with what the counters show in the end.
    pub fn judge(&self, shows: impl Fn(u32) -> u32) -> Option<String> {
        let wrong = |(at, counter): (usize, &Counter)| {
            let (least, most) = (counter.sum, counter.sum + counter.doubtful);
            let sum = shows(at as u32);
            let right = (least..=most).contains(&sum);
            (!right).then(|| {
                format!("counter {at} shows {sum}, and its client knows of {least} to {most}: {counter:?}")
            })
        };
        self.counters.iter().enumerate().find_map(wrong)
    }

    /// Does what they do up to now.
    pub fn act<L: Library>(&mut self, world: &mut World<L>, hand: &Hand) {
        while let Some(entry) = self.steps.first_entry()
            && entry.key().0 <= world.now
        {
            let (at, step) = entry.remove();
            match step {
                Step::Send => self.send(world.now, at),
                Step::Arrive(token, node, worker) => self.arrive(world, hand, token, node, worker),
                Step::GiveUp(token) => self.again(world.now, token, "requests given up and repeated"),
            }
        }
        self.keep(world);
    }

    /// The hosts' part on replicas that serve: without a leader on all of them.
    fn keep<L: Library>(&mut self, world: &mut World<L>) {
        if self.counters.is_empty() || self.stopped || world.now < self.looks_at {
            return;
        }
        self.looks_at = world.now + LOOK_EVERY.max(self.think / 20);
        let leader = world.leader();
        let all = world.engine().abilities().leaderless;
        for node in world.ids().collect::<Vec<_>>() {
            while self.keepers.len() <= usize::from(node.0) {
                self.keepers.push((Keeper::new(self.rest / 2), None));
            }
            let serves = || world.status(node).is_some_and(|status| status.serves());
            let serves = leader == Some(node) || all && serves();
            self.keep_at(world, node, serves);
        }
    }

    fn keep_at<L: Library>(&mut self, world: &mut World<L>, node: NodeId, serves: bool) {
        let (keeper, sweep) = &mut self.keepers[usize::from(node.0)];
        // In a run a sweep that nobody answers is one that was lost with its replica.
        if !serves && sweep.take().is_some() {
            keeper.ended(world.now, Outcome::Unknown, &[]);
        }
        let Some(args) = keeper.due(world.now, serves) else { return };
        let token = self.token();
        let procedure = world.procedure("sessions.sweep");
        if world.submit(node, 0, Token(token), procedure, &args).is_ok() {
            let (keeper, sweep) = &mut self.keepers[usize::from(node.0)];
            keeper.asked();
            *sweep = Some(token);
        }
    }

    /// The keeper that waits for this sweep waits no more.
    fn sweeper(&mut self, token: u64) -> Option<&mut Keeper> {
        let waits = |(_, sweep): &&mut (Keeper, Option<u64>)| *sweep == Some(token);
        let (keeper, sweep) = self.keepers.iter_mut().find(waits)?;
        *sweep = None;
        Some(keeper)
    }

    fn token(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn plan(&mut self, when: Nanos, at: usize, step: Step) {
        self.seq += 1;
        self.steps.insert((when, self.seq), (at, step));
    }

    fn send(&mut self, now: Nanos, at: usize) {
        let token = self.token();
        let counter = &mut self.counters[at];
        if counter.done {
            return;
        }
        counter.open = Some(token);
        counter.tries += 1;
        // In the end it has more patience each time: where a commit takes longer than that, tries that come to several nodes one behind the other would
        // refuse each other for ever.
        counter.last_tries += u32::from(self.stopped);
        let patience = self.patience << counter.last_tries.min(3);
        let (aim, home, wish) = (counter.aim, counter.home, counter.wish);
        self.tries.insert(token, (at, wish));
        let worker = if self.random.one_in(4) { self.random.below(self.workers.into()) as u16 } else { home };
        let hop = HOP.0 + self.random.below(HOP.1);
        // Now and then one try is so late that its successors are done.
        let late = if self.random.one_in(20) { self.random.below(2 * self.patience) } else { 0 };
        self.plan(now + hop + late, at, Step::Arrive(token, aim, worker));
        self.plan(now + patience, at, Step::GiveUp(token));
    }

    fn arrive<L: Library>(
        &mut self,
        world: &mut World<L>,
        hand: &Hand,
        token: u64,
        node: NodeId,
        worker: u16,
    ) {
        if hand.shuns(node) || !world.ids().any(|id| world.is_up(id)) {
            return;
        }
        let (at, wish) = self.tries[&token];
        let name = Token(token);
        let taken = match wish {
            Wish::Open => {
                let args = Open::<SESSIONS>::arguments(MOST, owner(at), self.random.bits());
                world.submit(node, worker, name, world.procedure("sessions.open"), &args)
            }
            Wish::Ask(session) => {
                let args = Ask::<SESSIONS>::arguments(session);
                world.submit(node, worker, name, world.procedure("sessions.ask"), &args)
            }
            Wish::Count(session) => {
                let args = library::encode(&[Op::Count(at as u32)]);
                world.submit_once(node, worker, (name, Some(session)), world.procedure(STEPS), &args)
            }
        };
        if let Err(why) = taken {
            self.refused(world.now, token, why);
        }
    }

    /// Nothing was done by this try.
    pub fn refused(&mut self, now: Nanos, token: u64, why: Refusal) {
        if let Some(keeper) = self.sweeper(token) {
            return keeper.ended(now, Outcome::Conflict, &[]);
        }
        let Some((at, _)) = self.tries.get(&token).copied() else { return };
        if self.counters[at].open != Some(token) {
            return;
        }
        self.counters[at].aim = match why {
            Refusal::NotServing { ask: Some(leader) } => leader,
            Refusal::Busy => self.counters[at].aim,
            _ => NodeId(self.random.below(self.replicas.into()) as u8),
        };
        // In long runs nobody looks every other millisecond.
        let wait = self.random.below(REFUSED_WAIT.max(self.think / 10));
        self.counters[at].open = None;
        self.plan(now + wait, at, Step::Send);
    }

    /// The client tries again, or asks.
    fn again(&mut self, now: Nanos, token: u64, what: &'static str) {
        let (at, wish) = self.tries[&token];
        if self.counters[at].open != Some(token) {
            return;
        }
        *self.marks.entry(what).or_default() += 1;
        let counter = &mut self.counters[at];
        counter.open = None;
        if self.random.one_in(2) {
            counter.aim = NodeId(self.random.below(self.replicas.into()) as u8);
        }
        if let Wish::Count(session) = wish
            && self.random.one_in(4)
        {
            counter.wish = Wish::Ask(session);
        }
        self.plan(now + 1, at, Step::Send);
    }

    /// A try was answered, perhaps one of long ago.
    pub fn hear(&mut self, reply: &Reply, hand: &Hand) {
        let token = reply.token.0;
        if let Some(keeper) = self.sweeper(token) {
            return keeper.ended(reply.at, reply.outcome, &reply.bytes);
        }
        let Some((at, wish)) = self.tries.get(&token).copied() else { return };
        let heard = match (wish, reply.outcome) {
            (Wish::Count(session), Outcome::Committed) => {
                self.resolve(at, session, Resolved::Sum(library::decode_reply(&reply.bytes)[0][0]))
            }
            (Wish::Ask(session), Outcome::Committed) => match Answer::decode(&reply.bytes) {
                Ok(Answer::Ended(Kept::Committed, bytes)) => {
                    self.resolve(at, session, Resolved::Sum(library::decode_reply(&bytes)[0][0]))
                }
                Ok(Answer::Never) => self.resolve(at, session, Resolved::Never),
                // Tries of long ago are told so; the present number is not.
                Ok(Answer::Stale(_) | Answer::Expired) => Ok(()),
                other => Err(format!("it ended so: {other:?}")),
            },
            _ => Ok(()),
        };
        if let Err(why) = heard {
            self.wrong = Some(format!("client {at} of counters, {wish:?}: {why}; {reply:?}"));
            return;
        }
        if self.counters[at].open == Some(token) && !hand.shuns(reply.from.0) {
            self.go_on(reply, at, wish);
        }
    }

    /// A request has one end, whoever tells it.
    fn resolve(&mut self, at: usize, session: Session, resolved: Resolved) -> Result<(), String> {
        if let Some(before) = self.resolved.insert((session.id, session.sequence), resolved) {
            return if before == resolved { Ok(()) } else { Err(format!("before it was {before:?}")) };
        }
        let Resolved::Sum(sum) = resolved else { return Ok(()) };
        let counter = &mut self.counters[at];
        let (known, most) = (counter.sum, counter.sum + counter.doubtful);
        if !matches!(counter.wish, Wish::Count(of) | Wish::Ask(of) if of == session) {
            // The session had expired, and this is one of the doubtful.
            counter.sum = sum.max(known);
            counter.doubtful = most.saturating_sub(counter.sum);
            return if sum <= most {
                Ok(())
            } else {
                Err(format!("the sum is {sum}, and should be up to {most}"))
            };
        }
        let still = if self.of_the_past { (most + 1).saturating_sub(sum) } else { 0 };
        (counter.sum, counter.doubtful) = (sum, still.min(counter.doubtful));
        let right = known + 1..=most + 1;
        if right.contains(&sum) {
            Ok(())
        } else {
            Err(format!("the sum is {sum}, and should be in {right:?}"))
        }
    }

    /// What it waited for was answered.
    fn go_on(&mut self, reply: &Reply, at: usize, wish: Wish) {
        let (now, token) = (reply.at, reply.token.0);
        let begins = |denial: &[u8]| reply.bytes.starts_with(denial);
        match (wish, reply.outcome) {
            (Wish::Open, Outcome::Committed) => {
                let id = u64::from_le_bytes(reply.bytes[..].try_into().expect("an id has 8 bytes"));
                self.next_round(now, at, Session { id, sequence: 1, owner: owner(at) });
            }
            (Wish::Count(session), Outcome::Committed) => {
                let mark = match self.counters[at].tries {
                    1 => "requests under a session",
                    _ => "repeated requests answered",
                };
                *self.marks.entry(mark).or_default() += 1;
                self.next_round(now, at, Session { sequence: session.sequence + 1, ..session });
            }
            (Wish::Ask(session), Outcome::Committed) => match Answer::decode(&reply.bytes) {
                Ok(Answer::Expired) => self.expired(now, at),
                Ok(Answer::Stale(_)) => {
                    self.wrong = Some(format!("client {at} of counters, {wish:?}: not stale; {reply:?}"));
                }
                _ => {
                    *self.marks.entry("outcomes asked for").or_default() += 1;
                    self.next_round(now, at, Session { sequence: session.sequence + 1, ..session });
                }
            },
            (Wish::Count(_), Outcome::Denied) if begins(b"EXPIRED") => self.expired(now, at),
            // An ask of its own, whose answer it has not heard; or its thread or clock stood still, or leapt, in the middle of it: nothing was done, and that
            // is what is recorded.
            (Wish::Count(session), Outcome::Denied | Outcome::TooLarge)
                if begins(b"ABANDONED") || begins(ENDED) =>
            {
                match self.resolve(at, session, Resolved::Never) {
                    Ok(()) => self.next_round(now, at, Session { sequence: session.sequence + 1, ..session }),
                    Err(why) => self.wrong = Some(format!("client {at} of counters, {wish:?}: {why}")),
                }
            }
            (_, Outcome::TooLarge) if begins(ENDED) => {
                self.again(now, token, "requests that were ended because they took too long");
            }
            (_, Outcome::Denied | Outcome::BadRequest | Outcome::TooLarge) => {
                self.wrong = Some(format!("client {at} of counters, {wish:?}: {reply:?}"));
            }
            _ => self.again(now, token, "requests of unknown outcome repeated"),
        }
    }

    /// The session is gone, and with it what became of its last number; if that was tried before.
    fn expired(&mut self, now: Nanos, at: usize) {
        *self.marks.entry("sessions expired").or_default() += 1;
        let counter = &mut self.counters[at];
        counter.doubtful += u32::from(counter.tries > 1);
        counter.wish = Wish::Open;
        counter.tries = 0;
        self.rest_or_send(now, at);
    }

    fn next_round(&mut self, now: Nanos, at: usize, session: Session) {
        let counter = &mut self.counters[at];
        counter.wish = Wish::Count(session);
        counter.tries = 0;
        let rests = self.random.one_in(40);
        let pause = if rests { self.rest } else { self.random.below(2 * self.think) };
        self.rest_or_send(now + pause, at);
    }

    fn rest_or_send(&mut self, when: Nanos, at: usize) {
        self.counters[at].open = None;
        self.counters[at].done = self.stopped;
        self.plan(when, at, Step::Send);
    }
}
