//! How long answers take, and so how long they are waited for.

use highwater_seam::Nanos;
use highwater_seam::options::Options;

/// No answer is waited for longer than so many timeouts before it is asked for again.
pub const MOST_TIMEOUTS: u64 = 16;
/// The shortest time in which a reply may be expected.
const LEAST_PATIENCE: Nanos = 1_000_000;

pub struct Times {
    /// How long a round trip takes, about.
    round_trip: Nanos,
    /// The same, and the time for which a proposal has to be ahead of clocks.
    answer: Nanos,
}

impl Default for Times {
    fn default() -> Times {
        Times { round_trip: 100_000, answer: 100_000 }
    }
}

impl Times {
    pub fn round_trip(&self) -> Nanos {
        self.round_trip
    }

    pub fn answer(&self) -> Nanos {
        self.answer
    }

    /// A transaction was decided after `whole`, of which its round trip took a part.
    pub fn decided(&mut self, whole: Nanos, round_trip: Nanos) {
        self.answer = (7 * self.answer + whole.max(1)) / 8;
        self.took(round_trip.max(1));
    }

    /// A round trip took so long.
    pub fn took(&mut self, round_trip: Nanos) {
        self.round_trip = (7 * self.round_trip + round_trip) / 8;
    }

    /// How long a reply may take before no more are expected, and it is asked again.
    pub fn patience(&self, beat: Nanos) -> Nanos {
        (4 * self.answer).clamp(LEAST_PATIENCE, beat.max(LEAST_PATIENCE))
    }

    /// How long an answer may take before it is asked for again, for the `times`th time: frames are lost with connections only, as a
    /// rule, and on a slow wire whoever asks again makes it slower.
    pub fn ask_after(&self, times: u32, options: &Options) -> Nanos {
        let most = MOST_TIMEOUTS * options.election_timeout;
        (options.heartbeat.max(8 * self.round_trip) << times.min(8)).min(most)
    }

    /// For how long somebody else's transaction may be under way before it is taken over.
    pub fn overdue(&self, options: &Options) -> Nanos {
        (2 * options.election_timeout).max(16 * self.round_trip)
    }
}
