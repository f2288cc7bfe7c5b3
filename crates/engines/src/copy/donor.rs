//! The donor's controller: who gets a copy of this replica's store, and from where in the log each goes on.

use std::collections::BTreeMap;

use highwater_core::{EntryIndex, Epoch, NodeId, StreamId, Timestamp};

use super::CopyName;

/// The copies that a replica gives.
#[derive(Default)]
pub struct Donor(BTreeMap<NodeId, Granting>);

struct Granting {
    copy: u64,
    terms: Terms,
    starts: BTreeMap<StreamId, EntryIndex>,
}

/// What a copy starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The epoch that the donor is in.
    pub epoch: Epoch,
    /// Everything at or below will be in the copied state.
    pub floor: Timestamp,
}

impl Donor {
    /// Begins a copy: every part has to say where its log goes on.
    pub fn begin(&mut self, name: CopyName, terms: Terms) {
        let granting = Granting { copy: name.copy, terms, starts: BTreeMap::new() };
        self.0.insert(name.receiver, granting);
    }

    /// Whether this copy is given.
    pub fn gives(&self, name: CopyName) -> bool {
        self.0.get(&name.receiver).is_some_and(|granting| granting.copy == name.copy)
    }

    /// A part goes on at `start`. Once all `parts` have said so: the terms, and where each goes on.
    pub fn located(
        &mut self,
        name: CopyName,
        part: StreamId,
        start: EntryIndex,
        parts: usize,
    ) -> Option<(Terms, Vec<EntryIndex>)> {
        let granting = self.0.get_mut(&name.receiver).filter(|granting| granting.copy == name.copy)?;
        granting.starts.insert(part, start);
        let complete = granting.starts.len() == parts;
        complete.then(|| (granting.terms, granting.starts.values().copied().collect()))
    }

    /// A copy has ended, one way or the other; `None`: whichever this receiver has. Whether there was one.
    pub fn end(&mut self, receiver: NodeId, copy: Option<u64>) -> bool {
        let given = self.0.get(&receiver).is_some_and(|granting| copy.is_none_or(|c| c == granting.copy));
        given && self.0.remove(&receiver).is_some()
    }

    /// All that are given.
    pub fn all(&self) -> Vec<CopyName> {
        let name = |(receiver, granting): (&NodeId, &Granting)| CopyName {
            receiver: *receiver,
            copy: granting.copy,
        };
        self.0.iter().map(name).collect()
    }
}
