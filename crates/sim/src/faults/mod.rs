//! What goes wrong in a run, and the hand that does it.
//!
//! Every fault is an event of the plan with a time of its own, and is undone by itself. Two rules keep runs fair:
//!
//! - memory is never lost beyond what `docs/guarantees.md` allows: a node is killed only if a majority of voters with
//!   complete stores is left, whichever membership counts ([`spare`]); with disks nobody loses what was promised, and anybody may be
//!   killed;
//! - cuts, pauses and delays may hit anybody, a majority included.

use highwater_core::level::REHEARSED;
use highwater_seam::Nanos;
use serde::{Deserialize, Serialize};

mod cuts;
pub(crate) mod draw;
mod hand;
mod standing;
mod victims;

pub use crate::world::starting::Step;
pub use hand::Hand;
pub use standing::{memberships, outvotes, sound, spare};

/// As long as the run is under faults.
pub const LASTING: Nanos = 1 << 60;

/// A fault and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduled {
    /// In ns, from the first leader on.
    pub at_ns: Nanos,
    /// How long until it is undone, in ns. [`LASTING`]: until everything heals.
    pub for_ns: Nanos,
    /// What happens.
    pub fault: Fault,
}

/// Whom it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    /// Whoever leads then.
    Leader,
    /// The next one that stands for election or takes over.
    Candidate,
    /// The next one that copies the state, or waits to be admitted.
    Learner,
    /// The next one that opens an epoch, right then.
    Opener,
    Node(u8),
}

/// The part of a disk that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A group in the middle of the journal.
    Journal,
    /// So many of the newest checkpoints.
    Checkpoints(u8),
}

