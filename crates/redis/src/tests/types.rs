//! Types, time and waiting, where it takes more than a conversation.

use highwater_core::ProcedureId;

use super::double::{Client, Node, START_MS, multibulk};
use crate::keyspace::sweep::Share;
use crate::keyspace::{DUE, ELEMENTS, ITEMS, KEYSPACE, NAMES};
use crate::moment::Moment;

const SWEEP: &str = "redis.sweep";

/// Asks at a time.
fn ask_at(client: &mut Client, unix_ms: u64, command: &str) -> String {
    client.connection.tell_time(unix_ms);
    client.ask(command)
}

/// Sweeps until nothing is due; when the next deadline is.
fn sweep(node: &Node, unix_ms: u64) -> u64 {
    let at = node.procedures().iter().position(|name| *name == SWEEP).unwrap();
    loop {
        let (_, reply) = node.run(ProcedureId(at as u16), &Moment { unix_ms, seed: 0 }.bytes());
        match u64::from_le_bytes(*reply.first_chunk().unwrap()) {
            0 => {}
            next => return next,
        }
    }
}

#[test]
fn a_key_is_absent_from_its_deadline_on() {
    let node = Node::new();
    let mut client = node.client();
    client.ask("SET a 1 PX 100");
    client.ask("RPUSH l x");
    client.ask("PEXPIRE l 100");
    assert_eq!(ask_at(&mut client, START_MS + 99, "EXISTS a l"), ":2\r\n");
    assert_eq!(ask_at(&mut client, START_MS + 100, "EXISTS a l"), ":0\r\n");
    assert_eq!(client.ask("GET a"), "$-1\r\n");
    assert_eq!(client.ask("KEYS *"), "*0\r\n");
    assert_eq!(client.ask("RPUSH l y"), ":1\r\n");
    assert_eq!(client.ask("TTL l"), ":-1\r\n");
    assert_eq!(client.ask("LRANGE l 0 -1"), "*1\r\n$1\r\ny\r\n");
    assert_eq!(client.ask("SET a 2 XX"), "$-1\r\n");
}

/// A leader whose clock is behind must not find what another one found expired.
#[test]
fn what_was_seen_to_be_gone_stays_gone_though_the_clock_goes_back() {
    let node = Node::new();
    let mut client = node.client();
    client.ask("SET a 1 PX 100");
    client.ask("RPUSH l x");
    client.ask("PEXPIRE l 100");
    client.ask("SET unseen 1 PX 100");
    assert_eq!(ask_at(&mut client, START_MS + 100, "MGET a none"), "*2\r\n$-1\r\n$-1\r\n");
    assert_eq!(client.ask("TYPE l"), "+none\r\n");
    assert_eq!(ask_at(&mut client, START_MS, "EXISTS a l"), ":0\r\n");
    assert_eq!(client.ask("GET unseen"), "$1\r\n1\r\n");
    assert_eq!(sweep(&node, START_MS + 100), u64::MAX);
    let rows = [KEYSPACE, NAMES, ELEMENTS, DUE].map(|table| node.rows(table));
    assert_eq!(rows, [0; 4]);
}

/// 512 rows were swept at once, whatever their length: a hundred values of a MiB were more than a transaction may delete, so the sweep was refused,
/// again and again, and nothing expired any more. A collection of few long elements could not be deleted at all.
#[test]
fn long_values_are_swept_a_few_at_a_time() {
    let node = Node::new();
    let mut client = node.client();
    let long = "x".repeat(100_000);
    let mut ask = |words: &[&str]| client.send(&multibulk(words.iter().map(|word| word.as_bytes())));
    for key in ["a", "b", "c"] {
        assert_eq!(ask(&["SET", key, &long, "PX", "100"]), "+OK\r\n");
    }
    let at = node.procedures().iter().position(|name| *name == SWEEP).unwrap();
    let moment = Moment { unix_ms: START_MS + 100, seed: 0 }.bytes();
    for left in [2, 1, 0] {
        node.run(ProcedureId(at as u16), &moment);
        assert_eq!(node.rows(KEYSPACE), left);
    }
    for count in 1..=3 {
        assert_eq!(ask(&["RPUSH", "l", &long]), format!(":{count}\r\n"));
    }
    assert_eq!(ask(&["DEL", "l"]), ":1\r\n");
    for left in [2, 1, 0] {
        assert_eq!(node.rows(ITEMS), left);
        node.run(ProcedureId(at as u16), &moment);
    }
    assert_eq!(sweep(&node, START_MS), u64::MAX);
    assert_eq!([KEYSPACE, NAMES, ITEMS, DUE].map(|table| node.rows(table)), [0; 4]);
}

