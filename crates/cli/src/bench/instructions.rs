//! Instructions of each replica over the measured seconds: a figure that a noisy machine does not move.
//!
//! `perf stat` counts them where the machine has counters that it may use. Most virtual machines have none: then nothing is measured, and the
//! reason is told before anything is started.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::fleet::Fleet;

/// How many of its instructions each replica ran, the loaded one first.
#[derive(Clone, Debug, Serialize)]
pub struct InstructionReport {
    /// In user mode.
    pub user: Vec<u64>,
    /// In the kernel.
    pub kernel: Vec<u64>,
}

/// One process of `perf stat` for each replica, the loaded one first.
pub struct Counting {
    counters: Vec<Child>,
}

/// Fails, in words, if this machine does not let `perf stat` count instructions.
pub fn expect_counters() -> Result<()> {
    let tried = Command::new("perf").args(["stat", "-x,", "-e", "instructions:u", "true"]).output();
    let counts = tried.is_ok_and(|output| {
        output.status.success() && instructions(&output.stderr, "instructions:u").is_some()
    });
    let refused = || {
        Failure::cannot_start(
            "--instructions: perf stat cannot count instructions on this machine (no perf, no right to it, or no hardware counters)",
        )
    };
    if counts { Ok(()) } else { Err(refused()) }
}

impl Counting {
    /// Begins to count.
    pub fn begin(fleet: &Fleet, loaded: usize) -> Result<Counting> {
        let others = (0..fleet.len()).filter(|node| *node != loaded);
        let pids = [loaded].into_iter().chain(others).filter_map(|node| fleet.pid(node));
        Ok(Counting { counters: pids.map(perf).collect::<Result<_>>()? })
    }

    /// Ends it.
    pub fn end(self) -> Result<InstructionReport> {
        let counts = self.counters.into_iter().map(counted).collect::<Result<Vec<_>>>()?;
        let (user, kernel) = counts.into_iter().unzip();
        Ok(InstructionReport { user, kernel })
    }
}

/// The count of an event in what `perf stat -x,` wrote; `None` if it could not count it.
fn instructions(written: &[u8], event: &str) -> Option<u64> {
    let text = String::from_utf8_lossy(written);
    let line = text.lines().find(|line| line.split(',').any(|field| field == event))?;
    line.split(',').next()?.parse().ok()
}

fn perf(pid: u32) -> Result<Child> {
    let pid = pid.to_string();
    let mut command = Command::new("perf");
    command.args(["stat", "-x,", "-e", "instructions:u,instructions:k", "-p", &pid]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().map_err(|error| Failure::cannot_start(format!("cannot run perf stat: {error}")))
}

fn counted(child: Child) -> Result<(u64, u64)> {
    let failed = |why: String| Failure::negative(format!("perf stat: {why}"));
    let pid = Pid::from_raw(child.id() as i32).expect("a child has an id");
    kill_process(pid, Signal::INT).map_err(|error| failed(error.to_string()))?;
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    let count = |event| {
        let counted = instructions(&output.stderr, event);
        counted.ok_or_else(|| failed(String::from_utf8_lossy(&output.stderr).trim().to_string()))
    };
    Ok((count("instructions:u")?, count("instructions:k")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_perf_cannot_count_is_no_count() {
        let counted = b"123456,,instructions:u,1000,100.00,,\n789,,instructions:k,1000,100.00,,\n";
        assert_eq!(instructions(counted, "instructions:u"), Some(123_456));
        assert_eq!(instructions(counted, "instructions:k"), Some(789));
        assert_eq!(instructions(b"<not supported>,,instructions:u,0,100.00,,\n", "instructions:u"), None);
        assert_eq!(instructions(b"perf: command not found", "instructions:u"), None);
    }
}
