//! The `highwater` command: serve a replica, look at one, see the demo, measure, simulate, judge.

mod args;
mod audit;
mod bench;
mod check;
mod demo;
mod failure;
mod figures;
mod fleet;
mod interrupt;
mod layout;
mod link;
mod load;
mod machine;
mod planted;
mod progress;
mod serve;
mod settle;
mod sim;
mod status;
mod strike;
mod torture;

use std::process::ExitCode;

use clap::Parser;
use highwater_node::admin::protocol;

use args::{Cli, Command};
use failure::Result;

fn main() -> ExitCode {
    // clap answers --help with 0 and a bad command line with 2.
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("highwater: {failure}");
            ExitCode::from(failure.kind.code())
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    if !matches!(cli.command, Command::Serve(_) | Command::TortureNode(_)) {
        // A replica takes care of its signals itself.
        interrupt::guard()?;
    }
    match cli.command {
        Command::Serve(args) => serve::serve(&args),
        Command::Config { action } => serve::config(&action),
        Command::Status(args) => status::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Torture(args) => torture::run(&args),
        Command::TortureNode(args) => torture::node(&args),
        Command::TortureClient(args) => torture::client::run(&args),
        Command::TortureProxy(args) => torture::proxy(&args),
        Command::Sim(args) => sim::run_sim(&args),
        Command::Check(args) => check::run(&args),
    }
}
