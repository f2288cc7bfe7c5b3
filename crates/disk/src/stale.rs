//! A mark on a disk that is known to have [forgotten](highwater_core::evidence): whoever opens it next begins another life, be it the process
//! that was told so, which goes on, or another one later. The mark is an empty file, `stale`; it is there until that life's identity is.

use std::io;

use crate::Disk;
use crate::mark::Mark;

const MARK: Mark = Mark("stale");

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

/// Another life has begun.
///
/// # Errors
/// If the disk refuses.
pub fn clear(disk: &impl Disk) -> io::Result<()> {
    MARK.clear(disk)
}
