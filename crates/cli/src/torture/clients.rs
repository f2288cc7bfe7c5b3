//! The client processes, as the director sees them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use highwater_engines::EngineKind;

use super::client::Tally;
use crate::failure::{Failure, Result};
use crate::interrupt;

/// Clients per process.
const PER_PROCESS: u64 = 4;
/// How long a process may take to end: longer than the most patient client waits.
const GOODBYE: Duration = Duration::from_secs(20);

/// What to start.
#[derive(Clone, Debug)]
pub struct ClientsSpec {
    /// What they ask: it decides what clients there are.
    pub engine: EngineKind,
    /// Where the replicas' RESP doors are.
    pub doors: Vec<SocketAddr>,
    /// How many clients.
    pub clients: u64,
    /// How many process numbers belong together: clients and whoever else writes history.
    pub of: u64,
    /// Transactions per second of all clients, at most.
    pub rate: f64,
    /// Seed of what is drawn.
    pub seed: u64,
    /// Whether some count under sessions.
    pub counters: bool,
    /// Directory of the history files.
    pub history: PathBuf,
}

/// Running client processes; they end when this is dropped.
#[derive(Debug)]
pub struct Clients {
    processes: Vec<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// It ends with this pipe.
    lifeline: Option<ChildStdin>,
    tally: Arc<Mutex<Tally>>,
    reader: Option<thread::JoinHandle<()>>,
    log: PathBuf,
}

impl Clients {
    /// Starts the processes.
    pub fn start(spec: &ClientsSpec, logs: &Path) -> Result<Clients> {
        let mut clients = Clients { processes: Vec::new() };
        for first in (0..spec.clients).step_by(PER_PROCESS as usize) {
            let count = PER_PROCESS.min(spec.clients - first);
            clients.processes.push(Process::start(spec, first, count, logs)?);
        }
        Ok(clients)
    }

    /// All counts together.
    pub fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        for process in &self.processes {
            let tally = process.tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
            sum.transactions = sum.transactions.plus(tally.transactions);
            sum.snapshots = sum.snapshots.plus(tally.snapshots);
            sum.bounded = sum.bounded.plus(tally.bounded);
            sum.last_ok_ns = sum.last_ok_ns.max(tally.last_ok_ns);
            sum.trouble.extend(tally.trouble);
            sum.counted.extend(tally.counted);
            sum.generations.resize(tally.generations.len().max(sum.generations.len()), 0);
            for (slot, generation) in tally.generations.into_iter().enumerate() {
                sum.generations[slot] = sum.generations[slot].max(generation);
            }
        }
        sum
    }

    /// A failure if a client process ended.
    pub fn none_died(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(|process| match process.child.try_wait() {
            Ok(Some(status)) => Err(process.failed(&status.to_string())),
            _ => Ok(()),
        })
    }

    /// Ends the load; the final counts.
    pub fn stop(mut self) -> Result<Tally> {
        for process in &mut self.processes {
            process.lifeline = None;
        }
        let deadline = Instant::now() + GOODBYE;
        for process in &mut self.processes {
            let status = loop {
                match process.child.try_wait().map_err(Failure::negative)? {
                    Some(status) => break status,
                    None if Instant::now() > deadline => return Err(process.failed("it does not end")),
                    None => thread::sleep(Duration::from_millis(10)),
                }
            };
            if let Some(reader) = process.reader.take() {
                reader.join().map_err(|_| Failure::negative("the reader of a client process broke"))?;
            }
            if !status.success() {
                return Err(process.failed(&status.to_string()));
            }
        }
        Ok(self.tally())
    }
}

impl Process {
    fn start(spec: &ClientsSpec, first: u64, count: u64, logs: &Path) -> Result<Process> {
        let binary = std::env::current_exe().map_err(Failure::cannot_start)?;
        let log = logs.join(format!("client-{first}.log"));
        let stderr = File::create(&log).map_err(Failure::cannot_start)?;
        let doors: Vec<String> = spec.doors.iter().map(ToString::to_string).collect();
        let mut command = Command::new(binary);
        command.arg("torture-client").args(["--engine", spec.engine.name(), "--doors", &doors.join(",")]);
        let numbers = [("--first", first), ("--count", count), ("--of", spec.of), ("--seed", spec.seed)];
        for (flag, number) in numbers {
            command.arg(flag).arg(number.to_string());
        }
        command.arg("--rate").arg((spec.rate / spec.clients as f64).to_string());
        command.arg("--history").arg(&spec.history);
        if !spec.counters {
            command.arg("--no-counters");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command
            .spawn()
            .map_err(|error| Failure::cannot_start(format!("cannot start clients: {error}")))?;
        interrupt::started(child.id());
        let lifeline = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let tally = Arc::new(Mutex::new(Tally::default()));
        let latest = tally.clone();
        let reader = thread::spawn(move || {
            for told in lines.map_while(std::result::Result::ok) {
                if let Ok(told) = serde_json::from_str(&told) {
                    *latest.lock().unwrap_or_else(PoisonError::into_inner) = told;
                }
            }
        });
        Ok(Process { child, lifeline, tally, reader: Some(reader), log })
    }

    fn failed(&self, how: &str) -> Failure {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        Failure::negative(format!("a client process failed ({how}): {}", text.trim()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // Its history is complete after `stop`, and of no use otherwise.
        let _ = self.child.kill();
        let _ = self.child.wait();
        interrupt::ended(self.child.id());
    }
}
