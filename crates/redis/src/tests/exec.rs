//! The procedures, called as an embedded caller would; and the limits.

use highwater_core::limits::MAX_REDIS_KEY_BYTES;
use highwater_core::{Outcome, ProcedureId};
use proptest::prelude::*;

use super::double::{Client, Node, multibulk};
use crate::command::Opcode;
use crate::moment::Moment;
use crate::request::Step;

const EXEC: ProcedureId = ProcedureId(0);
const WATCH: ProcedureId = ProcedureId(1);

/// Arguments behind a moment.
fn at_some_time(args: &[u8]) -> Vec<u8> {
    [&Moment { unix_ms: 1, seed: 2 }.bytes()[..], args].concat()
}

fn ask(client: &mut Client, words: &[&[u8]]) -> String {
    client.send(&multibulk(words.iter().copied()))
}

/// A command that is refused while others are queued ends the block: what stands behind it was meant to follow it.
#[test]
fn what_may_not_be_queued_ends_the_block() {
    let mut client = Node::new().client();
    for refused in ["SUBSCRIBE +switch-master", "PSUBSCRIBE *", "HELLO 3", "BLPOP none"] {
        client.ask("MULTI");
        assert!(client.ask(refused).starts_with('-'), "{refused}");
        client.ask("SET k v");
        assert!(client.ask("EXEC").starts_with("-EXECABORT"), "{refused}");
    }
    assert_eq!(client.ask("EXISTS k"), ":0\r\n");
}

#[test]
fn arguments_that_make_no_sense_are_told_so() {
    let node = Node::new();
    for args in [&[][..], &[4], &[0, 1], &[0, 0, 1], &[0, 0, 1, 0xfe, 0], &[0, 0, 1, 0, 1, 5, b'a']] {
        let (outcome, reply) = node.run(EXEC, &at_some_time(args));
        assert_eq!((outcome, reply.as_slice()), (Outcome::BadRequest, &b"-ERR malformed arguments\r\n"[..]));
    }
    assert_eq!(node.run(EXEC, &[0, 0, 0]).0, Outcome::BadRequest);
    assert_eq!(node.run(WATCH, &at_some_time(&[2, 1, b'a'])).0, Outcome::BadRequest);
}

#[test]
fn an_embedded_caller_is_checked_like_a_client() {
    let mut args = at_some_time(&[0, 0, 1]);
    let get = Opcode::find(b"get").unwrap();
    Step::encode_command(get, [].into_iter(), &mut args);
    let (outcome, reply) = Node::new().run(EXEC, &args);
    assert_eq!(outcome, Outcome::Committed);
    assert_eq!(reply, b"-ERR wrong number of arguments for 'get' command\r\n");
    let mut args = at_some_time(&[0, 0, 1]);
    Step::encode_command(Opcode::find(b"ping").unwrap(), [].into_iter(), &mut args);
    assert_eq!(Node::new().run(EXEC, &args).0, Outcome::BadRequest);
}

/// Once: since lists are packed an item of exactly 16 MiB was refused with a text that says it may be that long: its row
/// has its length, too.
#[test]
fn long_keys_and_values_change_nothing() {
    let mut client = Node::new().client();
    let key = vec![b'k'; MAX_REDIS_KEY_BYTES + 1];
    let long_key = "-ERR key exceeds maximum allowed size (65527 bytes)\r\n";
    assert_eq!(ask(&mut client, &[b"GET", &key]), long_key);
    assert_eq!(ask(&mut client, &[b"MSET", b"a", b"1", &key, b"2"]), long_key);
    assert_eq!(ask(&mut client, &[b"DEL", b"a", &key]), long_key);
    assert_eq!(ask(&mut client, &[b"EXISTS", b"a"]), ":0\r\n");
    assert_eq!(ask(&mut client, &[b"SET", b"a", &key]), "+OK\r\n");
    assert_eq!(ask(&mut client, &[b"SET", &key[1..], b"a"]), "+OK\r\n");

    let value = vec![b'v'; 16 << 20];
    assert_eq!(ask(&mut client, &[b"SET", b"v", &value]), "+OK\r\n");
    let long_value = "-ERR string exceeds maximum allowed size (16777216 bytes)\r\n";
    assert_eq!(ask(&mut client, &[b"APPEND", b"v", b"x"]), long_value);
    assert_eq!(ask(&mut client, &[b"STRLEN", b"v"]), ":16777216\r\n");

    // In a row of a list stands each item's length, too.
    let long_item = "-ERR item exceeds maximum allowed size (16777212 bytes)\r\n";
    assert_eq!(ask(&mut client, &[b"RPUSH", b"l", b"first", &value[3..]]), long_item);
    assert_eq!(ask(&mut client, &[b"EXISTS", b"l"]), ":0\r\n");
    assert_eq!(ask(&mut client, &[b"RPUSH", b"l", b"first", &value[4..]]), ":2\r\n");
    assert_eq!(ask(&mut client, &[b"LSET", b"l", b"0", &value[3..]]), long_item);
    assert_eq!(ask(&mut client, &[b"LINSERT", b"l", b"BEFORE", b"first", &value[3..]]), long_item);
    assert_eq!(ask(&mut client, &[b"LLEN", b"l"]), ":2\r\n");
    assert_eq!(ask(&mut client, &[b"LINDEX", b"l", b"1"]).len(), "$16777212\r\n\r\n".len() + 16_777_212);
}

#[test]
fn a_command_that_answers_too_much_does_nothing() {
    let mut client = Node::new().client();
    ask(&mut client, &[b"SET", b"v", &vec![b'v'; 15 << 20]]);
    let many = ask(&mut client, &[b"MGET", b"v", b"v", b"v", b"v", b"v"]);
    assert_eq!(many, "-ERR too large: the limits; nothing was done\r\n");
    // What a transaction may write and replace is the engine's to say (`sim/tests/limits.rs`); nothing was done either way.
    assert_eq!(client.ask("STRLEN v"), ":15728640\r\n");
}

#[test]
fn a_transaction_that_queues_too_much_is_refused() {
    let mut client = Node::new().client();
    let value = vec![b'v'; 15 << 20];
    client.ask("MULTI");
    for _ in 0..4 {
        assert_eq!(ask(&mut client, &[b"SET", b"v", &value]), "+QUEUED\r\n");
    }
    let refused = ask(&mut client, &[b"SET", b"v", &value]);
    assert!(refused.starts_with("-ERR transaction too large"), "{refused}");
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
}

/// Once: a `MULTI` of many long `MGET`s, within all limits, ran for three seconds, in which the mark stood still: its
/// leader was thought to be stuck, and so was the next one.
#[test]
fn a_transaction_that_queues_too_many_arguments_is_refused() {
    let mut client = Node::new().client();
    client.ask("MULTI");
    let mut many: Vec<&[u8]> = vec![b"k"; 1_000_000];
    many[0] = b"MGET";
    for _ in 0..2 {
        assert_eq!(ask(&mut client, &many), "+QUEUED\r\n");
    }
    assert_eq!(ask(&mut client, &many), "-ERR transaction too large (at most 2097152 arguments)\r\n");
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
}

proptest! {
    #[test]
    fn garbage_arguments_never_panic(args in prop::collection::vec(any::<u8>(), 0..40), start in 0..4u8) {
        let mut args = args;
        args.insert(0, start);
        Node::new().run(EXEC, &at_some_time(&args));
        Node::new().run(EXEC, &args);
        Node::new().run(WATCH, &args);
    }
}
