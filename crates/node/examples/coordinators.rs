//! What it costs to coordinate transactions at the client: three nodes in one process, one client, a read and a write of one key again and again.
//!
//! ```text
//! cargo run --profile dist -p highwater-node --example coordinators [engine] [transactions]
//! ```
//!
//! The one client has its requests coordinated by a node, over RESP; the other one coordinates them itself. Each makes
//! two round trips: to the node and from there to the others, or to the home (to read, or for a stamp) and to all.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater_core::{Clock, Incarnation, Transaction};
use highwater_meerkat_client::{Client, Options};
use highwater_node::config::{Benchmarks, Durability, NodeConfig};
use highwater_node::library::{WITH_WORKLOADS, hosted};
use highwater_node::{Config, Node, Signals, free_loopback_ports};
use highwater_redis::KEYSPACE;

fn cluster(engine: &str) -> (Config, Vec<Node>) {
    let ports = free_loopback_ports(9).expect("there are free ports");
    let address = |port: u16| format!("127.0.0.1:{port}");
    let node = |(id, ports): (u8, &[u16])| NodeConfig {
        id,
        peer: address(ports[0]),
        resp: address(ports[1]),
        admin: address(ports[2]),
        announce: None,
    };
    let mut config = Config::default();
    config.cluster.engine = engine.into();
    config.cluster.workers = 1;
    config.cluster.durability = Durability::Memory;
    config.cluster.nodes = (0..3).zip(ports.chunks(3)).map(node).collect();
    config.limits.memory_mb = 512;
    let start = |id| {
        let config = Config { node: id, ..config.clone() };
        let incarnation = Incarnation(100 + u64::from(id));
        let (clock, _) = Clock::chosen(config.clock()).expect("every machine has some clock");
        let engine = config.engine().expect("it was named");
        let replica = highwater_engines::build(
            engine,
            config.options(incarnation),
            hosted(Benchmarks::On),
            Arc::new(clock),
        );
        Node::start(&config, incarnation, replica, Signals::Leave).expect("the ports are free")
    };
    let nodes = (0..3).map(start).collect();
    (config, nodes)
}

fn report(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100].as_micros();
    println!("{what:28} p50 {:6} us   p90 {:6} us   p99 {:6} us", at(50), at(90), at(99));
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let engine = args.next().unwrap_or_else(|| "meerkat".into());
    let transactions: usize = args.next().and_then(|count| count.parse().ok()).unwrap_or(200);
    let (config, nodes) = cluster(&engine);
    let peers = config.cluster.nodes.iter().map(|node| node.peer.clone());
    let options = Options { patience: Duration::from_secs(60), ..Options::new(&config.cluster.id, peers) };
    let mut client = Client::connect(&WITH_WORKLOADS, options).expect("three nodes serve");
    let (mut coordinates, mut blind) = (Vec::new(), Vec::new());
    for _ in 0..transactions {
        let began = Instant::now();
        let added = client.transaction(|tx| {
            let value = tx.get(KEYSPACE, b"counter")?;
            let text = value.map_or("0", |value| std::str::from_utf8(value).unwrap_or("0"));
            let next = text.parse::<u64>().unwrap_or(0) + 1;
            tx.put(KEYSPACE, b"counter", next.to_string().as_bytes())
        });
        added.expect("nobody else is there");
        coordinates.push(began.elapsed());
        let began = Instant::now();
        client.transaction(|tx| tx.put(KEYSPACE, b"blind", b"1")).expect("nobody else is there");
        blind.push(began.elapsed());
    }
    let stream = TcpStream::connect(nodes[0].resp_address()).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let (mut resp, mut requests, mut line) = (BufReader::new(stream), Vec::new(), String::new());
    for _ in 0..transactions {
        let began = Instant::now();
        resp.get_mut().write_all(b"INCR counter\r\n").expect("it is read");
        line.clear();
        resp.read_line(&mut line).expect("it is answered");
        requests.push(began.elapsed());
    }
    report("at the client, read + write", coordinates);
    report("at the client, blind write", blind);
    report("at a node (RESP), INCR", requests);
    println!("{:?}; the counter shows {}", client.counts(), line.trim_end());
    assert_eq!(line.trim_end(), format!(":{}", 2 * transactions));
}
