//! Chunks of a copied state.

use std::sync::Arc;

use highwater_core::{IndexKind, KeyKind, Schema, TableSpec};
use highwater_store::{Importer, Store};

/// A store with a table of each kind.
pub fn store() -> Arc<Store> {
    let table = |name, keys, index| TableSpec { name, keys, index };
    Store::new(Schema::new(vec![
        table("hash of integers", KeyKind::U64, IndexKind::Hash),
        table("hash of bytes", KeyKind::Bytes, IndexKind::Hash),
        table("tree of integers", KeyKind::U64, IndexKind::Ordered),
        table("tree of bytes", KeyKind::Bytes, IndexKind::Ordered),
    ]))
}

/// A chunk: installed or refused; twice is the same as once; and what is there can be copied on.
pub fn chunk(bytes: &[u8]) -> bool {
    let first = store();
    let mut importer = Importer::new(first.clone());
    let outcome = importer.import(bytes);
    let digest = first.digest();
    assert_eq!(importer.import(bytes), outcome);
    assert_eq!(first.digest(), digest, "imported twice is imported once");
    let second = store();
    let mut importer = Importer::new(second.clone());
    for part in 0..2 {
        let (mut export, mut chunk) = (first.export(part, 2), Vec::new());
        loop {
            chunk.clear();
            let more = export.next_chunk(64, &mut chunk);
            importer.import(&chunk).expect("what was exported can be imported");
            if !more {
                break;
            }
        }
    }
    assert_eq!(second.digest(), digest, "{:?}", second.differences(&first, 4));
    outcome.is_ok_and(|count| count > 0)
}
