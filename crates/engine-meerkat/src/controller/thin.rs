//! A change of epoch without what both sides have.
//!
//! What a promise tells, and what a change decides, names transactions with all that they read and wrote: as much as replicas keep for one that
//! has not heard, tens of MiB. But most of that every voter has. So large payloads travel only to who lacks them:
//!
//! | message | without | who fills it in |
//! |---|---|---|
//! | a promise | every large payload, marked as kept ([`Told::kept`]) | the leader, from its own records; it asks for what it has not itself |
//! | a proposal | those that its receiver said to have | the receiver, from its records of when it paused; or it says that it lacks some |
//! | a decision | everything, for who accepted it | the same |
//!
//! Invariant: what a controller takes for a promise, a proposal or a decision is whole. Nothing is promised, accepted, decided or written down thin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use highwater_core::Timestamp;
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::record::Told;

use crate::change::{Change, Ended};

/// Payloads of at most so many bytes travel always.
const SMALL_BYTES: usize = 512;

/// A transaction, by its worker and its timestamp.
pub(super) type Name = (u16, Timestamp);

/// Large payloads, by transaction.
#[derive(Default)]
pub(super) struct Payloads<'a>(BTreeMap<Name, &'a Payload>);

impl<'a> Payloads<'a> {
    /// Of these records, by worker.
    pub fn of(records: &'a [Vec<Told>]) -> Payloads<'a> {
        let all =
            records.iter().enumerate().flat_map(|(at, of)| of.iter().map(move |told| (at as u16, told)));
        let large = all.filter_map(|(at, told)| Some(((at, told.ts), large(told.payload.as_ref())?)));
        Payloads(large.collect())
    }

    /// Of a transaction.
    pub fn get(&self, name: Name) -> Option<&'a Payload> {
        self.0.get(&name).copied()
    }
}

fn large(payload: Option<&Payload>) -> Option<&Payload> {
    payload.filter(|payload| payload.len() > SMALL_BYTES)
}

/// The records without large payloads.
pub(super) fn thin(records: &[Vec<Told>]) -> Vec<Vec<Told>> {
    let of = |told: &Told| match large(told.payload.as_ref()) {
        Some(_) => Told { payload: None, kept: true, ..told.clone() },
        None => told.clone(),
    };
    records.iter().map(|records| records.iter().map(of).collect()).collect()
}

/// Whether nothing is left out.
pub(super) fn is_whole(records: &[Vec<Told>]) -> bool {
    !records.iter().flatten().any(|told| told.kept)
}

/// Puts in what is there; the names of what is not.
pub(super) fn fill(records: &mut [Vec<Told>], from: &Payloads<'_>) -> Vec<Name> {
    let mut missing = Vec::new();
    for (at, of) in records.iter_mut().enumerate() {
        for told in of.iter_mut().filter(|told| told.kept) {
            let name = (at as u16, told.ts);
            match from.get(name) {
                Some(payload) => (told.payload, told.kept) = (Some(payload.clone()), false),
                None => missing.push(name),
            }
        }
    }
    missing
}

/// Whose large payloads a node has, by its promise.
pub(super) fn has(records: &[Vec<Told>]) -> BTreeSet<Name> {
    let all = records.iter().enumerate().flat_map(|(at, of)| of.iter().map(move |told| (at as u16, told)));
    let large = all.filter(|(_, told)| told.kept || large(told.payload.as_ref()).is_some());
    large.map(|(at, told)| (at, told.ts)).collect()
}

/// The change for a node that has these payloads.
pub(super) fn thin_change(change: &Arc<Change>, has: &BTreeSet<Name>) -> Arc<Change> {
    let of = |at: usize, ended: &Ended| {
        let has = large(ended.payload.as_ref()).is_some() && has.contains(&(at as u16, ended.ts));
        Ended { payload: if has { None } else { ended.payload.clone() }, ..*ended }
    };
    let ended = change.ended.iter().enumerate();
    let ended = ended.map(|(at, all)| all.iter().map(|ended| of(at, ended)).collect()).collect();
    Arc::new(Change { members: change.members.clone(), ended, ..**change })
}

/// The change as a whole, with what is there; `None`: something is missing.
pub(super) fn fill_change(change: &Arc<Change>, from: Option<&[Vec<Told>]>) -> Option<Arc<Change>> {
    let lacks = |ended: &Ended| ended.commit && ended.payload.is_none();
    if !change.ended.iter().flatten().any(lacks) {
        return Some(change.clone());
    }
    let payloads = Payloads::of(from?);
    let mut whole = Change { members: change.members.clone(), ended: change.ended.clone(), ..**change };
    for (at, of) in whole.ended.iter_mut().enumerate() {
        for ended in of.iter_mut().filter(|ended| lacks(ended)) {
            ended.payload = Some(payloads.get((at as u16, ended.ts))?.clone());
        }
    }
    Some(Arc::new(whole))
}

#[cfg(test)]
mod tests {
    use highwater_core::Epoch;

    use super::*;
    use crate::change::Members;

    fn payload(bytes: usize) -> Payload {
        Payload::build(Timestamp::ZERO, (&vec![7; bytes], 0), (&[], 0), &[])
    }

    fn told(ts: u64, bytes: usize) -> Told {
        Told { valid: Some(true), payload: Some(payload(bytes)), ..Told::of(Timestamp(ts)) }
    }

    #[test]
    fn records_lose_what_is_large_and_get_it_back() {
        let whole = vec![vec![told(1, 9), told(2, 5000)], vec![told(3, 6000)]];
        let mut lean = thin(&whole);
        assert!(!is_whole(&lean) && is_whole(&whole));
        assert_eq!(lean[0][0], whole[0][0]);
        assert_eq!(has(&lean), has(&whole));
        assert_eq!(has(&lean).len(), 2);
        let others = vec![vec![told(2, 5000)], vec![]];
        assert_eq!(fill(&mut lean, &Payloads::of(&others)), [(1, Timestamp(3))]);
        assert_eq!(fill(&mut lean, &Payloads::of(&whole)), []);
        assert_eq!(lean, whole);
    }

    #[test]
    fn a_change_travels_without_what_its_receiver_has() {
        let records = vec![vec![told(1, 9), told(2, 5000), told(4, 5001)]];
        let ended = |ts: u64, at: usize| Ended {
            ts: Timestamp(ts),
            commit: true,
            payload: records[0][at].payload.clone(),
        };
        let none = Ended { ts: Timestamp(9), commit: false, payload: None };
        let ended = vec![vec![ended(1, 0), ended(2, 1), ended(4, 2), none]];
        let change =
            Change { epoch: Epoch(2), base: Timestamp(10), members: Members::default(), ended, cut: None };
        let change = Arc::new(change);
        let lean = thin_change(&change, &BTreeSet::from([(0, Timestamp(2)), (0, Timestamp(1))]));
        assert!(
            lean.bytes() + 5000 <= change.bytes() && lean.bytes() > 5001,
            "only what it has, and is large"
        );
        assert_eq!(fill_change(&lean, Some(&records)), Some(change.clone()));
        assert_eq!(fill_change(&lean, None), None);
        assert_eq!(fill_change(&lean, Some(&[vec![]])), None);
        assert_eq!(fill_change(&change, None), Some(change));
    }
}
