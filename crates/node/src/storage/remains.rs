//! A node's files without a node: a checkpoint with the records behind it, and the state of a moment of them.
//!
//! From which checkpoint one reads a node's folder is for the [survey](super::survey) to say.

use std::ops::ControlFlow;
use std::sync::Arc;

use highwater_core::threads::share_out;
use highwater_core::{Library, Schema, StreamId, Timestamp};
use highwater_disk::checkpoint::{Error, Loader, Manifest, published};
use highwater_disk::journal::{Damage, Record, Summary, read_to_damage, read_while};
use highwater_disk::{Disk, Identity};
use highwater_engine_rolis::remains::{Reading, Remains};
use highwater_redis::Product;
use highwater_seam::{LogPosition, Resume};
use highwater_store::{Applier, Store};

use super::checkpoint::Preamble;
use super::directory::DataDirectory;
use super::progress::StartProgress;
use super::recovery::load_parts;
use crate::library::WITH_WORKLOADS;

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
    Checkpoint(u64),
    /// At the journal's birth.
    Birth,
}

/// When a moment is wanted it is looked for after so many bytes of records, then after twice as many, and so on.
const LOOK_AFTER: u64 = 64 << 20;

impl<D: Disk> Folder<D>
where
    D::File: Send,
{
    /// Reads the journal behind a checkpoint; no further than needed, if the state `until` a moment is all that is wanted. `summary`: of
    /// the whole journal, or of a part of it up to damage, which was read before.
    ///
    /// # Errors
    /// In words, if the files are none of ours, or not enough for a log.
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

    /// The state of a moment, in a store of its own; and how many transactions of the log were installed. `reading` is of this folder. The tables are those
    /// of whatever program wrote the checkpoint; without one those of the product, or the workloads', too.
    ///
    /// # Errors
    /// In words.
    pub fn state_at(&self, reading: &Reading<'_>, moment: Timestamp) -> Result<(Arc<Store>, u64), String> {
        let (product, all) = (Schema::new(Product.tables()), Schema::new(WITH_WORKLOADS.tables()));
        let (schema, may_be_more) = match &self.checkpoint {
            Some(manifest) => (manifest.schema(), manifest.check_schema(&all).is_ok()),
            None => (product, true),
        };
        // The log names tables by number: one of another name may fit.
        let identity = Identity::read(&self.disk).map_err(|error| format!("{}: {error}", self.name))?;
        let tables = identity.map(|identity| identity.tables).unwrap_or_default();
        let fits = |schema: &Schema| {
            tables.fit(schema).map_err(|why| format!("{}: {why}, as far as it knows", self.name))
        };
        let named = if self.checkpoint.is_some() { Ok(()) } else { fits(&schema) };
        let state = named.and_then(|()| self.state_in(schema, reading, moment));
        if state.is_ok() || !may_be_more {
            return state;
        }
        fits(&all).and_then(|()| self.state_in(all, reading, moment)).or(state)
    }

    fn state_in(
        &self,
        schema: Schema,
        reading: &Reading<'_>,
        moment: Timestamp,
    ) -> Result<(Arc<Store>, u64), String> {
        let at = |why: String| format!("{}: {why}", self.name);
        let store = Store::new(schema);
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

/// The checkpoint to begin at, and where its journal goes on.
fn checkpoint_at(
    disk: &impl Disk,
    life: u64,
    base: Base,
) -> Result<(Option<Manifest>, Vec<LogPosition>), String> {
    let Base::Checkpoint(number) = base else { return Ok((None, Vec::new())) };
    let found = checkpoints(disk, life)?.into_iter().find(|(manifest, _)| manifest.number == number);
    let found = found.map(|(manifest, positions)| (Some(manifest), positions));
    found.ok_or_else(|| format!("there is no checkpoint {number} of this life that can be read"))
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
