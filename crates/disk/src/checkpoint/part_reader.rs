//! Reads a part's file chunk by chunk, and checks it on the way.

use highwater_core::codec::Reader;

use super::error::Error;
use super::files::read_exact;
use super::format::{
    CHUNK_HEAD_BYTES, COUNTS_BYTES, ChunkHead, Counts, FOOTER_BYTES, MAX_CHUNK_RECORDS_BYTES,
    PART_HEADER_BYTES, PartHeader,
};
use super::manifest::{Manifest, Part};
use crate::disk::{Disk, DiskFile};

/// A part's file, read from its beginning to its end.
pub struct PartReader<F> {
    file: F,
    name: String,
    part: Part,
    /// Where the chunk behind `head` begins.
    offset: u64,
    /// The checksum up to `head`.
    crc: u32,
    /// The next chunk's.
    head: ChunkHead,
    /// A chunk and the next one's head.
    buffer: Vec<u8>,
    /// The footer was read, and is right.
    done: bool,
}

impl<F: DiskFile> PartReader<F> {
    /// Opens a part of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Damaged`] if it has another length than the manifest says, or doesn't begin as it should.
    ///
    /// # Panics
    /// Unless there is such a part.
    pub fn open<D: Disk<File = F>>(
        disk: &D,
        manifest: &Manifest,
        part: usize,
    ) -> Result<PartReader<F>, Error> {
        let name = manifest.part_file(part);
        let file = disk.open(&name).map_err(Error::io(&name, "open"))?;
        let len = file.len().map_err(Error::io(&name, "read the length"))?;
        let header =
            PartHeader { number: manifest.number, part: part as u16, parts: manifest.parts.len() as u16 };
        let part = manifest.parts[part];
        if len != part.len || len < (PART_HEADER_BYTES + FOOTER_BYTES) as u64 {
            let what = format!("it has {len} bytes, and {} by its manifest", part.len);
            return Err(Error::damaged(&name, len.min(part.len), what));
        }
        let mut begin = [0; PART_HEADER_BYTES + CHUNK_HEAD_BYTES];
        read_exact(&file, &name, 0, &mut begin)?;
        let (bytes, crc) = header.encode();
        if let Some(at) = (0..PART_HEADER_BYTES).find(|&at| begin[at] != bytes[at]) {
            let what =
                format!("that is not the header of part {} of checkpoint {}", header.part, header.number);
            return Err(Error::damaged(&name, at as u64, what));
        }
        let head = decode_head(&begin[PART_HEADER_BYTES..]);
        let offset = begin.len() as u64;
        Ok(PartReader { file, name, part, offset, crc, head, buffer: Vec::new(), done: false })
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes are read and right, of how many; for progress.
    pub fn progress(&self) -> (u64, u64) {
        let ahead = if self.done { 0 } else { CHUNK_HEAD_BYTES as u64 };
        (self.offset - ahead, self.part.len)
    }

    /// The records of the next chunk, as [`ExportedRecords`](highwater_store::ExportedRecords) reads them; `None` at the end of the
    /// file, all of which was right.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`]; again whenever it is called again.
    pub fn next_chunk(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.done {
            return Ok(None);
        }
        let head_at = self.offset - CHUNK_HEAD_BYTES as u64;
        let rest = self.part.len - self.offset;
        if self.head.len == 0 {
            return self.footer(head_at, rest).map(|()| None);
        }
        let len = self.head.len as usize;
        if len > MAX_CHUNK_RECORDS_BYTES || (len + FOOTER_BYTES) as u64 > rest {
            let what = format!("a chunk of {len} bytes cannot be there");
            return Err(Error::damaged(&self.name, head_at, what));
        }
        // The buffer grows and is never cut, because each new byte is cleared first.
        let wanted = len + CHUNK_HEAD_BYTES;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        read_exact(&self.file, &self.name, self.offset, &mut self.buffer[..wanted])?;
        let (records, next) = self.buffer[..wanted].split_at(len);
        if ChunkHead::of(self.head.len, records, self.crc) != self.head {
            let what = format!("the checksum of the {len} bytes behind is wrong");
            return Err(Error::damaged(&self.name, head_at, what));
        }
        self.crc = self.head.crc;
        self.head = decode_head(next);
        self.offset += wanted as u64;
        Ok(Some(records))
    }

    fn footer(&mut self, head_at: u64, rest: u64) -> Result<(), Error> {
        let mut counts = [0; COUNTS_BYTES];
        read_exact(&self.file, &self.name, self.offset, &mut counts)?;
        let wrong = |what: &str| Err(Error::damaged(&self.name, head_at, what));
        if ChunkHead::of(0, &counts, self.crc) != self.head {
            return wrong("the checksum of the end is wrong");
        }
        let (part, said) = (self.part, Counts::decode(&mut Reader::new(&counts)).expect("counts fill it"));
        if rest != COUNTS_BYTES as u64 {
            return wrong("something follows the end");
        }
        if self.head.crc != part.crc || said != (Counts { records: part.records, newest: part.newest }) {
            return wrong("it is not the file of which the manifest speaks");
        }
        self.done = true;
        self.offset = part.len;
        Ok(())
    }

    /// To be called behind the last chunk, by who counted the records.
    ///
    /// # Errors
    /// [`Error::Damaged`] if they were more or fewer than the file says.
    pub fn check_records(&self, counted: u64) -> Result<(), Error> {
        if counted == self.part.records {
            return Ok(());
        }
        let what = format!("it has {counted} records, and {} by its end", self.part.records);
        Err(Error::damaged(&self.name, self.part.len, what))
    }

    /// The error of a chunk, the last that was read, whose records make no sense although its checksum is right.
    pub fn nonsense(&self, malformed: highwater_core::codec::Malformed) -> Error {
        Error::damaged(&self.name, self.offset, format!("{malformed} in the chunk that ends in front of it"))
    }
}

fn decode_head(bytes: &[u8]) -> ChunkHead {
    ChunkHead::decode(&mut Reader::new(bytes)).expect("a head fills them")
}
