//! Requests that are put off, in lanes: those of one lane want the same, as far as is known (the first key that they write).
//!
//! Attempts of a lane are rationed as a sender's window is on a crowded wire: half as many at once when one of them comes to nothing, one more when
//! several in a row committed. Where all want the same key they would be in each other's way: one goes after the other then. The oldest request goes
//! first, and one that comes new stands behind those that wait. Lanes do not wait for each other.
//!
//! Attempts that write nothing are not rationed, and are no reason to make fewer: those who read are in each other's way never, and come to nothing one after the
//! other if they are late (see `strict` in engine `meerkat-strict`). They wait behind who writes, as they may run in one transaction with those.
//!
//! Coordinators of one key take turns: whoever has committed some attempts in a row *rests* for about as long as one takes, and when somebody else's commits here,
//! those that wait go on at once. Both say no more than when an attempt begins, and a rest ends by itself.
//!
//! A lane is there once somebody was put off in it. It stays behind the last one, with what is known of it, until some others have become idle.

// circle: those who are put off are requests, and who owns requests owns the lanes in which they wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::own::Asked;
use highwater_core::Timestamp;
use highwater_seam::Nanos;

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
/// After so many that committed since the last rest there is another one; after twice as many where nobody else has committed meanwhile, and so on. Others who
/// never get there would not be heard of.
const IN_A_ROW: u32 = 8;
const MOST_IN_A_ROW: u32 = 64;
/// Lanes that are remembered in which nobody waits, and nothing is under way.
const IDLE: usize = 64;
/// Attempts under way at once in a lane, at most.
const MOST_WINDOW: usize = 4096;

/// When a request came, and a count: its name here.
type Age = (Nanos, u64);

struct Lane {
    /// The oldest request first.
    waiting: BTreeMap<Age, Retry>,
    /// How many of them write, as far as is known.
    writers: usize,
    /// Attempts that write.
    under_way: usize,
    window: usize,
    /// Attempts in a row that committed.
    good: u32,
    /// Those that committed since the last rest.
    row: u32,
    /// And how many it takes.
    turn: u32,
    /// No attempt before: one came to nothing, and what was in its way is in the way of the others. When one commits they go on at once.
    rests: Nanos,
    /// When the next attempt may be made, as it stands in [`Lanes::due`].
    due: Option<Nanos>,
    /// It stands in [`Lanes::idle`].
    listed: bool,
}

