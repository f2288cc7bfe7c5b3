//! Members: of sets, fields of hashes, and those of sorted sets, each with a value of its own.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use highwater_core::limits::MAX_REPLY_BYTES;
use highwater_core::random::Random;
use highwater_core::{Abort, Direction, Transaction};

use super::head::Head;
use super::rows::{self, MAX_MEMBER_BYTES};
use super::{Done, ELEMENTS, Failure, Keyspace, check_value};
use crate::errors::CommandError;

/// Up to so many members are all looked at to choose some at random, so that each has exactly the same chance.
const LISTED: u64 = 1024;
/// Of more, one of so many neighbours is chosen.
const NEIGHBOURS: usize = 32;
/// No reply has as many strings, which take this many bytes at least.
const MOST_AGAIN: u64 = MAX_REPLY_BYTES as u64 / "$0\r\n\r\n".len() as u64;

/// A member, and its value's bytes.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Members chosen at random.
pub enum Chosen {
    /// These.
    Each(Vec<Pair>),
    /// So many of these, each as often as chance has it: they may be far more than there is memory for.
    Again(Vec<Pair>, u64),
}

impl Chosen {
    /// Of a key that is missing.
    pub const NONE: Chosen = Chosen::Each(Vec::new());

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Chosen::Each(pairs) => pairs.len(),
            Chosen::Again(_, times) => *times as usize,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Visits them.
    pub fn each(
        &self,
        random: &mut Random,
        mut visit: impl FnMut(&Pair) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        match self {
            Chosen::Each(pairs) => pairs.iter().try_for_each(visit),
            Chosen::Again(_, times) if *times > MOST_AGAIN => Err(Abort::TooLarge),
            Chosen::Again(pairs, times) => {
                (0..*times).try_for_each(|_| visit(&pairs[random.below(pairs.len() as u64) as usize]))
            }
        }
    }
}

