//! A cluster of real replicas grows from one node to five and shrinks to three under load, by `highwater member`; nothing acknowledged is
//! lost, and who was removed is told so.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

mod processes;

use processes::{Client, PATIENCE};

const CLIENTS: usize = 4;
const NODES: usize = 6;

/// Ports that were free a moment ago may be another cluster's by now: one cluster at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Nodes that may run; most know nobody but node 0 and themselves by their configs.
struct Nodes {
    directory: tempfile::TempDir,
    ports: Vec<u16>,
    running: BTreeMap<usize, Child>,
}

impl Nodes {
    /// With ports for so many, and no config yet.
    fn with_room(count: usize) -> Nodes {
        let ports = highwater_node::free_loopback_ports(3 * count).unwrap();
        let directory = tempfile::Builder::new().prefix("highwater-members-").tempdir().unwrap();
        Nodes { directory, ports, running: BTreeMap::new() }
    }

    fn new(durability: &str) -> Nodes {
        let nodes = Nodes::with_room(NODES);
        for id in 0..NODES {
            let known = [0..1, 0..1, 0..1, 0..1, 0..2, 0..5][id].clone();
            nodes.configure(id, durability, known.filter(|other| *other < id).chain([id]));
        }
        nodes
    }

    fn configure(&self, id: usize, durability: &str, listed: impl Iterator<Item = usize>) {
        let listed: String = listed.map(|id| self.entry(id)).collect();
        let config = format!(
            "node = {id}\n[cluster]\ndurability = \"{durability}\"\nnodes = [{listed}]\n[threads]\nlifeline = true\n\
             [storage]\ndir = \"{}\"\n",
            self.directory.path().display()
        );
        std::fs::write(self.path(id, "toml"), config).unwrap();
    }

    fn entry(&self, id: usize) -> String {
        let [peer, resp, admin] =
            [0, 1, 2].map(|what| format!("\"127.0.0.1:{}\"", self.ports[3 * id + what]));
        format!("{{ id = {id}, peer = {peer}, resp = {resp}, admin = {admin} }},")
    }

    fn path(&self, id: usize, kind: &str) -> PathBuf {
        self.directory.path().join(format!("{id}.{kind}"))
    }

    fn admin(&self, id: usize) -> String {
        format!("127.0.0.1:{}", self.ports[3 * id + 2])
    }

