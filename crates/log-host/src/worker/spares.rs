//! Followers that may be sent entries a little later.
//!
//! A majority decides, so with three replicas the leader waits for one follower's acknowledgement and the other one's changes nothing. Each
//! message costs that one a wake-up all the same, and with many small entries a wake-up costs more than what it brings. So while much
//! comes, as many followers as a majority needs are sent every entry at once: those that have acknowledged most. The *spares* are sent
//! several entries together, `PATIENCE` after the first of them or when they are `MOST_BYTES` long.
//!
//! To the protocol this is a slow network, and no more: nothing here decides anything, and frames to one node stay in order. What it costs
//! is that much more delay before an entry is decided whose prompt follower has just failed, and before a spare shows it to its readers.

use std::collections::BTreeMap;

use highwater_consensus::Stream;
use highwater_core::NodeId;
use highwater_seam::{Endpoint, Frame, Nanos};

/// How long a frame to a spare waits for others.
pub const PATIENCE: Nanos = 1_000_000;
/// So many bytes leave at once: bodies as long are worth a wake-up of their own.
const MOST_BYTES: usize = 32 << 10;

/// A frame, and after how many changes on disk it may leave.
type Waiting = (u64, Endpoint, Frame);

/// Frames to spares, which wait for others.
#[derive(Default)]
pub struct Spares {
    /// Who is a spare now: chosen anew whenever nothing waits.
    chosen: Vec<NodeId>,
    waiting: BTreeMap<NodeId, Vec<Waiting>>,
    bytes: usize,
    /// When the first of them came.
    since: Option<Nanos>,
}

impl Spares {
    /// Decides who is a spare, unless something waits. `busy`: so much comes that there is anything to gain.
    #[inline]
    pub fn choose(&mut self, busy: bool, stream: &Stream) {
        if self.since.is_some() {
            return;
        }
        if !busy {
            self.chosen.clear();
            return;
        }
        let mut lags = stream.lags();
        let needed = lags.len().div_ceil(2);
        // Of those that are equally far the ones stay spares that were, or both would be asked in turn, and none ever rested.
        lags.sort_by_key(|(voter, lag)| (*lag, self.chosen.contains(&voter.node)));
        self.chosen = lags.into_iter().skip(needed).map(|(voter, _)| voter.node).collect();
    }

    /// A frame is to be sent: gives it, and what waits in front of it, to `send`, unless it carries an entry to append and may wait.
    pub fn send(&mut self, now: Nanos, appends: bool, frame: Waiting, send: &mut impl FnMut(Waiting)) {
        let to = frame.1.node;
        if appends && self.chosen.contains(&to) {
            self.bytes += frame.2.body.len();
            self.since.get_or_insert(now);
            self.waiting.entry(to).or_default().push(frame);
            return;
        }
        self.waiting.remove(&to).into_iter().flatten().for_each(&mut *send);
        send(frame);
    }

    /// Gives what has waited for long enough to `send`; when to do so again at the latest. `holds`: whether anything may wait at all.
    pub fn flush(&mut self, now: Nanos, holds: bool, send: impl FnMut(Waiting)) -> Option<Nanos> {
        let by = self.since? + PATIENCE;
        if holds && now < by && self.bytes < MOST_BYTES {
            return Some(by);
        }
        (self.since, self.bytes) = (None, 0);
        std::mem::take(&mut self.waiting).into_values().flatten().for_each(send);
        None
    }

    /// What waits for that node would come over another connection, to another life of it perhaps.
    pub fn peer_changed(&mut self, peer: NodeId) {
        self.waiting.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn frame(node: u8, number: u8, len: usize) -> Waiting {
        let head = Bytes::copy_from_slice(&[number]);
        (0, Endpoint { node: NodeId(node), worker: 0 }, Frame { head, body: vec![0; len].into() })
    }

    /// Spares of which node 2 is one.
    fn spares() -> Spares {
        Spares { chosen: vec![NodeId(2)], ..Spares::default() }
    }

    fn sent(spares: &mut Spares, now: Nanos, appends: bool, frame: Waiting) -> Vec<u8> {
        let mut left = Vec::new();
        spares.send(now, appends, frame, &mut |(_, _, frame)| left.push(frame.head[0]));
        left
    }

    fn flushed(spares: &mut Spares, now: Nanos, holds: bool) -> (Vec<u8>, Option<Nanos>) {
        let mut left = Vec::new();
        let next = spares.flush(now, holds, |(_, _, frame)| left.push(frame.head[0]));
        (left, next)
    }

    #[test]
    fn entries_wait_for_others_and_leave_together_and_in_order() {
        let mut spares = spares();
        assert_eq!(sent(&mut spares, 10, true, frame(1, 1, 5)), [1], "who is needed waits for nothing");
        assert_eq!(sent(&mut spares, 10, true, frame(2, 1, 5)), []);
        assert_eq!(sent(&mut spares, 20, true, frame(2, 2, 5)), []);
        assert_eq!(flushed(&mut spares, 30, true), (vec![], Some(10 + PATIENCE)));
        assert_eq!(flushed(&mut spares, 10 + PATIENCE, true), (vec![1, 2], None));
        assert_eq!(flushed(&mut spares, 11 + PATIENCE, true), (vec![], None));
    }

    #[test]
    fn whatever_else_is_said_takes_along_what_waits_in_front_of_it() {
        let mut spares = spares();
        assert_eq!(sent(&mut spares, 10, true, frame(2, 1, 5)), []);
        assert_eq!(sent(&mut spares, 20, false, frame(2, 2, 0)), [1, 2]);
    }

    #[test]
    fn what_is_long_or_may_not_wait_leaves_at_once() {
        let mut spares = spares();
        sent(&mut spares, 10, true, frame(2, 1, MOST_BYTES));
        assert_eq!(flushed(&mut spares, 10, true), (vec![1], None));
        sent(&mut spares, 10, true, frame(2, 2, 5));
        assert_eq!(flushed(&mut spares, 10, false), (vec![2], None), "nobody leads here any more");
    }

    #[test]
    fn another_connection_gets_nothing_of_the_last_one() {
        let mut spares = spares();
        sent(&mut spares, 10, true, frame(2, 1, 5));
        spares.peer_changed(NodeId(2));
        assert_eq!(flushed(&mut spares, 10 + PATIENCE, true), (vec![], None));
    }
}
