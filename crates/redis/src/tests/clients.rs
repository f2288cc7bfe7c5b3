//! What clients hear of each other, and do to each other; and what operators' tools ask.

use super::double::{Client, Node, START_MS};
use crate::clients::Order;

#[test]
fn clients_are_listed_with_what_they_said() {
    let node = Node::new();
    let (mut one, mut two) = (node.client_of(0x100), node.client_of(0x201));
    one.connection.introduce("10.0.0.9:1".into(), "10.0.0.1:2".into());
    one.connection.tell_time(START_MS + 5000);
    one.ask("CLIENT SETNAME worker");
    one.ask("CLIENT SETINFO LIB-NAME some-lib");
    two.ask("READONLY");
    two.ask("MULTI");
    two.ask("PING");
    let list = one.ask("CLIENT LIST");
    let lines: Vec<&str> = list.lines().skip(1).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(
        lines[0]
            .starts_with("id=256 addr=10.0.0.9:1 laddr=10.0.0.1:2 fd=-1 name=worker age=5 idle=0 flags=N "),
        "{list}"
    );
    assert!(
        lines[0].contains(" cmd=client|list user=default ")
            && lines[0].ends_with("lib-name=some-lib lib-ver="),
        "{list}"
    );
    assert!(
        lines[1].contains(" flags=xr ")
            && lines[1].contains(" user=default ")
            && lines[1].contains(" multi=1 qbuf=")
            && lines[1].contains(" cmd=ping "),
        "{list}"
    );
    assert_eq!(one.ask("CLIENT LIST ID 513").matches("id=").count(), 1);
    assert_eq!(one.ask("CLIENT LIST TYPE pubsub"), "$0\r\n\r\n");
    assert_eq!(one.ask("CLIENT LIST TYPE x"), "-ERR Unknown client type 'x'\r\n");
    assert_eq!(one.ask("CLIENT LIST ID x"), "-ERR Invalid client ID\r\n");
    drop(two);
    assert_eq!(one.ask("CLIENT LIST").matches("id=").count(), 1);
}

#[test]
fn clients_are_killed_by_what_they_are() {
    let node = Node::new();
    let (mut one, other) = (node.client_of(0x100), node.client_of(0x201));
    assert_eq!(one.ask("CLIENT KILL 1.2.3.4:5"), "-ERR No such client\r\n");
    assert_eq!(one.ask("CLIENT KILL ID 513"), ":1\r\n");
    assert_eq!(node.door().clients.take_orders(1), [(0x201, Order::Kill)]);
    assert_eq!(one.ask("CLIENT KILL USER nobody"), "-ERR No such user 'nobody'\r\n");
    assert_eq!(one.ask("CLIENT KILL TYPE normal"), ":1\r\n");
    assert_eq!(one.ask("CLIENT KILL ID 513 ADDR"), "-ERR syntax error\r\n");
    assert_eq!(one.ask("CLIENT KILL SKIPME no"), ":2\r\n");
    assert!(one.connection.closing(), "it hears the answer, and ends");
    drop(other);
}

#[test]
fn replies_may_be_unwanted() {
    let mut client = Node::new().client();
    assert_eq!(client.ask("CLIENT REPLY SKIP"), "");
    assert_eq!(client.ask("SET a 1"), "");
    assert_eq!(client.ask("GET a"), "$1\r\n1\r\n");
    assert_eq!(client.ask("CLIENT REPLY OFF"), "");
    assert_eq!(client.ask("INCR a"), "");
    assert_eq!(client.ask("PING"), "");
    assert_eq!(client.ask("CLIENT REPLY ON"), "+OK\r\n");
    assert_eq!(client.ask("GET a"), "$1\r\n2\r\n");
    client.ask("MULTI");
    assert_eq!(client.ask("CLIENT REPLY OFF"), "-ERR Command not allowed inside a transaction\r\n");
}

#[test]
fn a_pause_holds_writes_until_it_is_over() {
    let node = Node::new();
    let (mut one, mut two) = (node.client_of(0x100), node.client_of(0x200));
    assert_eq!(one.ask("CLIENT PAUSE 1000 WRITE"), "+OK\r\n");
    assert_eq!(two.ask("GET a"), "$-1\r\n");
    assert_eq!(two.ask("SET a 1"), "");
    assert!(!two.connection.has_more(), "its host would turn in circles");
    two.connection.tell_time(START_MS + 1000);
    assert!(two.connection.has_more());
    assert_eq!(two.ask("GET a"), "+OK\r\n$1\r\n1\r\n");
    assert_eq!(one.ask("CLIENT PAUSE 1000"), "+OK\r\n");
    assert_eq!(one.ask("PING"), "", "nobody is served");
    node.door().clients.unpause();
    assert_eq!(one.ask("PING"), "+PONG\r\n+PONG\r\n");
    assert_eq!(one.ask("CLIENT PAUSE x"), "-ERR timeout is not an integer or out of range\r\n");
}

