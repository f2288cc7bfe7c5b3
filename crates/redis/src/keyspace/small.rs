//! Small collections: all elements of a set, a hash or a sorted set behind its head, in the key's row.
//!
//! ```text
//! value of the row    member, value, member, value ..    packed; no order is promised
//! ```
//!
//! So a small hash is one row, and each change of it writes that row alone. What grows beyond the bounds below moves to rows of its own, once: it does not
//! come back. In whatever order elements stand here, they are visited in that of their rows: nobody can tell where they are.

use std::ops::ControlFlow;

use highwater_core::{Direction, Transaction};

use super::head::{Head, Kind, Slot};
use super::items::End;
use super::packed::{Packed, packed_bytes};
use super::scores::score_of;
use super::{Done, ELEMENTS, Keyspace, rows};

/// So many elements at most. Each lookup goes through them.
const MOST: usize = 32;
/// They take so many bytes at most. Each change logs them all.
const MOST_BYTES: usize = 512;

/// Elements, with their hashes or the order of their scores.
type Ordered<'a> = Vec<(u64, &'a [u8], &'a [u8])>;

/// The index of a member among the pieces; its value stands behind it.
fn place(elements: &Packed, member: &[u8]) -> Option<usize> {
    elements.iter().step_by(2).position(|other| other == member).map(|at| at * 2)
}

/// Members and values in the order that `by` gives them.
fn ordered(elements: &Packed, by: impl Fn(&[u8], &[u8]) -> u64) -> Ordered<'_> {
    let mut pieces = elements.iter();
    let mut ordered = Ordered::new();
    while let (Some(member), Some(value)) = (pieces.next(), pieces.next()) {
        ordered.push((by(member, value), member, value));
    }
    ordered.sort_unstable();
    ordered
}

impl<T: Transaction> Keyspace<'_, T> {
    /// Keeps a small collection's elements until the command is over.
    pub(super) fn keep_small(&mut self, elements: Packed) -> Slot {
        self.smalls.push(elements);
        Slot(self.smalls.len() as u32 - 1)
    }

    /// Its elements.
    pub(super) fn small(&self, head: &Head) -> &Packed {
        self.smalls.get(head.slot.0 as usize).expect("a small collection was looked at before")
    }

    pub(super) fn small_mut(&mut self, head: &Head) -> &mut Packed {
        self.smalls.get_mut(head.slot.0 as usize).expect("a small collection was looked at before")
    }

    /// The value of a member of a small collection.
    pub(super) fn small_member(&self, head: &Head, member: &[u8]) -> Option<&[u8]> {
        let mut pieces = self.small(head).iter();
        while let (Some(other), value) = (pieces.next(), pieces.next()) {
            if other == member {
                return value;
            }
        }
        None
    }

    /// Sets a member's value, if there is room; whether there was.
    pub(super) fn put_small(&mut self, head: &Head, member: &[u8], value: &[u8]) -> bool {
        let elements = self.small_mut(head);
        let at = place(elements, member);
        let old = at.map(|at| packed_bytes(elements.get(at + 1).len()));
        let more = packed_bytes(value.len()) + if at.is_none() { packed_bytes(member.len()) } else { 0 };
        let bytes = elements.bytes().len() - old.unwrap_or(0) + more;
        if bytes > MOST_BYTES || at.is_none() && elements.count() >= 2 * MOST {
            return false;
        }
        match at {
            Some(at) => elements.replace(at + 1, value),
            None => {
                elements.push(End::Right, member);
                elements.push(End::Right, value);
            }
        }
        true
    }

    /// Removes a member; whether there was one.
    pub(super) fn delete_small(&mut self, head: &Head, member: &[u8]) -> bool {
        let elements = self.small_mut(head);
        let Some(at) = place(elements, member) else { return false };
        elements.remove(at + 1);
        elements.remove(at);
        true
    }

    /// Gives the elements of a small collection rows: it is small no more.
    pub(super) fn unpack(&mut self, head: &mut Head) -> Done {
        let elements = std::mem::take(self.small_mut(head));
        (head.packed, head.slot, head.id) = (false, Slot::NONE, self.fresh_id(ELEMENTS)?);
        let mut pieces = elements.iter();
        while let (Some(member), Some(value)) = (pieces.next(), pieces.next()) {
            self.tx.put(ELEMENTS, &rows::member_row(head.id, member), value)?;
            if head.kind == Kind::SortedSet {
                self.put_score_row(head.id, score_of(value), member)?;
            }
        }
        Ok(())
    }

    /// Visits the members of a small collection from a [spot](rows::spot) on, in the order of their rows.
    pub(super) fn each_small_member(
        &self,
        head: &Head,
        from: &[u8],
        mut visit: impl FnMut(u64, &[u8], &[u8]) -> ControlFlow<()>,
    ) {
        let members = ordered(self.small(head), |member, _| rows::hash(member));
        let _ = members
            .into_iter()
            .filter(|(hash, member, _)| rows::spot(*hash, member)[..] >= *from)
            .try_for_each(|(hash, member, value)| visit(hash, member, value));
    }

    /// Visits those of a small sorted set as [`each_score`](Keyspace::each_score) does.
    pub(super) fn each_small_score(
        &self,
        head: &Head,
        from: Option<f64>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], f64) -> ControlFlow<()>,
    ) {
        let mut members = ordered(self.small(head), |_, score| rows::order_of(score_of(score)));
        if direction == Direction::Backward {
            members.reverse();
        }
        let in_front = |order: u64| match (from.map(rows::order_of), direction) {
            (Some(from), Direction::Forward) => order < from,
            (Some(from), Direction::Backward) => order > from,
            (None, _) => false,
        };
        let _ = members
            .into_iter()
            .filter(|(order, ..)| !in_front(*order))
            .try_for_each(|(_, member, score)| visit(member, score_of(score)));
    }
}
