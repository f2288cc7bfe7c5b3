//! What a client says to a replica's worker.
//!
//! ```text
//! 1 read      id u64 | stamp | table u8 | value u8 | key (rest)
//! 2 scan      id u64 | stamp | table u8 | backward u8 | low | high | most u32
//! 3 stamp     id u64 | stamp
//! 4 return    epoch u64 | ts u64
//! 5 validate  epoch u64 | ts u64 | payload (rest)
//! 6 accept    epoch u64 | ts u64 | commit u8
//! 7 decided   epoch u64 | ts u64 | commit u8 | voted u32 | payload (rest; nothing: none)
//! stamp       0; or 1, above u64; or 2, above u64 | late
//! late        ts u64 | shown u64 | ahead u64 | advanced u64 | since u64 | bytes u32
//! low, high   bounds, as in a payload
//! ```

use std::ops::Bound;

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::transaction::KeyRange;
use highwater_core::{Direction, Epoch, Nanos, TableId, Timestamp};
use highwater_kit::validation::payload::{Payload, put_bound, take_bound};

/// What stamp a client wishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// It exceeds this: what the transaction has read, and what was in the way of an earlier attempt.
    pub above: Timestamp,
    /// The attempt before came too late, where real time is promised.
    pub late: Option<Late>,
}

/// An attempt that came too late to some replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Its stamp, of the same home.
    pub ts: Timestamp,
    /// What the replica's clock showed.
    pub shown: Timestamp,
    /// As it was granted.
    pub lead: Ahead,
    /// How long its payload was.
    pub bytes: u32,
}

/// What a home remembers of a stamp by having its client remember it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// So many ticks it is ahead of the home's clock.
    pub ahead: u64,
    /// By so much that clock had been advanced by then.
    pub advanced: u64,
    /// When that was, by the home's time.
    pub since: Nanos,
}

/// A range of keys.
pub type OwnedRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A message of a client's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// What stands under a key?
    Read {
        /// Comes back with the answer.
        id: u64,
        /// And a stamp, of the home: answered by itself, if one can be granted now.
        stamp: Option<Wish>,
        /// Where.
        table: TableId,
        key: Bytes,
        /// The value is wanted, not only its version.
        value: bool,
    },
    /// What stands in a range?
    Scan {
        /// Comes back with the answer.
        id: u64,
        /// As in [`Read`](Ask::Read).
        stamp: Option<Wish>,
        /// Where.
        table: TableId,
        /// In which order.
        direction: Direction,
        /// What part of the table.
        range: OwnedRange,
        /// So many records at most.
        most: u32,
    },
    /// A stamp, please.
    Stamp {
        /// Comes back with the answer.
        id: u64,
        wish: Wish,
    },
    /// This stamp was used nowhere, and will not be.
    Return {
        epoch: Epoch,
        /// The stamp.
        ts: Timestamp,
    },
    /// Can it commit? As [`About::Validate`](highwater_kit::validation::message::About::Validate).
    Validate {
        /// The stamp's epoch.
        epoch: Epoch,
        /// Which transaction.
        ts: Timestamp,
        /// What it read and writes.
        payload: Payload,
    },
    /// Take this for decided, unless you promised a later view: the client proposes in view 0.
    Accept {
        /// The stamp's epoch.
        epoch: Epoch,
        /// Which transaction.
        ts: Timestamp,
        commit: bool,
    },
    /// It is decided. The home answers `Over`.
    Decided {
        /// The stamp's epoch.
        epoch: Epoch,
        /// Which transaction.
        ts: Timestamp,
        commit: bool,
        /// Who has a record of it: a bit each.
        voted: u32,
        /// For who has none.
        payload: Option<Payload>,
    },
}

