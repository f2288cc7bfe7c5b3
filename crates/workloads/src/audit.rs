//! Counting what failover must not lose: each acknowledged request leaves a row, so that a client can compare what it
//! was promised with what is there.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{Signature, U8, U32, field};
use highwater_core::{Abort, Procedure, Registry, Transaction, View};

use crate::bytes::bad_request;
use crate::tables::AUDIT;

/// The procedure that leaves a row: a node that has it hosts audits.
pub const PROCEDURE: &str = Append::NAME;

/// Registers this module's procedures.
pub fn register<T: Transaction>(registry: &mut Registry<T>) {
    registry.register::<Append>();
    registry.register::<Noop>();
}

/// `audit.append`: leaves a row for `(worker, sequence)`.
///
/// Arguments: worker u32, sequence u32. Reply: one byte, 1 if the row is new, 0 if a retry found it.
pub struct Append;

impl Procedure for Append {
    const NAME: &'static str = "audit.append";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[field("worker", U32), field("sequence", U32)],
            reply: &[field("inserted", U8)],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let key = decode(args).map_err(|error| bad_request(reply, error.0))?;
        let inserted = tx.insert(AUDIT, &key.to_be_bytes(), &[])?;
        reply.push(u8::from(inserted));
        Ok(())
    }
}

/// `audit.noop`: reads and writes nothing. For measuring the path around a transaction.
pub struct Noop;

impl Procedure for Noop {
    const NAME: &'static str = "audit.noop";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature { reads: false, args: &[], reply: &[] };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(_: &mut T, _: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        Ok(())
    }
}

/// The row's key.
pub fn key(worker: u32, sequence: u32) -> u64 {
    u64::from(worker) << 32 | u64::from(sequence)
}

/// Replaces `args` with the arguments of [`Append`].
pub fn encode_append(worker: u32, sequence: u32, args: &mut Vec<u8>) {
    args.clear();
    args.extend_from_slice(&worker.to_le_bytes());
    args.extend_from_slice(&sequence.to_le_bytes());
}

/// Which of `acknowledged` left no row: lost promises, in the order given.
pub fn lost(view: &dyn View, acknowledged: impl IntoIterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let missing =
        |&(worker, sequence): &(u32, u32)| view.get(AUDIT, &key(worker, sequence).to_be_bytes()).is_none();
    acknowledged.into_iter().filter(missing).collect()
}

fn decode(args: &[u8]) -> Result<u64, Malformed> {
    let mut reader = Reader::new(args);
    let key = key(reader.u32()?, reader.u32()?);
    if reader.is_empty() { Ok(key) } else { Err(Malformed("audit.append (trailing bytes)")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Runner;

    #[test]
    fn an_append_leaves_a_row_once_and_a_lost_one_is_named() {
        let mut runner = Runner::new();
        let mut args = Vec::new();
        encode_append(3, 9, &mut args);
        assert_eq!(runner.run("audit.append", &args), (Ok(()), vec![1]));
        assert_eq!(runner.run("audit.append", &args), (Ok(()), vec![0]));
        assert_eq!(lost(runner.view(), [(3, 9), (3, 10)]), [(3, 10)]);
        assert_eq!(runner.run("audit.append", &args[1..]).0, Err(Abort::BadRequest));
        assert_eq!(runner.run("audit.noop", &[]), (Ok(()), vec![]));
    }
}
