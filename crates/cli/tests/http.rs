//! HTTP at the admin ports of three real replicas: pages, the token, what strangers send.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod http_client;
mod processes;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

use http_client::{Answer, get, request};
use processes::{Cluster, PATIENCE};
use serde_json::Value;

const TOKEN: &str = "a-token-of-32-characters-or-so..";

/// Asks until the answer is this one.
fn await_answer(port: u16, path: &str, is: impl Fn(&Answer) -> bool) -> Answer {
    let started = Instant::now();
    loop {
        let answer = get(port, path, &[]);
        if let Some(answer) = answer.filter(&is) {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "{path} at {port}: {:?}", get(port, path, &[]));
        std::thread::yield_now();
    }
}

/// Who leads, once it has taken 200 writes: on a starved machine the lead may change at first.
fn serving(cluster: &Cluster) -> (usize, processes::Client) {
    let started = Instant::now();
    loop {
        let (leader, mut client) = cluster.leader();
        let mut set = |n: u32| client.call(&[b"SET", format!("key:{n}").as_bytes(), b"value"]);
        let refused =
            (0..200).map(&mut set).find(|answer| answer.as_ref().is_none_or(|(line, _)| line != "+OK"));
        match refused {
            None => return (leader, client),
            Some(answer) => assert!(started.elapsed() < PATIENCE, "{answer:?}"),
        }
    }
}

fn json(port: u16, path: &str) -> Value {
    let answer = get(port, path, &[]).unwrap();
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    serde_json::from_str(&answer.content).unwrap()
}

fn highwater(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(arguments).env_remove("HIGHWATER_ADMIN_TOKEN");
    command
}

/// What stands in backquotes at the beginning of the rows of the page on metrics.
fn documented() -> BTreeSet<String> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/metrics.md");
    let text = std::fs::read_to_string(page).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    // Alerts are in rows of their own.
    let names = rows.map(|row| row.split('`').next().unwrap().to_string());
    names.filter(|name| name.starts_with("highwater_")).collect()
}

