//! What simulated clients saw, and what of it is wrong by itself.

use std::collections::BTreeMap;

use highwater_checker::{History, Op as CheckedOp, Place, Status, Txn};
use highwater_core::Outcome;
use highwater_seam::Nanos;

use super::wanted::Wanted;
use super::work::Kind;
use crate::library::blobs::NUMBERED;
use crate::library::{self, ACCOUNTS, OPENING, Observed, Op, TOGGLE_LISTS};
use crate::world::Reply;

/// A transaction, from its invocation on.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) client: usize,
    pub(super) process: u64,
    pub(super) ops: Vec<Op>,
    /// It reads what a replica's snapshot holds.
    pub(super) snap: bool,
    /// What it asks of that snapshot.
    pub(super) wanted: Wanted,
    pub(super) invoked: Nanos,
    /// Its place on a connection that has others under way.
    pub(super) place: Option<Place>,
    /// How it ended, when, and what it saw; `None` while open, or forever.
    pub(super) ended: Option<(Status, Nanos, Vec<Observed>)>,
}

impl Asked {
    pub(super) fn new(process: u64, ops: Vec<Op>, invoked: Nanos) -> Asked {
        let wanted = Wanted::default();
        Asked { client: 0, process, ops, snap: false, wanted, invoked, place: None, ended: None }
    }

    pub(super) fn status(&self) -> Option<Status> {
        self.ended.as_ref().map(|(status, _, _)| *status)
    }
}

/// Processes from here on were told something that may be lost.
const LOST: u64 = 1 << 62;

/// Behind every run.
const NEVER: Nanos = Nanos::MAX / 2;

/// All transactions of a run, by their tokens.
#[derive(Default)]
pub struct Journal(pub(super) BTreeMap<u64, Asked>);

impl Journal {
    /// A process asks for a transaction, or for a read on a replica's snapshot (`snap`).
    pub fn ask(&mut self, token: u64, process: u64, ops: Vec<Op>, snap: bool, invoked: Nanos) {
        self.0.insert(token, Asked { snap, ..Asked::new(process, ops, invoked) });
    }

    /// A transaction is sent over a connection that may have others under way.
    pub(super) fn send(&mut self, token: u64, ops: Vec<Op>, place: Place, invoked: Nanos) {
        self.0.insert(token, Asked { place: Some(place), ..Asked::new(token, ops, invoked) });
    }

    /// The operations of a request.
    pub(super) fn asked_for(&self, token: u64) -> &[Op] {
        &self.0[&token].ops
    }

    /// A reply has come, and is with its client at `at`: how the request ended.
    ///
    /// # Errors
    /// A thing that no database may do.
    pub(super) fn hear(&mut self, reply: &Reply, at: Nanos) -> Result<(Status, &'static str), String> {
        let token = reply.token.0;
        let Some(asked) = self.0.get_mut(&token) else {
            return Err(format!("{:?} answered request {token}, which nobody made", reply.from));
        };
        if asked.status().is_some_and(|status| status != Status::Info) {
            return Err(format!("request {token} was answered twice: {asked:?}, then {reply:?}"));
        }
        let (status, name) = match reply.outcome {
            Outcome::Committed => (Status::Ok, "committed"),
            Outcome::Unknown => (Status::Info, "unknown"),
            Outcome::Conflict => (Status::Fail, "conflict"),
            Outcome::TooLarge => (Status::Fail, "too large"),
            Outcome::OutOfMemory => (Status::Fail, "out of memory"),
            Outcome::DiskFull => (Status::Fail, "disk full"),
            Outcome::Denied if asked.wanted.freshness.is_some() && reply.bytes.starts_with(b"NOTFRESH ") => {
                (Status::Fail, "not fresh")
            }
            Outcome::Denied => unreachable!("these clients ask for no session"),
            Outcome::RolledBack | Outcome::BadRequest => (Status::Fail, "rolled back"),
        };
        let seen = if status == Status::Ok { library::decode_reply(&reply.bytes) } else { Vec::new() };
        if status == Status::Ok && seen.len() != asked.ops.len() {
            return Err(format!("a reply tells of {} operations: {asked:?}", seen.len()));
        }
        asked.ended = Some((status, at, seen));
        Ok((status, name))
    }

