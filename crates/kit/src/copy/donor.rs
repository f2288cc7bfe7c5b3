//! The donor's controller: who gets a copy of this replica's store, and from where in the log each goes on.

use std::collections::{BTreeMap, BTreeSet};

use highwater_core::{EntryIndex, Epoch, NodeId, StreamId, Timestamp};

use super::CopyName;

/// The copies that a replica gives.
#[derive(Default)]
pub struct Donor {
    given: BTreeMap<NodeId, Granting>,
    /// Those that have ended, and the parts that have let go of them. Until all have, one may go on sending what it was asked for in time, or
    /// begin with what it is asked for late.
    ending: Vec<(CopyName, BTreeSet<StreamId>)>,
}

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
        self.given.insert(name.receiver, granting);
    }

    /// Whether this copy is given.
    pub fn gives(&self, name: CopyName) -> bool {
        self.given.get(&name.receiver).is_some_and(|granting| granting.copy == name.copy)
    }

    /// A part goes on at `start`. Once all `parts` have said so: the terms, and where each goes on.
    pub fn located(
        &mut self,
        name: CopyName,
        part: StreamId,
        start: EntryIndex,
        parts: usize,
    ) -> Option<(Terms, Vec<EntryIndex>)> {
        let granting = self.given.get_mut(&name.receiver).filter(|granting| granting.copy == name.copy)?;
        granting.starts.insert(part, start);
        let complete = granting.starts.len() == parts;
        complete.then(|| (granting.terms, granting.starts.values().copied().collect()))
    }

    /// A copy ends, one way or the other; `None`: whichever this receiver has. The one, if there is one: every part has to let go of it.
    pub fn end(&mut self, receiver: NodeId, copy: Option<u64>) -> Option<CopyName> {
        let given = self.given.get(&receiver).map(|granting| granting.copy);
        let copy = given.filter(|given| copy.is_none_or(|copy| copy == *given))?;
        self.given.remove(&receiver);
        let name = CopyName { receiver, copy };
        self.ending.push((name, BTreeSet::new()));
        Some(name)
    }

    /// A part has let go of a copy that ends. Whether all `parts` have now: nobody sends any of it any more.
    pub fn ended(&mut self, name: CopyName, part: StreamId, parts: usize) -> bool {
        let Some(at) = self.ending.iter().position(|(ending, _)| *ending == name) else { return false };
        self.ending[at].1.insert(part);
        let ended = self.ending[at].1.len() == parts;
        if ended {
            self.ending.swap_remove(at);
        }
        ended
    }

    /// All that are given.
    pub fn all(&self) -> Vec<CopyName> {
        let name = |(receiver, granting): (&NodeId, &Granting)| CopyName {
            receiver: *receiver,
            copy: granting.copy,
        };
        self.given.iter().map(name).collect()
    }
}
