//! READONLY: which requests may run on a replica's snapshot.

use highwater_core::{NodeId, Outcome, Timestamp};
use highwater_seam::{Freshness, Refusal};

use super::double::{Client, Node};

/// Whether the engine's requests of these commands might have run on a snapshot.
fn on_snapshots(client: &mut Client, commands: &[&str]) -> Vec<bool> {
    client.start(commands);
    let mut asked = Vec::new();
    while let Some(held) = client.held.front() {
        asked.push(held.snapshot);
        client.release(0);
        client.submit();
    }
    asked
}

#[test]
fn reads_of_a_readonly_connection_may_run_on_snapshots() {
    let mut client = Node::new().client();
    assert_eq!(on_snapshots(&mut client, &["GET a", "MGET a b"]), [false, false]);
    let reads = ["READONLY", "GET a", "MGET a b", "EXISTS a", "STRLEN a", "WATCH a"];
    assert_eq!(on_snapshots(&mut client, &reads), [true; 5]);
    assert_eq!(on_snapshots(&mut client, &["UNWATCH", "SET a 1", "INCR b", "DEL a"]), [false; 3]);
    assert_eq!(on_snapshots(&mut client, &["READWRITE", "GET a"]), [false]);
}

#[test]
fn a_block_is_read_on_one_snapshot_if_it_only_reads() {
    let mut client = Node::new().client();
    assert_eq!(
        on_snapshots(&mut client, &["READONLY", "MULTI", "GET a", "PING", "EXISTS a", "EXEC"]),
        [true]
    );
    assert_eq!(on_snapshots(&mut client, &["MULTI", "GET a", "SET a 1", "EXEC"]), [false]);
    assert_eq!(on_snapshots(&mut client, &["MULTI", "GET a", "READWRITE", "EXEC", "GET a"]), [false, false]);
}

#[test]
fn writes_of_a_readonly_connection_name_the_leader() {
    let mut client = Node::new().client();
    client.ask("READONLY");
    let refusal = Refusal::NotServing { ask: Some(NodeId(1)) };
    let answer = client.ask_refused("SET a 1", refusal);
    assert_eq!(answer, "-NOTLEADER leader is node 1 at 10.0.0.2:6380\r\n");
}

/// What the engine's requests of these commands ask of a snapshot.
fn freshness(client: &mut Client, commands: &[&str]) -> Vec<Option<Freshness>> {
    client.start(commands);
    let mut asked = Vec::new();
    while let Some(held) = client.held.front() {
        asked.push(held.freshness);
        client.release(0);
        client.submit();
    }
    asked
}

#[test]
fn reads_on_snapshots_ask_for_the_freshness_that_their_connection_wants() {
    let mut client = Node::new().client();
    let within = Some(Freshness::Within(1_500_000_000));
    assert_eq!(freshness(&mut client, &["HW.FRESHNESS WITHIN 1500", "GET a", "SET a 1"]), [None, None]);
    let reads = ["READONLY", "GET a", "WATCH a", "MULTI", "GET a", "EXEC"];
    assert_eq!(freshness(&mut client, &reads), [within; 3]);
    assert_eq!(freshness(&mut client, &["SET a 1", "MULTI", "GET a", "INCR b", "EXEC"]), [None; 2]);
    let since = Some(Freshness::Since(Timestamp(77)));
    let some = ["hw.freshness since 77", "GET a", "HW.FRESHNESS ANY", "GET a"];
    assert_eq!(freshness(&mut client, &some), [since, None]);
    assert_eq!(freshness(&mut client, &["HW.FRESHNESS WITHIN 0", "GET a"]), [Some(Freshness::Within(0))]);
    assert_eq!(freshness(&mut client, &["READWRITE", "GET a"]), [None]);
}

