//! `highwater backup create`.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use highwater_disk::Identity;
use highwater_node::storage::DataDirectory;
use highwater_node::storage::archive::{Archive, Brought, Copied};
use highwater_node::storage::survey::is_readable;
use serde_json::json;

use super::args::CreateArgs;
use super::place::place;
use crate::failure::{Failure, Result};
use crate::numbers;
use crate::output::print;
use crate::progress::Progress;

/// Runs the command.
pub fn run(args: &CreateArgs) -> Result<()> {
    if !(args.every >= 0.1 && args.every <= 86_400.0) {
        return Err(Failure::usage("--every is 0.1 to 86400 seconds"));
    }
    let to = place(&args.to, args.store.patience)?;
    let source = DataDirectory::read_only(&args.from).map_err(Failure::unreadable)?;
    let identity = Identity::read(&source).map_err(|error| unreadable(args, &error))?;
    let identity = identity.ok_or_else(|| unreadable(args, &"no node was ever started on it"))?;
    // Before there is an archive of which nothing could be restored.
    is_readable(&source).map_err(|why| Failure::unreadable(format!("{}: {why}", args.from.display())))?;
    let mut archive = Archive::begin(to, &identity.cluster).map_err(Failure::negative)?;
    let mut damaged = BTreeSet::new();
    let first = copy(args, &mut archive, &mut damaged);
    if !args.follow {
        return first;
    }
    match first {
        // Everything else was copied.
        Err(failure) if !damaged.is_empty() => eprintln!("highwater: {failure}"),
        first => first?,
    }
    loop {
        thread::sleep(Duration::from_secs_f64(args.every));
        // The node may be gone for a while, or begin another life; the disk may be full for a while.
        if let Err(failure) = copy(args, &mut archive, &mut damaged) {
            eprintln!("highwater: {failure}; trying again in {} s", args.every);
        }
    }
}

fn unreadable(args: &CreateArgs, why: &dyn std::fmt::Display) -> Failure {
    Failure::unreadable(format!("{}: {why}", args.from.display())).hint(
        "--from is a node's own folder, storage.dir/node-N, of a cluster with cluster.durability = \"sync\" or \"async\"",
    )
}

/// One copy. `said`: damaged checkpoints that were told of.
fn copy(args: &CreateArgs, archive: &mut Archive, said: &mut BTreeSet<u64>) -> Result<()> {
    let (mut progress, began) = (Progress::new(), Instant::now());
    let told = |bytes| progress.count("copied", bytes, None);
    let copied = archive.copy(&args.from, told).map_err(Failure::negative)?;
    progress.clear();
    drop(progress);
    let text = match args.json {
        true => report(&copied).to_string() + "\n",
        false => words(&copied, began.elapsed()),
    };
    print(&text)?;
    let damaged = copied.brought.damaged;
    match damaged.iter().filter(|(number, _)| said.insert(*number)).last() {
        None => Ok(()),
        Some((_, why)) => Err(Failure::negative(format!(
            "{} checkpoint(s) of {} are damaged, and were left out: {why}",
            damaged.len(),
            args.from.display()
        ))
        .hint("the rest was copied; `highwater checkpoint verify` looks through the folder, and `backup verify` through the archive")),
    }
}

fn words(copied: &Copied, took: Duration) -> String {
    let Copied { chain, began, brought } = copied;
    let Brought { checkpoints, checkpoint_bytes, journal_bytes, damaged: _ } = brought;
    let began = began.map_or(String::new(), |why| format!(" (begun: {why})"));
    let numbers = checkpoints.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let checkpoints = match checkpoints.len() {
        0 => "no new checkpoint".into(),
        _ => format!("checkpoint {numbers}, {}", numbers::bytes(*checkpoint_bytes)),
    };
    format!(
        "chain {chain}{began}: {checkpoints}; {} of journal; {:.1} s\n",
        numbers::bytes(*journal_bytes),
        took.as_secs_f64()
    )
}

fn report(copied: &Copied) -> serde_json::Value {
    json!({
        "chain": copied.chain, "began": copied.began, "checkpoints": copied.brought.checkpoints,
        "checkpoint_bytes": copied.brought.checkpoint_bytes, "journal_bytes": copied.brought.journal_bytes,
        "damaged": copied.brought.damaged,
    })
}
