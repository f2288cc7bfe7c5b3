//! The transactions that a worker coordinates, until each is decided.

use std::collections::BTreeMap;

use highwater_core::{NodeId, Outcome, ProcedureId, Random, Timestamp};

use super::payload::Payload;
use super::quorum::Quorums;
use crate::options::Options;
use crate::seam::{Nanos, Request, Session, Token};

/// A request that may have to run again.
pub struct Asked {
    /// The host's name for it.
    pub token: Token,
    /// What to run.
    pub procedure: ProcedureId,
    /// Its arguments.
    pub args: Box<[u8]>,
    /// Whose request it is.
    pub session: Option<Session>,
    /// Attempts so far.
    pub attempts: u32,
    /// How far ahead of the clock its last attempt would have had to be proposed, in ticks, if it came too late.
    pub lead: u64,
    /// When it came.
    pub since: Nanos,
}

/// Attempts are put off by so many round trips at most, however many there were.
const MOST_ROUND_TRIPS: u64 = 64;
/// After so many timeouts there is no other attempt.
const MOST_PATIENCE: u64 = 20;

/// How long to wait before another attempt, after so many that came to nothing.
pub fn pause(attempts: u32, round_trip: Nanos, timeout: Nanos, random: &mut Random) -> Nanos {
    let most = (1 << attempts.min(10)).min(MOST_ROUND_TRIPS) * round_trip.max(1_000) / 2;
    random.below(most.min(2 * timeout) + 1)
}

impl Asked {
    /// When another attempt may be made after one that came to nothing; `None`: there were too many, or it took too long.
    pub fn again(
        &self,
        now: Nanos,
        options: &Options,
        round_trip: Nanos,
        random: &mut Random,
    ) -> Option<Nanos> {
        let patience = MOST_PATIENCE * options.election_timeout;
        if self.attempts >= options.max_attempts || now > self.since + patience {
            return None;
        }
        Some(now + pause(self.attempts, round_trip, options.election_timeout, random))
    }

    /// A request that has come, before its first attempt.
    pub fn of(now: Nanos, request: &Request<'_>) -> Asked {
        Asked {
            token: request.token,
            procedure: request.procedure,
            args: request.args.into(),
            session: request.session,
            attempts: 0,
            lead: 0,
            since: now,
        }
    }
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Replicas validate it.
    Validating,
    /// Replicas are asked to accept a decision: the slow path.
    Accepting {
        /// To commit.
        commit: bool,
        /// Who has: a bit each.
        by: u32,
    },
    /// A backup coordinator was faster: it, or somebody who knows, will say what became of it.
    Overtaken,
}

/// What replicas have said of a transaction so far, to whoever coordinates it: a worker, or a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Who found it valid: a bit each.
    pub valid: u32,
    /// Who did not.
    pub invalid: u32,
    /// How far it is.
    pub phase: Phase,
}

/// A transaction under way.
pub struct Own {
    /// What to run again if it aborts.
    pub asked: Asked,
    /// What its client is told if it commits.
    pub outcome: Outcome,
    /// The same.
    pub reply: Vec<u8>,
    /// What it read and writes.
    pub payload: Payload,
    /// Who found it valid: a bit each.
    pub valid: u32,
    /// Who did not.
    pub invalid: u32,
    /// A timestamp above this may do.
    pub hint: Timestamp,
    /// How far ahead of its clock it was proposed, in ticks, and by how much the clock had been advanced by then.
    pub lead: (u64, u64),
    /// How far it is.
    pub phase: Phase,
    /// When it was proposed.
    pub since: Nanos,
    /// When those are asked again who have not answered, and how often they were.
    pub again: (Nanos, u32),
}

/// What a coordinator does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing yet.
    Wait,
    /// It is decided.
    Settle {
        /// It commits.
        commit: bool,
        /// Without a second round.
        fast: bool,
    },
    /// Propose this to the replicas.
    Propose {
        /// To commit.
        commit: bool,
    },
}

impl Own {
    /// Who has said anything: a bit each.
    pub fn voted(&self) -> u32 {
        self.valid | self.invalid
    }

    /// What follows from the votes; `late`: no more are expected.
    pub fn decide(&self, quorums: Quorums, late: bool) -> Decision {
        let Own { valid, invalid, phase, .. } = *self;
        Tally { valid, invalid, phase }.decide(quorums, late)
    }
}

impl Tally {
    /// Nobody has said anything.
    pub const NONE: Tally = Tally { valid: 0, invalid: 0, phase: Phase::Validating };

    /// Who has said anything: a bit each.
    pub fn voted(&self) -> u32 {
        self.valid | self.invalid
    }

