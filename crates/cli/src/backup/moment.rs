//! Which moments a chain has, and the state of one.

use std::ops::ControlFlow;
use std::sync::Arc;

use highwater_core::Timestamp;
use highwater_disk::journal::{Summary, read_to_damage};
use highwater_engines::rolis::remains::{Moment, Trust, timestamp_at};
use highwater_node::storage::archive::{Archive, Chain, ChainDisk, Lacks, Promises};
use highwater_node::storage::remains::{Base, Folder};
use highwater_store::Store;

use super::args::MomentArgs;
use super::look::{UNDER_WAY, span};
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::wall_clock::{self, Bounds};

/// What can be restored of a chain.
pub struct Span {
    /// Its checkpoints, each with the first moment that it can be brought to; oldest first.
    pub checkpoints: Vec<(u64, Timestamp)>,
    /// The first moment and the last.
    pub moments: (Timestamp, Timestamp),
    /// What it holds besides, and does not know to be decided, goes up to here.
    pub held: Timestamp,
    /// When it was what time.
    pub times: Vec<Moment>,
    /// How many workers wrote it.
    pub workers: u16,
    /// What it proves that it does not hold any more.
    pub lacks: Lacks,
    /// What it lacks a first copy is about to bring.
    pub under_way: bool,
    /// What its journal is.
    summary: Summary,
}

/// Why nothing can be restored of a chain.
pub struct Unusable {
    /// In words.
    pub why: String,
    /// There was something in it: it is damaged, and not empty.
    pub had_something: bool,
    /// A first copy is about to bring what it lacks.
    pub under_way: bool,
}

/// What came of looking through a chain.
pub type Spanned = std::result::Result<Span, Unusable>;

/// Of a chain that is whole.
pub const NOTHING: &str = "nothing was ever committed in it";

/// Looks through a chain once. A copy that goes on meanwhile may make it look damaged: [`span`](super::look::span) looks again.
///
/// # Errors
/// In words, if it is damaged, or nothing can be restored of it.
pub fn look_through(chain: &Chain, progress: &mut Progress) -> std::result::Result<Span, String> {
    let of = chain.of.as_ref().map_err(Clone::clone)?;
    let said = u64::from_str_radix(&of.incarnation, 16);
    let said = said.map_err(|_| format!("it is said to be of life #{}, which is none", of.incarnation))?;
    // Before the journal is read: what a copy brings meanwhile is not missed in it.
    let promised = Promises::of(&chain.disk, said)?;
    let mut tell = |bytes| progress.count(&format!("journal of chain {}", chain.number), bytes, None);
    let (summary, times) = times(&chain.disk, &mut tell)?;
    let life = summary.journal.ok_or("there is no journal in it")?;
    if life != said {
        return Err(format!("its journal is of life #{life:x}, and it is said to be of #{}", of.incarnation));
    }
    let lacks = Lacks::of(&chain.disk, &promised, &summary)?;
    // What is missing is the reason why nothing leads to a moment, if nothing does.
    let lacking = |why: String| lacks.words().into_iter().chain([why]).collect::<Vec<_>>().join("; ");
    let numbers: Vec<(u64, Timestamp)> =
        promised.checkpoints.iter().map(|(manifest, _)| (manifest.number, manifest.complete_at)).collect();
    let newest_first = numbers.iter().rev().map(|(number, _)| Base::Checkpoint(*number)).chain([Base::Birth]);
    let (folder, latest, held) = newest(&chain.disk, &summary, newest_first).map_err(lacking)?;
    let oldest_first = [(Base::Birth, Timestamp::ZERO)]
        .into_iter()
        .chain(numbers.iter().map(|(number, complete_at)| (Base::Checkpoint(*number), *complete_at)));
    let earliest = oldest_first.into_iter().find_map(|(base, needed)| {
        let folder = behind(&chain.disk, &summary, base, Some(needed)).ok()?;
        folder.remains.read(Trust::Decided).ok().map(|reading| reading.earliest())
    });
    let earliest = earliest.ok_or_else(|| lacking("no checkpoint leads to any moment".into()))?;
    if latest == Timestamp::ZERO {
        return Err(if lacks == Lacks::default() { NOTHING.into() } else { lacking(NOTHING.into()) });
    }
    let workers = folder.summary.positions.len().saturating_sub(1) as u16;
    let moments = (earliest, latest);
    Ok(Span { checkpoints: numbers, moments, held, times, workers, lacks, under_way: false, summary })
}

