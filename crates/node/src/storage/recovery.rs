//! From a node's files to a replica that goes on: whose they are, the newest checkpoint that is whole, and what was written behind it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use highwater_core::evidence::{Start, Starts};
use highwater_core::threads::share_out;
use highwater_core::{Incarnation, NodeId, Schema};
use highwater_disk::checkpoint::{
    Error, Loader, Loading, Manifest, PartLoader, Skipped, published, remove_leftovers,
};
use highwater_disk::identity::IdentityError;
use highwater_disk::{
    Disk, DiskFile, Identity, Journal, JournalError, JournalOptions, Tables, behind, journal, stale,
};
use highwater_seam::{LogPosition, Replica, Resume};

use super::checkpoint::Preamble;
use super::progress::{StartProgress, Step};
use super::survey::goes_on;
use super::{DataDirectory, DirectoryError, lives, owner};
use crate::clock::monotonic;
use crate::config::{Config, Durability};
use crate::error::NodeError;

/// A node's files, before its replica is built.
pub struct Files<D = DataDirectory> {
    directory: D,
    path: PathBuf,
    /// Who the node is, by its disk.
    pub identity: Identity,
    /// An earlier process of this life may have accepted more than is in the journal.
    pub forgets: bool,
    /// Which start of a process this is.
    pub start: ThisStart,
    /// Nobody else is in the cluster.
    alone: bool,
    progress: Arc<StartProgress>,
}

/// A start of a process, among others on the same disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisStart {
    /// Its number.
    own: u64,
    /// That of the start before, if the disk knows it.
    before: Option<u64>,
}

impl ThisStart {
    /// Whether another process has started on the disk since, by the newest start that it knows. This one may not have come so far as to be
    /// noted.
    fn is_over(self, newest: Option<u64>) -> bool {
        newest != self.before && newest != Some(self.own)
    }
}

/// Opens this node's folder, or makes it. `schema`: what the node hosts; `fresh`: the incarnation of a node that has none.
///
/// # Errors
/// If another process uses it, it is another node's or of other tables, or the disk refuses.
pub fn open(
    config: &Config,
    schema: &Schema,
    fresh: Incarnation,
    progress: Arc<StartProgress>,
) -> Result<Files, NodeError> {
    let path = config.storage.dir.join(format!("node-{}", config.node));
    let failed = |why: String| unusable(&path, why);
    let directory = take(&path, || progress.is_given_up()).map_err(|error| failed(why_not(&error)))?;
    settle(directory, path, (config, schema), fresh, progress)
}

/// Finds out whose folder this is, and which life of the node begins on it. The folder is at `path`, for messages.
fn settle<D: Disk>(
    directory: D,
    path: PathBuf,
    (config, schema): (&Config, &Schema),
    fresh: Incarnation,
    progress: Arc<StartProgress>,
) -> Result<Files<D>, NodeError> {
    let failed = |why: String| unusable(&path, why);
    owner::check_engine(&directory, config).map_err(&failed)?;
    let identity = Identity::find(&directory, &config.cluster.id, NodeId(config.node), fresh);
    let mut identity = identity.map_err(|error| failed(with_advice(&error)))?;
    identity.tables.fit(schema).map_err(|why| failed(format!("{why}; {OTHER_TABLES}")))?;
    identity.tables = Tables::of(schema);
    let own = getrandom::u64().map_err(|error| NodeError::System {
        what: "draw a start's number from the system's random numbers",
        error: error.into(),
    })?;
    let start = ThisStart { own, before: newest_start(&identity) };
    // Nobody to copy from, as far as this node is told without its journal.
    let alone = config.cluster.nodes.len() == 1;
    lives::settle(&directory, &mut identity, fresh, alone).map_err(&failed)?;
    let behind = behind::is_marked(&directory).map_err(|error| failed(error.to_string()))?;
    if config.cluster.durability == Durability::Async {
        behind::mark(&directory).map_err(|error| failed(format!("cannot mark it: {error}")))?;
    }
    let forgets = behind && identity.incarnation != fresh;
    if forgets {
        tracing::warn!(
            "{}: the last process here did not end in order, and what it had accepted last may be missing: this node catches up with it \
             before its vote counts",
            path.display()
        );
    }
    Ok(Files { directory, path, identity, forgets, start, alone, progress })
}

fn newest_start(identity: &Identity) -> Option<u64> {
    identity.starts.newest().map(|start| start.number)
}

