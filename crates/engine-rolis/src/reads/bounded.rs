//! Follower reads with a bound ([`Freshness`]): they wait here until this replica can prove that it is fresh enough, not for long.
//!
//! Each comes down to a timestamp: once the mark has reached it, the read goes where all reads go ([`reads`](crate::reads)), and runs on a
//! snapshot at or above it. [`Freshness::Since`] names it; for [`Freshness::Within`] the leader has to be asked
//! ([`probes`](highwater_log_host::probes)). Who has waited for [`PATIENCE`] is told that nothing was done, and why.

use std::collections::VecDeque;

use highwater_core::{Outcome, ProcedureId, Timestamp};
use highwater_seam::{Freshness, Nanos, Next, Outbox, Refusal, Request, Token};

use crate::context::{Context, Turn, recheck};
use crate::reads::Reads;
use highwater_log_host::probes::Probes;
use highwater_log_host::worker::policy::Asking;

/// How long a read waits, in election timeouts: so long that a leader of whom nothing is heard has usually been replaced, if it
/// did not rest.
pub const PATIENCE: u64 = 2;

/// The reads of one worker that wait for a proof.
#[derive(Debug, Default)]
pub struct Bounded {
    /// Oldest first.
    held: VecDeque<Held>,
    /// Bytes of their arguments.
    bytes: usize,
}

#[derive(Debug)]
struct Held {
    token: Token,
    procedure: ProcedureId,
    args: Vec<u8>,
    bound: Bound,
    since: Nanos,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    /// What is at or below has to be in it.
    At(Timestamp),
    /// What was acknowledged before this moment has to be in it, by this node's clock.
    Acknowledged(Nanos),
}

/// Most reads that wait.
const MOST: usize = 1024;
/// Most bytes of their arguments, but for one request alone.
const MOST_BYTES: usize = 1 << 20;
/// How soon to look at the mark again.
pub(super) const RECHECK: Nanos = 100_000;

impl Bounded {
    /// Takes a read.
    pub fn submit(&mut self, now: Nanos, request: Request<'_>, freshness: Freshness) -> Result<(), Refusal> {
        if self.held.len() >= MOST || self.bytes >= MOST_BYTES {
            return Err(Refusal::Busy);
        }
        let bound = match freshness {
            Freshness::Since(ts) => Bound::At(ts),
            Freshness::Within(age) => Bound::Acknowledged(now.saturating_sub(age)),
        };
        let Request { token, procedure, args, .. } = request;
        self.bytes += args.len();
        self.held.push_back(Held { token, procedure, args: args.to_vec(), bound, since: now });
        Ok(())
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether one waits for an answer that the leader was not asked for, or has not given.
    fn wants_proof(&self) -> bool {
        self.held.iter().any(|held| matches!(held.bound, Bound::Acknowledged(_)))
    }

    /// The reads' share of a turn: hands over those that may run, and asks the leader for what the others lack. `shows`: there may be snapshots.
    pub fn turn(
        &mut self,
        shows: bool,
        context: &Context,
        asking: &mut Asking<'_>,
        reads: &mut Reads,
        turn: &mut Turn<'_>,
    ) -> Next {
        if !shows || !context.marks.has_snapshots(&context.shared) {
            self.refuse(turn.out);
            return Next::Idle;
        }
        let next = self.hand_over(turn.now, context, asking.answers(), reads, turn.out);
        if self.wants_proof() {
            asking.ask(context.options().election_timeout / 2, turn);
        }
        next
    }

    /// Hands over what may run, and ends what has waited for too long.
    fn hand_over(
        &mut self,
        now: Nanos,
        context: &Context,
        probes: &Probes,
        reads: &mut Reads,
        out: &mut Outbox,
    ) -> Next {
        let mark = context.marks.watermark.mark();
        let patience = PATIENCE * context.options().election_timeout;
        for _ in 0..self.held.len() {
            let Some(mut held) = self.take_first() else { break };
            held.bound = prove(held.bound, probes);
            match held.bound {
                Bound::At(least) if least <= mark && reads.has_room() => {
                    let request = Request::new(held.token, held.procedure, &held.args);
                    reads.submit(now, request, least).expect("there is room");
                }
                bound if now >= held.since + patience => {
                    out.reply(held.token, Outcome::Denied, why(bound).as_bytes());
                }
                _ => self.put_last(held),
            }
        }
        let Some(first) = self.held.front() else { return Next::Idle };
        recheck(now, first.since, RECHECK).sooner(Next::At(first.since + patience))
    }

    /// This replica has no snapshots to show any more: nothing was done.
    fn refuse(&mut self, out: &mut Outbox) {
        while let Some(held) = self.take_first() {
            out.reply(held.token, Outcome::Conflict, &[]);
        }
    }

    fn take_first(&mut self) -> Option<Held> {
        let held = self.held.pop_front()?;
        self.bytes -= held.args.len();
        Some(held)
    }

    fn put_last(&mut self, held: Held) {
        self.bytes += held.args.len();
        self.held.push_back(held);
    }
}

/// What a bound comes down to, if that is known by now.
fn prove(bound: Bound, probes: &Probes) -> Bound {
    match bound {
        Bound::Acknowledged(before) => probes.proof(before).map_or(bound, Bound::At),
        Bound::At(_) => bound,
    }
}

/// What a read is told that this replica cannot serve.
fn why(bound: Bound) -> &'static str {
    match bound {
        Bound::At(_) => {
            "NOTFRESH this replica has not got as far as the read has to see; nothing was done: ask the leader, or again later"
        }
        Bound::Acknowledged(_) => {
            "NOTFRESH no leader vouches for this replica, which may be cut off; nothing was done: ask another one, or again later"
        }
    }
}
