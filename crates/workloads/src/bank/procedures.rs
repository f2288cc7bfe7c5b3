//! The bank's transactions.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{I64, Kind, Signature, U32, U64, field};
use highwater_core::{Abort, Access, Footprint, Procedure, TableId, Transaction};

use crate::bytes::{Fields, Sink, bad_request, require, rollback};
use crate::tables::BANK;

/// Most accounts of a sample.
pub const MAX_SAMPLE: usize = 64;
/// Most accounts of an audit.
pub const MAX_AUDIT: u64 = 1_000_000;
/// Accounts that an audit asks for at once.
const WINDOW: usize = 32;

/// Most accounts of a load request.
const MAX_LOAD: u32 = 1000;

/// `bank.load`: arguments first account u64, count u32, balance u32.
pub struct Load;

impl Procedure for Load {
    const NAME: &'static str = "bank.load";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[field("first", U64), field("count", U32), field("balance", U32)],
            reply: &[],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let (first, count, balance) = decode_load(args).map_err(|error| bad_request(reply, error.0))?;
        for account in first..first.saturating_add(count.into()) {
            tx.put(BANK, &account.to_be_bytes(), &i64::from(balance).to_le_bytes())?;
        }
        Ok(())
    }
}

fn decode_load(args: &[u8]) -> Result<(u64, u32, u32), Malformed> {
    let mut reader = Reader::new(args);
    let (first, count, balance) = (reader.u64()?, reader.u32()?, reader.u32()?);
    reader.end()?;
    if count > MAX_LOAD {
        return Err(Malformed("bank.load (too many accounts at once)"));
    }
    Ok((first, count, balance))
}

/// `bank.transfer`: arguments from u64, to u64, amount u32. Reply: both new balances, i64 each. Rolls back if the
/// account does not hold that much.
pub struct Transfer;

impl Procedure for Transfer {
    const NAME: &'static str = "bank.transfer";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[field("from", U64), field("to", U64), field("amount", U32)],
            reply: &[field("from_balance", I64), field("to_balance", I64)],
        };
        Some(&SIGNATURE)
    }

    fn footprint(args: &[u8], footprint: &mut Footprint) -> bool {
        let Ok((from, to, _)) = decode_transfer(args) else { return false };
        [from, to].iter().for_each(|account| footprint.key(BANK, &account.to_be_bytes(), Access::Write));
        true
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let (from, to, amount) = decode_transfer(args).map_err(|error| bad_request(reply, error.0))?;
        tx.prefetch(&[(BANK, from), (BANK, to)]);
        let source = balance(tx, from, reply)?;
        let target = balance(tx, to, reply)?;
        if source < amount {
            return Err(rollback(reply, "insufficient funds"));
        }
        let Some(increased) = target.checked_add(amount) else {
            return Err(rollback(reply, "the target's balance would overflow"));
        };
        let (source, target) = (source - amount, increased);
        tx.put(BANK, &from.to_be_bytes(), &source.to_le_bytes())?;
        tx.put(BANK, &to.to_be_bytes(), &target.to_le_bytes())?;
        reply.put_i64(source);
        reply.put_i64(target);
        Ok(())
    }
}

fn decode_transfer(args: &[u8]) -> Result<(u64, u64, i64), Malformed> {
    let mut reader = Reader::new(args);
    let (from, to, amount) = (reader.u64()?, reader.u64()?, reader.u32()?);
    reader.end()?;
    if from == to {
        return Err(Malformed("bank.transfer (from an account to itself)"));
    }
    Ok((from, to, amount.into()))
}

#[inline]
fn balance<T: Transaction>(tx: &mut T, account: u64, reply: &mut Vec<u8>) -> Result<i64, Abort> {
    let row = tx.get(BANK, &account.to_be_bytes())?;
    require(row, |row| Reader::new(row).i64(), "no such account", reply)
}

/// `bank.sample`: arguments are accounts, u64 each. Reply: their balances, i64 each.
pub struct Sample;

impl Procedure for Sample {
    const NAME: &'static str = "bank.sample";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: true,
            args: &[field("accounts", Kind::Groups(&[field("account", U64)]))],
            reply: &[field("balances", Kind::Groups(&[field("balance", I64)]))],
        };
        Some(&SIGNATURE)
    }

    fn footprint(args: &[u8], footprint: &mut Footprint) -> bool {
        let (accounts, trailing) = args.as_chunks();
        accounts.iter().for_each(|account| {
            footprint.key(BANK, &u64::from_le_bytes(*account).to_be_bytes(), Access::Read)
        });
        trailing.is_empty()
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let (accounts, trailing) = args.as_chunks();
        if !(trailing.is_empty() && (1..=MAX_SAMPLE).contains(&accounts.len())) {
            return Err(bad_request(reply, "expected 1 to 64 accounts of 8 bytes"));
        }
        let mut wanted = [(TableId(0), 0); MAX_SAMPLE];
        for (slot, account) in wanted.iter_mut().zip(accounts) {
            *slot = (BANK, u64::from_le_bytes(*account));
        }
        let wanted = &wanted[..accounts.len()];
        tx.prefetch(wanted);
        for (_, account) in wanted {
            let balance = balance(tx, *account, reply)?;
            reply.put_i64(balance);
        }
        Ok(())
    }
}

/// `bank.audit`: arguments first account u64, count u64. Reply: the sum of their balances, i64.
pub struct Audit;

impl Procedure for Audit {
    const NAME: &'static str = "bank.audit";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: true,
            args: &[field("first", U64), field("count", U64)],
            reply: &[field("sum", I64)],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let accounts = decode_audit(args).map_err(|error| bad_request(reply, error.0))?;
        let mut sum = 0i64;
        let mut wanted = [(TableId(0), 0); WINDOW];
        for start in accounts.clone().step_by(WINDOW) {
            let window = start..accounts.end.min(start + WINDOW as u64);
            for (slot, account) in wanted.iter_mut().zip(window.clone()) {
                *slot = (BANK, account);
            }
            tx.prefetch(&wanted[..(window.end - window.start) as usize]);
            for account in window {
                sum = sum.wrapping_add(balance(tx, account, reply)?);
            }
        }
        reply.put_i64(sum);
        Ok(())
    }
}

fn decode_audit(args: &[u8]) -> Result<std::ops::Range<u64>, Malformed> {
    let mut reader = Reader::new(args);
    let (first, count) = (reader.u64()?, reader.u64()?);
    reader.end()?;
    if count > MAX_AUDIT || first.checked_add(MAX_AUDIT + WINDOW as u64).is_none() {
        return Err(Malformed("bank.audit (more than a million accounts)"));
    }
    Ok(first..first + count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Runner;

    #[test]
    fn bad_arguments_are_refused_with_a_reason() {
        let mut runner = Runner::new();
        for (name, args) in [
            ("bank.load", vec![0; 3]),
            ("bank.transfer", vec![0; 20]),
            ("bank.transfer", vec![7; 19]),
            ("bank.sample", vec![]),
            ("bank.sample", vec![0; 8]),
            ("bank.audit", vec![0xff; 16]),
        ] {
            let (result, reply) = runner.run(name, &args);
            assert_eq!(result, Err(Abort::BadRequest), "{name}");
            assert!(!reply.is_empty(), "{name}");
        }
    }
}
