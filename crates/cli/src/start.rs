//! Tells what a node would do with its folder, for the commands that look at a part of it.

use std::path::Path;

use highwater_disk::Identity;
use highwater_node::storage::DataDirectory;
use highwater_node::storage::survey::{Nothing, Survey, is_readable};

/// Whether the node of a folder starts, and from which state, in words. `None`: the folder is no node's (a chain of an archive, say), or a node
/// has it at the moment, or its records are not ours to read.
pub fn words(dir: &Path) -> Option<String> {
    let directory = DataDirectory::read_only(dir).ok()?;
    let is_nodes = Identity::read(&directory).is_ok_and(|identity| identity.is_some());
    if !is_nodes || directory.is_locked().unwrap_or(true) || is_readable(&directory).is_err() {
        return None;
    }
    Some(match Survey::of(dir) {
        Ok(survey) => survey.words(),
        Err(Nothing { why, refuses: Some(_), .. }) => format!("the node does not start: {why}"),
        Err(Nothing { why, refuses: None, .. }) => format!("nothing is left of what the node was: {why}"),
    })
}
