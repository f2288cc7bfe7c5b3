//! What a replica says about itself, and why it cannot serve if it cannot.

use std::collections::BTreeMap;

use highwater_consensus::{Quorums, Standing, Voter};
use highwater_core::NodeId;
use highwater_core::sync::Ordering;
use highwater_seam::{Figure, Member, Nanos, Service, Status};

use super::LogController;
use crate::shared::StreamStatus;
use crate::status::{ACCEPTED, APPLIED, CLOSED, DECIDED, LOG_BYTES, MARK, Role};

impl LogController {
    pub(super) fn role(&self) -> Role {
        if self.was_removed() {
            Role::Removed
        } else if self.election.members().is_none() {
            Role::Starting
        } else if self.leads() {
            Role::Leader
        } else if !self.election.votes() {
            Role::Learner
        } else if self.election.standing() == Standing::Follower {
            Role::Follower
        } else {
            Role::Candidate
        }
    }

    fn service(&self) -> Service {
        match self.role().service() {
            Service::Serving if self.refuses() => Service::Stalled,
            service => service,
        }
    }

    /// Whether the workers of a leader refuse all requests: it cannot vouch for itself.
    fn refuses(&self) -> bool {
        self.desk.shared.no_quorum.load(Ordering::Relaxed)
    }

    /// Who leads, as far as this node has heard lately.
    pub(super) fn known_leader(&self, now: Nanos) -> Option<NodeId> {
        let me = self.desk.me.node;
        if self.leads() { Some(me) } else { self.election.leader(now).filter(|leader| *leader != me) }
    }

    /// Why this node cannot serve, if it cannot: neither lead, nor follow with a state that can be read.
    pub(super) fn trouble(&self, now: Nanos) -> Option<String> {
        let role = self.role();
        if role == Role::Removed {
            return Some(
                "this node was removed from the cluster, and its id is not used again: stop it".into(),
            );
        }
        if role == Role::Starting {
            return Some(self.birth.what_is_missing(&self.desk));
        }
        if let Some((at, late)) = self.health.stuck(&self.desk.shared) {
            return Some(format!("worker {at} has taken no turn for {}", millis(late)));
        }
        if self.clock_stands.is_some() {
            return Some(
                "the clock went back: this node does not lead before it has passed what it showed".into(),
            );
        }
        if role == Role::Leader {
            return self
                .why_leading_in_vain(now)
                .or_else(|| {
                    self.refuses().then(|| "refuses requests, and makes way for another leader".into())
                })
                .or_else(|| self.what_is_full())
                .or_else(|| self.what_hangs());
        }
        if let Some((ballot, ready)) = self.leadership.progress() {
            let (epoch, all) = (ballot.epoch, self.desk.workers());
            return Some(format!("takes over in {epoch}: {ready} of {all} streams are ready"));
        }
        if self.known_leader(now).is_none() {
            return Some(self.why_no_leader(now));
        }
        let copied = self.desk.shared.copied_bytes.load(Ordering::Relaxed);
        let missing = self.receiver.what_is_missing(copied).or_else(|| {
            self.lacks_checkpoint().then(|| "has copied the state, and writes it to its disk".into())
        });
        let forgets = self.election.forgets() && self.election.votes();
        let recalling =
            || forgets.then(|| "catches up with what it may have forgotten in a crash".to_string());
        let missing = missing.or_else(recalling).or_else(|| self.what_is_full());
        let missing = missing.or_else(|| self.what_hangs());
        let me = self.desk.me.node;
        let stranger = self.election.members().is_some_and(|members| members.voter(me).is_none());
        missing.or_else(|| {
            stranger.then(|| format!("{me} is no member yet: `highwater member add` lets it vote"))
        })
    }

    /// Which voters came back in another life: what they knew is lost.
    fn without_memory(&self) -> Vec<NodeId> {
        let here = |node| if node == self.desk.me.node { Some(self.desk.me) } else { self.desk.peer(node) };
        let lost = |voter: &Voter| here(voter.node).is_some_and(|life| life != *voter);
        self.voters().into_iter().filter(lost).map(|voter| voter.node).collect()
    }

