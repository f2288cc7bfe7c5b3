//! The legal choices of consensus that only a simulator makes, by name. What they are for: [`highwater_core::hooks`].

use highwater_core::hooks::{Frequency, Site};

/// A follower asks for pre-votes without missing its leader: it may have been cut off for a moment.
pub const ASK_EARLY: Site = Site::new("AskEarly").made(Frequency::Seldom);
/// A follower stands without asking for pre-votes: they spare elections, and no safety depends on them.
pub const SKIP_PRE_VOTE: Site = Site::new("SkipPreVote").made(Frequency::Seldom);

/// A follower does not say that it follows: an earlier build does not know the question, and an answer may be lost.
pub const NO_ANSWER: Site = Site::new("NoAnswer");

/// Every choice of consensus.
pub const SITES: &[Site] = &[ASK_EARLY, SKIP_PRE_VOTE, NO_ANSWER];
