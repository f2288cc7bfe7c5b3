//! A node whose log nobody reads, or nobody can read any more, serves as before.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// Each is a line of log, or asks for one; together far more than a pipe takes.
const STRANGERS: usize = 3000;

struct Node {
    child: Child,
    resp: u16,
    admin: u16,
}

impl Node {
    fn start() -> Node {
        let ports = highwater_node::free_loopback_ports(3).unwrap();
        let nodes = format!(
            "cluster.nodes=[{{ id = 0, peer = \"127.0.0.1:{}\", resp = \"127.0.0.1:{}\", admin = \"127.0.0.1:{}\" }}]",
            ports[0], ports[1], ports[2]
        );
        let child = Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args([
                "serve",
                "--node-id",
                "0",
                "--set",
                &nodes,
                "--set",
                "cluster.workers=1",
                "--set",
                "cluster.durability=memory",
                "--set",
                "log.level=debug",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Node { child, resp: ports[1], admin: ports[2] }
    }

    fn answer(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.resp)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        Some(line.trim_end().to_string())
    }

    fn wait_for(&mut self, command: &str, answer: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.answer(command).as_deref() != Some(answer) {
            assert_eq!(self.child.try_wait().unwrap(), None, "it has ended");
            assert!(Instant::now() < deadline, "{command}: {:?}", self.answer(command));
            std::thread::yield_now();
        }
    }

    /// What speaks HTTP is hung up on, and the log says so.
    fn be_visited(&self) {
        for _ in 0..STRANGERS {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.admin)) {
                let _ = stream.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            }
        }
    }

    fn check(&mut self) {
        self.wait_for("SET k v", "+OK");
        self.be_visited();
        self.wait_for("SET k w", "+OK");
        let admin = format!("127.0.0.1:{}", self.admin);
        let status =
            Command::new(env!("CARGO_BIN_EXE_highwater")).args(["status", "--admin", &admin]).output();
        let status = status.unwrap();
        assert!(status.status.success(), "{status:?}");
        assert_eq!(self.child.try_wait().unwrap(), None, "it has ended");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn whoever_reads_the_log_may_stop_reading() {
    let mut node = Node::start();
    let _unread = node.child.stderr.take().unwrap();
    node.check();
}

#[test]
fn whoever_reads_the_log_may_die() {
    let mut node = Node::start();
    drop(node.child.stderr.take());
    node.check();
}
