//! One failover: kill the leader with SIGKILL under load, measure the gap, bring the victim back.
//!
//! Where nobody leads, any replica is killed, and the gap is the longest time after that in which no other one released anything.
//!
//! The gap is the time without released transactions: from the last release that the old leader is known to have made
//! to the first one of its successor. All replicas read the same `CLOCK_MONOTONIC`. The old leader is asked every
//! few milliseconds until it dies; releases after its last answer make the true gap shorter than the reported one.

use std::thread;
use std::time::{Duration, Instant};

use highwater_node::admin::protocol::{LoadReport, StatusReport};
use highwater_seam::Service;
use serde::Serialize;

use crate::admin::{AdminClient, failure_at};
use crate::audit::Acknowledged;
use crate::failure::{Failure, Result};
use crate::fleet::Fleet;
use crate::load;
use crate::machine::monotonic_ns;

/// How often the leader is asked what it acknowledged.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// How long it is asked before it is killed.
const ASK_FOR: Duration = Duration::from_millis(100);
/// How long a successor may take before the cluster counts as lost.
const SUCCESSION: Duration = Duration::from_secs(30);
/// How long a copy of the state may stand still before it counts as failed.
const STANDSTILL: Duration = Duration::from_secs(60);
/// How long a replica may take to become a voter, however much it moves.
const REJOIN: Duration = Duration::from_secs(600);
/// How long the others are watched where nobody has to take over: longer than it takes to notice a death, and to end what the dead
/// replica had under way.
const AFTERMATH: Duration = Duration::from_millis(1500);
/// Width of the slices of [`LoadReport::slices`].
const SLICE: Duration = Duration::from_millis(10);

/// A kill and the takeover that followed.
#[derive(Clone, Debug, Serialize)]
pub struct Failover {
    /// Who was killed.
    pub victim: usize,
    /// Who leads now; where nobody does, one that goes on.
    pub successor: usize,
    /// From the last release before to the first one after, in milliseconds. Where nobody leads: the longest time without a release.
    pub gap_ms: f64,
    /// From the signal to the first release after, in milliseconds. Where nobody leads: to the end of that time.
    pub from_kill_ms: f64,
}

/// How a killed replica came back.
#[derive(Clone, Debug, Serialize)]
pub struct Rejoin {
    /// From the start of the process to being a voter, in seconds.
    pub seconds: f64,
    /// Bytes in the leader's store when it was done.
    pub store_bytes: u64,
    /// Longest time without a release while it caught up, in milliseconds.
    pub longest_gap_ms: f64,
}

/// Kills the leader and waits for releases from another one, where a fresh load must be waiting; or, where nobody leads, a replica
/// beside others that go on. Adds to `acknowledged`
/// all that the old one said.
pub fn kill_leader(fleet: &mut Fleet, leader: usize, acknowledged: &mut Acknowledged) -> Result<Failover> {
    let witness = Witness::start(fleet, leader)?;
    thread::sleep(ASK_FOR);
    let kill_ns = monotonic_ns();
    fleet.kill(leader)?;
    let (said, last_release_ns) = witness.join();
    acknowledged.merge(&said);
    if last_release_ns == 0 {
        return Err(Failure::negative(format!("replica {leader} was killed before it released anything")));
    }
    if fleet.engine().abilities().leaderless {
        thread::sleep(AFTERMATH);
        return gap_of_the_others(fleet, leader, kill_ns);
    }
    let (successor, first_release_ns) = successor(fleet, leader, last_release_ns)?;
    Ok(Failover {
        victim: leader,
        successor,
        gap_ms: millis(first_release_ns - last_release_ns),
        from_kill_ms: millis(first_release_ns.saturating_sub(kill_ns)),
    })
}

/// Starts a killed replica again and waits until it votes; shows `progress` its state now and then.
pub fn rejoin(
    fleet: &mut Fleet,
    victim: usize,
    leader: usize,
    mut progress: impl FnMut(&StatusReport),
) -> Result<Rejoin> {
    let started = Instant::now();
    fleet.start_again(victim)?;
    let mut moved = (started, None);
    loop {
        thread::sleep(Duration::from_millis(20));
        let (Some(mine), Some(leading)) = (fleet.status(victim), fleet.status(leader)) else {
            if moved.0.elapsed() > STANDSTILL {
                return Err(Failure::negative(format!("replica {victim} does not come back")));
            }
            continue;
        };
        progress(&mine);
        if votes(&mine, &leading) {
            let seconds = started.elapsed().as_secs_f64();
            let longest_gap_ms = longest_gap_ms(fleet, leader, started.elapsed());
            return Ok(Rejoin { seconds, store_bytes: leading.store_bytes, longest_gap_ms });
        }
        let state = Some((mine.role.clone(), mine.copying_bytes, mine.applied));
        if state != moved.1 {
            moved = (Instant::now(), state);
        }
        if moved.0.elapsed() > STANDSTILL || started.elapsed() > REJOIN {
            let (role, seconds) = (&mine.role, started.elapsed().as_secs());
            let trouble = mine.trouble.as_deref().unwrap_or("no trouble reported");
            return Err(Failure::negative(format!(
                "replica {victim} is still a {role} after {seconds} s: {trouble}"
            )));
        }
    }
}

