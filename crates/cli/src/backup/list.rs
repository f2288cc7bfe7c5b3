//! `highwater backup list`.

use highwater_node::storage::archive::{Archive, Chain};
use serde_json::{Value, json};

use super::args::ListArgs;
use super::look::span;
use super::moment::{Spanned, Unfinished, Unusable, words};
use super::place::place;
use crate::failure::{Failure, Result};
use crate::output::print;
use crate::progress::Progress;
use crate::wall_clock::{self, Bounds};

/// Runs the command.
pub fn run(args: &ListArgs) -> Result<()> {
    let archive = Archive::open(place(&args.archive, args.store.patience)?).map_err(Failure::unreadable)?;
    let mut progress = Progress::new();
    let chains = archive.chains().map_err(Failure::unreadable)?;
    let spans: Vec<(Chain, Spanned)> = chains
        .into_iter()
        .map(|chain| {
            let span = span(&chain, &mut progress);
            (chain, span)
        })
        .collect();
    progress.clear();
    drop(progress);
    let text = match args.json {
        true => report(&archive, &spans).to_string() + "\n",
        false => page(&archive, &spans),
    };
    print(&text)
}

fn page(archive: &Archive, spans: &[(Chain, Spanned)]) -> String {
    let mut text = format!("archive of cluster \"{}\"\n", archive.cluster);
    if spans.is_empty() {
        text.push_str("  nothing yet\n");
    }
    for (chain, span) in spans {
        text.push_str(&format!("chain {}   {}\n", chain.number, whose(chain)));
        match span {
            Ok(span) => {
                let numbers: Vec<String> =
                    span.checkpoints.iter().map(|(number, _)| number.to_string()).collect();
                let checkpoints = if numbers.is_empty() { "none".into() } else { numbers.join(", ") };
                text.push_str(&format!("  checkpoints  {checkpoints}\n  moments      {}\n", words(span)));
                if let Some(copy) = span.unfinished {
                    text.push_str(&told(copy));
                } else {
                    for why in span.lacks.words() {
                        text.push_str(&format!("  LACKS        {why}\n"));
                    }
                }
                if span.held > span.moments.1 {
                    text.push_str(&format!("  besides      up to {} not known to be decided\n", span.held.0));
                }
            }
            Err(Unusable { unfinished: Some(copy), .. }) => text.push_str(&told(*copy)),
            Err(Unusable { why, .. }) => text.push_str(&format!("  UNUSABLE     {why}\n")),
        }
    }
    text
}

fn told(copy: Unfinished) -> String {
    format!("  {:<12} {}\n", copy.heading(), copy.words())
}

fn whose(chain: &Chain) -> String {
    chain.of.as_ref().map_or_else(Clone::clone, |of| format!("node {}, life #{}", of.node, of.incarnation))
}

fn report(archive: &Archive, spans: &[(Chain, Spanned)]) -> Value {
    let chain = |(chain, span): &(Chain, Spanned)| match span {
        Ok(span) => json!({
            "chain": chain.number, "of": chain.of.as_ref().ok(), "earliest": span.moments.0.0,
            "checkpoints": span.checkpoints.iter().map(|(number, _)| number).collect::<Vec<_>>(),
            "latest": span.moments.1.0, "latest_about": wall_clock::about(&span.times, span.moments.1),
            "latest_not_after": Bounds::of(&span.times, span.moments.1).not_after.map(wall_clock::text_of),
            "held": span.held.0, "workers": span.workers, "lacks": span.lacks.words(),
            "under_way": span.unfinished.is_some_and(Unfinished::goes_on),
            "given_up": span.unfinished.is_some_and(|copy| !copy.goes_on()),
            "times": span.times.iter().map(|moment| (moment.unix_ms, moment.mark.0)).collect::<Vec<_>>(),
        }),
        Err(Unusable { why, unfinished, .. }) => json!({
            "chain": chain.number, "of": chain.of.as_ref().ok(), "error": why,
            "under_way": unfinished.is_some_and(Unfinished::goes_on),
            "given_up": unfinished.is_some_and(|copy| !copy.goes_on()),
        }),
    };
    json!({"cluster": archive.cluster, "chains": spans.iter().map(chain).collect::<Vec<_>>()})
}
