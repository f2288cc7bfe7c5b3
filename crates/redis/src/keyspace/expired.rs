//! A command that finds a key expired has it go, in its own transaction: what was seen to be gone stays gone, whatever the clock of the next
//! leader says, unless somebody sets it.
//!
//! A string is removed. A collection stays, with a deadline that is past by any clock: one row of the same length, so that a read needs no
//! memory for it. The [`sweep`](super::sweep) does the rest.

use highwater_core::{Abort, Transaction, planted};

use super::head::{Head, Kind, Row};
use super::{KEYSPACE, Keyspace, NAMES, Stop, rows};

/// Of the keys that one command finds expired so many go with it. Of a list of all keys, say, the others are left to the sweep.
const MOST: usize = 64;

/// A deadline that is past by any clock.
pub const LONG_PAST: u64 = 1;

/// Keys that a command found expired.
#[derive(Default)]
pub struct Sighted(Vec<Vec<u8>>);

impl Sighted {
    /// One more.
    #[cold]
    pub fn add(&mut self, key: &[u8]) {
        if self.0.len() < MOST {
            self.0.push(key.to_vec());
        }
    }
}

impl<T: Transaction> Keyspace<'_, T> {
    /// The command is over: what it found expired goes.
    #[inline]
    pub fn bury_expired(&mut self) -> Result<(), Stop> {
        self.smalls.clear();
        if self.sighted.0.is_empty() || planted!(SightedKept) { Ok(()) } else { self.bury() }
    }

    #[cold]
    fn bury(&mut self) -> Result<(), Stop> {
        for key in std::mem::take(&mut self.sighted.0) {
            // The command itself may have put something else in its place.
            let head = self.tx.get(KEYSPACE, &key)?.map(|row| Row::decode(row).head);
            let expired = |head: &Head| head.is_expired(self.moment.unix_ms) && head.deadline != LONG_PAST;
            if let Some(head) = head.filter(expired) {
                self.bury_one(&key, &head)?;
            }
        }
        Ok(())
    }

    fn bury_one(&mut self, key: &[u8], head: &Head) -> Result<(), Stop> {
        if head.kind != Kind::String {
            self.scratch.clear();
            Head { deadline: LONG_PAST, ..*head }.encode(&[], &mut self.scratch);
            return leniently(self.tx.put(KEYSPACE, key, &self.scratch)).map(drop);
        }
        if leniently(self.tx.delete(KEYSPACE, key))?.is_some() {
            self.tx.delete(NAMES, &rows::name_row(key))?;
            self.tx.delete(super::DUE, &rows::deadline_row(head.deadline, key))?;
        }
        Ok(())
    }
}

/// Where nothing can be written (a snapshot, a full disk, more than one transaction may remove) a read goes on all the same.
pub(super) fn leniently<R>(written: Result<R, Abort>) -> Result<Option<R>, Stop> {
    match written {
        Ok(done) => Ok(Some(done)),
        Err(Abort::Conflict) => Err(Stop::Abort(Abort::Conflict)),
        Err(_) => Ok(None),
    }
}
