//! A folder of the file system as a place for an archive: its files have the names and the bytes that they have in the node's folder.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use highwater_disk::{Disk, DiskFile};

use super::place::{Place, PlaceFile, Source};
use crate::storage::directory::{DataDirectory, DirectoryError, DirectoryFile};

/// Of whoever writes to a folder.
const LOCK: &str = "lock";
/// A file, or a folder, that has no name yet.
const NEW: &str = "new";
/// At the root of a file system.
const LOST_AND_FOUND: &str = "lost+found";
/// What a store of objects has in the names of a file's later pieces.
const PIECE_OF_AN_OBJECT: &str = ".at-";
/// Bytes copied at once.
const PIECE: usize = 1 << 20;

#[derive(Debug)]
pub struct FolderPlace {
    path: PathBuf,
    /// While this process writes to it.
    lock: Mutex<Option<DataDirectory>>,
}

impl FolderPlace {
    /// This one, which need not be there.
    pub fn new(path: impl Into<PathBuf>) -> FolderPlace {
        FolderPlace { path: path.into(), lock: Mutex::new(None) }
    }

    /// The folder that a path leads to, and the name of the file in it.
    fn parts<'a>(&self, path: &'a str) -> (PathBuf, &'a str) {
        match path.split_once('/') {
            Some((folder, name)) => (self.path.join(folder), name),
            None => (self.path.clone(), path),
        }
    }

    fn assert_claimed(&self) {
        let claimed = self.lock.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        assert!(claimed, "only who has it for itself writes to an archive");
    }

    fn write(&self, path: &str, mut source: Source<'_>) -> io::Result<()> {
        self.assert_claimed();
        let (folder, name) = self.parts(path);
        let directory = DataDirectory::open(folder).map_err(io::Error::other)?;
        let mut file = match directory.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => directory.create(name, 0)?,
            opened => opened?,
        };
        while source.at() < source.end() {
            let at = source.at();
            file.write_at(at, &source.next(PIECE)?)?;
        }
        file.set_len(source.end())?;
        file.sync()?;
        directory.sync_names()
    }
}

impl Place for FolderPlace {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn claim(&self) -> Result<(), String> {
        let lock = DataDirectory::open(&self.path).map_err(|error| match error {
            DirectoryError::Locked { .. } => {
                format!("{} is being written to by another process: one at a time", self.name())
            }
            error => error.to_string(),
        })?;
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock);
        Ok(())
    }

    /// A lock does not time out. But somebody may remove its file, and another process make a new one.
    fn confirm(&self) -> io::Result<()> {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = lock.as_ref().expect("only who has it for itself writes to an archive").why_lost()?;
        lost.map_or(Ok(()), |why| Err(io::Error::other(why)))
    }

    fn is_claimed(&self) -> io::Result<bool> {
        DataDirectory::read_only(&self.path).map_err(io::Error::other)?.is_locked()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            // What an interrupted beginning left is nobody's, and a file system of its own begins with a folder for what `fsck` finds.
            if name != LOCK && name != LOST_AND_FOUND && Path::new(&name).extension() != Some(OsStr::new(NEW))
            {
                names.push(name.to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn files(&self, folder: &str) -> io::Result<Vec<String>> {
        let path = self.path.join(folder);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let names = DataDirectory::read_only(path).map_err(io::Error::other)?.names()?;
        match names.iter().find(|name| name.contains(PIECE_OF_AN_OBJECT)) {
            Some(name) => Err(io::Error::other(format!(
                "{name} is a piece of a file: this was copied from a store of objects, and is read by its URL there"
            ))),
            None => Ok(names),
        }
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn PlaceFile>> {
        let (folder, name) = self.parts(path);
        if !folder.exists() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let directory = DataDirectory::read_only(folder).map_err(io::Error::other)?;
        Ok(Box::new(directory.open(name)?))
    }

    /// Under another name first; so is a folder that is made for it: without its first file it would be nobody's.
    fn publish(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.assert_claimed();
        let (folder, name) = self.parts(path);
        if folder.join(name).exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if folder.exists() {
            return write_whole(&folder, name, bytes);
        }
        let new = folder.with_extension(NEW);
        if new.exists() {
            fs::remove_dir_all(&new)?;
        }
        fs::create_dir_all(&new)?;
        write_whole(&new, name, bytes)?;
        fs::rename(&new, &folder)?;
        fs::File::open(&self.path)?.sync_all()
    }

    fn store(&self, path: &str, source: Source<'_>) -> io::Result<()> {
        self.write(path, source)
    }

    fn extend(&self, path: &str, source: Source<'_>) -> io::Result<()> {
        self.write(path, source)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.assert_claimed();
        let (folder, name) = self.parts(path);
        fs::remove_file(folder.join(name))
    }
}

impl PlaceFile for DirectoryFile {
    fn len(&self) -> io::Result<u64> {
        DiskFile::len(self)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        DiskFile::read_at(self, offset, buffer)
    }
}

fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (new, path) = (folder.join(format!("{name}.{NEW}")), folder.join(name));
    fs::write(&new, bytes)?;
    fs::File::open(&new)?.sync_all()?;
    fs::rename(&new, &path)?;
    fs::File::open(folder)?.sync_all()
}
