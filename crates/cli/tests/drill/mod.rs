//! What restore drills share: commands, what is written and looked for, and a cluster that moves to restored folders.

#![allow(dead_code, reason = "each test uses a part")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::processes::{Client, Cluster};

pub const KEYS: usize = 200;
/// Runs the command; its exit code, and all that it says.
pub fn highwater(args: &[&str]) -> (Option<i32>, String) {
    with(&[], args)
}

/// The same, with more in its environment.
pub fn with(environment: &[(String, String)], args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.envs(environment.iter().cloned()).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text)
}

pub fn done(args: &[&str]) -> Value {
    done_with(&[], args)
}

/// What a command that went well says, as JSON.
pub fn done_with(environment: &[(String, String)], args: &[&str]) -> Value {
    let (code, text) = with(environment, args);
    assert_eq!(code, Some(0), "{args:?}: {text}");
    let line = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
    serde_json::from_str(line).unwrap()
}

pub fn refused(args: &[&str], code: i32, words: &str) {
    let (found, text) = highwater(args);
    assert!(found == Some(code) && text.contains(words), "{args:?}: {found:?} {text}");
}

pub fn value(round: usize, at: usize) -> Vec<u8> {
    vec![b'a' + ((round * 7 + at) % 26) as u8; (at * at * (round + 1)) % 4000]
}

/// Every key is written; every fifth is deleted again, others in each round.
pub fn write(client: &mut Client, round: usize) {
    for at in 0..KEYS {
        let key = format!("key:{at}");
        assert_eq!(served(client, &[b"SET", key.as_bytes(), &value(round, at)]).0, "+OK");
        if at % 5 == round {
            let (deleted, in_doubt) = served(client, &[b"DEL", key.as_bytes()]);
            assert!(deleted == ":1" || deleted == ":0" && in_doubt, "{key} was set: {deleted}");
        }
    }
}

/// Asks again while nobody leads, as every client does: beside other tests a lead may move. The answer, and whether an earlier asking may have done it.
fn served(client: &mut Client, command: &[&[u8]]) -> (String, bool) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut in_doubt = false;
    loop {
        let line = client.call(command).unwrap().0;
        let unknown = line.starts_with("-UNKNOWN ");
        if !unknown && !line.starts_with("-CLUSTERDOWN ") || Instant::now() > until {
            return (line, in_doubt);
        }
        in_doubt |= unknown;
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn check(client: &mut Client, round: usize) {
    for at in 0..KEYS {
        let (line, found) = client.call(&[b"GET", format!("key:{at}").as_bytes()]).unwrap();
        match at % 5 == round {
            true => assert!(line == "$-1" || line == "_", "key {at} is deleted: {line}"),
            false => assert_eq!(found, value(round, at), "key {at} of round {round}"),
        }
    }
}

pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

pub fn mark(cluster: &Cluster, id: usize) -> u64 {
    let admin = format!("127.0.0.1:{}", cluster.admin_port(id));
    let status = done(&["status", "--json", "--admin", &admin]);
    let figures = status["figures"].as_array().unwrap();
    let mark = figures.iter().find(|figure| figure["name"] == "mark").unwrap();
    mark["values"][0].as_u64().unwrap()
}

/// Has the cluster's nodes serve from restored folders, under another id.
pub fn move_to(cluster: &mut Cluster, from: &Path, to: &Path, (old, new): (&str, &str)) {
    cluster.kill_all();
    for id in 0..3 {
        let path = cluster.directory().join(format!("{id}.toml"));
        let config = std::fs::read_to_string(&path).unwrap();
        let config =
            config.replace(&format!("dir = \"{}\"", from.display()), &format!("dir = \"{}\"", to.display()));
        std::fs::write(&path, config.replace(&format!("id = \"{old}\""), &format!("id = \"{new}\"")))
            .unwrap();
        cluster.run(id);
    }
}