    /// In words, if those who came back without memory were so many that the others are no majority.
    fn why_never_again(&self) -> Option<String> {
        let (lost, members) = (self.without_memory(), self.election.members()?.clone());
        let left = Quorums::of(members).reached(|voter| !lost.contains(&voter.node));
        let then = match self.desk.shared.options.durability.has_disk() {
            true => {
                "stop all nodes, remove nothing, and let `highwater recover --from` say what their disks hold"
            }
            false => "stop all nodes and start them empty",
        };
        let lost = list(&lost);
        (!left).then(|| {
            format!("{lost} came back without memory, and the rest is no majority: this cluster cannot go on; {then}")
        })
    }

    fn why_leading_in_vain(&self, now: Nanos) -> Option<String> {
        if !self.election.quorum_heard(now, self.desk.silence()) {
            if let Some(why) = self.why_never_again() {
                return Some(why);
            }
            let silent =
                self.voters().into_iter().filter(|voter| *voter != self.desk.me).filter_map(|voter| {
                    let Some(at) = self.election.heard_at(voter) else {
                        return Some(format!("{} not heard since this node leads", voter.node));
                    };
                    let ago = now.saturating_sub(at);
                    (ago > self.desk.silence()).then(|| format!("{} silent for {}", voter.node, millis(ago)))
                });
            return Some(format!("no quorum: {}", silent.collect::<Vec<_>>().join(", ")));
        }
        let (at, still) = self.health.standing_still(&self.desk.shared)?;
        Some(format!("stream {at} stands still for {}: nothing is decided or released", millis(still)))
    }

    fn why_no_leader(&self, now: Nanos) -> String {
        if let Some(why) = self.why_never_again() {
            return why;
        }
        let mut why = match self.election.last_heard() {
            Some((node, at)) => {
                format!("no leader heard for {} (last: {node})", millis(now.saturating_sub(at)))
            }
            None => "no leader heard yet".into(),
        };
        let lost = self.without_memory();
        if !lost.is_empty() {
            why += &format!("; came back without memory: {}", list(&lost));
        }
        let away = |voter: &Voter| !self.desk.is_here(*voter) && !lost.contains(&voter.node);
        let away: Vec<NodeId> = self.voters().into_iter().filter(away).map(|voter| voter.node).collect();
        if !away.is_empty() {
            why += &format!("; not reachable: {}", list(&away));
        }
        if self.election.forgets() {
            why += "; this node crashed before everything was on its disk: if a majority did, all voters have to be here (or use \
                    `highwater recover`)";
        }
        let members = self.election.members();
        if members
            .is_some_and(|members| !Quorums::of(members.clone()).reached(|voter| self.desk.is_here(voter)))
        {
            why += "; the rest is no majority of the voters";
        }
        why
    }

    fn voters(&self) -> Vec<Voter> {
        self.election.members().map(|members| members.voters().to_vec()).unwrap_or_default()
    }

    /// See [`Controller::status`](highwater_seam::Controller::status).
    pub(super) fn describe(&self, now: Nanos) -> Status {
        let shared = &self.desk.shared;
        let streams = self.streams();
        let each = |name, value: fn(&StreamStatus) -> u64| Figure::each(name, streams.iter().map(value));
        let role = self.role();
        let leads = self.leads();
        let heard_ago = self.election.last_heard().filter(|_| !leads).map(|(_, at)| now.saturating_sub(at));
        let mut figures = vec![
            Figure::one(MARK, shared.progress.mark().0),
            each(ACCEPTED, |stream| stream.accepted.0),
            each(DECIDED, |stream| stream.decided.0),
            each(APPLIED, |stream| stream.applied.0),
            each(CLOSED, |stream| stream.closed.0),
            each(LOG_BYTES, |stream| stream.log_bytes),
        ];
        figures.extend(shared.progress.figures());
        Status {
            node: self.desk.me.node,
            incarnation: self.desk.me.incarnation,
            service: self.service(),
            role: role.name().into(),
            epoch: shared.progress.epoch(),
            ask: self.known_leader(now),
            heard_ago,
            figures,
            members: self.list_members(now),
            copying_bytes: (self.receiver.copies() || self.lacks_checkpoint())
                .then(|| shared.copied_bytes.load(Ordering::Relaxed)),
            copying_from: self.receiver.donor(),
            forgets: self.election.forgets(),
            freshness: self.freshness(now),
            levels: shared.options.levels,
            level: Some(shared.level()),
            held_back_by: self.held_back_by(),
            trouble: self.trouble(now),
        }
    }

