//! `FLUSHALL` and `FLUSHDB` of a client's own: one transaction, or with `ASYNC` as many as it takes.
//!
//! In steps each is a transaction like any other, and other clients have their turns between two of them. What the client is told:
//!
//! - `OK`: whatever nobody has written since the command began is gone.
//! - an error of any request, as long as no step is done: it is as true as of any other command;
//! - `PARTLY` if some are: the words "nothing was done" would not be true. A repeat removes what is left.
//!
//! A connection that ends takes no further step. See docs/decisions/0030-a-keyspace-of-any-size-is-emptied-in-steps.md.

use super::*;
use crate::commands::flush::{MOST_KEYS, Mode, Portion};
use crate::number::parse_integer;

/// Refusals of steps of one key, one after another, before it is given up.
const MOST_TRIES: u32 = 16;

/// How far the steps have got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Emptying {
    /// The step that is asked.
    portion: Portion,
    /// A step is done.
    begun: bool,
    /// So many steps of one key were refused since the last one that was done.
    tries: u32,
}

impl Connection {
    /// Offers what [`args`](Self::args) hold: as it is, or its first step.
    pub(super) fn empty(&mut self, session: Option<Session>) {
        let mode = match Mode::parse(single::args(&self.args)) {
            Ok(mode) => mode,
            Err(error) => return self.refuse(error),
        };
        let in_steps = match mode {
            Mode::Sync => false,
            Mode::Async => true,
            Mode::Unsaid => self.door.settings.empties_in_steps(),
        };
        if in_steps && session.is_none() {
            self.emptying = Some(Emptying { portion: Portion::FIRST, begun: false, tries: 0 });
            single::go_on(&mut self.args, |out| Portion::FIRST.encode(out));
        }
        self.offer(self.door.procedures.exec, Offer::Empties, session);
    }

    /// A `FLUSHALL`, or a step of it, is released: whether there is another step, or the client was told of an error of its own.
    pub(super) fn goes_on_emptying(&mut self, seq: u64, outcome: Outcome, bytes: &[u8]) -> bool {
        if self.stage != (Stage::Emptying { seq }) {
            return false;
        }
        let Some(emptying) = &mut self.emptying else {
            self.end_emptying();
            if outcome == Outcome::TooLarge {
                let limits = std::str::from_utf8(bytes).unwrap_or("its limits are unknown");
                self.fail(seq, |_| RequestError::ManyKeys { limits });
            }
            return outcome == Outcome::TooLarge;
        };
        let again = match outcome {
            Outcome::Committed if bytes.first() == Some(&b'-') => return self.takes_no_steps(seq),
            Outcome::Committed => emptying.advance(bytes),
            Outcome::Conflict | Outcome::TooLarge => emptying.retreat(),
            _ => false,
        };
        if again {
            let portion = emptying.portion;
            // What the engine held of it is no reply: the client gets none yet.
            self.order.expect(seq, 0);
            single::go_on(&mut self.args, |out| portion.encode(out));
            self.offer_portion(seq);
            return true;
        }
        let begun = emptying.begun;
        self.end_emptying();
        match why_not(outcome).filter(|_| begun) {
            Some(why) => self.fail(seq, |_| RequestError::Partly(why)),
            None => return false,
        }
        true
    }

    fn offer_portion(&mut self, seq: u64) {
        let moment = Moment { unix_ms: self.client.unix_ms, seed: self.random.bits() };
        self.args[..Moment::BYTES].copy_from_slice(&moment.bytes());
        let (procedure, kind) = (self.door.procedures.exec, Offer::Empties);
        self.stage = Stage::Offering { seq, procedure, kind, snapshot: false, session: None };
    }

    /// The engine does not take it. Whether the client was told of a part that is done.
    pub(super) fn emptying_refused(&mut self, seq: u64) -> bool {
        let begun = self.emptying.is_some_and(|emptying| emptying.begun);
        self.emptying = None;
        if begun {
            self.args.clear();
            self.fail(seq, |_| RequestError::Partly("this node does not serve any more"));
        }
        begun
    }

    /// Whether something is removed in steps, and some of it is.
    pub(super) fn has_begun_emptying(&self) -> bool {
        self.emptying.is_some_and(|emptying| emptying.begun)
    }

    /// Who serves is of a build that knows no steps, and did nothing: it is asked for all in one transaction, unless there were steps before.
    fn takes_no_steps(&mut self, seq: u64) -> bool {
        let begun = self.emptying.take().is_some_and(|emptying| emptying.begun);
        if begun {
            self.end_emptying();
            self.fail(seq, |_| RequestError::Partly("the node that serves by now is of an older build"));
        } else {
            self.order.expect(seq, 0);
            single::go_on(&mut self.args, |out| Args::encode([&b"async"[..]].into_iter(), out));
            self.offer_portion(seq);
        }
        true
    }

    fn end_emptying(&mut self) {
        self.emptying = None;
        self.stage = Stage::Open;
        self.args.clear();
    }
}

impl Emptying {
    /// A step is done; whether there is another one. The reply says where it begins; that of the last one is the client's.
    fn advance(&mut self, reply: &[u8]) -> bool {
        let next = reply.strip_prefix(b":").and_then(|line| line.strip_suffix(b"\r\n"));
        let Some(next) = next.and_then(parse_integer) else { return false };
        let keys = (2 * self.portion.keys).min(MOST_KEYS);
        *self = Emptying { portion: Portion { from: next as u64, keys }, begun: true, tries: 0 };
        true
    }

    /// Others wrote what a step removes, again and again, or it was too large: whether a smaller one may do.
    fn retreat(&mut self) -> bool {
        if self.portion.keys == 1 {
            self.tries += 1;
        }
        self.portion.keys = (self.portion.keys / 2).max(1);
        self.tries <= MOST_TRIES
    }
}

/// Why a step is not known to be done.
fn why_not(outcome: Outcome) -> Option<&'static str> {
    Some(match outcome {
        Outcome::Committed | Outcome::RolledBack | Outcome::BadRequest | Outcome::Denied => return None,
        Outcome::Conflict => "others change them again and again",
        Outcome::TooLarge => "one is larger than a transaction may remove",
        Outcome::OutOfMemory => "there is no memory for the note that a collection is to be removed",
        Outcome::DiskFull => "the disks of too many nodes are full",
        Outcome::Unknown => "this node lost the lead, or its vote, before the last step was safe",
    })
}
