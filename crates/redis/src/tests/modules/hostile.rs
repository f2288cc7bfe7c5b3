//! Modules that mean harm, or are none.

use std::ops::{Bound, ControlFlow};

use highwater_core::transaction::KeyRange;
use highwater_core::{Abort, Direction, TableId, Timestamp, Transaction};
use proptest::prelude::*;

use super::{Client, LEDGER, ask, bound, line, load};
use crate::keyspace::{Failure, Keyspace, Stop};
use crate::modules::compiled::{digest_of, known};
use crate::modules::{Checked, MAX_MODULE_BYTES, MODULES, call, catalogue};
use crate::moment::Moment;
use crate::reply::{Protocol, Reply};
use crate::request::Args;
use crate::tests::double::{Map, Node};

fn refused(module: &str) -> String {
    let mut client = Node::new().client();
    let reply = load(&mut client, "m", &format!("(module {module})"));
    assert!(reply.starts_with("-BADMODULE "), "{module}: {reply}");
    assert_eq!(client.node.rows(MODULES), 0, "{module}");
    reply
}

const RUN: &str = "(func (export \"procedure:run\"))";

#[test]
fn what_is_no_module_is_refused() {
    bound(1_000_000, 4);
    let mut client = Node::new().client();
    for bytes in [
        &b""[..],
        b"x",
        b"(module",
        b"\0asm",
        b"\0asm\x01\0\0\0",
        b"\0asm\x02\0\0\0",
        b"\0asm\x0d\0\x01\0",
        &[0xff; 99],
    ] {
        let reply = ask(&mut client, &[b"HW.MODULE", b"LOAD", b"m", bytes]);
        assert!(reply.starts_with("-BADMODULE "), "{bytes:?}: {reply}");
    }
    let long = vec![b' '; MAX_MODULE_BYTES + 1];
    let reply = ask(&mut client, &[b"HW.MODULE", b"LOAD", b"m", &long]);
    assert_eq!(reply, "-BADMODULE it has more than 1048576 bytes");
    let deep = format!("(module {} {})", "(".repeat(100_000), ")".repeat(100_000));
    assert!(load(&mut client, "m", &deep).starts_with("-BADMODULE "));
    // A compiler that is not optimised takes a minute for five times as many; one that is takes 1.2 s for all that fit into a module.
    let deep = format!(
        "(module (func (export \"procedure:run\") {} {}))",
        "block ".repeat(10_000),
        "end ".repeat(10_000)
    );
    let reply = load(&mut client, "m", &deep);
    assert!(reply.starts_with("-BADMODULE ") || reply.starts_with(':'), "{reply}");
    for name in ["", "a b", "a.b", "ä", &"a".repeat(65)] {
        let reply = load(&mut client, name, &format!("(module {RUN})"));
        assert!(reply.starts_with("-BADMODULE a module's name is "), "{name}: {reply}");
    }
    assert!(load(&mut client, &"a".repeat(64), &format!("(module {RUN})")).starts_with(':'));
}

