//! The examples of `serve --help`, the README and docs/configuration.md, run as they stand; only the ports are others.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_highwater");
/// How long a cluster may take to serve, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory to run examples in, and the ports that stand for the documented ones.
struct Place {
    directory: TempDir,
    /// Of each node: peer, resp, admin.
    ports: Vec<[u16; 3]>,
    replicas: Vec<Child>,
}

impl Place {
    fn new(nodes: usize) -> Place {
        let directory = tempfile::tempdir().unwrap();
        let ports = highwater_node::free_loopback_ports(3 * nodes).unwrap();
        let ports = ports.chunks_exact(3).map(|ports| [ports[0], ports[1], ports[2]]).collect();
        Place { directory, ports, replicas: Vec::new() }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// For the environment: the environment goes before files.
    fn nodes(&self) -> String {
        let node = |(id, [peer, resp, admin]): (usize, &[u16; 3])| {
            format!(
                "{{id={id}, peer=\"127.0.0.1:{peer}\", resp=\"127.0.0.1:{resp}\", admin=\"127.0.0.1:{admin}\"}}"
            )
        };
        format!("[{}]", self.ports.iter().enumerate().map(node).collect::<Vec<_>>().join(", "))
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(&words[1..])
            .current_dir(self.directory.path())
            .env("HIGHWATER_CLUSTER_NODES", self.nodes());
        command.stdin(Stdio::null());
        command
    }

    /// Runs a line of an example: commands that end must end well, replicas go on running.
    fn run(&mut self, line: &str) {
        let line = line.split("  #").next().unwrap().trim().trim_end_matches('&');
        for command in line.split("&&") {
            // What follows a pipe is not ours.
            let command = command.split('|').next().unwrap();
            let (command, file) =
                command.split_once('>').map_or((command, None), |(a, b)| (a, Some(b.trim())));
            let words: Vec<String> = command.split_whitespace().map(|word| self.here(word)).collect();
            assert_eq!(words[0], "highwater", "{line}");
            if words[1] == "serve" {
                let log =
                    File::create(self.directory.path().join(format!("{}.log", self.replicas.len()))).unwrap();
                let child = self.command(&words).stderr(log).stdout(Stdio::null()).spawn().unwrap();
                self.replicas.push(child);
                continue;
            }
            let output = self.command(&words).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{line}: {error}\n{}", self.logs());
            assert!(!output.stdout.is_empty(), "{line}");
            if let Some(file) = file {
                self.write(file, &String::from_utf8(output.stdout).unwrap());
            }
        }
    }

    /// A word with our port in the place of the documented one.
    fn here(&self, word: &str) -> String {
        let port = word.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<usize>().ok()?)));
        match port {
            Some((host, port @ 7300..7310)) => format!("{host}:{}", self.ports[port - 7300][2]),
            _ => word.to_string(),
        }
    }

    /// Waits until a node answers; with `serves`, until it can serve, too.
    fn wait_for(&mut self, node: usize, serves: bool) {
        let began = Instant::now();
        let admin = format!("127.0.0.1:{}", self.ports[node][2]);
        loop {
            let output = Command::new(BINARY).args(["status", "--admin", &admin, "--json"]).output().unwrap();
            let (good, said) = (output.status.success(), String::from_utf8(output.stdout).unwrap());
            if good || !serves && said.contains(&format!("\"node\":{node}")) {
                return;
            }
            for replica in &mut self.replicas {
                let ended = replica.try_wait().unwrap();
                assert!(ended.is_none(), "a replica ended: {ended:?}\n{}", self.logs());
            }
            assert!(began.elapsed() < PATIENCE, "node {node} does not serve: {said}\n{}", self.logs());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn logs(&self) -> String {
        let log =
            |at| fs::read_to_string(self.directory.path().join(format!("{at}.log"))).unwrap_or_default();
        (0..self.replicas.len()).map(log).collect::<Vec<_>>().join("\n")
    }

    fn stop(&mut self) {
        for mut replica in self.replicas.drain(..) {
            let _ = replica.kill();
            let _ = replica.wait();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop();
    }
}

fn document(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The lines of a document's examples that are commands of ours.
fn examples(document: &str) -> Vec<String> {
    let ours = document.lines().filter_map(|line| line.strip_prefix("$ highwater "));
    ours.map(|line| format!("highwater {line}")).collect()
}

fn help(command: &str) -> Vec<String> {
    let output = Command::new(BINARY).args([command, "--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::trim).filter(|line| line.starts_with("highwater ")).map(Into::into).collect()
}

#[test]
fn the_examples_of_serve_and_status_run() {
    let (serve, status) = (help("serve"), help("status"));
    assert!(serve.len() >= 4 && status.len() >= 4, "{serve:?} {status:?}");
    let mut place = Place::new(1);
    for example in serve.iter().filter(|example| !example.contains("cluster.toml")) {
        place.run(example);
        if example.contains(" serve ") {
            place.wait_for(0, true);
            for example in &status {
                // One that watches ends never.
                place.run(&example.replace(" --watch", ""));
            }
            place.stop();
        }
    }
    // One node of three: it starts, answers, and waits for the others.
    let mut place = Place::new(3);
    place.write("cluster.toml", &configurations()[1]);
    for example in serve.iter().filter(|example| example.contains("cluster.toml")) {
        place.run(example);
        place.wait_for(1, false);
        place.stop();
    }
}

#[test]
fn the_readme_s_examples_run() {
    let mut place = Place::new(1);
    for example in examples(&document("README.md")) {
        place.run(&example);
        place.wait_for(0, true);
    }
    assert_eq!(place.replicas.len(), 1, "the README starts a node");
}

/// The files in docs/configuration.md.
fn configurations() -> Vec<String> {
    let text = document("docs/configuration.md");
    text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

#[test]
fn the_configurations_of_the_docs_are_good_and_make_a_cluster() {
    let files = configurations();
    assert_eq!(files.len(), 2);
    for file in &files {
        let place = Place::new(1);
        place.write("file.toml", file);
        // As it stands, its own addresses too.
        let output = Command::new(BINARY)
            .args(["config", "check", "file.toml"])
            .current_dir(place.directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut place = Place::new(3);
    place.write("cluster.toml", &files[1]);
    let lines = examples(&document("docs/configuration.md"));
    assert!(lines.len() >= 5, "{lines:?}");
    for line in lines {
        if line.contains(" status ") {
            (0..3).for_each(|node| place.wait_for(node, true));
        }
        place.run(&line);
    }
    // Once more, and every node has its line; two more say which level is in use, and whether one may be restarted.
    let status = place.command(&words("highwater status --config cluster.toml --cluster")).output().unwrap();
    let text = String::from_utf8(status.stdout).unwrap();
    assert_eq!(text.lines().count(), 6, "{text}");
    assert!(text.ends_with("one may be restarted\n"), "{text}");
    assert_eq!(text.matches("leader").count(), 1, "{text}");
    // One is gone: it is named, and the others serve. Two are gone: nobody does.
    place.end(2);
    place.waits_until("highwater status --config cluster.toml --cluster", 0, "silent");
    place.end(1);
    place.waits_until("highwater status --config cluster.toml --cluster", 4, "cannot serve");
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(Into::into).collect()
}

impl Place {
    /// Kills one replica, which stays dead.
    fn end(&mut self, replica: usize) {
        let mut child = self.replicas.remove(replica);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks until the answer is as expected: exit code, and a word of what it says.
    fn waits_until(&self, line: &str, code: i32, wanted: &str) {
        let began = Instant::now();
        loop {
            let output = self.command(&words(line)).output().unwrap();
            let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
            if output.status.code() == Some(code) && said.contains(wanted) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{:?}: {said}", output.status);
            thread::sleep(Duration::from_millis(20));
        }
    }
}
