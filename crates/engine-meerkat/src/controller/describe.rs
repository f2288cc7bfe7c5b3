//! What a replica says of itself.

use std::sync::atomic::Ordering;

use highwater_core::{Epoch, Incarnation, NodeId};
use highwater_seam::{Figure, Member, Nanos, Service, Status};

use super::MeerkatController;
use super::attempt::Attempt;
use crate::change::Members;
use crate::control::{Memory, Standing};
use crate::{ABORTED, BUSY, CHANGES, COPIED, DECIDED, FAST, IN_THE_WAY, LEARNERS, SLOW, TOO_LATE, VOTERS};

impl MeerkatController {
    fn service(&self) -> Service {
        match self.standing {
            Standing::Unborn | Standing::Bearing => Service::Starting,
            Standing::Outside | Standing::Learning | Standing::Ready => Service::Joining,
            Standing::Voting => {
                let hears = !self.shared.no_quorum.load(Ordering::Relaxed);
                let open = self.shared.open_epoch() == Some(self.epoch);
                match (open, hears) {
                    (true, true) => Service::Serving,
                    (true, false) => Service::Stalled,
                    (false, _) => Service::Standby,
                }
            }
        }
    }

    fn role(&self) -> &'static str {
        match self.standing {
            Standing::Unborn | Standing::Bearing => "unborn",
            Standing::Outside => "outsider",
            Standing::Learning | Standing::Ready => "learner",
            Standing::Voting if self.attempt.is_some() => "candidate",
            Standing::Voting => "replica",
        }
    }

    fn member(&self, now: Nanos, node: NodeId) -> Option<Member> {
        let members = self.members.as_ref()?;
        // Whoever a change may leave out that is under way has no vote to count on.
        let stays = |who: &&(NodeId, Incarnation)| {
            self.accepted.as_ref().is_none_or(|(_, change)| change.members.has_voter(**who))
        };
        let vote = members.voters.iter().find(|(known, _)| *known == node).filter(stays);
        let peer = self.peers[node.0 as usize];
        // Who has no vote now is a voter that is away: as many as ever have to agree.
        let incarnation = vote.map_or(Incarnation(0), |(_, life)| *life);
        let own = node == self.me;
        Some(Member {
            node,
            incarnation,
            voter: true,
            connected: Some(own || peer.is_some_and(|peer| peer.connected && peer.life == incarnation)),
            lag: None,
            levels: None,
            heard_ago: if own { Some(0) } else { peer.map(|peer| now.saturating_sub(peer.heard)) },
        })
    }

    fn trouble(&self, now: Nanos) -> Option<String> {
        if self.service() == Service::Starting {
            let missing: Vec<String> = self
                .others()
                .filter(|node| !self.hears(now, *node))
                .map(|node| format!("node {}", node.0))
                .collect();
            if !missing.is_empty() {
                return Some(format!("waits for {}", missing.join(", ")));
            }
            let mut others = self.others();
            let outside = others.find(|node| self.beat_of(*node).standing == Standing::Outside);
            return outside.map(|node| {
                format!(
                    "waits for node {0}, which has lost what it had, or missed it: node {0} says what helps",
                    node.0
                )
            });
        }
        if self.standing == Standing::Voting && self.shared.no_quorum.load(Ordering::Relaxed) {
            return Some("no quorum: it has not heard from a majority for a while".into());
        }
        if let Some(why) = self.attempt.as_ref().and_then(Attempt::unclear) {
            return Some(format!("a change of epoch waits for promises of more replicas: {why}"));
        }
        if !self.is_cleared() {
            return Some("waits for a majority to say that its disk is the newest that they know of".into());
        }
        match self.standing {
            Standing::Outside if self.forgot != Memory::Whole => Some(
                "may have forgotten what was last, and waits for a majority that has not, or for all voters"
                    .into(),
            ),
            Standing::Outside if self.epoch == Epoch(0) => Some(
                "waits to be taken in by the others: it has lost what it had, and founds no cluster. If no node has the data, restore a backup, or move the \
                 folders of all away; if this cluster was never born (no node of it ever served), this node's folder is enough: move it away, \
                 and start the node again"
                    .into(),
            ),
            Standing::Outside => Some("waits to be taken in: it lost its memory, or missed too much".into()),
            Standing::Learning | Standing::Ready if self.shared.no_quorum.load(Ordering::Relaxed) => {
                Some("copies the state, and has not heard from a majority for a while".into())
            }
            _ if self.paused.is_some() => Some("a change of epoch is under way".into()),
            _ => None,
        }
    }

    pub(super) fn describe(&self, now: Nanos) -> Status {
        let options = &self.shared.options;
        let service = self.service();
        let serving = self.shared.serving();
        let elsewhere = serving.filter(|node| *node != self.me);
        let ask = if service == Service::Serving { Some(self.me) } else { elsewhere };
        let count = |who: fn(&Members) -> usize| self.members.as_ref().map_or(0, who) as u64;
        let copies = matches!(self.standing, Standing::Learning | Standing::Outside | Standing::Ready);
        let copied = self.shared.sum(|cell| &cell.copied);
        let figure = |name, figure: fn(&crate::shared::Cell) -> &std::sync::atomic::AtomicU64| {
            Figure::each(name, self.shared.cells.iter().map(|cell| figure(cell).load(Ordering::Relaxed)))
        };
        Status {
            node: self.me,
            incarnation: self.life,
            service,
            role: self.role().into(),
            epoch: self.epoch,
            ask,
            heard_ago: None,
            figures: vec![
                figure(BUSY, |cell| &cell.busy),
                figure(DECIDED, |cell| &cell.decided),
                figure(FAST, |cell| &cell.fast),
                figure(SLOW, |cell| &cell.slow),
                figure(ABORTED, |cell| &cell.aborted),
                figure(IN_THE_WAY, |cell| &cell.in_the_way),
                figure(TOO_LATE, |cell| &cell.too_late),
                Figure::one(VOTERS, count(|members| members.voters.len())),
                Figure::one(LEARNERS, count(|members| members.learners.len())),
                Figure::one(CHANGES, self.changes),
                Figure::one(COPIED, copied),
            ],
            members: self.nodes().filter_map(|node| self.member(now, node)).collect(),
            copying_bytes: copies.then_some(copied),
            copying_from: self.copying.as_ref().map(|copying| copying.donor),
            forgets: self.forgot != Memory::Whole,
            freshness: None,
            levels: options.levels,
            level: None,
            held_back_by: Vec::new(),
            trouble: self.trouble(now),
        }
    }
}
