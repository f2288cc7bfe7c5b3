//! Which moments a chain has, and the state of one.

use std::ops::ControlFlow;
use std::sync::Arc;

use highwater_core::Timestamp;
use highwater_disk::journal::{Summary, read_to_damage};
use highwater_engine_rolis::remains::{Moment, Trust, timestamp_at};
use highwater_node::storage::archive::{Archive, Chain, ChainDisk, Lacks, Promises};
use highwater_node::storage::remains::{Base, Folder};
use highwater_store::Store;
use serde_json::json;

use super::args::MomentArgs;
use super::look::span;
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
    /// Why what it lacks is no damage, if it is none.
    pub unfinished: Option<Unfinished>,
    /// What its journal is.
    summary: Summary,
}

/// Why nothing can be restored of a chain.
pub struct Unusable {
    /// In words.
    pub why: String,
    /// There was something in it: it is damaged, and not empty.
    pub had_something: bool,
    /// Why what it lacks is no damage, if it is none.
    pub unfinished: Option<Unfinished>,
}

/// A copy that has not come to its end. Nobody was promised what it would have brought, so what the chain lacks is no damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// The chain's first one goes on.
    UnderWay,
    /// The chain's first one does not: another chain of the same node was begun.
    GivenUp,
    /// A later one does not, for the same reason. What the others brought is there.
    CutShort,
}

impl Unfinished {
    /// Whether it may come to its end yet.
    pub fn goes_on(self) -> bool {
        self == Unfinished::UnderWay
    }

    /// Whether the chain has nothing that a copy brought that came to its end.
    pub fn is_first(self) -> bool {
        self != Unfinished::CutShort
    }

    /// As a heading.
    pub fn heading(self) -> &'static str {
        match self {
            Unfinished::UnderWay => "UNDER WAY",
            Unfinished::GivenUp | Unfinished::CutShort => "GIVEN UP",
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Unfinished::UnderWay => "its first copy has not come to its end yet",
            Unfinished::GivenUp => {
                "its first copy never came to its end, and a later chain has what the node had then"
            }
            Unfinished::CutShort => {
                "its last copy never came to its end, and a later chain goes on; what the copies before it brought is there"
            }
        }
    }
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
    Ok(Span { checkpoints: numbers, moments, held, times, workers, lacks, unfinished: None, summary })
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
pub fn times(
    disk: &ChainDisk,
    told: &mut dyn FnMut(u64),
) -> std::result::Result<(Summary, Vec<Moment>), String> {
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
    /// The chains that were looked through, too: the number and the last moment.
    pub others: Vec<(u32, Timestamp)>,
}

/// The moment that is wanted.
pub fn find(archive: &Archive, wanted: &MomentArgs, progress: &mut Progress) -> Result<Found> {
    let chains = archive.chains().map_err(Failure::unreadable)?;
    find_among(chains.into_iter().map(|chain| (chain, None)).collect(), wanted, progress)
}

/// A chain that may have been looked through.
type Looked = (Chain, Option<Spanned>);

/// The same, of chains that may have been looked through.
pub fn find_among(mut chains: Vec<Looked>, wanted: &MomentArgs, progress: &mut Progress) -> Result<Found> {
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
    match (at, wanted.timestamp) {
        (None, None) => find_last(chains, wanted.accepted, progress),
        (at, timestamp) => find_one(chains, at, timestamp.map(Timestamp), wanted.accepted, progress),
    }
}

