//! How a run fails.

use std::fmt;

use highwater_seam::Nanos;

use crate::plan::Plan;
use crate::units::MS;

/// How a run fails: what a shrunk plan has to keep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// An assertion of the product, by `file:line`.
    Assertion(String),
    /// No leader, no progress, no convergence in time: which.
    Stuck(&'static str),
    /// The world's watch over all nodes saw a broken invariant.
    Invariant,
    /// The checker found an anomaly.
    Anomaly,
    /// Replicas differ.
    Diverged,
    /// A promise about single things is broken: bank, audit, toggles, one answer, one leader.
    Promise(&'static str),
    /// Two runs of one plan are not the same.
    Differs,
    /// It does not end.
    Hangs,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Assertion(place) => write!(f, "assertion at {place}"),
            FailureKind::Stuck(what) => write!(f, "stuck: {what}"),
            FailureKind::Invariant => f.write_str("broken invariant"),
            FailureKind::Anomaly => f.write_str("not strictly serializable"),
            FailureKind::Diverged => f.write_str("replicas differ"),
            FailureKind::Promise(what) => write!(f, "broken promise: {what}"),
            FailureKind::Differs => f.write_str("not deterministic"),
            FailureKind::Hangs => f.write_str("endless"),
        }
    }
}

/// Why a run ends before its end.
pub(super) struct Verdict {
    pub kind: FailureKind,
    pub what: String,
    pub at: Nanos,
    pub story: String,
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: FailureKind,
    /// What is wrong, in words.
    pub what: String,
    /// When, in virtual time.
    pub at: Nanos,
    /// What was run.
    pub plan: Plan,
    /// Faults, the last words of every node, and how each stands.
    pub story: String,
}

impl Failure {
    /// Two runs of this plan were not the same.
    pub fn differs(plan: &Plan) -> Box<Failure> {
        let what = "two runs have different traces".to_string();
        Box::new(Failure {
            kind: FailureKind::Differs,
            what,
            at: 0,
            plan: plan.clone(),
            story: String::new(),
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at as f64 / MS as f64;
        write!(f, "seed {}: {} at {at:.3} ms: {}", self.plan.seed, self.kind, self.what)
    }
}
