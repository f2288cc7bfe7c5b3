//! YCSB++'s transactions.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{Kind, Signature, U32, U64, field};
use highwater_core::{Abort, Procedure, TableId, Transaction};

use crate::bytes::{Fields, bad_request};
use crate::tables::YCSB;

/// Most keys of a transaction.
pub const MAX_OPS: usize = 32;
/// Smallest row: the counter.
pub const MIN_VALUE_BYTES: usize = 8;
/// Largest row.
pub const MAX_VALUE_BYTES: usize = 64 << 10;

/// Most rows of a load request.
const MAX_LOAD: u32 = 1000;

/// `ycsb.load`: arguments first key u64, count u32, value size u32. Sets the counters to 0.
pub struct Load;

impl Procedure for Load {
    const NAME: &'static str = "ycsb.load";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[field("first", U64), field("count", U32), field("value_bytes", U32)],
            reply: &[],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let (keys, size) = decode_load(args).map_err(|error| bad_request(reply, error.0))?;
        let mut row = vec![b'.'; size];
        row[..8].fill(0);
        for key in keys {
            tx.put(YCSB, &key.to_be_bytes(), &row)?;
        }
        Ok(())
    }
}

fn decode_load(args: &[u8]) -> Result<(std::ops::Range<u64>, usize), Malformed> {
    let mut reader = Reader::new(args);
    let (first, count, size) = (reader.u64()?, reader.u32()?, reader.u32()? as usize);
    reader.end()?;
    if !(MIN_VALUE_BYTES..=MAX_VALUE_BYTES).contains(&size) || count > MAX_LOAD {
        return Err(Malformed("ycsb.load (value size or count out of range)"));
    }
    Ok((first..first.saturating_add(count.into()), size))
}

/// `ycsb.read`: arguments are keys, u64 each. Reply: their values, one behind the other.
pub struct Read;

impl Procedure for Read {
    const NAME: &'static str = "ycsb.read";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: true,
            args: &[field("keys", Kind::Groups(&[field("key", U64)]))],
            reply: &[field("rows", Kind::Rest)],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        for key in keys(tx, args, reply)? {
            match tx.get(YCSB, &big_endian(key))? {
                Some(row) => reply.extend_from_slice(row),
                None => return Err(bad_request(reply, "no such key")),
            }
        }
        Ok(())
    }
}

/// `ycsb.rmw`: arguments are keys, u64 each. Increments their counters. Reply: the new rows, one behind the other.
pub struct ReadModifyWrite;

impl Procedure for ReadModifyWrite {
    const NAME: &'static str = "ycsb.rmw";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[field("keys", Kind::Groups(&[field("key", U64)]))],
            reply: &[field("rows", Kind::Rest)],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        for key in keys(tx, args, reply)? {
            let key = big_endian(key);
            let Some(row) = tx.get(YCSB, &key)? else {
                return Err(bad_request(reply, "no such key"));
            };
            // The reply is where the new row is made: one copy serves both.
            let start = reply.len();
            reply.extend_from_slice(row);
            let Some(counter) = reply[start..].first_chunk_mut() else {
                return Err(bad_request(reply, "malformed row"));
            };
            *counter = u64::from_le_bytes(*counter).wrapping_add(1).to_le_bytes();
            tx.put(YCSB, &key, &reply[start..])?;
        }
        Ok(())
    }
}

/// The keys, prefetched.
#[inline]
fn keys<'a, T: Transaction>(tx: &mut T, args: &'a [u8], reply: &mut Vec<u8>) -> Result<&'a [[u8; 8]], Abort> {
    let (keys, trailing) = args.as_chunks();
    if !(trailing.is_empty() && (1..=MAX_OPS).contains(&keys.len())) {
        return Err(bad_request(reply, "expected 1 to 32 keys of 8 bytes"));
    }
    let mut wanted = [(TableId(0), 0); MAX_OPS];
    for (slot, key) in wanted.iter_mut().zip(keys) {
        *slot = (YCSB, u64::from_le_bytes(*key));
    }
    tx.prefetch(&wanted[..keys.len()]);
    Ok(keys)
}

/// From an argument to a key.
#[inline]
fn big_endian(key: &[u8; 8]) -> [u8; 8] {
    u64::from_le_bytes(*key).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Runner;

    #[test]
    fn bad_arguments_are_refused_with_a_reason() {
        let mut runner = Runner::new();
        for (name, args) in [
            ("ycsb.load", vec![0; 15]),
            ("ycsb.load", vec![0; 16]),
            ("ycsb.read", vec![]),
            ("ycsb.read", vec![0; 7]),
            ("ycsb.rmw", vec![0; 8 * 33]),
            ("ycsb.rmw", vec![0; 8]),
        ] {
            let (result, reply) = runner.run(name, &args);
            assert_eq!(result, Err(Abort::BadRequest), "{name}");
            assert!(!reply.is_empty(), "{name}");
        }
    }
}
