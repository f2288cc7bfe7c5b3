//! An archive: what nodes of a cluster wrote to their disks, kept for as long as somebody wants it. A backup is restored from it.
//!
//! It is a [place](Place), a folder say, of *chains*. A chain holds checkpoints of one node in one life, and its journal without a gap from the first of them on:
//! the same files as the node has, but none is ever removed. So whatever reads a node's folder reads a chain.
//!
//! ```text
//! archive.json                 {"format": 1, "cluster": "north"}
//! chain-0001/chain.json        {"node": 0, "incarnation": "4f36b94f34c1d956"}
//! chain-0001/checkpoint-0007.manifest, .part-0, ..
//! chain-0001/journal-..
//! chain-0001/copied-..         how far the journal was copied: see [`Lacks`]
//! ```
//!
//! Copying goes on where it ended: checkpoints that are not there, and of the journal what came since. It needs nothing of the node but its
//! files, which do not change once they are written. Where the node removed something before it was copied, or begins another life, a new
//! chain begins.
//!
//! Invariant: in a chain, a checkpoint whose manifest is there is whole, and every group of the journal before the last is.

mod chain_disk;
mod copy;
mod folder;
mod place;
mod proof;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use highwater_disk::journal::Summary;
use highwater_disk::{Disk, Identity};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::directory::DataDirectory;
use super::survey::is_readable;
pub use chain_disk::{ChainDisk, Glance, OpenFile};
pub use copy::Brought;
use copy::{CopyError, copy_into};
pub use folder::FolderPlace;
use place::read_small;
pub use place::{Place, PlaceFile, Source};
pub use proof::{Lacks, Promises, had_something, was_copied};

/// Version of the layout.
const FORMAT: u32 = 1;
const ARCHIVE: &str = "archive.json";
const CHAIN: &str = "chain.json";
const PREFIX: &str = "chain-";

/// A place of chains.
#[derive(Clone, Debug)]
pub struct Archive {
    place: Arc<dyn Place>,
    pub cluster: String,
    /// Where each chain that was copied to ends, as far as this process knows.
    ends: BTreeMap<u32, Summary>,
    /// Checkpoints of nodes' folders that this process found damaged, by life and number: none becomes whole, and each is read once.
    damaged: Damaged,
}

/// Checkpoints that are damaged, by life and number, and what is wrong with each.
type Damaged = BTreeMap<(u64, u64), String>;

#[derive(Serialize, Deserialize)]
struct ArchiveFile {
    format: u32,
    cluster: String,
}

/// Whose files a chain has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainFile {
    pub node: u8,
    /// Its life, in hexadecimal digits.
    pub incarnation: String,
}

/// A chain of an archive.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Chains are counted from 1.
    pub number: u32,
    /// What is in it.
    pub disk: ChainDisk,
    /// Whose; or why nobody knows.
    pub of: Result<ChainFile, String>,
    /// None was begun after it.
    pub is_last: bool,
    /// One of the same node was begun after it: no copy goes on to this one.
    pub is_succeeded: bool,
}

impl Chain {
    /// It was removed as a whole, to give space back.
    pub fn is_gone(&self) -> bool {
        self.disk.names().is_ok_and(|names| names.is_empty())
    }
}

/// What became of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    pub chain: u32,
    /// It is a new one; why, if there was one before.
    pub began: Option<&'static str>,
    pub brought: Brought,
}

impl Archive {
    /// The archive that is there, or a new one of this cluster's; for this process alone to write to.
    ///
    /// # Errors
    /// In words, if it is another cluster's, or something else, or another process writes to it.
    pub fn begin(place: Arc<dyn Place>, cluster: &str) -> Result<Archive, String> {
        let name = place.name();
        let at = |error: io::Error| format!("cannot begin an archive in {name}: {error}");
        let names = place.names().map_err(at)?;
        if !names.is_empty() && !names.iter().any(|name| name == ARCHIVE) {
            return Err(format!("{name} is not empty, and no archive"));
        }
        place.claim()?;
        // Somebody may have begun it in between.
        if read_small(&*place, ARCHIVE).map_err(at)?.is_none() {
            publish(&*place, ARCHIVE, &ArchiveFile { format: FORMAT, cluster: cluster.into() })?;
        }
        let archive = Archive::open(place)?;
        if archive.cluster != cluster {
            return Err(format!(
                "{name} is an archive of cluster \"{}\", not \"{cluster}\"",
                archive.cluster
            ));
        }
        Ok(archive)
    }

    /// The archive that is there.
    ///
    /// # Errors
    /// In words, if there is none, or a later version's.
    pub fn open(place: Arc<dyn Place>) -> Result<Archive, String> {
        let name = place.name();
        let bytes = read_small(&*place, ARCHIVE).map_err(|error| format!("cannot read {name}: {error}"))?;
        let file: ArchiveFile =
            decode(ARCHIVE, bytes).map_err(|why| format!("{name}: {why}: it is no archive"))?;
        if file.format != FORMAT {
            return Err(format!("{name}: format {}, and this binary knows {FORMAT}", file.format));
        }
        Ok(Archive { place, cluster: file.cluster, ends: BTreeMap::new(), damaged: BTreeMap::new() })
    }

