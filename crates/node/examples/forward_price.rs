//! What `server.forward` costs: `SET` and `GET` on the leader directly, and through a follower, in turns.
//!
//! ```text
//! cargo run --profile dist -p highwater-node --example forward_price -- [ROUNDS [SECONDS]]
//! ```
//!
//! Three nodes in this process, one worker each. 16 connections of one thread send a pipeline each and wait for its replies. CPU per operation is that of the whole process
//! but for the client's thread: all three nodes, threads that only replicate included. So what is compared are whole clusters.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use highwater_core::{Clock, Incarnation};
use highwater_node::clock::process_cpu;
use highwater_node::config::{Benchmarks, Durability, Forward, NodeConfig};
use highwater_node::library::hosted;
use highwater_node::poll::{Interest, Poller};
use highwater_node::{Config, Node, Signals, free_loopback_ports};
use rustix::time::{ClockId, clock_gettime};

const CONNECTIONS: u64 = 16;
const KEYS: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn start() -> Vec<Node> {
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
    config.cluster.workers = 1;
    config.cluster.durability = Durability::Memory;
    config.cluster.nodes = (0..3).zip(ports.chunks(3)).map(node).collect();
    config.limits.memory_mb = 512;
    config.server.forward = Forward::On;
    let start = |id: u8| {
        let config = Config { node: id, ..config.clone() };
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
    };
    (0..3).map(start).collect()
}

/// What one measurement found.
struct Found {
    operations: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: f64,
}

struct Connection {
    stream: TcpStream,
    awaited: usize,
    began: Instant,
}

fn packet(get: bool, pipeline: usize, draw: &mut u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..pipeline {
        *draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = format!("key:{:08}", (*draw >> 33) % KEYS);
        match get {
            true => bytes.extend_from_slice(format!("*2\r\n$3\r\nGET\r\n$12\r\n{key}\r\n").as_bytes()),
            false => {
                bytes.extend_from_slice(
                    format!("*3\r\n$3\r\nSET\r\n$12\r\n{key}\r\n$8\r\nvvvvvvvv\r\n").as_bytes(),
                );
            }
        }
    }
    bytes
}

fn measure(address: SocketAddr, get: bool, pipeline: usize, how_long: Duration) -> std::io::Result<Found> {
    let mut poller = Poller::new()?;
    let (mut connections, mut draw) = (Vec::new(), 7);
    // `+OK` or eight bytes.
    let reply = if get { 14 } else { 5 };
    for key in 0..CONNECTIONS {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        poller.add(&stream, key, Interest::READ)?;
        connections.push(Connection { stream, awaited: 0, began: Instant::now() });
    }
    let own = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let (cpu, mine, began) = (process_cpu(), own(), Instant::now());
    let (mut took, mut chunk, mut left) = (Vec::new(), vec![0; 64 << 10], connections.len());
    for connection in &mut connections {
        connection.awaited = reply * pipeline;
        connection.began = Instant::now();
        connection.stream.write_all(&packet(get, pipeline, &mut draw))?;
    }
    while left > 0 {
        for at in 0..poller.wait(None)? {
            let connection = &mut connections[poller.event(at).key as usize];
            let read = connection.stream.read(&mut chunk)?;
            assert!(read > 0 && chunk[0] != b'-', "{}", String::from_utf8_lossy(&chunk[..read]));
            connection.awaited = connection.awaited.checked_sub(read).expect("no reply is longer");
            if connection.awaited > 0 {
                continue;
            }
            took.push(connection.began.elapsed());
            if began.elapsed() >= how_long {
                left -= 1;
                continue;
            }
            connection.awaited = reply * pipeline;
            connection.began = Instant::now();
            connection.stream.write_all(&packet(get, pipeline, &mut draw))?;
        }
    }
    let (elapsed, operations) = (began.elapsed().as_secs_f64(), (took.len() * pipeline) as f64);
    let cpu_us = ((process_cpu() - cpu) - (own() - mine)) as f64 / 1e3 / operations;
    took.sort_unstable();
    let at = |part: f64| took[(took.len() as f64 * part) as usize].as_secs_f64() * 1e6;
    Ok(Found { operations: operations / elapsed, p50_us: at(0.5), p99_us: at(0.99), cpu_us })
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Sets every key; false if this node takes no writes, or hands them to nobody.
fn fill(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).expect("the node listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    let mut all = Vec::new();
    for key in 0..KEYS {
        all.extend_from_slice(
            format!("*3\r\n$3\r\nSET\r\n$12\r\nkey:{key:08}\r\n$8\r\nvvvvvvvv\r\n").as_bytes(),
        );
    }
    let mut replies = vec![0; 5 * KEYS as usize];
    stream.write_all(&all).expect("the node reads");
    stream.read_exact(&mut replies).is_ok() && replies.chunks(5).all(|reply| reply == b"+OK\r\n")
}

fn main() -> std::io::Result<()> {
    let number = |at: usize, default: f64| {
        std::env::args().nth(at).and_then(|arg| arg.parse::<f64>().ok()).unwrap_or(default)
    };
    let (rounds, seconds) = (number(1, 7.0) as usize, number(2, 1.0));
    let nodes = start();
    let began = Instant::now();
    while !nodes.iter().all(|node| fill(node.resp_address())) {
        assert!(began.elapsed() < PATIENCE, "nobody leads");
        thread::yield_now();
    }
    // Who hands nothing on leads.
    let forwards = |node: &Node| node.forwarded().0;
    let leads = (0..3).min_by_key(|at| forwards(&nodes[*at])).expect("there are three");
    let doors = [leads, (leads + 1) % 3].map(|at| nodes[at].resp_address());
    for (name, get, pipeline) in [("SET", false, 1), ("GET", true, 1), ("SET", false, 16), ("GET", true, 16)]
    {
        let mut found: [Vec<Found>; 2] = Default::default();
        for _ in 0..rounds {
            for (at, door) in doors.into_iter().enumerate() {
                found[at].push(measure(door, get, pipeline, Duration::from_secs_f64(seconds))?);
            }
        }
        let of = |at: usize, what: fn(&Found) -> f64| median(found[at].iter().map(what).collect());
        println!(
            "{name} -P {pipeline}: leader {:.0}/s p50 {:.0} us p99 {:.0} us {:.2} us of CPU; through a follower {:.0}/s p50 {:.0} us p99 {:.0} us {:.2} us of CPU",
            of(0, |found| found.operations),
            of(0, |found| found.p50_us),
            of(0, |found| found.p99_us),
            of(0, |found| found.cpu_us),
            of(1, |found| found.operations),
            of(1, |found| found.p50_us),
            of(1, |found| found.p99_us),
            of(1, |found| found.cpu_us),
        );
    }
    nodes.iter().for_each(Node::stop);
    for node in nodes {
        node.wait().expect("a node ends in good order");
    }
    Ok(())
}
