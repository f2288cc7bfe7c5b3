//! The table of `highwater top`, as text.

use super::look::Node;
use crate::answers;
use crate::numbers::{bytes, micros, short};

/// Heads of the columns, and how wide they are.
pub const COLUMNS: [(&str, u16); 11] = [
    ("node", 4),
    ("role", 10),
    ("epoch", 6),
    ("tx/s", 8),
    ("applied/s", 9),
    ("p50", 8),
    ("p99", 8),
    ("lag", 7),
    ("memory", 10),
    ("cpu", 5),
    ("clients", 7),
];

/// What a node's line says.
pub fn cells(node: &Node) -> [String; COLUMNS.len()] {
    let dash = || "-".to_string();
    let Some(status) = &node.status else {
        let mut cells = std::array::from_fn(|_| dash());
        (cells[0], cells[1]) = (node.id.to_string(), "silent".into());
        return cells;
    };
    let pace = node.pace.as_ref();
    let time = |us: Option<u64>| us.map_or_else(dash, |us| micros(us as f64));
    [
        node.id.to_string(),
        if status.stalls() { "stalled".into() } else { status.role.clone() },
        status.epoch.to_string(),
        pace.map_or_else(dash, |pace| short(pace.released.round())),
        pace.map_or_else(dash, |pace| short(pace.applied.round())),
        time(pace.and_then(|pace| pace.p50_us)),
        time(pace.and_then(|pace| pace.p99_us)),
        answers::lag(status, status).map_or_else(dash, |lag| short(lag as f64)),
        bytes(status.resident_bytes),
        pace.map_or_else(dash, |pace| format!("{:.2}", pace.cpus)),
        status.clients.to_string(),
    ]
}

/// Why a node does not do what it should, if it does not.
pub fn trouble(node: &Node) -> Option<&str> {
    match &node.status {
        None => Some(&node.silent),
        Some(status) => status.trouble.as_deref(),
    }
}

/// The table.
pub fn text(nodes: &[Node]) -> String {
    let line = |cells: [&str; COLUMNS.len()]| {
        let cells =
            cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!("{cell:<0$}", usize::from(width)));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    let mut text = line(COLUMNS.map(|(head, _)| head));
    for node in nodes {
        let cells = cells(node);
        text += &line(std::array::from_fn(|at| cells[at].as_str()));
    }
    for (node, trouble) in nodes.iter().filter_map(|node| Some((node.id, trouble(node)?))) {
        text += &format!("node {node}: {trouble}\n");
    }
    text
}

#[cfg(test)]
pub mod tests {
    use highwater_core::{Epoch, Incarnation, Level, Levels, NodeId};
    use highwater_node::admin::protocol::StatusReport;
    use highwater_redis::meter::histogram::CountsReport;
    use highwater_seam::{Service, Status};

    use super::super::look::Pace;
    use super::*;

    fn report(committed: u64, latency: &[(u64, u64)]) -> StatusReport {
        let mut report = StatusReport::of(Status {
            node: NodeId(1),
            incarnation: Incarnation(1),
            service: Service::Serving,
            role: "leader".into(),
            epoch: Epoch(3),
            ask: Some(NodeId(1)),
            heard_ago: None,
            figures: Vec::new(),
            members: Vec::new(),
            copying_bytes: None,
            copying_from: None,
            forgets: false,
            freshness: None,
            levels: Levels::up_to(Level(1)),
            level: None,
            held_back_by: Vec::new(),
            trouble: None,
        });
        (report.engine, report.resident_bytes, report.clients) = ("rolis".into(), 3 << 20, 7);
        report.work.committed = committed;
        report.work.latency = CountsReport { buckets: latency.to_vec(), sum_ns: 0 };
        report
    }

    /// One that leads, and one that is silent.
    pub fn nodes() -> Vec<Node> {
        let (before, after) = (report(1000, &[(100, 50)]), report(5000, &[(100, 150), (1000, 10)]));
        let pace = Pace::between(&before, &after, 2.0);
        let past = vec![0, 2000];
        let (admin, silent) = ("127.0.0.1:7300".to_string(), String::new());
        let leader =
            Node { id: 1, admin: admin.clone(), status: Some(after), silent, pace, past: past.clone() };
        let silent =
            Node { id: 2, status: None, silent: "nothing listens there".into(), pace: None, past, admin };
        vec![leader, silent]
    }

    #[test]
    fn a_table_says_what_each_node_does() {
        let text = text(&nodes());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1][..5], ["1", "leader", "3", "2.00k", "0"], "{text}");
        assert!(text.contains("100 us") && text.contains("1.00 ms") && text.contains("3.0 MiB"), "{text}");
        assert_eq!(lines[2][..3], ["2", "silent", "-"], "{text}");
        assert!(text.ends_with("node 2: nothing listens there\n"), "{text}");
    }

    #[test]
    fn another_life_has_no_pace() {
        let (mut before, after) = (report(10, &[]), report(5, &[]));
        before.uptime_seconds = 100.0;
        assert_eq!(Pace::between(&before, &after, 1.0), None);
        assert_eq!(Pace::between(&after, &after, 0.0), None);
    }
}