/// The last moment, from the first of these that leads to one; and up to where more is held.
fn newest(
    disk: &ChainDisk,
    summary: &Summary,
    bases: impl Iterator<Item = Base>,
) -> std::result::Result<(Folder<ChainDisk>, Timestamp, Timestamp), String> {
    let mut why = None;
    for base in bases {
        let read = behind(disk, summary, base, None).and_then(|folder| {
            let latest = folder.remains.read(Trust::Decided)?.latest();
            let held = folder.remains.read(Trust::Accepted)?.latest();
            Ok((folder, latest, held))
        });
        match read {
            Ok(found) => return Ok(found),
            Err(error) => drop(why.get_or_insert(error)),
        }
    }
    Err(why.unwrap_or_else(|| "there is nothing in it".into()))
}

/// What a chain has behind a checkpoint.
fn behind(
    disk: &ChainDisk,
    summary: &Summary,
    base: Base,
    until: Option<Timestamp>,
) -> std::result::Result<Folder<ChainDisk>, String> {
    Folder::behind(disk.clone(), disk.to_string(), summary.clone(), base, until)
}

/// Bytes of records between two words about progress.
const TELL_EVERY: u64 = 4 << 20;

/// What a chain's journal is, and the times that its node noted.
fn times(disk: &ChainDisk, told: &mut dyn FnMut(u64)) -> std::result::Result<(Summary, Vec<Moment>), String> {
    let (mut times, mut bytes, mut tell_at) = (Vec::new(), 0, TELL_EVERY);
    let mut note = |bytes: &[u8]| {
        // Of other writers' records none begins like this.
        if let Ok(Some(moment)) =
            Moment::decode(&bytes::Bytes::copy_from_slice(&bytes[..bytes.len().min(25)]))
        {
            times.push(moment);
        }
    };
    let summary = read_to_damage(disk, 0, &mut |record| {
        note(record.bytes);
        bytes += record.bytes.len() as u64;
        if bytes >= tell_at {
            tell_at = bytes + TELL_EVERY;
            told(bytes);
        }
        ControlFlow::Continue(())
    })
    .map_err(|error| error.to_string())?;
    Ok((summary, times))
}

/// A moment that was found.
pub struct Found {
    /// In which chain.
    pub chain: Chain,
    /// What that has.
    pub span: Span,
    /// The moment.
    pub moment: Timestamp,
    /// Whether what is only accepted counts.
    pub trust: Trust,
}

/// The moment that is wanted, in the newest chain that has it.
pub fn find(archive: &Archive, wanted: &MomentArgs, progress: &mut Progress) -> Result<Found> {
    let chains = archive.chains().map_err(Failure::unreadable)?;
    find_among(chains.into_iter().map(|chain| (chain, None)).collect(), wanted, progress)
}

