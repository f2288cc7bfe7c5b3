//! A survey of a folder: to what state its files lead, what is damaged on the way, and whether its node starts.
//!
//! Operators' tools promise what a node does, so they must not have rules of their own. All ask here: `recover`, `checkpoint verify` and
//! `log verify` take a [`Survey`], a node that starts takes the same steps while it loads ([`recovery`](super::recovery)), and an archive
//! copies what is found whole by the same check.
//!
//! # The rules
//!
//! 1. *The base* is the newest checkpoint whose every byte is what was written ([`Loader`]: a node loads by the same order). Damage in a part
//!    counts as damage in the manifest does. Without such a checkpoint of the journal's life it is the journal's birth.
//! 2. *A node starts* from the base if the journal behind it is whole, begins early enough and goes far enough ([`goes_on`]), and its records
//!    fit. Nothing less will do: what is missing may have been promised.
//!    Nor does it start as who it was if its disk has forgotten something, or is an older copy ([`lives`]): what it promised is not there.
//! 3. *The state may lie elsewhere.* The log of a node that was copying a state begins behind the store. It starts, votes, and its log counts;
//!    its state does not ([`Remains::lacks_state`](highwater_engine_rolis::remains::Remains::lacks_state)).
//! 4. *What is left of a disk whose node does not start* is taken from the newest base and the latest part of the journal that lead to a state
//!    and to a membership. What stands before damage, in groups that are there as a whole and in the order in which they were synced, is what a
//!    crash would have left at that point: true, and not all that the node accepted.
//! 5. If nothing leads to a state, a log counts by itself, as that of rule 3 does: a manifest says where it stands though a part is damaged.
//! 6. *Folders testify against each other.* What a node had heard of another one's disk is among its records ([`Testimony`]), and rule 2 holds with
//!    it: whoever has several folders of a cluster has each [hear](Survey::hear) the others. It counts whether or not the node that heard it starts:
//!    it is true either way.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use highwater_core::NodeId;
use highwater_core::evidence::{Start, Starts};
use highwater_disk::checkpoint::{Error, Loader, Manifest, Skipped};
use highwater_disk::journal::{Damage, Record, SegmentSummary, Summary, read_to_damage, segments};
use highwater_disk::{Identity, JournalError};
use highwater_engine_rolis::remains::{Testimony, Trust, Voter};
use highwater_engines::EngineKind;
use highwater_seam::LogPosition;

use super::checkpoint::Preamble;
use super::directory::DataDirectory;
use super::recovery::COPIES;
use super::remains::{Base, Folder};
use super::{lives, owner};

/// The findings of a survey.
pub struct Survey {
    pub identity: Identity,
    /// The rest: a base and the records behind it.
    pub folder: Folder,
    /// Checkpoints that are damaged and newer than the base, newest first.
    pub damaged: Vec<Skipped>,
    /// Why the node does not start, if it does not.
    pub refuses: Option<String>,
    /// Words on others' disks that the node had heard.
    pub testimony: Testimony,
    /// Bytes of the journal's records, if it is whole.
    had: Option<u64>,
}

/// A folder of which nothing is left, not even a log.
#[derive(Clone, Debug)]
pub struct Nothing {
    /// Why, in words.
    pub why: String,
    /// Whose it is, if its node does not start with it. (Without a journal a node begins another life.)
    pub refuses: Option<Box<Identity>>,
    /// The node that it is of, and what that had heard of others' disks, if that can be read.
    pub testimony: Option<Box<(NodeId, Testimony)>>,
}

impl From<String> for Nothing {
    fn from(why: String) -> Nothing {
        Nothing { why, refuses: None, testimony: None }
    }
}

