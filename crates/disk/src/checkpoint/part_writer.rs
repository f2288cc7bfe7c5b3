//! Writes one part of a store into a file, a chunk at a time.

use highwater_core::limits::CHUNK_BYTES;
use highwater_store::Export;

use super::error::Error;
use super::format::{CHUNK_HEAD_BYTES, ChunkHead, Counts, FOOTER_BYTES, PartHeader};
use super::manifest::Part;
use crate::disk::DiskFile;

/// One part of a checkpoint that is being written. A worker can do it between turns, or a thread of its own.
///
/// Where this is dropped half-way, or a step fails, the whole checkpoint has to be [abandoned](super::Writer::abandon).
pub struct PartWriter<F> {
    part: u16,
    file: F,
    name: String,
    export: Export,
    /// What the next write begins with: the header in front of the first chunk.
    buffer: Vec<u8>,
    /// Bytes of the file.
    len: u64,
    /// How many of them were written since the last sync.
    unsynced: u64,
    /// Checksum of the file so far.
    crc: u32,
}

/// What became of a step.
pub enum WriteStep<F> {
    /// There is more to do.
    More(PartWriter<F>),
    /// The file is whole, and on disk.
    Done(WrittenPart),
}

/// A part that is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenPart {
    pub(super) number: u16,
    /// What the manifest says of it.
    pub part: Part,
}

/// A file is synced whenever so much was written to it. A sync makes the disk keep all that it was given, by whomever: the
/// journal's, which replies wait for, takes as long as what this file has given since the last one needs.
const SYNC_BYTES: u64 = 4 << 20;
/// Memory that is kept from one chunk to the next; a chunk with a large value has more.
const KEPT_BYTES: usize = 2 * CHUNK_BYTES;

impl<F: DiskFile> PartWriter<F> {
    pub(super) fn new(header: PartHeader, file: F, name: String, export: Export) -> PartWriter<F> {
        let (bytes, crc) = header.encode();
        let part = header.part;
        PartWriter { part, file, name, export, buffer: bytes.to_vec(), len: 0, unsynced: 0, crc }
    }

    /// Bytes written so far, for progress.
    pub fn written_bytes(&self) -> u64 {
        self.len
    }

    /// Reads about `budget_bytes` of the store (at most [`CHUNK_BYTES`], and one record more) and writes them. The last
    /// step ends the file and syncs it.
    ///
    /// # Errors
    /// [`Error::Io`]: the checkpoint has to be abandoned.
    pub fn step(mut self, budget_bytes: usize) -> Result<WriteStep<F>, Error> {
        let start = self.buffer.len();
        let records = start + CHUNK_HEAD_BYTES;
        self.buffer.resize(records, 0);
        let more = self.export.next_chunk(budget_bytes.min(CHUNK_BYTES), &mut self.buffer);
        if self.buffer.len() > records {
            let len = u32::try_from(self.buffer.len() - records).expect("chunks are shorter than 2^32 bytes");
            let head = ChunkHead::of(len, &self.buffer[records..], self.crc);
            self.buffer[start..records].copy_from_slice(&head.encode());
            self.crc = head.crc;
        } else {
            // The store had nothing: a record was locked for long, or this is the end.
            self.buffer.truncate(start);
        }
        if !more {
            return self.finish().map(WriteStep::Done);
        }
        self.write()?;
        if self.unsynced >= SYNC_BYTES {
            self.sync()?;
        }
        Ok(WriteStep::More(self))
    }

    fn finish(mut self) -> Result<WrittenPart, Error> {
        let (records, newest) = (self.export.records(), self.export.newest());
        let counts = Counts { records, newest }.encode();
        let head = ChunkHead::of(0, &counts, self.crc);
        self.buffer.reserve_exact(FOOTER_BYTES);
        self.buffer.extend_from_slice(&head.encode());
        self.buffer.extend_from_slice(&counts);
        self.write()?;
        // More than needed may have been set aside.
        self.file.set_len(self.len).map_err(Error::io(&self.name, "cut to its length"))?;
        self.sync()?;
        let part = Part { len: self.len, crc: head.crc, records, newest };
        Ok(WrittenPart { number: self.part, part })
    }

    fn write(&mut self) -> Result<(), Error> {
        self.file.write_at(self.len, &self.buffer).map_err(Error::io(&self.name, "write"))?;
        self.len += self.buffer.len() as u64;
        self.unsynced += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BYTES);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.unsynced = 0;
        self.file.sync().map_err(Error::io(&self.name, "sync"))
    }
}
