//! A store of objects as a place for an archive: S3 and what speaks like it, Google Cloud Storage, Azure.
//!
//! An archive is the same files there as in a folder, under a prefix, but for two things. Journal files are in [`pieces`], because no object
//! grows. And an object says who writes ([`claim`]), because there is no lock.
//!
//! What a place promises rests on what stores promise: an object is there whole or not at all, who reads after a write reads what was written
//! (all of these do, S3 since 2020), and a write may have a condition. Checkpoint parts are written without one: two writers of the
//! same chain would write the same bytes, and they count for nothing without their manifest.
//!
//! The library behind it is asynchronous; [`calls`] is where that ends.

mod calls;
mod claim;
mod error;
mod pieces;
mod reading;
mod requests;
mod stores;
#[cfg(test)]
mod tests;
mod writing;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use highwater_node::storage::archive::{Place, PlaceFile, Source};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, UpdateVersion};
use tokio::task::JoinHandle;
use url::Url;

use calls::Calls;
use claim::{Claim, WRITER};
use error::{error, words};
use pieces::{Files, Piece, files, object_name, settled};
use reading::ObjectFile;
use requests::{Condition, put};
use writing::Growing;

/// Files that are in pieces.
fn grows(name: &str) -> bool {
    name.starts_with("journal-")
}

/// A prefix of a store.
#[derive(Debug)]
pub struct Objects {
    url: String,
    store: Arc<dyn ObjectStore>,
    /// Where everything is.
    root: Path,
    patience: Duration,
    calls: Arc<Calls>,
    claim: OnceLock<(Arc<Claim>, JoinHandle<()>)>,
    /// What is known of folders: nobody else changes what this process has claimed. Forgotten when a request fails.
    known: Mutex<BTreeMap<String, Files>>,
}

impl Objects {
    /// The place that a URL says. `patience`: how long a request that fails is tried again.
    ///
    /// # Errors
    /// In words.
    pub fn open(url: &Url, patience: Duration) -> Result<Objects, String> {
        let (store, root) = stores::open(url, patience)?;
        Objects::of(store, root, url.as_str().trim_end_matches('/').into(), patience)
    }

    fn of(
        store: Arc<dyn ObjectStore>,
        root: Path,
        url: String,
        patience: Duration,
    ) -> Result<Objects, String> {
        let calls = Calls::new().map_err(|error| format!("cannot begin a thread: {error}"))?;
        Ok(Objects {
            url,
            store,
            root,
            patience,
            calls: Arc::new(calls),
            claim: OnceLock::new(),
            known: Mutex::default(),
        })
    }

    fn path(&self, path: &str) -> Path {
        path.split('/').filter(|part| !part.is_empty()).fold(self.root.clone(), |path, part| path.join(part))
    }

    /// What is in a folder, as this process knows it, or as the store says now.
    fn listed(&self, folder: &str, known_will_do: bool) -> io::Result<Files> {
        if known_will_do && let Some(files) = self.known().get(folder) {
            return Ok(files.clone());
        }
        let mut files = self.list(folder)?;
        if self.claim.get().is_none() && files.keys().any(|name| grows(name)) {
            files = settled(&files, self.list(folder)?, grows);
        }
        self.known().insert(folder.into(), files.clone());
        Ok(files)
    }

    fn list(&self, folder: &str) -> io::Result<Files> {
        let list = self.store.list(Some(&self.path(folder))).try_collect::<Vec<ObjectMeta>>();
        Ok(files(self.calls.wait(list).map_err(error)?))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Files>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a file's folder is, and its name; what is known of it is forgotten until the change that follows has come about.
    fn to_change<'a>(&self, path: &'a str) -> io::Result<(&'a str, &'a str, Option<Files>)> {
        let (claim, _) = self.claim.get().expect("only who has it for itself writes to an archive");
        if claim.is_lost() {
            return Err(io::Error::other("another process has taken this archive over"));
        }
        let (folder, name) = parts(path);
        Ok((folder, name, self.known().remove(folder)))
    }

    /// A file was written as a whole.
    fn written(&self, (folder, name): (&str, &str), known: Option<Files>, pieces: Vec<Piece>) {
        if let Some(mut files) = known {
            files.insert(name.into(), pieces);
            self.known().insert(folder.into(), files);
        }
    }

    fn growing<'a>(&'a self, folder: &'a Path, name: &'a str) -> Growing<'a> {
        Growing { calls: &self.calls, store: &*self.store, folder, name, patience: self.patience }
    }
}

/// Of a path the folder and the name; files at the top are in none.
fn parts(path: &str) -> (&str, &str) {
    path.split_once('/').unwrap_or(("", path))
}

/// One piece, which is all of a file.
fn whole(bytes: u64, version: UpdateVersion) -> Vec<Piece> {
    vec![Piece { offset: 0, bytes, version }]
}

const UNKNOWN: UpdateVersion = UpdateVersion { e_tag: None, version: None };

