//! Loads a checkpoint into a store: the newest that is whole.

use std::sync::Arc;

use highwater_store::{Importer, Store};

use super::error::Error;
use super::manifest::Manifest;
use super::part_reader::PartReader;
use super::retention::published;
use super::verify::verify;
use crate::disk::{Disk, DiskFile};

/// Looks for a checkpoint that can be loaded, from the newest to the oldest.
pub struct Loader {
    /// Those that were not tried, ascending.
    untried: Vec<u64>,
    skipped: Vec<Skipped>,
}

/// A checkpoint that could not be loaded.
#[derive(Debug)]
pub struct Skipped {
    pub number: u64,
    /// Why.
    pub error: Error,
}

/// A checkpoint that is being loaded.
pub struct Loading<F> {
    pub manifest: Manifest,
    /// Its parts, each to be loaded to its end, by whichever threads.
    pub parts: Vec<PartLoader<F>>,
}

impl Loader {
    /// The checkpoints of a folder.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(disk: &impl Disk) -> Result<Loader, Error> {
        Ok(Loader { untried: published(disk)?.into_iter().collect(), skipped: Vec::new() })
    }

    pub fn only(number: u64) -> Loader {
        Loader { untried: vec![number], skipped: Vec::new() }
    }

    /// The newest checkpoint that was not tried and looks whole, to be loaded into `store`, which is empty and may take
    /// `limit_bytes` ([`Store::used`]). `None`: there is none, or no more; [`skipped`](Loader::skipped) tells which.
    ///
    /// # Errors
    /// Those that are not [damage](Error::is_damage): an older checkpoint is no way out.
    pub fn next<D: Disk>(
        &mut self,
        disk: &D,
        store: &Arc<Store>,
        limit_bytes: u64,
    ) -> Result<Option<Loading<D::File>>, Error> {
        while let Some(number) = self.untried.pop() {
            match open(disk, number, store, limit_bytes) {
                Ok(loading) => return Ok(Some(loading)),
                Err(error) => self.skip(number, error)?,
            }
        }
        Ok(None)
    }

    /// The newest checkpoint that was not tried and whose every byte is what was written: the one that [`next`](Loader::next) and all of its
    /// parts would load. Nothing is loaded. `None`: there is none, or no more.
    ///
    /// # Errors
    /// As [`next`](Loader::next).
    pub fn next_whole(&mut self, disk: &impl Disk) -> Result<Option<Manifest>, Error> {
        while let Some(number) = self.untried.pop() {
            match verify(disk, number) {
                Ok(manifest) => return Ok(Some(manifest)),
                Err(error) => self.skip(number, error)?,
            }
        }
        Ok(None)
    }

    /// Loading a checkpoint failed. After this the caller may try the [next](Loader::next), with a fresh store.
    ///
    /// # Errors
    /// This very error, if an older checkpoint is no way out.
    pub fn skip(&mut self, number: u64, error: Error) -> Result<(), Error> {
        if !error.is_damage() {
            return Err(error);
        }
        self.skipped.push(Skipped { number, error });
        Ok(())
    }

    /// Those that could not be loaded, newest first. An operator has to be told.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The same, to be kept.
    pub fn into_skipped(self) -> Vec<Skipped> {
        self.skipped
    }
}

fn open<D: Disk>(disk: &D, number: u64, store: &Arc<Store>, limit: u64) -> Result<Loading<D::File>, Error> {
    let manifest = Manifest::read(disk, number)?;
    manifest.check_schema(store.schema())?;
    store.lacks_deletes_until(manifest.complete_at);
    let part = |part| {
        let reader = PartReader::open(disk, &manifest, part)?;
        let importer = Importer::new(store.clone());
        Ok(PartLoader { reader, importer, store: store.clone(), limit, records: 0 })
    };
    let parts = (0..manifest.parts.len()).map(part).collect::<Result<_, Error>>()?;
    Ok(Loading { manifest, parts })
}

/// Loads one part. Installing is by timestamp: the parts may be loaded in any order, and beside the log.
pub struct PartLoader<F> {
    reader: PartReader<F>,
    importer: Importer,
    store: Arc<Store>,
    limit: u64,
    records: u64,
}

impl<F: DiskFile> PartLoader<F> {
    /// Loads a chunk; whether there is more. `false` says that the whole file was right.
    ///
    /// # Errors
    /// The store is no good then: some of the part is in it. [`Error::Io`], [`Error::Damaged`]; [`Error::OutOfMemory`].
    pub fn step(&mut self) -> Result<bool, Error> {
        let Some(chunk) = self.reader.next_chunk()? else {
            self.reader.check_records(self.records)?;
            return Ok(false);
        };
        let (used, next) = (self.store.used(), chunk.len() as u64);
        if used + next > self.limit {
            let file = self.reader.name().to_string();
            return Err(Error::OutOfMemory { file, used, next, limit: self.limit });
        }
        match self.importer.import(chunk) {
            Ok(records) => self.records += records,
            Err(malformed) => return Err(self.reader.nonsense(malformed)),
        }
        Ok(true)
    }

    /// How many bytes are loaded, of how many; for progress.
    pub fn progress(&self) -> (u64, u64) {
        self.reader.progress()
    }
}
