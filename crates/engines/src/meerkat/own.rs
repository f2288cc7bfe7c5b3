//! The transactions that a worker coordinates, until each is decided.

use std::collections::BTreeMap;

use highwater_core::{NodeId, Outcome, ProcedureId, Timestamp};

use super::payload::Payload;
use super::quorum::Quorums;
use crate::seam::{Nanos, Session, Token};

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
    /// When it came.
    pub since: Nanos,
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

/// The transactions of one coordinator.
#[derive(Default)]
pub struct Owns {
    /// Under way.
    pub all: BTreeMap<Timestamp, Own>,
    /// Put off, in no order.
    pub retries: Vec<Retry>,
    bytes: usize,
    reply_bytes: usize,
}

impl Owns {
    /// One begins.
    pub fn add(&mut self, ts: Timestamp, own: Own) {
        self.bytes += own.bytes();
        self.reply_bytes += own.reply.len();
        let before = self.all.insert(ts, own);
        assert!(before.is_none(), "{ts} names one transaction");
    }

    /// One ends.
    pub fn remove(&mut self, ts: Timestamp) -> Option<Own> {
        let own = self.all.remove(&ts)?;
        self.bytes -= own.bytes();
        self.reply_bytes -= own.reply.len();
        Some(own)
    }

    /// All under way have been taken out.
    pub fn forget_bytes(&mut self) {
        assert!(self.all.is_empty(), "some are under way");
        (self.bytes, self.reply_bytes) = (0, 0);
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.all.len() + self.retries.len()
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

    /// When the next attempt that was put off is due.
    pub fn next_retry(&self) -> Option<Nanos> {
        self.retries.iter().map(|retry| retry.at).min()
    }

    /// Takes one that is due.
    pub fn due(&mut self, now: Nanos) -> Option<Retry> {
        let at = self.retries.iter().position(|retry| retry.at <= now)?;
        Some(self.retries.swap_remove(at))
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
            since: 0,
        };
        Own {
            asked,
            outcome: Outcome::Committed,
            reply: Vec::new(),
            payload: Payload::build((&[], 0), (&[], 0), &[]),
            valid,
            invalid,
            hint: Timestamp::ZERO,
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
        owns.retries.push(Retry { at: 20, asked: own(0, 0).asked, hint: Timestamp::ZERO });
        assert!(owns.due(19).is_none());
        assert_eq!((owns.next_retry(), owns.len()), (Some(20), 1));
        assert!(owns.due(20).is_some() && owns.next_retry().is_none());
    }
}
