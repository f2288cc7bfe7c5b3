//! A majority of the voters is lost for good: what is left is shown, and a new cluster begins from it only if an operator accepts the loss.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

mod processes;

use processes::{Client, Cluster, PATIENCE};

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
    assert!(old.status.code() == Some(3) && words.contains("of cluster \"second\""), "{words}");
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

/// The journal's files of a folder, oldest first.
fn journal_of(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("journal-"));
    files.sort();
    files
}

/// Flips a byte of a record in the middle of the journal; in which file, and at which offset it is found.
fn spoil_the_middle(folder: &std::path::Path) -> String {
    let dump =
        Command::new(env!("CARGO_BIN_EXE_highwater")).args(["log", "dump", "--json"]).arg(folder).output();
    let dump = String::from_utf8(dump.unwrap().stdout).unwrap();
    let records: Vec<serde_json::Value> =
        dump.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The last line is about the whole.
    let record = &records[records.len() / 2];
    let segment = record["segment"].as_u64().unwrap();
    let path = folder.join(format!("journal-{segment:016}"));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[record["offset"].as_u64().unwrap() as usize + 8] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    format!("journal-{segment:016}")
}

/// Of a disk whose journal is damaged in the middle nothing was taken: what stands before that is as good as what a crash would have left.
#[test]
fn of_a_damaged_disk_what_stands_before_the_damage_begins_a_new_cluster() {
    let mut cluster = Cluster::start("damaged", "durability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    write(&mut client);
    cluster.kill_all();
    let directory = cluster.directory().to_path_buf();
    let path = |id: usize| directory.join(format!("node-{id}"));
    let folder = |id: usize| path(id).display().to_string();
    let file = spoil_the_middle(&path(leader));
    let damaged = format!("DAMAGED  {file} at offset ");
    let (code, text) = recover(&["--from", &folder(leader)]);
    assert_eq!(code, Some(0), "{text}");
    for words in
        [&damaged, "as if the node had crashed there", &format!("damaged: {leader}"), "the majority is lost"]
    {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    // It is no part of a majority, and none is needed of it.
    let [one, other] = [(leader + 1) % 3, (leader + 2) % 3].map(folder);
    let (_, text) = recover(&["--from", &folder(leader), &one]);
    assert!(text.contains("the majority is lost"), "{text}");
    let (_, text) = recover(&["--from", &folder(leader), &one, &other]);
    let words = format!("move the folder of node {leader} away, start all nodes");
    assert!(text.contains(&words), "{text}");
    // Its node says what to do.
    let serve = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["serve", "--config"])
        .arg(directory.join(format!("{leader}.toml")))
        .output()
        .unwrap();
    let text = String::from_utf8(serve.stderr).unwrap();
    assert!(serve.status.code() == Some(3) && text.contains("move this folder away"), "{text}");
    assert!(text.contains(&file) && text.contains("recover --from"), "{text}");

    let to = directory.join("recovered").display().to_string();
    let accepting = ["--accept-loss", "--to", &to, "--cluster", "second", "--nodes", "0,1,2"];
    let (code, text) = recover(&[&["--from", &folder(leader)], &accepting[..]].concat());
    assert_eq!(code, Some(0), "{text}");
    for id in 0..3 {
        let path = directory.join(format!("{id}.toml"));
        let config = std::fs::read_to_string(&path).unwrap();
        let config =
            config.replacen(&format!("dir = \"{}\"", directory.display()), &format!("dir = \"{to}\""), 1);
        std::fs::write(path, config.replacen("durability", "id = \"second\"\ndurability", 1)).unwrap();
        cluster.run(id);
    }
    // A state that was: of each key that was counted its value, and nothing of what came later.
    let (_, mut client) = cluster.leader();
    let count: usize = String::from_utf8(get(&mut client, "counter")).unwrap().parse().unwrap();
    assert!((1..KEYS).contains(&count), "{count}");
    for at in 0..KEYS {
        let value = get(&mut client, &format!("key:{at}"));
        match (at % 7, at) {
            (0, _) if at != count => assert!(value.is_empty(), "key {at} of {count}"),
            (_, at) if at < count => {
                assert_eq!(value, vec![b'a' + (at % 26) as u8; at * at % 5000], "key {at}")
            }
            (_, at) if at > count => assert!(value.is_empty(), "key {at} of {count}"),
            _ => {}
        }
    }
}

fn checkpoints(folder: &std::path::Path) -> usize {
    let names = std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".manifest")).count()
}

