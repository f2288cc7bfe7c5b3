//! An engine's [`Status`] as it travels, and back: who reads it asks the engine what it means.

use highwater_core::{Epoch, Incarnation, Level, Levels, NodeId};
use highwater_engines::EngineKind;
use highwater_seam::{Figure, Member, Nanos, Service, Status};

use super::protocol::{ElectionReport, FigureReport, LevelsReport, MemberReport, MemoryReport, StatusReport};
use super::work::WorkReport;

const MS: Nanos = 1_000_000;

impl StatusReport {
    /// Of a replica; what its process adds is empty.
    pub fn of(status: Status) -> StatusReport {
        StatusReport {
            node: status.node.0,
            incarnation: format!("{:x}", status.incarnation.0),
            engine: String::new(),
            service: status.service.to_string(),
            role: status.role.into_owned(),
            epoch: status.epoch.0,
            leader: status.ask.map(|node| node.0),
            leader_silent_ms: status.heard_ago.map(|ago| ago / MS),
            figures: status
                .figures
                .into_iter()
                .map(|Figure { name, of_parts, values }| FigureReport {
                    name: name.into_owned(),
                    of_parts,
                    values,
                })
                .collect(),
            members: status
                .members
                .iter()
                .map(|member| MemberReport {
                    node: member.node.0,
                    incarnation: format!("{:x}", member.incarnation.0),
                    voter: member.voter,
                    levels: member.levels.map(LevelsReport::of),
                    connected: member.connected,
                    lag: member.lag,
                    silent_ms: member.heard_ago.map(|ago| ago / MS),
                })
                .collect(),
            copying_bytes: status.copying_bytes,
            copying_from: status.copying_from.map(|node| node.0),
            forgets: status.forgets,
            // Rounded up: what is promised of it holds.
            freshness_ms: status.freshness.map(|freshness| freshness.div_ceil(MS)),
            levels: Some(LevelsReport::of(status.levels)),
            level: status.level.map(|level| level.0),
            held_back_by: status.held_back_by.iter().map(|node| node.0).collect(),
            trouble: status.trouble,
            cpu_ns: 0,
            resident_bytes: 0,
            store_bytes: 0,
            memory: MemoryReport::default(),
            disk: None,
            journal: None,
            work: WorkReport::default(),
            peers: Vec::new(),
            elections: ElectionReport::default(),
            uptime_seconds: 0.0,
            executed: 0,
            applied: 0,
            snapshot_reads: 0,
            log_bytes: 0,
            clients: 0,
            sockets: String::new(),
            admins: Vec::new(),
            nodes: Vec::new(),
            removed: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// What its engine said. Times are in whole milliseconds; what makes no sense counts as the least.
    pub fn status(&self) -> Status {
        let life = |hex: &str| Incarnation(u64::from_str_radix(hex, 16).unwrap_or_default());
        Status {
            node: NodeId(self.node),
            incarnation: life(&self.incarnation),
            service: Service::ALL
                .into_iter()
                .find(|service| service.name() == self.service)
                .unwrap_or(Service::Starting),
            role: self.role.clone().into(),
            epoch: Epoch(self.epoch),
            ask: self.leader.map(NodeId),
            heard_ago: self.leader_silent_ms.map(|ago| ago.saturating_mul(MS)),
            figures: self
                .figures
                .iter()
                .map(|FigureReport { name, of_parts, values }| Figure {
                    name: name.clone().into(),
                    of_parts: *of_parts,
                    values: values.clone(),
                })
                .collect(),
            members: self
                .members
                .iter()
                .map(|member| Member {
                    node: NodeId(member.node),
                    incarnation: life(&member.incarnation),
                    voter: member.voter,
                    levels: member.levels.map(|levels| levels.levels()),
                    connected: member.connected,
                    lag: member.lag,
                    heard_ago: member.silent_ms.map(|ago| ago.saturating_mul(MS)),
                })
                .collect(),
            copying_bytes: self.copying_bytes,
            copying_from: self.copying_from.map(NodeId),
            forgets: self.forgets,
            freshness: self.freshness_ms.map(|ms| ms.saturating_mul(MS)),
            levels: self.levels.map_or(Levels::only(Level::FIRST), |levels| levels.levels()),
            level: self.level.map(Level),
            held_back_by: self.held_back_by.iter().copied().map(NodeId).collect(),
            trouble: self.trouble.clone(),
        }
    }

    /// The level in use, and, by the leader's word, who keeps it from being raised.
    pub fn level_in_use(&self) -> Option<String> {
        let level = self.level?;
        let nodes: Vec<String> = self.held_back_by.iter().map(u8::to_string).collect();
        Some(match &nodes[..] {
            [] => format!("level {level} is in use"),
            _ => format!(
                "level {level} is in use; for level {} upgrade and start node {}",
                level + 1,
                nodes.join(", ")
            ),
        })
    }

    /// Whether it takes transactions.
    pub fn serves(&self) -> bool {
        self.service == Service::Serving.name()
    }

    /// Whether it leads, and refuses transactions.
    pub fn stalls(&self) -> bool {
        self.service == Service::Stalled.name()
    }

    /// See [`Service::leads`].
    pub fn leads(&self) -> bool {
        self.serves() || self.stalls()
    }

    /// The values of a figure; none if it has no such figure.
    pub fn figure(&self, name: &str) -> &[u64] {
        self.figures.iter().find(|figure| figure.name == name).map_or(&[], |figure| &figure.values)
    }
}

/// Words of several replicas, by position, for the questions of [`Engine`](highwater_seam::Engine); and which engine to
/// ask, if anybody answered.
pub fn asked(reports: &[Option<StatusReport>]) -> Option<(EngineKind, Vec<Option<Status>>)> {
    let engine = reports.iter().flatten().find_map(|report| report.engine.parse().ok())?;
    Some((engine, reports.iter().map(|report| report.as_ref().map(StatusReport::status)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_comes_back_as_it_went() {
        let status = Status {
            node: NodeId(2),
            incarnation: Incarnation(0xfeed),
            service: Service::Joining,
            role: "learner".into(),
            epoch: Epoch(7),
            ask: Some(NodeId(1)),
            heard_ago: Some(3 * MS),
            figures: vec![Figure::one("mark", 5), Figure::each("decided", [1, 2])],
            members: vec![Member {
                node: NodeId(1),
                incarnation: Incarnation(9),
                voter: true,
                levels: Some(Levels::up_to(Level(2))),
                connected: Some(true),
                lag: Some(4),
                heard_ago: Some(2 * MS),
            }],
            copying_bytes: Some(8),
            copying_from: Some(NodeId(0)),
            forgets: true,
            freshness: Some(7 * MS),
            levels: Levels::up_to(Level(2)),
            level: Some(Level(1)),
            held_back_by: vec![NodeId(3)],
            trouble: Some("waits".into()),
        };
        assert_eq!(StatusReport::of(status.clone()).status(), status);
        let reports = [None, Some(StatusReport { engine: "rolis".into(), ..StatusReport::of(status) })];
        let (engine, statuses) = asked(&reports).unwrap();
        assert_eq!(engine.serving(&statuses), None);
        assert!(engine.converged(&statuses).unwrap_err().contains("replica 0 does not answer"));
    }
}
