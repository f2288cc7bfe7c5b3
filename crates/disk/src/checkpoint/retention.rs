//! Which checkpoints a folder holds, and which of them go.

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroUsize;

use super::error::Error;
use super::manifest::Manifest;
use super::names::{Kind, Name};
use super::part_reader::PartReader;
use crate::disk::Disk;

/// All files of checkpoints.
fn names(disk: &impl Disk) -> Result<Vec<Name>, Error> {
    let names = disk.names().map_err(Error::io("the folder", "list its files"))?;
    Ok(names.iter().filter_map(|name| Name::parse(name)).collect())
}

/// The numbers of all checkpoints of which there is any file, ascending.
pub(super) fn numbers(disk: &impl Disk) -> Result<BTreeSet<u64>, Error> {
    Ok(names(disk)?.iter().map(|name| name.number).collect())
}

/// The numbers of the parts of a checkpoint that have their files.
pub(super) fn numbers_of_parts(disk: &impl Disk, number: u64) -> Result<BTreeSet<u16>, Error> {
    let part = |name: Name| match name.kind {
        Kind::Part(part) if name.number == number => Some(part),
        _ => None,
    };
    Ok(names(disk)?.into_iter().filter_map(part).collect())
}

/// The numbers of all checkpoints that have a manifest, ascending; whether they are whole is not looked at.
///
/// # Errors
/// [`Error::Io`].
pub fn published(disk: &impl Disk) -> Result<BTreeSet<u64>, Error> {
    Ok(published_among(&names(disk)?))
}

fn published_among(names: &[Name]) -> BTreeSet<u64> {
    names.iter().filter(|name| name.kind == Kind::Manifest).map(|name| name.number).collect()
}

/// Removes the files of checkpoints that were never published, or that were being removed; returns their names. To be called
/// when a node starts, and never while a checkpoint is being written.
///
/// # Errors
/// [`Error::Io`].
pub fn remove_leftovers(disk: &impl Disk) -> Result<Vec<String>, Error> {
    let names = names(disk)?;
    let published = published_among(&names);
    let is_leftover = |name: &&Name| name.kind == Kind::NewManifest || !published.contains(&name.number);
    let leftovers: Vec<String> = names.iter().filter(is_leftover).map(Name::to_string).collect();
    for name in &leftovers {
        disk.remove(name).map_err(Error::io(name, "remove"))?;
    }
    Ok(leftovers)
}

/// Removes what is older than the newest `keep` checkpoints that are whole, and those that are `damaged`; returns their numbers, ascending.
/// Whole: its manifest can be read, and its parts are there with their lengths. Their bytes are not read for this; so whoever found, loading
/// them, that they are no good says so.
///
/// `good` is surely whole: it was just published, or loaded. It stays, whatever else is there, because others may be less than they
/// look: damaged inside, or with a name that a crash would take away.
///
/// Invariant: what is removed leaves `good`, and of those that count as whole the newest `keep`. A damaged one takes the place of none.
///
/// # Errors
/// [`Error::Io`]: some may have been removed, the oldest first.
pub fn remove_old(
    disk: &impl Disk,
    good: &Manifest,
    keep: NonZeroUsize,
    damaged: &BTreeSet<u64>,
) -> Result<Vec<u64>, Error> {
    assert!(!damaged.contains(&good.number), "a damaged checkpoint is not good");
    let names = names(disk)?;
    let published = published_among(&names);
    let counts = |number: &&u64| !damaged.contains(*number) && is_whole(disk, **number);
    let oldest = published.iter().rev().filter(counts).nth(keep.get() - 1);
    let is_old = |number: &u64| oldest.is_some_and(|oldest| *number < (*oldest).min(good.number));
    let goes = |number: &u64| is_old(number) || damaged.contains(number);
    let going: Vec<u64> = published.iter().copied().filter(goes).collect();
    for &number in &going {
        remove(disk, number, &names)?;
    }
    Ok(going)
}

/// Whether it looks like a checkpoint from outside.
fn is_whole(disk: &impl Disk, number: u64) -> bool {
    Manifest::read(disk, number).is_ok_and(|manifest| {
        (0..manifest.parts.len()).all(|part| PartReader::open(disk, &manifest, part).is_ok())
    })
}

/// Removes a checkpoint: first it ceases to be one, for good; then its files go. After a crash in between they are leftovers.
fn remove(disk: &impl Disk, number: u64, names: &[Name]) -> Result<(), Error> {
    let manifest = Name { number, kind: Kind::Manifest }.to_string();
    remove_if_there(disk, &manifest)?;
    disk.sync_names().map_err(Error::io(&manifest, "make its removal last"))?;
    let others = names.iter().filter(|name| name.number == number && name.kind != Kind::Manifest);
    for name in others.map(Name::to_string) {
        remove_if_there(disk, &name)?;
    }
    Ok(())
}

/// Somebody may have removed it behind the process's back.
fn remove_if_there(disk: &impl Disk, name: &str) -> Result<(), Error> {
    match disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(name, "remove")(error)),
        _ => Ok(()),
    }
}