#[test]
fn a_cluster_tells_what_it_does() {
    let mut cluster = Cluster::start("http", "workers = 2", None);
    let (leader, mut client) = serving(&cluster);
    let follower = (leader + 1) % 3;
    assert_eq!(client.call(&[b"NO-SUCH"]).unwrap().0.as_bytes()[0], b'-');
    let (leading, following) = (cluster.admin_port(leader), cluster.admin_port(follower));

    for port in [leading, following] {
        assert_eq!(
            await_answer(port, "/healthz", |answer| answer.status == 200).content,
            "{\"healthy\":true}\n"
        );
        await_answer(port, "/readyz", |answer| answer.status == 200);
        assert!(get(port, "/", &[]).unwrap().head.contains("Content-Security-Policy: default-src 'none';"));
    }
    await_answer(leading, "/readyz?role=leader", |answer| answer.status == 200);
    let refused = get(following, "/readyz?role=leader", &[]).unwrap();
    assert_eq!(refused.status, 503);
    assert!(refused.content.contains(&format!("node {leader} leads")), "{refused:?}");

    let status = json(leading, "/status");
    assert_eq!((&status["role"], &status["node"]), (&"leader".into(), &leader.into()));
    let ended = status["work"]["outcomes"]["committed"].as_u64().unwrap();
    assert!(ended >= 200, "{status}");
    let buckets = status["work"]["latency"]["buckets"].as_array().unwrap();
    let counted: u64 = buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum();
    assert_eq!(counted, ended, "every request has a latency");
    assert!(status["journal"]["syncs"]["buckets"][0][1].as_u64() > Some(0), "{status}");
    let peers = status["peers"].as_array().unwrap();
    assert!(peers.len() == 2 && peers.iter().all(|peer| peer["sent"].as_u64() > Some(1000)), "{status}");
    assert_eq!(json(leading, "/v1/cluster")["nodes"].as_array().unwrap().len(), 3);
    let events = json(leading, "/v1/events");
    let led =
        |event: &Value| event["role"] == "leader" && event["unix_ms"].as_u64() > Some(1_700_000_000_000);
    assert!(events.as_array().unwrap().iter().any(led), "{events}");

    let metrics = get(leading, "/metrics", &[]).unwrap();
    assert!(metrics.head.contains("application/openmetrics-text; version=1.0.0"), "{}", metrics.head);
    assert!(metrics.content.ends_with("# EOF\n"));
    let value = |line: &str| -> f64 {
        let found = metrics.content.lines().find_map(|at| at.strip_prefix(line)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("{line} is missing in {}", metrics.content)).parse().unwrap()
    };
    assert!(value("highwater_commands_total{family=\"string\",command=\"set\"}") >= 200.0);
    assert!(value("highwater_client_latency_seconds_count") >= 200.0);
    assert!(value("highwater_client_latency_seconds_bucket{le=\"+Inf\"}") >= 200.0);
    assert_eq!(value("highwater_service{service=\"serving\"}"), 1.0);
    let names = metrics.content.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: BTreeSet<String> = names.map(|name| name.split(' ').next().unwrap().to_string()).collect();
    assert_eq!(names, documented(), "docs/operations/metrics.md names all metrics and no others");

    // Another method, the same words; and several questions over one connection.
    let head = request(leading, "HEAD", "/metrics", &[], b"").unwrap();
    assert!(head.status == 200 && head.content.is_empty() && head.head.contains("Content-Length: "));
    let posted =
        request(leading, "POST", "/v1/admin", &["Content-Type: application/json"], b"{\"do\":\"status\"}");
    assert!(posted.unwrap().content.starts_with("{\"is\":\"status\",\"node\":"));
    let mut stream = TcpStream::connect(("127.0.0.1", leading)).unwrap();
    let one = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream
        .write_all((one.repeat(50) + &one.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")).as_bytes())
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK\r\n").count(), 51);

    // The lines of `highwater`'s own commands are spoken at the same port.
    let admin = format!("127.0.0.1:{leading}");
    let top = highwater(&["top", "--once", "--admin", &admin]).output().unwrap();
    let top = String::from_utf8(top.stdout).unwrap();
    assert!(top.lines().count() == 4 && top.contains("leader") && top.contains("follower"), "{top}");
    cluster.none_died();

    // Without a majority nobody is ready, and everybody lives.
    let others: Vec<usize> = (0..3).filter(|id| *id != follower).collect();
    others.iter().for_each(|id| cluster.kill(*id));
    let answer = await_answer(following, "/readyz", |answer| answer.status == 503);
    assert!(answer.content.contains("\"ready\":false"), "{answer:?}");
    assert_eq!(get(following, "/healthz", &[]).unwrap().status, 200);
}

#[test]
fn a_token_keeps_strangers_out() {
    let mut cluster = Cluster::start_with_env("token", "workers = 1", &[("HIGHWATER_ADMIN_TOKEN", TOKEN)]);
    let (leader, _) = cluster.leader();
    let port = cluster.admin_port(leader);
    for path in ["/", "/healthz"] {
        assert_eq!(get(port, path, &[]).unwrap().status, 200, "{path}");
    }
    let bearer = format!("Authorization: Bearer {TOKEN}");
    for path in ["/status", "/metrics", "/v1/cluster", "/v1/events", "/v1/slow", "/v1/hot-keys"] {
        let answer = get(port, path, &[]).unwrap();
        assert!(
            answer.status == 401 && answer.head.contains("WWW-Authenticate: Bearer"),
            "{path}: {answer:?}"
        );
        assert_eq!(get(port, path, &["Authorization: Bearer nonsense"]).unwrap().status, 401);
        assert_eq!(get(port, path, &[&bearer]).unwrap().status, 200, "{path}");
    }
    let admin = format!("127.0.0.1:{port}");
    let status = |command: &mut Command| command.output().unwrap();
    let refused = status(&mut highwater(&["status", "--admin", &admin]));
    let words = String::from_utf8_lossy(&refused.stderr).to_string();
    assert!(!refused.status.success() && words.contains("asks for a token"), "{words}");
    let wrong =
        status(highwater(&["status", "--admin", &admin]).env("HIGHWATER_ADMIN_TOKEN", "x".repeat(32)));
    assert!(
        !wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("admin.token"),
        "{wrong:?}"
    );
    let right = status(highwater(&["status", "--admin", &admin]).env("HIGHWATER_ADMIN_TOKEN", TOKEN));
    assert!(right.status.success(), "{right:?}");
    let file = cluster.directory().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let right =
        status(&mut highwater(&["--token-file", file.to_str().unwrap(), "status", "--admin", &admin]));
    assert!(right.status.success(), "{right:?}");
    cluster.none_died();
}

#[test]
fn whoever_is_rude_is_refused_and_others_are_served() {
    let mut cluster = Cluster::start("rude", "workers = 1", None);
    let (leader, mut client) = serving(&cluster);
    let port = cluster.admin_port(leader);
    let say = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Whoever was refused may find the connection closed before it has said everything.
        let _ = stream.write_all(bytes);
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).to_string()
    };
    let shutdown = "{\"do\":\"shutdown\"}";
    let post = |headers: &str| {
        format!("POST /v1/admin HTTP/1.1\r\nContent-Length: {}\r\n{headers}\r\n{shutdown}\n", shutdown.len())
    };
    let json = "Content-Type: application/json\r\n";
    let cases = [
        ("403", format!("GET /status HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n{shutdown}\n")),
        ("403", post(&format!("Host: localhost\r\n{json}Origin: http://evil.example\r\n"))),
        ("415", post("Host: localhost\r\nContent-Type: text/plain\r\n")),
        ("405", format!("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n{shutdown}\n")),
        ("400", format!("NONSENSE\r\n{shutdown}\n")),
        ("431", format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(1 << 20))),
        (
            "413",
            format!("POST /v1/admin HTTP/1.1\r\nHost: localhost\r\n{json}Content-Length: 9999999\r\n\r\n"),
        ),
    ];
    for (status, bytes) in cases {
        let said = say(bytes.as_bytes());
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {said}");
        assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "nothing behind it is looked at: {said}");
    }
    // More slow ones than there are places: each who comes has one.
    let slow: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
            stream
        })
        .collect();
    assert_eq!(get(port, "/healthz", &[]).unwrap().status, 200);
    drop(slow);
    assert_eq!(client.call(&[b"SET", b"k", b"v"]).unwrap().0, "+OK", "nobody has shut it down");
    cluster.none_died();
}