/// The node has ended, and its disk holds all that it ever accepted. `start`: its process was this one on that disk; if another one has
/// started since, that is not for this one to say.
///
/// # Errors
/// If the disk refuses.
pub fn end_in_order(config: &Config, start: ThisStart) -> Result<(), NodeError> {
    let path = config.storage.dir.join(format!("node-{}", config.node));
    let failed = |why: String| unusable(&path, why);
    let directory = take(&path, || false).map_err(|error| failed(why_not(&error)))?;
    let identity = Identity::read(&directory).map_err(|error| failed(error.to_string()))?;
    if identity.is_some_and(|identity| start.is_over(newest_start(&identity))) {
        return Ok(());
    }
    behind::clear(&directory).map_err(|error| failed(format!("cannot say that it ended in order: {error}")))
}

/// The folder at `path` is of no use, and why. Errors of the journal have the system's words alone, so it is those that tell.
fn unusable(path: &Path, why: String) -> NodeError {
    let why = match why.contains("Permission denied") {
        true => format!("{why}; give the folder and its files to the user that the node runs as (chown -R)"),
        false => why,
    };
    NodeError::Storage { path: path.into(), why }
}

/// What helps a node whose disk is no good any more.
pub(super) const COPIES: &str = "move this folder away, but keep it until the cluster serves, and the node copies the state of the others as a new life";

/// The advice where a folder's records are of other tables.
const OTHER_TABLES: &str = "start it as it was started: with server.benchmarks = \"on\" if it was, or in the program whose tables these are";

fn with_advice(error: &IdentityError) -> String {
    match error {
        IdentityError::Cluster { .. } | IdentityError::Node { .. } => {
            format!("{error}; set storage.dir to this node's own folder")
        }
        IdentityError::Damaged { .. } => format!("{error}; {COPIES}"),
        IdentityError::Format { .. } => format!("{error}; start the node with the build that wrote it"),
        IdentityError::Disk { .. } => error.to_string(),
    }
}

fn why_not_read(error: &JournalError) -> String {
    match error {
        JournalError::Damaged { .. } => format!(
            "{error}; {COPIES}. If they are no majority without it, `highwater recover --from` shows what stands before the damage"
        ),
        JournalError::Format { .. } => format!("{error}; start the node with the build that wrote it"),
        _ => error.to_string(),
    }
}

/// Without the path, which is said anyway.
fn why_not(error: &DirectoryError) -> String {
    match error {
        DirectoryError::Locked { .. } => "in use: another process has locked it".into(),
        DirectoryError::Unusable { what: what @ "lock", error, .. } => {
            format!("cannot {what} its file lock: {error}")
        }
        DirectoryError::Unusable { what, error, .. } => format!("cannot {what} it: {error}"),
    }
}

/// How long a folder may be another process's. One that was killed has it until its memory is given back.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Takes the folder, once whoever has it has ended; or gives up.
fn take(path: &Path, gives_up: impl Fn() -> bool) -> Result<DataDirectory, DirectoryError> {
    let began = Instant::now();
    let mut told = false;
    loop {
        match DataDirectory::open(path) {
            Err(DirectoryError::Locked { .. }) if began.elapsed() < LOCK_PATIENCE && !gives_up() => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!("{} is in use: waiting for the process that has it", path.display());
                }
                std::thread::sleep(LOCK_PAUSE);
            }
            taken => return taken,
        }
    }
}

/// Bytes of its files.
fn journal_bytes(directory: &impl Disk) -> std::io::Result<u64> {
    let names = directory.names()?.into_iter().filter(|name| journal::segment_number(name).is_some());
    let len = |name: String| {
        let len = directory.open(&name).and_then(|file| file.len());
        len.map_err(|error| std::io::Error::new(error.kind(), format!("cannot read {name}: {error}")))
    };
    names.map(len).sum()
}

/// Said to nobody: whoever gave the start up knows.
const GIVEN_UP: &str = "the start was given up";

/// The state that a replica goes on from.
struct Loaded {
    replica: Replica,
    /// The checkpoint in its store; `None`: its journal's birth.
    base: Option<(Manifest, Preamble)>,
    /// Newer ones that could not be loaded, newest first.
    damaged: Vec<Skipped>,
}

impl Loaded {
    /// Tells operators what is damaged.
    fn told(replica: Replica, base: Option<(Manifest, Preamble)>, loader: Loader) -> Loaded {
        let damaged = loader.into_skipped();
        for Skipped { number, error } in &damaged {
            tracing::warn!("checkpoint {number} is skipped: {error}");
        }
        Loaded { replica, base, damaged }
    }
}

/// What a node goes on to write to.
pub struct Storage<D: Disk> {
    /// With everything that earlier lives wrote.
    pub journal: Journal<D>,
    /// The same folder, for checkpoints.
    pub disk: D,
    /// The checkpoints that the node could go on from, oldest first, and the journal's positions in them.
    pub checkpoints: Vec<(u64, Vec<LogPosition>)>,
    /// Newer ones that could not be loaded.
    pub damaged: BTreeSet<u64>,
    /// Bytes of the journal that were read.
    pub replayed: u64,
    /// The starts on this disk, this one the newest.
    pub starts: Starts,
}

