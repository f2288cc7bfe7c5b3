//! Real time: what a transaction's timestamp has to do with when it was asked for and answered.
//!
//! As the paper has it, a coordinator whose clock is behind may propose a timestamp below those of transactions that clients have been
//! answered already. What conflicts with them is refused or comes after them; but a read of what they overwrote may be found
//! valid, before their outcomes have come, and clients see the past. The result is serializable, and not strictly so.
//!
//! Engine `meerkat-strict` adds two rules:
//!
//! 1. A replica refuses a transaction that is at or below its own clock when it arrives.
//! 2. A replica that found a transaction valid says so when its clock has come to the timestamp.
//!
//! Let T1 be answered before T2 is asked for. A majority said yes to T1, and each of their clocks was at T1's timestamp by then. A
//! majority says yes to T2, and when it arrived, which was later, each of their clocks was below T2's timestamp. Some replica is in
//! both, and its clock never goes back: T1's timestamp is below T2's. No two clocks are compared, and cores share nothing but the
//! reading of a clock.
//!
//! Replicas tell each other their clocks with all they say, and who is behind goes on from there: a clock that is far ahead, or
//! one that stands still, would make votes wait for as long. What is told is a clock's reading and no proposal, so that no clock runs ahead
//! of all others.
//!
//! A clock of a machine that was moved may go back all the same. Every thread that sees it moves it to where it had seen it before: without
//! that, what was proposed before would wait until the clock has come there again. (Two threads do not tell each other what they saw:
//! in the moment before they look, the order that one of them vouched for may not be the other's.)
//!
//! So coordinators propose timestamps a little in the future: as far as it takes for a transaction to arrive everywhere, by what they
//! are refused. That is what it costs: latency, of about one way through the network, and refusals where that varies.
//!
//! It has to be a majority that said yes to whatever commits. Rule 4 of a change of epoch asks for less where a supermajority is less than
//! all replicas, from four nodes on. So here the fast path takes all of them: [`Quorums::unanimous`](highwater_kit::validation::quorum::Quorums::unanimous).
//!
//! A vote that is withheld is no vote: whoever promises a later view, or a change of epoch, takes it back.

use highwater_seam::Nanos;

/// Payloads below so many bytes arrive about as fast as each other.
const CLASSES: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, usize::MAX];
/// A lead that was enough halves in about so long, in nanoseconds, or in so many round trips if these take longer. One that was not stays until
/// a transaction came in time: whoever asks once in a while would never be in time, if it faded in between by more than it was raised.
const FADES: Nanos = 500_000_000;
const FADES_IN: u64 = 32;

/// A transaction that comes too late raises the lead by one part in so many of what it lacked. One that was held up by itself says little of the others; of
/// those that are late all the time a few are enough.
const PARTS: u64 = 4;

/// The least lead, in ticks: what a proposal takes to be looked at where it was made.
const LEAST: u64 = 16;

#[derive(Clone, Copy, Default)]
struct Class {
    ticks: u64,
    /// When it was looked at last, or was enough.
    at: Nanos,
    /// It was not enough for the last transaction that is known of.
    lacks: bool,
}

/// How far ahead of its clock a coordinator proposes, in ticks: as far as it would have taken for what came too late of late. Large
/// payloads take longer, and have a lead of their own.
#[derive(Default)]
pub struct Lead {
    classes: [Class; CLASSES.len()],
    /// In so long it halves; 0 as long as nobody told how long a round trip takes.
    fades: Nanos,
}

impl std::fmt::Display for Lead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.classes.map(|class| class.ticks))
    }
}

impl Lead {
    fn class(&mut self, bytes: usize) -> &mut Class {
        let at = CLASSES.iter().position(|below| bytes < *below).unwrap_or(CLASSES.len() - 1);
        &mut self.classes[at]
    }

    /// A round trip takes so long now.
    pub fn follow(&mut self, round_trip: Nanos) {
        self.fades = FADES_IN * round_trip;
    }

    /// The lead for a payload of so many bytes. It fades with time.
    pub fn ticks(&mut self, now: Nanos, bytes: usize) -> u64 {
        let fades = self.fades.max(FADES);
        let class = self.class(bytes);
        let took = now.saturating_sub(class.at);
        // Steps that are no finer than what they take away.
        if took >= fades / 64 && class.ticks > 0 && !class.lacks {
            let parts = took.min(8 * fades) / (fades / 64);
            (0..parts).for_each(|_| class.ticks -= (class.ticks / 92).max(1).min(class.ticks));
            class.at = now;
        }
        class.ticks.max(LEAST)
    }

