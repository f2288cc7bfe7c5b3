//! `highwater top`: every node of a cluster, a line each, anew every second: its part, what it does, how long that takes.
//!
//! Nodes say sums since their process started; what is shown is the difference of two looks.

mod look;
mod view;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::status::host_and_port;
use crate::status::place::Place;
use look::{Looks, Node};

/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// `highwater top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// The nodes of this config.
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// The nodes that the replica at this admin address knows; names are resolved.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub admin: Option<String>,
    /// Print one table of a second, and end: no terminal is needed.
    #[arg(long)]
    pub once: bool,
}

/// Runs `highwater top`.
pub fn run(args: &TopArgs) -> Result<()> {
    let place = match &args.admin {
        Some(admin) => Place::Replica(admin.clone()),
        None => Place::of_config(args.config.as_deref())?,
    };
    let mut looks = Looks::new(place);
    let first = looks.look()?;
    if args.once {
        thread::sleep(LOOK_EVERY);
        let nodes = looks.look()?;
        print!("{}", view::text(&nodes));
        return match nodes.iter().any(|node| node.status.is_some()) {
            true => Ok(()),
            false => Err(Failure::unavailable("no node answers")),
        };
    }
    let mut terminal = ratatui::try_init().map_err(|error| {
        Failure::cannot_start(format!("cannot draw on this terminal (try --once): {error}"))
    })?;
    interrupt::draws_on_terminal(true);
    let outcome = draw(&mut terminal, &mut looks, first);
    interrupt::draws_on_terminal(false);
    ratatui::restore();
    outcome
}

fn draw(terminal: &mut DefaultTerminal, looks: &mut Looks, mut nodes: Vec<Node>) -> Result<()> {
    let broke = |error| Failure::negative(format!("the terminal broke (try --once): {error}"));
    let (mut chosen, mut looked) = (0usize, Instant::now());
    loop {
        chosen = chosen.min(nodes.len().saturating_sub(1));
        terminal.draw(|frame| view::draw(frame, &nodes, chosen)).map_err(broke)?;
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
            nodes = looks.look().unwrap_or_else(|failure| look::all_silent(nodes, &failure.to_string()));
        }
    }
}
