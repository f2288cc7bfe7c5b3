//! A mark on the disk of a node that does not wait for it: until the node has ended in order, the disk may lack what the node accepted
//! last. The mark is an empty file, `behind`; it is there from before the first record is written until all of them are synced and the
//! process is about to end.

use std::io;

use crate::{Disk, DiskFile};

const NAME: &str = "behind";

/// Whether the disk is marked.
///
/// # Errors
/// If the disk refuses.
pub fn is_marked(disk: &impl Disk) -> io::Result<bool> {
    Ok(disk.names()?.iter().any(|name| name == NAME))
}

/// Marks the disk. The mark is durable once this returns.
///
/// # Errors
/// If the disk refuses.
pub fn mark(disk: &impl Disk) -> io::Result<()> {
    if !is_marked(disk)? {
        disk.create(NAME, 0)?.sync()?;
    }
    disk.sync_names()
}

/// All that the node ever accepted is on the disk. To be called once everything is synced, and nothing more will be accepted.
///
/// # Errors
/// If the disk refuses.
pub fn clear(disk: &impl Disk) -> io::Result<()> {
    if is_marked(disk)? {
        disk.remove(NAME)?;
        disk.sync_names()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedDisk;

    #[test]
    fn a_mark_survives_until_it_is_cleared() {
        let disk = SimulatedDisk::new(1);
        assert!(!is_marked(&disk).unwrap());
        for _ in 0..2 {
            mark(&disk).unwrap();
            disk.crash();
            assert!(is_marked(&disk).unwrap());
        }
        clear(&disk).unwrap();
        clear(&disk).unwrap();
        disk.crash();
        assert!(!is_marked(&disk).unwrap());
    }
}