    /// A transaction came too late: with a lead of `ticks` it would have come in time. The lead goes there in steps, and no further: those that were proposed
    /// together do not add up.
    /// Whoever is tried again begins with what is returned, however long that takes; the others with `most` at most: what was cut
    /// off for a second says nothing of them.
    pub fn late(&mut self, now: Nanos, bytes: usize, ticks: u64, most: u64) -> u64 {
        let needed = (ticks + ticks / 4 + 1).min(1 << 40);
        let ticks = self.ticks(now, bytes);
        let ticks = ticks + needed.min(most).saturating_sub(ticks).div_ceil(PARTS);
        *self.class(bytes) = Class { ticks, at: now, lacks: true };
        needed
    }

    /// A transaction that was `ticks` ahead came in time everywhere: the lead for one of so many bytes fades from now on. One that had a lead of its own,
    /// because it had come too late before, says nothing of what the others need.
    pub fn in_time(&mut self, now: Nanos, bytes: usize, ticks: u64) {
        let class = self.class(bytes);
        if class.lacks && ticks <= class.ticks.max(LEAST) {
            (class.at, class.lacks) = (now, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once: where a round trip takes a tenth of a second, a lead faded between two requests by as much as the first of them had raised it. Whoever asked
    /// for one after the other, each once, was too late for ever.
    #[test]
    fn a_lead_comes_to_what_is_needed_however_seldom_it_is_asked_for() {
        for round_trip in [100_000, 1_000_000, 107_000_000, 2_000_000_000] {
            for gap in [round_trip, 2 * round_trip, 6 * round_trip, 50 * round_trip, 1_000_000_000] {
                let (mut lead, needed, mut now, mut in_time) = (Lead::default(), 60_000_000, 0, 0);
                lead.follow(round_trip);
                for attempt in 0..60 {
                    now += gap;
                    let ticks = lead.ticks(now, 100);
                    if ticks < needed {
                        let own = lead.late(now, 100, needed, 4 * needed);
                        // It is tried again, with a lead of its own.
                        now += round_trip;
                        let own = own.max(lead.ticks(now, 100));
                        lead.in_time(now, 100, own);
                    } else {
                        in_time += u32::from(attempt >= 20);
                        lead.in_time(now, 100, ticks);
                    }
                }
                assert!(in_time >= 4, "{in_time} of 40 in time: {gap} ns apart, round trips of {round_trip}");
            }
        }
    }

    /// Once: `meerkat-strict`: one transaction that was held up raised the lead of all others by all that it had lacked,
    /// and they waited as long for half a second; on a busy machine that is always.
    /// Once: `meerkat-strict`: clocks ran away, and every node ended with "timestamps are exhausted" after a minute. A
    /// replica moved its clock to proposals that it had waited long for; others were late by that, and raised their lead
    /// by 5/4 of it, above that clock.
    #[test]
    fn a_lead_follows_refusals_and_fades_with_time() {
        let mut lead = Lead::default();
        assert_eq!(lead.ticks(5, 100), LEAST);
        (0..50).for_each(|_| assert_eq!(lead.late(10, 100, 1000, 9999), 1251));
        assert_eq!(lead.ticks(10, 100), 1251, "a burst that was late together is late once");
        assert_eq!(lead.late(10, 100, 8000, 1751), 10001, "its own next attempt");
        assert_eq!(lead.ticks(10, 100), 1376, "one alone is no reason to be as far ahead as that");
        (0..50).for_each(|_| assert_eq!(lead.late(10, 100, 8000, 1751), 10001));
        assert_eq!(
            (lead.ticks(11, 100), lead.ticks(11, 1 << 20)),
            (1751, LEAST),
            "large ones have their own"
        );
        assert_eq!(lead.ticks(9 * FADES, 100), 1751, "it is not known to be enough");
        let enough = 9 * FADES;
        lead.in_time(enough, 100, 1751);
        assert_eq!(lead.ticks(enough + FADES / 65, 100), 1751);
        let half = lead.ticks(enough + FADES + 10, 100);
        assert!((800..950).contains(&half), "{half} is half");
        assert_eq!(lead.ticks(30 * FADES, 100), lead.ticks(30 * FADES + 1, 100));
        assert_eq!(lead.ticks(40 * FADES, 100), LEAST);
    }
}
