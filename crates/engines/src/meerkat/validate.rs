//! Validation: whether a transaction can stand at its timestamp (the paper's algorithm 1), and what follows when it is over.
//!
//! Each replica decides by its own store and marks, whatever others do. Two transactions that cannot both commit are never both
//! found valid by one replica: whichever comes later meets the mark of the earlier one, or what it left. Quorums make the rest.
//!
//! Where we are more exact than the paper: a writer under way at or below the version that was read is not in the way. It is what
//! was read (at another replica, which has been told already that it committed), or older.

use std::ops::ControlFlow;

use highwater_core::{Direction, TableId, Timestamp};
use highwater_store::Latest;

use super::marks::{InTheWay, Marks, hash};
use super::payload::{Payload, Scan, with_key};

/// Looks whether the transaction can commit at `ts`, and marks what it reads and writes if so. If not, nothing is marked.
pub fn validate(
    marks: &Marks,
    latest: &mut Latest,
    payload: &Payload,
    ts: Timestamp,
) -> Result<(), InTheWay> {
    let valid = mark(marks, latest, payload, ts);
    if valid.is_err() {
        unmark(marks, payload, ts, false);
    }
    valid
}

/// The transaction is over. If it committed its writes are installed: who reads now finds a mark or what was written.
pub fn unmark(marks: &Marks, payload: &Payload, ts: Timestamp, committed: bool) {
    for read in payload.reads() {
        marks.end_read(hash(read.table, read.key), ts, committed);
    }
    for scan in payload.scans() {
        marks.end_scan(scan.table, scan.range, ts, committed);
    }
    for write in payload.writes() {
        with_key(write.key, |key| {
            marks.end_write(hash(write.table, key), ts);
            marks.end_write_ranged(write.table, key, ts);
        });
    }
}

fn mark(marks: &Marks, latest: &mut Latest, payload: &Payload, ts: Timestamp) -> Result<(), InTheWay> {
    for read in payload.reads() {
        let now = || version(latest, read.table, read.key);
        marks.read(hash(read.table, read.key), ts, read.version, now)?;
    }
    for scan in payload.scans() {
        let seen = |key: &[u8]| scan.version_of(key);
        marks.scan(scan.table, scan.range, ts, seen, || still(latest, &scan))?;
    }
    payload.writes().try_for_each(|write| {
        with_key(write.key, |key| {
            marks.write(hash(write.table, key), ts)?;
            marks.write_ranged(write.table, key, ts)
        })
    })
}

fn version(latest: &mut Latest, table: TableId, key: &[u8]) -> Timestamp {
    latest.version(table, key).map_or(Timestamp::ZERO, |(ts, _)| ts)
}

/// Whether the range holds here what the scan saw, or older versions of that: what is newer elsewhere is on its way. A key that was
/// deleted, and of which the scan saw no trace, makes no difference to what it read.
fn still(latest: &mut Latest, scan: &Scan<'_>) -> Result<(), InTheWay> {
    let mut newer = None;
    let mut items: Vec<_> = scan.items.clone();
    items.sort_unstable();
    let looked = latest.scan(scan.table, scan.range, Direction::Forward, |key, version| {
        let seen = items.binary_search_by(|(seen, _)| (*seen).cmp(key)).map(|at| items[at].1);
        let same = match seen {
            Ok(seen) => version.ts <= seen,
            Err(_) => version.value.is_none(),
        };
        if same {
            return ControlFlow::Continue(());
        }
        newer = Some(InTheWay(version.ts));
        ControlFlow::Break(())
    });
    debug_assert!(looked.is_ok(), "whoever executed it could scan the table");
    newer.map_or(Ok(()), Err)
}
