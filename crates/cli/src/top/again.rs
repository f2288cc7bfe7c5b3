//! `highwater top` in a build without the feature `tui`: the table, anew every second, until interrupted.

use std::io::{IsTerminal, stdout};
use std::thread;

use super::LOOK_EVERY;
use super::look::{Looks, Node, all_silent};
use super::view::text;
use crate::failure::Result;
use crate::output::print;

/// Clears a terminal.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Prints until interrupted. Elsewhere than on a terminal a table follows the other.
pub fn show(looks: &mut Looks, first: Vec<Node>) -> Result<()> {
    let clear = if stdout().is_terminal() { CLEAR } else { "" };
    let mut nodes = first;
    loop {
        print(&format!("{clear}{}", text(&nodes)))?;
        thread::sleep(LOOK_EVERY);
        // Whoever is asked may be gone for a while: what was seen last stays, and says so.
        nodes = looks.look().unwrap_or_else(|failure| all_silent(nodes, &failure.to_string()));
    }
}
