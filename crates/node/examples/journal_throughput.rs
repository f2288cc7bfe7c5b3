//! How fast a journal takes records on a real directory, and how fast it is read again:
//!
//! ```text
//! cargo run --profile dist -p highwater-node --example journal_throughput -- DIR SECONDS KEPT
//! ```
//!
//! DIR is made below, used, and removed; it should be on the disk in question. Each line is measured for SECONDS. The journal
//! writes anew to KEPT files at most that it needs no more (4): with 0 all blocks are new ones.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use highwater_disk::{Journal, JournalOptions};
use highwater_node::storage::DataDirectory;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let dir = args.next().map_or_else(std::env::temp_dir, PathBuf::from).join("journal-throughput");
    let seconds = args.next().map_or(Ok(2.0), |seconds| seconds.parse())?;
    let kept = args.next().map_or(Ok(4), |kept| kept.parse())?;
    println!("record     appends/sync   records/s      MB/s   syncs/s   sync p50   sync p99   read MB/s");
    for record_bytes in [4 << 10, 256 << 10] {
        for per_sync in [1, 8, 64] {
            measure(&dir, record_bytes, per_sync, kept, Duration::from_secs_f64(seconds))?;
        }
    }
    Ok(())
}

/// One line. What is measured is written to a journal of its own, which has released some segments before and goes on to.
fn measure(dir: &Path, record_bytes: usize, per_sync: usize, kept: usize, time: Duration) -> Outcome {
    let disk = DataDirectory::open(dir)?;
    let options = JournalOptions { journal: 1, writers: 1, segment_bytes: 64 << 20 };
    let (mut journal, _) = Journal::open(disk.clone(), options, &mut |_| {})?;
    journal.reclaim(kept);
    for _ in 0..8 * kept {
        journal.append(0, &[7; 8 << 20])?;
        let position = journal.sync()?[0];
        journal.release(0, position)?;
    }
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
        journal.release(0, position.saturating_sub(64 << 20))?;
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
    measure(&folder.path().join("journal"), 5000, 3, 1, Duration::from_millis(5)).expect("it measures");
}
