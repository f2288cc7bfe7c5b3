//! Archives in a store that speaks S3: a drill under load, what a store does wrong, what an operator does wrong, two writers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

mod drill;
mod processes;
mod s3;

use drill::{check, done_with, mark, move_to, with, write};
use processes::{Client, Cluster, PATIENCE};
use s3::{S3, Wrong};

const URL: &str = "s3://bucket/backups/north";
/// Under which the archive's objects are.
const PREFIX: &str = "bucket/backups/north/";

/// The store, and commands that know where it is.
struct Store {
    s3: S3,
    environment: Vec<(String, String)>,
}

impl Store {
    fn start() -> Store {
        let s3 = S3::start();
        Store { environment: s3.environment(), s3 }
    }

    fn done(&self, args: &[&str]) -> Value {
        done_with(&self.environment, args)
    }

    fn says(&self, args: &[&str], code: i32, words: &str) -> String {
        let (found, text) = with(&self.environment, args);
        assert!(found == Some(code) && text.contains(words), "{args:?}: {found:?} {text}");
        text
    }

    /// A `backup create --follow`, once it has copied for the first time; what it says comes line by line.
    fn follow(&self, from: &str) -> (Child, impl Iterator<Item = String> + use<>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(["backup", "create", "--follow", "--every", "0.1", "--json", "--from", from, "--to", URL])
            .envs(self.environment.iter().cloned())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        assert!(lines.next().is_some(), "it copies");
        (child, lines)
    }

    /// All objects but the one that says who writes.
    fn archive(&self) -> Vec<(String, Arc<Vec<u8>>)> {
        let held = self.s3.held();
        let objects = held.objects.iter().filter(|(key, _)| !key.ends_with("writer.json"));
        objects.map(|(key, object)| (key.clone(), object.bytes.clone())).collect()
    }

