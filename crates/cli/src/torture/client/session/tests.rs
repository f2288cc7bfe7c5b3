//! How a transaction ends, against a replica that says what a test wants.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::thread;

use super::*;
use crate::torture::client::work::List;

/// A door that answers each word of a script to one command, and hangs up at its end.
fn door(replies: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut commands = BufReader::new(stream.try_clone().unwrap());
        for reply in replies {
            let mut line = String::new();
            commands.read_line(&mut line).unwrap();
            let words: usize = line.trim()[1..].parse().unwrap();
            (0..2 * words).for_each(|_| drop(commands.read_line(&mut line)));
            (&stream).write_all(reply.as_bytes()).unwrap();
        }
    });
    address
}

/// Runs one task; the outcome and the line of history.
fn run(task: &Task, replies: &'static [&'static str]) -> (Status, String, Vec<String>) {
    run_as(Asks::Leader, task, replies)
}

fn run_as(asks: Asks, task: &Task, replies: &'static [&'static str]) -> (Status, String, Vec<String>) {
    let patience = Duration::from_secs(5);
    let setup = Setup { asks, doors: vec![door(replies)], number: 3, of: 16, patience, seed: 1 };
    let mut line = Vec::new();
    let mut session = Session::new(setup, &mut line);
    assert!(session.connected());
    let status = session.run(task, &Lists::default()).unwrap();
    let trouble = std::mem::take(&mut session.trouble);
    session.finish().unwrap();
    (status, String::from_utf8(line).unwrap(), trouble)
}

fn lists() -> Task {
    let list = List { slot: 0, generation: 0 };
    Task::Lists(vec![Step { list, append: Some(7) }, Step { list, append: None }])
}

const TRANSFER: Task = Task::Transfer { accounts: [0, 1], amount: 5, ids: [21, 22] };

