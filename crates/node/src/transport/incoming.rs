//! Answers those who dial this node: reads their hello, checks it, welcomes or refuses them.
//!
//! Where TLS is spoken, the first byte says whether the caller speaks it, and a hello counts only from a caller who has shown a certificate
//! for the node that it says it is. Nothing of a caller leaves this module before that.
//!
//! Strangers are bounded: there are a few (`Shares::callers` of `descriptors`) who have not said hello, of those from the address that most come from the
//! first goes when another comes, each has
//! `PATIENCE`, and at most `STEPS` steps of handshakes are made between two turns of the control thread, because a step of TLS takes a
//! good part of a millisecond, and heartbeats go first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

use highwater_core::{Incarnation, Level, NodeId};
use highwater_meerkat_wire::frames;
use highwater_seam::Nanos;

use super::Established;
use super::complaints::Complaints;
use super::handshake::{Fingerprint, HELLO_BYTES, Hello, Identity, Mismatch, Welcome};
use super::socket::tune_peer;
use crate::acceptor::Acceptor;
use crate::poll::{Event, Interest, Poller};
use crate::tls::names::{coordinator_name, node_name};
use crate::tls::{PeerLock, Wire};

/// How long a caller may take to say hello.
const PATIENCE: Nanos = 2_000_000_000;
/// Connections taken per look at the listener: heartbeats go first.
const ACCEPTS: usize = 16;
/// Steps of handshakes between two turns.
const STEPS: u32 = 8;
/// The first byte of who speaks TLS.
const TLS_BYTE: u8 = 0x16;

/// The peer port. Lives on the control thread.
pub struct Incoming {
    me: Identity,
    lock: PeerLock,
    acceptor: Acceptor,
    callers: BTreeMap<u64, Caller>,
    /// So many of them at most.
    most_callers: usize,
    /// Connections so far; the number of the last.
    generation: u64,
    /// Key of the listener in the poller; callers follow.
    key_base: u64,
    next_key: u64,
    /// Who was removed from the cluster.
    removed: BTreeSet<NodeId>,
    complaints: Complaints,
    /// Steps of handshakes since the last turn.
    steps: u32,
    /// What procedures each caller had last.
    procedures: BTreeMap<NodeId, Fingerprint>,
}

struct Caller {
    stream: Wire,
    from: SocketAddr,
    /// Whether it is known if it speaks TLS.
    known: bool,
    interest: Interest,
    got: Vec<u8>,
    deadline: Nanos,
}

/// Who called, and may stay.
pub enum Called {
    /// Another node.
    Node(Established),
    /// A client that coordinates its transactions itself.
    Client {
        /// Non-blocking.
        stream: Wire,
        /// Whom it wants to speak to.
        worker: u16,
    },
}

// Both say hello in as many bytes.
const _: () = assert!(HELLO_BYTES == frames::HELLO_BYTES);

/// How lately a node must have been heard for another process in its name to be a mistake, and not its next life.
const ALIVE: Nanos = 1_000_000_000;

/// Which life of each node has a control connection, and when it was heard last.
#[derive(Default)]
pub struct Living(BTreeMap<NodeId, (Incarnation, Nanos)>);

impl Living {
    /// A control connection is up.
    pub fn met(&mut self, now: Nanos, node: NodeId, incarnation: Incarnation) {
        self.0.insert(node, (incarnation, now));
    }

    /// Whether its control connection is up.
    pub fn knows(&self, node: NodeId) -> bool {
        self.0.contains_key(&node)
    }

    /// It said something.
    pub fn heard(&mut self, now: Nanos, node: NodeId) {
        self.0.entry(node).and_modify(|(_, at)| *at = now);
    }

