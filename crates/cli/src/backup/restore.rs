//! `highwater backup restore`.

use std::num::NonZeroU16;
use std::time::Instant;

use highwater_node::storage::archive::Archive;
use serde_json::json;

use super::args::RestoreArgs;
use super::moment::{find, others, state, words_of_others};
use super::place::place;
use crate::failure::{Failure, Result};
use crate::output::print;
use crate::progress::Progress;
use crate::wall_clock::{self, Bounds};

/// Runs the command.
pub fn run(args: &RestoreArgs) -> Result<()> {
    let (began, mut progress) = (Instant::now(), Progress::new());
    let archive = Archive::open(place(&args.archive, args.store.patience)?).map_err(Failure::unreadable)?;
    if args.cluster == archive.cluster {
        return Err(Failure::usage(format!(
            "\"{}\" is the id of the cluster that was backed up",
            args.cluster
        ))
        .hint(
            "a restored cluster needs another --cluster: nodes of the old one may be there, or come back",
        ));
    }
    // What is wrong with the command line shows before anything is read.
    let any = args.founders.founding(&args.cluster, NonZeroU16::MIN)?;
    any.check(&args.to).map_err(Failure::cannot_start)?;
    progress.step("looking for the moment");
    let found = find(&archive, &args.moment, &mut progress)?;
    let had = NonZeroU16::new(found.span.workers).unwrap_or(NonZeroU16::MIN);
    let founding = args.founders.founding(&args.cluster, had)?;
    progress.step("reading the state of the moment");
    let (store, transactions) = state(&found).map_err(Failure::negative)?;
    let mut written = Vec::new();
    for voter in &founding.voters {
        progress.step(&format!("writing the folder of node {}", voter.node.0));
        let path = founding.write(&args.to, *voter, &store, found.moment).map_err(Failure::cannot_start)?;
        written.push(path.display().to_string());
    }
    progress.clear();
    drop(progress);
    let digest = store.digest();
    let about = wall_clock::about(&found.span.times, found.moment);
    let bounds = Bounds::of(&found.span.times, found.moment);
    let [not_before, not_after] =
        [bounds.not_before, bounds.not_after].map(|unix_ms| unix_ms.map(wall_clock::text_of));
    let (rows, seconds) = (digest.rows.iter().sum::<u64>(), began.elapsed().as_secs_f64());
    let digest = format!("{:032x}", digest.hash);
    let text = if args.json {
        let report = json!({
            "moment": found.moment.0, "about": about, "asked": args.moment.at, "not_before": not_before,
            "not_after": not_after, "chain": found.chain.number, "transactions": transactions,
            "rows": rows, "digest": digest, "written": written, "seconds": seconds, "others": others(&found),
        });
        report.to_string() + "\n"
    } else {
        let asked = args.moment.at.as_ref().map_or(String::new(), |at| {
            format!("asked     {at}: the moment is computed from the two times noted around it\n")
        });
        format!(
            "{asked}moment    {}{}, of chain {}\n{}state     {rows} rows; {transactions} transactions of the log behind the checkpoint; {seconds:.1} s\ndigest    {digest}\nwritten   {}\nnext      serve them with cluster.id = \"{}\", and storage.dir where their folders are\n",
            found.moment.0,
            bounds.words(),
            found.chain.number,
            words_of_others(&found),
            written.join(", "),
            args.cluster
        )
    };
    print(&text)
}