/// The same, of chains that may have been looked through.
pub fn find_among(
    mut chains: Vec<(Chain, Option<Spanned>)>,
    wanted: &MomentArgs,
    progress: &mut Progress,
) -> Result<Found> {
    let at = wanted.at.as_ref().map(|text| wall_clock::parse(text)).transpose();
    let at = at.map_err(|why| Failure::usage(format!("--at: {why}")))?;
    if let Some(number) = wanted.chain {
        chains.retain(|(chain, _)| chain.number == number);
    }
    if chains.is_empty() {
        let none = wanted
            .chain
            .map_or("the archive is empty".into(), |number| format!("there is no chain {number}"));
        return Err(Failure::unreadable(none));
    }
    // Who says no moment means the last one there ever was, and not the last one that is left.
    let last = wanted.at.is_none() && wanted.timestamp.is_none();
    let trust = if wanted.accepted { Trust::Accepted } else { Trust::Decided };
    let mut said = Vec::new();
    for (chain, known) in chains.into_iter().rev() {
        let span = match known.unwrap_or_else(|| span(&chain, progress)) {
            Ok(span) => span,
            Err(Unusable { why, had_something, under_way }) => {
                let why = if under_way { UNDER_WAY.into() } else { why };
                if last && had_something {
                    return Err(Failure::negative(format!(
                        "nothing can be restored of chain {}, the last one: {why}",
                        chain.number
                    ))
                    .hint("`backup list` shows what older chains have: --chain N restores the last moment of one"));
                }
                said.push(format!("chain {}: {why}", chain.number));
                continue;
            }
        };
        let (earliest, decided) = span.moments;
        let latest = if wanted.accepted { span.held } else { decided };
        if let Some(why) = span.lacks.end.as_ref().filter(|_| last) {
            return Err(Failure::negative(format!("chain {} had more: {why}", chain.number)).hint(format!(
                "`backup create` from the same node brings it again, if the node still has it; `--timestamp {}` restores the last moment that \
                 is left",
                latest.0
            )));
        }
        let moment = match (at, wanted.timestamp) {
            (Some(at), _) => timestamp_at(&span.times, at),
            (None, Some(timestamp)) => Some(Timestamp(timestamp)),
            (None, None) => Some(latest),
        };
        if let Some(moment) = moment.filter(|moment| (earliest..=latest).contains(moment)) {
            return Ok(Found { chain, span, moment, trust });
        }
        // Times between the last note and the end of what is there cannot be told apart.
        if let Some(noted) =
            span.times.iter().map(|moment| moment.unix_ms).max().filter(|noted| at > Some(*noted))
        {
            let noted = wall_clock::text_of(noted);
            said.push(format!(
                "chain {} was told the time last at {noted}: without --at its last moment is restored",
                chain.number
            ));
        }
        let lacks: String = span.lacks.words().iter().map(|why| format!(" ({why})")).collect();
        said.push(format!("chain {} has {}{lacks}", chain.number, words(&span)));
    }
    Err(Failure::negative(format!("no chain has this moment: {}", said.join("; "))))
}

/// From when to when.
pub fn words(span: &Span) -> String {
    let (earliest, latest) = span.moments;
    let [first, last] = [earliest, latest].map(|mark| Bounds::of(&span.times, mark).words());
    format!("{}{first} to {}{last}", earliest.0, latest.0)
}

/// The state of a moment, from the newest checkpoint that leads to it; and how many transactions of the log that took.
pub fn state(found: &Found) -> std::result::Result<(Arc<Store>, u64), String> {
    let mut said = None;
    let before = found.span.checkpoints.iter().rev().filter(|(_, complete_at)| *complete_at <= found.moment);
    let bases = before.map(|(number, _)| Base::Checkpoint(*number)).chain([Base::Birth]);
    for base in bases {
        let state =
            behind(&found.chain.disk, &found.span.summary, base, Some(found.moment)).and_then(|folder| {
                let reading = folder.remains.read(found.trust)?;
                match (reading.earliest()..=reading.latest()).contains(&found.moment) {
                    true => folder.state_at(&reading, found.moment),
                    false => Err("the journal behind a checkpoint does not reach the moment".into()),
                }
            });
        match state {
            Ok(state) => return Ok(state),
            Err(why) => drop(said.get_or_insert(why)),
        }
    }
    Err(said.unwrap_or_else(|| "nothing leads to this moment".into()))
}
