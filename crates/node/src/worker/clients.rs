//! A worker's RESP clients: sockets around [`Connection`]s.
//!
//! Back-pressure: a client whose request the engine has no room for, whose output waits, or who sent more than it may,
//! is not read from. Its socket is then watched for nothing, so that it costs nothing.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use highwater_core::Outcome;
use highwater_engines::{Nanos, Refusal, Request, Worker};

use super::{KEY_CLIENT, KEY_LISTENER};
use crate::poll::{Event, Interest, Poller};
use crate::resp::{Connection, Door};
use crate::token::{Owner, pack};

/// Connections taken per look at the listener.
const ACCEPTS: usize = 32;
/// How long to accept nobody when descriptors ran out.
const ACCEPT_PAUSE: Nanos = 100_000_000;
/// Requests of one client per turn: the others have their turn too.
const BUDGET: usize = 64;
/// Bytes read from one client at one time.
const READ_BYTES: usize = 64 << 10;

/// All clients of one worker.
pub struct Clients {
    worker: usize,
    /// `None` once the door is closed: no new clients, no new requests.
    listener: Option<TcpListener>,
    door: Arc<Door>,
    max: usize,
    /// A slot is free again when its client is gone *and* its last request is released: so a token never names the
    /// wrong client.
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Clients that may have requests to submit.
    ready: Vec<usize>,
    /// Clients whose sockets need a look: something to write, or another interest.
    dirty: Vec<usize>,
    /// Whether the engine had no room at the last attempt.
    blocked: bool,
    /// Descriptors ran out: no new clients until then.
    accepts_again: Option<Nanos>,
    accepted: u64,
    open: usize,
    buffer: Vec<u8>,
}

#[derive(Default)]
struct Slot {
    client: Option<Client>,
    /// Requests submitted and not released.
    unreleased: usize,
}

struct Client {
    stream: TcpStream,
    connection: Connection,
    interest: Interest,
    ready: bool,
    dirty: bool,
    /// The engine had no room for its next request.
    blocked: bool,
    /// It will send nothing more, but may wait for replies.
    ended: bool,
    /// Nothing can be told to it any more.
    gone: bool,
}

impl Clients {
    /// Nobody yet.
    pub fn new(
        worker: usize,
        listener: TcpListener,
        door: Arc<Door>,
        max: usize,
        poller: &Poller,
    ) -> io::Result<Clients> {
        poller.add(&listener, KEY_LISTENER, Interest::READ)?;
        Ok(Clients {
            worker,
            listener: Some(listener),
            door,
            max,
            slots: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            dirty: Vec::new(),
            blocked: false,
            accepts_again: None,
            accepted: 0,
            open: 0,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// How many are connected.
    pub fn count(&self) -> usize {
        self.open
    }

    /// Whether a client has requests that the engine may have room for: not while it said that it has none.
    pub fn has_more(&self) -> bool {
        !self.ready.is_empty() && !self.blocked
    }

    /// When to look at the listener again, if it is not watched.
    pub fn deadline(&self) -> Option<Nanos> {
        self.accepts_again
    }

    /// Watches the listener again, if it is time.
    pub fn turn(&mut self, now: Nanos, poller: &Poller) -> io::Result<()> {
        if self.accepts_again.is_some_and(|at| at <= now) {
            self.accepts_again = None;
            if let Some(listener) = &self.listener {
                poller.modify(listener, KEY_LISTENER, Interest::READ)?;
            }
        }
        Ok(())
    }

    /// Takes no more clients and no more requests. Callers find nobody at the port.
    pub fn close_door(&mut self) {
        self.listener = None;
    }

    /// Whether a client waits for a reply, or for the rest of one.
    pub fn owes(&self) -> bool {
        self.slots.iter().any(|slot| {
            let client = slot.client.as_ref().filter(|client| !client.gone);
            client.is_some_and(|client| slot.unreleased > 0 || !client.connection.output().is_empty())
        })
    }

    /// Takes new clients.
    pub fn accept(&mut self, now: Nanos, poller: &Poller) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            let Some(listener) = &self.listener else { return Ok(()) };
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    tracing::warn!(worker = self.worker, "cannot accept clients for a moment: {error}");
                    self.accepts_again = Some(now + ACCEPT_PAUSE);
                    return poller.modify(listener, KEY_LISTENER, Interest::NONE);
                }
            };
            if self.open >= self.max {
                refuse(stream);
                continue;
            }
            if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok() {
                self.admit(stream, poller)?;
            }
        }
        Ok(())
    }

    fn admit(&mut self, stream: TcpStream, poller: &Poller) -> io::Result<()> {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        poller.add(&stream, KEY_CLIENT | at as u64, Interest::READ)?;
        self.accepted += 1;
        self.open += 1;
        let id = self.accepted << 8 | (self.worker as u64 & 0xff);
        self.slots[at].client = Some(Client {
            stream,
            connection: Connection::new(id, self.door.clone()),
            interest: Interest::READ,
            ready: false,
            dirty: false,
            blocked: false,
            ended: false,
            gone: false,
        });
        Ok(())
    }

    /// Something happened on a client's socket.
    pub fn event(&mut self, at: usize, event: Event) {
        let Some(client) = self.slots.get_mut(at).and_then(|slot| slot.client.as_mut()) else { return };
        client.gone |= event.broken;
        if event.readable {
            client.read(&mut self.buffer);
            mark(&mut client.ready, &mut self.ready, at);
        }
        mark(&mut client.dirty, &mut self.dirty, at);
    }

    /// Submits the requests of the clients that are ready, until the engine has no room.
    pub fn submit(&mut self, now: Nanos, engine: &mut dyn Worker) {
        self.blocked = false;
        if self.listener.is_none() {
            self.ready.clear();
            return;
        }
        for at in std::mem::take(&mut self.ready) {
            let Slot { client: Some(client), unreleased } = &mut self.slots[at] else { continue };
            client.ready = false;
            let more = !self.blocked && client.submit(now, at, unreleased, engine, &mut self.blocked);
            if more || self.blocked {
                mark(&mut client.ready, &mut self.ready, at);
            }
            mark(&mut client.dirty, &mut self.dirty, at);
        }
    }

    /// Hands a reply to its client, if it is still there.
    pub fn released(&mut self, at: usize, seq: u64, outcome: Outcome, reply: &[u8]) {
        let slot = &mut self.slots[at];
        slot.unreleased -= 1;
        match &mut slot.client {
            Some(client) => {
                client.connection.released(seq, outcome, reply);
                // A WATCH may have been in the way.
                mark(&mut client.ready, &mut self.ready, at);
                mark(&mut client.dirty, &mut self.dirty, at);
            }
            None if slot.unreleased == 0 => self.free.push(at),
            None => {}
        }
    }

    /// Writes what is ready, adjusts what the sockets are watched for, closes what is over.
    pub fn flush(&mut self, poller: &Poller) -> io::Result<()> {
        for at in std::mem::take(&mut self.dirty) {
            let slot = &mut self.slots[at];
            let Some(client) = &mut slot.client else { continue };
            client.dirty = false;
            client.write();
            if client.is_over(slot.unreleased) {
                slot.client = None;
                self.open -= 1;
                if slot.unreleased == 0 {
                    self.free.push(at);
                }
                continue;
            }
            let interest = client.wanted();
            if interest != client.interest {
                poller.modify(&client.stream, KEY_CLIENT | at as u64, interest)?;
                client.interest = interest;
            }
        }
        Ok(())
    }

    /// Before the process ends: what is ready is written, nothing is waited for.
    pub fn say_goodbye(&mut self) {
        self.slots.iter_mut().filter_map(|slot| slot.client.as_mut()).for_each(Client::write);
    }
}

