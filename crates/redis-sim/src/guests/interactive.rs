//! Guests that decide transactions step by step: transfers between accounts, lists that are read and appended to, and looks at all accounts; by
//! `HW.BEGIN` .. `HW.COMMIT`, and by `WATCH` .. `EXEC`.
//!
//! Accounts are registers whose values are never the same twice, `balance.number`: whoever writes one has read it, so the checker knows the
//! order of all of them. What two transfers read and both went on from is a lost update, whatever the balances say.

use std::collections::BTreeMap;

use highwater_checker::{History, Op as Checked, Status, Txn};
use highwater_core::Random;
use highwater_seam::Nanos;

use super::{Heard, Typed};
use crate::model::Op;
use crate::reply::Reply;

/// What an account holds that nobody has written to.
const OPENING: i64 = 100;
/// A list is left for a fresh one after so many appends.
const APPENDS: u32 = 20;

/// What a transaction saw, and did.
#[derive(Clone, Debug)]
enum Did {
    /// The balance, and the number of whoever wrote it.
    Read(String, Option<i64>),
    Wrote(String, i64),
    ReadList(String, Vec<i64>),
    Appended(String, i64),
}

#[derive(Debug)]
struct Transaction {
    began: Nanos,
    ended: Option<Nanos>,
    status: Status,
    did: Vec<Did>,
}

/// All transactions of a run.
pub struct Transactions {
    accounts: u8,
    all: Vec<Transaction>,
    numbers: i64,
    /// The list in use, and how many appends it was meant to get.
    list: (u32, u32),
    watched: u64,
}

/// How a transaction says that it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Begin,
    Watch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Transfer(u8, u8, i64),
    Append(u32),
    Audit,
}

/// One guest's transaction, if it is in the middle of one.
#[derive(Default)]
pub struct Interactive {
    under_way: Option<UnderWay>,
}

struct UnderWay {
    by: By,
    aim: Aim,
    /// Which command it is at.
    at: usize,
    /// It asked for the commit.
    commits: bool,
    balances: Vec<i64>,
    began: Nanos,
    did: Vec<Did>,
}

impl Interactive {
    /// Whether it is in the middle of one.
    pub fn is_open(&self) -> bool {
        self.under_way.is_some()
    }

    /// What it types next.
    pub(super) fn next(&mut self, all: &mut Transactions, random: &mut Random, now: Nanos) -> Typed {
        let accounts = u64::from(all.accounts);
        let under_way = self.under_way.get_or_insert_with(|| {
            let from = random.below(accounts) as u8;
            let to = (from + 1 + random.below(accounts - 1) as u8) % all.accounts;
            let aim = match random.below(6) {
                0 => Aim::Audit,
                1 => Aim::Append(all.list()),
                _ => Aim::Transfer(from, to, 1 + random.below(30) as i64),
            };
            let by = if random.one_in(3) { By::Watch } else { By::Begin };
            UnderWay { by, aim, at: 0, commits: false, balances: Vec::new(), began: now, did: Vec::new() }
        });
        let words = under_way.words(all);
        under_way.commits |= matches!(words[0].as_str(), "HW.COMMIT" | "EXEC" | "MGET");
        Typed { words, op: None, waits: 0 }
    }

    /// What came of it.
    ///
    /// # Errors
    /// What must not be.
    pub(super) fn heard(&mut self, all: &mut Transactions, heard: Heard, now: Nanos) -> Result<(), String> {
        let under_way = self.under_way.as_mut().expect("it typed something");
        let status = match heard {
            Heard::Nothing | Heard::Reply(Reply::Error(_)) => {
                let unknown = match &heard {
                    Heard::Reply(Reply::Error(error)) => error.starts_with("UNKNOWN"),
                    _ => true,
                };
                if unknown && under_way.commits { Some(Status::Info) } else { Some(Status::Fail) }
            }
            Heard::Reply(reply) => under_way.take(&reply)?,
        };
        let Some(status) = status else { return Ok(()) };
        let over = self.under_way.take().expect("it was there");
        if over.by == By::Watch {
            all.watched += u64::from(status == Status::Ok);
        }
        let ended = (status != Status::Info).then_some(now);
        all.all.push(Transaction { began: over.began, ended, status, did: over.did });
        Ok(())
    }
}