/// Damage in front of what the newest checkpoint needs takes nothing away.
#[test]
fn old_damage_takes_nothing_away() {
    let mut cluster = Cluster::start("old-damage", "durability = \"sync\"", None);
    let path = cluster.directory().join("node-0");
    for life in 0..2 {
        // Every life begins another file of the journal; so that the first one stays many checkpoints are kept.
        cluster.kill_all();
        (0..3).for_each(|id| cluster.run_with(id, &["--set", "storage.checkpoints_kept=40"]));
        let (before, began) = (checkpoints(&path), std::time::Instant::now());
        while checkpoints(&path) < before + 3 {
            assert!(began.elapsed() < PATIENCE, "no checkpoints in life {life}");
            let (_, mut client) = cluster.leader();
            let large = vec![b'x'; 200_000];
            (0..10).for_each(|at| drop(client.call(&[b"SET", format!("large:{at}").as_bytes(), &large])));
        }
    }
    cluster.kill_all();
    let folder = path.display().to_string();
    let report = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let (code, before) = recover(&["--from", &folder, "--json"]);
    assert_eq!(code, Some(0), "{before}");
    let first = &journal_of(&path)[0];
    let mut bytes = std::fs::read(first).unwrap();
    bytes[4096 + 70] ^= 1;
    std::fs::write(first, bytes).unwrap();
    let (code, after) = recover(&["--from", &folder, "--json"]);
    assert_eq!(code, Some(0), "{after}");
    let (before, after) = (report(&before), report(&after));
    assert_eq!((&before["held"], &before["certain"]), (&after["held"], &after["certain"]));
    assert_eq!(after["survivors"][0]["damage_is_old"], true, "{after}");
}

/// The checkpoints of a folder, oldest first.
fn numbers(folder: &std::path::Path) -> Vec<u64> {
    let names = std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().file_name());
    let number = |name: std::ffi::OsString| {
        name.to_str()?.strip_prefix("checkpoint-")?.strip_suffix(".manifest")?.parse().ok()
    };
    let mut numbers: Vec<u64> = names.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// Flips a byte in the middle of a checkpoint's first part.
fn spoil_checkpoint(folder: &std::path::Path, number: u64) {
    let path = folder.join(format!("checkpoint-{number:04}.part-0"));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Writes until a node has published so many checkpoints more.
fn write_checkpoints(cluster: &Cluster, folder: &std::path::Path, more: usize) {
    let (last, began) = (numbers(folder).last().copied().unwrap_or(0), std::time::Instant::now());
    while numbers(folder).last().copied().unwrap_or(0) < last + more as u64 {
        assert!(began.elapsed() < PATIENCE, "no checkpoints");
        let (_, mut client) = cluster.leader();
        let large = vec![b'x'; 200_000];
        (0..10).for_each(|at| drop(client.call(&[b"SET", format!("large:{at}").as_bytes(), &large])));
    }
}

fn highwater(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_highwater")).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text)
}

/// One byte of the newest checkpoint stopped `recover` at its last step, though the node itself started from the one before.
#[test]
fn a_damaged_checkpoint_gives_way_to_the_one_before_as_in_the_node() {
    let mut cluster = Cluster::start("older-checkpoint", "durability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    write(&mut client);
    let path = cluster.directory().join(format!("node-{leader}"));
    let folder = path.display().to_string();
    write_checkpoints(&cluster, &path, 3);
    assert_eq!(client.call(&[b"SET", b"last", b"one"]).unwrap().0, "+OK");
    cluster.kill_all();
    let all = numbers(&path);
    let [.., good, newest] = all[..] else { panic!("{all:?}") };
    let (_, before) = recover(&["--from", &folder, "--json"]);
    let before: serde_json::Value = serde_json::from_str(&before).unwrap();
    assert_eq!(before["survivors"][0]["checkpoint"], newest);
    spoil_checkpoint(&path, newest);

    let (code, text) = recover(&["--from", &folder]);
    assert_eq!(code, Some(0), "{text}");
    let part = format!("DAMAGED  checkpoint-{newest:04}.part-0 is damaged at byte");
    assert!(text.contains(&part) && text.contains(&format!("checkpoint {good};")), "{text}");
    assert!(!text.contains("damaged: "), "its node starts: {text}");
    // What looks at a part of the folder says the same as the node does.
    let (code, text) = highwater(&["checkpoint", "verify", &folder]);
    let start = format!("start      the node goes on from checkpoint {good}; checkpoint {newest} is damaged");
    assert!(code == Some(1) && text.contains(&start), "{text}");
    let (code, text) = highwater(&["log", "verify", &folder]);
    assert!(code == Some(0) && text.contains(&start) && text.ends_with("verdict    whole\n"), "{text}");
    let to = cluster.directory().join("recovered").display().to_string();
    let accepting = ["--accept-loss", "--to", &to, "--cluster", "second", "--nodes", "0", "--json"];
    let (code, text) = recover(&[&["--from", &folder], &accepting[..]].concat());
    assert_eq!(code, Some(0), "{text}");
    let after: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&before["held"], &before["certain"]),
        (&after["held"], &after["certain"]),
        "nothing is missing"
    );

    // The node does what is said, and the damaged one is not kept in the place of the good one.
    (0..3).for_each(|id| cluster.run(id));
    let (_, mut client) = cluster.leader();
    check(&mut client);
    assert_eq!(get(&mut client, "last"), b"one");
    assert!(cluster.log(leader).contains(&format!("checkpoint {newest} is skipped: ")));
    let began = std::time::Instant::now();
    while numbers(&path).contains(&newest) {
        assert!(numbers(&path).contains(&good), "the good one is removed, and the damaged one kept");
        assert!(began.elapsed() < PATIENCE, "{:?}", numbers(&path));
        if numbers(&path).last() == Some(&newest) {
            client.call(&[b"SET", b"large", &vec![b'y'; 200_000]]);
        }
    }
    cluster.none_died();
    cluster.kill_all();
    let (code, text) = highwater(&["checkpoint", "verify", &folder]);
    assert_eq!(code, Some(0), "{text}");
}

