//! The seam to a disk: one directory of files.

use std::io;

/// One directory, which belongs to this process alone. Calls block; names are plain file names, without separators.
///
/// # What survives a crash
///
/// - Bytes written to a file: surely once [`sync`](DiskFile::sync) of that file has returned after they were written. Before that
///   any part of them may be there, and any not.
/// - A file's existence under its name, a new name and a removal: surely once [`sync_names`](Disk::sync_names) has returned
///   after. Before that either.
/// - Of a file replaced by [`rename`](Disk::rename) always one of the two, whole.
///
/// A failed sync says nothing about what survives, and must not be tried again as if it could still succeed: what was written
/// may be gone from memory, too.
pub trait Disk: Send {
    /// An open file.
    type File: DiskFile;

    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Creates a file of `len` zeros, for which there is room: writing within them fails for no want of it.
    ///
    /// # Errors
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists); [`StorageFull`](io::ErrorKind::StorageFull).
    fn create(&self, name: &str, len: u64) -> io::Result<Self::File>;

    /// Opens a file that exists, to read and to write.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Gives a file another name; a file of that name is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file another name, to be written anew under that one, unless somebody is reading it. Whoever has it open to read may
    /// rely on what it holds; whoever comes later does not find it by its old name. Its bytes stay as they are.
    ///
    /// `false`: it keeps its name, for somebody reads it, or nothing is won by it on this disk.
    fn reclaim(&self, from: &str, to: &str) -> io::Result<bool> {
        let _ = (from, to);
        Ok(false)
    }

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renamings and removals survive a crash.
    fn sync_names(&self) -> io::Result<()>;

    /// Bytes that may still be written to new files.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Why the directory that is open is not the one that its name leads to any more: removed, moved, replaced, its disk unmounted. What
    /// is written to it then no later process finds. `None` while all is well, and where nobody else can get at it. Takes no descriptor.
    ///
    /// # Errors
    /// That it cannot be told now: then it is as it was.
    fn why_lost(&self) -> io::Result<Option<String>> {
        Ok(None)
    }
}

/// Whether a disk refused for want of room. A quota, or a limit of the process on the length of files, is a full disk to us: somebody may
/// make room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
    kinds.contains(&error.kind())
}

/// Whether a call failed because the process (EMFILE), or the system (ENFILE), has no file descriptor left. Only calls that open something
/// fail so, and they have changed nothing: they may be tried again. The numbers are the same on every Linux.
pub fn lacks_descriptor(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// Whether a call failed for want of memory in the system (ENOMEM), or because a signal came (EINTR). Of a call that only opens something or
/// takes room that means nothing but that it is to be tried again; of a sync nobody knows.
pub(crate) fn lacks_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::Interrupted)
}

/// An open file. Writing beyond its end makes it longer.
pub trait DiskFile: Send {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads at `offset`; how many bytes, fewer than asked for only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts it to `len` bytes, or fills it up with zeros.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Makes it `len` bytes long, with room for all of them: writing within them fails for no want of it. One that is longer stays so.
    ///
    /// # Errors
    /// [`StorageFull`](io::ErrorKind::StorageFull), and the like: it is as long as it was.
    fn grow(&mut self, len: u64) -> io::Result<()> {
        let before = self.len()?;
        let zeros = vec![0; 1 << 20];
        let mut at = before;
        while at < len {
            let piece = (len - at).min(zeros.len() as u64);
            if let Err(error) = self.write_at(at, &zeros[..piece as usize]) {
                self.set_len(before)?;
                return Err(error);
            }
            at += piece;
        }
        Ok(())
    }

    /// Makes its bytes and its length survive a crash.
    fn sync(&mut self) -> io::Result<()>;
}
