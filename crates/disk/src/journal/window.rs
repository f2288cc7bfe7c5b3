//! Reads a file from front to back in large pieces.

use std::io;

use crate::DiskFile;

/// Read at once, at least.
const PIECE_BYTES: usize = 1 << 20;

/// A file, and the piece of it that was read last.
#[derive(Debug)]
pub(super) struct Window<'a, F> {
    file: &'a F,
    len: u64,
    start: u64,
    piece: Vec<u8>,
}

impl<'a, F: DiskFile> Window<'a, F> {
    pub(super) fn new(file: &'a F) -> io::Result<Window<'a, F>> {
        Ok(Window { file, len: file.len()?, start: 0, piece: Vec::new() })
    }

    /// Length of the file when it was opened.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The bytes at `offset`, fewer than `len` at the end of the file.
    pub(super) fn at(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let len = self.len.saturating_sub(offset).min(len as u64) as usize;
        let inside = offset >= self.start && offset + len as u64 <= self.start + self.piece.len() as u64;
        if !inside {
            let want = self.len.saturating_sub(offset).min(len.max(PIECE_BYTES) as u64) as usize;
            self.piece.resize(want, 0);
            let read = self.file.read_at(offset, &mut self.piece)?;
            self.piece.truncate(read);
            self.start = offset;
        }
        let skip = (offset - self.start) as usize;
        Ok(&self.piece[skip..self.piece.len().min(skip + len)])
    }
}
