//! HW.CALL HW.PROCEDURES, on an engine that hosts the product's procedures.

use std::collections::BTreeSet;

use highwater_core::{Abort, Library, Registry};

use super::WITH_WORKLOADS;
use super::double::{Map, multibulk};
use super::sessions::Alone;

/// A node with ten accounts of 100.
fn bank() -> Alone {
    let mut alone = Alone::new();
    let mut connection = alone.connect();
    assert_eq!(alone.ask(&mut connection, &["HW.CALL bank.load 0 10 100"]), "+OK");
    alone
}

#[test]
fn a_call_has_typed_arguments_and_a_named_reply() {
    let mut alone = bank();
    let mut client = alone.connect();
    let mut ask = |line: &str| alone.ask(&mut client, &[line]);
    assert_eq!(ask("hw.call Bank.Transfer 1 2 30"), "*4 $12 from_balance :70 $10 to_balance :130");
    assert_eq!(ask("HW.CALL bank.sample 1 2 3"), "*2 $8 balances *3 :70 :130 :100");
    assert_eq!(ask("HW.CALL bank.audit 0 10"), "*2 $3 sum :1000");
    assert!(ask("HELLO 3").starts_with('%'));
    assert_eq!(ask("HW.CALL bank.transfer 2 1 30"), "%2 $12 from_balance :100 $10 to_balance :100");
}

#[test]
fn raw_arguments_give_raw_replies() {
    let mut alone = bank();
    let mut client = alone.connect();
    let accounts = [1u64, 2].map(u64::to_le_bytes).concat();
    client.receive(&multibulk([&b"HW.CALL"[..], b"bank.sample", b"RAW", &accounts].into_iter()));
    let reply = alone.ask(&mut client, &["PING"]);
    let balances = [100i64, 100].map(i64::to_le_bytes).concat();
    assert_eq!(reply.as_bytes(), [b"$16 ", &balances[..], b" +PONG"].concat());
    assert_eq!(alone.ask(&mut client, &["HW.CALL audit.noop RAW \"\"", "HW.CALL audit.noop"]), "$0  +OK");
}

#[test]
fn what_goes_wrong_is_said() {
    let mut alone = bank();
    let mut client = alone.connect();
    let mut ask = |line: &str| alone.ask(&mut client, &[line]);
    assert_eq!(ask("HW.CALL bank.transfer 1 2 101"), "-ROLLEDBACK insufficient funds; nothing was done");
    assert!(
        ask("HW.CALL bank.transfer 1 1 1")
            .starts_with("-BADREQUEST bank.transfer (from an account to itself)")
    );
    assert_eq!(
        ask("HW.CALL bank.transfer 1 2 -3"),
        "-BADREQUEST bank.transfer takes [from:u64 to:u64 amount:u32]; 'amount' cannot be what was given"
    );
    assert!(ask("HW.CALL bank.transfer 1 2").ends_with("the number of words is another"));
    assert!(ask("HW.CALL bank.transfer RAW").starts_with("-ERR wrong number of arguments"));
    assert!(ask("HW.CALL bank.transfer RAW a b").starts_with("-ERR wrong number of arguments"));
    assert!(ask("HW.CALL bank.transfer RAW abc").starts_with("-BADREQUEST "));
    for internal in
        ["redis.exec", "redis.watch", "sessions.open", "sessions.sweep", "tpcc.load_items", "no.such"]
    {
        assert!(ask(&format!("HW.CALL {internal} RAW x")).starts_with("-NOPROCEDURE "), "{internal}");
    }
    assert_eq!(ask("HW.CALL bank.audit 0 10"), "*2 $3 sum :1000");
}

#[test]
fn a_block_takes_no_call() {
    let mut alone = bank();
    let mut client = alone.connect();
    let reply =
        alone.ask(&mut client, &["MULTI", "HW.CALL bank.audit 0 10", "EXEC", "HW.CALL bank.audit 0 10"]);
    assert!(reply.starts_with("+OK -ERR HW.CALL is a transaction of its own"), "{reply}");
    assert!(reply.contains("-EXECABORT ") && reply.ends_with("sum :1000"), "{reply}");
}

#[test]
fn an_open_transaction_takes_no_call() {
    let mut alone = bank();
    let mut client = alone.connect();
    let reply = alone.ask(&mut client, &["HW.BEGIN", "HW.CALL bank.audit 0 10", "HW.COMMIT"]);
    assert!(reply.starts_with("+OK -ERR ") && reply.ends_with(" +OK"), "{reply}");
}

