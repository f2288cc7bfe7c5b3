//! A node that cannot start, or cannot work with the others, says what to do.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

mod drill;
mod processes;

use drill::{highwater, write};
use processes::{Cluster, PATIENCE};

/// A user without files.
const NOBODY: u32 = 65534;

/// Serves a config that is no good; what it says.
fn refused(command: &mut Command, config: &Path) -> String {
    let output = command.args(["serve", "--config"]).arg(config).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    text.lines().last().unwrap_or_default().into()
}

fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_highwater"))
}

/// "Set storage.dir to this node's own folder" was all that was said of a damaged identity, nothing of a damaged journal, and of files of
/// another user not which.
#[test]
fn a_disk_that_is_no_good_says_which_file_and_what_to_do() {
    let mut cluster = Cluster::start("no-good", "durability = \"sync\"", None);
    let (_, mut client) = cluster.leader();
    write(&mut client, 0);
    cluster.kill_all();
    let config = cluster.directory().join("0.toml");
    let folder = cluster.directory().join("node-0");
    let identity = folder.join("identity");
    let whole = std::fs::read(&identity).unwrap();
    let mut spoiled = whole.clone();
    spoiled[20] ^= 1;
    std::fs::write(&identity, spoiled).unwrap();
    let text = refused(&mut binary(), &config);
    assert!(text.contains("identity is damaged") && text.contains("move this folder away"), "{text}");
    assert!(!text.contains("storage.dir"), "{text}");
    std::fs::write(&identity, whole).unwrap();
}

/// A journal names tables by number. A node that hosted fewer panicked at the first row of another one.
#[test]
fn a_folder_with_other_tables_is_refused_in_words() {
    let mut cluster = Cluster::start("tables", "durability = \"sync\"", None);
    let (_, mut client) = cluster.leader();
    write(&mut client, 0);
    cluster.kill_all();
    let config = cluster.directory().join("0.toml");
    let identity = cluster.directory().join("node-0/identity");
    let before = std::fs::read(&identity).unwrap();
    let mut command = binary();
    command.args(["serve", "--set", "server.benchmarks=on", "--config"]).arg(&config);
    let mut node = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while std::fs::read(&identity).is_ok_and(|now| now == before) {
        assert!(node.try_wait().unwrap().is_none(), "more tables are no reason to refuse a folder");
        assert!(began.elapsed() < PATIENCE, "it begins");
        std::thread::yield_now();
    }
    node.kill().unwrap();
    node.wait().unwrap();
    let mut command = binary();
    command.args(["serve", "--set", "server.benchmarks=off", "--config"]).arg(&config);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    let text = text.lines().last().unwrap();
    assert!(text.contains("tables") && text.contains("server.benchmarks"), "{text}");
}

/// The files are those of somebody else.
#[test]
fn files_of_another_user_are_named() {
    let mut cluster = Cluster::start("user", "durability = \"sync\"", None);
    let (_, mut client) = cluster.leader();
    write(&mut client, 0);
    cluster.kill_all();
    let config = cluster.directory().join("0.toml");
    let folder = cluster.directory().join("node-0");
    let is_root = folder.metadata().unwrap().uid() == 0;
    let journal = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let journal = journal.filter(|path| path.to_string_lossy().contains("/journal-")).min().unwrap();
    if is_root {
        let all = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        all.chain([folder.clone(), cluster.directory().into(), config.clone()])
            .for_each(|path| chown(path, Some(NOBODY), None).unwrap());
    }
    for name in [journal, folder.join("identity"), folder.join("lock")] {
        match is_root {
            true => chown(&name, Some(0), Some(0)).unwrap(),
            false => std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o000)).unwrap(),
        }
        let mut command = binary();
        if is_root {
            command.uid(NOBODY);
        }
        let text = refused(&mut command, &config);
        let name = name.file_name().unwrap().to_str().unwrap();
        assert!(
            text.contains(name) && text.contains("Permission denied") && text.contains("chown"),
            "{text}"
        );
    }
}

/// It was named in its log only.
#[test]
fn a_node_with_another_durability_says_so_in_its_status() {
    let mut cluster = Cluster::start("durability", "durability = \"sync\"", None);
    let (leader, _) = cluster.leader();
    let other = (leader + 1) % 3;
    cluster.kill(other);
    // What is on its disk is left where it is.
    cluster.run_with(other, &["--set", "cluster.durability=memory", "--set", "storage.ignore_data=true"]);
    let admin = format!("127.0.0.1:{}", cluster.admin_port(other));
    let began = Instant::now();
    loop {
        let (_, text) = highwater(&["status", "--admin", &admin]);
        let line =
            text.lines().find(|line| line.starts_with("  refused") && line.contains("cluster.durability"));
        if let Some(line) = line {
            assert!(
                line.contains("\"memory\"") && line.contains("\"sync\"") && line.contains("set it alike"),
                "{line}"
            );
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{text}");
        std::thread::yield_now();
    }
}

/// A node that runs does not read its journal, and does not know that it is damaged. Whoever copies it does.
#[test]
fn a_damaged_journal_of_a_running_node_is_not_archived_and_it_is_said_what_to_do() {
    let cluster = Cluster::start("copied", "durability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    write(&mut client, 0);
    let [folder, archive] = [format!("node-{leader}"), "archive".into()]
        .map(|name| cluster.directory().join(name).display().to_string());
    let file =
        std::fs::File::options().write(true).open(format!("{folder}/journal-0000000000000001")).unwrap();
    file.write_all_at(b"spoilt", 4096 + 70).unwrap();
    let (code, text) = highwater(&["backup", "create", "--from", &folder, "--to", &archive]);
    assert_eq!(code, Some(1), "{text}");
    for words in [
        "journal-0000000000000001 is damaged at offset 4096",
        "archive another node",
        "recover --from",
        &folder,
    ] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
}