impl Lane {
    fn new() -> Lane {
        Lane {
            waiting: BTreeMap::new(),
            writers: 0,
            under_way: 0,
            window: 1,
            good: 0,
            row: 0,
            turn: IN_A_ROW,
            rests: 0,
            due: None,
            listed: false,
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way == 0
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
    /// Lanes that were idle, the one that was first first.
    idle: VecDeque<u64>,
    /// All that wait, by age, and in which lane.
    ages: BTreeMap<Age, u64>,
    /// Counts those that were put off.
    count: u64,
}

impl Lanes {
    /// How many requests wait.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.ages.len()
    }

    /// Whether a request that comes new has to wait behind others.
    pub fn is_crowded(&self, now: Nanos, asked: &Asked) -> bool {
        let crowded = |lane: &Lane| {
            let ahead = if asked.reads { lane.writers } else { lane.waiting.len() };
            ahead > 0 || lane.under_way >= lane.window || now < lane.rests
        };
        self.all.get(&asked.lane).is_some_and(crowded)
    }

    /// A request waits. `failed`: an attempt of it came to nothing.
    pub fn put_off(&mut self, retry: Retry, failed: bool) {
        self.count += 1;
        let (name, at) = (retry.asked.lane, (retry.asked.since, self.count));
        let lane = self.all.entry(name).or_insert_with(Lane::new);
        if failed && !retry.asked.reads {
            (lane.window, lane.good, lane.rests) = ((lane.window / 2).max(1), 0, retry.at);
        }
        lane.writers += usize::from(!retry.asked.reads);
        lane.waiting.insert(at, retry);
        self.ages.insert(at, name);
        self.look_at(name);
    }

    /// An attempt that writes is under way. Whether it counts: there is a lane.
    pub fn begin(&mut self, name: u64) -> bool {
        let Some(lane) = self.all.get_mut(&name) else { return false };
        lane.under_way += 1;
        self.look_at(name);
        true
    }

    /// One that counted is over, with so many requests in it. `rest`: until when others are let go first, if it is their turn; and until when those are waited
    /// for who may ask again, now that they have a reply, if more had one than wait.
    pub fn end(&mut self, name: u64, commit: bool, served: usize, rest: (Nanos, Nanos)) {
        let lane = self.all.get_mut(&name).expect("a lane is there as long as an attempt counts");
        lane.under_way -= 1;
        (lane.good, lane.rests) = if commit { (lane.good + 1, 0) } else { (0, lane.rests) };
        lane.row += u32::from(commit);
        if lane.row >= lane.turn {
            (lane.row, lane.turn, lane.rests) = (0, (2 * lane.turn).min(MOST_IN_A_ROW), rest.0);
        } else if commit && served > 1 && lane.waiting.len() < served / 2 {
            lane.rests = rest.1;
        }
        if lane.good >= GOOD {
            (lane.window, lane.good) = ((lane.window + 1).min(MOST_WINDOW), 0);
        }
        self.look_at(name);
    }

    /// The transaction that was in the way of a lane has committed: those that wait may go on from `at`, unless they are above a time that is to come.
    pub fn wake(&mut self, name: u64, at: Nanos, has_come: impl Fn(Timestamp) -> bool) {
        let Some(lane) = self.all.get_mut(&name) else { return };
        (lane.turn, lane.rests) = (IN_A_ROW, lane.rests.min(at));
        for retry in lane.waiting.values_mut().take(LOOKED_AT).filter(|retry| has_come(retry.hint)) {
            retry.at = retry.at.min(at);
        }
        self.look_at(name);
    }

    /// Takes one that may run in one transaction with others of its lane, due or not: it is no attempt of its own.
    pub fn take_behind(&mut self, name: u64) -> Option<Retry> {
        let lane = self.all.get(&name)?;
        let mut oldest = lane.waiting.iter().take(LOOKED_AT);
        let at = *oldest.find(|(_, retry)| retry.asked.joins())?.0;
        self.remove(at)
    }

    /// Nothing is under way any more.
    pub fn end_all(&mut self) {
        let names: Vec<u64> = self.all.keys().copied().collect();
        for name in names {
            // Those before it have become idle: one that was idle longer may be forgotten by now.
            let Some(lane) = self.all.get_mut(&name) else { continue };
            lane.under_way = 0;
            self.look_at(name);
        }
    }

    /// When the next attempt is due.
    #[inline]
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
    #[inline]
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
        self.idle.clear();
        let lanes = std::mem::take(&mut self.all).into_iter();
        let (kept, gone): (Vec<_>, Vec<_>) = lanes
            .map(|(name, mut lane)| {
                let waiting = std::mem::take(&mut lane.waiting);
                ((name, Lane { writers: 0, due: None, listed: false, ..lane }), waiting)
            })
            .unzip();
        self.all = kept.into_iter().filter(|(_, lane)| lane.under_way > 0).collect();
        gone.into_iter().flat_map(BTreeMap::into_values).collect()
    }

    fn remove(&mut self, at: Age) -> Option<Retry> {
        let name = self.ages.remove(&at)?;
        let lane = self.all.get_mut(&name)?;
        let retry = lane.waiting.remove(&at)?;
        lane.writers -= usize::from(!retry.asked.reads);
        self.look_at(name);
        Some(retry)
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
        if lane.is_idle() && !std::mem::replace(&mut lane.listed, true) {
            self.idle.push_back(name);
            self.forget_one();
        }
    }

