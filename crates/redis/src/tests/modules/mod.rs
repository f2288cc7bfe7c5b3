//! HW.MODULE, and HW.CALL of what was loaded.

mod bounds;
mod compiling;
mod functions;
mod hostile;

use super::double::{Client, Node, multibulk, wire};
use crate::modules::{self, Limits};

/// Accounts in a table.
const LEDGER: &str = include_str!("ledger.wat");

fn spaced(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).replace("\r\n", " ").trim_end().to_string()
}

fn ask(client: &mut Client, words: &[&[u8]]) -> String {
    spaced(&client.send_bytes(&multibulk(words.iter().copied())))
}

fn load(client: &mut Client, name: &str, module: &str) -> String {
    ask(client, &[b"HW.MODULE", b"LOAD", name.as_bytes(), module.as_bytes()])
}

fn line(client: &mut Client, line: &str) -> String {
    spaced(&client.send_bytes(&wire(line)))
}

/// A client of a node that has the ledger, and accounts 1 and 2 with 100 each.
fn ledger() -> Client {
    let mut client = Node::new().client();
    assert_eq!(load(&mut client, "ledger", LEDGER), ":1");
    assert_eq!(line(&mut client, "HW.TABLE CREATE accounts u64"), "+OK");
    for account in [1, 2] {
        assert_eq!(line(&mut client, &format!("HW.CALL ledger.open {account} 100")), "+OK");
    }
    client
}

/// A client of a node with one module, whose one procedure `run` has this body; behind it stand functions, memory and data.
fn with_body(body: &str) -> Client {
    with_module(&format!("(memory (export \"memory\") 1) (func (export \"procedure:run\") {body})"))
}

fn with_module(fields: &str) -> Client {
    let mut client = Node::new().client();
    assert_eq!(load(&mut client, "m", &format!("(module {fields})")), ":1");
    client
}

fn bound(fuel: u64, mib: usize) {
    modules::limit(Limits { fuel, memory_bytes: mib << 20, clock: None });
}

/// The words against the cost of a module, which is not compiled.
fn refused_load(module: &str) -> Option<String> {
    let bytes = wat::parse_str(module).unwrap();
    modules::cost::check(&bytes).err().map(|why| why.to_string())
}

#[test]
fn a_procedure_works_on_tables_and_answers() {
    let mut client = ledger();
    let transfer = line(&mut client, "HW.CALL ledger.transfer 1 2 30");
    assert_eq!(transfer, "*4 $12 from_balance :70 $10 to_balance :130");
    assert_eq!(ask(&mut client, &[b"HW.GET", b"accounts", b"2"]), "$8 \u{fffd}\0\0\0\0\0\0\0");
    assert!(line(&mut client, "HELLO 3").starts_with('%'));
    let transfer = line(&mut client, "hw.call ledger.transfer 2 1 30");
    assert_eq!(transfer, "%2 $12 from_balance :100 $10 to_balance :100");
}

#[test]
fn what_fails_is_taken_back() {
    let mut client = ledger();
    let refused = "-ROLLEDBACK insufficient funds; nothing was done";
    assert_eq!(line(&mut client, "HW.CALL ledger.transfer 1 2 101"), refused);
    assert_eq!(line(&mut client, "HW.CALL ledger.balance 1"), ":100");
    for command in ["MULTI", "SET a 1", "HW.CALL ledger.transfer 1 2 50", "HW.CALL ledger.transfer 1 2 51"] {
        line(&mut client, command);
    }
    // A whole block, too.
    assert_eq!(line(&mut client, "EXEC"), refused);
    assert_eq!(line(&mut client, "GET a"), "$-1");
    assert_eq!(line(&mut client, "HW.CALL ledger.balance 1"), ":100");
}

#[test]
fn a_call_is_a_command_like_others() {
    let mut client = ledger();
    for command in ["MULTI", "INCR a", "HW.CALL ledger.transfer 1 2 50", "INCR a"] {
        line(&mut client, command);
    }
    assert_eq!(line(&mut client, "EXEC"), "*3 :1 *4 $12 from_balance :50 $10 to_balance :150 :2");
    assert_eq!(line(&mut client, "HW.BEGIN"), "+OK");
    assert_eq!(line(&mut client, "HW.CALL ledger.balance 1"), ":50");
    assert!(line(&mut client, "HW.CALL ledger.transfer 2 1 50").contains(":100 "));
    assert_eq!(line(&mut client, "HW.CALL ledger.balance 1"), ":100");
    assert_eq!(line(&mut client, "HW.ROLLBACK"), "+OK");
    assert_eq!(line(&mut client, "HW.CALL ledger.balance 1"), ":50");
}

