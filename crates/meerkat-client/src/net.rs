//! Connections to all nodes, of one thread: it waits for all of them at once, and connects again to those that are lost.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use highwater_core::{Fingerprint, Level, Nanos, NodeId, Schema};
use highwater_meerkat_wire::frames::{Decoder, Hello, VERSION, WELCOME_BYTES, Welcome, prefix};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use crate::core::Core;

/// A node may take so long to be connected and to answer a greeting.
const GREETS_WITHIN: Nanos = 2_000_000_000;
/// A connection that is lost is made again after this, and up to so much later.
const AGAIN: (Nanos, Nanos) = (1_000_000, 500_000_000);
/// A node that does not take what it is sent is given up.
const MOST_WAITING: usize = 256 << 20;

enum State {
    /// Not before this; so many times it came to nothing.
    Down {
        at: Nanos,
        times: u32,
    },
    /// On its way: the greeting is sent, or will be, and the answer comes.
    Greeting {
        stream: TcpStream,
        sent: bool,
        got: Vec<u8>,
        until: Nanos,
        times: u32,
    },
    Up {
        stream: TcpStream,
        node: NodeId,
        decoder: Decoder,
        out: Vec<u8>,
        written: usize,
    },
}

struct Peer {
    address: String,
    state: State,
    /// Why the node refused this client, if it did.
    refused: Option<String>,
}

/// See the module.
pub(crate) struct Net {
    started: Instant,
    hello: Hello,
    peers: Vec<Peer>,
}

