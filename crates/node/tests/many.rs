//! A thousand connections that are idle and a hundred that work, on one node and on three.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod trio;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use highwater_node::uring::MEMORY;
use trio::{Client, Reply, Trio, WORKERS, until};

const IDLE: usize = 1000;
const BUSY: usize = 100;
const ROUNDS: i64 = 30;

/// Each takes thousands of descriptors: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connects, says something, and is silent from then on: it has had its buffers.
fn idle(trio: &Trio, id: usize) -> Client {
    let mut client = trio.client(id);
    assert_eq!(client.ask(&["PING"]), Reply::Line("PONG".into()));
    client
}

fn work(trio: &Trio, homes: &[usize]) {
    let held = || trio.held().iter().map(|held| held.requests + held.replies).sum::<u64>();
    // What a worker's ring receives into is there without clients, too.
    let on_rings = trio.client(homes[0]).info("server").contains("multiplexing_api:uring");
    let rings = if on_rings { (trio.held().len() * WORKERS * MEMORY) as u64 } else { 0 };
    let mut idles: Vec<Client> = (0..IDLE).map(|at| idle(trio, homes[at % homes.len()])).collect();
    // Who is silent for a second has no buffers.
    until("buffers of idle clients are given back", || held() < rings + (64 << 10));

    let mut busy: Vec<Client> = (0..BUSY).map(|at| trio.client(homes[at % homes.len()])).collect();
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        let began = Instant::now();
        for (at, client) in busy.iter_mut().enumerate() {
            client.send(
                format!("INCR own:{at}\r\nECHO {round}:{at}\r\nGET own:{at}\r\nINCR shared\r\n").as_bytes(),
            );
        }
        for (at, client) in busy.iter_mut().enumerate() {
            assert_eq!(client.read(), Reply::Int(round + 1));
            assert_eq!(client.read(), Reply::Bulk(format!("{round}:{at}").into_bytes()));
            assert_eq!(client.read(), Reply::Bulk((round + 1).to_string().into_bytes()));
            assert!(matches!(client.read(), Reply::Int(n) if n > 0 && n <= (round + 1) * BUSY as i64));
        }
        took.push(began.elapsed());
    }
    assert_eq!(busy[0].ask(&["GET", "shared"]), Reply::Bulk((ROUNDS * BUSY as i64).to_string().into_bytes()));
    took.sort();
    println!("a round of {} commands on {BUSY} connections takes {:?}", 4 * BUSY, took[took.len() / 2]);
    assert!(took[took.len() / 2] < Duration::from_secs(2), "{took:?}");

    // The idle ones are still there, each its own.
    for (at, client) in idles.iter_mut().enumerate() {
        let text = at.to_string();
        assert_eq!(client.ask(&["ECHO", &text]), Reply::Bulk(text.into_bytes()));
    }
}

#[test]
fn a_thousand_idle_and_a_hundred_busy_connections_at_one_node() {
    let _alone = alone();
    let trio = Trio::start(|_| ());
    work(&trio, &[trio.roles().0]);
}

#[test]
fn a_thousand_idle_and_a_hundred_busy_connections_at_three_nodes() {
    let _alone = alone();
    let trio = Trio::forwarding(|_| ());
    work(&trio, &[0, 1, 2]);
}

/// Beyond the limit whoever comes is told so, and who is there notices nothing.
#[test]
fn one_too_many_is_told_so() {
    let _alone = alone();
    let trio = Trio::start(|config| {
        config.cluster.workers = 1;
        config.limits.clients_per_worker = 50;
    });
    let (leader, _) = trio.roles();
    let mut clients: Vec<Client> = Vec::new();
    let refused = loop {
        let mut client = trio.client(leader);
        match client.try_ask(&["INCR", "n"]) {
            Some(Reply::Int(n)) => {
                clients.push(client);
                assert_eq!(n, clients.len() as i64);
            }
            told => break told,
        }
    };
    let words = "ERR max number of clients reached";
    assert!(refused.is_none_or(|told| told == Reply::Error(words.into())));
    assert_eq!(clients.len(), 50);
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&["INCR", "n"]), Reply::Int((51 + at) as i64));
    }
    // There is room again once one has gone.
    drop(clients.pop());
    until("room for another", || trio.client(leader).try_ask(&["PING"]) == Some(Reply::Line("PONG".into())));
}
