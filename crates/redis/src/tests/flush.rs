//! FLUSHALL and FLUSHDB: as one transaction, and in steps.

use highwater_core::Outcome;
use highwater_seam::Refusal;

use super::double::{Client, Node};
use crate::keyspace::{DUE, ELEMENTS, ITEMS, KEYSPACE, NAMES};
use crate::request::Framing;

const GONE_ON: &str = "PARTLY some of the keys are removed, and others are not: ";

fn filled(keys: usize) -> (Node, Client) {
    let node = Node::new();
    let mut client = node.client();
    for n in 0..keys {
        assert_eq!(client.ask(&format!("SET key:{n} {n}")), "+OK\r\n");
    }
    (node, client)
}

/// Has the engine take what there is, and ends it so, with nothing done; how many requests it took.
fn end(client: &mut Client, outcome: Outcome) -> usize {
    let before = client.node.map.borrow().clone();
    let taken = client.submit();
    *client.node.map.borrow_mut() = before;
    for held in std::mem::take(&mut client.held) {
        client.connection.released(held.seq, outcome, held.at, &held.reply);
    }
    taken
}

#[test]
fn any_number_of_keys_goes_in_steps_and_what_was_behind_it_waits() {
    let (node, mut client) = filled(2000);
    client.ask("PEXPIRE key:7 100000");
    client.ask(&format!("RPUSH list {}", "item ".repeat(200)));
    client.ask(&format!("SADD set {}", (0..100).map(|n| format!("{n} ")).collect::<String>()));
    client.start(&["FLUSHALL ASYNC", "SET after 1", "DBSIZE"]);
    let mut steps = 0;
    while client.held.len() == 1 {
        steps += 1;
        assert!(node.rows(NAMES) <= 2002_usize.saturating_sub(500 * steps), "{steps} steps are done");
        assert_eq!(client.output(), "");
        client.release_all();
        client.submit();
    }
    assert_eq!(steps, 4);
    client.release_all();
    assert_eq!(client.output(), "+OK\r\n+OK\r\n:1\r\n");
    // What collections had is the sweep's.
    assert_eq!((node.rows(KEYSPACE), node.rows(NAMES), node.rows(DUE)), (1, 1, 2));
    assert!(node.rows(ELEMENTS) == 100 && node.rows(ITEMS) > 0);
}

#[test]
fn keys_that_others_write_meanwhile_may_stay_and_the_command_still_ends() {
    let (node, mut client) = filled(1100);
    let mut other = node.client_of(8);
    client.start(&["FLUSHDB async"]);
    let mut written = 0;
    while !client.held.is_empty() {
        for _ in 0..400 {
            other.ask(&format!("SET other:{written} 1"));
            written += 1;
        }
        client.release_all();
        client.submit();
        assert!(written < 10_000, "it does not run after others");
    }
    assert_eq!(client.output(), "+OK\r\n");
    for n in 0..1100 {
        assert_eq!(other.ask(&format!("EXISTS key:{n}")), ":0\r\n");
    }
    assert!(other.ask("DBSIZE") != ":0\r\n");
}

#[test]
fn long_values_go_a_few_at_a_time_and_the_longest_alone() {
    let node = Node::new();
    let mut client = node.client();
    for n in 0..8 {
        client.ask(&format!("SETRANGE long:{n} {} x", (3 << 20) - 1));
    }
    client.start(&["FLUSHALL ASYNC"]);
    let mut steps = 0;
    while !client.held.is_empty() {
        steps += 1;
        client.release_all();
        client.submit();
    }
    assert_eq!((steps, client.output().as_str(), node.rows(KEYSPACE)), (8, "+OK\r\n", 0));
}

#[test]
fn a_step_that_meets_conflicts_is_made_smaller_and_given_up_at_last() {
    let (node, mut client) = filled(1000);
    client.start(&["FLUSHALL ASYNC"]);
    client.release_all();
    let left = node.rows(NAMES);
    assert!((400..600).contains(&left), "{left}");
    // Of 512 keys, 256, .. 1, and 16 more.
    let tries: usize = (0..100).map(|_| end(&mut client, Outcome::Conflict)).sum();
    assert_eq!((tries, node.rows(NAMES)), (26, left));
    let why = "others change them again and again. FLUSHALL ASYNC again goes on";
    assert_eq!(client.output(), format!("-{GONE_ON}{why}\r\n"));
    assert_eq!(client.ask("FLUSHALL ASYNC"), "+OK\r\n");
    assert_eq!(node.rows(NAMES), 0);
}

