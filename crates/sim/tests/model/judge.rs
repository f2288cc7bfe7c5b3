//! What must hold in every state.
//!
//! The marks are computed by the product: [`Watermark`] is fed with decided logs as a replica's workers feed it. Its own
//! assertions count, too.

use highwater_consensus::{Members, Voter};
use highwater_core::{EntryIndex, Epoch, Incarnation, NodeId, StreamId, Timestamp};
use highwater_engine_rolis::watermark::{Arrival, OpenClaim, Start, Watermark};

use super::protocol::{Bounds, Mistake};
use super::state::{Ballot, Entry, STREAMS, State};

/// A replica that knows these entries to be decided: its epoch, its mark, and the final marks of past epochs.
#[derive(Debug)]
pub struct Replayed {
    pub epoch: Ballot,
    pub mark: u8,
    watermark: Watermark,
}

impl Replayed {
    /// The final mark of an epoch that has ended.
    pub fn final_mark(&self, epoch: Ballot) -> Option<u8> {
        self.watermark.final_mark(Epoch(epoch.into())).map(|mark| mark.0 as u8)
    }
}

/// How far a worker has looked.
#[derive(Default)]
struct Looking {
    scan: usize,
    arrived: usize,
    claims: Vec<OpenClaim>,
}

/// Looks at decided logs as `engine-rolis/src/follow/apply.rs` does.
pub fn replay(bounds: &Bounds, logs: [&[Entry]; STREAMS]) -> Replayed {
    let watermark = Watermark::new(STREAMS);
    let mut workers: [Looking; STREAMS] = Default::default();
    loop {
        let before = workers.iter().map(|worker| worker.scan + worker.arrived).sum::<usize>();
        for (stream, worker) in workers.iter_mut().enumerate() {
            look(bounds, &watermark, stream, logs[stream], worker);
        }
        if workers.iter().map(|worker| worker.scan + worker.arrived).sum::<usize>() == before {
            break;
        }
    }
    for worker in &mut workers {
        worker.claims.retain(|claim| !watermark.claim(*claim));
    }
    Replayed { epoch: watermark.epoch().0 as Ballot, mark: watermark.mark().0 as u8, watermark }
}

fn look(bounds: &Bounds, watermark: &Watermark, stream: usize, log: &[Entry], worker: &mut Looking) {
    let id = StreamId(stream as u16);
    worker.claims.retain(|claim| !watermark.claim(*claim));
    while worker.scan < log.len() {
        let index = EntryIndex(worker.scan as u64 + 1);
        match log[worker.scan] {
            Entry::Batch { epoch, closed, claim } => {
                assert_eq!(Epoch(epoch.into()), watermark.epoch(), "an entry of an epoch not entered");
                watermark.publish(id, index, Timestamp(closed.into()), false);
                if let Some(len) = claim {
                    let early = bounds.mistake == Some(Mistake::EarlyClaim);
                    let index = EntryIndex(if early { 0 } else { len.into() });
                    let stream = StreamId(1 - id.0);
                    let claim = OpenClaim { stream, index, closed: Timestamp(closed.into()) };
                    if !watermark.claim(claim) {
                        worker.claims.push(claim);
                    }
                }
            }
            Entry::Change { epoch, .. } => {
                if Epoch(epoch.into()) > watermark.epoch() {
                    let starts = starts(&log[worker.scan..], index);
                    if starts.len() == worker.arrived {
                        return;
                    }
                    worker.arrived = starts.len();
                    let claims = std::mem::take(&mut worker.claims);
                    if !watermark.arrive(id, Arrival { starts, last: EntryIndex(index.0 - 1), claims }) {
                        return;
                    }
                }
                if Epoch(epoch.into()) == watermark.epoch() {
                    worker.arrived = 0;
                }
            }
        }
        worker.scan += 1;
    }
}

fn starts(log: &[Entry], first: EntryIndex) -> Vec<Start> {
    let voter = |node| Voter { node: NodeId(node), incarnation: Incarnation(1) };
    let start = |(at, entry): (usize, &Entry)| match *entry {
        Entry::Change { epoch, base } => Some(Start {
            epoch: Epoch(epoch.into()),
            index: EntryIndex(first.0 + at as u64),
            base: Timestamp(base.into()),
            members: Members::new(Epoch(epoch.into()), (0..3).map(voter).collect()),
        }),
        Entry::Batch { .. } => None,
    };
    log.iter().enumerate().map_while(start).collect()
}

/// Up to which timestamp the leader of a ballot may have released; nothing if its epoch never opened.
pub fn released(bounds: &Bounds, state: &State, ballot: Ballot) -> Option<u8> {
    let lead = state.lead(ballot);
    let logs = [lead.decided(0), lead.decided(1)];
    let replayed = replay(bounds, logs);
    if replayed.epoch != ballot {
        return None;
    }
    if bounds.mistake == Some(Mistake::SilentStream) {
        let last = |log: &[Entry]| match log.last() {
            Some(Entry::Batch { closed, .. }) => Some(*closed),
            _ => None,
        };
        return logs.iter().filter_map(|log| last(log)).min();
    }
    Some(replayed.mark)
}

/// The first promise that a state breaks.
pub fn judge(bounds: &Bounds, state: &State) -> Result<(), &'static str> {
    let decided = [state.decided(0)?, state.decided(1)?];
    let now = replay(bounds, decided);
    for ballot in 1..=state.leads.len() as Ballot {
        let Some(released) = released(bounds, state, ballot).filter(|_| state.lead(ballot).leading) else {
            continue;
        };
        let ended = now.final_mark(ballot);
        if ended.is_some_and(|last| last < released) {
            return Err("released above the final mark");
        }
        preserved(bounds, state, decided, ballot, released, ended)?;
    }
    if now.epoch <= 1 {
        return Ok(());
    }
    // Those who know less of the log do not contradict.
    for behind in [[1, 0], [0, 1], [1, 1], [2, 0], [0, 2]] {
        let known = |at: usize| &decided[at][..decided[at].len().saturating_sub(behind[at])];
        let earlier = replay(bounds, [known(0), known(1)]);
        for epoch in 0..=now.epoch {
            match (earlier.final_mark(epoch), now.final_mark(epoch)) {
                (Some(a), b) if Some(a) != b => return Err("two final marks of one epoch"),
                (None, Some(last)) if earlier.epoch == epoch && earlier.mark > last => {
                    return Err("applied above the final mark");
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Every transaction depends on all that were executed before it. So whatever is at or below the mark (released), and at
/// or below the final mark (applied), must be there with all that came before.
fn preserved(
    bounds: &Bounds,
    state: &State,
    decided: [&[Entry]; STREAMS],
    ballot: Ballot,
    released: u8,
    ended: Option<u8>,
) -> Result<(), &'static str> {
    for (ts, stream) in state.lead(ballot).transactions() {
        let holds = decided[stream].iter().find_map(|entry| match *entry {
            Entry::Batch { epoch, closed, .. } if epoch == ballot && closed >= ts => Some(closed),
            _ => None,
        });
        if ts <= released && holds.is_none() {
            return Err("a released transaction, or one that it depends on, is not decided");
        }
        if ended.is_some_and(|last| ts <= last) && holds.is_none() {
            return Err("an applied transaction depends on one that is lost");
        }
        let by_entry = bounds.mistake == Some(Mistake::Granularity);
        if by_entry && ts <= released && ended.is_some_and(|last| holds.is_some_and(|closed| closed > last)) {
            return Err("a released transaction is skipped with its entry");
        }
    }
    Ok(())
}
