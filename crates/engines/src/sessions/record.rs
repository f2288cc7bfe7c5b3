//! What the store keeps of a session.
//!
//! ```text
//! session   key: its id       clock u64 | sequence u64 | fingerprint u64 | kept u8 | reply
//! clock     key: 2^64 - 1     clock u64
//! ids       key: 2^64 - 2     opened u64 | open u64
//! ```
//!
//! Integers are little endian. Records that are not there count as zeros.

use highwater_core::codec::Reader;
use highwater_core::{Abort, Outcome, TableId, Transaction};

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
    /// What the sessions' clock showed when it was last written.
    pub clock: u64,
    /// The last number.
    pub sequence: u64,
    /// Of the request under that number.
    pub fingerprint: u64,
    /// How it ended.
    pub kept: Kept,
    /// With which reply.
    pub reply: &'a [u8],
}

/// Keys at and above are not sessions'.
pub(super) const FIRST_RESERVED: u64 = u64::MAX - 1;
const CLOCK: u64 = u64::MAX;
const IDS: u64 = u64::MAX - 1;

impl<'a> Record<'a> {
    /// Reads a session's record.
    pub fn get<T: Transaction>(tx: &'a mut T, table: TableId, id: u64) -> Result<Option<Record<'a>>, Abort> {
        if id >= FIRST_RESERVED {
            return Ok(None);
        }
        let found = tx.get(table, &id.to_be_bytes())?;
        Ok(found.map(|bytes| Record::decode(bytes).expect("sessions' records are written here alone")))
    }

    /// Writes it.
    pub fn put<T: Transaction>(self, tx: &mut T, table: TableId, id: u64) -> Result<(), Abort> {
        let mut bytes = Vec::with_capacity(25 + self.reply.len());
        for number in [self.clock, self.sequence, self.fingerprint] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(self.kept.byte());
        bytes.extend_from_slice(self.reply);
        tx.put(table, &id.to_be_bytes(), &bytes)
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        let mut reader = Reader::new(bytes);
        let mut number = || reader.u64().ok();
        let (clock, sequence, fingerprint) = (number()?, number()?, number()?);
        let kept = Kept::decode(reader.u8().ok()?)?;
        Some(Record { clock, sequence, fingerprint, kept, reply: reader.rest() })
    }
}

/// What the sessions' clock shows.
pub(super) fn clock<T: Transaction>(tx: &mut T, table: TableId) -> Result<u64, Abort> {
    numbers::<1, T>(tx, table, CLOCK).map(|[clock]| clock)
}

pub(super) fn set_clock<T: Transaction>(tx: &mut T, table: TableId, clock: u64) -> Result<(), Abort> {
    tx.put(table, &CLOCK.to_be_bytes(), &clock.to_le_bytes())
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