/// What takes the place of a collection that was seen to be expired lives, whatever is still due of that one.
#[test]
fn what_is_set_anew_lives_though_the_old_one_is_due() {
    let node = Node::new();
    let mut client = node.client();
    client.ask("RPUSH l x");
    client.ask("PEXPIRE l 100");
    assert_eq!(ask_at(&mut client, START_MS + 100, "LLEN l"), ":0\r\n");
    assert_eq!(ask_at(&mut client, START_MS, "RPUSH l y"), ":1\r\n");
    assert_eq!(client.ask("PEXPIRE l 200"), ":1\r\n");
    sweep(&node, START_MS + 100);
    assert_eq!(client.ask("LRANGE l 0 -1"), "*1\r\n$1\r\ny\r\n");
    assert_eq!(sweep(&node, START_MS + 200), u64::MAX);
    assert_eq!([KEYSPACE, NAMES, ELEMENTS, DUE].map(|table| node.rows(table)), [0; 4]);
}

#[test]
fn the_sweep_leaves_nothing_behind() {
    let node = Node::new();
    let mut client = node.client();
    assert_eq!(sweep(&node, START_MS), u64::MAX);
    client.ask("SET a 1 PX 100");
    client.ask("SET b 1 PX 300");
    for at in 0..2000 {
        client.ask(&format!("ZADD z {at} m{at}"));
    }
    client.ask("DEL z");
    assert_eq!(client.ask("EXISTS z"), ":0\r\n");
    assert_eq!(node.rows(ELEMENTS), 4000 - 1024, "whoever removes it pays for a part");
    assert_eq!(sweep(&node, START_MS + 100), START_MS + 300);
    assert_eq!((node.rows(ELEMENTS), node.rows(KEYSPACE), node.rows(NAMES)), (0, 1, 1));
    assert_eq!(sweep(&node, START_MS + 300), u64::MAX);
    assert_eq!((node.rows(KEYSPACE), node.rows(NAMES), node.rows(DUE)), (0, 0, 0));
}

/// Makes a set of so many members, and removes it.
fn come_and_go(client: &mut Client, count: usize) {
    let members: String = (0..count).map(|at| format!(" m{at}")).collect();
    assert_eq!(client.ask(&format!("SADD gone{members}")), format!(":{count}\r\n"));
    assert_eq!(client.ask("UNLINK gone"), ":1\r\n");
}

/// A set of 70 members went at once, and its rows stood: whoever made and removed such ones filled the memory with what nobody had.
#[test]
fn whoever_removes_a_collection_removes_a_thousand_of_its_rows() {
    let node = Node::new();
    let mut client = node.client();
    for count in [70, 1000] {
        come_and_go(&mut client, count);
        assert_eq!((node.rows(ELEMENTS), node.rows(DUE)), (0, 0), "{count}");
    }
    come_and_go(&mut client, 1500);
    assert_eq!((node.rows(ELEMENTS), node.rows(DUE)), (1500 - 1024, 1));
    assert_eq!(sweep(&node, START_MS), u64::MAX);
    assert_eq!((node.rows(ELEMENTS), node.rows(DUE)), (0, 0));
    // A transaction pays once, of whatever it names.
    for key in ["a", "b", "c"] {
        let members: String = (0..600).map(|at| format!(" m{at}")).collect();
        client.ask(&format!("SADD {key}{members}"));
    }
    client.ask("DEL a b c");
    assert_eq!((node.rows(ELEMENTS), node.rows(DUE)), (1800 - 1024, 2));
    assert_eq!(sweep(&node, START_MS), u64::MAX);
    assert_eq!((node.rows(ELEMENTS), node.rows(DUE)), (0, 0));
}

