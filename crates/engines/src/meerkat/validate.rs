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
///
/// `floor`, asked after the store: whatever was seen at or below it was installed here, and if there is no trace of it, it has been deleted
/// since. `alone`: nobody else keeps tombstones that are collected here, so that this holds for a tombstone that was seen, too.
pub fn validate(
    marks: &Marks,
    latest: &mut Latest,
    payload: &Payload,
    ts: Timestamp,
    (alone, floor): (bool, impl Fn() -> Timestamp),
) -> Result<(), InTheWay> {
    let floor = |deleted: bool| if deleted && !alone { Timestamp::ZERO } else { floor() };
    let valid = mark(marks, latest, payload, ts, &floor);
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

fn mark(
    marks: &Marks,
    latest: &mut Latest,
    payload: &Payload,
    ts: Timestamp,
    floor: &impl Fn(bool) -> Timestamp,
) -> Result<(), InTheWay> {
    for read in payload.reads() {
        let now = || match version(latest, read.table, read.key) {
            Timestamp::ZERO => gone((read.version, read.deleted), floor).unwrap_or(Timestamp::ZERO),
            now => now,
        };
        marks.read(hash(read.table, read.key), ts, read.version, now)?;
    }
    for scan in payload.scans() {
        let seen = |key: &[u8]| scan.version_of(key);
        marks.scan(scan.table, scan.range, ts, seen, || still(latest, &scan, ts, floor))?;
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

/// A version was seen of which there is no trace here. If it is at or below `floor` it was here: it has been deleted since, or was a
/// tombstone, and that is gone. Later than it, at any rate. Else it is on its way.
fn gone((seen, deleted): (Timestamp, bool), floor: &impl Fn(bool) -> Timestamp) -> Option<Timestamp> {
    let floor = floor(deleted);
    (Timestamp::ZERO < seen && seen <= floor).then(|| floor.max(Timestamp(seen.0 + 1)))
}

/// Whether the range holds here what the scan saw, or older versions of that: what is newer elsewhere is on its way. A key that was
/// deleted before `ts`, and of which the scan saw no trace, makes no difference to what it read.
fn still(
    latest: &mut Latest,
    scan: &Scan<'_>,
    ts: Timestamp,
    floor: &impl Fn(bool) -> Timestamp,
) -> Result<(), InTheWay> {
    let mut newer = None;
    let seen = scan.items.iter().zip(&scan.deleted);
    let mut items: Vec<_> = seen.map(|((key, version), deleted)| (*key, *version, *deleted, false)).collect();
    items.sort_unstable();
    let looked = latest.scan(scan.table, scan.range, Direction::Forward, |key, version| {
        let same = match items.binary_search_by(|(seen, ..)| (*seen).cmp(key)) {
            Ok(at) => {
                items[at].3 = true;
                version.ts <= items[at].1
            }
            Err(_) => version.value.is_none() && version.ts < ts,
        };
        if same {
            return ControlFlow::Continue(());
        }
        newer = Some(InTheWay(version.ts));
        ControlFlow::Break(())
    });
    debug_assert!(looked.is_ok(), "whoever executed it could scan the table");
    let newer = newer.or_else(|| {
        let mut missing = items.iter().filter(|(.., found)| !found);
        missing.find_map(|(_, seen, deleted, _)| gone((*seen, *deleted), floor)).map(InTheWay)
    });
    newer.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::ops::Bound::Unbounded;
    use std::sync::Arc;

    use highwater_core::limits::MAX_TRANSACTION_BYTES;
    use highwater_core::{IndexKind, KeyKind, Schema, TableSpec, Transaction};
    use highwater_store::{Applier, Store};

    use super::*;
    use crate::attempt::Attempts;
    use crate::meerkat::tx::MeerkatTx;

    const TABLE: TableId = TableId(0);

    /// A replica, and what its transactions commit.
    struct Replica {
        marks: Marks,
        tx: MeerkatTx,
        applier: Applier,
    }

    impl Replica {
        fn new() -> Replica {
            let schema = || {
                Schema::new(vec![TableSpec { name: "t", keys: KeyKind::Bytes, index: IndexKind::Ordered }])
            };
            let store: Arc<Store> = Store::new(schema());
            Replica {
                marks: Marks::new(&schema(), 0),
                tx: MeerkatTx::new(store.clone(), MAX_TRANSACTION_BYTES),
                applier: Applier::new(store),
            }
        }

        fn run(&mut self, ts: u64, work: impl FnOnce(&mut MeerkatTx)) -> Payload {
            self.tx.begin();
            work(&mut self.tx);
            self.tx.end(Timestamp(ts))
        }

        fn commit(&mut self, ts: u64, work: impl FnOnce(&mut MeerkatTx)) {
            let payload = self.run(ts, work);
            self.applier.apply(payload.transaction(), Timestamp::ZERO, Timestamp::MAX).unwrap();
        }

        fn is_valid(&mut self, payload: &Payload, ts: u64, floor: u64) -> bool {
            let floor = || Timestamp(floor);
            validate(&self.marks, self.tx.latest(), payload, Timestamp(ts), (false, floor)).is_ok()
        }
    }

    fn read(tx: &mut MeerkatTx) {
        let _ = tx.get(TABLE, b"k");
    }

    fn scan(tx: &mut MeerkatTx) {
        tx.scan(TABLE, (Unbounded, Unbounded), Direction::Forward, |_, _| ControlFlow::Continue(())).unwrap();
    }

    /// A transaction was interrupted between execution and validation, and meanwhile what it had read was deleted and the tombstone
    /// collected.
    #[test]
    fn what_was_deleted_without_a_trace_is_not_what_was_read() {
        for work in [read, scan] {
            let mut replica = Replica::new();
            replica.commit(50, |tx| tx.put(TABLE, b"k", b"v").unwrap());
            let payload = replica.run(70, work);
            replica.commit(60, |tx| assert_eq!(tx.delete(TABLE, b"k"), Ok(true)));
            while replica.applier.collect(Timestamp(65)) {}
            assert_eq!(replica.tx.latest().version(TABLE, b"k"), Ok((Timestamp::ZERO, false)), "collected");
            assert!(!replica.is_valid(&payload, 70, 65));
        }
    }

    /// Where the tombstone was read that is gone here: nothing is what is here, too.
    #[test]
    fn a_tombstone_that_others_still_have_is_no_reason_to_refuse() {
        for work in [read, scan] {
            let (mut here, mut elsewhere) = (Replica::new(), Replica::new());
            for replica in [&mut here, &mut elsewhere] {
                replica.commit(50, |tx| tx.put(TABLE, b"k", b"v").unwrap());
                replica.commit(60, |tx| assert_eq!(tx.delete(TABLE, b"k"), Ok(true)));
            }
            let payload = elsewhere.run(70, work);
            while here.applier.collect(Timestamp(65)) {}
            assert!(here.is_valid(&payload, 70, 65));
        }
    }

    /// The same version at a replica that it has not come to yet.
    #[test]
    fn what_has_not_come_is_what_was_read() {
        for work in [read, scan] {
            let (mut here, mut elsewhere) = (Replica::new(), Replica::new());
            elsewhere.commit(50, |tx| tx.put(TABLE, b"k", b"v").unwrap());
            let payload = elsewhere.run(70, work);
            assert!(here.is_valid(&payload, 70, 45));
        }
    }

    /// A key that came and went behind a scan's back: at the scan's time it was there.
    #[test]
    fn a_key_that_was_there_at_the_time_of_a_scan_is_missed() {
        for (ts, valid) in [(55, false), (70, true)] {
            let mut replica = Replica::new();
            let payload = replica.run(ts, scan);
            replica.commit(50, |tx| tx.put(TABLE, b"k", b"v").unwrap());
            replica.commit(60, |tx| assert_eq!(tx.delete(TABLE, b"k"), Ok(true)));
            assert_eq!(replica.is_valid(&payload, ts, 0), valid, "at {ts}");
        }
    }
}
