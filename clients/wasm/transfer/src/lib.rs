//! A bank: accounts are rows of the table `accounts` (`HW.TABLE CREATE accounts u64`), and a history of transfers those of `history`
//! (`HW.TABLE CREATE history u64 u64`): account, time, and by how much it changed.
//!
//! ```text
//! HW.CALL bank.open account balance
//! HW.CALL bank.transfer from to amount      the balances; ROLLEDBACK if there is not enough
//! HW.CALL bank.history account most         its last changes, the latest first
//! HW.CALL bank.keys from to amount          the same of two strings, as a Lua script would do it
//! ```

#![no_std]

extern crate alloc;

use highwater_guest::key::Columns;
use highwater_guest::{Arguments, Key, Stop, Table, now_ms, procedure, reply, strings};

procedure!(open, |args: Arguments| {
    let key = Key::new().u64(args.number(0)?);
    let accounts = Table::open("accounts")?;
    if accounts.get(&key).is_some() {
        return Err("the account is open".into());
    }
    accounts.put_number(&key, args.number(1)?);
    Ok(())
});

procedure!(transfer, |args: Arguments| {
    let accounts = Table::open("accounts")?;
    let (from, to) = (Key::new().u64(args.number(0)?), Key::new().u64(args.number(1)?));
    let amount: u32 = args.number(2)?;
    // One behind the other: from an account to itself nothing moves.
    let from_balance = change(accounts, &from, -i64::from(amount))?;
    if from_balance < 0 {
        return Err("insufficient funds".into());
    }
    let to_balance = change(accounts, &to, amount.into())?;
    reply::map(2);
    reply::bytes(b"from_balance");
    reply::integer(from_balance);
    reply::bytes(b"to_balance");
    reply::integer(to_balance);
    Ok(())
});

fn change(accounts: Table, key: &Key, by: i64) -> Result<i64, Stop> {
    let balance = accounts.number(key).ok_or("no such account")? + by;
    accounts.put_number(key, balance);
    Ok(balance)
}

procedure!(audited, |args: Arguments| {
    let (accounts, history) = (Table::open("accounts")?, Table::open("history")?);
    let (from, to): (u64, u64) = (args.number(0)?, args.number(1)?);
    let amount: u32 = args.number(2)?;
    for (account, by) in [(from, -i64::from(amount)), (to, i64::from(amount))] {
        if change(accounts, &Key::new().u64(account), by)? < 0 {
            return Err("insufficient funds".into());
        }
        history.put_number(&Key::new().u64(account).u64(now_ms()), by);
    }
    Ok(())
});

procedure!(history, |args: Arguments| {
    let account = Key::new().u64(args.number(0)?);
    let scan = Table::open("history")?.scan(&account, account.behind().as_ref()).backward();
    let found: alloc::vec::Vec<_> = scan.limit(args.number(1)?).rows(4096).collect();
    reply::array(found.len());
    for row in found {
        let mut columns = Columns::of(&row.key);
        let (_, at) = (columns.u64(), columns.u64());
        reply::array(2);
        reply::integer(at.ok_or("no time")? as i64);
        reply::integer(row.value.try_into().map_or(0, i64::from_le_bytes));
    }
    Ok(())
});

procedure!(keys, |args: Arguments| {
    let (from, to) = (args.bytes(0)?, args.bytes(1)?);
    let amount: i64 = args.number(2)?;
    let left = strings::number(&from)?.unwrap_or(0) - amount;
    strings::set_number(&from, left);
    let there = strings::number(&to)?.unwrap_or(0) + amount;
    strings::set_number(&to, there);
    reply::integer(there);
    Ok(())
});

procedure!(panics, |args: Arguments| {
    let words = [1, 2, 3];
    reply::integer(words[args.number::<usize>(0)?]);
    Ok(())
});
