//! A node's files without a node: what is in a folder, the state of a moment of it, and a folder from which a new cluster begins.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_core::limits::CHUNK_BYTES;
use highwater_core::{Incarnation, Library, NodeId, Schema, StreamId, Timestamp};
use highwater_disk::checkpoint::{Error, Loader, Manifest, Scan, WriteStep, Writer, published};
use highwater_disk::journal::{DEFAULT_SEGMENT_BYTES, Summary, read};
use highwater_disk::{Disk, DiskFile, Identity, Journal, JournalOptions};
use highwater_engines::Resume;
use highwater_engines::rolis::remains::{Reading, Remains, Voter, founding};
use highwater_store::{Applier, Store};

use super::checkpoint::Preamble;
use super::directory::DataDirectory;
use super::progress::StartProgress;
use super::recovery::load_parts;
use crate::library::NodeLibrary;

/// What is in a folder: a checkpoint, if one was wanted and is there, and the records behind it.
pub struct Folder {
    /// Where.
    pub path: PathBuf,
    /// The checkpoint that everything else stands on.
    pub checkpoint: Option<Manifest>,
    /// What the journal's files hold.
    pub summary: Summary,
    /// What both lead to.
    pub remains: Remains,
    directory: DataDirectory,
}

impl Folder {
    /// Reads the journal of a folder, from the newest checkpoint of this life that is `wanted`. None is needed where the journal goes
    /// back to its birth.
    ///
    /// # Errors
    /// In words, if the files are damaged, none of ours, or not enough for a state.
    pub fn read(path: &Path, wanted: impl Fn(&Manifest) -> bool) -> Result<Folder, String> {
        let at = |why: String| format!("{}: {why}", path.display());
        let directory = DataDirectory::read_only(path).map_err(|error| error.to_string())?;
        // Twice: how many writers there are stands in the journal, and whose checkpoints count.
        let summary = read(&directory, &mut |_| {}).map_err(|error| at(error.to_string()))?;
        let Some(life) = summary.journal else { return Err(at("there is no journal in it".into())) };
        let workers = summary.positions.len().saturating_sub(1);
        let (checkpoint, positions) = newest(&directory, life, wanted).map_err(at)?;
        let resume = checkpoint.as_ref().map(|manifest| {
            let (_, engine) = Preamble::decode(&manifest.engine).expect("it was decoded");
            Resume { floor: manifest.floor, complete_at: manifest.complete_at, engine, positions: &positions }
        });
        let begin = |writer: usize| positions.get(writer).map_or(0, |position| position.0);
        let missing = summary.segments.first().is_some_and(|first| {
            first.positions.iter().enumerate().any(|(writer, position)| *position > begin(writer))
        });
        if missing {
            let what = "the journal's beginning is missing, and there is no checkpoint that goes so far";
            return Err(at(what.into()));
        }
        let mut remains = Remains::new(workers, resume).map_err(at)?;
        let mut refused = None;
        let taken = read(&directory, &mut |record| {
            let writer = usize::from(record.writer);
            if record.position > begin(writer) {
                let bytes = bytes::Bytes::copy_from_slice(record.bytes);
                if let Err(why) = remains.take(writer, bytes) {
                    refused.get_or_insert(why);
                }
            }
        });
        taken.map_err(|error| at(error.to_string()))?;
        if let Some(why) = refused {
            return Err(at(why));
        }
        remains.finish().map_err(at)?;
        Ok(Folder { path: path.into(), checkpoint, summary, remains, directory })
    }

    /// The state of a moment, in a store of its own; and how many transactions of the log were installed. `reading` is of this folder.
    ///
    /// # Errors
    /// In words.
    pub fn state_at(&self, reading: &Reading<'_>, moment: Timestamp) -> Result<(Arc<Store>, u64), String> {
        let at = |why: String| format!("{}: {why}", self.path.display());
        let store = Store::new(Schema::new(NodeLibrary.tables()));
        if let Some(manifest) = &self.checkpoint {
            let words = |error: Error| at(error.to_string());
            let mut loader = Loader::only(manifest.number);
            let loading = loader.next(&self.directory, &store, u64::MAX).map_err(words)?;
            let Some(loading) = loading else {
                let why = loader.skipped().first().map(|skipped| skipped.error.to_string());
                return Err(at(why.unwrap_or_else(|| "the checkpoint is gone".into())));
            };
            load_parts(loading, &StartProgress::default()).map_err(words)?;
        }
        let workers = self.summary.positions.len().saturating_sub(1);
        let installed: Result<Vec<u64>, String> = std::thread::scope(|scope| {
            let install = |stream: usize| {
                let store = store.clone();
                scope
                    .spawn(move || reading.install(StreamId(stream as u16), &mut Applier::new(store), moment))
            };
            let threads: Vec<_> = (0..workers).map(install).collect();
            threads.into_iter().map(|thread| thread.join().expect("an applier does not panic")).collect()
        });
        Ok((store, installed.map_err(at)?.iter().sum()))
    }
}

