//! How files come to a store: large ones in parts that are sent at once, growing ones piece by piece.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use highwater_node::storage::archive::Source;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};

use super::calls::Calls;
use super::error::error;
use super::pieces::{Piece, object_name};
use super::requests::{Condition, put};

/// Bytes of a part, and of a piece, at most: what is held of a file.
const PART: u64 = 8 << 20;
/// Parts that are under way at once.
const AT_ONCE: usize = 4;
/// An upload has so many parts at most, in every store (S3: 10,000).
const PARTS: u64 = 9_000;
/// A last piece that is shorter gives way to a longer one; one that is not stays, and another follows.
const SHORT: u64 = 1 << 20;

/// Sends a whole file. It is there once it is complete; what an interruption leaves of it no listing shows.
pub fn store(
    calls: &Calls,
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    mut source: Source<'_>,
) -> io::Result<()> {
    let begin = source.at();
    match send(calls, store, path, &mut source) {
        // Completed, perhaps, and the answer lost: then the library asked again, for an upload that was no more.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            source.back_to(begin);
            send(calls, store, path, &mut source)
        }
        sent => sent,
    }
}

fn send(calls: &Calls, store: &Arc<dyn ObjectStore>, path: &Path, source: &mut Source<'_>) -> io::Result<()> {
    let len = source.end() - source.at();
    if len <= PART {
        let bytes = source.next(len as usize)?;
        return calls.wait(store.put(path, PutPayload::from(bytes))).map(drop).map_err(error);
    }
    let part = PART.max(len.div_ceil(PARTS));
    let upload = calls.wait(store.put_multipart(path)).map_err(error)?;
    let mut upload = WriteMultipart::new_with_chunk_size(upload, part as usize);
    while source.at() < source.end() {
        let next = source.next(part as usize);
        let sent = match next {
            Ok(bytes) => calls
                .wait(async {
                    upload.wait_for_capacity(AT_ONCE).await?;
                    upload.put(bytes.into());
                    Ok(())
                })
                .map_err(error),
            Err(error) => Err(error),
        };
        if let Err(why) = sent {
            // The store removes what nobody completes, if it is told to; see docs/backup.md.
            let _ = calls.wait(upload.abort());
            return Err(why);
        }
    }
    calls.wait(upload.finish()).map(drop).map_err(error)
}

/// A growing file, and who writes to it.
pub struct Growing<'a> {
    pub calls: &'a Calls,
    pub store: &'a dyn ObjectStore,
    pub folder: &'a Path,
    pub name: &'a str,
    pub patience: Duration,
}

impl Growing<'_> {
    /// Sends what follows, and keeps `pieces` what they are. Each piece is written on condition that nobody else has done so.
    pub fn extend(&self, pieces: &mut Vec<Piece>, mut source: Source<'_>) -> io::Result<()> {
        // What is beyond was found to be none of the journal: it goes, from the end, so that there never is a gap.
        while pieces.last().is_some_and(|last| last.offset > 0 && last.offset >= source.at()) {
            self.remove(pieces)?;
        }
        let end = pieces.last().map_or(0, Piece::end);
        if end < source.at() {
            let what = format!("it ends at {end}, and the next bytes begin at {}", source.at());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut replaced = pieces.last().filter(|last| last.bytes < SHORT || end > source.at()).cloned();
        if let Some(last) = &replaced {
            source.back_to(last.offset);
        }
        while source.at() < source.end() {
            let offset = source.at();
            let bytes = bytes::Bytes::from(source.next(PART as usize)?);
            let condition = match replaced.take() {
                Some(last) => {
                    pieces.pop();
                    Condition::Still(last.version)
                }
                None => Condition::Absent,
            };
            let (path, len) = (self.path(offset), bytes.len() as u64);
            let put = put(self.store, &path, bytes, condition, self.patience);
            let version = self.calls.wait(put).map_err(error)?;
            pieces.push(Piece { offset, bytes: len, version });
        }
        Ok(())
    }

    /// Removes the last piece.
    pub fn remove(&self, pieces: &mut Vec<Piece>) -> io::Result<()> {
        if let Some(last) = pieces.last() {
            self.calls.wait(self.store.delete(&self.path(last.offset))).map_err(error)?;
            pieces.pop();
        }
        Ok(())
    }

    fn path(&self, offset: u64) -> Path {
        self.folder.clone().join(object_name(self.name, offset).as_str())
    }
}
