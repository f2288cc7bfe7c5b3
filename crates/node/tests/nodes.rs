//! Real nodes with a stub engine inside, over real sockets.

#![allow(clippy::unwrap_used, reason = "helpers may unwrap as tests do")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use common::{Event, all_up, call, config, identity, start, start_all};
use highwater_core::{Incarnation, Level, Levels, Library, NodeId, Schema, Speaks};
use highwater_node::admin::protocol::{AdminRequest, AdminResponse, LoadReport, WorkloadSpec};
use highwater_node::library::WITH_WORKLOADS;
use highwater_node::transport::Channel;
use highwater_node::transport::frame::PREFIX_BYTES;
use highwater_node::transport::handshake::{Fingerprint, Hello, Identity};

fn bank() -> WorkloadSpec {
    WorkloadSpec { name: "bank".into(), options: vec![("accounts".into(), "2000".into())] }
}

fn run(in_flight: u32, rate: Option<f64>, audit_every: u32) -> AdminRequest {
    AdminRequest::Run { workload: bank(), in_flight, rate, seed: 1, audit_every, audit_base: 7 }
}

fn load_report(response: AdminResponse) -> LoadReport {
    match response {
        AdminResponse::Load(report) => *report,
        other => panic!("{other:?}"),
    }
}

/// Asks for the counts until they satisfy `enough`.
fn stats_until(admin: &mut common::AdminClient, enough: impl Fn(&LoadReport) -> bool) -> LoadReport {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let report = load_report(admin.ask(&AdminRequest::LoadStats));
        if enough(&report) {
            return report;
        }
        assert!(Instant::now() < deadline, "{report:?}");
    }
}

#[test]
fn a_load_runs_through_every_node_and_is_counted() {
    let nodes = start_all(&config(3, 2));
    let mut admin = nodes[0].admin();
    let mut loaded = admin.ask(&AdminRequest::Load { workload: bank() });
    while let AdminResponse::Progress { .. } = loaded {
        loaded = admin.hear();
    }
    assert_eq!(loaded, AdminResponse::Done);
    assert_eq!(admin.ask(&run(100, None, 10)), AdminResponse::Done);
    stats_until(&mut admin, |report| report.committed > 2000);
    assert_eq!(admin.ask(&AdminRequest::ResetStats), AdminResponse::Done);
    // Slices are told once they are over.
    let sliced = |report: &LoadReport| report.slices.iter().map(|n| u64::from(*n)).sum::<u64>();
    stats_until(&mut admin, |report| report.committed > 2000 && sliced(report) >= 2000);
    let report = load_report(admin.ask(&AdminRequest::Stop));
    assert!(!report.running && report.unknown == 0 && report.gave_up == 0);
    assert_eq!(
        report.per_procedure.iter().map(|procedure| procedure.committed).sum::<u64>(),
        report.committed
    );
    let latency = report.released_latency_us;
    assert!(0.0 < latency.p50 && latency.p50 <= latency.p99 && latency.p99 <= latency.max);
    assert!(sliced(&report) >= 2000, "slices outlive a reset");
    assert!(0 < report.first_release_ns && report.first_release_ns < report.last_release_ns);
    assert!(report.last_release_ns <= report.slices_end_ns + 10_000_000);
    // Every tenth request of each worker was an audit row, each acknowledged once.
    assert_eq!(report.audit.iter().map(|(generator, _)| *generator).collect::<Vec<_>>(), [7, 8]);
    for (_, ranges) in &report.audit {
        assert!(matches!(ranges[..], [(0, last)] if last > 50), "{ranges:?}");
    }
    assert!(report.generator_cpu_ns < report.process_cpu_ns);
}

#[test]
fn a_fixed_rate_is_kept() {
    let nodes = start_all(&config(2, 2));
    let mut admin = nodes[0].admin();
    assert_eq!(admin.ask(&run(1000, Some(2000.0), 0)), AdminResponse::Done);
    let report = stats_until(&mut admin, |report| report.seconds > 0.5);
    let rate = report.committed as f64 / report.seconds;
    assert!((1000.0..2050.0).contains(&rate), "{rate} per second");
    admin.ask(&AdminRequest::Stop);
}

