//! Dials peers, and knocks at the doors of those that went silent.
//!
//! One line per connection that this node is to dial (channels of nodes with lower ids), and two per node with a
//! higher id. One is for knocking: a knock is a connection attempt that tells whether anything listens there. The other
//! asks, while that node does not call, whether this one was removed from the cluster: who was is not called any more.
//!
//! Where TLS is spoken, a line begins with it, and says hello only once the other side has shown the certificate of the node that it dials. With
//! `tls.peer = "optional"` the attempt after one that failed there is made without.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use highwater_core::{Level, NodeId};
use highwater_seam::Nanos;

use super::directory::Directory;
use super::handshake::{HELLO_BYTES, Hello, Identity, WELCOME_BYTES, Welcome};
use super::socket::{connect, tune_peer};
use super::{Channel, Established};
use crate::poll::{Event, Interest, Poller};
use crate::tls::names::{node_name, server_name};
use crate::tls::{PeerLock, Wire};

const MILLISECOND: Nanos = 1_000_000;
/// How long to wait for a connection and for its welcome.
const PATIENCE: Nanos = 1000 * MILLISECOND;
const MAX_BACKOFF: Nanos = 500 * MILLISECOND;
/// A dying process may accept for a moment more: knock again, 1, 2, 4, .. ms later.
const MAX_KNOCKS: u32 = 7;
/// How often a node that is not called asks why. Who belongs is called within [`MAX_BACKOFF`].
const INQUIRE_EVERY: Nanos = 2000 * MILLISECOND;

/// How complaints begin that are about what two nodes are, and not about the connection between them: of the other one's,
const REFUSES: &str = "it refuses this node: ";
/// and of this one's.
const IS_REFUSED: &str = "this node refuses it: ";
/// And those that are about how the two begin to speak.
const NO_TLS: &str = "no TLS with it: ";

/// What came of it.
#[derive(Debug)]
pub enum Dialed {
    /// A connection is ready for use.
    Established(Established),
    /// The peer's machine says that nothing listens there. Told once per loss of the control connection.
    Refused(NodeId),
    /// The peer says that this node was removed from the cluster.
    Removed(NodeId),
}

/// All connections on their way out. Lives on the control thread.
pub struct Outgoing {
    me: Identity,
    lock: PeerLock,
    directory: Arc<Directory>,
    lines: Vec<Line>,
    /// Not to be dialed any more.
    removed: BTreeSet<NodeId>,
    /// Whether requests of clients are forwarded.
    forwards: bool,
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
    /// Times that a hello was said; the last connection's number.
    hellos: u32,
    /// Whether the connection was up before, and the refusal of the next attempt is news.
    refusal_is_news: bool,
    /// What was logged last, so that a lasting trouble is logged once.
    complaint: String,
    /// Why the last attempt with TLS failed, if the next one is made without; and whether this is that one.
    without_tls: Option<String>,
    is_without_tls: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Dial,
    Knock,
    /// Nobody called for a while: asks a node with a higher id, which should, whether this node was removed.
    Inquire,
}

enum State {
    /// The connection is up, or nobody wants one.
    Quiet,
    /// Until the next attempt.
    Waiting { at: Nanos },
    /// Until the connection is decided.
    Connecting { stream: TcpStream, deadline: Nanos },
    /// Until the whole welcome is there; with what is to be said when TLS has keys.
    Asking { stream: Wire, unsaid: Option<Box<[u8; HELLO_BYTES]>>, got: Vec<u8>, deadline: Nanos },
}

/// What a peer said to a hello.
enum Answer {
    NotYet,
    Welcome(Welcome),
    Removed(NodeId),
}

impl Line {
    /// The last knock told nothing. Another one, if there were not too many.
    fn knock_again(&mut self, now: Nanos) {
        self.attempts += 1;
        self.state = match self.attempts < MAX_KNOCKS {
            true => State::Waiting { at: now + (MILLISECOND << (self.attempts - 1)) },
            false => State::Quiet,
        };
    }
}