    /// What follows from the votes; `late`: no more are expected.
    ///
    /// It aborts without a second round only if no change of epoch could find that it may have committed on the fast path: the rest
    /// would have to be more than that takes (see [`merge`](super::merge), rule 4).
    pub fn decide(&self, quorums: Quorums, late: bool) -> Decision {
        let (valid, invalid) = (self.valid.count_ones(), self.invalid.count_ones());
        match self.phase {
            Phase::Validating if valid >= quorums.fast => Decision::Settle { commit: true, fast: true },
            Phase::Validating if quorums.all - invalid < quorums.shown_of_fast(quorums.majority) => {
                Decision::Settle { commit: false, fast: true }
            }
            Phase::Validating => {
                let fast_is_over = quorums.all - invalid < quorums.fast;
                let enough = valid >= quorums.majority || quorums.all - invalid < quorums.majority;
                if (late && valid + invalid >= quorums.majority) || (fast_is_over && enough) {
                    return Decision::Propose { commit: valid >= quorums.majority };
                }
                Decision::Wait
            }
            Phase::Accepting { commit, by } if by.count_ones() >= quorums.majority => {
                Decision::Settle { commit, fast: false }
            }
            Phase::Accepting { .. } | Phase::Overtaken => Decision::Wait,
        }
    }
}

/// An attempt that is put off.
pub struct Retry {
    /// Not before.
    pub at: Nanos,
    /// What to run.
    pub asked: Asked,
    /// Its timestamp has to be above this.
    pub hint: Timestamp,
}

/// Requests put off that are looked at for one that is due: the oldest ones.
const LOOKED_AT: usize = 16;
/// Further attempts under way at once, at most.
const MOST_WINDOW: usize = 4096;

/// The transactions of one coordinator.
///
/// Further attempts are rationed as a sender's window is on a crowded wire: half as many at once when one of them comes to nothing, one
/// more when one commits. Where all want the same key they would mostly be in each other's way.
pub struct Owns {
    /// Under way.
    pub all: BTreeMap<Timestamp, Own>,
    /// Put off, the oldest request first.
    retries: BTreeMap<(Nanos, u64), Retry>,
    /// Counts those that were put off.
    put_off: u64,
    /// Further attempts under way, and how many there may be.
    again: usize,
    window: usize,
    bytes: usize,
    reply_bytes: usize,
}

impl Default for Owns {
    fn default() -> Owns {
        let (all, retries) = (BTreeMap::new(), BTreeMap::new());
        Owns { all, retries, put_off: 0, again: 0, window: MOST_WINDOW, bytes: 0, reply_bytes: 0 }
    }
}

impl Owns {
    /// One begins.
    pub fn add(&mut self, ts: Timestamp, own: Own) {
        self.bytes += own.bytes();
        self.reply_bytes += own.reply.len();
        self.again += usize::from(own.asked.attempts > 1);
        let before = self.all.insert(ts, own);
        assert!(before.is_none(), "{ts} names one transaction");
    }

    /// One ends; whether it commits.
    pub fn remove(&mut self, ts: Timestamp, commit: bool) -> Option<Own> {
        let own = self.all.remove(&ts)?;
        self.bytes -= own.bytes();
        self.reply_bytes -= own.reply.len();
        if own.asked.attempts > 1 {
            self.again -= 1;
            self.window = if commit { (self.window + 1).min(MOST_WINDOW) } else { self.window };
        }
        Some(own)
    }

    /// All under way are taken out.
    pub fn take_all(&mut self) -> BTreeMap<Timestamp, Own> {
        (self.bytes, self.reply_bytes, self.again) = (0, 0, 0);
        std::mem::take(&mut self.all)
    }

    /// An attempt came to nothing: the next one is to be made later.
    pub fn put_off(&mut self, retry: Retry) {
        if retry.asked.attempts > 1 {
            self.window = (self.window / 2).max(1);
        }
        self.put_off += 1;
        self.retries.insert((retry.asked.since, self.put_off), retry);
    }

    /// All that are put off are taken out.
    pub fn take_retries(&mut self) -> impl Iterator<Item = Retry> + use<> {
        std::mem::take(&mut self.retries).into_values()
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.all.len() + self.retries.len()
    }

    /// How many are put off.
    pub fn waiting(&self) -> usize {
        self.retries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that those under way hold.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of replies that wait: asked for with every request.
    pub fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    /// When the next attempt that was put off is due; not while as many are under way as may be: then the end of one is what to wait for.
    pub fn next_retry(&self) -> Option<Nanos> {
        let times = self.retries.values().take(LOOKED_AT).map(|retry| retry.at);
        times.min().filter(|_| self.again < self.window)
    }

    /// Takes one that is due.
    pub fn due(&mut self, now: Nanos) -> Option<Retry> {
        if self.again >= self.window {
            return None;
        }
        let due = |(_, retry): &(&(Nanos, u64), &Retry)| retry.at <= now;
        let name = *self.retries.iter().take(LOOKED_AT).find(due)?.0;
        self.retries.remove(&name)
    }
}

impl Own {
    fn bytes(&self) -> usize {
        self.payload.len() + self.reply.len() + self.asked.args.len()
    }
}

/// What a replica says to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Found valid.
    pub valid: bool,
    /// Not even looked at: the replica's clock was past its timestamp.
    pub late: bool,
    /// If it is not valid: that clock, or what was in the way.
    pub hint: Timestamp,
}