/// A disk none of whose checkpoints can be loaded was a part of a majority, and its node did not start: a dead end, as the loss could not be
/// accepted. Where the journal goes back to the node's birth nothing is missing, and the node starts.
#[test]
fn a_disk_that_leads_to_no_state_is_no_part_of_a_majority_and_its_log_counts() {
    let mut cluster = Cluster::start("no-state", "durability = \"sync\"", None);
    let directory = cluster.directory().to_path_buf();
    let path = |id: usize| directory.join(format!("node-{id}"));
    let folder = |id: usize| path(id).display().to_string();
    let (_, mut client) = cluster.leader();
    write(&mut client);
    write_checkpoints(&cluster, &path(0), 1);
    cluster.kill_all();
    numbers(&path(0)).into_iter().for_each(|number| spoil_checkpoint(&path(0), number));
    let (code, text) = recover(&["--from", &folder(0), &folder(1)]);
    assert!(code == Some(0) && text.contains("a majority is here: start these nodes"), "{text}");
    (0..2).for_each(|id| cluster.run(id));
    let (_, mut client) = cluster.leader();
    check(&mut client);
    cluster.run(2);
    // Every life begins another file of the journal, and the first ones go with the checkpoints that need them.
    for _ in 0..2 {
        write_checkpoints(&cluster, &path(0), 3);
        cluster.kill_all();
        (0..3).for_each(|id| cluster.run(id));
    }
    write_checkpoints(&cluster, &path(0), 3);
    let (_, mut client) = cluster.leader();
    let mut last = 0;
    let began = std::time::Instant::now();
    while journal_of(&path(0))[0].ends_with("journal-0000000000000001") {
        assert!(began.elapsed() < PATIENCE, "the first file stays");
        write_checkpoints(&cluster, &path(0), 1);
    }
    for at in 1..=50 {
        assert_eq!(client.call(&[b"SET", b"last", at.to_string().as_bytes()]).unwrap().0, "+OK");
        last = at;
    }
    cluster.kill_all();
    numbers(&path(0)).into_iter().for_each(|number| spoil_checkpoint(&path(0), number));
    // Node 2 is lost. Node 0 does not start.
    let (code, text) = recover(&["--from", &folder(0), &folder(1)]);
    assert_eq!(code, Some(0), "{text}");
    for words in [
        "REFUSES  its node does not start: none of the checkpoints can be loaded",
        "damaged: 0",
        "its log counts",
    ] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    assert!(text.contains("the majority is lost") && !text.contains("a majority is here"), "{text}");
    let config = directory.join("0.toml").display().to_string();
    let (code, text) = highwater(&["serve", "--config", &config]);
    assert!(code == Some(3) && text.contains("none of the checkpoints can be loaded"), "{text}");
    assert!(text.contains("move this folder away, but keep it"), "{text}");
    // By itself it leads to nothing.
    let to = directory.join("recovered").display().to_string();
    let accepting = ["--accept-loss", "--to", &to, "--cluster", "second", "--nodes", "0,1,2"];
    let (code, text) = recover(&[&["--from", &folder(0)], &accepting[..]].concat());
    assert!(code == Some(1) && text.contains("none of these folders leads to a state"), "{text}");
    // With the other one the loss can be accepted, and nothing that was acknowledged is missing.
    let (code, text) = recover(&[&["--from", &folder(0), &folder(1)], &accepting[..]].concat());
    assert_eq!(code, Some(0), "{text}");
    for id in 0..3 {
        let path = directory.join(format!("{id}.toml"));
        let config = std::fs::read_to_string(&path).unwrap();
        let config =
            config.replacen(&format!("dir = \"{}\"", directory.display()), &format!("dir = \"{to}\""), 1);
        std::fs::write(path, config.replacen("durability", "id = \"second\"\ndurability", 1)).unwrap();
        cluster.run(id);
    }
    let (_, mut client) = cluster.leader();
    check(&mut client);
    assert_eq!(get(&mut client, "last"), last.to_string().as_bytes());
}

