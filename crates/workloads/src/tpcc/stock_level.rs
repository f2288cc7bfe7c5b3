//! StockLevel (clause 2.8): how many of the items in a district's last 20 orders run low. Read-only, the longest reader
//! of the mix: some 200 order lines and their stock.

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{Signature, U8, U16, U32, field};
use highwater_core::{Abort, Direction, Procedure, TableId, Transaction};

use super::keys;
use super::layout::{LAYOUT, Layout, LayoutKind, get, with_layout};
use super::new_order::MAX_LINES;
use super::population::DISTRICTS;
use crate::bytes::{Fields, Sink, bad_request, require};

/// Orders that are looked at.
const ORDERS: u32 = 20;
/// Stock rows asked for at once.
const WINDOW: usize = 32;

/// `tpcc.stock_level`. Arguments: [`Request`]. Reply: the number of items below the threshold, u16.
pub struct StockLevel;

/// The arguments, 9 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The tables.
    pub layout: LayoutKind,
    pub warehouse: u16,
    pub district: u8,
    /// The quantity below which an item runs low, 10 to 20.
    pub threshold: u8,
    /// The district's next order id if ids are drawn outside (fast ids), or 0 to read it.
    pub next_order: u32,
}

impl Request {
    /// Appends the arguments.
    #[inline]
    pub fn encode(&self, args: &mut Vec<u8>) {
        args.put_u8(self.layout.byte());
        args.put_u16(self.warehouse);
        args.put_u8(self.district);
        args.put_u8(self.threshold);
        args.put_u32(self.next_order);
    }

    fn decode(args: &[u8]) -> Result<Request, Malformed> {
        let mut reader = Reader::new(args);
        let request = Request {
            layout: LayoutKind::decode(&mut reader)?,
            warehouse: reader.u16()?,
            district: reader.u8()?,
            threshold: reader.u8()?,
            next_order: reader.u32()?,
        };
        reader.end()?;
        let valid = (1..=DISTRICTS).contains(&request.district);
        if valid { Ok(request) } else { Err(Malformed("stock level (district out of range)")) }
    }
}

impl Procedure for StockLevel {
    const NAME: &'static str = "tpcc.stock_level";
    const VERSION: u32 = 2;

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: true,
            args: &[
                LAYOUT,
                field("warehouse", U16),
                field("district", U8),
                field("threshold", U8),
                field("next_order", U32),
            ],
            reply: &[field("low", U16)],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let request = Request::decode(args).map_err(|error| bad_request(reply, error.0))?;
        with_layout!(request.layout, run(tx, &request, reply))
    }
}

fn run<L: Layout, T: Transaction>(tx: &mut T, request: &Request, reply: &mut Vec<u8>) -> Result<(), Abort> {
    let next = next_order::<L, T>(tx, request, reply)?;
    let items = items_of_last_orders::<L, T>(tx, request, next, reply)?;
    let mut low: u16 = 0;
    for window in items.as_slice().chunks(WINDOW) {
        let mut wanted = [(TableId(0), 0); WINDOW];
        for (slot, item) in wanted.iter_mut().zip(window) {
            *slot = (L::TABLES.stock, keys::stock(request.warehouse, *item));
        }
        let wanted = &wanted[..window.len()];
        tx.prefetch(wanted);
        for (table, key) in wanted {
            let row = get(tx, *table, *key)?;
            let stock = require(row, L::stock, "no such stock", reply)?;
            low += u16::from(stock.quantity < u16::from(request.threshold));
        }
    }
    reply.put_u16(low);
    Ok(())
}

fn next_order<L: Layout, T: Transaction>(
    tx: &mut T,
    request: &Request,
    reply: &mut Vec<u8>,
) -> Result<u32, Abort> {
    if request.next_order != 0 {
        return Ok(request.next_order);
    }
    let row = get(tx, L::TABLES.district_next, keys::district(request.warehouse, request.district))?;
    require(row, L::district_next, "no such district", reply)
}

fn items_of_last_orders<L: Layout, T: Transaction>(
    tx: &mut T,
    request: &Request,
    next: u32,
    reply: &mut Vec<u8>,
) -> Result<ItemSet, Abort> {
    let (w, d) = (request.warehouse, request.district);
    let first = keys::order_line(w, d, next.saturating_sub(ORDERS), 0).to_be_bytes();
    let end = keys::order_line(w, d, next, 0).to_be_bytes();
    let range = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
    let mut items = ItemSet::new();
    let mut malformed = None;
    tx.scan(L::TABLES.order_line, range, Direction::Forward, |_, row| match L::order_line(row) {
        Ok(line) => items.insert(line.item),
        Err(error) => {
            malformed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    match malformed {
        None => Ok(items),
        Some(error) => Err(bad_request(reply, error.0)),
    }
}

/// A set of item ids on the stack: an open-addressing table beside the list of what is in it.
///
/// Invariant: `list[..len]` holds each id once, and `slots` holds the same ids.
struct ItemSet {
    slots: [u32; ItemSet::SLOTS],
    list: [u32; ItemSet::CAPACITY],
    len: usize,
}

impl ItemSet {
    const CAPACITY: usize = ORDERS as usize * MAX_LINES;
    const SLOTS: usize = 512;

    fn new() -> ItemSet {
        ItemSet { slots: [0; ItemSet::SLOTS], list: [0; ItemSet::CAPACITY], len: 0 }
    }

    fn as_slice(&self) -> &[u32] {
        &self.list[..self.len]
    }

    /// Adds an id, which is not 0. Breaks when full, which 20 orders of 15 lines cannot exceed.
    #[inline]
    fn insert(&mut self, item: u32) -> ControlFlow<()> {
        if self.len == ItemSet::CAPACITY {
            return ControlFlow::Break(());
        }
        // Multiplicative hashing; the top 9 bits choose one of 512 slots.
        let mut at = (item.wrapping_mul(0x9e37_79b1) >> 23) as usize;
        while self.slots[at] != item {
            if self.slots[at] == 0 {
                self.slots[at] = item;
                self.list[self.len] = item;
                self.len += 1;
                break;
            }
            at = (at + 1) % ItemSet::SLOTS;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    #[test]
    fn the_item_set_counts_each_once_and_stops_when_full() {
        let mut rng = Rng::new(5);
        let (mut set, mut expected) = (ItemSet::new(), std::collections::BTreeSet::new());
        for _ in 0..280 {
            let item = rng.within(1, 400) as u32;
            expected.insert(item);
            assert!(set.insert(item).is_continue());
        }
        let mut items = set.as_slice().to_vec();
        items.sort_unstable();
        assert_eq!(items, expected.into_iter().collect::<Vec<_>>());
        let full = (1000..2000).find(|item| set.insert(*item).is_break());
        assert!(full.is_some() && set.as_slice().len() == ItemSet::CAPACITY);
    }
}