fn put_stamp(out: &mut Vec<u8>, stamp: Option<Wish>) {
    match stamp {
        None => out.push(0),
        Some(Wish { above, late }) => {
            out.push(1 + u8::from(late.is_some()));
            out.extend_from_slice(&above.0.to_le_bytes());
            let Some(Late { ts, shown, lead: Ahead { ahead, advanced, since }, bytes }) = late else {
                return;
            };
            for word in [ts.0, shown.0, ahead, advanced, since] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&bytes.to_le_bytes());
        }
    }
}

fn take_stamp(reader: &mut Reader<'_>) -> Result<Option<Wish>, Malformed> {
    Ok(match reader.u8()? {
        0 => None,
        1 => Some(Wish { above: Timestamp(reader.u64()?), late: None }),
        2 => {
            let above = Timestamp(reader.u64()?);
            let (ts, shown) = (Timestamp(reader.u64()?), Timestamp(reader.u64()?));
            let lead = Ahead { ahead: reader.u64()?, advanced: reader.u64()?, since: reader.u64()? };
            Some(Wish { above, late: Some(Late { ts, shown, lead, bytes: reader.u32()? }) })
        }
        _ => return Err(Malformed("a wish for a stamp")),
    })
}

fn yes_or_no(byte: u8) -> Result<bool, Malformed> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("yes or no")),
    }
}

impl Ask {
    /// As it travels.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        let named = |out: &mut Vec<u8>, tag: u8, epoch: Epoch, ts: Timestamp| {
            out.push(tag);
            out.extend_from_slice(&epoch.0.to_le_bytes());
            out.extend_from_slice(&ts.0.to_le_bytes());
        };
        match self {
            Ask::Read { id, stamp, table, key, value } => {
                out.push(1);
                out.extend_from_slice(&id.to_le_bytes());
                put_stamp(&mut out, *stamp);
                out.extend_from_slice(&[table.0, (*value).into()]);
                out.extend_from_slice(key);
            }
            Ask::Scan { id, stamp, table, direction, range, most } => {
                out.push(2);
                out.extend_from_slice(&id.to_le_bytes());
                put_stamp(&mut out, *stamp);
                out.extend_from_slice(&[table.0, (*direction == Direction::Backward).into()]);
                let range = borrowed(range);
                put_bound(&mut out, range.0);
                put_bound(&mut out, range.1);
                out.extend_from_slice(&most.to_le_bytes());
            }
            Ask::Stamp { id, wish } => {
                out.push(3);
                out.extend_from_slice(&id.to_le_bytes());
                put_stamp(&mut out, Some(*wish));
            }
            Ask::Return { epoch, ts } => named(&mut out, 4, *epoch, *ts),
            Ask::Validate { epoch, ts, payload } => {
                named(&mut out, 5, *epoch, *ts);
                out.extend_from_slice(payload.bytes());
            }
            Ask::Accept { epoch, ts, commit } => {
                named(&mut out, 6, *epoch, *ts);
                out.push((*commit).into());
            }
            Ask::Decided { epoch, ts, commit, voted, payload } => {
                named(&mut out, 7, *epoch, *ts);
                out.push((*commit).into());
                out.extend_from_slice(&voted.to_le_bytes());
                payload.iter().for_each(|payload| out.extend_from_slice(payload.bytes()));
            }
        }
        out.into()
    }

    /// Reads what [`encode`](Ask::encode) wrote. A payload shares the memory.
    ///
    /// # Errors
    /// If it is something else.
    pub fn decode(whole: &Bytes) -> Result<Ask, Malformed> {
        let reader = &mut Reader::new(whole);
        let rest = |reader: &Reader<'_>| whole.slice(whole.len() - reader.rest().len()..);
        let ask = match reader.u8()? {
            1 => {
                let (id, stamp) = (reader.u64()?, take_stamp(reader)?);
                let (table, value) = (TableId(reader.u8()?), yes_or_no(reader.u8()?)?);
                return Ok(Ask::Read { id, stamp, table, key: rest(reader), value });
            }
            2 => {
                let (id, stamp, table) = (reader.u64()?, take_stamp(reader)?, TableId(reader.u8()?));
                let backward = yes_or_no(reader.u8()?)?;
                let direction = if backward { Direction::Backward } else { Direction::Forward };
                let range =
                    (take_bound(reader)?.map(<[u8]>::to_vec), take_bound(reader)?.map(<[u8]>::to_vec));
                Ask::Scan { id, stamp, table, direction, range, most: reader.u32()? }
            }
            3 => {
                let (id, wish) = (reader.u64()?, take_stamp(reader)?);
                Ask::Stamp { id, wish: wish.ok_or(Malformed("a wish for a stamp"))? }
            }
            4 => Ask::Return { epoch: Epoch(reader.u64()?), ts: Timestamp(reader.u64()?) },
            5 => {
                let (epoch, ts) = (Epoch(reader.u64()?), Timestamp(reader.u64()?));
                return Ok(Ask::Validate { epoch, ts, payload: Payload::parse(rest(reader))? });
            }
            6 => {
                let (epoch, ts) = (Epoch(reader.u64()?), Timestamp(reader.u64()?));
                Ask::Accept { epoch, ts, commit: yes_or_no(reader.u8()?)? }
            }
            7 => {
                let (epoch, ts) = (Epoch(reader.u64()?), Timestamp(reader.u64()?));
                let (commit, voted) = (yes_or_no(reader.u8()?)?, reader.u32()?);
                let payload = if reader.is_empty() { None } else { Some(Payload::parse(rest(reader))?) };
                return Ok(Ask::Decided { epoch, ts, commit, voted, payload });
            }
            _ => return Err(Malformed("tag of a client's message")),
        };
        if reader.is_empty() { Ok(ask) } else { Err(Malformed("length of a client's message")) }
    }
}

