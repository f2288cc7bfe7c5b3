//! `CLIENT PAUSE` over real sockets: whatever a connection learns only from its first command it must not need to be heard. A pause that runs
//! out by itself left every later connection without an answer for ever, because such a connection took the time from its first command.

#![allow(clippy::unwrap_used, reason = "helpers may unwrap as tests do")]

mod trio;

use std::net::{Shutdown, SocketAddr};
use std::time::Instant;

use highwater_node::config::Io;
use trio::{Client, Reply, Trio, until};

/// The first questions of a connection, in each state that it may begin in.
const FIRST: [&[&str]; 7] = [
    &["PING"],
    &["HELLO", "3"],
    &["AUTH", "default", "anything"],
    &["CLIENT", "LIST"],
    &["CLIENT", "SETINFO", "LIB-NAME", "new"],
    &["GET", "absent"],
    &["SET", "k", "v"],
];

fn ok() -> Reply {
    Reply::Line("OK".into())
}

fn pong() -> Reply {
    Reply::Line("PONG".into())
}

fn cluster(io: Io, idle_timeout_s: u64) -> (Trio, SocketAddr) {
    let trio = Trio::start(|config| {
        config.server.io = io;
        config.limits.idle_timeout_s = idle_timeout_s;
    });
    let leader = trio.address(trio.roles().0);
    (trio, leader)
}

/// Starts a pause of all commands, and comes back when it has run out: its own next command waits for that.
fn pause_and_let_it_run_out(client: &mut Client, ms: &str, kind: &str) {
    assert_eq!(client.ask(&["CLIENT", "PAUSE", ms, kind]), ok());
    client.write(&["SET", "probe", "1"]);
    assert_eq!(client.read(), ok());
}

/// The answers to each first command, every one over a connection of its own, begun before any of them is read.
fn first_answers(address: SocketAddr) {
    let mut fresh: Vec<Client> = FIRST.iter().map(|_| Client::connect(address)).collect();
    for (client, words) in fresh.iter_mut().zip(FIRST) {
        client.write(words);
    }
    for (client, words) in fresh.iter_mut().zip(FIRST) {
        let reply = client.read();
        assert!(
            !matches!(&reply, Reply::Error(text) if !text.starts_with("WRONGPASS")),
            "{words:?}: {reply:?}"
        );
        assert_eq!(client.ask(&["PING"]), pong());
    }
}

/// Once: `CLIENT PAUSE` that ran out by itself: no connection that began afterwards was ever answered, while `/healthz`
/// said 200. A connection learned the time from its first command, and took the pause for one that lasts.
#[test]
fn who_connects_after_a_pause_has_run_out_is_answered() {
    for io in [Io::Epoll, Io::Auto] {
        let (_trio, leader) = cluster(io, 0);
        let mut old = Client::connect(leader);
        for (ms, kind) in [("1", "ALL"), ("30", "WRITE"), ("30", "ALL"), ("0", "ALL")] {
            pause_and_let_it_run_out(&mut old, ms, kind);
            first_answers(leader);
        }
    }
}

#[test]
fn who_comes_during_a_pause_is_answered_when_it_is_over() {
    for io in [Io::Epoll, Io::Auto] {
        let (_trio, leader) = cluster(io, 0);
        let mut old = Client::connect(leader);
        assert_eq!(old.ask(&["CLIENT", "PAUSE", "400"]), ok());
        first_answers(leader);
        // Also who closes its half behind its commands, which nobody has taken yet.
        assert_eq!(old.ask(&["CLIENT", "PAUSE", "300"]), ok());
        let mut half = Client::connect(leader);
        half.write(&["PING"]);
        half.write(&["SET", "half", "1"]);
        half.stream().shutdown(Shutdown::Write).unwrap();
        assert_eq!((half.read(), half.read()), (pong(), ok()));
    }
}

