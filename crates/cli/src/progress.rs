//! Progress on stderr: one line that changes on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use crate::numbers::bar;

/// From one change of the line on a terminal to the next, at least.
const CHANGES_EVERY: Duration = Duration::from_millis(100);
/// How often a line is printed where lines cannot be overwritten.
const PLAIN_EVERY: Duration = Duration::from_secs(2);
/// Empties the line.
const EMPTY: &str = "\r\x1b[K";
/// The rest of a line is cut off at the edge, or goes on in the next line.
const CUT: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Shows how far something is. Ends its line when dropped.
#[derive(Debug)]
pub struct Progress {
    /// Lines can be overwritten.
    terminal: bool,
    started: Instant,
    /// When a line was last written of this step.
    written: Option<Instant>,
    /// A line stands on the terminal.
    stands: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}

impl Progress {
    /// Nothing is shown yet.
    pub fn new() -> Progress {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Progress {
            terminal: stderr().is_terminal() && !dumb,
            started: Instant::now(),
            written: None,
            stands: false,
        }
    }

    /// A new step begins: always shown.
    pub fn step(&mut self, text: &str) {
        self.written = None;
        self.started = Instant::now();
        self.show(text);
    }

    /// The step goes on.
    pub fn show(&mut self, text: &str) {
        self.write(|_| text.to_string());
    }

    /// `done` of `total`, with a bar if the total is known.
    pub fn count(&mut self, what: &str, done: u64, total: Option<u64>) {
        let seconds = self.started.elapsed().as_secs_f64();
        let share = total.filter(|total| *total > 0).map(|total| done as f64 / total as f64);
        self.write(|terminal| match share {
            None => format!("{what}: {done}  {seconds:.1} s"),
            Some(share) if terminal => {
                format!("{what} {} {:3.0} %  {seconds:.1} s", bar(share), share * 100.0)
            }
            Some(share) => format!("{what} {:3.0} %  {seconds:.1} s", share * 100.0),
        });
    }

    /// Removes the line, so that something else can be printed. It comes back with the next news.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.stands) {
            self.written = None;
            put(EMPTY);
        }
    }

    /// A line, if the last one is a while ago. `text` is told whether it is for a terminal.
    fn write(&mut self, text: impl FnOnce(bool) -> String) {
        let pause = if self.terminal { CHANGES_EVERY } else { PLAIN_EVERY };
        if self.written.is_some_and(|written| written.elapsed() < pause) {
            return;
        }
        self.written = Some(Instant::now());
        self.stands = self.terminal;
        match self.terminal {
            true => put(&format!("{EMPTY}{CUT}{}{WRAP}", text(true))),
            false => put(&format!("{}\n", text(false))),
        }
    }
}

/// Progress that cannot be shown is no reason to stop a measurement.
fn put(text: &str) {
    let mut out = stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
