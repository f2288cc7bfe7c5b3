//! What a replica says about itself: to people, to reports, and to whoever asks which of several serves.

use std::borrow::Cow;
use std::fmt;

use highwater_core::{Epoch, Incarnation, Level, Levels, Nanos, NodeId};

/// How far a replica is on its way to take clients' transactions, whatever its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// It was removed from its cluster.
    Removed,
    /// It has no part in a cluster yet: waits for the first meeting of all members, or to be told of a living cluster.
    Starting,
    /// It gets the state, and has no say.
    Joining,
    /// It has its say, and refers clients to another one.
    Standby,
    /// It is the one that clients should ask, and it refuses them: it hears no majority, or is not in order itself.
    Stalled,
    /// It takes clients' transactions.
    Serving,
}

impl Service {
    /// Every one, in this order.
    pub const ALL: [Service; 6] = [
        Service::Removed,
        Service::Starting,
        Service::Joining,
        Service::Standby,
        Service::Stalled,
        Service::Serving,
    ];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Service::Removed => "removed",
            Service::Starting => "starting",
            Service::Joining => "joining",
            Service::Standby => "standby",
            Service::Stalled => "stalled",
            Service::Serving => "serving",
        }
    }

    /// Whether clients' transactions are its business: it takes them, or is the one that has to refuse them.
    pub fn leads(self) -> bool {
        self >= Service::Stalled
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A replica's state, for `highwater status`, the demo and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This node.
    pub node: NodeId,
    /// This life of its memory.
    pub incarnation: Incarnation,
    /// Whether it takes transactions.
    pub service: Service,
    /// What it does, in its engine's word: `follower`.
    pub role: Cow<'static, str>,
    /// Grows whenever it changes who serves or who belongs; 0 before.
    pub epoch: Epoch,
    /// Whom clients should ask, as far as it has heard lately: itself, if it serves.
    pub ask: Option<NodeId>,
    /// How long ago it heard one that serves and vouches for itself, whoever it was; `None` if it serves itself, or never did.
    pub heard_ago: Option<Nanos>,
    /// How far it is, in the engine's own terms. Each is named once.
    pub figures: Vec<Figure>,
    /// Who belongs, and how far each follows (who serves knows; others list them without lag).
    pub members: Vec<Member>,
    /// Progress of a state copy, if one is under way: bytes received so far.
    pub copying_bytes: Option<u64>,
    /// Whom it asked for the copy, once it has asked.
    pub copying_from: Option<NodeId>,
    /// It crashed before everything that it had accepted was on its disk, and has not caught up with that: no other node should be restarted.
    pub forgets: bool,
    /// How fresh the state is that it shows to reads with a bound: everything that was acknowledged to anybody at least so long ago is in
    /// it. As of the last answer of whoever serves: it grows until there is [another](super::Controller::find_freshness). 0 if it
    /// serves; `None` if it shows nothing, nobody has vouched for it yet, or the engine promises no freshness.
    pub freshness: Option<Nanos>,
    /// What its build speaks.
    pub levels: Levels,
    /// The level in use, if the engine agrees on one.
    pub level: Option<Level>,
    /// Of who serves: it could raise the level, but for these nodes.
    pub held_back_by: Vec<NodeId>,
    /// Why it cannot serve, in words, if it cannot. There always is a reason while it is [stalled](Service::Stalled).
    pub trouble: Option<String>,
}

impl Status {
    /// Whether it takes transactions.
    pub fn serves(&self) -> bool {
        self.service == Service::Serving
    }

    /// See [`Service::leads`].
    pub fn leads(&self) -> bool {
        self.service.leads()
    }

    /// The values of a figure; none if it has no such figure.
    pub fn figure(&self, name: &str) -> &[u64] {
        self.figures.iter().find(|figure| figure.name == name).map_or(&[], |figure| &figure.values)
    }

    /// Whether `other` counts this life of this node as one that has its say.
    pub fn votes_by(&self, other: &Status) -> bool {
        other
            .members
            .iter()
            .any(|member| member.node == self.node && member.voter && member.incarnation == self.incarnation)
    }
}

/// A measure of a replica's progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What is measured, as people read it.
    pub name: Cow<'static, str>,
    /// Whether there is a value for each part of the replica (worker, stream, partition), or one for all of it.
    pub of_parts: bool,
    /// In the order of the parts.
    pub values: Vec<u64>,
}

impl Figure {
    /// A figure of the whole replica.
    pub fn one(name: &'static str, value: u64) -> Figure {
        Figure { name: name.into(), of_parts: false, values: vec![value] }
    }

    /// A figure of each part.
    pub fn each(name: &'static str, values: impl IntoIterator<Item = u64>) -> Figure {
        Figure { name: name.into(), of_parts: true, values: values.into_iter().collect() }
    }
}

/// One replica as another one sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub node: NodeId,
    /// Which life of it is admitted.
    pub incarnation: Incarnation,
    /// Whether it has a say in what is decided.
    pub voter: bool,
    /// Whether this very life is here: a node that came back without memory is another one. Only who serves knows.
    pub connected: Option<bool>,
    /// What it has not acknowledged, in the engine's measure; only who serves knows.
    pub lag: Option<u64>,
    /// What its build speaks, if it is connected.
    pub levels: Option<Levels>,
    /// How long ago it was last heard, in nanoseconds; only who serves knows, `None` also if it never was.
    pub heard_ago: Option<Nanos>,
}