#[test]
fn a_pause_of_everything_leaves_nothing_behind_to_a_pause_of_writes() {
    let (_trio, leader) = cluster(Io::Epoll, 0);
    let (mut old, mut reader) = (Client::connect(leader), Client::connect(leader));
    pause_and_let_it_run_out(&mut old, "1", "ALL");
    assert_eq!(old.ask(&["CLIENT", "PAUSE", "3600000", "WRITE"]), ok());
    assert_eq!(reader.ask(&["EXISTS", "absent"]), Reply::Int(0), "this one holds no reads");
    assert_eq!(Client::connect(leader).ask(&["EXISTS", "absent"]), Reply::Int(0));
    assert_eq!(old.ask(&["CLIENT", "UNPAUSE"]), ok());
}

/// The longest there are as well; and who is held counts as such from when its command came.
#[test]
fn an_unpause_answers_all_who_wait_and_new_ones() {
    let (_trio, leader) = cluster(Io::Auto, 0);
    let mut old = Client::connect(leader);
    for ms in ["3600000", "9223372036854775807", "9223372036854775806"] {
        assert_eq!(old.ask(&["CLIENT", "PAUSE", ms, "WRITE"]), ok());
        let mut held: Vec<Client> = (0..20).map(|_| Client::connect(leader)).collect();
        held.iter_mut().for_each(|client| client.write(&["SET", "held", "1"]));
        until("all are held", || old.info("clients").contains("blocked_clients:20\r\n"));
        assert_eq!(old.ask(&["CLIENT", "UNPAUSE"]), ok());
        held.iter_mut().for_each(|client| assert_eq!(client.read(), ok()));
        first_answers(leader);
        until("nobody is held", || old.info("clients").contains("blocked_clients:0\r\n"));
    }
}

/// The idle timeout took clients whose commands a pause held for idle ones, and closed them without an answer.
#[test]
fn who_is_held_by_a_pause_is_not_idle() {
    let (_trio, leader) = cluster(Io::Epoll, 1);
    let mut old = Client::connect(leader);
    assert_eq!(old.ask(&["CLIENT", "PAUSE", "3500"]), ok());
    let mut held: Vec<Client> = [["PING"].as_slice(), &["GET", "k"], &["BLPOP", "absent", "0.01"]]
        .into_iter()
        .map(|words| {
            let mut client = Client::connect(leader);
            client.write(words);
            client
        })
        .collect();
    assert_eq!(held[0].read(), pong());
    assert_eq!(held[1].read(), Reply::Null);
    assert_eq!(held[2].read(), Reply::Null);
}

/// As in Redis: the time of a `BLPOP` that a pause holds is the time it waits for data, not for the pause.
#[test]
fn a_wait_for_data_begins_when_the_pause_is_over() {
    let (_trio, leader) = cluster(Io::Epoll, 0);
    let mut old = Client::connect(leader);
    let began = Instant::now();
    assert_eq!(old.ask(&["CLIENT", "PAUSE", "600", "WRITE"]), ok());
    let mut waits = Client::connect(leader);
    waits.write(&["BLPOP", "queue", "0.5"]);
    assert_eq!(waits.read(), Reply::Null);
    assert!(began.elapsed().as_millis() >= 1050, "{:?}", began.elapsed());
    // And one that stands in line already gives up in its time, pause or not.
    let began = Instant::now();
    waits.write(&["BLPOP", "queue", "0.2"]);
    until("it waits", || old.info("clients").contains("blocked_clients:1\r\n"));
    assert_eq!(old.ask(&["CLIENT", "PAUSE", "3600000", "WRITE"]), ok());
    assert_eq!(waits.read(), Reply::Null);
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    assert_eq!(old.ask(&["CLIENT", "UNPAUSE"]), ok());
}

