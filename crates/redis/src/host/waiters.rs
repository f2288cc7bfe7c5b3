//! Clients of one worker that wait for data: when each is to look again, or to give up. It knows no socket and no clock.
//!
//! The clients that may look are told by [`Waiting`](crate::Waiting); here is what else has a client look: its time is over, its replica serves no
//! more, or it has not looked for long. (With an engine without a leader the engine says what others wrote: `Clients::take_written`.)

use std::collections::{BTreeMap, BTreeSet};

use highwater_seam::Nanos;

use crate::connection::place::Waits;

/// A client that waits for data looks by itself as often: should anything have been missed, it waits no longer.
pub const LOOK_SELDOM: Nanos = 5_000_000_000;
const NS_PER_MS: Nanos = 1_000_000;

/// See the module.
pub struct Waiters {
    every: Nanos,
    alarms: BTreeSet<(Nanos, u64)>,
    /// By their ids.
    waiters: BTreeMap<u64, Waiter>,
    serves: bool,
}

struct Waiter {
    /// Its place among the worker's clients.
    at: usize,
    /// Which of its waits it is.
    number: u64,
    alarm: Option<Nanos>,
    /// Until when it waits, if not for ever.
    until: Option<Nanos>,
    /// Its time is over, and it knows.
    late: bool,
}

/// A client that is to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Its place among the worker's clients.
    pub at: usize,
    /// Its time is over: it is to give up. Else it is to look.
    pub late: bool,
}

impl Waiters {
    /// Nobody waits. Each looks by itself so often.
    pub fn new(every: Nanos) -> Waiters {
        Waiters { every, alarms: BTreeSet::new(), waiters: BTreeMap::new(), serves: false }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// When the first of them wants to be woken.
    pub fn deadline(&self) -> Option<Nanos> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// A client [waits](crate::Connection::waits) so, or does no more.
    pub fn note(&mut self, id: u64, at: usize, waits: Option<Waits>, now: Nanos) {
        let Some(Waits { number, timeout_ms }) = waits else {
            return self.remove(id);
        };
        if self.waiters.get(&id).is_some_and(|waiter| waiter.number != number) {
            // The last one is over, and the next has begun in the same turn.
            self.remove(id);
        }
        let waiter = self.waiters.entry(id).or_insert_with(|| {
            let until = timeout_ms.map(|ms| now.saturating_add(ms.saturating_mul(NS_PER_MS)));
            Waiter { at, number, alarm: None, until, late: false }
        });
        if waiter.alarm.is_none() && !waiter.late {
            let alarm = now.saturating_add(self.every).min(waiter.until.unwrap_or(Nanos::MAX)).max(now + 1);
            waiter.alarm = Some(alarm);
            self.alarms.insert((alarm, id));
        }
    }

    /// It waits no more.
    pub fn remove(&mut self, id: u64) {
        if self.waiters.is_empty() {
            return;
        }
        if let Some(Waiter { alarm: Some(alarm), .. }) = self.waiters.remove(&id) {
            self.alarms.remove(&(alarm, id));
        }
    }

    /// Who is to do something now: of those that others woke, and of those whose alarm goes off.
    pub fn wake(&mut self, woken: Vec<u64>, now: Nanos) -> Vec<Woken> {
        let known = |id| self.waiters.get(id).map(|waiter| Woken { at: waiter.at, late: false });
        let mut all: Vec<Woken> = woken.iter().filter_map(known).collect();
        while let Some((when, id)) = self.alarms.first().copied()
            && when <= now
        {
            self.alarms.pop_first();
            let waiter = self.waiters.get_mut(&id).expect("an alarm is a waiter's");
            waiter.alarm = None;
            waiter.late = waiter.until.is_some_and(|until| until <= now);
            all.push(Woken { at: waiter.at, late: waiter.late });
        }
        all
    }

    /// Whether the replica serves; who is to look because it does no more, and to be told so.
    pub fn tell_serving(&mut self, serves: bool) -> Vec<Woken> {
        if !std::mem::replace(&mut self.serves, serves) || serves {
            return Vec::new();
        }
        self.all()
    }

    /// All of them, to look.
    pub fn all(&self) -> Vec<Woken> {
        self.waiters.values().map(|waiter| Woken { at: waiter.at, late: false }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKS: fn(usize) -> Woken = |at| Woken { at, late: false };
    const GIVES_UP: fn(usize) -> Woken = |at| Woken { at, late: true };
    const FOR: fn(Option<u64>) -> Option<Waits> = |timeout_ms| Some(Waits { number: 1, timeout_ms });

    #[test]
    fn each_looks_now_and_then_and_gives_up_in_time() {
        let mut waiters = Waiters::new(100);
        waiters.note(7, 0, FOR(None), 10);
        waiters.note(8, 1, FOR(Some(0)), 20);
        assert_eq!(waiters.deadline(), Some(21), "at once, but not in the past");
        assert_eq!(waiters.wake(vec![7, 99], 20), [LOOKS(0)]);
        assert_eq!(waiters.wake(Vec::new(), 21), [GIVES_UP(1)]);
        // It is told once, though it may look at that moment and wait for what it finds.
        waiters.note(8, 1, FOR(Some(0)), 22);
        waiters.note(8, 1, None, 23);
        assert_eq!(waiters.wake(Vec::new(), 110), [LOOKS(0)]);
        waiters.note(7, 0, FOR(None), 110);
        assert_eq!(waiters.deadline(), Some(210));
        waiters.remove(7);
        assert!(waiters.is_empty() && waiters.deadline().is_none());
    }

    /// A client may have sent several blocking commands at once: the next one waits from the turn on in which the last one gave up. It
    /// was taken for that one, whose time is over, and had no alarm any more.
    #[test]
    fn a_wait_right_behind_another_has_a_time_of_its_own() {
        let mut waiters = Waiters::new(10_000_000);
        let waits = |number, ms| Some(Waits { number, timeout_ms: Some(ms) });
        waiters.note(7, 0, waits(1, 1), 0);
        assert_eq!(waiters.wake(Vec::new(), 1_000_000), [GIVES_UP(0)]);
        waiters.note(7, 0, waits(2, 2), 1_000_000);
        assert_eq!(waiters.deadline(), Some(3_000_000));
        assert_eq!(waiters.wake(Vec::new(), 3_000_000), [GIVES_UP(0)]);
        // Also if it began before the last one's time was over.
        waiters.note(7, 0, waits(3, 1), 3_000_000);
        waiters.note(7, 0, waits(4, 5), 3_500_000);
        assert_eq!(waiters.wake(Vec::new(), 4_000_000), []);
        assert_eq!(waiters.wake(Vec::new(), 8_500_000), [GIVES_UP(0)]);
        waiters.note(7, 0, None, 9_000_000);
        assert!(waiters.is_empty() && waiters.deadline().is_none());
    }

    /// Once: clients in line at a leader that was deposed learnt of it only when they looked by themselves, up to 5 s
    /// later.
    #[test]
    fn all_look_when_their_replica_stands_down() {
        let mut waiters = Waiters::new(100);
        waiters.note(7, 3, FOR(None), 10);
        assert_eq!(waiters.tell_serving(false), []);
        assert_eq!(waiters.tell_serving(true), []);
        assert_eq!(waiters.tell_serving(false), [LOOKS(3)]);
        assert_eq!(waiters.tell_serving(false), [], "once");
    }
}
