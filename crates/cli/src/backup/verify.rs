//! `highwater backup verify`.

use highwater_node::storage::archive::{Archive, Chain};
use serde_json::json;

use super::args::VerifyArgs;
use super::look::span;
use super::moment::{Spanned, Unfinished, find_among, others, state, words_of_others};
use super::place::place;
use crate::checkpoint;
use crate::failure::{Failure, Result};
use crate::output::print;
use crate::progress::Progress;
use crate::wall_clock::Bounds;

/// Runs the command.
pub fn run(args: &VerifyArgs) -> Result<()> {
    let mut progress = Progress::new();
    let archive = Archive::open(place(&args.archive, args.store.patience)?).map_err(Failure::unreadable)?;
    let chains = archive.chains().map_err(Failure::unreadable)?;
    if chains.is_empty() {
        return Err(Failure::unreadable("the archive is empty"));
    }
    let (mut damage, mut number) = (Vec::new(), 0);
    let mut unfinished: Vec<(u32, Unfinished)> = Vec::new();
    let mut spanned = Vec::new();
    for chain in chains {
        progress.step(&format!("chain {}", chain.number));
        let (damaged, span) = damage_of(&chain, &mut progress)?;
        if chain.is_gone() {
            progress.clear();
            eprintln!("highwater: chain {} was removed meanwhile", chain.number);
            continue;
        }
        if let Some(copy) = unfinished_copy(&span) {
            unfinished.push((chain.number, copy));
            // Whoever wants that one is told why it has no moment yet.
            if copy.is_first() && damaged.is_empty() && args.moment.chain != Some(chain.number) {
                continue;
            }
        }
        number += 1;
        damage.extend(damaged);
        spanned.push((chain, Some(span)));
    }
    if let (Some((begun, copy)), 0) = (unfinished.last(), number) {
        let why = format!("there is nothing to verify yet: of chain {begun} {}", copy.words());
        return Err(Failure::negative(why));
    }
    progress.step("computing the state of the moment");
    let found = find_among(spanned, &args.moment, &mut progress);
    let state = found.and_then(|found| {
        let bounds = Bounds::of(&found.span.times, found.moment);
        let besides = (found.chain.number, others(&found), words_of_others(&found));
        Ok((found.moment, bounds, state(&found).map_err(Failure::negative)?, besides))
    });
    progress.clear();
    drop(progress);
    let (moment, digest, rows) = match &state {
        Ok((moment, _, (store, _), _)) => {
            let digest = store.digest();
            (Some(moment.0), Some(format!("{:032x}", digest.hash)), digest.rows.iter().sum::<u64>())
        }
        Err(_) => (None, None, 0),
    };
    let text = if args.json {
        let numbers = |goes_on| {
            unfinished.iter().filter(move |(_, copy)| copy.goes_on() == goes_on).map(|(number, _)| *number)
        };
        let report = json!({
            "whole": damage.is_empty(), "chains": number, "damage": damage, "moment": moment, "digest": digest,
            "rows": rows, "under_way": numbers(true).next(), "given_up": numbers(false).collect::<Vec<_>>(),
            "chain": state.as_ref().ok().map(|(.., besides)| besides.0),
            "others": state.as_ref().ok().map(|(.., besides)| &besides.1),
        });
        report.to_string() + "\n"
    } else {
        let mut text: String = damage.iter().map(|why| format!("DAMAGED   {why}\n")).collect();
        let words = |(number, copy): &(u32, Unfinished)| {
            format!("{:<9} chain {number}: {}\n", copy.heading(), copy.words())
        };
        text.extend(unfinished.iter().map(words));
        if let (Some(moment), Some(digest)) = (moment, &digest) {
            let (bounds, of, others) =
                state.as_ref().map_or((String::new(), 0, ""), |(_, bounds, _, besides)| {
                    (bounds.words(), besides.0, &besides.2)
                });
            text.push_str(&format!(
                "moment    {moment}{bounds}, of chain {of}: {rows} rows\n{others}digest    {digest}\n"
            ));
        }
        if damage.is_empty() && state.is_ok() {
            text.push_str(&format!("verdict   {number} chain(s), whole\n"));
        }
        text
    };
    print(&text)?;
    if !damage.is_empty() {
        return Err(Failure::negative(format!(
            "{} part(s) of the archive are damaged or missing",
            damage.len()
        )));
    }
    state.map(drop)
}

/// What is wrong with a chain's files, and what can be restored of it.
fn damage_of(chain: &Chain, progress: &mut Progress) -> Result<(Vec<String>, Spanned)> {
    let mut damage = checkpoint::damage_of(&chain.disk, progress).map_err(Failure::unreadable)?;
    progress.step(&format!("journal of chain {}", chain.number));
    // That reads the whole journal. Without a checkpoint that is damaged nothing may lead to a moment.
    let span = span(chain, progress);
    match &span {
        span if unfinished_copy(span).is_some() => {}
        Err(unusable) if !damage.iter().any(|said| unusable.why.contains(said)) => {
            damage.push(unusable.why.clone());
        }
        Err(_) => {}
        Ok(span) => {
            let (earliest, latest) = span.moments;
            let left =
                format!("what is left can be restored from {} to {} (--timestamp)", earliest.0, latest.0);
            damage.extend(span.lacks.words().into_iter().map(|why| format!("{why}; {left}")));
        }
    }
    Ok((damage.into_iter().map(|why| format!("{}: {why}", chain.disk)).collect(), span))
}

fn unfinished_copy(span: &Spanned) -> Option<Unfinished> {
    match span {
        Ok(span) => span.unfinished,
        Err(unusable) => unusable.unfinished,
    }
}
