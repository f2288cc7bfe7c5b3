//! When a serving replica sweeps.

use highwater_core::Outcome;

use super::calls::IDLE_TICKS;
use crate::seam::Nanos;

/// Says when the next [`Sweep`](super::Sweep) is due, for a host: one of each replica, asked at every turn.
///
/// Invariant: between two rounds that this replica begins, and before the first one after it came to serve, lies a whole
/// interval. So the sessions' clock never runs fast.
#[derive(Debug)]
pub struct Keeper {
    interval: Nanos,
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
    /// It was.
    Asked,
}

impl Keeper {
    /// Sessions last for `idle` ns at least.
    pub fn new(idle: Nanos) -> Keeper {
        Keeper { interval: idle / IDLE_TICKS + 1, state: State::Away }
    }

    /// The arguments of the sweep that is due, if one is. `serves`: whether this replica takes requests.
    pub fn due(&mut self, now: Nanos, serves: bool) -> Option<[u8; 8]> {
        match self.state {
            State::Asked => None,
            _ if !serves => {
                self.state = State::Away;
                None
            }
            State::Away => {
                self.state = State::Rests(now + self.interval);
                None
            }
            State::Rests(until) if now < until => None,
            State::Rests(_) => Some(0u64.to_le_bytes()),
            State::Wants(from) => Some(from.to_le_bytes()),
        }
    }

    /// The engine took it.
    pub fn asked(&mut self) {
        self.state = State::Asked;
    }

    /// It ended so.
    pub fn ended(&mut self, now: Nanos, outcome: Outcome, reply: &[u8]) {
        let next = match (outcome, reply.first_chunk()) {
            (Outcome::Committed, Some(next)) => u64::from_le_bytes(*next),
            // Nobody knows whether the clock has advanced.
            _ => 0,
        };
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