#[test]
fn what_ends_a_step_is_told_as_such_only_if_nothing_was_done_before() {
    let told = [
        (Outcome::Conflict, "-CONFLICT"),
        (Outcome::TooLarge, "-ERR too large"),
        (Outcome::OutOfMemory, "-OOM"),
        (Outcome::DiskFull, "-DISKFULL"),
        (Outcome::Unknown, "-UNKNOWN"),
    ];
    for (outcome, word) in told {
        let (_, mut client) = filled(600);
        client.connection.receive(b"FLUSHALL ASYNC\r\n");
        while end(&mut client, outcome) > 0 {}
        assert!(client.output().starts_with(word), "{outcome:?}");
        client.start(&["FLUSHALL ASYNC"]);
        client.release_all();
        while end(&mut client, outcome) > 0 {}
        assert!(client.output().starts_with("-PARTLY "), "{outcome:?}");
        assert_eq!(client.ask("PING"), "+PONG\r\n");
    }
}

#[test]
fn a_refused_step_says_that_others_were_done() {
    let (node, mut client) = filled(600);
    client.start(&["FLUSHALL ASYNC"]);
    client.release_all();
    let seq = client.connection.next(&mut { crate::Allowance::WHOLE }).unwrap().seq;
    client.connection.refused(seq, Refusal::Busy);
    assert_eq!(client.connection.next(&mut { crate::Allowance::WHOLE }).unwrap().seq, seq);
    client.connection.refused(seq, Refusal::NotServing { ask: None });
    let why = "this node does not serve any more. FLUSHALL ASYNC again goes on";
    assert_eq!(client.output(), format!("-{GONE_ON}{why}\r\n"));
    assert!(node.rows(NAMES) > 0);
    client.start(&["FLUSHALL ASYNC"]);
    client.release_all();
    assert_eq!(client.output(), "+OK\r\n");
}

#[test]
fn one_transaction_that_is_too_large_names_the_way_out() {
    for command in ["FLUSHALL", "FLUSHDB SYNC"] {
        let (node, mut client) = filled(3);
        client.connection.receive(format!("{command}\r\n").as_bytes());
        let before = node.map.borrow().clone();
        client.submit();
        *node.map.borrow_mut() = before;
        let held = client.held.pop_front().unwrap();
        client.connection.released(held.seq, Outcome::TooLarge, held.at, b"the limits");
        let reply = client.output();
        assert!(reply.starts_with("-TOOLARGE ") && reply.contains("FLUSHALL ASYNC"), "{reply}");
        assert_eq!(client.ask("DBSIZE"), ":3\r\n");
    }
}

#[test]
fn in_a_block_a_script_or_under_a_session_it_is_one_transaction() {
    let (node, mut client) = filled(1500);
    let mut all = |commands: &[&str]| {
        for n in 0..1500 {
            client.ask(&format!("SET key:{n} 1"));
        }
        let before = node.map.borrow().clone();
        client.start(commands);
        assert_eq!(client.held.len(), 1, "{commands:?}");
        assert_eq!(node.rows(NAMES), 0);
        client.release_all();
        assert!(client.output().contains("OK"));
        *node.map.borrow_mut() = before;
    };
    all(&["MULTI", "FLUSHALL ASYNC", "EXEC"]);
    all(&["EVAL \"return redis.call('flushall', 'async')\" 0"]);
    all(&["FLUSHALL"]);
    all(&["HW.ONCE 9 1 FLUSHALL ASYNC"]);
}

#[test]
fn a_setting_has_plain_commands_go_in_steps() {
    let (node, mut client) = filled(600);
    assert_eq!(client.ask("CONFIG SET lazyfree-lazy-user-flush yes"), "+OK\r\n");
    client.start(&["FLUSHALL"]);
    assert!(node.rows(NAMES) > 0, "one step");
    client.release_all();
    client.go_on();
    assert_eq!(node.rows(NAMES), 0);
    for n in 0..600 {
        client.ask(&format!("SET key:{n} 1"));
    }
    client.start(&["FLUSHALL SYNC"]);
    assert_eq!(node.rows(NAMES), 0);
}

#[test]
fn nobody_can_type_a_step() {
    let (node, mut client) = filled(3);
    for words in ["FLUSHALL ASYNC 0 512", "FLUSHDB ASYNC 0", "FLUSHALL 0 512"] {
        assert_eq!(client.ask(words), "-ERR syntax error\r\n");
        client.ask("MULTI");
        client.ask(words);
        assert!(client.ask("EXEC").contains("ERR syntax error"));
    }
    assert_eq!(node.rows(NAMES), 3);
}

/// A leader of an older build takes the two words more for a mistake.
#[test]
fn a_leader_that_knows_no_steps_is_asked_for_all_at_once() {
    let (node, mut client) = filled(600);
    client.connection.receive(b"FLUSHALL ASYNC\r\n");
    let before = node.map.borrow().clone();
    client.submit();
    *node.map.borrow_mut() = before;
    let held = client.held.pop_front().unwrap();
    client.connection.released(held.seq, Outcome::Committed, held.at, b"-ERR syntax error\r\n");
    let request = client.connection.next(&mut { crate::Allowance::WHOLE }).unwrap();
    assert!(!Framing::is_block(request.args[16]));
    client.submit();
    assert_eq!(node.rows(NAMES), 0);
    client.release_all();
    assert_eq!(client.output(), "+OK\r\n");
}