/// Marks the folder of a node that was told that its disk is stale: its next start is another life. The process that was told has marked it,
/// if its disk let it.
///
/// # Errors
/// If the disk refuses.
pub fn mark_stale(config: &Config) -> Result<(), NodeError> {
    let path = config.storage.dir.join(format!("node-{}", config.node));
    let failed = |why: String| unusable(&path, why);
    let directory = take(&path, || false).map_err(|error| failed(why_not(&error)))?;
    stale::mark(&directory).map_err(|error| failed(format!("cannot mark it as stale: {error}")))
}

impl<D> Files<D>
where
    D: Disk + Clone,
    D::File: Send,
{
    /// Their folder.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Hands a fresh replica what was written, and leaves the journal open for more. Its writers are the workers, then the
    /// controller. `build`: another fresh replica, for each checkpoint that is tried.
    ///
    /// # Errors
    /// If the journal is damaged, or not this engine's, or none of the checkpoints can be loaded; or the start was
    /// [given up](StartProgress::is_given_up) meanwhile: then the files are as they were. [`NodeError::StaleDisk`]: something is missing,
    /// the folder is marked, and opened again it begins another life.
    pub fn recover(mut self, build: impl Fn() -> Replica) -> Result<(Replica, Storage<D>), NodeError> {
        let path = self.path.clone();
        let failed = |why: String| unusable(&path, why);
        let Loaded { mut replica, base: loaded, damaged } = self.load(build).map_err(&failed)?;
        let workers = replica.workers.len();
        let none = vec![LogPosition(0); workers + 1];
        let positions = match &loaded {
            None => none,
            Some((manifest, preamble)) => {
                let (_, engine) = preamble_of(manifest).map_err(&failed)?;
                let (floor, complete_at) = (manifest.floor, manifest.complete_at);
                let positions = preamble.positions.clone();
                let resume = Resume { floor, complete_at, engine, positions: &positions };
                replica.controller.resume(resume).map_err(&failed)?;
                positions
            }
        };
        let options = JournalOptions {
            journal: self.identity.incarnation.0,
            writers: workers as u16 + 1,
            segment_bytes: journal::DEFAULT_SEGMENT_BYTES,
        };
        let (begun, mut bytes, mut refused) = (Instant::now(), 0, None);
        let at_most = journal_bytes(&self.directory).map_err(|error| failed(error.to_string()))?;
        self.progress.begin(Step::Reads { at_most });
        let opened = Journal::open_while(self.directory.clone(), options, &mut |record| {
            if self.progress.is_given_up() {
                return ControlFlow::Break(());
            }
            let writer = usize::from(record.writer);
            self.progress.add(record.bytes.len() as u64);
            if positions.get(writer).is_none_or(|from| record.position <= from.0) {
                return ControlFlow::Continue(());
            }
            bytes += record.bytes.len() as u64;
            let record = bytes::Bytes::copy_from_slice(record.bytes);
            let taken = match replica.workers.get_mut(writer) {
                Some(worker) => worker.recover(record),
                None => replica.controller.recover(record),
            };
            if let Err(why) = taken {
                refused.get_or_insert(why);
            }
            ControlFlow::Continue(())
        });
        let opened = opened.map_err(|error| failed(why_not_read(&error)))?;
        let (journal, summary) = opened.ok_or_else(|| failed(GIVEN_UP.into()))?;
        if journal.number() != self.identity.incarnation.0 {
            return Err(failed(
                "the journal is of another life than the identity, or another node's: files of different folders are mixed; \
                  put back the folder as it was, or move it away as a whole, but keep it until the cluster serves, and the node copies the \
                  state of the others"
                    .into(),
            ));
        }
        let had: u64 = journal.synced().iter().sum();
        let last = summary.segments.last().map(|last| last.number);
        if lives::check_bytes(&self.directory, &self.identity, (last, had), self.alone).map_err(&failed)? {
            return Err(NodeError::StaleDisk);
        }
        if let Some(last) = summary.segments.last().filter(|last| last.positions.len() != workers + 1) {
            return Err(failed(format!(
                "the journal was written with another number of workers: {}; set cluster.workers to it",
                last.positions.len() - 1
            )));
        }
        goes_on(&positions, &summary.segments, journal.synced(), &damaged).map_err(&failed)?;
        if let Some(why) = refused {
            return Err(failed(format!("the journal is not this engine's: {why}")));
        }
        // Before anybody is told anything by it; and only a start that has come so far is one.
        let start = Start { number: self.start.own, had };
        self.identity.begin(&self.directory, start).map_err(|error| failed(with_advice(&error)))?;
        self.progress.begin(Step::Begins);
        if bytes > 0 || loaded.is_some() {
            for worker in &mut replica.workers {
                worker.recovered().map_err(&failed)?;
            }
            replica.controller.recovered(monotonic());
        }
        tracing::info!(
            generation = self.identity.starts.generation(),
            mib = bytes >> 20,
            ms = begun.elapsed().as_millis() as u64,
            cut = summary.cut.is_some(),
            "read the journal in {}",
            path.display()
        );
        let newest = loaded.map_or(0, |(manifest, _)| manifest.number);
        let checkpoints = self.usable(newest).map_err(|error| failed(error.to_string()))?;
        let damaged = damaged.into_iter().map(|skipped| skipped.number).collect();
        let (disk, starts) = (self.directory, self.identity.starts);
        Ok((replica, Storage { journal, disk, checkpoints, damaged, replayed: bytes, starts }))
    }

    /// A replica with the newest checkpoint that is whole in its store, or with an empty one if there are none of this life: then whether the
    /// journal goes back to its birth is for [`goes_on`] to say.
    fn load(&self, build: impl Fn() -> Replica) -> Result<Loaded, String> {
        let words = |error: Error| error.to_string();
        for name in remove_leftovers(&self.directory).map_err(words)? {
            tracing::info!("removed {name}, of a checkpoint that was never published");
        }
        let mut loader = Loader::new(&self.directory).map_err(words)?;
        loop {
            let replica = build();
            let shares = replica.controller.memory().shares;
            let (store, limit) = (replica.controller.store(), shares.store.saturating_add(shares.slack));
            let Some(loading) = loader.next(&self.directory, &store, limit).map_err(words)? else {
                return Ok(Loaded::told(replica, None, loader));
            };
            let (preamble, _) = preamble_of(&loading.manifest)?;
            if preamble.incarnation != self.identity.incarnation.0 {
                tracing::info!(
                    "the checkpoints in {} are of an earlier life of this node",
                    self.path.display()
                );
                return Ok(Loaded::told(replica, None, loader));
            }
            let number = loading.manifest.number;
            match load_parts(loading, &self.progress) {
                Ok(manifest) => return Ok(Loaded::told(replica, Some((manifest, preamble)), loader)),
                Err(error) => loader.skip(number, error).map_err(words)?,
            }
        }
    }

    /// The checkpoints up to `newest`, which was loaded, that are of this life.
    fn usable(&self, newest: u64) -> Result<Vec<(u64, Vec<LogPosition>)>, Error> {
        let mut usable = Vec::new();
        for number in published(&self.directory)?.range(..=newest) {
            if let Ok(manifest) = Manifest::read(&self.directory, *number)
                && let Ok((preamble, _)) = preamble_of(&manifest)
                && preamble.incarnation == self.identity.incarnation.0
            {
                usable.push((*number, preamble.positions));
            }
        }
        Ok(usable)
    }
}

