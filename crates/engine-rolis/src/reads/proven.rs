//! How fresh this replica is known to be: for `status`.
//!
//! The state that readers with a bound are shown here holds everything that was acknowledged before some moment, by this node's
//! clock. Which moment that is, answers to [`probes`](highwater_log_host::probes) say, whoever asked for them: one counts once everything up to
//! its timestamp is installed. While nobody reads with a bound nobody asks; so who wants to know says so, and the first worker
//! asks on its behalf.

use std::collections::VecDeque;

use highwater_core::Timestamp;
use highwater_core::sync::{AtomicU64, Mutex, Ordering};
use highwater_log_host::worker::policy::Asking;
use highwater_seam::{Nanos, Next};

use crate::context::{Context, Turn, recheck};
use crate::reads::bounded::{PATIENCE, RECHECK};

/// One per replica. Shared by its workers and its controller.
#[derive(Debug, Default)]
pub struct Proven {
    /// Since when somebody wants to know; 0: nobody does.
    wanted: AtomicU64,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    /// Everything that was acknowledged before is installed.
    installed: Option<Nanos>,
    /// What was acknowledged before is at or below; in order of both.
    ahead: VecDeque<(Nanos, Timestamp)>,
}

/// Most answers that wait for what they speak of. A replica that falls behind makes do with the older ones.
const MOST: usize = 64;

impl Proven {
    /// Everything that was acknowledged before `asked` is at or below `upto`.
    pub fn vouched(&self, asked: Nanos, upto: Timestamp) {
        let ahead = &mut self.answers.lock().expect("nobody panics here").ahead;
        let grows = ahead.back().is_none_or(|(before, below)| *before < asked && *below <= upto);
        if grows && ahead.len() < MOST {
            ahead.push_back((asked, upto));
        }
    }

    /// Everything that was acknowledged before this moment is installed, if all at or below `floor` is. `None`: nobody has vouched for any.
    pub fn since(&self, floor: Timestamp) -> Option<Nanos> {
        let mut answers = self.answers.lock().expect("nobody panics here");
        while let Some((asked, _)) = answers.ahead.pop_front_if(|(_, upto)| *upto <= floor) {
            answers.installed = answers.installed.max(Some(asked));
        }
        answers.installed
    }

    /// Somebody wants to know, from now on.
    pub fn want(&self, now: Nanos) {
        self.wanted.store(now.max(1), Ordering::Relaxed);
    }

    /// Since when; `None`: nobody does.
    #[inline]
    pub fn wanted(&self) -> Option<Nanos> {
        Some(self.wanted.load(Ordering::Relaxed)).filter(|since| *since > 0)
    }

    /// Who has wanted to know since then knows, or has to do without. Who came later goes on waiting.
    pub fn satisfied(&self, since: Nanos) {
        // A failure means that somebody wants it anew.
        let _ = self.wanted.compare_exchange(since, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Somebody wants to know how fresh this replica is: the first worker asks the leader, as a reader would.
    #[inline]
    pub fn turn(&self, context: &Context, asking: &mut Asking<'_>, turn: &mut Turn<'_>) -> Next {
        match self.wanted() {
            Some(since) if context.id.0 == 0 => self.prove(since, context, asking, turn),
            _ => Next::Idle,
        }
    }

    fn prove(&self, since: Nanos, context: &Context, asking: &mut Asking<'_>, turn: &mut Turn<'_>) -> Next {
        let marks = &context.marks;
        let timeout = context.options().election_timeout;
        let known = self.since(marks.watermark.applied_floor());
        let gives_up = since + PATIENCE * timeout;
        if known >= Some(since) || turn.now >= gives_up || !marks.has_snapshots(&context.shared) {
            self.satisfied(since);
            turn.out.wake_controller = true;
            return Next::Idle;
        }
        if asking.answers().proof(since).is_none() {
            asking.ask(timeout / 2, turn);
        }
        recheck(turn.now, since, RECHECK).sooner(Next::At(gives_up))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_what_it_speaks_of_is_installed() {
        let proven = Proven::default();
        assert_eq!(proven.since(Timestamp(9)), None);
        proven.vouched(10, Timestamp(5));
        proven.vouched(20, Timestamp(8));
        assert_eq!(proven.since(Timestamp(4)), None);
        assert_eq!(proven.since(Timestamp(7)), Some(10));
        proven.vouched(15, Timestamp(6));
        assert_eq!(proven.since(Timestamp(8)), Some(20), "an answer that comes late takes nothing back");
    }

    #[test]
    fn answers_that_wait_are_bounded_and_the_oldest_stay() {
        let proven = Proven::default();
        for asked in 1..=1000 {
            proven.vouched(asked, Timestamp(asked));
        }
        assert_eq!(proven.since(Timestamp(1000)), Some(MOST as Nanos));
    }

    #[test]
    fn who_asks_anew_goes_on_waiting() {
        let proven = Proven::default();
        assert_eq!(proven.wanted(), None);
        proven.want(5);
        proven.want(7);
        proven.satisfied(5);
        assert_eq!(proven.wanted(), Some(7));
        proven.satisfied(7);
        assert_eq!(proven.wanted(), None);
    }
}
