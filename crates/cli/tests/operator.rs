//! Tests of all that an unlucky operator meets: strangers at the doors, no descriptors, no threads, folders that are gone or somebody else's, signals at
//! the wrong moment, names that are no text. Each is said in words, and costs no more than it must.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::ffi::OsString;
use std::fs;
use std::net::TcpStream;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit, setrlimit};
use serde_json::Value;

mod drill;
mod processes;

use drill::highwater;
use processes::{Client, Cluster, PATIENCE};

/// A user without files.
const NOBODY: u32 = 65534;

fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_highwater"))
}

fn until(cluster: &Cluster, what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        let logs: Vec<String> = (0..3).map(|id| cluster.log(id)).collect();
        assert!(started.elapsed() < PATIENCE, "it does not come to that: {what}\n{}", logs.join("\n----\n"));
        thread::sleep(Duration::from_millis(20));
    }
}

fn status(cluster: &Cluster, id: usize) -> Option<Value> {
    let (_, text) =
        highwater(&["status", "--json", "--admin", &format!("127.0.0.1:{}", cluster.admin_port(id))]);
    text.lines().find_map(|line| serde_json::from_str(line).ok())
}

fn trouble(cluster: &Cluster, id: usize) -> String {
    status(cluster, id).and_then(|status| Some(status["trouble"].as_str()?.to_string())).unwrap_or_default()
}

/// Writes a value at whoever leads, until it is acknowledged.
fn set(cluster: &Cluster, key: &str, value: &[u8]) {
    let started = Instant::now();
    loop {
        let (_, mut client) = cluster.leader();
        if client.call(&[b"SET", key.as_bytes(), value]).is_some_and(|(line, _)| line == "+OK") {
            return;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{key} is not written: {}",
            (0..3).map(|id| cluster.log(id)).collect::<String>()
        );
    }
}

fn get(cluster: &Cluster, key: &str) -> Vec<u8> {
    let started = Instant::now();
    loop {
        let (_, mut client) = cluster.leader();
        match client.call(&[b"GET", key.as_bytes()]) {
            Some((line, value)) if line.starts_with('$') => return value,
            _ => assert!(started.elapsed() < PATIENCE, "{key} is not read"),
        }
    }
}

/// So much that checkpoints are written, and the journal needs other files.
fn write_much(cluster: &Cluster, round: usize) {
    for at in 0..120 {
        set(cluster, &format!("large:{}", at % 20), &vec![b'a' + round as u8; 300_000 + at]);
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32).unwrap()
}