/// Whether the leader counts this life of the replica as a voter, and the replica knows.
fn votes(mine: &StatusReport, leading: &StatusReport) -> bool {
    let mine = mine.status();
    mine.service >= Service::Standby && mine.votes_by(&leading.status())
}

fn longest_gap_ms(fleet: &Fleet, leader: usize, window: Duration) -> f64 {
    let Ok(report) = fleet.admin(leader).and_then(|mut admin| load::stats(&mut admin)) else { return 0.0 };
    let wanted = (window.as_millis() / SLICE.as_millis()) as usize;
    let recent = &report.slices[report.slices.len().saturating_sub(wanted)..];
    let longest = recent.split(|released| *released > 0).map(<[u32]>::len).max().unwrap_or(0);
    (longest as u128 * SLICE.as_millis()) as f64
}

/// The longest time since the kill in which no survivor released anything, by the slices of all of them.
fn gap_of_the_others(fleet: &Fleet, victim: usize, kill_ns: u64) -> Result<Failover> {
    let survivors = || (0..fleet.len()).filter(|node| *node != victim);
    let mut reports = Vec::new();
    for node in survivors() {
        reports.push(load::stats(&mut fleet.admin(node)?)?);
    }
    let width = SLICE.as_nanos() as u64;
    let released = |slice: u64| -> u32 {
        let at = |report: &LoadReport| {
            let back = (report.slices_end_ns / width).checked_sub(slice + 1)?;
            report.slices.iter().rev().nth(back as usize).copied()
        };
        reports.iter().filter_map(at).sum()
    };
    let end = reports.iter().map(|report| report.slices_end_ns / width).min().unwrap_or_default();
    let (mut longest, mut ended, mut since) = (0, kill_ns / width, kill_ns / width);
    for slice in kill_ns / width..end {
        if released(slice) > 0 {
            since = slice + 1;
        } else if slice + 1 - since > longest {
            (longest, ended) = (slice + 1 - since, slice + 1);
        }
    }
    if since == kill_ns / width {
        return Err(Failure::unavailable(format!(
            "no replica released anything within {} ms after replica {victim} was killed",
            AFTERMATH.as_millis()
        )));
    }
    Ok(Failover {
        victim,
        successor: survivors().next().expect("a fleet that fails over has several replicas"),
        gap_ms: millis(longest * width),
        from_kill_ms: millis((ended * width).saturating_sub(kill_ns)),
    })
}

/// Waits until a survivor releases something. The load was waiting on all of them.
fn successor(fleet: &Fleet, victim: usize, last_release_ns: u64) -> Result<(usize, u64)> {
    let mut survivors = Vec::new();
    for node in (0..fleet.len()).filter(|node| *node != victim) {
        survivors.push((node, fleet.admin(node)?));
    }
    let deadline = Instant::now() + SUCCESSION;
    while Instant::now() < deadline {
        for (node, admin) in &mut survivors {
            let report = load::stats(admin)?;
            if report.first_release_ns > last_release_ns {
                return Ok((*node, report.first_release_ns));
            }
        }
        thread::sleep(ASK_EVERY);
    }
    let seconds = SUCCESSION.as_secs();
    Err(Failure::unavailable(format!(
        "no replica took over within {seconds} s after replica {victim} was killed"
    )))
}

fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Asks a replica what it acknowledged until it is dead.
struct Witness(thread::JoinHandle<(Acknowledged, u64)>);

impl Witness {
    fn start(fleet: &Fleet, node: usize) -> Result<Witness> {
        let address = fleet.admin_address(node);
        let mut admin = AdminClient::connect(address).map_err(|error| failure_at(address, error))?;
        Ok(Witness(thread::spawn(move || {
            let mut acknowledged = Acknowledged::default();
            let mut last_release_ns = 0;
            while let Ok(report) = admin.load_stats() {
                acknowledged.add(&report);
                last_release_ns = last_release_ns.max(report.last_release_ns);
                thread::sleep(ASK_EVERY);
            }
            (acknowledged, last_release_ns)
        })))
    }

    fn join(self) -> (Acknowledged, u64) {
        self.0.join().expect("the witness does not panic")
    }
}