/// The last moment there ever was, and not the last one that is left: the latest that any chain is sure of. Marks of one cluster are
/// comparable, whichever node noted them, and a chain that was begun later may have ended earlier.
fn find_last(chains: Vec<Looked>, accepted: bool, progress: &mut Progress) -> Result<Found> {
    let (mut whole, mut said) = (Vec::new(), Vec::new());
    for (chain, known) in chains {
        let number = chain.number;
        match known.unwrap_or_else(|| span(&chain, progress)) {
            Ok(span) => whole.push((chain, span)),
            Err(Unusable { unfinished: Some(copy), .. }) => {
                said.push(format!("chain {number}: {}", copy.words()));
            }
            Err(Unusable { why, had_something: true, .. }) => {
                return Err(Failure::negative(format!("nothing can be restored of chain {number}: {why}"))
                    .hint("it may have had the last moment. `backup list` shows what the others have: --chain N restores the last moment of one"));
            }
            Err(Unusable { why, .. }) => said.push(format!("chain {number}: {why}")),
        }
    }
    let latest = |span: &Span| (span.moments.1, span.held);
    let Some(furthest) = (0..whole.len()).max_by_key(|at| (latest(&whole[*at].1), whole[*at].0.number))
    else {
        return Err(Failure::negative(format!("no chain has this moment: {}", said.join("; "))));
    };
    // What a copy brought that came to its end, and is missing, may have been later than anything. What an interrupted one would have brought
    // nobody was promised, unless it was to go on from the furthest.
    let lacks = |at: &usize| {
        let lacks = &whole[*at].1.lacks;
        lacks.end.as_ref().filter(|_| !lacks.unfinished || *at == furthest).map(|why| (*at, why))
    };
    if let Some((at, why)) =
        (0..whole.len()).filter(|at| *at == furthest).chain(0..whole.len()).find_map(|at| lacks(&at))
    {
        let (number, left) = (whole[at].0.number, last_of(&whole[at].1, accepted));
        return Err(had_more(number, why, left));
    }
    if let Some(other) = whole.iter().find(|(_, other)| contradicts(&whole[furthest].1, other)) {
        return Err(two_clusters(&whole[furthest], other));
    }
    let (chain, span) = whole.swap_remove(furthest);
    let mut others: Vec<_> = whole.iter().map(|(chain, span)| (chain.number, span.moments.1)).collect();
    others.sort_unstable();
    let trust = if accepted { Trust::Accepted } else { Trust::Decided };
    let moment = last_of(&span, accepted);
    Ok(Found { chain, span, moment, trust, others })
}

fn last_of(span: &Span, accepted: bool) -> Timestamp {
    if accepted { span.held } else { span.moments.1 }
}

fn had_more(number: u32, why: &str, left: Timestamp) -> Failure {
    Failure::negative(format!("chain {number} had more: {why}")).hint(format!(
        "`backup create` from the same node brings it again, if the node still has it; `--chain {number} --timestamp {}` restores the \
         last moment that is left of it, `--chain N` the last one of another chain",
        left.0
    ))
}

/// Two clocks of one cluster, and a follower that lags, are not further apart than that.
const CLOCKS_AGREE_MS: u64 = 10 * 60 * 1000;

/// Whether another chain's last mark was noted long after this one had reached it: then its node was no part of this chain's cluster, but of
/// one that was born later under the same id, and its marks count from another beginning.
fn contradicts(furthest: &Span, other: &Span) -> bool {
    let Some(last) = other.times.last() else { return false };
    let reached = furthest.times.iter().find(|moment| moment.mark >= last.mark);
    reached.is_some_and(|reached| reached.unix_ms + CLOCKS_AGREE_MS < last.unix_ms)
}

fn two_clusters((furthest, span): &(Chain, Span), (other, later): &(Chain, Span)) -> Failure {
    let [one, two] = [span, later].map(words);
    Failure::negative(format!(
        "chains {} and {} are of two clusters of one id, or of nodes whose clocks differ by more than {} minutes: {one}; {two}",
        furthest.number,
        other.number,
        CLOCKS_AGREE_MS / 60_000
    ))
    .hint("--chain N restores the last moment of one")
}

