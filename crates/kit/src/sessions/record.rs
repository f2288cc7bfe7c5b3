//! What the store keeps of a session.
//!
//! ```text
//! session   key: its id, below 2^63    clock u32 | owner u32 | sequence u64 | fingerprint u64 | kept u8 | reply
//! owner     key: 2^63 + the owner      as a session's; sequence: how many of the owner's are open
//! clock     key: 2^64 - 1              clock u64
//! ids       key: 2^64 - 2              opened u64 | open u64
//! ```
//!
//! Integers are little endian. Records that are not there count as zeros.
//!
//! Builds before owners wrote the clock with 64 bits, so in what they wrote the owner is [nobody](Owner::NOBODY). To them a record of ours has a
//! clock that is far ahead: they take a session as one that does not expire, and an owner's record as such a session.

use highwater_core::codec::Reader;
use highwater_core::{Abort, Outcome, TableId, Transaction};
use highwater_seam::Owner;

/// What a session knows of its last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// No request yet.
    Nothing,
    /// Committed, with the reply.
    Committed,
    /// The procedure rolled back; nothing was written but this.
    RolledBack,
    /// The arguments made no sense, or the procedure panicked; the same.
    BadRequest,
    /// It was larger than may be; the same.
    TooLarge,
    /// It had not come when its outcome was asked for, and never will.
    Abandoned,
}

impl Kept {
    const ALL: [Kept; 6] =
        [Kept::Nothing, Kept::Committed, Kept::RolledBack, Kept::BadRequest, Kept::TooLarge, Kept::Abandoned];

    /// How a request that ended so was answered; `None` if none was.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Kept::Nothing | Kept::Abandoned => None,
            Kept::Committed => Some(Outcome::Committed),
            Kept::RolledBack => Some(Outcome::RolledBack),
            Kept::BadRequest => Some(Outcome::BadRequest),
            Kept::TooLarge => Some(Outcome::TooLarge),
        }
    }

    pub(super) fn byte(self) -> u8 {
        self as u8
    }

    pub(super) fn decode(byte: u8) -> Option<Kept> {
        Kept::ALL.get(usize::from(byte)).copied()
    }
}

/// A session's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// The time that the sessions' clock showed when it was last written, its lower half.
    pub clock: u32,
    /// Whose session it is.
    pub owner: Owner,
    /// The last number.
    pub sequence: u64,
    /// Of the request under that number.
    pub fingerprint: u64,
    /// How it ended.
    pub kept: Kept,
    pub reply: &'a [u8],
}

/// Keys at and above are not sessions'; an owner's record stands so far behind the owner's number.
pub(super) const OWNERS: u64 = 1 << 63;
const CLOCK: u64 = u64::MAX;
const IDS: u64 = u64::MAX - 1;

