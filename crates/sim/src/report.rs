//! One page about a failed run: what is wrong, how to see it again, what was going on.

use std::fmt::Write as _;

use crate::plan::Plan;
use crate::run::Failure;

/// The page. `first` is the failure of the drawn plan, `small` of the shrunk one if it was shrunk; `file` is where its plan
/// is saved.
pub fn page(first: &Failure, small: Option<(&Failure, u32)>, file: Option<&str>) -> String {
    let mut text = String::new();
    let seed = first.plan.seed;
    let _ = writeln!(text, "SEED {seed} FAILED: {}", first.kind);
    let _ = writeln!(text, "at {:.3} ms: {}\n", first.at as f64 / 1e6, first.what);
    let _ = writeln!(
        text,
        "reproduce: highwater sim --seed {seed} --engine {}   (same build)",
        first.plan.engine
    );
    if let Some(file) = file {
        let _ = writeln!(text, "      or: highwater sim --plan {file}");
    }
    let _ = writeln!(text, "\nplan: {}", describe(&first.plan));
    let told = match small {
        None => first,
        Some((small, tried)) => {
            let _ = writeln!(text, "\nshrunk in {tried} runs: {}", describe(&small.plan));
            for fault in &small.plan.faults {
                let (at, length) = (fault.at_ns as f64 / 1e6, fault.for_ns as f64 / 1e6);
                let _ = writeln!(text, "{at:>10.3} ms for {length:.3} ms: {:?}", fault.fault);
            }
            let _ = writeln!(text, "it fails at {:.3} ms: {}", small.at as f64 / 1e6, small.what);
            small
        }
    };
    let _ = write!(text, "\n{}", told.story);
    text
}

/// A plan in a line or two.
pub fn describe(plan: &Plan) -> String {
    let load = &plan.load;
    let [lists, rows, registers, toggles, bank, audit, blobs, glances] = load.mix.weights();
    let choices: Vec<String> = plan.choices.iter().map(|(name, rate)| format!("{name} 1/{rate}")).collect();
    format!(
        "{}, {} replicas, {} workers, {} ms with {} faults; {} transactions of up to {} operations by {} clients on \
         {} keys (lists {lists}, rows {rows}, registers {registers}, toggles {toggles}, bank {bank}, audit {audit}, glances {glances}, \
         blobs {blobs} of up to {} bytes); faults from {} on; interruptions {}; rare choices: {}; {:?}; {:?}; {:?}; guests: {}",
        plan.engine,
        plan.replicas,
        plan.workers,
        plan.length_ns / 1_000_000,
        plan.faults.len(),
        load.transactions,
        load.operations,
        load.clients,
        load.keys,
        load.sizes.largest,
        if plan.from_birth { "birth" } else { "the first leader" },
        plan.interleaving.map_or("none".into(), |how| {
            let controllers = if how.controllers { ", of controllers too" } else { "" };
            format!("one in {}{controllers}", how.one_in)
        }),
        if choices.is_empty() { "none".into() } else { choices.join(", ") },
        plan.settings,
        plan.transport,
        plan.machines,
        plan.redis.map_or("none".into(), |redis| format!("{redis:?}")),
    )
}