fn open(address: &str) -> io::Result<TcpStream> {
    let address = address.to_socket_addrs()?.next();
    let address: SocketAddr =
        address.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))?;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn blocks(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Net {
    /// To the nodes with these peer addresses; to the worker of this number, modulo how many there are.
    pub fn new(addresses: &[String], cluster: &str, schema: &Schema, level: Level, number: u16) -> Net {
        let tables = Fingerprint::of_tables(schema, level);
        let hello = Hello { version: VERSION, number, cluster: Fingerprint::of_name(cluster), tables };
        let peer = |address: &String| Peer {
            address: address.clone(),
            state: State::Down { at: 0, times: 0 },
            refused: None,
        };
        Net { started: Instant::now(), hello, peers: addresses.iter().map(peer).collect() }
    }

    /// How late it is: from 1 on.
    pub fn now(&self) -> Nanos {
        self.started.elapsed().as_nanos() as Nanos + 1
    }

    /// Why a node refuses this client, if one does.
    pub fn refusal(&self) -> Option<&str> {
        self.peers.iter().find_map(|peer| peer.refused.as_deref())
    }

    /// Whether something waits to be written.
    pub fn is_writing(&self) -> bool {
        self.peers.iter().any(|peer| match &peer.state {
            State::Up { out, written, .. } => out.len() > *written,
            _ => false,
        })
    }

    /// Sends what the core says, takes what has come, and waits for more, until `until` at the latest.
    pub fn pump(&mut self, core: &mut Core, until: Nanos) {
        self.post(core);
        let now = self.now();
        self.connect(now);
        let due = [core.next(), self.next_connect()].into_iter().flatten().min();
        let wait = until.min(due.unwrap_or(until)).saturating_sub(now);
        self.wait(wait);
        let now = self.now();
        for at in 0..self.peers.len() {
            self.turn(now, at, core);
        }
        core.tick(now);
        self.post(core);
    }

    /// What the core says goes to the sockets, as far as they take it.
    pub fn post(&mut self, core: &mut Core) {
        let outgoing = core.take_outgoing();
        if outgoing.is_empty() {
            return;
        }
        for (to, message) in outgoing {
            let to_it = |peer: &&mut Peer| matches!(peer.state, State::Up { node, .. } if node == to);
            if let Some(Peer { state: State::Up { out, .. }, .. }) = self.peers.iter_mut().find(to_it) {
                out.extend_from_slice(&prefix(&message));
                out.extend_from_slice(&message);
            }
        }
        let now = self.now();
        for at in 0..self.peers.len() {
            if let Err(why) = self.write(at) {
                self.lose(now, at, core, &why);
            }
        }
    }

    fn next_connect(&self) -> Option<Nanos> {
        let at = |peer: &Peer| match peer.state {
            State::Down { at, .. } => Some(at),
            State::Greeting { until, .. } => Some(until),
            State::Up { .. } => None,
        };
        self.peers.iter().filter_map(at).min()
    }

    fn connect(&mut self, now: Nanos) {
        for peer in &mut self.peers {
            let times = match &peer.state {
                State::Down { at, times } if *at <= now => *times,
                State::Greeting { until, times, .. } if *until <= now => times + 1,
                _ => continue,
            };
            peer.state = match open(&peer.address) {
                Ok(stream) => {
                    let (sent, got, until) = (false, Vec::new(), now + GREETS_WITHIN);
                    State::Greeting { stream, sent, got, until, times }
                }
                Err(_) => down(now, times),
            };
        }
    }

    /// Waits until some socket is ready.
    fn wait(&self, most: Nanos) {
        let mut fds = Vec::with_capacity(self.peers.len());
        for peer in &self.peers {
            let (stream, flags) = match &peer.state {
                State::Down { .. } => continue,
                State::Greeting { stream, sent: false, .. } => (stream, PollFlags::OUT),
                State::Greeting { stream, .. } => (stream, PollFlags::IN),
                State::Up { stream, out, written, .. } if out.len() > *written => {
                    (stream, PollFlags::IN | PollFlags::OUT)
                }
                State::Up { stream, .. } => (stream, PollFlags::IN),
            };
            fds.push(PollFd::from_borrowed_fd(stream.as_fd(), flags));
        }
        let most = Timespec { tv_sec: (most / 1_000_000_000) as i64, tv_nsec: (most % 1_000_000_000) as _ };
        // Interrupted, or out of memory: the sockets are looked at all the same.
        let _ = poll(&mut fds, Some(&most));
    }

    fn turn(&mut self, now: Nanos, at: usize, core: &mut Core) {
        let done = match self.peers[at].state {
            State::Down { .. } => return,
            State::Greeting { .. } => self.greet(at, core),
            State::Up { .. } => self.read(now, at, core).and_then(|()| self.write(at)),
        };
        if let Err(why) = done {
            self.lose(now, at, core, &why);
        }
    }

    fn greet(&mut self, at: usize, core: &mut Core) -> Result<(), String> {
        let hello = self.hello.encode();
        let Peer { state, refused, .. } = &mut self.peers[at];
        let State::Greeting { stream, sent, got, .. } = state else { return Ok(()) };
        if let Some(error) = stream.take_error().map_err(|error| error.to_string())? {
            return Err(error.to_string());
        }
        if !*sent {
            match stream.write(&hello) {
                Ok(n) if n == hello.len() => *sent = true,
                Err(error) if blocks(&error) || error.kind() == io::ErrorKind::NotConnected => {
                    return Ok(());
                }
                Ok(_) => return Err("its socket is too small".into()),
                Err(error) => return Err(error.to_string()),
            }
        }
        let mut buffer = [0; WELCOME_BYTES];
        match stream.read(&mut buffer[..WELCOME_BYTES - got.len()]) {
            Ok(0) => return Err("it hung up".into()),
            Ok(n) => got.extend_from_slice(&buffer[..n]),
            Err(error) if blocks(&error) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
        let Ok(welcome) = <&[u8; WELCOME_BYTES]>::try_from(&got[..]) else { return Ok(()) };
        let welcome = Welcome::decode(welcome).map_err(|why| why.to_string())?;
        *refused = welcome.refusal;
        if let Some(why) = refused {
            return Err(why.clone());
        }
        let stream = stream.try_clone().map_err(|error| error.to_string())?;
        let (decoder, out, node) = (Decoder::default(), Vec::new(), welcome.node);
        *state = State::Up { stream, node, decoder, out, written: 0 };
        core.up(node);
        Ok(())
    }

    fn read(&mut self, now: Nanos, at: usize, core: &mut Core) -> Result<(), String> {
        let State::Up { stream, node, decoder, .. } = &mut self.peers[at].state else { return Ok(()) };
        let ended = match decoder.fill(|room| stream.read(room)) {
            Ok(0) => Err("it hung up".to_string()),
            Ok(_) => Ok(()),
            Err(error) if blocks(&error) => return Ok(()),
            Err(error) => Err(error.to_string()),
        };
        while let Some(message) = decoder.take_message().map_err(|damage| damage.to_string())? {
            core.hear(now, *node, &message).map_err(|why| why.to_string())?;
        }
        decoder.rest();
        ended
    }

    fn write(&mut self, at: usize) -> Result<(), String> {
        let State::Up { stream, out, written, .. } = &mut self.peers[at].state else { return Ok(()) };
        while *written < out.len() {
            match stream.write(&out[*written..]) {
                Ok(0) => return Err("it takes nothing any more".into()),
                Ok(n) => *written += n,
                Err(error) if blocks(&error) => {
                    let waits = out.len() - *written;
                    return if waits > MOST_WAITING { Err(format!("{waits} bytes wait")) } else { Ok(()) };
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        out.clear();
        *written = 0;
        Ok(())
    }

    fn lose(&mut self, now: Nanos, at: usize, core: &mut Core, _why: &str) {
        let times = match self.peers[at].state {
            State::Down { times, .. } | State::Greeting { times, .. } => times + 1,
            State::Up { node, .. } => {
                core.down(now, node);
                0
            }
        };
        self.peers[at].state = down(now, times);
    }
}

/// To be connected again: the later, the more often it came to nothing.
fn down(now: Nanos, times: u32) -> State {
    State::Down { at: now + (AGAIN.0 << times.min(10)).min(AGAIN.1), times }
}