#[test]
fn slow_transactions_and_hot_keys_are_told() {
    let mut cluster =
        Cluster::start_with_env("slow", "workers = 2", &[("HIGHWATER_SLOWLOG_SLOWER_THAN_US", "0")]);
    let (leader, mut client) = serving(&cluster);
    assert_eq!(client.call(&[b"CLIENT", b"SETNAME", b"who"]).unwrap().0, "+OK");
    assert_eq!(client.call(&[b"SET", b"a-key", b"a-value"]).unwrap().0, "+OK");
    let port = cluster.admin_port(leader);
    let slow = json(port, "/v1/slow");
    let own = slow.as_array().unwrap().iter().find(|slow| slow["name"] == "who").unwrap().clone();
    assert_eq!(own["words"], serde_json::json!(["set", "a-key", "a-value"]));
    assert!(own["released_us"].as_u64() >= own["took_us"].as_u64(), "{own}");
    let ask =
        |words: &[&[u8]]| processes::Client::connect(cluster.port(leader)).unwrap().call(words).unwrap();
    assert_ne!(ask(&[b"SLOWLOG", b"LEN"]).0, ":0");
    assert_eq!(ask(&[b"SLOWLOG", b"GET", b"1"]).0, "*1");
    assert_eq!(ask(&[b"SLOWLOG", b"GET", b"-2"]).0, "-ERR count should be greater than or equal to -1");
    assert_eq!(ask(&[b"LATENCY", b"HISTOGRAM", b"set", b"get"]).0, "*2", "nobody has said GET");
    assert_ne!(ask(&[b"LATENCY", b"LATEST"]).0, "*0");
    assert_eq!(ask(&[b"LATENCY", b"HISTORY", b"fork"]).0, "*0");
    let doctor = String::from_utf8(ask(&[b"LATENCY", b"DOCTOR"]).1).unwrap();
    assert!(doctor.contains("transactions were executed for 0 microseconds or longer"), "{doctor}");
    assert_ne!(ask(&[b"LATENCY", b"RESET"]).0, ":0");
    for (name, value) in [(&b"latency-monitor-threshold"[..], &b"0"[..]), (b"slowlog-log-slower-than", b"-1")]
    {
        assert_eq!(ask(&[b"CONFIG", b"SET", name, value]).0, "+OK");
    }
    ask(&[b"LATENCY", b"RESET"]);
    assert_eq!(ask(&[b"LATENCY", b"LATEST"]).0, "*0", "nothing is watched");
    let admin = format!("127.0.0.1:{port}");
    let shown = highwater(&["slow", "--admin", &admin]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("set a-key a-value"), "{shown:?}");

    // Two workers' clients write one key until they have met.
    let started = Instant::now();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let resp = cluster.port(leader);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = processes::Client::connect(resp).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    client.call(&[b"INCR", b"the-hot-key"]);
                }
            });
        }
        let met = || {
            let keys = json(port, "/v1/hot-keys");
            keys.as_array().unwrap().iter().any(|hot| hot["key"] == "the-hot-key")
        };
        while !met() && started.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let shown = highwater(&["hot-keys", "--admin", &admin, "--reset"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("the-hot-key"), "{shown:?}");
    assert_eq!(json(port, "/v1/hot-keys"), serde_json::json!([]));
    assert_eq!(client.call(&[b"HW.HOTKEYS"]).unwrap().0, "*0");
    assert_eq!(client.call(&[b"SLOWLOG", b"RESET"]).unwrap().0, "+OK");
    cluster.none_died();
}
