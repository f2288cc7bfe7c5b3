//! YCSB-T's transactions.

use highwater_core::signature::{Kind, Signature, U32, U64, field};
use highwater_core::{Abort, Access, Footprint, Procedure, Transaction};

use crate::bytes::bad_request;
use crate::row64;
use crate::tables::YCSB_T;

/// `ycsb-t.load`: arguments first number u64, count u32.
pub struct Load;

impl Procedure for Load {
    const NAME: &'static str = "ycsb-t.load";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature =
            Signature { reads: false, args: &[field("first", U64), field("count", U32)], reply: &[] };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        row64::load(tx, YCSB_T, args, reply)
    }
}

/// `ycsb-t.rmw`: argument the row's number, u64. Counts one up. Reply: the new value.
pub struct ReadModifyWrite;

impl Procedure for ReadModifyWrite {
    const NAME: &'static str = "ycsb-t.rmw";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[field("number", U64)],
            reply: &[field("row", Kind::Bytes(row64::BYTES))],
        };
        Some(&SIGNATURE)
    }

    fn footprint(args: &[u8], footprint: &mut Footprint) -> bool {
        let Ok(number) = args.try_into() else { return false };
        footprint.key(YCSB_T, &row64::key(u64::from_le_bytes(number)), Access::Write);
        true
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let Ok(number) = args.try_into() else {
            return Err(bad_request(reply, "expected a row's number of 8 bytes"));
        };
        row64::modify(tx, YCSB_T, u64::from_le_bytes(number), reply)
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
            ("ycsb-t.load", vec![0; 11]),
            ("ycsb-t.load", vec![0xff; 12]),
            ("ycsb-t.rmw", vec![]),
            ("ycsb-t.rmw", vec![0; 8]),
            ("ycsb-t.rmw", vec![0; 9]),
        ] {
            let (result, reply) = runner.run(name, &args);
            assert_eq!(result, Err(Abort::BadRequest), "{name}");
            assert!(!reply.is_empty(), "{name}");
        }
    }
}
