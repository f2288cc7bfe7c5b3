//! The procedures of lists, and of money and tombstones beside them.

use std::ops::{Bound, ControlFlow};

use highwater_core::{
    Abort, Direction, IndexKind, KeyKind, Library, Procedure, Registry, TableId, TableSpec, Transaction,
};

pub const LISTS: TableId = TableId(0);
const SCRATCH: TableId = TableId(1);
const PURSES: TableId = TableId(2);
const COINS: TableId = TableId(3);
/// Accounts whose balances add up to nothing.
pub const ACCOUNTS: u64 = 8;

/// The library of these tests.
#[derive(Clone, Copy, Debug)]
pub struct ListLibrary;

impl Library for ListLibrary {
    fn tables(&self) -> Vec<TableSpec> {
        vec![
            TableSpec { name: "lists", keys: KeyKind::U64, index: IndexKind::Hash },
            TableSpec { name: "scratch", keys: KeyKind::U64, index: IndexKind::Ordered },
            TableSpec { name: "purses", keys: KeyKind::U64, index: IndexKind::Hash },
            TableSpec { name: "coins", keys: KeyKind::U64, index: IndexKind::Ordered },
        ]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Step>();
        registry.register::<Toggle>();
        registry.register::<Pay>();
        registry.register::<Audit>();
    }
}

/// Arguments: value u32, count of lists to read u8, the lists (u8 each), the lists to append to (u8 each). Reply: per
/// list, read ones first, its length u32 and its values before the append.
struct Step;

impl Procedure for Step {
    const NAME: &'static str = "list.step";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let reads = args[4] as usize;
        for (at, list) in args[5..].iter().enumerate() {
            let key = u64::from(*list).to_be_bytes();
            let mut values = tx.get(LISTS, &key)?.unwrap_or_default().to_vec();
            reply.extend_from_slice(&(values.len() as u32 / 4).to_le_bytes());
            reply.extend_from_slice(&values);
            if at >= reads {
                values.extend_from_slice(&args[..4]);
                tx.put(LISTS, &key, &values)?;
            }
        }
        Ok(())
    }
}

/// Inserts a key, or deletes it if it is there: tombstones come and go. Argument: key u8.
struct Toggle;

impl Procedure for Toggle {
    const NAME: &'static str = "list.toggle";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let key = u64::from(args[0]).to_be_bytes();
        if !tx.delete(SCRATCH, &key)? {
            tx.insert(SCRATCH, &key, b"here")?;
        }
        Ok(())
    }
}

/// Moves money between two accounts, which both tables keep. Balances may be negative; an account with nothing in it is
/// no row. Arguments: from u8, to u8, amount u8.
struct Pay;

impl Procedure for Pay {
    const NAME: &'static str = "list.pay";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let amount = i64::from(args[2]);
        for (account, change) in [(args[0], -amount), (args[1], amount)] {
            let key = u64::from(account).to_be_bytes();
            for table in [PURSES, COINS] {
                match tx.get(table, &key)?.map_or(0, balance) + change {
                    0 => drop(tx.delete(table, &key)?),
                    now => tx.put(table, &key, &now.to_le_bytes())?,
                }
            }
        }
        Ok(())
    }
}

/// Adds all balances up, four times: what the purses hold, what the coins hold by key, and by scans both ways. Reply: the
/// sums, i64 each, and how many rows each found, u64.
struct Audit;

impl Procedure for Audit {
    const NAME: &'static str = "list.audit";

    fn run<T: Transaction>(tx: &mut T, _: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let mut found = Vec::new();
        for table in [PURSES, COINS] {
            let (mut sum, mut rows) = (0, 0u64);
            for account in 0..ACCOUNTS {
                if let Some(value) = tx.get(table, &account.to_be_bytes())? {
                    (sum, rows) = (sum + balance(value), rows + 1);
                }
            }
            found.push((sum, rows));
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let (mut sum, mut rows) = (0, 0u64);
            tx.scan(COINS, (Bound::Unbounded, Bound::Unbounded), direction, |_, value| {
                (sum, rows) = (sum + balance(value), rows + 1);
                ControlFlow::Continue(())
            })?;
            found.push((sum, rows));
        }
        for (sum, rows) in found {
            reply.extend_from_slice(&sum.to_le_bytes());
            reply.extend_from_slice(&rows.to_le_bytes());
        }
        Ok(())
    }
}

pub fn balance(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().expect("eight bytes"))
}