    /// It has ended so, and seen this.
    ///
    /// # Panics
    /// If nobody asked, or it has ended already.
    pub fn end(&mut self, token: u64, status: Status, at: Nanos, seen: Vec<Observed>) {
        let asked = self.0.get_mut(&token).expect("somebody asked for what is answered");
        assert!(asked.ended.is_none(), "request {token} was answered twice: {asked:?}");
        asked.ended = Some((status, at, seen));
    }

    /// What was acknowledged since may be lost: nobody knows any more what became of it.
    pub fn lose_since(&mut self, since: Nanos) {
        for (token, asked) in &mut self.0 {
            if let Some((status @ Status::Ok, at, _)) = &mut asked.ended
                && *at >= since
            {
                *status = Status::Info;
                // Who does not know what became of something is not heard of again.
                asked.process = LOST | *token;
            }
        }
    }

    /// Whether it was acknowledged.
    pub fn has_ended_well(&self, token: u64) -> bool {
        self.0.get(&token).is_some_and(|asked| asked.status() == Some(Status::Ok))
    }

    /// Transactions that were asked for.
    pub fn asked(&self) -> u64 {
        self.0.len() as u64
    }

    /// Transactions that were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.ok().count() as u64
    }

    /// Those of them that read a snapshot.
    pub fn snapshot_reads(&self) -> u64 {
        self.ok().filter(|(asked, _)| asked.snap).count() as u64
    }

    /// Those of them that asked for freshness.
    pub fn fresh_reads(&self) -> u64 {
        self.ok().filter(|(asked, _)| asked.wanted.freshness.is_some()).count() as u64
    }

    fn ok(&self) -> impl Iterator<Item = (&Asked, &Vec<Observed>)> {
        self.0.values().filter_map(|asked| match &asked.ended {
            Some((Status::Ok, _, seen)) => Some((asked, seen)),
            _ => None,
        })
    }

    /// Audit rows that were acknowledged, and those that surely were not written.
    pub fn audits(&self) -> (Vec<u32>, Vec<u32>) {
        let rows = |wanted: Status| {
            let ended = self.0.values().filter(move |asked| asked.status() == Some(wanted));
            let ops = ended.flat_map(|asked| &asked.ops);
            ops.filter_map(|op| if let Op::Audit(row) = op { Some(*row) } else { None }).collect()
        };
        (rows(Status::Ok), rows(Status::Fail))
    }

    /// The transaction that was to leave an audit row, in words.
    pub fn who_audits(&self, row: u32) -> String {
        let of = self.0.iter().find(|(_, asked)| asked.ops.contains(&Op::Audit(row)));
        of.map_or(String::new(), |(token, asked)| format!("request {token}: {asked:?}"))
    }

    /// What single replies contradict by themselves: totals, toggles, rows that were new.
    pub fn contradictions(&self) -> Option<String> {
        for (asked, seen) in self.ok() {
            for (op, seen) in asked.ops.iter().zip(seen) {
                let wrong = match (op, &seen[..]) {
                    (Op::Total, [total]) if *total != ACCOUNTS * OPENING => "the bank's total changed",
                    (Op::Toggle(..), [present, turns @ ..]) if *present as usize != turns.len() % 2 => {
                        "a toggle's presence contradicts the count of its turns"
                    }
                    (Op::Peek(..), pairs) if pairs.chunks(2).any(|pair| pair[0] != pair[1] % 2) => {
                        "a scan of toggles contradicts the counts of their turns"
                    }
                    (Op::AddRow(..), [0]) => "a row behind the last one existed",
                    (Op::Weigh(_), [.., 0]) => "a blob's bytes are not what was written",
                    (Op::Audit(..), [0]) => "an audit row existed before it was written",
                    _ => continue,
                };
                return Some(format!("{wrong}: {op:?} saw {seen:?} in {asked:?}"));
            }
        }
        None
    }

    /// When what was sent over connections is with its clients: replies come in the order of the requests, so one that is there waits for those
    /// in front of it. What stands behind one that nobody answered is never heard.
    fn heard(&self) -> BTreeMap<u64, Nanos> {
        let mut latest: BTreeMap<u64, Nanos> = BTreeMap::new();
        let placed = self.0.iter().filter_map(|(token, asked)| Some((token, asked, asked.place?)));
        let heard = placed.map(|(token, asked, place)| {
            let latest = latest.entry(place.connection).or_default();
            *latest = asked.ended.as_ref().map_or(NEVER, |(_, at, _)| (*at).max(*latest));
            (*token, *latest)
        });
        heard.collect()
    }

    /// For the checker.
    pub fn history(&self) -> History {
        let (mut history, heard) = (History::new(), self.heard());
        for (token, asked) in &self.0 {
            let (status, t1, seen) = match &asked.ended {
                Some((status, at, seen)) => {
                    let at = heard.get(token).unwrap_or(at);
                    (*status, (*status != Status::Info).then_some(*at), Some(seen))
                }
                None => (Status::Info, None, None),
            };
            let mut ops = Vec::new();
            for (at, op) in asked.ops.iter().enumerate() {
                let seen = seen.filter(|_| status == Status::Ok).map(|seen| &seen[at]);
                record(&mut history, &mut ops, *op, seen);
            }
            if !ops.is_empty() {
                let Asked { process, invoked: t0, snap, place, .. } = *asked;
                let since = asked.wanted.since.filter(|_| snap);
                history.push(Txn { process, t0, t1, status, ops, snap, since, place });
            }
        }
        history
    }
}

