//! Ballast: room that a node has of its disk before it needs it, in files of their full length, so that a full disk can be emptied by
//! what the node itself can do.
//!
//! What makes room is a checkpoint: the journal before it may go. But a checkpoint takes room, and what it relies on has to be synced
//! first, which takes some of the journal. So there is a file for each, and when it is needed it *becomes* the file that is to be
//! written, by another name: nobody who shares the disk gets at the room in between.

use std::io;

use crate::disk::lacks_for_now;
use crate::{Disk, DiskFile};

/// What room is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ballast {
    /// A segment of the journal.
    Segment,
    /// All records of a checkpoint.
    Checkpoint,
    /// What makes a checkpoint of them.
    Manifest,
    /// What a node writes of [itself](crate::Identity) when it starts.
    Identity,
}

/// Of all kinds.
const ALL: [Ballast; 4] = [Ballast::Segment, Ballast::Checkpoint, Ballast::Manifest, Ballast::Identity];
/// More than this is given back where it is not needed any more.
const IDLE_BYTES: u64 = 64 << 20;
/// What tells one file from another stands in its first block.
const HEAD_BYTES: usize = 4096;

impl Ballast {
    fn name(self) -> &'static str {
        match self {
            Ballast::Segment => "ballast-segment",
            Ballast::Checkpoint => "ballast-checkpoint",
            Ballast::Manifest => "ballast-manifest",
            Ballast::Identity => "ballast-identity",
        }
    }

    /// Makes sure that so many bytes are held, and not many more.
    ///
    /// # Errors
    /// If the disk refuses, or is full: what was held is held.
    pub fn hold(self, disk: &impl Disk, len: u64) -> io::Result<()> {
        let mut file = match disk.open(self.name()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return disk.create(self.name(), len).map(drop);
            }
            Err(error) => return Err(error),
        };
        let held = file.len()?;
        match held < len {
            true => file.grow(len),
            false if held > 2 * len + IDLE_BYTES => file.set_len(len),
            false => Ok(()),
        }
    }

    /// The room becomes a new file of this name, as long as what was held, of which nothing counts before it is written; `None` if
    /// nothing is held, or it cannot be opened for now. The name is made to last by whoever writes the file.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn become_file<D: Disk>(self, disk: &D, name: &str) -> io::Result<Option<D::File>> {
        let mut file = match disk.open(self.name()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound || lacks_for_now(&error) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if file.len()? < HEAD_BYTES as u64 {
            disk.remove(self.name())?;
            return Ok(None);
        }
        // It may have been such a file before, if a crash took the name away.
        file.write_at(0, &[0; HEAD_BYTES])?;
        file.sync()?;
        disk.rename(self.name(), name)?;
        Ok(Some(file))
    }

    /// What was made of it comes to nothing, and is ballast again.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn take_back(self, disk: &impl Disk, name: &str) -> io::Result<()> {
        disk.rename(name, self.name())
    }
}

/// Bytes that are held in all.
///
/// # Errors
/// If the disk refuses.
pub fn held(disk: &impl Disk) -> io::Result<u64> {
    let len = |ballast: Ballast| match disk.open(ballast.name()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        file => file?.len(),
    };
    ALL.into_iter().map(len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedDisk;

    /// Once: on a disk full of journal no checkpoint could be written: as many bytes were asked for as the store takes in
    /// memory, though it needed a hundredth of that; and the journal had left nothing.
    #[test]
    fn room_that_is_held_is_there_on_a_full_disk_and_nowhere_else() {
        let disk = SimulatedDisk::new(1);
        disk.set_capacity(Some(40_000));
        Ballast::Segment.hold(&disk, 20_000).unwrap();
        Ballast::Checkpoint.hold(&disk, 10_000).unwrap();
        let refused = Ballast::Checkpoint.hold(&disk, 30_000).unwrap_err();
        assert_eq!((refused.kind(), held(&disk).unwrap()), (io::ErrorKind::StorageFull, 30_000));
        // Somebody else takes the rest.
        disk.create("filler", 10_000).unwrap();
        let mut file = Ballast::Segment.become_file(&disk, "segment").unwrap().unwrap();
        file.write_at(0, &[7; 20_000]).unwrap();
        assert!(file.write_at(20_000, b"x").is_err());
        assert_eq!((disk.free_bytes().unwrap(), held(&disk).unwrap()), (0, 10_000));
        assert!(Ballast::Segment.become_file(&disk, "other").unwrap().is_none());
        assert!(Ballast::Segment.hold(&disk, 20_000).is_err());
        disk.remove("filler").unwrap();
        Ballast::Checkpoint.hold(&disk, 20_000).unwrap();
        assert_eq!(held(&disk).unwrap(), 20_000);
    }

    #[test]
    fn what_becomes_a_file_begins_as_none_whatever_it_was() {
        let disk = SimulatedDisk::new(1);
        disk.replace("ballast-segment", &[7; 10_000]);
        let file = Ballast::Segment.become_file(&disk, "segment").unwrap().unwrap();
        let mut head = [9; HEAD_BYTES];
        file.read_at(0, &mut head).unwrap();
        assert_eq!((head, file.len().unwrap()), ([0; HEAD_BYTES], 10_000));
        disk.crash();
        // Whichever name survived, nothing of what it was does.
        let names = disk.names().unwrap();
        assert_eq!(names.len(), 1);
        assert_eq!(disk.bytes_of(&names[0]).unwrap()[..HEAD_BYTES], [0; HEAD_BYTES]);
    }

    #[test]
    fn a_file_grows_as_a_whole_or_not_at_all() {
        let disk = SimulatedDisk::new(1);
        disk.set_capacity(Some(3 << 20));
        let mut file = disk.create("file", 10).unwrap();
        assert!(file.grow(4 << 20).is_err());
        assert_eq!(file.len().unwrap(), 10);
        file.grow(2 << 20).unwrap();
        file.grow(5).unwrap();
        assert_eq!(file.len().unwrap(), 2 << 20);
    }

    #[test]
    fn much_that_is_not_needed_any_more_is_given_back() {
        let disk = SimulatedDisk::new(1);
        Ballast::Checkpoint.hold(&disk, 2 * IDLE_BYTES).unwrap();
        Ballast::Checkpoint.hold(&disk, IDLE_BYTES).unwrap();
        assert_eq!(held(&disk).unwrap(), 2 * IDLE_BYTES);
        Ballast::Checkpoint.hold(&disk, 1000).unwrap();
        assert_eq!(held(&disk).unwrap(), 1000);
    }
}
