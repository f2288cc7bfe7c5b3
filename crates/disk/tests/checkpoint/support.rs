//! A store to write checkpoints of, and the whole way of one, in one thread.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use highwater_core::{Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction};
use highwater_disk::checkpoint::{
    Error, Loader, Manifest, PartWriter, Scan, WriteStep, Writer, WrittenPart, remove_old,
};
use highwater_disk::{Disk, DiskFile, SimulatedDisk};
use highwater_store::{Digest, Occ, Store};

/// A table of each kind.
pub const TABLES: u8 = 4;
/// No limit to speak of.
pub const PLENTY: u64 = 1 << 40;

pub fn schema() -> Schema {
    let table = |name, keys, index| TableSpec { name, keys, index };
    Schema::new(vec![
        table("integers", KeyKind::U64, IndexKind::Hash),
        table("words", KeyKind::Bytes, IndexKind::Hash),
        table("ordered integers", KeyKind::U64, IndexKind::Ordered),
        table("ordered words", KeyKind::Bytes, IndexKind::Ordered),
    ])
}

/// A leader's store, and the transactions that wrote it, each with its timestamp.
pub struct Leader {
    pub store: Arc<Store>,
    pub log: Vec<(Timestamp, Vec<u8>)>,
    occ: Occ,
}

impl Leader {
    pub fn new(schema: Schema) -> Leader {
        let store = Store::new(schema);
        let occ = Occ::new(store.clone(), Arc::new(Clock::counter()));
        Leader { store, log: Vec::new(), occ }
    }

    /// Writes a key of a table; `None` deletes it.
    pub fn write(&mut self, table: u8, key: &[u8], value: Option<&[u8]>) {
        self.occ.begin();
        match value {
            Some(value) => self.occ.put(TableId(table), key, value).unwrap(),
            None => drop(self.occ.delete(TableId(table), key).unwrap()),
        }
        let ts = self.occ.commit().unwrap();
        let body = self.occ.log().take(Vec::new());
        if !body.is_empty() {
            self.log.push((ts, body));
        }
    }

    /// Rows of every table, some of which are gone again.
    pub fn fill(&mut self, rows: u64, value: usize) {
        self.fill_with(rows, value, 0);
    }

    /// The same rows with other bytes in their values.
    pub fn fill_with(&mut self, rows: u64, value: usize, bytes: u8) {
        for number in 0..rows {
            for table in 0..TABLES {
                self.write(table, &number.to_be_bytes(), Some(&vec![bytes ^ number as u8; value]));
            }
            if number % 5 == 4 {
                self.write((number % u64::from(TABLES)) as u8, &number.to_be_bytes(), None);
            }
        }
    }

    /// At or above everything in the store.
    pub fn position(&self) -> Timestamp {
        self.log.last().map_or(Timestamp::ZERO, |(ts, _)| *ts)
    }
}

/// Writes a part to its end.
pub fn write_part<F: DiskFile>(mut part: PartWriter<F>, budget: usize) -> Result<WrittenPart, Error> {
    loop {
        match part.step(budget)? {
            WriteStep::More(more) => part = more,
            WriteStep::Done(written) => return Ok(written),
        }
    }
}

/// How a checkpoint is written.
#[derive(Clone, Copy)]
pub struct How {
    pub parts: u16,
    pub budget: usize,
    pub expected_bytes: u64,
    pub keep: usize,
    pub from_ballast: bool,
}

pub const SMALL: How = How { parts: 2, budget: 200, expected_bytes: 0, keep: 2, from_ballast: false };
/// As on a full disk.
pub const FROM_BALLAST: How = How { parts: 1, from_ballast: true, ..SMALL };

/// Writes and publishes a checkpoint of a store that nobody writes to.
pub fn publish(disk: &SimulatedDisk, leader: &Leader, how: How) -> Result<Manifest, Error> {
    let floor = leader.position();
    let How { parts, budget, expected_bytes, from_ballast, .. } = how;
    let scan = Scan { floor, parts, expected_bytes, from_ballast };
    let (writer, parts) = Writer::begin(disk, &leader.store, scan)?;
    let written: Result<Vec<_>, Error> = parts.into_iter().map(|part| write_part(part, budget)).collect();
    match written {
        Ok(written) => writer.publish(disk, written, leader.position(), b"engine".to_vec()),
        Err(error) => {
            writer.abandon(disk);
            Err(error)
        }
    }
}

/// Publishes a checkpoint and removes those that are too many.
pub fn checkpoint(disk: &SimulatedDisk, leader: &Leader, how: How) -> Result<Manifest, Error> {
    let manifest = publish(disk, leader, how)?;
    remove_old(disk, &manifest, NonZeroUsize::new(how.keep).unwrap(), &BTreeSet::new())?;
    Ok(manifest)
}

/// What was loaded, and what could not be.
pub struct Loaded {
    pub found: Option<(Manifest, Arc<Store>)>,
    pub skipped: Vec<(u64, Error)>,
}

impl Loaded {
    pub fn number(&self) -> Option<u64> {
        self.found.as_ref().map(|(manifest, _)| manifest.number)
    }

    pub fn digest(&self) -> Option<Digest> {
        self.found.as_ref().map(|(_, store)| store.digest())
    }
}

/// Loads the newest checkpoint that can be, as a node does when it starts.
pub fn load(disk: &impl Disk, schema: Schema, limit: u64) -> Result<Loaded, Error> {
    let mut loader = Loader::new(disk)?;
    let mut skipped = Vec::new();
    let found = loop {
        let store = Store::new(schema.clone());
        let Some(loading) = loader.next(disk, &store, limit)? else { break None };
        let whole = loading.parts.into_iter().try_for_each(|mut part| {
            while part.step()? {}
            let (loaded, all) = part.progress();
            assert_eq!(loaded, all, "progress ends at the end");
            Ok(())
        });
        match whole {
            Ok(()) => break Some((loading.manifest, store)),
            Err(error) => loader.skip(loading.manifest.number, error)?,
        }
    };
    skipped.extend(loader.into_skipped().into_iter().map(|skipped| (skipped.number, skipped.error)));
    Ok(Loaded { found, skipped })
}

/// The names of all files.
pub fn names(disk: &SimulatedDisk) -> Vec<String> {
    disk.names().unwrap()
}
