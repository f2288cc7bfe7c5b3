//! Three real replicas whose address space ends soon: filled over RESP until one refuses, emptied and filled again, one of
//! them killed while they are full. Nobody dies of it, and nothing that was acknowledged is lost.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What `ulimit -v` gives each, in KiB; a node takes three quarters of it.
const ADDRESS_SPACE: u64 = 1_000_000;
const VALUE: usize = 200_000;
const PATIENCE: Duration = Duration::from_secs(60);

struct Cluster {
    directory: tempfile::TempDir,
    ports: Vec<u16>,
    replicas: Vec<Option<Child>>,
}

/// An answer: a line, and a bulk's content.
type Answer = (String, Vec<u8>);

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> Option<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Client(BufReader::new(stream)))
    }

    fn call(&mut self, parts: &[&[u8]]) -> Option<Answer> {
        let mut bytes = format!("*{}\r\n", parts.len()).into_bytes();
        for part in parts {
            bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes).ok()?;
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end().to_string();
        let mut content = Vec::new();
        if let Some(len) = line.strip_prefix('$').and_then(|len| len.parse::<usize>().ok()) {
            content.resize(len + 2, 0);
            self.0.read_exact(&mut content).ok()?;
            content.truncate(len);
        }
        Some((line, content))
    }
}

impl Cluster {
    fn start() -> Cluster {
        let listeners: Vec<_> = (0..9).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> =
            listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        drop(listeners);
        let directory = tempfile::Builder::new().prefix("highwater-memory-").tempdir().unwrap();
        let nodes: String = (0..3)
            .map(|id| {
                let at = |what: usize| ports[3 * id + what];
                format!(
                    "{{ id = {id}, peer = \"127.0.0.1:{}\", resp = \"127.0.0.1:{}\", admin = \"127.0.0.1:{}\" }},",
                    at(0),
                    at(1),
                    at(2)
                )
            })
            .collect();
        let mut cluster = Cluster { directory, ports, replicas: Vec::new() };
        for id in 0..3 {
            let config = format!("node = {id}\n[cluster]\nnodes = [{nodes}]\n[threads]\nlifeline = true\n");
            std::fs::write(cluster.path(id, "toml"), config).unwrap();
            cluster.replicas.push(None);
            cluster.run(id);
        }
        cluster
    }

    fn path(&self, id: usize, kind: &str) -> std::path::PathBuf {
        self.directory.path().join(format!("{id}.{kind}"))
    }

    fn run(&mut self, id: usize) {
        let log = std::fs::File::options().create(true).append(true).open(self.path(id, "log")).unwrap();
        let script = format!("ulimit -v {ADDRESS_SPACE} && exec \"$0\" serve --config \"$1\"");
        let child = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_highwater")])
            .arg(self.path(id, "toml"))
            .stdin(Stdio::piped())
            .stderr(log)
            .spawn();
        self.replicas[id] = Some(child.unwrap());
    }

    /// Whoever says that it leads.
    fn leader(&self) -> (usize, Client) {
        let started = Instant::now();
        loop {
            for id in 0..3 {
                let Some(mut client) = Client::connect(self.ports[3 * id + 1]) else { continue };
                let info = client.call(&[b"INFO", b"replication"]).map(|(_, text)| text).unwrap_or_default();
                if String::from_utf8_lossy(&info).contains("role:master") {
                    return (id, client);
                }
            }
            assert!(started.elapsed() < PATIENCE, "nobody leads");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A number of `INFO memory`.
    fn memory(client: &mut Client, name: &str) -> u64 {
        let (_, text) = client.call(&[b"INFO", b"memory"]).unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_string));
        line.unwrap_or_else(|| panic!("{name} is missing in {text}")).parse().unwrap()
    }

    fn none_died(&mut self) {
        for (id, replica) in self.replicas.iter_mut().enumerate() {
            let ended = replica.as_mut().and_then(|child| child.try_wait().unwrap());
            let log =
                std::fs::read_to_string(self.directory.path().join(format!("{id}.log"))).unwrap_or_default();
            assert_eq!(ended, None, "replica {id} died:\n{}", log.lines().rev().take(5).collect::<String>());
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.replicas.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.directory.disable_cleanup(std::thread::panicking());
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("row:{number}").into_bytes()
}

/// Sets rows until memory is full.
fn fill(client: &mut Client, rows: &mut BTreeSet<usize>) {
    for number in 0..100_000 {
        if rows.contains(&number) {
            continue;
        }
        let value = vec![number as u8; VALUE];
        let (answer, _) = client.call(&[b"SET", &key(number), &value]).expect("it answers");
        if answer != "+OK" {
            assert_eq!(answer, "-OOM command not allowed when used memory > 'maxmemory'.");
            return;
        }
        rows.insert(number);
    }
    panic!("it is never full");
}

fn verify(client: &mut Client, rows: &BTreeSet<usize>) {
    for number in rows {
        let (line, value) = client.call(&[b"GET", &key(*number)]).expect("it answers");
        assert!(
            value.len() == VALUE && value.iter().all(|byte| *byte == *number as u8),
            "row {number}: {line}"
        );
    }
}

#[test]
fn replicas_that_are_full_refuse_what_grows_and_survive() {
    let mut cluster = Cluster::start();
    let (leader, mut client) = cluster.leader();
    let mut rows = BTreeSet::new();
    fill(&mut client, &mut rows);
    let full = rows.len();
    let (used, most) =
        (Cluster::memory(&mut client, "used_memory"), Cluster::memory(&mut client, "maxmemory"));
    assert!(used <= most && used > most / 2, "{used} of {most}");
    assert!(full * VALUE > 100 << 20, "{full} rows");
    // In a block the whole is refused; reads, deletes and shorter values go on.
    client.call(&[b"MULTI"]).unwrap();
    client.call(&[b"SET", b"new", &vec![1; VALUE]]).unwrap();
    assert!(client.call(&[b"EXEC"]).unwrap().0.starts_with("-OOM"));
    assert_eq!(client.call(&[b"SET", &key(0), &vec![0; VALUE]]).unwrap().0, "+OK");
    verify(&mut client, &rows);
    // Room comes back.
    for number in 0..full / 2 {
        assert_eq!(client.call(&[b"DEL", &key(number)]).unwrap().0, ":1");
        rows.remove(&number);
    }
    fill(&mut client, &mut rows);
    assert!(rows.len() + 20 >= full * 9 / 10, "{} rows after {full}", rows.len());
    cluster.none_died();
    // The leader dies while they are full, and comes back.
    let mut child = cluster.replicas[leader].take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (other, mut client) = cluster.leader();
    assert_ne!(other, leader);
    verify(&mut client, &rows);
    cluster.run(leader);
    let started = Instant::now();
    loop {
        let mut back = loop {
            if let Some(client) = Client::connect(cluster.ports[3 * leader + 1]) {
                break client;
            }
            assert!(started.elapsed() < PATIENCE, "it does not come back");
            std::thread::sleep(Duration::from_millis(20));
        };
        let (_, info) = back.call(&[b"INFO", b"replication"]).unwrap();
        if String::from_utf8_lossy(&info).contains("highwater_role:follower") {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "it does not vote again");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (_, mut client) = cluster.leader();
    verify(&mut client, &rows);
    cluster.none_died();
}
