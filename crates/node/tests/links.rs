//! Connections of which a middlebox holds one end while the other is gone: real nodes with a stub engine inside, and the
//! middlebox between them.
//!
//! Before the nodes compared what they hold, a worker whose peer had given up its end of the connection believed itself connected
//! for as long as it had nothing to say: its stream stood still on that follower (torture, seed 479025307: for 67 s). The
//! middlebox answers keepalives, so TCP finds nothing wrong.

#![allow(clippy::unwrap_used, reason = "helpers may unwrap as tests do")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::{Event, StubNode, all_up, command, config, resp_client, start};
use highwater_core::{Incarnation, NodeId};
use highwater_node::transport::Channel;
use highwater_node::transport::handshake::{HELLO_BYTES, Hello};

/// A connection that goes through the middlebox.
struct Through {
    channel: Channel,
    /// To who dialed, and to who was dialed.
    ends: [TcpStream; 2],
    /// Bytes are taken and go nowhere, in both directions.
    swallows: Arc<AtomicBool>,
}

/// Stands before a node's peer port. What it holds, it holds until the end.
struct Middlebox {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<Through>>>,
}

impl Middlebox {
    fn before(upstream: SocketAddr) -> Middlebox {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<_>>>::default());
        let known = connections.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let known = known.clone();
                // A knock, or a node that has just gone.
                std::thread::spawn(move || drop(join(near, upstream, &known)));
            }
        });
        Middlebox { address, connections }
    }

    /// The end of who was dialed is gone; that of who dialed does not hear of it.
    fn loses_the_far_end(&self, lost: impl Fn(Channel) -> bool) {
        for Through { channel, ends: [_, far], swallows } in &*self.connections.lock().unwrap() {
            if lost(*channel) {
                swallows.store(true, Ordering::SeqCst);
                far.shutdown(Shutdown::Both).unwrap();
            }
        }
    }

    /// Both ends are held, and nothing goes through.
    fn swallows(&self, channel: Channel) {
        let connections = self.connections.lock().unwrap();
        let swallows = connections.iter().filter(|through| through.channel == channel);
        swallows.for_each(|through| through.swallows.store(true, Ordering::SeqCst));
    }
}

fn join(mut near: TcpStream, upstream: SocketAddr, known: &Mutex<Vec<Through>>) -> std::io::Result<()> {
    let mut hello = [0; HELLO_BYTES];
    near.read_exact(&mut hello)?;
    let mut far = TcpStream::connect(upstream)?;
    far.write_all(&hello)?;
    let swallows = Arc::<AtomicBool>::default();
    let channel = Hello::decode(&hello).unwrap().channel;
    let ends = [near.try_clone()?, far.try_clone()?];
    known.lock().unwrap().push(Through { channel, ends, swallows: swallows.clone() });
    std::thread::scope(|scope| {
        scope.spawn(|| carry(&near, &far, &swallows));
        carry(&far, &near, &swallows);
    });
    Ok(())
}

/// Carries bytes until an end, and the end, unless they are swallowed.
fn carry(mut from: &TcpStream, mut to: &TcpStream, swallows: &AtomicBool) {
    let mut buffer = [0; 1 << 14];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !swallows.load(Ordering::SeqCst) && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    if !swallows.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Both);
    }
}

/// Two connected nodes of two workers. The second dials the first through a middlebox.
fn apart() -> (StubNode, StubNode, Middlebox) {
    let config = config(2, 2);
    let middlebox = Middlebox::before(config.cluster.nodes[0].peer.parse().unwrap());
    let mut seen = config.clone();
    seen.cluster.nodes[0].peer = middlebox.address.to_string();
    let (dialed, dialer) = (start(&config, 0, 100), start(&seen, 1, 101));
    dialed.expect(&all_up(2, 1, 101));
    dialer.expect(&all_up(2, 0, 100));
    (dialed, dialer, middlebox)
}

/// The connection of `channel` is lost and made again.
fn renewed(channel: Option<u16>, peer: u8) -> [Event; 2] {
    let (node, incarnation) = (NodeId(peer), Incarnation(100 + u64::from(peer)));
    [Event::Down(channel, node), Event::Up(channel, node, incarnation)]
}

/// Once: a worker's connection that one side had given up, and a middlebox between them went on holding for the other,
/// was missed by nobody if that other side had nothing to say: its stream stood still on that follower. Workers'
/// connections have no heartbeats, and TCP's keepalive ends at the middlebox.
#[test]
fn a_connection_that_the_peer_has_given_up_is_made_anew_though_nobody_speaks() {
    let (dialed, dialer, middlebox) = apart();
    let began = Instant::now();
    middlebox.loses_the_far_end(|channel| channel == Channel::Worker(1));
    dialer.expect(&renewed(Some(1), 0));
    dialed.expect(&renewed(Some(1), 1));
    println!("{:?}", began.elapsed());
}

#[test]
fn a_connection_that_swallows_what_is_said_is_made_anew() {
    let (dialed, dialer, middlebox) = apart();
    middlebox.swallows(Channel::Worker(0));
    middlebox.swallows(Channel::Worker(1));
    let began = Instant::now();
    // One of the workers has the client; node 0 leads.
    let mut client = resp_client(dialed.node.resp_address());
    client.write_all(&command(&[b"SET", b"key", b"value"])).unwrap();
    let down = |event: &Event| match event {
        Event::Down(Some(worker), NodeId(0)) => Some(*worker),
        _ => None,
    };
    let worker = dialer.events.iter().find_map(|event| down(&event)).unwrap();
    println!("{:?}", began.elapsed());
    dialer.expect(&renewed(Some(worker), 0)[1..]);
    dialed.expect(&renewed(Some(worker), 1));
}

#[test]
fn when_all_connections_are_held_for_a_peer_that_has_none_all_are_made_anew() {
    let (dialed, dialer, middlebox) = apart();
    let began = Instant::now();
    middlebox.loses_the_far_end(|_| true);
    for (node, peer) in [(&dialed, 1), (&dialer, 0)] {
        let wanted: Vec<Event> = [None, Some(0), Some(1)].iter().flat_map(|of| renewed(*of, peer)).collect();
        node.expect(&wanted);
    }
    println!("{:?}", began.elapsed());
}
