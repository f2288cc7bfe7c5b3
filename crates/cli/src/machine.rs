//! What a report must say about the machine, and the clocks that all its processes share.

use std::fs;
use std::process::{Command, Stdio};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The machine as a reader of the figures wants to know it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The CPU's name.
    pub cpu_model: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// The kernel's clock source.
    pub clock_source: String,
    /// `git describe` of the checkout that this binary was built from, if it is still there.
    pub git: Option<String>,
    /// The 1-minute load average before the run.
    pub load_average_before: f64,
    /// And after it; our own load included.
    pub load_average_after: f64,
}

impl Machine {
    /// Looks at the machine before a run.
    pub fn look() -> Machine {
        let load = load_average();
        Machine {
            cpu_model: cpu_model().unwrap_or_else(|| "unknown".into()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            clock_source: clock_source().unwrap_or_else(|| "unknown".into()),
            git: git_describe(),
            load_average_before: load,
            load_average_after: load,
        }
    }

    /// Looks again after it.
    pub fn look_again(&mut self) {
        self.load_average_after = load_average();
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`: one clock for all processes of a machine.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds of CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn cpu_model() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn clock_source() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

fn git_describe() -> Option<String> {
    let mut command = Command::new("git");
    command.args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--tags"]);
    let output = command.stderr(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_forward() {
        let (wall, cpu) = (monotonic_ns(), thread_cpu_ns());
        assert!((0..1000).map(|n| n * n).sum::<u64>() > 0);
        assert!(monotonic_ns() > wall && thread_cpu_ns() >= cpu);
    }
}