#[test]
fn what_a_module_may_not_have_is_said() {
    bound(1_000_000, 4);
    let one = "(memory (export \"memory\") 1)";
    for (module, why) in [
        ("", "exports no function whose name begins with procedure:"),
        ("(func (export \"run\"))", "exports no function"),
        ("(memory (export \"procedure:run\") 1)", "no function without parameters"),
        ("(global (export \"procedure:run\") i32 (i32.const 1))", "no function without parameters"),
        ("(func (export \"procedure:run\") (param i32))", "no function without parameters"),
        ("(func (export \"procedure:run\") (result i32) (i32.const 1))", "no function without parameters"),
        ("(func (export \"procedure:\"))", "a procedure's name is"),
        ("(func (export \"procedure:a.b\"))", "a procedure's name is"),
        (
            &format!("(import \"env\" \"abort\" (func)) {one} {RUN}"),
            "it imports env.abort; modules import from highwater1 only",
        ),
        (
            &format!("(import \"wasi_snapshot_preview1\" \"fd_write\" (func)) {one} {RUN}"),
            "modules import from highwater1 only",
        ),
        (&format!("(import \"highwater2\" \"get\" (func)) {one} {RUN}"), "it imports highwater2.get"),
        (&format!("(import \"highwater1\" \"exec\" (func)) {one} {RUN}"), "unknown import"),
        (&format!("(import \"highwater1\" \"get\" (func)) {one} {RUN}"), "incompatible import type"),
        (&format!("(import \"highwater1\" \"memory\" (memory 1)) {RUN}"), "exports no memory"),
        (&format!("(import \"highwater1\" \"now\" (func (result i64))) {RUN}"), "exports no memory"),
        (
            &format!("(memory (export \"memory\") 65) {RUN}"),
            "65 pages of memory; limits.procedure_memory_mb is 64",
        ),
        (&format!("(memory (export \"memory\") 65536) {RUN}"), ""),
        (&format!("(table 100000 funcref) {RUN}"), ""),
        (&format!("(table 4294967295 funcref) {RUN}"), ""),
        (&format!("(table 1 funcref) (table 1 funcref) {RUN}"), ""),
        (&format!("(memory 1) (memory 1) {RUN}"), ""),
        (&format!("(memory i64 1) {RUN}"), ""),
        (&format!("(memory 1 1 shared) {RUN}"), ""),
        (
            &format!(
                "{one} (func (export \"procedure:run\") (v128.store (i32.const 0) (f32x4.relaxed_madd (v128.const i64x2 0 0) (v128.const i64x2 0 0) (v128.const i64x2 0 0))))"
            ),
            "",
        ),
        ("(func $f (export \"procedure:run\") (return_call $f))", ""),
        ("(tag $t) (func (export \"procedure:run\") (throw $t))", ""),
        ("(func (export \"procedure:run\") (drop (struct.new 0))) (type (struct))", ""),
        ("(func (export \"procedure:run\") (i32.add))", "type mismatch"),
    ] {
        let reply = refused(module);
        assert!(reply.contains(why), "{module}: {reply}");
        assert!(reply.len() < 400, "{reply}");
    }
    let many: String = (0..257).map(|at| format!("(func (export \"procedure:p{at}\"))")).collect();
    assert!(refused(&many).contains("more than 256 procedures"));
}

#[test]
fn all_modules_together_are_bounded() {
    bound(1_000_000, 4);
    let mut client = Node::new().client();
    let module = |at: usize| {
        let zeros = "\\00".repeat(300_000);
        format!("(module {RUN} (memory (export \"memory\") 16) (data (i32.const 0) \"{at} {zeros}\"))")
    };
    let mut loaded = 0;
    let reply = loop {
        let reply = load(&mut client, &format!("m{loaded}"), &module(loaded));
        if !reply.starts_with(':') {
            break reply;
        }
        loaded += 1;
    };
    assert_eq!(reply, "-BADMODULE all modules together may have 33554432 bytes");
    assert_eq!(loaded, 111);
    assert_eq!(line(&mut client, "HW.CALL m110.run"), "+OK");
    assert_eq!(line(&mut client, "HW.CALL m0.run"), "+OK", "it was forgotten, and is compiled anew");
    assert_eq!(line(&mut client, "HW.MODULE UNLOAD m3"), ":1");
    assert_eq!(load(&mut client, "m3", &module(3)), ":112");
}

/// A node that did not see the module being loaded has the rows and nothing else: so it is after a failover, and after a start.
#[test]
fn a_module_is_compiled_where_it_is_needed() {
    bound(1_000_000, 4);
    let bytes = wat::parse_str(format!("(module {RUN} (func (drop (i64.const 8472639))))")).unwrap();
    let digest = digest_of(&bytes);
    assert!(known(&digest).is_none(), "nobody else has this one");
    let module = Checked { digest, bytes, procedures: vec!["run".into()] };
    let mut map = Map::default();
    assert_eq!(catalogue::load(&mut map, b"m", &module, None, 5), Ok(Some(1)));
    let mut client = Node::new().client();
    let all = (Bound::Unbounded, Bound::Unbounded);
    let copied = map.scan(MODULES, all, Direction::Forward, |key, value| {
        client.node.put(MODULES, key, value);
        ControlFlow::Continue(())
    });
    assert_eq!(copied, Ok(()));
    for _ in 0..3 {
        assert_eq!(line(&mut client, "HW.CALL m.run"), "+OK");
    }
    assert!(known(&digest).is_some());
    // Other threads use what this one has compiled.
    assert!(std::thread::spawn(move || known(&digest).is_some()).join().unwrap());
}

