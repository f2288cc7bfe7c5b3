//! HW.BEGIN .. HW.COMMIT: what a client was told holds when it commits.

use highwater_core::Outcome;
use highwater_seam::Owner;
use highwater_seam::Refusal;

use super::double::{Client, Node, START_MS};
use super::sessions::Alone;
use crate::interactive::{MAX_STEPS, Open, Stepped};
use crate::moment::Moment;
use crate::reply::Protocol;
use crate::{keyspace, single};

const OK: &str = "+OK\r\n";

fn two() -> (Node, Client, Client) {
    let node = Node::new();
    let (one, other) = (node.client_of(7), node.client_of(8));
    (node, one, other)
}

#[test]
fn commands_are_answered_one_by_one_and_done_together() {
    let (_, mut one, mut other) = two();
    assert_eq!(one.ask("SET alice 100"), OK);
    assert_eq!(one.ask("HW.BEGIN"), OK);
    assert_eq!(one.ask("GET alice"), "$3\r\n100\r\n");
    assert_eq!(one.ask("DECRBY alice 30"), ":70\r\n");
    assert_eq!(one.ask("GET alice"), "$2\r\n70\r\n", "it sees what it did");
    assert_eq!(one.ask("INCRBY bob 30"), ":30\r\n");
    assert_eq!(other.ask("MGET alice bob"), "*2\r\n$3\r\n100\r\n$-1\r\n", "nobody else does");
    assert_eq!(one.ask("HW.COMMIT"), OK);
    assert_eq!(other.ask("MGET alice bob"), "*2\r\n$2\r\n70\r\n$2\r\n30\r\n");
    assert!(one.ask("HW.COMMIT").starts_with("-ERR no transaction is open"));
}

#[test]
fn a_rollback_does_nothing() {
    let (_, mut one, mut other) = two();
    one.ask("HW.BEGIN");
    assert_eq!(one.ask("SET key value"), OK);
    assert_eq!(one.ask("HW.ROLLBACK"), OK);
    assert_eq!(other.ask("GET key"), "$-1\r\n");
    assert_eq!(one.ask("SET key value"), OK);
    assert_eq!(other.ask("GET key"), "$5\r\nvalue\r\n");
}

/// Two clients read, both compute, both write: one of them has to begin again.
#[test]
fn no_update_is_lost() {
    let (_, mut one, mut other) = two();
    one.ask("SET count 1");
    for client in [&mut one, &mut other] {
        assert_eq!(client.ask("HW.BEGIN"), OK);
        assert_eq!(client.ask("GET count"), "$1\r\n1\r\n");
        assert_eq!(client.ask("SET count 2"), OK);
    }
    assert_eq!(one.ask("HW.COMMIT"), OK);
    assert!(other.ask("HW.COMMIT").starts_with("-CONFLICT "));
    assert_eq!(other.ask("GET count"), "$1\r\n2\r\n", "it is out of its transaction");
}

/// The mistake that the pieces of evidence are there to catch: a commit whose replies are not compared loses the update.
#[test]
fn unchecked_replies_would_lose_it() {
    let (node, mut one, mut other) = two();
    one.ask("SET count 1");
    let procedure = crate::Procedures::find(&node.procedures()).unwrap().interact;
    let moment = Moment { unix_ms: START_MS, seed: 3 };
    let command = |open: &mut Open, words: &[&str]| {
        let line = super::double::multibulk(words.iter().map(|word| word.as_bytes()));
        let mut parser = crate::frame::Parser::default();
        let mut request = Vec::new();
        single::encode(parser.parse(&line).unwrap().unwrap(), (Protocol::Resp2, Owner::NOBODY), &mut request)
            .unwrap();
        let mut args = Vec::new();
        open.next(single::step(&request), words.len(), &mut args).unwrap();
        let (outcome, reply) = node.run(procedure, &args);
        assert_eq!(outcome, Outcome::RolledBack);
        matches!(open.stepped(&reply), Stepped::Answered(_))
    };
    let mut honest = Open::new(moment, Protocol::Resp2, 0, 5000);
    assert!(command(&mut honest, &["GET", "count"]) && command(&mut honest, &["SET", "count", "2"]));
    assert_eq!(other.ask("SET count 5"), OK);
    // As if the replies were taken for what they are now, whatever the client decided by.
    let mut careless = Open::new(moment, Protocol::Resp2, 0, 5000);
    assert!(command(&mut careless, &["GET", "count"]) && command(&mut careless, &["SET", "count", "2"]));
    let mut args = Vec::new();
    honest.commit(&mut args);
    let (outcome, reply) = node.run(procedure, &args);
    assert_eq!(outcome, Outcome::RolledBack);
    assert!(reply.starts_with(b"-CONFLICT "));
    assert_eq!(other.ask("GET count"), "$1\r\n5\r\n");
    careless.commit(&mut args);
    assert_eq!(node.run(procedure, &args).0, Outcome::Committed);
    assert_eq!(other.ask("GET count"), "$1\r\n2\r\n", "5 is lost");
}

