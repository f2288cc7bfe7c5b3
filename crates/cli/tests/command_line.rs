//! The command line as a user meets it: help, exit codes, one-line errors.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use assert_cmd::Command;
use tempfile::NamedTempFile;

/// Runs the command; returns its exit code, standard output and standard error.
fn highwater(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_highwater")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A config file that is gone with the test.
struct ConfigFile(NamedTempFile);

impl ConfigFile {
    fn new(text: &str) -> ConfigFile {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        fs::write(file.path(), text).unwrap();
        ConfigFile(file)
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }
}

fn assert_one_line(error: &str) {
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("highwater: "), "{error}");
}

#[test]
fn every_subcommand_has_help_with_exit_codes() {
    let commands = [
        "",
        "serve",
        "config check",
        "config default",
        "status",
        "hand-over",
        "demo",
        "bench",
        "bench tpcc",
        "bench ycsb",
        "bench bank",
        "bench ycsb-t",
        "bench retwis",
        "bench failover",
        "bench replay",
        "torture",
        "check",
        "checkpoint",
        "checkpoint dump",
        "checkpoint verify",
        "log",
        "log dump",
        "log verify",
        "sim",
        "sim planted",
    ];
    for command in commands {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let (code, help, _) = highwater(&args);
        assert_eq!(code, 0, "{command} --help");
        assert!(help.contains("Exit codes:") && help.contains("Usage:"), "{command} --help:\n{help}");
    }
}

/// What is wrong, and what the one line must say about it.
const MISUSES: [(&[&str], &str); 39] = [
    (&["serve", "--no-such-flag"], "--no-such-flag"),
    (&["no-such-command"], "no-such-command"),
    (&["stauts"], "exists: 'status'"),
    (&["serve", "--set", "workers"], "KEY=VALUE"),
    (&["serve", "--node-id", "x"], "invalid digit found in string; see `highwater serve --help`"),
    (&["config", "check"], "<FILE>"),
    (&["status", "--admin", "localhost"], "host:port, e.g. localhost:7300"),
    (&["status", "--admin", "http://localhost:7300"], "host:port, e.g. localhost:7300"),
    (&["status", "--admin", "localhost:0"], "host:port, e.g. localhost:7300"),
    (&["status", "--admin", "a:1", "--config", "b.toml"], "cannot be used with"),
    (&["bench", "tpcc", "--workers", "0"], "1..=64"),
    (&["bench", "tpcc", "--seconds", "-1"], "-1"),
    (&["bench", "tpcc", "--seconds", "0"], "above 0"),
    (&["bench", "tpcc", "--seconds", "1e30"], "at most 1000000"),
    (&["bench", "tpcc", "--json", "/no/such/folder/x.json"], "cannot write /no/such/folder/x.json"),
    (&["bench", "tpcc", "--engine", "raft"], "rolis, silo, strawman"),
    (&["bench", "tpcc", "--compare", "--engine", "silo"], "cannot be used with"),
    (&["bench", "tpcc", "--engine", "silo", "--replicas", "3"], "use --replicas 1"),
    (&["bench", "tpcc", "--option", "warehouse=2"], "warehouse"),
    (&["bench", "tpcc", "--layout", "rows"], "split, silo"),
    (&["bench", "tpcc", "--option", "layout=rows"], "layout cannot be \"rows\"; expected split or silo"),
    (&["bench", "ycsb", "--reads", "1.5"], "1.5"),
    (&["bench", "ycsb-t", "--zipf", "1"], "zipf cannot be \"1\"; expected a number from 0 to below 1"),
    (&["bench", "ycsb-t", "--scale", "2"], "at most 1"),
    (&["bench", "retwis", "--keys", "9"], "from 10 to"),
    (&["bench", "retwis", "--keys", "1001"], "an even number"),
    (&["bench", "failover", "--workload", "chess"], "tpcc, ycsb, bank, ycsb-t, retwis"),
    (&["bench", "replay", "--runs", "0"], "1..=1000"),
    (&["demo", "--replicas", "2"], "3..=9"),
    (&["torture", "--rate", "0"], "above 0"),
    (&["sim", "--runs", "0"], "--runs"),
    (&["sim", "--minutes", "0"], "--minutes"),
    (&["sim", "--seed", "1", "--runs", "2"], "cannot be used with"),
    (&["sim", "--seeds", "7..7"], "A..B"),
    (&["sim", "--seeds", "1..3", "--runs", "2"], "cannot be used with"),
    (&["sim", "--engine", "silo"], "silo"),
    (&["sim", "planted", "--repeats", "0"], "--repeats"),
    (&["check"], "<FILE>"),
    (&["check", "run.jsonl", "--level", "snapshot"], "strict, session, serializable"),
];