/// Four collections that were gone kept all that had expired from being looked at.
#[test]
fn what_has_expired_goes_whatever_garbage_waits() {
    let node = Node::new();
    let mut client = node.client();
    let at = ProcedureId(node.procedures().iter().position(|name| *name == SWEEP).unwrap() as u16);
    (0..10).for_each(|_| come_and_go(&mut client, 2000));
    (0..100).for_each(|key| drop(client.ask(&format!("SET e{key} 1 PX 100"))));
    assert_eq!(node.rows(NAMES), 100);
    let before = node.rows(ELEMENTS);
    assert_eq!(before, 10 * (2000 - 1024));
    let (_, reply) = node.run(at, &Moment { unix_ms: START_MS + 100, seed: 0 }.bytes());
    assert_eq!(node.rows(NAMES), 0, "half of its room is for what has expired");
    assert!(node.rows(ELEMENTS) < before - 250, "and the rest for garbage: {}", node.rows(ELEMENTS));
    assert_eq!(reply, [0u64, 100].map(u64::to_le_bytes).concat());
    // Alone, each leaves the other.
    client.ask("SET e 1 PX 100");
    let left = node.rows(ELEMENTS);
    let alone = |share: Share| {
        let mut args = Moment { unix_ms: START_MS + 100, seed: 0 }.bytes().to_vec();
        share.encode(&mut args);
        u64::from_le_bytes(*node.run(at, &args).1.first_chunk().unwrap())
    };
    assert_eq!(alone(Share { deadlines: false, ..Share::default() }), 0);
    assert!(node.rows(ELEMENTS) < left && node.rows(NAMES) == 1);
    let left = node.rows(ELEMENTS);
    assert_eq!(alone(Share { garbage: 0, ..Share::default() }), u64::MAX);
    assert!(node.rows(ELEMENTS) == left && node.rows(NAMES) == 0);
    assert_eq!(sweep(&node, START_MS + 100), u64::MAX);
    assert_eq!([KEYSPACE, NAMES, ELEMENTS, DUE].map(|table| node.rows(table)), [0; 4]);
}

#[test]
fn a_key_that_expires_counts_as_changed_for_who_watches_it() {
    let node = Node::new();
    let mut client = node.client();
    client.ask("SET a 1 PX 100");
    client.ask("WATCH a");
    client.ask("MULTI");
    client.ask("PING");
    assert_eq!(ask_at(&mut client, START_MS + 100, "EXEC"), "*-1\r\n");
    // It had expired before it was watched: then it only goes.
    client.ask("WATCH a");
    client.ask("MULTI");
    sweep(&node, START_MS + 100);
    client.ask("PING");
    assert_eq!(client.ask("EXEC"), "*1\r\n+PONG\r\n");
}

#[test]
fn who_watches_a_collection_sees_its_elements_change() {
    let node = Node::new();
    let (mut client, mut other) = (node.client(), node.client_of(8));
    client.ask("HSET h f 1");
    client.ask("WATCH h");
    other.ask("HSET h f 2");
    client.ask("MULTI");
    client.ask("PING");
    assert_eq!(client.ask("EXEC"), "*-1\r\n");
}

