//! One thread of a load: draws requests, hands them to its connections, counts the answers.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use highwater_core::{Nanos, Outcome};
use highwater_node::clock::monotonic;
use highwater_node::load::WorkerStats;
use highwater_node::poll::{Interest, Poller};
use highwater_workloads::Generator as Requests;
use highwater_workloads::audit::encode_append;
use rustix::time::{ClockId, clock_gettime};

use super::link::{Answer, Link, Wanted};
use super::{RemoteSpec, Shared, Source, State};
use crate::bench::redis::Commands;

/// How long after nobody served or a connection failed it is tried again.
const AGAIN: Nanos = 5_000_000;
/// The longest sleep: a stop is heard within it.
const NAP: Nanos = 50_000_000;
/// How long after a stop answers are waited for.
const STOP_PATIENCE: Nanos = 10_000_000_000;
/// A fixed rate sleeps no shorter: to wake up for each request would cost more than to send it. Latency counts from when a request was
/// due, so this is in it.
const GRAIN: Nanos = 200_000;

/// See the module.
pub struct Generator {
    poller: Poller,
    requests: Draws,
    /// Of the procedures of the mix, and of the audit rows behind them: what stands in front of the arguments.
    heads: Vec<Vec<u8>>,
    names: Vec<&'static str>,
    audit: Option<Audit>,
    pace: Option<Pace>,
    places: Vec<Place>,
    doors: Vec<SocketAddr>,
    in_flight: usize,
    /// Nothing was done of these: to be asked again, before anything new.
    again: VecDeque<Wanted>,
    /// Buffers of answered requests.
    spare: Vec<Vec<u8>>,
    args: Vec<u8>,
    /// The thread's CPU time when its counts began.
    cpu_from: Nanos,
    /// Where a search for a place with room goes on.
    turn: usize,
}

/// Where the next request comes from.
enum Draws {
    /// A procedure's arguments.
    Calls(Box<dyn Requests>),
    /// A whole command.
    Commands(Commands),
}

/// A place for a connection.
struct Place {
    link: Option<Link>,
    /// Which door it tries next.
    door: usize,
    /// When to dial, if it is down.
    dial_at: Nanos,
    /// Its socket did not take everything.
    clogged: bool,
}

struct Audit {
    every: u32,
    countdown: u32,
    generator: u32,
    next: u32,
}

struct Pace {
    interval: f64,
    next: f64,
}

impl Generator {
    /// Thread `thread` of a load's.
    pub fn new(spec: &RemoteSpec, thread: u32) -> io::Result<Generator> {
        let threads = spec.threads.max(1);
        // Connections are dealt out as evenly as they can be.
        let connections = (spec.connections + threads - 1 - thread) / threads;
        let (mut names, requests) = match &spec.source {
            Source::Calls(workload) => (
                workload.kinds().to_vec(),
                Draws::Calls(workload.generator(thread as usize, threads as usize, spec.seed)),
            ),
            Source::Commands(plan) => (plan.kinds(), Draws::Commands(plan.commands(thread, spec.seed))),
        };
        names.push("audit.append");
        let head = |name: &&str| {
            format!("*4\r\n$7\r\nHW.CALL\r\n${}\r\n{name}\r\n$3\r\nRAW\r\n$", name.len()).into_bytes()
        };
        let place = |_| Place { link: None, door: 0, dial_at: 0, clogged: false };
        Ok(Generator {
            poller: Poller::new()?,
            requests,
            heads: names.iter().map(head).collect(),
            names,
            audit: (spec.audit_every > 0).then(|| Audit {
                every: spec.audit_every,
                countdown: spec.audit_every,
                generator: spec.audit_base + thread,
                next: 0,
            }),
            pace: spec
                .rate
                .map(|rate| Pace { interval: 1e9 * f64::from(threads) / rate.max(1e-3), next: 0.0 }),
            places: (0..connections).map(place).collect(),
            doors: spec.doors.clone(),
            in_flight: spec.in_flight.max(1) as usize,
            again: VecDeque::new(),
            spare: Vec::new(),
            args: Vec::new(),
            cpu_from: 0,
            turn: 0,
        })
    }

