//! Reads that wait for no disk: read-only transactions that saw nothing above the mark.
//!
//! What such a transaction saw is decided: it is what the store holds at the mark, now and after every takeover. One question is open: was
//! this node still the leader when it ran, or had another one committed something by then that it does not show? An entry of the log would
//! tell, as it does for all other replies; but an entry is decided when it is on disks. So the leader asks its followers
//! ([`Stream::ask_for_confirmation`]), after the transaction has run. When a quorum has said yes, no later epoch had opened when it ran,
//! and the reply leaves, with the mark for its timestamp.
//!
//! Invariants:
//!
//! - a reply leaves only if a quorum has confirmed a question that was asked after the transaction was validated, or an entry is decided
//!   that was proposed after that, as in [`probes`](super::probes);
//! - every version that the transaction saw, tombstones among them, is at or below the mark as it was before it was validated. Nothing
//!   commits at or below the mark any more, so what it saw is the state at the mark;
//! - that mark was read when the request was there: so whatever a leader acknowledged before is at or below it, and the order of timestamps
//!   stays one that real time agrees with. (A follower's mark may be ahead of its leader's for a moment, and what was read there with it.)
//!
//! Where entries wait for no disk and one is sent anyway, it is as good as a question, and nothing is asked.
//!
//! # Who does not answer
//!
//! A follower of an earlier build does not know the question. So reads come here once a quorum has answered under this ballot, and no more
//! when one goes without an answer for this part of an election timeout ([`PATIENCE`]): then an entry is sealed, which tells all the same, another
//! question is asked, and reads wait for the mark until a quorum has answered that.

use std::collections::VecDeque;

use highwater_consensus::Stream;
use highwater_core::{EntryIndex, Epoch, Outcome, Timestamp};

use super::context::Context;
use super::hooks;
use super::pending::{Pending, ReleasedCounts};
use super::watermark::Watermark;
use crate::seam::{Nanos, Next, Outbox, Token};

/// The reads of one worker, and what they wait for.
#[derive(Debug, Default)]
pub struct Confirming {
    /// In the order in which they ran.
    replies: Pending,
    /// How many of the last ones ran since the last question.
    unasked: usize,
    /// The others, by question.
    groups: VecDeque<Group>,
    /// What is led, if anything is.
    epoch: Option<Epoch>,
    /// The last question of this lead, and when it was asked.
    asked: Option<(u64, Nanos)>,
    /// A quorum answers.
    answers: bool,
    /// How many replies have left.
    released: u64,
    /// How many waited for the last question, or entry.
    last_count: usize,
}

/// Reads that wait for the same.
#[derive(Clone, Copy, Debug)]
struct Group {
    count: usize,
    /// A question that is asked after they have run,
    number: u64,
    /// or an entry behind this one: it is proposed after they have run.
    behind: EntryIndex,
    /// The first turn after that.
    since: Option<Nanos>,
}

/// A question is as good as lost after this part of an election timeout.
const PATIENCE: u64 = 4;
/// Questions follow each other after this part of the batch delay, at the soonest, while one is open.
const SPACING_DIVISOR: Nanos = 12;
/// Not many.
const FEW: usize = 4;
/// Who does not answer is asked again after so many election timeouts, while requests come.
const ASK_AGAIN: u64 = 4;

impl Confirming {
    /// A lead begins: nothing is known of who answers.
    pub fn begin(&mut self, epoch: Epoch) {
        debug_assert!(self.is_empty(), "the last lead left nothing");
        (self.epoch, self.asked, self.answers) = (Some(epoch), None, false);
    }

    /// Up to where a read may have looked that is to wait here: the mark, at this moment, so that whatever was acknowledged before is at or
    /// below. `None`: all reads wait for the mark to pass them.
    #[inline]
    pub fn mark(&self, watermark: &Watermark) -> Option<Timestamp> {
        if self.answers { self.epoch.and_then(|epoch| watermark.mark_in(epoch)) } else { None }
    }

    /// The reply of a transaction that was validated just now and saw nothing above `mark`.
    #[inline]
    pub fn push(&mut self, mark: Timestamp, token: Token, outcome: Outcome, reply: &[u8]) {
        self.replies.push(mark, token, outcome, reply);
        self.unasked += 1;
    }

    /// How many replies wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Whether none does.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Whether more than a few reads come between two questions.
    #[inline]
    pub fn has_many(&self) -> bool {
        self.last_count > FEW && !self.is_empty()
    }

