//! How Payment and OrderStatus say which customer they mean, and how that one is found (clause 2.5.2.2): the index by name has an
//! entry per customer, which whoever writes C_LAST or C_FIRST writes too.

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{Field, Kind, U16, field};
use highwater_core::{Abort, Direction, TableId, Transaction};

use super::keys;
use super::layout::{Layout, get};
use super::population::CUSTOMERS;
use super::rows::{Customer, CustomerInfo};
use super::text::LAST_NAME_BYTES;
use crate::bytes::{Fields, Sink, bad_request};

/// [`Who`], in a signature.
pub const WHO: Field = field("customer", Kind::OneOf(&[field("id", U16), field("name", Kind::Text)]));

/// A customer of a district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who<'a> {
    /// By C_ID.
    Id(u16),
    /// By C_LAST: of all who have it, the one in the middle in the order of C_FIRST.
    LastName(&'a [u8]),
}

impl<'a> Who<'a> {
    /// Appends 3 to 18 bytes.
    #[inline]
    pub fn encode(self, args: &mut Vec<u8>) {
        match self {
            Who::Id(id) => {
                args.put_u8(0);
                args.put_u16(id);
            }
            Who::LastName(name) => {
                args.put_u8(1);
                args.put_text(name);
            }
        }
    }

    /// Takes them.
    #[inline]
    pub fn decode(reader: &mut Reader<'a>) -> Result<Who<'a>, Malformed> {
        let who = match reader.u8()? {
            0 => Who::Id(reader.u16()?),
            1 => Who::LastName(reader.text()?),
            _ => return Err(Malformed("customer (neither 0 for an id nor 1 for a last name)")),
        };
        match who {
            Who::Id(id) if !(1..=CUSTOMERS).contains(&id) => Err(Malformed("customer (an id is 1 to 3000)")),
            Who::LastName(name) if !(1..=LAST_NAME_BYTES).contains(&name.len()) => {
                Err(Malformed("customer (a last name has 1 to 16 characters)"))
            }
            _ => Ok(who),
        }
    }

    /// The C_ID. Hints at the rows of the customer that `rows` names, and at those `beside`, in one go if it can.
    #[inline]
    pub fn find<L: Layout, T: Transaction, R: AsRef<[(TableId, u64)]>>(
        self,
        tx: &mut T,
        (w, d): (u16, u8),
        rows: impl Fn(u64) -> R,
        beside: &[(TableId, u64)],
        reply: &mut Vec<u8>,
    ) -> Result<u16, Abort> {
        match self {
            Who::Id(c) => {
                let (mut wanted, rows) = ([(TableId(0), 0); 8], rows(keys::customer(w, d, c)));
                let known = beside.iter().chain(rows.as_ref());
                let count = wanted.iter_mut().zip(known).map(|(slot, row)| *slot = *row).count();
                tx.prefetch(&wanted[..count]);
                Ok(c)
            }
            Who::LastName(name) => {
                tx.prefetch(beside);
                let c = middle::<L, T>(tx, w, d, name)?;
                let c = c.ok_or_else(|| bad_request(reply, "no customer of this name"))?;
                tx.prefetch(rows(keys::customer(w, d, c)).as_ref());
                Ok(c)
            }
        }
    }
}

/// Customers of one name that are remembered until their number is known: the population gives a name to three on average. A
/// second scan finds the one in the middle of more than twice as many.
const REMEMBERED: usize = 48;

/// Of the customers of this last name, in the order of C_FIRST, the one at position n/2, rounded up and counted from 1.
#[inline]
fn middle<L: Layout, T: Transaction>(tx: &mut T, w: u16, d: u8, last: &[u8]) -> Result<Option<u16>, Abort> {
    let (mut ids, mut count) = ([0; REMEMBERED], 0);
    each_of_name::<L, T>(tx, w, d, last, |c| {
        if let Some(slot) = ids.get_mut(count) {
            *slot = c;
        }
        count += 1;
        ControlFlow::Continue(())
    })?;
    let Some(at) = count.div_ceil(2).checked_sub(1) else { return Ok(None) };
    if let Some(c) = ids.get(at) {
        return Ok(Some(*c));
    }
    let (mut seen, mut found) = (0, None);
    each_of_name::<L, T>(tx, w, d, last, |c| {
        found = Some(c);
        seen += 1;
        if seen > at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

#[inline]
fn each_of_name<L: Layout, T: Transaction>(
    tx: &mut T,
    w: u16,
    d: u8,
    last: &[u8],
    mut visit: impl FnMut(u16) -> ControlFlow<()>,
) -> Result<(), Abort> {
    let from = L::name_key(w, d, last, &[], 0);
    let to = L::name_key(w, d, last, &[0xff; LAST_NAME_BYTES], u16::MAX);
    let range = (Bound::Included(from.as_slice()), Bound::Included(to.as_slice()));
    tx.scan(L::TABLES.customer_by_name, range, Direction::Forward, |key, row| match L::name(key, row) {
        Ok(name) => visit(name.customer),
        // An entry that makes no sense is nobody's; the conditions find it.
        Err(_) => ControlFlow::Continue(()),
    })
}

/// Writes a customer with his entry in the index. If he had another name before, the entry under that one goes.
pub fn write<L: Layout, T: Transaction>(
    tx: &mut T,
    (w, d, c): (u16, u8, u16),
    info: &CustomerInfo<'_>,
    customer: &Customer,
    data: &[u8],
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let key = keys::customer(w, d, c);
    let entry = L::name_key(w, d, info.last, info.first, c);
    let old_entry = match get(tx, L::TABLES.customer_info, key)? {
        Some(row) => {
            let old = L::customer_info(row).map_err(|error| bad_request(reply, error.0))?;
            Some(L::name_key(w, d, old.last, old.first, c))
        }
        None => None,
    };
    if let Some(old) = old_entry.filter(|old| old.as_slice() != entry.as_slice()) {
        tx.delete(L::TABLES.customer_by_name, old.as_slice())?;
    }
    L::put_customer(tx, key, info, customer, data)?;
    tx.put(L::TABLES.customer_by_name, entry.as_slice(), L::name_row(c).as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_round_trip_and_others_are_refused() {
        for who in [Who::Id(1), Who::Id(3000), Who::LastName(b"BAR"), Who::LastName(b"SIXTEEN LETTERS!")] {
            let mut args = Vec::new();
            who.encode(&mut args);
            assert_eq!(Who::decode(&mut Reader::new(&args)), Ok(who));
        }
        let (none, long) = (&[1, 0][..], [&[1, 17][..], &[b'A'; 17]].concat());
        for bad in [&[0, 0, 0], &[0, 0xb9, 0x0b], none, &long, &[2, 1, 0]] {
            assert!(Who::decode(&mut Reader::new(bad)).is_err());
        }
    }
}
