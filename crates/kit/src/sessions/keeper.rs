//! When a serving replica sweeps.

use highwater_core::Outcome;
use highwater_seam::Nanos;

use super::calls::{IDLE_TICKS, UNSEEN};
use super::procedures::numbers;

/// Says when the next [`Sweep`](super::Sweep) is due, for a host: one of each replica, asked at every turn.
///
/// Invariant: between two ticks of the sessions' clock, whoever makes them, lies a whole interval. A keeper sees what the clock shows, lets an
/// interval pass, and has it advance only if it shows the same still. So where several replicas serve at once, each with a keeper of its own,
/// the clock runs no faster than where one does; and it goes on as long as one is left.
#[derive(Debug)]
pub struct Keeper {
    interval: Nanos,
    /// The time that the clock showed when the interval under way began.
    seen: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Another replica serves.
    Away,
    /// The next round begins at this time.
    Rests(Nanos),
    /// A sweep from this id is to be asked for.
    Wants(u64),
    Asked,
}

impl Keeper {
    /// Sessions last for `idle` ns at least.
    pub fn new(idle: Nanos) -> Keeper {
        Keeper { interval: idle / IDLE_TICKS + 1, seen: UNSEEN, state: State::Away }
    }

    /// The arguments of the sweep that is due, if one is. `serves`: whether this replica takes requests.
    pub fn due(&mut self, now: Nanos, serves: bool) -> Option<[u8; 16]> {
        if self.state == State::Asked {
            return None;
        }
        if !serves {
            (self.state, self.seen) = (State::Away, UNSEEN);
            return None;
        }
        let from = match self.state {
            State::Rests(until) if now < until => return None,
            State::Wants(from) => from,
            State::Away | State::Rests(_) | State::Asked => 0,
        };
        let mut args = [0; 16];
        args[..8].copy_from_slice(&from.to_le_bytes());
        args[8..].copy_from_slice(&self.seen.to_le_bytes());
        Some(args)
    }

    /// The engine took it.
    pub fn asked(&mut self) {
        self.state = State::Asked;
    }

    /// It ended so.
    pub fn ended(&mut self, now: Nanos, outcome: Outcome, reply: &[u8]) {
        let told = numbers(reply).ok().filter(|_| outcome == Outcome::Committed);
        // Of what failed nobody knows whether the clock has advanced: it is looked at anew.
        let [next, _, clock] = told.unwrap_or([0, 0, UNSEEN]);
        self.seen = clock;
        self.state = if next > 0 { State::Wants(next) } else { State::Rests(now + self.interval) };
    }

    /// When it may want something.
    pub fn next(&self) -> Option<Nanos> {
        match self.state {
            State::Rests(until) => Some(until),
            State::Wants(_) => Some(0),
            State::Away | State::Asked => None,
        }
    }
}
