//! A chain's files as a disk, to read: what reads a node's folder reads a chain, wherever it is.

use std::fmt;
use std::io;
use std::sync::Arc;

use highwater_disk::journal::segment_number;
use highwater_disk::{Disk, DiskFile};

use super::place::{Place, PlaceFile};

/// The files of a chain. Files can be removed; whatever else would change them fails.
#[derive(Clone, Debug)]
pub struct ChainDisk {
    place: Arc<dyn Place>,
    folder: String,
}

impl ChainDisk {
    /// Of the chain in this folder of a place.
    pub(super) fn new(place: Arc<dyn Place>, folder: String) -> ChainDisk {
        ChainDisk { place, folder }
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// What there is at the moment. Two that are equal have nothing copied between them, or nothing but a piece of a checkpoint.
    ///
    /// # Errors
    /// Of the place.
    pub fn glance(&self) -> io::Result<Glance> {
        // What cannot be opened says why to whoever reads it.
        let len = |name: &str| self.open(name).and_then(|file| file.len()).unwrap_or(0);
        let grows = |name: &str| segment_number(name).is_some();
        let names = self.names()?.into_iter();
        let mut files: Vec<(String, u64)> =
            names.map(|name| (name.clone(), if grows(&name) { len(&name) } else { 0 })).collect();
        files.sort();
        Ok(Glance(files))
    }

    /// Whether another process may be writing to the archive, to this chain or to another one.
    ///
    /// # Errors
    /// Of the place.
    pub fn may_be_written(&self) -> io::Result<bool> {
        self.place.is_claimed()
    }
}

/// A chain's files, and how long those are that grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance(Vec<(String, u64)>);

impl fmt::Display for ChainDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.place.name(), self.folder)
    }
}

impl Disk for ChainDisk {
    type File = OpenFile;

    fn names(&self) -> io::Result<Vec<String>> {
        self.place.files(&self.folder)
    }

    fn create(&self, _: &str, _: u64) -> io::Result<OpenFile> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, name: &str) -> io::Result<OpenFile> {
        self.place.open(&self.path(name)).map(OpenFile)
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.place.remove(&self.path(name))
    }

    /// A place makes each change last by itself.
    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A file of a [`ChainDisk`].
pub struct OpenFile(Box<dyn PlaceFile>);

impl DiskFile for OpenFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
