//! What must hold over all nodes and all their lives, compared while the world runs.
//!
//! The product tells facts (`highwater_core::hooks::tell`); here they meet those of the other nodes. Of any engine:
//! - what a leading worker holds is bounded, and so are a log and what a store takes of the memory;
//! - no procedure panics.
//!
//! The rest that an engine's replicas must keep together is said by its own rules ([`Engine::rules`](highwater_seam::Engine::rules)).

mod limits;
mod seen;

use highwater_core::NodeId;
use highwater_core::hooks::Fact;
use highwater_engines::EngineKind;
use highwater_seam::memory::MemoryStatus;
use highwater_seam::{Rules, Teller};

pub use limits::Limits;
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
    /// Whom it compares: a bit each.
    over: u32,
    violations: Vec<String>,
}

impl Watch {
    /// Over replicas of an engine whose workers may hold so much.
    pub(crate) fn new(engine: EngineKind, limits: Limits) -> Watch {
        Watch {
            limits,
            most: Limits::default(),
            rules: engine.rules(),
            over: u32::MAX,
            violations: Vec::new(),
        }
    }

    /// Another cluster begins, of these nodes: what the old one's said is no measure for them, nor what is left of it says.
    pub(crate) fn begin_anew(&mut self, engine: EngineKind, over: u32) {
        (self.rules, self.over) = (engine.rules(), over);
    }

    /// What was wrong, in words.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    pub fn seen(&self) -> Seen {
        Seen { counts: self.rules.counts(), most: self.most }
    }

    /// It is so late.
    pub(crate) fn set_now(&mut self, now: u64) {
        self.rules.set_now(now);
    }

    /// See [`Rules::take_lost_since`].
    pub(crate) fn take_lost_since(&mut self) -> Option<u64> {
        self.rules.take_lost_since()
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

    pub(crate) fn tell(&mut self, who: Teller, fact: Fact<'_>) {
        match fact {
            // The simulated procedures bear whatever they may see.
            Fact::Panicked { procedure, message } => {
                self.violation(format!("{procedure} panicked on {}: {message}", who.node));
            }
            Fact::Holds { undecided_bytes, replies } => self.holds(who, undecided_bytes, replies),
            Fact::Own(_) if self.over >> who.node.0 & 1 == 0 => {}
            Fact::Own(fact) => {
                self.rules.tell(who, fact).into_iter().for_each(|what| self.violation(what));
            }
        }
    }

    fn holds(&mut self, who: Teller, undecided_bytes: u64, replies: usize) {
        self.most.undecided_bytes = self.most.undecided_bytes.max(undecided_bytes);
        self.most.replies = self.most.replies.max(replies);
        if undecided_bytes > self.limits.undecided_bytes || replies > self.limits.replies {
            self.violation(format!(
                "{} holds {undecided_bytes} undecided bytes and {replies} replies, limits {:?}",
                who.node, self.limits
            ));
        }
    }

    /// Something that must not be was seen from outside.
    pub(crate) fn note(&mut self, what: String) {
        self.violation(what);
    }

    fn violation(&mut self, what: String) {
        if self.violations.len() < KEPT {
            self.violations.push(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::Incarnation;

    use super::*;

    const WHO: Teller = Teller { node: NodeId(0), life: Incarnation(9), worker: Some(0) };

    /// An engine's own fact.
    struct Unheard;

    #[test]
    fn what_any_engine_tells_is_compared_with_the_limits() {
        let limits = Limits { undecided_bytes: 10, replies: 10, log_bytes: 10 };
        let mut watch = Watch::new(EngineKind::Backup, limits);
        watch.tell(WHO, Fact::Holds { undecided_bytes: 10, replies: 10 });
        assert!(watch.violations().is_empty());
        watch.tell(WHO, Fact::Holds { undecided_bytes: 11, replies: 0 });
        watch.tell(WHO, Fact::Holds { undecided_bytes: 0, replies: 11 });
        watch.tell(WHO, Fact::Panicked { procedure: "count", message: "no" });
        assert_eq!(watch.violations().len(), 3);
        assert_eq!(watch.seen().most, Limits { undecided_bytes: 11, replies: 11, log_bytes: 0 });
    }

    /// Of an engine with rules, which do not know it, and of one without.
    #[test]
    fn a_fact_without_a_rule_is_noticed() {
        for engine in [EngineKind::Rolis, EngineKind::Backup] {
            let mut watch = Watch::new(engine, Limits::default());
            watch.tell(WHO, Fact::Own(&Unheard));
            assert_eq!(watch.violations().len(), 1, "{engine}");
        }
    }
}
