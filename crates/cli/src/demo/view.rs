//! The demo on a terminal: replicas, throughput, events.

use std::time::Duration;

use highwater_node::admin::protocol::StatusReport;
use highwater_seam::Service;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table};
use ratatui::{DefaultTerminal, Frame};

use super::scene::{Phase, Scene, SharedScene};
use crate::answers;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::numbers::{bytes, micros, short};

/// Draws until the play is over; leaves the terminal as it was.
pub fn show(scene: &SharedScene) -> Result<()> {
    let mut terminal = ratatui::try_init().map_err(|error| {
        Failure::cannot_start(format!("cannot draw on this terminal (try --plain): {error}"))
    })?;
    interrupt::draws_on_terminal(true);
    let outcome = draw_until_over(&mut terminal, scene);
    interrupt::draws_on_terminal(false);
    ratatui::restore();
    outcome.map_err(|error| Failure::negative(format!("the terminal broke (try --plain): {error}")))
}

fn draw_until_over(terminal: &mut DefaultTerminal, scene: &SharedScene) -> std::io::Result<()> {
    loop {
        {
            let scene = scene.lock();
            if scene.over {
                return Ok(());
            }
            terminal.draw(|frame| draw(frame, &scene))?;
        }
        if event::poll(Duration::from_millis(100))? && wants_out(&event::read()?) {
            interrupt::interrupt();
        }
    }
}

/// Ctrl-C arrives as a key while the terminal is raw.
fn wants_out(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

/// Draws one frame.
pub fn draw(frame: &mut Frame<'_>, scene: &Scene) {
    let replicas = scene.replicas.len() as u16;
    let rows = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(replicas + 3),
        Constraint::Length(8),
        Constraint::Min(4),
        Constraint::Length(1),
    ]);
    let [head, table, throughput, events, foot] = rows.areas(frame.area());
    draw_head(frame, head, scene);
    draw_replicas(frame, table, scene);
    draw_throughput(frame, throughput, scene);
    draw_events(frame, events, scene);
    frame.render_widget(Line::from(" q or Ctrl-C ends the demo and its processes").dim(), foot);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let seconds = scene.started.elapsed().as_secs_f64();
    let title = Line::from(vec![
        " highwater demo ".bold(),
        format!(" TPC-C on {} replica processes  {seconds:.1} s", scene.replicas.len()).into(),
    ]);
    let mut acts = vec![Span::raw(" ")];
    for phase in Phase::ALL {
        let style = match phase.cmp(&scene.phase) {
            std::cmp::Ordering::Less => Style::new().fg(Color::Green),
            std::cmp::Ordering::Equal => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
            std::cmp::Ordering::Greater => Style::new().fg(Color::DarkGray),
        };
        acts.push(Span::styled(phase.word(), style));
        acts.push(Span::raw("  "));
    }
    frame.render_widget(Paragraph::new(vec![title, Line::from(acts)]), area);
}

fn draw_replicas(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let head = ["replica", "role", "epoch", "mark", "lag", "store", "resident", "state"];
    let widths = [7, 9, 6, 20, 8, 10, 10, 20].map(Constraint::Length);
    let rows = scene.replicas.iter().enumerate().map(|(node, replica)| match replica {
        Some(status) => replica_row(node, status, scene),
        None => Row::new([node.to_string(), "dead".into()]).style(Style::new().fg(Color::Red)),
    });
    let table = Table::new(rows, widths)
        .header(Row::new(head).style(Style::new().add_modifier(Modifier::DIM)))
        .block(Block::bordered().title(" replicas "));
    frame.render_widget(table, area);
}

fn replica_row<'a>(node: usize, status: &StatusReport, scene: &Scene) -> Row<'a> {
    let style = match status.status().service {
        Service::Serving => Style::new().fg(Color::Green).add_modifier(Modifier::BOLD),
        Service::Stalled => Style::new().fg(Color::Red),
        Service::Standby => Style::new(),
        Service::Joining | Service::Starting | Service::Removed => Style::new().fg(Color::Yellow),
    };
    let lag = match scene.lag(status) {
        Some(lag) if !status.leads() => lag.to_string(),
        _ => "-".to_string(),
    };
    let state = match (status.copying_bytes, &status.trouble) {
        (Some(copied), _) => format!("copying, {}", bytes(copied)),
        (None, Some(trouble)) => trouble.clone(),
        (None, None) => String::new(),
    };
    let cells = [
        node.to_string(),
        status.role.clone(),
        status.epoch.to_string(),
        answers::mark(status).map_or("-".into(), |mark| mark.to_string()),
        lag,
        bytes(status.store_bytes),
        bytes(status.resident_bytes),
        state,
    ];
    Row::new(cells.map(Cell::from)).style(style)
}

fn draw_throughput(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let title = match &scene.progress {
        Some(progress) => format!(" {progress} "),
        None => format!(
            " released {}/s   p50 {}   p99 {}   total {} ",
            short(scene.tps() as f64),
            micros(scene.latency.p50),
            micros(scene.latency.p99),
            short(scene.released_total as f64)
        ),
    };
    let block = Block::bordered().title(title);
    let width = block.inner(area).width as usize;
    let samples: Vec<u64> =
        scene.released.iter().skip(scene.released.len().saturating_sub(width)).copied().collect();
    let sparks = Sparkline::default().data(&samples).style(Style::new().fg(Color::Cyan)).block(block);
    frame.render_widget(sparks, area);
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let block = Block::bordered().title(" events ");
    let height = block.inner(area).height as usize;
    let lines = scene.events.iter().skip(scene.events.len().saturating_sub(height));
    let lines: Vec<Line<'_>> =
        lines.map(|(at, text)| Line::from(format!("{:6.2} s  {text}", at.as_secs_f64()))).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn a_dead_replica_and_the_events_are_on_the_screen() {
        let scene = SharedScene::new(3);
        scene.event("kill -9 of replica 0");
        scene.lock().released.extend([5, 0, 9]);
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
        terminal.draw(|frame| draw(frame, &scene.lock())).unwrap();
        let screen = terminal.backend().to_string();
        for wanted in ["highwater demo", "dead", "kill -9 of replica 0", "released"] {
            assert!(screen.contains(wanted), "{wanted} is missing in\n{screen}");
        }
    }
}
