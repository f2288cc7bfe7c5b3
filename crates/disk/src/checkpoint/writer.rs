//! Begins a checkpoint, and publishes it.

use std::io;
use std::sync::Arc;

use highwater_core::Timestamp;
use highwater_store::Store;

use super::error::Error;
use super::format::PartHeader;
use super::manifest::{MAX_ENGINE_BYTES, Manifest, TableShape};
use super::names::{Kind, Name};
use super::part_writer::{PartWriter, WrittenPart};
use super::retention::{numbers, numbers_of_parts, remove_leftovers};
use crate::ballast::Ballast;
use crate::disk::{Disk, DiskFile};

/// How a store is scanned for a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Scan {
    /// Everything at or below is in the store already, and will be in the checkpoint.
    pub floor: Timestamp,
    /// Into how many files the store is written: as many threads can write at once, and load. At least 1.
    pub parts: u16,
    /// Bytes that the files will have, about ([`Store::used`] is more than enough). They are set aside, so that a full disk is
    /// noticed before anything is read; the last step gives back what is left. A store that has grown takes more.
    pub expected_bytes: u64,
    /// The first part, and then the manifest, are written where [ballast](Ballast) is held, if any is.
    pub from_ballast: bool,
}

/// A checkpoint that is being written. One at a time in a folder.
#[must_use = "a checkpoint that is neither published nor abandoned keeps its room on the disk until the next one"]
pub struct Writer {
    number: u64,
    floor: Timestamp,
    parts: u16,
    tables: Vec<TableShape>,
    from_ballast: bool,
}

/// A checkpoint that was begun, and the parts that have to be written before it can be published.
pub type Begun<D> = (Writer, Vec<PartWriter<<D as Disk>::File>>);