#[test]
fn a_step_after_a_change_ends_it_and_nothing_runs_outside_until_it_is_ended() {
    let (_, mut one, mut other) = two();
    one.ask("HW.BEGIN");
    let long = "v".repeat(100);
    other.ask(&format!("SET long {long}"));
    assert!(one.ask("GET long").ends_with(&format!("{long}\r\n")));
    other.ask(&format!("SET long {}w", &long[1..]));
    assert!(one.ask("SET key 1").starts_with("-CONFLICT "));
    assert!(one.ask("SET key 2").starts_with("-TXOVER "));
    assert!(one.ask("PING").starts_with("-TXOVER "));
    assert!(one.ask("HW.COMMIT").starts_with("-TXOVER "));
    assert_eq!(one.ask("EXISTS key"), ":0\r\n");
}

#[test]
fn ranges_and_absences_are_read_too() {
    let (_, mut one, mut other) = two();
    other.ask("RPUSH list a b");
    for (read, change) in
        [("LRANGE list 0 -1", "RPUSH list c"), ("EXISTS none", "SET none 1"), ("DBSIZE", "SET more 1")]
    {
        one.ask("HW.BEGIN");
        one.ask(read);
        one.ask("SET mine 1");
        other.ask(change);
        assert!(one.ask("HW.COMMIT").starts_with("-CONFLICT "), "{read}");
    }
    assert_eq!(one.ask("EXISTS mine"), ":0\r\n");
}

#[test]
fn errors_are_answers_and_chance_stands_still() {
    let (_, mut one, mut other) = two();
    other.ask("SADD set a b c d e f g h");
    other.ask("SET text x");
    one.ask("HW.BEGIN");
    assert!(one.ask("INCR text").starts_with("-ERR value is not an integer"));
    assert!(one.ask("GET").starts_with("-ERR wrong number of arguments"), "that is no command yet");
    let popped = one.ask("SPOP set");
    one.ask("SET text y");
    assert_eq!(one.ask("HW.COMMIT"), OK);
    let gone = popped.split("\r\n").nth(1).unwrap();
    assert_eq!(other.ask(&format!("SISMEMBER set {gone}")), ":0\r\n", "what was told to be popped was");
    assert_eq!(other.ask("SCARD set"), ":7\r\n");
}

#[test]
fn it_lasts_as_long_as_it_says() {
    let (_, mut one, _) = two();
    for wrong in [
        "HW.BEGIN TIMEOUT 0",
        "HW.BEGIN TIMEOUT 60001",
        "HW.BEGIN TIMEOUT x",
        "HW.BEGIN TIMEOUT",
        "HW.BEGIN 5",
    ] {
        assert!(one.ask(wrong).starts_with("-ERR "), "{wrong}");
    }
    for (begin, ms) in [("HW.BEGIN", 5000), ("hw.begin timeout 60000", 60_000)] {
        one.connection.tell_time(START_MS);
        assert_eq!(one.ask(begin), OK);
        one.connection.tell_time(START_MS + ms);
        assert_eq!(one.ask("SET key 1"), OK);
        one.connection.tell_time(START_MS + ms + 1);
        assert!(one.ask("HW.COMMIT").starts_with("-TXTIMEOUT "));
        assert_eq!(one.ask("EXISTS key"), ":0\r\n");
        one.connection.tell_time(START_MS);
        one.ask(begin);
        one.connection.tell_time(START_MS + ms + 1);
        assert!(one.ask("SET key 1").starts_with("-TXTIMEOUT "));
        assert!(one.ask("SET key 1").starts_with("-TXOVER "));
        assert_eq!(one.ask("HW.ROLLBACK"), OK);
    }
    assert_eq!(one.ask("EXISTS key"), ":0\r\n");
}