/// Why no file can be created or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// No descriptor is left (EMFILE, ENFILE): it is tried again.
    Descriptors,
    /// No room (ENOSPC): the same.
    Room,
    /// The disk says no (EIO): the process ends.
    Broken,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The process ends; after the time it comes back with empty memory.
    Kill(Victim),
    /// The same, but the machine is gone with it: for so long, in ns, its peers hear nothing of the end.
    Vanish(Victim, Nanos),
    /// Power fails everywhere: all processes end, and come back with their disks. Without disks it does not happen.
    PowerCut,
    /// Power fails everywhere, and so many of the nodes begin a new cluster from what the disks hold; after the time all come back, the
    /// others as nodes of the old one.
    FoundAnew(u8),
    /// The process ends, and its disk is gone: after the time it comes back as somebody new.
    Wipe(u8),
    /// The process ends, and its disk becomes an older copy of itself; after the time it comes back, and is recognised.
    RestoreDisk(u8),
    /// The same, and that copy was started so many times before, for a moment, while nobody heard of it.
    RestoreUnheard(u8, u16),
    /// The process ends, and the names of its journal's and checkpoints' files are lost; its identity is there. After the time it comes back
    /// as somebody new.
    LoseNames(u8),
    /// A disk is about to be full: it takes so many bytes yet.
    FillDisk(Victim, u64),
    /// Every sync of a disk takes so much longer, in ns.
    SlowDisk(Victim, Nanos),
    /// A disk answers nothing: no sync ends.
    HungDisk(Victim),
    /// Bytes of a disk are no more what was written. Its node notices when it starts again.
    Rot(u8, Part),
    /// No file can be created or opened on a machine, those that are open aside.
    FailOpen(Victim, Lack),
    /// The next starts of a node's process end early, one at each of these steps; somebody starts it again.
    EndStarts(u8, Vec<Step>),
    /// An operator has a leader hand its lead over, to anybody.
    HandOver(Victim),
    /// A disk's next sync fails, and the process ends with it; after the time it comes back.
    FailSync(Victim),
    /// An operator has the node join the cluster: starts it, if nobody has, and asks until that is done.
    Add(u8),
    /// An operator has the node removed from the cluster: asks until that is done.
    Remove(u8),
    /// An operator has the second node take the place of the first.
    Replace(u8, u8),
    /// The process ends; after the time it comes back as one of another build, whose newest level is this. Nobody takes a node back
    /// when the level was raised.
    Build(u8, u8),
    /// The process stands still.
    Pause(Victim),
    /// All connections between two nodes break; what was on its way is lost. They reconnect.
    Break(u8, u8),
    /// Nothing goes in or out.
    Isolate(Victim),
    /// Nothing goes out; what comes in arrives.
    Mute(Victim),
    /// Nothing comes in; what goes out arrives.
    Deafen(Victim),
    /// Nothing goes from the first to the second.
    OneWay(u8, u8),
    /// A node and all others but so many do not hear each other: too few for it to lead, and somebody who hears it still.
    Strand(Victim, u8),
    /// Two nodes do not hear each other; others hear both.
    Part(u8, u8),
    /// The same for several pairs: a bit each, pairs in the order 01, 02, .., 12, ..
    Web(u32),
    /// Nodes of the set (a bit each) and the others do not hear each other.
    Split(u8),
    /// The same, but for one node that hears all.
    Bridge(u8, u8),
    /// The connections between two nodes break again and again.
    Flap(u8, u8),
    /// Frames between all nodes take this many times as long.
    Lag(u64),
    /// What goes from the first to the second stands still, then arrives in a burst.
    Clog(u8, u8),
    /// All turns of a node take this many times as long.
    Slow(Victim, u64),
    /// The turns of one worker of a node take this many times as long.
    Starve(Victim, u16, u64),
    /// The turns of a node's controller take this many times as long.
    StarveControl(Victim, u64),
    /// One worker of a node gets no turn at all, wherever it stands in the one it has.
    Stick(Victim, u16),
    /// A node's controller gets no turn at all.
    StickControl(Victim),
    /// A node's clock for timeouts jumps ahead by this, in ns.
    Leap(u8, Nanos),
    /// A node's clock for timeouts runs at this rate from now on, in millionths.
    Rate(u8, u64),
    /// The counter that a node's commits read jumps ahead by this.
    LeapCommits(u8, u64),
    /// The counter that a node's commits read jumps back by this, and ahead again in the end.
    SetBack(u8, u64),
    /// The counter that a node's commits read hardly moves.
    StallCommits(u8),
    /// Everything between workers of this number stands still.
    Hold(u16),
    /// Clients cannot reach a node.
    Shun(Victim),
}

/// The names of all kinds of faults that are drawn.
pub const KINDS: &[&str] = &[
    "kill",
    "kill_candidate",
    "kill_learner",
    "kill_opener",
    "vanish",
    "pause",
    "break",
    "isolate",
    "mute",
    "deafen",
    "one_way",
    "strand",
    "part",
    "web",
    "split",
    "bridge",
    "flap",
    "lag",
    "clog",
    "slow",
    "starve",
    "starve_control",
    "stick",
    "stick_control",
    "leap",
    "rate",
    "leap_commits",
    "set_back",
    "stall_commits",
    "hold",
    "shun",
];