    /// Nothing counted yet.
    pub fn fresh_stats(&self) -> WorkerStats {
        WorkerStats::new(&self.names, self.audit.as_ref().map(|audit| audit.generator))
    }

    /// Runs until it is stopped, or meets what no load should.
    pub fn run(mut self, shared: &Shared) {
        let mut deadline = None;
        self.cpu_from = thread_cpu();
        if let Some(pace) = &mut self.pace {
            pace.next = monotonic() as f64;
        }
        loop {
            let now = monotonic();
            if shared.reset.swap(false, Ordering::AcqRel) {
                self.cpu_from = thread_cpu();
            }
            let stopping = shared.stop.load(Ordering::Acquire);
            let mut state = shared.lock();
            if stopping {
                let until = *deadline.get_or_insert(now + STOP_PATIENCE);
                let unanswered = self.unanswered();
                if unanswered == 0 || now >= until {
                    state.stats.unknown += unanswered as u64;
                    state.stats.running = false;
                    return;
                }
                // What nobody took is not asked again: it was not done.
                self.again.clear();
            } else {
                self.dial(now);
                self.hand_out(now);
            }
            self.flush(now, &mut state);
            state.stats.generator_ns = thread_cpu() - self.cpu_from;
            if state.failure.is_some() {
                state.stats.running = false;
                return;
            }
            drop(state);
            let nap = self.nap(monotonic(), stopping);
            match self.poller.wait(Some(nap)) {
                Ok(events) => {
                    let mut state = shared.lock();
                    (0..events).for_each(|at| {
                        let event = self.poller.event(at);
                        self.look(event.key as usize, event.writable, &mut state);
                    });
                }
                Err(error) => shared.lock().failure = Some(format!("cannot wait for answers: {error}")),
            }
        }
    }

    fn unanswered(&self) -> usize {
        self.places.iter().filter_map(|place| place.link.as_ref()).map(|link| link.under_way.len()).sum()
    }

