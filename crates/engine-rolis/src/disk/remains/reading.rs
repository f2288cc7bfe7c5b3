//! Follows the logs of a disk, as a replica would, and installs a moment of them.

use highwater_consensus::{Members, Recovered};
use highwater_core::codec::Reader;
use highwater_core::log::{ENTRY_HEADER_BYTES, Entry, EntryHeader, EntryKind};
use highwater_core::{EntryIndex, Epoch, StreamId, Timestamp};
use highwater_store::{Applied, Applier};

use super::{Remains, Trust};
use crate::hooks;
use crate::watermark::{Arrival, OpenClaim, Start, Watermark};

/// What is safe of a disk's logs.
pub struct Reading<'a> {
    remains: &'a Remains,
    watermark: Watermark,
    streams: Vec<Cursor>,
}

/// Where the reading of a stream stands.
struct Cursor {
    /// First entry that the store may lack.
    start: EntryIndex,
    /// Next entry to look at.
    scan: EntryIndex,
    /// The last one that counts.
    end: EntryIndex,
    /// Claims whose index is not looked at yet.
    claims: Vec<OpenClaim>,
}

impl Remains {
    /// The newest membership that is known, of changes in the logs too.
    pub fn members(&self) -> Option<Members> {
        let known = self.members.clone().into_iter();
        known
            .chain(memberships(self).into_iter().map(|(_, members)| members))
            .max_by_key(|members| members.epoch)
    }

    /// The memberships that may be in force, oldest first: the newest that surely was, because it was written down when its epoch's change
    /// was decided in every stream; and those behind it whose change this log holds, and of which nobody here knows whether it was made. A
    /// leader needs a majority of each of them.
    pub fn memberships(&self) -> Vec<Members> {
        let logs = memberships(self);
        let streams = self.streams.len();
        let everywhere = |epoch: Epoch| {
            let decided = |(decided, members): &&(bool, Members)| *decided && members.epoch == epoch;
            logs.iter().filter(decided).count() == streams
        };
        let surely = logs.iter().map(|(_, members)| members).filter(|members| everywhere(members.epoch));
        let surely = self.members.iter().chain(surely).max_by_key(|members| members.epoch).cloned();
        let since = surely.as_ref().map(|members| members.epoch);
        let mut all: Vec<Members> = surely.into_iter().collect();
        all.extend(
            logs.into_iter().map(|(_, members)| members).filter(|members| Some(members.epoch) > since),
        );
        all.sort_by_key(|members| members.epoch);
        all.dedup_by_key(|members| members.epoch);
        all
    }

    /// Follows the logs, as far as they are trusted.
    ///
    /// # Errors
    /// If an entry is none, or what is safe does not reach the state in the checkpoint; or [the state is not here](Remains::lacks_state).
    pub fn read(&self, trust: Trust) -> Result<Reading<'_>, String> {
        if let Some(why) = &self.lacks_state {
            return Err(why.clone());
        }
        let watermark = Watermark::new(self.streams.len());
        let starts: Vec<EntryIndex> = match &self.start {
            Some(start) => start.contents.streams.iter().map(|stream| stream.start).collect(),
            None => vec![EntryIndex(1); self.streams.len()],
        };
        if let Some(start) = &self.start {
            watermark.restart(start.contents.epoch, start.contents.members.clone(), start.floor, &starts);
        }
        let cursor = |(stream, start): (&Recovered, &EntryIndex)| {
            let end = match trust {
                Trust::Decided => stream.decided(),
                Trust::Accepted => stream.log().last(),
            };
            Cursor { start: *start, scan: *start, end, claims: Vec::new() }
        };
        let streams = self.streams.iter().zip(&starts).map(cursor).collect();
        let mut reading = Reading { remains: self, watermark, streams };
        while reading.round()? {}
        let (latest, needed) = (reading.latest(), reading.earliest());
        if latest < needed {
            return Err(format!("the log goes up to {latest}, and its checkpoint needs it up to {needed}"));
        }
        Ok(reading)
    }
}

