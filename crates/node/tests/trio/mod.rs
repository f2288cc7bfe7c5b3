//! Three whole nodes in this process, and plain clients that parse every reply.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses its part; helpers may unwrap as tests do")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use highwater_core::{Clock, Incarnation};
use highwater_node::admin::protocol::AdminRequest;
use highwater_node::config::{Benchmarks, Durability, Forward, Io, NodeConfig};
use highwater_node::held::HeldBytes;
use highwater_node::library::hosted;
use highwater_node::{Config, Node, Signals, free_loopback_ports};

/// How long anything may take, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again until it is so.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "{what} takes too long");
        thread::yield_now();
    }
}

/// Of each node.
pub const WORKERS: usize = 2;

/// Three nodes; one that was killed leaves `None`.
pub struct Trio {
    nodes: Vec<Option<Node>>,
    addresses: Vec<SocketAddr>,
}

impl Trio {
    /// Starts them, and waits until one leads and all know it.
    pub fn start(change: impl FnOnce(&mut Config)) -> Trio {
        let ports = free_loopback_ports(9).unwrap();
        let address = |port: u16| format!("127.0.0.1:{port}");
        let node = |(id, ports): (u8, &[u16])| NodeConfig {
            id,
            peer: address(ports[0]),
            resp: address(ports[1]),
            admin: address(ports[2]),
            announce: None,
        };
        let mut config = Config::default();
        config.cluster.workers = WORKERS as u16;
        config.cluster.durability = Durability::Memory;
        config.cluster.nodes = (0..3).zip(ports.chunks(3)).map(node).collect();
        config.limits.memory_mb = 1024;
        config.server.io = Io::of_environment();
        // Who is dead is noticed at once; a busy machine must not look so.
        config.timeouts.election_timeout_ms = 1500;
        change(&mut config);
        let nodes: Vec<Option<Node>> = (0..3).map(|id| Some(start(&config, id))).collect();
        let addresses = nodes.iter().flatten().map(Node::resp_address).collect();
        let trio = Trio { nodes, addresses };
        until("an election", || trio.leader().is_some());
        let leader = trio.leader().unwrap();
        let port = format!("master_port:{}", trio.addresses[leader].port());
        until("everybody knows who leads", || {
            (0..3).filter(|id| *id != leader).all(|id| trio.client(id).info("replication").contains(&port))
        });
        // All of its workers have to be in the epoch, and know the users.
        until("the leader serves", || trio.client(leader).serves());
        trio
    }

    /// The same, and followers forward.
    pub fn forwarding(change: impl FnOnce(&mut Config)) -> Trio {
        let trio = Trio::start(|config| {
            config.server.forward = Forward::On;
            change(config);
        });
        // Each worker has its own connection to the leader.
        for id in 0..3 {
            let mut served = 0;
            until("everybody forwards", || {
                served = if trio.client(id).serves() { served + 1 } else { 0 };
                served > 8
            });
        }
        trio
    }

    /// Who says that it leads.
    pub fn leader(&self) -> Option<usize> {
        let runs = self.nodes.iter().enumerate().filter(|(_, node)| node.is_some());
        runs.map(|(id, _)| id).find(|id| self.client(*id).info("replication").contains("role:master"))
    }

    /// The leader, and the other two.
    pub fn roles(&self) -> (usize, [usize; 2]) {
        let leader = self.leader().unwrap();
        (leader, [(leader + 1) % 3, (leader + 2) % 3])
    }

    /// Has the leader hand its lead over, as an operator would, and waits until somebody else says that it leads.
    pub fn hand_over(&self, leader: usize) {
        let mut admin = TcpStream::connect(self.nodes[leader].as_ref().unwrap().admin_address()).unwrap();
        admin.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = serde_json::to_string(&AdminRequest::HandOver { to: None }).unwrap();
        admin.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(admin).read_line(&mut line).unwrap();
        until("another leader", || self.leader().is_some_and(|id| id != leader));
    }

    /// Ends a node at once.
    pub fn kill(&mut self, id: usize) {
        drop(self.nodes[id].take());
    }

    /// Where a node's clients connect.
    pub fn address(&self, id: usize) -> SocketAddr {
        self.addresses[id]
    }

    /// Another client of a node.
    pub fn client(&self, id: usize) -> Client {
        Client::connect(self.addresses[id])
    }

