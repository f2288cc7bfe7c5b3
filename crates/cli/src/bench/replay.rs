//! `highwater bench replay`: the Rolis paper's figure 15. (in progress)

use super::args::ReplayArgs;
use crate::failure::Result;

/// Runs it.
pub fn run(_args: &ReplayArgs) -> Result<()> {
    Ok(())
}
