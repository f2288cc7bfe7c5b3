//! What is left when replicas forgot: durability `async`.
//!
//! What a replica accepts goes ahead of its disk there. One that crashed comes back as the voter that it was, with the promises and changes that
//! it knew ([`journal`](crate::journal)), and perhaps without the last of its votes, accepted proposals and outcomes: it *forgot*.
//! (An orderly end forgets nothing, nor does who had promised the next epoch: its workers had paused, and all of theirs was on disk.)
//!
//! *A majority remembers.* Then a change of epoch counts those: what they know decides, and what was valid elsewhere is as good as unheard
//! ([`merge`](crate::merge)). What a node that forgot knows is true, and is added. It copies the state then, as a learner: what was over
//! everywhere is told by nobody any more.
//!
//! *No majority does.* Then nobody can say what was decided last, and all voters have to be back, as with Rolis
//! ([decision 0014](../../../../docs/decisions/0014-a-voter-may-forget.md)). The state is cut at one moment of what their disks have:
//!
//! - Whatever is at or below what a worker noted down to be *closed* was over at every replica, and what this worker knows of it was written
//!   before. With the least of its workers' notes a disk has everything up to there: [`Rest::to`].
//! - Nothing is installed of a disk before it is known where it is cut, and a checkpoint holds nothing that is later than what was closed when it
//!   was published: what is later than [`Rest::from`] can be left out.
//! - Order is that of timestamps, so that what is left at a cut is a state that there was.
//!
//! The cut is the latest that so many disks can be cut at as make a majority, so that service goes on at once and may lose one more; else the latest
//! that any can. All of this is one more change of epoch, decided like others. It says so ([`Change::cut`](crate::change::Change)), and
//! what is later on a disk is left out by whoever begins it from there, at any later start, too.
//!
//! What is lost is what was acknowledged and not over everywhere, or not noted down on disks: a heartbeat or two, and a window of the disk
//! ([`Options::disk_window`](highwater_seam::options::Options::disk_window)); more while a replica that takes part was not heard.

use std::collections::BTreeMap;

use highwater_core::{Epoch, NodeId, Timestamp};

use crate::control::Rest;
use crate::journal::End;

/// Where to cut, and whose disks can be, of those with the latest epoch. `majority`: so many are wanted. `None` if there is none.
pub(super) fn choose(rests: &BTreeMap<NodeId, Rest>, majority: usize) -> Option<(Timestamp, Vec<NodeId>)> {
    let latest = rests.values().map(|rest| rest.began).max()?;
    let of_latest: Vec<(NodeId, Rest)> =
        rests.iter().filter(|(_, rest)| rest.began == latest).map(|(node, rest)| (*node, *rest)).collect();
    let can = |at: Timestamp| -> Vec<NodeId> {
        let can = of_latest.iter().filter(|(_, rest)| rest.from <= at && at <= rest.to);
        can.map(|(node, _)| *node).collect()
    };
    let all = of_latest.iter().map(|(_, rest)| (rest.to, can(rest.to)));
    all.max_by_key(|(at, who)| (who.len() >= majority, *at))
}

/// What is known of a replica that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Nothing is missing.
    Whole,
    /// See [`Memory::Forgot`](crate::control::Memory).
    Forgot(Option<Rest>),
}

/// By how its workers' journals end, of a voter whose process did not end in order, where what others count on goes ahead of the disk. `decided`: the
/// last epoch that it knew to be decided, its base, and whether it began with a cut; `from`: see [`Rest::from`].
pub(super) fn came(ends: &[End], decided: (Epoch, Timestamp, bool), from: Timestamp) -> Came {
    let (decided, base, cut) = decided;
    let paused_for = |epoch: Epoch| move |end: &End| end.paused == Some(epoch);
    let opened = ends.iter().all(|end| end.began >= decided);
    let whole = match opened {
        true => ends.iter().all(paused_for(decided.next())),
        // It was not open here: nothing was done in it, and whoever had promised it has all of the one before.
        // Whose disk was chosen to be cut has what is below, whoever has begun to leave out the rest.
        false => cut || ends.iter().all(|end| end.began >= decided || paused_for(decided)(end)),
    };
    if whole {
        return Came::Whole;
    }
    let least = ends.iter().map(|end| end.closed).min().unwrap_or_default();
    Came::Forgot(opened.then_some(Rest { began: decided, to: least.max(base), from }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(began: u64, from: u64, to: u64) -> Rest {
        Rest { began: Epoch(began), from: Timestamp(from), to: Timestamp(to) }
    }

    fn cut(rests: &[Rest], majority: usize) -> Option<(u64, Vec<u8>)> {
        let rests = rests.iter().enumerate().map(|(at, rest)| (NodeId(at as u8), *rest)).collect();
        choose(&rests, majority).map(|(at, who)| (at.0, who.iter().map(|node| node.0).collect()))
    }

    #[test]
    fn the_cut_is_the_latest_that_a_majority_of_disks_can_be_cut_at() {
        assert_eq!(cut(&[], 2), None);
        assert_eq!(cut(&[rest(1, 0, 50), rest(1, 0, 90), rest(1, 0, 70)], 2), Some((70, vec![1, 2])));
        assert_eq!(cut(&[rest(1, 0, 50), rest(2, 0, 20), rest(2, 0, 10)], 2), Some((10, vec![1, 2])));
        assert_eq!(cut(&[rest(1, 0, 50), rest(1, 60, 90), rest(1, 75, 80)], 2), Some((80, vec![1, 2])));
        assert_eq!(
            cut(&[rest(1, 0, 50), rest(1, 60, 90), rest(1, 95, 99)], 2),
            Some((99, vec![2])),
            "one is better than none"
        );
        assert_eq!(cut(&[rest(3, 4, 4)], 2), Some((4, vec![0])));
    }

    fn end(began: u64, closed: u64, paused: Option<u64>) -> End {
        End { began: Epoch(began), closed: Timestamp(closed), paused: paused.map(Epoch) }
    }

    /// Once: `meerkat`, `async`, while it was built: a replica that crashed while it began an epoch from a cut took
    /// itself for one of which nothing can be said, and with another one so there was no state to go on from.
    #[test]
    fn who_had_promised_has_forgotten_nothing() {
        let decided = (Epoch(4), Timestamp(100), false);
        let came = |ends: &[End]| came(ends, decided, Timestamp(7));
        assert_eq!(came(&[end(4, 150, None), end(4, 130, None)]), Came::Forgot(Some(rest(4, 7, 130))));
        assert_eq!(came(&[end(4, 150, None), end(4, 0, None)]), Came::Forgot(Some(rest(4, 7, 100))));
        assert_eq!(came(&[end(4, 150, Some(5)), end(4, 130, Some(5))]), Came::Whole);
        assert_eq!(came(&[end(4, 150, Some(5)), end(4, 130, None)]), Came::Forgot(Some(rest(4, 7, 130))));
        // It was about to begin it.
        assert_eq!(came(&[end(3, 90, Some(4)), end(4, 0, None)]), Came::Whole);
        assert_eq!(came(&[end(3, 90, None), end(4, 0, None)]), Came::Forgot(None));
        assert_eq!(came(&[end(3, 90, None), end(3, 80, Some(4))]), Came::Forgot(None));
        let cut = |ends: &[End]| super::came(ends, (Epoch(4), Timestamp(100), true), Timestamp(7));
        assert_eq!(cut(&[end(3, 90, None), end(4, 0, None)]), Came::Whole);
        assert_eq!(cut(&[end(4, 0, None), end(4, 0, None)]), Came::Forgot(Some(rest(4, 7, 100))));
    }
}
