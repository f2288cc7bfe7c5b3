//! An engine that has no room for long: the disk of its node hangs, say.

use std::io::Read;
use std::net::TcpStream;

use super::bench::{Bench, RULES, SECOND, gets, lines};
use crate::config::Io;

/// The first one that waited for the engine kept all behind it from being looked at, for as long as that took: a node that was there and well
/// enough to say so did not answer `PING`.
pub fn who_asks_nothing_of_an_engine_without_room_is_answered(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let waiting: Vec<_> = (0..3).map(|_| bench.connect()).collect();
    bench.engine.busy = true;
    for client in &waiting {
        assert!(bench.send(client, &gets(5, 2)));
    }
    bench.settle();
    assert!(bench.clients.deadline().is_some_and(|at| at > bench.now), "it is looked again");
    bench.now += SECOND;
    bench.settle();
    let probe = bench.connect();
    for _ in 0..3 {
        assert!(bench.send(&probe, b"PING\r\n"));
        assert_eq!(lines(&mut bench, &probe, 1), "+PONG\r\n");
    }
    // In order: what it asks behind a request waits with that.
    let ordered = bench.connect();
    assert!(bench.send(&ordered, b"PING\r\nGET 5\r\nPING\r\n"));
    assert_eq!(lines(&mut bench, &ordered, 1), "+PONG\r\n");
    bench.settle();
    assert_eq!(bench.engine.submitted.len(), 0);
    bench.engine.busy = false;
    for client in &waiting {
        assert_eq!(bench.receive(client, 10), 10);
    }
    assert_eq!(bench.receive(&ordered, 12), 12, "five bytes, and the second answer");
    assert_eq!(bench.engine.submitted.len(), 7);
}

/// All of them had a share in one turn, however many they were.
pub fn beside_an_engine_without_room_a_turn_has_its_bound(io: Io) {
    const CLIENTS: usize = 48;
    /// More than a share of a turn.
    const EACH: usize = 400;
    let mut bench = Bench::new(io, RULES);
    let waiting = bench.connect();
    bench.engine.busy = true;
    assert!(bench.send(&waiting, &gets(5, 1)));
    bench.settle();
    let clients: Vec<_> = (0..CLIENTS).map(|_| bench.connect()).collect();
    for client in &clients {
        assert!(bench.send(client, &b"PING\r\n".repeat(EACH)));
    }
    bench.settle();
    assert_eq!(answered(&clients), 0, "nobody is looked at beside it yet");
    bench.now += SECOND;
    let (mut all, mut most, mut turns) = (0, 0, 0);
    while all < CLIENTS * EACH {
        // Whoever has got something waits a little before it is looked beside the engine again.
        bench.now += SECOND / 100;
        bench.turn();
        let now = answered(&clients);
        (all, most, turns) = (all + now, most.max(now), turns + 1);
        assert!(turns < 10_000, "{all} are answered");
    }
    // A share is about 125 of them, and a turn has some 17 shares.
    assert!(most < 3000, "{most} answers in one turn");
    assert!(bench.engine.submitted.is_empty());
}

/// How many answers to `PING` have come.
fn answered(clients: &[TcpStream]) -> usize {
    let mut buffer = [0; 4096];
    clients.iter().map(|mut client| client.read(&mut buffer).unwrap_or(0) / "+PONG\r\n".len()).sum()
}
