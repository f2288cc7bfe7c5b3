//! `highwater top` on a terminal: the table, and more of one node.

use std::time::Instant;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};
use ratatui::{DefaultTerminal, Frame};

use super::LOOK_EVERY;
use super::look::{Looks, Node, all_silent};
use super::view::{COLUMNS, cells, trouble};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::numbers::{bytes, micros, short};

/// Draws until somebody has seen enough; leaves the terminal as it was.
pub fn show(looks: &mut Looks, first: Vec<Node>) -> Result<()> {
    let mut terminal = ratatui::try_init().map_err(|error| {
        Failure::cannot_start(format!("cannot draw on this terminal (try --once): {error}"))
    })?;
    interrupt::draws_on_terminal(true);
    let outcome = draw_until_left(&mut terminal, looks, first);
    interrupt::draws_on_terminal(false);
    ratatui::restore();
    outcome
}

fn draw_until_left(terminal: &mut DefaultTerminal, looks: &mut Looks, mut nodes: Vec<Node>) -> Result<()> {
    let broke = |error| Failure::negative(format!("the terminal broke (try --once): {error}"));
    let (mut chosen, mut looked) = (0usize, Instant::now());
    loop {
        chosen = chosen.min(nodes.len().saturating_sub(1));
        terminal.draw(|frame| draw(frame, &nodes, chosen)).map_err(broke)?;
        let left = LOOK_EVERY.saturating_sub(looked.elapsed());
        if event::poll(left).map_err(broke)?
            && let Event::Key(key) = event::read().map_err(broke)?
            && key.kind != KeyEventKind::Release
        {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if control => return Ok(()),
                KeyCode::Up => chosen = chosen.saturating_sub(1),
                KeyCode::Down => chosen += 1,
                _ => {}
            }
        }
        if looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            // Whoever is asked may be gone for a while: what was seen last stays, and says so.
            nodes = looks.look().unwrap_or_else(|failure| all_silent(nodes, &failure.to_string()));
        }
    }
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
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::tests::nodes;
    use super::*;

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
}
