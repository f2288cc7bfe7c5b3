//! Has keys go whose deadline is past, and rows of collections that are gone: the first worker's part, while its replica serves.
//!
//! A transaction removes them, [`keyspace::sweep`](crate::keyspace::sweep); here is when to ask for one. (The commands are `commands/expiry.rs`.)
//!
//! Nobody sees an expired key in any case. The sweep gives its memory back: soon if there is something to do, and else only
//! now and then. Where nothing was written since nothing was due, nobody is asked: a node at rest does next to nothing.
//!
//! *Nothing waits for garbage.* While one sweep does not do for all, every third looks at deadlines alone, and every third at garbage alone: then a key
//! that is due goes however much garbage there is, and whatever becomes of the sweeps that meet those who make it.
//!
//! *A sweep that is through does more the next time*, up to `MOST_ROWS`, and one that is not does less: garbage that comes quickly goes quickly.

use highwater_core::{Outcome, Procedure, ProcedureId, Timestamp};
use highwater_seam::{Nanos, Refusal, Request, Worker};

use super::token::{Owner, keeper, pack};
use super::users::standing;
use crate::keyspace::sweep::{Share, Sweep};
use crate::moment::Moment;

/// How often to sweep while keys expire.
const OFTEN: Nanos = 100_000_000;
/// How often while none does, or the replica does not serve.
const SELDOM: Nanos = 1_000_000_000;
/// While there is more to do.
const AT_ONCE: Nanos = 1_000_000;
/// After a sweep that met others too often.
const AGAIN: Nanos = 10_000_000;

/// The work of a sweep at first: 8 collections that are gone, 512 rows, 32 KiB. Each step up is twice as much.
const USUAL: u32 = 3;
/// 512 collections.
const MOST_STEPS: u32 = 9;
/// Rows that a sweep removes at most: some milliseconds of its worker.
const MOST_ROWS: u32 = 4096;
/// Bytes that it removes at most, whatever a transaction may.
const MOST_BYTES: usize = 4 << 20;
/// Bytes that it removes at least: what the smallest node's transactions may.
const LEAST_BYTES: usize = 32 << 10;

/// Which part of what is due a sweep looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    Garbage,
    Deadlines,
}

