//! A node's files without a node: what is in a folder, the state of a moment of it, and a folder from which a new cluster begins.

use std::fs;
use std::num::NonZeroU16;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_core::evidence::Begun;
use highwater_core::limits::CHUNK_BYTES;
use highwater_core::threads::share_out;
use highwater_core::{Incarnation, Library, NodeId, Schema, StreamId, Timestamp};
use highwater_disk::checkpoint::{Error, Loader, Manifest, Scan, WriteStep, Writer, published};
use highwater_disk::journal::{
    DEFAULT_SEGMENT_BYTES, Damage, MAX_WRITERS, Record, Summary, read_to_damage, read_while, segments,
};
use highwater_disk::{Disk, DiskFile, Identity, Journal, JournalError, JournalOptions};
use highwater_engines::rolis::remains::{Reading, Remains, Trust, Voter, founding};
use highwater_engines::{LogPosition, Resume};
use highwater_store::{Applier, Store};

use super::checkpoint::Preamble;
use super::directory::DataDirectory;
use super::progress::StartProgress;
use super::recovery::load_parts;
use crate::library::NodeLibrary;

/// What is in a folder: a checkpoint, if one was wanted and is there, and the records behind it.
pub struct Folder<D = DataDirectory> {
    /// Where, for people.
    pub name: String,
    /// The checkpoint that everything else stands on.
    pub checkpoint: Option<Manifest>,
    /// What the journal's files hold.
    pub summary: Summary,
    /// What both lead to.
    pub remains: Remains,
    /// Where the journal is damaged.
    pub damage: Vec<Damage>,
    /// What stands behind damage is missing here. (Damage in front of what the checkpoint needs takes nothing away.)
    pub ends_early: bool,
    disk: D,
}

/// Where the reading of a folder begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// At the newest checkpoint of the journal's life that can be read; at the journal's birth if there is none.
    Newest,
    /// At this one.
    Checkpoint(u64),
    /// At the journal's birth.
    Birth,
}

/// When a moment is wanted it is looked for after so many bytes of records, then after twice as many, and so on.
const LOOK_AFTER: u64 = 64 << 20;

impl Folder {
    /// Reads a node's folder, from the newest checkpoint of the journal's life that can be read, or from the journal's birth. If the journal
    /// is damaged it is read up to there: what stands before that, in groups that are there as a whole and in the order in which they were
    /// synced, is what a crash would have left at that point. So it is true, and not all that the node accepted.
    ///
    /// # Errors
    /// In words, if the files are none of ours, or not enough for a state.
    pub fn read(path: &Path) -> Result<Folder, String> {
        let directory = DataDirectory::read_only(path).map_err(|error| error.to_string())?;
        let name = path.display().to_string();
        // Twice: how many writers there are stands in the journal, and whose checkpoints count.
        let mut runs = runs(&directory).map_err(|error| format!("{name}: {error}"))?;
        match runs.pop() {
            Some(whole) if runs.is_empty() && whole.damage.is_none() => {
                Folder::behind(directory, name, whole, Base::Newest, None)
            }
            last => {
                runs.extend(last);
                Folder::read_damaged(&directory, &name, &runs)
            }
        }
    }

    /// The newest checkpoint that leads to a state and to a membership, with the latest part of the journal that goes on from it.
    fn read_damaged(directory: &DataDirectory, name: &str, runs: &[Summary]) -> Result<Folder, String> {
        let damage: Vec<Damage> = runs.iter().filter_map(|run| run.damage.clone()).collect();
        let first = damage.first().expect("a journal in several parts is damaged between them");
        let life = runs.iter().find_map(|run| run.journal);
        let life = life.ok_or_else(|| format!("{name}: {first}; nothing stands before that"))?;
        let numbers = checkpoints(directory, life)?.into_iter().rev();
        let bases = numbers.map(|(manifest, _)| Base::Checkpoint(manifest.number)).chain([Base::Birth]);
        for base in bases {
            for (at, run) in runs.iter().enumerate().rev().filter(|(_, run)| run.journal == Some(life)) {
                let folder = Folder::behind(directory.clone(), name.into(), run.clone(), base, None);
                // Who belonged to the cluster has to be known, too: else nobody can say what is lost.
                let leads = |folder: &Folder| {
                    folder.remains.read(Trust::Accepted).is_ok() && !folder.remains.memberships().is_empty()
                };
                if let Some(mut folder) = folder.ok().filter(leads) {
                    folder.ends_early = at + 1 < runs.len() || run.damage.is_some();
                    folder.damage = damage;
                    return Ok(folder);
                }
            }
        }
        Err(format!("{name}: {first}; what stands before that leads to no state"))
    }
}

/// The parts of a journal between which it is damaged; one, if it is whole.
fn runs(disk: &DataDirectory) -> Result<Vec<Summary>, JournalError> {
    let last = segments(disk)?.last().copied();
    let (mut runs, mut from) = (Vec::new(), 0);
    loop {
        let run = read_to_damage(disk, from, &mut |_| ControlFlow::Continue(()))?;
        let damaged = run.damage.as_ref().map(|damage| damage.segment);
        runs.push(run);
        match damaged {
            Some(damaged) if Some(damaged) < last => from = damaged + 1,
            _ => return Ok(runs),
        }
    }
}