#[test]
fn it_has_so_many_commands_and_goes_on_without_more() {
    let (_, mut one, mut other) = two();
    one.ask("HW.BEGIN");
    for n in 1..=MAX_STEPS {
        assert_eq!(one.ask("INCR count"), format!(":{n}\r\n"));
    }
    assert!(one.ask("INCR count").starts_with("-ERR transaction too long"));
    assert_eq!(one.ask("HW.COMMIT"), OK);
    assert_eq!(other.ask("GET count"), format!("$3\r\n{MAX_STEPS}\r\n"));
}

#[test]
fn what_is_no_part_of_it_is_refused() {
    let (_, mut one, _) = two();
    assert_eq!(one.ask("HW.BEGIN"), OK);
    for command in [
        "MULTI",
        "EXEC",
        "WATCH key",
        "UNWATCH",
        "HELLO 3",
        "HW.BEGIN",
        "HW.TOKEN",
        "HW.SESSION NEW",
        "HW.ONCE 1 1 GET key",
    ] {
        assert!(one.ask(command).starts_with("-ERR "), "{command}");
    }
    assert_eq!(one.ask("PING"), "+PONG\r\n");
    assert_eq!(one.ask("BLPOP list 0"), "*-1\r\n", "as in MULTI: it does not wait");
    assert_eq!(one.ask("HW.COMMIT"), OK);
    one.ask("MULTI");
    assert!(one.ask("HW.BEGIN").starts_with("-ERR "));
    one.ask("DISCARD");
    one.ask("HW.BEGIN");
    one.ask("SET key 1");
    assert_eq!(one.ask("RESET"), "+RESET\r\n");
    assert_eq!(one.ask("GET key"), "$-1\r\n");
}

#[test]
fn pipelines_are_answered_in_order() {
    let (node, mut one, _) = two();
    one.start(&["HW.BEGIN", "SET key 1", "GET key", "PING", "HW.COMMIT", "GET key"]);
    assert_eq!(one.held.len(), 1, "each waits for the one before");
    one.release_all();
    assert_eq!(one.go_on(), format!("{OK}{OK}$1\r\n1\r\n+PONG\r\n{OK}$1\r\n1\r\n"));
    assert_eq!(node.rows(keyspace::KEYSPACE), 1);
}

#[test]
fn who_does_not_serve_begins_nothing() {
    let (_, mut one, _) = two();
    let nobody = Refusal::NotServing { ask: None };
    assert!(one.ask_refused("HW.BEGIN", nobody).starts_with("-NOTLEADER "));
    assert_eq!(one.ask("SET key 1"), OK, "none is open");
    assert_eq!(one.ask("HW.BEGIN"), OK);
    assert!(one.ask_refused("SET key 2", nobody).starts_with("-NOTLEADER "));
    assert!(one.ask("SET key 3").starts_with("-TXOVER "));
    assert_eq!(one.ask("HW.ROLLBACK"), OK);
    one.ask("HW.BEGIN");
    one.start(&["SET key 4"]);
    one.lose(0, Outcome::Unknown);
    assert!(one.output().starts_with("-UNKNOWN "));
    assert!(one.ask("HW.COMMIT").starts_with("-TXOVER "));
    assert_eq!(one.ask("GET key"), "$1\r\n1\r\n");
}

#[test]
fn a_commit_under_a_session_can_be_asked_for() {
    let mut alone = Alone::new();
    let session = alone.open();
    let (mut one, mut other) = (alone.connect(), alone.connect());
    let commit = format!("HW.ONCE {session} 1 HW.COMMIT");
    let outcome = format!("HW.OUTCOME {session} 1");
    assert_eq!(alone.ask(&mut one, &["HW.BEGIN", "INCR count", &commit]), "+OK :1 +OK");
    assert_eq!(alone.ask(&mut other, &[&outcome]), "*2 $9 committed +OK");
    assert!(alone.ask(&mut one, &[&commit]).starts_with("-ERR no transaction is open"));
    assert!(alone.ask(&mut one, &["HW.BEGIN", "INCR count", &commit]).contains(":2 -REUSED "));
    let commit = format!("HW.ONCE {session} 2 HW.COMMIT");
    alone.ask(&mut one, &["HW.BEGIN", "GET count"]);
    alone.ask(&mut other, &["INCR count"]);
    assert!(alone.ask(&mut one, &[&commit]).starts_with("-CONFLICT "));
    assert!(
        alone
            .ask(&mut other, &[&format!("HW.OUTCOME {session} 2")])
            .starts_with("*2 $10 rolledback -CONFLICT ")
    );
    assert_eq!(alone.ask(&mut other, &["GET count"]), "$1 2");
}
