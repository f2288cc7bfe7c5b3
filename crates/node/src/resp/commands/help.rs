//! `HELP`, which commands with subcommands answer.

use crate::resp::reply::Reply;

/// What errors about unknown subcommands point to.
pub fn help(command: &str, usages: &[&str], reply: &mut Reply<'_>) {
    reply.array(usages.len() + 2);
    reply.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    usages.iter().chain(&["HELP"]).for_each(|usage| reply.simple(usage));
}
