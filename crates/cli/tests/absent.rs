//! Commands that a build lacks say which feature has them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use assert_cmd::Command;

/// Commands, whether this build has them, and the feature that has them.
const COMMANDS: [(&str, bool, &str); 4] = [
    ("bench", cfg!(feature = "lab"), "lab"),
    ("torture", cfg!(feature = "lab"), "lab"),
    ("check", cfg!(feature = "lab"), "lab"),
    ("sim", cfg!(feature = "sim"), "sim"),
];

/// Runs the command; returns its exit code and what it said.
fn highwater(args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_highwater")).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn a_command_that_this_build_lacks_names_the_feature_that_has_it() {
    for (command, built, feature) in COMMANDS {
        if built {
            let (code, text) = highwater(&[command, "--help"]);
            assert!(code == 0 && !text.contains("this build has no"), "{command}: {text}");
            continue;
        }
        for asked in [&[][..], &["tpcc", "--no-such-flag", "-1"], &["--help"]] {
            let (code, text) = highwater(&[&[command], asked].concat());
            assert!(code == 2 && text.lines().count() == 1, "{command}: {code}: {text}");
            let hint = format!("cargo run --release --features {feature} -- {command}");
            assert!(text.contains(&format!("the feature `{feature}`")) && text.contains(&hint), "{text}");
        }
    }
}
