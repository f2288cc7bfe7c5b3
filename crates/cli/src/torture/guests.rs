//! The guests, as the director sees them: processes that torment the cluster or the machine for a while.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use highwater_engines::EngineKind;

use super::guest::Told;
use super::schedule::FaultKind;
use crate::failure::{Failure, Result};
use crate::interrupt;

/// How long a guest may go on without doing anything, and behind its time without having done anything. How long one takes that fills or reads depends on how
/// fast the cluster and the machine are, so its time alone does not say that it hangs; one that asks for what is refused gives up sooner than this.
const SILENCE: Duration = Duration::from_secs(240);
/// Processes of a strike with CPU hogs, and how much memory each of a strike with memory hogs takes of what is free.
const HOGS: u64 = 4;
const MEMORY_HOGS: u64 = 3;
const SHARE: u64 = 6;
/// The most that one of them takes, in MiB.
const MOST_MB: u64 = 1024;

/// What every guest of a run is told.
#[derive(Clone, Debug)]
pub struct House {
    /// What the replicas run.
    pub engine: EngineKind,
    /// Where the replicas' RESP doors are.
    pub doors: Vec<SocketAddr>,
    /// MiB that each replica may take.
    pub memory_mb: u64,
    /// Where their logs go.
    pub logs: PathBuf,
}

/// What guests did, all of them.
#[derive(Debug, Default)]
pub struct Guestbook {
    next: u64,
    /// How often what was done, by kind.
    pub counts: BTreeMap<FaultKind, BTreeMap<String, u64>>,
    /// What must not happen, in words.
    pub trouble: Vec<String>,
}

/// One process.
#[derive(Debug)]
pub struct Guest {
    kind: FaultKind,
    child: Child,
    /// It ends with this pipe; a line in it lets it go on.
    lifeline: Option<ChildStdin>,
    heard: Arc<Mutex<Heard>>,
    reader: Option<thread::JoinHandle<()>>,
    log: PathBuf,
    /// When its time is up, if its job has no other end.
    over: Instant,
}

/// What a guest told last, and when.
#[derive(Debug)]
struct Heard {
    told: Told,
    at: Instant,
}

impl Guestbook {
    /// Lets the guests of a strike in.
    pub fn invite(
        &mut self,
        house: &House,
        kind: FaultKind,
        seed: u64,
        lasts: Duration,
    ) -> Result<(String, Vec<Guest>)> {
        let available = available_mb();
        let (count, memory_mb) = match kind {
            FaultKind::Hogs => (HOGS, 0),
            FaultKind::MemoryHogs => (MEMORY_HOGS, (available / SHARE).min(MOST_MB)),
            _ => (1, house.memory_mb),
        };
        let mut guests = Vec::new();
        for _ in 0..count {
            let number = self.next;
            self.next += 1;
            guests.push(Guest::start(house, kind, number, seed, lasts, memory_mb)?);
        }
        let what = match kind {
            FaultKind::Hogs => format!("{count} processes burn CPU"),
            FaultKind::MemoryHogs => format!("{count} processes walk over {memory_mb} MiB each"),
            FaultKind::Memory => "memory is filled".into(),
            FaultKind::Sizes => "sizes up to the limits".into(),
            FaultKind::Floods => "pipelines of up to 100,000 commands".into(),
            FaultKind::HalfClose => "clients close their sending side".into(),
            FaultKind::Stalled => "clients that do not read".into(),
            FaultKind::Vanish => "clients idle and vanish".into(),
            _ => "connections by the hundred".into(),
        };
        Ok((what, guests))
    }

    /// Writes down what a guest did that has ended.
    pub fn farewell(&mut self, mut guest: Guest) -> Result<()> {
        let status = guest.child.wait().map_err(Failure::negative)?;
        if let Some(reader) = guest.reader.take() {
            reader.join().map_err(|_| Failure::negative("the reader of a guest broke"))?;
        }
        if !status.success() {
            return Err(guest.failed(&status.to_string()));
        }
        let told = guest.told();
        let counts = self.counts.entry(guest.kind).or_default();
        for (what, n) in told.counts {
            *counts.entry(what).or_default() += n;
        }
        self.trouble.extend(told.trouble);
        Ok(())
    }
}

impl Guest {
    fn start(
        house: &House,
        kind: FaultKind,
        number: u64,
        seed: u64,
        lasts: Duration,
        memory_mb: u64,
    ) -> Result<Guest> {
        let binary = std::env::current_exe().map_err(Failure::cannot_start)?;
        let log = house.logs.join(format!("guest-{number}.log"));
        let stderr = File::create(&log).map_err(Failure::cannot_start)?;
        let doors: Vec<String> = house.doors.iter().map(ToString::to_string).collect();
        let mut command = Command::new(binary);
        command.arg("torture-guest").args(["--engine", house.engine.name()]);
        command.args(["--doors", &doors.join(","), "--job", kind.name()]);
        let lasts_ms = lasts.as_millis() as u64;
        let numbers =
            [("--number", number), ("--seed", seed), ("--lasts-ms", lasts_ms), ("--memory-mb", memory_mb)];
        for (flag, number) in numbers {
            command.arg(flag).arg(number.to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command
            .spawn()
            .map_err(|error| Failure::cannot_start(format!("cannot start a guest: {error}")))?;
        interrupt::started(child.id());
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let heard = Arc::new(Mutex::new(Heard { told: Told::default(), at: Instant::now() }));
        let latest = heard.clone();
        let reader = thread::spawn(move || {
            for line in lines.map_while(std::result::Result::ok) {
                if let Ok(told) = serde_json::from_str(&line) {
                    *latest.lock().unwrap_or_else(PoisonError::into_inner) =
                        Heard { told, at: Instant::now() };
                }
            }
        });
        let (lifeline, over) = (child.stdin.take(), Instant::now() + lasts);
        Ok(Guest { kind, child, lifeline, heard, reader: Some(reader), log, over })
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self) -> Told {
        self.heard().told.clone()
    }

    /// Since when it should have done something.
    fn silent_since(&self) -> Instant {
        self.heard().at.max(self.over)
    }

    /// Whether it waits for the restart of a replica.
    pub fn waits(&self) -> bool {
        self.told().waits
    }

    /// Lets it go on.
    pub fn go_on(&mut self) -> Result<()> {
        {
            let mut heard = self.heard();
            // The restart took its time, not the guest.
            (heard.told.waits, heard.at) = (false, Instant::now());
        }
        let told = self.lifeline.as_mut().expect("its lifeline is held").write_all(b"go on\n");
        told.map_err(|error| self.failed(&error.to_string()))
    }

    /// Whether it has ended; a failure if it does not.
    pub fn ended(&mut self) -> Result<bool> {
        match self.child.try_wait().map_err(Failure::negative)? {
            Some(_) => Ok(true),
            None if self.silent_since().elapsed() > SILENCE => {
                Err(self.failed(&format!("it has done nothing for {SILENCE:?}")))
            }
            None => Ok(false),
        }
    }

    fn failed(&self, how: &str) -> Failure {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        Failure::negative(format!("a guest ({}) failed: {how}: {}", self.kind.name(), text.trim()))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
        interrupt::ended(self.child.id());
    }
}

/// MiB that the machine can give without trouble.
fn available_mb() -> u64 {
    let text = std::fs::read_to_string(Path::new("/proc/meminfo")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(MOST_MB, |kib| kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hogs_leave_most_of_the_machine_alone() {
        let available = available_mb();
        assert!(available > 0 && MEMORY_HOGS * (available / SHARE) <= available / 2);
    }
}
