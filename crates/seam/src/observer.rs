//! What an engine's replicas must keep together, compared by an observer of all nodes and all their lives: a simulator.
//!
//! A replica tells [facts](highwater_core::hooks::tell_own) of its engine's own; the engine's [`Rules`] take them all in, and say
//! what they contradict. What must hold whatever the engine is the observer's own business.

use std::any::Any;
use std::fmt::Debug;

use highwater_core::{Incarnation, NodeId};

/// Who tells a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Teller {
    /// Which node.
    pub node: NodeId,
    /// In which life of its memory.
    pub life: Incarnation,
    /// Which of its workers; `None`: its controller.
    pub worker: Option<u16>,
}

/// The rules of one engine: its facts, compared over all nodes and all their lives.
pub trait Rules: Debug {
    /// Takes a fact in; says what it contradicts, in words.
    fn tell(&mut self, who: Teller, fact: &dyn Any) -> Vec<String>;

    /// It is so late by the observer's clock, in nanoseconds: told before facts.
    fn set_now(&mut self, now: u64) {
        let _ = now;
    }

    /// Since when what was acknowledged may be lost, by the observer's clock, if a fact said that since it was asked last: where that is earlier than
    /// the oldest record that was on no disk.
    fn take_lost_since(&mut self) -> Option<u64> {
        None
    }

    /// What was counted so far, by name. [`EPOCHS`] and [`TAKEOVERS`] are in every report of a simulated run.
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// Changes of who serves, the first one included.
pub const EPOCHS: &str = "epochs opened";
/// Changes of who serves after which what was acknowledged last may be lost.
pub const LOSSES: &str = "epochs won after a loss";
/// Times that the level in use was raised.
pub const RAISES: &str = "levels raised";
/// Changes of who serves that were begun.
pub const TAKEOVERS: &str = "takeovers begun";

/// Of an engine that tells nothing of its own. A fact without a rule would look as if somebody compared it, so it is a
/// violation.
#[derive(Debug)]
pub struct NoRules;

impl Rules for NoRules {
    fn tell(&mut self, who: Teller, _: &dyn Any) -> Vec<String> {
        vec![unknown(who)]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// What is to be said of a fact that the rules of its engine do not know.
pub fn unknown(who: Teller) -> String {
    format!("{} tells what no rule of its engine is about", who.node)
}
