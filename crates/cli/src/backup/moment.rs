//! Which moments a chain has, and the state of one.

use std::sync::Arc;

use highwater_core::Timestamp;
use highwater_disk::checkpoint::{Manifest, published};
use highwater_disk::journal::read;
use highwater_engines::rolis::remains::{Moment, Trust, timestamp_at};
use highwater_node::storage::DataDirectory;
use highwater_node::storage::archive::{Archive, Chain};
use highwater_node::storage::remains::Folder;
use highwater_store::Store;

use super::args::MomentArgs;
use crate::failure::{Failure, Result};
use crate::wall_clock;

/// What can be restored of a chain.
pub struct Span {
    /// Its checkpoints.
    pub checkpoints: Vec<u64>,
    /// The first moment and the last.
    pub moments: (Timestamp, Timestamp),
    /// When it was what time.
    pub times: Vec<Moment>,
    /// How many workers wrote it.
    pub workers: u16,
}

/// Looks through a chain.
///
/// # Errors
/// In words, if it is damaged, or nothing can be restored of it.
pub fn span(chain: &Chain) -> std::result::Result<Span, String> {
    let directory = DataDirectory::read_only(&chain.path).map_err(|error| error.to_string())?;
    let checkpoints = published(&directory).map_err(|error| error.to_string())?;
    let newest = Folder::read(&chain.path, |_| true)?;
    let latest = newest.remains.read(Trust::Decided)?.latest();
    let from_birth =
        newest.summary.segments.first().is_some_and(|first| first.positions.iter().all(|at| *at == 0));
    let mut earliest = Timestamp::ZERO;
    if !from_birth {
        let oldest =
            checkpoints.first().ok_or("there is neither a checkpoint nor the journal's beginning")?;
        earliest = Manifest::read(&directory, *oldest).map_err(|error| error.to_string())?.complete_at;
    }
    let controller = newest.summary.positions.len() - 1;
    let mut times = Vec::new();
    let taken = read(&directory, &mut |record| {
        if usize::from(record.writer) == controller
            && let Ok(Some(moment)) = Moment::decode(&bytes::Bytes::copy_from_slice(record.bytes))
        {
            times.push(moment);
        }
    });
    taken.map_err(|error| error.to_string())?;
    let checkpoints = checkpoints.into_iter().collect();
    Ok(Span { checkpoints, moments: (earliest, latest), times, workers: controller as u16 })
}

/// A moment that was found.
pub struct Found {
    /// In which chain.
    pub chain: Chain,
    /// What that has.
    pub span: Span,
    /// The moment.
    pub moment: Timestamp,
}

/// The moment that is wanted, in the newest chain that has it.
pub fn find(archive: &Archive, wanted: &MomentArgs) -> Result<Found> {
    let at = wanted.at.as_ref().map(|text| wall_clock::parse(text)).transpose();
    let at = at.map_err(|why| Failure::usage(format!("--at: {why}")))?;
    let mut chains = archive.chains().map_err(Failure::unreadable)?;
    if let Some(number) = wanted.chain {
        chains.retain(|chain| chain.number == number);
    }
    if chains.is_empty() {
        let none = wanted
            .chain
            .map_or("the archive is empty".into(), |number| format!("there is no chain {number}"));
        return Err(Failure::unreadable(none));
    }
    let mut said = Vec::new();
    for chain in chains.into_iter().rev() {
        let span = match span(&chain) {
            Ok(span) => span,
            Err(why) => {
                said.push(format!("chain {}: {why}", chain.number));
                continue;
            }
        };
        let (earliest, latest) = span.moments;
        let moment = match (at, wanted.timestamp) {
            (Some(at), _) => timestamp_at(&span.times, at),
            (None, Some(timestamp)) => Some(Timestamp(timestamp)),
            (None, None) => Some(latest),
        };
        if let Some(moment) = moment.filter(|moment| (earliest..=latest).contains(moment)) {
            return Ok(Found { chain, span, moment });
        }
        said.push(format!("chain {} has {}", chain.number, words(&span)));
    }
    Err(Failure::negative(format!("no chain has this moment: {}", said.join("; "))))
}

/// From when to when.
pub fn words(span: &Span) -> String {
    let (earliest, latest) = span.moments;
    let about = |mark| {
        wall_clock::about(&span.times, mark).map_or(String::new(), |about| format!(" (about {about})"))
    };
    format!("{} to {}{}", first_words(span, earliest), latest.0, about(latest))
}

fn first_words(span: &Span, earliest: Timestamp) -> String {
    let first = span.times.iter().find(|moment| moment.mark >= earliest);
    let about =
        first.map_or(String::new(), |moment| format!(" (about {})", wall_clock::text_of(moment.unix_ms)));
    format!("{}{about}", earliest.0)
}

/// The state of a moment, from the newest checkpoint that leads to it.
pub fn state(found: &Found) -> std::result::Result<(Arc<Store>, u64), String> {
    let mut said = String::from("nothing leads to this moment");
    let from = found.span.checkpoints.iter().rev().copied().map(Some).chain([None]);
    for number in from {
        let wanted =
            |manifest: &Manifest| Some(manifest.number) == number && manifest.complete_at <= found.moment;
        let folder = match Folder::read(&found.chain.path, wanted) {
            Ok(folder) if folder.checkpoint.is_some() == number.is_some() => folder,
            Ok(_) => continue,
            Err(why) => {
                said = why;
                continue;
            }
        };
        match folder.remains.read(Trust::Decided) {
            Ok(reading) if (reading.earliest()..=reading.latest()).contains(&found.moment) => {
                return folder.state_at(&reading, found.moment);
            }
            Ok(_) => {}
            Err(why) => said = why,
        }
    }
    Err(said)
}
