//! The secret of the cursors: what nobody who chooses names may know of the prints by which a scan goes on (`commands/cursor.rs`).
//!
//! It is a row, so all nodes have it, and copies and checkpoints bring it along. The first [sweep](super::sweep) of a cluster draws it: of its
//! host's chance, which comes from the system and gets into no reply, as the seeds of clients' requests do. Until then, for a second at most unless the memory is
//! full, prints are made without one; a cursor of then leads to the start of its block later.

use highwater_core::{Abort, Transaction};
use sha2::{Digest, Sha256};

use super::Keyspace;
use super::expired::leniently;
use crate::keyspace::Failure;
use crate::tables::{CURSORS, TABLES};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl<T: Transaction> Keyspace<'_, T> {
    /// The secret of this cluster's cursors; of zeros before it is drawn.
    pub fn secret(&mut self) -> Result<Secret, Abort> {
        let row = self.tx.get(TABLES, CURSORS)?.and_then(|row| row.first_chunk());
        Ok(Secret(row.copied().unwrap_or_default()))
    }

    /// Draws it, if it is not there yet and the request has a chance.
    pub(super) fn draw_secret(&mut self) -> Result<(), Failure> {
        if self.moment.seed == 0 || self.tx.get(TABLES, CURSORS)?.is_some() {
            return Ok(());
        }
        let drawn = Sha256::new().chain_update(b"cursors").chain_update(self.moment.bytes()).finalize();
        leniently(self.tx.put(TABLES, CURSORS, &drawn[..16])).map(drop).map_err(Failure::Stop)
    }
}
