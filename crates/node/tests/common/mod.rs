//! A stub replica to put into real nodes: node 0 leads from the start; a request is committed when every other node
//! echoed it. And a client for the admin port.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its part; helpers may unwrap as tests do"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use highwater_core::{
    Epoch, Incarnation, Levels, Library, NodeId, Outcome, Procedure, Registry, Schema, Speaks,
};
use highwater_engines::EngineKind;
use highwater_node::admin::protocol::{AdminRequest, AdminResponse};
use highwater_node::config::{Durability, Io, NodeConfig};
use highwater_node::library::{WITH_WORKLOADS, hosted};
use highwater_node::transport::handshake::{Fingerprint, Hello, Identity, WELCOME_BYTES, Welcome};
use highwater_node::{Config, Node, Signals, free_loopback_ports};
use highwater_redis::acl::change::ChangeUsers;
use highwater_redis::keyspace::sweep::Sweep;
use highwater_seam::{
    ControlOutbox, Controller, Counters, Endpoint, Figure, Frame, Nanos, Next, Outbox, Refusal, Replica,
    Request, Service, Status, Taken, Token, Worker,
};
use highwater_store::Store;
use highwater_workloads::testing::Memory;

pub const HEARTBEAT: Nanos = 20_000_000;

/// What a stub tells the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `None`: the controller's connection.
    Up(Option<u16>, NodeId, Incarnation),
    Down(Option<u16>, NodeId),
    /// The controller's only.
    Refused(NodeId),
    Message(NodeId),
}

struct StubWorker {
    index: u16,
    node: NodeId,
    up: BTreeSet<NodeId>,
    counters: Arc<Counters>,
    others: usize,
    unreleased: BTreeMap<u64, (usize, Bytes)>,
    frames: Vec<(Endpoint, Frame)>,
    released: Vec<(Token, Bytes)>,
    redis: u16,
    users: u16,
    sweep: u16,
    sessions: u16,
    events: Sender<Event>,
}

impl StubWorker {
    /// Requests that a node asks itself, which is nobody's request and is not counted: who its users are, what has expired, which modules there
    /// are to compile, and which sessions nobody uses.
    fn asks_itself(&mut self, request: &Request<'_>) -> bool {
        if request.args.ends_with(b"compile") {
            self.released.push((request.token, Bytes::from_static(b":0\r\n")));
            return true;
        }
        if request.procedure.0 == self.sweep {
            // Nothing, and nothing will.
            self.released.push((request.token, [u64::MAX, 0].map(u64::to_le_bytes).concat().into()));
            return true;
        }
        if request.procedure.0 == self.sessions {
            // No session is left to look at, none has expired, and their clock stands.
            self.released.push((request.token, [0; 3].map(u64::to_le_bytes).concat().into()));
            return true;
        }
        let asks = request.procedure.0 == self.users;
        if asks {
            let mut reply = Vec::new();
            ChangeUsers::run(
                &mut Memory::new(Schema::new(WITH_WORKLOADS.tables())),
                request.args,
                &mut reply,
            )
            .unwrap();
            self.released.push((request.token, reply.into()));
        }
        asks
    }
}

impl Worker for StubWorker {
    fn ready(&self) -> Result<(), Refusal> {
        if self.node != NodeId(0) {
            return Err(Refusal::NotServing { ask: Some(NodeId(0)) });
        }
        if self.up.len() < self.others {
            return Err(Refusal::NoQuorum);
        }
        if self.unreleased.len() >= 32 { Err(Refusal::Busy) } else { Ok(()) }
    }

    fn submit(&mut self, _: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        self.ready()?;
        if self.asks_itself(&request) {
            return Ok(Taken::Placed);
        }
        Counters::add(&self.counters.executed, 1);
        let reply = match request.procedure.0 >= self.redis {
            true => Bytes::from_static(b"+OK\r\n"),
            false => Bytes::copy_from_slice(request.args),
        };
        if self.others == 0 {
            Counters::add(&self.counters.committed, 1);
            self.released.push((request.token, reply));
            return Ok(Taken::Placed);
        }
        let head = Bytes::copy_from_slice(&request.token.0.to_le_bytes());
        for node in &self.up {
            let to = Endpoint { node: *node, worker: self.index };
            self.frames.push((to, Frame { head: head.clone(), body: Bytes::copy_from_slice(request.args) }));
        }
        self.unreleased.insert(request.token.0, (self.others, reply));
        Ok(Taken::Placed)
    }

    fn submit_snapshot(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        if self.asks_itself(&request) { Ok(Taken::Placed) } else { self.submit(now, request) }
    }

    fn peer_up(&mut self, _: Nanos, peer: NodeId, incarnation: Incarnation, _: Levels) {
        self.up.insert(peer);
        let _ = self.events.send(Event::Up(Some(self.index), peer, incarnation));
    }

    fn peer_down(&mut self, _: Nanos, peer: NodeId) {
        self.up.remove(&peer);
        let _ = self.events.send(Event::Down(Some(self.index), peer));
    }