/// Its exit code, once it has ended; `None`: a signal ended it.
fn ended(child: &mut Child, within: Duration) -> Option<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if started.elapsed() > within {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it has not ended within {within:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

// ---- descriptors ----

/// Strangers who say nothing, as many as they like and more, while `work` is done.
fn besieged(ports: &[u16], each: usize, work: impl FnOnce()) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for port in ports {
            let over = &over;
            scope.spawn(move || {
                let mut strangers: Vec<Option<TcpStream>> = (0..each).map(|_| None).collect();
                let mut at = 0;
                while !over.load(Ordering::Relaxed) {
                    strangers[at % each] = TcpStream::connect(("127.0.0.1", *port)).ok();
                    at += 1;
                    if at > each {
                        // Whoever was hung up on comes again.
                        thread::sleep(Duration::from_millis(2));
                    }
                }
            });
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// 256 connections to the admin port, or to the peer port, took all of 128 descriptors, and the node ended: the journal's next file could not
/// be opened.
fn strangers_do_no_harm(limit: u64, flags: impl Fn(usize) -> Vec<String>) {
    let mut cluster = Cluster::start_with_descriptors("strangers", "durability = \"sync\"", limit);
    let run = |cluster: &mut Cluster, id: usize| {
        let flags = flags(id);
        cluster.run_with(id, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    };
    cluster.kill_all();
    (0..3).for_each(|id| run(&mut cluster, id));
    cluster.leader();
    let ports: Vec<u16> =
        (0..3).flat_map(|id| [cluster.peer_port(id), cluster.admin_port(id), cluster.port(id)]).collect();
    let each = (limit as usize + 50).min(400);
    // A leader's clients get in by chance while others take all places: so at followers only.
    let (leader, _) = cluster.leader();
    let ports: Vec<u16> = ports.into_iter().filter(|port| *port != cluster.port(leader)).collect();
    let victim = (leader + 1) % 3;
    besieged(&ports, each, || {
        write_much(&cluster, 0);
        // A node that comes back is let in among them.
        let followed = cluster.log(victim).matches("following ").count();
        cluster.kill(victim);
        run(&mut cluster, victim);
        until(&cluster, "the node is back", || cluster.log(victim).matches("following ").count() > followed);
        write_much(&cluster, 1);
        assert!(status(&cluster, leader).is_some(), "operators are answered");
    });
    cluster.none_died();
    for id in 0..3 {
        let log = cluster.log(id);
        assert!(!log.contains("Too many open files"), "{log}");
    }
    assert_eq!(get(&cluster, "large:7")[..3], *b"bbb");
}

/// Once: 256 connections that said nothing, at the admin or the peer port, ended a node with 128 descriptors: 32 were set
/// aside for strangers, who could be 1,280, and the journal took EMFILE for its end.
#[test]
fn strangers_who_say_nothing_leave_the_journal_its_descriptors_with_128() {
    strangers_do_no_harm(128, |_| Vec::new());
}

#[test]
fn strangers_who_say_nothing_leave_the_journal_its_descriptors_with_1024() {
    strangers_do_no_harm(1024, |_| Vec::new());
}

/// The same with a handshake of TLS that is waited for.
#[test]
fn strangers_who_say_nothing_leave_the_journal_its_descriptors_with_tls() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    for words in [&["ca"][..], &["node", "--id", "0"], &["node", "--id", "1"], &["node", "--id", "2"]] {
        let (code, text) = highwater(&[&["cert"], words, &["--dir", dir]].concat());
        assert_eq!(code, Some(0), "{text}");
    }
    strangers_do_no_harm(128, |id| {
        let sets = [
            "tls.peer=required".to_string(),
            format!("tls.ca={dir}/ca.crt"),
            format!("tls.certificate={dir}/node-{id}.crt"),
            format!("tls.key={dir}/node-{id}.key"),
        ];
        sets.into_iter().flat_map(|set| ["--set".into(), set]).collect()
    });
}

/// The limit is lowered under running nodes, as `prlimit` does; or the whole system has none left. First two followers have none, then the
/// leader.
#[test]
fn nodes_without_descriptors_wait_for_them_and_say_so() {
    let mut cluster = Cluster::start("starved", "durability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    write_much(&cluster, 0);
    for (round, victims) in [(1, vec![(leader + 1) % 3, (leader + 2) % 3]), (2, vec![leader])] {
        let limit = |id: usize, current: Option<u64>| {
            let maximum = getrlimit(Resource::Nofile).maximum;
            let limit = Rlimit { current, maximum };
            prlimit(Some(pid(cluster.replicas[id].as_ref().unwrap())), Resource::Nofile, limit).unwrap()
        };
        let before: Vec<(usize, Rlimit)> = victims.iter().map(|id| (*id, limit(*id, Some(3)))).collect();
        let over = AtomicBool::new(false);
        let told = |id: usize| {
            // Nobody can ask it: its admin port accepts nobody. Its log tells.
            cluster.log(id).contains("no file descriptor is left for the journal")
        };
        thread::scope(|scope| {
            let (over, client) = (&over, &mut client);
            // Over a connection that is there, for none is accepted; it waits where the files that are open are full.
            scope.spawn(move || {
                for at in 0.. {
                    let value = vec![b'a' + round; 300_000 + at];
                    let said = client.call(&[b"SET", b"large:7", &value]);
                    if over.load(Ordering::Relaxed) || said.is_none_or(|(line, _)| line != "+OK") {
                        break;
                    }
                }
            });
            until(&cluster, "all of them say so", || victims.iter().all(|id| told(*id)));
            over.store(true, Ordering::Relaxed);
            for (id, before) in &before {
                limit(*id, before.current);
            }
        });
        cluster.none_died();
        until(&cluster, "no trouble is left", || {
            (0..3).all(|id| status(&cluster, id).is_some_and(|status| status["disk"]["trouble"].is_null()))
        });
    }
    write_much(&cluster, 3);
    cluster.none_died();
    assert_eq!(get(&cluster, "large:7")[..3], *b"ddd");
}

// ---- folders ----

/// A cluster was born empty over full disks, without users and passwords, and nothing was said.
#[test]
fn with_memory_a_folder_that_holds_data_is_refused_unless_that_is_meant() {
    let mut cluster = Cluster::start("memory", "durability = \"sync\"", None);
    set(&cluster, "kept", b"value");
    cluster.kill_all();
    let config = cluster.directory().join("0.toml");
    let text = fs::read_to_string(&config).unwrap();
    let memory = cluster.directory().join("memory.toml");
    fs::write(&memory, text.replace("durability = \"sync\"", "durability = \"memory\"")).unwrap();
    let memory = memory.to_str().unwrap();
    let refused = |args: &[&str], words: &[&str]| {
        let (code, text) = highwater(args);
        assert_eq!(code, Some(3), "{args:?}: {text}");
        words.iter().for_each(|word| assert!(text.contains(word), "{args:?}: {word} is missing in {text}"));
    };
    let words = ["node-0", "cluster \"highwater\"", "engine rolis", "storage.ignore_data", "storage.dir"];
    refused(&["serve", "--config", memory], &words);
    refused(&["config", "check", memory], &words);
    refused(&["serve", "--config", memory, "--set", "cluster.id=other"], &words);
    // Without its identity, and with a damaged one.
    let identity = cluster.directory().join("node-0/identity");
    let whole = fs::read(&identity).unwrap();
    fs::write(&identity, b"nonsense").unwrap();
    refused(&["serve", "--config", memory], &["holds data of a cluster", "storage.ignore_data"]);
    fs::remove_file(&identity).unwrap();
    refused(&["serve", "--config", memory], &["holds data of a cluster", "storage.ignore_data"]);
    fs::write(&identity, whole).unwrap();
    let (code, text) = highwater(&["config", "check", config.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{text}");
    let lines = format!("{}ignore_data = true\n", fs::read_to_string(memory).unwrap());
    fs::write(memory, lines).unwrap();
    let (code, text) = highwater(&["config", "check", memory]);
    assert_eq!(code, Some(0), "{text}");
    // All of them in memory, and back.
    for id in 0..3 {
        cluster.run_with(id, &["--set", "cluster.durability=memory", "--set", "storage.ignore_data=true"]);
    }
    assert_eq!(get(&cluster, "kept"), b"");
    cluster.kill_all();
    (0..3).for_each(|id| cluster.run(id));
    assert_eq!(get(&cluster, "kept"), b"value");
}

/// "A record is none of Meerkat's: Malformed" was all that was said.
#[test]
fn a_folder_of_another_engine_says_whose_it_is() {
    for (wrote, other) in [("rolis", "meerkat"), ("meerkat", "rolis"), ("rolis", "meerkat-strict")] {
        let extra = format!("engine = \"{wrote}\"\ndurability = \"sync\"");
        let mut cluster = Cluster::start("engines", &extra, None);
        until(&cluster, "it takes a write", || {
            let client = Client::connect(cluster.port(0));
            client.and_then(|mut client| client.call(&[b"SET", b"key", b"value"])).is_some_and(|(line, _)| {
                line == "+OK"
                    || processes::refused(&line) && {
                        set(&cluster, "key", b"value");
                        true
                    }
            })
        });
        cluster.kill_all();
        let config = cluster.directory().join("0.toml");
        let (code, text) = highwater(&[
            "serve",
            "--config",
            config.to_str().unwrap(),
            "--set",
            &format!("cluster.engine={other}"),
        ]);
        assert_eq!(code, Some(3), "{text}");
        for words in
            [&format!("a cluster of engine {wrote}")[..], &format!("cluster.engine = \"{wrote}\""), "node-0"]
        {
            assert!(text.contains(words), "{words} is missing in {text}");
        }
        // A baseline keeps nothing on disks; what is there is said whose it is.
        let (code, text) = highwater(&[
            "serve",
            "--config",
            config.to_str().unwrap(),
            "--set",
            "cluster.engine=strawman",
            "--set",
            "cluster.durability=memory",
        ]);
        assert!(code == Some(3) && text.contains(&format!("engine {wrote}")), "{text}");
        cluster.run(0);
        cluster.run(1);
        until(&cluster, "it serves again", || cluster.log(0).matches("starting").count() >= 2);
    }
}

/// It went on to acknowledge what no later start would have found, and the status called it whole.
#[test]
fn a_node_whose_folder_is_gone_acknowledges_nothing_and_says_so() {
    let mut cluster = Cluster::start("gone", "durability = \"sync\"", None);
    let (leader, _) = cluster.leader();
    set(&cluster, "before", b"value");
    let [first, second] = [(leader + 1) % 3, (leader + 2) % 3];
    let folder = |id: usize| cluster.directory().join(format!("node-{id}"));
    let away = cluster.directory().join("away");
    // Moved away, and back again.
    fs::rename(folder(first), &away).unwrap();
    until(&cluster, "it is noticed", || trouble(&cluster, first).contains("was removed or moved away"));
    let all: Vec<String> = (0..3).map(|id| format!("127.0.0.1:{}", cluster.admin_port(id))).collect();
    let config = cluster.directory().join("0.toml");
    let (_, text) = highwater(&["status", "--cluster", "--json", "--config", config.to_str().unwrap()]);
    assert!(text.contains(&format!("the files of node {first}")), "{text} {all:?}");
    set(&cluster, "meanwhile", b"value");
    fs::rename(&away, folder(first)).unwrap();
    until(&cluster, "it is well again", || trouble(&cluster, first).is_empty());
    // Removed, of a follower: the others go on.
    fs::remove_dir_all(folder(first)).unwrap();
    until(&cluster, "it is noticed", || trouble(&cluster, first).contains("was removed or moved away"));
    set(&cluster, "with two", b"value");
    // And of another: a majority of disks is not there any more, and nothing is acknowledged.
    fs::rename(folder(second), &away).unwrap();
    until(&cluster, "it is noticed", || trouble(&cluster, second).contains("was removed or moved away"));
    for id in 0..3 {
        let client = Client::connect(cluster.port(id));
        let said = client.and_then(|mut client| client.call(&[b"SET", b"lost", b"value"]));
        assert!(said.as_ref().is_none_or(|(line, _)| line != "+OK"), "{said:?}");
    }
    fs::rename(&away, folder(second)).unwrap();
    set(&cluster, "with two again", b"value");
    cluster.none_died();
    // It begins another life, and copies the state.
    cluster.terminate(first);
    let mut child = cluster.replicas[first].take().unwrap();
    assert_eq!(ended(&mut child, PATIENCE), Some(0), "{}", cluster.log(first));
    cluster.run(first);
    until(&cluster, "it votes again", || {
        let (_, text) = highwater(&["status", "--cluster", "--json", "--config", config.to_str().unwrap()]);
        text.contains("\"no_restart\":null")
    });
    cluster.kill(second);
    for key in ["before", "meanwhile", "with two", "with two again"] {
        assert_eq!(get(&cluster, key), b"value", "{key}");
    }
}

/// A checkpoint that somebody removed is written again; and the journal's file that is written, if it is gone, is lost.
#[test]
fn files_that_are_removed_one_by_one_are_made_up_for_or_told() {
    let cluster = Cluster::start("files", "durability = \"sync\"", None);
    let (leader, _) = cluster.leader();
    let victim = (leader + 1) % 3;
    let folder = cluster.directory().join(format!("node-{victim}"));
    let find = |begins: &str, ends: &str| -> Vec<PathBuf> {
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let named = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_string();
        let mut found: Vec<PathBuf> =
            names.filter(|path| named(path).starts_with(begins) && named(path).ends_with(ends)).collect();
        found.sort();
        found
    };
    write_much(&cluster, 0);
    until(&cluster, "it has a checkpoint", || !find("checkpoint-", ".manifest").is_empty());
    find("checkpoint-", "").into_iter().for_each(|path| drop(fs::remove_file(path)));
    until(&cluster, "another checkpoint is written", || !find("checkpoint-", ".manifest").is_empty());
    until(&cluster, "no trouble is left", || {
        status(&cluster, victim).is_some_and(|status| status["disk"]["trouble"].is_null())
    });
    fs::remove_file(find("journal-", "").pop().unwrap()).unwrap();
    until(&cluster, "it is noticed", || trouble(&cluster, victim).contains("in its folder was removed"));
    set(&cluster, "goes on", b"value");
}

// ---- signals ----

/// Starts a node that waits for its folder, which the test has locked.
fn waiting(cluster: &Cluster, mut command: Command) -> (fs::File, Child) {
    let lock = fs::File::options().write(true).open(cluster.directory().join("node-0/lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let log = cluster.directory().join("waiting.log");
    let _ = fs::remove_file(&log);
    command.stdin(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let child = command.spawn().unwrap();
    until(cluster, "it waits", || {
        fs::read_to_string(&log).unwrap().contains("waiting for the process that has it")
    });
    (lock, child)
}

/// The one child of a process.
fn child_of(id: u32) -> Option<Pid> {
    let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    Pid::from_raw(text.split_whitespace().next()?.parse().ok()?)
}

/// As PID 1 of a container it ignored SIGTERM until it served; elsewhere it was killed by it.
#[test]
fn a_node_that_starts_ends_when_it_is_asked_to() {
    let mut cluster = Cluster::start("signals", "durability = \"async\"", None);
    set(&cluster, "kept", b"value");
    for id in 0..3 {
        cluster.terminate(id);
    }
    for id in 0..3 {
        let mut child = cluster.replicas[id].take().unwrap();
        assert_eq!(ended(&mut child, PATIENCE), Some(0), "{}", cluster.log(id));
    }
    let config = cluster.directory().join("0.toml");
    let soon = Duration::from_secs(3);
    for signal in [Signal::TERM, Signal::INT] {
        let mut command = binary();
        command.args(["serve", "--config"]).arg(&config);
        let (lock, mut child) = waiting(&cluster, command);
        kill_process(pid(&child), signal).unwrap();
        assert_eq!(ended(&mut child, soon), Some(0), "{signal:?}");
        drop(lock);
    }
    // SIGHUP is about certificates.
    let mut command = binary();
    command.args(["serve", "--config"]).arg(&config);
    let (lock, mut child) = waiting(&cluster, command);
    kill_process(pid(&child), Signal::HUP).unwrap();
    // Had that ended it, it would have no exit code.
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(ended(&mut child, soon), Some(0));
    drop(lock);
    // The first process of a namespace, if this user may make one.
    let probe = Command::new("unshare").args(["-pf", "--kill-child", "true"]).output();
    if probe.is_ok_and(|output| output.status.success()) {
        let mut command = Command::new("unshare");
        command
            .args(["-pf", "--kill-child", env!("CARGO_BIN_EXE_highwater"), "serve", "--config"])
            .arg(&config);
        let (lock, mut child) = waiting(&cluster, command);
        kill_process(child_of(child.id()).unwrap(), Signal::TERM).unwrap();
        assert_eq!(ended(&mut child, soon), Some(0), "as PID 1");
        drop(lock);
    } else {
        assert!(
            !rustix::process::geteuid().is_root(),
            "root may make a namespace here, or this test says nothing of PID 1"
        );
    }
    // Nothing was lost by any of that, nor does the disk pass for one that is behind.
    assert!(!cluster.directory().join("node-0/behind").exists());
    (0..3).for_each(|id| cluster.run(id));
    assert_eq!(get(&cluster, "kept"), b"value");
}

/// While it reads what is on its disk, which may take minutes.
#[test]
fn a_node_that_loads_ends_when_it_is_asked_to() {
    let mut cluster = Cluster::start("loads", "durability = \"sync\"", None);
    for id in [1, 2] {
        cluster.kill(id);
    }
    cluster.kill(0);
    let alone = cluster.directory().join("alone.toml");
    let line = fs::read_to_string(cluster.directory().join("0.toml")).unwrap();
    let dir = cluster.directory().join("alone");
    let text = line.replace(cluster.directory().to_str().unwrap(), dir.to_str().unwrap());
    let text = text.replace("checkpoint_mb = 1\n", "checkpoint_mb = 100000\n");
    let (before, rest) = text.split_once("{ id = 1").unwrap();
    let (_, after) = rest.split_once("]\n").unwrap();
    fs::write(&alone, format!("{before}]\n{after}")).unwrap();
    let serve = || {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(cluster.directory().join("alone.log"))
            .unwrap();
        binary().args(["serve", "--config"]).arg(&alone).stdin(Stdio::piped()).stderr(log).spawn().unwrap()
    };
    let mut child = serve();
    let started = Instant::now();
    let mut client = loop {
        match Client::connect(cluster.port(0)).map(|mut client| (client.call(&[b"PING"]), client)) {
            Some((Some(_), client)) => break client,
            _ => assert!(started.elapsed() < PATIENCE, "it does not serve"),
        }
    };
    // Small ones: reading them is work.
    for at in 0..300 {
        let pairs: Vec<Vec<u8>> = (0..2000).map(|pair| format!("{at}:{pair}").into_bytes()).collect();
        let parts: Vec<&[u8]> =
            std::iter::once(&b"MSET"[..]).chain(pairs.iter().map(Vec::as_slice)).collect();
        while client.call(&parts).unwrap().0 != "+OK" {
            assert!(started.elapsed() < PATIENCE, "it takes no writes");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let admin = format!("127.0.0.1:{}", cluster.admin_port(0));
    let mut caught = false;
    for _ in 0..20 {
        let mut child = serve();
        let began = Instant::now();
        loop {
            let (_, text) = highwater(&["status", "--admin", &admin]);
            if text.contains("reading the journal") {
                let asked = Instant::now();
                kill_process(pid(&child), Signal::TERM).unwrap();
                assert_eq!(ended(&mut child, Duration::from_secs(3)), Some(0));
                assert!(asked.elapsed() < Duration::from_secs(3));
                caught = true;
                break;
            }
            if text.contains("leader") && text.contains("role") || began.elapsed() > PATIENCE {
                break;
            }
        }
        if caught {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(caught, "it was never seen to read");
    let log = fs::read_to_string(cluster.directory().join("alone.log")).unwrap();
    assert!(log.contains("asked to end while it read"), "{log}");
    let mut child = serve();
    let started = Instant::now();
    loop {
        let answer = Client::connect(cluster.port(0))
            .and_then(|mut client| client.call(&[b"EXISTS", b"299:0", b"0:0"]));
        if answer.is_some_and(|(line, _)| line == ":2") {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "it does not serve what it had");
    }
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(ended(&mut child, PATIENCE), Some(0));
}

// ---- words ----

/// Any variable that was no UTF-8, and any argument, ended the command with a panic and SIGABRT.
#[test]
fn what_is_no_text_is_ignored_or_refused_in_words() {
    let odd = |text: &[u8]| OsString::from_vec(text.to_vec());
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(
            output.status.signal().is_none() && !text.contains("panicked"),
            "{command:?}: {:?} {text}",
            output.status
        );
        (output.status.code(), text)
    };
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join(odd(b"caf\xe9.toml"));
    fs::write(&config, "").unwrap();
    let check = || {
        let mut command = binary();
        command.args(["config", "check"]).arg(&config).current_dir(dir.path());
        command
    };
    let (code, text) = run(check().env("PS1", odd(b"\xe9")).env(odd(b"\xff\xfe"), "x"));
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(check().env("HIGHWATER_CLUSTER_ID", odd(b"\xe9")));
    assert!(
        code == Some(3) && text.contains("HIGHWATER_CLUSTER_ID") && text.contains("UTF-8"),
        "{code:?} {text}"
    );
    let (code, text) = run(check().env("HIGHWATER_ADMIN_TOKEN", odd(b"\xe9")));
    assert!(code == Some(3) && text.contains("HIGHWATER_ADMIN_TOKEN"), "{code:?} {text}");
    let (code, text) = run(binary().args(["config", "check"]).arg(dir.path().join(odd(b"\xe9"))));
    assert!(code == Some(3) && text.contains("No such file"), "{code:?} {text}");
    let help = run(binary().arg("--help")).1;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 10, "{help}");
    for command in commands {
        for flags in [
            &["\u{1}"][..],
            &["--\u{1}"],
            &["--config", "\u{1}"],
            &["--admin", "\u{1}"],
            &["--set", "\u{1}=1"],
        ] {
            let mut process = binary();
            process.arg(command).current_dir(dir.path()).stdin(Stdio::null());
            for flag in flags {
                process.arg(OsString::from_vec(
                    flag.bytes().map(|byte| if byte == 1 { 0xe9 } else { byte }).collect(),
                ));
            }
            let (code, text) = run(&mut process);
            assert!(code != Some(0), "{command} {flags:?}: {text}");
        }
    }
}

// ---- threads ----

/// Without room for a thread the process ended with a panic, a backtrace and SIGABRT.
#[test]
fn without_room_for_threads_a_node_does_not_start_and_says_so_in_a_line() {
    if !rustix::process::geteuid().is_root() {
        // Root alone can run it as a user of whom there is no other thread; what the limit does is tried without it in `share_out`'s tests.
        return;
    }
    let mut cluster = Cluster::start("threads", "durability = \"sync\"", None);
    write_much(&cluster, 0);
    until(&cluster, "it has a checkpoint", || {
        let names = fs::read_dir(cluster.directory().join("node-0")).unwrap();
        names.into_iter().any(|entry| entry.unwrap().file_name().to_str().unwrap().ends_with(".manifest"))
    });
    cluster.kill_all();
    let mut all = vec![cluster.directory().to_path_buf(), cluster.directory().join("0.toml")];
    for entry in fs::read_dir(cluster.directory().join("node-0")).unwrap() {
        all.push(entry.unwrap().path());
    }
    all.push(cluster.directory().join("node-0"));
    all.iter().for_each(|path| std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap());
    let mut served = false;
    for most in 1..60 {
        let log = cluster.directory().join("threads.log");
        let mut command = Command::new("prlimit");
        command.arg(format!("--nproc={most}:{most}")).arg(env!("CARGO_BIN_EXE_highwater"));
        command.args(["serve", "--config"]).arg(cluster.directory().join("0.toml"));
        command.uid(NOBODY).gid(NOBODY).stdin(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let began = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if Client::connect(cluster.port(0)).is_some_and(|mut client| client.call(&[b"PING"]).is_some()) {
                break None;
            }
            assert!(began.elapsed() < PATIENCE, "{}", fs::read_to_string(&log).unwrap());
        };
        let text = fs::read_to_string(&log).unwrap();
        assert!(!text.contains("panicked"), "{most}: {text}");
        match ended {
            Some(status) => {
                assert_eq!(status.code(), Some(3), "{most}: {status} {text}");
                assert!(text.lines().last().unwrap().contains("cannot start a thread"), "{most}: {text}");
            }
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                served = true;
                break;
            }
        }
    }
    assert!(served, "with 60 there is room");
}
