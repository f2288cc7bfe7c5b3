//! The `highwater` command: serve a replica, look at one, see the demo, measure, simulate, judge.
//!
//! With the feature `lab`: [`bench`](mod@bench), [`torture`] and [`check`]. With the feature `sim`: [`sim`].
//!
//! In layers: a file uses those of its own row and of the rows below, never in a circle.
//!
//! | layer | files |
//! |---|---|
//! | the command line | [`args`] |
//! | commands, each with its flags | [`serve`], [`status`], [`top`], [`watching`], [`hand_over`], [`member`], [`demo`], [`bench`](mod@bench), [`torture`], [`sim`] (with [`planted`]), [`check`], [`checkpoint`], [`log`](mod@log), [`recover`], [`backup`] |
//! | commands that this build lacks | [`absent`] |
//! | what commands do to replicas | [`fleet`] (child processes, laid out by [`layout`]), [`load`] (with [`workload`], [`audit`]), [`failover`], [`verify`], [`counting`] over [`wire`] |
//! | one replica asked, and several together | [`admin`], [`answers`] |
//! | words and numbers | [`failure`], [`flags`], [`founders`], [`numbers`], [`output`], [`progress`], [`report_file`], [`machine`], [`interrupt`], [`wall_clock`] |

#![cfg_attr(
    not(feature = "lab"),
    allow(
        dead_code,
        reason = "the demo uses a part of what it shares with the laboratory; full builds say what nobody uses"
    )
)]

#[cfg(any(test, not(feature = "lab"), not(feature = "sim")))]
mod absent;
mod admin;
mod admin_stream;
mod answers;
mod args;
mod audit;
mod backup;
#[cfg(feature = "lab")]
mod bench;
mod cert;
#[cfg(feature = "lab")]
mod check;
mod checkpoint;
mod counting;
mod demo;
mod disks;
#[cfg(test)]
mod examples;
mod failover;
mod failure;
mod flags;
mod fleet;
mod founders;
mod hand_over;
mod interrupt;
mod layout;
mod load;
mod log;
mod machine;
mod member;
mod numbers;
mod output;
#[cfg(feature = "sim")]
mod planted;
mod progress;
mod recover;
mod reload;
#[cfg(feature = "lab")]
mod report_file;
mod serve;
#[cfg(feature = "sim")]
mod sim;
mod start;
mod status;
mod top;
#[cfg(feature = "lab")]
mod torture;
mod verify;
mod wall_clock;
mod watching;
mod wire;
mod workload;

use std::env::VarError;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use failure::Result;
use highwater_node::config::read_token;

fn main() -> ExitCode {
    // A broken invariant stops the replica. In front of all others that have something to do in a panic.
    highwater_core::contain::stop_on_panic();
    // clap answers --help itself.
    let parsed = Cli::try_parse().map_err(|error| match error.use_stderr() && !shows_help(&error) {
        true => failure::Failure::usage(misuse(&error)),
        false => error.exit(),
    });
    match parsed.and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("highwater: {failure}");
            ExitCode::from(failure.kind.code())
        }
    }
}

/// A command without its subcommand is answered with help.
fn shows_help(error: &clap::Error) -> bool {
    error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// What clap says of a bad command line, in one line: the error and its tip, without the usage, and where to read on.
fn misuse(error: &clap::Error) -> String {
    let text = error.to_string();
    let said =
        text.split("Usage:").next().unwrap_or(&text).split("For more information").next().unwrap_or(&text);
    let said = said.trim().trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}; see `{} --help`", said.replace(" tip:", ";"), named(std::env::args_os().skip(1)))
}

/// The command whose flags these are.
fn named(args: impl Iterator<Item = OsString>) -> String {
    let (mut command, mut name) = (Cli::command(), "highwater".to_string());
    for arg in args {
        let Some(below) = command.find_subcommand(&arg).cloned() else { break };
        name = format!("{name} {}", below.get_name());
        command = below;
    }
    name
}

/// What admin ports are told, where the config does not say it or there is none.
fn take_token(file: Option<&std::path::Path>) -> Result<()> {
    if let Some(file) = file {
        admin::use_token(&read_token(file).map_err(failure::Failure::cannot_start)?.0);
        return Ok(());
    }
    match std::env::var("HIGHWATER_ADMIN_TOKEN") {
        Ok(token) if !token.is_empty() => admin::use_token(&token),
        Ok(_) | Err(VarError::NotPresent) => {}
        Err(VarError::NotUnicode(_)) => {
            let why = "HIGHWATER_ADMIN_TOKEN is no UTF-8; write its value in UTF-8".to_string();
            return Err(failure::Failure::cannot_start(why));
        }
    }
    Ok(())
}

/// A replica takes care of its signals itself.
fn is_replica(command: &Command) -> bool {
    #[cfg(feature = "lab")]
    if matches!(command, Command::TortureNode(_)) {
        return true;
    }
    matches!(command, Command::Serve(_))
}

fn run(cli: Cli) -> Result<()> {
    if !is_replica(&cli.command) {
        interrupt::guard()?;
    }
    cli.tls.apply()?;
    take_token(cli.token_file.as_deref())?;
    match cli.command {
        Command::Top(args) => top::run(&args),
        Command::HotKeys(args) => watching::hot_keys(&args),
        Command::Slow(args) => watching::slow(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Config { action } => serve::config(&action),
        Command::Status(args) => status::run(&args),
        Command::HandOver(args) => hand_over::run(&args),
        Command::Demo(args) => demo::run(&args),
        #[cfg(feature = "lab")]
        Command::Bench(args) => bench::run(args),
        #[cfg(not(feature = "lab"))]
        Command::Bench(args) => absent::refuse("bench", "lab", &args),
        #[cfg(feature = "lab")]
        Command::Torture(args) => torture::run(&args),
        #[cfg(not(feature = "lab"))]
        Command::Torture(args) => absent::refuse("torture", "lab", &args),
        #[cfg(feature = "lab")]
        Command::TortureNode(args) => torture::node::run(&args),
        #[cfg(feature = "lab")]
        Command::TortureClient(args) => torture::client::run(&args),
        #[cfg(feature = "lab")]
        Command::TortureGuest(args) => torture::guest::run(&args),
        #[cfg(feature = "lab")]
        Command::TortureProxy(args) => torture::proxy(&args),
        #[cfg(feature = "sim")]
        Command::Sim(args) => sim::run_sim(&args),
        #[cfg(not(feature = "sim"))]
        Command::Sim(args) => absent::refuse("sim", "sim", &args),
        #[cfg(feature = "lab")]
        Command::Check(args) => check::run(&args),
        #[cfg(not(feature = "lab"))]
        Command::Check(args) => absent::refuse("check", "lab", &args),
        Command::Checkpoint { action } => checkpoint::run(&action),
        Command::Log { action } => log::run(&action),
        Command::Recover(args) => recover::run(&args),
        Command::Backup { action } => backup::run(&action),
        Command::Cert { action } => cert::run(&action),
        Command::Reload(args) => reload::run(&args),
        Command::Member { action } => member::run(&action),
    }
}
