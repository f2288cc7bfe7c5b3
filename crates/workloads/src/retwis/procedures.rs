//! Retwis' transactions.

use highwater_core::signature::{Kind, Signature, U32, U64, field};
use highwater_core::{Abort, Access, Footprint, Procedure, Transaction};

use crate::bytes::bad_request;
use crate::row64::{self, Row};
use crate::tables::RETWIS;

/// Most rows of a timeline.
pub const MAX_TIMELINE: usize = 10;

/// The row that has the same stamp.
#[inline]
pub fn twin(row: u64) -> u64 {
    row ^ 1
}

/// `retwis.load`: arguments first number u64, count u32.
pub struct Load;

impl Procedure for Load {
    const NAME: &'static str = "retwis.load";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature =
            Signature { reads: false, args: &[field("first", U64), field("count", U32)], reply: &[] };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        row64::load(tx, RETWIS, args, reply)
    }
}

/// `retwis.add_user`: arguments a row u64 to modify, a row u64 to set with its twin, their stamp u64. Reply: the modified
/// row.
pub struct AddUser;

impl AddUser {
    /// Rows that it gets, and modifies.
    pub const MODIFIED: usize = 1;
}

impl Procedure for AddUser {
    const NAME: &'static str = "retwis.add_user";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[field("modified", U64), field("set", U64), field("stamp", U64)],
            reply: &[field("rows", Kind::Groups(&[field("row", Kind::Bytes(row64::BYTES))]))],
        };
        Some(&SIGNATURE)
    }

    fn footprint(args: &[u8], footprint: &mut Footprint) -> bool {
        Write::decode(args, AddUser::MODIFIED, true).is_some_and(|write| write.footprint(footprint))
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        match Write::decode(args, AddUser::MODIFIED, true) {
            Some(write) => write.run(tx, reply),
            None => Err(bad_request(reply, "expected 2 rows and a stamp of 8 bytes")),
        }
    }
}

/// `retwis.follow`: arguments two rows u64 to modify. Reply: the modified rows.
pub struct FollowUnfollow;

impl FollowUnfollow {
    /// Rows that it gets, and modifies.
    pub const MODIFIED: usize = 2;
}

impl Procedure for FollowUnfollow {
    const NAME: &'static str = "retwis.follow";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[field("modified_1", U64), field("modified_2", U64)],
            reply: &[field("rows", Kind::Groups(&[field("row", Kind::Bytes(row64::BYTES))]))],
        };
        Some(&SIGNATURE)
    }

    fn footprint(args: &[u8], footprint: &mut Footprint) -> bool {
        Write::decode(args, FollowUnfollow::MODIFIED, false).is_some_and(|write| write.footprint(footprint))
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        match Write::decode(args, FollowUnfollow::MODIFIED, false) {
            Some(write) => write.run(tx, reply),
            None => Err(bad_request(reply, "expected 2 rows of 8 bytes")),
        }
    }
}

/// `retwis.post`: arguments three rows u64 to modify, a row u64 to set with its twin, their stamp u64. Reply: the
/// modified rows.
pub struct PostTweet;

impl PostTweet {
    /// Rows that it gets, and modifies.
    pub const MODIFIED: usize = 3;
}

impl Procedure for PostTweet {
    const NAME: &'static str = "retwis.post";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[
                field("modified_1", U64),
                field("modified_2", U64),
                field("modified_3", U64),
                field("set", U64),
                field("stamp", U64),
            ],
            reply: &[field("rows", Kind::Groups(&[field("row", Kind::Bytes(row64::BYTES))]))],
        };
        Some(&SIGNATURE)
    }

    fn footprint(args: &[u8], footprint: &mut Footprint) -> bool {
        Write::decode(args, PostTweet::MODIFIED, true).is_some_and(|write| write.footprint(footprint))
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        match Write::decode(args, PostTweet::MODIFIED, true) {
            Some(write) => write.run(tx, reply),
            None => Err(bad_request(reply, "expected 4 rows and a stamp of 8 bytes")),
        }
    }
}

/// What a transaction that writes does.
struct Write<'a> {
    modified: &'a [[u8; 8]],
    /// The row that is set with its twin, if any is, and the stamp of both.
    blind: Option<(u64, u64)>,
}

impl<'a> Write<'a> {
    fn decode(args: &'a [u8], modified: usize, blind: bool) -> Option<Write<'a>> {
        let (words, trailing) = args.as_chunks();
        let (modified, rest) = words.split_at_checked(modified)?;
        let blind = match (rest, blind) {
            ([], false) => None,
            ([row, stamp], true) => Some((u64::from_le_bytes(*row), u64::from_le_bytes(*stamp))),
            _ => return None,
        };
        trailing.is_empty().then_some(Write { modified, blind })
    }

    /// Always true: everything is known.
    fn footprint(&self, footprint: &mut Footprint) -> bool {
        let modified = self.modified.iter().map(|row| u64::from_le_bytes(*row));
        let blind = self.blind.into_iter().flat_map(|(row, _)| [row, twin(row)]);
        modified.chain(blind).for_each(|row| footprint.key(RETWIS, &row64::key(row), Access::Write));
        true
    }

    fn run<T: Transaction>(&self, tx: &mut T, reply: &mut Vec<u8>) -> Result<(), Abort> {
        for row in self.modified {
            row64::modify(tx, RETWIS, u64::from_le_bytes(*row), reply)?;
        }
        let Some((row, stamp)) = self.blind else { return Ok(()) };
        for row in [row, twin(row)] {
            tx.put(RETWIS, &row64::key(row), &Row::new(row, stamp).encode())?;
        }
        Ok(())
    }
}

/// `retwis.timeline`: arguments are 1 to [`MAX_TIMELINE`] rows, u64 each. Reply: their values, one behind the other.
pub struct LoadTimeline;

impl Procedure for LoadTimeline {
    const NAME: &'static str = "retwis.timeline";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: true,
            args: &[field("numbers", Kind::Groups(&[field("number", U64)]))],
            reply: &[field("rows", Kind::Groups(&[field("row", Kind::Bytes(row64::BYTES))]))],
        };
        Some(&SIGNATURE)
    }

    fn footprint(args: &[u8], footprint: &mut Footprint) -> bool {
        let (rows, trailing) = args.as_chunks();
        rows.iter().for_each(|row| {
            footprint.key(RETWIS, &row64::key(u64::from_le_bytes(*row)), Access::Read);
        });
        trailing.is_empty()
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let (rows, trailing) = args.as_chunks();
        if !(trailing.is_empty() && (1..=MAX_TIMELINE).contains(&rows.len())) {
            return Err(bad_request(reply, "expected 1 to 10 rows of 8 bytes"));
        }
        rows.iter().try_for_each(|row| row64::read(tx, RETWIS, u64::from_le_bytes(*row), reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Runner;

    #[test]
    fn bad_arguments_are_refused_with_a_reason() {
        let mut runner = Runner::new();
        for (name, args) in [
            ("retwis.load", vec![0; 11]),
            ("retwis.add_user", vec![]),
            ("retwis.add_user", vec![0; 16]),
            ("retwis.add_user", vec![0; 24]),
            ("retwis.follow", vec![0; 24]),
            ("retwis.post", vec![0; 41]),
            ("retwis.timeline", vec![]),
            ("retwis.timeline", vec![0; 88]),
            ("retwis.timeline", vec![0; 8]),
        ] {
            let (result, reply) = runner.run(name, &args);
            assert_eq!(result, Err(Abort::BadRequest), "{name}");
            assert!(!reply.is_empty(), "{name}");
        }
    }
}