/// The same range, as a scan wants it.
#[inline]
pub fn borrowed(range: &OwnedRange) -> KeyRange<'_> {
    (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> Vec<Ask> {
        let lead = Ahead { ahead: 1, advanced: 2, since: 3 };
        let late = Late { ts: Timestamp(4), shown: Timestamp(5), lead, bytes: 6 };
        let wish = Wish { above: Timestamp(3), late: None };
        let payload = Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[]);
        let (epoch, ts) = (Epoch(7), Timestamp(40));
        let range = (Bound::Included(b"a".to_vec()), Bound::Excluded(b"b".to_vec()));
        vec![
            Ask::Read {
                id: 1,
                stamp: Some(wish),
                table: TableId(2),
                key: Bytes::from_static(b"key"),
                value: true,
            },
            Ask::Read { id: 1, stamp: None, table: TableId(2), key: Bytes::new(), value: false },
            Ask::Scan {
                id: 2,
                stamp: None,
                table: TableId(0),
                direction: Direction::Backward,
                range,
                most: 9,
            },
            Ask::Stamp { id: 3, wish },
            Ask::Stamp { id: 3, wish: Wish { late: Some(late), ..wish } },
            Ask::Return { epoch, ts },
            Ask::Validate { epoch, ts, payload: payload.clone() },
            Ask::Accept { epoch, ts, commit: true },
            Ask::Decided { epoch, ts, commit: true, voted: 0b101, payload: Some(payload) },
            Ask::Decided { epoch, ts, commit: false, voted: 0, payload: None },
        ]
    }

    #[test]
    fn messages_round_trip_and_nonsense_is_an_error() {
        for ask in every() {
            let bytes = ask.encode();
            assert_eq!(Ask::decode(&bytes), Ok(ask.clone()));
            // A shorter one is an error, or another message: never a panic.
            for len in 0..bytes.len() {
                assert_ne!(Ask::decode(&bytes.slice(..len)), Ok(ask.clone()));
            }
        }
        assert!(Ask::decode(&Bytes::from_static(&[99; 40])).is_err());
        assert!(Ask::decode(&Bytes::from_static(&[3; 10])).is_err());
    }
}