impl Reading<'_> {
    /// Below or at it nothing is missing.
    pub fn latest(&self) -> Timestamp {
        self.watermark.mark()
    }

    /// The first moment that the checkpoint can be brought to; without one, when the cluster was born.
    pub fn earliest(&self) -> Timestamp {
        match &self.remains.start {
            Some(start) => start.complete_at,
            None if self.streams[0].scan > EntryIndex(1) => {
                let first = self.entry(StreamId(0), EntryIndex(1));
                first.map_or(Timestamp::ZERO, |entry| entry.header.closed_ts)
            }
            None => Timestamp::ZERO,
        }
    }

    /// The epoch of the latest moment.
    pub fn epoch(&self) -> Epoch {
        self.watermark.epoch()
    }

    /// Installs of a stream what is safe, above what the store holds and at or below `upto`; how many transactions. Streams in any
    /// order, or beside each other.
    ///
    /// # Errors
    /// If an entry is none.
    pub fn install(&self, stream: StreamId, applier: &mut Applier, upto: Timestamp) -> Result<u64, String> {
        let floor = self.remains.start.as_ref().map_or(Timestamp::ZERO, |start| start.floor);
        let cursor = &self.streams[stream.0 as usize];
        let mut transactions = 0;
        for index in cursor.start.0..cursor.scan.0 {
            let Entry { header, body, .. } = self.entry(stream, EntryIndex(index))?;
            if header.kind != EntryKind::Batch || header.count == 0 {
                continue;
            }
            let mark =
                self.watermark.mark_in(header.epoch).or_else(|| self.watermark.final_mark(header.epoch));
            let mark = mark.ok_or("an entry of an epoch that never was")?;
            let applied: Applied =
                applier.apply(body, floor, hooks::restored_bound(mark, upto)).map_err(|why| why.0)?;
            transactions += applied.transactions;
        }
        Ok(transactions)
    }

    fn entry(&self, stream: StreamId, index: EntryIndex) -> Result<Entry<'_>, String> {
        let bytes = self.remains.streams[stream.0 as usize].log().get(index);
        let entry = bytes.map(|bytes| EntryHeader::open(bytes, true));
        let sound = |entry: &Entry<'_>| (entry.header.stream, entry.header.index) == (stream, index);
        match entry {
            Some(Ok(entry)) if sound(&entry) => Ok(entry),
            Some(Ok(_)) => Err(format!("{stream}: entry {index:?} is another one")),
            Some(Err(why)) => Err(format!("{stream}: entry {index:?} is damaged: {}", why.0)),
            None => Err(format!("{stream}: entry {index:?} is missing")),
        }
    }

    /// Looks at what can be looked at of each stream; whether there was anything.
    fn round(&mut self) -> Result<bool, String> {
        let mut moved = false;
        for at in 0..self.streams.len() {
            let mut claims = std::mem::take(&mut self.streams[at].claims);
            claims.retain(|claim| !self.watermark.claim(*claim));
            self.streams[at].claims = claims;
            while self.streams[at].scan <= self.streams[at].end && self.look(StreamId(at as u16))? {
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Looks at the next entry of a stream; false if it waits there for the other streams.
    fn look(&mut self, stream: StreamId) -> Result<bool, String> {
        let at = stream.0 as usize;
        let index = self.streams[at].scan;
        let entry = self.entry(stream, index)?;
        let header = entry.header;
        let mut open = Vec::new();
        match header.kind {
            EntryKind::Batch if header.epoch != self.watermark.epoch() => {
                return Err(format!("{stream}: entry {index:?} is of {}, too early", header.epoch));
            }
            EntryKind::Batch => {
                self.watermark.publish(stream, index, header.closed_ts, header.count > 0);
                for claim in entry.claims() {
                    let claim =
                        OpenClaim { stream: claim.stream, index: claim.index, closed: header.closed_ts };
                    if !self.watermark.claim(claim) {
                        open.push(claim);
                    }
                }
            }
            EntryKind::EpochChange => {
                if header.epoch > self.watermark.epoch() {
                    let claims = self.streams[at].claims.clone();
                    let arrival = Arrival {
                        starts: self.starts_at(stream, index)?,
                        last: EntryIndex(index.0 - 1),
                        claims,
                    };
                    if !self.watermark.arrive(stream, arrival) {
                        return Ok(false);
                    }
                }
                self.streams[at].claims.clear();
            }
        }
        self.streams[at].claims.extend(open);
        self.streams[at].scan = index.next();
        Ok(true)
    }

    /// The first entries of later epochs that stand there and right behind.
    fn starts_at(&self, stream: StreamId, index: EntryIndex) -> Result<Vec<Start>, String> {
        let mut starts = Vec::new();
        for at in index.0..=self.streams[stream.0 as usize].end.0 {
            let entry = self.entry(stream, EntryIndex(at))?;
            let Some(members) = members_of(&entry) else { break };
            let (epoch, base) = (entry.header.epoch, entry.header.closed_ts);
            starts.push(Start { epoch, index: EntryIndex(at), base, members });
        }
        Ok(starts)
    }
}

/// Of a change of epoch the membership.
fn members_of(entry: &Entry<'_>) -> Option<Members> {
    let change = entry.header.kind == EntryKind::EpochChange;
    if change { Members::decode(&mut Reader::new(entry.body)).ok() } else { None }
}

/// Those that stand in the logs, and whether the stream knows the entry to be decided.
fn memberships(remains: &Remains) -> Vec<(bool, Members)> {
    let of_stream = |stream: &Recovered| -> Vec<(bool, Members)> {
        let log = stream.log();
        let change = |at: u64| {
            let bytes = log.get(EntryIndex(at))?;
            // The kind first: most entries are long, and none.
            if bytes.len() < ENTRY_HEADER_BYTES || bytes[0] != EntryKind::EpochChange as u8 {
                return None;
            }
            let members = EntryHeader::open(bytes, true).ok().as_ref().and_then(members_of)?;
            Some((EntryIndex(at) <= stream.decided(), members))
        };
        (log.first().0..=log.last().0).filter_map(change).collect()
    };
    remains.streams.iter().flat_map(of_stream).collect()
}
