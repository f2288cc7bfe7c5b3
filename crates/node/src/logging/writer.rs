//! Lines on their way to a slow place: a bounded queue, and a thread that writes what is in it.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// How long the end of a process waits for the lines that are left.
const PATIENCE: Duration = Duration::from_secs(1);

enum Letter {
    Line(Vec<u8>),
    /// Everything before it is to be written, and that be said.
    End(SyncSender<()>),
}

/// A place where lines are put. One that finds no room is dropped: nobody waits for whoever reads them.
#[derive(Clone)]
pub struct Lines(SyncSender<Letter>);

/// Writes what is left when it is dropped, but waits for it a second at most.
pub struct Rest(SyncSender<Letter>);

/// A line that is being put together.
pub struct Line<'a> {
    lines: &'a Lines,
    bytes: Vec<u8>,
}

/// Writes lines to `out`, from a thread of its own, with room for so many that wait.
///
/// # Errors
/// The system has no room for a thread.
pub fn start(out: impl Write + Send + 'static, room: usize) -> io::Result<(Lines, Rest)> {
    let (sender, receiver) = sync_channel(room);
    Builder::new().name("log".into()).spawn(move || write(out, &receiver))?;
    Ok((Lines(sender.clone()), Rest(sender)))
}

fn write(mut out: impl Write, letters: &Receiver<Letter>) {
    while let Ok(letter) = letters.recv() {
        // Whoever reads may be gone, and the disk be full: that is nobody's trouble here.
        match letter {
            Letter::Line(line) => {
                let _ = out.write_all(&line);
            }
            Letter::End(done) => {
                let _ = out.flush();
                let _ = done.send(());
            }
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, bytes: Vec::new() }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            // Without room it is dropped.
            let _ = self.lines.0.try_send(Letter::Line(std::mem::take(&mut self.bytes)));
        }
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        // A queue that is full is one that nobody reads: there is nothing to wait for.
        if self.0.try_send(Letter::End(done)).is_ok() {
            let _: Result<(), RecvTimeoutError> = written.recv_timeout(PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what is written, and waits at each line for the permission to go on.
    struct Slow(Arc<Mutex<Vec<u8>>>, Receiver<()>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _gone = self.1.recv();
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_come_whole_and_in_order_and_too_many_are_dropped() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let (go, permission) = std::sync::mpsc::channel();
        let (lines, rest) = start(Slow(written.clone(), permission), 4).unwrap();
        for number in 0..100 {
            let mut line = lines.make_writer();
            write!(line, "line ").unwrap();
            writeln!(line, "{number}").unwrap();
        }
        // From here on the writer waits for nothing.
        drop(go);
        while written.lock().unwrap().iter().filter(|byte| **byte == b'\n').count() < 4 {
            std::thread::yield_now();
        }
        drop(rest);
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let found: Vec<&str> = text.lines().collect();
        assert!((4..=6).contains(&found.len()), "{text}");
        // The writer may have begun in the middle, and made room for one of them then.
        let numbers: Vec<usize> = found
            .iter()
            .map(|line| {
                line.strip_prefix("line ").and_then(|number| number.parse().ok()).expect("it is whole")
            })
            .collect();
        assert!(numbers.is_sorted_by(|one, next| one < next) && numbers[..4] == [0, 1, 2, 3], "{text}");
    }
}
