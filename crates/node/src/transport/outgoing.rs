//! Dials peers, and knocks at the doors of those that went silent.
//!
//! One line per connection that this node is to dial (channels of nodes with lower ids), and one per node with a
//! higher id, for knocking only: a knock is a connection attempt that tells whether anything listens there.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use highwater_core::NodeId;
use highwater_engines::Nanos;

use super::directory::Directory;
use super::handshake::{Hello, Identity, WELCOME_BYTES, Welcome};
use super::socket::{connect, tune_peer};
use super::{Channel, Established};
use crate::poll::{Event, Interest, Poller};

const MILLISECOND: Nanos = 1_000_000;
/// How long to wait for a connection and for its welcome.
const PATIENCE: Nanos = 1000 * MILLISECOND;
const MAX_BACKOFF: Nanos = 500 * MILLISECOND;
/// A dying process may accept for a moment more: knock again, 1, 2, 4, .. ms later.
const MAX_KNOCKS: u32 = 7;

/// What came of it.
#[derive(Debug)]
pub enum Dialed {
    /// A connection is ready for use.
    Established(Established),
    /// The peer's machine says that nothing listens there. Told once per loss of the control connection.
    Refused(NodeId),
}

/// All connections on their way out. Lives on the control thread.
pub struct Outgoing {
    me: Identity,
    directory: Arc<Directory>,
    lines: Vec<Line>,
    /// Keys of this module's sockets in the poller: `key_base + line`.
    key_base: u64,
    random: u64,
}

struct Line {
    peer: NodeId,
    channel: Channel,
    purpose: Purpose,
    state: State,
    /// Attempts since the connection was lost.
    attempts: u32,
    /// Connections so far; the current one's number.
    generation: u64,
    /// Whether the connection was up before, and the refusal of the next attempt is news.
    refusal_is_news: bool,
    /// What was logged last, so that a lasting trouble is logged once.
    complaint: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Dial,
    Knock,
}

enum State {
    /// The connection is up, or nobody wants one.
    Quiet,
    /// Until the next attempt.
    Waiting { at: Nanos },
    /// Until the connection is decided.
    Connecting { stream: TcpStream, deadline: Nanos },
    /// Until the whole welcome is there.
    Asking { stream: TcpStream, got: Vec<u8>, deadline: Nanos },
}

impl Outgoing {
    /// Lines to every peer; dialing starts with the first [`turn`](Outgoing::turn).
    pub fn new(me: Identity, directory: Arc<Directory>, key_base: u64) -> Outgoing {
        let line = |peer, channel, purpose, state| Line {
            peer,
            channel,
            purpose,
            state,
            attempts: 0,
            generation: 0,
            refusal_is_news: false,
            complaint: String::new(),
        };
        let channels = || std::iter::once(Channel::Control).chain((0..me.streams).map(Channel::Worker));
        let mut lines = Vec::new();
        for peer in (0..me.node.0).map(NodeId) {
            lines.extend(
                channels().map(|channel| line(peer, channel, Purpose::Dial, State::Waiting { at: 0 })),
            );
        }
        for peer in (me.node.0 + 1..me.nodes).map(NodeId) {
            lines.push(line(peer, Channel::Control, Purpose::Knock, State::Quiet));
        }
        let random = me.incarnation.0 | 1;
        Outgoing { me, directory, lines, key_base, random }
    }

    /// A connection was lost. Dials or knocks at once.
    pub fn lost(&mut self, now: Nanos, peer: NodeId, channel: Channel, generation: u64) {
        for line in self.lines.iter_mut().filter(|line| line.peer == peer && line.channel == channel) {
            if line.purpose == Purpose::Dial && line.generation != generation {
                continue;
            }
            line.attempts = 0;
            line.refusal_is_news = channel == Channel::Control;
            line.state = State::Waiting { at: now };
        }
    }

    /// The peer called: no need to knock.
    pub fn arrived(&mut self, peer: NodeId) {
        for line in self.lines.iter_mut().filter(|line| line.peer == peer && line.purpose == Purpose::Knock) {
            line.state = State::Quiet;
        }
    }

