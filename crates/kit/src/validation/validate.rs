//! Validation: whether a transaction can stand at its timestamp (the paper's algorithm 1), and what follows when it is over.
//!
//! Each replica decides by its own store and marks, whatever others do. Two transactions that cannot both commit are never both
//! found valid by one replica: whichever comes later meets the mark of the earlier one, or what it left. Quorums make the rest.
//!
//! Where we are more exact than the paper: a writer under way at or below the version that was read is not in the way. It is what
//! was read (at another replica, which has been told already that it committed), or older.
//!
//! *Invariant*: a transaction that a replica finds valid has not missed a write that is over there, or valid there
//! ([`Payload::conflicts`](super::payload::Payload::conflicts)): rule 4 of a change of epoch rests on it. So where a tombstone is gone it is known that
//! there was one ([`Marks::gone`]), and a key that was written and deleted since it was read counts as written, though it is as absent as it was.

use std::ops::ControlFlow;

use highwater_core::transaction::KeyRange;
use highwater_core::{Direction, TableId, Timestamp, planted};
use highwater_store::Latest;

use super::marks::{InTheWay, Marks};
use super::payload::{Payload, hash, with_key};

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
    let as_of = payload.as_of();
    for read in payload.reads() {
        let hash = hash(read.table, read.key);
        let now = || match version(latest, read.table, read.key) {
            // On its way, if it was not written and deleted since.
            Timestamp::ZERO => marks.gone(hash),
            now => now,
        };
        marks.read(hash, ts, read.version.max(as_of), now)?;
    }
    // Tombstones up to here are what was read where there was no trace.
    let gone = if planted!(validation::ScanForgives) { ts } else { as_of };
    for scan in payload.scans() {
        // Others who write to the table wait while it is looked at.
        let mut items = scan.items.clone();
        items.sort_unstable();
        let seen = |key: &[u8]| version_of(&items, key).unwrap_or_default().max(as_of);
        let holds = || still(latest, (scan.table, scan.range), &items, (as_of, gone));
        marks.scan(scan.table, scan.range, (ts, gone), seen, holds)?;
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

/// Which version of a key a scan saw, of items in the order of keys.
fn version_of(items: &[(&[u8], Timestamp)], key: &[u8]) -> Option<Timestamp> {
    items.binary_search_by(|(seen, ..)| (*seen).cmp(key)).ok().map(|at| items[at].1)
}

/// Whether the range holds here what the scan saw, or older versions of that: what is newer elsewhere is on its way. Tombstones that are as old
/// as the scan's view may be gone where it was executed.
fn still(
    latest: &mut Latest,
    (table, range): (TableId, KeyRange<'_>),
    items: &[(&[u8], Timestamp)],
    (as_of, gone): (Timestamp, Timestamp),
) -> Result<(), InTheWay> {
    let mut newer = None;
    let looked = latest.scan(table, range, Direction::Forward, |key, version| {
        let same = match version_of(items, key) {
            Some(seen) => version.ts <= seen.max(as_of),
            None => version.ts <= gone && version.value.is_none(),
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

#[cfg(test)]
mod tests {
    use std::ops::Bound::Unbounded;
    use std::sync::Arc;

    use highwater_core::limits::MAX_TRANSACTION_BYTES;
    use highwater_core::log::{Key, TxWriter};
    use highwater_core::{IndexKind, KeyKind, Schema, TableSpec, Transaction};
    use highwater_store::{Applier, Store};

    use super::*;
    use crate::attempt::Attempts;
    use crate::validation::tx::MeerkatTx;

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

        fn run(&mut self, (ts, as_of): (u64, u64), work: impl FnOnce(&mut MeerkatTx)) -> Payload {
            self.tx.set_as_of(Timestamp(as_of));
            self.tx.begin();
            work(&mut self.tx);
            self.tx.end(Timestamp(ts))
        }

        fn commit(&mut self, ts: u64, work: impl FnOnce(&mut MeerkatTx)) {
            let payload = self.run((ts, 0), work);
            self.install(&payload);
        }

        fn install(&mut self, payload: &Payload) {
            self.applier.apply(payload.transaction(), Timestamp::ZERO, Timestamp::MAX).unwrap();
        }

        fn is_valid(&mut self, payload: &Payload, ts: u64) -> bool {
            validate(&self.marks, self.tx.latest(), payload, Timestamp(ts)).is_ok()
        }

        /// Tombstones up to here go.
        fn collect(&mut self, upto: u64) {
            let Replica { marks, applier, .. } = self;
            while applier.collect_telling(Timestamp(upto), |table, key, ts| marks.collected(table, key, ts)) {
            }
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
    /// Once: a transaction could be found valid that read what was deleted since, where the tombstone had been collected
    /// before its question came, asked anew over a new connection: no trace looked like a version that is yet to come.
    /// Everything at or below the bound of what is over everywhere is installed, so no trace is a deletion now.
    #[test]
    fn what_was_deleted_without_a_trace_is_not_what_was_read() {
        for work in [read, scan] {
            let mut replica = Replica::new();
            replica.commit(50, |tx| tx.put(TABLE, b"k", b"v").unwrap());
            let payload = replica.run((70, 50), work);
            replica.commit(60, |tx| assert_eq!(tx.delete(TABLE, b"k"), Ok(true)));
            replica.collect(65);
            assert_eq!(replica.tx.latest().version(TABLE, b"k"), Ok((Timestamp::ZERO, false)), "collected");
            assert!(!replica.is_valid(&payload, 70));
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
            let payload = elsewhere.run((70, 65), work);
            here.collect(65);
            assert!(here.is_valid(&payload, 70));
        }
    }

    /// The same version at a replica that it has not come to yet.
    #[test]
    fn what_has_not_come_is_what_was_read() {
        for work in [read, scan] {
            let (mut here, mut elsewhere) = (Replica::new(), Replica::new());
            elsewhere.commit(50, |tx| tx.put(TABLE, b"k", b"v").unwrap());
            let payload = elsewhere.run((70, 45), work);
            assert!(here.is_valid(&payload, 70));
        }
    }

    /// A replica that has collected a tombstone says no more than that there is no trace; those who have it yet agree.
    #[test]
    fn no_trace_is_what_a_replica_has_that_collects_later() {
        for work in [read, scan] {
            let (mut here, mut elsewhere) = (Replica::new(), Replica::new());
            for replica in [&mut here, &mut elsewhere] {
                replica.commit(50, |tx| tx.put(TABLE, b"k", b"v").unwrap());
                replica.commit(60, |tx| assert_eq!(tx.delete(TABLE, b"k"), Ok(true)));
            }
            elsewhere.collect(65);
            let payload = elsewhere.run((70, 65), work);
            assert!(here.is_valid(&payload, 70));
        }
    }

    /// A key that came and went behind a reader's back is as absent as it was. It counts as written all the same: a change of epoch that knows
    /// of the insert alone would refuse what was found valid, and was acknowledged.
    #[test]
    fn what_was_written_and_deleted_since_it_was_read_is_missed() {
        for (work, collects) in
            [(read as fn(&mut MeerkatTx), false), (read, true), (scan, false), (scan, true)]
        {
            for ts in [55, 70] {
                let mut replica = Replica::new();
                let payload = replica.run((ts, 45), work);
                replica.commit(50, |tx| tx.put(TABLE, b"k", b"v").unwrap());
                replica.commit(60, |tx| assert_eq!(tx.delete(TABLE, b"k"), Ok(true)));
                if collects {
                    replica.collect(65);
                }
                assert!(!replica.is_valid(&payload, ts), "at {ts}");
            }
        }
    }

    /// The transaction that writes a key, or deletes it.
    fn write(ts: u64, puts: bool) -> Payload {
        let mut writer = TxWriter::new(Vec::new());
        writer.begin();
        match puts {
            true => drop(writer.put(TABLE, Key::Bytes(b"k"), b"v")),
            false => drop(writer.delete(TABLE, Key::Bytes(b"k"))),
        }
        writer.commit(Timestamp(ts));
        Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), writer.bytes())
    }

    /// The invariant of this module, in every case of three writes of one key: where the transaction is executed the first few of them are
    /// installed, and the tombstones among them are collected or not; where it is validated, any of them.
    #[test]
    fn whatever_is_found_valid_has_missed_nothing_that_is_over_there() {
        const AT: [u64; 3] = [40, 45, 60];
        let mut count = 0;
        let cases = (0..8).flat_map(|puts| (0..=3).map(move |installed| (puts, installed)));
        let cases =
            cases.flat_map(|(puts, installed)| (0..=installed).map(move |seen| (puts, installed, seen)));
        for (puts, installed, seen) in cases.collect::<Vec<(u8, usize, usize)>>() {
            let writes = || (0..3).map(|at| write(AT[at], puts >> at & 1 == 1));
            // Everything up to the `seen`-th was there, and the executor knows so.
            let as_of = seen.checked_sub(1).map_or(10, |last| AT[last]);
            for (collects, ts, work) in [false, true].into_iter().flat_map(|collects| {
                [43, 50, 70].into_iter().flat_map(move |ts| {
                    [read as fn(&mut MeerkatTx), scan].into_iter().map(move |work| (collects, ts, work))
                })
            }) {
                let mut executor = Replica::new();
                writes().take(installed).for_each(|write| executor.install(&write));
                if collects {
                    executor.collect(as_of);
                }
                let payload = executor.run((ts, as_of), work);
                if executor.tx.seen() >= Timestamp(ts) || as_of >= ts {
                    continue;
                }
                for (over, upto) in (0..8).flat_map(|over| [0, 42, 47, 65].map(|upto| (over, upto))) {
                    let over = |at: usize| over >> at & 1 == 1;
                    // What is collected is over everywhere, and so is all before it.
                    let sound = (0..3).all(|at| over(at) || AT[at] > upto && AT[at] > as_of) && upto < ts;
                    if !sound {
                        continue;
                    }
                    let mut here = Replica::new();
                    writes()
                        .enumerate()
                        .filter(|(at, _)| over(*at))
                        .for_each(|(_, write)| here.install(&write));
                    here.collect(upto);
                    let valid = here.is_valid(&payload, ts);
                    let mut missed = writes().enumerate().filter(|(at, _)| over(*at));
                    let missed =
                        missed.any(|(at, write)| payload.conflicts(Timestamp(ts), &write, Timestamp(AT[at])));
                    assert!(
                        !valid || !missed,
                        "writes {puts:03b}, {installed} there and {seen} known, read at {ts}, collected to {upto}"
                    );
                    count += 1;
                }
            }
        }
        assert!(count > 1000, "{count} cases");
    }
}
