//! Commands that this build lacks: each says which feature has it.

use clap::Args;

use crate::failure::{Failure, Result};

/// The words behind the command.
#[derive(Debug, Args)]
pub struct AbsentArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS", hide = true)]
    rest: Vec<String>,
}

/// Refuses: `command` is in builds with `feature`.
///
/// # Errors
/// Always.
pub fn refuse(command: &str, feature: &str, args: &AbsentArgs) -> Result<()> {
    let asked = args.rest.join(" ");
    let run = format!("run: cargo run --release --features {feature} -- {command} {asked}");
    Err(Failure::usage(words(command, feature)).hint(run.trim_end()))
}

/// Says that `command` is in builds with `feature`.
pub fn words(command: &str, feature: &str) -> String {
    format!("this build has no `{command}`: it comes with the feature `{feature}`")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: AbsentArgs,
    }

    #[test]
    fn a_command_that_is_absent_names_its_feature_whatever_it_is_asked() {
        for asked in ["", "tpcc --engine silo --json x", "--compare"] {
            let words = ["bench"].into_iter().chain(asked.split_whitespace());
            let failure = refuse("bench", "lab", &Command::parse_from(words).args).unwrap_err();
            assert_eq!(failure.kind.code(), 2);
            let wanted = format!("cargo run --release --features lab -- bench {asked}");
            let text = failure.to_string();
            assert!(text.contains("feature `lab`") && text.contains(wanted.trim_end()), "{text}");
        }
    }
}
