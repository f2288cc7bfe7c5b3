//! `highwater sim planted`: hunts for bugs that were planted on purpose, and says how many seeds each takes.

use clap::Args;

use crate::failure::{Failure, Result};

/// `highwater sim planted`.
#[derive(Clone, Debug, Args)]
#[cfg_attr(not(feature = "planted"), allow(dead_code, reason = "nothing can be done with them"))]
pub struct PlantedArgs {
    /// Only these bugs, by name; repeatable, or separated by commas.
    #[arg(long, value_name = "BUG", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Hunts for each bug, from seeds far apart.
    #[arg(long, default_value_t = 5, value_name = "R", value_parser = clap::value_parser!(u64).range(1..))]
    pub repeats: u64,
    /// Seeds that a hunt may take before the bug counts as missed; each bug's own bound if absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_seeds: Option<u64>,
}

/// Says how to build what can do it.
#[cfg(not(feature = "planted"))]
pub fn run(_: &PlantedArgs) -> Result<()> {
    Err(Failure::usage(
        "this build has no planted bugs in it; run: cargo run --release --features planted -- sim planted",
    ))
}

/// Hunts; prints a line for each bug as soon as its hunts are over.
#[cfg(feature = "planted")]
pub fn run(args: &PlantedArgs) -> Result<()> {
    use highwater_redis_sim::WithDoor;
    use highwater_redis_sim::planted::{all, by_name};
    use highwater_sim::planted::survey;

    let named = |name: &String| {
        let names = || all().iter().map(|bug| bug.name).collect::<Vec<_>>().join(", ");
        by_name(name).ok_or_else(|| Failure::usage(format!("no bug is called {name}; there are {}", names())))
    };
    let mut bugs = args.only.iter().map(named).collect::<Result<Vec<_>>>()?;
    if bugs.is_empty() {
        bugs = all();
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{:22} {:>7} {:>12}  how it shows", "bug", "median", "least..most");
    let (mut missed, mut tainted) = (Vec::new(), 0);
    for bug in &bugs {
        let most = args.max_seeds.unwrap_or(bug.within);
        let row = survey(&WithDoor, bug, args.repeats, most, threads);
        let median = row.median().map_or("-".to_string(), |median| median.to_string());
        let range = match (row.seeds.first(), row.seeds.last()) {
            (Some(least), Some(_)) if (row.seeds.len() as u64) < row.hunts => format!("{least}..>{most}"),
            (Some(least), Some(last)) => format!("{least}..{last}"),
            _ => format!(">{most}"),
        };
        println!("{:22} {median:>7} {range:>12}  {}", bug.name, row.anomaly(150));
        if !row.caught() {
            missed.push(bug.name);
        }
        tainted += row.tainted.len();
        row.tainted.iter().take(3).for_each(|failure| println!("  fails without the bug: {failure}"));
    }
    if !missed.is_empty() {
        return Err(Failure::negative(format!("not caught in every hunt: {}", missed.join(", "))));
    }
    if tainted > 0 {
        return Err(Failure::negative(format!("{tainted} plans fail without any bug planted")));
    }
    println!("all {} planted bugs are caught in every hunt; without them the same plans pass", bugs.len());
    Ok(())
}
