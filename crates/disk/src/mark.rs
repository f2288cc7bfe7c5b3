//! Marks on a disk: empty files, whose names are all that they say.

use std::io;

use crate::{Disk, DiskFile};

/// Such a file, by its name.
pub(crate) struct Mark(pub(crate) &'static str);

impl Mark {
    pub(crate) fn is_set(&self, disk: &impl Disk) -> io::Result<bool> {
        Ok(disk.names()?.iter().any(|name| name == self.0))
    }

    /// It is durable once this returns.
    pub(crate) fn set(&self, disk: &impl Disk) -> io::Result<()> {
        if !self.is_set(disk)? {
            disk.create(self.0, 0)?.sync()?;
        }
        disk.sync_names()
    }

    pub(crate) fn clear(&self, disk: &impl Disk) -> io::Result<()> {
        if self.is_set(disk)? {
            disk.remove(self.0)?;
            disk.sync_names()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedDisk;

    #[test]
    fn a_mark_survives_until_it_is_cleared() {
        const MARK: Mark = Mark("mark");
        let disk = SimulatedDisk::new(1);
        assert!(!MARK.is_set(&disk).unwrap());
        for _ in 0..2 {
            MARK.set(&disk).unwrap();
            disk.crash();
            assert!(MARK.is_set(&disk).unwrap());
        }
        MARK.clear(&disk).unwrap();
        MARK.clear(&disk).unwrap();
        disk.crash();
        assert!(!MARK.is_set(&disk).unwrap());
    }
}
