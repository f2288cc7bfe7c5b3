//! One real node whose doors speak TLS: who is let in, who is not, and certificates that change while it runs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use highwater_node::tls::{ClientFiles, client_config};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

const PATIENCE: Duration = Duration::from_secs(60);

fn highwater(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_highwater")).args(words).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A folder of certificates.
struct Certificates(PathBuf);

impl Certificates {
    fn new(dir: PathBuf) -> Certificates {
        let certificates = Certificates(dir);
        certificates.make(&["ca"]);
        certificates.make(&["node", "--id", "0"]);
        certificates
    }

    fn make(&self, words: &[&str]) {
        let output = highwater(&[&["cert"], words, &["--dir", self.0.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", said(&output));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn files(&self, own: Option<&str>) -> ClientFiles {
        let own = own.map(|name| (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key"))));
        ClientFiles { ca: self.path("ca.crt"), own }
    }
}

struct Node {
    child: Child,
    resp: u16,
    admin: u16,
    log: PathBuf,
    config: PathBuf,
}

impl Node {
    /// `extra`: lines of TOML at the end of the config.
    fn start(dir: &Path, extra: &str) -> Node {
        let ports = highwater_node::free_loopback_ports(3).unwrap();
        let (config, log) = (dir.join("node.toml"), dir.join("node.log"));
        let text = format!(
            "[cluster]\ndurability = \"memory\"\nworkers = 1\nnodes = [{{ id = 0, peer = \"127.0.0.1:{}\", resp = \"127.0.0.1:{}\", admin = \
             \"127.0.0.1:{}\" }}]\n[threads]\nlifeline = true\n[storage]\ndir = {:?}\n{extra}",
            ports[0],
            ports[1],
            ports[2],
            dir.join("data")
        );
        std::fs::write(&config, text).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(["serve", "--config"])
            .arg(&config)
            .stdin(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let node = Node { child, resp: ports[1], admin: ports[2], log, config };
        node.until(|| TcpStream::connect(("127.0.0.1", node.resp)).is_ok());
        node
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    fn until(&self, mut holds: impl FnMut() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < PATIENCE, "it does not come to that:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn call(&self, files: &ClientFiles) -> io::Result<Client> {
        Client::connect(self.resp, files)
    }

    /// Until it runs transactions, for this client.
    fn serving(&self, files: &ClientFiles) -> Client {
        let mut found = None;
        self.until(|| {
            let client = self.call(files).and_then(|mut client| Ok((client.ask("SET a 1")?, client)));
            found = client.ok().filter(|(answer, _)| answer == "+OK").map(|(_, client)| client);
            found.is_some()
        });
        found.unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(StreamOwned<ClientConnection, TcpStream>);

impl Client {
    fn connect(port: u16, files: &ClientFiles) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let config = client_config(files).map_err(io::Error::other)?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut stream = stream;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        Ok(Client(StreamOwned::new(tls, stream)))
    }

    /// A line for a line.
    fn ask(&mut self, line: &str) -> io::Result<String> {
        self.0.write_all(format!("{line}\r\n").as_bytes())?;
        self.0.flush()?;
        self.line()
    }

    fn line(&mut self) -> io::Result<String> {
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"\r\n") {
            if self.0.read(&mut byte)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&answer).trim_end().to_string())
    }
}

fn tls(certificates: &Certificates, rest: &str) -> String {
    let path = |name| certificates.path(name).display().to_string();
    format!(
        "[tls]\nresp = true\nadmin = true\nca = {:?}\ncertificate = {:?}\nkey = {:?}\n{rest}\n",
        path("ca.crt"),
        path("node-0.crt"),
        path("node-0.key")
    )
}

#[test]
fn doors_speak_tls_and_certificates_change() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(dir.path().join("certs"));
    let others = Certificates::new(dir.path().join("others"));
    let mut node = Node::start(dir.path(), &tls(&certificates, ""));
    let files = certificates.files(None);
    let mut client = node.serving(&files);
    // Longer than any record, and a pipeline.
    let long = "v".repeat(300_000);
    assert_eq!(client.ask(&format!("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$300000\r\n{long}")).unwrap(), "+OK");
    assert_eq!(client.ask("STRLEN b").unwrap(), ":300000");
    assert_eq!(client.ask("GET b").unwrap(), "$300000");
    assert!(client.line().unwrap() == long, "what comes back is what was sent");
    // A pause that has run out holds nobody who comes afterwards.
    assert_eq!(client.ask("CLIENT PAUSE 1").unwrap(), "+OK");
    assert_eq!(client.ask("PING").unwrap(), "+PONG");
    assert_eq!(node.call(&files).unwrap().ask("PING").unwrap(), "+PONG");
    // An authority that did not sign this.
    let stranger = node.call(&others.files(None)).err().unwrap();
    assert!(stranger.to_string().contains("invalid peer certificate"), "{stranger}");
    // Somebody who does not speak TLS, and somebody who does not end its handshake.
    let mut plain = TcpStream::connect(("127.0.0.1", node.resp)).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"PING\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"+PONG"));
    node.until(|| node.log().contains("at the RESP port failed"));
    // Operators.
    let admin = format!("127.0.0.1:{}", node.admin);
    let ca = certificates.path("ca.crt").display().to_string();
    let status = highwater(&["status", "--admin", &admin, "--tls-ca", &ca]);
    assert!(status.status.success(), "{}", said(&status));
    let by_config = highwater(&["status", "--config", node.config.to_str().unwrap()]);
    assert!(by_config.status.success(), "{}", said(&by_config));
    assert!(!highwater(&["status", "--admin", &admin]).status.success());
    let wrong = others.path("ca.crt").display().to_string();
    assert!(!highwater(&["status", "--admin", &admin, "--tls-ca", &wrong]).status.success());
    // Another authority's certificate takes the first one's place: at once for who comes, never for who is there.
    for name in ["node-0.crt", "node-0.key"] {
        std::fs::copy(others.path(name), certificates.path(name)).unwrap();
    }
    let reload = highwater(&["reload", "--admin", &admin, "--tls-ca", &ca]);
    assert!(reload.status.success(), "{}", said(&reload));
    assert!(node.call(&files).is_err());
    assert_eq!(node.call(&others.files(None)).unwrap().ask("PING").unwrap(), "+PONG");
    assert_eq!(client.ask("PING").unwrap(), "+PONG");
    // One that is no certificate changes nothing; by a signal, this time.
    std::fs::write(certificates.path("node-0.crt"), "nonsense").unwrap();
    let pid = rustix::process::Pid::from_raw(node.child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    node.until(|| node.log().contains("could not be read again"));
    assert_eq!(node.call(&others.files(None)).unwrap().ask("PING").unwrap(), "+PONG");
    // One that is over is shown to those who come, and they see it.
    certificates.make(&["node", "--id", "0", "--days=-2"]);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    node.until(|| node.call(&files).is_err_and(|error| error.to_string().contains("xpired")));
    assert_eq!(client.ask("PING").unwrap(), "+PONG");
    assert!(node.child.try_wait().unwrap().is_none());
}

#[test]
fn clients_show_certificates_where_they_have_to() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(dir.path().join("certs"));
    certificates.make(&["client", "--name", "alice"]);
    certificates.make(&["client", "--name", "late", "--days=-2"]);
    let others = Certificates::new(dir.path().join("others"));
    others.make(&["client", "--name", "mallory"]);
    let node = Node::start(dir.path(), &tls(&certificates, "client_auth = \"required\""));
    assert_eq!(node.serving(&certificates.files(Some("alice"))).ask("PING").unwrap(), "+PONG");
    let mallory = ClientFiles { ca: certificates.path("ca.crt"), ..others.files(Some("mallory")) };
    for files in [certificates.files(None), certificates.files(Some("late")), mallory] {
        // With TLS 1.3 a client hears of it with the first answer.
        let refused = node.call(&files).and_then(|mut client| client.ask("PING"));
        assert!(refused.is_err(), "{refused:?}");
    }
}

/// A thousand connections that never say a word of TLS, and as many that say half of one, hold up nobody and are gone soon.
#[test]
fn handshakes_that_do_not_end_hold_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(dir.path().join("certs"));
    let node = Node::start(dir.path(), &tls(&certificates, ""));
    let files = certificates.files(None);
    let mut client = node.serving(&files);
    let idle: Vec<TcpStream> = (0..1000)
        .map(|at| {
            let mut stream = TcpStream::connect(("127.0.0.1", node.resp)).unwrap();
            if at % 2 == 0 {
                stream.write_all(&[0x16, 0x03, 0x01, 0x02]).unwrap();
            }
            stream
        })
        .collect();
    assert_eq!(client.ask("PING").unwrap(), "+PONG");
    let mut another = node.call(&files).unwrap();
    assert_eq!(another.ask("STRLEN a").unwrap(), ":1");
    for mut stream in idle {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        // It is closed, in good order or not.
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "it is still open");
        }
    }
    assert_eq!(client.ask("PING").unwrap(), "+PONG");
}

#[test]
fn a_plain_door_says_that_somebody_speaks_tls() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(dir.path().join("certs"));
    let node = Node::start(dir.path(), "");
    assert!(node.call(&certificates.files(None)).is_err());
    node.until(|| node.log().contains("speaks TLS at the RESP port, which does not"));
}

/// Doors that others reach need a lock, or somebody who says that they need none.
#[test]
fn a_node_without_locks_stays_at_home() {
    let dir = tempfile::tempdir().unwrap();
    let ports = highwater_node::free_loopback_ports(3).unwrap();
    let serve = |hosts: [&str; 3], sets: &[&str]| {
        let nodes = format!(
            "cluster.nodes=[{{id=0,peer=\"{}:{}\",resp=\"{}:{}\",admin=\"{}:{}\"}}]",
            hosts[0], ports[0], hosts[1], ports[1], hosts[2], ports[2]
        );
        let dir = format!("storage.dir={}", dir.path().join("data").display());
        let mut words = vec!["serve", "--set", &nodes, "--set", "threads.lifeline=true", "--set", &dir];
        sets.iter().for_each(|set| words.extend(["--set", set]));
        // Its lifeline is let go at once: it ends as soon as it runs.
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        said(&command.spawn().unwrap().wait_with_output().unwrap())
    };
    let (near, far) = ("127.0.0.1", "0.0.0.0");
    let refused = serve([near, far, near], &[]);
    assert!(refused.contains("the resp address") && refused.contains("security.open = true"), "{refused}");
    assert!(serve([near, near, far], &["auth.password=x"]).contains("the admin address"));
    assert!(serve([far, near, near], &[]).contains("the peer address"));
    // What locks another door does not lock this one.
    let refused = serve([far, near, near], &["auth.password=x", "admin.token=0123456789abcdef"]);
    assert!(
        refused.contains("the peer address") && refused.contains("set tls.peer = \"required\""),
        "{refused}"
    );
    let certificates = Certificates::new(dir.path().join("certs"));
    let [ca, certificate, key] = ["ca.crt", "node-0.crt", "node-0.key"].map(|name| certificates.path(name));
    for (mode, locked) in [("required", true), ("optional", false)] {
        let sets = [
            format!("tls.peer={mode}"),
            format!("tls.ca={}", ca.display()),
            format!("tls.certificate={}", certificate.display()),
            format!("tls.key={}", key.display()),
        ];
        let ran = serve([far, near, near], &sets.each_ref().map(String::as_str));
        assert_eq!(ran.contains("has no lock"), !locked, "{ran}");
    }
    assert!(
        serve([near, near, near], &["tls.peer=required"]).contains("tls.ca or tls.peer_ca names no file")
    );
    for sets in [&["auth.password=x"][..], &["security.open=true"]] {
        let ran = serve([near, far, near], sets);
        assert!(!ran.contains("has no lock"), "{ran}");
    }
}