/// A read that asks for less need not wait for a proof: its moment would be before that of the read in front of it.
#[test]
fn a_read_that_asks_for_another_freshness_waits_for_those_before_it() {
    let mut client = Node::new().client();
    let reads = ["READONLY", "HW.FRESHNESS WITHIN 0", "GET a", "GET b", "HW.FRESHNESS ANY", "GET a", "GET b"];
    client.start(&reads);
    assert_eq!(client.held.len(), 2, "those of one freshness go together");
    client.release(1);
    assert_eq!((client.submit(), client.connection.has_more()), (0, false));
    client.release(0);
    assert!(client.connection.has_more());
    assert_eq!(client.submit(), 2);
    client.release_all();
    client.output();
    // What is not read on a snapshot has its order from whoever serves.
    client.start(&["HW.FRESHNESS WITHIN 0", "SET a 1", "READWRITE", "HW.FRESHNESS ANY", "GET a"]);
    assert_eq!(client.held.len(), 2);
}

#[test]
fn a_freshness_that_makes_no_sense_changes_nothing() {
    let mut client = Node::new().client();
    client.ask("READONLY");
    assert_eq!(client.ask("HW.FRESHNESS SINCE 77"), "+OK\r\n");
    let number = "-ERR value is not an integer or out of range\r\n";
    for wrong in
        ["WITHIN -1", "WITHIN 1.5", "WITHIN 99999999999999999", "SINCE x", "SINCE 9223372036854775807"]
    {
        assert_eq!(client.ask(&format!("HW.FRESHNESS {wrong}")), number, "{wrong}");
    }
    let within = "-ERR wrong number of arguments for 'hw.freshness|within' command\r\n";
    assert_eq!(client.ask("HW.FRESHNESS WITHIN"), within);
    assert!(client.ask("HW.FRESHNESS").contains("wrong number of arguments for 'hw.freshness'"));
    assert!(client.ask("HW.FRESHNESS ANY 1").contains("wrong number of arguments"));
    assert!(client.ask("HW.FRESHNESS SOON").contains("unknown subcommand 'SOON'. Try HW.FRESHNESS HELP."));
    assert!(client.ask("HW.FRESHNESS HELP").contains("WITHIN <milliseconds>"));
    assert_eq!(freshness(&mut client, &["GET a"]), [Some(Freshness::Since(Timestamp(77)))]);
}

#[test]
fn a_read_that_is_not_fresh_enough_says_so() {
    let mut client = Node::new().client();
    for read in ["GET a", "WATCH a"] {
        client.start(&["READONLY", "HW.FRESHNESS WITHIN 5", read]);
        let seq = client.held.pop_front().unwrap().seq;
        client.connection.released(seq, Outcome::Denied, Timestamp::ZERO, b"NOTFRESH too old");
        assert_eq!(client.output(), "+OK\r\n+OK\r\n-NOTFRESH too old\r\n");
    }
    assert_eq!(client.ask("PING"), "+PONG\r\n", "and nothing waits");
}

#[test]
fn a_token_tells_of_all_that_was_asked_before_it() {
    let mut client = Node::new().client();
    assert_eq!(client.ask("HW.TOKEN"), ":0\r\n", "nothing was seen");
    client.start(&["SET a 1", "SET a 2", "HW.TOKEN", "PING", "GET a"]);
    assert_eq!(client.held.len(), 2, "what comes behind it waits");
    let last = client.held[1].at;
    client.release(1);
    assert_eq!(client.output(), "");
    client.release(0);
    assert_eq!(client.output(), format!("+OK\r\n+OK\r\n:{}\r\n", last.0));
    client.submit();
    client.release_all();
    assert_eq!(client.output(), "+PONG\r\n$1\r\n2\r\n");
    client.start(&["SET a 3"]);
    client.lose(0, Outcome::Unknown);
    client.output();
    let token: u64 = client.ask("HW.TOKEN").trim_matches([':', '\r', '\n']).parse().unwrap();
    assert!(token >= last.0, "what nobody knows takes nothing back");
    client.ask("MULTI");
    assert_eq!(client.ask("HW.TOKEN"), "-ERR Command not allowed inside a transaction\r\n");
}