impl Survey {
    /// Reads a folder of a node that does not run.
    ///
    /// # Errors
    /// If the files are none of ours, or not enough for a log.
    pub fn of(path: &Path) -> Result<Survey, Nothing> {
        let directory = DataDirectory::read_only(path).map_err(|error| error.to_string())?;
        let name = path.display().to_string();
        let at = |why: &dyn std::fmt::Display| format!("{name}: {why}");
        let identity = Identity::read(&directory).map_err(|error| at(&error))?;
        let identity = identity.ok_or_else(|| at(&"no node was ever started on it"))?;
        is_readable(&directory).map_err(|why| at(&why))?;
        let life = identity.incarnation.0;
        let (runs, testimony) = runs(&directory).map_err(|error| at(&error))?;
        if runs.iter().find_map(|run| run.journal).is_some_and(|journal| journal != life) {
            let what =
                "its journal is of another life than its identity: files of different folders are mixed";
            return Err(Nothing { why: at(&what), refuses: Some(Box::new(identity)), testimony: None });
        }
        if runs.iter().all(|run| run.journal.is_none() && run.damage.is_none()) {
            return Err(at(&"there is no journal in it").into());
        }
        let mut search = Search { directory, name: name.clone(), life, runs, tried: 0, refuses: None };
        let found = search.search();
        let (folder, damaged) = found.map_err(|why| {
            let refuses = search.refuses.is_some().then(|| Box::new(identity.clone()));
            Nothing { why, refuses, testimony: Some(Box::new((identity.node, testimony.clone()))) }
        })?;
        let whole = search.runs.first().filter(|run| run.damage.is_none() && search.runs.len() == 1);
        let had = whole.map(|run| run.positions.iter().sum());
        let forgot = lives::why_another(&search.directory, &identity, had);
        let refuses = forgot.map(|why| another_life(&why)).or(search.refuses);
        Ok(Survey { identity, folder, damaged, refuses, testimony, had })
    }

    /// Takes what the nodes of other folders had heard of this disk. If it is older than that, its node does not start as who it was.
    ///
    /// Invariant: the rule is the one by which a node that comes back is judged by the others. So no tool calls a disk part of a majority of
    /// which another one that it was given knows better.
    pub fn hear<'a>(&mut self, others: impl IntoIterator<Item = &'a (NodeId, Testimony)>) {
        let (Some(starts), None) = (self.next_starts(), &self.refuses) else { return };
        let me = Voter { node: self.identity.node, incarnation: self.identity.incarnation };
        let against = |(by, testimony): &(NodeId, Testimony)| Some((*by, testimony.against(me, &starts)?));
        if let Some((by, why)) = others.into_iter().find_map(against) {
            self.refuses = Some(another_life(&format!(
                "it is an older copy: node {}'s disk says that it was told of {why}",
                by.0
            )));
        }
    }

    /// The word of the node's next start on this disk to the others. The number of that start is its own, and nobody has met it.
    fn next_starts(&self) -> Option<Starts> {
        let mut starts = self.identity.starts.clone();
        starts.push(Start { number: 0, had: self.had? });
        Some(starts)
    }

    /// The node's next step with its folder, in words.
    pub fn words(&self) -> String {
        let mut words = match (&self.refuses, self.folder.remains.lacks_state(), &self.folder.checkpoint) {
            (Some(why), ..) => format!("the node does not start: {why}"),
            (None, Some(why), _) => format!("the node starts, and copies the state of the others: {why}"),
            (None, None, Some(manifest)) => format!("the node goes on from checkpoint {}", manifest.number),
            (None, None, None) => "the node goes on from its journal alone".into(),
        };
        for Skipped { number, error } in &self.damaged {
            words.push_str(&format!("; checkpoint {number} is damaged: {error}"));
        }
        words
    }
}

fn another_life(why: &str) -> String {
    format!("not as who it was, for {why}; it begins another life, and copies the state of the others")
}

/// Refuses a folder whose records cannot be read without their replica.
///
/// # Errors
/// In words, with the engine that wrote it.
pub fn is_readable(directory: &DataDirectory) -> Result<(), String> {
    let wrote = owner::engines_of(directory);
    if wrote.is_empty() || wrote.contains(&EngineKind::Rolis) {
        return Ok(());
    }
    let named: Vec<&str> = wrote.iter().map(|engine| engine.name()).collect();
    Err(format!(
        "engine {} wrote this folder; `recover` and `backup` read what engine rolis wrote, and no other's",
        named.join(" or ")
    ))
}

