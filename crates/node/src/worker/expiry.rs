//! Has keys go whose deadline is past, and rows of collections that are gone: the first worker's part, while its replica serves.
//!
//! Nobody sees an expired key in any case. The sweep gives its memory back: soon if there is something to do, and else only
//! now and then, so that a node at rest does next to nothing.

use highwater_core::{Outcome, Procedure, ProcedureId};
use highwater_engines::{Nanos, Refusal, Request, Worker};

use crate::clock::unix_ms;
use crate::resp::keyspace::sweep::Sweep;
use crate::resp::moment::Moment;
use crate::token::{Owner, pack};

/// The slot of its tokens; the keeper of sessions has the other one.
pub const SLOT: usize = 1;
/// How often to sweep while keys expire.
const OFTEN: Nanos = 100_000_000;
/// How often while none does, or the replica does not serve.
const SELDOM: Nanos = 1_000_000_000;
/// While there is more to do.
const AT_ONCE: Nanos = 1_000_000;

/// See the module.
pub struct Expiry {
    sweep: ProcedureId,
    /// How often to sweep while keys expire, and else.
    pace: (Nanos, Nanos),
    /// When to sweep next; `None` while one is under way.
    next: Option<Nanos>,
}

impl Expiry {
    /// `procedures`: the registered names, by id.
    pub fn new(procedures: &[&'static str]) -> Expiry {
        Expiry::paced(procedures, OFTEN, SELDOM)
    }

    /// The same at another pace: so often while keys expire, and so often else.
    pub fn paced(procedures: &[&'static str], often: Nanos, seldom: Nanos) -> Expiry {
        let sweep = procedures.iter().position(|known| *known == Sweep::NAME).expect("the door registers it");
        Expiry { sweep: ProcedureId(sweep as u16), pace: (often, seldom), next: Some(0) }
    }

    /// Asks for what is due, if it may.
    pub fn turn(&mut self, now: Nanos, may: bool, engine: &mut dyn Worker) {
        if !self.is_due(now) {
            return;
        }
        if !may {
            self.next = Some(now + self.pace.0);
            return;
        }
        let ready = engine.ready();
        self.ask(now, ready, unix_ms(), |sweep, moment| {
            engine.submit(now, Request::new(pack(Owner::Keeper, SLOT, 0), sweep, moment)).is_ok()
        });
    }

    /// Whether it is time.
    pub fn is_due(&self, now: Nanos) -> bool {
        self.next.is_some_and(|next| now >= next)
    }

    /// Asks by `submit`, which says whether it was taken, of a replica that answers `ready` so, at this Unix time.
    pub fn ask(
        &mut self,
        now: Nanos,
        ready: Result<(), Refusal>,
        unix_ms: u64,
        submit: impl FnOnce(ProcedureId, &[u8]) -> bool,
    ) {
        let moment = Moment { unix_ms, seed: 0 }.bytes();
        let serves = matches!(ready, Ok(()) | Err(Refusal::Busy));
        let asked = serves && submit(self.sweep, &moment);
        self.next = (!asked).then_some(now + if serves { self.pace.0 } else { self.pace.1 });
    }

    /// What it asked for is done: the reply says when the next deadline is, and how many had come; which is told.
    pub fn released(&mut self, now: Nanos, unix_ms: u64, outcome: Outcome, reply: &[u8]) -> u64 {
        let due = reply.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let (often, seldom) = self.pace;
        let pause = match (outcome, due) {
            (Outcome::Committed, Some(0)) => AT_ONCE,
            (Outcome::Committed, Some(due)) => {
                let ms = due.saturating_sub(unix_ms).min(seldom / 1_000_000);
                (ms * 1_000_000).max(often)
            }
            _ => often,
        };
        self.next = Some(now + pause);
        let expired = reply.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if outcome == Outcome::Committed { expired } else { 0 }
    }

    /// When it wants a turn.
    pub fn next(&self) -> Option<Nanos> {
        self.next
    }
}