impl UnderWay {
    /// The commands in their order; each may depend on the replies before it.
    fn words(&mut self, all: &mut Transactions) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
        let begin = self.by == By::Begin;
        match self.aim {
            Aim::Audit => {
                let keys: Vec<String> = (0..all.accounts).map(account).collect();
                std::iter::once("MGET".to_string()).chain(keys).collect()
            }
            Aim::Append(list) => {
                let key = format!("l{list}:list");
                match (self.at, begin) {
                    (0, true) => words(&["HW.BEGIN"]),
                    (0, false) => words(&["WATCH", &key]),
                    (1, _) => words(&["LRANGE", &key, "0", "-1"]),
                    (2, false) => words(&["MULTI"]),
                    (2, true) | (3, false) => {
                        let value = all.number();
                        self.did.push(Did::Appended(key.clone(), value));
                        words(&["RPUSH", &key, &value.to_string()])
                    }
                    (_, true) => words(&["HW.COMMIT"]),
                    (_, false) => words(&["EXEC"]),
                }
            }
            Aim::Transfer(from, to, amount) => {
                let (from, to) = (account(from), account(to));
                match (self.at, begin) {
                    (0, true) => words(&["HW.BEGIN"]),
                    (0, false) => words(&["WATCH", &from, &to]),
                    (1, _) => words(&["GET", &from]),
                    (2, _) => words(&["GET", &to]),
                    (3, false) => words(&["MULTI"]),
                    (3, true) | (4, false) => {
                        let balance = self.balances[0] - amount;
                        self.write(from, balance, all)
                    }
                    (4, true) | (5, false) => {
                        let balance = self.balances[1] + amount;
                        self.write(to, balance, all)
                    }
                    (_, true) => words(&["HW.COMMIT"]),
                    (_, false) => words(&["EXEC"]),
                }
            }
        }
    }

    fn write(&mut self, key: String, balance: i64, all: &mut Transactions) -> Vec<String> {
        let number = all.number();
        self.did.push(Did::Wrote(key.clone(), number));
        vec!["SET".into(), key, format!("{balance}.{number}")]
    }

    /// A reply; how the transaction ended, if it did.
    fn take(&mut self, reply: &Reply) -> Result<Option<Status>, String> {
        let at = self.at;
        self.at += 1;
        match (self.aim, at, reply) {
            (Aim::Audit, _, Reply::Array(balances)) => {
                let mut total = 0;
                for (which, balance) in balances.iter().enumerate() {
                    let (balance, number) = read(balance)?;
                    total += balance;
                    self.did.push(Did::Read(account(which as u8), number));
                }
                if total != OPENING * balances.len() as i64 {
                    return Err(format!("the accounts hold {total} together: {reply:?}"));
                }
                return Ok(Some(Status::Ok));
            }
            (Aim::Append(list), 1, Reply::Array(_)) => {
                let items: Result<Vec<i64>, _> = reply.texts().iter().map(|item| item.parse()).collect();
                let items = items.map_err(|_| format!("a list holds {reply:?}"))?;
                self.did.push(Did::ReadList(format!("l{list}:list"), items));
            }
            (Aim::Transfer(from, to, _), 1 | 2, _) => {
                let (balance, number) = read(reply)?;
                self.balances.push(balance);
                self.did.push(Did::Read(account(if at == 1 { from } else { to }), number));
            }
            _ if self.commits => {
                return match (self.by, reply) {
                    (By::Begin, Reply::Text(ok)) if ok == "OK" => Ok(Some(Status::Ok)),
                    (By::Watch, Reply::Array(_)) => Ok(Some(Status::Ok)),
                    (By::Watch, Reply::Null) => Ok(Some(Status::Fail)),
                    _ => Err(format!("a commit answers {reply:?}")),
                };
            }
            _ => {}
        }
        Ok(None)
    }
}

fn account(which: u8) -> String {
    format!("bank:{which}")
}

/// A balance, and the number of whoever wrote it.
fn read(reply: &Reply) -> Result<(i64, Option<i64>), String> {
    let bad = || format!("an account holds {reply:?}");
    match reply {
        Reply::Null => Ok((OPENING, None)),
        Reply::Text(text) => {
            let (balance, number) = text.split_once('.').ok_or_else(bad)?;
            let number = number.parse().map_err(|_| bad())?;
            Ok((balance.parse().map_err(|_| bad())?, Some(number)))
        }
        _ => Err(bad()),
    }
}

impl Transactions {
    /// On accounts for so many keys.
    pub fn new(keys: u8) -> Transactions {
        Transactions { accounts: keys + 1, all: Vec::new(), numbers: 0, list: (0, 0), watched: 0 }
    }

    fn number(&mut self) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    fn list(&mut self) -> u32 {
        self.list.1 += 1;
        if self.list.1 > APPENDS {
            self.list = (self.list.0 + 1, 1);
        }
        self.list.0
    }

    /// Nothing of them is judged in the order of the engine.
    pub fn looks(&self) -> impl Iterator<Item = Op> + '_ {
        std::iter::empty()
    }

    /// How many came to which end.
    pub fn marks(&self) -> BTreeMap<&'static str, u64> {
        let count =
            |status| self.all.iter().filter(|transaction| transaction.status == status).count() as u64;
        BTreeMap::from([
            ("guests' transactions committed", count(Status::Ok)),
            ("guests' transactions that came to nothing", count(Status::Fail)),
            ("guests' transactions of unknown outcome", count(Status::Info)),
            ("guests' transactions committed by WATCH and EXEC", self.watched),
        ])
    }

    /// For the checker.
    pub fn record(&self, history: &mut History) {
        for (process, transaction) in self.all.iter().enumerate() {
            let known = transaction.status == Status::Ok;
            let mut ops = Vec::new();
            for did in &transaction.did {
                let (Did::Read(key, _) | Did::Wrote(key, _) | Did::ReadList(key, _) | Did::Appended(key, _)) =
                    did;
                let key = history.keys.intern(key);
                ops.push(match did {
                    Did::Read(_, number) => Checked::ReadReg { key, value: known.then_some(*number) },
                    Did::Wrote(_, number) => Checked::Write { key, value: *number },
                    Did::ReadList(_, items) => Checked::ReadList { key, value: known.then(|| items.clone()) },
                    Did::Appended(_, value) => Checked::Append { key, value: *value },
                });
            }
            let (t0, t1, status) = (transaction.began, transaction.ended, transaction.status);
            history.push(Txn {
                process: process as u64,
                t0,
                t1,
                status,
                ops,
                snap: false,
                since: None,
                place: None,
            });
        }
    }
}