/// Whether a node goes on from a base with this journal. `begin`: where each writer's records go on behind the base; `segments`: the
/// journal's; `ends`: where each writer's records end; `damaged`: newer checkpoints that could not be loaded.
///
/// Invariant: whatever the node's earlier lives wrote is in the base or among the records behind it. A record that is missing may hold a
/// promise, or an entry that others count on this node for.
///
/// # Errors
/// In words, with what to do.
pub fn goes_on(
    begin: &[LogPosition],
    segments: &[SegmentSummary],
    ends: &[u64],
    damaged: &[Skipped],
) -> Result<(), String> {
    let begins = |writer: usize| begin.get(writer).map_or(0, |position| position.0);
    let beyond = |of: &[u64]| of.iter().enumerate().any(|(writer, at)| *at > begins(writer));
    let advice = format!(
        "{COPIES}. If they are no majority without it, `highwater recover --from` shows what is left here"
    );
    let newest = damaged.first().map(|newest| &newest.error);
    match (segments.first(), newest) {
        (Some(first), Some(error)) if beyond(&first.positions) => Err(format!(
            "none of the checkpoints can be loaded with the journal that is there ({error}); {advice}"
        )),
        (Some(first), None) if beyond(&first.positions) => {
            Err(format!("the journal's beginning is missing; {advice}"))
        }
        // Then nothing tells that the journal goes back to the node's birth.
        (None, Some(error)) if begin.iter().all(|position| position.0 == 0) => {
            Err(format!("none of the checkpoints can be loaded ({error}), and there is no journal; {advice}"))
        }
        _ if begin.iter().enumerate().any(|(at, begin)| begin.0 > ends.get(at).copied().unwrap_or(0)) => {
            Err(format!("the journal is older than the checkpoint; {advice}"))
        }
        _ => Ok(()),
    }
}

/// The parts of a journal between which it is damaged (one, if it is whole), and what the controller noted down in them of others' disks.
fn runs(disk: &DataDirectory) -> Result<(Vec<Summary>, Testimony), JournalError> {
    let last = segments(disk)?.last().copied();
    let (mut runs, mut from, mut testimonies) = (Vec::new(), 0, BTreeMap::<u16, Testimony>::new());
    let mut take = |record: Record<'_>| {
        // Nobody knows yet which of the writers is the last one, the controller.
        if Testimony::may_be(record.bytes) {
            testimonies.entry(record.writer).or_default().take(record.bytes);
        }
        ControlFlow::Continue(())
    };
    loop {
        let run = read_to_damage(disk, from, &mut take)?;
        let damaged = run.damage.as_ref().map(|damage| damage.segment);
        runs.push(run);
        match damaged {
            Some(damaged) if Some(damaged) < last => from = damaged + 1,
            _ => break,
        }
    }
    let controller = runs.iter().map(|run| run.positions.len()).max().unwrap_or(0).saturating_sub(1);
    let testimony = testimonies.remove(&(controller as u16)).unwrap_or_default();
    Ok((runs, testimony))
}

/// Looks for what is left in a folder.
struct Search {
    directory: DataDirectory,
    name: String,
    life: u64,
    runs: Vec<Summary>,
    /// How many bases were tried: the first is the one that a node takes.
    tried: usize,
    refuses: Option<String>,
}

/// The end of a try that came to no state.
enum Tried {
    /// A log, and a membership; and why there is no state.
    Stateless(Box<Folder>),
    /// The journal does not go on from there; why. A node does not start from it.
    Unfit(String),
    /// Nothing; why.
    Nothing(String),
}

impl Search {
    fn search(&mut self) -> Result<(Folder, Vec<Skipped>), String> {
        let words = |error: Error| format!("{}: {error}", self.name);
        let mut loader = Loader::new(&self.directory).map_err(words)?;
        let (mut stateless, mut why) = (None, None);
        loop {
            let words = |error: Error| format!("{}: {error}", self.name);
            let whole = loader.next_whole(&self.directory).map_err(words)?;
            let begin = whole.as_ref().map(|manifest| self.begin(manifest)).transpose()?.flatten();
            // Older ones than one of another life are of another life, too.
            let base = begin.as_ref().map_or(Base::Birth, |(number, _)| Base::Checkpoint(*number));
            self.judge(begin.map(|(_, begin)| begin).unwrap_or_default(), loader.skipped());
            match self.try_base(base, None) {
                Ok(folder) => return Ok((folder, loader.into_skipped())),
                Err(Tried::Stateless(folder)) => drop(stateless.get_or_insert(folder)),
                Err(Tried::Unfit(said) | Tried::Nothing(said)) => drop(why.get_or_insert(said)),
            }
            if base == Base::Birth {
                break;
            }
        }
        let damaged = loader.into_skipped();
        for Skipped { number, error } in &damaged {
            if let Err(Tried::Stateless(folder)) =
                self.try_base(Base::Checkpoint(*number), Some(error.to_string()))
            {
                stateless.get_or_insert(folder);
            }
        }
        match stateless {
            Some(folder) => Ok((*folder, damaged)),
            None => Err(self.in_vain(why, &damaged)),
        }
    }

