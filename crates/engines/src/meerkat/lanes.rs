//! Requests that are put off, in lanes: those of one lane want the same, as far as is known (the first key that they write).
//!
//! Attempts of a lane are rationed as a sender's window is on a crowded wire: half as many at once when one of them comes to nothing, one more when
//! several in a row committed. Where all want the same key they would be in each other's way: one goes after the other then. The oldest request goes
//! first, and one that comes new stands behind those that wait. Lanes do not wait for each other.
//!
//! A lane is there while somebody waits in it, or was put off and is under way.

use std::collections::{BTreeMap, BTreeSet};

use super::own::Asked;
use crate::seam::Nanos;
use highwater_core::Timestamp;

/// An attempt that is put off.
pub struct Retry {
    /// Not before.
    pub at: Nanos,
    /// The request to run.
    pub asked: Asked,
    /// Its timestamp has to be above this.
    pub hint: Timestamp,
}

/// Requests of a lane that are looked at for one that is due: the oldest ones.
const LOOKED_AT: usize = 16;
/// After so many attempts in a row that committed one more at once is made.
const GOOD: u32 = 8;
/// Attempts under way at once in a lane, at most.
const MOST_WINDOW: usize = 4096;

/// When a request came, and a count: its name here.
type Age = (Nanos, u64);

struct Lane {
    /// The oldest request first.
    waiting: BTreeMap<Age, Retry>,
    under_way: usize,
    window: usize,
    /// Attempts in a row that committed.
    good: u32,
    /// No attempt before: one came to nothing, and what was in its way is in the way of the others. When one commits they go on at once.
    rests: Nanos,
    /// When the next attempt may be made, as it stands in [`Lanes::due`].
    due: Option<Nanos>,
}

impl Lane {
    fn new() -> Lane {
        Lane { waiting: BTreeMap::new(), under_way: 0, window: 1, good: 0, rests: 0, due: None }
    }

    /// When an attempt may be made; not while as many are under way as may be: then the end of one is what to wait for.
    fn next(&self) -> Option<Nanos> {
        let times = self.waiting.values().take(LOOKED_AT).map(|retry| retry.at);
        times.min().map(|at| at.max(self.rests)).filter(|_| self.under_way < self.window)
    }
}

/// All lanes of a coordinator.
#[derive(Default)]
pub struct Lanes {
    /// Lanes by what they want.
    all: BTreeMap<u64, Lane>,
    /// Those in which an attempt may be made, by when.
    due: BTreeSet<(Nanos, u64)>,
    /// All that wait, by age, and in which lane.
    ages: BTreeMap<Age, u64>,
    /// Counts those that were put off.
    count: u64,
}

