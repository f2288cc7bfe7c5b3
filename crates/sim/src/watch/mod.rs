//! What must hold over all nodes and all their lives, compared while the world runs.
//!
//! The product tells facts (`highwater_core::hooks::tell`); here they meet those of the other nodes. Of any engine:
//! - what a leading worker holds is bounded, and so are a log and what a store takes of the memory;
//! - no procedure panics.
//!
//! What else an engine's replicas must keep together is said by its own rules, `rolis` for one. The engine of a run
//! chooses them.

mod limits;
mod rolis;
mod rules;
mod seen;

use highwater_core::NodeId;
use highwater_core::hooks::Fact;
use highwater_engines::EngineKind;
use highwater_engines::memory::MemoryStatus;

use crate::stage::Actor;
pub use limits::Limits;
use rolis::RolisRules;
use rules::{NoRules, Rules};
pub use seen::Seen;

/// Violations that are kept. One is enough; the others are its children.
const KEPT: usize = 16;

/// Compares.
#[derive(Debug)]
pub struct Watch {
    limits: Limits,
    /// The most that anybody held.
    most: Limits,
    /// The engine's own.
    rules: Box<dyn Rules>,
    violations: Vec<String>,
}

/// An engine's rules.
fn rules_of(engine: EngineKind) -> Box<dyn Rules> {
    match engine {
        EngineKind::Rolis | EngineKind::Strawman => Box::new(RolisRules::default()),
        EngineKind::Silo | EngineKind::Backup => Box::new(NoRules),
    }
}

impl Watch {
    /// Over replicas of an engine whose workers may hold so much.
    pub(crate) fn new(engine: EngineKind, limits: Limits) -> Watch {
        Watch { limits, most: Limits::default(), rules: rules_of(engine), violations: Vec::new() }
    }

    /// What was wrong, in words.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// What was seen.
    pub fn seen(&self) -> Seen {
        let mut seen = Seen { most: self.most, ..Seen::default() };
        self.rules.count(&mut seen);
        seen
    }

    pub(crate) fn log_bytes(&mut self, node: NodeId, bytes: u64) {
        self.most.log_bytes = self.most.log_bytes.max(bytes);
        if bytes > self.limits.log_bytes {
            self.violation(format!(
                "{node} keeps {bytes} bytes of one log, more than {}",
                self.limits.log_bytes
            ));
        }
    }

    /// A store and its logs keep to their shares and the slack. What is installed before the leader hears how much that takes
    /// was in a log, and paid for there.
    pub(crate) fn memory(&mut self, node: NodeId, memory: MemoryStatus) {
        let MemoryStatus { shares, used, logs, .. } = memory;
        let most = shares.store.saturating_add(shares.slack).saturating_add(shares.logs);
        if used + logs > most {
            self.violation(format!("{node}'s store takes {used} bytes, its logs {logs}, of {most}"));
        }
    }

    pub(crate) fn tell(&mut self, actor: Actor, fact: Fact<'_>) {
        match fact {
            // The simulated procedures bear whatever they may see.
            Fact::Panicked { procedure, message } => {
                self.violation(format!("{procedure} panicked on {}: {message}", actor.node));
            }
            Fact::Holds { undecided_bytes, replies } => self.holds(actor, undecided_bytes, replies),
            of_engine => {
                self.rules.tell(actor, of_engine).into_iter().for_each(|what| self.violation(what));
            }
        }
    }

    fn holds(&mut self, actor: Actor, undecided_bytes: u64, replies: usize) {
        self.most.undecided_bytes = self.most.undecided_bytes.max(undecided_bytes);
        self.most.replies = self.most.replies.max(replies);
        if undecided_bytes > self.limits.undecided_bytes || replies > self.limits.replies {
            self.violation(format!(
                "{} holds {undecided_bytes} undecided bytes and {replies} replies, limits {:?}",
                actor.node, self.limits
            ));
        }
    }

    fn violation(&mut self, what: String) {
        if self.violations.len() < KEPT {
            self.violations.push(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::{EntryIndex, Epoch, Incarnation, StreamId, Timestamp};

    use super::*;
    use crate::network::Channel;

    fn actor(node: u8) -> Actor {
        Actor { node: NodeId(node), life: Incarnation(9), who: Channel::Worker(0) }
    }

    fn told(facts: &[(u8, Fact<'_>)]) -> Vec<String> {
        let limits = Limits { undecided_bytes: 10, replies: 10, log_bytes: 10 };
        let mut watch = Watch::new(EngineKind::Rolis, limits);
        facts.iter().for_each(|(node, fact)| watch.tell(actor(*node), *fact));
        watch.violations
    }

    #[test]
    fn each_violation_is_noticed_in_either_order() {
        let (one, two) = (Epoch(1), Epoch(2));
        let decided = |entry| Fact::Decided { stream: StreamId(0), index: EntryIndex(3), entry };
        assert!(
            told(&[(0, decided(b"a")), (1, decided(b"a")), (0, Fact::Leads(one)), (1, Fact::Leads(two))])
                .is_empty()
        );
        for wrong in [
            [(0, decided(b"a")), (1, decided(b"b"))],
            [(0, Fact::Leads(one)), (1, Fact::Leads(one))],
            [(0, Fact::Mark(one, Timestamp(5))), (0, Fact::Mark(one, Timestamp(4)))],
            [(0, Fact::Mark(one, Timestamp(5))), (1, Fact::Final(one, Timestamp(4)))],
            [(0, Fact::Final(one, Timestamp(4))), (1, Fact::Applied(one, StreamId(0), Timestamp(5)))],
            [(1, Fact::Applied(one, StreamId(0), Timestamp(5))), (0, Fact::Final(one, Timestamp(4)))],
            [(0, Fact::Final(one, Timestamp(4))), (1, Fact::Final(one, Timestamp(5)))],
            [(0, Fact::Leads(one)), (0, Fact::Holds { undecided_bytes: 11, replies: 0 })],
        ] {
            assert_eq!(told(&wrong).len(), 1, "{wrong:?}");
        }
        let released =
            [(0, Fact::Leads(one)), (0, Fact::Released(Timestamp(5))), (1, Fact::Final(one, Timestamp(4)))];
        assert_eq!(told(&released).len(), 1);
        let restarted =
            [(0, Fact::Mark(one, Timestamp(5))), (0, Fact::Restarted), (0, Fact::Mark(one, Timestamp(4)))];
        assert!(told(&restarted).is_empty());
    }

    #[test]
    fn a_fact_without_a_rule_is_noticed() {
        let mut watch = Watch::new(EngineKind::Backup, Limits::default());
        watch.tell(actor(0), Fact::Holds { undecided_bytes: 0, replies: 0 });
        assert!(watch.violations().is_empty(), "any engine may tell this");
        watch.tell(actor(0), Fact::Leads(Epoch(1)));
        assert_eq!(watch.violations().len(), 1);
    }
}