impl<'a> Record<'a> {
    /// Reads a session's record.
    pub fn get<T: Transaction>(tx: &'a mut T, table: TableId, id: u64) -> Result<Option<Record<'a>>, Abort> {
        if id >= OWNERS {
            return Ok(None);
        }
        let found = tx.get(table, &id.to_be_bytes())?;
        Ok(found.map(|bytes| Record::decode(bytes).expect("sessions' records are written here alone")))
    }

    /// Writes it.
    pub fn put<T: Transaction>(self, tx: &mut T, table: TableId, id: u64) -> Result<(), Abort> {
        let mut bytes = Vec::with_capacity(25 + self.reply.len());
        bytes.extend_from_slice(&self.clock.to_le_bytes());
        bytes.extend_from_slice(&self.owner.0.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.fingerprint.to_le_bytes());
        bytes.push(self.kept.byte());
        bytes.extend_from_slice(self.reply);
        tx.put(table, &id.to_be_bytes(), &bytes)
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        let mut reader = Reader::new(bytes);
        let (clock, owner) = (reader.u32().ok()?, Owner(reader.u32().ok()?));
        let (sequence, fingerprint) = (reader.u64().ok()?, reader.u64().ok()?);
        let kept = Kept::decode(reader.u8().ok()?)?;
        Some(Record { clock, owner, sequence, fingerprint, kept, reply: reader.rest() })
    }

    /// Whether it may be used by this one. A session of nobody's, which a build before owners has opened, may be used by whoever knows its id.
    pub fn is_of(&self, owner: Owner) -> bool {
        self.owner == owner || self.owner == Owner::NOBODY
    }

    /// How many ticks the sessions' clock is ahead of it.
    pub fn idle(&self, clock: u32) -> u64 {
        // Whatever is ahead of the clock was used just now.
        u64::try_from(clock.wrapping_sub(self.clock) as i32).unwrap_or(0)
    }
}

/// The time that the sessions' clock shows: its lower half, which does for 2^31 ticks.
pub(super) fn clock<T: Transaction>(tx: &mut T, table: TableId) -> Result<u32, Abort> {
    numbers::<1, T>(tx, table, CLOCK).map(|[clock]| clock as u32)
}

/// Has the sessions' clock show so many ticks more.
pub(super) fn advance_clock<T: Transaction>(tx: &mut T, table: TableId, ticks: u64) -> Result<u32, Abort> {
    let [clock] = numbers::<1, T>(tx, table, CLOCK)?;
    tx.put(table, &CLOCK.to_be_bytes(), &(clock + ticks).to_le_bytes())?;
    Ok((clock + ticks) as u32)
}

/// How many sessions of an owner are open.
pub(super) fn open_of<T: Transaction>(tx: &mut T, table: TableId, owner: Owner) -> Result<u64, Abort> {
    let found = tx.get(table, &key_of(owner))?;
    let record = found.map(|bytes| Record::decode(bytes).expect("sessions' records are written here alone"));
    Ok(record.map_or(0, |record| record.sequence))
}

/// Writes how many are; of nobody's none are counted.
pub(super) fn set_open_of<T: Transaction>(
    tx: &mut T,
    table: TableId,
    owner: Owner,
    open: u64,
) -> Result<(), Abort> {
    if owner == Owner::NOBODY {
        return Ok(());
    }
    if open == 0 {
        return tx.delete(table, &key_of(owner)).map(drop);
    }
    let clock = clock(tx, table)?;
    let record = Record { clock, owner, sequence: open, fingerprint: 0, kept: Kept::Nothing, reply: &[] };
    record.put(tx, table, OWNERS | u64::from(owner.0))
}

fn key_of(owner: Owner) -> [u8; 8] {
    (OWNERS | u64::from(owner.0)).to_be_bytes()
}

/// How many sessions were ever opened, and how many are.
pub(super) fn counts<T: Transaction>(tx: &mut T, table: TableId) -> Result<[u64; 2], Abort> {
    numbers(tx, table, IDS)
}

pub(super) fn set_counts<T: Transaction>(
    tx: &mut T,
    table: TableId,
    [opened, open]: [u64; 2],
) -> Result<(), Abort> {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&opened.to_le_bytes());
    bytes[8..].copy_from_slice(&open.to_le_bytes());
    tx.put(table, &IDS.to_be_bytes(), &bytes)
}

fn numbers<const N: usize, T: Transaction>(tx: &mut T, table: TableId, key: u64) -> Result<[u64; N], Abort> {
    let Some(bytes) = tx.get(table, &key.to_be_bytes())? else { return Ok([0; N]) };
    let mut reader = Reader::new(bytes);
    Ok(std::array::from_fn(|_| reader.u64().expect("sessions' records are written here alone")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_from_before_owners_is_anybodys() {
        let old: Vec<u8> =
            [3u64, 5, 9].iter().flat_map(|number| number.to_le_bytes()).chain([1, b'r']).collect();
        let record = Record::decode(&old).unwrap();
        let (clock, owner, sequence) = (record.clock, record.owner, record.sequence);
        assert_eq!((clock, owner, sequence, record.kept), (3, Owner::NOBODY, 5, Kept::Committed));
        assert_eq!((record.fingerprint, record.reply), (9, &b"r"[..]));
        assert!(record.is_of(Owner(7)) && record.is_of(Owner::NOBODY));
        assert_eq!([record.idle(3), record.idle(12), record.idle(2)], [0, 9, 0]);
    }
}
