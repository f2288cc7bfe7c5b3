//! What clients may do to a node with a real replica inside, over real sockets: long pipelines, large values, half
//! connections, strangers.

#![allow(clippy::unwrap_used, reason = "helpers may unwrap as tests do")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use common::{command, config, resp_client, start, start_alone};
use highwater_node::Node;
use highwater_node::admin::protocol::{AdminRequest, AdminResponse};
use highwater_node::config::Benchmarks;

/// Sets `k` to `len` bytes; what a `GET k` answers.
fn prepare(node: &Node, len: usize) -> Vec<u8> {
    let mut client = resp_client(node.resp_address());
    let value = vec![b'v'; len];
    client.write_all(&command(&[b"SET", b"k", &value])).unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    [format!("${len}\r\n").as_bytes(), &value, b"\r\n"].concat()
}

/// Waits until the node holds what the client does not read: so many replies fill every buffer in between.
fn until_replies_wait(node: &Node) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while node.held().replies < 1 << 20 {
        assert!(Instant::now() < deadline, "{:?}", node.held());
        std::thread::yield_now();
    }
}

fn expect_replies(client: &mut TcpStream, reply: &[u8], count: usize) {
    let mut got = vec![0; reply.len()];
    for at in 0..count {
        client.read_exact(&mut got).unwrap_or_else(|error| panic!("reply {at} of {count}: {error}"));
        assert!(got == reply, "reply {at} of {count}");
    }
}

/// Once: a client that writes 100,000 commands before it reads, and a node that stops reading while its replies wait,
/// waited for each other.
#[test]
fn who_writes_a_whole_pipeline_before_reading_gets_every_reply() {
    let node = start_alone(&config(1, 1));
    let (reply, get) = (prepare(&node, 1000), command(&[b"GET", b"k"]));
    for count in [1, 64, 1024, 20_000, 100_000] {
        let mut client = resp_client(node.resp_address());
        client.write_all(&get.repeat(count)).unwrap();
        if count >= 20_000 {
            until_replies_wait(&node);
        }
        expect_replies(&mut client, &reply, count);
    }
}

#[test]
fn who_closes_its_half_behind_a_pipeline_gets_every_reply() {
    let node = start_alone(&config(1, 1));
    let (reply, get) = (prepare(&node, 2000), command(&[b"GET", b"k"]));
    for count in [1, 64, 2200, 20_000] {
        let mut client = resp_client(node.resp_address());
        client.write_all(&get.repeat(count)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        if count >= 20_000 {
            until_replies_wait(&node);
        }
        expect_replies(&mut client, &reply, count);
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    }
}

/// Several blocking commands at once, with others in between: each waits as long as it says, from when the one before it ended.
#[test]
fn blocking_commands_in_a_pipeline_each_have_their_time() {
    let node = start_alone(&config(1, 1));
    let blpop: &[&[u8]] = &[b"BLPOP", b"nothing", b"0.05"];
    let bzpopmin: &[&[u8]] = &[b"BZPOPMIN", b"nothing", b"0.001"];
    let mut client = resp_client(node.resp_address());
    let commands = [blpop, blpop, &[b"PING"], bzpopmin, bzpopmin, &[b"GET", b"k"], blpop];
    let began = Instant::now();
    client.write_all(&commands.map(command).concat()).unwrap();
    let expected = "*-1\r\n*-1\r\n+PONG\r\n*-1\r\n*-1\r\n$-1\r\n*-1\r\n";
    let mut got = vec![0; expected.len()];
    client.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8(got).unwrap(), expected);
    assert!(began.elapsed() >= Duration::from_millis(152), "{:?}", began.elapsed());
}

/// Who reads to the end of a connection does not wait for it.
#[test]
fn who_closes_its_half_hears_the_end_with_the_last_reply() {
    let node = start_alone(&config(1, 1));
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let mut client = resp_client(node.resp_address());
            client.write_all(&command(&[b"PING"])).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let began = Instant::now();
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            assert_eq!(text, "+PONG\r\n");
            began.elapsed()
        })
        .collect();
    times.sort();
    assert!(times[10] < Duration::from_millis(100), "{times:?}");
}

#[test]
fn commands_may_come_byte_by_byte() {
    let node = start_alone(&config(1, 1));
    let (reply, get) = (prepare(&node, 100), command(&[b"GET", b"k"]));
    let mut client = resp_client(node.resp_address());
    for byte in get.repeat(50) {
        client.write_all(&[byte]).unwrap();
    }
    expect_replies(&mut client, &reply, 50);
}

