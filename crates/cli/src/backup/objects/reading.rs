//! A file of a store, to read: from front to back it is fetched ahead, in larger and larger ranges; elsewhere no more than is asked for.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use highwater_node::storage::archive::PlaceFile;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::task::JoinHandle;

use super::calls::Calls;
use super::error::error;
use super::pieces::{Piece, gap};

/// The least that is fetched at once, in bytes;
const LEAST: u64 = 64 << 10;
/// and the most. Twice that is held of a file that is read: the range itself, and the next one.
const MOST: u64 = 4 << 20;

/// A file that is read.
pub struct ObjectFile {
    calls: Arc<Calls>,
    store: Arc<dyn ObjectStore>,
    /// In order, without a gap, each with its object.
    pieces: Vec<(Path, Piece)>,
    window: RefCell<Window>,
}

/// What was fetched.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Bytes,
    /// How much is fetched with the next range.
    ahead: u64,
    /// What is on its way, and from which offset on.
    coming: Option<(u64, JoinHandle<object_store::Result<Bytes>>)>,
}

impl ObjectFile {
    /// Of these pieces.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) if one is missing.
    pub fn new(
        calls: Arc<Calls>,
        store: Arc<dyn ObjectStore>,
        pieces: Vec<(Path, Piece)>,
    ) -> io::Result<ObjectFile> {
        let bare: Vec<Piece> = pieces.iter().map(|(_, piece)| piece.clone()).collect();
        if let Some(offset) = gap(&bare) {
            let what = format!("its piece at offset {offset} is missing");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(ObjectFile { calls, store, pieces, window: RefCell::default() })
    }

    fn end(&self) -> u64 {
        self.pieces.last().map_or(0, |(_, piece)| piece.end())
    }

    /// A range from an offset on, in one piece.
    fn fetch(&self, offset: u64, most: u64) -> impl Future<Output = object_store::Result<Bytes>> + use<> {
        let piece = self.pieces.iter().find(|(_, piece)| offset < piece.end()).cloned();
        let store = self.store.clone();
        async move {
            let Some((path, piece)) = piece else { return Ok(Bytes::new()) };
            let (from, to) = (offset - piece.offset, piece.bytes.min(offset - piece.offset + most));
            let bytes = store.get_range(&path, from..to).await?;
            match bytes.len() as u64 == to - from {
                true => Ok(bytes),
                false => {
                    let source = format!("{} bytes instead of {}", bytes.len(), to - from).into();
                    Err(object_store::Error::Generic { store: "object", source })
                }
            }
        }
    }

    /// Brings the window to `offset`, where so many bytes are wanted at least.
    fn turn_to(&self, window: &mut Window, offset: u64, wanted: u64) -> io::Result<()> {
        let goes_on = offset == window.start + window.bytes.len() as u64;
        window.ahead = match goes_on && offset > 0 {
            true => (window.ahead * 2).min(MOST),
            false => wanted.clamp(LEAST, MOST),
        };
        window.bytes = match window.coming.take() {
            Some((at, coming)) if at == offset => self.calls.wait(coming).map_err(io::Error::other)?,
            _ => self.calls.wait(self.fetch(offset, window.ahead)),
        }
        .map_err(error)?;
        window.start = offset;
        let next = offset + window.bytes.len() as u64;
        if goes_on && next < self.end() {
            window.coming = Some((next, self.calls.begin(self.fetch(next, window.ahead))));
        }
        Ok(())
    }
}

impl PlaceFile for ObjectFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.end())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut read, mut window) = (0, self.window.borrow_mut());
        while read < buffer.len() && offset + (read as u64) < self.end() {
            let at = offset + read as u64;
            let held = window.start..window.start + window.bytes.len() as u64;
            if !held.contains(&at) {
                self.turn_to(&mut window, at, (buffer.len() - read) as u64)?;
            }
            let bytes = &window.bytes[(at - window.start) as usize..];
            let more = bytes.len().min(buffer.len() - read);
            buffer[read..read + more].copy_from_slice(&bytes[..more]);
            read += more;
        }
        Ok(read)
    }
}