#[test]
fn a_load_waits_on_a_node_that_does_not_lead() {
    let nodes = start_all(&config(2, 1));
    let mut admin = nodes[1].admin();
    match admin.ask(&AdminRequest::Load { workload: bank() }) {
        AdminResponse::Error { message } => assert!(message.contains("load at n0"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(admin.ask(&run(10, None, 0)), AdminResponse::Done);
    let report = load_report(admin.ask(&AdminRequest::Stop));
    assert_eq!((report.committed, report.unknown), (0, 0));
}

/// Once: a knock at a dead node's door that reached its listener while that was closing was reset, and no other followed:
/// the node was missed an election timeout later, not at once. A test waited for the news for 80 minutes, because what it
/// took for silence did not count heartbeats.
#[test]
fn a_dead_process_is_known_to_be_dead_at_once_and_welcomed_back() {
    let config = config(3, 2);
    let mut nodes = start_all(&config);
    // The first is dialed by the others, the last dials them: both ways must notice.
    for (victim, watchers) in [(0, [1, 2]), (2, [0, 1])] {
        let dead = nodes.remove(victim as usize);
        drop(dead);
        let positions = watchers.map(|id: u8| if id > victim { id - 1 } else { id } as usize);
        for position in positions {
            nodes[position].expect(&[Event::Refused(NodeId(victim))]);
        }
        nodes.insert(victim as usize, start(&config, victim, 200 + u64::from(victim)));
        for watcher in watchers {
            nodes[watcher as usize].expect(&all_up(2, victim, 200 + u64::from(victim)));
        }
    }
}

/// Once: the handshake compared neither tables nor procedures: nodes of different builds with one format version
/// connected, and could apply a log differently.
#[test]
fn callers_that_do_not_fit_are_told_why() {
    let config = config(2, 1);
    let node = start(&config, 0, 100);
    let peer = &config.cluster.nodes[0].peer;
    let other = Identity { streams: 3, ..identity(1, 1) };
    let (mut stream, welcome) = call(peer, &Hello::new(&other, NodeId(0), Channel::Control));
    assert_eq!(welcome.refusal.as_deref(), Some("number of workers: caller has 3, called has 1"));
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "and the connection is closed");
    let other = Identity { cluster: "other".into(), ..identity(1, 1) };
    let (_, welcome) = call(peer, &Hello::new(&other, NodeId(0), Channel::Control));
    assert!(welcome.refusal.unwrap().contains("\"highwater\""));
    // A build with one table less: its table numbers may mean something else.
    let mut fewer = WITH_WORKLOADS.tables();
    fewer.pop();
    let other = Identity { schema: Schema::new(fewer), ..identity(1, 1) };
    let (_, welcome) = call(peer, &Hello::new(&other, NodeId(0), Channel::Worker(0)));
    let reason = welcome.refusal.unwrap();
    assert!(reason.starts_with("tables: ") && reason.ends_with("different builds"), "{reason}");
    let far = Speaks { levels: Levels::only(Level(2)), in_use: Level(2) };
    let other = Identity { speaks: far, ..identity(1, 1) };
    let (_, welcome) = call(peer, &Hello::new(&other, NodeId(0), Channel::Control));
    let reason = welcome.refusal.unwrap();
    assert!(reason.ends_with("reads up to level 1: start n0 with a newer build"), "{reason}");
    // Strangers get no answer.
    let mut stranger = TcpStream::connect(peer).unwrap();
    stranger.write_all(&[b'x'; 80]).unwrap();
    assert!(matches!(stranger.read(&mut [0; 1]), Ok(0) | Err(_)));
    assert!(node.events.try_recv().is_err(), "nobody was let in");
}

/// Only what they write travels.
#[test]
fn a_caller_with_other_procedures_is_let_in() {
    let config = config(2, 1);
    let node = start(&config, 0, 100);
    let other = Identity { procedures: Fingerprint::of_procedures(&["bank.pay"], &[1]), ..identity(1, 1) };
    let hello = Hello::new(&other, NodeId(0), Channel::Control);
    let (_stream, welcome) = call(&config.cluster.nodes[0].peer, &hello);
    assert_eq!(welcome.refusal, None);
    node.expect(&[Event::Up(None, NodeId(1), Incarnation(9))]);
}

#[test]
fn nonsense_ends_a_connection_that_was_welcome() {
    let config = config(2, 1);
    let node = start(&config, 0, 100);
    for (channel, number) in [(Channel::Control, None), (Channel::Worker(0), Some(0))] {
        let hello = Hello::new(&identity(1, 1), NodeId(0), channel);
        let (mut stream, welcome) = call(&config.cluster.nodes[0].peer, &hello);
        assert_eq!((welcome.refusal, welcome.incarnation), (None, Incarnation(100)));
        node.expect(&[Event::Up(number, NodeId(1), Incarnation(9))]);
        stream.write_all(&[0; PREFIX_BYTES]).unwrap();
        node.expect(&[Event::Down(number, NodeId(1))]);
    }
}

#[test]
fn a_new_connection_replaces_an_old_one_of_its_channel() {
    let config = config(2, 1);
    let node = start(&config, 0, 100);
    let hello = Hello::new(&identity(1, 1), NodeId(0), Channel::Worker(0));
    let (_old, _) = call(&config.cluster.nodes[0].peer, &hello);
    node.expect(&[Event::Up(Some(0), NodeId(1), Incarnation(9))]);
    let (_new, _) = call(&config.cluster.nodes[0].peer, &hello);
    node.expect(&[Event::Down(Some(0), NodeId(1)), Event::Up(Some(0), NodeId(1), Incarnation(9))]);
}

/// Two processes of one name would replace each other for ever. The first one stays, until it is gone.
#[test]
fn a_second_process_in_the_name_of_a_living_node_is_refused() {
    let config = config(2, 1);
    let node = start(&config, 0, 100);
    let call = |life: u64, channel: Channel| {
        let me = Identity { incarnation: Incarnation(life), ..identity(1, 1) };
        call(&config.cluster.nodes[0].peer, &Hello::new(&me, NodeId(0), channel))
    };
    let (first, welcome) = call(9, Channel::Control);
    assert_eq!(welcome.refusal, None);
    for channel in [Channel::Control, Channel::Worker(0)] {
        let refusal = call(10, channel).1.refusal.unwrap();
        assert!(refusal.contains("another process that says it is n1"), "{refusal}");
    }
    // Its next life is welcome once the first has ended.
    drop(first);
    node.expect(&[Event::Up(None, NodeId(1), Incarnation(9)), Event::Down(None, NodeId(1))]);
    assert_eq!(call(10, Channel::Control).1.refusal, None);
}

#[test]
fn clients_are_served_by_the_worker_that_took_them() {
    let nodes = start_all(&config(2, 2));
    let clients: Vec<_> = (0..8).map(|_| TcpStream::connect(nodes[0].node.resp_address()).unwrap()).collect();
    for mut client in &clients {
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        client.write_all(b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\nPING\r\n").unwrap();
    }
    for mut client in &clients {
        let mut reply = [0; 19];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n+OK\r\n+PONG\r\n");
    }
    let status = match nodes[0].admin().ask(&AdminRequest::Status) {
        AdminResponse::Status(status) => *status,
        other => panic!("{other:?}"),
    };
    assert_eq!((status.clients, status.role.as_str(), status.executed), (8, "stub", 8));
    // Half a connection is enough to get the answers.
    let mut half = TcpStream::connect(nodes[0].node.resp_address()).unwrap();
    half.write_all(&b"SET k v\r\n".repeat(200)).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    half.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"+OK\r\n".repeat(200));
}

#[test]
fn a_client_that_goes_with_requests_under_way_disturbs_nobody() {
    let nodes = start_all(&config(2, 1));
    for _ in 0..20 {
        let mut rude = TcpStream::connect(nodes[0].node.resp_address()).unwrap();
        rude.write_all(&b"SET k v\r\n".repeat(50)).unwrap();
        drop(rude);
        let mut polite = TcpStream::connect(nodes[0].node.resp_address()).unwrap();
        polite.write_all(b"SET k v\r\nQUIT\r\n").unwrap();
        let mut all = Vec::new();
        polite.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"+OK\r\n+OK\r\n");
    }
}

/// Once: a leader that was asked to end did so at once: clients lost replies to transactions that were released a moment
/// later.
#[test]
fn a_node_that_is_asked_to_end_answers_what_is_under_way() {
    for _ in 0..4 {
        let mut nodes = start_all(&config(2, 2));
        let leader = nodes.remove(0);
        let mut clients: Vec<_> =
            (0..4).map(|_| TcpStream::connect(leader.node.resp_address()).unwrap()).collect();
        for client in &mut clients {
            client.write_all(&b"SET k v\r\n".repeat(2000)).unwrap();
        }
        // Requests are under way now, and more of them wait.
        clients[0].read_exact(&mut [0; 5]).unwrap();
        leader.node.stop();
        leader.node.wait().unwrap();
        let mut ran = 1;
        for (at, client) in clients.iter_mut().enumerate() {
            let mut all = String::new();
            client.read_to_string(&mut all).unwrap();
            let lines: Vec<&str> = all.lines().collect();
            let done = lines.iter().take_while(|line| **line == "+OK").count();
            assert!(
                lines[done..]
                    .iter()
                    .all(|line| line.starts_with("-MOVED ") || line.starts_with("-CLUSTERDOWN ")),
                "whole replies"
            );
            assert_eq!(lines.len(), if at == 0 { 1999 } else { 2000 }, "what did not run is refused");
            ran += done as u64;
        }
        let executed: u64 = leader.counters.iter().map(|counts| counts.executed.load(Relaxed)).sum();
        assert_eq!(ran, executed, "each request that ran was answered");
    }
}

#[test]
fn a_node_that_is_asked_to_end_does_not_wait_for_ever() {
    let config = config(2, 1);
    let leader = start(&config, 0, 100);
    // A peer that never echoes.
    let hello = Hello::new(&identity(1, 1), NodeId(0), Channel::Worker(0));
    let (_peer, _) = call(&config.cluster.nodes[0].peer, &hello);
    leader.expect(&[Event::Up(Some(0), NodeId(1), Incarnation(9))]);
    let address = leader.node.resp_address();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"SET k v\r\n").unwrap();
    while leader.counters[0].executed.load(Relaxed) == 0 {
        std::thread::yield_now();
    }
    leader.node.stop();
    leader.node.wait().unwrap();
    let mut all = Vec::new();
    let _ = client.read_to_end(&mut all);
    assert!(all.is_empty(), "{all:?}");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn too_many_clients_are_turned_away() {
    let mut config = config(1, 1);
    config.limits.clients_per_worker = 2;
    let node = start(&config, 0, 100);
    let mut clients: Vec<_> = (0..3).map(|_| TcpStream::connect(node.node.resp_address()).unwrap()).collect();
    let mut reply = String::new();
    clients[2].read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "-ERR max number of clients reached\r\n");
    clients[0].write_all(b"PING\r\n").unwrap();
    clients[0].read_exact(&mut [0; 7]).unwrap();
}