/// Rows of two moments, which an attempt may see: it is tried again.
#[test]
fn bytes_of_another_version_are_never_run() {
    let bytes = wat::parse_str(format!("(module {RUN} (func (drop (i64.const 77223311))))")).unwrap();
    let module = Checked { digest: [7; 32], bytes, procedures: vec!["run".into()] };
    let mut map = Map::default();
    assert_eq!(catalogue::load(&mut map, b"m", &module, None, 5), Ok(Some(1)));
    let mut keyspace = Keyspace::new(&mut map, Moment::default());
    let (mut out, args) = (Vec::new(), Args::none());
    let called =
        call((b"m", b"run"), [7; 32], args, false, &mut keyspace, &mut Reply::new(&mut out, Protocol::Resp2));
    assert!(matches!(called, Err(Failure::Stop(Stop::Abort(Abort::Conflict)))), "{called:?}");
    assert!(known(&[7; 32]).is_none());
}

fn call_all(client: &mut Client, names: &[&str]) {
    for name in names {
        for args in ["", " 1", " 1 2 3", " 1 2 99999999999999999999"] {
            let reply = line(client, &format!("HW.CALL m.{name}{args}"));
            assert!(!reply.contains("panicked"), "{reply}");
            assert!(!reply.starts_with("-ERR the command failed"), "{reply}");
        }
    }
    assert_eq!(line(client, "PING"), "+PONG");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // PROPTEST_CASES=100000 for longer.
    /// Whatever becomes of a module on its way: it is refused, or it runs and ends.
    #[test]
    fn damaged_modules_are_refused_or_contained(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        code_only in any::<bool>(),
    ) {
        bound(100_000, 2);
        let mut bytes = wat::parse_str(LEDGER).unwrap();
        // Most of what is changed at the front is found at once: half of the time only code is changed.
        let first = if code_only { bytes.len() / 2 } else { 8 };
        for (at, byte) in changes {
            let at = first + at.index(bytes.len() - first);
            bytes[at] = byte;
        }
        if let Some(cut) = cut.filter(|_| !code_only) {
            bytes.truncate(cut.index(bytes.len()));
        }
        let mut client = Node::new().client();
        line(&mut client, "HW.TABLE CREATE accounts u64");
        let reply = ask(&mut client, &[b"HW.MODULE", b"LOAD", b"m", &bytes]);
        prop_assert!(reply == ":1" || reply.starts_with("-BADMODULE "), "{}", reply);
        if reply == ":1" {
            call_all(&mut client, &["open", "transfer", "balance"]);
        }
    }
}

/// A transaction whose code panics at the first key that is read.
struct Broken;

impl Transaction for Broken {
    fn get(&mut self, _: TableId, _: &[u8]) -> Result<Option<&[u8]>, Abort> {
        panic!("planted")
    }

    fn put(&mut self, _: TableId, _: &[u8], _: &[u8]) -> Result<(), Abort> {
        unreachable!("nothing is written")
    }

    fn insert(&mut self, _: TableId, _: &[u8], _: &[u8]) -> Result<bool, Abort> {
        unreachable!("nothing is written")
    }

    fn delete(&mut self, _: TableId, _: &[u8]) -> Result<bool, Abort> {
        unreachable!("nothing is written")
    }

    fn scan<F>(&mut self, _: TableId, _: KeyRange<'_>, _: Direction, _: F) -> Result<(), Abort>
    where
        F: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        unreachable!("nothing is scanned")
    }

    fn version(&mut self, _: TableId, _: &[u8]) -> Result<Timestamp, Abort> {
        unreachable!("nothing is watched")
    }
}

/// A panic under a procedure passes through it, to who contains those of procedures.
#[test]
fn a_panic_of_ours_is_no_trap() {
    bound(1_000_000, 4);
    let get = "(import \"highwater1\" \"key_get\" (func $get (param i32 i32 i32 i32) (result i32)))";
    let run = "(func (export \"procedure:run\") (drop (call $get (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0))))";
    let module = format!("(module {get} (memory (export \"memory\") 1) {run})");
    let mut client = Node::new().client();
    assert_eq!(load(&mut client, "m", &module), ":1");
    let digest = digest_of(&wat::parse_str(&module).unwrap());
    for _ in 0..3 {
        let panicked = std::panic::catch_unwind(|| {
            let (mut broken, mut out) = (Broken, Vec::new());
            let mut keyspace = Keyspace::new(&mut broken, Moment::default());
            let mut reply = Reply::new(&mut out, Protocol::Resp2);
            let _ = call((b"m", b"run"), digest, Args::none(), false, &mut keyspace, &mut reply);
        });
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"planted"));
        assert_eq!(line(&mut client, "HW.CALL m.run"), "+OK");
    }
}