impl Outgoing {
    /// No lines yet.
    pub fn new(me: Identity, lock: PeerLock, directory: Arc<Directory>, key_base: u64) -> Outgoing {
        let random = me.incarnation.0 | 1;
        let (lines, removed) = (Vec::new(), BTreeSet::new());
        Outgoing { me, lock, directory, lines, removed, forwards: false, key_base, random }
    }

    /// The nodes that are added from now on are dialed for requests that are forwarded, too, if so.
    pub fn set_forwards(&mut self, forwards: bool) {
        self.forwards = forwards;
    }

    /// This level is in use from now on.
    pub fn set_level(&mut self, level: Level) {
        self.me.speaks.in_use = level;
    }

    /// Lines to this node, if there are none: dialing starts with the next [`turn`](Outgoing::turn).
    pub fn add(&mut self, now: Nanos, peer: NodeId, connected: bool) {
        if peer == self.me.node || self.lines.iter().any(|line| line.peer == peer) {
            return;
        }
        let line = |channel, purpose, state| Line {
            peer,
            channel,
            purpose,
            state,
            attempts: 0,
            generation: 0,
            hellos: 0,
            refusal_is_news: false,
            complaint: String::new(),
            without_tls: None,
            is_without_tls: false,
        };
        if peer > self.me.node {
            self.lines.push(line(Channel::Control, Purpose::Knock, State::Quiet));
            let at = now + INQUIRE_EVERY;
            let inquires = if connected { State::Quiet } else { State::Waiting { at } };
            self.lines.push(line(Channel::Control, Purpose::Inquire, inquires));
            return;
        }
        let workers = 0..self.me.streams;
        let forwards = if self.forwards { workers.clone() } else { 0..0 };
        let channels = std::iter::once(Channel::Control)
            .chain(workers.map(Channel::Worker))
            .chain(forwards.map(Channel::Forward));
        self.lines.extend(channels.map(|channel| line(channel, Purpose::Dial, State::Waiting { at: now })));
    }

    /// That node is not dialed any more; whether it was. Its lines stay, because sockets are known by the lines' places.
    pub fn remove(&mut self, peer: NodeId) -> bool {
        let news = self.removed.insert(peer);
        self.lines.iter_mut().filter(|line| line.peer == peer).for_each(|line| line.state = State::Quiet);
        news
    }

    /// Nobody is dialed any more: this node was removed.
    pub fn give_up(&mut self) {
        self.removed.extend(self.lines.iter().map(|line| line.peer));
        self.lines.iter_mut().for_each(|line| line.state = State::Quiet);
    }

    /// A connection was lost. Dials or knocks at once.
    pub fn lost(&mut self, now: Nanos, peer: NodeId, channel: Channel, generation: u64) {
        if self.removed.contains(&peer) {
            return;
        }
        for line in self.lines.iter_mut().filter(|line| line.peer == peer && line.channel == channel) {
            if line.purpose == Purpose::Dial && line.generation != generation {
                continue;
            }
            line.attempts = 0;
            if line.purpose == Purpose::Inquire {
                line.state = State::Waiting { at: now + INQUIRE_EVERY };
                continue;
            }
            line.refusal_is_news = channel == Channel::Control;
            line.state = State::Waiting { at: now };
        }
    }

    /// The peer called: no need to knock.
    pub fn arrived(&mut self, peer: NodeId) {
        for line in self.lines.iter_mut().filter(|line| line.peer == peer && line.purpose != Purpose::Dial) {
            line.state = State::Quiet;
        }
    }