    fn deliver(&mut self, _: Nanos, from: Endpoint, frame: Frame) {
        if self.node != NodeId(0) {
            self.frames.push((from, frame));
            return;
        }
        let token = u64::from_le_bytes(frame.head[..].try_into().unwrap());
        let Some((missing, reply)) = self.unreleased.get_mut(&token) else { return };
        *missing -= 1;
        if *missing == 0 {
            Counters::add(&self.counters.committed, 1);
            self.released.push((Token(token), std::mem::take(reply)));
            self.unreleased.remove(&token);
        }
    }

    fn turn(&mut self, _: Nanos, out: &mut Outbox) -> Next {
        out.frames.append(&mut self.frames);
        for (token, reply) in self.released.drain(..) {
            out.reply(token, Outcome::Committed, &reply);
        }
        Next::Idle
    }

    fn describe(&self) -> String {
        format!("stub {} of {}", self.index, self.node)
    }
}

struct StubController {
    node: NodeId,
    incarnation: Incarnation,
    up: BTreeSet<NodeId>,
    heartbeat_at: Nanos,
    store: Arc<Store>,
    events: Sender<Event>,
}

impl Controller for StubController {
    fn peer_up(&mut self, _: Nanos, peer: NodeId, incarnation: Incarnation, _: Levels) {
        self.up.insert(peer);
        let _ = self.events.send(Event::Up(None, peer, incarnation));
    }

    fn peer_down(&mut self, _: Nanos, peer: NodeId, refused: bool) {
        self.up.remove(&peer);
        let _ = self.events.send(if refused { Event::Refused(peer) } else { Event::Down(None, peer) });
    }

    fn deliver(&mut self, _: Nanos, from: NodeId, message: Bytes) {
        assert_eq!(&message[..], b"alive");
        let _ = self.events.send(Event::Message(from));
    }

    fn turn(&mut self, now: Nanos, out: &mut ControlOutbox) -> Next {
        if now >= self.heartbeat_at {
            self.heartbeat_at = now + HEARTBEAT;
            out.messages.extend(self.up.iter().map(|peer| (*peer, Bytes::from_static(b"alive"))));
        }
        Next::At(self.heartbeat_at)
    }

    fn status(&self, _: Nanos) -> Status {
        Status {
            node: self.node,
            incarnation: self.incarnation,
            service: if self.node == NodeId(0) { Service::Serving } else { Service::Standby },
            role: "stub".into(),
            epoch: Epoch(1),
            ask: Some(NodeId(0)),
            heard_ago: None,
            figures: vec![Figure::one("turns", 5)],
            members: Vec::new(),
            copying_bytes: None,
            copying_from: None,
            forgets: false,
            freshness: None,
            levels: Levels::default(),
            level: None,
            held_back_by: Vec::new(),
            trouble: None,
        }
    }

    fn memory(&self) -> highwater_seam::memory::MemoryStatus {
        let shares = highwater_seam::memory::Shares::UNLIMITED;
        highwater_seam::memory::MemoryStatus { shares, used: 0, logs: 0, most: u64::MAX }
    }

    fn store(&self) -> Arc<Store> {
        self.store.clone()
    }
}

/// A config for `nodes` nodes on free loopback ports.
pub fn config(nodes: u8, workers: u16) -> Config {
    let mut ports = free_loopback_ports(nodes as usize).unwrap().into_iter();
    let mut config = Config::default();
    config.cluster.workers = workers;
    config.cluster.durability = Durability::Memory;
    config.server.io = Io::of_environment();
    config.cluster.nodes = (0..nodes)
        .map(|id| NodeConfig {
            id,
            peer: format!("127.0.0.1:{}", ports.next().unwrap()),
            resp: "127.0.0.1:0".into(),
            admin: "127.0.0.1:0".into(),
            announce: None,
        })
        .collect();
    config
}

/// A node with a stub replica inside.
pub struct StubNode {
    pub node: Node,
    pub events: Receiver<Event>,
    pub counters: Vec<Arc<Counters>>,
}

pub fn start(config: &Config, id: u8, incarnation: u64) -> StubNode {
    let (sender, events) = channel();
    let mut registry = Registry::<Memory>::new();
    WITH_WORKLOADS.register(&mut registry);
    let (procedures, versions, signatures) = (registry.names(), registry.versions(), registry.signatures());
    let users = procedures.iter().position(|name| *name == ChangeUsers::NAME).unwrap() as u16;
    let sweep = procedures.iter().position(|name| *name == Sweep::NAME).unwrap() as u16;
    let sessions = procedures.iter().position(|name| *name == "sessions.sweep").unwrap() as u16;
    let redis = procedures.iter().position(|name| name.starts_with("redis.")).unwrap() as u16;
    let (node, incarnation) = (NodeId(id), Incarnation(incarnation));
    let counters: Vec<_> = (0..config.cluster.workers).map(|_| Arc::new(Counters::default())).collect();
    let worker = |index: u16| -> Box<dyn Worker> {
        Box::new(StubWorker {
            index,
            node,
            up: BTreeSet::new(),
            counters: counters[index as usize].clone(),
            others: config.cluster.nodes.len() - 1,
            unreleased: BTreeMap::new(),
            frames: Vec::new(),
            released: Vec::new(),
            redis,
            users,
            sweep,
            sessions,
            events: sender.clone(),
        })
    };
    let replica = Replica {
        workers: (0..config.cluster.workers).map(worker).collect(),
        controller: Box::new(StubController {
            node,
            incarnation,
            up: BTreeSet::new(),
            heartbeat_at: 0,
            store: Store::new(Schema::new(WITH_WORKLOADS.tables())),
            events: sender,
        }),
        counters: counters.clone(),
        procedures,
        versions,
        signatures,
    };
    let config = Config { node: id, ..config.clone() };
    let node = Node::start(&config, incarnation, replica, Signals::Leave).unwrap();
    StubNode { node, events, counters }
}

