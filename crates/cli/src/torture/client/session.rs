//! One client: runs a transaction on whoever leads (or, where nobody does, on the replica that it keeps to), learns how it ended, and
//! writes that down.
//!
//! | what happened | outcome |
//! |---|---|
//! | `EXEC` (or a single command) was answered | ok |
//! | `EXEC` answered nil: a watched key had changed | fail |
//! | `MOVED`, `CLUSTERDOWN`, `CONFLICT`; or trouble before an `EXEC` was sent | fail |
//! | `UNKNOWN`, a broken connection, no reply in time, anything else | info; the client goes on as another process |
//!
//! A client of snapshots is another process on each connection: a replica's snapshots never go back while it lives, and no
//! connection outlives it. What another replica shows may be older. One that carries tokens ([`Carrier`](super::carrier::Carrier)) stays
//! the same process wherever it reads: that is what a token promises.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use highwater_checker::{History, Op, Status, Txn, Writer};
use highwater_workloads::random::Rng;

use super::fresh::Fresh;
use super::work::{self, ACCOUNTS, Lists, OPENING, Step, Task, balance, elements};
use crate::machine::monotonic_ns;
use crate::wire::{Refusal, Reply, Wire};

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Committed, and these are the replies.
    Ok(Vec<Reply>),
    /// Surely not applied.
    Fail,
    /// Nobody knows.
    Info,
}

impl Ending {
    fn status(&self) -> Status {
        match self {
            Ending::Ok(_) => Status::Ok,
            Ending::Fail => Status::Fail,
            Ending::Info => Status::Info,
        }
    }
}

/// Whom a client asks, and so what the answers are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Whoever leads.
    Leader,
    /// The replica of its number, where nobody leads; another one while that one fails.
    Anybody,
    /// Any replica, on a `READONLY` connection. Reads only.
    Snapshots,
    /// The same, always with a token: wherever it reads it sees what it has seen.
    SnapshotsSince,
    /// The same where the present is all that is shown: of a cluster at rest, or of an engine that runs such reads as transactions.
    Present,
}

impl Asks {
    /// Whether what it is shown may be of the past.
    fn is_of_the_past(self) -> bool {
        matches!(self, Asks::Snapshots | Asks::SnapshotsSince)
    }

    /// Whether its connections are `READONLY`.
    fn is_readonly(self) -> bool {
        self.is_of_the_past() || self == Asks::Present
    }
}

/// Who is who.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whom this client asks.
    pub asks: Asks,
    /// Where the replicas' RESP doors are.
    pub doors: Vec<SocketAddr>,
    /// This client's number.
    pub number: u64,
    /// How many clients there are: the process number's step.
    pub of: u64,
    /// How long a reply may take.
    pub patience: Duration,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// A client.
pub struct Session<W: Write> {
    setup: Setup,
    process: u64,
    rng: Rng,
    wire: Option<Wire>,
    /// Who is said to lead, or to serve.
    leader: Option<SocketAddr>,
    /// It has left the replica that it keeps to, if it keeps to one.
    astray: bool,
    history: Writer<W>,
    /// Only its table of keys is used.
    keys: History,
    /// What its connection was told that reads ask for.
    fresh: Fresh,
    /// What must not happen, in words.
    pub trouble: Vec<String>,
    /// Transactions whose connection broke before the reply.
    pub broken: u64,
    /// Reads that were refused because the replica was not as fresh as they asked.
    pub not_fresh: u64,
}

impl<W: Write> Session<W> {
    /// Not connected yet.
    pub fn new(setup: Setup, history: W) -> Session<W> {
        Session {
            process: setup.number,
            rng: Rng::new(setup.seed),
            wire: None,
            leader: None,
            astray: false,
            history: Writer::new(history),
            keys: History::new(),
            fresh: Fresh::Any,
            trouble: Vec::new(),
            broken: 0,
            not_fresh: 0,
            setup,
        }
    }

    /// This client's randomness.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Writes out what is buffered.
    pub fn finish(self) -> io::Result<()> {
        self.history.finish().map(drop)
    }