impl<T: Transaction> Keyspace<'_, T> {
    /// The value of a member.
    pub fn member(&mut self, head: &Head, member: &[u8]) -> Result<Option<&[u8]>, Failure> {
        if member.len() > MAX_MEMBER_BYTES {
            return Ok(None);
        }
        if head.packed {
            return Ok(self.small_member(head, member));
        }
        rows::set_member_row(&mut self.key, head.id, member);
        Ok(self.tx.get(ELEMENTS, &self.key)?)
    }

    /// Sets a member's value. Whoever adds one counts it.
    pub fn put_member(&mut self, head: &mut Head, member: &[u8], value: &[u8]) -> Done {
        if self.put_in_small(head, member, value)? {
            return Ok(());
        }
        rows::set_member_row(&mut self.key, head.id, member);
        Ok(self.tx.put(ELEMENTS, &self.key, value)?)
    }

    /// Adds a member, if there is none; whether it did. Whoever adds one counts it.
    pub fn add_member(&mut self, head: &mut Head, member: &[u8], value: &[u8]) -> Result<bool, Failure> {
        if head.packed && self.small_member(head, member).is_some() {
            return Ok(false);
        }
        if self.put_in_small(head, member, value)? {
            return Ok(true);
        }
        rows::set_member_row(&mut self.key, head.id, member);
        Ok(self.tx.insert(ELEMENTS, &self.key, value)?)
    }

    /// Sets a member's value in a small collection that has room for it; whether it did. If there is none, the collection is small no more.
    fn put_in_small(&mut self, head: &mut Head, member: &[u8], value: &[u8]) -> Result<bool, Failure> {
        if member.len() > MAX_MEMBER_BYTES {
            return Err(CommandError::MemberTooLong.into());
        }
        check_value(value.len())?;
        if head.packed && self.put_small(head, member, value) {
            return Ok(true);
        }
        if head.packed {
            self.unpack(head)?;
        }
        Ok(false)
    }

    /// Removes a member; whether there was one. Whoever does counts it.
    pub fn delete_member(&mut self, head: &Head, member: &[u8]) -> Result<bool, Failure> {
        if member.len() > MAX_MEMBER_BYTES {
            return Ok(false);
        }
        if head.packed {
            return Ok(self.delete_small(head, member));
        }
        rows::set_member_row(&mut self.key, head.id, member);
        Ok(self.tx.delete(ELEMENTS, &self.key)?)
    }

    /// Visits members from a [spot](rows::spot) on, with their hashes, until `visit` breaks.
    pub fn each_member(
        &mut self,
        head: &Head,
        from: &[u8],
        mut visit: impl FnMut(u64, &[u8], &[u8]) -> ControlFlow<()>,
    ) -> Done {
        if head.packed {
            self.each_small_member(head, from, visit);
            return Ok(());
        }
        let (start, end) = (rows::members_from(head.id, from), rows::members_end(head.id));
        self.scan(ELEMENTS, &start, &end, Direction::Forward, |row, value| {
            visit(rows::hash_in(row), rows::member_in(row), value)
        })
    }

    /// All members, in no particular order.
    pub fn members(&mut self, head: &Head) -> Result<Vec<Pair>, Failure> {
        let mut members = Vec::with_capacity(head.count as usize);
        self.each_member(head, &[], |_, member, value| {
            members.push((member.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(members)
    }

    /// One member at random.
    pub fn random_member(&mut self, head: &Head) -> Result<Pair, Failure> {
        if head.count <= LISTED {
            let at = self.random.below(head.count);
            let mut left = at;
            let mut found = None;
            self.each_member(head, &[], |_, member, value| {
                if left == 0 {
                    found = Some((member.to_vec(), value.to_vec()));
                    return ControlFlow::Break(());
                }
                left -= 1;
                ControlFlow::Continue(())
            })?;
            return Ok(found.expect("a collection has as many members as it counts"));
        }
        let mut near = Vec::with_capacity(NEIGHBOURS);
        // A hash behind the last one starts again with the first.
        for from in [self.random.bits(), 0] {
            self.each_member(head, &u64::to_be_bytes(from), |_, member, value| {
                near.push((member.to_vec(), value.to_vec()));
                if near.len() < NEIGHBOURS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if near.len() == NEIGHBOURS {
                break;
            }
        }
        let at = self.random.below(near.len() as u64) as usize;
        Ok(near.swap_remove(at))
    }

    /// So many different members at random: all, if there are no more.
    pub fn random_members(&mut self, head: &Head, count: u64) -> Result<Vec<Pair>, Failure> {
        // One by one, each looks at its neighbours: where that comes to more than all there are, those are looked at.
        let few = head.count > LISTED && count < head.count / NEIGHBOURS as u64;
        if !few {
            let mut members = self.members(head)?;
            self.shuffle(&mut members);
            members.truncate(usize::try_from(count).unwrap_or(usize::MAX));
            return Ok(members);
        }
        let mut chosen = BTreeMap::new();
        // Chance finds each about once, but for members whose hashes stand close together: of those it finds the same few for ever.
        for _ in 0..2 * count + NEIGHBOURS as u64 {
            if chosen.len() as u64 == count {
                break;
            }
            let (member, value) = self.random_member(head)?;
            chosen.insert(member, value);
        }
        self.choose_in_a_row(head, count, &mut chosen)?;
        let mut chosen: Vec<Pair> = chosen.into_iter().collect();
        self.shuffle(&mut chosen);
        Ok(chosen)
    }

    /// Chooses those behind a random hash until there are so many.
    fn choose_in_a_row(&mut self, head: &Head, count: u64, chosen: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Done {
        for from in [self.random.bits(), 0] {
            if chosen.len() as u64 == count {
                break;
            }
            self.each_member(head, &from.to_be_bytes(), |_, member, value| {
                if !chosen.contains_key(member) {
                    chosen.insert(member.to_vec(), value.to_vec());
                }
                if (chosen.len() as u64) < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(())
    }

    /// So many at random; if the count is negative, the same may be chosen again.
    pub fn chosen(&mut self, head: &Head, count: i64) -> Result<Chosen, Failure> {
        if count >= 0 {
            return Ok(Chosen::Each(self.random_members(head, count as u64)?));
        }
        let times = count.unsigned_abs();
        if times < head.count / NEIGHBOURS as u64 {
            let each = (0..times).map(|_| self.random_member(head)).collect::<Result<_, _>>()?;
            return Ok(Chosen::Each(each));
        }
        Ok(Chosen::Again(self.members(head)?, times))
    }

    /// Brings them into a random order.
    pub fn shuffle<X>(&mut self, items: &mut [X]) {
        for end in (1..items.len()).rev() {
            let other = self.random.below(end as u64 + 1) as usize;
            items.swap(end, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply of 64 MiB was put together before it was refused.
    #[test]
    fn more_choices_than_any_reply_holds_are_refused_before_the_first() {
        let pairs = || vec![(Vec::new(), Vec::new())];
        for (times, visited) in [(1, 1), (1000, 1000), (MOST_AGAIN + 1, 0), (i64::MAX as u64, 0)] {
            let mut visits = 0;
            let ended = Chosen::Again(pairs(), times).each(&mut Random::new(1), |_| {
                visits += 1;
                Ok(())
            });
            assert_eq!((visits, ended.is_ok()), (visited, visited > 0), "{times}");
        }
    }
}