impl<D: Disk> Folder<D>
where
    D::File: Send,
{
    /// Reads the journal behind a checkpoint; no further than needed, if the state `until` a moment is all that is wanted. `summary`: of
    /// the whole journal, or of a part of it up to damage, which was read before.
    ///
    /// # Errors
    /// As [`read`](Folder::read).
    pub fn behind(
        disk: D,
        name: String,
        summary: Summary,
        base: Base,
        until: Option<Timestamp>,
    ) -> Result<Folder<D>, String> {
        let at = |why: String| format!("{name}: {why}");
        let Some(life) = summary.journal else { return Err(at("there is no journal in it".into())) };
        let workers = summary.positions.len().saturating_sub(1);
        let (checkpoint, positions) = checkpoint_at(&disk, life, base).map_err(at)?;
        let resume = checkpoint.as_ref().map(|manifest| {
            let (_, engine) = Preamble::decode(&manifest.engine).expect("it was decoded");
            Resume { floor: manifest.floor, complete_at: manifest.complete_at, engine, positions: &positions }
        });
        let begin = |writer: usize| positions.get(writer).map_or(0, |position| position.0);
        // Segments in front of the last that begins early enough have nothing that is wanted.
        let early = |positions: &[u64]| positions.iter().enumerate().all(|(writer, at)| *at <= begin(writer));
        let first = summary.segments.iter().rev().find(|segment| early(&segment.positions));
        if first.is_none() && !summary.segments.is_empty() {
            let what = "the journal's beginning is missing, and there is no checkpoint that goes so far";
            return Err(at(what.into()));
        }
        let first = first.map_or(0, |segment| segment.number);
        let mut remains = Remains::new(workers, resume).map_err(at)?;
        let (mut refused, mut held, mut look_at) = (None, 0, LOOK_AFTER);
        let mut take = |record: Record<'_>| {
            let writer = usize::from(record.writer);
            if record.position <= begin(writer) {
                return ControlFlow::Continue(());
            }
            if let Err(why) = remains.take(writer, bytes::Bytes::copy_from_slice(record.bytes)) {
                refused = Some(why);
                return ControlFlow::Break(());
            }
            held += record.bytes.len() as u64;
            if held >= look_at {
                look_at *= 2;
                if until.is_some_and(|moment| remains.reaches(moment)) {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        let taken = match summary.damage.is_some() {
            true => read_to_damage(&disk, first, &mut take).map(drop),
            false => read_while(&disk, first, &mut take),
        };
        taken.map_err(|error| at(error.to_string()))?;
        if let Some(why) = refused {
            return Err(at(why));
        }
        remains.finish().map_err(at)?;
        let damage: Vec<Damage> = summary.damage.iter().cloned().collect();
        let ends_early = !damage.is_empty();
        Ok(Folder { name, checkpoint, summary, remains, damage, ends_early, disk })
    }

    /// The state of a moment, in a store of its own; and how many transactions of the log were installed. `reading` is of this folder.
    ///
    /// # Errors
    /// In words.
    pub fn state_at(&self, reading: &Reading<'_>, moment: Timestamp) -> Result<(Arc<Store>, u64), String> {
        let at = |why: String| format!("{}: {why}", self.name);
        let store = Store::new(Schema::new(NodeLibrary.tables()));
        if let Some(manifest) = &self.checkpoint {
            let words = |error: Error| at(error.to_string());
            let mut loader = Loader::only(manifest.number);
            let loading = loader.next(&self.disk, &store, u64::MAX).map_err(words)?;
            let Some(loading) = loading else {
                let why = loader.skipped().first().map(|skipped| skipped.error.to_string());
                return Err(at(why.unwrap_or_else(|| "the checkpoint is gone".into())));
            };
            load_parts(loading, &StartProgress::default()).map_err(words)?;
        }
        let workers = self.summary.positions.len().saturating_sub(1);
        let streams = (0..workers).map(|stream| StreamId(stream as u16)).collect();
        let installed = share_out("applier", streams, workers, |stream| {
            reading.install(stream, &mut Applier::new(store.clone()), moment)
        });
        let installed = installed.into_iter().sum::<Result<u64, String>>();
        Ok((store, installed.map_err(at)?))
    }
}

/// The checkpoint to begin at, and where its journal goes on. One that cannot be read gives way to an older one.
fn checkpoint_at(
    disk: &impl Disk,
    life: u64,
    base: Base,
) -> Result<(Option<Manifest>, Vec<LogPosition>), String> {
    let wanted = |number: u64| match base {
        Base::Newest => true,
        Base::Checkpoint(wanted) => number == wanted,
        Base::Birth => false,
    };
    for (manifest, positions) in checkpoints(disk, life)?.into_iter().rev() {
        if wanted(manifest.number) {
            return Ok((Some(manifest), positions));
        }
    }
    match base {
        Base::Checkpoint(number) => {
            Err(format!("there is no checkpoint {number} of this life that can be read"))
        }
        Base::Newest | Base::Birth => Ok((None, Vec::new())),
    }
}

/// The checkpoints of a life whose manifests can be read, oldest first, each with where the journal goes on behind it.
///
/// # Errors
/// In words: those that are not damage.
pub fn checkpoints(disk: &impl Disk, life: u64) -> Result<Vec<(Manifest, Vec<LogPosition>)>, String> {
    let mut found = Vec::new();
    for number in published(disk).map_err(|error| error.to_string())? {
        match Manifest::read(disk, number) {
            Ok(manifest) => {
                let decoded = Preamble::decode(&manifest.engine);
                let (preamble, _) = decoded.map_err(|why| format!("checkpoint {number}: {}", why.0))?;
                if preamble.incarnation == life {
                    found.push((manifest, preamble.positions));
                }
            }
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(found)
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
    /// If a journal takes fewer workers, or the system has no random numbers.
    pub fn new(cluster: String, nodes: &[NodeId], workers: NonZeroU16) -> Result<Founding, String> {
        if workers.get() >= MAX_WRITERS {
            return Err(format!("a node has up to {} workers, not {workers}", MAX_WRITERS - 1));
        }
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
            if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(format!(
                    "{}: there is something in it already; nothing was written",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    /// Writes a voter's folder, `dir/node-N`: a checkpoint of `store`, which is the state of `moment`, and a journal that says so and has
    /// the membership. It gets its name once it is whole; a rest of another try is removed.
    ///
    /// # Errors
    /// In words: something is there already, the disk is full. Nothing is there then.
    pub fn write(
        &self,
        dir: &Path,
        voter: Voter,
        store: &Arc<Store>,
        moment: Timestamp,
    ) -> Result<PathBuf, String> {
        let path = dir.join(format!("node-{}", voter.node.0));
        vacant(&path)?;
        let new = dir.join(format!("node-{}.new", voter.node.0));
        let at = |why: String| format!("{}: {why}", path.display());
        let remove = || if new.exists() { fs::remove_dir_all(&new) } else { Ok(()) };
        remove().map_err(|error| at(error.to_string()))?;
        let written = self.write_to(&new, voter, store, moment).and_then(|()| {
            let named = fs::rename(&new, &path).and_then(|()| fs::File::open(dir)?.sync_all());
            named.map_err(|error| error.to_string())
        });
        written.map_err(|why| {
            // What could not be written is of no use; if it cannot be removed either, the next try does.
            let _ = remove();
            at(why)
        })?;
        Ok(path)
    }

    fn write_to(
        &self,
        path: &Path,
        voter: Voter,
        store: &Arc<Store>,
        moment: Timestamp,
    ) -> Result<(), String> {
        let directory = DataDirectory::open(path).map_err(|error| error.to_string())?;
        let workers = self.workers.get();
        let (engine, records) = founding(workers, self.voters.clone(), moment);
        let options = JournalOptions {
            journal: voter.incarnation.0,
            writers: workers + 1,
            segment_bytes: DEFAULT_SEGMENT_BYTES,
        };
        let journal = Journal::open(directory.clone(), options, &mut |_| {});
        let (mut journal, _) = journal.map_err(|error| error.to_string())?;
        let mut appended = records.iter().try_for_each(|record| journal.append(workers, record).map(drop));
        appended = appended.and_then(|()| journal.sync().map(drop));
        appended.map_err(|error| error.to_string())?;
        let none = vec![LogPosition(0); usize::from(workers) + 1];
        let preamble = Preamble { incarnation: voter.incarnation.0, positions: none };
        write_checkpoint(&directory, store, moment, workers, [preamble.encode(), engine].concat())
            .map_err(|error| error.to_string())?;
        // The journal was written before: without it there is nothing to go on from.
        let begun = Begun::Segment(1);
        let identity = Identity { begun, ..Identity::new(&self.cluster, voter.node, voter.incarnation) };
        identity.write(&directory).map_err(|error| error.to_string())
    }
}

fn vacant(path: &Path) -> Result<(), String> {
    match fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
        true => Err(format!("{}: there is something in it already; nothing was written", path.display())),
        false => Ok(()),
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
    let scan = Scan { floor: moment, parts, expected_bytes: store.used(), from_ballast: false };
    let (writer, parts) = Writer::begin(disk, store, scan)?;
    let write = |mut part: highwater_disk::checkpoint::PartWriter<D::File>| loop {
        match part.step(CHUNK_BYTES)? {
            WriteStep::More(more) => part = more,
            WriteStep::Done(done) => return Ok(done),
        }
    };
    let threads = parts.len();
    let written = share_out("checkpoint-part", parts, threads, write);
    match written.into_iter().collect::<Result<Vec<_>, Error>>() {
        Ok(written) => writer.publish(disk, written, moment, words).map(drop),
        Err(error) => {
            writer.abandon(disk);
            Err(error)
        }
    }
}
