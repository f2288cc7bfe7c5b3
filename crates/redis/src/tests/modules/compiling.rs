//! Tests of where modules are compiled, who waits for that, and what is refused because it would take too long.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use highwater_core::{Direction, Transaction};
use highwater_seam::Refusal;

use super::{Client, bound, line, load, refused_load};
use crate::endings::COMPILING;
use crate::modules::compiled::{digest_of, known};
use crate::modules::compiler::{Compiler, compile_by};
use crate::modules::{Checked, MODULES, Unready, catalogue, check, compile, line_of_loads};
use crate::tests::double::{Map, Node, multibulk, wire};

/// A compiler for this thread that has not begun yet.
fn idle() -> Arc<Compiler> {
    let compiler = Arc::new(Compiler::default());
    compile_by(compiler.clone());
    bound(1_000_000, 4);
    compiler
}

/// It begins; the lines that it wakes.
fn begin(compiler: &Arc<Compiler>) -> Receiver<Vec<u8>> {
    let (compiler, (tell, told)) = (compiler.clone(), channel());
    std::thread::spawn(move || {
        bound(1_000_000, 4);
        compiler.run(compile, |line| tell.send(line.to_vec()).unwrap_or_default());
    });
    told
}

/// A module that no other test has.
fn module(number: u64) -> String {
    format!("(module (func (export \"procedure:run\")) (func (drop (i64.const {number}))))")
}

/// Whoever stands in a line of these is woken, as the node does it, until this client has its answer.
fn answer(client: &mut Client, told: &Receiver<Vec<u8>>) -> String {
    loop {
        client.node.door().waiting.wake_line(&told.recv().expect("it compiles"));
        for id in client.node.woken() {
            assert_eq!(id, 0x700);
            client.connection.look_again();
        }
        let answer = client.go_on();
        if !answer.is_empty() {
            return answer;
        }
    }
}

#[test]
fn who_loads_a_module_waits_and_nobody_else_does() {
    let compiler = idle();
    let node = Node::new();
    let (mut client, mut other) = (node.client_of(0x700), node.client_of(0x800));
    let bytes = module(4_711);
    let words = [&b"HW.MODULE"[..], b"LOAD", b"m", bytes.as_bytes()];
    // What stands behind it in its connection waits with it.
    let pipeline = [multibulk(words.into_iter()), wire("HW.CALL m.run"), wire("HW.MODULE LIST")].concat();
    assert_eq!(client.send(&pipeline), "");
    assert_eq!(other.ask("SET a 1"), "+OK\r\n");
    assert_eq!(other.ask("HW.MODULE LIST"), "*0\r\n");
    assert!(known(&digest_of(&wat::parse_str(&bytes).unwrap())).is_none(), "this thread has not compiled it");
    let told = begin(&compiler);
    let answers = answer(&mut client, &told);
    assert!(answers.starts_with(":1\r\n+OK\r\n*1\r\n"), "{answers}");
    assert!(!node.door().waiting.is_any());
    // The same text again is known.
    assert_eq!(load(&mut other, "n", &bytes), ":2");
    compiler.end();
}

#[test]
fn two_loads_of_one_text_are_compiled_once_and_both_are_answered() {
    let compiler = idle();
    let node = Node::new();
    let (mut first, mut second) = (node.client_of(0x100), node.client_of(0x200));
    let bytes = module(4_712);
    for (client, name) in [(&mut first, "m"), (&mut second, "n")] {
        let words = [&b"HW.MODULE"[..], b"LOAD", name.as_bytes(), bytes.as_bytes()];
        assert_eq!(client.send(&multibulk(words.into_iter())), "");
    }
    let told = begin(&compiler);
    assert_eq!([told.recv(), told.recv()], [Ok(line_of_loads(b"m")), Ok(line_of_loads(b"n"))]);
    for (client, version) in [(&mut first, ":1\r\n"), (&mut second, ":2\r\n")] {
        client.connection.look_again();
        assert_eq!(client.go_on(), version);
    }
    compiler.end();
}

