//! One RESP client: a socket around a [`Connection`].
//!
//! Its socket is read from and written to when epoll says so, or it stands [on a ring](crate::uring): then what it sends is brought, and short
//! output is queued, all but what its socket did not take before.

use std::io::{self, Read, Write};

use highwater_redis::describe::{command_of, words};
use highwater_redis::endings::SHORT_REPLY_BYTES;
use highwater_redis::host::Gate;
use highwater_redis::host::forward::{Forwarded, Upstream};
use highwater_redis::host::token::{Owner, pack};
use highwater_redis::host::watch::{Unreleased, Watch};
use highwater_redis::{Allowance, Connection};
use highwater_seam::{Nanos, Refusal, Request, Taken, Worker};

use super::lists::{Paused, Standing};
use crate::clock::unix_ms;
use crate::poll::Interest;
use crate::tls::Wire;
use crate::uring::{MOST_SENT, Ring};

/// Bytes written to one client in one turn: a client that reads as fast as we write must not hold its worker.
const WRITE_BYTES: usize = 1 << 20;

/// What a leader's reply is taken to be long before one came: a few are under way at first, more when they turn out to be short.
const FIRST_EXPECTED: usize = 128 << 10;
/// And at least, however short the last ones were: so many commands of one client are under way at most that none can fill the node.
const LEAST_EXPECTED: usize = 2 << 10;

/// Where requests go.
pub struct Ways<'a> {
    pub engine: &'a mut dyn Worker,
    /// if it lets any pass.
    pub gate: Gate,
    /// Or to the leader, if that is another node.
    pub upstream: &'a mut Upstream,
}

/// Whether there was room for a client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// For all of them.
    Enough,
    /// Not on the way to the leader.
    Later,
    /// Not in the engine.
    None,
}

/// See the module.
pub struct Client {
    /// Its socket.
    pub stream: Wire,
    /// What it says and hears.
    pub connection: Connection,
    /// What its socket is watched for by epoll; `None`: it is not watched.
    pub interest: Option<Interest>,
    /// It is received from by the ring.
    pub on_ring: bool,
    /// Output that was queued, and its socket did not take.
    pub unsent: Vec<u8>,
    /// On which lists it stands: they alone know.
    pub standing: Standing,
    /// Work beyond its share, done in earlier turns or sent to be done: to be paid before it has another turn while
    /// others wait.
    pub debt: i64,
    /// What the worker's sums have of it.
    pub counted: Counted,
    /// When it last sent something, or took something.
    pub active: Nanos,
    /// Since when it has taken nothing of the output that waits.
    pub stuck_since: Option<Nanos>,
    /// Bytes of replies that it was given though the worker's replies were full.
    pub beyond: usize,
    /// Its socket has taken a reply to the end, or it has waited long enough: it is served before who has shown nothing.
    pub proven: bool,
    /// Its buffers were asked for what they do not need, and nothing happened since.
    pub rested: bool,
    /// The last thing that it asked of the data was refused, because another node serves.
    pub referred: bool,
    /// The engine had no room for its next request.
    blocked: bool,
    /// It will send nothing more, but may wait for replies.
    ended: bool,
    /// Nothing can be told to it any more.
    pub gone: bool,
    /// When it came.
    pub came: Nanos,
    /// It waits for data and stands in line at the leader: over which connection, and for which command.
    pub lined: Option<(u64, u64)>,
    /// How long the next reply of the leader may be, by the last ones.
    expects: usize,
    /// Its requests that the engine has taken and not released.
    pub unreleased: Unreleased,
}

/// Bytes of one client, or the sum over all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Memory of what was received and not executed.
    pub requests: usize,
    /// Memory of what was released and not written.
    pub replies: usize,
    /// Replies executed and not written, in the engine or here.
    pub held: usize,
    /// Of these what the socket could take at once.
    pub output: usize,
    /// Bytes of these that were given though the worker's replies were full.
    pub beyond: usize,
}

impl Client {
    /// Just connected.
    pub fn new(stream: Wire, connection: Connection, on_ring: bool, now: Nanos) -> Client {
        Client {
            stream,
            connection,
            interest: None,
            on_ring,
            unsent: Vec::new(),
            standing: Standing::default(),
            debt: 0,
            counted: Counted::default(),
            active: now,
            stuck_since: None,
            beyond: 0,
            proven: false,
            rested: false,
            referred: false,
            blocked: false,
            ended: false,
            gone: false,
            came: now,
            lined: None,
            expects: FIRST_EXPECTED,
            unreleased: Unreleased::default(),
        }
    }

