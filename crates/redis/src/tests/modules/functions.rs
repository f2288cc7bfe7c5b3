//! The functions that modules import.

use super::super::double::START_MS;
use super::{Client, bound, line, with_module};

/// Everything that is imported, and a memory with some words in it.
const ALL: &str = r#"
  (import "highwater1" "arguments" (func $arguments (result i32)))
  (import "highwater1" "argument" (func $argument (param i32 i32 i32) (result i32)))
  (import "highwater1" "rest" (func $rest (param i32 i32) (result i32)))
  (import "highwater1" "table" (func $table (param i32 i32) (result i32)))
  (import "highwater1" "get" (func $get (param i32 i32 i32 i32 i32) (result i32)))
  (import "highwater1" "put" (func $put (param i32 i32 i32 i32 i32)))
  (import "highwater1" "delete" (func $delete (param i32 i32 i32) (result i32)))
  (import "highwater1" "scan" (func $scan (param i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i64)))
  (import "highwater1" "key_get" (func $key_get (param i32 i32 i32 i32) (result i32)))
  (import "highwater1" "key_set" (func $key_set (param i32 i32 i32 i32)))
  (import "highwater1" "key_delete" (func $key_delete (param i32 i32) (result i32)))
  (import "highwater1" "command" (func $command (param i32 i32 i32 i32) (result i32)))
  (import "highwater1" "now" (func $now (result i64)))
  (import "highwater1" "random" (func $random (result i64)))
  (import "highwater1" "fail" (func $fail (param i32 i32)))
  (import "highwater1" "reply_null" (func $null))
  (import "highwater1" "reply_integer" (func $integer (param i64)))
  (import "highwater1" "reply_double" (func $double (param f64)))
  (import "highwater1" "reply_bytes" (func $bytes (param i32 i32)))
  (import "highwater1" "reply_text" (func $text (param i32 i32)))
  (import "highwater1" "reply_array" (func $array (param i32)))
  (import "highwater1" "reply_map" (func $map (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "key one")
  (data (i32.const 16) "\02\00\00\00\03\00\00\00GET\03\00\00\00key")
  (data (i32.const 48) "b")
  (data (i32.const 64) "\03\00\00\00\06\00\00\00INCRBY\01\00\00\00n\02\00\00\0012")
  (func $number (param i32) (call $integer (i64.extend_i32_s (local.get 0))))
"#;

fn body(body: &str) -> Client {
    bound(10_000_000, 4);
    with_module(&format!("{ALL} (func (export \"procedure:run\") {body})"))
}

fn run(code: &str) -> String {
    line(&mut body(code), "HW.CALL m.run")
}

#[test]
fn replies_are_values_of_every_kind() {
    let reply = "(call $array (i32.const 6)) (call $null) (call $integer (i64.const -9223372036854775808)) (call $double (f64.const 0.5))
        (call $bytes (i32.const 0) (i32.const 3)) (call $text (i32.const 0) (i32.const 3)) (call $map (i32.const 1)) (call $array (i32.const 0)) (call $null)";
    let mut client = body(reply);
    let front = "*6 $-1 :-9223372036854775808 $3 0.5 $3 key +key";
    assert_eq!(line(&mut client, "HW.CALL m.run"), format!("{front} *2 *0 $-1"));
    line(&mut client, "HELLO 3");
    assert_eq!(line(&mut client, "HW.CALL m.run"), "*6 _ :-9223372036854775808 ,0.5 $3 key +key %1 *0 _");
    assert_eq!(run(""), "+OK");
    for wrong in [
        "(call $null) (call $null)",
        "(call $array (i32.const 2)) (call $null)",
        "(call $array (i32.const -1)) (call $null)",
        "(call $map (i32.const -1))",
        "(call $array (i32.const 0)) (call $null)",
    ] {
        assert!(run(wrong).starts_with("-TRAP it answers "), "{wrong}");
    }
}

#[test]
fn arguments_are_the_words_of_the_call() {
    let mut client = body(
        "(call $array (i32.const 5)) (call $number (call $arguments))
         (call $number (call $argument (i32.const 0) (i32.const 1000) (i32.const 2))) (call $bytes (i32.const 1000) (i32.const 4))
         (call $number (call $rest (i32.const 1000) (i32.const 100))) (call $bytes (i32.const 1000) (i32.const 4))
         (drop (call $argument (i32.const 5) (i32.const -1) (i32.const 0)))",
    );
    assert_eq!(line(&mut client, "HW.CALL m.run word x \"\""), "*5 :3 :4 $4 wo\0\0 :4 $4 word");
    let mut client = body("(call $number (call $argument (i32.const -1) (i32.const 0) (i32.const 0)))");
    assert_eq!(line(&mut client, "HW.CALL m.run x"), ":-1");
}

#[test]
fn strings_of_the_keyspace() {
    let mut client = body(
        "(call $array (i32.const 6)) (call $number (call $key_get (i32.const 0) (i32.const 3) (i32.const 1000) (i32.const 100)))
         (call $key_set (i32.const 0) (i32.const 3) (i32.const 4) (i32.const 3))
         (call $number (call $key_get (i32.const 0) (i32.const 3) (i32.const 1000) (i32.const 2))) (call $bytes (i32.const 1000) (i32.const 3))
         (call $number (call $key_delete (i32.const 0) (i32.const 3))) (call $number (call $key_delete (i32.const 0) (i32.const 3)))
         (call $key_set (i32.const 0) (i32.const 3) (i32.const 4) (i32.const 3))
         (call $number (call $rest (i32.const 1000) (i32.const 0)))",
    );
    assert_eq!(line(&mut client, "HW.CALL m.run"), "*6 :-1 :3 $3 on\0 :1 :0 :3");
    assert_eq!(line(&mut client, "GET key"), "$3 one");
    line(&mut client, "DEL key");
    line(&mut client, "LPUSH key a");
    assert!(line(&mut client, "HW.CALL m.run").starts_with("-WRONGTYPE "));
    assert_eq!(line(&mut client, "LLEN key"), ":1");
}

#[test]
fn every_command_that_a_script_may_run() {
    let mut client = body(
        "(call $array (i32.const 2)) (call $bytes (i32.const 1000) (call $command (i32.const 16) (i32.const 18) (i32.const 1000) (i32.const 100)))
         (call $bytes (i32.const 1000) (call $command (i32.const 64) (i32.const 25) (i32.const 1000) (i32.const 100)))",
    );
    line(&mut client, "SET key v");
    assert_eq!(line(&mut client, "HW.CALL m.run"), "*2 $7 $1 v  $5 :12");
    assert_eq!(line(&mut client, "GET n"), "$2 12");
    line(&mut client, "DEL key");
    line(&mut client, "LPUSH key a");
    let reply = line(&mut client, "HW.CALL m.run");
    assert!(
        reply.contains("-WRONGTYPE ") && reply.ends_with(":24"),
        "the procedure sees it, and goes on: {reply}"
    );
    assert!(line(&mut client, "HW.CALL_RO m.run").starts_with("-ERR the procedure writes"));
    assert_eq!(line(&mut client, "GET n"), "$2 24");
    let refused = |name: &str, words: &[&str]| {
        let mut encoded = (words.len() as u32 + 1).to_le_bytes().to_vec();
        for word in [name].iter().chain(words) {
            encoded.extend_from_slice(&(word.len() as u32).to_le_bytes());
            encoded.extend_from_slice(word.as_bytes());
        }
        let text: String = encoded.iter().map(|byte| format!("\\{byte:02x}")).collect();
        let module = format!(
            "{ALL} (data (i32.const 100) \"{text}\") (func (export \"procedure:run\")
             (call $bytes (i32.const 1000) (call $command (i32.const 100) (i32.const {}) (i32.const 1000) (i32.const 200))))",
            encoded.len()
        );
        line(&mut with_module(&module), "HW.CALL m.run")
    };
    for (name, words) in [
        ("nosuch", &[][..]),
        ("get", &[]),
        ("eval", &["return 1", "0"]),
        ("hw.call", &["m.run"]),
        ("hw.invoke", &["m.run"]),
        ("hw.module", &["unload", "m"]),
        ("blpop", &["key", "0"]),
        ("multi", &[]),
        ("ping", &[]),
        ("hw.session", &["new"]),
        ("acl", &["list"]),
        ("function", &["flush"]),
    ] {
        let reply = refused(name, words);
        assert!(reply.contains("-ERR "), "{name}: {reply}");
    }
    assert_eq!(
        run("(drop (call $command (i32.const 0) (i32.const 7) (i32.const 0) (i32.const 0)))"),
        "-TRAP its words are no command; nothing was done"
    );
}

/// Words of a table's rows, as `scan` gives them.
#[test]
fn scans_go_both_ways_and_tell_what_is_left() {
    let scan = |from: &str, to: &str, backward: u8, limit: u32, room: u32| {
        let mut client = body(&format!(
            "(local $told i64) (local $table i32) (local.set $table (call $table (i32.const 0) (i32.const 3)))
             (local.set $told (call $scan (local.get $table) {from} {to} (i32.const {backward}) (i32.const {limit}) (i32.const 1000) (i32.const {room})))
             (call $array (i32.const 2)) (call $integer (i64.shr_u (local.get $told) (i64.const 32)))
             (call $bytes (i32.const 1000) (select (i32.wrap_i64 (local.get $told)) (i32.const 0) (i64.lt_u (local.get $told) (i64.const 0x200000000))))"
        ));
        line(&mut client, "HW.TABLE CREATE key bytes");
        for row in ["a 1", "b 22", "c 333"] {
            line(&mut client, &format!("HW.PUT key {row}"));
        }
        line(&mut client, "HW.TABLE CREATE other bytes");
        line(&mut client, "HW.PUT other b no");
        let reply = line(&mut client, "HW.CALL m.run");
        let (_, rest) = reply.split_once(' ').unwrap();
        let (told, rows) = rest.split_once(' ').unwrap();
        let values: String =
            rows.chars().filter(|at| at.is_ascii_digit() || at.is_ascii_lowercase()).collect();
        // The length of the bytes stands in front.
        let digits = rows[1..].chars().take_while(char::is_ascii_digit).count();
        format!("{told} {}", &values[digits..])
    };
    let (start, end) = ("(i32.const 0) (i32.const 0)", "(i32.const 0) (i32.const -1)");
    assert_eq!(scan(start, end, 0, 10, 1000), ":0 a1b22c333");
    assert_eq!(scan(start, end, 1, 10, 1000), ":0 c333b22a1");
    assert_eq!(scan(start, end, 0, 2, 1000), ":0 a1b22");
    assert_eq!(scan(start, end, 0, 10, 27), ":1 a1b22");
    assert_eq!(scan(start, end, 1, 10, 14), ":1 c333");
    assert_eq!(scan(start, end, 0, 10, 11), ":2 ");
    assert_eq!(scan(start, end, 0, 0, 11), ":0 ");
    // Cuts need not be keys.
    let (b, k) = ("(i32.const 48) (i32.const 1)", "(i32.const 0) (i32.const 1)");
    assert_eq!(scan(b, end, 0, 10, 1000), ":0 b22c333");
    assert_eq!(scan(start, b, 1, 10, 1000), ":0 a1");
    assert_eq!(scan(b, k, 0, 10, 1000), ":0 b22c333");
    assert_eq!(scan(k, b, 0, 10, 1000), ":0 ");
    assert_eq!(scan(k, end, 0, 10, 1000), ":0 ");
}

#[test]
fn keys_of_tables_have_to_be_keys() {
    let mut client = body(
        "(local $table i32) (local.set $table (call $table (i32.const 0) (i32.const 3)))
         (call $put (local.get $table) (i32.const 0) (i32.const 7) (i32.const 0) (i32.const 3))",
    );
    assert!(line(&mut client, "HW.CALL m.run").starts_with("-TRAP it uses a table that it has not opened"));
    line(&mut client, "HW.TABLE CREATE key u64");
    assert!(line(&mut client, "HW.CALL m.run").starts_with("-BADKEY "));
    line(&mut client, "HW.TABLE DROP key");
    line(&mut client, "HW.TABLE CREATE key string");
    assert!(line(&mut client, "HW.CALL m.run").starts_with("-BADKEY "));
    assert_eq!(line(&mut client, "HW.RANGE key - +"), "*0");
}

/// The request's moment, and nothing else: another run of the same request sees the same.
#[test]
fn time_and_chance_are_the_requests() {
    let mut client = body(
        "(call $array (i32.const 3)) (call $integer (call $now)) (call $integer (call $random)) (call $integer (call $random))",
    );
    let first = line(&mut client, "HW.CALL m.run");
    assert!(first.starts_with(&format!("*3 :{START_MS} ")), "{first}");
    let chances: Vec<_> = first.split(' ').skip(2).collect();
    assert_ne!(chances[0], chances[1]);
    assert_ne!(line(&mut client, "HW.CALL m.run"), first, "another request has another seed");
    // In an open transaction every step runs again at its beginning's moment.
    line(&mut client, "HW.BEGIN");
    let step = line(&mut client, "HW.CALL m.run");
    line(&mut client, "SET a 1");
    assert_ne!(line(&mut client, "HW.CALL m.run"), step);
    assert_eq!(line(&mut client, "HW.COMMIT"), "+OK");
}

#[test]
fn what_points_outside_of_the_memory_ends_the_procedure() {
    for call in [
        "(call $bytes (i32.const 65530) (i32.const 7))",
        "(call $bytes (i32.const -1) (i32.const 1))",
        "(call $bytes (i32.const 1) (i32.const -1))",
        "(call $text (i32.const 65536) (i32.const 1))",
        "(drop (call $argument (i32.const 0) (i32.const 65535) (i32.const 9)))",
        "(drop (call $table (i32.const 65535) (i32.const 2)))",
        "(drop (call $key_get (i32.const 65535) (i32.const 2) (i32.const 0) (i32.const 0)))",
        "(call $key_set (i32.const 0) (i32.const 2) (i32.const 65535) (i32.const 2))",
        "(drop (call $command (i32.const 65535) (i32.const 2) (i32.const 0) (i32.const 0)))",
        "(call $fail (i32.const 65535) (i32.const 2))",
    ] {
        let reply = line(&mut body(call), "HW.CALL m.run long");
        assert!(
            reply.starts_with("-TRAP it points outside of its memory") || reply.starts_with("-NOFUEL "),
            "{call}: {reply}"
        );
    }
    assert_eq!(run("(call $bytes (i32.const 65536) (i32.const 0))"), "$0 ".trim_end());
}

/// Whatever a processor makes of an operation without a result, the bits are the same.
#[test]
fn a_nan_has_one_form() {
    let nan = "(call $array (i32.const 2))
        (call $integer (i64.reinterpret_f64 (f64.div (f64.const 0) (f64.const 0))))
        (call $integer (i64.reinterpret_f64 (f64.add (f64.const nan:0x4000000000001) (f64.const 1))))";
    let canonical = 0x7ff8_0000_0000_0000u64 as i64;
    assert_eq!(run(nan), format!("*2 :{canonical} :{canonical}"));
}
