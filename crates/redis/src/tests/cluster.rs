//! What cluster and Sentinel clients hear.

use highwater_core::NodeId;
use highwater_seam::Refusal;
use highwater_seam::Service;

use super::double::Node;
use crate::Redirect;
use crate::topology::name;

const ELSEWHERE: Refusal = Refusal::NotServing { ask: Some(NodeId(1)) };
const NOBODY: Refusal = Refusal::NotServing { ask: None };

#[test]
fn who_does_not_serve_says_moved_with_the_slot_of_the_first_key() {
    let mut client = Node::that_serves(false).in_words_of(Redirect::Moved).client();
    for command in [
        "GET foo",
        "SET {foo}bar 1",
        "MSET foo 1 b 2",
        "OBJECT ENCODING foo",
        "WATCH foo bar",
        "ZUNION 1 foo",
    ] {
        assert_eq!(client.ask_refused(command, ELSEWHERE), "-MOVED 12182 10.0.0.2:6380\r\n", "{command}");
    }
    assert_eq!(client.ask_refused("BLPOP foo bar 0", ELSEWHERE), "-MOVED 12182 10.0.0.2:6380\r\n");
    assert_eq!(client.ask_refused("BLMPOP 0 1 foo LEFT", ELSEWHERE), "-MOVED 12182 10.0.0.2:6380\r\n");
    assert_eq!(client.ask_refused("DBSIZE", ELSEWHERE), "-MOVED 0 10.0.0.2:6380\r\n");
    assert_eq!(client.ask_refused("HW.ONCE 1 1 GET foo", ELSEWHERE), "-MOVED 12182 10.0.0.2:6380\r\n");
    let down = "-CLUSTERDOWN The cluster is down: no leader is known at the moment; nothing was done, retry later\r\n";
    assert_eq!(client.ask_refused("GET foo", NOBODY), down);
    let stranger = client.ask_refused("GET foo", Refusal::NotServing { ask: Some(NodeId(9)) });
    assert_eq!(stranger, down);
    assert!(
        client
            .ask_refused("GET foo", Refusal::NoQuorum)
            .starts_with("-CLUSTERDOWN The cluster is down: this node")
    );
    assert!(client.ask("INFO cluster").ends_with("# Cluster\r\ncluster_enabled:1\r\n\r\n"));
}

#[test]
fn a_block_is_refused_as_a_whole() {
    let mut client = Node::that_serves(false).in_words_of(Redirect::Moved).client();
    client.ask_refused("MULTI", ELSEWHERE);
    client.ask_refused("PING", ELSEWHERE);
    client.ask_refused("INCR foo", ELSEWHERE);
    assert_eq!(client.ask_refused("EXEC", ELSEWHERE), "-MOVED 12182 10.0.0.2:6380\r\n");
    assert_eq!(client.ask_refused("EXEC", ELSEWHERE), "-ERR EXEC without MULTI\r\n");
}

#[test]
fn sentinels_clients_hear_of_a_read_only_replica() {
    let mut client = Node::that_serves(false).in_words_of(Redirect::Readonly).client();
    let error = client.ask_refused("GET foo", ELSEWHERE);
    assert!(error.starts_with(
        "-READONLY You can't write against a read only replica: the master is at 10.0.0.2:6380"
    ));
    for refusal in [NOBODY, Refusal::NoQuorum] {
        assert!(client.ask_refused("GET foo", refusal).starts_with("-READONLY You can't write"));
    }
    assert!(client.ask("INFO cluster").contains("cluster_enabled:0"));
}

#[test]
fn one_shard_has_all_slots_and_its_master_serves() {
    for (serves, own) in [(true, "myself,master"), (false, "myself,slave")] {
        let mut client = Node::that_serves(serves).client();
        let (zero, one, two) = ([0, 1, 2].map(|node| name("ledger", Some(NodeId(node))))).into();
        let entry = |host: &str, port: u16, id: &str| {
            format!("*4\r\n${}\r\n{host}\r\n:{port}\r\n$40\r\n{id}\r\n*0\r\n", host.len())
        };
        // The third node is down, and so not among those to read from.
        let slots = format!(
            "*1\r\n*4\r\n:0\r\n:16383\r\n{}{}",
            entry("10.0.0.2", 6380, &one),
            entry("10.0.0.1", 6379, &zero)
        );
        assert_eq!(client.ask("CLUSTER SLOTS"), slots);
        let nodes = client.ask("CLUSTER NODES");
        let lines: Vec<&str> = nodes.lines().skip(1).collect();
        assert!(lines[1].starts_with(&format!("{one} 10.0.0.2:6380@7100 ")), "{nodes}");
        assert!(lines[1].ends_with("master - 0 0 3 connected 0-16383"), "{nodes}");
        assert_eq!(lines[2], format!("{two} 10.0.0.3:6381@7100 slave,fail? {one} 0 0 3 disconnected"));
        assert!(nodes.contains(own), "{nodes}");
        assert!(client.ask("CLUSTER SHARDS").contains("$6\r\nhealth\r\n$4\r\nfail\r\n"));
        assert!(client.ask("CLUSTER INFO").contains("cluster_state:ok\r\ncluster_slots_assigned:16384\r\n"));
    }
}

