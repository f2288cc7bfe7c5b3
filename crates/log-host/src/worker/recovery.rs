//! A worker goes on from what its disk has: records of its stream, and where the checkpoint of its store goes on.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::{Change, Recovered, Stream};
use highwater_core::EntryIndex;
use highwater_core::log::EntryKind;

use crate::disk::gate::Gate;
use crate::disk::points::Points;
use crate::shared::Past;

use super::donor::begins_too_late;
use super::entries::CheckedEntry;
use super::policy::Policy;
use super::{LogWorker, Mode, stream_options};

/// The records of an earlier life.
pub(super) struct Recovering {
    /// The state that they lead to.
    state: Recovered,
    /// The position at which they end.
    position: u64,
    points: Points,
}

impl<P: Policy> LogWorker<P> {
    /// The records of an earlier life, as far as they have been handed in.
    fn recovering(&mut self) -> &mut Recovering {
        let (shared, at) = (&self.context.shared, usize::from(self.context.id.0));
        self.recovering.get_or_insert_with(|| {
            let resumed = shared.resumed();
            let begin = resumed.map(|resumed| (resumed.positions[at].0, resumed.contents.streams[at].point));
            let (position, point) = begin.unwrap_or_default();
            let points = Points::starting_at(position, point);
            Recovering { state: Recovered::begin(point), position, points }
        })
    }

    pub(super) fn take_record(&mut self, record: Bytes) -> Result<(), String> {
        let id = self.context.id;
        let change = Change::decode(&record);
        if let Ok(Change::Appended(entry)) = &change {
            self.recover_level(entry)?;
        }
        let recovering = self.recovering();
        recovering.position += record.len() as u64;
        let applied = change.and_then(|change| recovering.state.apply(change));
        recovering.points.note_recovered(recovering.position, &recovering.state);
        applied.map_err(|why| format!("{id}: a record that does not fit: {why:?}"))
    }

    pub(super) fn records_taken(&mut self) -> Result<(), String> {
        let resumed = self.context.shared.resumed();
        if self.recovering.is_none() && resumed.is_none() {
            return Ok(());
        }
        self.recovering();
        let Recovering { mut state, position, points } =
            self.recovering.take().expect("it was just looked at");
        let at = usize::from(self.context.id.0);
        let start = resumed.as_ref().map(|resumed| resumed.contents.streams[at]);
        if let Some(start) = start {
            let known = state.know_decided(start.decided);
            known.map_err(|why| format!("{}: {}", self.context.id, why.0))?;
        }
        let context = &self.context;
        self.stream = Stream::recover(context.me, state, stream_options(context.options()));
        self.known = self.stream.promised();
        self.gate = Gate::starting_at(position);
        self.points = points;
        self.points.begin(position, &self.stream);
        let mut past = past(&self.stream);
        let mut begins = None;
        if let Some(resumed) = &resumed {
            past.holds = true;
            past.members =
                past.members.into_iter().chain([resumed.contents.members.clone()]).max_by_key(|m| m.epoch);
            self.stream.know_members(resumed.contents.members.clone());
            let (epoch, start) = (resumed.contents.epoch, resumed.contents.streams[at].start);
            if begins_too_late(&self.stream, epoch, start) {
                return Err(format!("{}: the checkpoint goes on behind the end of its epoch", context.id));
            }
            begins = Some((start, resumed.floor));
        }
        self.policy.recovered(begins);
        let cursor = self.policy.cursor();
        // What an earlier life had copied is lost if there is no checkpoint of it: the log begins behind it.
        past.lost_store = self.stream.tail().first > cursor.scan;
        if past.lost_store {
            self.mode = Mode::Parked;
        } else if self.stream.decided() > cursor.applied() {
            self.reread = Some(self.stream.decided());
            context.shared.rereads.fetch_add(1, Ordering::SeqCst);
        }
        context.shared.recovered(past);
        Ok(())
    }
}

/// The knowledge of a recovered stream that its controller may lack.
fn past(stream: &Stream) -> Past {
    let tail = stream.tail();
    let entries = (tail.first.0..=tail.decided.0).rev().map(EntryIndex);
    let held = entries.map_while(|index| CheckedEntry::held(stream, index));
    let change = held.into_iter().find(|entry| entry.header().kind == EntryKind::EpochChange);
    let holds = tail.last > EntryIndex::NONE;
    let members = change.map(|entry| entry.members());
    Past { promised: stream.promised(), members, holds, lost_store: false }
}