#[test]
fn what_exec_answers_is_what_happened() {
    let (status, line, _) =
        run(&lists(), &["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n:4\r\n$4\r\n5,7,\r\n"]);
    assert_eq!(status, Status::Ok);
    assert!(line.contains(r#""ops":[["a","l0.0",7],["r","l0.0",[5,7]]]"#), "{line}");
}

#[test]
fn refusals_are_failures_and_silence_is_not() {
    let exec = |reply: &'static str| -> &'static [&'static str] {
        Vec::leak(vec!["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", reply])
    };
    for refusal in ["-NOTLEADER no leader is known\r\n", "-NOQUORUM x\r\n", "-CONFLICT x\r\n", "*-1\r\n"] {
        let (status, line, trouble) = run(&lists(), exec(refusal));
        assert_eq!((status, trouble.len()), (Status::Fail, 0), "{refusal}");
        assert!(line.contains(r#"["r","l0.0",null]"#), "{line}");
    }
    let (status, line, trouble) = run(&lists(), exec("-UNKNOWN outcome unknown: x\r\n"));
    assert_eq!((status, trouble.len()), (Status::Info, 0));
    assert!(!line.contains("t1"), "{line}");
    assert_eq!(run(&lists(), &["+OK\r\n", "+QUEUED\r\n"]).0, Status::Info);
}

#[test]
fn a_multi_that_fails_leaves_the_outcome_open() {
    let (status, _, trouble) = run(&lists(), &["-ERR no\r\n", ":2\r\n", "$-1\r\n", "-ERR no MULTI\r\n"]);
    assert_eq!((status, trouble.len()), (Status::Info, 1));
}

#[test]
fn a_transfer_that_sent_no_write_has_failed() {
    assert_eq!(run(&TRANSFER, &["+OK\r\n"]).0, Status::Fail);
    let refused = &["-NOTLEADER no leader\r\n", "-NOTLEADER no leader\r\n", "-NOTLEADER no leader\r\n"];
    assert_eq!(run(&TRANSFER, refused).0, Status::Fail);
    let seen = ["+OK\r\n", "$5\r\n100:1\r\n", "$5\r\n100:2\r\n"];
    let sent: Vec<&str> = seen.into_iter().chain(["+OK\r\n", "+QUEUED\r\n"]).collect();
    assert_eq!(run(&TRANSFER, Vec::leak(sent)).0, Status::Info);
    let moved: Vec<&str> =
        seen.into_iter().chain(["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n+OK\r\n+OK\r\n"]).collect();
    let (status, line, _) = run(&TRANSFER, Vec::leak(moved));
    assert_eq!(status, Status::Ok);
    assert!(line.contains(r#"[["r","b0",1],["r","b1",2],["w","b0",21],["w","b1",22]]"#), "{line}");
}

#[test]
fn a_snapshot_is_read_on_a_readonly_connection_by_another_process() {
    let list = List { slot: 0, generation: 0 };
    let reads = Task::Lists(vec![Step { list, append: None }; 2]);
    let block = ["+OK\r\n", "+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n"];
    let answer = |exec| -> &'static [&'static str] { Vec::leak(block.into_iter().chain([exec]).collect()) };
    let read = "*2\r\n$2\r\n5,\r\n$2\r\n5,\r\n";
    let (status, line, trouble) = run_as(Asks::Snapshots, &reads, answer(read));
    assert_eq!((status, trouble.len()), (Status::Ok, 0));
    assert!(line.contains(r#""p":19,"#) && line.contains(r#""snap":true"#), "{line}");
    let (_, line, _) = run_as(Asks::Present, &reads, answer(read));
    assert!(!line.contains("snap"), "{line}");
    for refusal in ["-NOTLEADER leader is node 1 at 127.0.0.1:1\r\n", "-CONFLICT x\r\n"] {
        assert_eq!(run_as(Asks::Snapshots, &reads, answer(refusal)).0, Status::Fail, "{refusal}");
    }
}

#[test]
fn money_that_is_missing_is_noticed() {
    let block = "*1\r\n*8\r\n$3\r\n1:1\r\n$3\r\n1:2\r\n$3\r\n1:3\r\n$3\r\n1:4\r\n$3\r\n1:5\r\n$3\r\n1:6\r\n$3\r\n1:7\r\n$3\r\n1:8\r\n";
    // In a block or alone: the seed decides, so try both.
    let (_, _, alone) = run(&Task::Total, Vec::leak(vec![&block[4..]]));
    let (_, _, blocked) = run(&Task::Total, Vec::leak(vec!["+OK\r\n", "+QUEUED\r\n", block]));
    assert!(alone.iter().chain(&blocked).any(|trouble| trouble.contains("add up")), "{alone:?} {blocked:?}");
}

#[test]
fn what_a_read_asks_for_is_said_before_it_and_written_down() {
    let list = List { slot: 0, generation: 0 };
    let reads = Task::Lists(vec![Step { list, append: None }; 2]);
    let script: &[&str] =
        &["+OK\r\n", "+OK\r\n", "+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n$-1\r\n$-1\r\n"];
    let refused: &[&str] = &["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "-NOTFRESH no leader vouches\r\n"];
    let doors = vec![door(Vec::leak([script, refused].concat()))];
    let patience = Duration::from_secs(5);
    let setup = Setup { asks: Asks::Snapshots, doors, number: 3, of: 16, patience, seed: 2 };
    let mut lines = Vec::new();
    let mut session = Session::new(setup, &mut lines);
    assert!(session.connected() && session.ask_for(Fresh::Within(10)));
    let (status, began) = session.run_timed(&reads, &Lists::default()).unwrap();
    assert_eq!(status, Status::Ok);
    // The connection keeps what it was told.
    assert!(session.ask_for(Fresh::Within(10)));
    assert_eq!(session.run(&reads, &Lists::default()).unwrap(), Status::Fail);
    assert_eq!((session.not_fresh, session.trouble.len()), (1, 0));
    session.finish().unwrap();
    let text = String::from_utf8(lines).unwrap();
    assert!(text.contains(&format!(r#""snap":true,"since":{}"#, began - 10_000_000)), "{text}");
}

/// Where nobody leads each client has a replica that it keeps to, whatever conflicts there, and others while that one fails.
#[test]
fn without_a_leader_a_client_keeps_to_its_replica() {
    let conflict: &[&str] = &["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "-CONFLICT too many\r\n"];
    let done: &[&str] = &["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n:2\r\n$2\r\n7,\r\n"];
    let script: &'static [&'static str] = Vec::leak([conflict, conflict, done].concat());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = nobody.local_addr().unwrap();
    drop(nobody);
    let doors = vec![closed, door(script), closed];
    let patience = Duration::from_secs(5);
    // Number 4 of three doors: the second one.
    let setup = Setup { asks: Asks::Anybody, doors, number: 4, of: 16, patience, seed: 1 };
    let mut lines = Vec::new();
    let mut session = Session::new(setup, &mut lines);
    for wanted in [Status::Fail, Status::Fail, Status::Ok] {
        assert!(session.connected());
        assert_eq!(session.run(&lists(), &Lists::default()).unwrap(), wanted);
    }
    // It hung up: from here on any door is tried.
    assert!(session.connected());
    assert_eq!(session.run(&lists(), &Lists::default()).unwrap(), Status::Info);
    let tried: std::collections::BTreeSet<SocketAddr> = (0..40).map(|_| session.door()).collect();
    assert_eq!((session.astray, tried.len()), (true, 2));
    session.finish().unwrap();
    assert_eq!(String::from_utf8(lines).unwrap().lines().count(), 4);
}
