//! The record: what a replica knows of transactions under way, whichever of its workers has to do with them. One mutex, as in the paper's
//! prototype.

use std::collections::BTreeMap;
use std::sync::Mutex;

use highwater_core::Timestamp;
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::stamps::Coordinator;
use highwater_seam::padded::Padded;

use crate::node::lock;

/// What is known of a transaction.
#[derive(Default)]
struct Entry {
    /// What it reads and writes, if that came.
    payload: Option<Payload>,
    /// Whether it was found valid, once that was looked at. Never changes.
    valid: Option<bool>,
    /// What was accepted: to commit or not.
    accepted: Option<bool>,
    /// Whether it committed, once that is known.
    outcome: Option<bool>,
}

#[derive(Default)]
struct Record {
    entries: BTreeMap<(Coordinator, Timestamp), Entry>,
    bytes: usize,
}

/// What a replica that is asked to validate finds in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: it is entered, and has to be validated.
    New,
    /// It was found valid, or not.
    Voted(bool),
    Over,
}

/// A transaction that is over from now on.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// What it reads and writes; nothing, if it was never heard of and does not commit.
    pub payload: Option<Payload>,
    /// Its marks stand.
    pub marked: bool,
    /// It was entered to be validated.
    pub entered: bool,
}

/// The record of a replica, in cache lines of its own.
#[derive(Default)]
pub struct SharedRecord(Padded<Mutex<Record>>);

impl SharedRecord {
    /// A replica is asked to validate: enters the transaction, unless it is there.
    #[inline]
    pub fn enter(&self, coordinator: Coordinator, ts: Timestamp, payload: &Payload) -> Found {
        let mut record = lock(&self.0.0);
        let Record { entries, bytes } = &mut *record;
        let entry = entries.entry((coordinator, ts)).or_default();
        if entry.outcome.is_some() {
            return Found::Over;
        }
        if let Some(valid) = entry.valid {
            return Found::Voted(valid);
        }
        if entry.payload.is_none() {
            *bytes += payload.len();
            entry.payload = Some(payload.clone());
        }
        Found::New
    }

    /// How validation went.
    #[inline]
    pub fn vote(&self, coordinator: Coordinator, ts: Timestamp, valid: bool) {
        let mut record = lock(&self.0.0);
        let entry = record.entries.get_mut(&(coordinator, ts)).expect("it was entered before");
        assert!(entry.valid.is_none() && entry.outcome.is_none(), "{ts} is validated once");
        entry.valid = Some(valid);
    }

    /// A replica is asked to accept. In one view there is one proposal.
    pub fn accept(&self, coordinator: Coordinator, ts: Timestamp, commit: bool) {
        let mut record = lock(&self.0.0);
        let entry = record.entries.entry((coordinator, ts)).or_default();
        assert_eq!(*entry.accepted.get_or_insert(commit), commit, "{ts} has one proposal");
    }

    /// The outcome; `payload`: if it came along. `None`: it was known.
    #[inline]
    pub fn end(
        &self,
        coordinator: Coordinator,
        ts: Timestamp,
        commit: bool,
        payload: Option<Payload>,
    ) -> Option<Ended> {
        let mut record = lock(&self.0.0);
        let Record { entries, bytes } = &mut *record;
        let entry = entries.entry((coordinator, ts)).or_default();
        if let Some(before) = entry.outcome {
            assert_eq!(before, commit, "{ts} has one outcome");
            return None;
        }
        let entered = entry.valid.is_some();
        if let (None, Some(payload)) = (&entry.payload, payload) {
            *bytes += payload.len();
            entry.payload = Some(payload);
        }
        entry.outcome = Some(commit);
        Some(Ended { payload: entry.payload.clone(), marked: entry.valid == Some(true), entered })
    }

    /// Drops the transactions of these coordinators up to these timestamps, which are over everywhere. Bytes of payloads that are left.
    pub fn trim(&self, closed: &[(Coordinator, Timestamp)]) -> usize {
        let mut record = lock(&self.0.0);
        let Record { entries, bytes } = &mut *record;
        for (coordinator, closed) in closed {
            let range = (*coordinator, Timestamp::ZERO)..=(*coordinator, *closed);
            while let Some((key, entry)) = entries.range(range.clone()).next() {
                assert!(entry.outcome.is_some(), "{} is over here, by this node's own word", key.1);
                let key = *key;
                let entry = entries.remove(&key).expect("it is there");
                *bytes -= entry.payload.map_or(0, |payload| payload.len());
            }
        }
        *bytes
    }

    /// How many transactions are in it; for reports and tests.
    pub fn len(&self) -> usize {
        lock(&self.0.0).entries.len()
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::NodeId;

    use super::*;

    const WHO: Coordinator = Coordinator { node: NodeId(1), worker: 0 };

    fn payload() -> Payload {
        Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[])
    }

    #[test]
    fn a_transaction_is_validated_once_and_has_one_outcome() {
        let record = SharedRecord::default();
        let at = Timestamp(7);
        assert_eq!(record.enter(WHO, at, &payload()), Found::New);
        record.vote(WHO, at, true);
        assert_eq!(record.enter(WHO, at, &payload()), Found::Voted(true), "asked again");
        record.accept(WHO, at, true);
        let ended = Ended { payload: Some(payload()), marked: true, entered: true };
        assert_eq!(record.end(WHO, at, true, None), Some(ended));
        assert_eq!(record.end(WHO, at, true, None), None, "told again");
        assert_eq!(record.enter(WHO, at, &payload()), Found::Over);
    }

    #[test]
    fn an_outcome_brings_what_was_never_heard_of_and_what_is_over_everywhere_goes() {
        let record = SharedRecord::default();
        let other = Coordinator { worker: 1, ..WHO };
        let unheard = record.end(WHO, Timestamp(3), true, Some(payload())).unwrap();
        assert_eq!(unheard, Ended { payload: Some(payload()), marked: false, entered: false });
        assert_eq!(record.end(WHO, Timestamp(4), false, None).unwrap().payload, None);
        record.end(other, Timestamp(2), false, None);
        assert_eq!(record.trim(&[(WHO, Timestamp(3))]), 0);
        assert_eq!(record.len(), 2);
        record.trim(&[(WHO, Timestamp(9)), (other, Timestamp(2))]);
        assert_eq!(record.len(), 0);
    }
}
