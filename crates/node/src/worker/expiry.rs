//! Has keys go whose deadline is past, and rows of collections that are gone: the first worker's part, while its replica serves.
//!
//! Nobody sees an expired key in any case. The sweep gives its memory back: soon if there is something to do, and else only
//! now and then. Where nothing was written since nothing was due, nobody is asked: a node at rest does next to nothing.

use highwater_core::{Outcome, Procedure, ProcedureId, Timestamp};
use highwater_engines::{Nanos, Refusal, Request, Worker};

use super::users::standing;
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
    /// Up to where writes were released when the last sweep began, if the engine says so.
    began_at: Option<Timestamp>,
    /// What it found: while writes are released up to here, and no further, nothing is due before this Unix time in ms.
    nothing_due: Option<(Timestamp, u64)>,
}

impl Expiry {
    /// `procedures`: the registered names, by id.
    pub fn new(procedures: &[&'static str]) -> Expiry {
        Expiry::paced(procedures, OFTEN, SELDOM)
    }

    /// The same at another pace: so often while keys expire, and so often else.
    pub fn paced(procedures: &[&'static str], often: Nanos, seldom: Nanos) -> Expiry {
        let sweep = procedures.iter().position(|known| *known == Sweep::NAME).expect("the door registers it");
        Expiry {
            sweep: ProcedureId(sweep as u16),
            pace: (often, seldom),
            next: Some(0),
            began_at: None,
            nothing_due: None,
        }
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
        let (ready, released) = (standing(engine), engine.released_up_to());
        self.ask(now, (ready, released), unix_ms(), |sweep, moment| {
            engine.submit(now, Request::new(pack(Owner::Keeper, SLOT, 0), sweep, moment)).is_ok()
        });
    }

    /// Whether it is time.
    pub fn is_due(&self, now: Nanos) -> bool {
        self.next.is_some_and(|next| now >= next)
    }

    /// Asks by `submit`, which says whether it was taken, at this Unix time, of a replica that answers [`ready`](Worker::ready) and
    /// [`released_up_to`](Worker::released_up_to) so; not if nothing was written since nothing was due.
    pub fn ask(
        &mut self,
        now: Nanos,
        (ready, released): (Result<(), Refusal>, Option<Timestamp>),
        unix_ms: u64,
        submit: impl FnOnce(ProcedureId, &[u8]) -> bool,
    ) {
        let known = self.nothing_due.filter(|(upto, due)| released == Some(*upto) && unix_ms < *due);
        if let Some((_, due)) = known {
            self.next = Some(now + self.pause_before(due, unix_ms));
            return;
        }
        self.began_at = released;
        let moment = Moment { unix_ms, seed: 0 }.bytes();
        let serves = matches!(ready, Ok(()) | Err(Refusal::Busy));
        let asked = serves && submit(self.sweep, &moment);
        self.next = (!asked).then_some(now + if serves { self.pace.0 } else { self.pace.1 });
    }

    /// What it asked for is done: the reply says when the next deadline is, and how many had come; which is told.
    pub fn released(&mut self, now: Nanos, unix_ms: u64, outcome: Outcome, reply: &[u8]) -> u64 {
        let due = reply.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let found = due.filter(|_| outcome == Outcome::Committed);
        self.nothing_due = self.began_at.zip(found);
        let pause = match (outcome, due) {
            (Outcome::Committed, Some(0)) => AT_ONCE,
            (Outcome::Committed, Some(due)) => self.pause_before(due, unix_ms),
            _ => self.pace.0,
        };
        self.next = Some(now + pause);
        let expired = reply.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if outcome == Outcome::Committed { expired } else { 0 }
    }

    /// How long to wait before a deadline, at a time in Unix ms.
    fn pause_before(&self, due: u64, unix_ms: u64) -> Nanos {
        let (often, seldom) = self.pace;
        let ms = due.saturating_sub(unix_ms).min(seldom / 1_000_000);
        (ms * 1_000_000).max(often)
    }

    /// When it wants a turn.
    pub fn next(&self) -> Option<Nanos> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A replica that counts what it is asked, and has released what was written up to here.
    #[derive(Default)]
    struct Replica {
        asked: u32,
        upto: Option<Timestamp>,
    }

    /// How often it is asked within five seconds, if each sweep finds that the next key expires in `due_ms`.
    fn asked(expiry: &mut Expiry, replica: &mut Replica, due_ms: u64) -> u32 {
        let next = |expiry: &Expiry| expiry.next().expect("no sweep is under way");
        let (before, began) = (replica.asked, next(expiry));
        while next(expiry) < began + 5 * SELDOM {
            let now = next(expiry);
            let unix_ms = now / 1_000_000;
            expiry.ask(now, (Ok(()), replica.upto), unix_ms, |_, _| {
                replica.asked += 1;
                true
            });
            if expiry.next().is_none() {
                let due = unix_ms.saturating_add(due_ms).to_le_bytes();
                expiry.released(now, unix_ms, Outcome::Committed, &[due, [0; 8]].concat());
            }
        }
        replica.asked - before
    }

    #[test]
    fn nobody_is_asked_while_nothing_is_written_and_nothing_is_due() {
        let (mut expiry, mut replica) = (Expiry::new(&[Sweep::NAME]), Replica::default());
        assert_eq!(asked(&mut expiry, &mut replica, u64::MAX), 5, "an engine that cannot say");
        replica.upto = Some(Timestamp(1));
        assert_eq!(asked(&mut expiry, &mut replica, u64::MAX), 1);
        assert_eq!(asked(&mut expiry, &mut replica, u64::MAX), 0);
        replica.upto = Some(Timestamp(2));
        assert_eq!(asked(&mut expiry, &mut replica, 3_600_000), 1, "something was written");
        assert_eq!(asked(&mut expiry, &mut replica, 3_600_000), 0, "an hour is left");
        replica.upto = Some(Timestamp(3));
        assert!(asked(&mut expiry, &mut replica, 0) > 5, "it is due");
        // What a sweep leaves undone is due.
        replica.upto = Some(Timestamp(4));
        expiry.released(0, 0, Outcome::Conflict, &[]);
        assert!(asked(&mut expiry, &mut replica, 0) > 5);
    }
}