    /// Its number, and where the journal goes on behind it; `None` if it is of another life.
    fn begin(&self, manifest: &Manifest) -> Result<Option<(u64, Vec<LogPosition>)>, String> {
        let decoded = Preamble::decode(&manifest.engine);
        let (preamble, _) =
            decoded.map_err(|why| format!("{}: checkpoint {}: {}", self.name, manifest.number, why.0))?;
        Ok((preamble.incarnation == self.life).then_some((manifest.number, preamble.positions)))
    }

    /// Says why a node does not start from the first base.
    fn judge(&mut self, begin: Vec<LogPosition>, damaged: &[Skipped]) {
        if self.tried == 0 {
            let whole = self.runs.first().filter(|run| run.damage.is_none());
            self.refuses = match (whole, self.damage().first()) {
                (Some(whole), _) => goes_on(&begin, &whole.segments, &whole.positions, damaged).err(),
                (None, damage) => damage.map(ToString::to_string),
            };
        }
        self.tried += 1;
    }

    fn damage(&self) -> Vec<Damage> {
        self.runs.iter().filter_map(|run| run.damage.clone()).collect()
    }

    /// The latest part of the journal that goes on from this base. `disowned`: why its state cannot be loaded, if it cannot.
    fn try_base(&mut self, base: Base, disowned: Option<String>) -> Result<Folder, Tried> {
        let mut tried = None;
        for at in (0..self.runs.len()).rev().filter(|at| self.runs[*at].journal == Some(self.life)) {
            match self.try_run(base, at, disowned.as_deref()) {
                Ok(folder) => return Ok(folder),
                Err(stateless @ Tried::Stateless(_)) => tried = tried.or(Some(stateless)),
                Err(Tried::Unfit(why)) => {
                    if self.tried == 1 && disowned.is_none() {
                        self.refuses.get_or_insert_with(|| why.clone());
                    }
                    tried.get_or_insert(Tried::Unfit(why));
                }
                Err(nothing) => drop(tried.get_or_insert(nothing)),
            }
        }
        Err(tried.unwrap_or_else(|| Tried::Nothing(format!("{}: there is no journal in it", self.name))))
    }

    fn try_run(&self, base: Base, at: usize, disowned: Option<&str>) -> Result<Folder, Tried> {
        let run = self.runs[at].clone();
        let ends_early = at + 1 < self.runs.len() || run.damage.is_some();
        let mut folder = Folder::behind(self.directory.clone(), self.name.clone(), run, base, None)
            .map_err(Tried::Unfit)?;
        (folder.damage, folder.ends_early) = (self.damage(), ends_early);
        if let Some(why) = disowned {
            folder.remains.disown_state(why.into());
        }
        // Who belonged to the cluster has to be known of a damaged disk: else nobody can say what is lost.
        let knows = !folder.remains.memberships().is_empty();
        let state = folder.remains.read(Trust::Accepted).map(drop);
        match state {
            Ok(()) if knows || folder.damage.is_empty() => Ok(folder),
            Err(_) if knows && folder.remains.lacks_state().is_some() => {
                Err(Tried::Stateless(Box::new(folder)))
            }
            Ok(()) => Err(Tried::Nothing(format!("{}: nothing says who belongs to the cluster", self.name))),
            Err(why) => Err(Tried::Nothing(format!("{}: {why}", self.name))),
        }
    }

    fn in_vain(&self, why: Option<String>, damaged: &[Skipped]) -> String {
        let why = why.unwrap_or_else(|| format!("{}: there is nothing in it", self.name));
        match (self.damage().first(), damaged.first()) {
            (Some(first), _) => format!("{}: {first}; what stands before that leads to no state", self.name),
            (None, Some(newest)) => {
                format!("{why}; checkpoint {} is damaged: {}", newest.number, newest.error)
            }
            (None, None) => why,
        }
    }
}
