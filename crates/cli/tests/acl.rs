//! Users on three real replicas: what is refused, on every node, after a failover and a restart.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

mod processes;

use processes::{Client, Cluster, PATIENCE};

fn call(client: &mut Client, words: &[&str]) -> Option<String> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let (line, content) = client.call(&words)?;
    Some(if line.starts_with('$') { String::from_utf8(content).unwrap() } else { line })
}

/// Asks until the answer is this one.
fn until(port: u16, greeting: &[&str], words: &[&str], wanted: &str) {
    let started = Instant::now();
    let mut last = None;
    while started.elapsed() < PATIENCE {
        if let Some(mut client) = Client::connect(port) {
            if !greeting.is_empty() {
                call(&mut client, greeting);
            }
            last = call(&mut client, words);
            if last.as_deref().is_some_and(|line| line.starts_with(wanted)) {
                return;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{words:?}: {last:?}, not {wanted}");
}

/// The replica that runs transactions, for a client that says who it is.
fn leader(cluster: &Cluster, who: &[&str]) -> (usize, Client) {
    let started = Instant::now();
    loop {
        for id in 0..3 {
            let Some(mut client) = Client::connect(cluster.port(id)) else { continue };
            if call(&mut client, who).as_deref() == Some("+OK")
                && call(&mut client, &["SET", "probe", "1"]).as_deref() == Some("+OK")
            {
                return (id, client);
            }
        }
        assert!(started.elapsed() < PATIENCE, "nobody lets {who:?} write");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asks all nodes until one gives this answer; which.
fn somewhere(cluster: &Cluster, greeting: &[&str], words: &[&str], wanted: &str) -> usize {
    let (started, mut last) = (Instant::now(), None);
    while started.elapsed() < PATIENCE {
        for id in 0..3 {
            let Some(mut client) = Client::connect(cluster.port(id)) else { continue };
            call(&mut client, greeting);
            last = call(&mut client, words);
            if last.as_deref() == Some(wanted) {
                return id;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{words:?}: {last:?}, not {wanted}");
}

const ADMIN: [&str; 2] = ["AUTH", "first"];

#[test]
fn users_are_on_every_node_and_outlive_all_of_them() {
    let mut cluster = Cluster::start("acl", "", None);
    cluster.kill_all();
    for id in 0..3 {
        cluster.run_with(id, &["--set", "auth.password=first"]);
    }
    let alice =
        ["ACL", "SETUSER", "alice", "on", ">pw", "~a:*", "+@read", "+@write", "+readonly", "-@dangerous"];
    somewhere(&cluster, &ADMIN, &alice, "+OK");
    let hello = ["AUTH", "alice", "pw"];
    for id in 0..3 {
        until(cluster.port(id), &[], &["GET", "a:1"], "-NOAUTH");
        until(cluster.port(id), &[], &hello, "+OK");
        until(
            cluster.port(id),
            &hello,
            &["GET", "b"],
            "-NOPERM this user has no permissions to access one of",
        );
        until(
            cluster.port(id),
            &hello,
            &["FLUSHALL"],
            "-NOPERM this user has no permissions to run the 'flushall'",
        );
    }
    // Deleted on the leader: its connections end on every node, within about a second.
    let mut connections: Vec<_> = (0..3).map(|id| Client::connect(cluster.port(id)).unwrap()).collect();
    for client in &mut connections {
        assert_eq!(call(client, &hello).as_deref(), Some("+OK"));
    }
    somewhere(&cluster, &ADMIN, &["ACL", "DELUSER", "alice"], ":1");
    for mut client in connections {
        let started = Instant::now();
        while call(&mut client, &["READONLY"]).is_some() {
            assert!(started.elapsed() < PATIENCE, "a deleted user's connection goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // Another leader knows whom there is.
    somewhere(&cluster, &ADMIN, &["ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all"], "+OK");
    let first = somewhere(&cluster, &ADMIN, &["ACL", "SETUSER", "default", "resetpass", ">second"], "+OK");
    cluster.kill(first);
    let (second, _) = leader(&cluster, &["AUTH", "bob", "pw"]);
    assert_ne!(second, first);
    until(cluster.port(second), &[], &["AUTH", "alice", "pw"], "-WRONGPASS");
    until(cluster.port(second), &[], &ADMIN, "-WRONGPASS");
    // All of them come back with their disks: the configuration's password is not the users' any more.
    cluster.kill_all();
    (0..3).for_each(|id| cluster.run_with(id, &["--set", "auth.password=first"]));
    let (third, _) = leader(&cluster, &["AUTH", "second"]);
    until(cluster.port(third), &[], &ADMIN, "-WRONGPASS");
    until(cluster.port(third), &["AUTH", "bob", "pw"], &["ACL", "WHOAMI"], "bob");
    cluster.none_died();
}

/// Strangers may send little, and nothing of it reaches the data.
#[test]
fn strangers_send_little() {
    let mut cluster = Cluster::start("strangers", "durability = \"memory\"", None);
    cluster.kill_all();
    (0..3).for_each(|id| cluster.run_with(id, &["--set", "auth.password=first"]));
    let (id, mut admin) = leader(&cluster, &ADMIN);
    let told = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", cluster.port(id))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert_eq!(told(b"*11\r\n"), "-ERR Protocol error: unauthenticated multibulk length\r\n");
    assert_eq!(told(b"*1\r\n$16385\r\n"), "-ERR Protocol error: unauthenticated bulk length\r\n");
    assert_eq!(
        told(b"SET x 1\r\nMULTI\r\nEXEC\r\nQUIT\r\n"),
        "-NOAUTH Authentication required.\r\n".repeat(3) + "+OK\r\n"
    );
    // Who says who it is goes on as before, in the same breath.
    let long = format!("AUTH first\r\n*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$20000\r\n{}\r\n", "v".repeat(20_000));
    assert_eq!(told(long.as_bytes()), "+OK\r\n+OK\r\n");
    // Words that make no sense, in numbers.
    let name = "n".repeat(16 << 10);
    let long_name = call(&mut admin, &["ACL", "SETUSER", &name, "on"]).unwrap();
    assert!(long_name.starts_with("-ERR a username has at most"), "{long_name}");
    for at in 0..500 {
        let words = ["on", "~x", "+get"].map(|word| format!("{word}{}", "(".repeat(at % 7)));
        let answer = call(&mut admin, &["ACL", "SETUSER", "garbage", &words[at % 3], ")("]).unwrap();
        assert!(answer.starts_with("-ERR "), "{answer}");
    }
    assert_eq!(call(&mut admin, &["ACL", "GETUSER", "garbage"]).as_deref(), Some(""));
    // 10,000 users, as fast as one connection asks for them.
    for at in 0..10_000 {
        let name = format!("u{at}");
        assert_eq!(
            call(&mut admin, &["ACL", "SETUSER", &name, "on", ">pw", "~*", "+@all"]).as_deref(),
            Some("+OK")
        );
    }
    for other in 0..3 {
        until(cluster.port(other), &[], &["AUTH", "u9999", "pw"], "+OK");
    }
    cluster.none_died();
}
