//! The figures of a replica with logs, and what they mean when replicas are compared.

use highwater_core::NodeId;
use highwater_seam::engine::whole;
use highwater_seam::{Service, Status};

/// Figures: every transaction at or below is released (leader) or may be applied (follower).
pub const MARK: &str = "mark";
/// Of each stream: the last entry that this replica holds,
pub const ACCEPTED: &str = "accepted";
/// the last one that it knows to be decided,
pub const DECIDED: &str = "decided";
/// and the last one that is installed in its store completely;
pub const APPLIED: &str = "applied";
/// no decided transaction of this epoch is missing at or below;
pub const CLOSED: &str = "closed";
/// bytes of log kept.
pub const LOG_BYTES: &str = "log_bytes";

/// See [`Engine::converged`](highwater_seam::Engine::converged).
pub fn converged(statuses: &[Option<Status>], serving: Option<NodeId>) -> Result<u64, String> {
    let (all, leader) = whole(statuses, serving)?;
    let decided = leader.figure(DECIDED);
    if leader.figure(ACCEPTED) != decided {
        return Err("there are undecided entries on the leader".into());
    }
    // Whole lists: a figure that is missing must not pass for one that is equal.
    match all.into_iter().find(|status| status.figure(APPLIED) != decided) {
        Some(behind) => {
            let (node, applied) = (behind.node.0, behind.figure(APPLIED));
            return Err(format!(
                "replica {node} applied {applied:?} of {decided:?} entries, stream by stream"
            ));
        }
        None if decided.is_empty() => return Err("the leader names no streams".into()),
        None => {}
    }
    Ok(decided.iter().sum())
}

/// Decided entries of the leader's that are not applied here.
pub fn lag(own: &Status, leader: &Status) -> u64 {
    let streams = leader.figure(DECIDED).iter().zip(own.figure(APPLIED));
    streams.map(|(decided, applied)| decided.saturating_sub(*applied)).sum()
}

/// What a replica is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for the first meeting of all members, or to be told of a living cluster.
    Starting,
    /// Was removed from the cluster.
    Removed,
    /// Copies the state; does not vote.
    Learner,
    /// Votes and applies.
    Follower,
    /// Asks for promises or completes a takeover.
    Candidate,
    /// Executes transactions.
    Leader,
}

impl Role {
    /// Its name in `status`.
    pub fn name(self) -> &'static str {
        match self {
            Role::Starting => "starting",
            Role::Removed => "removed",
            Role::Learner => "learner",
            Role::Follower => "follower",
            Role::Candidate => "candidate",
            Role::Leader => "leader",
        }
    }

    /// What that is to a client.
    pub fn service(self) -> Service {
        match self {
            Role::Removed => Service::Removed,
            Role::Starting => Service::Starting,
            Role::Learner => Service::Joining,
            Role::Follower | Role::Candidate => Service::Standby,
            Role::Leader => Service::Serving,
        }
    }
}
