//! A majority of the voters is lost for good: what is left is shown, and a new cluster begins from it only if an operator accepts the loss.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

mod processes;

use processes::{Client, Cluster};

const KEYS: usize = 300;

fn recover(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_highwater")).arg("recover").args(args).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text)
}

fn get(client: &mut Client, key: &str) -> Vec<u8> {
    client.call(&[b"GET", key.as_bytes()]).unwrap().1
}

/// Values of all sizes, some of them deleted or written again.
fn write(client: &mut Client) {
    for at in 0..KEYS {
        let (key, value) = (format!("key:{at}"), vec![b'a' + (at % 26) as u8; at * at % 5000]);
        assert_eq!(client.call(&[b"SET", key.as_bytes(), &value]).unwrap().0, "+OK");
        if at % 7 == 0 {
            assert_eq!(client.call(&[b"DEL", key.as_bytes()]).unwrap().0, ":1");
        }
        assert_eq!(client.call(&[b"INCR", b"counter"]).unwrap().0, format!(":{}", at + 1));
    }
}

fn check(client: &mut Client) {
    for at in 0..KEYS {
        let (line, value) = client.call(&[b"GET", format!("key:{at}").as_bytes()]).unwrap();
        match at % 7 {
            0 => assert!(line == "$-1" || line == "_", "key {at} is deleted: {line}"),
            _ => assert_eq!(value, vec![b'a' + (at % 26) as u8; at * at % 5000], "key {at}"),
        }
    }
}

#[test]
fn what_is_left_of_a_lost_majority_is_shown_and_begins_a_new_cluster() {
    let mut cluster = Cluster::start("recover", "durability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    write(&mut client);
    let directory = cluster.directory().to_path_buf();
    let folder = |id: usize| directory.join(format!("node-{id}")).display().to_string();
    let (code, text) = recover(&["--from", &folder(leader)]);
    assert!(code == Some(5) && text.contains("is in use") && text.contains("stop every node"), "{text}");
    cluster.kill_all();

    let others: Vec<usize> = (0..3).filter(|id| *id != leader).collect();
    let (code, text) = recover(&["--from", &folder(leader), &folder(others[0])]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("a majority is here: start these nodes"), "{text}");
    let (code, text) = recover(&["--from", &folder(leader)]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("voters    0, 1, 2; not here: ") && text.contains("the majority is lost"),
        "{text}"
    );
    assert!(text.contains("certain   everything up to") && text.contains("--accept-loss --to"), "{text}");

    let to = directory.join("recovered").display().to_string();
    let accepting = |from: &str, to: &str, id: &str| {
        recover(&["--from", from, "--accept-loss", "--to", to, "--cluster", id, "--nodes", "0,1,2"])
    };
    let (code, text) = accepting(&folder(leader), &to, "highwater");
    assert!(code == Some(2) && text.contains("is the lost cluster's id"), "{text}");
    let (code, text) = accepting(&directory.display().to_string(), &to, "second");
    assert!(
        code == Some(5) && text.contains("there is no") || text.contains("no node was ever started"),
        "{text}"
    );
    let (code, text) = recover(&["--from", &folder(leader), "--accept-loss"]);
    assert!(code == Some(2) && text.contains("--to"), "{text}");
    assert!(!directory.join("recovered").exists(), "nothing was written");

    let (code, text) = accepting(&folder(leader), &to, "second");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("serve them with cluster.id = \"second\""), "{text}");
    let (code, text) = accepting(&folder(leader), &to, "second");
    assert!(code == Some(3) && text.contains("there is something in it already"), "{text}");

    // The old cluster's config does not take the new one's folders.
    let moved = |id: usize, from: &str, to: &str| {
        let path = directory.join(format!("{id}.toml"));
        let config = std::fs::read_to_string(&path).unwrap();
        assert!(config.contains(from), "{config}");
        std::fs::write(path, config.replacen(from, to, 1)).unwrap();
    };
    (0..3)
        .for_each(|id| moved(id, &format!("dir = \"{}\"", directory.display()), &format!("dir = \"{to}\"")));
    let old = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["serve", "--config"])
        .arg(directory.join("0.toml"))
        .output()
        .unwrap();
    let words = String::from_utf8(old.stderr).unwrap();
    assert!(old.status.code() == Some(3) && words.contains("belongs to cluster \"second\""), "{words}");
    (0..3).for_each(|id| moved(id, "durability", "id = \"second\"\ndurability"));
    // It survives its own restarts, from the first one on.
    for round in 0..3 {
        (0..3).for_each(|id| cluster.run(id));
        let (_, mut client) = cluster.leader();
        check(&mut client);
        assert_eq!(get(&mut client, "counter"), (KEYS + round).to_string().into_bytes());
        assert_eq!(client.call(&[b"INCR", b"counter"]).unwrap().0, format!(":{}", KEYS + round + 1));
        cluster.none_died();
        cluster.kill_all();
    }
}

/// A disk whose files are damaged or mixed is named and left out.
#[test]
fn disks_of_which_nothing_can_be_said_are_left_out() {
    let mut cluster = Cluster::start("left-out", "durability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    write(&mut client);
    cluster.kill_all();
    let directory = cluster.directory().to_path_buf();
    let other = (leader + 1) % 3;
    let folder = |id: usize| directory.join(format!("node-{id}"));
    let mut segments: Vec<_> =
        std::fs::read_dir(folder(other)).unwrap().map(|file| file.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("journal-"));
    segments.sort();
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    // The head of the first group: later groups prove that it had been synced.
    bytes[4096 + 2] ^= 1;
    std::fs::write(&segments[0], bytes).unwrap();
    let [whole, damaged] = [folder(leader), folder(other)].map(|path| path.display().to_string());
    let (code, text) = recover(&["--from", &whole, &damaged]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("LEFT OUT") && text.contains("the majority is lost"), "{text}");
    let (code, text) = recover(&["--from", &damaged]);
    assert!(code == Some(5) && text.contains("none of the folders can be read"), "{text}");
    let (code, text) = recover(&["--from", &whole, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, Some(0));
    assert_eq!((&report["majority"], &report["voters"]), (&false.into(), &serde_json::json!([0, 1, 2])));
    assert!(report["certain"].as_u64() > Some(0) && report["held"].as_u64() >= report["certain"].as_u64());
}