    /// What the buffers of each node hold.
    pub fn held(&self) -> Vec<HeldBytes> {
        self.nodes.iter().flatten().map(Node::held).collect()
    }

    /// How many requests a node has handed to the leader.
    pub fn forwarded(&self, id: usize) -> u64 {
        self.nodes[id].as_ref().unwrap().forwarded().0
    }

    /// How many a node has taken from others.
    pub fn taken_for_others(&self, id: usize) -> u64 {
        self.nodes[id].as_ref().unwrap().forwarded().1
    }
}

fn start(config: &Config, id: u8) -> Node {
    let config = Config { node: id, ..config.clone() };
    let incarnation = Incarnation(100 + u64::from(id));
    let (clock, _) = Clock::chosen(config.clock()).unwrap();
    let engine = config.engine().unwrap();
    let replica = highwater_engines::build(
        engine,
        config.options(incarnation),
        hosted(Benchmarks::On),
        Arc::new(clock),
    );
    Node::start(&config, incarnation, replica, Signals::Leave).unwrap()
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Line(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
    Map(Vec<Reply>),
    Set(Vec<Reply>),
    Other(String),
}

/// A connection.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(BufReader::new(stream))
    }

    pub fn stream(&mut self) -> &mut TcpStream {
        self.0.get_mut()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream().write_all(bytes).unwrap();
    }

    pub fn write(&mut self, words: &[&str]) {
        self.try_write(words).unwrap();
    }

    fn try_write(&mut self, words: &[&str]) -> std::io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.stream().write_all(&bytes)
    }

    pub fn ask(&mut self, words: &[&str]) -> Reply {
        self.write(words);
        self.read()
    }

    /// The same; nothing if the connection is over.
    pub fn try_ask(&mut self, words: &[&str]) -> Option<Reply> {
        self.try_write(words).ok()?;
        self.try_read()
    }

    /// `MULTI`, these, `EXEC`: the last answer, or the first that is an error.
    pub fn ask_block(&mut self, commands: &[&[&str]]) -> Reply {
        assert_eq!(self.ask(&["MULTI"]), Reply::Line("OK".into()));
        let errors = commands.iter().filter_map(|words| match self.ask(words) {
            Reply::Error(text) => Some(Reply::Error(text)),
            _ => None,
        });
        let error = errors.collect::<Vec<_>>().into_iter().next();
        let told = self.ask(&["EXEC"]);
        match (error, told) {
            (Some(error), _) => error,
            (None, Reply::Array(mut told)) if told.len() == 1 => told.remove(0),
            (None, told) => told,
        }
    }

    pub fn read(&mut self) -> Reply {
        self.try_read().expect("the node answers")
    }

    fn try_read(&mut self) -> Option<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end_matches("\r\n");
        let (kind, text) = line.split_at(1);
        let count = || text.parse::<i64>().unwrap();
        Some(match kind {
            "+" => Reply::Line(text.into()),
            "-" => Reply::Error(text.into()),
            ":" => Reply::Int(count()),
            "_" => Reply::Null,
            "$" | "*" if count() < 0 => Reply::Null,
            "$" => {
                let mut content = vec![0; count() as usize + 2];
                self.0.read_exact(&mut content).ok()?;
                content.truncate(content.len() - 2);
                Reply::Bulk(content)
            }
            "*" => Reply::Array((0..count()).map(|_| self.try_read()).collect::<Option<_>>()?),
            "~" => Reply::Set((0..count()).map(|_| self.try_read()).collect::<Option<_>>()?),
            "%" => Reply::Map((0..2 * count()).map(|_| self.try_read()).collect::<Option<_>>()?),
            _ => Reply::Other(line.into()),
        })
    }

    /// Whether it is answered a question about data.
    pub fn serves(&mut self) -> bool {
        self.ask(&["EXISTS", "nothing"]) == Reply::Int(0)
    }

    pub fn info(&mut self, section: &str) -> String {
        match self.ask(&["INFO", section]) {
            Reply::Bulk(text) => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub fn id(&mut self) -> i64 {
        match self.ask(&["CLIENT", "ID"]) {
            Reply::Int(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Whether that client of this node waits for data.
    pub fn waits(&mut self, id: i64) -> bool {
        match self.ask(&["CLIENT", "LIST", "ID", &id.to_string()]) {
            Reply::Bulk(text) => String::from_utf8(text).unwrap().contains("flags=b"),
            other => panic!("{other:?}"),
        }
    }
}
