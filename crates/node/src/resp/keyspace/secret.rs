//! The secret of the cursors: what nobody who chooses names may know of the prints by which a scan goes on (`commands/cursor.rs`).
//!
//! It is a row, so all nodes have it, and copies and checkpoints bring it along. Whoever needs it first draws it. Where nothing can be written (a
//! snapshot, a full disk) and there is none yet, prints are made without one; a cursor of then leads to the start of its block later.

use highwater_core::Transaction;
use sha2::{Digest, Sha256};

use super::expired::leniently;
use super::{Keyspace, Stop};
use crate::resp::tables::{CURSORS, TABLES};

/// The secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl<T: Transaction> Keyspace<'_, T> {
    /// The secret of this cluster's cursors.
    pub fn secret(&mut self) -> Result<Secret, Stop> {
        if let Some(row) = self.tx.get(TABLES, CURSORS)?.and_then(|row| row.first_chunk()) {
            return Ok(Secret(*row));
        }
        let moment = Sha256::new().chain_update(b"cursors").chain_update(self.moment.bytes()).finalize();
        let drawn = *moment.first_chunk().expect("a digest has 32 bytes");
        let written = leniently(self.tx.put(TABLES, CURSORS, &drawn))?;
        Ok(written.map_or(Secret([0; 16]), |()| Secret(drawn)))
    }
}