/// See the module.
pub struct Expiry {
    sweep: ProcedureId,
    /// How often to sweep while keys expire, and else.
    pace: (Nanos, Nanos),
    /// When to sweep next; `None` while one is under way.
    next: Option<Nanos>,
    /// Up to where writes were released when the last sweep began, if the engine says so.
    began_at: Option<Timestamp>,
    /// The things that the next sweep looks at, or the one under way.
    part: Part,
    /// How much it does: see [`USUAL`].
    step: u32,
    /// Bytes that it may remove.
    most_bytes: usize,
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
            part: Part::All,
            step: USUAL,
            most_bytes: LEAST_BYTES,
            nothing_due: None,
        }
    }

    /// On a node whose transactions may have so many bytes.
    pub fn with_transactions_of(self, bytes: usize) -> Expiry {
        Expiry { most_bytes: (bytes / 2).clamp(LEAST_BYTES, MOST_BYTES), ..self }
    }

    /// The work of the next sweep.
    fn share(&self) -> Share {
        let bytes = (LEAST_BYTES << self.step.saturating_sub(USUAL)).min(self.most_bytes);
        Share {
            garbage: if self.part == Part::Deadlines { 0 } else { 1 << self.step },
            rows: (64_u32 << self.step).min(MOST_ROWS),
            bytes: bytes as u32,
            deadlines: self.part != Part::Garbage,
        }
    }

    /// Asks for what is due, if it may; then at this moment.
    pub fn turn(&mut self, now: Nanos, may: bool, moment: impl FnOnce() -> Moment, engine: &mut dyn Worker) {
        if !self.is_due(now) {
            return;
        }
        if !may {
            self.next = Some(now + self.pace.0);
            return;
        }
        let (ready, released) = (standing(engine), engine.released_up_to());
        self.ask(now, (ready, released), moment(), |sweep, moment| {
            engine.submit(now, Request::new(pack(Owner::Keeper, keeper::EXPIRY, 0), sweep, moment)).is_ok()
        });
    }

    /// Whether it is time.
    pub fn is_due(&self, now: Nanos) -> bool {
        self.next.is_some_and(|next| now >= next)
    }

    /// Asks by `submit`, which says whether it was taken, at this moment, of a replica that answers [`ready`](Worker::ready) and
    /// [`released_up_to`](Worker::released_up_to) so; not if nothing was written since nothing was due.
    pub fn ask(
        &mut self,
        now: Nanos,
        (ready, released): (Result<(), Refusal>, Option<Timestamp>),
        moment: Moment,
        submit: impl FnOnce(ProcedureId, &[u8]) -> bool,
    ) {
        let known = self.nothing_due.filter(|(upto, due)| released == Some(*upto) && moment.unix_ms < *due);
        if let Some((_, due)) = known {
            self.next = Some(now + self.pause_before(due, moment.unix_ms));
            return;
        }
        self.began_at = released;
        let mut args = moment.bytes().to_vec();
        self.share().encode(&mut args);
        let serves = matches!(ready, Ok(()) | Err(Refusal::Busy));
        let asked = serves && submit(self.sweep, &args);
        self.next = (!asked).then_some(now + if serves { self.pace.0 } else { self.pace.1 });
    }

    /// What it asked for is done: the reply says when the next deadline is, and how many had come; which is told.
    pub fn released(&mut self, now: Nanos, unix_ms: u64, outcome: Outcome, reply: &[u8]) -> u64 {
        let due = reply.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let found = due.filter(|_| outcome == Outcome::Committed);
        let all = found.filter(|due| self.part == Part::All && *due > 0);
        self.nothing_due = self.began_at.zip(all);
        let pause = match (outcome, found) {
            (_, Some(_)) => all.map_or(AT_ONCE, |due| self.pause_before(due, unix_ms)),
            (Outcome::Conflict, None) => AGAIN,
            (_, None) => self.pace.0,
        };
        self.next = Some(now + pause);
        self.go_on(all.is_some(), found);
        let expired = reply.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if outcome == Outcome::Committed { expired } else { 0 }
    }

    /// The sweep behind one that left nothing (`done`), or found this, or failed.
    fn go_on(&mut self, done: bool, found: Option<u64>) {
        self.step = match found {
            None => self.step.saturating_sub(1),
            Some(0) => (self.step + 1).min(MOST_STEPS),
            Some(_) if done => USUAL,
            Some(_) => self.step,
        };
        self.part = match self.part {
            Part::All if done => Part::All,
            Part::All => Part::Garbage,
            Part::Garbage => Part::Deadlines,
            Part::Deadlines => Part::All,
        };
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
    use highwater_core::codec::Reader;

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
            expiry.ask(now, (Ok(()), replica.upto), Moment { unix_ms, seed: 0 }, |_, _| {
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

    /// The shares of so many sweeps, each of which ends so.
    fn shares(expiry: &mut Expiry, count: usize, outcome: Outcome, found: u64) -> Vec<Share> {
        let mut shares = Vec::new();
        while shares.len() < count {
            let now = expiry.next().expect("no sweep is under way");
            expiry.ask(now, (Ok(()), None), Moment::default(), |_, args| {
                shares.push(Share::decode(&mut Reader::new(&args[Moment::BYTES..])).unwrap());
                true
            });
            expiry.released(now, 0, outcome, &[found.to_le_bytes(), [0; 8]].concat());
        }
        shares
    }

    /// Deadlines stood behind garbage, and nothing expired as long as there was some.
    #[test]
    fn while_there_is_more_deadlines_are_looked_at_alone_and_so_is_garbage() {
        for (outcome, found) in [(Outcome::Committed, 0), (Outcome::Conflict, 0), (Outcome::TooLarge, 0)] {
            let mut expiry = Expiry::new(&[Sweep::NAME]).with_transactions_of(1 << 20);
            let shares = shares(&mut expiry, 30, outcome, found);
            let alone = |share: &&Share| share.garbage == 0 && share.deadlines;
            assert_eq!(shares.iter().filter(alone).count(), 10, "{outcome:?}");
            assert_eq!(shares.iter().filter(|share| !share.deadlines && share.garbage > 0).count(), 10);
        }
        let mut expiry = Expiry::new(&[Sweep::NAME]);
        let rests = shares(&mut expiry, 5, Outcome::Committed, u64::MAX);
        assert!(rests.iter().all(|share| share.deadlines && share.garbage == 8), "{rests:?}");
    }

    /// A sweep that meets others does less the next time, and one that is through more: garbage that came quickly went slowly.
    #[test]
    fn a_sweep_does_as_much_as_it_gets_through_with() {
        let mut expiry = Expiry::new(&[Sweep::NAME]).with_transactions_of(1 << 20);
        let of = |shares: &[Share]| shares.iter().map(|share| (share.garbage, share.rows, share.bytes)).max();
        assert_eq!(of(&shares(&mut expiry, 1, Outcome::Committed, 0)), Some((8, 512, 32 << 10)));
        assert_eq!(of(&shares(&mut expiry, 12, Outcome::Committed, 0)), Some((512, MOST_ROWS, 512 << 10)));
        shares(&mut expiry, 12, Outcome::Conflict, 0);
        assert_eq!(of(&shares(&mut expiry, 3, Outcome::Conflict, 0)), Some((1, 64, 32 << 10)));
        assert_eq!(of(&shares(&mut expiry, 3, Outcome::Committed, 0)), Some((4, 256, 32 << 10)));
    }
}