#[test]
fn a_stalled_leader_says_that_the_cluster_is_down() {
    let mut client = Node::of_service(Service::Stalled).client();
    assert!(client.ask("CLUSTER INFO").contains("cluster_state:fail\r\n"));
    assert_eq!(client.ask("SENTINEL GET-MASTER-ADDR-BY-NAME ledger"), "*-1\r\n");
    assert!(client.ask("SENTINEL MASTERS").contains("master,s_down,o_down"));
    let info = client.ask("INFO replication");
    assert!(info.contains("role:master\r\nhighwater_role:leader\r\nhighwater_service:stalled\r\n"), "{info}");
    assert!(client.ask("ROLE").contains("master"));
}

#[test]
fn the_cluster_is_told_of_and_not_changed() {
    let mut client = Node::new().client();
    assert_eq!(client.ask("CLUSTER KEYSLOT {user1000}.x"), ":3443\r\n");
    assert_eq!(client.ask("CLUSTER MYID"), format!("$40\r\n{}\r\n", name("ledger", Some(NodeId(1)))));
    assert_eq!(client.ask("CLUSTER MYSHARDID"), format!("$40\r\n{}\r\n", name("ledger", None)));
    let mine = name("ledger", Some(NodeId(1)));
    assert!(client.ask(&format!("CLUSTER REPLICAS {mine}")).starts_with("*2\r\n"));
    let other = name("ledger", Some(NodeId(2)));
    assert_eq!(
        client.ask(&format!("CLUSTER REPLICAS {other}")),
        "-ERR The specified node is not a master\r\n"
    );
    assert_eq!(client.ask(&format!("CLUSTER COUNT-FAILURE-REPORTS {other}")), ":1\r\n");
    assert_eq!(client.ask("CLUSTER REPLICAS nobody"), "-ERR Unknown node nobody\r\n");
    for command in ["RESET", "MEET 1.2.3.4 5", "FAILOVER", "SETSLOT 1 STABLE", "ADDSLOTS 1"] {
        assert!(
            client.ask(&format!("CLUSTER {command}")).starts_with("-ERR the cluster is not changed"),
            "{command}"
        );
    }
    assert!(client.ask("CLUSTER NOSUCH").starts_with("-ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP."));
}

#[test]
fn keys_of_a_slot_are_counted_and_got() {
    let mut client = Node::new().client();
    client.ask("MSET {foo}a 1 {foo}b 2 bar 3");
    assert_eq!(client.ask("CLUSTER COUNTKEYSINSLOT 12182"), ":2\r\n");
    assert_eq!(client.ask("CLUSTER GETKEYSINSLOT 12182 1").lines().next(), Some("*1"));
    assert_eq!(client.ask("CLUSTER GETKEYSINSLOT 12182 9").lines().next(), Some("*2"));
    assert_eq!(client.ask("CLUSTER COUNTKEYSINSLOT 16384"), "-ERR Invalid or out of range slot\r\n");
    assert_eq!(client.ask("CLUSTER GETKEYSINSLOT 1 -1"), "-ERR Invalid number of keys\r\n");
    client.ask("MULTI");
    assert_eq!(client.ask("CLUSTER COUNTKEYSINSLOT 12182"), "+QUEUED\r\n");
    assert_eq!(client.ask("EXEC"), "*1\r\n:2\r\n");
}

#[test]
fn a_sentinel_names_the_leader_under_the_clusters_name() {
    let mut client = Node::that_serves(false).client();
    let master = "*2\r\n$8\r\n10.0.0.2\r\n$4\r\n6380\r\n";
    assert_eq!(client.ask("SENTINEL GET-MASTER-ADDR-BY-NAME ledger"), master);
    assert_eq!(client.ask("SENTINEL GET-MASTER-ADDR-BY-NAME other"), "*-1\r\n");
    assert_eq!(client.ask("SENTINEL MASTER other"), "-ERR No such master with that name\r\n");
    let masters = client.ask("SENTINEL MASTERS");
    assert!(
        masters.contains("$5\r\nflags\r\n$6\r\nmaster\r\n")
            && masters.contains("$6\r\nquorum\r\n$1\r\n2\r\n")
    );
    let replicas = client.ask("SENTINEL REPLICAS ledger");
    assert!(replicas.starts_with("*2\r\n") && replicas.contains("slave,s_down,disconnected"), "{replicas}");
    assert!(client.ask("SENTINEL SENTINELS ledger").starts_with("*2\r\n"));
    assert!(client.ask("SENTINEL CKQUORUM ledger").starts_with("+OK 2 usable Sentinels."));
    let asked = client.ask("SENTINEL IS-MASTER-DOWN-BY-ADDR 10.0.0.2 6380 0 *");
    assert_eq!(asked, "*3\r\n:0\r\n$1\r\n*\r\n:0\r\n");
    assert!(client.ask("SENTINEL FAILOVER ledger").starts_with("-ERR nothing is set up or forced here"));
}
