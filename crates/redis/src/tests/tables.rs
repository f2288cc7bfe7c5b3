//! HW.TABLE HW.GET HW.PUT HW.DEL HW.RANGE.

use highwater_core::Procedure;

use super::double::{Node, START_MS};
use crate::keyspace::DUE;
use crate::keyspace::sweep::Sweep;
use crate::moment::Moment;
use crate::tables::TABLES;

const OK: &str = "+OK\r\n";

fn spaced(reply: String) -> String {
    reply.replace("\r\n", " ").trim_end().to_string()
}

#[test]
fn rows_have_typed_keys() {
    let node = Node::new();
    let mut client = node.client();
    let mut ask = |command: &str| spaced(client.ask(command));
    assert_eq!(ask("HW.TABLE CREATE orders u64 String"), "+OK");
    assert!(ask("HW.TABLE CREATE orders u64").starts_with("-TABLEEXISTS "));
    assert_eq!(ask("HW.PUT orders 7 book 3"), ":1");
    assert_eq!(ask("HW.PUT orders 7 book 4"), ":0");
    assert_eq!(ask("HW.GET orders 7 book"), "$1 4");
    assert_eq!(ask("HW.GET orders 7 pen"), "$-1");
    assert_eq!(ask("HW.DEL orders 7 book"), ":1");
    assert_eq!(ask("HW.DEL orders 7 book"), ":0");
    assert_eq!(ask("HW.TABLE DESCRIBE orders"), "*4 $2 id :1 $3 key *2 $3 u64 $6 string");
    assert_eq!(ask("HW.TABLE CREATE accounts bytes"), "+OK");
    assert_eq!(ask("HW.TABLE LIST"), "*2 $8 accounts $6 orders");
}

