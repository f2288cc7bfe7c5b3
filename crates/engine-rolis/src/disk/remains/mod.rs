//! What a replica's disk holds, read without a replica: to see what survives when a majority is lost, and to restore a backup.
//!
//! The records lead to the logs that a replica would go on with ([`Recovered`]). A [`Reading`] follows them as any replica does: the
//! [watermark](crate::watermark) says, epoch by epoch, below which timestamp nothing is missing. What is at or below that, and at or
//! below the moment that is wanted, is installed in a store; everything else never happened there. So a moment is a state that existed.
//!
//! How much of the logs counts is a matter of [`Trust`]. What the disk knows to be decided is the past of every replica. What it only
//! accepted may be overruled by a majority, if there is one; if there is none any more, it is the best that is left.

mod reading;
mod testimony;

use bytes::Bytes;
use highwater_consensus::{Change, Recovered};
pub use highwater_consensus::{Members, Quorums, Voter};
use highwater_core::codec::Reader;
use highwater_core::log::EntryHeader;
use highwater_core::{EntryIndex, Epoch, Timestamp};

use highwater_kit::witness::Witness;
use highwater_log_host::disk::checkpoint::{Contents, StreamStart};
pub use highwater_log_host::disk::founded::Founded;
pub use highwater_log_host::disk::moment::{Moment, timestamp_at};
use highwater_log_host::members::raising;
use highwater_seam::Resume;
pub use reading::Reading;
pub use testimony::{Testimony, WhyOlder};

/// How much of a disk's logs counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// What it knows to be decided.
    Decided,
    /// Everything that it accepted: what a new leader would begin with, if nobody knows better.
    Accepted,
}

/// A checkpoint and the records behind it.
#[derive(Debug)]
pub struct Remains {
    start: Option<Start>,
    streams: Vec<Recovered>,
    members: Option<Members>,
    moments: Vec<Moment>,
    /// Why the logs stand on a state that is not here, if they do. Invariant: then nothing is [read](Remains::read) of them.
    lacks_state: Option<String>,
}

/// What a disk took of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Streams of which another disk had a better log.
    pub better: usize,
    /// Streams whose best log is not here as a whole: what lies between is on none of the disks.
    pub short: usize,
}

/// The checkpoint.
#[derive(Debug)]
struct Start {
    contents: Contents,
    floor: Timestamp,
    complete_at: Timestamp,
}

impl Remains {
    /// Of a replica with so many workers; `checkpoint`: the one that records follow from, if there is one.
    ///
    /// # Errors
    /// If the checkpoint is none of this engine's.
    pub fn new(workers: usize, checkpoint: Option<Resume<'_>>) -> Result<Remains, String> {
        let start = checkpoint.map(|resume| {
            let contents = Contents::decode(resume.engine).map_err(|why| why.0)?;
            if contents.streams.len() != workers {
                return Err("a checkpoint of another number of workers than the journal");
            }
            Ok(Start { contents, floor: resume.floor, complete_at: resume.complete_at })
        });
        let start = start.transpose()?;
        let stream = |at: usize| {
            let point = start.as_ref().map(|start: &Start| start.contents.streams[at].point);
            Recovered::begin(point.unwrap_or_default())
        };
        let streams = (0..workers).map(stream).collect();
        let members = start.as_ref().map(|start| start.contents.members.clone());
        Ok(Remains { start, streams, members, moments: Vec::new(), lacks_state: None })
    }

