//! The transactions that a worker coordinates, until each is decided.

use std::collections::BTreeMap;

use highwater_core::{NodeId, Outcome, ProcedureId, Random, Timestamp};
use highwater_seam::options::Options;
use highwater_seam::{Nanos, Request, Session, Token};

use super::lanes::{Lanes, Retry};
use super::payload::Payload;
use super::quorum::Quorums;

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
    /// Its want, as far as is known: the first key that it writes, by its hash.
    pub lane: u64,
    /// It has waited behind others that want the same, and goes now.
    pub waited: bool,
    /// It goes by itself, whoever wants the same.
    pub alone: bool,
    /// It was refused at home for a transaction under way that writes what its lane wants: it is not executed before that is over.
    pub held: bool,
    /// The transaction of its last attempt wrote nothing: nobody who reads is in its way, and it is in nobody's who does.
    pub reads: bool,
}

/// A request that runs in the transaction of another one, behind it: they commit together, or none of them does.
pub struct Joined {
    /// The request.
    pub asked: Asked,
    /// The reply to its client if it commits.
    pub reply: Vec<u8>,
}

/// A request that looks again soon does not look all the time.
const LEAST_PAUSE: Nanos = 100_000;
/// Attempts are put off by so many round trips at most, however many there were.
const MOST_ROUND_TRIPS: u64 = 64;
/// Larger payloads go by themselves.
const SMALL: usize = 1 << 10;
/// After so many attempts a request goes by itself: what is in its way may be another one of those with which it went.
const ALONE_AFTER: u32 = 8;
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
        if self.attempts >= options.max_attempts || now >= over_at(self.since, options) {
            return None;
        }
        Some(now + pause(self.attempts, round_trip, options.election_timeout, random))
    }

    /// The same of one that was refused at home, for a transaction that is about to end: it asked nobody, and looks again in about
    /// two times as long as an answer takes. Whoever hears of that one's end is woken.
    pub fn soon(&self, now: Nanos, options: &Options, answer: Nanos, random: &mut Random) -> Option<Nanos> {
        let answer = answer.clamp(LEAST_PAUSE, options.election_timeout);
        let soon = now + answer / 2 + random.below(3 * answer);
        (now < over_at(self.since, options)).then_some(soon)
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
            lane: 0,
            waited: false,
            alone: false,
            held: false,
            reads: false,
        }
    }

    /// An attempt was executed, and this is what it wants.
    pub fn wants(self, payload: &Payload) -> Asked {
        let alone = self.alone || payload.len() > SMALL || payload.scans().next().is_some();
        Asked { lane: payload.first_key().unwrap_or(self.lane), alone, reads: payload.only_reads(), ..self }
    }

    /// Whether it may run in one transaction with others that want the same.
    #[inline]
    pub fn joins(&self) -> bool {
        self.waited && !self.alone && self.attempts <= ALONE_AFTER
    }
}

/// When a request that came then waits for no attempt any more.
#[inline]
pub fn over_at(since: Nanos, options: &Options) -> Nanos {
    since + MOST_PATIENCE * options.election_timeout + 1
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Replicas validate it.
    Validating,
    /// Replicas are asked to accept a decision: the slow path.
    Accepting {
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
    /// The reply to its client if it commits.
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
    /// It counts in its lane.
    pub counts: bool,
    /// Requests that run behind `asked`, in the same transaction, in their order.
    pub joined: Vec<Joined>,
}

/// What a coordinator does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing yet.
    Wait,
    /// It is decided.
    Settle {
        commit: bool,
        /// Without a second round.
        fast: bool,
    },
    /// Propose this to the replicas.
    Propose { commit: bool },
}

impl Own {
    /// Who has said anything: a bit each.
    #[inline]
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
    #[inline]
    pub fn voted(&self) -> u32 {
        self.valid | self.invalid
    }

    /// What follows from the votes; `late`: no more are expected.
    ///
    /// It aborts without a second round only if no change of epoch could find that it may have committed on the fast path: the rest
    /// would have to be more than that takes (see `merge`, rule 4).
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

/// The transactions of one coordinator.
#[derive(Default)]
pub struct Owns {
    /// Under way.
    pub all: BTreeMap<Timestamp, Own>,
    /// Put off.
    pub lanes: Lanes,
    bytes: usize,
    reply_bytes: usize,
    joined: usize,
}

impl Owns {
    /// One begins.
    pub fn add(&mut self, ts: Timestamp, own: Own) {
        self.bytes += own.bytes();
        self.reply_bytes += own.reply_bytes();
        self.joined += own.joined.len();
        let counts = !own.asked.reads && self.lanes.begin(own.asked.lane);
        let before = self.all.insert(ts, Own { counts, ..own });
        assert!(before.is_none(), "{ts} names one transaction");
    }

    /// One ends; whether it commits. `rest`: until when its lane rests then: see `Lanes::end`.
    pub fn remove(&mut self, ts: Timestamp, commit: bool, rest: (Nanos, Nanos)) -> Option<Own> {
        let own = self.all.remove(&ts)?;
        self.bytes -= own.bytes();
        self.reply_bytes -= own.reply_bytes();
        self.joined -= own.joined.len();
        if own.counts {
            self.lanes.end(own.asked.lane, commit, 1 + own.joined.len(), rest);
        }
        Some(own)
    }

    /// All under way are taken out.
    pub fn take_all(&mut self) -> BTreeMap<Timestamp, Own> {
        (self.bytes, self.reply_bytes, self.joined) = (0, 0, 0);
        self.lanes.end_all();
        std::mem::take(&mut self.all)
    }

    /// Takes a request that has waited for too long, whether its turn was about to come or not: nothing was done.
    pub fn take_over(&mut self, now: Nanos, options: &Options) -> Option<Retry> {
        self.lanes.oldest().filter(|since| now >= over_at(*since, options))?;
        self.lanes.take_older(now)
    }

    /// How many requests there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.all.len() + self.joined + self.lanes.waiting()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that those under way hold.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of replies that wait: asked for with every request.
    #[inline]
    pub fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }
}

impl Own {
    fn bytes(&self) -> usize {
        let args = self.joined.iter().map(|one| one.asked.args.len()).sum::<usize>();
        self.payload.len() + self.reply_bytes() + self.asked.args.len() + args
    }

    fn reply_bytes(&self) -> usize {
        self.reply.len() + self.joined.iter().map(|one| one.reply.len()).sum::<usize>()
    }

    /// The requests that it is the transaction of.
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        std::iter::once(self.asked.token).chain(self.joined.iter().map(|one| one.asked.token))
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
#[inline]
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
            lane: 0,
            waited: false,
            alone: false,
            held: false,
            reads: false,
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
            counts: false,
            joined: Vec::new(),
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

    /// Whatever it waits for.
    #[test]
    fn a_request_that_is_put_off_ends_in_time() {
        let options = Options::new(NodeId(0), 3, 1, highwater_core::Incarnation(1));
        let mut owns = Owns::default();
        owns.lanes.put_off(Retry { at: Nanos::MAX, asked: own(0, 0).asked, hint: Timestamp::ZERO }, true);
        let end = over_at(0, &options);
        assert!(owns.take_over(end - 1, &options).is_none());
        assert!(owns.take_over(end, &options).is_some() && owns.is_empty());
    }
}