    /// Some are remembered.
    fn forget_one(&mut self) {
        if self.idle.len() <= IDLE {
            return;
        }
        let Some(name) = self.idle.pop_front() else { return };
        let lane = self.all.get_mut(&name).expect("a lane that stands there is there");
        lane.listed = false;
        if lane.is_idle() {
            self.all.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::ProcedureId;

    use super::*;
    use highwater_seam::{Request, Token};

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
    }

    /// Some lanes in which nobody waits are remembered, with what is known of them.
    #[test]
    fn idle_lanes_are_forgotten_one_after_the_other() {
        let mut lanes = Lanes::default();
        for name in 0..1000 {
            lanes.put_off(retry(name, 5, 20), true);
            assert!(lanes.take(20).is_some() && lanes.begin(name));
            lanes.end(name, true, 1, (0, 0));
            lanes.put_off(retry(7, 6, 20), true);
            assert!(lanes.take(20).is_some());
        }
        assert!(lanes.all.len() <= IDLE + 1 && lanes.idle.len() <= IDLE, "{} lanes", lanes.all.len());
        assert_eq!((lanes.waiting(), lanes.next(), lanes.begin(1), lanes.begin(999)), (0, None, false, true));
    }

    /// Simulated seeds 86008443 and 86008453 of `meerkat-strict`: a change of epoch ended the attempts of many lanes, more became idle than are remembered,
    /// and the worker panicked at the first one that was forgotten meanwhile.
    #[test]
    fn whatever_happens_to_many_lanes_each_request_is_there_once() {
        use std::collections::BTreeMap;

        let mut random = highwater_core::Random::new(1);
        let (mut lanes, mut counted) = (Lanes::default(), BTreeMap::<u64, usize>::new());
        let mut waiting = 0;
        for now in 0..200_000 {
            let name = random.below(4 * IDLE as u64);
            let mut taken = |lanes: &mut Lanes, retry: Option<Retry>| {
                let Some(Retry { asked, .. }) = retry else { return 0 };
                if lanes.begin(asked.lane) {
                    *counted.entry(asked.lane).or_default() += 1;
                }
                1
            };
            match random.below(1000) {
                0 => {
                    lanes.end_all();
                    counted.clear();
                }
                1 => waiting -= lanes.take_all().len(),
                2..400 => {
                    lanes.put_off(retry(name, now, now + random.below(3)), random.one_in(2));
                    waiting += 1;
                }
                400..600 => {
                    let retry = lanes.take(now);
                    waiting -= taken(&mut lanes, retry);
                }
                600..650 => {
                    let retry = lanes.take_behind(name);
                    waiting -= taken(&mut lanes, retry);
                }
                650..700 => {
                    let retry = lanes.take_older(now);
                    waiting -= taken(&mut lanes, retry);
                }
                700..750 => lanes.wake(name, now, |_| true),
                _ => {
                    let Some((name, _)) = counted.iter().nth(random.below(8) as usize) else { continue };
                    let name = *name;
                    lanes.end(name, random.one_in(2), 1, (now + 2, now + 1));
                    let count = counted.get_mut(&name).expect("it was just there");
                    *count -= 1;
                    if *count == 0 {
                        counted.remove(&name);
                    }
                }
            }
            assert_eq!(lanes.waiting(), waiting);
            assert!(lanes.idle.len() <= IDLE);
        }
    }

    /// Coordinators of one key take turns.
    #[test]
    fn who_has_committed_some_in_a_row_rests_unless_somebody_else_commits() {
        let mut lanes = Lanes::default();
        (0..40).for_each(|since| lanes.put_off(retry(1, since, 20), false));
        for _ in 0..IN_A_ROW {
            assert!(lanes.take(20).is_some_and(|retry| lanes.begin(retry.asked.lane)));
            lanes.end(1, true, 1, (50, 0));
        }
        let crowded = lanes.is_crowded(49, &retry(1, 49, 49).asked);
        assert_eq!((lanes.next(), since(lanes.take(49)), crowded), (Some(50), None, true));
        let turn = |lanes: &Lanes| lanes.all[&1].turn;
        assert_eq!(turn(&lanes), 2 * IN_A_ROW, "nobody else was heard of");
        lanes.wake(1, 30, |_| true);
        assert_eq!((lanes.next(), since(lanes.take(30))), (Some(30), Some(u64::from(IN_A_ROW))));
        assert_eq!(turn(&lanes), IN_A_ROW);
        // Nobody who is above a time that is to come goes on for that.
        let mut lanes = Lanes::default();
        lanes.put_off(Retry { hint: Timestamp(9), ..retry(1, 0, 60) }, false);
        lanes.wake(1, 30, |hint| hint < Timestamp(9));
        assert_eq!(lanes.next(), Some(60));
    }

    /// Those who were served together come again together, as a rule.
    #[test]
    fn those_who_were_served_together_are_waited_for() {
        for (served, waits, next) in [(7, 0, Some(25)), (7, 3, Some(20)), (1, 0, Some(20))] {
            let mut lanes = Lanes::default();
            (0..=waits).for_each(|since| lanes.put_off(retry(1, since, 20), false));
            assert!(lanes.take(20).is_some() && lanes.begin(1));
            lanes.end(1, true, served, (50, 25));
            lanes.put_off(retry(1, 9, 20), false);
            assert_eq!(lanes.next(), next, "{served} served, {waits} wait");
        }
    }

    /// A request that runs behind another one is taken whether it is due or not, the oldest first; not one that goes by itself.
    #[test]
    fn those_that_may_join_are_taken_in_their_order() {
        let mut lanes = Lanes::default();
        for since in 0..6 {
            let waiting = retry(1, since, 1000);
            let asked = Asked { waited: true, alone: since == 2, ..waiting.asked };
            lanes.put_off(Retry { asked, ..waiting }, false);
        }
        let taken: Vec<_> = std::iter::from_fn(|| since(lanes.take_behind(1))).collect();
        assert_eq!((taken, lanes.waiting(), lanes.oldest()), (vec![0, 1, 3, 4, 5], 1, Some(2)));
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
            (again(&mut lanes), lanes.next(), lanes.is_crowded(20, &retry(1, 20, 20).asked)),
            (None, None, true),
            "one at a time"
        );
        for since in 1..=8 {
            lanes.end(1, true, 1, (0, 0));
            assert_eq!(again(&mut lanes), Some(since));
        }
        assert_eq!((again(&mut lanes), again(&mut lanes)), (Some(9), None), "after some that committed two");
        lanes.put_off(retry(1, 8, 20), true);
        lanes.end(1, false, 1, (0, 0));
        assert_eq!((again(&mut lanes), lanes.next()), (None, None), "and one again");
        lanes.end(1, true, 1, (0, 0));
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
        let crowded = [1, 2, 3].map(|lane| lanes.is_crowded(30, &retry(lane, 30, 30).asked));
        assert_eq!(crowded, [true, false, false]);
    }

    /// Those who read wait for who writes, and not for each other.
    #[test]
    fn those_who_read_go_beside_each_other() {
        let reads = |since| {
            let retry = retry(1, since, 20 + since);
            Retry { asked: Asked { reads: true, ..retry.asked }, ..retry }
        };
        let mut lanes = Lanes::default();
        (0..10).for_each(|since| lanes.put_off(reads(since), true));
        assert!(!lanes.is_crowded(5, &reads(11).asked), "another one need not wait");
        let taken: Vec<_> = std::iter::from_fn(|| since(lanes.take(24))).collect();
        assert_eq!((taken, lanes.next()), ((0..5).collect(), Some(25)), "each when it is due");
        lanes.put_off(retry(1, 1, 20), false);
        assert!(lanes.is_crowded(5, &reads(11).asked), "they may go together with who writes");
        assert_eq!(since(lanes.take(20)), Some(1));
        assert!(lanes.begin(1));
        assert_eq!((lanes.next(), since(lanes.take(40))), (None, None), "what is under way is in their way");
        lanes.end(1, true, 1, (0, 0));
        assert_eq!(std::iter::from_fn(|| since(lanes.take(40))).count(), 5);
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