    /// When to give the next turn at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        let deadline = |line: &Line| match line.state {
            State::Quiet => None,
            State::Waiting { at } => Some(at),
            State::Connecting { deadline, .. } | State::Asking { deadline, .. } => Some(deadline),
        };
        self.lines.iter().filter_map(deadline).min()
    }

    /// Starts the attempts that are due; ends those that take too long.
    pub fn turn(&mut self, now: Nanos, poller: &Poller, out: &mut Vec<Dialed>) {
        for at in 0..self.lines.len() {
            match self.lines[at].state {
                State::Waiting { at: due } if due <= now => self.start(at, now, poller, out),
                State::Connecting { deadline, .. } | State::Asking { deadline, .. } if deadline <= now => {
                    self.failed(at, now, &io::ErrorKind::TimedOut.into(), out);
                }
                _ => {}
            }
        }
    }

    /// Something happened on the socket of a line.
    pub fn event(&mut self, event: Event, now: Nanos, poller: &Poller, out: &mut Vec<Dialed>) {
        let at = (event.key - self.key_base) as usize;
        match std::mem::replace(&mut self.lines[at].state, State::Quiet) {
            State::Connecting { stream, deadline } if event.writable => {
                let connected = match stream.take_error() {
                    Ok(None) => Ok(()),
                    Ok(Some(error)) | Err(error) => Err(error),
                };
                match connected.and_then(|()| self.ask(at, stream, deadline, now, poller)) {
                    Ok(()) => {}
                    Err(error) => self.failed(at, now, &error, out),
                }
            }
            State::Asking { stream, got, deadline } if event.readable => {
                match self.listen(at, stream, got, deadline, poller) {
                    Ok(Some(established)) => out.push(Dialed::Established(established)),
                    Ok(None) => {}
                    Err(error) => self.failed(at, now, &error, out),
                }
            }
            other => self.lines[at].state = other,
        }
    }

    fn start(&mut self, at: usize, now: Nanos, poller: &Poller, out: &mut Vec<Dialed>) {
        let Some(address) = self.directory.get(self.lines[at].peer) else {
            return self.failed(at, now, &io::Error::other("its name is not resolved yet"), out);
        };
        let stream = connect(address).and_then(|stream| {
            poller.add(&stream, self.key_base + at as u64, Interest::WRITE)?;
            Ok(stream)
        });
        match stream {
            Ok(stream) => self.lines[at].state = State::Connecting { stream, deadline: now + PATIENCE },
            Err(error) => self.failed(at, now, &error, out),
        }
    }

    /// Connected: says hello, or goes away again if it only knocked.
    fn ask(
        &mut self,
        at: usize,
        mut stream: TcpStream,
        deadline: Nanos,
        now: Nanos,
        poller: &Poller,
    ) -> io::Result<()> {
        let line = &mut self.lines[at];
        if line.purpose == Purpose::Knock {
            line.attempts += 1;
            if line.attempts < MAX_KNOCKS {
                line.state = State::Waiting { at: now + (MILLISECOND << (line.attempts - 1)) };
            }
            return Ok(());
        }
        tune_peer(&stream)?;
        stream.write_all(&Hello::new(&self.me, line.peer, line.channel).encode())?;
        poller.modify(&stream, self.key_base + at as u64, Interest::READ)?;
        line.state = State::Asking { stream, got: Vec::with_capacity(WELCOME_BYTES), deadline };
        Ok(())
    }

    /// Reads the welcome; the connection if it is complete.
    fn listen(
        &mut self,
        at: usize,
        mut stream: TcpStream,
        mut got: Vec<u8>,
        deadline: Nanos,
        poller: &Poller,
    ) -> io::Result<Option<Established>> {
        let line = &mut self.lines[at];
        let mut buffer = [0; WELCOME_BYTES];
        match stream.read(&mut buffer[..WELCOME_BYTES - got.len()]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => got.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let Ok(bytes) = <&[u8; WELCOME_BYTES]>::try_from(&got[..]) else {
            line.state = State::Asking { stream, got, deadline };
            return Ok(None);
        };
        let welcome = Welcome::decode(bytes).map_err(io::Error::other)?;
        if let Some(reason) = welcome.refusal {
            return Err(io::Error::other(format!("it refuses this node: {reason}")));
        }
        if welcome.node != line.peer {
            return Err(io::Error::other(format!("{} answers there", welcome.node)));
        }
        poller.remove(&stream)?;
        line.attempts = 0;
        line.generation += 1;
        line.complaint.clear();
        let (peer, channel, generation) = (line.peer, line.channel, line.generation);
        Ok(Some(Established { peer, incarnation: welcome.incarnation, channel, generation, stream }))
    }

    fn failed(&mut self, at: usize, now: Nanos, error: &io::Error, out: &mut Vec<Dialed>) {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let line = &mut self.lines[at];
        if error.kind() == io::ErrorKind::ConnectionRefused && std::mem::take(&mut line.refusal_is_news) {
            out.push(Dialed::Refused(line.peer));
        }
        if line.purpose == Purpose::Knock {
            line.state = State::Quiet;
            return;
        }
        let complaint = error.to_string();
        // The channels of one peer fail alike: one line is enough.
        if line.channel == Channel::Control && complaint != line.complaint {
            tracing::warn!(peer = %line.peer, channel = %line.channel, "cannot connect: {complaint}");
            line.complaint = complaint;
        }
        let backoff = (MILLISECOND << line.attempts.min(9)).min(MAX_BACKOFF);
        line.attempts += 1;
        // Jitter of a quarter keeps the channels from dialing in step.
        let jitter = (self.random >> 33) % (backoff / 4);
        line.state = State::Waiting { at: now + backoff - jitter };
    }
}
