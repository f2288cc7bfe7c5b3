//! Sorted sets: each member has two rows, one to find its score and one in the order of scores, unless the set is small.
//!
//! The score is the value of the member's row; the other row has it in its key, and a value only to tell -0 from 0.

use std::ops::ControlFlow;

use highwater_core::{Direction, Transaction};

use super::head::Head;
use super::rows;
use super::{Done, ELEMENTS, Failure, Keyspace};

/// Members and scores.
pub type Scored = Vec<(Vec<u8>, f64)>;

impl<T: Transaction> Keyspace<'_, T> {
    /// The score of a member.
    pub fn score(&mut self, head: &Head, member: &[u8]) -> Result<Option<f64>, Failure> {
        Ok(self.member(head, member)?.map(score_of))
    }

    /// Gives a member a score, in place of the `old` one; counts it if it is new.
    pub fn set_score(&mut self, head: &mut Head, member: &[u8], old: Option<f64>, score: f64) -> Done {
        self.put_member(head, member, &score.to_bits().to_le_bytes())?;
        head.count += u64::from(old.is_none());
        if head.packed {
            return Ok(());
        }
        if let Some(old) = old {
            self.delete_score_row(head.id, old, member)?;
        }
        self.put_score_row(head.id, score, member)
    }

    /// Writes the row in the order of scores.
    pub(super) fn put_score_row(&mut self, id: u64, score: f64, member: &[u8]) -> Done {
        let sign: &[u8] = if score == 0.0 && score.is_sign_negative() { b"-" } else { b"" };
        rows::set_score_row(&mut self.key, id, score, member);
        Ok(self.tx.put(ELEMENTS, &self.key, sign)?)
    }

    fn delete_score_row(&mut self, id: u64, score: f64, member: &[u8]) -> Done {
        rows::set_score_row(&mut self.key, id, score, member);
        self.tx.delete(ELEMENTS, &self.key)?;
        Ok(())
    }

    /// Removes a member that has this score.
    pub fn delete_score(&mut self, head: &mut Head, member: &[u8], score: f64) -> Done {
        self.delete_member(head, member)?;
        head.count -= 1;
        if head.packed { Ok(()) } else { self.delete_score_row(head.id, score, member) }
    }

    /// Visits members in the order of their scores, or against it, until `visit` breaks. Forward from the score `from`, or back from it
    /// on, all of that score included.
    pub fn each_score(
        &mut self,
        head: &Head,
        from: Option<f64>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], f64) -> ControlFlow<()>,
    ) -> Done {
        if head.packed {
            self.each_small_score(head, from, direction, visit);
            return Ok(());
        }
        let (mut start, mut end) = (rows::scores_start(head.id), rows::scores_end(head.id));
        match (from, direction) {
            (Some(from), Direction::Forward) => start = rows::score_row(head.id, from, &[]),
            (Some(from), Direction::Backward) if from < f64::INFINITY => {
                end = rows::score_row(head.id, from.next_up(), &[]);
            }
            _ => {}
        }
        self.scan(ELEMENTS, &start, &end, direction, |row, sign| {
            let score = rows::score_in(row);
            visit(rows::member_in(row), if sign.is_empty() { score } else { -0.0 })
        })
    }
}

/// The score that is the value of a member's row.
pub fn score_of(value: &[u8]) -> f64 {
    f64::from_bits(u64::from_le_bytes(value.try_into().expect("a score has 8 bytes")))
}
