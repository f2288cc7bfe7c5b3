//! What must be in a snapshot that a simulated reader asked to be fresh. Tokens go from client to client, as in a house that keeps them in one place.

use std::collections::{BTreeMap, VecDeque};

use highwater_core::{Random, Timestamp};
use highwater_seam::{Freshness, Nanos};

use super::journal::Asked;
use super::wanted::Wanted;
use crate::units::MS;
use crate::world::Reply;

/// Tokens that are remembered.
const TOKENS: usize = 8;

/// What replies told.
#[derive(Default)]
pub(super) struct Answers {
    /// The last ones that spoke of a moment: the moment, and what ended before this is at or below it.
    tokens: VecDeque<(Timestamp, Option<Nanos>)>,
    /// The largest timestamp that was acknowledged up to then.
    acknowledged: BTreeMap<Nanos, Timestamp>,
}

impl Answers {
    /// What a read asks for that begins at `now`, if `percent` of a hundred ask for something.
    pub(super) fn draw(&self, random: &mut Random, percent: u8, now: Nanos) -> Wanted {
        if percent == 0 || random.below(100) >= u64::from(percent) {
            return Wanted::default();
        }
        if self.tokens.is_empty() || random.one_in(2) {
            return Wanted::within(random.pick(&[0, MS, 20 * MS, 200 * MS]), now);
        }
        let (least, since) = self.tokens[random.below(self.tokens.len() as u64) as usize];
        Wanted { freshness: Some(Freshness::Since(least)), since, least }
    }

    /// A reply came that speaks of a moment.
    pub(super) fn hear(&mut self, reply: &Reply, asked: &Asked) {
        if reply.moment == Timestamp::ZERO {
            return;
        }
        // What was acknowledged before a transaction began is below it. A snapshot holds what it was asked to hold.
        let since = if asked.snap { asked.wanted.since } else { Some(asked.invoked) };
        self.tokens.push_back((reply.moment, since));
        if self.tokens.len() > TOKENS {
            self.tokens.pop_front();
        }
        if !asked.snap {
            let before = self.acknowledged.last_key_value().map_or(Timestamp::ZERO, |(_, moment)| *moment);
            self.acknowledged.insert(reply.at, reply.moment.max(before));
        }
    }

    /// What a snapshot that was shown lacks of what was asked of it.
    pub(super) fn missed(&self, reply: &Reply, asked: &Asked) -> Option<String> {
        let before = asked.wanted.since.unwrap_or(0);
        let acknowledged =
            self.acknowledged.range(..before).next_back().map_or(Timestamp::ZERO, |(_, moment)| *moment);
        let least = asked.wanted.least.max(acknowledged);
        (asked.snap && reply.moment < least)
            .then(|| format!("a read that had to see what is at {least} saw {}: {asked:?}", reply.moment))
    }
}
