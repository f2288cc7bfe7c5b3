//! An archive: what nodes of a cluster wrote to their disks, kept for as long as somebody wants it. A backup is restored from it.
//!
//! It is a folder of *chains*. A chain holds checkpoints of one node in one life, and its journal without a gap from the first of them on:
//! the same files as the node has, but none is ever removed. So whatever reads a node's folder reads a chain.
//!
//! ```text
//! archive.json                 {"format": 1, "cluster": "north"}
//! chain-0001/chain.json        {"node": 0, "incarnation": "4f36b94f34c1d956"}
//! chain-0001/checkpoint-0007.manifest, .part-0, ..
//! chain-0001/journal-..
//! ```
//!
//! Copying goes on where it ended: checkpoints that are not there, and of the journal what came since. It needs nothing of the node but its
//! files, which do not change once they are written. Where the node removed something before it was copied, or begins another life, a new
//! chain begins.
//!
//! Invariant: in a chain, a checkpoint whose manifest is there is whole, and every group of the journal before the last is.

mod copy;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use highwater_disk::Identity;
use serde::{Deserialize, Serialize};

use super::directory::{DataDirectory, DirectoryError};
pub use copy::Brought;
use copy::{CopyError, copy_into};

/// Version of the layout.
const FORMAT: u32 = 1;
const ARCHIVE: &str = "archive.json";
const CHAIN: &str = "chain.json";
const PREFIX: &str = "chain-";
/// An archive and a chain that are being begun.
const NEW_ARCHIVE: &str = "archive.new";
const NEW_CHAIN: &str = "new-chain";
const LOCK: &str = "lock";

/// A folder of chains.
#[derive(Clone, Debug)]
pub struct Archive {
    path: PathBuf,
    /// Whose.
    pub cluster: String,
    /// Of whoever writes to it.
    lock: Option<DataDirectory>,
}

#[derive(Serialize, Deserialize)]
struct ArchiveFile {
    format: u32,
    cluster: String,
}

/// Whose files a chain has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainFile {
    /// The node.
    pub node: u8,
    /// Its life, in hexadecimal digits.
    pub incarnation: String,
}

/// A chain of an archive.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Chains are counted from 1.
    pub number: u32,
    /// Where.
    pub path: PathBuf,
    /// Whose; or why nobody knows.
    pub of: Result<ChainFile, String>,
}

/// What became of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// To which chain.
    pub chain: u32,
    /// It is a new one; why, if there was one before.
    pub began: Option<&'static str>,
    /// What.
    pub brought: Brought,
}

impl Archive {
    /// The archive that is there, or a new one of this cluster's; for this process alone to write to.
    ///
    /// # Errors
    /// In words, if it is another cluster's, or something else, or another process writes to it.
    pub fn begin(path: &Path, cluster: &str) -> Result<Archive, String> {
        let at = |error: io::Error| format!("cannot begin an archive in {}: {error}", path.display());
        // What an interrupted beginning left is nobody's.
        let ours = [ARCHIVE, NEW_ARCHIVE, LOCK].map(OsString::from);
        if !path.join(ARCHIVE).exists() && path.exists() {
            for entry in fs::read_dir(path).map_err(at)? {
                if !ours.contains(&entry.map_err(at)?.file_name()) {
                    return Err(format!("{} is not empty, and no archive", path.display()));
                }
            }
        }
        let lock = DataDirectory::open(path).map_err(|error| match error {
            DirectoryError::Locked { .. } => {
                format!("{} is being written to by another process: one at a time", path.display())
            }
            error => error.to_string(),
        })?;
        if !path.join(ARCHIVE).exists() {
            write_json(&path.join(ARCHIVE), &ArchiveFile { format: FORMAT, cluster: cluster.into() })?;
        }
        let archive = Archive { lock: Some(lock), ..Archive::open(path)? };
        if archive.cluster != cluster {
            return Err(format!(
                "{} is an archive of cluster \"{}\", not \"{cluster}\"",
                path.display(),
                archive.cluster
            ));
        }
        Ok(archive)
    }

    /// The archive that is there.
    ///
    /// # Errors
    /// In words, if there is none, or a later version's.
    pub fn open(path: &Path) -> Result<Archive, String> {
        let file: ArchiveFile = read_json(&path.join(ARCHIVE))
            .map_err(|why| format!("{}: {why}: it is no archive", path.display()))?;
        if file.format != FORMAT {
            let found = file.format;
            return Err(format!("{}: format {found}, and this binary knows {FORMAT}", path.display()));
        }
        Ok(Archive { path: path.into(), cluster: file.cluster, lock: None })
    }

    /// Its chains, oldest first.
    ///
    /// # Errors
    /// In words.
    pub fn chains(&self) -> Result<Vec<Chain>, String> {
        let at = |error: io::Error| format!("{}: {error}", self.path.display());
        let mut chains = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(at)? {
            let path = entry.map_err(at)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.strip_prefix(PREFIX).and_then(|digits| digits.parse().ok());
            if let Some(number) = number.filter(|number| chain_name(*number) == name) {
                let of = read_json(&path.join(CHAIN));
                chains.push(Chain { number, path, of });
            }
        }
        chains.sort_by_key(|chain| chain.number);
        Ok(chains)
    }

    /// Copies what is new in a node's folder; the node may run. `told`: how many bytes have been copied so far.
    ///
    /// # Errors
    /// In words. What was copied stays, and the next copy goes on from there.
    pub fn copy(&self, from: &Path, mut told: impl FnMut(u64)) -> Result<Copied, String> {
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
        let mut copied = copy_into(&chain.path, &source, life, &mut told);
        if let Err(CopyError::Gap(why)) = copied {
            chain = self.begin_chain(self.chains()?.last(), of)?;
            began = Some(why);
            copied = copy_into(&chain.path, &source, life, &mut told);
        }
        let brought = copied.map_err(|error| match error {
            CopyError::Gap(_) => words(&"its files change faster than they are copied; try again"),
            CopyError::Words(why) => why,
        })?;
        Ok(Copied { chain: chain.number, began, brought })
    }

    /// Made under another name first: a chain without its file would be nobody's.
    fn begin_chain(&self, last: Option<&Chain>, of: ChainFile) -> Result<Chain, String> {
        assert!(self.lock.is_some(), "only who has it for itself writes to an archive");
        let number = last.map_or(Some(1), |last| last.number.checked_add(1));
        let number = number.ok_or("the archive has no number left for another chain")?;
        let path = self.path.join(chain_name(number));
        let new = self.path.join(NEW_CHAIN);
        let at = |error: io::Error| format!("{}: {error}", new.display());
        if new.exists() {
            fs::remove_dir_all(&new).map_err(at)?;
        }
        fs::create_dir_all(&new).map_err(at)?;
        write_json(&new.join(CHAIN), &of)?;
        let named = fs::rename(&new, &path).and_then(|()| fs::File::open(&self.path)?.sync_all());
        named.map_err(at)?;
        Ok(Chain { number, path, of: Ok(of) })
    }
}

fn chain_name(number: u32) -> String {
    format!("{PREFIX}{number:04}")
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let at = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let text = serde_json::to_string(value).map_err(|error| at(&error))? + "\n";
    let new = path.with_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::File::open(&new)?.sync_all());
    let folder = path.parent().unwrap_or(Path::new("."));
    let named = written.and_then(|()| fs::rename(&new, path));
    named.and_then(|()| fs::File::open(folder)?.sync_all()).map_err(|error| at(&error))
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
