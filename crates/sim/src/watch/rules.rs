//! What the replicas of one engine must keep together, beside what those of any engine must.

use std::fmt::Debug;

use highwater_core::hooks::Fact;

use super::seen::Seen;
use crate::stage::Actor;

/// The rules of one engine: its facts, compared over all nodes and all their lives.
pub(super) trait Rules: Debug {
    /// Takes a fact in; says what it contradicts, in words.
    fn tell(&mut self, actor: Actor, fact: Fact<'_>) -> Vec<String>;

    /// Adds what was counted so far.
    fn count(&self, seen: &mut Seen);
}

/// Of an engine that tells nothing of its own. A fact without a rule would look as if somebody compared it, so it is a
/// violation.
#[derive(Debug)]
pub(super) struct NoRules;

impl Rules for NoRules {
    fn tell(&mut self, actor: Actor, fact: Fact<'_>) -> Vec<String> {
        vec![format!("{} tells what no rule of its engine is about: {fact:?}", actor.node)]
    }

    fn count(&self, _: &mut Seen) {}
}