    /// Connects if it must; false if nobody is there.
    pub fn connected(&mut self) -> bool {
        if self.setup.asks != Asks::Leader && self.rng.percent(1) {
            // Another replica, or the same again; the own one, if it keeps to one.
            (self.wire, self.astray) = (None, false);
        }
        if self.wire.is_none() {
            let door = self.door();
            self.wire = Wire::connect(door, self.setup.patience).ok();
            if self.setup.asks.is_readonly() && self.wire.is_some() {
                if self.setup.asks != Asks::SnapshotsSince {
                    self.process += self.setup.of;
                }
                self.fresh = Fresh::Any;
                self.look(&[vec!["READONLY"]]);
            }
        }
        self.wire.is_some()
    }

    /// Where to try next.
    fn door(&mut self) -> SocketAddr {
        let Setup { asks, doors, number, .. } = &self.setup;
        if *asks == Asks::Anybody && !std::mem::replace(&mut self.astray, true) {
            return doors[*number as usize % doors.len()];
        }
        // Now and then somebody else is asked than who is said to lead: a deposed leader may still believe it leads.
        let hint = self.leader.take().filter(|_| !self.rng.percent(10));
        hint.unwrap_or_else(|| doors[self.rng.below(doors.len() as u64) as usize])
    }

    /// Who this client is now.
    pub fn process(&self) -> u64 {
        self.process
    }

    /// From now on it is this process, or a later one.
    pub fn go_on_as(&mut self, process: u64) {
        self.process = self.process.max(process);
    }

    /// What reads on this connection ask for from now on; false if the connection is of no use any more.
    pub fn ask_for(&mut self, fresh: Fresh) -> bool {
        if self.fresh == fresh {
            return true;
        }
        let words = fresh.words();
        let told = self.look(&[words.iter().map(String::as_str).collect()]);
        self.fresh = fresh;
        told.is_some_and(|replies| self.expect_ok(&replies))
    }

    /// The token of everything that this connection was told; none if it cannot be had.
    pub fn token(&mut self) -> Option<i64> {
        match self.look(&[vec!["HW.TOKEN"]])?.pop()? {
            Reply::Integer(token) => Some(token),
            strange => {
                self.complain(format!("HW.TOKEN answered {strange:?}"));
                None
            }
        }
    }

    fn expect_ok(&mut self, replies: &[Reply]) -> bool {
        let ok = replies.iter().all(|reply| *reply == Reply::Simple("OK".into()));
        if !ok {
            self.complain(format!("HW.FRESHNESS answered {replies:?}"));
        }
        ok
    }

    /// Runs one transaction and records it. It must be connected.
    pub fn run(&mut self, task: &Task, lists: &Lists) -> io::Result<Status> {
        self.run_timed(task, lists).map(|(status, _)| status)
    }

    /// The same; and when it began.
    pub fn run_timed(&mut self, task: &Task, lists: &Lists) -> io::Result<(Status, u64)> {
        let began = monotonic_ns();
        let (ending, ops) = match task {
            Task::Lists(steps) => self.lists(steps, lists),
            Task::Transfer { accounts, amount, ids } => self.transfer(*accounts, *amount, *ids),
            Task::Total => self.total(),
        };
        self.record(began, &ending, ops).map(|status| (status, began))
    }