#[test]
fn gets_of_a_large_value_cost_neither_memory_nor_the_others_time() {
    let node = start_alone(&config(1, 1));
    let reply = prepare(&node, 16_000_000);
    let mut hog = resp_client(node.resp_address());
    hog.write_all(&command(&[b"GET", b"k"]).repeat(500)).unwrap();
    // The others are served meanwhile; nobody reads the 8 GB.
    let mut polite = resp_client(node.resp_address());
    let (mut most, begin) = (0, Instant::now());
    for _ in 0..300 {
        polite.write_all(b"SET a 1\r\n").unwrap();
        polite.read_exact(&mut [0; 5]).unwrap();
        most = most.max(node.held().replies);
    }
    // Loose: the machine may be busy. It was 5 s for one of them.
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert!((1 << 20..80 << 20).contains(&most), "{most} bytes of replies held");
    expect_replies(&mut hog, &reply, 5);
}

/// Each of them is found out only when it was given a reply that it does not take, and room for those is short: who takes its own went
/// without until all of them were, and who came new waited for two of them a second.
/// Once: clients that ask for large values and take none stopped all others of their worker, two of them cut off every 2
/// s: 28 s for 60, 54 s for 120. Who has taken a reply to its end goes before who has not, in half of the room, where one
/// of those that have not is let in a second, so that none starves.
#[test]
fn a_crowd_that_takes_no_replies_is_nobody_elses_delay() {
    let mut config = config(1, 1);
    config.limits.reply_bytes_per_worker = 24 << 20;
    let node = start_alone(&config);
    prepare(&node, 16 << 20);
    let mut counter = resp_client(node.resp_address());
    let increase = command(&[b"INCR", b"n"]);
    counter.write_all(&increase).unwrap();
    counter.read_exact(&mut [0; 4]).unwrap();
    let get = command(&[b"GET", b"k"]).repeat(20);
    let _crowd: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut one = resp_client(node.resp_address());
            one.write_all(&get).unwrap();
            one
        })
        .collect();
    until_replies_wait(&node);
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    let mut ask = |client: &mut TcpStream, command: &[u8]| {
        let asked = Instant::now();
        client.write_all(command).unwrap();
        let mut byte = [0];
        while byte != *b"\n" {
            client.read_exact(&mut byte).unwrap();
        }
        longest = longest.max(asked.elapsed());
    };
    while began.elapsed() < Duration::from_secs(6) {
        ask(&mut counter, &increase);
        for command in
            [command(&[b"PING"]), command(&[b"SET", b"short", b"1"]), command(&[b"EXISTS", b"short"])]
        {
            ask(&mut resp_client(node.resp_address()), &command);
        }
    }
    assert!(longest < Duration::from_millis(2500), "{longest:?}");
}

/// They were answered by nothing: whoever read on took the reply to the next command for theirs.
#[test]
fn what_names_something_too_long_is_answered() {
    let node = start_alone(&config(1, 1));
    let mut client = resp_client(node.resp_address());
    let long = vec![b'n'; 65_540];
    let library = |name: &[u8], function: &[u8]| {
        let function = [b"\nredis.register_function('", function, b"', function() return 1 end)"].concat();
        [b"#!lua name=", name, &function[..]].concat()
    };
    let (named, registers) = (library(&long, b"f"), library(b"l", &long));
    let script = b"return redis.call('OBJECT', 'ENCODING', ARGV[1])";
    let asks: &[&[&[u8]]] = &[
        &[b"MEMORY", b"USAGE", &long],
        &[b"OBJECT", b"ENCODING", &long],
        &[b"DEBUG", b"OBJECT", &long],
        &[b"FCALL", &long, b"0"],
        &[b"FCALL_RO", &long, b"0"],
        &[b"FUNCTION", b"DELETE", &long],
        &[b"FUNCTION", b"LOAD", &named],
        &[b"FUNCTION", b"LOAD", &registers],
        &[b"HW.GET", &long, b"1"],
        &[b"HW.PUT", &long, b"1", b"v"],
        &[b"HW.DEL", &long, b"1"],
        &[b"HW.RANGE", &long, b"-", b"+"],
        &[b"HW.TABLE", b"DROP", &long],
        &[b"ACL", b"SETUSER", &long, b"on"],
        &[b"EVAL", script, b"0", &long],
        &[b"HW.MODULE", b"UNLOAD", &long],
        &[b"HW.INVOKE", &long, b"0"],
    ];
    let around: [[&[u8]; 2]; 3] = [[b"PING", b"PING"], [b"MULTI", b"EXEC"], [b"HW.BEGIN", b"HW.ROLLBACK"]];
    for ask in asks {
        for [before, behind] in around {
            client.write_all(&[command(&[before]), command(ask), command(&[behind])].concat()).unwrap();
            client.write_all(b"ECHO marker\r\n").unwrap();
            let told: Vec<String> = (0..4).map(|_| read_reply(&mut client)).collect();
            let what = String::from_utf8_lossy(ask[0]).into_owned();
            assert_eq!(told[3], "marker", "{what} behind {before:?}: {told:?}");
        }
    }
}