impl Place for Objects {
    fn name(&self) -> String {
        self.url.clone()
    }

    fn claim(&self) -> Result<(), String> {
        let looks_on = |seconds| {
            let url = &self.url;
            eprintln!(
                "highwater: {url}: another process writes, or did not end well; looking for up to {seconds} s"
            );
        };
        let claim = Claim::take(self.store.clone(), &self.root, self.patience, looks_on);
        let claim = self.calls.wait(claim).map_err(|error| match error {
            Error::AlreadyExists { .. } | Error::Precondition { .. } => {
                format!("{} is being written to by another process: one at a time", self.url)
            }
            error => format!("cannot write to {}: {}", self.url, words(&error)),
        })?;
        if !claim.conditions {
            let url = &self.url;
            eprintln!(
                "highwater: {url}: this store checks no conditions: see to it that one process writes at a time"
            );
        }
        let claim = Arc::new(claim);
        let keeps = self.calls.begin(claim.clone().keep(self.patience));
        assert!(self.claim.set((claim, keeps)).is_ok(), "it is claimed once");
        self.known().clear();
        Ok(())
    }

    fn confirm(&self) -> io::Result<()> {
        let (claim, _) = self.claim.get().expect("only who has it for itself writes to an archive");
        self.known().clear();
        self.calls.wait(claim.confirm(self.patience)).map_err(error)?;
        match claim.is_lost() {
            true => Err(io::Error::other("another process has taken this archive over")),
            false => Ok(()),
        }
    }

    fn is_claimed(&self) -> io::Result<bool> {
        self.calls.wait(claim::may_be_claimed(&*self.store, &self.root)).map_err(error)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let listed = self.store.list_with_delimiter(Some(&self.root));
        let listed = self.calls.wait(listed).map_err(error)?;
        let paths = listed
            .common_prefixes
            .into_iter()
            .chain(listed.objects.into_iter().map(|object| object.location));
        let names = paths.filter_map(|path| path.filename().map(str::to_string));
        Ok(names.filter(|name| name != WRITER).collect())
    }

    fn files(&self, folder: &str) -> io::Result<Vec<String>> {
        Ok(self.listed(folder, self.claim.get().is_some())?.into_keys().collect())
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn PlaceFile>> {
        let (folder, name) = parts(path);
        let known = match grows(name) {
            true => self.listed(folder, true)?.remove(name),
            false => self.known().get(folder).and_then(|files| files.get(name).cloned()),
        };
        let pieces = match known {
            Some(pieces) => pieces,
            None if grows(name) => return Err(io::ErrorKind::NotFound.into()),
            None => {
                // Not only its head, because that has no words about what is wrong.
                let found = self.calls.wait(self.store.get(&self.path(path))).map_err(error)?;
                whole(found.meta.size, UNKNOWN)
            }
        };
        let folder = self.path(folder);
        let placed = |piece: Piece| (folder.clone().join(object_name(name, piece.offset).as_str()), piece);
        let pieces = pieces.into_iter().map(placed).collect();
        Ok(Box::new(ObjectFile::new(self.calls.clone(), self.store.clone(), pieces)?))
    }

    fn publish(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let (folder, name, known) = self.to_change(path)?;
        let object = self.path(path);
        let put = put(&*self.store, &object, bytes.to_vec().into(), Condition::Absent, self.patience);
        let version = self.calls.wait(put).map_err(error)?;
        self.written((folder, name), known, whole(bytes.len() as u64, version));
        Ok(())
    }

    fn store(&self, path: &str, source: Source<'_>) -> io::Result<()> {
        let (folder, name, known) = self.to_change(path)?;
        let len = source.end() - source.at();
        writing::store(&self.calls, &self.store, &self.path(path), source)?;
        self.written((folder, name), known, whole(len, UNKNOWN));
        Ok(())
    }

    fn extend(&self, path: &str, source: Source<'_>) -> io::Result<()> {
        let (folder, name, known) = self.to_change(path)?;
        let mut files = known.map_or_else(|| self.list(folder), Ok)?;
        let pieces = files.entry(name.into()).or_default();
        self.growing(&self.path(folder), name).extend(pieces, source)?;
        self.known().insert(folder.into(), files);
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let (folder, name, known) = self.to_change(path)?;
        let mut files = known.map_or_else(|| self.list(folder), Ok)?;
        let mut pieces = files.remove(name).unwrap_or_default();
        while !pieces.is_empty() {
            self.growing(&self.path(folder), name).remove(&mut pieces)?;
        }
        self.known().insert(folder.into(), files);
        Ok(())
    }
}

impl Drop for Objects {
    /// The next writer need not look on. If that cannot be said it will find out.
    fn drop(&mut self) {
        if let Some((claim, keeps)) = self.claim.take() {
            keeps.abort();
            let _ = self.calls.wait(claim.end(Duration::ZERO));
        }
    }
}
