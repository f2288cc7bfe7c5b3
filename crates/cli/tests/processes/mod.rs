//! Three real replicas over loopback, and clients that speak RESP to them command by command.

#![allow(dead_code, reason = "each test uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Three replicas of their own.
pub struct Cluster {
    directory: tempfile::TempDir,
    /// What each may take of address space, in KiB (`ulimit -v`).
    address_space: Option<u64>,
    /// How many file descriptors each may have (`ulimit -n`).
    descriptors: Option<u64>,
    /// What stands in the environment of each.
    environment: Vec<(String, String)>,
    ports: Vec<u16>,
    pub replicas: Vec<Option<Child>>,
    /// Ports that were free a moment ago may be another cluster's by now: one cluster at a time.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

/// An answer: a line, and a bulk's content.
pub type Answer = (String, Vec<u8>);

/// Whether an answer says that this replica does not serve, and so did nothing.
pub fn refused(line: &str) -> bool {
    ["-MOVED ", "-CLUSTERDOWN "].iter().any(|code| line.starts_with(code))
}

/// A connection, command by command.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn connect(port: u16) -> Option<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Client(BufReader::new(stream)))
    }

    pub fn call(&mut self, parts: &[&[u8]]) -> Option<Answer> {
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
    /// Configured alike but for `extra` lines of TOML, which come first in the table `cluster`.
    pub fn start(name: &str, extra: &str, address_space: Option<u64>) -> Cluster {
        Cluster::start_in(name, extra, (address_space, None), &[])
    }

    /// The same with this in the environment of each.
    pub fn start_with_env(name: &str, extra: &str, environment: &[(&str, &str)]) -> Cluster {
        Cluster::start_in(name, extra, (None, None), environment)
    }

    /// The same where each may have so many file descriptors.
    pub fn start_with_descriptors(name: &str, extra: &str, descriptors: u64) -> Cluster {
        Cluster::start_in(name, extra, (None, Some(descriptors)), &[])
    }

    fn start_in(
        name: &str,
        extra: &str,
        (address_space, descriptors): (Option<u64>, Option<u64>),
        environment: &[(&str, &str)],
    ) -> Cluster {
        let environment = environment.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let environment = environment.collect();
        let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ports = highwater_node::free_loopback_ports(9).unwrap();
        let directory = tempfile::Builder::new().prefix(&format!("highwater-{name}-")).tempdir().unwrap();
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
        let mut cluster = Cluster {
            directory,
            address_space,
            descriptors,
            environment,
            ports,
            replicas: Vec::new(),
            _alone: alone,
        };
        for id in 0..3 {
            let config = format!(
                "node = {id}\n[cluster]\n{extra}\nnodes = [{nodes}]\n[threads]\nlifeline = true\n[storage]\ndir = \"{}\"\ncheckpoint_mb = 1\n",
                cluster.directory.path().display()
            );
            std::fs::write(cluster.path(id, "toml"), config).unwrap();
            cluster.replicas.push(None);
            cluster.run(id);
        }
        cluster
    }

    fn path(&self, id: usize, kind: &str) -> std::path::PathBuf {
        self.directory.path().join(format!("{id}.{kind}"))
    }

    /// Starts a replica that does not run.
    pub fn run(&mut self, id: usize) {
        self.run_with(id, &[]);
    }

    /// The same with more flags.
    pub fn run_with(&mut self, id: usize, flags: &[&str]) {
        let log = std::fs::File::options().create(true).append(true).open(self.path(id, "log")).unwrap();
        let limit = self.address_space.map_or("unlimited".into(), |kib| kib.to_string());
        let descriptors = self.descriptors.map_or(String::new(), |count| format!("ulimit -n {count} && "));
        let script = format!("{descriptors}ulimit -v {limit} && exec \"$0\" serve --config \"$@\"");
        let child = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_highwater")])
            .arg(self.path(id, "toml"))
            .args(flags)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stderr(log)
            .spawn();
        self.replicas[id] = Some(child.unwrap());
    }

    /// Whoever says that it leads.
    pub fn leader(&self) -> (usize, Client) {
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
    pub fn memory(client: &mut Client, name: &str) -> u64 {
        let (_, text) = client.call(&[b"INFO", b"memory"]).unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_string));
        line.unwrap_or_else(|| panic!("{name} is missing in {text}")).parse().unwrap()
    }

    /// Fails if a replica that should run does not.
    pub fn none_died(&mut self) {
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

impl Cluster {
    /// Ends all replicas at once, in the middle of whatever they do.
    pub fn kill_all(&mut self) {
        let mut replicas: Vec<Child> = self.replicas.iter_mut().filter_map(Option::take).collect();
        replicas.iter_mut().for_each(|child| child.kill().unwrap());
        for child in &mut replicas {
            child.wait().unwrap();
        }
    }

    /// Ends one.
    pub fn kill(&mut self, id: usize) {
        let mut replica = self.replicas[id].take().expect("it runs");
        replica.kill().unwrap();
        replica.wait().unwrap();
    }

    /// The port where a replica's clients connect.
    pub fn port(&self, id: usize) -> u16 {
        self.ports[3 * id + 1]
    }

    /// The folder of all replicas' files.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }
}

impl Cluster {
    /// The port where the other replicas connect.
    pub fn peer_port(&self, id: usize) -> u16 {
        self.ports[3 * id]
    }

    /// The port where operators connect to a replica.
    pub fn admin_port(&self, id: usize) -> u16 {
        self.ports[3 * id + 2]
    }

    /// Asks a replica to end, as an operating system does.
    pub fn terminate(&self, id: usize) {
        let child = self.replicas[id].as_ref().expect("it runs");
        // Not reaped yet, so the id is still its own.
        let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Whether a replica that was asked to end has done so, in good order; it does not run then.
    pub fn has_ended(&mut self, id: usize) -> bool {
        let ended = self.replicas[id].as_mut().expect("it ran").try_wait().unwrap();
        if let Some(status) = ended {
            assert!(status.success(), "replica {id}: {status}\n{}", self.log(id));
            self.replicas[id] = None;
        }
        ended.is_some()
    }

    /// What a replica has said.
    pub fn log(&self, id: usize) -> String {
        std::fs::read_to_string(self.path(id, "log")).unwrap_or_default()
    }
}
