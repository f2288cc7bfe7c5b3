//! How fast a journal takes records on a real directory, and how fast it is read again:
//!
//! ```text
//! cargo run --release -p highwater-node --example journal_throughput -- DIR SECONDS
//! ```
//!
//! DIR is made below, used, and removed; it should be on the disk in question. Each line is measured for SECONDS.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use highwater_disk::{Journal, JournalOptions};
use highwater_node::storage::DataDirectory;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let dir = args.next().map_or_else(std::env::temp_dir, PathBuf::from).join("journal-throughput");
    let seconds = args.next().map_or(Ok(2.0), |seconds| seconds.parse())?;
    println!("record     appends/sync   records/s      MB/s   syncs/s   sync p50   sync p99   read MB/s");
    for record_bytes in [4 << 10, 256 << 10] {
        for per_sync in [1, 8, 64] {
            measure(&dir, record_bytes, per_sync, Duration::from_secs_f64(seconds))?;
        }
    }
    Ok(())
}

/// One line. What is measured is written to a journal of its own, of which the last segments are kept.
fn measure(dir: &Path, record_bytes: usize, per_sync: usize, time: Duration) -> Outcome {
    let disk = DataDirectory::open(dir)?;
    let options = JournalOptions { journal: 1, writers: 1, segment_bytes: 64 << 20 };
    let (mut journal, _) = Journal::open(disk.clone(), options, &mut |_| {})?;
    let record = vec![7; record_bytes];
    let mut syncs = Vec::new();
    let began = Instant::now();
    while began.elapsed() < time {
        for _ in 0..per_sync {
            journal.append(0, &record)?;
        }
        let before = Instant::now();
        let position = journal.sync()?[0];
        syncs.push(before.elapsed());
        journal.release(0, position.saturating_sub(512 << 20))?;
    }
    let seconds = began.elapsed().as_secs_f64();
    journal.close()?;

    let mut read_bytes = 0;
    let began = Instant::now();
    let (again, _) = Journal::open(disk, options, &mut |record| read_bytes += record.bytes.len())?;
    let read_seconds = began.elapsed().as_secs_f64();
    drop(again);
    std::fs::remove_dir_all(dir)?;

    syncs.sort_unstable();
    let percentile = |percent: usize| syncs[(syncs.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    let records = (syncs.len() * per_sync) as f64;
    println!(
        "{:>4} KiB {per_sync:>15} {:>11.0} {:>9.1} {:>9.0} {:>7.2} ms {:>7.2} ms {:>11.0}",
        record_bytes >> 10,
        records / seconds,
        records * record_bytes as f64 / seconds / 1e6,
        syncs.len() as f64 / seconds,
        percentile(50),
        percentile(99),
        read_bytes as f64 / read_seconds / 1e6,
    );
    Ok(())
}

#[test]
fn a_line_can_be_measured() {
    let folder = tempfile::tempdir().expect("a test may have a directory");
    measure(&folder.path().join("journal"), 5000, 3, Duration::from_millis(5)).expect("it measures");
}
