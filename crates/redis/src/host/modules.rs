//! Has this node compile the modules that it has got from others, before somebody calls one here: the first worker looks at the table now and
//! then while its replica follows, and once when it begins to serve. [`compiled`](crate::modules) tells what comes of it.

use std::sync::Arc;

use highwater_core::Outcome;
use highwater_seam::{Nanos, Request, Worker};

use super::token::{Owner, keeper, pack};
use super::users::serves;
use crate::commands::op;
use crate::moment::Moment;
use crate::number::parse_integer;
use crate::{Door, single};

/// How often to look while modules may come from elsewhere.
const EVERY: Nanos = 1_000_000_000;
/// While some are not compiled.
const SOON: Nanos = 100_000_000;

/// The reader of the table.
pub struct Modules {
    door: Arc<Door>,
    /// `HW.MODULE COMPILE`
    args: Vec<u8>,
    /// When to look next.
    next: Option<Nanos>,
    /// A look is under way, by a node that served then or did not.
    looks: Option<bool>,
    /// It served at the last turn.
    served: bool,
    /// How many were not compiled at the last look.
    cold: Option<i64>,
}

impl Modules {
    /// Nothing was looked at yet.
    pub fn new(door: Arc<Door>) -> Modules {
        let opcode = op::HW_MODULE;
        let args = single::command(opcode, [&b"compile"[..]].into_iter());
        Modules { door, args, next: Some(0), looks: None, served: false, cold: None }
    }

    /// Looks, if it is time; then at this Unix time in ms.
    pub fn turn(&mut self, now: Nanos, unix_ms: impl FnOnce() -> u64, engine: &mut dyn Worker) {
        let serves = serves(engine);
        if serves != std::mem::replace(&mut self.served, serves) {
            self.next = Some(now);
        }
        if self.looks.is_some() || self.next.is_none_or(|next| now < next) {
            return;
        }
        let moment = Moment { unix_ms: unix_ms(), seed: 0 };
        self.args[..Moment::BYTES].copy_from_slice(&moment.bytes());
        let request =
            Request::new(pack(Owner::Keeper, keeper::MODULES, 0), self.door.procedures.exec, &self.args);
        let taken = if serves { engine.submit(now, request) } else { engine.submit_snapshot(now, request) };
        self.looks = taken.is_ok().then_some(serves);
        self.next = Some(now + EVERY);
    }

    /// The finding: how many are not compiled.
    pub fn released(&mut self, now: Nanos, outcome: Outcome, reply: &[u8]) {
        let served = self.looks.take() == Some(true);
        let found =
            reply.strip_prefix(b":").and_then(|line| line.strip_suffix(b"\r\n")).and_then(parse_integer);
        self.next = match found.filter(|_| outcome == Outcome::Committed) {
            // Of an engine with a leader nobody else loads any while this node serves, and whoever loads one has it compiled first.
            Some(0) if served && !self.door.leaderless => None,
            Some(0) if served == self.served => Some(now + EVERY),
            // As many as before: they are more than there is room for, and are compiled when they are called.
            Some(cold) if cold > 0 && self.cold.replace(cold) == Some(cold) => Some(now + EVERY),
            _ => Some(now + SOON),
        };
    }

    /// When it wants a turn.
    pub fn next(&self) -> Option<Nanos> {
        self.next.filter(|_| self.looks.is_none())
    }
}