/// It waited for the end of the pause that it had ordered.
#[test]
fn a_block_goes_ahead_of_a_pause_of_its_own() {
    let node = Node::new();
    let (mut one, mut two) = (node.client_of(0x100), node.client_of(0x200));
    let ask = |client: &mut Client, commands: &[&str]| -> String {
        commands.iter().map(|command| client.ask(command)).collect()
    };
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
    assert_eq!(ask(&mut one, &["MULTI", "SET a 1", "CLIENT PAUSE 1000 WRITE"]), queued);
    assert_eq!(one.ask("EXEC"), "*2\r\n+OK\r\n+OK\r\n");
    assert_eq!(one.ask("SET a 2"), "", "what comes behind it is held");
    // A pause that is there already holds a block, whatever it orders.
    assert_eq!(ask(&mut two, &["MULTI", "SET a 3", "CLIENT PAUSE 2000 WRITE", "EXEC"]), queued);
    two.connection.tell_time(START_MS + 2000);
    assert_eq!(two.ask("PING"), "*2\r\n+OK\r\n+OK\r\n+PONG\r\n");
    node.door().clients.unpause();
    assert_eq!(one.ask("GET a"), "+OK\r\n$1\r\n2\r\n");
    // Reads go ahead of it, too.
    assert_eq!(ask(&mut one, &["MULTI", "GET a", "CLIENT PAUSE 1000"]), queued);
    assert_eq!(one.ask("EXEC"), "*2\r\n$1\r\n2\r\n+OK\r\n");
    assert_eq!(one.ask("PING"), "");
}