/// Once: `bench --seconds 1e30` panicked after the load; a report that could not be written was told after the run; a
/// full disk behind standard output was taken for a reader that had gone.
#[test]
fn a_bad_command_line_is_exit_code_2_and_one_line_that_says_what_to_do() {
    for (args, wanted) in MISUSES {
        let (code, out, error) = highwater(args);
        assert_eq!(code, 2, "{args:?}: {out}{error}");
        assert_one_line(&error);
        assert!(error.contains(wanted) && out.is_empty(), "{args:?}: {out}{error}");
    }
}

#[test]
fn a_command_alone_is_answered_with_help() {
    for args in [[].as_slice(), &["bench"], &["config"]] {
        let (code, out, error) = highwater(args);
        assert_eq!(code, 2);
        assert!(out.is_empty() && error.contains("Usage:") && error.contains("Commands:"), "{error}");
    }
}

#[test]
fn a_torture_that_cannot_be_says_what_could_before_anything_starts() {
    let bad: [(&[&str], &str); 8] = [
        (&["--faults", "kill,earthquake"], "possible values: kill, kill-leader, kill-all, rolling, pause"),
        (&["--faults", "clients", "--means", "proxy"], "name others, or be root"),
        (&["--seconds", "0"], "1..=86400"),
        (&["--replicas", "2"], "3..=9"),
        (&["--means", "magic"], "possible values: auto, namespaces, proxy"),
        (&["--set", "limits.no_such_key=1"], "`highwater config default` lists all keys"),
        (&["--history", "/"], "name a new directory"),
        (&["--json", "/no/such/directory/report.json"], "there is no directory /no/such/directory"),
    ];
    for (args, wanted) in bad {
        let (code, out, error) = highwater(&[&["torture"], args].concat());
        assert_eq!(code, 2, "{args:?}: {out}{error}");
        assert!(error.contains(wanted) && out.is_empty(), "{args:?}: {out}{error}");
    }
}

/// What an engine cannot is not tried, and what is asked for by name is refused, with the reason.
#[test]
fn a_torture_that_an_engine_cannot_be_put_to_says_why() {
    let bad: [(&[&str], &str); 6] = [
        (&["--engine", "meerkat", "--faults", "kill,kill-leader"], "nobody leads with engine meerkat"),
        (&["--engine", "strawman", "--faults", "kill-all"], "engine strawman keeps nothing on them"),
        (
            &["--engine", "strawman", "--set", "cluster.durability=async"],
            "engine strawman keeps nothing on disks",
        ),
        (&["--engine", "strawman", "--faults", "disk-full"], "keeps nothing on them"),
        (&["--engine", "silo"], "silo does not go on when a replica is lost"),
        (&["--engine", "no-such"], "known are rolis, silo, strawman"),
    ];
    for (args, wanted) in bad {
        let (code, _, error) = highwater(&[&["torture", "--seconds", "1"], args].concat());
        assert_eq!(code, 2, "{args:?}: {error}");
        assert!(error.contains(wanted), "{args:?}: {error}");
    }
}

/// It would run another engine than the one that was named, and say that all is well.
#[test]
fn a_torture_of_another_engine_is_refused() {
    let set = ["--set", "cluster.engine=meerkat-strict", "--set", "cluster.durability=memory"];
    let (code, _, error) =
        highwater(&[&["torture", "--seconds", "1", "--faults", "kill"][..], &set].concat());
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("these replicas run rolis"), "{error}");
    assert_one_line(&error);
}

