//! Clients that ask for much and read nothing, and others beside them. No virtual time passes but where it is said: nobody is cut off.

use std::io::Write;
use std::net::TcpStream;

use super::bench::{Bench, RULES, gets, lines};
use crate::config::Io;
use crate::worker::clients::Rules;
use crate::worker::crowd::Limits;

const LIMIT: usize = 32 << 20;
const LONG: usize = 15_000_000;

/// So many that each ask for 50 long replies, and read nothing.
fn crowd(io: Io, count: usize, asks: &[u8]) -> (Bench, Vec<TcpStream>) {
    let limits = Limits { replies: LIMIT, ..RULES.limits };
    let mut bench = Bench::new(io, Rules { limits, ..RULES });
    let crowd: Vec<_> = (0..count).map(|_| bench.connect()).collect();
    for client in &crowd {
        assert!(bench.send(client, asks));
    }
    bench.settle();
    (bench, crowd)
}

/// Each new client waited until all before it were found out, two a second: a minute beside a hundred of them.
/// Once: clients that asked for 15 MB values fifty times each and read nothing held everybody's replies, `PING` of a new
/// client too, for half a second each: 40 of them 21 s, 100 53 s, while the worker did nothing (3 s of CPU). There was
/// room for two such replies, and all who were not known to read waited for it in line.
pub fn who_asks_for_little_waits_for_nobody_who_asks_for_much(io: Io) {
    let (mut bench, crowd) = crowd(io, 100, &gets(LONG, 50));
    let mut others = Vec::new();
    for _ in 0..10 {
        let fresh = bench.connect();
        (&fresh).write_all(b"PING\r\n").unwrap();
        (&fresh).write_all(&gets(100, 20)).unwrap();
        bench.settle();
        assert_eq!(bench.receive_now(&fresh), "+PONG\r\n".len() + 2000);
        others.push(fresh);
    }
    assert_eq!(bench.clients.count(), crowd.len() + others.len(), "nobody was cut off for it");
    assert!(bench.most_held <= LIMIT + LONG + LIMIT / 8, "{}", bench.most_held);
    // Nor did each of the crowd have its reply made twice for nothing, again and again.
    assert!(
        bench.engine.submitted.len() < 2 * crowd.len() + 10 * 20 + 20,
        "{}",
        bench.engine.submitted.len()
    );
}

/// A request behind one whose reply was not short comes behind it still.
pub fn who_asks_for_much_gets_it_in_order_once_there_is_room(io: Io) {
    let (mut bench, crowd) = crowd(io, 40, &[gets(LONG, 1), b"PING\r\n".to_vec(), gets(9, 1)].concat());
    // All of them read, one after the other. Each reply is bytes x but for that of PING.
    for client in &crowd {
        let mut wanted = vec![b'x'; LONG];
        wanted.extend_from_slice(b"+PONG\r\n");
        wanted.extend_from_slice(&[b'x'; 9]);
        assert_eq!(bench.read(client, wanted.len()), wanted);
    }
    assert!(bench.most_held <= LIMIT + LONG + LIMIT / 8, "{}", bench.most_held);
}

/// Sockets that are full, each with a short reply behind that.
pub fn short_replies_beyond_the_limit_are_bounded(io: Io) {
    let (mut bench, _crowd) = crowd(io, 300, &gets(16_000, 400));
    assert!(bench.most_held <= LIMIT + LIMIT / 8 + 16_000, "{}", bench.most_held);
    assert!(bench.clients.held().held >= LIMIT / 4, "their sockets are full");
    bench.wait(5);
    let fresh = bench.connect();
    assert!(bench.send(&fresh, &gets(10, 1)));
    assert_eq!(bench.receive(&fresh, 10), 10);
}

pub fn what_is_answered_here_and_may_be_long_waits_for_room(io: Io) {
    let (mut bench, crowd) = crowd(io, 20, &gets(LONG, 50));
    let (asks, pings) = (bench.connect(), bench.connect());
    let long = "x".repeat(100_000);
    (&asks).write_all(b"COMMAND LIST\r\n").unwrap();
    (&pings)
        .write_all(format!("ECHO {long}\r\n").replace("ECHO ", "*2\r\n$4\r\nECHO\r\n$100000\r\n").as_bytes())
        .unwrap();
    bench.settle();
    assert_eq!((bench.receive_now(&asks), bench.receive_now(&pings)), (0, 0));
    drop(crowd);
    assert!(lines(&mut bench, &asks, 10).starts_with('*'));
    assert_eq!(bench.receive(&pings, 100_011), 100_011);
}