    fn run(&mut self, id: usize) {
        let log = std::fs::File::options().create(true).append(true).open(self.path(id, "log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(["serve", "--config"])
            .arg(self.path(id, "toml"))
            .stdin(Stdio::piped())
            .stderr(log)
            .spawn();
        self.running.insert(id, child.unwrap());
    }

    fn kill(&mut self, id: usize) {
        let mut child = self.running.remove(&id).expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Who says that it leads, if anybody does.
    fn leader(&self) -> Option<usize> {
        self.running.keys().copied().find(|id| {
            let client = Client::connect(self.ports[3 * id + 1]);
            let info = client.and_then(|mut client| client.call(&[b"INFO", b"replication"]));
            info.is_some_and(|(_, text)| String::from_utf8_lossy(&text).contains("role:master"))
        })
    }

    fn member(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_highwater")).arg("member").args(args).output().unwrap()
    }

    fn must(&self, args: &[&str]) -> String {
        let output = self.member(&[args, &["--timeout", "60"]].concat());
        let logs: String = (0..self.ports.len() / 3)
            .filter_map(|id| std::fs::read_to_string(self.path(id, "log")).ok())
            .collect();
        assert!(output.status.success(), "{args:?}: {}\n{logs}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.member(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn add(&mut self, id: usize) {
        self.run(id);
        let config = self.path(id, "toml");
        self.must(&["add", &id.to_string(), "--config", config.to_str().unwrap()]);
    }

    fn eventually(&self, what: &str, mut holds: impl FnMut(&Nodes) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            assert!(started.elapsed() < PATIENCE, "{what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn log_has(&self, id: usize, words: &str) -> bool {
        std::fs::read_to_string(self.path(id, "log")).is_ok_and(|log| log.contains(words))
    }

    fn members(&self, ask: usize) -> Vec<u64> {
        let listed = self.must_list(ask);
        listed["members"].as_array().unwrap().iter().map(|member| member["id"].as_u64().unwrap()).collect()
    }

    fn must_list(&self, ask: usize) -> serde_json::Value {
        let output = self.member(&["list", "--json", "--admin", &self.admin(ask)]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.directory.disable_cleanup(thread::panicking());
    }
}

/// What a client knows of its counter: acknowledged, and of unknown outcome.
#[derive(Default)]
struct Counted {
    acknowledged: AtomicU64,
    unknown: AtomicU64,
}

/// Adds 1 to a counter at whoever leads.
fn count(ports: &[u16], name: &str, counted: &Counted, over: &AtomicBool) {
    let mut at = 0;
    let mut client: Option<Client> = None;
    while !over.load(Ordering::Relaxed) {
        let Some(connected) = &mut client else {
            at = (at + 1) % (ports.len() / 3);
            client = Client::connect(ports[3 * at + 1]);
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        match connected.call(&[b"INCR", name.as_bytes()]) {
            Some((line, _)) if line.starts_with(':') => {
                counted.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Some((line, _)) if processes::refused(&line) => client = None,
            // Whatever else was answered or not: it may have been done.
            _ => {
                counted.unknown.fetch_add(1, Ordering::Relaxed);
                client = None;
            }
        }
    }
}

/// Clients count while the story is told; what was acknowledged is there in the end.
fn under_load(nodes: &mut Nodes, story: impl FnOnce(&mut Nodes, &dyn Fn(&Nodes))) {
    let counted: Vec<Counted> = (0..CLIENTS).map(|_| Counted::default()).collect();
    let over = AtomicBool::new(false);
    let ports = nodes.ports.clone();
    let acknowledged =
        || counted.iter().map(|counted| counted.acknowledged.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let leader = thread::scope(|scope| {
        let (over, ports) = (&over, &ports);
        for (at, counted) in counted.iter().enumerate() {
            scope.spawn(move || count(ports, &format!("counter:{at}"), counted, over));
        }
        // Clients end whatever becomes of the story.
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let goes_on = |nodes: &Nodes| {
                let before = acknowledged();
                nodes.eventually("the load stands still", |_| {
                    before.iter().zip(acknowledged()).all(|(before, now)| now > before + 20)
                });
            };
            story(nodes, &goes_on);
        }));
        over.store(true, Ordering::Relaxed);
        told.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        nodes.leader()
    });
    let mut client = Client::connect(nodes.ports[3 * leader.expect("somebody leads") + 1]).unwrap();
    for (at, counted) in counted.iter().enumerate() {
        let (_, value) = client.call(&[b"GET", format!("counter:{at}").as_bytes()]).unwrap();
        let value: u64 = String::from_utf8(value).unwrap().parse().unwrap();
        let (least, unknown) =
            (counted.acknowledged.load(Ordering::Relaxed), counted.unknown.load(Ordering::Relaxed));
        assert!(
            (least..=least + unknown).contains(&value),
            "counter {at} is {value}: {least} acknowledged, {unknown} unknown"
        );
    }
}

/// The whole story.
fn grow_and_shrink(durability: &str) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut nodes = Nodes::new(durability);
    nodes.run(0);
    nodes.eventually("nobody leads", |nodes| nodes.leader().is_some());
    under_load(&mut nodes, |nodes, goes_on| {
        goes_on(nodes);
        (1..5).for_each(|id| nodes.add(id));
        goes_on(nodes);
        assert_eq!(nodes.members(3), [0, 1, 2, 3, 4]);
        let config = nodes.path(3, "toml");
        nodes.must(&["add", "3", "--config", config.to_str().unwrap()]);
        // Two that vote do not become one by mistake.
        let why = nodes.refused(&["replace", "4", "--by", "3", "--config", config.to_str().unwrap()]);
        assert!(why.contains("n3 is a member already"), "{why}");
        // The config of the first node lists nobody else: its cluster has grown since.
        let (status, first) = (["status", "--cluster", "--json", "--config"], nodes.path(0, "toml"));
        let output = Command::new(env!("CARGO_BIN_EXE_highwater")).args(status).arg(first).output().unwrap();
        let cluster: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(cluster["nodes"].as_array().unwrap().len(), 5, "{cluster}");

        // The leader goes, then another one, which does not run.
        let first = nodes.leader().expect("somebody leads");
        let ask = nodes.admin((first + 1) % 5);
        nodes.must(&["remove", &first.to_string(), "--admin", &ask]);
        goes_on(nodes);
        nodes.eventually("the removed one is not told", |nodes| nodes.log_has(first, "was removed"));
        let old = nodes.must_list(first)["may_be_old"].as_str().unwrap().to_string();
        assert!(old.contains("may be old"), "{old}");
        let second = (0..5).find(|id| *id != first && Some(*id) != nodes.leader()).unwrap();
        nodes.kill(second);
        let ask = nodes.admin((0..5).find(|id| ![first, second].contains(id)).unwrap());
        nodes.must(&["remove", &second.to_string(), "--admin", &ask]);
        nodes.must(&["remove", &second.to_string(), "--admin", &ask]);
        goes_on(nodes);
        let again = nodes.path(first, "toml");
        let why =
            nodes.refused(&["add", &first.to_string(), "--config", again.to_str().unwrap(), "--admin", &ask]);
        assert!(why.contains("its id is not used again"), "{why}");

        // Who was removed comes back, and is told.
        nodes.run(second);
        nodes.eventually("who comes back is not told", |nodes| nodes.log_has(second, "was removed"));
        goes_on(nodes);

        // Three are left: one may die, and with two more may not go.
        let leader = nodes.leader().expect("somebody leads");
        nodes.kill(leader);
        nodes.eventually("nobody takes over", |nodes| nodes.leader().is_some());
        goes_on(nodes);
        let left: Vec<usize> = (0..5).filter(|id| ![first, second, leader].contains(id)).collect();
        let why = nodes.refused(&["remove", &left[0].to_string(), "--admin", &nodes.admin(left[1])]);
        assert!(why.contains("no majority"), "{why}");
        // A new one takes the dead one's place.
        nodes.run(5);
        let config = nodes.path(5, "toml");
        let (config, by) = (config.to_str().unwrap(), nodes.admin(left[0]));
        nodes.must(&["replace", &leader.to_string(), "--by", "5", "--config", config, "--admin", &by]);
        goes_on(nodes);
        let mut expected: Vec<u64> = left.iter().map(|id| *id as u64).chain([5]).collect();
        expected.sort_unstable();
        assert_eq!(nodes.members(5), expected);
    });
}

#[test]
fn one_three_five_three_in_memory() {
    grow_and_shrink("memory");
}

#[test]
fn one_three_five_three_on_disks() {
    grow_and_shrink("sync");
}

/// Whoever moved to other addresses with its id is found there: by those who dial it (node 0), and by those whom it dials. Then it
/// counts: with a third one dead nothing is acknowledged without it.
fn move_nodes(durability: &str) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut nodes = Nodes::new(durability);
    nodes.run(0);
    nodes.eventually("nobody leads", |nodes| nodes.leader().is_some());
    (1..3).for_each(|id| nodes.add(id));
    for (round, moves) in [0, 2].into_iter().enumerate() {
        nodes.kill(moves);
        // To where a node would be that never was.
        let there = nodes.ports[3 * (3 + round)..][..3].to_vec();
        nodes.ports[3 * moves..][..3].copy_from_slice(&there);
        nodes.configure(moves, durability, 0..3);
        nodes.run(moves);
        let config = nodes.path(moves, "toml");
        nodes.must(&["replace", &moves.to_string(), "--config", config.to_str().unwrap()]);
        let listed = nodes.must_list(1);
        assert!(listed.to_string().contains(&format!("127.0.0.1:{}", there[0])), "{listed}");
        let other = 2 - moves;
        nodes.kill(other);
        let mut added = 0;
        nodes.eventually("nothing is acknowledged with the one that moved", |nodes| {
            for id in [1, moves] {
                let client = Client::connect(nodes.ports[3 * id + 1]);
                let reply = client.and_then(|mut client| client.call(&[b"INCR", b"moved"]));
                added += i32::from(reply.is_some_and(|(line, _)| line.starts_with(':')));
            }
            added > 2
        });
        nodes.run(other);
        let admin = nodes.admin(1);
        let config = nodes.path(other, "toml");
        // It votes again before the next one goes.
        nodes.must(&["add", &other.to_string(), "--config", config.to_str().unwrap(), "--admin", &admin]);
    }
}

/// Once: `member replace` of a node that had moved, and `member add` of one that was a member already, said that they
/// were done though that node did not vote: it was not up, or had come back without memory and copied the state. Who
/// stopped another node on that word had no majority.
#[test]
fn nodes_move_in_memory() {
    move_nodes("memory");
}

#[test]
fn nodes_move_with_their_disks() {
    move_nodes("sync");
}

/// How often, as `REPLACEMENTS` says: a soak is `REPLACEMENTS=50 cargo test -p highwater --test members replaced`.
fn replacements() -> usize {
    std::env::var("REPLACEMENTS").map_or(3, |count| count.parse().unwrap())
}

/// Three nodes, one after the other of which gives way to a new one, until none of the first is there, and on.
#[test]
fn nodes_are_replaced_one_after_the_other_under_load() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut nodes = Nodes::with_room(3 + replacements());
    for id in 0..3 {
        nodes.configure(id, "sync", 0..3);
        nodes.run(id);
    }
    nodes.eventually("nobody leads", |nodes| nodes.leader().is_some());
    under_load(&mut nodes, |nodes, goes_on| {
        goes_on(nodes);
        for new in 3..3 + replacements() {
            let members: Vec<usize> = nodes.running.keys().copied().collect();
            nodes.configure(new, "sync", members.iter().copied().chain([new]));
            nodes.run(new);
            let (goes, config) = (members[0].to_string(), nodes.path(new, "toml"));
            let admin = nodes.admin(members[1]);
            let config = config.to_str().unwrap();
            nodes.must(&["replace", &goes, "--by", &new.to_string(), "--config", config, "--admin", &admin]);
            goes_on(nodes);
            nodes.kill(members[0]);
            goes_on(nodes);
        }
        let expected: Vec<u64> = nodes.running.keys().map(|id| *id as u64).collect();
        assert_eq!(nodes.members(*nodes.running.keys().next().unwrap()), expected);
    });
}

/// An order with a wrong port was carried out when the node came up where it is, and clients were told a port where nobody is.
#[test]
fn a_node_that_was_ordered_where_it_is_not_is_refused_and_not_let_in() {
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut nodes = Nodes::new("memory");
    nodes.run(0);
    nodes.eventually("node 0 leads", |nodes| nodes.leader() == Some(0));
    let admin = nodes.admin(0);
    let wrong = |nodes: &Nodes, id: usize| {
        let [peer, resp, admin] = [0, 1, 2].map(|what| nodes.ports[3 * id + what]);
        format!("127.0.0.1:{peer},127.0.0.1:{},127.0.0.1:{admin}", resp ^ 1)
    };
    let order = |nodes: &Nodes, id: usize| {
        Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(["member", "add", &id.to_string(), "--admin", &admin, "--addresses", &wrong(nodes, id)])
            .args(["--timeout", "60"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // The order waits; the node starts where it is.
    let waiting = order(&nodes, 1);
    nodes.eventually("the order is there", |nodes| nodes.log_has(0, "an operator wants n1 to vote"));
    nodes.run(1);
    let output = waiting.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for words in ["node 1 was ordered at resp", "its own config says", "--as-given"] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    let votes = |nodes: &Nodes, at: usize| nodes.must_list(0)["members"][at]["votes"].as_str() == Some("yes");
    assert!(votes(&nodes, 0) && !votes(&nodes, 1));
    // The same where nobody asks any more.
    let mut waiting = order(&nodes, 2);
    nodes.eventually("the order is there", |nodes| nodes.log_has(0, "an operator wants n2 to vote"));
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    nodes.run(2);
    nodes.eventually("it is withdrawn", |nodes| nodes.log_has(0, "node 2 was ordered at resp"));
    // An order with the right addresses takes its place.
    for id in [1, 2] {
        let config = nodes.path(id, "toml");
        nodes.must(&["add", &id.to_string(), "--config", config.to_str().unwrap(), "--admin", &admin]);
    }
    assert!((0..3).all(|at| votes(&nodes, at)));
    let told = nodes.must_list(0);
    for id in 0..3 {
        let resp = format!("127.0.0.1:{}", nodes.ports[3 * id + 1]);
        assert_eq!(told["members"][id]["resp"].as_str(), Some(&resp[..]), "{told}");
    }
    // Whoever knows better says so, and the node says what it knows.
    nodes.run(3);
    nodes.must(&["add", "3", "--admin", &admin, "--addresses", &wrong(&nodes, 3), "--as-given"]);
    nodes.eventually("it says so", |nodes| nodes.log_has(3, "node 3 was ordered at resp"));
    drop(alone);
}
