//! What tests of clients stand on: real sockets, an engine that does as it is told, turns one by one, and virtual time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater_core::{Incarnation, Levels, NodeId, Outcome, ProcedureId, Timestamp};
use highwater_kit::sessions::Most;
use highwater_redis::endings::SHORT_REPLY_BYTES;
use highwater_redis::host::Watch;
use highwater_redis::host::forward::Upstream;
use highwater_redis::host::token::unpack;
use highwater_redis::moment::Moment;
use highwater_redis::request::Framing;
use highwater_redis::{Door, Procedures, single};
use highwater_seam::{Endpoint, Frame, Nanos, Next, Outbox, Refusal, Request, Taken, Token, Worker};

use crate::clock::{Stopwatch, Ticks, unix_ms};
use crate::config::Io;
use crate::poll::Poller;
use crate::uring::Ring;
use crate::worker::clients::{Clients, Rules};
use crate::worker::crowd::Limits;
use crate::worker::keys::{KEY_CLIENT, KEY_LISTENER, KIND_MASK};

pub const SECOND: Nanos = 1_000_000_000;

/// For how long a socket may stand still before a test gives it up: the kernel opens a closed window again when one of its own
/// timers goes off, in real time, however many turns are taken meanwhile.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// `GET n` is answered with n bytes, or with none if that is not short and has to be.
#[derive(Default)]
pub struct Engine {
    pub unreleased: Vec<(Token, usize)>,
    /// Lengths of the arguments, in the order of submission.
    pub submitted: Vec<usize>,
    pub most_unreleased: usize,
    pub busy: bool,
    /// Another node leads.
    pub elsewhere: Option<NodeId>,
}

impl Worker for Engine {
    fn ready(&self) -> Result<(), Refusal> {
        match self.elsewhere {
            Some(leader) => Err(Refusal::NotServing { ask: Some(leader) }),
            None if self.busy => Err(Refusal::Busy),
            None => Ok(()),
        }
    }

    fn submit(&mut self, _: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        self.ready()?;
        let word = single::args(request.args).next().unwrap();
        let len = std::str::from_utf8(word).unwrap().parse().unwrap_or(5);
        let in_vain = Framing::is_short(request.args[Moment::BYTES]) && len > SHORT_REPLY_BYTES;
        let len = if in_vain { 0 } else { len };
        self.submitted.push(request.args.len());
        self.unreleased.push((request.token, len));
        self.most_unreleased = self.most_unreleased.max(self.unreleased_reply_bytes());
        Ok(Taken::Placed)
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.unreleased.iter().map(|(_, len)| len).sum()
    }

    fn peer_up(&mut self, _: Nanos, _: NodeId, _: Incarnation, _: Levels) {}

    fn peer_down(&mut self, _: Nanos, _: NodeId) {}

    fn deliver(&mut self, _: Nanos, _: Endpoint, _: Frame) {}

    fn turn(&mut self, _: Nanos, _: &mut Outbox) -> Next {
        Next::Idle
    }

    fn describe(&self) -> String {
        String::new()
    }
}

pub fn ring() -> Ring {
    Ring::new().unwrap()
}

pub struct Bench {
    pub clients: Clients,
    pub upstream: Upstream,
    pub poller: Poller,
    pub engine: Engine,
    pub now: Nanos,
    pub address: SocketAddr,
    pub most_held: usize,
    /// Virtual time passes while a test waits for a socket that stands still.
    pub ages: bool,
    /// The node is ending, and clients hear this.
    pub ends: Option<Refusal>,
}

pub const RULES: Rules = Rules {
    max: 1000,
    limits: Limits { requests: 64 << 20, replies: 64 << 20 },
    idle_timeout: 0,
    stuck_timeout: 0,
};

/// The door that connections share of a node that serves; nothing is known of its users.
pub fn door() -> Door {
    let procedures = Procedures {
        exec: ProcedureId(0),
        watch: ProcedureId(1),
        users: ProcedureId(2),
        interact: ProcedureId(3),
    };
    let entropy = Box::new(|bytes: &mut [u8]| {
        bytes.fill(0x5a);
        true
    });
    Door { sessions: Most { of_all: 10, of_each: 10 }, entropy, ..Door::bare(procedures) }
}

/// The clocks and names by which its requests are measured.
pub fn watch(door: &Door) -> Watch {
    Watch::new(0, Stopwatch::calibrate(), unix_ms, door.procedures)
}

impl Bench {
    pub fn new(io: Io, rules: Rules) -> Bench {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (address, poller) = (listener.local_addr().unwrap(), Poller::new().unwrap());
        let door = door();
        // Whoever asks for it has been confirmed.
        door.access.confirm(u64::MAX);
        let watch = watch(&door);
        let mut clients = Clients::new(0, listener, Arc::new(door), watch, rules, &poller).unwrap();
        clients.set_ring((io == Io::Uring).then(ring));
        let engine = Engine::default();
        let upstream = Upstream::new(false, 1 << 20);
        Bench {
            clients,
            poller,
            engine,
            upstream,
            now: SECOND,
            address,
            most_held: 0,
            ages: false,
            ends: None,
        }
    }