impl Client {
    fn read(&mut self, buffer: &mut [u8]) {
        if self.ended || !self.connection.accepts_input() {
            return;
        }
        match self.stream.read(buffer) {
            Ok(0) => self.ended = true,
            Ok(n) => self.connection.receive(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.gone = true,
        }
    }

    /// Submits a bounded number of requests; whether there may be more.
    fn submit(
        &mut self,
        now: Nanos,
        at: usize,
        unreleased: &mut usize,
        engine: &mut dyn Worker,
        blocked: &mut bool,
    ) -> bool {
        self.blocked = false;
        if self.gone {
            return false;
        }
        for _ in 0..BUDGET {
            let Some(request) = self.connection.next() else { return false };
            let seq = request.seq;
            let token = pack(Owner::Client, at, seq);
            let snapshot = request.snapshot;
            let request = Request { token, procedure: request.procedure, args: request.args };
            let taken =
                if snapshot { engine.submit_snapshot(now, request) } else { engine.submit(now, request) };
            match taken {
                Ok(()) => {
                    self.connection.submitted(seq);
                    *unreleased += 1;
                }
                Err(refusal) => {
                    self.connection.refused(seq, refusal);
                    if refusal == Refusal::Busy {
                        self.blocked = true;
                        *blocked = true;
                        return false;
                    }
                }
            }
        }
        true
    }

    fn write(&mut self) {
        while !self.gone && !self.connection.output().is_empty() {
            match self.stream.write(self.connection.output()) {
                Ok(0) => self.gone = true,
                Ok(n) => self.connection.wrote(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.gone = true,
            }
        }
    }

    /// Whether to close. `unreleased`: its requests that will still be answered.
    fn is_over(&self, unreleased: usize) -> bool {
        let served = self.connection.closing() || self.ended && unreleased == 0 && !self.ready;
        self.gone || served && self.connection.output().is_empty()
    }

    fn wanted(&self) -> Interest {
        let read = !self.blocked && !self.ended && self.connection.accepts_input();
        Interest::of(read, !self.connection.output().is_empty())
    }
}

/// Puts a client on a list, once.
fn mark(flag: &mut bool, list: &mut Vec<usize>, at: usize) {
    if !std::mem::replace(flag, true) {
        list.push(at);
    }
}

fn refuse(mut stream: TcpStream) {
    // A fresh socket takes this at once; if not, the client finds the connection closed anyway.
    let _ = stream.write(b"-ERR max number of clients reached\r\n");
}