#[test]
fn ranges_go_both_ways_and_stop_where_they_should() {
    let node = Node::new();
    let mut client = node.client();
    client.ask("HW.TABLE CREATE t i64 string");
    client.ask("HW.TABLE CREATE u i64 string");
    client.ask("HW.PUT u 1 a other");
    for (n, name) in [(-5, "a"), (1, "a"), (1, "b"), (1, "ba"), (2, "a")] {
        client.ask(&format!("HW.PUT t {n} {name} {n}{name}"));
    }
    let mut values = |command: &str| {
        let reply = spaced(client.ask(command));
        let words: Vec<_> = reply.split(' ').collect();
        assert_eq!(words[0], format!("*{}", (words.len() - 1) / 6), "{reply}");
        words[1..].chunks(6).map(|row| row[5].to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(values("HW.RANGE t - - + +"), "-5a 1a 1b 1ba 2a");
    assert_eq!(values("HW.RANGE t - - + + REV LIMIT 2"), "2a 1ba");
    assert_eq!(values("HW.RANGE t 1 - 1 +"), "1a 1b 1ba");
    assert_eq!(values("HW.RANGE t (1 - + + LIMIT 10"), "2a");
    assert_eq!(values("HW.RANGE t 1 [b 2 (a"), "1b 1ba");
    assert_eq!(values("HW.RANGE t 1 (b [1 +"), "1ba");
    assert_eq!(values("HW.RANGE t 2 - 1 +"), "");
    assert_eq!(values("HW.RANGE t - - + + LIMIT 0"), "");
    assert_eq!(spaced(client.ask("HW.RANGE t -5 - -5 +")), "*1 *3 :-5 $1 a $3 -5a");
}

#[test]
fn what_makes_no_sense_is_explained() {
    let node = Node::new();
    let mut client = node.client();
    let long = "n".repeat(257);
    client.ask("HW.TABLE CREATE t u64 string");
    for (command, word) in [
        ("HW.GET none 1", "-NOTABLE "),
        ("HW.TABLE DESCRIBE none", "-NOTABLE "),
        ("HW.TABLE CREATE u float", "-ERR a table's key"),
        ("HW.TABLE CREATE u", "-ERR wrong number"),
        ("HW.TABLE CREATE \"\" u64", "-ERR a table's name"),
        (&format!("HW.TABLE CREATE {long} u64"), "-ERR a table's name"),
        (&format!("HW.TABLE CREATE u {}", "u64 ".repeat(17)), "-ERR a table's key"),
        ("HW.GET t 1", "-BADKEY a key of this table has 2"),
        ("HW.GET t 1 a b", "-BADKEY a key"),
        ("HW.PUT t 1 a", "-BADKEY a key"),
        ("HW.GET t -1 a", "-BADKEY a word is no u64"),
        ("HW.RANGE t 1 a 2 b", "-BADKEY a bound"),
        ("HW.RANGE t 1 [a 2", "-BADKEY a key"),
        ("HW.RANGE t - - + + LIMIT", "-ERR syntax"),
        ("HW.RANGE t - - + + LIMIT -1", "-ERR LIMIT"),
        ("HW.RANGE t - - + + FAST", "-ERR syntax"),
    ] {
        let reply = client.ask(command);
        assert!(reply.starts_with(word), "{command}: {reply}");
    }
    assert_eq!(client.ask(&format!("HW.TABLE CREATE {} {}", &long[..256], "u64 ".repeat(16))), OK);
    assert_eq!(client.ask("HW.TABLE DROP none"), ":0\r\n");
}

#[test]
fn a_dropped_table_is_gone_at_once_and_its_rows_later() {
    let node = Node::new();
    let mut client = node.client();
    client.ask("HW.TABLE CREATE t u64");
    client.ask("HW.TABLE CREATE kept u64");
    client.ask("HW.PUT kept 1 value");
    for n in 0..1300 {
        client.ask(&format!("HW.PUT t {n} value"));
    }
    let before = node.rows(TABLES);
    assert_eq!(client.ask("HW.TABLE DROP t"), ":1\r\n");
    assert!(client.ask("HW.GET t 1").starts_with("-NOTABLE "));
    assert_eq!(client.ask("HW.TABLE CREATE t u64"), OK);
    assert_eq!(client.ask("HW.RANGE t - +"), "*0\r\n", "it has another id");
    client.ask("HW.PUT t 5 new");
    let sweep = node.procedures().iter().position(|name| *name == Sweep::NAME).unwrap();
    let moment = Moment { unix_ms: START_MS, seed: 0 }.bytes();
    let mut sweeps = 0;
    while node.rows(DUE) > 0 {
        node.run(highwater_core::ProcedureId(sweep as u16), &moment);
        sweeps += 1;
        assert!(sweeps < 10, "it comes to an end");
    }
    assert!(sweeps >= 3, "some at a time");
    assert_eq!(node.rows(TABLES), before - 1300 + 1);
    assert_eq!(client.ask("HW.GET kept 1"), "$5\r\nvalue\r\n");
    assert_eq!(client.ask("HW.GET t 5"), "$3\r\nnew\r\n");
    assert!(client.ask("HW.TABLE DESCRIBE t").contains(":3\r\n"), "an id is given once");
}

#[test]
fn rows_are_data_like_others() {
    let node = Node::new();
    let (mut one, mut other) = (node.client_of(7), node.client_of(8));
    one.ask("MULTI");
    one.ask("HW.TABLE CREATE t u64");
    one.ask("HW.PUT t 1 a");
    one.ask("HW.GET t 1");
    assert_eq!(spaced(one.ask("EXEC")), "*3 +OK :1 $1 a");
    one.ask("HW.BEGIN");
    assert_eq!(spaced(one.ask("HW.RANGE t - +")), "*1 *2 :1 $1 a");
    one.ask("SET first 1");
    other.ask("HW.PUT t 2 b");
    assert!(one.ask("HW.COMMIT").starts_with("-CONFLICT "), "a row more is another range");
}