    /// Its chains, oldest first.
    ///
    /// # Errors
    /// In words.
    pub fn chains(&self) -> Result<Vec<Chain>, String> {
        let at = |error: io::Error| format!("cannot read {}: {error}", self.place.name());
        let mut chains = Vec::new();
        for name in self.place.names().map_err(at)? {
            let number = name.strip_prefix(PREFIX).and_then(|digits| digits.parse().ok());
            if let Some(number) = number.filter(|number| chain_name(*number) == name) {
                let disk = ChainDisk::new(self.place.clone(), name);
                let file = read_small(&*self.place, &disk.path(CHAIN)).map_err(at)?;
                let of = decode(CHAIN, file).map_err(|why| format!("{disk}: {why}"));
                chains.push(Chain { number, disk, of, is_last: false, is_succeeded: false });
            }
        }
        chains.sort_by_key(|chain| chain.number);
        if let Some(last) = chains.last_mut() {
            last.is_last = true;
        }
        let mut later = BTreeSet::new();
        for chain in chains.iter_mut().rev() {
            let life = chain.of.as_ref().map(|of| (of.node, of.incarnation.clone()));
            chain.is_succeeded = life.is_ok_and(|life| !later.insert(life));
        }
        Ok(chains)
    }

    /// Copies what is new in a node's folder; the node may run. `told`: how many bytes have been copied so far.
    ///
    /// # Errors
    /// In words. What was copied stays, and the next copy goes on from there.
    pub fn copy(&mut self, from: &Path, mut told: impl FnMut(u64)) -> Result<Copied, String> {
        let words = |error: &dyn std::fmt::Display| format!("{}: {error}", from.display());
        let source = DataDirectory::read_only(from).map_err(|error| error.to_string())?;
        let identity = Identity::read(&source).map_err(|error| words(&error))?;
        let identity = identity.ok_or_else(|| words(&"no node was ever started on it"))?;
        if identity.cluster != self.cluster {
            return Err(words(&format!(
                "it belongs to cluster \"{}\", the archive to \"{}\"",
                identity.cluster, self.cluster
            )));
        }
        is_readable(&source).map_err(|why| words(&why))?;
        let of = ChainFile { node: identity.node.0, incarnation: format!("{:x}", identity.incarnation.0) };
        let chains = self.chains()?;
        let life = identity.incarnation.0;
        let (last, own) = (chains.last(), chains.iter().rev().find(|chain| chain.of.as_ref() == Ok(&of)));
        let (mut chain, mut began) = match own {
            Some(chain) => (chain.clone(), None),
            None => {
                (self.begin_chain(last, of.clone())?, last.map(|_| "another node, or another life of it"))
            }
        };
        let mut copied = self.copy_to(&chain, &source, life, &mut told);
        if let Err(CopyError::Gap(why)) = copied {
            chain = self.begin_chain(self.chains()?.last(), of)?;
            began = Some(why);
            copied = self.copy_to(&chain, &source, life, &mut told);
        }
        let brought = copied.map_err(|error| match error {
            CopyError::Gap(_) => words(&"its files change faster than they are copied; try again"),
            CopyError::Words(why) => why,
        })?;
        Ok(Copied { chain: chain.number, began, brought })
    }

    /// What is known of the chain's end is forgotten if this fails.
    fn copy_to(
        &mut self,
        chain: &Chain,
        source: &DataDirectory,
        life: u64,
        told: &mut impl FnMut(u64),
    ) -> Result<Brought, CopyError> {
        let known = self.ends.remove(&chain.number);
        let from = (source, life, &mut self.damaged);
        let (brought, end) = copy_into(&*self.place, &chain.disk, known, from, told)?;
        self.ends.insert(chain.number, end);
        Ok(brought)
    }

    fn begin_chain(&self, last: Option<&Chain>, of: ChainFile) -> Result<Chain, String> {
        let number = last.map_or(Some(1), |last| last.number.checked_add(1));
        let number = number.ok_or("the archive has no number left for another chain")?;
        let disk = ChainDisk::new(self.place.clone(), chain_name(number));
        publish(&*self.place, &disk.path(CHAIN), &of)?;
        Ok(Chain { number, disk, of: Ok(of), is_last: true, is_succeeded: false })
    }
}

fn chain_name(number: u32) -> String {
    format!("{PREFIX}{number:04}")
}

fn publish(place: &dyn Place, path: &str, value: &impl Serialize) -> Result<(), String> {
    let at = |error: &dyn std::fmt::Display| format!("cannot write {}/{path}: {error}", place.name());
    let text = serde_json::to_string(value).map_err(|error| at(&error))? + "\n";
    place.publish(path, text.as_bytes()).map_err(|error| at(&error))
}

fn decode<T: DeserializeOwned>(name: &str, bytes: Option<Vec<u8>>) -> Result<T, String> {
    let bytes = bytes.ok_or_else(|| format!("there is no {name}"))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests;
