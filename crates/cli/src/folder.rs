//! A node's folder, to look into: whatever would change it is refused, so the node may be running meanwhile.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use highwater_disk::{Disk, DiskFile};

/// The files of a directory, for reading.
#[derive(Debug)]
pub struct Folder(PathBuf);

/// One of them.
#[derive(Debug)]
pub struct FolderFile(File);

impl Folder {
    /// The directory at this path; whether there is one shows when it is read.
    pub fn new(path: &Path) -> Folder {
        Folder(path.to_path_buf())
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is open for reading only"))
}

impl Disk for Folder {
    type File = FolderFile;

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        // A name that is no text is none of ours.
        entries.filter_map(Result::transpose).collect()
    }

    fn create(&self, _: &str, _: u64) -> io::Result<FolderFile> {
        refused()
    }

    fn open(&self, name: &str) -> io::Result<FolderFile> {
        File::open(self.0.join(name)).map(FolderFile)
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        refused()
    }

    fn sync_names(&self) -> io::Result<()> {
        refused()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }
}

impl DiskFile for FolderFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.0.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(some) => read += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        refused()
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        refused()
    }

    fn sync(&mut self) -> io::Result<()> {
        refused()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_and_never_changed() {
        let temporary = tempfile::tempdir().unwrap();
        fs::write(temporary.path().join("file"), b"0123456789").unwrap();
        let folder = Folder::new(temporary.path());
        assert_eq!(folder.names().unwrap(), ["file"]);
        let mut file = folder.open("file").unwrap();
        let mut buffer = [0; 6];
        assert_eq!((file.read_at(2, &mut buffer).unwrap(), &buffer), (6, b"234567"));
        assert_eq!((file.read_at(8, &mut buffer).unwrap(), &buffer[..2]), (2, &b"89"[..]));
        assert!(file.write_at(0, b"x").is_err() && file.set_len(0).is_err() && file.sync().is_err());
        assert!(folder.create("other", 0).is_err() && folder.remove("file").is_err());
        assert!(folder.rename("file", "other").is_err() && folder.sync_names().is_err());
        assert_eq!(fs::read(temporary.path().join("file")).unwrap(), b"0123456789");
    }
}