/// A voter that was copying the state was left out, and a majority called lost whose nodes serve. And two of them are no majority that can lead.
#[test]
fn a_voter_that_was_copying_counts_and_its_state_does_not() {
    let mut cluster = Cluster::start("copying", "durability = \"sync\"", None);
    let directory = cluster.directory().to_path_buf();
    let path = |id: usize| directory.join(format!("node-{id}"));
    let folder = |id: usize| path(id).display().to_string();
    let flags = [
        "--set",
        "storage.checkpoints_kept=100",
        "--set",
        "limits.log_retain_bytes=1048576",
        "--set",
        "limits.max_in_flight_bytes=1048576",
    ];
    cluster.kill_all();
    (0..3).for_each(|id| cluster.run_with(id, &flags));
    let (leader, mut client) = cluster.leader();
    write(&mut client);
    let followers = [(leader + 1) % 3, (leader + 2) % 3];
    let mut before = Vec::new();
    for follower in followers {
        cluster.kill(follower);
        before.push(numbers(&path(follower)).last().copied().unwrap_or(0));
        let large = vec![b'x'; 200_000];
        for at in 0..50 {
            assert_eq!(client.call(&[b"SET", format!("large:{at}").as_bytes(), &large]).unwrap().0, "+OK");
        }
        let said = cluster.log(follower).matches("the state is complete").count();
        cluster.run_with(follower, &flags);
        let began = std::time::Instant::now();
        while cluster.log(follower).matches("the state is complete").count() == said
            || numbers(&path(follower)).last() <= before.last()
        {
            assert!(began.elapsed() < PATIENCE, "{}", cluster.log(follower));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    assert_eq!(client.call(&[b"SET", b"last", b"one"]).unwrap().0, "+OK");
    cluster.kill_all();
    // As if the power had failed before the copied state was in a checkpoint.
    for (follower, before) in followers.into_iter().zip(before) {
        for number in numbers(&path(follower)).into_iter().filter(|number| *number > before) {
            let begins = format!("checkpoint-{number:04}.");
            let files = std::fs::read_dir(path(follower)).unwrap().map(|file| file.unwrap());
            files
                .filter(|file| file.file_name().to_str().unwrap().starts_with(&begins))
                .for_each(|file| std::fs::remove_file(file.path()).unwrap());
        }
    }
    let [one, other] = followers;
    let (code, text) = recover(&["--from", &folder(one), &folder(other)]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("none of these nodes can lead") && text.contains("NO STATE"), "{text}");
    let to = directory.join("recovered").display().to_string();
    let (code, text) = recover(&[
        "--from",
        &folder(one),
        "--accept-loss",
        "--to",
        &to,
        "--cluster",
        "second",
        "--nodes",
        "0",
    ]);
    assert!(code == Some(1) && text.contains("none of these folders leads to a state"), "{text}");
    let (code, text) = recover(&["--from", &folder(one), &folder(leader)]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("a majority is here: start these nodes") && !text.contains("LEFT OUT"), "{text}");
    assert!(text.contains("Its node starts and votes, and its log counts"), "{text}");
    for id in [one, leader] {
        cluster.run_with(id, &flags);
    }
    let (_, mut client) = cluster.leader();
    check(&mut client);
    assert_eq!(get(&mut client, "last"), b"one");
}

/// `--to` in an old folder, and `--nodes 4` for four nodes.
#[test]
fn what_is_easily_meant_otherwise_is_refused_in_words() {
    let mut cluster = Cluster::start("meant", "durability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    write(&mut client);
    cluster.kill_all();
    let folder = cluster.directory().join(format!("node-{leader}")).display().to_string();
    let inside = format!("{folder}/new/er");
    let other = cluster.directory().join("other").display().to_string();
    let accepting = |to: &str, nodes: &str| {
        recover(&["--from", &folder, "--accept-loss", "--to", to, "--cluster", "second", "--nodes", nodes])
    };
    for to in [&folder, &inside] {
        let (code, text) = accepting(to, "0,1,2");
        assert!(code == Some(2) && text.contains("a folder of --from"), "{text}");
    }
    let (code, text) = accepting(&other, "4");
    assert!(code == Some(2) && text.contains("is one node, with the id 4"), "{text}");
    let (code, text) = recover(&["--from", &folder, "--nodes", "4"]);
    assert!(code == Some(2) && text.contains("go with --accept-loss"), "{text}");
    assert!(!std::path::Path::new(&other).exists(), "nothing was written");
    let (code, text) = accepting(&other, &leader.to_string());
    assert_eq!(code, Some(0), "{text}");
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap().map(|file| file.unwrap().path()) {
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// Nodes 1 and 2 had acknowledged writes without node 0, node 2's disk was lost, and node 1's was put back from a copy. `recover` called the
/// two that are left a majority, and refused to accept the loss; and once they were started node 0 told node 1 that its disk is an older copy,
/// and nothing went on. What node 0 had heard of that disk is on its own.
#[test]
fn an_older_copy_is_no_part_of_a_majority_if_another_disk_knows_better() {
    let mut cluster = Cluster::start("older-copy", "durability = \"sync\"", None);
    let directory = cluster.directory().to_path_buf();
    let path = |id: usize| directory.join(format!("node-{id}"));
    let folder = |id: usize| path(id).display().to_string();
    let (_, mut client) = cluster.leader();
    write(&mut client);
    cluster.kill_all();
    copy_folder(&path(1), &directory.join("copy"));
    // Neither serves without the other: node 0 is told of node 1's second start.
    (0..2).for_each(|id| cluster.run(id));
    let (_, mut client) = cluster.leader();
    assert_eq!(client.call(&[b"SET", b"both", b"x"]).unwrap().0, "+OK");
    cluster.run(2);
    cluster.kill(0);
    let (_, mut client) = cluster.leader();
    for key in ["one", "two", "three"] {
        assert_eq!(client.call(&[b"SET", key.as_bytes(), b"x"]).unwrap().0, "+OK");
    }
    cluster.kill_all();
    let (code, text) = recover(&["--from", &folder(0), &folder(1)]);
    assert!(code == Some(0) && text.contains("a majority is here: start these nodes"), "{text}");
    std::fs::rename(path(1), directory.join("newest")).unwrap();
    copy_folder(&directory.join("copy"), &path(1));

    let (code, text) = recover(&["--from", &folder(1), &folder(0)]);
    assert_eq!(code, Some(0), "{text}");
    for words in [
        "REFUSES  its node does not start: not as who it was, for it is an older copy: node 0's disk says that it was told of start 2 of its node",
        "damaged: 1",
        "the majority is lost",
        "--accept-loss",
    ] {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    assert_eq!(text.matches("REFUSES").count(), 1, "{text}");
    let (_, text) = recover(&["--from", &folder(0), &folder(1), &folder(2)]);
    assert!(text.contains("move the folder of node 1 away, start all nodes"), "{text}");
    // A disk of which nothing else can be said still says that.
    let spoiled = directory.join("spoiled");
    copy_folder(&path(0), &spoiled);
    numbers(&spoiled).into_iter().for_each(|number| spoil_checkpoint(&spoiled, number));
    let (_, text) = recover(&["--from", &folder(1), &spoiled.display().to_string(), &folder(2)]);
    assert!(text.contains("node 0's disk says"), "{text}");
    let to = directory.join("recovered").display().to_string();
    let accepting = ["--accept-loss", "--to", &to, "--cluster", "second", "--nodes", "0", "--json"];
    let (code, text) = recover(&[&["--from", &folder(0), &folder(1)], &accepting[..]].concat());
    assert_eq!(code, Some(0), "the loss can be accepted: {text}");

    // The nodes do what is said.
    let said = cluster.log(1).len();
    (0..2).for_each(|id| cluster.run(id));
    let began = std::time::Instant::now();
    while !cluster.log(1)[said..].contains("another life") {
        assert!(began.elapsed() < PATIENCE, "{}", cluster.log(1));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
