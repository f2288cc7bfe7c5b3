//! Frames between workers of different numbers through real nodes: by an engine that does nothing else, and by hand.

#![allow(clippy::unwrap_used, reason = "helpers may unwrap as tests do")]

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{call, config, identity};
use highwater_core::{Clock, Incarnation, Levels, NodeId};
use highwater_engines::{EngineKind, build};
use highwater_node::config::Benchmarks;
use highwater_node::library::hosted;
use highwater_node::transport::Channel;
use highwater_node::transport::frame::prefix;
use highwater_node::transport::handshake::{Hello, Identity};
use highwater_node::{Config, Node, Signals};
use highwater_seam::{Endpoint, Frame, Nanos, Next, Outbox, Refusal, Replica, Request, Taken, Worker};

const PATIENCE: Duration = Duration::from_secs(60);

/// What a worker tells the test.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Up(u16, NodeId),
    Down(u16, NodeId),
    /// From whom, to which worker, and the head.
    Got(Endpoint, u16, Bytes),
}

/// What a test decides for all workers of its nodes.
#[derive(Default)]
struct Orders {
    /// Bodies of the frames that worker 0 and 1 of node 1 send to worker 1 and 0 of node 0, and the other way round.
    lengths: Mutex<Vec<usize>>,
    /// Frames that each is to send; changed once all are connected.
    to_send: AtomicU64,
    /// Worker 1 of node 0 takes turns.
    open: Mutex<bool>,
    opened: Condvar,
}

struct Chatter {
    me: Endpoint,
    orders: Arc<Orders>,
    sent: u64,
    /// Frames that came from each.
    got: BTreeMap<Endpoint, u64>,
    events: Sender<Event>,
}

impl Chatter {
    /// Of the other node both workers hear the same.
    fn send(&mut self, out: &mut Outbox) {
        let lengths = self.orders.lengths.lock().unwrap();
        let body = vec![self.sent as u8; lengths[self.sent as usize % lengths.len()]];
        for worker in 0..2 {
            let head = Bytes::copy_from_slice(&self.sent.to_le_bytes());
            let to = Endpoint { node: NodeId(1 - self.me.node.0), worker };
            out.frames.push((to, Frame { head, body: body.clone().into() }));
        }
        self.sent += 1;
    }
}

impl Worker for Chatter {
    fn ready(&self) -> Result<(), Refusal> {
        Err(Refusal::Busy)
    }

    fn submit(&mut self, _: Nanos, _: Request<'_>) -> Result<Taken, Refusal> {
        Err(Refusal::Busy)
    }

    fn peer_up(&mut self, _: Nanos, peer: NodeId, _: Incarnation, _: Levels) {
        let _ = self.events.send(Event::Up(self.me.worker, peer));
    }

    fn peer_down(&mut self, _: Nanos, peer: NodeId) {
        let _ = self.events.send(Event::Down(self.me.worker, peer));
    }

    fn deliver(&mut self, _: Nanos, from: Endpoint, frame: Frame) {
        if self.orders.to_send.load(SeqCst) > 0 {
            let expected = self.got.entry(from).or_default();
            let number = u64::from_le_bytes(frame.head[..].try_into().unwrap());
            assert_eq!(number, *expected, "{from} to {}", self.me);
            assert!(frame.body.iter().all(|byte| *byte == number as u8));
            *expected += 1;
        }
        let _ = self.events.send(Event::Got(from, self.me.worker, frame.head));
    }

    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        if self.me == (Endpoint { node: NodeId(0), worker: 1 }) {
            let closed = self.orders.open.lock().unwrap();
            // A test that fails must end all the same.
            drop(self.orders.opened.wait_timeout_while(closed, 2 * PATIENCE, |open| !*open).unwrap());
        }
        let to_send = self.orders.to_send.load(SeqCst);
        for _ in 0..32 {
            if self.sent < to_send {
                self.send(out);
            }
        }
        if self.sent < to_send { Next::Now } else { Next::At(now + 1_000_000) }
    }

    fn describe(&self) -> String {
        format!("{}: {} sent", self.me, self.sent)
    }
}

struct ChatNode {
    node: Node,
    events: Receiver<Event>,
}

fn start(config: &Config, id: u8, orders: &Arc<Orders>) -> ChatNode {
    let (sender, events) = channel();
    let config = Config { node: id, ..config.clone() };
    let incarnation = Incarnation(100 + u64::from(id));
    let silo = build(
        EngineKind::Silo,
        config.options(incarnation),
        hosted(Benchmarks::On),
        Arc::new(Clock::counter()),
    );
    let worker = |worker| -> Box<dyn Worker> {
        let me = Endpoint { node: NodeId(id), worker };
        let (orders, events) = (orders.clone(), sender.clone());
        Box::new(Chatter { me, orders, sent: 0, got: BTreeMap::new(), events })
    };
    let replica = Replica { workers: (0..config.cluster.workers).map(worker).collect(), ..silo };
    ChatNode { node: Node::start(&config, incarnation, replica, Signals::Leave).unwrap(), events }
}

impl ChatNode {
    /// The next event.
    fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).unwrap()
    }

    /// Both workers are connected to this node.
    fn expect_up(&self, peer: u8) {
        let mut up = [self.next(), self.next()].map(|event| match event {
            Event::Up(worker, node) if node == NodeId(peer) => worker,
            other => panic!("{other:?}"),
        });
        up.sort_unstable();
        assert_eq!(up, [0, 1]);
    }

    /// Waits for so many frames in each of the four conversations.
    fn expect_frames(&self, each: u64) {
        for _ in 0..4 * each {
            assert!(matches!(self.next(), Event::Got(..)));
        }
    }
}

