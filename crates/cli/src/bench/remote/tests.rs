//! A load against replicas that are a few lines of this file.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use highwater_workloads::Options;

use super::*;

/// A replica that reads whole commands of `HW.CALL` and answers each as it is told.
fn replica(answer: impl Fn(u64) -> Option<String> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (answer, count) = (Arc::new(answer), Arc::new(AtomicU64::new(0)));
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (answer, count) = (answer.clone(), count.clone());
            thread::spawn(move || converse(stream, &*answer, &count));
        }
    });
    address
}

fn converse(mut stream: TcpStream, answer: &dyn Fn(u64) -> Option<String>, count: &AtomicU64) {
    let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => received.extend_from_slice(&chunk[..n]),
            _ => return,
        }
        // Bank's arguments hold no such bytes.
        while let Some(len) = whole(&received) {
            received.drain(..len);
            match answer(count.fetch_add(1, Ordering::SeqCst)) {
                Some(reply) => stream.write_all(reply.as_bytes()).unwrap_or(()),
                None => return,
            }
        }
    }
}

/// The length of the command in front, if it is there.
fn whole(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let line = |from: &mut usize| {
        let end = *from + bytes.get(*from..)?.windows(2).position(|pair| pair == b"\r\n")?;
        let number = std::str::from_utf8(&bytes[*from + 1..end]).unwrap().parse::<usize>().unwrap();
        *from = end + 2;
        Some(number)
    };
    let words = line(&mut at)?;
    for _ in 0..words {
        let len = line(&mut at)?;
        at += len + 2;
    }
    (at <= bytes.len()).then_some(at)
}

fn spec(doors: Vec<SocketAddr>) -> RemoteSpec {
    let workload = Options::parse("bank", [("accounts", "100")]).unwrap().build();
    RemoteSpec {
        doors,
        source: Source::Calls(Arc::from(workload)),
        connections: 3,
        in_flight: 4,
        threads: 2,
        rate: None,
        seed: 1,
        audit_every: 5,
        audit_base: 0,
    }
}

fn until(remote: &Remote, enough: impl Fn(&[WorkerStats]) -> bool) {
    let began = Instant::now();
    while !enough(&remote.stats().unwrap()) {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come");
        thread::yield_now();
    }
}

fn committed(stats: &[WorkerStats]) -> u64 {
    stats.iter().flat_map(|stats| &stats.kinds).map(|kind| kind.committed).sum()
}

#[test]
fn a_closed_loop_counts_what_it_is_told() {
    let door = replica(|n| {
        Some(match n % 4 {
            0 => "-ROLLEDBACK no; nothing was done\r\n".into(),
            1 => "-BADREQUEST no; nothing was done\r\n".into(),
            _ => "$3\r\na\r\n\r\n".into(),
        })
    });
    let remote = Remote::start(&spec(vec![door])).unwrap();
    until(&remote, |stats| committed(stats) > 500);
    let stats = remote.stop().unwrap();
    let sum = |of: &dyn Fn(&WorkerStats) -> u64| stats.iter().map(of).sum::<u64>();
    let rolled_back = sum(&|stats| stats.kinds.iter().map(|kind| kind.user_aborts).sum());
    let bad = sum(&|stats| stats.bad_requests);
    assert!(
        rolled_back.abs_diff(bad) <= 1 && committed(&stats).abs_diff(2 * bad) <= 2,
        "{rolled_back} {bad}"
    );
    assert_eq!(sum(&|stats| stats.unknown), 0);
    assert!(
        stats
            .iter()
            .all(|stats| !stats.running && stats.generator_ns > 0 && !stats.audit.as_slice().is_empty())
    );
}

#[test]
fn who_is_sent_away_asks_the_leader_and_who_is_cut_off_does_not_know() {
    let leader = replica(|n| (n != 700).then(|| "$0\r\n\r\n".to_string()));
    let follower = replica(move |_| Some(format!("-NOTLEADER leader is node 1 at {leader}\r\n")));
    let nobody =
        replica(|_| Some("-NOTLEADER no leader is known at the moment; nothing was done\r\n".into()));
    let remote = Remote::start(&spec(vec![nobody, follower, leader])).unwrap();
    until(&remote, |stats| committed(stats) > 2000);
    let stats = remote.stop().unwrap();
    let unknown: u64 = stats.iter().map(|stats| stats.unknown).sum();
    assert!((1..=4).contains(&unknown), "one connection of four broke once: {unknown}");
    // Audit rows are numbered without a gap, but for those of unknown outcome: what was sent away was asked again.
    for stats in &stats {
        assert!(stats.audit.as_slice().len() <= 5, "{:?}", stats.audit.as_slice());
    }
}

#[test]
fn a_rate_is_kept_and_a_stall_counts() {
    let began = Instant::now();
    let stall = Duration::from_millis(200);
    let door = replica(move |n| {
        if n == 10 {
            // Whoever asks then waits, and so do those behind it.
            thread::sleep(stall);
        }
        Some("$0\r\n\r\n".into())
    });
    let spec = RemoteSpec { rate: Some(1000.0), connections: 1, threads: 1, ..spec(vec![door]) };
    let remote = Remote::start(&spec).unwrap();
    until(&remote, |stats| committed(stats) >= 400);
    let took = began.elapsed();
    let stats = remote.stop().unwrap();
    assert!(took >= Duration::from_millis(390), "no faster than it should: {took:?}");
    let late: u64 = stats[0]
        .kinds
        .iter()
        .map(|kind| kind.latency.len() - kind.latency.count_between(0, 50_000_000))
        .sum();
    // Four were under way; some 150 more were due meanwhile and are late by 50 ms at least.
    assert!(late >= 100, "{late}");
}

#[test]
fn what_no_load_should_meet_ends_it() {
    let door = replica(|_| Some("-ERR unknown command 'HW.CALL'\r\n".into()));
    let remote = Remote::start(&spec(vec![door])).unwrap();
    let began = Instant::now();
    let failure = loop {
        match remote.stats() {
            Err(failure) => break failure,
            Ok(_) => assert!(began.elapsed() < Duration::from_secs(20)),
        }
        thread::yield_now();
    };
    assert!(failure.message.contains("unknown command"), "{}", failure.message);
}
