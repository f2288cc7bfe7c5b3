//! Three real replicas with disks, all killed at once under load, again and again: what was acknowledged is there, and who comes back is
//! who it was.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

mod processes;

use processes::{Client, Cluster, PATIENCE};

const ROUNDS: usize = 3;
const CLIENTS: usize = 4;
/// Acknowledged in each round, by each client, before the power fails.
const ENOUGH: u64 = 100;

/// Adds 1 to a counter until nobody answers any more, or it is not known whether that was done; how often it was acknowledged.
/// `ports`: where replicas answer; whoever does not lead is passed over. `enough` counts clients that had their share, or ended.
fn count(ports: &[u16], name: &str, enough: &std::sync::atomic::AtomicUsize, over: &AtomicBool) -> u64 {
    let (mut acknowledged, mut told) = (0, false);
    'connected: for port in ports.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let Some(mut client) = Client::connect(*port) else { continue };
        while !over.load(Ordering::Relaxed) {
            match client.call(&[b"INCR", name.as_bytes()]) {
                Some((line, _)) if line.starts_with(':') => acknowledged += 1,
                // Nothing was done.
                Some((line, _)) if processes::refused(&line) => {
                    continue 'connected;
                }
                _ => break 'connected,
            }
            if acknowledged == ENOUGH && !std::mem::replace(&mut told, true) {
                enough.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    if !told {
        enough.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

#[test]
fn nothing_acknowledged_is_lost_when_all_are_killed_at_once() {
    let mut cluster = Cluster::start("disks", "durability = \"sync\"", None);
    let mut acknowledged = [0; CLIENTS];
    for round in 0..=ROUNDS {
        let (leader, _) = cluster.leader();
        for (at, least) in acknowledged.iter_mut().enumerate() {
            let (_, value) = ask(&cluster, &[b"GET", format!("counter:{at}").as_bytes()]);
            let value: u64 = String::from_utf8(value).unwrap().parse().unwrap_or(0);
            // One request of each client may have been under way.
            assert!(
                (*least..=*least + 1).contains(&value),
                "round {round}: counter {at} is {value}, {least} acknowledged"
            );
            *least = value;
        }
        if round == ROUNDS {
            break;
        }
        let (enough, over) = (std::sync::atomic::AtomicUsize::new(0), AtomicBool::new(false));
        let ports: Vec<u16> = (0..3).map(|at| cluster.port((leader + at) % 3)).collect();
        let counted: Vec<u64> = thread::scope(|scope| {
            let (ports, enough, over) = (&ports, &enough, &over);
            let counting: Vec<_> = (0..CLIENTS)
                .map(|at| scope.spawn(move || count(ports, &format!("counter:{at}"), enough, over)))
                .collect();
            let started = Instant::now();
            while enough.load(Ordering::Relaxed) < CLIENTS {
                assert!(started.elapsed() < PATIENCE, "the clients get no answers");
                thread::yield_now();
            }
            cluster.kill_all();
            over.store(true, Ordering::Relaxed);
            counting.into_iter().map(|client| client.join().unwrap()).collect()
        });
        acknowledged.iter_mut().zip(counted).for_each(|(sum, counted)| *sum += counted);
        (0..3).for_each(|id| cluster.run(id));
    }
    cluster.none_died();
    cluster.kill_all();
    let journal = cluster.directory().join("node-0");
    let verified =
        Command::new(env!("CARGO_BIN_EXE_highwater")).args(["log", "verify"]).arg(&journal).output();
    let verified = verified.unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let log = std::fs::read_to_string(cluster.directory().join("0.log")).unwrap();
    assert!(!log.contains("has lost its memory"), "{log}");
}

/// A folder that is somebody else's, or in use, is refused with words.
#[test]
fn a_folder_belongs_to_one_node_of_one_cluster() {
    let mut cluster = Cluster::start("folders", "durability = \"sync\"", None);
    cluster.leader();
    let config = cluster.directory().join("0.toml");
    let serve = |overrides: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(["serve", "--config"])
            .arg(&config)
            .args(overrides)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, words) = serve(&[]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("node-0") && words.contains("another process has locked it"), "{words}");
    cluster.kill_all();
    let (code, words) = serve(&["--set", "cluster.id=other"]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("of cluster \"highwater\", not to node 0 of \"other\""), "{words}");
    let (code, words) = serve(&["--set", "cluster.workers=3"]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("another number of workers"), "{words}");
}

/// Who lost its journal must not vote as who it was; and a journal without its beginning is refused.
#[test]
fn an_identity_without_its_journal_is_another_life() {
    let mut cluster = Cluster::start("journals", "durability = \"sync\"", None);
    let (_, mut client) = cluster.leader();
    assert_eq!(client.call(&[b"SET", b"kept", b"value"]).map(|(line, _)| line).as_deref(), Some("+OK"));
    cluster.kill_all();
    let folder = cluster.directory().join("node-1");
    let journal = |name: &str| name.starts_with("journal-");
    for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()) {
        if journal(entry.file_name().to_str().unwrap()) {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    (0..3).for_each(|id| cluster.run(id));
    let answer = ask(&cluster, &[b"GET", b"kept"]);
    let log = std::fs::read_to_string(cluster.directory().join("1.log")).unwrap();
    assert_eq!(answer, ("$5".to_string(), b"value".to_vec()), "{log}");
    assert!(log.contains("begins another life"), "{log}");
    cluster.none_died();
}

/// What the leader answers, whoever that is by then. To be asked twice without harm.
fn ask(cluster: &Cluster, parts: &[&[u8]]) -> processes::Answer {
    loop {
        let (_, mut client) = cluster.leader();
        match client.call(parts) {
            Some(answer) if !processes::refused(&answer.0) && !answer.0.starts_with("-UNKNOWN") => {
                return answer;
            }
            _ => {}
        }
    }
}

/// The names of a node's files that begin so, sorted.
fn files(cluster: &Cluster, node: usize, begins: &str) -> Vec<String> {
    let folder = cluster.directory().join(format!("node-{node}"));
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.starts_with(begins));
    names.sort();
    names
}

fn wait_for(what: &str, cluster: &Cluster, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        let log = std::fs::read_to_string(cluster.directory().join("0.log")).unwrap_or_default();
        assert!(started.elapsed() < PATIENCE, "{what}:\n{log}");
        thread::yield_now();
    }
}

/// Under load every node writes checkpoints, and the journal behind them goes; all come back from checkpoint and journal, and so does
/// one whose newest checkpoint is damaged; one without its folder copies the state, writes it down, and votes again.
#[test]
fn checkpoints_bound_the_journal_and_bring_the_data_back() {
    let mut cluster = Cluster::start("checkpoints", "durability = \"sync\"", None);
    let value = |round: usize, at: usize| vec![b'a' + (round * 7 + at) as u8 % 26; 300_000 + at];
    let check = |cluster: &Cluster, rounds: usize| {
        for at in 0..20 {
            let (_, found) = ask(cluster, &[b"GET", format!("large:{at}").as_bytes()]);
            assert_eq!(found, if at % 5 == 4 { Vec::new() } else { value(rounds - 1, at) }, "value {at}");
        }
    };
    for round in 0..4 {
        if round > 0 {
            check(&cluster, round);
        }
        for at in 0..20 {
            let key = format!("large:{at}");
            // Twice: a checkpoint is due when the journal has grown by as much as the data take.
            for _ in 0..2 {
                assert_eq!(ask(&cluster, &[b"SET", key.as_bytes(), &value(round, at)]).0, "+OK");
            }
            if at % 5 == 4 {
                ask(&cluster, &[b"DEL", key.as_bytes()]);
            }
        }
        let published =
            |node: usize| files(&cluster, node, "checkpoint-").iter().any(|name| name.ends_with(".manifest"));
        wait_for("every node writes a checkpoint", &cluster, || (0..3).all(published));
        cluster.kill_all();
        if round == 2 {
            let newest =
                files(&cluster, 1, "checkpoint-").into_iter().rev().find(|name| name.contains("part-0"));
            let damaged = cluster.directory().join("node-1").join(newest.unwrap());
            let mut bytes = std::fs::read(&damaged).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&damaged, bytes).unwrap();
        }
        (0..3).for_each(|id| cluster.run(id));
    }
    check(&cluster, 4);
    let log = std::fs::read_to_string(cluster.directory().join("1.log")).unwrap();
    assert!(log.contains("loaded a checkpoint"), "{log}");
    wait_for("the first files of the journal go", &cluster, || {
        (0..3).all(|node| files(&cluster, node, "journal-")[0] != "journal-0000000000000001")
    });

    cluster.kill_all();
    std::fs::remove_dir_all(cluster.directory().join("node-2")).unwrap();
    (0..3).for_each(|id| cluster.run(id));
    check(&cluster, 4);
    let log = || std::fs::read_to_string(cluster.directory().join("2.log")).unwrap();
    wait_for("who lost its folder writes down what it copied", &cluster, || {
        let log = log();
        log.contains("copying the state from")
            && files(&cluster, 2, "checkpoint-").iter().any(|name| name.ends_with(".manifest"))
    });
    cluster.none_died();
    cluster.kill_all();
    for node in 0..3 {
        let folder = cluster.directory().join(format!("node-{node}"));
        for what in ["log", "checkpoint"] {
            if node == 1 && what == "checkpoint" {
                // The damaged one may be there still.
                continue;
            }
            let verified = Command::new(env!("CARGO_BIN_EXE_highwater"))
                .args([what, "verify"])
                .arg(&folder)
                .output()
                .unwrap();
            assert!(
                verified.status.success(),
                "{what} {node}: {}",
                String::from_utf8_lossy(&verified.stderr)
            );
        }
    }
}
/// Ends one replica at once.
fn kill(cluster: &mut Cluster, id: usize) {
    let mut child = cluster.replicas[id].take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Somebody stops a node, copies its folder, goes on, and later puts the copy back.
#[test]
fn a_folder_restored_from_an_older_copy_is_recognised_and_set_aside() {
    let mut cluster = Cluster::start("copies", "durability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    let set = |client: &mut Client, key: &str| {
        client.call(&[b"SET", key.as_bytes(), b"value"]).map(|(line, _)| line)
    };
    assert_eq!(set(&mut client, "before").as_deref(), Some("+OK"));
    let victim = (leader + 1) % 3;
    let folder = cluster.directory().join(format!("node-{victim}"));
    let copy = cluster.directory().join("copy");
    kill(&mut cluster, victim);
    copy_folder(&folder, &copy);
    cluster.run(victim);
    let log_of = |cluster: &Cluster, id: usize| {
        std::fs::read_to_string(cluster.directory().join(format!("{id}.log"))).unwrap()
    };
    let wait = |cluster: &Cluster, what: &str, id: usize, words: &str, times: usize| {
        let started = Instant::now();
        while log_of(cluster, id).matches(words).count() < times {
            assert!(started.elapsed() < PATIENCE, "{what}: {}", log_of(cluster, id));
            thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    wait(&cluster, "it follows again", victim, "following ", 2);
    let (_, mut client) = cluster.leader();
    assert_eq!(set(&mut client, "between").as_deref(), Some("+OK"));
    assert!(!log_of(&cluster, victim).contains("restored from a copy"), "an ordinary start is none");
    kill(&mut cluster, victim);
    copy_folder(&copy, &folder);
    cluster.run(victim);
    wait(
        &cluster,
        "it is recognised",
        victim,
        "it was restored from a copy. This node begins another life",
        1,
    );
    wait(&cluster, "it copies the state of the others", victim, "copying the state from", 1);
    let stale = |name: &str| name.starts_with("stale-journal-");
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().any(|name| stale(name.to_str().unwrap())), "what it held is kept");
    // It votes again: with one of the others gone, all that was acknowledged is there.
    wait(&cluster, "it is admitted", leader, "changing the epoch to let it vote", 1);
    let other = (0..3).find(|id| *id != leader && *id != victim).unwrap();
    let started = Instant::now();
    while !log_of(&cluster, victim).contains("following") || started.elapsed().as_millis() < 500 {
        thread::sleep(std::time::Duration::from_millis(20));
    }
    kill(&mut cluster, other);
    let started = Instant::now();
    loop {
        let (_, mut client) = cluster.leader();
        let answer = |client: &mut Client, key: &[u8]| client.call(&[b"GET", key]);
        let both = (answer(&mut client, b"before"), answer(&mut client, b"between"));
        let value = Some(("$5".to_string(), b"value".to_vec()));
        if both == (value.clone(), value) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{both:?} {}", log_of(&cluster, victim));
        thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The journal of another life, or another node's: files of different folders.
#[test]
fn a_journal_that_is_not_the_identitys_is_refused() {
    let mut cluster = Cluster::start("mixed", "durability = \"sync\"", None);
    let (_, mut client) = cluster.leader();
    assert!(client.call(&[b"SET", b"key", b"value"]).is_some());
    cluster.kill_all();
    let folder = |id: usize| cluster.directory().join(format!("node-{id}"));
    std::fs::copy(folder(1).join("identity"), folder(1).join("kept")).unwrap();
    copy_folder(&folder(0), &folder(1).with_file_name("mixed"));
    std::fs::rename(folder(1), folder(1).with_file_name("node-1-before")).unwrap();
    std::fs::rename(folder(1).with_file_name("mixed"), folder(1)).unwrap();
    std::fs::copy(folder(1).with_file_name("node-1-before").join("identity"), folder(1).join("identity"))
        .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["serve", "--config"])
        .arg(cluster.directory().join("1.toml"))
        .output()
        .unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert!(words.contains("the journal is of another life than the identity, or another node's"), "{words}");
}

/// The leader's or, of an engine without one, anybody's answer. To be asked twice without harm.
fn ask_anybody(cluster: &Cluster, parts: &[&[u8]]) -> processes::Answer {
    let started = Instant::now();
    loop {
        for id in 0..3 {
            match Client::connect(cluster.port(id)).and_then(|mut client| client.call(parts)) {
                Some(answer) if !answer.0.starts_with('-') => return answer,
                _ => {}
            }
        }
        assert!(started.elapsed() < PATIENCE, "nobody answers {parts:?}");
        thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn wait_for_log(cluster: &Cluster, id: usize, words: &str, times: usize) {
    let started = Instant::now();
    while cluster.log(id).matches(words).count() < times {
        assert!(started.elapsed() < PATIENCE, "{words}: {}", cluster.log(id));
        thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The journal's only file is lost; the next one, which is always reserved, is there. One node of three was away when the last writes
/// were acknowledged, so the one that lost the file must not vote as who it was.
#[test]
fn a_node_whose_journal_is_lost_but_for_the_reserved_file_does_not_vote_as_who_it_was() {
    let mut cluster = Cluster::start("lost", "engine = \"meerkat\"\ndurability = \"sync\"", None);
    assert_eq!(ask_anybody(&cluster, &[b"SET", b"before", b"value"]).0, "+OK");
    kill(&mut cluster, 2);
    for at in 0..30 {
        assert_eq!(ask_anybody(&cluster, &[b"SET", format!("late:{at}").as_bytes(), b"value"]).0, "+OK");
    }
    cluster.kill_all();
    let names = files(&cluster, 1, "journal-");
    assert_eq!(names, ["journal-0000000000000001", "journal-0000000000000002"]);
    std::fs::remove_file(cluster.directory().join("node-1").join(&names[0])).unwrap();
    cluster.run(1);
    cluster.run(2);
    wait_for_log(&cluster, 1, "begins another life", 1);
    cluster.run(0);
    for at in 0..30 {
        let answer = ask_anybody(&cluster, &[b"GET", format!("late:{at}").as_bytes()]);
        assert_eq!(answer, ("$5".to_string(), b"value".to_vec()), "{at}: {}", cluster.log(1));
    }
    cluster.none_died();
}

/// An older copy of a folder is started once while nobody hears of it, and then with the others.
#[test]
fn an_older_copy_does_not_pass_for_having_been_started_unheard() {
    let mut cluster = Cluster::start("unheard", "durability = \"sync\"", None);
    assert_eq!(ask(&cluster, &[b"SET", b"before", b"value"]).0, "+OK");
    cluster.kill_all();
    let folder = |cluster: &Cluster, id: usize| cluster.directory().join(format!("node-{id}"));
    let copy = |cluster: &Cluster, id: usize| cluster.directory().join(format!("copy-{id}"));
    (0..3).for_each(|id| copy_folder(&folder(&cluster, id), &copy(&cluster, id)));
    (0..3).for_each(|id| cluster.run(id));
    let (leader, _) = cluster.leader();
    let (victim, away) = ((leader + 1) % 3, (leader + 2) % 3);
    [victim, away].into_iter().for_each(|id| wait_for_log(&cluster, id, "following ", 1));
    // They have met in this start, the second, and what is written then is written behind that.
    wait_for_log(&cluster, away, &format!("peer is up peer=n{victim} "), 2);
    for at in 0..50 {
        assert_eq!(ask(&cluster, &[b"SET", format!("met:{at}").as_bytes(), b"value"]).0, "+OK");
    }
    wait_for("it has what is written", &cluster, || {
        let mut client = Client::connect(cluster.port(away)).expect("it runs");
        client.call(&[b"READONLY"]);
        client.call(&[b"GET", b"met:49"]) == Some(("$5".to_string(), b"value".to_vec()))
    });
    kill(&mut cluster, away);
    for at in 0..50 {
        assert_eq!(ask(&cluster, &[b"SET", format!("late:{at}").as_bytes(), b"value"]).0, "+OK");
    }
    cluster.kill_all();
    copy_folder(&copy(&cluster, victim), &folder(&cluster, victim));
    let identity = |cluster: &Cluster| std::fs::read(folder(cluster, victim).join("identity")).unwrap();
    let before = identity(&cluster);
    let reads = cluster.log(victim).matches("read the journal in").count();
    cluster.run(victim);
    wait_for_log(&cluster, victim, "read the journal in", reads + 1);
    wait_for("its start is counted", &cluster, || identity(&cluster) != before);
    kill(&mut cluster, victim);
    cluster.run(victim);
    cluster.run(away);
    wait_for_log(&cluster, victim, "it was restored from a copy. This node begins another life", 1);
    cluster.run(leader);
    for at in 0..50 {
        let answer = ask(&cluster, &[b"GET", format!("late:{at}").as_bytes()]);
        assert_eq!(answer, ("$5".to_string(), b"value".to_vec()), "{at}: {}", cluster.log(victim));
    }
    cluster.none_died();
}

/// The same without a leader. The copy lacks what was acknowledged while the third one was away: as the voter that it was it would make a majority
/// with that one, of which neither has it.
#[test]
fn an_older_copy_does_not_pass_for_having_been_started_unheard_without_a_leader() {
    let mut cluster = Cluster::start("unheard-of", "engine = \"meerkat\"\ndurability = \"sync\"", None);
    assert_eq!(ask_anybody(&cluster, &[b"SET", b"before", b"value"]).0, "+OK");
    cluster.kill_all();
    let folder = |cluster: &Cluster, id: usize| cluster.directory().join(format!("node-{id}"));
    let copy = |cluster: &Cluster, id: usize| cluster.directory().join(format!("copy-{id}"));
    let (victim, away, last) = (0, 1, 2);
    copy_folder(&folder(&cluster, victim), &copy(&cluster, victim));
    (0..3).for_each(|id| cluster.run(id));
    // All have met in this start, the second, and what is written then is behind that.
    wait_for_log(&cluster, away, &format!("peer is up peer=n{victim} "), 2);
    for at in 0..50 {
        assert_eq!(ask_anybody(&cluster, &[b"SET", format!("met:{at}").as_bytes(), b"value"]).0, "+OK");
    }
    kill(&mut cluster, away);
    for at in 0..50 {
        assert_eq!(ask_anybody(&cluster, &[b"SET", format!("late:{at}").as_bytes(), b"value"]).0, "+OK");
    }
    cluster.kill_all();
    copy_folder(&copy(&cluster, victim), &folder(&cluster, victim));
    let identity = |cluster: &Cluster| std::fs::read(folder(cluster, victim).join("identity")).unwrap();
    let before = identity(&cluster);
    cluster.run(victim);
    wait_for("its start is counted", &cluster, || identity(&cluster) != before);
    kill(&mut cluster, victim);
    cluster.run(victim);
    cluster.run(away);
    wait_for_log(&cluster, victim, "it was restored from a copy. This node begins another life", 1);
    cluster.run(last);
    for at in 0..50 {
        let answer = ask_anybody(&cluster, &[b"GET", format!("late:{at}").as_bytes()]);
        assert_eq!(answer, ("$5".to_string(), b"value".to_vec()), "{at}: {}", cluster.log(victim));
    }
    cluster.none_died();
}

/// A lone node has nobody to copy from: without its journal it does not start, and an empty cluster is not born in its place.
#[test]
fn a_lone_node_does_not_start_without_its_journal() {
    let directory = tempfile::tempdir().unwrap();
    let ports = highwater_node::free_loopback_ports(3).unwrap();
    let config = directory.path().join("lone.toml");
    std::fs::write(
        &config,
        format!(
            "node = 0\n[cluster]\ndurability = \"sync\"\nnodes = [{{ id = 0, peer = \"127.0.0.1:{}\", resp = \"127.0.0.1:{}\", \
             admin = \"127.0.0.1:{}\" }}]\n[threads]\nlifeline = true\n[storage]\ndir = \"{}\"\n",
            ports[0],
            ports[1],
            ports[2],
            directory.path().display()
        ),
    )
    .unwrap();
    let serve = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(["serve", "--config"]).arg(&config).stdin(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let mut child = serve();
    let started = Instant::now();
    let said = loop {
        assert!(started.elapsed() < PATIENCE, "it does not serve");
        let mut client = Client::connect(ports[1]);
        match client.as_mut().and_then(|client| client.call(&[b"SET", b"k", b"value"])) {
            Some((line, _)) if !processes::refused(&line) => break line,
            _ => thread::sleep(std::time::Duration::from_millis(20)),
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(said, "+OK");
    std::fs::remove_file(directory.path().join("node-0/journal-0000000000000001")).unwrap();
    for _ in 0..2 {
        let output = serve().wait_with_output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{words}");
        assert!(words.contains("it does not start without what is missing"), "{words}");
    }
}
