//! A new leader's first task: collect the best log and make it its own.
//!
//! Whatever may be decided stands in the best log among the promises, the one with the largest `(accepted, last)`: a
//! decided entry was accepted by a majority under one ballot, every later leader took it over, and some voter of that
//! majority is among those that promised. So the new leader replaces the end of its own log by the end of the best one,
//! and only then proposes.

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex};

use super::role::{Fetching, Leading, Part, Plan, Role};
use super::state::Stream;
use crate::{Message, Nanos, Tail};

impl Stream {
    /// Starts to lead under a ballot that a quorum promised. If this log is not the best one, first fetches what it
    /// lacks; until that has come, [`is_leading`](Stream::is_leading) stays false. If it stays false for long, the
    /// holders of the best log are gone: then the host should [`abandon`](crate::Election::abandon) the lead, so that
    /// another election takes place, with promises of those who are there.
    ///
    /// What it lacks may be in several logs: the best one may go on behind a copied state, and somebody who knows less have what is
    /// before that.
    ///
    /// Returns `false` if the takeover cannot succeed: an entry that this log needs was trimmed by all of them, or this stream has met
    /// a higher ballot meanwhile.
    pub fn take_over(&mut self, now: Nanos, plan: Plan) -> bool {
        if plan.ballot < self.promised {
            return false;
        }
        assert_eq!(plan.ballot, self.promised, "a takeover follows the own promise");
        assert_eq!(plan.ballot.node, self.me.node, "only the owner of a ballot leads under it");
        assert!(plan.tails.contains_key(&self.me), "the own log is compared, too");
        let best = *plan.tails.values().max_by_key(|tail| tail.rank()).expect("a quorum has tails");
        let own = self.tail();
        if own.rank() == best.rank() {
            self.lead(now, plan, best);
            return true;
        }
        // Two logs accepted under one ballot are prefixes of one another, so only the end is missing. If the ballots
        // differ, the logs surely agree only as far as they are decided.
        let start = if own.accepted == best.accepted { own.last } else { own.decided }.next();
        assert!(start <= best.last.next(), "what is decided is in the best log of every quorum");
        let others = plan.tails.iter().filter(|(voter, _)| **voter != self.me);
        let holders: Vec<Part> = others.map(|(voter, tail)| Part::of(voter.node, tail, &best)).collect();
        let mut next = start;
        while next <= best.last {
            let holding = holders.iter().filter(|part| part.has(next));
            let Some(last) = holding.map(|part| part.last).max() else { return false };
            next = last.next();
        }
        let asked_upto = EntryIndex::NONE;
        let fetching = Fetching { plan, best, holders, start, entries: Vec::new(), asked_upto, ask_at: now };
        self.role = Role::Fetching(fetching);
        self.tick_fetching(now);
        true
    }

    /// Asks for what is missing. If the last question went unanswered for a retry interval, asks the next holder. Leads
    /// as soon as everything has come.
    pub(super) fn tick_fetching(&mut self, now: Nanos) -> Option<Nanos> {
        let retry = self.options.retry;
        let Role::Fetching(fetching) = &mut self.role else { return None };
        if fetching.next_index() > fetching.best.last {
            self.finish_fetching(now);
            return self.tick_leading(now);
        }
        if now >= fetching.ask_at {
            fetching.ask_at = now + retry;
            let Part { node, last, .. } = fetching.next_holder();
            fetching.asked_upto = last;
            let message =
                Message::Fetch { ballot: fetching.plan.ballot, from: fetching.next_index(), upto: last };
            self.send(node, message, Bytes::new());
        }
        match &self.role {
            Role::Fetching(fetching) => Some(fetching.ask_at),
            _ => None,
        }
    }

    /// One entry of the best log. Anything but the next one is ignored: it will be asked for again.
    pub(super) fn on_fetched(
        &mut self,
        now: Nanos,
        ballot: Ballot,
        index: EntryIndex,
        paused: bool,
        entry: Bytes,
    ) {
        let retry = self.options.retry;
        let Role::Fetching(fetching) = &mut self.role else { return };
        if fetching.plan.ballot != ballot || index != fetching.next_index() {
            return;
        }
        fetching.entries.push(entry);
        let ends = paused || index == fetching.asked_upto;
        fetching.ask_at = if ends { now } else { now + retry };
        if ends {
            self.tick_fetching(now);
        }
    }

    /// Everything has come: replaces the end of the own log, and leads with it.
    fn finish_fetching(&mut self, now: Nanos) {
        let following = Role::Following(Default::default());
        let Role::Fetching(fetching) = std::mem::replace(&mut self.role, following) else {
            unreachable!("called while fetching");
        };
        self.adopt(fetching.start, fetching.entries);
        assert_eq!(self.log.last(), fetching.best.last, "the adopted log is the best one");
        self.lead(now, fetching.plan, fetching.best);
    }

    /// The own log is the best one. Counts it as accepted under the own ballot, and starts every follower whose tail came
    /// with a promise; the others are started when they ask.
    fn lead(&mut self, now: Nanos, plan: Plan, best: Tail) {
        if self.accepted != self.promised {
            self.record_adoption(self.log.last(), [].iter());
            self.accepted = self.promised;
        }
        // Some voter may know more to be decided than this one did. Whatever is decided is in the log just adopted.
        let known = plan.tails.values().map(|tail| tail.decided).max().unwrap_or_default();
        self.decided = self.decided.max(known.min(self.log.last()));
        let adopted = (best.accepted, best.last);
        let leading = Leading::new(self.me, plan.quorums, adopted, |voter| plan.tails.contains_key(voter));
        self.role = Role::Leading(leading);
        for (voter, tail) in plan.tails {
            if voter.node != self.me.node {
                self.start_peer(voter, tail, EntryIndex::NONE);
            }
        }
        self.count_acks();
        self.tick_leading(now);
    }
}
