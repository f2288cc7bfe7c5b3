//! Whether a client's payload makes sense: a replica takes whatever a worker of another one sends, which executed it on the same tables.

use std::ops::Bound;

use highwater_core::limits::{MAX_KEY_BYTES, MAX_OPERATIONS, MAX_VALUE_BYTES};
use highwater_core::log::{Key, Transactions};
use highwater_core::{IndexKind, KeyKind, Schema, TableId, Timestamp};
use highwater_kit::validation::payload::Payload;

/// Whether what a transaction at `ts` reads and writes is of these tables and within all limits; it writes at most so many bytes.
///
/// # Errors
/// What is wrong, in words.
pub fn admit(schema: &Schema, payload: &Payload, ts: Timestamp, most: usize) -> Result<(), &'static str> {
    let fits = |table: TableId, key: &[u8]| -> Result<(), &'static str> {
        let spec = schema.get(table).ok_or("there is no such table")?;
        let fits = key.len() <= MAX_KEY_BYTES && (spec.keys == KeyKind::Bytes || key.len() == 8);
        if fits { Ok(()) } else { Err("the key is none of the table's") }
    };
    if payload.as_of() >= ts {
        return Err("it read as of a time that has not come");
    }
    let mut count = 0;
    for read in payload.reads() {
        count += 1;
        fits(read.table, read.key)?;
    }
    for scan in payload.scans() {
        count += 1 + scan.items.len();
        let spec = schema.get(scan.table).ok_or("there is no such table")?;
        if spec.index != IndexKind::Ordered {
            return Err("the table has no order");
        }
        for bound in [scan.range.0, scan.range.1] {
            match bound {
                Bound::Included(key) | Bound::Excluded(key) => fits(scan.table, key)?,
                Bound::Unbounded => {}
            }
        }
        scan.items.iter().try_for_each(|(key, _)| fits(scan.table, key))?;
    }
    if payload.transaction().len() > most {
        return Err("it writes too much");
    }
    for transaction in Transactions::new(payload.transaction()) {
        if transaction.map_or(Timestamp::ZERO, |(at, _)| at) != ts {
            return Err("what it writes is of another timestamp");
        }
    }
    for write in payload.writes() {
        count += 1;
        match (write.key, schema.get(write.table).map(|spec| spec.keys)) {
            (Key::U64(_), Some(KeyKind::U64)) => {}
            (Key::Bytes(key), Some(KeyKind::Bytes)) => fits(write.table, key)?,
            _ => return Err("the key is none of the table's"),
        }
        if write.value.is_some_and(|value| value.len() > MAX_VALUE_BYTES) {
            return Err("a value is too long");
        }
    }
    if count <= MAX_OPERATIONS { Ok(()) } else { Err("it touches too much") }
}

#[cfg(test)]
mod tests {
    use highwater_core::TableSpec;
    use highwater_core::log::{Key, TxWriter};

    use super::*;
    use highwater_kit::validation::payload::{Read, put_bound, put_read};

    fn schema() -> Schema {
        let table = |name, keys, index| TableSpec { name, keys, index };
        Schema::new(vec![
            table("numbers", KeyKind::U64, IndexKind::Hash),
            table("names", KeyKind::Bytes, IndexKind::Ordered),
        ])
    }

    /// A read, a scan and a write, each of a table and a key.
    fn payload(read: (u8, &[u8]), scan: (u8, &[u8]), write: (u8, Key<'_>), ts: u64) -> Payload {
        let mut reads = Vec::new();
        let (table, key) = read;
        let version = Timestamp(5);
        put_read(&mut reads, Read { table: TableId(table), key, version, deleted: false });
        let mut scans = vec![scan.0];
        put_bound(&mut scans, Bound::Included(scan.1));
        put_bound(&mut scans, Bound::Unbounded);
        scans.push(0);
        let mut writer = TxWriter::new(Vec::new());
        writer.begin();
        writer.put(TableId(write.0), write.1, b"value");
        writer.commit(Timestamp(ts));
        Payload::build(Timestamp::ZERO, (&reads, 1), (&scans, 1), &writer.take(Vec::new()))
    }

    #[test]
    fn what_a_replica_could_not_bear_is_not_admitted() {
        let key = 7u64.to_be_bytes();
        let judge = |payload: Payload| admit(&schema(), &payload, Timestamp(9), 1000);
        let (read, scan, write) = ((0, &key[..]), (1, &b"a"[..]), (0, Key::U64(7)));
        assert_eq!(judge(payload(read, scan, write, 9)), Ok(()));
        assert!(judge(payload((7, &key), scan, write, 9)).is_err(), "no such table");
        assert!(judge(payload((0, b"short"), scan, write, 9)).is_err(), "a key of another length");
        assert!(judge(payload(read, (0, &key), write, 9)).is_err(), "a scan of a table without order");
        assert!(judge(payload(read, scan, (9, Key::U64(7)), 9)).is_err(), "a write to no table");
        assert!(
            judge(payload(read, scan, (0, Key::Bytes(b"x")), 9)).is_err(),
            "a written key of another length"
        );
        assert!(judge(payload(read, scan, write, 8)).is_err(), "another timestamp");
        assert!(admit(&schema(), &payload(read, scan, write, 9), Timestamp(9), 10).is_err(), "too long");
    }
}
