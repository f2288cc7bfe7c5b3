//! Procedures that have no end, or want everything.

use wasmtime::ResourceLimiter;

use super::{bound, line, with_body, with_module};
use crate::modules::state::State;
use crate::modules::{self, Limits};
use crate::reply::Protocol;
use crate::scripts::budget::Clocks;

const MEMORY: &str = "(memory (export \"memory\") 1)";

/// What becomes of it; and that the node goes on.
fn ends(client: &mut super::Client, begins: &str) {
    for _ in 0..3 {
        let reply = line(client, "HW.CALL m.run");
        assert!(reply.starts_with(begins), "{reply}");
        assert!(reply.ends_with("; nothing was done"), "{reply}");
    }
    assert_eq!(line(client, "GET a"), "$-1");
}

#[test]
fn nothing_goes_on_for_ever() {
    bound(1_000_000, 4);
    for body in [
        "(loop $again (br $again))",
        "(loop $again (drop (memory.grow (i32.const 0))) (br $again))",
        "(loop $again (memory.fill (i32.const 0) (i32.const 7) (i32.const 65536)) (br $again))",
        "(loop $again (memory.copy (i32.const 0) (i32.const 8) (i32.const 65000)) (br $again))",
    ] {
        ends(
            &mut with_body(body),
            "-NOFUEL the procedure was ended after limits.procedure_fuel, which is 1000000",
        );
    }
    for function in ["now", "random"] {
        let import = format!("(import \"highwater1\" \"{function}\" (func $f (result i64)))");
        let mut client = with_module(&format!(
            "{import} {MEMORY} (func (export \"procedure:run\") (loop $again (drop (call $f)) (br $again)))"
        ));
        ends(&mut client, "-NOFUEL ");
    }
    let mut client = with_module(&format!(
        "(import \"highwater1\" \"key_set\" (func $set (param i32 i32 i32 i32))) {MEMORY} (func (export \"procedure:run\")
         (loop $again (call $set (i32.const 0) (i32.const 8) (i32.const 0) (i32.const 8)) (br $again)))"
    ));
    ends(&mut client, "-NOFUEL ");
    let mut client = with_module(&format!(
        "{MEMORY} (func $main (loop $again (br $again))) (start $main) (func (export \"procedure:run\"))"
    ));
    ends(&mut client, "-NOFUEL ");
}