#[test]
fn what_cannot_be_loaded_is_said_once_it_was_looked_at() {
    let compiler = idle();
    let mut client = Node::new().client_of(0x700);
    let words = [&b"HW.MODULE"[..], b"LOAD", b"m", b"(module (func) (;4713;))"];
    assert_eq!(client.send(&multibulk(words.into_iter())), "");
    let told = begin(&compiler);
    let answer = answer(&mut client, &told);
    assert!(answer.starts_with("-BADMODULE it exports no function"), "{answer}");
    assert_eq!(client.node.rows(MODULES), 0);
    compiler.end();
}

/// A node that has the rows and has compiled nothing: so it is after a failover.
fn with_rows(number: u64) -> Node {
    let bytes = wat::parse_str(module(number)).unwrap();
    let module = Checked { digest: digest_of(&bytes), bytes, procedures: vec!["run".into()] };
    let (mut map, node) = (Map::default(), Node::new());
    assert_eq!(catalogue::load(&mut map, b"m", &module, None, 5), Ok(Some(1)));
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let copied = map.scan(MODULES, all, Direction::Forward, |key, value| {
        node.put(MODULES, key, value);
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(copied, Ok(()));
    node
}

#[test]
fn a_call_waits_for_a_module_that_another_node_loaded() {
    let compiler = idle();
    let node = with_rows(4_714);
    let (mut client, mut other) = (node.client_of(0x700), node.client_of(0x800));
    assert_eq!(client.send(&[wire("HW.CALL m.run"), wire("PING")].concat()), "");
    // What cannot wait is told what to do, and nothing of it is done.
    let told = format!("-{}\r\n", String::from_utf8_lossy(COMPILING));
    for command in ["MULTI", "SET a 1", "HW.CALL m.run"] {
        other.ask(command);
    }
    assert_eq!(other.ask("EXEC"), told);
    assert_eq!(other.ask("GET a"), "$-1\r\n");
    assert_eq!(other.ask("HW.BEGIN"), "+OK\r\n");
    assert_eq!(other.ask("HW.CALL m.run"), told);
    other.ask("HW.ROLLBACK");
    let woken = begin(&compiler);
    assert_eq!(answer(&mut client, &woken), "+OK\r\n+PONG\r\n");
    for command in ["MULTI", "SET a 1", "HW.CALL m.run"] {
        other.ask(command);
    }
    assert_eq!(other.ask("EXEC"), "*2\r\n+OK\r\n+OK\r\n");
    // From now on calls are not held up by each other.
    client.start(&["HW.CALL m.run", "HW.CALL m.run"]);
    assert_eq!(client.held.len(), 2);
    compiler.end();
}

#[test]
fn a_node_has_modules_compiled_before_they_are_called() {
    let compiler = idle();
    let mut client = with_rows(4_715).client();
    assert_eq!(line(&mut client, "HW.MODULE COMPILE"), ":1");
    assert_eq!(line(&mut client, "HW.MODULE COMPILE"), ":1", "it has not begun");
    let _told = begin(&compiler);
    // Nobody waits, so nobody is woken.
    while line(&mut client, "HW.MODULE COMPILE") != ":0" {
        std::thread::yield_now();
    }
    assert_eq!(line(&mut client, "HW.CALL m.run"), "+OK");
    compiler.end();
}

#[test]
fn who_waits_for_a_compiler_is_referred_when_the_node_serves_no_more() {
    let _compiler = idle();
    let mut client = with_rows(4_716).client_of(0x700);
    assert_eq!(client.ask("HW.CALL m.run"), "");
    client.connection.look_again();
    let refused = client.ask_refused("PING", Refusal::NotServing { ask: None });
    assert!(refused.starts_with("-NOTLEADER "), "{refused}");
    assert!(refused.ends_with("+PONG\r\n"), "{refused}");
}

#[test]
fn more_modules_than_may_wait_are_refused() {
    let _compiler = idle();
    let node = Node::new();
    let mut refused = 0;
    for at in 0..20 {
        let bytes = module(5_000_000 + at);
        let words = [&b"HW.MODULE"[..], b"LOAD", b"m", bytes.as_bytes()];
        let reply = node.client_of(at << 8).send(&multibulk(words.into_iter()));
        refused += u64::from(reply.starts_with("-BUSY too many modules wait to be compiled"));
        assert!(reply.is_empty() || reply.starts_with("-BUSY "), "{reply}");
    }
    assert_eq!(refused, 4);
    assert_eq!(node.rows(MODULES), 0);
}

const RUN: &str = "(func (export \"procedure:run\"))";

/// Loops around each other, and variables that are used in the innermost one.
fn nest(loops: usize, variables: usize) -> String {
    let uses =
        (0..variables).fold(String::new(), |uses, at| uses + &format!("(local.set {at} (local.get {at}))"));
    format!(
        "(module {RUN} (func (local {}) {} {uses} {}))",
        "i64 ".repeat(variables),
        "loop ".repeat(loops),
        "end ".repeat(loops)
    )
}

/// One function that does this so often.
fn many(what: &str, times: usize) -> String {
    format!("(module {RUN} (func {}))", what.repeat(times))
}

/// A text that takes a compiler seconds for kilobytes is told from its text.
#[test]
fn what_would_take_too_long_to_compile_is_refused() {
    bound(1_000_000, 4);
    let branches = |count: usize| {
        format!("(module {RUN} (func (param i32) (br_table {} (local.get 0))))", "0 ".repeat(count))
    };
    for (module, why) in [
        (nest(1500, 1500), "2097152 pairs of a branch and a variable"),
        (many("(loop (br_if 0 (i32.const 0)))", 20_000), "pairs of a branch and a variable, or of branches"),
        (many("(if (i32.const 1) (then (nop)))", 30_000), "or of branches"),
        (many("(block (br_if 0 (i32.const 1)))", 30_000), "or of branches"),
        (many("(block (br 0))", 30_000), "or of branches"),
        (format!("(module {RUN} {})", "(func (local i64) (loop) (loop))".repeat(20_000)), "20000 functions"),
        (branches(70_000), "65536 places in its tables of branches"),
        (
            format!("(module {RUN} {})", "(global i32 (i32.const 1))".repeat(20_001)),
            "20000 types, imports, globals",
        ),
        (
            format!("(module {RUN} (memory 1) {})", "(data (i32.const 0) \"a\")".repeat(20_001)),
            "exports and segments",
        ),
        (
            format!("(module {RUN} {})", "(func (param i64) (if (i32.const 1) (then (nop))))".repeat(19_000)),
            "",
        ),
    ] {
        let reply = refused_load(&module);
        if why.is_empty() {
            assert_eq!(reply, None, "{}", &module[..200]);
            continue;
        }
        let reply = reply.expect("it is refused");
        assert!(reply.starts_with("BADMODULE it takes too long to compile"), "{reply}");
        assert!(reply.contains(why), "{why}: {reply}");
    }
    // What compilers of other languages write stays far below.
    let blocks = format!("(module {RUN} (func {} {}))", "block ".repeat(50_000), "end ".repeat(50_000));
    for module in [
        nest(300, 300),
        many("(if (i32.const 1) (then (nop)))", 3_000),
        branches(2000),
        blocks,
        super::LEDGER.into(),
    ] {
        assert_eq!(refused_load(&module), None);
    }
}

/// A check on a thread that compiles by itself.
#[test]
fn a_thread_without_a_compiler_compiles_at_once() {
    bound(1_000_000, 4);
    let bytes = wat::parse_str(module(4_717)).unwrap();
    assert!(matches!(check(&bytes, b"m"), Ok(Checked { .. })));
    assert!(known(&digest_of(&bytes)).is_some());
    assert_eq!(check(b"", b"m").map_err(|why| matches!(why, Unready::Refused(_))).map(drop), Err(true));
}
