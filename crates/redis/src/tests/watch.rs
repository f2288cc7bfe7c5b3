//! WATCH while its reply is under way. What it then decides: `golden/redis/watch.txt`.

use highwater_core::limits::MAX_REDIS_KEY_BYTES;
use highwater_core::{NodeId, Outcome};
use highwater_seam::Refusal;

use super::double::Node;
use crate::Allowance;

#[test]
fn nothing_behind_a_watch_is_taken_before_its_versions_are_released() {
    let node = Node::new();
    let mut client = node.client();
    client.start(&["SET a 1", "WATCH a", "MULTI", "INCR a", "EXEC", "PING"]);
    assert_eq!(client.held.len(), 2);
    client.release(0);
    assert_eq!(client.submit(), 0);
    assert_eq!(client.output(), "+OK\r\n");
    client.release(0);
    assert_eq!(client.submit(), 1);
    assert_eq!(client.output(), "+OK\r\n+OK\r\n+QUEUED\r\n");
    client.release(0);
    assert_eq!(client.output(), "*1\r\n:2\r\n+PONG\r\n");
}

#[test]
fn a_write_between_watch_and_its_release_counts() {
    let node = Node::new();
    let (mut client, mut other) = (node.client(), node.client());
    client.start(&["WATCH a", "MULTI", "INCR a", "EXEC"]);
    other.ask("SET a 5");
    client.release(0);
    client.submit();
    client.release(0);
    assert_eq!(client.output(), "+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n");
    assert_eq!(other.ask("GET a"), "$1\r\n5\r\n");
}

#[test]
fn a_watch_that_failed_lets_no_exec_through() {
    for outcome in [Outcome::Unknown, Outcome::Conflict] {
        let mut client = Node::new().client();
        client.start(&["WATCH a"]);
        client.lose(0, outcome);
        assert!(client.output().starts_with('-'));
        client.ask("MULTI");
        client.ask("SET a 1");
        assert_eq!(client.ask("EXEC"), "*-1\r\n");
        client.ask("MULTI");
        client.ask("SET a 1");
        assert_eq!(client.ask("EXEC"), "*1\r\n+OK\r\n");
    }
}

#[test]
fn a_watch_that_was_refused_lets_no_exec_through_until_it_is_forgotten() {
    let mut client = Node::new().client();
    let elsewhere = Refusal::NotServing { ask: Some(NodeId(1)) };
    assert!(client.ask_refused("WATCH a", elsewhere).starts_with("-NOTLEADER"));
    client.ask("UNWATCH");
    client.ask("MULTI");
    client.ask("SET a 1");
    assert_eq!(client.ask("EXEC"), "*1\r\n+OK\r\n");
    client.ask_refused("WATCH a", elsewhere);
    client.ask("MULTI");
    assert_eq!(client.ask("EXEC"), "*-1\r\n");
}

#[test]
fn a_busy_engine_gets_the_same_watch_again() {
    let mut client = Node::new().client();
    assert_eq!(client.ask("SET a 1"), "+OK\r\n");
    client.connection.receive(b"WATCH a\r\n");
    let seq = client.connection.next(&mut { Allowance::WHOLE }).unwrap().seq;
    client.connection.refused(seq, Refusal::Busy);
    assert_eq!(client.send(b"MULTI\r\nGET a\r\nEXEC\r\n"), "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n$1\r\n1\r\n");
}

#[test]
fn long_keys_cannot_be_watched() {
    let mut client = Node::new().client();
    let key = "k".repeat(MAX_REDIS_KEY_BYTES + 1);
    let command = super::double::multibulk([b"WATCH".as_slice(), key.as_bytes()].into_iter());
    assert_eq!(client.send(&command), "-ERR key exceeds maximum allowed size (65527 bytes)\r\n");
}