impl Fault {
    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::Kill(Victim::Candidate) => "kill_candidate",
            Fault::Kill(Victim::Learner) => "kill_learner",
            Fault::Kill(Victim::Opener) => "kill_opener",
            Fault::Kill(_) => "kill",
            Fault::PowerCut => "power_cut",
            Fault::FoundAnew(_) => "found_anew",
            Fault::Wipe(_) => "wipe",
            Fault::RestoreDisk(_) => "restore_disk",
            Fault::RestoreUnheard(..) => "restore_unheard",
            Fault::LoseNames(_) => "lose_names",
            Fault::FillDisk(..) => "fill_disk",
            Fault::SlowDisk(..) => "slow_disk",
            Fault::HungDisk(_) => "hung_disk",
            Fault::FailSync(_) => "fail_sync",
            Fault::Rot(_, Part::Journal) => "rot_journal",
            Fault::Rot(_, Part::Checkpoints(_)) => "rot_checkpoints",
            Fault::FailOpen(..) => "fail_open",
            Fault::EndStarts(..) => "end_starts",
            Fault::HandOver(_) => "hand_over",
            Fault::Add(_) => "add",
            Fault::Remove(_) => "remove",
            Fault::Replace(..) => "replace",
            Fault::Build(..) => "build",
            Fault::Pause(_) => "pause",
            Fault::Break(..) => "break",
            Fault::Isolate(_) => "isolate",
            Fault::Mute(_) => "mute",
            Fault::Deafen(_) => "deafen",
            Fault::OneWay(..) => "one_way",
            Fault::Strand(..) => "strand",
            Fault::Part(..) => "part",
            Fault::Web(_) => "web",
            Fault::Split(_) => "split",
            Fault::Bridge(..) => "bridge",
            Fault::Flap(..) => "flap",
            Fault::Vanish(..) => "vanish",
            Fault::Lag(_) => "lag",
            Fault::Clog(..) => "clog",
            Fault::Slow(..) => "slow",
            Fault::Starve(..) => "starve",
            Fault::StarveControl(..) => "starve_control",
            Fault::Stick(..) => "stick",
            Fault::StickControl(_) => "stick_control",
            Fault::SetBack(..) => "set_back",
            Fault::Leap(..) => "leap",
            Fault::Rate(..) => "rate",
            Fault::LeapCommits(..) => "leap_commits",
            Fault::StallCommits(_) => "stall_commits",
            Fault::Hold(_) => "hold",
            Fault::Shun(_) => "shun",
        }
    }

    /// Whether an operator orders it.
    pub fn is_order(&self) -> bool {
        matches!(self, Fault::Add(_) | Fault::Remove(_) | Fault::Replace(..))
    }

    /// Whether the nodes that it names exist, of so many.
    pub fn fits(&self, nodes: u8) -> bool {
        let known = |node: u8| node < nodes;
        match self {
            Fault::Kill(victim)
            | Fault::Vanish(victim, _)
            | Fault::FillDisk(victim, _)
            | Fault::SlowDisk(victim, _)
            | Fault::HungDisk(victim)
            | Fault::FailSync(victim)
            | Fault::FailOpen(victim, _)
            | Fault::HandOver(victim)
            | Fault::Pause(victim)
            | Fault::Isolate(victim)
            | Fault::Mute(victim)
            | Fault::Deafen(victim)
            | Fault::Strand(victim, _)
            | Fault::Slow(victim, _)
            | Fault::Starve(victim, ..)
            | Fault::StarveControl(victim, _)
            | Fault::Stick(victim, _)
            | Fault::StickControl(victim)
            | Fault::Shun(victim) => !matches!(victim, Victim::Node(node) if !known(*node)),
            Fault::Break(a, b)
            | Fault::Replace(a, b)
            | Fault::OneWay(a, b)
            | Fault::Part(a, b)
            | Fault::Flap(a, b)
            | Fault::Clog(a, b) => known(*a) && known(*b) && a != b,
            Fault::Bridge(_, node)
            | Fault::Leap(node, _)
            | Fault::LeapCommits(node, _)
            | Fault::SetBack(node, _)
            | Fault::Wipe(node)
            | Fault::RestoreDisk(node)
            | Fault::RestoreUnheard(node, _)
            | Fault::LoseNames(node)
            | Fault::Rot(node, _)
            | Fault::EndStarts(node, _)
            | Fault::Add(node)
            | Fault::Remove(node)
            | Fault::StallCommits(node) => known(*node),
            // The others are too few to serve.
            Fault::FoundAnew(founders) => *founders <= nodes && *founders > nodes / 2,
            Fault::Rate(node, rate) => known(*node) && *rate > 0,
            Fault::Build(node, newest) => known(*node) && (1..=REHEARSED.0).contains(newest),
            Fault::PowerCut | Fault::Split(_) | Fault::Web(_) | Fault::Lag(_) | Fault::Hold(_) => true,
        }
    }
}