    /// Dials for those that are down and may try again.
    fn dial(&mut self, now: Nanos) {
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            if place.link.is_some() || place.dial_at > now {
                continue;
            }
            let door = self.doors[place.door % self.doors.len()];
            match Link::dial(door) {
                Ok(link) if self.poller.add(link.stream(), at as u64, Interest::READ).is_ok() => {
                    place.link = Some(link);
                    place.clogged = false;
                }
                _ => {
                    place.door += 1;
                    place.dial_at = now + AGAIN;
                }
            }
        }
    }

    /// Hands requests to connections with room, as many as are due.
    fn hand_out(&mut self, now: Nanos) {
        while let Some(at) = self.with_room() {
            let wanted = match self.again.pop_front() {
                Some(wanted) => wanted,
                None => match &mut self.pace {
                    None => self.draw(monotonic()),
                    Some(pace) if pace.next > now as f64 => return,
                    Some(pace) => {
                        let due = pace.next;
                        pace.next += pace.interval;
                        self.draw(due as Nanos)
                    }
                },
            };
            self.places[at].link.as_mut().expect("it has room").push(wanted);
        }
    }

    /// A connection with room, each in its turn.
    fn with_room(&mut self) -> Option<usize> {
        let count = self.places.len();
        let found = (0..count).map(|step| (self.turn + step) % count).find(|at| {
            let link = self.places[*at].link.as_ref();
            link.is_some_and(|link| !link.leaves && link.under_way.len() < self.in_flight)
        })?;
        self.turn = found + 1;
        Some(found)
    }

    fn draw(&mut self, since: Nanos) -> Wanted {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        let audit = self.audit.as_mut().and_then(Audit::due);
        let (kind, sequence) = match (audit, &mut self.requests) {
            (Some((generator, sequence)), _) => {
                encode_append(generator, sequence, &mut self.args);
                (self.heads.len() - 1, sequence)
            }
            (None, Draws::Calls(requests)) => (requests.next(&mut self.args), 0),
            (None, Draws::Commands(commands)) => {
                let kind = commands.next(&mut bytes);
                return Wanted { kind, sequence: 0, since, bytes };
            }
        };
        bytes.extend_from_slice(&self.heads[kind]);
        write!(bytes, "{}\r\n", self.args.len()).expect("writing to memory does not fail");
        bytes.extend_from_slice(&self.args);
        bytes.extend_from_slice(b"\r\n");
        Wanted { kind, sequence, since, bytes }
    }

    fn flush(&mut self, now: Nanos, state: &mut State) {
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            let Some(link) = &mut place.link else { continue };
            match link.flush() {
                Ok(clogged) if clogged == place.clogged => {}
                Ok(clogged) => {
                    place.clogged = clogged;
                    let interest = Interest::of(true, clogged);
                    if self.poller.modify(link.stream(), at as u64, interest).is_err() {
                        self.broke(at, now, state);
                    }
                }
                Err(_) => self.broke(at, now, state),
            }
        }
    }

    /// Something happened to a connection.
    fn look(&mut self, at: usize, writable: bool, state: &mut State) {
        let Some(link) = &mut self.places[at].link else { return };
        let received = link.receive();
        let now = monotonic();
        loop {
            let Some(link) = &mut self.places[at].link else { return };
            match link.answer() {
                Ok(Some((wanted, answer))) => self.answered(at, wanted, answer, now, state),
                Ok(None) => break,
                Err(error) => {
                    state.failure = Some(error.to_string());
                    return;
                }
            }
        }
        if received.is_err() {
            return self.broke(at, now, state);
        }
        let place = &mut self.places[at];
        if place.link.as_ref().is_some_and(|link| link.leaves && link.under_way.is_empty()) {
            // Closing the socket ends its watch.
            place.link = None;
        }
        if writable {
            self.flush(now, state);
        }
    }

    fn answered(&mut self, at: usize, wanted: Wanted, answer: Answer, now: Nanos, state: &mut State) {
        match answer {
            Answer::Ended(outcome) => {
                let latency = now.saturating_sub(wanted.since);
                state.stats.count(wanted.kind, outcome, latency, now);
                if outcome == Outcome::Committed && wanted.kind + 1 == self.heads.len() {
                    state.stats.audit.insert(wanted.sequence);
                }
                if self.spare.len() < 2 * self.in_flight {
                    self.spare.push(wanted.bytes);
                }
            }
            Answer::Elsewhere(named) => {
                self.again.push_back(wanted);
                let place = &mut self.places[at];
                let Some(link) = &mut place.link else { return };
                if link.leaves {
                    return;
                }
                link.leaves = true;
                match named.and_then(|named| self.doors.iter().position(|door| *door == named)) {
                    Some(door) => (place.door, place.dial_at) = (door, now),
                    None => (place.door, place.dial_at) = (place.door + 1, now + AGAIN),
                }
            }
            Answer::Strange(text) => state.failure = Some(format!("a replica answered: {text}")),
        }
    }

    /// A connection is gone; what was under way on it may or may not have been done.
    fn broke(&mut self, at: usize, now: Nanos, state: &mut State) {
        let place = &mut self.places[at];
        let Some(link) = place.link.take() else { return };
        state.stats.unknown += link.under_way.len() as u64;
        if !link.leaves {
            place.door += 1;
            place.dial_at = now + AGAIN;
        }
    }

    /// How long nothing needs to be done, unless an answer comes.
    fn nap(&self, now: Nanos, stopping: bool) -> Nanos {
        let down = |place: &&Place| place.link.is_none();
        let dial = self.places.iter().filter(down).map(|place| place.dial_at.saturating_sub(now)).min();
        let due = self.pace.as_ref().map(|pace| (pace.next as Nanos).saturating_sub(now).max(GRAIN));
        let due = due.filter(|_| !stopping);
        NAP.min(dial.unwrap_or(NAP)).min(due.unwrap_or(NAP))
    }
}

impl Audit {
    /// The audit row that is due, if one is.
    fn due(&mut self) -> Option<(u32, u32)> {
        self.countdown -= 1;
        if self.countdown > 0 {
            return None;
        }
        self.countdown = self.every;
        self.next += 1;
        Some((self.generator, self.next - 1))
    }
}

/// CPU time of this thread.
fn thread_cpu() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}
