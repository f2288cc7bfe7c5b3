//! The table of `highwater top`, on a terminal or as text.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};

use super::look::Node;
use crate::answers;
use crate::numbers::{bytes, micros, short};

/// Heads of the columns, and how wide they are.
const COLUMNS: [(&str, u16); 11] = [
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
fn cells(node: &Node) -> [String; COLUMNS.len()] {
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
fn trouble(node: &Node) -> Option<&str> {
    match &node.status {
        None => Some(&node.silent),
        Some(status) => status.trouble.as_deref(),
    }
}

/// The table without a terminal.
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

/// One frame.
pub fn draw(frame: &mut Frame<'_>, nodes: &[Node], chosen: usize) {
    let rows = Layout::vertical([
        Constraint::Length(nodes.len() as u16 + 3),
        Constraint::Length(6),
        Constraint::Min(3),
        Constraint::Length(1),
    ]);
    let [table, chart, detail, foot] = rows.areas(frame.area());
    let head = Row::new(COLUMNS.map(|(head, _)| head)).style(Style::new().add_modifier(Modifier::BOLD));
    let lines = nodes.iter().enumerate().map(|(at, node)| {
        let style = match &node.status {
            None => Style::new().fg(Color::Red),
            Some(status) if status.stalls() => Style::new().fg(Color::Red),
            Some(status) if status.trouble.is_some() => Style::new().fg(Color::Yellow),
            Some(status) if status.serves() => Style::new().fg(Color::Green),
            Some(_) => Style::new(),
        };
        let chosen = if at == chosen { Modifier::REVERSED } else { Modifier::empty() };
        Row::new(cells(node)).style(style.add_modifier(chosen))
    });
    let widths = COLUMNS.map(|(_, width)| Constraint::Length(width));
    let lines = Table::new(lines, widths).header(head).column_spacing(2);
    frame.render_widget(lines.block(Block::bordered().title(" highwater top ")), table);
    let Some(node) = nodes.get(chosen) else { return };
    let width = usize::from(chart.width.saturating_sub(2));
    let past = &node.past[node.past.len().saturating_sub(width)..];
    let title = format!(" node {}: transactions per second, at most {} ", node.id, most(past));
    let line = Sparkline::default().data(past).style(Style::new().fg(Color::Cyan));
    frame.render_widget(line.block(Block::bordered().title(title)), chart);
    let block = Block::bordered().title(format!(" node {} at {} ", node.id, node.admin));
    frame.render_widget(Paragraph::new(details(node)).block(block), detail);
    frame.render_widget(Line::from(" up, down: another node   q: quit").dim(), foot);
}

fn most(past: &[u64]) -> String {
    short(past.iter().copied().max().unwrap_or_default() as f64)
}

fn details(node: &Node) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(trouble) = trouble(node) {
        lines.push(Line::from(trouble.to_string()).fg(Color::Red));
    }
    let Some(status) = &node.status else { return lines };
    let memory = &status.memory;
    lines.push(Line::from(format!(
        "data {} (index {}), logs {}, requests {}, replies {}, sending {}, receiving {}",
        bytes(memory.records + memory.index + memory.retired),
        bytes(memory.index),
        bytes(memory.logs),
        bytes(memory.requests),
        bytes(memory.replies),
        bytes(memory.sending),
        bytes(memory.receiving)
    )));
    if let Some(journal) = &status.journal {
        let sync = journal.syncs.quantile(0.99).map_or("-".into(), |us| micros(us as f64));
        lines.push(Line::from(format!(
            "journal {}, {} syncs, p99 {sync}; {} checkpoints",
            bytes(journal.bytes),
            short(journal.syncs.total() as f64),
            journal.checkpoints
        )));
    }
    let conflicts = node.pace.map_or_else(|| "-".into(), |pace| short(pace.conflicts.round()));
    let work = &status.work;
    lines.push(Line::from(format!("conflicts {conflicts}/s, slow {}, expired {}", work.slow, work.expired)));
    for peer in &status.peers {
        let (sent, received) = (bytes(peer.sent), bytes(peer.received));
        lines.push(Line::from(format!("to node {}: {sent}, from it: {received}", peer.node)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use highwater_core::{Epoch, Incarnation, Level, Levels, NodeId};
    use highwater_node::admin::protocol::StatusReport;
    use highwater_redis::meter::histogram::CountsReport;
    use highwater_seam::{Service, Status};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

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

    fn nodes() -> Vec<Node> {
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
    fn a_terminal_of_any_size_shows_what_fits() {
        for (width, height) in [(120, 40), (80, 24), (20, 5), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &nodes(), 0)).unwrap();
            let shown: String =
                terminal.backend().buffer().content.iter().map(|cell| cell.symbol()).collect();
            if width == 120 {
                for word in
                    ["highwater top", "leader", "silent", "2.00k", "transactions per second", "q: quit"]
                {
                    assert!(shown.contains(word), "{word}: {shown}");
                }
            }
        }
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &[], 5)).unwrap();
    }

    #[test]
    fn another_life_has_no_pace() {
        let (mut before, after) = (report(10, &[]), report(5, &[]));
        before.uptime_seconds = 100.0;
        assert_eq!(Pace::between(&before, &after, 1.0), None);
        assert_eq!(Pace::between(&after, &after, 0.0), None);
    }
}