    /// The next record of a writer: a worker, or behind them the controller.
    ///
    /// # Errors
    /// If it does not fit: the records are not this engine's.
    pub fn take(&mut self, writer: usize, record: Bytes) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(writer) else {
            return self.take_controllers(&record);
        };
        let applied = Change::decode(&record).and_then(|change| stream.apply(change));
        applied.map_err(|why| {
            let why = why.0;
            format!(
                "stream {writer}: a record that does not fit: {why} (`recover` and `backup` read what engine rolis wrote, and no other's)"
            )
        })
    }

    fn take_controllers(&mut self, record: &Bytes) -> Result<(), String> {
        if let Some(founded) = Founded::decode(record).map_err(|why| why.0)? {
            return founded.check(self.start.as_ref().map(|start| start.complete_at));
        }
        if let Some(moment) = Moment::decode(record).map_err(|why| why.0)? {
            self.moments.push(moment);
            return Ok(());
        }
        if raising::decode(record).map_err(|why| why.0)?.is_some() {
            return Ok(());
        }
        if Witness::default().recover(record).map_err(|why| why.0)? {
            return Ok(());
        }
        let mut reader = Reader::new(record);
        let members = Members::decode(&mut reader).ok().filter(|_| reader.is_empty());
        self.know(members.ok_or("a record of the controller's that is no membership")?);
        Ok(())
    }

    fn know(&mut self, members: Members) {
        if self.members.as_ref().is_none_or(|known| known.epoch < members.epoch) {
            self.members = Some(members);
        }
    }

    /// All records are taken. A log that begins behind the state is that of a replica which was copying one: it votes, its log counts, and
    /// [its state is not here](Remains::lacks_state).
    ///
    /// # Errors
    /// If a log lacks what its checkpoint needs, or the checkpoint goes on behind the end of its epoch: who reads on there would install
    /// what all replicas skipped (an older build wrote such ones). A replica does not go on from either.
    pub fn finish(&mut self) -> Result<(), String> {
        for (at, stream) in self.streams.iter_mut().enumerate() {
            let start = self.start.as_ref().map(|start| start.contents.streams[at]);
            if let Some(StreamStart { decided, .. }) = start {
                stream.know_decided(decided).map_err(|why| format!("stream {at}: {}", why.0))?;
            }
            let first = start.map_or(EntryIndex(1), |start| start.start);
            if stream.log().first() > first {
                self.lacks_state.get_or_insert_with(|| {
                    format!(
                        "stream {at}: the log begins behind the state that is there: the node was copying it"
                    )
                });
                continue;
            }
            let before =
                stream.log().get(EntryIndex(first.0 - 1)).map(|bytes| EntryHeader::open(bytes, true));
            let epoch = self.start.as_ref().map(|start| start.contents.epoch);
            if let (Some(Ok(before)), Some(epoch)) = (before, epoch)
                && before.header.epoch > epoch
            {
                return Err(format!("stream {at}: the checkpoint goes on behind the end of its epoch"));
            }
        }
        Ok(())
    }

    /// Why these logs lead to no state, if they do not: what they stand on is not on this disk. They count beside other disks.
    pub fn lacks_state(&self) -> Option<&str> {
        self.lacks_state.as_deref()
    }

    /// The checkpoint that the logs stand on cannot be loaded, and this is why.
    pub fn disown_state(&mut self, why: String) {
        self.lacks_state.get_or_insert(why);
    }

    /// Whether a replica with this disk could lead, as far as logs tell: its state is here, and all these disks lead from it to the end of
    /// the best log of each stream.
    pub fn could_lead(&self, all: &[&Remains]) -> bool {
        let reaches = |at: usize| {
            let of_all: Vec<&Recovered> = all.iter().filter_map(|other| other.streams.get(at)).collect();
            self.streams[at].reaches_best(&of_all)
        };
        self.lacks_state.is_none() && (0..self.streams.len()).all(reaches)
    }

    /// Whether the records so far lead to the state of a moment, whatever follows.
    pub fn reaches(&self, moment: Timestamp) -> bool {
        let settled = |(at, stream): (usize, &Recovered)| {
            let start = self.start.as_ref().map(|start| start.contents.streams[at]);
            start.is_none_or(|start| stream.decided() >= start.decided)
        };
        self.streams.iter().enumerate().all(settled)
            && self.read(Trust::Decided).is_ok_and(|reading| reading.latest() >= moment)
    }

    /// Which of these disks a new cluster should begin from: one whose checkpoint leads to the best log of each stream, the one that a
    /// new leader would take over; if there is none, one that does so in most streams. Of several the one that `held` more. One whose state
    /// is not there is none of them. `None`: no state is there.
    ///
    /// To hold most is not enough. A deposed leader may have gone on to later timestamps than the cluster, in entries that were overruled;
    /// and where the others' logs begin behind its own, theirs cannot take the place of them.
    pub fn best<'a>(disks: impl IntoIterator<Item = (&'a Remains, Timestamp)>) -> Option<usize> {
        let disks: Vec<(&Remains, Timestamp)> = disks.into_iter().collect();
        let reaches = |remains: &Remains| {
            let streams = 0..remains.streams.len();
            let others =
                |at: usize| disks.iter().filter_map(|(other, _)| other.streams.get(at)).collect::<Vec<_>>();
            streams.filter(|at| remains.streams[*at].reaches_best(&others(*at))).count()
        };
        let worth = |(remains, held): &(&Remains, Timestamp)| (reaches(remains), *held);
        let with_state = (0..disks.len()).filter(|at| disks[*at].0.lacks_state.is_none());
        // Of equal ones the first.
        with_state.rev().max_by_key(|at| worth(&disks[*at]))
    }

    /// Goes on with the best log of each stream, of all these disks, as far as they lead there.
    pub fn take_best(&mut self, others: &[&Remains]) -> Taken {
        others.iter().flat_map(|other| &other.members).for_each(|members| self.know(members.clone()));
        let mut taken = Taken::default();
        for (at, own) in self.streams.iter_mut().enumerate() {
            let others: Vec<&Recovered> = others.iter().filter_map(|other| other.streams.get(at)).collect();
            taken.short += usize::from(!own.reaches_best(&others));
            taken.better += usize::from(own.take_best(&others));
        }
        taken
    }

    /// When it was what time, as far as it was written down; in order.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// How many entries are held, and how many of them are known to be decided, by stream.
    pub fn entries(&self) -> Vec<(EntryIndex, EntryIndex)> {
        self.streams.iter().map(|stream| (stream.log().last(), stream.decided())).collect()
    }
}

/// The engine's words in the checkpoint from which a new cluster of these voters begins, each with so many workers: its streams are
/// empty, and its first epoch is yet to come.
///
/// With them the records that its journals begin with.
pub fn founding(workers: u16, voters: Vec<Voter>, moment: Timestamp) -> (Vec<u8>, [Bytes; 2]) {
    let members = Members::new(Epoch(0), voters);
    let empty = StreamStart { start: EntryIndex(1), point: Default::default(), decided: EntryIndex(0) };
    let mut record = Vec::new();
    members.encode(&mut record);
    let streams = vec![empty; workers.into()];
    (Contents { epoch: Epoch(0), members, streams }.encode(), [Founded { moment }.record(), record.into()])
}

#[cfg(test)]
mod tests;