/// A worker of the leader may hold requests of other nodes' clients, and have no client of its own that would be woken.
#[test]
fn a_pause_of_the_leader_holds_other_nodes_clients_until_it_is_over() {
    let trio = Trio::forwarding(|_| ());
    let (leader, [one, other]) = trio.roles();
    let mut at_leader = trio.client(leader);
    for round in 0..3 {
        assert_eq!(at_leader.ask(&["CLIENT", "PAUSE", "3600000", "WRITE"]), ok());
        let mut held: Vec<Client> = (0..8).map(|n| trio.client([one, other][n % 2])).collect();
        let before = trio.forwarded(one) + trio.forwarded(other);
        held.iter_mut().for_each(|client| client.write(&["INCR", "n"]));
        until("all are on their way", || trio.forwarded(one) + trio.forwarded(other) >= before + 8);
        assert_eq!(at_leader.ask(&["CLIENT", "UNPAUSE"]), ok());
        let mut told: Vec<Reply> = held.iter_mut().map(Client::read).collect();
        told.sort_by_key(|reply| if let Reply::Int(n) = reply { *n } else { panic!("{reply:?}") });
        assert_eq!(told, (1..=8).map(|n| Reply::Int(8 * round + n)).collect::<Vec<_>>());
        // One that runs out, too, at the leader and at the node where the client is.
        for id in [leader, one] {
            assert_eq!(trio.client(id).ask(&["CLIENT", "PAUSE", "30"]), ok());
            first_answers(trio.address(one));
            first_answers(trio.address(leader));
        }
        assert_eq!(at_leader.ask(&["GET", "n"]), Reply::Bulk((8 * (round + 1)).to_string().into_bytes()));
    }
}

/// Replicas read, before and after they have seen a lead; a pause of theirs is theirs alone.
#[test]
fn a_pause_of_a_follower_ends_for_its_readers() {
    let (trio, _) = cluster(Io::Auto, 0);
    let (leader, [one, _]) = trio.roles();
    let mut old = trio.client(one);
    assert_eq!(old.ask(&["READONLY"]), ok());
    assert_eq!(old.ask(&["CLIENT", "PAUSE", "200"]), ok());
    assert_eq!(trio.client(leader).ask(&["SET", "k", "v"]), ok(), "it pauses that node's clients only");
    let mut fresh = trio.client(one);
    fresh.write(&["READONLY"]);
    fresh.write(&["EXISTS", "absent"]);
    assert_eq!((fresh.read(), fresh.read()), (ok(), Reply::Int(0)));
    assert_eq!(old.ask(&["EXISTS", "absent"]), Reply::Int(0));
    let mut fresh = trio.client(one);
    assert_eq!((fresh.ask(&["READONLY"]), fresh.ask(&["EXISTS", "absent"])), (ok(), Reply::Int(0)));
}

/// Everything that `CLIENT LIST` and `CLIENT KILL` tell of a connection holds before it has said anything.
#[test]
fn a_connection_that_has_said_nothing_is_known() {
    let (_trio, leader) = cluster(Io::Auto, 0);
    let mut asks = Client::connect(leader);
    let silent = Client::connect(leader);
    let mut line = String::new();
    until("the silent one is there", || {
        let Reply::Bulk(list) = asks.ask(&["CLIENT", "LIST"]) else { return false };
        line = String::from_utf8(list)
            .unwrap()
            .lines()
            .find(|line| line.contains("cmd=NULL"))
            .unwrap_or("")
            .into();
        !line.is_empty()
    });
    for known in [" name= ", " user=default ", " resp=2 ", " laddr=127.0.0.1:", " multi=-1 "] {
        assert!(line.contains(known), "{known}: {line}");
    }
    let number = |name: &str| -> u64 {
        line.split(' ').find_map(|field| field.strip_prefix(name)).unwrap().parse().unwrap()
    };
    assert!(number("age=") < 600 && number("idle=") < 600, "{line}");
    assert_eq!(asks.ask(&["CLIENT", "KILL", "USER", "default"]), Reply::Int(1));
    drop(silent);
}
