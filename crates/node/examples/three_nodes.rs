//! Three nodes in one process: a write on the leader, a read on a follower.
//!
//! ```text
//! cargo run -p highwater-node --example three_nodes
//! ```
//!
//! The nodes are whole ones, with threads and sockets, and speak to each other and to us over the loopback interface.
//! That they share a process makes no difference to them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use highwater_core::{Clock, Incarnation};
use highwater_node::config::{Benchmarks, Durability, NodeConfig};
use highwater_node::library::hosted;
use highwater_node::{Config, Node, Signals, free_loopback_ports};

const NODES: u8 = 3;
/// How long a cluster may take to serve, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all nodes must agree on: who they are, and how many workers each has. Everything else has defaults.
fn cluster() -> Config {
    let ports = free_loopback_ports(3 * usize::from(NODES)).expect("there are free ports");
    let address = |port: u16| format!("127.0.0.1:{port}");
    let node = |(id, ports): (u8, &[u16])| NodeConfig {
        id,
        peer: address(ports[0]),
        resp: address(ports[1]),
        admin: address(ports[2]),
        announce: None,
    };
    let mut config = Config::default();
    config.cluster.workers = 1;
    config.cluster.durability = Durability::Memory;
    config.cluster.nodes = (0..NODES).zip(ports.chunks(3)).map(node).collect();
    // Ours are small ones.
    config.limits.memory_mb = 512;
    config
}

/// Builds a replica and gives it to a node. `highwater_node::run` does the same for a process of its own: it takes the
/// signals, too, and returns when the node has ended.
fn start(config: &Config, id: u8) -> Node {
    let config = Config { node: id, ..config.clone() };
    // Votes are counted by incarnation: a node that comes back without its memory needs another one, drawn at random.
    let incarnation = Incarnation(100 + u64::from(id));
    let (clock, _) = Clock::chosen(config.clock()).expect("every machine has some clock");
    let engine = config.engine().expect("the default engine exists");
    let replica = highwater_engines::build(
        engine,
        config.options(incarnation),
        hosted(Benchmarks::On),
        Arc::new(clock),
    );
    Node::start(&config, incarnation, replica, Signals::Leave).expect("the ports are free")
}

/// A client that sends inline commands and reads replies of one line.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the node listens as soon as it is started");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Client(BufReader::new(stream))
    }

    fn ask(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).expect("the node takes commands");
        let mut reply = self.line();
        // A bulk string says its length first.
        if reply.starts_with('$') && reply != "$-1" {
            reply = self.line();
        }
        reply
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the node answers");
        line.trim_end().to_string()
    }
}

/// Asks again until the answer is what it must come to be.
fn until(what: &str, mut answer: impl FnMut() -> Option<usize>) -> usize {
    let start = Instant::now();
    loop {
        if let Some(found) = answer() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what} takes too long");
        thread::yield_now();
    }
}

fn main() {
    let config = cluster();
    let nodes: Vec<Node> = (0..NODES).map(|id| start(&config, id)).collect();
    let mut clients: Vec<Client> = nodes.iter().map(|node| Client::connect(node.resp_address())).collect();

    // The others refuse: `MOVED 866 127.0.0.1:7201`, or `CLUSTERDOWN ..` until somebody leads.
    let leader = until("an election", || {
        clients.iter_mut().position(|client| client.ask("SET account:alice 100") == "+OK")
    });
    println!("node {leader} leads, and a majority holds what it answered");

    // A follower's reads are of one moment each, some milliseconds ago: so it may not be there at once.
    let follower = (leader + 1) % nodes.len();
    assert_eq!(clients[follower].ask("READONLY"), "+OK");
    until("the write's way to a follower", || {
        (clients[follower].ask("GET account:alice") == "100").then_some(follower)
    });
    println!("node {follower} shows it, too");

    // In good order: each answers what it has taken before it ends.
    nodes.iter().for_each(Node::stop);
    for node in nodes {
        node.wait().expect("a node ends in good order");
    }
}

#[test]
fn it_runs() {
    main();
}