    /// Reads once from the socket. Level-triggered: if more waits, the poller says so again.
    pub fn read(&mut self, buffer: &mut [u8], now: Nanos) {
        if self.ended || !self.connection.accepts_input() {
            return;
        }
        match self.stream.read(buffer) {
            Ok(0) => self.ended = true,
            Ok(n) => {
                self.receive(&buffer[..n], now);
                // What TLS has decrypted beyond that is told of by no socket.
                while self.stream.has_unread()
                    && let Ok(more) = self.stream.read(buffer)
                    && more > 0
                {
                    self.debt += more as i64;
                    self.connection.receive(&buffer[..more]);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.gone = true,
        }
    }

    /// Takes what it sent.
    pub fn receive(&mut self, bytes: &[u8], now: Nanos) {
        self.active = now;
        // Who sends a long command owes for it before it is executed: short ones go first.
        self.debt += bytes.len() as i64;
        self.connection.receive(bytes);
    }

    /// It will send nothing more.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Submits requests while the allowance lasts; whether there was room for all of them. What was spent beyond the allowance is
    /// debt.
    pub fn submit(
        &mut self,
        now: Nanos,
        (at, id): (usize, u64),
        unreleased: &mut usize,
        Ways { engine, gate, upstream }: Ways<'_>,
        mut allowance: Allowance,
        watch: &Watch,
    ) -> (Allowance, Room) {
        let mut room = Room::Enough;
        self.connection.tell_time(unix_ms());
        let mut began = watch.stopwatch.now();
        while !self.gone
            && let Some(asked) = self.connection.next(&mut allowance)
        {
            let (seq, snapshot, len) = (asked.seq, asked.snapshot, asked.args.len());
            match gate {
                Gate::Open => {}
                Gate::Waits => {
                    self.connection.refused(seq, Refusal::Busy);
                    room = Room::None;
                    break;
                }
                Gate::Refuses(refusal) => {
                    self.connection.refused(seq, refusal);
                    self.referred = matches!(refusal, Refusal::NotServing { .. });
                    continue;
                }
            }
            let (session, freshness) = (asked.session, asked.freshness);
            let token = pack(Owner::Client, at, seq);
            let request = Request { session, freshness, ..Request::new(token, asked.procedure, asked.args) };
            let before = engine.unreleased_reply_bytes();
            let taken =
                if snapshot { engine.submit_snapshot(now, request) } else { engine.submit(now, request) };
            match taken {
                Ok(taken) => {
                    let ended = watch.stopwatch.now();
                    let command = command_of(&asked, watch.procedures);
                    let slow =
                        watch.is_notable(began, ended).then(|| words(&asked, watch.procedures, &watch.names));
                    let slow = slow.and_then(|words| {
                        let from =
                            self.stream.peer_addr().map_or_else(|_| String::new(), |from| from.to_string());
                        watch.keep((began, ended), &command, from, self.connection.name(), words)
                    });
                    self.unreleased.add(seq, began, command.id, slow);
                    began = ended;
                    let reply = engine.unreleased_reply_bytes().saturating_sub(before);
                    self.connection.submitted(seq, reply, taken);
                    self.referred = false;
                    *unreleased += 1;
                    allowance.work -= (len + reply) as i64;
                }
                Err(refusal) => {
                    let elsewhere = matches!(refusal, Refusal::NotServing { .. });
                    let forwarded = match elsewhere {
                        true => upstream.ask(now, &asked, id, (at, seq)),
                        false => Forwarded::No,
                    };
                    match forwarded {
                        Forwarded::Sent => {
                            let command = command_of(&asked, watch.procedures);
                            let ended = watch.stopwatch.now();
                            self.unreleased.add(seq, began, command.id, None);
                            began = ended;
                            highwater_redis::meter::add(&watch.meter.forwarded, 1);
                            // Whoever leads keeps this client's requests in order, as they come.
                            let most =
                                if self.connection.is_kept_short() { SHORT_REPLY_BYTES } else { usize::MAX };
                            self.connection.submitted(seq, self.expects.min(most), Taken::Placed);
                            self.referred = false;
                            *unreleased += 1;
                            allowance.work -= len as i64;
                        }
                        Forwarded::Later => {
                            self.connection.refused(seq, Refusal::Busy);
                            room = Room::Later;
                            break;
                        }
                        Forwarded::No => {
                            self.connection.refused(seq, refusal);
                            self.referred = elsewhere;
                            if refusal == Refusal::Busy {
                                room = Room::None;
                                break;
                            }
                        }
                    }
                }
            }
        }
        self.blocked = room != Room::Enough;
        (allowance, room)
    }

    /// A reply of the leader was so long.
    pub fn learn(&mut self, reply: usize) {
        self.expects = reply.max(self.expects - self.expects / 8).max(LEAST_EXPECTED);
    }

    /// Answers what it asks of the data with this refusal, which is not [`Refusal::Busy`], while the allowance lasts; what is left of it.
    pub fn refuse(&mut self, refusal: Refusal, mut allowance: Allowance) -> Allowance {
        self.blocked = false;
        while !self.gone
            && let Some(request) = self.connection.next(&mut allowance)
        {
            let seq = request.seq;
            self.connection.refused(seq, refusal);
            self.referred = true;
        }
        allowance
    }

    /// Queues all its output, if it stands on the ring and that is little: whether it did. `who`: its slot and id.
    pub fn queue(&mut self, now: Nanos, ring: &mut Ring, who: (usize, u64)) -> bool {
        let output = self.connection.output();
        // Behind what the socket did not take stands nothing that it may.
        let queues = self.on_ring && !self.gone && self.unsent.is_empty() && output.len() <= MOST_SENT;
        if !queues || output.is_empty() {
            return false;
        }
        let len = output.len();
        ring.send(who, &self.stream, output);
        self.connection.wrote(len);
        (self.active, self.stuck_since) = (now, None);
        true
    }

    /// Writes what the socket takes, up to its share of a turn; the rest when the poller says that there is room.
    pub fn write(&mut self, now: Nanos) {
        let mut left = WRITE_BYTES;
        let sent = self.send(now);
        while !self.gone && left > 0 && self.unsent.is_empty() && !self.connection.output().is_empty() {
            let output = self.connection.output();
            match self.stream.write(&output[..output.len().min(left)]) {
                Ok(0) => self.gone = true,
                Ok(n) => {
                    left -= n;
                    self.active = now;
                    self.connection.wrote(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.gone = true,
            }
        }
        self.stuck_since = match self.stuck_since {
            _ if self.has_written() => None,
            Some(since) if left == WRITE_BYTES && !sent => Some(since),
            _ => Some(now),
        };
    }

    /// Writes what TLS has encrypted, or the ring has brought back; whether the socket took some.
    fn send(&mut self, now: Nanos) -> bool {
        let sent = match self.gone {
            true => return false,
            false if !self.unsent.is_empty() => self.stream.write(&self.unsent).map(|count| {
                self.unsent = self.unsent.split_off(count);
                count > 0
            }),
            false if self.stream.has_unsent() => self.stream.send(),
            false => return false,
        };
        match sent {
            Ok(took) => {
                self.active = if took { now } else { self.active };
                took
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            Err(_) => {
                self.gone = true;
                false
            }
        }
    }

    /// Whether nothing waits for its socket.
    pub fn has_written(&self) -> bool {
        self.connection.output().is_empty() && self.unsent.is_empty() && !self.stream.has_unsent()
    }

    /// Whether to close. `unreleased`: its requests that will still be answered.
    ///
    /// Who sent everything and closed its half of the connection is served to the end: until nothing complete is left
    /// of its input and every reply is written.
    pub fn is_over(&self, unreleased: usize) -> bool {
        let owed = self.connection.has_more() || self.connection.is_held_back();
        let served = self.ended && unreleased == 0 && !owed;
        self.gone || (self.connection.closing() || served) && self.has_written()
    }

    /// Whether the engine has to have room before it can go on.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether it is to be read from, but for what other clients hold.
    pub fn wants_to_send(&self) -> bool {
        !self.blocked && !self.ended && self.connection.accepts_input()
    }

    /// Whether it is to be read from.
    pub fn is_read(&self) -> bool {
        self.wants_to_send() && !Paused::has(self.standing)
    }

    /// What epoll is to watch its socket for. `by_ring`: to read is the ring's business; `receives`: it does, and tells of errors, too.
    pub fn wanted(&self, by_ring: bool, receives: bool) -> Option<Interest> {
        // Of what waits for a handshake no socket tells that there is room: there is.
        let output = !self.connection.output().is_empty() && self.stream.is_established();
        let writes = output || !self.unsent.is_empty() || self.stream.has_unsent();
        (writes || !receives).then(|| Interest::of(!by_ring && self.is_read(), writes))
    }

    /// What it holds now.
    pub fn count(&self) -> Counted {
        Counted {
            requests: self.connection.request_memory(),
            replies: self.connection.reply_memory() + self.unsent.capacity(),
            held: self.connection.held_bytes() + self.unsent.len(),
            output: self.connection.output().len() + self.unsent.len(),
            beyond: self.beyond,
        }
    }

    /// Whether it waits for nothing and holds nothing.
    pub fn is_idle(&self, unreleased: usize) -> bool {
        let connection = &self.connection;
        let awaits = connection.waits().is_some() || connection.listens();
        let waits = connection.has_more() || awaits || connection.is_held_back();
        unreleased == 0 && self.connection.output().is_empty() && self.unsent.is_empty() && !waits
    }
}
