//! Progress on stderr: one line that changes on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const BAR_CELLS: usize = 24;
/// How often a line is printed where lines cannot be overwritten.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// Shows how far something is. Ends its line when dropped.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    dirty: bool,
    started: Instant,
    shown: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}

impl Progress {
    /// Nothing is shown yet.
    pub fn new() -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { terminal, dirty: false, started: Instant::now(), shown: None }
    }

    /// A new step begins: always shown.
    pub fn step(&mut self, text: &str) {
        self.shown = None;
        self.started = Instant::now();
        self.show(text);
    }

    /// The step goes on.
    pub fn show(&mut self, text: &str) {
        let every = if self.terminal { Duration::from_millis(100) } else { PLAIN_EVERY };
        if self.shown.is_some_and(|shown| shown.elapsed() < every) {
            return;
        }
        self.shown = Some(Instant::now());
        let mut out = std::io::stderr().lock();
        // Progress that cannot be shown is no reason to stop a measurement.
        let _ = if self.terminal { write!(out, "\r\x1b[K{text}") } else { writeln!(out, "{text}") };
        let _ = out.flush();
        self.dirty = self.terminal;
    }

    /// `done` of `total`, with a bar if the total is known.
    pub fn count(&mut self, what: &str, done: u64, total: Option<u64>) {
        let seconds = self.started.elapsed().as_secs_f64();
        match total.filter(|total| *total > 0) {
            Some(total) => {
                let share = done as f64 / total as f64;
                self.show(&format!("{what} {} {:3.0} %  {seconds:.1} s", bar(share), share * 100.0));
            }
            None => self.show(&format!("{what}: {done}  {seconds:.1} s")),
        }
    }

    /// Removes the line, so that something else can be printed.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.dirty) {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A bar of fixed width.
pub fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR_CELLS as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR_CELLS - full))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_bar_is_as_wide_empty_as_full() {
        for share in [-1.0, 0.0, 0.5, 1.0, 7.0] {
            assert_eq!(super::bar(share).chars().count(), super::BAR_CELLS);
        }
    }
}
