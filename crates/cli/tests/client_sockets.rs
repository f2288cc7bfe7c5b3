//! What a node's clients stand on, where the kernel gives it a ring and where it does not: as in containers, whose filters of system calls
//! refuse io_uring.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

mod processes;

use processes::{Client, PATIENCE};

/// A node by itself, started with an environment of its own.
struct Alone {
    directory: tempfile::TempDir,
    ports: Vec<u16>,
}

impl Alone {
    fn new() -> Alone {
        let directory = tempfile::Builder::new().prefix("highwater-sockets-").tempdir().unwrap();
        Alone { directory, ports: highwater_node::free_loopback_ports(3).unwrap() }
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap()
    }

    /// Starts it with this `server.io`; `ring`: whether the kernel gives it one.
    fn start(&self, io: &str, ring: bool) -> Child {
        let [peer, resp, admin] = [0, 1, 2].map(|at| format!("127.0.0.1:{}", self.ports[at]));
        let config = format!(
            "[cluster]\ndurability = \"memory\"\nnodes = [{{ id = 0, peer = \"{peer}\", resp = \"{resp}\", admin = \"{admin}\" }}]\n\
             [threads]\nlifeline = true\n[storage]\ndir = \"{}\"\n",
            self.directory.path().display()
        );
        let path = self.directory.path().join("node.toml");
        std::fs::write(&path, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(["serve", "--config"]).arg(path).env("HIGHWATER_SERVER_IO", io);
        command.stdin(Stdio::piped()).stderr(std::fs::File::create(self.log()).unwrap());
        if !ring {
            // SAFETY: it makes two system calls and allocates nothing.
            unsafe { command.pre_exec(refuse_rings) };
        }
        command.spawn().unwrap()
    }

    /// What a client is told.
    fn info(&self) -> String {
        let since = Instant::now();
        loop {
            let answer =
                Client::connect(self.ports[1]).and_then(|mut client| client.call(&[b"INFO", b"server"]));
            if let Some((_, text)) = answer {
                return String::from_utf8(text).unwrap();
            }
            assert!(since.elapsed() < PATIENCE, "{}", self.text());
        }
    }

    fn status(&self) -> String {
        let admin = format!("127.0.0.1:{}", self.ports[2]);
        let output =
            Command::new(env!("CARGO_BIN_EXE_highwater")).args(["status", "--admin", &admin]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }
}

/// From here on `io_uring_setup` fails as Docker's filter has it fail.
fn refuse_rings() -> std::io::Result<()> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let number = libc::SYS_io_uring_setup as u32;
    let program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: number,
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: plain numbers; and a program that lives until the call is over, of the length that is said.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0
    };
    if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[test]
fn a_node_says_what_its_clients_stand_on() {
    for (io, ring, stands) in [
        ("uring", true, "uring"),
        ("auto", true, "uring"),
        ("epoll", true, "epoll"),
        ("auto", false, "epoll"),
    ] {
        if stands == "uring"
            && let Err(why) = highwater_node::uring::check()
        {
            // Containers often refuse it; CI asks for it.
            assert!(std::env::var_os("HIGHWATER_IO_URING").is_none(), "{why}");
            eprintln!("NOT RUN over io_uring: {why}");
            continue;
        }
        let node = Alone::new();
        let mut child = node.start(io, ring);
        let (info, status) = (node.info(), node.status());
        drop(child.stdin.take());
        child.wait().unwrap();
        let case = format!("{io}, a ring: {ring}: {}", node.text());
        assert!(info.contains(&format!("multiplexing_api:{stands}\r\n")), "{case}\n{info}");
        assert!(status.contains(&format!(", by {stands}")), "{case}\n{status}");
        let word = if stands == "uring" { "clients' sockets: io_uring" } else { "clients' sockets: epoll" };
        assert!(node.text().contains(word), "{case}");
        assert!(ring || node.text().contains("io_uring is not allowed here"), "{case}");
    }
}

#[test]
fn a_node_that_is_to_have_a_ring_and_gets_none_says_what_to_do() {
    let node = Alone::new();
    let code = node.start("uring", false).wait().unwrap().code();
    let text = node.text();
    assert_eq!(code, Some(3), "{text}");
    for words in ["server.io is \"uring\"", "not allowed here", "seccomp", "\"auto\" or \"epoll\""] {
        assert!(text.contains(words), "{words}: {text}");
    }
}
