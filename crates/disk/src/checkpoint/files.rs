//! Reading of files, with errors that name file and offset.

use super::error::Error;
use crate::disk::{Disk, DiskFile};

/// Reads exactly `buffer.len()` bytes at `offset`; a file that ends before is damaged.
pub(super) fn read_exact(
    file: &impl DiskFile,
    name: &str,
    offset: u64,
    buffer: &mut [u8],
) -> Result<(), Error> {
    let read = file.read_at(offset, buffer).map_err(Error::io(name, "read"))?;
    if read < buffer.len() {
        return Err(Error::damaged(name, offset + read as u64, "it ends there"));
    }
    Ok(())
}

/// Reads a file of at most `most` bytes.
pub(super) fn read_whole(disk: &impl Disk, name: &str, most: usize) -> Result<Vec<u8>, Error> {
    let file = disk.open(name).map_err(Error::io(name, "open"))?;
    let len = file.len().map_err(Error::io(name, "read the length"))?;
    if len > most as u64 {
        return Err(Error::damaged(name, most as u64, format!("{len} bytes are more than it can have")));
    }
    let mut bytes = vec![0; len as usize];
    read_exact(&file, name, 0, &mut bytes)?;
    Ok(bytes)
}
