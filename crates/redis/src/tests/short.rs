//! Requests that are done only if their replies are short.

use highwater_core::{Outcome, Timestamp};
use highwater_seam::{Refusal, Taken};

use super::double::{Client, Node, multibulk, wire};
use crate::connection::Allowance;

const SHORT: Allowance = Allowance { work: i64::MAX, max_held: 1, short: true };

/// As a host that has room for short replies alone: one step, released at once. Whether there was any.
fn step(client: &mut Client) -> bool {
    let Some(request) = client.connection.next(&mut { SHORT }) else { return false };
    let seq = request.seq;
    let (outcome, reply) = client.node.run(request.procedure, request.args);
    client.connection.submitted(seq, reply.len(), Taken::Placed);
    assert!(client.connection.next(&mut { SHORT }).is_none(), "it is the only one");
    client.connection.released(seq, outcome, Timestamp::ZERO, &reply);
    true
}

fn client_with_long_values() -> Client {
    let mut client = Node::new().client();
    let long = vec![b'v'; 20_000];
    assert_eq!(client.send(&multibulk([&b"SET"[..], b"long", &long].into_iter())), "+OK\r\n");
    let items = [&b"RPUSH"[..], b"list"].into_iter().chain([&long[..1000]; 20]);
    client.send(&multibulk(items.collect::<Vec<_>>().into_iter()));
    client
}

#[test]
fn what_is_short_is_answered_and_what_is_not_waits_and_those_behind_it_too() {
    for asks in ["GET long", "LRANGE list 0 -1", "EVAL \"return redis.call('GET', 'long')\" 0", "MGET a long"]
    {
        let mut client = client_with_long_values();
        for command in ["SET a 1", asks, "SET a 2"] {
            client.connection.receive(&wire(command));
        }
        assert!(step(&mut client) && !client.connection.needs_room());
        assert_eq!(client.output(), "+OK\r\n");
        assert!(step(&mut client), "{asks}: it shows when it is done");
        assert!(client.connection.needs_room() && client.connection.has_more(), "{asks}");
        assert!(!step(&mut client), "{asks}: it is not tried again and again");
        assert_eq!((client.output(), client.connection.held_bytes()), (String::new(), 0));
        assert_eq!(client.node.client().ask("GET a"), "$1\r\n1\r\n", "what is behind it is not done");
        let rest = client.go_on();
        assert!(rest.len() > 20_000 && rest.ends_with("vvv\r\n+OK\r\n"), "{asks}: {}", rest.len());
        assert!(!client.connection.needs_room());
    }
}

/// All of a block is undone, and done once in the end.
#[test]
fn a_block_whose_replies_are_not_short_changes_nothing_until_it_is_done() {
    let mut client = client_with_long_values();
    for command in ["MULTI", "INCR n", "GET long", "EXEC"] {
        client.connection.receive(&wire(command));
    }
    while step(&mut client) || !client.output().is_empty() {}
    assert!(client.connection.needs_room());
    assert_eq!(client.node.client().ask("GET n"), "$-1\r\n");
    let reply = client.go_on();
    assert!(reply.starts_with("*2\r\n:1\r\n$20000\r\n"), "{}", &reply[..40]);
}

#[test]
fn requests_whose_replies_are_of_any_length_wait_for_room_and_watches_do_not() {
    for asks in ["BLPOP list 1", "KEYS *", "DBSIZE"] {
        let mut client = client_with_long_values();
        client.connection.receive(&wire(asks));
        assert!(!step(&mut client) && client.connection.needs_room(), "{asks}");
        assert!(!client.go_on().is_empty(), "{asks}");
    }
    for asks in ["WATCH a b", "FLUSHALL", "SCAN 0", "SET x 1", "EVAL \"return 1\" 0"] {
        let mut client = client_with_long_values();
        client.connection.receive(&wire(asks));
        while step(&mut client) {}
        assert!(!client.output().is_empty() && !client.connection.needs_room(), "{asks}");
    }
}

/// Any other outcome is its end.
#[test]
fn an_end_without_a_reply_is_no_sign_of_a_long_one() {
    for outcome in [Outcome::Conflict, Outcome::Unknown, Outcome::OutOfMemory, Outcome::DiskFull] {
        let mut client = client_with_long_values();
        client.connection.receive(&wire("SET a 1"));
        let seq = client.connection.next(&mut { SHORT }).unwrap().seq;
        client.connection.submitted(seq, 0, Taken::Placed);
        client.connection.released(seq, outcome, Timestamp::ZERO, &[]);
        assert!(client.output().starts_with('-') && !client.connection.needs_room());
    }
}

/// A request that waits on offer is run at the moment at which it is submitted: it had the time at which it was taken from the input, so that
/// behind a pause of a minute a key was seen alive that had expired for everybody else.
#[test]
fn what_waited_on_offer_is_run_at_the_time_at_which_it_is_submitted() {
    let mut client = Node::new().client();
    client.connection.tell_time(1000);
    client.ask("SET a 1 PXAT 2000");
    client.connection.receive(&wire("GET a"));
    let seq = client.connection.next(&mut { Allowance::WHOLE }).unwrap().seq;
    client.connection.refused(seq, Refusal::Busy);
    client.connection.tell_time(3000);
    assert_eq!(client.go_on(), "$-1\r\n");
}