    /// A client whose end does not block.
    pub fn connect(&mut self) -> TcpStream {
        let before = self.clients.count();
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nonblocking(true).unwrap();
        while self.clients.count() == before {
            self.turn();
        }
        stream
    }

    pub fn look(&mut self) {
        let count = self.clients.wait(&mut self.poller, Some(0)).unwrap();
        self.clients.take_news(self.now);
        for at in 0..count {
            let event = self.poller.event(at);
            match event.key & KIND_MASK {
                KEY_LISTENER => self.clients.accept(self.now, &self.poller),
                KEY_CLIENT => self.clients.event((event.key & !KIND_MASK) as usize, event, self.now),
                _ => unreachable!(),
            }
        }
    }

    /// One turn; whether there is more to do at once.
    pub fn turn(&mut self) -> bool {
        self.look();
        self.clients.turn(self.now, &self.poller, None);
        match self.ends {
            Some(refusal) => self.clients.part(self.now, refusal, &self.poller),
            None => self.clients.submit(self.now, &mut self.engine, &mut self.upstream),
        }
        self.most_held = self.most_held.max(self.clients.held().held);
        for (token, len) in std::mem::take(&mut self.engine.unreleased) {
            let (_, slot, number) = unpack(token);
            let at = Timestamp::ZERO;
            let reply = vec![b'x'; len];
            let outcome = if len == 0 { Outcome::RolledBack } else { Outcome::Committed };
            self.clients.released(slot, number, Ticks::default(), outcome, at, &reply);
        }
        self.clients.flush(self.now, &self.poller, &mut self.upstream);
        self.clients.hand_over(self.now);
        self.clients.has_more() || self.clients.is_dirty()
    }

    /// Turns until nothing happens, as far as one can tell with bytes under way.
    pub fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 20 {
            quiet = if self.turn() { 0 } else { quiet + 1 };
        }
    }

    /// Lets virtual time pass, a second at a time.
    pub fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += SECOND;
            self.settle();
        }
    }

    /// A socket takes or brings nothing, since then; whether to go on with it.
    pub fn stands_still(&mut self, since: Instant) -> bool {
        if self.ages && since.elapsed() > Duration::from_millis(100) {
            self.wait(1);
        }
        since.elapsed() < PATIENCE
    }

    /// Writes all of it, with turns in between; false if the connection breaks.
    pub fn send(&mut self, mut stream: &TcpStream, mut bytes: &[u8]) -> bool {
        let mut moved = Instant::now();
        while !bytes.is_empty() && self.stands_still(moved) {
            match stream.write(bytes) {
                Ok(n) => (bytes, moved) = (&bytes[n..], Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
            self.turn();
        }
        bytes.is_empty()
    }

    /// Reads what is there; a turn follows.
    pub fn receive_now(&mut self, mut stream: &TcpStream) -> usize {
        let (mut got, mut buffer) = (0, vec![0; 1 << 20]);
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            got += n;
        }
        self.turn();
        got
    }

    /// Reads until so many bytes came, with turns in between; how many came before the connection ended or stood still for
    /// too long.
    pub fn receive(&mut self, mut stream: &TcpStream, wanted: usize) -> usize {
        let (mut got, mut moved, mut buffer) = (0, Instant::now(), vec![0; 1 << 20]);
        while got < wanted && self.stands_still(moved) {
            match stream.read(&mut buffer) {
                Ok(0) => return got,
                Ok(n) => (got, moved) = (got + n, Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return got,
            }
            self.turn();
        }
        got
    }
}

impl Bench {
    /// Reads so many bytes, with turns in between.
    pub fn read(&mut self, mut stream: &TcpStream, wanted: usize) -> Vec<u8> {
        let (mut got, moved, mut buffer) = (Vec::new(), Instant::now(), vec![0; 1 << 20]);
        while got.len() < wanted && self.stands_still(moved) {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => got.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            self.turn();
        }
        got
    }
}

pub fn gets(len: usize, count: usize) -> Vec<u8> {
    format!("GET {len}\r\n").into_bytes().repeat(count)
}

/// Reads replies until `count` lines came, with turns in between.
pub fn lines(bench: &mut Bench, mut stream: &TcpStream, count: usize) -> String {
    let (mut text, mut buffer, since) = (String::new(), vec![0; 1 << 16], Instant::now());
    while text.lines().count() < count && bench.stands_still(since) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => text.push_str(std::str::from_utf8(&buffer[..n]).unwrap()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error} after {text}"),
        }
        bench.turn();
    }
    text
}
