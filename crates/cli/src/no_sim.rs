//! `highwater sim` in a build without the simulator: says how to build one that has it.

use clap::Args;

use crate::failure::{Failure, Result};

/// `highwater sim`.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// What the simulator would be asked for.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS", hide = true)]
    rest: Vec<String>,
}

/// Refuses.
pub fn run_sim(args: &SimArgs) -> Result<()> {
    let asked = args.rest.join(" ");
    let hint = format!("run: cargo run --release --features sim -- sim {asked}");
    Err(Failure::cannot_start("this build has no simulator, which takes minutes to compile")
        .hint(hint.trim_end()))
}
