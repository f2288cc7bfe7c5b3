//! Where an archive is: the few things that it asks of a folder of a file system, or of a store of objects.
//!
//! A file of an archive is named by a path, `archive.json` or `chain-0001/journal-0000000000000001`. Nothing is ever changed but the end of
//! the newest journal file. So a place needs no writing in the middle, and no renaming.

use std::fmt::Debug;
use std::io;

use highwater_disk::DiskFile;

use crate::storage::directory::DirectoryFile;

/// A place for an archive. Calls block.
///
/// # What is there after a crash
///
/// - of what was [published](Place::publish) or [stored](Place::store) all or nothing, unless it was stored half: then what is there has
///   no manifest yet, and does not count;
/// - of a journal file what it had before it was [extended](Place::extend), and a beginning of what followed;
/// - each of them surely once its call has returned.
pub trait Place: Debug + Send + Sync {
    /// As people write it.
    fn name(&self) -> String;

    /// Takes it for this process alone to write to, until this is dropped; makes it, if it is made by being used. Nothing may be written
    /// before.
    ///
    /// # Errors
    /// In words: another process has it, or it is out of reach.
    fn claim(&self) -> Result<(), String>;

    /// Finds out anew whether this process still has it, and forgets what it believed to be there. To be asked right before something is written
    /// that makes other files count: a process that stood still (a machine that was paused) may have been taken for dead, and those files been
    /// removed as nobody's.
    ///
    /// # Errors
    /// Another process has taken it over; or the place is out of reach.
    fn confirm(&self) -> io::Result<()>;

    /// Whether another process may be writing to it: one has it, and is not known to be gone.
    fn is_claimed(&self) -> io::Result<bool>;

    /// What there is at the top, files and folders, but for what the claim needs.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The names of a folder's files; none if there is no such folder.
    fn files(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Opens a file to read.
    ///
    /// # Errors
    /// [`NotFound`](io::ErrorKind::NotFound).
    fn open(&self, path: &str) -> io::Result<Box<dyn PlaceFile>>;

    /// A small new file, and the folder that it is in; whole or not at all.
    ///
    /// # Errors
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists); nothing is changed then.
    fn publish(&self, path: &str, bytes: &[u8]) -> io::Result<()>;

    /// A large file, from its beginning to its end. One of that name is replaced: nobody counts on it.
    fn store(&self, path: &str, source: Source<'_>) -> io::Result<()>;

    /// Bytes for a file that is there up to where they begin, at least; it ends where they end. A file that is not there begins with them.
    fn extend(&self, path: &str, source: Source<'_>) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &str) -> io::Result<()>;
}

/// An open file of a place.
pub trait PlaceFile: Send {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads at `offset`; how many bytes, fewer than asked for only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// The whole of a small file; `None` if there is none.
///
/// # Errors
/// Of the place; [`InvalidData`](io::ErrorKind::InvalidData) if it is not small.
pub fn read_small(place: &dyn Place, path: &str) -> io::Result<Option<Vec<u8>>> {
    const MOST: u64 = 64 << 10;
    let file = match place.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let len = file.len()?;
    if len > MOST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{len} bytes are too many")));
    }
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// A piece of a node's file, to be copied.
pub struct Source<'a> {
    file: &'a DirectoryFile,
    at: u64,
    end: u64,
    /// Told how many bytes more were read;
    told: &'a mut dyn FnMut(u64),
    /// up to here it was.
    told_to: u64,
}

impl<'a> Source<'a> {
    /// From one offset to another.
    pub fn new(file: &'a DirectoryFile, (at, end): (u64, u64), told: &'a mut dyn FnMut(u64)) -> Source<'a> {
        assert!(at <= end, "{at} is not behind {end}");
        Source { file, at, end, told, told_to: at }
    }

    /// Where the next byte stands in the file.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Where it ends in the file.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Goes back, so that bytes in front of it are read, too.
    pub fn back_to(&mut self, at: u64) {
        assert!(at <= self.at, "{at} is not in front of {}", self.at);
        self.at = at;
    }

    /// The next bytes: so many, fewer at the end, and none behind it.
    ///
    /// # Errors
    /// The node's disk's; [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the file is shorter.
    pub fn next(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (self.end - self.at).min(most as u64) as usize];
        if DiskFile::read_at(self.file, self.at, &mut bytes)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += bytes.len() as u64;
        if self.at > self.told_to {
            (self.told)(self.at - self.told_to);
            self.told_to = self.at;
        }
        Ok(bytes)
    }
}
