//! `highwater backup list`.

use std::io::{self, Write};

use highwater_node::storage::archive::{Archive, Chain};
use serde_json::{Value, json};

use super::args::ListArgs;
use super::moment::{Span, span, words};
use crate::failure::{Failure, Result};
use crate::wall_clock;

/// Runs the command.
pub fn run(args: &ListArgs) -> Result<()> {
    let archive = Archive::open(&super::folder(&args.archive)?).map_err(Failure::unreadable)?;
    let chains = archive.chains().map_err(Failure::unreadable)?;
    let spans: Vec<(Chain, std::result::Result<Span, String>)> = chains
        .into_iter()
        .map(|chain| {
            let span = span(&chain);
            (chain, span)
        })
        .collect();
    let text = match args.json {
        true => report(&archive, &spans).to_string() + "\n",
        false => page(&archive, &spans),
    };
    io::stdout().lock().write_all(text.as_bytes()).map_err(Failure::negative)
}

fn page(archive: &Archive, spans: &[(Chain, std::result::Result<Span, String>)]) -> String {
    let mut text = format!("archive of cluster \"{}\"\n", archive.cluster);
    if spans.is_empty() {
        text.push_str("  nothing yet\n");
    }
    for (chain, span) in spans {
        text.push_str(&format!(
            "chain {}   node {}, life #{}\n",
            chain.number, chain.of.node, chain.of.incarnation
        ));
        match span {
            Ok(span) => {
                let numbers: Vec<String> = span.checkpoints.iter().map(u64::to_string).collect();
                let checkpoints = if numbers.is_empty() { "none".into() } else { numbers.join(", ") };
                text.push_str(&format!("  checkpoints  {checkpoints}\n  moments      {}\n", words(span)));
            }
            Err(why) => text.push_str(&format!("  UNUSABLE     {why}\n")),
        }
    }
    text
}

fn report(archive: &Archive, spans: &[(Chain, std::result::Result<Span, String>)]) -> Value {
    let chain = |(chain, span): &(Chain, std::result::Result<Span, String>)| match span {
        Ok(span) => json!({
            "chain": chain.number, "node": chain.of.node, "incarnation": chain.of.incarnation,
            "checkpoints": span.checkpoints, "earliest": span.moments.0.0, "latest": span.moments.1.0,
            "latest_about": wall_clock::about(&span.times, span.moments.1), "workers": span.workers,
            "times": span.times.iter().map(|moment| (moment.unix_ms, moment.mark.0)).collect::<Vec<_>>(),
        }),
        Err(why) => json!({"chain": chain.number, "node": chain.of.node, "error": why}),
    };
    json!({"cluster": archive.cluster, "chains": spans.iter().map(chain).collect::<Vec<_>>()})
}
