//! How much all clients of a worker hold together, and what that means for each.
//!
//! Each client may hold a little; all of them together must not hold too much. Who holds nothing is served before who
//! holds something, and who has shown that it takes its replies before who has not: a crowd that asks for much and takes nothing is
//! nobody else's delay; and who asks for little is not delayed at all, for short replies go on where there is no room for long ones. Somebody can always go on: so what is full becomes empty again.

use highwater_redis::connection::MAX_HELD_BYTES;

use super::client::Counted;

/// What the clients of a worker may hold together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory of what was received and not executed. A client beyond is not read from, but for one, whose command may
    /// get complete: exceeded by one command, and by a little of each client.
    pub requests: usize,
    /// Replies executed and not written. Exceeded by one reply, whose length nobody knows before, and by short ones, known
    /// when they are made, of an eighth of it.
    pub replies: usize,
}

/// Input that a client may hold though the worker's limit is reached.
pub const SMALL_INPUT: usize = 16 << 10;

/// How full it is with replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Everybody may hold as much as one client may.
    Low,
    /// Who holds a reply gets no other.
    High,
    /// Nor does who has never taken one.
    Tight,
    /// Nobody gets one but a short one.
    Full,
    /// Nobody gets one.
    Over,
}

impl Pressure {
    /// Below how many bytes of held replies a client is served. `proven`: it has taken a reply to the end.
    pub fn max_held(self, proven: bool) -> usize {
        match self {
            Pressure::Low => MAX_HELD_BYTES,
            Pressure::High => 1,
            Pressure::Tight => usize::from(proven),
            Pressure::Full | Pressure::Over => 0,
        }
    }

    /// Whether a client that gets no reply for that, and holds none, gets a short one all the same. So whoever asks for little waits for
    /// nobody who asks for much.
    pub fn lets_short_ones(self) -> bool {
        self != Pressure::Over
    }
}

/// The sums over all clients of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    limits: Limits,
    sum: Counted,
}

impl Crowd {
    /// Nobody yet.
    pub fn new(limits: Limits) -> Crowd {
        Crowd { limits, sum: Counted::default() }
    }

    /// A client that had `before` has `now`.
    pub fn update(&mut self, before: Counted, now: Counted) {
        let step = |sum: &mut usize, before: usize, now: usize| {
            *sum = (*sum + now).checked_sub(before).expect("what a client had is part of the sum");
        };
        step(&mut self.sum.requests, before.requests, now.requests);
        step(&mut self.sum.replies, before.replies, now.replies);
        step(&mut self.sum.held, before.held, now.held);
        step(&mut self.sum.output, before.output, now.output);
        step(&mut self.sum.beyond, before.beyond, now.beyond);
    }

    pub fn sum(&self) -> Counted {
        self.sum
    }

    /// How full it is with replies: high from a quarter of the limit on, tight from half of it on.
    pub fn pressure(&self) -> Pressure {
        match self.sum.held {
            held if held >= self.limits.replies && self.sum.beyond >= self.limits.replies / 8 => {
                Pressure::Over
            }
            held if held >= self.limits.replies => Pressure::Full,
            held if held >= self.limits.replies / 2 => Pressure::Tight,
            held if held >= self.limits.replies / 4 => Pressure::High,
            _ => Pressure::Low,
        }
    }

    /// Whether replies take half of their limit: until it is less, room is made once it was full.
    pub fn is_half_full(&self) -> bool {
        self.sum.held >= self.limits.replies / 2
    }

    /// Whether what sockets could take is as much as all replies may be.
    pub fn is_full_of_output(&self) -> bool {
        self.sum.output >= self.limits.replies
    }

    /// Whether requests take half of their limit.
    pub fn is_half_crowded(&self) -> bool {
        self.sum.requests >= self.limits.requests / 2
    }

    /// Whether it is full with requests.
    pub fn is_crowded(&self) -> bool {
        self.sum.requests >= self.limits.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_grows_with_what_is_held_and_goes_with_it() {
        let mut crowd = Crowd::new(Limits { requests: 1000, replies: 400 });
        let held = |held| Counted { held, ..Counted::default() };
        assert_eq!(crowd.pressure(), Pressure::Low);
        crowd.update(held(0), held(99));
        assert_eq!(crowd.pressure(), Pressure::Low);
        crowd.update(held(0), held(301));
        assert_eq!((crowd.pressure(), Pressure::Full.max_held(true)), (Pressure::Full, 0));
        let short = |beyond| Counted { held: beyond, beyond, ..Counted::default() };
        crowd.update(held(0), short(49));
        assert!(crowd.pressure() == Pressure::Full && Pressure::Full.lets_short_ones());
        crowd.update(short(49), short(50));
        assert!(crowd.pressure() == Pressure::Over && !Pressure::Over.lets_short_ones());
        crowd.update(short(50), held(0));
        crowd.update(held(301), held(101));
        assert_eq!(
            (crowd.pressure(), [true, false].map(|proven| Pressure::Tight.max_held(proven))),
            (Pressure::Tight, [1, 0])
        );
        crowd.update(held(101), held(1));
        assert_eq!((crowd.pressure(), Pressure::High.max_held(false)), (Pressure::High, 1));
        crowd.update(held(99), held(0));
        crowd.update(held(1), held(0));
        assert_eq!(crowd.sum(), Counted::default());
        crowd.update(Counted::default(), Counted { requests: 1000, ..Counted::default() });
        assert!(crowd.is_crowded());
    }
}
