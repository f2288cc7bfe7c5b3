//! What was done to the cluster, and when: on the clock of the history.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use super::schedule::FaultKind;
use crate::failure::{Failure, Result};

/// Of its own kind, so that a directory of histories holds nothing else under the suffix.
const EVENTS: &str = "faults.json";

/// A fault that was done.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// What kind.
    pub kind: FaultKind,
    /// What exactly.
    pub what: String,
    /// When it began, on `CLOCK_MONOTONIC` in nanoseconds.
    pub from_ns: u64,
    /// When it was healed; 0 until then.
    pub to_ns: u64,
    /// How often the lead went to another replica meanwhile; without a leader, how often the epoch changed.
    pub leader_changes: u64,
}

/// Changes of the lead by kind.
pub fn leader_changes(events: &[Event]) -> BTreeMap<FaultKind, u64> {
    let mut changes = BTreeMap::new();
    for event in events {
        *changes.entry(event.kind).or_default() += event.leader_changes;
    }
    changes
}

/// Faults by kind.
pub fn count_by_kind(events: &[Event]) -> BTreeMap<FaultKind, u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        *counts.entry(event.kind).or_default() += 1;
    }
    counts
}

/// Leaves the faults beside the history: the same clock.
pub fn write(directory: &Path, events: &[Event]) -> Result<()> {
    let path = directory.join(EVENTS);
    let write = || {
        let mut file = BufWriter::new(File::create(&path)?);
        for event in events {
            serde_json::to_writer(&mut file, event)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(|error| Failure::negative(format!("cannot write {}: {error}", path.display())))
}