/// A moment that is named, in the newest chain that has it: first of those that know it to be decided.
fn find_one(
    chains: Vec<Looked>,
    at: Option<u64>,
    timestamp: Option<Timestamp>,
    accepted: bool,
    progress: &mut Progress,
) -> Result<Found> {
    let (mut said, mut only_accepted) = (Vec::new(), None);
    for (chain, known) in chains.into_iter().rev() {
        let span = match known.unwrap_or_else(|| span(&chain, progress)) {
            Ok(span) => span,
            Err(Unusable { why, unfinished, .. }) => {
                let why = unfinished.map_or(why, |copy| copy.words().into());
                said.push(format!("chain {}: {why}", chain.number));
                continue;
            }
        };
        let (earliest, decided) = span.moments;
        let moment = timestamp.or_else(|| timestamp_at(&span.times, at?));
        let within = |latest: Timestamp| moment.filter(|moment| (earliest..=latest).contains(moment));
        if let Some(moment) = within(decided) {
            let trust = if accepted { Trust::Accepted } else { Trust::Decided };
            return Ok(Found { chain, span, moment, trust, others: Vec::new() });
        }
        if let Some(moment) = within(span.held).filter(|_| accepted && only_accepted.is_none()) {
            only_accepted = Some(Found { chain, span, moment, trust: Trust::Accepted, others: Vec::new() });
            continue;
        }
        said.extend(why_not_at(&chain, &span, at));
        let lacks: String = span.lacks.words().iter().map(|why| format!(" ({why})")).collect();
        said.push(format!("chain {} has {}{lacks}", chain.number, words(&span)));
    }
    only_accepted.ok_or_else(|| Failure::negative(format!("no chain has this moment: {}", said.join("; "))))
}

/// Times between the last note and the end of what is there cannot be told apart.
fn why_not_at(chain: &Chain, span: &Span, at: Option<u64>) -> Option<String> {
    let noted = span.times.iter().map(|moment| moment.unix_ms).max().filter(|noted| at > Some(*noted))?;
    Some(format!(
        "chain {} was told the time last at {}: without --at its last moment is restored",
        chain.number,
        wall_clock::text_of(noted)
    ))
}

/// The other chains that were looked through, for scripts.
pub fn others(found: &Found) -> serde_json::Value {
    found.others.iter().map(|(number, latest)| json!({"chain": number, "latest": latest.0})).collect()
}

/// The same for people.
pub fn words_of_others(found: &Found) -> String {
    let words =
        |(number, latest): &(u32, Timestamp)| format!("besides   chain {number} ends at {}\n", latest.0);
    found.others.iter().map(words).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn span(times: &[(u64, u64)]) -> Span {
        let times = times.iter().map(|(unix_ms, mark)| Moment { unix_ms: *unix_ms, mark: Timestamp(*mark) });
        Span {
            checkpoints: Vec::new(),
            moments: (Timestamp(1), Timestamp(1000)),
            held: Timestamp(1000),
            times: times.collect(),
            workers: 1,
            lacks: Lacks::default(),
            unfinished: None,
            summary: Summary::default(),
        }
    }

    /// Whoever wipes all nodes and begins anew under the same id has marks that begin anew, too: the highest is not the last.
    #[test]
    fn a_mark_that_was_noted_long_after_it_was_reached_is_of_another_cluster() {
        const HOUR: u64 = 3_600_000;
        let first = span(&[(HOUR, 500), (2 * HOUR, 900)]);
        for (last, mark, other) in [
            (9 * HOUR, 100, true),
            (9 * HOUR, 900, true),
            // Of one cluster: noted before, or hardly later; or this chain ends in front of it.
            (HOUR, 500, false),
            (2 * HOUR + 1000, 890, false),
            (HOUR / 2, 100, false),
            (9 * HOUR, 901, false),
        ] {
            assert_eq!(contradicts(&first, &span(&[(last, mark)])), other, "{mark} at {last}");
        }
        assert!(!contradicts(&first, &span(&[])) && !contradicts(&span(&[]), &first));
    }
}
