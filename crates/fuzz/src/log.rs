//! What the log holds.

use highwater_core::log::{ENTRY_HEADER_BYTES, EntryHeader, EntryKind, Key, Transactions, TxWriter, Writes};
use highwater_core::{TableId, Timestamp};
use highwater_store::Applier;

use crate::state::store;

/// An entry, its checksum made right: taken apart, put together again, and its transactions applied.
pub fn entry(bytes: &[u8]) -> bool {
    assert!(EntryHeader::open(bytes, true).is_err() || EntryHeader::open(bytes, false).is_ok());
    let mut bytes = bytes.to_vec();
    if bytes.len() >= ENTRY_HEADER_BYTES {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[..4]);
        hasher.update(&bytes[8..]);
        bytes[4..8].copy_from_slice(&hasher.finalize().to_le_bytes());
    }
    let Ok(entry) = EntryHeader::open(&bytes, true) else { return false };
    let claims: Vec<_> = entry.claims().collect();
    let mut again = vec![0; ENTRY_HEADER_BYTES];
    again.extend_from_slice(entry.body);
    entry.header.seal(&mut again, &claims);
    let reopened = EntryHeader::open(&again, true).expect("what was sealed can be opened");
    assert_eq!((reopened.header, reopened.body), (entry.header, entry.body));
    assert!(reopened.claims().eq(claims));
    entry.header.kind == EntryKind::Batch && apply(entry.body, entry.header.last_ts)
}

/// A body of an entry on its way into a store: all of it, or an error; and twice is the same as once.
fn apply(body: &[u8], last: Timestamp) -> bool {
    // Those that are to be applied, up to the first that is not.
    let sound = Transactions::new(body)
        .take_while(|transaction| transaction.is_ok_and(|(ts, _)| ts <= last) || transaction.is_err())
        .all(|transaction| {
            transaction.is_ok_and(|(ts, writes)| {
                ts == Timestamp::ZERO || Writes::new(writes).all(|write| write.is_ok())
            })
        });
    let store = store();
    let mut applier = Applier::new(store.clone());
    let Ok(applied) = applier.apply(body, Timestamp::ZERO, last) else { return false };
    assert!(sound, "nonsense was applied");
    let digest = store.digest();
    let again = applier.apply(body, Timestamp::ZERO, last).expect("it could be applied before");
    assert_eq!(again, applied);
    assert_eq!(store.digest(), digest, "applied twice is applied once");
    applier.collect(last);
    assert_eq!(store.digest(), digest, "tombstones are no rows");
    true
}

/// Writes, drawn from the bytes: as they were written they are read.
pub fn transactions(bytes: &[u8]) -> bool {
    let (mut writer, mut expected) = (TxWriter::new(Vec::new()), Vec::new());
    let mut ts = 0;
    for transaction in bytes.chunks(64) {
        writer.begin();
        let (mut rest, mut writes) = (transaction, Vec::new());
        while let [how, table, len, behind @ ..] = rest {
            let (content, behind) = behind.split_at((*len as usize % 40).min(behind.len()));
            let mut number = [0; 8];
            let low = content.len().min(8);
            number[8 - low..].copy_from_slice(&content[..low]);
            let number = u64::from_be_bytes(number);
            let key = if how & 1 == 0 { Key::U64(number) } else { Key::Bytes(content) };
            let value = (how & 2 == 0).then_some(content);
            let at = match value {
                Some(value) => writer.put(TableId(*table), key, value),
                None => writer.delete(TableId(*table), key),
            };
            if how & 4 == 0 {
                writes.push((*table, format!("{key:?}"), value));
            } else {
                writer.supersede(at);
            }
            rest = behind;
        }
        if transaction[0] & 128 != 0 {
            writer.abort();
            continue;
        }
        ts += 1;
        if writer.commit(Timestamp(ts)) > 0 {
            expected.push((ts, writes));
        }
    }
    let read: Vec<_> = Transactions::new(writer.bytes())
        .map(|transaction| {
            let (ts, writes) = transaction.expect("it was written");
            let writes = Writes::new(writes).map(|write| {
                let write = write.expect("it was written");
                (write.table.0, format!("{:?}", write.key), write.value)
            });
            (ts.0, writes.collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(read, expected);
    !read.is_empty()
}
