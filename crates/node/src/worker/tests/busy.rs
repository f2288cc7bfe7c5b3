//! An engine that has no room for long: the disk of its node hangs, say.

use std::io::Read;
use std::net::TcpStream;

use highwater_core::NodeId;
use highwater_redis::acl::change::News;
use highwater_redis::glob::TAKEN;
use highwater_redis::host::forward::message::Ask;
use highwater_redis::host::forward::{Judged, Upstream};
use highwater_redis::host::token::{Owner, pack};
use highwater_redis::host::users::standing;
use highwater_seam::Refusal;

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

/// A share was counted in bytes, and a pattern of 3 KB takes milliseconds: twenty clients had a worker for seconds, and its node lost the lead.
pub fn patterns_of_many_clients_leave_a_turn_its_bound(io: Io) {
    const CLIENTS: usize = 20;
    const EACH: usize = 20;
    let mut bench = Bench::new(io, RULES);
    let pattern = ["*".repeat(1_000), "zz".into()].concat();
    let command = format!("COMMAND LIST FILTERBY PATTERN {pattern}\r\n");
    let clients: Vec<_> = (0..CLIENTS).map(|_| bench.connect()).collect();
    let (mut most, mut all) = (0, 0);
    for client in &clients {
        let mut stream = client;
        std::io::Write::write_all(&mut stream, command.repeat(EACH).as_bytes()).unwrap();
    }
    let mut empty = 0;
    while empty < CLIENTS * EACH {
        let before = TAKEN.get();
        bench.turn();
        let now = TAKEN.get() - before;
        (most, all) = (most.max(now), all + now);
        empty += clients.iter().map(|client| receive_lines(client, b"*0\r\n")).sum::<usize>();
    }
    // What a turn may do, and one command of the last client beyond it.
    assert!(most < (2 << 20) + 2_000_000, "{most} steps in one turn of {all}");
}

/// How many of these answers have come.
fn receive_lines(mut client: &TcpStream, answer: &[u8]) -> usize {
    let mut buffer = [0; 4096];
    client.read(&mut buffer).unwrap_or(0) / answer.len()
}

/// Each turn of a worker has all its connections look at the users, if these have changed: then none was behind them any more, and what was
/// admitted by the old rules was handed in.
pub fn whoever_lost_a_right_between_two_turns_is_refused(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let install = |bench: &Bench, changes, row: &[u8]| {
        let users = vec![(&b"u"[..], Some(row))];
        bench.clients.door().access.install(&News { changes, whole: true, users, ..News::default() });
    };
    install(&bench, 1, b"on\nnopass\n~*\n+@all");
    let client = bench.connect();
    assert!(bench.send(&client, b"AUTH u p\r\n"));
    assert_eq!(lines(&mut bench, &client, 1), "+OK\r\n");
    bench.engine.busy = true;
    assert!(bench.send(&client, b"GET 5\r\nGET 6\r\nPING\r\n"));
    bench.settle();
    install(&bench, 2, b"on\nnopass\n~*\n+@all\n-get");
    bench.settle();
    bench.engine.busy = false;
    let told = lines(&mut bench, &client, 3);
    assert_eq!(told.lines().filter(|line| line.starts_with("-NOPERM")).count(), 2, "{told}");
    assert!(told.ends_with("+PONG\r\n") && bench.engine.submitted.is_empty(), "{told}");
    // Whoever has the right again may use it.
    bench.engine.busy = true;
    assert!(bench.send(&client, b"SET 5 1\r\n"));
    bench.settle();
    install(&bench, 3, b"on\nnopass\n~*\n+@all");
    bench.settle();
    bench.engine.busy = false;
    assert_eq!(bench.receive(&client, 5), 5);
}

/// A request was asked of another node, which refused it, and is to be run here; a pause holds it. All clients of the worker waited for that.
pub fn what_a_pause_holds_of_another_nodes_keeps_its_client_alone(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let (client, other) = (bench.connect(), bench.connect());
    // What is forwarded is let through by who knows its users.
    bench.clients.door().access.install(&News { whole: true, ..News::default() });
    bench.upstream = Upstream::new(true, 1 << 20);
    bench.upstream.ready(NodeId(1));
    bench.engine.elsewhere = Some(NodeId(1));
    bench.upstream.look(bench.now, standing(&bench.engine));
    assert!(bench.send(&client, b"GET 5\r\n"));
    bench.settle();
    assert_eq!(bench.upstream.drain().count(), 1);
    // The other one leads no more, and this one does.
    assert_eq!(bench.upstream.refused(NodeId(1), 0, Refusal::NotServing { ask: None }), None);
    bench.engine.elsewhere = None;
    bench.upstream.look(bench.now, standing(&bench.engine));
    bench.upstream.run_again(bench.now, &mut bench.engine, &|_: &Ask, _: &mut [u8]| Judged::Waits);
    assert!(bench.send(&client, b"GET 6\r\n") && bench.send(&other, b"GET 7\r\n"));
    assert_eq!(bench.receive(&other, 7), 7);
    bench.settle();
    assert_eq!(bench.engine.submitted.len(), 1, "its client waits");
    bench.now += 5 * SECOND;
    bench.upstream.look(bench.now, standing(&bench.engine));
    assert!(bench.upstream.take_refused().is_empty());
    bench.upstream.run_again(bench.now, &mut bench.engine, &|_: &Ask, _: &mut [u8]| Judged::May);
    assert_eq!(bench.engine.unreleased[0].0, pack(Owner::Client, 0, 0), "the first one first");
    assert_eq!(bench.receive(&client, 11), 11);
}

/// How many answers to `PING` have come.
fn answered(clients: &[TcpStream]) -> usize {
    let mut buffer = [0; 4096];
    clients.iter().map(|mut client| client.read(&mut buffer).unwrap_or(0) / "+PONG\r\n".len()).sum()
}