/// The newest wanted checkpoint of this life, and where its journal goes on.
fn newest(
    directory: &DataDirectory,
    life: u64,
    wanted: impl Fn(&Manifest) -> bool,
) -> Result<(Option<Manifest>, Vec<highwater_engines::LogPosition>), String> {
    let numbers = published(directory).map_err(|error| error.to_string())?;
    for number in numbers.into_iter().rev() {
        let manifest = Manifest::read(directory, number).map_err(|error| error.to_string())?;
        let decoded = Preamble::decode(&manifest.engine);
        let (preamble, _) = decoded.map_err(|why| format!("checkpoint {number}: {}", why.0))?;
        if preamble.incarnation == life && wanted(&manifest) {
            return Ok((Some(manifest), preamble.positions));
        }
    }
    Ok((None, Vec::new()))
}

/// A cluster that is about to begin from a state.
#[derive(Clone, Debug)]
pub struct Founding {
    /// Its id, which no other cluster has.
    pub cluster: String,
    /// Its voters, in their first lives.
    pub voters: Vec<Voter>,
    /// Of each of them.
    pub workers: NonZeroU16,
}

impl Founding {
    /// Of these nodes, in new lives.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(cluster: String, nodes: &[NodeId], workers: NonZeroU16) -> Result<Founding, String> {
        let voter = |node: &NodeId| {
            let bits = getrandom::u64().map_err(|error| format!("no random numbers: {error}"))?;
            Ok(Voter { node: *node, incarnation: Incarnation(bits.max(1)) })
        };
        let voters = nodes.iter().map(voter).collect::<Result<_, String>>()?;
        Ok(Founding { cluster, voters, workers })
    }

    /// Whether the folders can be written there: nothing is in them.
    ///
    /// # Errors
    /// In words, if something is.
    pub fn check(&self, dir: &Path) -> Result<(), String> {
        for voter in &self.voters {
            let path = dir.join(format!("node-{}", voter.node.0));
            if std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(format!(
                    "{}: there is something in it already; nothing was written",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    /// Writes a voter's folder, `dir/node-N`: a checkpoint of `store`, which is the state of `moment`, and a journal with nothing but the
    /// membership. Its identity comes last: before that it is no node's.
    ///
    /// # Errors
    /// In words: something is there already, the disk is full.
    pub fn write(
        &self,
        dir: &Path,
        voter: Voter,
        store: &Arc<Store>,
        moment: Timestamp,
    ) -> Result<PathBuf, String> {
        let path = dir.join(format!("node-{}", voter.node.0));
        let at = |why: String| format!("{}: {why}", path.display());
        let directory = DataDirectory::open(&path).map_err(|error| error.to_string())?;
        if !directory.names().map_err(|error| at(error.to_string()))?.is_empty() {
            return Err(at("there is something in it already; nothing was written".into()));
        }
        let workers = self.workers.get();
        let (engine, record) = founding(workers, self.voters.clone());
        let options = JournalOptions {
            journal: voter.incarnation.0,
            writers: workers + 1,
            segment_bytes: DEFAULT_SEGMENT_BYTES,
        };
        let journal = Journal::open(directory.clone(), options, &mut |_| {});
        let (mut journal, _) = journal.map_err(|error| at(error.to_string()))?;
        let written = journal.append(workers, &record).and_then(|_| journal.sync().map(drop));
        written.map_err(|error| at(error.to_string()))?;
        let none = vec![highwater_engines::LogPosition(0); usize::from(workers) + 1];
        let preamble = Preamble { incarnation: voter.incarnation.0, positions: none };
        write_checkpoint(&directory, store, moment, workers, [preamble.encode(), engine].concat())
            .map_err(|error| at(error.to_string()))?;
        let identity = Identity {
            cluster: self.cluster.clone(),
            node: voter.node,
            incarnation: voter.incarnation,
            generation: 0,
        };
        identity.write(&directory).map_err(|error| at(error.to_string()))?;
        Ok(path)
    }
}

fn write_checkpoint<D>(
    disk: &D,
    store: &Arc<Store>,
    moment: Timestamp,
    parts: u16,
    words: Vec<u8>,
) -> Result<(), Error>
where
    D: Disk,
    D::File: DiskFile + Send,
{
    let scan = Scan { floor: moment, parts, expected_bytes: store.used() };
    let (writer, parts) = Writer::begin(disk, store, scan)?;
    let write = |mut part: highwater_disk::checkpoint::PartWriter<D::File>| loop {
        match part.step(CHUNK_BYTES)? {
            WriteStep::More(more) => part = more,
            WriteStep::Done(done) => return Ok(done),
        }
    };
    let written: Result<Vec<_>, Error> = std::thread::scope(|scope| {
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || write(part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a writer does not panic")).collect()
    });
    match written {
        Ok(written) => writer.publish(disk, written, moment, words).map(drop),
        Err(error) => {
            writer.abandon(disk);
            Err(error)
        }
    }
}
