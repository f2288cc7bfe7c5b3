//! A restore drill: a cluster under load is archived, and new clusters begin from moments of it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::time::{Duration, Instant};

use highwater_disk::journal::read;
use highwater_node::storage::DataDirectory;
use highwater_node::storage::remains::checkpoints;
use highwater_seam::LogPosition;
use serde_json::Value;

mod drill;
mod processes;

use drill::{check, done, highwater, mark, move_to, refused, unix_ms, write};
use processes::{Cluster, PATIENCE};

/// How long a counter counts, so that there are some seconds to choose from.
const LOAD: Duration = Duration::from_millis(5000);
/// A time of the wall clock is known that well: two nodes' clocks are one here, a follower lags a little, and the machine is busy.
const SLACK_MS: u64 = 1000;

/// Once: what is decided was on a follower's disk hardly ever, and on a leader's not of the last entries before a pause:
/// a restart had to be sent it anew, and no backup could hold it.
#[test]
fn a_cluster_under_load_is_archived_and_restored_to_any_moment() {
    let mut cluster = Cluster::start("backup", "id = \"north\"\ndurability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    let directory = cluster.directory().to_path_buf();
    let text = |path: &Path| path.display().to_string();
    let (folder, archive) =
        (text(&directory.join(format!("node-{leader}"))), text(&directory.join("archive")));
    let create = ["backup", "create", "--json", "--from", &folder, "--to", &archive];
    write(&mut client, 0);
    let first = mark(&cluster, leader).to_string();
    let copied = done(&create);
    assert!(copied["chain"] == 1 && copied["journal_bytes"].as_u64() > Some(0), "{copied}");

    // Somebody counts while the archive is brought up to date again and again.
    let (began, mut counted, mut copies) = (unix_ms(), Vec::new(), 0);
    while u128::from(unix_ms() - began) < LOAD.as_millis() || copies < 3 {
        let (line, _) = client.call(&[b"INCR", b"counter"]).unwrap();
        let Ok(count) = line[1..].parse::<u64>() else {
            // On a busy machine another node may lead meanwhile.
            client = cluster.leader().1;
            continue;
        };
        counted.push((unix_ms(), count));
        if count.is_multiple_of(500) {
            copies += 1;
            done(&create);
        }
    }
    write(&mut client, 1);
    let reached = mark(&cluster, leader);
    // A disk knows a tenth of a second later what is decided.
    let began = Instant::now();
    loop {
        copies += 1;
        done(&create);
        let listed = done(&["backup", "list", "--json", &archive]);
        assert_eq!((&listed["cluster"], listed["chains"].as_array().unwrap().len()), (&"north".into(), 1));
        if listed["chains"][0]["latest"].as_u64().unwrap() >= reached {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{reached} {listed}");
    }
    assert!(copies > 2, "{copies}");
    let verified = done(&["backup", "verify", "--json", &archive]);
    assert_eq!((&verified["whole"], &verified["chains"]), (&true.into(), &1.into()));

    // The last moment, as a whole new cluster.
    let last = directory.join("last");
    let restore = |to: &Path, cluster: &str, more: &[&str]| {
        let to = text(to);
        let mut args = vec!["backup", "restore", "--json", &archive, "--to", &to, "--cluster", cluster];
        args.extend(["--nodes", "0,1,2"].iter().chain(more));
        done(&args)
    };
    let restored = restore(&last, "second", &[]);
    assert_eq!((&restored["digest"], &restored["rows"]), (&verified["digest"], &verified["rows"]));
    move_to(&mut cluster, &directory, &last, ("north", "second"));
    let (leader, mut client) = cluster.leader();
    check(&mut client, 1);
    let count = counted.last().unwrap().1;
    assert_eq!(client.call(&[b"GET", b"counter"]).unwrap().1, count.to_string().into_bytes());
    // What it holds on its own disks is the same.
    let (own, second) = (text(&last.join(format!("node-{leader}"))), text(&directory.join("second-archive")));
    done(&["backup", "create", "--json", "--from", &own, "--to", &second]);
    assert_eq!(done(&["backup", "verify", "--json", &second])["digest"], verified["digest"]);
    refused(&["backup", "create", "--from", &own, "--to", &archive], 1, "is an archive of cluster \"north\"");

    // A timestamp in the past, exactly; with other numbers of workers.
    let early = directory.join("early");
    restore(&early, "third", &["--timestamp", &first, "--workers", "2"]);
    move_to(&mut cluster, &last, &early, ("second", "third"));
    let (_, mut client) = cluster.leader();
    check(&mut client, 0);
    assert!(client.call(&[b"GET", b"counter"]).unwrap().1.is_empty());

    // A time of the wall clock.
    let (at, _) = counted[counted.len() / 2];
    let then = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1_000_000).unwrap();
    let then = then.format(&time::format_description::well_known::Rfc3339).unwrap();
    let then = then.replace('T', " ").replace('Z', "");
    let middle = directory.join("middle");
    restore(&middle, "fourth", &["--at", &then]);
    move_to(&mut cluster, &early, &middle, ("third", "fourth"));
    let (_, mut client) = cluster.leader();
    check(&mut client, 0);
    let found: u64 =
        String::from_utf8(client.call(&[b"GET", b"counter"]).unwrap().1).unwrap().parse().unwrap();
    let within = |(when, _): &&(u64, u64)| when.abs_diff(at) <= SLACK_MS;
    let near: Vec<u64> = counted.iter().filter(within).map(|(_, count)| *count).collect();
    assert!((near[0]..=*near.last().unwrap()).contains(&found), "{found} at {then}, {near:?}");

    cluster.kill_all();
    refused(
        &["backup", "restore", &archive, "--to", &text(&middle), "--cluster", "fifth"],
        3,
        "something in it already",
    );
    let to = text(&directory.join("never"));
    refused(&["backup", "restore", &archive, "--to", &to, "--cluster", "north"], 2, "that was backed up");
    let restore = ["backup", "restore", &archive, "--to", &to, "--cluster", "fifth"];
    refused(&[&restore[..], &["--timestamp", "4611686018427387903"]].concat(), 1, "no chain has this moment");
    refused(&[&restore[..], &["--at", "2020-01-01T00:00:00Z"]].concat(), 1, "chain 1 has");
    refused(&[&restore[..], &["--at", "yesterday"]].concat(), 2, "2026-11-22T10:00:00Z");
    refused(&[&restore[..], &["--chain", "9"]].concat(), 5, "no chain 9");
    refused(&[&restore[..], &["--timestamp", "0"]].concat(), 1, "no chain has this moment");
    refused(&[&restore[..], &["--workers", "256"]].concat(), 2, "up to 255 workers");
    refused(&[&restore[..], &["--nodes", "1,1"]].concat(), 2, "names each node once");
    refused(&["backup", "list", "file://backups"], 2, "a whole path");
    refused(&["backup", "list", &folder], 5, "it is no archive");
    refused(&["backup", "list", "ftp://host/archive"], 2, "ftp:// is not supported");
    refused(&["backup", "create", "--from", &archive, "--to", &to], 5, "no node was ever started");
    assert!(!Path::new(&to).exists(), "nothing was written");

    // A byte that changes is noticed, wherever it is.
    let chain = Path::new(&archive).join("chain-0001");
    for prefix in ["journal-", "checkpoint-"] {
        let names = std::fs::read_dir(&chain).unwrap().map(|entry| entry.unwrap().path());
        let named =
            |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
        let Some(path) = names.filter(named).min() else { continue };
        let whole = std::fs::read(&path).unwrap();
        let mut spoiled = whole.clone();
        spoiled[4096.min(whole.len() - 1)] ^= 4;
        std::fs::write(&path, spoiled).unwrap();
        refused(&["backup", "verify", &archive], 1, prefix);
        std::fs::write(&path, whole).unwrap();
    }
    done(&["backup", "verify", "--json", &archive]);
}

/// Without the state that they stand on the journals of a restored cluster look whole, and are not.
#[test]
fn a_restored_cluster_is_nothing_without_its_first_checkpoint() {
    let mut cluster = Cluster::start("founded", "id = \"north\"\ndurability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    write(&mut client, 0);
    cluster.kill_all();
    let directory = cluster.directory().to_path_buf();
    let text = |path: &Path| path.display().to_string();
    let (folder, archive) =
        (text(&directory.join(format!("node-{leader}"))), text(&directory.join("archive")));
    done(&["backup", "create", "--json", "--from", &folder, "--to", &archive]);
    let again = directory.join("again");
    // What is only accepted on the disk of a node that was killed is the last acknowledged transaction, or one that was not.
    let args =
        ["backup", "restore", "--json", &archive, "--to", &text(&again), "--cluster", "second", "--accepted"];
    done(&[&args[..], &["--nodes", "0,1,2"]].concat());
    move_to(&mut cluster, &directory, &again, ("north", "second"));
    let (_, mut client) = cluster.leader();
    check(&mut client, 0);
    cluster.kill_all();
    // Before its own beginning it has no moments.
    let (own, second) = (text(&again.join("node-0")), text(&directory.join("second-archive")));
    done(&["backup", "create", "--json", "--from", &own, "--to", &second]);
    refused(&["backup", "verify", "--timestamp", "1", &second], 1, "no chain has this moment");
    for place in [again.join("node-0"), Path::new(&second).join("chain-0001")] {
        let names = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
        let is_checkpoint = |path: &std::path::PathBuf| {
            path.file_name().unwrap().to_str().unwrap().starts_with("checkpoint-")
        };
        names.filter(is_checkpoint).for_each(|path| std::fs::remove_file(path).unwrap());
    }
    refused(&["backup", "verify", &second], 1, "the checkpoint that holds that is missing");
    refused(&["recover", "--from", &own], 5, "the checkpoint that holds that is missing");
    let config = text(&directory.join("0.toml"));
    refused(&["serve", "--config", &config], 3, "the checkpoint that holds that is missing");
}

/// A node that begins another life, or another node: another chain of the same archive. A follower's disk will do.
#[test]
fn another_nodes_files_begin_another_chain() {
    let mut cluster = Cluster::start("chains", "id = \"north\"\ndurability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    let directory = cluster.directory().to_path_buf();
    let archive = format!("file://{}", directory.join("archive").display());
    let folder = |id: usize| directory.join(format!("node-{id}")).display().to_string();
    let follower = (leader + 1) % 3;
    write(&mut client, 0);
    let copied = done(&["backup", "create", "--json", "--from", &folder(leader), "--to", &archive]);
    assert_eq!(copied["chain"], 1);
    write(&mut client, 1);
    cluster.kill_all();
    let copied = done(&["backup", "create", "--json", "--from", &folder(follower), "--to", &archive]);
    assert_eq!(
        (&copied["chain"], &copied["began"]),
        (&2.into(), &"another node, or another life of it".into())
    );
    let listed = done(&["backup", "list", "--json", &archive]);
    let chains = listed["chains"].as_array().unwrap();
    assert!(chains.len() == 2 && chains.iter().all(|chain| chain["latest"].as_u64() > Some(0)), "{listed}");
    let first = done(&["backup", "verify", "--json", "--chain", "1", &archive]);
    let second = done(&["backup", "verify", "--json", &archive]);
    assert!(first["moment"].as_u64() < second["moment"].as_u64(), "{first} {second}");
    // Each goes on in its own.
    let again = done(&["backup", "create", "--json", "--from", &folder(leader), "--to", &archive]);
    assert_eq!((&again["chain"], &again["began"]), (&1.into(), &Value::Null));
    let path = directory.join("archive/chain-0001/chain.json");
    std::fs::write(path, "{").unwrap();
    refused(&["backup", "verify", &archive], 1, "chain-0001");
    let (_, text) = highwater(&["backup", "list", &archive]);
    assert!(text.contains("UNUSABLE"), "{text}");
}

/// The chain that was begun last was restored, weeks old, though another one went on: the node that it was of was gone.
#[test]
fn the_last_moment_is_that_of_the_chain_that_goes_furthest() {
    let mut cluster = Cluster::start("furthest", "id = \"north\"\ndurability = \"sync\"", None);
    let (leader, mut client) = cluster.leader();
    let directory = cluster.directory().to_path_buf();
    let archive = directory.join("archive").display().to_string();
    let folder = |id: usize| directory.join(format!("node-{id}")).display().to_string();
    let create = |id: usize| done(&["backup", "create", "--json", "--from", &folder(id), "--to", &archive]);
    write(&mut client, 0);
    assert_eq!(create(leader)["chain"], 1);
    assert_eq!(create((leader + 1) % 3)["chain"], 2);
    write(&mut client, 1);
    let reached = mark(&cluster, leader);
    let began = Instant::now();
    let latest = |chain: &str| {
        let verified = done(&["backup", "verify", "--json", "--chain", chain, &archive]);
        (verified["moment"].as_u64().unwrap(), verified["digest"].clone())
    };
    while latest("1").0 < reached {
        assert!(began.elapsed() < PATIENCE, "{reached}");
        assert_eq!(create(leader)["chain"], 1);
    }
    let ((first, digest), (second, _)) = (latest("1"), latest("2"));
    assert!(second < first, "chain 2 ends at {second}, chain 1 at {first}");
    let verified = done(&["backup", "verify", "--json", &archive]);
    assert_eq!((&verified["chain"], &verified["digest"]), (&1.into(), &digest), "{verified}");
    assert_eq!(verified["others"], serde_json::json!([{"chain": 2, "latest": second}]));
    let to = directory.join("restored");
    let to_text = to.display().to_string();
    let restore = [
        "backup",
        "restore",
        "--json",
        &archive,
        "--to",
        &to_text,
        "--cluster",
        "second",
        "--nodes",
        "0,1,2",
    ];
    // What is missing of the other one may have been later.
    let chain = directory.join("archive/chain-0002");
    let journal = files_of(&chain, "journal-").pop().unwrap();
    let whole = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, &whole[..4096]).unwrap();
    refused(&restore, 1, "chain 2");
    std::fs::write(&journal, whole).unwrap();
    let restored = done(&restore);
    assert_eq!((&restored["chain"], &restored["moment"]), (&1.into(), &first.into()));
    move_to(&mut cluster, &directory, &to, ("north", "second"));
    let (_, mut client) = cluster.leader();
    check(&mut client, 1);
}

/// A backup of engine meerkat was taken with exit code 0, and nothing of it could ever be restored.
#[test]
fn what_cannot_be_restored_is_not_archived() {
    let mut cluster =
        Cluster::start("engine", "id = \"north\"\nengine = \"meerkat\"\ndurability = \"sync\"", None);
    let began = Instant::now();
    let set = || {
        let mut client = processes::Client::connect(cluster.port(0))?;
        client.call(&[b"SET", b"key", b"value"]).filter(|(line, _)| line == "+OK")
    };
    while set().is_none() {
        assert!(began.elapsed() < PATIENCE, "{}", cluster.log(0));
        std::thread::sleep(Duration::from_millis(20));
    }
    let directory = cluster.directory().to_path_buf();
    let [folder, archive] = ["node-0", "archive"].map(|name| directory.join(name).display().to_string());
    for stopped in [false, true] {
        if stopped {
            cluster.kill_all();
        }
        refused(&["backup", "create", "--from", &folder, "--to", &archive], 5, "engine meerkat");
        assert!(!Path::new(&archive).exists(), "no archive is begun");
    }
    refused(&["recover", "--from", &folder], 5, "engine meerkat");
}

/// Files of a chain whose name begins like this, in order.
fn files_of(chain: &Path, prefix: &str) -> Vec<std::path::PathBuf> {
    let names = std::fs::read_dir(chain).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        names.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).collect();
    files.sort();
    files
}

/// Whether there are so many files of the journal, and a checkpoint goes on well behind the beginning of the last one: without that file it
/// proves that there was more.
fn a_checkpoint_needs_the_last_file(folder: &Path, files: usize) -> bool {
    let Ok(disk) = DataDirectory::read_only(folder) else { return false };
    // The node goes on meanwhile: what cannot be read now is read the next time.
    let Ok(summary) = read(&disk, &mut |_| {}) else { return false };
    let (Some(life), Some(last)) = (summary.journal, summary.segments.last()) else { return false };
    let needs = |positions: &[LogPosition]| {
        positions.iter().zip(&last.positions).any(|(needed, begins)| needed.0 > begins + (64 << 10))
    };
    summary.segments.len() >= files
        && checkpoints(&disk, life).is_ok_and(|all| all.iter().any(|(_, positions)| needs(positions)))
}

/// An archive of which somebody had cut or removed files was called whole, and its "last moment" was an earlier one.
#[test]
fn what_is_missing_of_a_chain_is_named_and_nothing_less_is_restored_without_a_word() {
    let mut cluster = Cluster::start("lacks", "id = \"north\"\ndurability = \"sync\"", None);
    let directory = cluster.directory().to_path_buf();
    let text = |path: &Path| path.display().to_string();
    let (folder, archive) = (text(&directory.join("node-0")), text(&directory.join("archive")));
    for files in 1..=2 {
        // Another life goes on in another file, and the first one stays for checkpoints that are kept.
        cluster.kill_all();
        (0..3).for_each(|id| cluster.run_with(id, &["--set", "storage.checkpoints_kept=40"]));
        let began = Instant::now();
        while !a_checkpoint_needs_the_last_file(Path::new(&folder), files) {
            assert!(began.elapsed() < PATIENCE, "no checkpoint");
            let (_, mut client) = cluster.leader();
            write(&mut client, 0);
        }
    }
    cluster.kill_all();
    done(&["backup", "create", "--json", "--from", &folder, "--to", &archive]);
    let verified = done(&["backup", "verify", "--json", &archive]);
    let chain = Path::new(&archive).join("chain-0001");
    let journal = files_of(&chain, "journal-");
    let [first, last] = [journal.first().unwrap().clone(), journal.last().unwrap().clone()];
    assert!(journal.len() > 1, "{journal:?}");
    let to = text(&directory.join("to"));
    let restore = ["backup", "restore", "--json", &archive, "--to", &to, "--cluster", "second"];
    let refused_without_a_moment = |words: &str| {
        refused(&["backup", "verify", &archive], 1, words);
        let (code, said) = highwater(&restore);
        assert!(code == Some(1) && said.contains(words) && said.contains("had more"), "{said}");
        let left = said.split("--timestamp ").nth(1).unwrap_or_else(|| panic!("{said}"));
        let left: String = left.chars().take_while(char::is_ascii_digit).collect();
        assert!(left.parse::<u64>().unwrap() <= verified["moment"].as_u64().unwrap());
        done(&[&restore[..], &["--timestamp", &left]].concat());
        std::fs::remove_dir_all(&to).unwrap();
    };
    let marks = files_of(&chain, "copied-");
    let whole = std::fs::read(&last).unwrap();
    let name = last.file_name().unwrap().to_str().unwrap();
    for proof in ["had been copied up to", "went further when checkpoint"] {
        for cut in [4096, 8192] {
            std::fs::write(&last, &whole[..cut]).unwrap();
            refused_without_a_moment(proof);
            refused(&["backup", "verify", &archive], 1, name);
        }
        std::fs::remove_file(&last).unwrap();
        refused_without_a_moment(proof);
        std::fs::write(&last, &whole).unwrap();
        // As in an archive of an earlier build.
        marks.iter().filter(|mark| mark.exists()).for_each(|mark| std::fs::remove_file(mark).unwrap());
    }
    let mut spoiled = whole.clone();
    spoiled[8192 + 70] ^= 1;
    std::fs::write(&last, spoiled).unwrap();
    refused_without_a_moment("is damaged at offset 8192");
    // Half a group, as a copy leaves it that is cut off.
    std::fs::write(&last, [&whole[..], &whole[4096..4196]].concat()).unwrap();
    refused_without_a_moment("is not there as a whole");
    std::fs::write(&last, &whole).unwrap();
    assert_eq!(done(&["backup", "verify", "--json", &archive]), verified);

    // Of early moments nothing is left; the last one is what it was.
    let bytes = std::fs::read(&first).unwrap();
    std::fs::remove_file(&first).unwrap();
    refused(&["backup", "verify", &archive], 1, "needs what came before: files were removed");
    let (_, listed) = highwater(&["backup", "list", &archive]);
    assert!(listed.contains("LACKS") && listed.contains("files were removed"), "{listed}");
    assert_eq!(done(&restore)["digest"], verified["digest"]);
    std::fs::remove_dir_all(&to).unwrap();
    std::fs::write(&first, bytes).unwrap();
    journal.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    refused(&restore, 1, "nothing can be restored of chain 1");
    refused(&["backup", "verify", &archive], 1, "there is no journal in it");
    // The node still has it all.
    let copied = done(&["backup", "create", "--json", "--from", &folder, "--to", &archive]);
    assert_eq!(copied["chain"], 1);
    assert_eq!(done(&["backup", "verify", "--json", &archive]), verified);
}
