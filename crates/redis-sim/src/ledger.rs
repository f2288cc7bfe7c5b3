//! A ledger of what hosts have handed to engines: whose each request is, and what is judged of it.

use std::collections::BTreeMap;

use highwater_core::codec::Reader;
use highwater_core::{NodeId, Outcome, Timestamp};
use highwater_redis::moment::Moment;
use highwater_seam::{Nanos, Token};
use highwater_sim::house::TOKENS;

use crate::model::Op;
use crate::order::{End, Record};
use crate::rules::{About, Process, Rules, about};

/// The request that a token stands for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The node whose host asked.
    pub node: NodeId,
    /// In which life of it.
    pub process: u64,
    /// The worker that handed it in.
    pub worker: u16,
    /// For whom.
    pub whose: Whose,
    /// Its place among the records that are judged, if it is.
    pub record: Option<usize>,
}

/// Whoever hears how a request ended.
#[derive(Clone, Copy, Debug)]
pub enum Whose {
    Sweep,
    /// The reader of the users.
    Users,
    /// A client's connection, by its number, of a request of it.
    Line(u64, u64),
    /// Another node, which forwarded it: by the number that it has here.
    Guest(u64),
}

/// Everything that hosts have handed to engines.
#[derive(Default)]
pub struct Ledger {
    tokens: u64,
    under_way: BTreeMap<u64, Asked>,
    /// Requests that are judged, by the chance that was drawn for each; and whether an engine has taken them.
    drawn: BTreeMap<u64, (usize, bool)>,
    /// The first thing that must not be.
    pub wrong: Option<String>,
    /// The rights of users.
    pub rules: Rules,
    /// Records that are judged in the order of the engine.
    pub records: Vec<Record>,
    /// How often something happened.
    pub marks: BTreeMap<&'static str, u64>,
}

impl Ledger {
    /// An engine has taken the request with the newest token.
    pub fn asked(&mut self, asked: Asked) -> u64 {
        self.under_way.insert(self.tokens, asked);
        self.tokens
    }

    /// The request with the newest token was taken by a worker that serves since then; `changes`: it is one of the procedure that
    /// changes users.
    pub fn weigh(&mut self, args: &[u8], changes: bool, by: Process, serves_since: Option<Nanos>) {
        match about(args, changes) {
            Some(About::Change(user, allows)) => {
                self.rules.taken(user, allows, (self.tokens, by));
                self.mark(if allows { "rights that were given" } else { "rights that were taken away" });
            }
            Some(About::Write(user)) => {
                self.mark("writes of users whose rights change");
                if let Err(why) = self.rules.wrote(user, by, serves_since) {
                    self.wrong.get_or_insert(why);
                }
            }
            None => {}
        }
    }

    /// A request has ended; `told`: whoever asked for it hears so.
    pub fn settle(&mut self, given: &Given, asked: &Asked, told: bool, now: Nanos) {
        let (token, by) = (given.token.0 - TOKENS, (asked.node, asked.process));
        let at = (given.outcome == Outcome::Committed).then_some(given.moment);
        if self.rules.released((token, by), at, told, now) {
            self.mark("rights that are gone");
        }
    }

    /// A token for the next request.
    pub fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(TOKENS + self.tokens)
    }

    /// Something is judged that was asked now with these arguments, wherever it is run.
    pub fn note(&mut self, record: Record, args: &[u8]) -> usize {
        self.records.push(record);
        let at = self.records.len() - 1;
        self.drawn.insert(moment(args).seed, (at, false));
        at
    }

    /// An engine has taken a request with these arguments: what is judged of it. It sees the time of the node that runs it; and nobody runs it
    /// again.
    pub fn begins(&mut self, args: &[u8]) -> Option<usize> {
        let Moment { unix_ms, seed } = Moment::decode(&mut Reader::new(args)).ok()?;
        let (record, taken) = self.drawn.get_mut(&seed)?;
        if std::mem::replace(taken, true) {
            let twice = format!("an engine takes what one has taken: {:?}", self.records[*record]);
            self.wrong.get_or_insert(twice);
        } else {
            self.records[*record].unix_ms = unix_ms;
        }
        Some(*record)
    }

    /// One more of these.
    pub fn mark(&mut self, what: &'static str) {
        *self.marks.entry(what).or_default() += 1;
    }
}

/// A reply as the engine gave it.
pub struct Given {
    /// Which request.
    pub token: Token,
    /// How it ended.
    pub outcome: Outcome,
    /// Its moment in the one order.
    pub moment: Timestamp,
    /// The reply.
    pub bytes: Vec<u8>,
}

impl Ledger {
    /// A request was released: whose it is. What is judged is written down.
    pub fn released(&mut self, given: &Given, now: Nanos) -> Option<Asked> {
        let asked = self.under_way.remove(&(given.token.0 - TOKENS))?;
        if let Some(record) = asked.record {
            self.records[record].end = match given.outcome {
                Outcome::Committed => {
                    let reply = String::from_utf8_lossy(&given.bytes).into_owned();
                    End::Done { at: given.moment, told: now, reply }
                }
                Outcome::Unknown => End::Unknown,
                _ => End::Nothing,
            };
        }
        Some(asked)
    }
}

/// The record of a request that is asked now.
pub fn record(op: Op, args: &[u8], now: Nanos, line: u64) -> Record {
    Record { op, unix_ms: moment(args).unix_ms, asked: now, line, end: End::Unknown }
}

fn moment(args: &[u8]) -> Moment {
    Moment::decode(&mut Reader::new(args)).expect("a moment stands in front")
}
