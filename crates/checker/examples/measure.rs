//! Reads and judges histories, and says how long each step took and how much memory it needed at most (Linux):
//!
//! `cargo run --release -p highwater-checker --example measure -- run.jsonl`

use std::time::Instant;

use highwater_checker::{History, Options, check_with};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let history = History::read(std::env::args().skip(1))?;
    println!("{:8.2} s read", began.elapsed().as_secs_f64());
    let verdict = check_with(&history, &Options::strict(), &mut |step| {
        println!("{:8.2} s {step}", began.elapsed().as_secs_f64());
    });
    println!("{:8.2} s done: {:?}, {:?}", began.elapsed().as_secs_f64(), verdict.found, verdict.counts);
    for line in std::fs::read_to_string("/proc/self/status")?.lines().filter(|line| line.starts_with("VmHWM"))
    {
        println!("{line}");
    }
    Ok(())
}