/// An operation as entries of a history. The bank and audits are judged elsewhere.
fn record(history: &mut History, ops: &mut Vec<CheckedOp>, op: Op, seen: Option<&Observed>) {
    let list = |seen: Option<&[u32]>| seen.map(|seen| seen.iter().map(|value| i64::from(*value)).collect());
    let whole = seen.map(|seen| &seen[..]);
    let mut intern = |kind: Kind, key: u32| history.keys.intern(&kind.name(key));
    match op {
        Op::Read(key) => ops.push(CheckedOp::ReadList { key: intern(Kind::List, key), value: list(whole) }),
        Op::Append(key, value) => {
            let key = intern(Kind::List, key);
            ops.push(CheckedOp::ReadList { key, value: list(whole) });
            ops.push(CheckedOp::Append { key, value: value.into() });
        }
        Op::Scan(key) => ops.push(CheckedOp::ReadList { key: intern(Kind::Rows, key), value: list(whole) }),
        Op::AddRow(key, value) => {
            ops.push(CheckedOp::Append { key: intern(Kind::Rows, key), value: value.into() });
        }
        Op::Get(key) => {
            let value = whole.map(|seen| seen.first().map(|value| i64::from(*value)));
            ops.push(CheckedOp::ReadReg { key: intern(Kind::Register, key), value });
        }
        Op::Set(key, value) => {
            ops.push(CheckedOp::Write { key: intern(Kind::Register, key), value: value.into() });
        }
        Op::Toggle(key, value) => {
            let key = intern(Kind::List, TOGGLE_LISTS + key);
            ops.push(CheckedOp::ReadList { key, value: list(whole.map(|seen| &seen[1..])) });
            ops.push(CheckedOp::Append { key, value: value.into() });
        }
        Op::Fill(key, value, _) => {
            ops.push(CheckedOp::Write { key: intern(Kind::Blob, key), value: value.into() });
        }
        Op::Weigh(key) => match whole {
            // Too small to hold its number.
            Some([_, size, _]) if *size < NUMBERED => {}
            _ => {
                let value = whole.map(|seen| seen.first().map(|value| i64::from(*value)));
                ops.push(CheckedOp::ReadReg { key: intern(Kind::Blob, key), value });
            }
        },
        // Only runs that write no blobs any more drop them.
        Op::Drop(_) => {}
        Op::Peek(..) | Op::Glance(..) | Op::Transfer(..) | Op::Total | Op::Audit(_) | Op::Count(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once: (Of the simulator and its judges, 18 of 2,500 fresh seeds with disks.) A rotten disk, a wiped learner and a
    /// state that was copied and is on no disk counted as kept, so that plans ended a majority; clients of pipelines
    /// heard replies out of order.
    #[test]
    fn replies_over_a_connection_come_in_the_order_of_the_requests() {
        let mut journal = Journal::default();
        for number in 0..4 {
            journal.send(number, vec![Op::Set(1, number as u32)], Place { connection: 7, number }, 0);
        }
        journal.end(1, Status::Ok, 5, vec![Observed::default()]);
        journal.end(0, Status::Fail, 9, Vec::new());
        journal.end(3, Status::Ok, 6, vec![Observed::default()]);
        let ends: Vec<_> = journal.history().txns.iter().map(|txn| txn.t1).collect();
        assert_eq!(ends, [Some(9), Some(9), None, Some(NEVER)]);
    }
}