#[test]
fn the_default_config_passes_its_own_check() {
    let (code, default, _) = highwater(&["config", "default"]);
    assert_eq!(code, 0);
    let file = ConfigFile::new(&default);
    let (code, out, _) = highwater(&["config", "check", file.path()]);
    assert_eq!(code, 0);
    assert!(out.contains("is good"), "{out}");
}

#[test]
fn a_bad_config_is_exit_code_3_and_one_line() {
    let file = ConfigFile::new("no_such_key = 1\n");
    for args in [["config", "check", file.path()].as_slice(), &["serve", "--config", file.path()]] {
        let (code, _, error) = highwater(args);
        assert_eq!(code, 3, "{error}");
        assert_one_line(&error);
        assert!(error.contains("no_such_key"), "{error}");
    }
    let (code, _, error) = highwater(&["serve", "--config", "/no/such/file.toml"]);
    assert_eq!(code, 3);
    assert_one_line(&error);
    let (code, _, error) = highwater(&["serve", "--set", "no_such_key=1"]);
    assert_eq!(code, 3, "{error}");
    assert_one_line(&error);
}

/// A shell that redirects to a full disk would leave half a file, and no word.
#[test]
fn what_cannot_be_written_is_exit_code_1_and_one_line() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.args(["config", "default"]).stdout(full).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_one_line(&error);
    assert!(error.contains("cannot write to standard output: No space left"), "{error}");
}

#[test]
fn a_port_in_use_is_exit_code_3_and_names_the_port() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let nodes = format!(
        "[cluster]\ndurability = \"memory\"\nnodes = [{{ id = 0, peer = \"127.0.0.1:0\", resp = \"127.0.0.1:0\", admin = \"{address}\" }}]\n"
    );
    let file = ConfigFile::new(&nodes);
    let (code, _, error) = highwater(&["serve", "--config", file.path()]);
    assert_eq!(code, 3, "{error}");
    assert!(error.lines().last().unwrap().contains(&address.port().to_string()), "{error}");
}

#[test]
fn a_seed_is_run_twice_and_a_plan_that_cannot_be_read_is_exit_code_5() {
    let (code, out, error) = highwater(&["sim", "--seed", "1"]);
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("1 seeds") && out.contains(", twice"), "{out}");
    let file = ConfigFile::new("{\"seed\": 1}");
    for plan in ["/no/such/plan.json", file.path()] {
        let (code, _, error) = highwater(&["sim", "--plan", plan]);
        assert_eq!(code, 5, "{error}");
        assert_one_line(&error);
        assert!(error.contains(plan), "{error}");
    }
}

#[test]
fn traces_of_seeds_can_be_compared() {
    let folder = tempfile::tempdir().unwrap();
    let traces = |name: &str, jobs: &str| {
        let file = folder.path().join(name);
        let sim = ["sim", "--seeds", "3..6", "--jobs", jobs, "--traces", file.to_str().unwrap()];
        let (code, out, error) = highwater(&sim);
        assert_eq!(code, 0, "{out}{error}");
        std::fs::read_to_string(&file).unwrap()
    };
    let one = traces("one", "1");
    let seeds: Vec<&str> = one.lines().map(|line| line.split_once('\t').unwrap().0).collect();
    assert_eq!(seeds, ["3", "4", "5"], "{one}");
    assert_eq!(one, traces("two", "2"));
    let (code, _, error) = highwater(&["sim", "--seeds", "3..4", "--traces", "/no/such/folder/traces"]);
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("/no/such/folder/traces"), "{error}");
}

/// A config of one node with its own addresses, and one line of its own at the end.
fn one_node(peer: &str, resp: &str, admin: &str, more: &str) -> String {
    format!(
        "[cluster]\ndurability = \"memory\"\nnodes = [{{ id = 0, peer = \"{peer}\", resp = \"{resp}\", admin = \"{admin}\" }}]\n{more}\n"
    )
}

