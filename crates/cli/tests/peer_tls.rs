//! Three real nodes that speak TLS to each other: a cluster changes to it node by node, and whoever has not the right certificate is not let
//! in, and both sides say why.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Instant;

use highwater_core::{Durability, Fingerprint, Incarnation, Level, NodeId, Schema, Speaks};
use highwater_engines::EngineKind;
use highwater_meerkat_wire::frames;
use highwater_node::tls::names::node_name;
use highwater_node::tls::{ClientFiles, client_config};
use highwater_node::transport::Channel;
use highwater_node::transport::handshake::{Hello, Identity, WELCOME_BYTES, Welcome};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

mod processes;

use processes::{Client, Cluster, PATIENCE};

fn highwater(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_highwater")).args(words).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A folder of certificates of one authority: of the three nodes, and of a client.
struct Certificates(PathBuf);

impl Certificates {
    fn new(dir: PathBuf) -> Certificates {
        let certificates = Certificates(dir);
        certificates.make(&["ca"]);
        for id in ["0", "1", "2"] {
            certificates.make(&["node", "--id", id]);
        }
        certificates.make(&["client", "--name", "alice"]);
        certificates
    }

    fn make(&self, words: &[&str]) {
        let output = highwater(&[&["cert"], words, &["--dir", self.0.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", said(&output));
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }

    /// Flags of a node that shows this certificate.
    fn flags(&self, mode: &str, name: &str) -> Vec<String> {
        let sets = [
            format!("tls.peer={mode}"),
            format!("tls.ca={}", self.path("ca.crt")),
            format!("tls.certificate={}", self.path(&format!("{name}.crt"))),
            format!("tls.key={}", self.path(&format!("{name}.key"))),
        ];
        sets.into_iter().flat_map(|set| ["--set".into(), set]).collect()
    }

    fn files(&self, name: &str) -> ClientFiles {
        let own = Some((self.0.join(format!("{name}.crt")), self.0.join(format!("{name}.key"))));
        ClientFiles { ca: self.0.join("ca.crt"), own }
    }
}

fn until(cluster: &Cluster, what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        let logs: Vec<String> = (0..3).map(|id| cluster.log(id)).collect();
        assert!(started.elapsed() < PATIENCE, "it does not come to that: {what}\n{}", logs.join("\n----\n"));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn run(cluster: &mut Cluster, id: usize, flags: &[String]) {
    cluster.run_with(id, &flags.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Some node runs a transaction.
fn write(cluster: &Cluster, value: usize) {
    until(cluster, "somebody writes", || {
        (0..3).any(|id| {
            let client = Client::connect(cluster.port(id));
            let value = value.to_string();
            let answer = client.and_then(|mut client| client.call(&[b"SET", b"k", value.as_bytes()]));
            answer.is_some_and(|(line, _)| line == "+OK")
        })
    });
}

fn status(cluster: &Cluster, id: usize) -> String {
    said(&highwater(&["status", "--admin", &format!("127.0.0.1:{}", cluster.admin_port(id))]))
}

/// How many nodes this one is connected to.
fn connected(cluster: &Cluster, id: usize) -> usize {
    let Some(mut client) = Client::connect(cluster.port(id)) else { return 0 };
    let Some((_, nodes)) = client.call(&[b"CLUSTER", b"NODES"]) else { return 0 };
    String::from_utf8_lossy(&nodes).lines().filter(|line| line.contains(" connected")).count() - 1
}

fn all_connected(cluster: &Cluster) {
    until(cluster, "all are connected", || (0..3).all(|id| connected(cluster, id) == 2));
}

/// A cluster whose nodes demand certificates of each other.
fn locked(name: &str, certificates: &Certificates) -> Cluster {
    let mut cluster = Cluster::start(name, "durability = \"sync\"\nworkers = 2", None);
    cluster.kill_all();
    for id in 0..3 {
        run(&mut cluster, id, &certificates.flags("required", &format!("node-{id}")));
    }
    write(&cluster, 0);
    all_connected(&cluster);
    cluster
}

#[test]
fn a_cluster_changes_to_tls_node_by_node_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(dir.path().join("certs"));
    let mut cluster = Cluster::start("peer-tls", "durability = \"memory\"\nworkers = 2", None);
    write(&cluster, 0);
    for (at, mode) in ["optional", "required", "optional", "off"].into_iter().enumerate() {
        for id in 0..3 {
            cluster.kill(id);
            run(&mut cluster, id, &certificates.flags(mode, &format!("node-{id}")));
            // Who lost its memory is no voter until it has copied the state, over what there is.
            all_connected(&cluster);
            until(&cluster, "it votes again", || {
                let config = cluster.directory().join("0.toml");
                let seen = said(&highwater(&["status", "--cluster", "--config", config.to_str().unwrap()]));
                seen.contains("every node votes with complete data")
            });
            write(&cluster, 10 * at + id);
        }
    }
    assert!(cluster.log(0).contains("tls.peer is \"optional\""), "it warns");
    assert!(
        (0..3).any(|id| cluster.log(id).contains("speaks without TLS, which tls.peer = \"optional\" allows"))
    );
    cluster.none_died();
}

#[test]
fn settings_that_differ_are_told_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(dir.path().join("certs"));
    let mut cluster = locked("peer-mixed", &certificates);
    // The one that dials does not speak it.
    cluster.kill(2);
    cluster.run_with(2, &[]);
    until(&cluster, "the dialer is told", || status(&cluster, 2).contains("the called node wants TLS"));
    until(&cluster, "the called one says so", || status(&cluster, 0).contains("the called node wants TLS"));
    assert!(cluster.log(2).contains("it refuses this node: tls.peer"));
    write(&cluster, 1);
    // The one that is dialed does not.
    cluster.kill(2);
    run(&mut cluster, 2, &certificates.flags("required", "node-2"));
    cluster.kill(0);
    cluster.run_with(0, &[]);
    until(&cluster, "the dialer says so", || {
        status(&cluster, 2).contains("does it speak TLS there (tls.peer)?")
    });
    until(&cluster, "the called one says so", || status(&cluster, 0).contains("tls.peer is \"off\" here"));
    // The other two are a majority.
    write(&cluster, 2);
    cluster.none_died();
}

#[test]
fn certificates_that_are_no_good_are_told_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(dir.path().join("certs"));
    let others = Certificates::new(dir.path().join("others"));
    let mut cluster = locked("peer-certs", &certificates);
    // Its name is another node's: it does not start.
    let config = cluster.directory().join("2.toml");
    let flags = certificates.flags("required", "node-1");
    let mut words = vec!["serve", "--config", config.to_str().unwrap()];
    words.extend(flags.iter().map(String::as_str));
    let refused = said(&highwater(&words));
    assert!(refused.contains(&format!("not for {}", node_name("highwater", NodeId(2)))), "{refused}");
    // It dials with a certificate of another authority; it was right before, so it believes the others.
    cluster.kill(2);
    let mut strange = others.flags("required", "node-2");
    strange.extend(["--set".into(), format!("tls.ca={}", certificates.path("ca.crt"))]);
    run(&mut cluster, 2, &strange);
    until(&cluster, "the called one says so", || {
        status(&cluster, 0).contains("its certificate is not signed by an authority that this node believes")
    });
    until(&cluster, "the dialer says so", || {
        status(&cluster, 2).contains("no TLS with it: it refuses the certificate of this side")
    });
    // It is over.
    cluster.kill(2);
    let late = Certificates(dir.path().join("certs"));
    late.make(&["node", "--id", "2", "--days=-2"]);
    run(&mut cluster, 2, &certificates.flags("required", "node-2"));
    until(&cluster, "the called one says so", || status(&cluster, 1).contains("its certificate has expired"));
    until(&cluster, "the dialer says so", || {
        status(&cluster, 2).contains("it says that the certificate of this side has expired")
    });
    write(&cluster, 1);
    // A new one is read, and it is let in without a restart.
    certificates.make(&["node", "--id", "2"]);
    let reload = highwater(&["reload", "--admin", &format!("127.0.0.1:{}", cluster.admin_port(2))]);
    assert!(reload.status.success(), "{}", said(&reload));
    all_connected(&cluster);
    until(&cluster, "nothing is refused", || !status(&cluster, 2).contains("refused"));
    // One that is no good changes nothing: neither for who is connected, nor for who connects.
    for name in ["node-2.crt", "node-2.key"] {
        std::fs::copy(certificates.path(&name.replace('2', "1")), certificates.path(name)).unwrap();
    }
    let reload = highwater(&["reload", "--admin", &format!("127.0.0.1:{}", cluster.admin_port(2))]);
    assert!(!reload.status.success() && said(&reload).contains("not for node-2."), "{}", said(&reload));
    cluster.kill(1);
    run(&mut cluster, 1, &certificates.flags("required", "node-1"));
    all_connected(&cluster);
    write(&cluster, 2);
    // Who refuses may be the dialer: the called one's certificate is of an authority that it does not know.
    cluster.kill(0);
    let mut strange = others.flags("required", "node-0");
    strange.extend(["--set".into(), format!("tls.ca={}", certificates.path("ca.crt"))]);
    run(&mut cluster, 0, &strange);
    until(&cluster, "the dialer says so", || {
        status(&cluster, 1).contains("no TLS with it: its certificate is not signed by an authority")
    });
    until(&cluster, "the called one says so", || {
        status(&cluster, 0).contains("it refuses the certificate of this side")
    });
    write(&cluster, 3);
    cluster.none_died();
}

/// What a caller hears that shows these certificates and says this hello: `None` if it is not spoken to.
fn greets(cluster: &Cluster, files: &ClientFiles, hello: &[u8]) -> Option<Vec<u8>> {
    greets_and_hears(cluster, files, hello, WELCOME_BYTES)
}

fn greets_and_hears(cluster: &Cluster, files: &ClientFiles, hello: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let stream = TcpStream::connect(("127.0.0.1", cluster.peer_port(0))).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from(node_name("highwater", NodeId(0))).unwrap();
    let tls = ClientConnection::new(client_config(files).unwrap(), name).unwrap();
    let mut stream = StreamOwned::new(tls, stream);
    stream.write_all(hello).ok()?;
    let mut answer = vec![0; bytes];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}

fn hello(from: u8) -> [u8; 64] {
    let me = Identity {
        cluster: "highwater".into(),
        node: NodeId(from),
        incarnation: Incarnation(77),
        nodes: 0,
        streams: 2,
        engine: EngineKind::Rolis,
        speaks: Speaks::FIRST,
        schema: Schema::new(Vec::new()),
        procedures: Fingerprint::of_procedures(&[], &[]),
        durability: Durability::Memory,
    };
    Hello::new(&me, NodeId(0), Channel::Worker(0)).encode()
}

#[test]
fn a_certificate_makes_the_node_that_it_is_for_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(dir.path().join("certs"));
    let others = Certificates::new(dir.path().join("others"));
    let mut cluster = locked("peer-names", &certificates);
    let refusal = |answer: Option<Vec<u8>>| {
        let answer: [u8; WELCOME_BYTES] = answer.expect("it is answered").try_into().unwrap();
        Welcome::decode(&answer).unwrap().refusal.expect("it is refused")
    };
    // Node 2's certificate, and a client's, and nobody's, say that they are node 1.
    for name in ["node-2", "alice"] {
        let why = refusal(greets(&cluster, &certificates.files(name), &hello(1)));
        assert!(why.contains("not for node-1.highwater.highwater.internal"), "{name}: {why}");
    }
    let bare = ClientFiles { own: None, ..certificates.files("alice") };
    let foreign = ClientFiles { ca: certificates.files("alice").ca, ..others.files("node-1") };
    for files in [bare, foreign] {
        assert_eq!(greets(&cluster, &files, &hello(1)), None);
    }
    // Node 1's own gets further: what is wrong now is its build.
    let why = refusal(greets(&cluster, &certificates.files("node-1"), &hello(1)));
    assert!(!why.contains("certificate"), "{why}");
    // Who says it without TLS is told that in words, and nothing else of it is read.
    let mut plain = TcpStream::connect(("127.0.0.1", cluster.peer_port(0))).unwrap();
    plain.write_all(&hello(1)).unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).unwrap();
    assert!(refusal(Some(answer)).contains("wants TLS"));
    // A client that coordinates may change anything: it needs a name for that, too.
    let hello = frames::Hello {
        version: frames::VERSION,
        number: 0,
        cluster: Fingerprint::of_name("highwater"),
        tables: Fingerprint::of_tables(&Schema::new(Vec::new()), Level::FIRST),
    };
    let refusal = |answer: Vec<u8>| {
        let answer: [u8; frames::WELCOME_BYTES] = answer[..frames::WELCOME_BYTES].try_into().unwrap();
        frames::Welcome::decode(&answer).unwrap().refusal.expect("it is refused")
    };
    certificates.make(&["client", "--name", "teller", "--coordinates", "highwater"]);
    for (name, why) in
        [("alice", "not for coordinator."), ("node-1", "not for coordinator."), ("teller", "engine: ")]
    {
        let answer =
            greets_and_hears(&cluster, &certificates.files(name), &hello.encode(), frames::WELCOME_BYTES);
        assert!(refusal(answer.expect("it is answered")).contains(why), "{name}");
    }
    let mut plain = TcpStream::connect(("127.0.0.1", cluster.peer_port(0))).unwrap();
    plain.write_all(&hello.encode()).unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).unwrap();
    assert!(refusal(answer).contains("wants TLS"));
    until(&cluster, "it is told", || {
        let log = cluster.log(0);
        log.contains("it shows no certificate") && log.contains("not for node-1.highwater")
    });
    write(&cluster, 1);
    cluster.none_died();
}

/// Thousands of connections that do not end their handshakes hold up nobody, and are gone soon.
#[test]
fn handshakes_that_do_not_end_hold_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(dir.path().join("certs"));
    let mut cluster = locked("peer-flood", &certificates);
    let idle: Vec<TcpStream> = (0..3000)
        .map(|at| {
            let mut stream = TcpStream::connect(("127.0.0.1", cluster.peer_port(at % 3))).unwrap();
            let words: &[u8] = match at % 4 {
                0 => &[],
                1 => &[0x16, 0x03, 0x01, 0x02],
                2 => b"HWTR",
                // A record that promises much, and nonsense behind it.
                _ => &[0x16, 0x03, 0x01, 0x3f, 0xff, 0x01, 0x00, 0x3f, 0xfb, 1, 2, 3],
            };
            stream.write_all(words).unwrap();
            stream
        })
        .collect();
    write(&cluster, 1);
    // One comes back while they are there.
    cluster.kill(2);
    run(&mut cluster, 2, &certificates.flags("required", "node-2"));
    all_connected(&cluster);
    for mut stream in idle {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "it is still open");
        }
    }
    write(&cluster, 2);
    cluster.none_died();
}