/// A long key cost as much as none: two million looks for one that is not there, within the fuel of one call, held a worker for 80 s.
#[test]
fn keys_cost_fuel_by_their_length_whether_they_are_there_or_not() {
    bound(1_000_000, 4);
    let long = "(i32.const 64) (i32.const 65000)";
    for (function, types, call) in [
        (
            "key_get",
            "i32 i32 i32 i32) (result i32",
            format!("(drop (call $f {long} (i32.const 0) (i32.const 0)))"),
        ),
        ("key_set", "i32 i32 i32 i32", format!("(call $f {long} (i32.const 0) (i32.const 1))")),
        ("key_delete", "i32 i32) (result i32", format!("(drop (call $f {long}))")),
    ] {
        let many = |calls: u32| {
            with_module(&format!(
                "(import \"highwater1\" \"{function}\" (func $f (param {types})))
                 (import \"highwater1\" \"reply_null\" (func $reply)) (memory (export \"memory\") 2)
                 (func (export \"procedure:run\") (local $left i32) (local.set $left (i32.const {calls}))
                 (loop $again {call} (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                 (br_if $again (local.get $left))) (call $reply))"
            ))
        };
        assert_eq!(line(&mut many(100), "HW.CALL m.run"), "$-1", "{function}");
        ends(&mut many(200), "-NOFUEL ");
    }
}

/// A loop that asked how many `arguments` there are paid its own instructions alone: it lasted for a second of CPU, and for 44 in a debug build.
#[test]
fn every_function_costs_fuel() {
    bound(1_000_000, 4);
    let zeros = |count: usize| "(i32.const 0)".repeat(count);
    for (function, types, call) in [
        ("arguments", "(result i32)", "(drop (call $f))".to_owned()),
        ("argument", "(param i32 i32 i32) (result i32)", format!("(drop (call $f {}))", zeros(3))),
        ("rest", "(param i32 i32) (result i32)", format!("(drop (call $f {}))", zeros(2))),
        ("now", "(result i64)", "(drop (call $f))".to_owned()),
        ("random", "(result i64)", "(drop (call $f))".to_owned()),
        ("reply_null", "", "(call $f)".to_owned()),
        ("reply_integer", "(param i64)", "(call $f (i64.const 0))".to_owned()),
        ("reply_double", "(param f64)", "(call $f (f64.const 0))".to_owned()),
        ("reply_bytes", "(param i32 i32)", format!("(call $f {})", zeros(2))),
        ("reply_text", "(param i32 i32)", format!("(call $f {})", zeros(2))),
        ("reply_array", "(param i32)", format!("(call $f {})", zeros(1))),
        ("reply_map", "(param i32)", format!("(call $f {})", zeros(1))),
    ] {
        // A procedure gives one reply: those within an array of as many as are asked for.
        let array = "(import \"highwater1\" \"reply_array\" (func $array (param i32)))";
        let begins = if function.starts_with("reply_") { "(call $array (i32.const 1000000))" } else { "" };
        let mut client = with_module(&format!(
            "{array} (import \"highwater1\" \"{function}\" (func $f {types})) {MEMORY}
             (func (export \"procedure:run\") (local $left i32) (local.set $left (i32.const 6000)) {begins}
             (loop $again {call} (local.set $left (i32.sub (local.get $left) (i32.const 1)))
             (br_if $again (local.get $left))))"
        ));
        ends(&mut client, "-NOFUEL ");
    }
}

/// Each opening was kept: 130 MB for a procedure that did nothing else until its fuel was gone. (Nor was a name answered that is longer than any key.)
/// Once: a module that opened one table again and again kept each handle: 130 MB until its fuel was gone, counted
/// nowhere.
#[test]
fn a_table_that_is_opened_again_has_the_same_handle_and_a_name_too_long_none() {
    bound(0, 4);
    let open = |name: u32| format!("(call $table (i32.const 0) (i32.const {name}))");
    let import = "(import \"highwater1\" \"table\" (func $table (param i32 i32) (result i32)))
         (import \"highwater1\" \"reply_integer\" (func $reply (param i64)))";
    for (sum, told) in [(format!("(i32.add {} {})", open(1), open(1)), ":0"), (open(65_537), ":-1")] {
        let mut client = with_module(&format!(
            "{import} (memory (export \"memory\") 2) (data (i32.const 0) \"t\")
             (func (export \"procedure:run\") (call $reply (i64.extend_i32_s {sum})))"
        ));
        line(&mut client, "HW.TABLE CREATE t i64");
        assert_eq!(line(&mut client, "HW.CALL m.run"), told);
    }
}

#[test]
fn calls_without_end_exhaust_the_stack_and_nothing_else() {
    bound(0, 4);
    let mut client = with_module(&format!("{MEMORY} (func $f (export \"procedure:run\") (call $f))"));
    ends(&mut client, "-TRAP call stack exhausted");
    let wide = (0..200).map(|_| "i64 ").collect::<String>();
    let mut client = with_module(&format!(
        "{MEMORY} (func $f (local {wide}) (local.set 3 (i64.load (i32.const 0))) (call $f) (i64.store (i32.const 0) (local.get 3)))
         (func (export \"procedure:run\") (call $f))"
    ));
    ends(&mut client, "-TRAP call stack exhausted");
}

#[test]
fn memory_is_bounded() {
    bound(1_000_000_000, 2);
    for pages in [32, 1000, 65535, -1] {
        let mut client = with_body(&format!("(drop (memory.grow (i32.const {pages})))"));
        let reply = line(&mut client, "HW.CALL m.run");
        let limit = "limits.procedure_memory_mb, which is 2; nothing was done";
        assert!(reply.starts_with("-NOMEMORY ") && reply.ends_with(limit), "{pages}: {reply}");
    }
    let mut client = with_body(
        "(if (i32.ne (memory.grow (i32.const 31)) (i32.const 1)) (then unreachable))
        (memory.fill (i32.const 0) (i32.const 1) (i32.const 2097152))",
    );
    assert_eq!(line(&mut client, "HW.CALL m.run"), "+OK");
}

#[test]
fn traps_are_errors() {
    bound(1_000_000, 4);
    for (body, why) in [
        ("unreachable", "wasm `unreachable` instruction executed"),
        ("(drop (i32.load (i32.const 65536)))", "out of bounds memory access"),
        ("(drop (i32.load (i32.const -1)))", "out of bounds memory access"),
        ("(i64.store (i32.const 65530) (i64.const 1))", "out of bounds memory access"),
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", "integer divide by zero"),
        ("(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))", "integer overflow"),
        ("(drop (i32.trunc_f64_s (f64.const nan)))", "invalid conversion to integer"),
    ] {
        ends(&mut with_body(body), &format!("-TRAP {why}"));
    }
    let mut client = with_module(&format!(
        "{MEMORY} (table 2 funcref) (type $t (func)) (func (export \"procedure:run\") (call_indirect (type $t) (i32.const 1)))"
    ));
    ends(&mut client, "-TRAP uninitialized element");
    let mut client = with_module(
        "(memory (export \"memory\") 1) (data (i32.const 65530) \"0123456789\") (func (export \"procedure:run\"))",
    );
    ends(&mut client, "-TRAP out of bounds memory access");
}

/// Tables are bounded where no place bounds them, too: a node with few addresses has none.
#[test]
fn tables_are_bounded() {
    bound(1_000_000, 4);
    let mut state = State::new(Vec::new(), false, Protocol::Resp2, 1 << 20);
    for (entries, may) in [(0, true), (10_000, true), (10_001, false), (usize::MAX, false)] {
        assert_eq!(state.table_growing(0, entries, None).ok(), Some(may), "{entries}");
    }
    let mut client = with_module(
        "(import \"highwater1\" \"reply_integer\" (func $integer (param i64))) (memory (export \"memory\") 1) (table $t 1 funcref)
         (func (export \"procedure:run\")
           (call $integer (i64.extend_i32_s (table.grow $t (ref.null func) (i32.const 20000)))))",
    );
    assert_eq!(line(&mut client, "HW.CALL m.run"), ":-1");
}

/// What one call leaves, no other one finds: memory, globals, tables.
#[test]
fn every_call_has_an_instance_of_its_own() {
    bound(1_000_000, 4);
    let mut client = with_module(
        "(import \"highwater1\" \"reply_integer\" (func $integer (param i64)))
         (import \"highwater1\" \"reply_array\" (func $array (param i32)))
         (memory (export \"memory\") 1 8) (data (i32.const 8) \"\\07\") (global $g (mut i64) (i64.const 5)) (table $t 1 8 funcref)
         (func (export \"procedure:run\")
           (call $array (i32.const 6))
           (call $integer (i64.load (i32.const 8)))
           (call $integer (i64.load (i32.const 60000)))
           (call $integer (global.get $g))
           (call $integer (i64.extend_i32_u (memory.size)))
           (call $integer (i64.extend_i32_u (table.size $t)))
           (drop (memory.grow (i32.const 3)))
           (call $integer (i64.load (i32.const 200000)))
           (i64.store (i32.const 8) (i64.const 99)) (i64.store (i32.const 60000) (i64.const 98)) (i64.store (i32.const 200000) (i64.const 97))
           (global.set $g (i64.const 96)) (drop (table.grow $t (ref.null func) (i32.const 4)))
           (memory.fill (i32.const 1000) (i32.const 1) (i32.const 200000)))",
    );
    for _ in 0..5 {
        assert_eq!(line(&mut client, "HW.CALL m.run"), "*6 :7 :0 :5 :1 :1 :0");
    }
}

thread_local! {
    static CLOCK: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A clock by which every look takes a ms.
fn slow() -> u64 {
    CLOCK.set(CLOCK.get() + 1);
    CLOCK.get()
}

/// Commands that take long and little fuel.
#[test]
fn what_fuel_does_not_see_ends_by_the_clock() {
    let clock = Some(Clocks { wall: slow, cpu: slow });
    modules::limit(Limits { fuel: 0, memory_bytes: 4 << 20, clock });
    let mut client = with_module(&format!(
        "(import \"highwater1\" \"command\" (func $command (param i32 i32 i32 i32) (result i32))) {MEMORY}
         (data (i32.const 0) \"\\01\\00\\00\\00\\06\\00\\00\\00DBSIZE\")
         (func (export \"procedure:run\")
           (loop $again (drop (call $command (i32.const 0) (i32.const 14) (i32.const 99) (i32.const 9))) (br $again)))"
    ));
    ends(&mut client, "-NOFUEL the procedure was ended after 5 seconds of CPU time");
}
