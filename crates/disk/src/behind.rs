//! A mark on the disk of a node that does not wait for it: until the node has ended in order, the disk may lack what the node accepted
//! last. The mark is an empty file, `behind`; it is there from before the first record is written until all of them are synced and the
//! process is about to end.

use std::io;

use crate::Disk;
use crate::mark::Mark;

const MARK: Mark = Mark("behind");

/// Whether the disk is marked.
///
/// # Errors
/// If the disk refuses.
pub fn is_marked(disk: &impl Disk) -> io::Result<bool> {
    MARK.is_set(disk)
}

/// Marks the disk. The mark is durable once this returns.
///
/// # Errors
/// If the disk refuses.
pub fn mark(disk: &impl Disk) -> io::Result<()> {
    MARK.set(disk)
}

/// All that the node ever accepted is on the disk. To be called once everything is synced, and nothing more will be accepted.
///
/// # Errors
/// If the disk refuses.
pub fn clear(disk: &impl Disk) -> io::Result<()> {
    MARK.clear(disk)
}