/// Two nodes whose workers are connected, and say nothing yet.
fn two_nodes(lengths: &[usize], open: bool) -> (Arc<Orders>, [ChatNode; 2]) {
    let mut config = config(2, 2);
    // What piles up at a sender is the subject, not an accident.
    config.limits.send_queue_bytes = 1 << 30;
    let orders = Arc::new(Orders::default());
    *orders.lengths.lock().unwrap() = lengths.to_vec();
    *orders.open.lock().unwrap() = true;
    let nodes = [0, 1].map(|id| start(&config, id, &orders));
    nodes[0].expect_up(1);
    nodes[1].expect_up(0);
    *orders.open.lock().unwrap() = open;
    (orders, nodes)
}

#[test]
fn a_flood_of_long_and_short_frames_arrives_whole_and_in_order() {
    let mut lengths = vec![1; 60];
    lengths.extend([0, 70_000, 1, 400_000, 63_000, 1, 2_000_000]);
    let (orders, nodes) = two_nodes(&lengths, true);
    orders.to_send.store(800, SeqCst);
    // The chatters compare numbers and contents.
    nodes.iter().for_each(|node| node.expect_frames(800));
}

/// Who does not take its frames stops those behind them at their sender; nothing piles up in between, and nothing is lost.
#[test]
fn a_worker_that_takes_nothing_holds_its_frames_up_at_their_sender() {
    let (orders, nodes) = two_nodes(&[400_000, 1, 1, 1], false);
    orders.to_send.store(800, SeqCst);
    // Node 0 gives worker 0 half of it, which is 80 MB, and has to keep it all out.
    let (since, mut last) = (Instant::now(), (u64::MAX, Instant::now()));
    let held = || (nodes[0].node.held().receiving, nodes[1].node.held().sending);
    loop {
        let (receiving, sending) = held();
        assert!(receiving < 24 << 20, "{receiving} bytes are held by the node whose worker takes nothing");
        if sending != last.0 {
            last = (sending, Instant::now());
        }
        // Nothing moves any more.
        if sending > 32 << 20 && last.1.elapsed() > Duration::from_millis(100) {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{sending} bytes wait");
        std::thread::yield_now();
    }
    *orders.open.lock().unwrap() = true;
    orders.opened.notify_all();
    nodes.iter().for_each(|node| node.expect_frames(800));
}

/// The test is node 1, and has a connection of each worker in hand.
struct Hand(TcpStream);

impl Hand {
    fn call(config: &Config, node: &ChatNode, worker: u16, life: u64) -> Hand {
        let me = Identity { incarnation: Incarnation(life), engine: EngineKind::Rolis, ..identity(1, 2) };
        let hello = Hello::new(&me, NodeId(0), Channel::Worker(worker));
        let (stream, welcome) = call(&config.cluster.nodes[0].peer, &hello);
        assert_eq!(welcome.refusal, None);
        while node.next() != Event::Up(worker, NodeId(1)) {}
        Hand(stream)
    }

    fn send(&mut self, to: Channel, head: &'static [u8]) {
        let frame = Frame { head: Bytes::from_static(head), body: Bytes::new() };
        self.0.write_all(&[&prefix(to, &frame)[..], head].concat()).unwrap();
    }
}

fn one_node() -> (Config, ChatNode) {
    let config = config(2, 2);
    let orders = Arc::new(Orders { open: Mutex::new(true), ..Orders::default() });
    let node = start(&config, 0, &orders);
    (config, node)
}

fn got(from: u16, to: u16, head: &'static [u8]) -> Event {
    Event::Got(Endpoint { node: NodeId(1), worker: from }, to, Bytes::from_static(head))
}

#[test]
fn a_frame_to_nobody_ends_its_connection() {
    let (config, node) = one_node();
    for to in [Channel::Worker(2), Channel::Control] {
        let mut hand = Hand::call(&config, &node, 0, 9);
        hand.send(Channel::Worker(0), b"before");
        hand.send(to, b"lost");
        assert_eq!(node.next(), got(0, 0, b"before"));
        assert_eq!(node.next(), Event::Down(0, NodeId(1)));
    }
}

/// Who addresses a worker is alive in the life that the worker was told of: frames of another life are dropped.
#[test]
fn a_frame_to_another_worker_counts_while_that_worker_is_connected_to_the_same_life() {
    let (config, node) = one_node();
    let mut one = Hand::call(&config, &node, 1, 9);
    let mut zero = Hand::call(&config, &node, 0, 9);
    zero.send(Channel::Worker(1), b"of life 9");
    assert_eq!(node.next(), got(0, 1, b"of life 9"));
    drop(zero);
    assert_eq!(node.next(), Event::Down(0, NodeId(1)));
    let mut zero = Hand::call(&config, &node, 0, 10);
    zero.send(Channel::Worker(1), b"too early");
    // Worker 0 has passed it on when it says this, and worker 1 has had a turn with it between these two.
    zero.send(Channel::Worker(0), b"passed on");
    assert_eq!(node.next(), got(0, 0, b"passed on"));
    for head in [b"has seen ", b"has taken"] {
        one.send(Channel::Worker(1), head);
        assert_eq!(node.next(), got(1, 1, head));
    }
    let mut one = Hand::call(&config, &node, 1, 10);
    zero.send(Channel::Worker(1), b"of life 10");
    assert_eq!(node.next(), got(0, 1, b"of life 10"));
    one.send(Channel::Worker(0), b"and back");
    assert_eq!(node.next(), got(1, 0, b"and back"));
}
