//! What a replica says about itself, and why it cannot serve if it cannot.

use std::collections::BTreeMap;

use highwater_consensus::{Quorums, Standing, Voter};
use highwater_core::NodeId;

use super::controller::RolisController;
use crate::seam::{Member, Nanos, Role, Status};
use crate::sync::Ordering;

impl RolisController {
    pub(super) fn role(&self) -> Role {
        if self.election.members().is_none() {
            Role::Starting
        } else if self.leading.is_some() {
            Role::Leader
        } else if !self.election.votes() {
            Role::Learner
        } else if self.election.standing() == Standing::Follower {
            Role::Follower
        } else {
            Role::Candidate
        }
    }

    /// Who leads, as far as this node has heard lately.
    pub(super) fn known_leader(&self, now: Nanos) -> Option<NodeId> {
        match self.leading {
            Some(_) => Some(self.me.node),
            None => self.election.leader(now).filter(|leader| *leader != self.me.node),
        }
    }

    /// Why this node cannot serve, if it cannot: neither lead, nor follow with a state that can be read.
    pub(super) fn trouble(&self, now: Nanos) -> Option<String> {
        let role = self.role();
        if role == Role::Starting {
            return Some(self.why_starting());
        }
        if let Some((at, late)) = self.health.stuck(&self.shared) {
            return Some(format!("worker {at} has taken no turn for {}", millis(late)));
        }
        if self.clock_stands.is_some() {
            return Some(
                "the clock went back: this node does not lead before it has passed what it showed".into(),
            );
        }
        if role == Role::Leader {
            return self.why_leading_in_vain(now);
        }
        if let Some(takeover) = &self.takeover {
            let (ready, all) = (takeover.ready.len(), self.workers());
            let epoch = takeover.ballot.epoch;
            return Some(format!("takes over in {epoch}: {ready} of {all} streams are ready"));
        }
        if self.known_leader(now).is_none() {
            return Some(self.why_no_leader(now));
        }
        self.rejoin.what_is_missing(self.shared.copied_bytes.load(Ordering::Relaxed))
    }

    fn why_starting(&self) -> String {
        if let Some(peer) = self.living_cluster {
            return format!("waits for the leader of the living cluster that {peer} knows of");
        }
        let met = |node: &NodeId| self.unborn.iter().any(|voter| voter.node == *node);
        let others = (0..self.shared.options.nodes).map(NodeId).filter(|node| *node != self.me.node);
        let missing: Vec<NodeId> = others.filter(|node| !met(node)).collect();
        format!(
            "waits for {}: a new cluster forms when all its nodes are up; a living one is joined once it is met",
            if missing.is_empty() { "word of the first meeting".into() } else { list(&missing) }
        )
    }

    fn why_leading_in_vain(&self, now: Nanos) -> Option<String> {
        if !self.election.quorum_heard(now, self.silence()) {
            let silent = self.voters().into_iter().filter(|voter| *voter != self.me).filter_map(|voter| {
                let ago = now.saturating_sub(self.election.heard_at(voter).unwrap_or_default());
                (ago > self.silence()).then(|| format!("{} silent for {}", voter.node, millis(ago)))
            });
            return Some(format!("no quorum: {}", silent.collect::<Vec<_>>().join(", ")));
        }
        let (at, still) = self.health.standing_still(&self.shared)?;
        Some(format!("stream {at} stands still for {}: nothing is decided or released", millis(still)))
    }

    fn why_no_leader(&self, now: Nanos) -> String {
        let mut why = match self.election.last_heard() {
            Some((node, at)) => {
                format!("no leader heard for {} (last: {node})", millis(now.saturating_sub(at)))
            }
            None => "no leader heard yet".into(),
        };
        let reachable = |voter: &Voter| *voter == self.me || self.voter(voter.node) == Some(*voter);
        let away: Vec<NodeId> =
            self.voters().iter().filter(|voter| !reachable(voter)).map(|voter| voter.node).collect();
        if !away.is_empty() {
            why += &format!("; not reachable: {}", list(&away));
        }
        let members = self.election.members();
        if members.is_some_and(|members| !Quorums::of(members.clone()).reached(|voter| reachable(&voter))) {
            why += "; the rest is no majority of the voters";
        }
        why
    }

    fn voters(&self) -> Vec<Voter> {
        self.election.members().map(|members| members.voters().to_vec()).unwrap_or_default()
    }

    /// See [`Controller::status`](crate::seam::Controller::status).
    pub(super) fn describe(&self, now: Nanos) -> Status {
        let shared = &self.shared;
        let streams =
            shared.stream_status.iter().map(|status| *status.lock().expect("nobody panics here")).collect();
        let leads = self.leading.is_some();
        let heard_ago = self.election.last_heard().filter(|_| !leads).map(|(_, at)| now.saturating_sub(at));
        Status {
            node: self.me.node,
            incarnation: self.me.incarnation,
            role: self.role(),
            epoch: shared.progress.epoch(),
            leader: self.known_leader(now),
            leader_heard_ago: heard_ago,
            mark: shared.progress.mark(),
            streams,
            members: self.list_members(now),
            copying_bytes: self.rejoin.copying().then(|| shared.copied_bytes.load(Ordering::Relaxed)),
            copying_from: self.rejoin.donor(),
            trouble: self.trouble(now),
        }
    }

    fn list_members(&self, now: Nanos) -> Vec<Member> {
        let mut lags: BTreeMap<Voter, u64> = BTreeMap::new();
        for (voter, lag) in
            self.shared.lags.iter().flat_map(|lags| lags.lock().expect("nobody panics here").clone())
        {
            *lags.entry(voter).or_default() += lag;
        }
        let (leads, voters) = (self.leading.is_some(), self.voters());
        let member = |voter: Voter, votes: bool| {
            let heard_ago = self.election.heard_at(voter).map(|at| now.saturating_sub(at));
            let (lag, heard_ago) =
                if voter == self.me { (Some(0), Some(0)) } else { (lags.get(&voter).copied(), heard_ago) };
            let Voter { node, incarnation } = voter;
            Member {
                node,
                incarnation,
                voter: votes,
                lag_entries: lag.filter(|_| leads),
                heard_ago: heard_ago.filter(|_| leads),
            }
        };
        let mut listed: Vec<Member> = voters.iter().map(|voter| member(*voter, true)).collect();
        let learners = lags.keys().filter(|voter| leads && !voters.contains(voter));
        listed.extend(learners.map(|voter| member(*voter, false)));
        listed
    }
}

fn millis(nanos: Nanos) -> String {
    format!("{} ms", nanos / 1_000_000)
}

fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
}