    /// It is down.
    pub fn lost(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    /// Two processes that both say they are one node would replace each other for ever, and each time what one of them holds
    /// would be lost: the first one stays, as long as it lives.
    fn check(&self, now: Nanos, node: NodeId, incarnation: Incarnation) -> Result<(), Mismatch> {
        match self.0.get(&node) {
            Some((life, at)) if *life != incarnation && now.saturating_sub(*at) < ALIVE => {
                Err(Mismatch::Taken { node })
            }
            _ => Ok(()),
        }
    }
}

impl Incoming {
    /// Takes callers from `listener`, and keeps `most_callers` at most that have not said hello. Keys from `key_base` on are this module's.
    pub fn new(
        me: Identity,
        lock: PeerLock,
        listener: TcpListener,
        most_callers: usize,
        poller: &Poller,
        key_base: u64,
    ) -> io::Result<Incoming> {
        Ok(Incoming {
            me,
            lock,
            acceptor: Acceptor::new(listener, key_base, "peers", poller)?,
            callers: BTreeMap::new(),
            most_callers,
            generation: 0,
            key_base,
            next_key: key_base + 1,
            removed: BTreeSet::new(),
            complaints: Complaints::default(),
            steps: 0,
            procedures: BTreeMap::new(),
        })
    }

    /// This level is in use from now on.
    pub fn set_level(&mut self, level: Level) {
        self.me.speaks.in_use = level;
    }

    /// Who was removed: they are told so.
    pub fn set_removed(&mut self, removed: BTreeSet<NodeId>) {
        self.removed = removed;
    }

    /// Who was refused and was not welcome since, and why.
    pub fn refusals(&self, now: Nanos) -> impl Iterator<Item = String> {
        self.complaints.standing(now)
    }

    /// When somebody's patience ends.
    pub fn deadline(&self) -> Option<Nanos> {
        let deadlines = self.callers.values().map(|caller| caller.deadline);
        deadlines.chain(self.acceptor.deadline()).min()
    }

    /// Hangs up on those who say nothing.
    pub fn turn(&mut self, now: Nanos, poller: &Poller) {
        self.steps = 0;
        self.acceptor.turn(now, poller);
        self.callers.retain(|_, caller| caller.deadline > now);
    }

    /// Something happened at the listener or at a caller's socket.
    pub fn event(&mut self, event: Event, now: Nanos, poller: &Poller, living: &Living) -> Option<Called> {
        if event.key == self.key_base {
            self.accept(now, poller);
            return None;
        }
        self.steps += 1;
        if self.steps > STEPS {
            // The poller tells of it again.
            return None;
        }
        let mut caller = self.callers.remove(&event.key)?;
        if !caller.known {
            caller = self.meet(now, caller)?;
        }
        let mut buffer = [0; HELLO_BYTES];
        match caller.stream.read(&mut buffer[..HELLO_BYTES - caller.got.len()]) {
            // A knock, or a caller that lost its patience.
            Ok(0) => return None,
            Ok(n) => caller.got.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                if let Some(why) = caller.stream.broken() {
                    self.complaints.of_stranger(now, caller.from, &format!("its TLS failed: {why}"));
                }
                return None;
            }
        }
        // What TLS has to say to that.
        caller.stream.send().ok()?;
        match <&[u8; HELLO_BYTES]>::try_from(&caller.got[..]) {
            Ok(hello) if hello.starts_with(frames::HELLO_MAGIC) => {
                let hello = *hello;
                self.answer_client(now, &hello, caller, poller)
            }
            Ok(&hello) => self.answer(now, &hello, caller, poller, living).map(Called::Node),
            Err(_) => {
                self.keep(event.key, caller, poller);
                None
            }
        }
    }