    /// How many have left.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Bytes of the replies that wait.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.replies.bytes()
    }

    /// Asks, if somebody waits for it. `sealed_behind`: an entry was sealed in this turn, behind this one. `open`: another one has something in
    /// it, and is sealed soon. Whether one has to be sealed, because nobody answers.
    pub fn ask(
        &mut self,
        now: Nanos,
        (sealed_behind, open): (Option<EntryIndex>, bool),
        context: &Context,
        stream: &mut Stream,
    ) -> bool {
        if self.answers && self.is_empty() {
            return false;
        }
        let timeout = context.options().election_timeout;
        let (last, asked_at) = self.asked.unwrap_or_default();
        let answered = last > 0 && stream.confirmed() >= last;
        self.answers |= answered;
        if self.notice_loss(now, timeout / PATIENCE, stream) {
            // One entry tells for all of them, and so does another question.
            self.answers = false;
            self.ask_now(now, stream);
            return true;
        }
        let quick = !stream.waits_for_disk();
        if let Some(behind) = sealed_behind.filter(|_| quick) {
            // As good as a question. The next question is asked after these have run, too.
            self.close_group(last + 1, behind);
        }
        let may = answered || now >= self.due(asked_at, context);
        let wanted = self.unasked > 0 && may && !(quick && open);
        if wanted || last == 0 || !self.answers && now >= asked_at + ASK_AGAIN * timeout {
            self.ask_now(now, stream);
        }
        false
    }

    /// Whether those that wait longest have waited too long.
    fn notice_loss(&mut self, now: Nanos, patience: Nanos, stream: &Stream) -> bool {
        let (confirmed, decided) = (stream.confirmed(), stream.decided());
        let lost = self.groups.front().is_some_and(|group| {
            group.since.is_some_and(|since| now >= since + patience) && !group.is_proven(confirmed, decided)
        });
        for group in &mut self.groups {
            // A turn may be long: the time of a question runs from the turn after it, in which an answer may have come.
            group.since = if lost { Some(now) } else { group.since.or(Some(now)) };
        }
        lost
    }

    fn ask_now(&mut self, now: Nanos, stream: &mut Stream) {
        let old = self.asked.filter(|_| hooks::counts_old_answers());
        let number = old.map_or_else(|| stream.ask_for_confirmation(), |(last, _)| last);
        self.asked = Some((number, now));
        self.close_group(number, stream.last());
    }

    /// What has no group yet waits for this question, or for an entry behind that one.
    fn close_group(&mut self, number: u64, behind: EntryIndex) {
        if self.unasked > 0 {
            self.last_count = self.unasked;
            self.groups.push_back(Group { count: self.unasked, number, behind, since: None });
            self.unasked = 0;
        }
    }

    /// When the next question may be asked though one is open.
    fn due(&self, asked_at: Nanos, context: &Context) -> Nanos {
        asked_at + context.options().batch_delay / SPACING_DIVISOR
    }

    /// Hands out the replies whose proof is there.
    pub fn release(&mut self, stream: &Stream, out: &mut Outbox) -> ReleasedCounts {
        let mut counts = ReleasedCounts::default();
        if hooks::releases_unconfirmed() {
            self.close_group(0, EntryIndex::NONE);
        }
        let (confirmed, decided) = (stream.confirmed(), stream.decided());
        while let Some(group) = self.groups.front_mut()
            && group.is_proven(confirmed, decided)
        {
            let released = self.replies.release_first(group.count, out);
            let count = released.committed + released.other;
            group.count -= count as usize;
            self.released += count;
            counts.committed += released.committed;
            counts.other += released.other;
            counts.more = group.count > 0;
            if counts.more {
                break;
            }
            self.groups.pop_front();
        }
        counts
    }

    /// The lead is over: these are not answered. They did nothing, and may be asked again.
    pub fn fail(&mut self, out: &mut Outbox) {
        self.replies.fail_as(Outcome::Conflict, out);
        self.groups.clear();
        self.unasked = 0;
        (self.epoch, self.asked, self.answers) = (None, None, false);
    }

    /// When a turn is wanted, if nothing comes before. `open`: an entry has something in it, and gives a turn, too.
    pub fn next(&self, now: Nanos, open: bool, context: &Context, stream: &Stream) -> Next {
        let patience = context.options().election_timeout / PATIENCE;
        let lost = self.groups.front().map(|group| group.since.unwrap_or(now) + patience);
        let asks = self.unasked > 0 && (stream.waits_for_disk() || !open);
        let asked_at = self.asked.filter(|_| asks).map(|(_, at)| at);
        let due = asked_at.map(|at| self.due(at, context));
        lost.into_iter().chain(due).min().map_or(Next::Idle, Next::At)
    }
}

impl Group {
    fn is_proven(&self, confirmed: u64, decided: EntryIndex) -> bool {
        confirmed >= self.number || decided > self.behind || hooks::releases_unconfirmed()
    }
}