    /// Gives every account its opening balance.
    pub fn open_accounts(&mut self, ids: &[i64]) -> io::Result<Status> {
        let began = monotonic_ns();
        let words: Vec<String> = (0..ACCOUNTS)
            .flat_map(|number| [work::account(number), format!("{OPENING}:{}", ids[number])])
            .collect();
        let mset: Vec<&str> = ["MSET"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let ending = self.transaction(&[mset]);
        let ops = (0..ACCOUNTS).map(|number| self.write(number, ids[number])).collect();
        self.record(began, &ending, ops)
    }

    fn record(&mut self, began: u64, ending: &Ending, ops: Vec<Op>) -> io::Result<Status> {
        let status = ending.status();
        let t1 = (status != Status::Info).then(monotonic_ns);
        let snap = self.setup.asks.is_of_the_past();
        let since = self.fresh.since(began).filter(|_| snap);
        let txn = Txn { process: self.process, t0: began, t1, status, ops, snap, since, place: None };
        self.history.write(&self.keys.keys, &txn)?;
        if status == Status::Info {
            self.process += self.setup.of;
        }
        Ok(status)
    }

    fn lists(&mut self, steps: &[Step], lists: &Lists) -> (Ending, Vec<Op>) {
        let words: Vec<(String, String)> = steps
            .iter()
            .map(|step| (step.list.key(), step.append.map_or(String::new(), |value| format!("{value},"))))
            .collect();
        let commands: Vec<Vec<&str>> = steps
            .iter()
            .zip(&words)
            .map(|(step, (key, value))| match step.append {
                Some(_) => vec!["APPEND", key.as_str(), value.as_str()],
                None => vec!["GET", key.as_str()],
            })
            .collect();
        let ending = self.transaction(&commands);
        let replies = if let Ending::Ok(replies) = &ending { &replies[..] } else { &[] };
        let mut ops = Vec::with_capacity(steps.len());
        for (at, (step, (key, _))) in steps.iter().zip(&words).enumerate() {
            let key = self.keys.keys.intern(key);
            ops.push(match (step.append, replies.get(at)) {
                (Some(value), _) => Op::Append { key, value },
                (None, None) => Op::ReadList { key, value: None },
                (None, Some(reply)) => {
                    let value = elements(reply);
                    match &value {
                        Some(elements) => lists.seen(step.list, elements.len()),
                        None => self.complain(format!("{} is no list: {reply:?}", step.list.key())),
                    }
                    Op::ReadList { key, value }
                }
            });
        }
        (ending, ops)
    }

    fn transfer(&mut self, accounts: [usize; 2], amount: i64, ids: [i64; 2]) -> (Ending, Vec<Op>) {
        let keys = accounts.map(work::account);
        let [from, to] = [keys[0].as_str(), keys[1].as_str()];
        let reading = [vec!["WATCH", from, to], vec!["GET", from], vec!["GET", to]];
        let unread = |session: &mut Self| accounts.map(|number| session.read(number, None)).to_vec();
        let Some(replies) = self.look(&reading) else {
            // Nothing that writes was sent.
            return (Ending::Fail, unread(self));
        };
        let (Some(left), Some(right)) = (balance(&replies[1]), balance(&replies[2])) else {
            self.complain(format!("{from} or {to} is no account: {replies:?}"));
            self.wire = None;
            return (Ending::Fail, unread(self));
        };
        let values = [(left.0 - amount, ids[0]), (right.0 + amount, ids[1])]
            .map(|(balance, id)| format!("{balance}:{id}"));
        let writing = [vec!["SET", from, &values[0]], vec!["SET", to, &values[1]]];
        let ending = self.block(&writing);
        let [a, b] = accounts;
        let ops = vec![
            self.read(a, Some(left.1)),
            self.read(b, Some(right.1)),
            self.write(a, ids[0]),
            self.write(b, ids[1]),
        ];
        (ending, ops)
    }

    fn total(&mut self) -> (Ending, Vec<Op>) {
        let keys: Vec<String> = (0..ACCOUNTS).map(work::account).collect();
        let mget: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        let ending = self.transaction(&[mget]);
        let mut seen = vec![None; ACCOUNTS];
        if let Ending::Ok(replies) = &ending {
            let balances: Vec<_> = match replies.first() {
                Some(Reply::Array(Some(values))) => values.iter().map(balance).collect(),
                _ => Vec::new(),
            };
            let total: i64 = balances.iter().flatten().map(|(balance, _)| balance).sum();
            if balances.len() != ACCOUNTS || balances.contains(&None) || total != OPENING * ACCOUNTS as i64 {
                self.complain(format!(
                    "the accounts do not add up to {}: {replies:?}",
                    OPENING * ACCOUNTS as i64
                ));
            }
            balances.iter().zip(&mut seen).for_each(|(balance, seen)| *seen = balance.map(|(_, id)| id));
        }
        let ops = (0..ACCOUNTS).map(|number| self.read(number, seen[number])).collect();
        (ending, ops)
    }

    fn read(&mut self, number: usize, id: Option<i64>) -> Op {
        let key = self.keys.keys.intern(&work::account(number));
        Op::ReadReg { key, value: id.map(Some) }
    }

    fn write(&mut self, number: usize, id: i64) -> Op {
        let key = self.keys.keys.intern(&work::account(number));
        Op::Write { key, value: id }
    }

    /// Commands as one transaction; a single one half of the time as it is.
    fn transaction(&mut self, commands: &[Vec<&str>]) -> Ending {
        if commands.len() > 1 || self.rng.percent(50) {
            return self.block(commands);
        }
        match self.exchange(commands) {
            Err(error) => self.unanswered(&error),
            Ok(mut replies) => match replies.pop().expect("as many replies as commands") {
                Reply::Error(text) => self.refused(&text),
                reply => Ending::Ok(vec![reply]),
            },
        }
    }

    /// `MULTI`, the commands, `EXEC`.
    fn block(&mut self, commands: &[Vec<&str>]) -> Ending {
        let mut all = vec![vec!["MULTI"]];
        all.extend_from_slice(commands);
        all.push(vec!["EXEC"]);
        let mut replies = match self.exchange(&all) {
            Ok(replies) => replies,
            Err(error) => return self.unanswered(&error),
        };
        let exec = replies.pop().expect("as many replies as commands");
        if replies[0] != Reply::Simple("OK".into()) {
            // What follows a MULTI that failed is not in a block: each command may have been done or not.
            self.complain(format!("MULTI answered {:?}", replies[0]));
            return self.lost();
        }
        match exec {
            Reply::Array(None) => Ending::Fail,
            Reply::Array(Some(replies)) if replies.len() == commands.len() => {
                if let Some(error) = replies.iter().find(|reply| matches!(reply, Reply::Error(_))) {
                    self.complain(format!("a command of a block answered {error:?}"));
                    return self.lost();
                }
                Ending::Ok(replies)
            }
            Reply::Error(text) => self.refused(&text),
            strange => {
                self.complain(format!("EXEC answered {strange:?}"));
                self.lost()
            }
        }
    }

    /// Commands that write nothing; nothing if any of them failed.
    fn look(&mut self, commands: &[Vec<&str>]) -> Option<Vec<Reply>> {
        let Ok(replies) = self.exchange(commands) else {
            self.wire = None;
            return None;
        };
        for reply in &replies {
            if let Reply::Error(text) = reply {
                self.refused(text);
                // Forgets what was watched.
                self.wire = None;
                return None;
            }
        }
        Some(replies)
    }

    fn exchange(&mut self, commands: &[Vec<&str>]) -> io::Result<Vec<Reply>> {
        let wire = self.wire.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        commands.iter().for_each(|words| wire.command(words));
        wire.send()?;
        commands.iter().map(|_| wire.reply()).collect()
    }

    /// No reply: the other side closed the connection, or this one's patience has ended.
    fn unanswered(&mut self, error: &io::Error) -> Ending {
        if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            self.broken += 1;
        }
        self.lost()
    }