    /// Its first byte tells whether it speaks TLS. `None`: it is gone, or goes.
    fn meet(&mut self, now: Nanos, caller: Caller) -> Option<Caller> {
        let mut first = [0];
        match caller.stream.socket().peek(&mut first) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(caller),
            Err(_) => return None,
        }
        let Caller { stream, from, got, interest, deadline, .. } = caller;
        let Wire::Plain(socket) = stream else { unreachable!("nobody has spoken TLS with it") };
        let stream = match (first[0] == TLS_BYTE, self.lock.configs()) {
            (true, Some(configs)) => Wire::accept_peer(socket, configs.accepts).ok()?,
            (true, None) => {
                self.complaints.of_stranger(
                    now,
                    from,
                    "it speaks TLS at the peer port, and tls.peer is \"off\" here; set it alike on every node",
                );
                return None;
            }
            (false, _) => Wire::Plain(socket),
        };
        Some(Caller { stream, from, known: true, interest, got, deadline })
    }

    /// More has to come of it, or go to it.
    fn keep(&mut self, key: u64, mut caller: Caller, poller: &Poller) {
        let interest = Interest::of(true, caller.stream.has_unsent());
        if interest != caller.interest {
            caller.interest = interest;
            if poller.modify(&caller.stream, key, interest).is_err() {
                return;
            }
        }
        self.callers.insert(key, caller);
    }

    fn accept(&mut self, now: Nanos, poller: &Poller) {
        for _ in 0..ACCEPTS {
            let Some((stream, from)) = self.acceptor.next(now, poller) else { return };
            if tune_peer(&stream).is_err() {
                continue;
            }
            if self.callers.len() >= self.most_callers {
                self.make_room();
            }
            let key = self.next_key;
            self.next_key += 1;
            if poller.add(&stream, key, Interest::READ).is_ok() {
                let caller = Caller {
                    stream: Wire::Plain(stream),
                    from,
                    known: false,
                    interest: Interest::READ,
                    got: Vec::new(),
                    deadline: now + PATIENCE,
                };
                self.callers.insert(key, caller);
            }
        }
    }

    /// Hangs up on the first of those from the address that most come from: a stranger with one address drives away himself, and no node.
    fn make_room(&mut self) {
        let mut from: BTreeMap<IpAddr, (usize, Reverse<u64>)> = BTreeMap::new();
        for (key, caller) in &self.callers {
            from.entry(caller.from.ip()).or_insert((0, Reverse(*key))).0 += 1;
        }
        if let Some((_, Reverse(first))) = from.into_values().max() {
            self.callers.remove(&first);
        }
    }

    fn answer(
        &mut self,
        now: Nanos,
        hello: &[u8; HELLO_BYTES],
        caller: Caller,
        poller: &Poller,
        living: &Living,
    ) -> Option<Established> {
        let Caller { mut stream, from, .. } = caller;
        let Ok(hello) = Hello::decode(hello) else {
            self.complaints.of_stranger(now, from, "it does not speak Highwater's peer protocol");
            return None;
        };
        let locked_out = self.check_lock(&stream, hello.from).err();
        let removed = locked_out.is_none() && hello.is_of(&self.me) && self.removed.contains(&hello.from);
        let checked = match (locked_out, removed) {
            (Some(mismatch), _) => Err(mismatch),
            (None, true) => Err(Mismatch::Removed { node: hello.from }),
            (None, false) => {
                hello.check(&self.me).and_then(|()| living.check(now, hello.from, hello.incarnation))
            }
        };
        // Who has a lower id only asks whether it still belongs: it waits to be called.
        let asks = hello.from < self.me.node && !removed;
        let refusal = checked.err().map(|mismatch| mismatch.to_string());
        let Identity { node, incarnation, speaks, .. } = self.me;
        let tables = self.me.tables(speaks.levels.newest);
        let welcome = Welcome { node, incarnation, refusal, removed, accounts: true, speaks, tables };
        say(&mut stream, &welcome.encode())?;
        if let Some(reason) = welcome.refusal {
            if !asks {
                self.complaints.of_node(hello.from, from, &reason);
            }
            return None;
        }
        self.complaints.settle(hello.from);
        self.compare_procedures(&hello);
        poller.remove(&stream).ok()?;
        self.generation += 1;
        Some(Established {
            peer: hello.from,
            incarnation: hello.incarnation,
            levels: hello.speaks.levels,
            channel: hello.channel,
            generation: self.generation,
            number: hello.number,
            gauge: Arc::default(),
            stream,
        })
    }

    /// A client that wants to coordinate: is its cluster this one, does it know its tables, and have build and engine such clients?
    fn answer_client(
        &mut self,
        now: Nanos,
        hello: &[u8; HELLO_BYTES],
        caller: Caller,
        poller: &Poller,
    ) -> Option<Called> {
        let Caller { mut stream, from, .. } = caller;
        let Ok(hello) = frames::Hello::decode(hello) else {
            self.complaints.of_stranger(now, from, "it does not speak Highwater's protocol for clients");
            return None;
        };
        let refusal = self.check_client_lock(&stream).and_then(|()| self.check_client(&hello)).err();
        let Identity { node, incarnation, streams, .. } = self.me;
        let welcome = frames::Welcome { node, workers: streams, incarnation, refusal };
        say(&mut stream, &welcome.encode())?;
        if let Some(reason) = welcome.refusal {
            self.complaints.of_stranger(now, from, &format!("a client that coordinates: {reason}"));
            return None;
        }
        poller.remove(&stream).ok()?;
        Some(Called::Client { stream, worker: hello.number % streams })
    }

    /// Whether a caller has shown what this door asks of a node.
    fn check_lock(&self, stream: &Wire, node: NodeId) -> Result<(), Mismatch> {
        let name = node_name(&self.me.cluster, node);
        match stream {
            Wire::Plain(_) if self.lock.is_required() => Err(Mismatch::NotEncrypted),
            Wire::Plain(_) => Ok(()),
            Wire::Tls(_) if stream.is_for(&name) => Ok(()),
            Wire::Tls(_) => Err(Mismatch::NotItsCertificate { node, name }),
        }
    }

    /// The same of a client that coordinates: it may change anything, so it needs more than what any client may have.
    fn check_client_lock(&self, stream: &Wire) -> Result<(), String> {
        let name = coordinator_name(&self.me.cluster);
        match stream {
            Wire::Plain(_) if self.lock.is_required() => Err(Mismatch::NotEncrypted.to_string()),
            Wire::Tls(_) if !stream.is_for(&name) => {
                Err(format!("certificate: the client's is not for {name}"))
            }
            _ => Ok(()),
        }
    }

    fn check_client(&self, hello: &frames::Hello) -> Result<(), String> {
        let me = &self.me;
        if hello.version != frames::VERSION {
            return Err(format!(
                "version: the client speaks {}, this node {}",
                hello.version,
                frames::VERSION
            ));
        }
        if hello.cluster != Fingerprint::of_name(&me.cluster) {
            return Err(format!("cluster: this node belongs to {:?}", me.cluster));
        }
        if !cfg!(feature = "delegates") {
            let why = "build: this node has no door for clients that coordinate: build it with `--features delegates`";
            return Err(why.into());
        }
        if !me.engine.abilities().client_coordinators {
            let engine = me.engine.name();
            return Err(format!(
                "engine: clients of {engine} do not coordinate, they send requests to the RESP port"
            ));
        }
        let ours = me.tables(me.speaks.levels.newest);
        if hello.tables != ours {
            return Err(format!("tables: the client has {}, this node {ours}", hello.tables));
        }
        Ok(())
    }

    /// Clients find a procedure on one node and not on the other: no reason to refuse, and worth a line.
    fn compare_procedures(&mut self, hello: &Hello) {
        let (from, theirs, ours) = (hello.from, hello.procedures, self.me.procedures);
        let before = self.procedures.insert(from, theirs);
        if theirs != ours && before != Some(theirs) {
            tracing::warn!(
                "{from} has other procedures: {theirs}, and this node has {ours}; until both run one build, ask for none but those of both"
            );
        }
    }
}

/// Says these few bytes: a fresh socket takes them in one piece; if not, it is broken.
fn say(stream: &mut Wire, bytes: &[u8]) -> Option<()> {
    stream.write_all(bytes).ok()?;
    (!stream.has_unsent()).then_some(())
}