    /// Who refuses this node, or is refused by it, and why.
    pub fn refusals(&self) -> impl Iterator<Item = String> {
        let refusal = |line: &&Line| {
            [REFUSES, IS_REFUSED, NO_TLS].iter().any(|begins| line.complaint.starts_with(begins))
                && !self.removed.contains(&line.peer)
        };
        self.lines.iter().filter(refusal).map(|line| format!("{}: {}", line.peer, line.complaint))
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
                State::Connecting { deadline, .. } if deadline <= now => {
                    self.failed(at, now, &io::ErrorKind::TimedOut.into(), out);
                }
                State::Asking { deadline, .. } if deadline <= now => {
                    let State::Asking { stream, .. } =
                        std::mem::replace(&mut self.lines[at].state, State::Quiet)
                    else {
                        unreachable!("it was just looked at")
                    };
                    self.broke_off(at, now, &stream, &io::ErrorKind::TimedOut.into(), out);
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
            State::Asking { mut stream, mut unsaid, mut got, deadline } => {
                match self.converse(at, &mut stream, &mut unsaid, &mut got) {
                    Ok(Answer::Welcome(welcome)) => match self.established(at, &welcome, stream, poller) {
                        Ok(established) => out.push(Dialed::Established(established)),
                        Err(error) => self.failed(at, now, &error, out),
                    },
                    Ok(Answer::Removed(peer)) => out.push(Dialed::Removed(peer)),
                    Ok(Answer::NotYet) => {
                        let interest = Interest::of(true, stream.has_unsent());
                        let watched = poller.modify(&stream, event.key, interest);
                        self.lines[at].state = State::Asking { stream, unsaid, got, deadline };
                        if let Err(error) = watched {
                            self.failed(at, now, &error, out);
                        }
                    }
                    Err(error) => self.broke_off(at, now, &stream, &error, out),
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

    /// Connected: says hello, after TLS has keys if that is spoken; or goes away again if it only knocked.
    fn ask(
        &mut self,
        at: usize,
        stream: TcpStream,
        deadline: Nanos,
        now: Nanos,
        poller: &Poller,
    ) -> io::Result<()> {
        let line = &mut self.lines[at];
        if line.purpose == Purpose::Knock {
            line.knock_again(now);
            return Ok(());
        }
        tune_peer(&stream)?;
        line.is_without_tls = line.without_tls.is_some();
        let configs = self.lock.configs().filter(|_| !line.is_without_tls);
        let mut stream = match configs {
            None => Wire::Plain(stream),
            Some(configs) => {
                let name = server_name(&node_name(&self.me.cluster, line.peer));
                Wire::call_peer(stream, configs.calls, name)?
            }
        };
        line.hellos += 1;
        let hello = Hello { number: line.hellos, ..Hello::new(&self.me, line.peer, line.channel) };
        let (mut unsaid, mut got) = (Some(Box::new(hello.encode())), Vec::with_capacity(WELCOME_BYTES));
        // Nothing can have come yet.
        let begun = self.converse(at, &mut stream, &mut unsaid, &mut got)?;
        debug_assert!(matches!(begun, Answer::NotYet), "nobody answers before it is asked");
        poller.modify(&stream, self.key_base + at as u64, Interest::of(true, stream.has_unsent()))?;
        self.lines[at].state = State::Asking { stream, unsaid, got, deadline };
        Ok(())
    }

    /// Goes on with what is said before a connection is one: TLS, the hello, and the welcome, as far as it has come.
    fn converse(
        &self,
        at: usize,
        stream: &mut Wire,
        unsaid: &mut Option<Box<[u8; HELLO_BYTES]>>,
        got: &mut Vec<u8>,
    ) -> io::Result<Answer> {
        let mut buffer = [0; WELCOME_BYTES];
        match stream.read(&mut buffer[..WELCOME_BYTES - got.len()]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => got.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        // What TLS has to say, and behind it what it was waited for.
        stream.send()?;
        if stream.is_established()
            && let Some(hello) = unsaid.take()
        {
            stream.write_all(&hello[..])?;
        }
        let Ok(bytes) = <&[u8; WELCOME_BYTES]>::try_from(&got[..]) else { return Ok(Answer::NotYet) };
        let (welcome, line) = (Welcome::decode(bytes).map_err(io::Error::other)?, &self.lines[at]);
        if welcome.removed {
            return Ok(Answer::Removed(line.peer));
        }
        if let Some(reason) = welcome.refusal {
            return Err(io::Error::other(format!("{REFUSES}{reason}")));
        }
        if welcome.node != line.peer || line.purpose == Purpose::Inquire {
            return Err(io::Error::other(format!("{} answers there", welcome.node)));
        }
        if let Err(why) = welcome.check(&self.me) {
            return Err(io::Error::other(format!("{IS_REFUSED}{why}")));
        }
        Ok(Answer::Welcome(welcome))
    }

    /// The connection is one.
    fn established(
        &mut self,
        at: usize,
        welcome: &Welcome,
        stream: Wire,
        poller: &Poller,
    ) -> io::Result<Established> {
        poller.remove(&stream)?;
        let line = &mut self.lines[at];
        line.is_without_tls = false;
        if let Some(why) = line.without_tls.take()
            && line.channel == Channel::Control
        {
            let peer = line.peer;
            tracing::warn!(%peer, "speaks without TLS, which tls.peer = \"optional\" allows: {why}");
        }
        line.attempts = 0;
        line.generation += 1;
        line.complaint.clear();
        let (peer, channel, generation) = (line.peer, line.channel, line.generation);
        Ok(Established {
            peer,
            incarnation: welcome.incarnation,
            levels: welcome.speaks.levels,
            channel,
            generation,
            number: if welcome.accounts { line.hellos } else { 0 },
            gauge: Arc::default(),
            stream,
        })
    }

    /// It ended before it was a connection.
    fn broke_off(&mut self, at: usize, now: Nanos, stream: &Wire, error: &io::Error, out: &mut Vec<Dialed>) {
        let why = match stream.broken() {
            Some(why) => why.to_string(),
            // A node that said hello was welcomed or refused in words.
            // Who does not speak TLS hangs up; who says nothing at all may be stopped.
            None if !stream.is_established() && error.kind() != io::ErrorKind::TimedOut => {
                format!("{error}; does it speak TLS there (tls.peer)?")
            }
            None => return self.failed(at, now, error, out),
        };
        if self.lock.is_required() {
            return self.failed(at, now, &io::Error::other(format!("{NO_TLS}{why}")), out);
        }
        // What becomes of the attempt without it is told.
        let line = &mut self.lines[at];
        line.without_tls = Some(why);
        let before = io::Error::other(line.complaint.clone());
        self.failed(at, now, &before, out);
    }

    fn failed(&mut self, at: usize, now: Nanos, error: &io::Error, out: &mut Vec<Dialed>) {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let line = &mut self.lines[at];
        let without = if std::mem::take(&mut line.is_without_tls) { line.without_tls.take() } else { None };
        if error.kind() == io::ErrorKind::ConnectionRefused && std::mem::take(&mut line.refusal_is_news) {
            out.push(Dialed::Refused(line.peer));
        }
        match line.purpose {
            // Reset, say: it came to a listener that was closing.
            Purpose::Knock if line.refusal_is_news => return line.knock_again(now),
            Purpose::Knock => return line.state = State::Quiet,
            Purpose::Inquire => return line.state = State::Waiting { at: now + INQUIRE_EVERY },
            Purpose::Dial => {}
        }
        let at_address =
            self.directory.get(line.peer).map_or(String::new(), |address| format!(" to {address}"));
        let mut complaint = error.to_string();
        if let Some(why) = without {
            complaint = format!("{NO_TLS}{why}; and without: {complaint}");
        }
        // The channels of one peer fail alike: one line is enough.
        if line.channel == Channel::Control && complaint != line.complaint {
            tracing::warn!(peer = %line.peer, channel = %line.channel, "cannot connect{at_address}: {complaint}");
            line.complaint = complaint;
        }
        let backoff = (MILLISECOND << line.attempts.min(9)).min(MAX_BACKOFF);
        line.attempts += 1;
        // Jitter of a quarter keeps the channels from dialing in step.
        let jitter = (self.random >> 33) % (backoff / 4);
        line.state = State::Waiting { at: now + backoff - jitter };
    }
}
