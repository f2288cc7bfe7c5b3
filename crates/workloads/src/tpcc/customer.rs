//! How Payment and OrderStatus say which customer they mean, and how that one is found (clause 2.5.2.2).

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Abort, Transaction};

use super::keys;
use super::population::{CUSTOMERS, NAMES};
use crate::bytes::{Sink, require};
use crate::tables::tpcc as table;

/// A customer of a district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// By C_ID.
    Id(u16),
    /// By the number of C_LAST: of all who have it, the one in the middle in the order of C_FIRST.
    LastName(u16),
}

impl Who {
    /// Appends 3 bytes.
    #[inline]
    pub fn encode(self, args: &mut Vec<u8>) {
        let (tag, value) = match self {
            Who::Id(id) => (0, id),
            Who::LastName(name) => (1, name),
        };
        args.put_u8(tag);
        args.put_u16(value);
    }

    /// Takes 3 bytes.
    #[inline]
    pub fn decode(reader: &mut Reader<'_>) -> Result<Who, Malformed> {
        match (reader.u8()?, reader.u16()?) {
            (0, id) if (1..=CUSTOMERS).contains(&id) => Ok(Who::Id(id)),
            (1, name) if name < NAMES => Ok(Who::LastName(name)),
            _ => Err(Malformed("customer (neither an id of 1 to 3000 nor a name of 0 to 999)")),
        }
    }

    /// Hints at the rows that [`Who::find`] and its caller will read.
    #[inline]
    pub fn prefetch(self, w: u16, d: u8, tx: &mut impl Transaction) {
        match self {
            Who::Id(c) => prefetch_rows(tx, w, d, c),
            Who::LastName(name) => {
                tx.prefetch(&[(table::CUSTOMER_BY_NAME, keys::customer_by_name(w, d, name))]);
            }
        }
    }

    /// The C_ID.
    #[inline]
    pub fn find<T: Transaction>(self, tx: &mut T, w: u16, d: u8, reply: &mut Vec<u8>) -> Result<u16, Abort> {
        let name = match self {
            Who::Id(c) => return Ok(c),
            Who::LastName(name) => name,
        };
        let key = keys::customer_by_name(w, d, name).to_be_bytes();
        let row = tx.get(table::CUSTOMER_BY_NAME, &key)?;
        let c = require(row, middle, "no customer of this name", reply)?;
        prefetch_rows(tx, w, d, c);
        Ok(c)
    }
}

#[inline]
fn prefetch_rows(tx: &mut impl Transaction, w: u16, d: u8, c: u16) {
    let key = keys::customer(w, d, c);
    tx.prefetch(&[(table::CUSTOMER, key), (table::CUSTOMER_INFO, key)]);
}

/// The one at position n/2, rounded up and counted from 1.
#[inline]
fn middle(ids: &[u8]) -> Result<u16, Malformed> {
    let count = ids.len() / 2;
    let at = count.saturating_sub(1) / 2 * 2;
    Reader::new(&ids[at..]).u16().map_err(|_| Malformed("customer_by_name row"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_rounded_up() {
        let ids = [10, 0, 20, 0, 30, 0, 40, 0];
        assert_eq!([1, 2, 3, 4].map(|n| middle(&ids[..2 * n]).unwrap()), [10, 10, 20, 20]);
        assert!(middle(&[]).is_err());
    }

    #[test]
    fn both_forms_round_trip_and_others_are_refused() {
        for who in [Who::Id(1), Who::Id(3000), Who::LastName(0), Who::LastName(999)] {
            let mut args = Vec::new();
            who.encode(&mut args);
            assert_eq!(Who::decode(&mut Reader::new(&args)), Ok(who));
        }
        for bad in [[0, 0, 0], [0, 0xb9, 0x0b], [1, 0xe8, 3], [2, 1, 0]] {
            assert!(Who::decode(&mut Reader::new(&bad)).is_err());
        }
    }
}