#[test]
fn modules_have_versions_and_are_listed() {
    let mut client = ledger();
    assert!(load(&mut client, "ledger", LEDGER).starts_with("-MODULEEXISTS "));
    let other = "(module (func (export \"procedure:open\")))";
    assert_eq!(load(&mut client, "other", other), ":2");
    let digest = line(&mut client, "HW.MODULE INFO other");
    assert!(digest.starts_with("*12 $4 name $5 other $7 version :2 $6 sha256 $64 "), "{digest}");
    assert!(digest.contains(" $9 loaded_ms :1700000000000 $10 procedures *1 $4 open"), "{digest}");
    let listed = line(&mut client, "HW.MODULE LIST");
    assert!(listed.starts_with("*2 *12 $4 name $6 ledger "), "{listed}");
    assert!(listed.contains("procedures *3 $7 balance $4 open $8 transfer *12 $4 name $5 other"), "{listed}");
    // Another takes its place: what it had not is gone.
    let replaced = ask(&mut client, &[b"HW.MODULE", b"LOAD", b"ledger", other.as_bytes(), b"REPLACE"]);
    assert_eq!(replaced, ":3");
    assert!(line(&mut client, "HW.CALL ledger.balance 1").starts_with("-NOPROCEDURE "));
    assert_eq!(line(&mut client, "HW.CALL ledger.open"), "+OK");
    assert_eq!(line(&mut client, "HW.MODULE UNLOAD ledger"), ":1");
    assert_eq!(line(&mut client, "HW.MODULE UNLOAD ledger"), ":0");
    assert!(line(&mut client, "HW.CALL ledger.open").starts_with("-NOPROCEDURE "));
    assert!(line(&mut client, "HW.MODULE INFO ledger").starts_with("-NOMODULE "));
    // A version is given once.
    assert_eq!(load(&mut client, "ledger", LEDGER), ":4");
}

#[test]
fn the_version_is_the_transactions() {
    let mut client = with_body("");
    let next =
        "(module (import \"highwater1\" \"reply_integer\" (func (param i64))) (memory (export \"memory\") 1)
        (func (export \"procedure:run\") i64.const 2 call 0))";
    let mut block = |last: &str| {
        line(&mut client, "MULTI");
        line(&mut client, "HW.CALL m.run");
        ask(&mut client, &[b"HW.MODULE", b"LOAD", b"m", next.as_bytes(), b"REPLACE"]);
        line(&mut client, "HW.CALL m.run");
        line(&mut client, last)
    };
    assert_eq!(block("DISCARD"), "+OK");
    assert_eq!(block("EXEC"), "*3 +OK :2 :2");
}

#[test]
fn reading_calls_write_nothing() {
    let mut client = ledger();
    assert_eq!(line(&mut client, "HW.CALL_RO ledger.balance 1"), ":100");
    let refused = line(&mut client, "HW.CALL_RO ledger.transfer 1 2 3");
    assert_eq!(refused, "-ERR the procedure writes, and HW.CALL_RO does not");
    assert_eq!(line(&mut client, "HW.CALL ledger.balance 1"), ":100");
}

#[test]
fn whoever_may_call_need_not_touch_keys() {
    let mut client = ledger();
    assert_eq!(
        line(&mut client, "ACL SETUSER teller on nopass +hw.call|ledger.transfer +multi +exec"),
        "+OK"
    );
    assert_eq!(line(&mut client, "ACL SETUSER keeper on nopass +@all ~app:*"), "+OK");
    line(&mut client, "AUTH teller x");
    assert!(line(&mut client, "HW.CALL ledger.transfer 1 2 3").contains(":97 "));
    assert!(line(&mut client, "hw.invoke ledger.transfer 1 2 3").contains(":94 "));
    for denied in
        ["HW.CALL ledger.open 1 1", "HW.CALL_RO ledger.balance 1", "HW.MODULE LIST", "EVAL x 0", "GET a"]
    {
        assert!(line(&mut client, denied).starts_with("-NOPERM "), "{denied}");
    }
    // Whoever loads a module decides what all others may have done for them.
    line(&mut client, "AUTH keeper x");
    for denied in ["HW.MODULE LOAD x y", "HW.MODULE UNLOAD ledger"] {
        assert!(line(&mut client, denied).starts_with("-NOPERM "), "{denied}");
    }
    assert!(line(&mut client, "HW.MODULE LIST").starts_with("*1 "));
}

/// Once: a module could have a procedure of a name that the program around a node registers, and nobody could call it;
/// names of benchmarks' procedures were taken where nobody hosts them.
#[test]
fn names_of_procedures_that_the_node_hosts_are_taken() {
    let mut client = Node::new().client();
    modules::host(vec!["redis.exec", "bank.transfer"]);
    let module = |name: &str| format!("(module (func (export \"procedure:{name}\")))");
    let refused = load(&mut client, "Bank", &module("Transfer"));
    assert_eq!(refused, "-BADMODULE bank.transfer is a procedure that this node hosts");
    assert_eq!(load(&mut client, "bank", &module("transfers")), ":1");
    assert_eq!(line(&mut client, "HW.CALL bank.transfers"), "+OK");
}