    /// The connection is of no use any more.
    fn lost(&mut self) -> Ending {
        self.wire = None;
        Ending::Info
    }

    fn refused(&mut self, text: &str) -> Ending {
        match Refusal::of(text) {
            Refusal::NotLeader(leader) => {
                self.leader = leader.filter(|_| !self.setup.asks.is_readonly());
                self.wire = None;
                Ending::Fail
            }
            Refusal::NotFresh => {
                self.not_fresh += 1;
                // Another replica may be fresher, and this one may be so soon.
                if self.rng.percent(50) {
                    self.wire = None;
                }
                Ending::Fail
            }
            // What is in a transaction's way is so at every replica.
            Refusal::Retry if self.setup.asks == Asks::Anybody && text.starts_with("CONFLICT") => {
                Ending::Fail
            }
            Refusal::Retry | Refusal::Full => {
                // An old leader that nobody follows says so, too: look for another one.
                if self.rng.percent(20) {
                    self.wire = None;
                }
                Ending::Fail
            }
            Refusal::Unknown => Ending::Info,
            Refusal::Strange(text) => {
                self.complain(format!("an error that nobody expects: {text}"));
                self.lost()
            }
        }
    }

    fn complain(&mut self, trouble: String) {
        self.trouble.push(format!("process {}: {trouble}", self.process));
    }
}

#[cfg(test)]
mod tests;
