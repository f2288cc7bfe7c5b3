//! Writes much while disks are full, and reads all the time: what is refused must not have happened, and reads must go on.
//!
//! Each write is a block of two keys: megabytes, which use up what is left of the journals, and the write's number. A read of that
//! number says which writes happened.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};
use crate::wire::{Refusal, Reply, Wire};

const BYTES: &str = "torture:ballast";
const NUMBER: &str = "torture:ballast:number";
/// Of a write.
const WRITE_BYTES: usize = 1 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait after a refusal.
const PAUSE: Duration = Duration::from_millis(20);

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weighed {
    /// Writes that were acknowledged.
    pub written: u64,
    /// Writes that were refused for the disks.
    pub refused: u64,
    /// Reads that were answered after the first of these, and before the next write was acknowledged.
    pub read: u64,
    /// What must not happen, in words.
    pub trouble: Vec<String>,
}

/// A thread that writes and reads until it is told to stop.
pub struct Ballast {
    over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Weighed>,
}

impl Ballast {
    /// Begins. `first`: larger than every number of an earlier one.
    pub fn start(doors: Vec<SocketAddr>, first: u64) -> Ballast {
        let over = Arc::<AtomicBool>::default();
        let told = over.clone();
        Ballast { over, thread: thread::spawn(move || Writer::new(doors, first).run(&told)) }
    }

    /// Ends it; what happened.
    pub fn stop(self) -> Result<Weighed> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| Failure::negative("who writes while disks are full broke"))
    }
}

struct Writer {
    doors: Vec<SocketAddr>,
    wire: Option<Wire>,
    next: u64,
    /// What a read may show: the last acknowledged write, or a later one of unknown outcome.
    possible: BTreeSet<u64>,
    weighed: Weighed,
    /// The disks are full: the last write was refused for that.
    full: bool,
}

impl Writer {
    fn new(doors: Vec<SocketAddr>, first: u64) -> Writer {
        let weighed = Weighed::default();
        Writer { doors, wire: None, next: first, possible: BTreeSet::new(), weighed, full: false }
    }

    fn run(mut self, over: &AtomicBool) -> Weighed {
        let mut at = 0;
        while !over.load(Ordering::Relaxed) {
            if self.wire.is_none() {
                at += 1;
                self.wire = Wire::connect(self.doors[at % self.doors.len()], PATIENCE).ok();
            }
            let goes_on = self.write().and_then(|()| self.read());
            if goes_on.is_none() {
                self.wire = None;
                thread::sleep(PAUSE);
            } else if self.full {
                thread::sleep(PAUSE);
            }
        }
        self.weighed
    }

    /// One write; `None`: this connection is of no use.
    fn write(&mut self) -> Option<()> {
        let number = self.next;
        self.next += 1;
        let (bytes, text) = (vec![b'b'; WRITE_BYTES], number.to_string());
        let wire = self.wire.as_mut()?;
        wire.words(&[b"MSET", BYTES.as_bytes(), &bytes, NUMBER.as_bytes(), text.as_bytes()]);
        let answer = wire.send().and_then(|()| wire.reply());
        match answer {
            Ok(Reply::Error(text)) => match Refusal::of(&text) {
                Refusal::Full => {
                    self.weighed.refused += 1;
                    self.full = true;
                    Some(())
                }
                Refusal::Retry | Refusal::NotFresh => Some(()),
                Refusal::NotLeader(_) => None,
                Refusal::Unknown => {
                    self.possible.insert(number);
                    None
                }
                Refusal::Strange(text) => {
                    self.complain(format!("a write while disks are full was answered {text:?}"));
                    None
                }
            },
            Ok(_) => {
                self.weighed.written += 1;
                self.full = false;
                self.possible = BTreeSet::from([number]);
                Some(())
            }
            Err(_) => {
                self.possible.insert(number);
                None
            }
        }
    }

    /// One read; `None`: this connection is of no use.
    fn read(&mut self) -> Option<()> {
        let asked = Instant::now();
        let wire = self.wire.as_mut()?;
        wire.command(&["GET", NUMBER]);
        let shown = match wire.send().and_then(|()| wire.reply()) {
            Ok(Reply::Bulk(shown)) => shown,
            Ok(Reply::Error(text)) => {
                if Refusal::of(&text) == Refusal::Full {
                    self.complain("a read was refused because disks are full".into());
                }
                return None;
            }
            _ => return None,
        };
        let shown = shown.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
        // Before the first acknowledged write somebody else's is shown.
        if !self.possible.is_empty() && self.weighed.written > 0 {
            if !shown.is_some_and(|number| self.possible.contains(&number)) {
                let (possible, after) = (&self.possible, asked.elapsed());
                self.complain(format!(
                    "a read shows write {shown:?} after {after:?}; only {possible:?} may have happened"
                ));
            }
            self.possible.retain(|number| Some(*number) >= shown);
        }
        self.weighed.read += u64::from(self.full);
        Some(())
    }

    fn complain(&mut self, trouble: String) {
        self.weighed.trouble.push(trouble);
    }
}