/// Once: `config check` found nothing wrong with two doors at one address, cores that do not exist, a log level that is
/// the name of nothing, timeouts and reserved memory that overflow.
#[test]
fn what_config_check_refuses_serve_refuses_too() {
    let good = |more: &str| one_node("a:7100", "a:7200", "a:7300", more);
    let bad = [
        (one_node("a:7100", "a:7100", "a:7100", ""), "each needs an address of its own"),
        (one_node("a", "a:7200", "a:7300", ""), "must be host:port"),
        (good("[threads]\npin = [4096, 4097]"), "this machine has the cores"),
        (good("[threads]\npin = [0, 0]"), "core 0 twice"),
        (good("[threads]\npin = \"some\""), "pin"),
        (good("[log]\nlevel = \"loud\""), "write error, warn, info"),
        (good("[store]\nreserve_mb = 17592186044416"), "this machine has"),
        (good("[store]\nreserve_mb = -1"), "reserve_mb"),
        (good("[timeouts]\nelection_timeout_ms = 9223372036854775807"), "at most 3600000"),
        ("node = 1\n".into(), "has the ids 0"),
        ("[cluster\n".into(), ":1:"),
    ];
    for (text, wanted) in bad {
        let file = ConfigFile::new(&text);
        for args in [["config", "check", file.path()].as_slice(), &["serve", "--config", file.path()]] {
            let (code, out, error) = highwater(args);
            assert_eq!(code, 3, "{text}: {out}{error}");
            assert_one_line(&error);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}

#[test]
fn a_host_that_does_not_exist_is_named() {
    let nowhere = "no-such-host.invalid:7300";
    let (code, _, error) = highwater(&["status", "--admin", nowhere]);
    assert_eq!(code, 4, "{error}");
    assert_one_line(&error);
    assert!(error.contains("the name \"no-such-host.invalid\" has no address"), "{error}");
    let node = one_node("no-such-host.invalid:7100", "127.0.0.1:0", "127.0.0.1:0", "[security]\nopen = true");
    let file = ConfigFile::new(&node);
    // A node's own name may be in the DNS a little later: it waits, and says so at once.
    let mut waiting = std::process::Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["serve", "--config", file.path()])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told = lines.find(|line| line.contains("waiting for"));
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    assert!(told.unwrap().contains("waiting for this node's own peer address no-such-host.invalid:7100"));
}

#[test]
fn a_node_that_says_nothing_is_a_timeout_in_words() {
    // The kernel accepts; nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (code, _, error) = highwater(&["status", "--admin", &address]);
    assert_eq!(code, 4, "{error}");
    assert_eq!(error, format!("highwater: no answer within 2 s from {address}\n"));
}

#[test]
fn status_of_nobody_is_exit_code_4_and_one_line() {
    let free = format!("127.0.0.1:{}", highwater_node::free_loopback_ports(1).unwrap()[0]);
    let (code, _, error) = highwater(&["status", "--admin", &free]);
    assert_eq!(code, 4);
    assert_one_line(&error);
    assert!(error.contains(&free), "{error}");
}

/// Whoever reads on no more (`highwater .. | head -1`) is no reason to say anything.
/// Once: commands that look into files ended with `Broken pipe` and exit code 1 when nobody read on (`highwater log dump
/// .. \| head -1`)
#[test]
fn a_command_whose_output_nobody_reads_ends_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let directory = highwater_node::storage::DataDirectory::open(folder.path().join("node")).unwrap();
    let options = highwater_disk::JournalOptions { journal: 7, writers: 2, segment_bytes: 1 << 16 };
    let (mut journal, _) = highwater_disk::Journal::open(directory, options, &mut |_| {}).unwrap();
    journal.append(0, b"one").unwrap();
    journal.close().unwrap();
    let node = folder.path().join("node").display().to_string();
    let commands: [&[&str]; 5] = [
        &["log", "verify", &node],
        &["log", "dump", "--json", &node],
        &["config", "default"],
        &["--help"],
        &["log", "--help"],
    ];
    for args in commands {
        let (unread, output) = std::io::pipe().unwrap();
        drop(unread);
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(args)
            .stdout(output)
            .stderr(std::process::Stdio::piped())
            .spawn();
        let ended = child.unwrap().wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{args:?}");
        assert!(matches!(ended.status.code(), Some(0 | 141)), "{args:?}: {:?}", ended.status);
    }
}
