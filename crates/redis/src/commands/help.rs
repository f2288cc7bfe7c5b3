//! `HELP`, which commands with subcommands answer.

use crate::reply::Reply;

/// What errors about unknown subcommands point to.
pub fn help(command: &str, usages: &[&str], reply: &mut Reply<'_>) {
    reply.array(usages.len() + 2);
    reply.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    usages.iter().chain(&["HELP"]).for_each(|usage| reply.simple(usage));
}

/// The same in Redis's own words: lines as they stand.
pub fn full(command: &str, lines: &[&str], reply: &mut Reply<'_>) {
    reply.array(lines.len() + 3);
    reply.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().chain(&["HELP", "    Prints this help."]).for_each(|line| reply.simple(line));
}