impl Writer {
    /// Begins a checkpoint of `store`; removes what an earlier one left that was not published.
    ///
    /// From before the floor is chosen until the last part is written nobody may unlink tombstones of the store
    /// ([`Applier::collect`](highwater_store::Applier::collect), [`Occ::collect`](highwater_store::Occ::collect)).
    ///
    /// # Errors
    /// [`Error::Io`]; [`is_full`](Error::is_full) if there is no room. Nothing stays of it.
    ///
    /// # Panics
    /// If the scan has no part.
    pub fn begin<D: Disk>(disk: &D, store: &Arc<Store>, scan: Scan) -> Result<Begun<D>, Error> {
        assert!(scan.parts > 0, "a checkpoint has a part at least");
        remove_leftovers(disk)?;
        let number = numbers(disk)?.last().map_or(1, |last| last + 1);
        let Scan { floor, parts, from_ballast, .. } = scan;
        let writer = Writer { number, floor, parts, tables: TableShape::all(store.schema()), from_ballast };
        let aside = scan.expected_bytes / u64::from(parts);
        let begun: Result<Vec<_>, Error> = (0..parts)
            .map(|part| {
                let name = writer.name(Kind::Part(part));
                let ballast = Some(Ballast::Checkpoint).filter(|_| part == 0);
                let file = writer.create(disk, ballast, &name, aside)?;
                let header = PartHeader { number, part, parts };
                Ok(PartWriter::new(header, file, name, store.export(part.into(), parts.into())))
            })
            .collect();
        match begun {
            Ok(parts) => Ok((writer, parts)),
            Err(error) => {
                writer.abandon(disk);
                Err(error)
            }
        }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Makes a checkpoint of what was written.
    ///
    /// `complete_at` is at or above everything that stood in the store when the last chunk was read. Only when that is settled,
    /// and this replica has applied its log so far, may this be called: before, what was read might be taken back.
    /// `engine` is handed back by whoever loads it.
    ///
    /// # Errors
    /// [`Error::Io`]. The checkpoint is then none, unless the manifest had its name already and only making that last failed: the
    /// next start will tell. Either way the log must be kept as if it were none.
    ///
    /// # Panics
    /// Unless `written` are all parts, `complete_at` is at or above floor and records, and `engine` has no more than
    /// [`MAX_ENGINE_BYTES`].
    pub fn publish(
        self,
        disk: &impl Disk,
        mut written: Vec<WrittenPart>,
        complete_at: Timestamp,
        engine: Vec<u8>,
    ) -> Result<Manifest, Error> {
        written.sort_by_key(|written| written.number);
        let numbered = written.iter().map(|written| written.number);
        assert!(numbered.eq(0..self.parts), "a checkpoint is published once all its parts are written");
        let newest = written.iter().map(|written| written.part.newest).max();
        assert!(newest <= Some(complete_at) && self.floor <= complete_at, "no record is newer than that");
        assert!(engine.len() <= MAX_ENGINE_BYTES, "an engine's own has {} bytes", engine.len());
        let manifest = Manifest {
            number: self.number,
            floor: self.floor,
            complete_at,
            tables: self.tables.clone(),
            parts: written.iter().map(|written| written.part).collect(),
            engine,
        };
        if let Err(error) = self.write_manifest(disk, &manifest) {
            self.abandon(disk);
            return Err(error);
        }
        // From here on it may have been published, whatever fails: nothing may be removed.
        let names = (self.name(Kind::NewManifest), self.name(Kind::Manifest));
        disk.rename(&names.0, &names.1).map_err(Error::io(&names.0, "rename"))?;
        disk.sync_names().map_err(Error::io(&names.1, "make the name last"))?;
        Ok(manifest)
    }

    /// Everything but the name under which it will be found.
    ///
    /// Invariant: in a folder in which there is a manifest there are its parts.
    fn write_manifest(&self, disk: &impl Disk, manifest: &Manifest) -> Result<(), Error> {
        let (name, bytes) = (self.name(Kind::NewManifest), manifest.encode());
        let len = bytes.len() as u64;
        let mut file = self.create(disk, Some(Ballast::Manifest), &name, len)?;
        file.write_at(0, &bytes).map_err(Error::io(&name, "write"))?;
        file.set_len(len).map_err(Error::io(&name, "cut to its length"))?;
        file.sync().map_err(Error::io(&name, "sync"))?;
        disk.sync_names().map_err(Error::io(&name, "make the names last"))?;
        self.find_parts(disk)
    }

    /// Somebody may have removed a part behind the process's back, while it was written. Then this is no checkpoint: whoever took it for one
    /// would remove the one before, and the log that leads on from there.
    fn find_parts(&self, disk: &impl Disk) -> Result<(), Error> {
        let there = numbers_of_parts(disk, self.number)?;
        match (0..self.parts).find(|part| !there.contains(part)) {
            None => Ok(()),
            Some(part) => {
                Err(Error::io(&self.name(Kind::Part(part)), "find")(io::ErrorKind::NotFound.into()))
            }
        }
    }

    /// A file with so much room; that of the ballast, if it is to be used and there is any.
    fn create<D: Disk>(
        &self,
        disk: &D,
        ballast: Option<Ballast>,
        name: &str,
        len: u64,
    ) -> Result<D::File, Error> {
        let held = match ballast.filter(|_| self.from_ballast) {
            Some(ballast) => {
                ballast.become_file(disk, name).map_err(Error::io(name, "make of the ballast"))?
            }
            None => None,
        };
        held.map_or_else(|| disk.create(name, len).map_err(Error::io(name, "create")), Ok)
    }

    /// Gives it up and removes its files, to have their room back. What cannot be removed now will be when the next one begins.
    pub fn abandon(self, disk: &impl Disk) {
        if self.from_ballast {
            // If that cannot be it is removed, like the others.
            let _ = Ballast::Checkpoint.take_back(disk, &self.name(Kind::Part(0)));
            let _ = Ballast::Manifest.take_back(disk, &self.name(Kind::NewManifest));
        }
        let parts = (0..self.parts).map(Kind::Part);
        for kind in parts.chain([Kind::NewManifest]) {
            // The error may well be that there is no such file.
            let _ = disk.remove(&self.name(kind));
        }
    }

    fn name(&self, kind: Kind) -> String {
        Name { number: self.number, kind }.to_string()
    }
}