impl Lanes {
    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.ages.len()
    }

    /// Whether whoever comes new has to wait behind others.
    pub fn is_crowded(&self, lane: u64) -> bool {
        self.all.get(&lane).is_some_and(|lane| !lane.waiting.is_empty() || lane.under_way >= lane.window)
    }

    /// A request waits. `failed`: an attempt of it came to nothing.
    pub fn put_off(&mut self, retry: Retry, failed: bool) {
        self.count += 1;
        let (name, at) = (retry.asked.lane, (retry.asked.since, self.count));
        let lane = self.all.entry(name).or_insert_with(Lane::new);
        if failed {
            (lane.window, lane.good, lane.rests) = ((lane.window / 2).max(1), 0, retry.at);
        }
        lane.waiting.insert(at, retry);
        self.ages.insert(at, name);
        self.look_at(name);
    }

    /// An attempt is under way. Whether it counts: there is a lane.
    pub fn begin(&mut self, name: u64) -> bool {
        let Some(lane) = self.all.get_mut(&name) else { return false };
        lane.under_way += 1;
        self.look_at(name);
        true
    }

    /// One that counted is over.
    pub fn end(&mut self, name: u64, commit: bool) {
        let lane = self.all.get_mut(&name).expect("a lane is there as long as an attempt counts");
        lane.under_way -= 1;
        (lane.good, lane.rests) = if commit { (lane.good + 1, 0) } else { (0, lane.rests) };
        if lane.good >= GOOD {
            (lane.window, lane.good) = ((lane.window + 1).min(MOST_WINDOW), 0);
        }
        self.look_at(name);
    }

    /// Nothing is under way any more.
    pub fn end_all(&mut self) {
        let names: Vec<u64> = self.all.keys().copied().collect();
        for name in names {
            self.all.get_mut(&name).expect("it was just there").under_way = 0;
            self.look_at(name);
        }
    }

    /// When the next attempt is due.
    pub fn next(&self) -> Option<Nanos> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes one that is due.
    pub fn take(&mut self, now: Nanos) -> Option<Retry> {
        let (_, name) = *self.due.first().filter(|(at, _)| *at <= now)?;
        let lane = self.all.get(&name)?;
        let at = *lane.waiting.iter().take(LOOKED_AT).find(|(_, retry)| retry.at <= now)?.0;
        self.remove(at)
    }

    /// When the oldest request came that waits.
    pub fn oldest(&self) -> Option<Nanos> {
        self.ages.first_key_value().map(|((since, _), _)| *since)
    }

    /// Takes one that came before `since`.
    pub fn take_older(&mut self, since: Nanos) -> Option<Retry> {
        let at = *self.ages.first_key_value().filter(|((came, _), _)| *came < since)?.0;
        self.remove(at)
    }

    /// Takes all that wait.
    pub fn take_all(&mut self) -> Vec<Retry> {
        self.due.clear();
        self.ages.clear();
        let lanes = std::mem::take(&mut self.all).into_iter();
        let (kept, gone): (Vec<_>, Vec<_>) = lanes
            .map(|(name, mut lane)| {
                let waiting = std::mem::take(&mut lane.waiting);
                ((name, Lane { due: None, ..lane }), waiting)
            })
            .unzip();
        self.all = kept.into_iter().filter(|(_, lane)| lane.under_way > 0).collect();
        gone.into_iter().flat_map(BTreeMap::into_values).collect()
    }

    fn remove(&mut self, at: Age) -> Option<Retry> {
        let name = self.ages.remove(&at)?;
        let retry = self.all.get_mut(&name)?.waiting.remove(&at);
        self.look_at(name);
        retry
    }

    /// Something changed in a lane.
    fn look_at(&mut self, name: u64) {
        let Some(lane) = self.all.get_mut(&name) else { return };
        let (before, next) = (lane.due, lane.next());
        lane.due = next;
        if before != next {
            before.map(|at| self.due.remove(&(at, name)));
            next.map(|at| self.due.insert((at, name)));
        }
        if lane.waiting.is_empty() && lane.under_way == 0 {
            self.all.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::ProcedureId;

    use super::*;
    use crate::seam::{Request, Token};

    fn retry(lane: u64, since: Nanos, at: Nanos) -> Retry {
        let asked = Asked { lane, ..Asked::of(since, &Request::new(Token(since), ProcedureId(0), &[])) };
        Retry { at, asked, hint: Timestamp::ZERO }
    }

    fn since(retry: Option<Retry>) -> Option<Nanos> {
        retry.map(|retry| retry.asked.since)
    }

    #[test]
    fn one_that_is_put_off_is_taken_when_it_is_due() {
        let mut lanes = Lanes::default();
        lanes.put_off(retry(1, 5, 20), true);
        assert!(lanes.take(19).is_none());
        assert_eq!((lanes.next(), lanes.waiting()), (Some(20), 1));
        assert_eq!((since(lanes.take(20)), lanes.next(), lanes.waiting()), (Some(5), None, 0));
        assert!(lanes.all.is_empty());
    }

    /// If everybody wants the same, one attempt at a time is made, and the oldest request's.
    #[test]
    fn attempts_of_a_lane_are_rationed() {
        let mut lanes = Lanes::default();
        (0..40).rev().for_each(|since| lanes.put_off(retry(1, since, 20), true));
        let again = |lanes: &mut Lanes| {
            let asked = lanes.take(20)?.asked;
            assert!(lanes.begin(asked.lane));
            Some(asked.since)
        };
        assert_eq!(again(&mut lanes), Some(0), "the oldest one");
        assert_eq!(
            (again(&mut lanes), lanes.next(), lanes.is_crowded(1)),
            (None, None, true),
            "one at a time"
        );
        for since in 1..=8 {
            lanes.end(1, true);
            assert_eq!(again(&mut lanes), Some(since));
        }
        assert_eq!((again(&mut lanes), again(&mut lanes)), (Some(9), None), "after some that committed two");
        lanes.put_off(retry(1, 8, 20), true);
        lanes.end(1, false);
        assert_eq!((again(&mut lanes), lanes.next()), (None, None), "and one again");
        lanes.end(1, true);
        assert_eq!(again(&mut lanes), Some(8));
        lanes.end_all();
        assert_eq!(lanes.next(), Some(20));
    }

    /// A hot key makes nobody wait who wants another one.
    #[test]
    fn lanes_do_not_wait_for_each_other() {
        let mut lanes = Lanes::default();
        (0..100).for_each(|since| lanes.put_off(retry(1, since, 10), true));
        lanes.put_off(retry(2, 200, 30), true);
        assert_eq!(since(lanes.take(10)), Some(0));
        assert!(lanes.begin(1));
        assert_eq!((lanes.next(), since(lanes.take(30))), (Some(30), Some(200)));
        assert!(!lanes.is_crowded(2) && lanes.is_crowded(1) && !lanes.is_crowded(3));
    }

    /// A request that waits ends in time, whether its turn comes or not.
    #[test]
    fn those_that_wait_for_too_long_are_taken_out() {
        let mut lanes = Lanes::default();
        (0..50).for_each(|since| lanes.put_off(retry(since % 2, since, 1000), true));
        let old: Vec<_> = std::iter::from_fn(|| since(lanes.take_older(20))).collect();
        assert_eq!((old, lanes.oldest(), lanes.waiting()), ((0..20).collect(), Some(20), 30));
        assert_eq!((lanes.take_all().len(), lanes.waiting(), lanes.next()), (30, 0, None));
    }
}