impl StubNode {
    /// Waits for all these events, in any order, ignoring others; the others.
    pub fn expect(&self, wanted: &[Event]) {
        let mut missing = wanted.to_vec();
        // For all of them: peers' heartbeats are events too, and never end.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !missing.is_empty() {
            let event = self.events.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let event = event.unwrap_or_else(|error| panic!("{error} while waiting for {missing:?}"));
            missing.retain(|wanted| *wanted != event);
        }
    }

    pub fn admin(&self) -> AdminClient {
        AdminClient::connect(self.node.admin_address())
    }
}

/// Every channel of `node` to `peer` is up.
pub fn all_up(workers: u16, peer: u8, incarnation: u64) -> Vec<Event> {
    let channels = std::iter::once(None).chain((0..workers).map(Some));
    channels.map(|channel| Event::Up(channel, NodeId(peer), Incarnation(incarnation))).collect()
}

/// Starts a whole cluster and waits until everybody is connected.
pub fn start_all(config: &Config) -> Vec<StubNode> {
    let ids = 0..config.cluster.nodes.len() as u8;
    let nodes: Vec<StubNode> = ids.clone().map(|id| start(config, id, 100 + u64::from(id))).collect();
    for (at, node) in nodes.iter().enumerate() {
        let peers = ids.clone().filter(|id| *id as usize != at);
        let up: Vec<_> =
            peers.flat_map(|peer| all_up(config.cluster.workers, peer, 100 + u64::from(peer))).collect();
        node.expect(&up);
    }
    nodes
}

/// Speaks to an admin port.
pub struct AdminClient(BufReader<TcpStream>);

impl AdminClient {
    pub fn connect(address: SocketAddr) -> AdminClient {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        AdminClient(BufReader::new(stream))
    }

    pub fn say(&mut self, line: &str) -> AdminResponse {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        self.hear()
    }

    pub fn hear(&mut self) -> AdminResponse {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub fn ask(&mut self, request: &AdminRequest) -> AdminResponse {
        self.say(&serde_json::to_string(request).unwrap())
    }
}

/// Who the test says it is when it calls a node.
pub fn identity(node: u8, workers: u16) -> Identity {
    let mut registry = Registry::<Memory>::new();
    WITH_WORKLOADS.register(&mut registry);
    Identity {
        cluster: "highwater".into(),
        node: NodeId(node),
        incarnation: Incarnation(9),
        nodes: 0,
        streams: workers,
        engine: EngineKind::Rolis,
        speaks: Speaks::FIRST,
        schema: Schema::new(WITH_WORKLOADS.tables()),
        procedures: Fingerprint::of_procedures(&registry.names(), &registry.versions()),
        durability: highwater_core::Durability::Memory,
    }
}

/// Calls a node as another one would; what it answers.
pub fn call(peer: &str, hello: &Hello) -> (TcpStream, Welcome) {
    let mut stream = TcpStream::connect(peer).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // In two pieces: a hello need not arrive at once.
    let bytes = hello.encode();
    stream.write_all(&bytes[..7]).unwrap();
    stream.write_all(&bytes[7..]).unwrap();
    let mut welcome = [0; WELCOME_BYTES];
    stream.read_exact(&mut welcome).unwrap();
    (stream, Welcome::decode(&welcome).unwrap())
}

/// A node with a real replica inside that leads alone.
pub fn start_alone(config: &Config) -> Node {
    let options = config.options(Incarnation(7));
    let clock = Arc::new(highwater_core::Clock::chosen(config.clock()).unwrap().0);
    let engine = config.engine().unwrap();
    let replica = highwater_engines::build(engine, options, hosted(config.server.benchmarks), clock);
    let node = Node::start(config, Incarnation(7), replica, Signals::Leave).unwrap();
    let mut client = resp_client(node.resp_address());
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        client.write_all(b"SET ready 1\r\n").unwrap();
        let mut reply = String::new();
        BufReader::new(&client).read_line(&mut reply).unwrap();
        if reply == "+OK\r\n" {
            return node;
        }
        assert!(Instant::now() < deadline, "{reply}");
    }
}

/// A connection to a RESP port that does not wait for ever.
pub fn resp_client(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// A command as clients send it.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}
