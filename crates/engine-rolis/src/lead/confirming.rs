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
//!   that was proposed after that, as in [`probes`](highwater_log_host::probes);
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
use highwater_seam::options::Options;
use highwater_seam::{Nanos, Next, Outbox, Token};

use crate::hooks;
use crate::lead::pending::{Pending, ReleasedCounts};
use crate::watermark::Watermark;

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

/// What the times are parts of.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// [`Options::election_timeout`].
    timeout: Nanos,
    /// [`Options::batch_delay`].
    delay: Nanos,
}

/// A question is as good as lost after this part of an election timeout.
const PATIENCE: u64 = 4;
/// Questions follow each other after this part of the batch delay, at the soonest, while one is open.
const SPACING_DIVISOR: Nanos = 12;
/// Not many.
const FEW: usize = 4;
/// Who does not answer is asked again after so many election timeouts, while requests come.
const ASK_AGAIN: u64 = 4;

impl Pace {
    /// Of a replica with these settings.
    #[inline]
    pub fn of(options: &Options) -> Pace {
        Pace { timeout: options.election_timeout, delay: options.batch_delay }
    }

    /// After so long without an answer a question is as good as lost.
    fn patience(self) -> Nanos {
        self.timeout / PATIENCE
    }

    /// So long after a question the next one may be asked, though that one is open.
    fn spacing(self) -> Nanos {
        self.delay / SPACING_DIVISOR
    }
}

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
        pace: Pace,
        stream: &mut Stream,
    ) -> bool {
        if self.answers && self.is_empty() {
            return false;
        }
        let (last, asked_at) = self.asked.unwrap_or_default();
        let answered = last > 0 && stream.confirmed() >= last;
        self.answers |= answered;
        if self.notice_loss(now, pace.patience(), stream) {
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
        let may = answered || now >= asked_at + pace.spacing();
        let wanted = self.unasked > 0 && may && !(quick && open);
        if wanted || last == 0 || !self.answers && now >= asked_at + ASK_AGAIN * pace.timeout {
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
    pub fn next(&self, now: Nanos, open: bool, pace: Pace, stream: &Stream) -> Next {
        let lost = self.groups.front().map(|group| group.since.unwrap_or(now) + pace.patience());
        let asks = self.unasked > 0 && (stream.waits_for_disk() || !open);
        let due = self.asked.filter(|_| asks).map(|(_, asked_at)| asked_at + pace.spacing());
        lost.into_iter().chain(due).min().map_or(Next::Idle, Next::At)
    }
}

impl Group {
    fn is_proven(&self, confirmed: u64, decided: EntryIndex) -> bool {
        confirmed >= self.number || decided > self.behind || hooks::releases_unconfirmed()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use bytes::Bytes;
    use highwater_consensus::{Envelope, Members, Message, Plan, Quorums, StreamOptions, Voter};
    use highwater_core::{Ballot, Durability, Incarnation, NodeId};

    use super::*;

    const PACE: Pace = Pace { timeout: 400, delay: 120 };
    const PATIENCE: Nanos = 100;
    const SPACING: Nanos = 10;

    /// Three streams, of which the first leads, and what its worker has to confirm.
    struct Led {
        streams: Vec<Stream>,
        confirming: Confirming,
        out: Outbox,
    }

    impl Led {
        fn new(durability: Durability) -> Led {
            let voter = |node| Voter { node: NodeId(node), incarnation: Incarnation(1) };
            let options = StreamOptions { durability, ..StreamOptions::default() };
            let mut streams: Vec<Stream> =
                (0..3).map(|node| Stream::new(voter(node), EntryIndex::NONE, options)).collect();
            let ballot = Ballot { epoch: Epoch(1), node: NodeId(0) };
            let tails =
                streams.iter_mut().zip(0..).map(|(stream, node)| (voter(node), stream.promise(ballot)));
            let quorums = Quorums::of(Members::new(Epoch(0), (0..3).map(voter).collect()));
            let plan = Plan { ballot, tails: tails.collect(), quorums };
            assert!(streams[0].take_over(0, plan));
            let mut led = Led { streams, confirming: Confirming::default(), out: Outbox::default() };
            led.answer();
            led.confirming.begin(Epoch(1));
            led
        }

        /// One whose followers have answered a first question.
        fn believed(durability: Durability) -> Led {
            let mut led = Led::new(durability);
            assert!(!led.turn(0, (None, false)));
            led.answer();
            assert!(!led.turn(1, (None, false)) && led.confirming.answers);
            led
        }

        fn read(&mut self, token: u64) {
            self.confirming.push(Timestamp(token), Token(token), Outcome::Committed, b"");
        }

        fn turn(&mut self, now: Nanos, entries: (Option<EntryIndex>, bool)) -> bool {
            self.confirming.ask(now, entries, PACE, &mut self.streams[0])
        }

        /// How many questions have been sent and not delivered; they are lost.
        fn lose(&mut self) -> usize {
            let is_question = |envelope: &Envelope| matches!(envelope.message, Message::Confirm { .. });
            self.streams[0].drain().filter(is_question).count() / 2
        }

        /// Delivers what was sent, and what comes back.
        fn answer(&mut self) {
            while let Some(at) = self.streams.iter().position(Stream::has_output) {
                let from = Voter { node: NodeId(at as u8), incarnation: Incarnation(1) };
                for Envelope { to, message, entry, .. } in self.streams[at].drain().collect::<Vec<_>>() {
                    self.streams[to.0 as usize].deliver(0, from, message, entry);
                }
            }
        }

        /// The tokens of those that leave.
        fn leave(&mut self) -> Vec<u64> {
            self.confirming.release(&self.streams[0], &mut self.out);
            let left = self.out.replies.iter().map(|reply| reply.token.0).collect();
            self.out.clear();
            left
        }
    }

    #[test]
    fn a_read_waits_for_the_answer_to_a_question_that_was_asked_after_it_ran() {
        let mut led = Led::believed(Durability::Sync);
        led.read(1);
        assert!(!led.turn(20, (None, false)));
        led.read(2);
        assert_eq!(led.leave(), [0; 0], "nobody has answered");
        led.answer();
        assert_eq!(led.leave(), [1], "the second came after the question");
        assert!(!led.turn(40, (None, false)));
        led.answer();
        assert_eq!(led.leave(), [2]);
        assert!(led.confirming.is_empty());
    }

    #[test]
    fn questions_keep_a_distance_while_one_is_open() {
        let mut led = Led::believed(Durability::Sync);
        led.read(1);
        led.turn(20, (None, false));
        led.read(2);
        led.turn(20 + SPACING - 1, (None, false));
        assert_eq!(led.lose(), 1, "too soon for another");
        assert_eq!(
            led.confirming.next(20 + SPACING - 1, false, PACE, &led.streams[0]),
            Next::At(20 + SPACING)
        );
        led.turn(20 + SPACING, (None, false));
        assert_eq!(led.lose(), 1);
    }

    #[test]
    fn who_gets_no_answer_asks_for_an_entry_and_reads_wait_for_the_mark_from_then_on() {
        let mut led = Led::believed(Durability::Sync);
        led.read(1);
        led.turn(20, (None, false));
        led.lose();
        assert!(!led.turn(30, (None, false)), "time runs from the turn after the question");
        assert!(!led.turn(30 + PATIENCE - 1, (None, false)));
        assert!(led.turn(30 + PATIENCE, (None, false)), "an entry is wanted");
        assert!(!led.confirming.answers && led.leave().is_empty());
        led.answer();
        assert_eq!(led.leave(), [1], "by the question that came with it");
        led.turn(30 + PATIENCE + 1, (None, false));
        assert!(led.confirming.answers, "a quorum answers again");
    }

    #[test]
    fn an_entry_that_waits_for_no_disk_is_as_good_as_a_question() {
        let mut led = Led::believed(Durability::Memory);
        led.read(1);
        let behind = led.streams[0].last();
        assert!(!led.turn(20, (None, true)), "an entry is open");
        assert_eq!(led.lose(), 0, "nothing is asked");
        led.streams[0].propose(Bytes::from_static(b"an entry"));
        assert!(!led.turn(21, (Some(behind), false)));
        assert_eq!(led.leave(), [0; 0], "it is not decided");
        led.answer();
        assert_eq!(led.leave(), [1]);
    }

    #[test]
    fn what_was_not_confirmed_when_the_lead_ends_did_nothing() {
        let mut led = Led::believed(Durability::Sync);
        led.read(1);
        led.turn(20, (None, false));
        led.read(2);
        let mut out = Outbox::default();
        led.confirming.fail(&mut out);
        let told: Vec<_> = out.replies.iter().map(|reply| (reply.token.0, reply.outcome)).collect();
        assert_eq!(told, [(1, Outcome::Conflict), (2, Outcome::Conflict)]);
        led.answer();
        assert_eq!(led.leave(), [0; 0], "an answer that comes now is nobody's");
    }
}