/// A reply of one line, or of one string.
fn read_reply(client: &mut TcpStream) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&line[..line.len() - 2]).into_owned();
    match text.strip_prefix('$').and_then(|len| len.parse::<usize>().ok()) {
        Some(len) => {
            let mut bulk = vec![0; len + 2];
            client.read_exact(&mut bulk).unwrap();
            String::from_utf8_lossy(&bulk[..len]).into_owned()
        }
        None => match text.strip_prefix('*').and_then(|len| len.parse::<usize>().ok()) {
            Some(len) => (0..len).map(|_| read_reply(client)).collect::<Vec<_>>().join(" "),
            None => text,
        },
    }
}

/// More than half of the room is taken by somebody who takes its reply, if slowly, and is not cut off for it. Sockets hold some 10 MB of its 48.
#[test]
fn who_comes_new_is_served_beside_a_slow_reader() {
    let mut config = config(1, 1);
    config.limits.reply_bytes_per_worker = 56 << 20;
    let node = start_alone(&config);
    prepare(&node, 16 << 20);
    let mut slow = resp_client(node.resp_address());
    slow.write_all(&command(&[b"MGET", b"k", b"k", b"k"])).unwrap();
    until_replies_wait(&node);
    let mut fresh = resp_client(node.resp_address());
    fresh.write_all(&command(&[b"INCR", b"n"])).unwrap();
    fresh.set_nonblocking(true).unwrap();
    let (mut chunk, mut read) = (vec![0; 64 << 10], 0);
    while fresh.peek(&mut [0]).is_err() {
        read += slow.read(&mut chunk).unwrap();
        assert!(read < 8 << 20, "it waits until less than half is taken");
        // How slow it is; nobody is waited for.
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn strangers_that_speak_http_do_nothing_at_the_resp_port() {
    let node = start_alone(&config(1, 1));
    for request in [
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\nSET stolen 1\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nSET stolen 1\r\n",
        "PUT /x HTTP/1.1\r\nSET stolen 1\r\n",
    ] {
        let mut browser = resp_client(node.resp_address());
        browser.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = browser.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    let mut client = resp_client(node.resp_address());
    client.write_all(b"EXISTS stolen\r\n").unwrap();
    expect_replies(&mut client, b":0\r\n", 1);
}

/// Once: `curl -d` could shut a node down through the admin port, and write through the RESP port.
#[test]
fn strangers_that_speak_http_do_nothing_at_the_admin_port() {
    let node = start(&config(1, 1), 0, 100);
    for (request, refusal) in [
        ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n{\"do\":\"shutdown\"}\n", "HTTP/1.1 405 "),
        ("GET / HTTP/1.1\r\n\r\n{\"do\":\"shutdown\"}\n", "HTTP/1.1 400 "),
        ("{}\n{\"do\":\"shutdown\"}\n", "{\"is\":\"error\""),
    ] {
        let mut browser = TcpStream::connect(node.node.admin_address()).unwrap();
        browser.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        browser.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        browser.read_to_string(&mut answer).unwrap();
        // One answer: what stands behind the first line, or in the body, is not looked at.
        assert!(answer.starts_with(refusal) && !answer.contains("done"), "{answer}");
    }
    assert!(matches!(node.admin().ask(&AdminRequest::Status), AdminResponse::Status(_)));
}

/// Once: admin lines of up to 64 MiB were read and parsed on the control thread: heartbeats waited, the leader was
/// deposed.
#[test]
fn an_admin_line_without_an_end_ends_its_connection_and_takes_nobody_elses_time() {
    let node = start(&config(1, 1), 0, 100);
    let mut long = TcpStream::connect(node.node.admin_address()).unwrap();
    long.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let piece = b"{\"do\":\"audit_missing\",\"generator\":1,\"acknowledged\":[".repeat(1000);
    let mut written = 0;
    // It breaks long before the end.
    while written < 60 << 20 && long.write_all(&piece).is_ok() {
        written += piece.len();
        assert!(node.node.held().requests < 4 << 20);
    }
    assert!(written < 60 << 20, "sixty megabytes were taken");
    assert!(matches!(node.admin().ask(&AdminRequest::Status), AdminResponse::Status(_)));
}

/// Once: a range of audit rows in an admin request of 60 bytes could make the node collect four billion of them.
#[test]
fn every_range_of_audit_rows_is_looked_through_in_little_memory() {
    let node = start(&config(1, 1), 0, 100);
    let acknowledged = vec![(0, 999_999), (2_000_000, 2_000_000), (u32::MAX, u32::MAX), (5, 4)];
    let missing = node.admin().ask(&AdminRequest::AuditMissing { generator: 3, acknowledged });
    assert_eq!(missing, AdminResponse::AuditMissing { missing: 1_000_002 });
}

#[test]
fn operators_that_say_nothing_make_room_for_others() {
    let node = start(&config(1, 1), 0, 100);
    let silent: Vec<_> = (0..300).map(|_| TcpStream::connect(node.node.admin_address()).unwrap()).collect();
    assert!(matches!(node.admin().ask(&AdminRequest::Status), AdminResponse::Status(_)));
    drop(silent);
}

/// To clients there are no procedures of benchmarks, whatever their users may do, unless an operator says so.
#[test]
fn benchmarks_cannot_be_called_unless_they_are_turned_on() {
    let mut config = config(1, 1);
    for benchmarks in [Benchmarks::Off, Benchmarks::On] {
        config.server.benchmarks = benchmarks;
        let node = start_alone(&config);
        let mut client = resp_client(node.resp_address());
        let mut ask = |words: &[&[u8]]| {
            client.write_all(&command(words)).unwrap();
            let mut line = String::new();
            BufReader::new(&client).read_line(&mut line).unwrap();
            line
        };
        for called in [&b"audit.noop"[..], b"AUDIT.Noop"] {
            let told = ask(&[b"HW.CALL", called]);
            match benchmarks {
                Benchmarks::Off => {
                    assert!(told.starts_with("-NOPROCEDURE ") && told.contains("benchmarks"), "{told}")
                }
                Benchmarks::On => assert_eq!(told, "+OK\r\n"),
            }
        }
        assert_eq!(ask(&[b"HW.PROCEDURES"]) == "*0\r\n", benchmarks == Benchmarks::Off);
        // Nor can an operator load one where they are not hosted.
        for asked in [
            "{\"do\":\"load\",\"workload\":{\"name\":\"bank\",\"options\":[[\"accounts\",\"10\"]]}}\n",
            "{\"do\":\"audit_missing\",\"generator\":1,\"acknowledged\":[]}\n",
        ] {
            let mut admin = TcpStream::connect(node.admin_address()).unwrap();
            admin.write_all(asked.as_bytes()).unwrap();
            let mut line = String::new();
            BufReader::new(&admin).read_line(&mut line).unwrap();
            assert_eq!(line.contains("server.benchmarks"), benchmarks == Benchmarks::Off, "{line}");
        }
    }
}

/// A build without that part says so to whoever asks for it, and which build has it.
#[cfg(not(feature = "delegates"))]
#[test]
fn clients_that_coordinate_find_no_door_in_a_build_without_delegates() {
    use highwater_core::Fingerprint;
    use highwater_meerkat_wire::frames::{Hello, VERSION, WELCOME_BYTES, Welcome};

    let mut alone = config(1, 1);
    alone.cluster.engine = "meerkat".into();
    let node = start_alone(&alone);
    let mut stream = TcpStream::connect(&alone.cluster.nodes[0].peer).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let schema = highwater_node::library::hosted(Benchmarks::Off).schema();
    let tables = Fingerprint::of_tables(&schema, highwater_core::level::NEWEST);
    let cluster = Fingerprint::of_name(&alone.cluster.id);
    stream.write_all(&Hello { version: VERSION, number: 0, cluster, tables }.encode()).unwrap();
    let mut welcome = [0; WELCOME_BYTES];
    stream.read_exact(&mut welcome).unwrap();
    let refusal = Welcome::decode(&welcome).unwrap().refusal.unwrap();
    assert!(refusal.contains("--features delegates"), "{refusal}");
    node.stop();
}