    /// Waits until all that was committed is there.
    fn reach(&self, reached: u64) {
        let began = Instant::now();
        while self.done(&["backup", "list", "--json", URL])["chains"][0]["latest"].as_u64().unwrap() < reached
        {
            assert!(began.elapsed() < PATIENCE, "{reached} is not reached");
        }
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A node's folder of a cluster that is over, with values so large that its checkpoints have several parts to send.
fn folder(name: &str) -> (Cluster, String) {
    let mut cluster = Cluster::start(name, "id = \"north\"\ndurability = \"sync\"\nworkers = 1", None);
    let began = Instant::now();
    let folder = loop {
        // On a machine with much else to do the lead may change meanwhile.
        let (leader, mut client) = cluster.leader();
        fill(&mut client);
        let folder = cluster.directory().join(format!("node-{leader}"));
        if has_large_checkpoint(&folder) {
            break folder;
        }
        assert!(began.elapsed() < PATIENCE, "no checkpoint");
    };
    cluster.kill_all();
    (cluster, text(&folder))
}

/// Whether there is one with a part of more bytes than are sent at once.
fn has_large_checkpoint(folder: &Path) -> bool {
    let large = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let is_part = path.extension().is_some_and(|end| end.to_string_lossy().starts_with("part-"));
        let published = path.with_extension("manifest").exists();
        is_part && published && path.metadata().is_ok_and(|meta| meta.len() > 9 << 20)
    };
    std::fs::read_dir(folder).unwrap().any(large)
}

fn fill(client: &mut Client) {
    let value: Vec<u8> = (0..400_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    for at in 0..30 {
        client.call(&[b"SET", format!("large:{at}").as_bytes(), &value]);
    }
}

#[test]
fn a_cluster_under_load_is_archived_in_a_store_and_restored_to_any_moment() {
    let store = Store::start();
    store.s3.held().page = 3;
    let mut cluster = Cluster::start("objects", "id = \"north\"\ndurability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    let directory = cluster.directory().to_path_buf();
    let folder = text(&directory.join(format!("node-{leader}")));
    write(&mut client, 0);
    let first = mark(&cluster, leader);
    let (follower, mut lines) = store.follow(&folder);
    // Somebody counts while the archive follows.
    let mut counted = 0;
    for _ in 0..5 {
        for _ in 0..300 {
            counted += 1;
            assert_eq!(client.call(&[b"INCR", b"counter"]).unwrap().0, format!(":{counted}"));
        }
        lines.next().unwrap();
    }
    let middle = (mark(&cluster, leader), counted);
    write(&mut client, 1);
    assert_eq!(client.call(&[b"INCR", b"counter"]).unwrap().0, format!(":{}", counted + 1));
    let reached = mark(&cluster, leader);
    store.reach(reached);
    let verified = store.done(&["backup", "verify", "--json", URL]);
    assert_eq!((&verified["whole"], &verified["chains"]), (&true.into(), &1.into()));
    kill(follower);
    // A copy of its own goes on where the other was, and finds its writer gone.
    let copied = store.done(&["backup", "create", "--json", "--from", &folder, "--to", URL]);
    assert_eq!((&copied["chain"], &copied["began"]), (&1.into(), &Value::Null));

    let mut at = (directory.clone(), "north".to_string());
    for (id, moment, count, round) in [
        ("last", None, counted + 1, 1),
        ("middle", Some(middle.0), middle.1, 0),
        ("first", Some(first), 0, 0),
    ] {
        let to = directory.join(id);
        let (timestamp, to_text) = (moment.unwrap_or(0).to_string(), text(&to));
        let mut args = vec!["backup", "restore", "--json", URL, "--to", &to_text, "--cluster", id];
        args.extend(["--nodes", "0,1,2"]);
        if moment.is_some() {
            args.extend(["--timestamp", &timestamp]);
        }
        store.done(&args);
        move_to(&mut cluster, &at.0, &to, (&at.1, id));
        let (_, mut client) = cluster.leader();
        check(&mut client, round);
        let found = client.call(&[b"GET", b"counter"]).unwrap().1;
        assert_eq!(String::from_utf8(found).unwrap().parse().unwrap_or(0), count, "{id}");
        at = (to, id.into());
    }
}

#[test]
fn what_a_store_does_wrong_for_a_while_is_overcome() {
    let (_cluster, folder) = folder("wrong");
    let store = Store::start();
    let create = ["backup", "create", "--json", "--from", &folder, "--to", URL];
    store.done(&create);
    let whole = store.done(&["backup", "verify", "--json", URL]);
    assert_eq!(whole["whole"], true);
    let expected = store.archive();
    for (method, of, times, wrong) in [
        ("PUT", "archive.json", 3, Wrong::Says(500, "InternalError")),
        ("PUT", "writer.json", 2, Wrong::AnswerLost),
        ("PUT", "archive.json", 1, Wrong::AnswerLost),
        ("PUT", "chain.json", 1, Wrong::AnswerLost),
        ("PUT", "partNumber=2", 3, Wrong::Says(503, "SlowDown")),
        ("PUT", "partNumber=1", 1, Wrong::Cut),
        ("POST", "uploadId", 1, Wrong::Says(500, "InternalError")),
        ("POST", "uploadId", 1, Wrong::AnswerLost),
        ("PUT", ".manifest", 1, Wrong::AnswerLost),
        ("PUT", "journal-", 1, Wrong::AnswerLost),
        ("PUT", "journal-", 2, Wrong::Cut),
    ] {
        store.s3.held().objects.clear();
        store.s3.fail(method, of, times, wrong);
        let copied = store.done(&create);
        assert_eq!(
            (&copied["chain"], &copied["began"]),
            (&1.into(), &Value::Null),
            "{method} {of} {wrong:?}"
        );
        assert!(store.s3.all_failed(), "{method} {of} {wrong:?}: {:#?}", store.s3.held().asked);
        assert!(store.s3.held().uploads.is_empty());
        assert!(store.archive() == expected, "{method} {of} {wrong:?}");
    }
    for (method, of, times, wrong) in [
        ("GET", "journal-", 2, Wrong::BodyCut),
        ("GET", "part-0", 1, Wrong::BodyCut),
        ("GET", "journal-", 2, Wrong::Says(503, "SlowDown")),
        ("GET", "journal-", 3, Wrong::Drips(10)),
        ("GET", "list-type", 2, Wrong::Cut),
    ] {
        store.s3.fail(method, of, times, wrong);
        assert_eq!(store.done(&["backup", "verify", "--json", URL]), whole, "{method} {of} {wrong:?}");
        assert!(store.s3.all_failed(), "{method} {of} {wrong:?}");
    }
}

#[test]
fn what_cannot_be_overcome_is_said_and_leaves_nothing_that_counts() {
    let (_cluster, folder) = folder("refused");
    let store = Store::start();
    let create =
        |patience| ["backup", "create", "--json", "--from", &folder, "--to", URL, "--patience", patience];
    store.s3.fail("PUT", "partNumber=2", 1, Wrong::Says(403, "AccessDenied"));
    store.says(&create("1"), 1, "the store refuses these credentials");
    assert!(store.s3.all_failed() && store.s3.held().uploads.is_empty(), "the upload is taken back");
    let manifests = || store.s3.keys(PREFIX).iter().filter(|key| key.ends_with(".manifest")).count();
    let before = manifests();
    store.s3.fail("PUT", "journal-", usize::MAX, Wrong::Says(500, "InternalError"));
    let began = Instant::now();
    store.says(&create("1"), 1, "cannot copy journal-");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    store.s3.held().faults.clear();
    // Somebody else wrote what this one was about to write.
    store.s3.fail("PUT", "journal-", 1, Wrong::Says(412, "PreconditionFailed"));
    store.says(&create("1"), 1, "another process has written to this archive");
    store.s3.held().faults.clear();
    store.done(&create("1"));
    assert!(manifests() > before, "what was half there did not count");
    assert_eq!(store.done(&["backup", "verify", "--json", URL])["whole"], true);

    // What is damaged, or missing, is found.
    for of in ["journal-", ".part-0", ".manifest"] {
        let key = store.s3.keys(PREFIX).into_iter().find(|key| key.contains(of)).unwrap();
        let whole = store.s3.held().objects[&key].clone();
        let mut spoiled = whole.bytes.to_vec();
        let at = 4096.min(spoiled.len() - 1);
        spoiled[at] ^= 4;
        store.s3.held().objects.get_mut(&key).unwrap().bytes = Arc::new(spoiled);
        store.says(&["backup", "verify", URL], 1, "DAMAGED");
        store.s3.held().objects.remove(&key);
        if of != ".manifest" {
            store.says(&["backup", "verify", URL], 1, "DAMAGED");
        }
        store.s3.held().objects.insert(key, whole);
    }
    assert_eq!(store.done(&["backup", "verify", "--json", URL])["whole"], true);
}

#[test]
fn what_an_operator_has_wrong_is_said() {
    let store = Store::start();
    let list = |url| ["backup", "list", url, "--patience", "1"];
    store.says(&list(URL), 5, "it is no archive");
    store.says(&list("s3://other/backups"), 5, "there is no such bucket");
    store.says(&list("ftp://host/backups"), 2, "ftp:// is not supported");
    store.says(&list("memory:///backups"), 2, "memory:// is not supported");
    store.says(&list("file://backups"), 2, "a whole path");
    store.says(&["backup", "list", URL, "--patience=-1"], 2, "--patience is 0 to 86400");
    let mut environment = store.environment.clone();
    environment.iter_mut().find(|(name, _)| name == "AWS_ACCESS_KEY_ID").unwrap().1 = "stranger".into();
    let (code, text) = with(&environment, &list(URL));
    assert!(code == Some(5) && text.contains("the store refuses these credentials"), "{text}");
    // Nobody listens there.
    let nobody = format!("http://127.0.0.1:{}", highwater_node::free_loopback_ports(1).unwrap()[0]);
    environment.iter_mut().find(|(name, _)| name == "AWS_ENDPOINT").unwrap().1 = nobody;
    let began = Instant::now();
    let (code, text) = with(&environment, &list(URL));
    assert!(code == Some(5) && text.contains("the store cannot be reached"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn one_process_writes_to_an_archive_at_a_time() {
    let (_cluster, folder) = folder("writers");
    let store = Store::start();
    let create = ["backup", "create", "--json", "--from", &folder, "--to", URL];
    let (first, _lines) = store.follow(&folder);
    store.says(&create, 1, "is being written to by another process: one at a time");
    // It ends without a word, and whoever comes next sees that it is gone.
    kill(first);
    store.done(&create);
    let said = store.says(&create, 0, "chain");
    assert!(!said.contains("another process"), "{said}");
    // A store that looks at no conditions is named.
    store.s3.held().careless = true;
    store.says(&create, 0, "this store checks no conditions");
    store.s3.held().careless = false;
    let mut environment = store.environment.clone();
    environment.push(("AWS_CONDITIONAL_PUT".into(), "disabled".into()));
    let (code, text) = with(&environment, &create);
    assert!(code == Some(0) && text.contains("this store checks no conditions"), "{text}");
    assert_eq!(store.done(&["backup", "verify", "--json", URL])["whole"], true);
}
