//! Nothing is left behind: on Ctrl-C, SIGTERM, a broken pipe or a panic the replica processes are ended, by their ids.
//!
//! The normal way is a [`Fleet`](crate::fleet::Fleet) that is finished or dropped. This is for the ways around it: the
//! release build aborts on a panic, and a signal ends the process wherever it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::disks;
use crate::failure::{Failure, Result};

/// What a shell expects of a command that a signal ended.
const INTERRUPTED: i32 = 130;

/// The same, of one that writes to a pipe that nobody reads.
const UNREAD: i32 = 141;
/// Of one that could not write what it found: the disk is full, say.
const UNWRITTEN: i32 = 1;
/// How the standard library's `println!` panics then, up to the error;
const UNPRINTED: &str = "failed printing to stdout: ";
/// and how that ends if nobody reads.
const BROKEN_PIPE: &str = "(os error 32)";

static LEFTOVERS: Mutex<Leftovers> = Mutex::new(Leftovers {
    pids: BTreeSet::new(),
    directories: BTreeSet::new(),
    #[cfg(feature = "tui")]
    on_terminal: false,
    at_the_end: None,
});

struct Leftovers {
    /// Replica processes that run.
    pids: BTreeSet<u32>,
    /// To be removed if a signal ends the command: nobody asked for the logs of an interrupted run.
    directories: BTreeSet<PathBuf>,
    /// The terminal is in raw mode.
    #[cfg(feature = "tui")]
    on_terminal: bool,
    /// What else there is to clean up, once the processes are gone.
    at_the_end: Option<fn()>,
}

/// Ends the replicas when this process is interrupted or panics, from now on.
pub fn guard() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::cannot_start(format!("cannot watch for signals: {error}")))?;
    let watch = move || {
        if signals.forever().next().is_some() {
            interrupt();
        }
    };
    let watching = thread::Builder::new().name("signals".into()).spawn(watch);
    watching.map_err(|error| Failure::cannot_start(format!("cannot start a thread: {error}")))?;
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if highwater_core::contain::contained() {
            // A procedure's: nothing ends.
            return report(info);
        }
        let unwritten = info.payload().downcast_ref::<String>().and_then(|text| text.strip_prefix(UNPRINTED));
        if unwritten.is_some_and(|why| why.ends_with(BROKEN_PIPE)) {
            unread();
        }
        let mut leftovers = leftovers();
        leftovers.restore_terminal();
        leftovers.end_processes();
        if let Some(why) = unwritten {
            leftovers.remove_files();
            eprintln!("highwater: cannot write to standard output: {why}");
            std::process::exit(UNWRITTEN);
        }
        drop(leftovers);
        report(info);
    }));
    Ok(())
}

/// Ends everything and this process.
pub fn interrupt() -> ! {
    let mut leftovers = leftovers();
    leftovers.restore_terminal();
    leftovers.end_processes();
    leftovers.remove_files();
    eprintln!("highwater: interrupted");
    std::process::exit(INTERRUPTED);
}

/// Ends everything and this process, without a word: `highwater .. | head`, nobody reads on, which is no error of ours.
pub fn unread() -> ! {
    let mut leftovers = leftovers();
    leftovers.restore_terminal();
    leftovers.end_processes();
    leftovers.remove_files();
    std::process::exit(UNREAD);
}

/// A replica process runs.
pub fn started(pid: u32) {
    leftovers().pids.insert(pid);
}

/// A replica process is dead and reaped.
pub fn ended(pid: u32) {
    leftovers().pids.remove(&pid);
}

/// Where replicas keep their files.
pub fn keeps_files_in(directory: &Path) {
    leftovers().directories.insert(directory.to_path_buf());
}

/// What becomes of these files is settled.
pub fn files_are_settled(directory: &Path) {
    leftovers().directories.remove(directory);
}

/// What else to clean up, once the processes are gone.
pub fn at_the_end(cleans_up: fn()) {
    leftovers().at_the_end = Some(cleans_up);
}

/// Whether the terminal is in raw mode.
#[cfg(feature = "tui")]
pub fn draws_on_terminal(drawing: bool) {
    leftovers().on_terminal = drawing;
}

fn leftovers() -> MutexGuard<'static, Leftovers> {
    LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leftovers {
    fn restore_terminal(&mut self) {
        #[cfg(feature = "tui")]
        if std::mem::take(&mut self.on_terminal) {
            ratatui::restore();
        }
    }

    fn remove_files(&mut self) {
        for directory in std::mem::take(&mut self.directories) {
            disks::unmount_below(&directory);
            // Best effort: the process ends either way.
            let _ = std::fs::remove_dir_all(directory);
        }
    }

    fn end_processes(&mut self) {
        let pids = std::mem::take(&mut self.pids);
        let pids: Vec<Pid> = pids.into_iter().filter_map(|pid| Pid::from_raw(pid as i32)).collect();
        for pid in &pids {
            // One that is dead already is as good.
            let _ = kill_process(*pid, Signal::KILL);
        }
        for pid in pids {
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
        if let Some(clean_up) = self.at_the_end.take() {
            clean_up();
        }
    }
}