impl Vote {
    /// Found valid.
    pub const VALID: Vote = Vote { valid: true, late: false, hint: Timestamp::ZERO };
}

/// A bit of a set of nodes.
pub fn bit(node: NodeId) -> u32 {
    1 << node.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(valid: u32, invalid: u32) -> Own {
        let asked = Asked {
            token: Token(1),
            procedure: ProcedureId(0),
            args: Box::default(),
            session: None,
            attempts: 1,
            lead: 0,
            since: 0,
        };
        Own {
            asked,
            outcome: Outcome::Committed,
            reply: Vec::new(),
            payload: Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[]),
            valid,
            invalid,
            hint: Timestamp::ZERO,
            lead: (0, 0),
            phase: Phase::Validating,
            since: 0,
            again: (0, 0),
        }
    }

    const FAST: Decision = Decision::Settle { commit: true, fast: true };
    const FAST_ABORT: Decision = Decision::Settle { commit: false, fast: true };

    /// Section 5.2.2, step 3.
    #[test]
    fn a_supermajority_that_agrees_decides_at_once() {
        let three = Quorums::of(3);
        assert_eq!(own(0b111, 0).decide(three, false), FAST);
        assert_eq!(own(0b011, 0).decide(three, false), Decision::Wait);
        assert_eq!(own(0b001, 0b110).decide(three, false), FAST_ABORT);
        let five = Quorums::of(5);
        assert_eq!(own(0b01111, 0).decide(five, false), FAST);
        assert_eq!(own(0b00001, 0b11110).decide(five, false), FAST_ABORT);
    }

    /// Section 5.2.2, step 4.
    #[test]
    fn a_majority_goes_the_slow_path() {
        let three = Quorums::of(3);
        assert_eq!(own(0b011, 0).decide(three, true), Decision::Propose { commit: true });
        assert_eq!(
            own(0b011, 0b100).decide(three, false),
            Decision::Propose { commit: true },
            "no fast path any more"
        );
        assert_eq!(own(0b001, 0b010).decide(three, true), Decision::Propose { commit: false });
        assert_eq!(own(0b001, 0).decide(three, true), Decision::Wait, "not a majority");
        let accepting = Own { phase: Phase::Accepting { commit: true, by: 0b011 }, ..own(0b011, 0) };
        assert_eq!(accepting.decide(three, false), Decision::Settle { commit: true, fast: false });
    }

    /// Two of five found it valid, and a change of epoch that hears these two and one other would take it for one that may have
    /// committed on the fast path: so three refusals must not end it without a second round.
    #[test]
    fn refusals_that_a_change_of_epoch_may_not_see_decide_nothing() {
        let five = Quorums::of(5);
        assert_eq!(own(0b00011, 0b11100).decide(five, false), Decision::Propose { commit: false });
    }

    #[test]
    fn an_attempt_that_is_put_off_is_taken_when_it_is_due() {
        let mut owns = Owns::default();
        owns.put_off(Retry { at: 20, asked: own(0, 0).asked, hint: Timestamp::ZERO });
        assert!(owns.due(19).is_none());
        assert_eq!((owns.next_retry(), owns.len()), (Some(20), 1));
        assert!(owns.due(20).is_some() && owns.next_retry().is_none());
    }

    /// Where everybody wants the same key one attempt at a time is left, and the oldest request's.
    #[test]
    fn further_attempts_are_rationed() {
        let mut owns = Owns::default();
        let retry = |since| {
            let asked = Asked { attempts: 2, since, ..own(0, 0).asked };
            Retry { at: 20, asked, hint: Timestamp::ZERO }
        };
        (0..20).rev().for_each(|since| owns.put_off(retry(since)));
        let again = |owns: &mut Owns, ts| {
            let Retry { asked, .. } = owns.due(20)?;
            let since = asked.since;
            owns.add(Timestamp(ts), Own { asked: Asked { attempts: 2, ..asked }, ..own(0, 0) });
            Some(since)
        };
        assert_eq!(again(&mut owns, 1), Some(0), "the oldest one");
        assert_eq!((again(&mut owns, 2), owns.next_retry()), (None, None), "one at a time");
        owns.remove(Timestamp(1), true);
        assert_eq!((again(&mut owns, 3), again(&mut owns, 4), again(&mut owns, 5)), (Some(1), Some(2), None));
    }
}