#[test]
fn a_scan_meets_whatever_is_there_all_the_time() {
    let node = Node::new();
    let mut client = node.client();
    for at in 0..200 {
        client.ask(&format!("SET stays{at} x"));
    }
    let (mut cursor, mut met, mut round) = ("0".to_string(), std::collections::BTreeSet::new(), 0);
    loop {
        client.ask(&format!("SET comes{round} x"));
        client.ask(&format!("DEL comes{}", round / 2));
        let reply = client.ask(&format!("SCAN {cursor} COUNT 7"));
        let mut lines = reply.split("\r\n").skip(2);
        cursor = lines.next().unwrap().to_string();
        met.extend(lines.filter(|line| line.starts_with("stays")).map(str::to_string));
        round += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(met.len(), 200);
}

#[test]
fn rows_of_older_builds_are_strings() {
    let node = Node::new();
    node.put(KEYSPACE, b"old", b"12");
    let mut client = node.client();
    assert_eq!(client.ask("INCR old"), ":13\r\n");
    assert_eq!(client.ask("TYPE old"), "+string\r\n");
    assert_eq!(
        client.ask("RPUSH old x"),
        "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    );
}

#[test]
fn members_of_any_bytes_up_to_the_limit() {
    let node = Node::new();
    let mut client = node.client();
    let longest = vec![0xff; (64 << 10) - 17];
    let longer = vec![0xff; (64 << 10) - 16];
    for command in [&b"SADD"[..], b"SISMEMBER", b"SREM"] {
        assert_eq!(client.send(&multibulk([command, b"s", &longest].into_iter())), ":1\r\n");
    }
    assert!(
        client
            .send(&multibulk([&b"SADD"[..], b"s", &longer].into_iter()))
            .starts_with("-ERR element exceeds")
    );
    assert_eq!(client.send(&multibulk([&b"SISMEMBER"[..], b"s", &longer].into_iter())), ":0\r\n");
    assert_eq!(client.ask("EXISTS s"), ":0\r\n");
}

#[test]
fn clients_that_wait_are_served_in_the_order_of_arrival() {
    let node = Node::new();
    let [mut first, mut second, mut pusher] = [1, 2, 3].map(|id| node.client_of(id << 8));
    assert_eq!(first.ask("BLPOP a b 0"), "");
    assert_eq!(second.ask("BLPOP b 0"), "");
    assert_eq!(first.connection.waits().map(|waits| waits.timeout_ms), Some(None));
    pusher.ask("RPUSH b x y");
    assert_eq!(node.woken(), [0x100]);
    first.connection.look_again();
    assert_eq!(first.go_on(), "*2\r\n$1\r\nb\r\n$1\r\nx\r\n");
    assert_eq!(node.woken(), [0x200]);
    second.connection.look_again();
    assert_eq!(second.go_on(), "*2\r\n$1\r\nb\r\n$1\r\ny\r\n");
    assert_eq!(pusher.ask("EXISTS b"), ":0\r\n");
}

#[test]
fn who_waits_gives_up_in_time_and_takes_no_command_before() {
    let node = Node::new();
    let mut client = node.client();
    assert_eq!(client.ask("BLMOVE a b LEFT RIGHT 0.25"), "");
    assert_eq!(client.connection.waits().map(|waits| waits.timeout_ms), Some(Some(250)));
    assert_eq!(client.ask("PING"), "");
    client.connection.look_again();
    assert_eq!(client.go_on(), "");
    client.connection.give_up_waiting();
    assert_eq!(client.go_on(), "*-1\r\n+PONG\r\n");
    assert_eq!(client.connection.waits(), None);
}

/// Once: a blocked `BRPOPLPUSH` or `BLMOVE` whose destination had become another type was never answered, and went on
/// waiting with the item in the list: an error of the type was taken for one of the key that it waits for.
#[test]
fn who_waits_hears_that_the_destination_is_another_type_and_not_that_the_source_became_one() {
    let node = Node::new();
    let (mut waiter, mut writer) = (node.client_of(0x100), node.client_of(0x200));
    writer.ask("SET target string");
    assert_eq!(waiter.ask("BRPOPLPUSH list target 0"), "");
    writer.ask("SET list string");
    waiter.connection.look_again();
    assert_eq!(waiter.go_on(), "", "it waits for a list");
    writer.ask("DEL list");
    writer.ask("RPUSH list a");
    waiter.connection.look_again();
    assert!(waiter.go_on().starts_with("-WRONGTYPE"));
    assert_eq!(writer.ask("LLEN list"), ":1\r\n", "nothing is lost");
}

/// Once: `BZMPOP timeout 0 ..` and `BLMPOP timeout 0 ..` waited for no key, for ever with 0, instead of being refused.
#[test]
fn a_command_that_waits_for_no_key_is_refused() {
    let mut client = Node::new().client();
    for command in ["BZMPOP 0 0 z MIN", "BLMPOP 0 0 l LEFT", "BZMPOP 0 -1 z MIN"] {
        assert_eq!(client.ask(command), "-ERR numkeys should be greater than 0\r\n", "{command}");
    }
}
