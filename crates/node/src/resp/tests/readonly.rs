//! READONLY: which requests may run on a replica's snapshot.

use highwater_core::NodeId;
use highwater_engines::seam::Refusal;

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
