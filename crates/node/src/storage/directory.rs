//! A directory of the file system as a [`Disk`].

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_disk::{Disk, DiskFile};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, fstatfs, fstatvfs, statvfs};
use rustix::io::Errno;

/// Locked for as long as a process has the directory, as the directory itself is: builds before that lock knew no other, and some file
/// systems lock no directories. A file can be removed, and the next process would make, and lock, another one.
const LOCK: &str = "lock";

/// A directory that this process has for itself, or may only read. Clones are the same one; the lock goes with the last of them.
#[derive(Clone, Debug)]
pub struct DataDirectory {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// To sync names by; locked as long as `lock` is.
    directory: File,
    /// Held for life; `None` if the directory is only read.
    lock: Option<File>,
}

/// Why a directory cannot be used.
#[derive(Debug)]
pub enum DirectoryError {
    /// Another process has it.
    Locked { path: PathBuf },
    /// The system refused.
    Unusable {
        path: PathBuf,
        /// What was to be done with it.
        what: &'static str,
        /// The system's words.
        error: io::Error,
    },
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::Locked { path } => {
                write!(f, "{} is in use: another process has locked it", path.display())
            }
            DirectoryError::Unusable { path, what, error } => {
                write!(f, "cannot {what} {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for DirectoryError {}

impl DataDirectory {
    /// Takes a directory for this process alone; makes it, for this user alone (0700), if it is not there.
    ///
    /// # Errors
    /// [`Locked`](DirectoryError::Locked) by another process, or by this one; [`Unusable`](DirectoryError::Unusable).
    pub fn open(path: impl Into<PathBuf>) -> Result<DataDirectory, DirectoryError> {
        let path = path.into();
        let unusable = |what| unusable(&path, what);
        let absent = first_absent(&path);
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(unusable("create"))?;
        let directory = File::open(&path).map_err(unusable("open"))?;
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path.join(LOCK));
        let lock = lock.map_err(unusable("lock"))?;
        match lock_directory(&directory).and_then(|()| flock(&lock, FlockOperation::NonBlockingLockExclusive))
        {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(DirectoryError::Locked { path }),
            Err(error) => return Err(unusable("lock")(error.into())),
        }
        sync_parents(&path, absent.as_deref()).map_err(unusable("sync the parents of"))?;
        Ok(DataDirectory { inner: Arc::new(Inner { path, directory, lock: Some(lock) }) })
    }

    /// A directory to look at: whatever changes it fails. A process may have it at the same time.
    ///
    /// # Errors
    /// [`Unusable`](DirectoryError::Unusable), if there is none.
    pub fn read_only(path: impl Into<PathBuf>) -> Result<DataDirectory, DirectoryError> {
        let path = path.into();
        let open = File::open(&path).and_then(|directory| match directory.metadata()?.is_dir() {
            true => Ok(directory),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        let directory = open.map_err(unusable(&path, "open"))?;
        Ok(DataDirectory { inner: Arc::new(Inner { path, directory, lock: None }) })
    }

    /// Whether a process has it at the moment.
    ///
    /// # Errors
    /// The system's.
    pub fn is_locked(&self) -> io::Result<bool> {
        if self.inner.lock.is_some() {
            return Ok(true);
        }
        // Opened anew: what is found free is let go of again at once.
        let opened = File::open(&self.inner.path)?;
        if flock(&opened, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
            return Ok(true);
        }
        let lock = match File::open(self.file(LOCK)) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    fn file(&self, name: &str) -> PathBuf {
        assert!(!name.is_empty() && !name.contains('/'), "{name:?} is a plain file name");
        self.inner.path.join(name)
    }

    #[cfg(not(feature = "failing-syncs"))]
    fn keep(&self, _: &str, file: File) -> DirectoryFile {
        DirectoryFile { file }
    }

    #[cfg(feature = "failing-syncs")]
    fn keep(&self, name: &str, file: File) -> DirectoryFile {
        let order = name.contains("journal").then(|| self.file(FAILING_SYNC));
        DirectoryFile { file, order }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.inner.lock.is_none() { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }
}

/// Locks the directory itself, where the file system does: on NFS a lock wants a file that is open to be written. The file's lock is there
/// in any case.
fn lock_directory(directory: &File) -> rustix::io::Result<()> {
    match flock(directory, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::BADF | Errno::INVAL | Errno::ISDIR | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => {
            Ok(())
        }
        locked => locked,
    }
}

/// The uppermost of a directory and its parents that is not there yet.
fn first_absent(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .last()
        .map(Path::to_path_buf)
}

/// Makes a directory's own name survive a crash, and those of its parents up to the uppermost one that was just made.
fn sync_parents(path: &Path, made: Option<&Path>) -> io::Result<()> {
    let uppermost = made.unwrap_or(path).canonicalize()?;
    for path in path.canonicalize()?.ancestors() {
        if let Some(parent) = path.parent() {
            File::open(parent)?.sync_all()?;
        }
        if path == uppermost {
            break;
        }
    }
    Ok(())
}

fn unusable(path: &Path, what: &'static str) -> impl Fn(io::Error) -> DirectoryError {
    move |error| DirectoryError::Unusable { path: path.into(), what, error }
}

impl Disk for DataDirectory {
    type File = DirectoryFile;

    /// Files only, without the lock; in no order.
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.inner.path)? {
            let entry = entry?;
            // A name that is no text is none of ours.
            if let Ok(name) = entry.file_name().into_string()
                && name != LOCK
                && entry.file_type()?.is_file()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str, len: u64) -> io::Result<DirectoryFile> {
        self.check_writable()?;
        check_room(&self.inner.directory, len)?;
        let path = self.file(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        if let Err(error) = reserve(&file, 0, len) {
            // What can't be had as a whole is not there at all. The caller is told why it can't.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(self.keep(name, file))
    }

    fn open(&self, name: &str) -> io::Result<DirectoryFile> {
        let writable = self.inner.lock.is_some();
        let path = self.file(name);
        let file = OpenOptions::new().read(true).write(writable).open(&path)?;
        if !writable {
            hold(&file, &path)?;
        }
        Ok(self.keep(name, file))
    }

    fn reclaim(&self, from: &str, to: &str) -> io::Result<bool> {
        self.check_writable()?;
        let file = File::open(self.file(from))?;
        if copies_on_write(&file) || flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(false);
        }
        self.rename(from, to).map(|()| true)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::rename(self.file(from), self.file(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::remove_file(self.file(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.check_writable()?;
        self.inner.directory.sync_all()
    }

    fn why_lost(&self) -> io::Result<Option<String>> {
        let path = self.inner.path.display();
        let replaced = match still_named(&self.inner.directory, &self.inner.path)? {
            Named::Nothing => Some(format!("its folder {path} was removed or moved away")),
            Named::Another => Some(format!("another folder is in the place of its folder {path}")),
            Named::This => None,
        };
        let (None, Some(lock)) = (&replaced, &self.inner.lock) else { return Ok(replaced) };
        Ok(match still_named(lock, &self.file(LOCK))? {
            Named::Nothing => Some(format!("the file lock in its folder {path} was removed")),
            Named::Another => {
                Some(format!("the file lock in its folder {path} was replaced: other files were put there"))
            }
            Named::This => None,
        })
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let all = statvfs(&self.inner.path)?;
        Ok(all.f_bavail * all.f_frsize)
    }
}

/// The file that a name leads to.
enum Named {
    Nothing,
    Another,
    /// To the file that is open.
    This,
}

/// The file that the name of an open file leads to now.
fn still_named(open: &File, name: &Path) -> io::Result<Named> {
    let open = identity_of(&open.metadata()?);
    match fs::metadata(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Named::Nothing),
        named => Ok(if identity_of(&named?) == open { Named::This } else { Named::Another }),
    }
}

/// As long as a reader has a file open it is not reclaimed; one that was before is not there.
fn hold(file: &File, path: &Path) -> io::Result<()> {
    if flock(file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let (held, named) = (file.metadata()?, fs::metadata(path)?);
    if identity_of(&held) == identity_of(&named) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// The number that no two files that are there have in common.
fn identity_of(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Whether overwriting takes room: then it is no better than a new file, and may fail.
fn copies_on_write(file: &File) -> bool {
    const BTRFS: u64 = 0x9123_683e;
    const ZFS: u64 = 0x2fc1_2fc1;
    const BCACHEFS: u64 = 0xca45_1a4e;
    fstatfs(file).is_ok_and(|all| [BTRFS, ZFS, BCACHEFS].contains(&(all.f_type as u64)))
}

/// What does not fit is not tried: for a moment it would take all that there is from everybody else.
fn check_room(file: &File, more: u64) -> io::Result<()> {
    let all = fstatvfs(file)?;
    let is_full = all.f_blocks > 0 && all.f_bavail * all.f_frsize < more;
    if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

/// Makes a file longer, from where it ends, with room for all of it.
fn reserve(file: &File, end: u64, more: u64) -> io::Result<()> {
    if more == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::empty(), end, more) {
        Err(Errno::OPNOTSUPP) => write_zeros(file, end, more),
        result => Ok(result?),
    }
}

/// Where the file system cannot reserve, writing does it.
fn write_zeros(file: &File, end: u64, more: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut done = 0;
    while done < more {
        let piece = (more - done).min(zeros.len() as u64);
        file.write_all_at(&zeros[..piece as usize], end + done)?;
        done += piece;
    }
    Ok(())
}

/// Where this file is, the journal's next sync fails, and takes it away.
#[cfg(feature = "failing-syncs")]
const FAILING_SYNC: &str = "next-sync-fails";

/// A file of a [`DataDirectory`].
#[derive(Debug)]
pub struct DirectoryFile {
    file: File,
    /// Of the journal's: where to look for the order to fail.
    #[cfg(feature = "failing-syncs")]
    order: Option<PathBuf>,
}

impl DiskFile for DirectoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn grow(&mut self, len: u64) -> io::Result<()> {
        let before = self.len()?;
        if before >= len {
            return Ok(());
        }
        check_room(&self.file, len - before)?;
        reserve(&self.file, before, len - before).inspect_err(|_| {
            // Part of it may be there. The caller is told why the rest can't.
            let _ = self.file.set_len(before);
        })
    }

    /// Bytes and length; of the times that a file system keeps nobody asks.
    fn sync(&mut self) -> io::Result<()> {
        #[cfg(feature = "failing-syncs")]
        if self.order.as_deref().is_some_and(|order| fs::remove_file(order).is_ok()) {
            return Err(Errno::IO.into());
        }
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_being_read_is_not_reclaimed_and_what_was_reclaimed_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DataDirectory::open(folder.path()).unwrap();
        let mut file = directory.create("a", 3).unwrap();
        file.write_at(0, b"old").unwrap();
        let reader = DataDirectory::read_only(folder.path()).unwrap();
        let (first, second) = (reader.open("a").unwrap(), reader.open("a").unwrap());
        drop(first);
        assert!(!directory.reclaim("a", "b").unwrap(), "one of two still reads it");
        let mut read = [0; 3];
        assert_eq!((second.read_at(0, &mut read).unwrap(), &read), (3, b"old"));
        drop(second);
        // Where it copies on write it is never reclaimed.
        if directory.reclaim("a", "b").unwrap() {
            assert_eq!(reader.open("a").unwrap_err().kind(), io::ErrorKind::NotFound);
            assert!(reader.open("b").is_ok());
        }
        // A reader that opened it just before it got its new name.
        let path = folder.path().join("c");
        let late = File::open(folder.path().join("b")).unwrap();
        fs::write(&path, "another").unwrap();
        assert_eq!(hold(&late, &path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(hold(&late, &folder.path().join("nowhere")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_directory_is_one_process_s_and_one_user_s() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let directory = DataDirectory::open(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(LOCK))), (0o700, 0o600));
        let error = DataDirectory::open(&path).unwrap_err();
        assert!(error.to_string().ends_with("is in use: another process has locked it"), "{error}");
        let reader = DataDirectory::read_only(&path).unwrap();
        assert!(reader.is_locked().unwrap() && directory.is_locked().unwrap());
        let clone = directory.clone();
        drop(directory);
        assert!(reader.is_locked().unwrap());
        drop(clone);
        assert!(!reader.is_locked().unwrap());
        DataDirectory::open(&path).unwrap();
    }

    /// People remove the file when they are told that another process has locked the folder.
    #[test]
    fn a_directory_stays_one_process_s_though_the_file_lock_is_removed_or_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DataDirectory::open(folder.path()).unwrap();
        let lock = folder.path().join(LOCK);
        for replaced in [false, true] {
            fs::remove_file(&lock).unwrap();
            if replaced {
                fs::write(&lock, b"").unwrap();
            }
            assert!(matches!(DataDirectory::open(folder.path()), Err(DirectoryError::Locked { .. })));
            assert!(DataDirectory::read_only(folder.path()).unwrap().is_locked().unwrap());
        }
        drop(directory);
        DataDirectory::open(folder.path()).unwrap();
    }

    #[test]
    fn the_uppermost_directory_that_is_made_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let absent = |path: &str| first_absent(&folder.path().join(path));
        assert_eq!(absent("a/b/c"), Some(folder.path().join("a")));
        fs::create_dir(folder.path().join("a")).unwrap();
        assert_eq!(absent("a/b/c"), Some(folder.path().join("a/b")));
        assert_eq!((absent("a"), first_absent(Path::new("not/there"))), (None, Some("not".into())));
        sync_parents(&folder.path().join("a"), None).unwrap();
    }

    #[test]
    fn files_are_made_as_long_as_asked_renamed_read_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = DataDirectory::open(folder.path()).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        let mut file = disk.create("a", 10_000).unwrap();
        assert_eq!(disk.create("a", 0).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(file.len().unwrap(), 10_000);
        file.write_at(9_998, b"xyz").unwrap();
        file.sync().unwrap();
        let mut buffer = [9; 5];
        assert_eq!(file.read_at(9_997, &mut buffer).unwrap(), 4);
        assert_eq!(buffer, [0, b'x', b'y', b'z', 9]);
        assert!(disk.create("b", 0).unwrap().is_empty().unwrap());
        disk.rename("a", "b").unwrap();
        disk.sync_names().unwrap();
        assert_eq!(disk.names().unwrap(), ["b"]);
        let mut file = disk.open("b").unwrap();
        file.set_len(3).unwrap();
        assert_eq!((file.len().unwrap(), disk.free_bytes().unwrap() > 0), (3, true));
        disk.remove("b").unwrap();
        assert_eq!(disk.open("b").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_cannot_be_reserved_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let disk = DataDirectory::open(folder.path()).unwrap();
        // No file system here has so much.
        assert!(disk.create("huge", 1 << 60).is_err());
        assert!(disk.names().unwrap().is_empty());
        let mut file = disk.create("small", 10).unwrap();
        assert!(file.grow(1 << 60).is_err() && file.len().unwrap() == 10);
        file.grow(5000).unwrap();
        file.grow(20).unwrap();
        assert_eq!(file.len().unwrap(), 5000);
    }

    #[test]
    fn a_reader_changes_nothing_and_none_is_said_so() {
        let folder = tempfile::tempdir().unwrap();
        DataDirectory::open(folder.path()).unwrap().create("a", 1).unwrap();
        let disk = DataDirectory::read_only(folder.path()).unwrap();
        let refused =
            |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::ReadOnlyFilesystem;
        assert!(
            refused(disk.create("b", 1).map(drop))
                && refused(disk.remove("a"))
                && refused(disk.rename("a", "b"))
        );
        assert!(disk.open("a").unwrap().write_at(0, b"x").is_err());
        let missing = DataDirectory::read_only(folder.path().join("none")).unwrap_err();
        assert!(missing.to_string().contains("No such file or directory"), "{missing}");
        let file = DataDirectory::read_only(folder.path().join("a")).unwrap_err();
        assert!(file.to_string().contains("not a directory"), "{file}");
    }
}