#[test]
fn a_call_under_a_session_runs_once() {
    let mut alone = bank();
    let session = alone.open();
    let (mut one, mut other) = (alone.connect(), alone.connect());
    let transfer = format!("HW.ONCE {session} 1 HW.CALL bank.transfer 1 2 3");
    let reply = "*4 $12 from_balance :97 $10 to_balance :103";
    assert_eq!(alone.ask(&mut one, &[&transfer]), reply);
    assert_eq!(alone.ask(&mut other, &[&transfer]), reply);
    let outcome = alone.ask(&mut one, &[&format!("HW.OUTCOME {session} 1")]);
    let bytes = [97i64, 103].map(i64::to_le_bytes).concat();
    let bytes = String::from_utf8_lossy(&bytes).into_owned();
    assert_eq!(outcome, format!("*2 $9 committed $16 {bytes}"));
    let refused = format!("HW.ONCE {session} 2 HW.CALL bank.transfer 1 2 300");
    for client in [&mut one, &mut other] {
        assert!(alone.ask(client, &[&refused]).starts_with("-ROLLEDBACK insufficient funds"));
    }
    assert_eq!(
        alone.ask(&mut one, &[&format!("HW.OUTCOME {session} 2 raw")]),
        "*2 $10 rolledback $18 insufficient funds"
    );
    assert!(
        alone
            .ask(&mut one, &[&format!("HW.ONCE {session} 2 HW.PROCEDURES")])
            .starts_with("-ERR HW.ONCE runs")
    );
    assert_eq!(alone.ask(&mut one, &["HW.CALL bank.audit 0 10"]), "*2 $3 sum :1000");
}

#[test]
fn procedures_are_listed_with_signatures() {
    let mut alone = bank();
    let mut client = alone.connect();
    let listed = alone.ask(&mut client, &["HW.PROCEDURES bank.t*"]);
    assert_eq!(
        listed,
        "*1 *10 $4 name $13 bank.transfer $7 version :1 $5 reads :0 $9 arguments $26 from:u64 to:u64 amount:u32 \
         $5 reply $31 from_balance:i64 to_balance:i64"
    );
    let all = alone.ask(&mut client, &["HW.PROCEDURES"]);
    assert!(["tpcc.new_order", "ycsb.rmw", "retwis.post"].iter().all(|name| all.contains(name)), "{all}");
    assert!(!all.contains("redis."));
}

/// Whatever it is given, a signature's arguments are read by its procedure, and its replies by itself.
#[test]
fn signatures_fit_their_procedures() {
    let mut registry = Registry::<Map>::new();
    WITH_WORKLOADS.register(&mut registry);
    let lines = [
        ("audit.append", "3 9"),
        ("audit.noop", ""),
        ("bank.load", "0 5 100"),
        ("bank.transfer", "1 2 30"),
        ("bank.sample", "1 2 3"),
        ("bank.audit", "0 5"),
        ("ycsb.load", "0 4 16"),
        ("ycsb.read", "0 1"),
        ("ycsb.rmw", "0 1"),
        ("ycsb-t.load", "0 4"),
        ("ycsb-t.rmw", "3"),
        ("retwis.load", "0 10"),
        ("retwis.add_user", "1 2 7"),
        ("retwis.follow", "1 2"),
        ("retwis.post", "1 2 3 4 8"),
        ("retwis.timeline", "1 2 4"),
    ];
    let mut map = Map::default();
    for (name, line) in lines {
        let id = registry.find(name).unwrap();
        let signature = registry.signatures()[usize::from(id.0)].unwrap_or_else(|| panic!("{name}"));
        let mut args = Vec::new();
        signature.encode(line.split_whitespace().map(str::as_bytes), &mut args).unwrap();
        let mut reply = Vec::new();
        assert_eq!(registry.run(id, &mut map, &args, &mut reply), Ok(()), "{name}: {reply:?}");
        let values = signature.decode(&reply).unwrap();
        assert_eq!(values.len(), signature.reply.len(), "{name}");
    }
    let tpcc: BTreeSet<_> = [
        ("tpcc.new_order", "split 1 1 1 0 5 1 1 3"),
        ("tpcc.payment", "split 1 1 1 1 name BARBARBAR 100 5"),
        ("tpcc.order_status", "silo 1 1 id 3000"),
        ("tpcc.delivery", "split 1 10 5"),
        ("tpcc.stock_level", "silo 1 10 20 0"),
    ]
    .into();
    for (name, line) in tpcc {
        let id = registry.find(name).unwrap();
        let mut args = Vec::new();
        let signature = registry.signatures()[usize::from(id.0)].unwrap();
        signature.encode(line.split_whitespace().map(str::as_bytes), &mut args).unwrap();
        let mut reply = Vec::new();
        let ended = registry.run(id, &mut map, &args, &mut reply);
        // Nothing is loaded: the arguments made sense if the first row that is missed is the reason.
        let reason = String::from_utf8_lossy(&reply);
        assert!(
            ended == Ok(()) || ended == Err(Abort::BadRequest) && reason.starts_with("no "),
            "{name}: {reason}"
        );
    }
}