    /// What is acknowledged is in a leader's state, as long as it is one; a follower's is as fresh as it could last prove.
    fn freshness(&self, now: Nanos) -> Option<Nanos> {
        let shared = &self.desk.shared;
        if self.leads() {
            return self.trouble(now).is_none().then_some(0);
        }
        let since = shared.progress.fresh_since(shared.is_settled()).filter(|_| self.role() != Role::Removed);
        since.map(|since| now.saturating_sub(since))
    }

    /// See [`Controller::find_freshness`](highwater_seam::Controller::find_freshness).
    pub(super) fn want_freshness(&self, now: Nanos) {
        if !self.leads() {
            self.desk.shared.progress.want_freshness(now, self.desk.shared.is_settled());
        }
    }

    /// Whether the first worker is about it. One that is stuck says nothing any more.
    pub(super) fn finds_freshness(&self, now: Nanos) -> bool {
        self.desk.shared.progress.finds_freshness(now)
    }

    /// Who keeps the level in use as it is, if others could raise it.
    fn held_back_by(&self) -> Vec<NodeId> {
        let members = self.election.members().filter(|_| self.leads());
        members.map(|members| self.raising.held_back_by(members, &self.desk)).unwrap_or_default()
    }

    /// What the workers published last.
    pub(super) fn streams(&self) -> Vec<StreamStatus> {
        self.desk
            .shared
            .stream_status
            .iter()
            .map(|status| *status.lock().expect("nobody panics here"))
            .collect()
    }

    fn list_members(&self, now: Nanos) -> Vec<Member> {
        let mut lags: BTreeMap<Voter, u64> = BTreeMap::new();
        for (voter, lag) in
            self.desk.shared.lags.iter().flat_map(|lags| lags.lock().expect("nobody panics here").clone())
        {
            *lags.entry(voter).or_default() += lag;
        }
        let (leads, voters) = (self.leads(), self.voters());
        let member = |voter: Voter, votes: bool| {
            let heard_ago = self.election.heard_at(voter).map(|at| now.saturating_sub(at));
            let (lag, heard_ago) = if voter == self.desk.me {
                (Some(0), Some(0))
            } else {
                (lags.get(&voter).copied(), heard_ago)
            };
            let connected = self.desk.is_here(voter);
            let Voter { node, incarnation } = voter;
            Member {
                node,
                incarnation,
                voter: votes,
                levels: if connected { self.raising.levels(node, &self.desk) } else { None },
                connected: leads.then_some(connected),
                lag: lag.filter(|_| leads && connected),
                heard_ago: heard_ago.filter(|_| leads),
            }
        };
        let mut listed: Vec<Member> = voters.iter().map(|voter| member(*voter, true)).collect();
        let removed =
            |voter: &Voter| self.election.members().is_some_and(|members| members.has_removed(voter.node));
        let learners = lags.keys().filter(|voter| leads && !voters.contains(voter) && !removed(voter));
        listed.extend(learners.map(|voter| member(*voter, false)));
        listed
    }
}

fn millis(nanos: Nanos) -> String {
    format!("{} ms", nanos / 1_000_000)
}

pub(super) fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
}
