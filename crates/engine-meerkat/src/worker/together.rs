//! Requests that want the same key, in one transaction: where all want it, one of them commits at a time, and takes a round trip or two.
//!
//! Whoever waits in a [lane](highwater_kit::validation::lanes) when an attempt of that lane is executed runs behind it, in the order in which they came, each as if
//! those before it had committed. All of it is one transaction, with one payload and one timestamp: it commits as a whole, and then each has its reply, or not at all,
//! and then all of them wait again. So it is as if they had committed one right behind the other.
//!
//! *Invariant.* In such a transaction nobody has taken anything back. One that rolls back, is refused, is a duplicate, or asks for the version of what another one has
//! written is run again by itself, and so are those with which it ran ([`MeerkatTx::is_whole`](highwater_kit::validation::tx::MeerkatTx::is_whole)).

use highwater_core::{Outcome, Timestamp};
use highwater_kit::validation::lanes::Retry;
use highwater_kit::validation::own::{Asked, Joined};
use highwater_kit::validation::payload::Payload;
use highwater_seam::Nanos;

use super::MeerkatWorker;

/// Requests in one transaction, at most.
pub(super) const MOST_TOGETHER: usize = 32;
/// Bytes that a transaction has read and written when the last one joins it, at most.
const MOST_BYTES: usize = 16 << 10;

/// Requests that were executed, and are to be proposed.
pub(super) struct Ran {
    /// How the first request ends, if all is found valid. The others commit.
    pub outcome: Outcome,
    /// Its answer.
    pub reply: Vec<u8>,
    /// Those behind it.
    pub joined: Vec<Behind>,
}

/// A request behind another one.
pub(super) struct Behind {
    /// The request.
    pub joined: Joined,
    /// Its timestamp has to be above this.
    pub hint: Timestamp,
}

impl MeerkatWorker {
    /// Executes a request, and behind it those that wait for the same. `None`: a conflict already.
    pub(super) fn run_all(&mut self, asked: &Asked) -> Option<Ran> {
        let outcome = self.executor.run(asked)?;
        // Not while it cannot stand here: all of them would be executed for nothing.
        let joins =
            asked.joins() && outcome == Outcome::Committed && !self.rows.marks().is_written(asked.lane);
        let reply = self.executor.reply();
        if !joins {
            return Some(Ran { outcome, reply, joined: Vec::new() });
        }
        if let Some(joined) = self.run_behind(asked.lane) {
            return Some(Ran { outcome, reply, joined });
        }
        let outcome = self.executor.run(asked)?;
        Some(Ran { outcome, reply: self.executor.reply(), joined: Vec::new() })
    }

    /// Goes on with the transaction that is open. `None`: one of those that wait cannot; they wait again, and the transaction is no good.
    fn run_behind(&mut self, lane: u64) -> Option<Vec<Behind>> {
        let mut all = Vec::new();
        while all.len() + 1 < MOST_TOGETHER && self.executor.tx().size() < MOST_BYTES {
            let Some(Retry { at, asked, hint }) = self.owns.lanes.take_behind(lane) else { break };
            self.executor.tx().join();
            let ran = self.executor.run(&asked);
            if ran != Some(Outcome::Committed) || !self.executor.tx().is_whole() {
                let asked = Asked { alone: true, ..asked };
                self.owns.lanes.put_off(Retry { at, asked, hint }, false);
                all.into_iter().for_each(|behind| self.wait_again(at, behind));
                return None;
            }
            all.push(Behind { joined: Joined { asked, reply: self.executor.reply() }, hint });
        }
        Some(all)
    }

    fn wait_again(&mut self, at: Nanos, Behind { joined, hint }: Behind) {
        self.owns.lanes.put_off(Retry { at, asked: joined.asked, hint }, false);
    }

    /// The transaction in which they ran came to nothing.
    pub(super) fn put_back(&mut self, now: Nanos, joined: Vec<Behind>, hint: Timestamp) {
        for mut behind in joined {
            behind.hint = behind.hint.max(hint);
            self.wait_again(now, behind);
        }
    }

    /// Another attempt of one that was put off, unless what it was refused for is in its way yet, or something like that: then it is not even executed.
    pub(super) fn try_again(&mut self, now: Nanos, Retry { asked, hint, .. }: Retry) {
        match asked.held && self.rows.marks().is_written(asked.lane) {
            true => self.look_soon(now, asked, hint),
            false => self.attempt(now, asked, hint),
        }
    }

    /// A transaction that has committed may have been in the way of those that wait for its key.
    pub(super) fn frees(&mut self, payload: &Payload) {
        if self.owns.lanes.waiting() > 0 {
            self.woken.extend(payload.first_key());
        }
    }

    /// Those that wait for what has become free in this turn go on soon, unless it is taken again.
    pub(super) fn wake(&mut self, now: Nanos) {
        for lane in std::mem::take(&mut self.woken) {
            if !self.rows.marks().is_written(lane) {
                // All who wait for it hear it at about the same time.
                let at = now + self.random.below(self.times.answer() / 2 + 1);
                self.wake_lane(at, lane);
            }
        }
    }

    pub(super) fn wake_lane(&mut self, at: Nanos, lane: u64) {
        // Where real time is promised nobody is proposed far ahead for what another one was.
        let come = if self.context.shared.strict { self.context.shared.clock.now() } else { Timestamp::MAX };
        self.owns.lanes.wake(lane, at, |hint| hint <= come);
    }
}