#[test]
fn who_waits_is_unblocked_by_another() {
    let node = Node::new();
    let (mut one, mut two) = (node.client_of(0x100), node.client_of(0x200));
    assert_eq!(one.ask("CLIENT UNBLOCK 512"), ":0\r\n");
    for (how, reply) in [("", "*-1\r\n"), (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")] {
        assert_eq!(two.ask("BLPOP nothing 0"), "");
        assert!(one.ask("INFO clients").contains("blocked_clients:1"));
        assert_eq!(one.ask(&format!("CLIENT UNBLOCK 512{how}")), ":1\r\n");
        let orders = node.door().clients.take_orders(0);
        let [(0x200, Order::Unblock { error })] = orders[..] else { panic!("{orders:?}") };
        two.connection.unblock(error);
        assert_eq!(two.output(), reply);
    }
}

#[test]
fn errors_and_connections_are_counted_until_they_are_reset() {
    let mut client = Node::new().client();
    client.ask("SET s 1");
    client.ask("LPUSH s 1");
    client.ask("NOSUCH");
    let info = client.ask("INFO everything");
    assert!(
        info.contains("errorstat_ERR:count=1\r\n") && info.contains("errorstat_WRONGTYPE:count=1\r\n"),
        "{info}"
    );
    assert!(
        info.contains("total_connections_received:1\r\n") && info.contains("# Commandstats\r\n"),
        "{info}"
    );
    assert!(!client.ask("INFO").contains("# Commandstats"));
    client.ask("CONFIG RESETSTAT");
    assert!(!client.ask("INFO errorstats").contains("errorstat_"));
}

#[test]
fn what_is_done_otherwise_says_how() {
    let mut client = Node::new().client();
    for (command, word) in [
        ("BGSAVE", "highwater backup"),
        ("REPLICAOF NO ONE", "highwater hand-over"),
        ("SHUTDOWN", "SIGTERM"),
        ("SWAPDB 0 1", "one database"),
        ("MONITOR", "SLOWLOG"),
        ("DEBUG SLEEP 1", "half a second"),
        ("DEBUG RELOAD", "start it"),
        ("CONFIG SET save 60", "cluster.durability"),
        ("CLIENT TRACKING ON", "WATCH"),
    ] {
        let error = client.ask(command);
        assert!(error.starts_with("-ERR ") && error.contains(word), "{command}: {error}");
    }
    assert!(client.ask("LOLWUT").contains("Highwater ver."));
    assert_eq!(client.ask("COMMAND GETKEYS HW.ONCE 1 2 MSET a 1 b 2"), "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}

/// Neither library knows who leads next but by what a sentinel tells, and lettuce does not connect at all if it may not listen.
#[test]
fn sentinels_clients_may_listen_to_what_sentinels_tell() {
    let node = Node::new();
    let mut client = node.client();
    let subscribed = |kind: &str, name: &str, count: usize| {
        format!("*3\r\n${}\r\n{kind}\r\n${}\r\n{name}\r\n:{count}\r\n", kind.len(), name.len())
    };
    assert_eq!(client.ask("PSUBSCRIBE *"), subscribed("psubscribe", "*", 1));
    let two = subscribed("subscribe", "+switch-master", 2) + &subscribed("subscribe", "+sdown", 3);
    assert_eq!(client.ask("SUBSCRIBE +switch-master +sdown"), two);
    assert!(client.connection.listens());
    // In RESP2 it hears nothing else.
    assert_eq!(client.ask("PING"), "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    assert_eq!(client.ask("PING hi"), "*2\r\n$4\r\npong\r\n$2\r\nhi\r\n");
    for command in ["GET a", "SENTINEL MASTERS", "CLIENT LIST", "MULTI", "HELLO 3", "HW.BEGIN"] {
        let name = command.split(' ').next().unwrap().to_lowercase();
        let words = format!(
            "-ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n"
        );
        assert_eq!(client.ask(command), words);
    }
    let list = node.client_of(8).ask("CLIENT LIST");
    assert!(list.contains(" flags=P db=0 sub=2 psub=1 "), "{list}");
    assert_eq!(node.client_of(8).ask("CLIENT LIST TYPE pubsub").matches("id=").count(), 1);
    client.connection.tell_event(b"+switch-master", b"ledger a 1 b 2");
    let told = "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$14\r\nledger a 1 b 2\r\n";
    let also = "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$14\r\n+switch-master\r\n$14\r\nledger a 1 b 2\r\n";
    assert_eq!(client.output(), format!("{told}{also}"));
    client.connection.tell_event(b"+other", b"x");
    assert_eq!(client.output(), "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$6\r\n+other\r\n$1\r\nx\r\n");
    assert_eq!(client.ask("UNSUBSCRIBE +sdown"), subscribed("unsubscribe", "+sdown", 2));
    assert_eq!(client.ask("UNSUBSCRIBE"), subscribed("unsubscribe", "+switch-master", 1));
    assert_eq!(client.ask("UNSUBSCRIBE"), "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:1\r\n");
    assert_eq!(client.ask("PUNSUBSCRIBE +none"), subscribed("punsubscribe", "+none", 1));
    assert_eq!(client.ask("PUNSUBSCRIBE"), subscribed("punsubscribe", "*", 0));
    assert_eq!(client.ask("PING"), "+PONG\r\n");
    // In RESP3 messages are no replies, and everything may be asked.
    client.ask("HELLO 3");
    assert_eq!(client.ask("PSUBSCRIBE +switch-*"), ">3\r\n$10\r\npsubscribe\r\n$9\r\n+switch-*\r\n:1\r\n");
    assert_eq!(client.ask("PING"), "+PONG\r\n");
    client.connection.tell_event(b"+switch-master", b"m");
    assert_eq!(
        client.output(),
        ">4\r\n$8\r\npmessage\r\n$9\r\n+switch-*\r\n$14\r\n+switch-master\r\n$1\r\nm\r\n"
    );
    assert_eq!(client.ask("RESET"), "+RESET\r\n");
    assert!(!client.connection.listens());
}

/// Whoever waits for messages of others would wait in vain.
#[test]
fn there_is_no_publish_and_subscribe_and_it_says_so() {
    let mut client = Node::new().client();
    for command in [
        "SUBSCRIBE news",
        "SUBSCRIBE +switch-master news",
        "PSUBSCRIBE news.*",
        "SUBSCRIBE *",
        "SUBSCRIBE __sentinel__:hello",
    ] {
        assert!(client.ask(command).starts_with("-ERR publish and subscribe are not offered"), "{command}");
        assert!(!client.connection.listens());
    }
    assert!(
        client.ask(&format!("SUBSCRIBE +{}", "x".repeat(5000))).starts_with("-ERR too many subscriptions")
    );
    assert!(client.ask("PUBLISH +switch-master x").starts_with("-ERR unknown command"));
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(client.ask("SUBSCRIBE +switch-master"), "-ERR Command not allowed inside a transaction\r\n");
}

/// Whoever came and has asked nothing is held by a pause that lasts, and by none that is over; the time was told with the first command.
#[test]
fn a_connection_knows_what_time_it_is_before_its_first_command() {
    let node = Node::new();
    let mut old = node.client_of(0x100);
    assert_eq!(old.ask("CLIENT PAUSE 100"), "+OK\r\n");
    node.door().clients.forget_pause(START_MS + 99);
    let mut during = node.client_of(0x200);
    during.connection.receive(b"PING\r\n");
    assert!(!during.connection.has_more() && during.connection.is_held_back());
    let mut after = node.client_at(0x300, START_MS + 100);
    after.connection.receive(b"PING\r\n");
    assert!(after.connection.has_more() && !after.connection.is_held_back());
    assert_eq!(after.go_on(), "+PONG\r\n");
    // A node that ends holds nobody.
    during.connection.leave_pauses();
    assert!(during.connection.has_more());
}
