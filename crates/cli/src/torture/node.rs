//! `highwater torture-node`: one replica as part of a torture, in its namespace and with its limits.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::args::NodeArgs;
use crate::failure::{Failure, Result};
use crate::serve::serve;

/// Runs the replica, never longer than its parent.
pub fn run(args: &NodeArgs) -> Result<()> {
    // The lifeline does not end a replica that is stopped.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::cannot_start(format!("no signal at the parent's end: {error}")))?;
    limit(Resource::Nofile, args.descriptors)?;
    limit(Resource::As, args.address_space_mb.map(|mb| mb << 20))?;
    if let Some(path) = &args.namespace {
        enter(path)
            .map_err(|error| Failure::cannot_start(format!("cannot enter {}: {error}", path.display())))?;
    }
    serve(&args.serve)
}

/// Nothing that this process does lifts it again.
fn limit(resource: Resource, most: Option<u64>) -> Result<()> {
    let Some(most) = most else { return Ok(()) };
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
        .map_err(|error| Failure::cannot_start(format!("cannot set a limit: {error}")))
}

/// Moves this thread, and those that it will start, into a network namespace.
fn enter(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}