#[test]
fn the_admin_port_explains_itself() {
    let node = start(&config(1, 1), 0, 100);
    let mut admin = node.admin();
    assert!(
        matches!(admin.say("status"), AdminResponse::Error { message } if message.contains("admin protocol"))
    );
    // Who says something else is not listened to any further.
    let mut admin = node.admin();
    let unknown = WorkloadSpec { name: "tpch".into(), options: Vec::new() };
    let response = admin.ask(&AdminRequest::Check { workload: unknown });
    assert!(matches!(response, AdminResponse::Error { message } if message.contains("tpcc")));
    let response = admin.ask(&AdminRequest::Digest);
    assert!(matches!(response, AdminResponse::Digest { rows: 0, bytes: 0, .. }), "{response:?}");
    let missing = AdminRequest::AuditMissing { generator: 3, acknowledged: vec![(0, 4), (9, 9)] };
    assert_eq!(admin.ask(&missing), AdminResponse::AuditMissing { missing: 6 });
    assert_eq!(admin.ask(&AdminRequest::Shutdown), AdminResponse::Done);
    node.node.wait().unwrap();
}

#[test]
fn a_port_in_use_is_named_in_one_line() {
    let mut config = config(1, 1);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    config.cluster.nodes[0].resp = taken.local_addr().unwrap().to_string();
    let error = std::panic::catch_unwind(|| start(&config, 0, 1)).err().expect("the port is taken");
    let message = error.downcast::<String>().unwrap();
    assert!(message.contains("resp") && message.contains("Listen"), "{message}");
}
