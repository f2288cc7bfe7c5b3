//! Progress on stderr: one line that changes on a terminal, a line now and then elsewhere.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the line on a terminal changes, at most, per second.
const CHANGES_PER_SECOND: u8 = 10;
/// How often a line is printed where lines cannot be overwritten.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// Shows how far something is. Ends its line when dropped.
#[derive(Debug)]
pub struct Progress {
    /// Draws on a terminal, and elsewhere not at all.
    line: ProgressBar,
    started: Instant,
    /// When a plain line was printed of this step.
    printed: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}

impl Progress {
    /// Nothing is shown yet.
    pub fn new() -> Progress {
        let target = ProgressDrawTarget::stderr_with_hz(CHANGES_PER_SECOND);
        let line = ProgressBar::with_draw_target(None, target).with_style(words());
        Progress { line, started: Instant::now(), printed: None }
    }

    /// A new step begins: always shown.
    pub fn step(&mut self, text: &str) {
        self.printed = None;
        self.started = Instant::now();
        self.show(text);
        self.line.force_draw();
    }

    /// The step goes on.
    pub fn show(&mut self, text: &str) {
        self.uncover();
        self.line.set_style(words());
        self.line.set_message(text.to_string());
        self.print(|| text.to_string());
    }

    /// `done` of `total`, with a bar if the total is known.
    pub fn count(&mut self, what: &str, done: u64, total: Option<u64>) {
        let seconds = self.started.elapsed().as_secs_f64();
        let Some(total) = total.filter(|total| *total > 0) else {
            return self.show(&format!("{what}: {done}  {seconds:.1} s"));
        };
        self.uncover();
        self.line.set_style(bar());
        self.line.set_length(total);
        self.line.set_position(done);
        self.line.set_message(what.to_string());
        self.print(|| format!("{what} {:3.0} %  {seconds:.1} s", done as f64 / total as f64 * 100.0));
    }

    /// Removes the line, so that something else can be printed. It comes back with the next news.
    pub fn clear(&mut self) {
        self.line.finish_and_clear();
    }

    fn uncover(&mut self) {
        if self.line.is_finished() {
            self.line.reset();
        }
    }

    /// A plain line, if this is no terminal and the last one is a while ago.
    fn print(&mut self, text: impl FnOnce() -> String) {
        let recent = self.printed.is_some_and(|printed| printed.elapsed() < PLAIN_EVERY);
        if self.line.is_hidden() && !recent {
            self.printed = Some(Instant::now());
            // Progress that cannot be shown is no reason to stop a measurement.
            let _ = writeln!(std::io::stderr(), "{}", text());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn words() -> ProgressStyle {
    ProgressStyle::with_template("{wide_msg}").expect("the template is right")
}

fn bar() -> ProgressStyle {
    let template = "{msg} {bar:24} {percent:>3} %  {elapsed}";
    ProgressStyle::with_template(template).expect("the template is right").progress_chars("█░")
}