fn preamble_of(manifest: &Manifest) -> Result<(Preamble, &[u8]), String> {
    let decoded = Preamble::decode(&manifest.engine);
    decoded
        .map_err(|why| format!("checkpoint {} was written by another kind of host: {why:?}", manifest.number))
}

/// How often it is said how far the loading has come.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// Loads all parts, on as many threads as there are cores, or parts, and the system has room for.
pub(super) fn load_parts<F: DiskFile>(
    loading: Loading<F>,
    progress: &StartProgress,
) -> Result<Manifest, Error> {
    let Loading { manifest, parts } = loading;
    let (begun, all) = (Instant::now(), manifest.len_bytes());
    progress.begin(Step::Loads { number: manifest.number, bytes: all });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let failed = AtomicBool::new(false);
    let loaded = share_out("loader", parts, cores, |part| {
        if failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut said = Instant::now();
        let loaded = load_part(part, progress, || {
            if said.elapsed() >= SAY_EVERY {
                said = Instant::now();
                tracing::info!("{}", progress.words());
            }
        });
        failed.fetch_or(loaded.is_err(), Ordering::Relaxed);
        loaded
    });
    loaded.into_iter().collect::<Result<(), Error>>()?;
    let seconds = begun.elapsed().as_secs_f64();
    tracing::info!(
        number = manifest.number,
        mib = all >> 20,
        records = manifest.records(),
        ms = (seconds * 1e3) as u64,
        "loaded a checkpoint"
    );
    Ok(manifest)
}

fn load_part<F: DiskFile>(
    mut part: PartLoader<F>,
    progress: &StartProgress,
    mut say: impl FnMut(),
) -> Result<(), Error> {
    let mut before = 0;
    loop {
        if progress.is_given_up() {
            let source = std::io::ErrorKind::Interrupted.into();
            return Err(Error::Io { file: "the checkpoint".into(), tried: "load all of it", source });
        }
        let more = part.step()?;
        let (loaded, _) = part.progress();
        progress.add(loaded - before);
        before = loaded;
        say();
        if !more {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
