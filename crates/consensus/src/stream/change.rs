//! What is written of a stream, and what a crash leaves of it; [`durable`](super::durable) says what waits for it.

use std::collections::VecDeque;

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::wire::Wire;
use highwater_core::{Ballot, EntryIndex, Nanos, planted, wire};

use super::role::Part;
use crate::{Log, Tail};

/// A change of what an acceptor must not forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A life of the process begins. What an earlier one left incomplete never happened.
    Began,
    /// Nothing under a lower ballot is taken any more.
    Promised(Ballot),
    /// The log is cut behind `keep`, the next `entries` changes are entries that take the place of what is cut off, and then the whole
    /// log counts as accepted under the promised ballot.
    Adopted {
        /// The last entry that stays.
        keep: EntryIndex,
        /// How many [`Change::Appended`] belong to it.
        entries: u64,
    },
    /// This entry stands behind the last one.
    Appended(Bytes),
    /// The log is known to be decided up to here.
    Decided(EntryIndex),
    /// Everything up to here is decided, and its effects are in a state that was copied.
    Restarted(EntryIndex),
}

impl Change {
    /// `tag u8 | fields`, little endian, and the entry if there is one: a record is the one behind the other.
    pub fn encode(&self) -> (Bytes, Bytes) {
        let mut out = Vec::with_capacity(17);
        let mut entry = Bytes::new();
        match self {
            Change::Began => out.push(0),
            Change::Promised(ballot) => {
                out.push(1);
                ballot.put(&mut out);
            }
            Change::Adopted { keep, entries } => {
                out.push(2);
                keep.put(&mut out);
                entries.put(&mut out);
            }
            Change::Appended(bytes) => {
                out.push(3);
                entry = bytes.clone();
            }
            Change::Decided(upto) => {
                out.push(4);
                upto.put(&mut out);
            }
            Change::Restarted(base) => {
                out.push(5);
                base.put(&mut out);
            }
        }
        (out.into(), entry)
    }

    /// Reads a record.
    pub fn decode(record: &Bytes) -> Result<Change, Malformed> {
        let mut reader = Reader::new(record);
        let change = match reader.u8()? {
            0 => Change::Began,
            1 => Change::Promised(Wire::take(&mut reader)?),
            2 => Change::Adopted { keep: Wire::take(&mut reader)?, entries: reader.u64()? },
            3 => return Ok(Change::Appended(record.slice(1..))),
            4 => Change::Decided(Wire::take(&mut reader)?),
            5 => Change::Restarted(Wire::take(&mut reader)?),
            _ => return Err(Malformed("tag of a change")),
        };
        if reader.is_empty() { Ok(change) } else { Err(Malformed("length of a change")) }
    }
}

/// What a stream with a disk keeps beside its state.
///
/// Invariants: `synced <= made`; `vote` and `decided.1` never exceed what the changes up to `synced` say.
#[derive(Debug, Default)]
pub struct Durable {
    /// Made, and not taken by the host.
    pub changes: Vec<Change>,
    /// How many changes this life has made.
    pub made: u64,
    /// How many of them are on disk.
    pub synced: u64,
    /// Where the log ended after which change, since it was accepted under its present ballot.
    pub ends: VecDeque<(u64, EntryIndex)>,
    /// The part of the log that is on disk, and accepted under its present ballot there: what a leader has its own vote for.
    pub vote: EntryIndex,
    /// What was last written to be decided, after which change; and what is on disk of it.
    pub decided: ((u64, EntryIndex), EntryIndex),
    /// Since when more is.
    pub unwritten_since: Option<Nanos>,
    /// More was known to be decided when this was last told than was told.
    pub owes_word: bool,
}

impl Durable {
    /// Another life begins, and says so first.
    pub fn begin() -> Durable {
        let mut durable = Durable::default();
        durable.record(Change::Began);
        durable
    }

    /// A change is made.
    pub fn record(&mut self, change: Change) {
        self.made += 1;
        self.changes.push(change);
    }
}

wire! {
    /// A stream's state between two of its changes, without its entries: where recovery can begin, once the entries up to `last` are
    /// decided and their effects are kept elsewhere, in a checkpoint.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RecoveryPoint: "recovery point" where RecoveryPoint::is_sound {
        pub promised: Ballot,
        /// Under which ballot the log was accepted.
        pub accepted: Ballot,
        /// The last entry of the log then. It need not have been decided then, and may have been replaced later; what matters is that
        /// it is decided by the time that this point is used.
        pub last: EntryIndex,
    }
}

impl RecoveryPoint {
    /// Nothing was accepted that had not been promised.
    fn is_sound(&self) -> bool {
        self.accepted <= self.promised
    }
}

/// What a crash left: the state that the changes on disk lead to.
///
/// Invariant: `log.last() == max(last, base)`. Entries up to `base` are decided, whatever the changes say of them, and not held.
#[derive(Debug)]
pub struct Recovered {
    pub(super) promised: Ballot,
    pub(super) accepted: Ballot,
    pub(super) log: Log,
    pub(super) decided: EntryIndex,
    /// Everything up to here is in the checkpoint from which recovery began, or in a copied state.
    base: EntryIndex,
    /// Where the log ends by the changes so far: below `base` while they speak of what is in the checkpoint.
    last: EntryIndex,
    /// An adoption whose entries have not all come: what it keeps, and how many more.
    adopting: Option<(EntryIndex, u64, Vec<Bytes>)>,
}

impl Default for Recovered {
    fn default() -> Recovered {
        Recovered::begin(RecoveryPoint::default())
    }
}

impl Recovered {
    /// Begins where the changes that follow were not made yet.
    pub fn begin(at: RecoveryPoint) -> Recovered {
        Recovered {
            promised: at.promised,
            accepted: at.accepted,
            log: Log::after(at.last),
            decided: at.last,
            base: at.last,
            last: at.last,
            adopting: None,
        }
    }

    /// Applies the next change.
    ///
    /// # Errors
    /// If it does not fit to those before: then the records are not what this stream wrote.
    pub fn apply(&mut self, change: Change) -> Result<(), Malformed> {
        let check = |good: bool, what: &'static str| if good { Ok(()) } else { Err(Malformed(what)) };
        if !matches!(change, Change::Appended(_) | Change::Began) {
            check(self.adopting.is_none(), "an adoption that is not whole")?;
        }
        match change {
            Change::Began => self.adopting = None,
            Change::Promised(ballot) => {
                check(ballot > self.promised, "a promise that goes back")?;
                self.promised = ballot;
            }
            Change::Adopted { keep, entries } => {
                // What is in the checkpoint may be replaced here: it was not decided yet.
                let fits = keep <= self.last && (keep >= self.decided || keep < self.base);
                check(fits, "an adoption that leaves a hole")?;
                self.adopting = Some((keep, entries, Vec::new()));
                self.adopt_if_whole();
            }
            Change::Appended(entry) => match &mut self.adopting {
                Some((_, _, collected)) => {
                    collected.push(entry);
                    self.adopt_if_whole();
                }
                None => self.append(entry),
            },
            Change::Decided(upto) => {
                check(upto >= self.decided || upto <= self.base, "decided what is known already")?;
                check(upto <= self.last, "decided what is not held")?;
                self.decided = self.decided.max(upto);
            }
            Change::Restarted(base) => {
                check(base >= self.decided || base <= self.base, "a copy from before what was decided")?;
                if base > self.base {
                    if base < self.last {
                        self.log.trim(base, 0);
                    } else {
                        self.log = Log::after(base);
                    }
                    (self.base, self.decided) = (base, base);
                }
                self.last = self.last.max(base);
            }
        }
        debug_assert_eq!(self.log.last(), self.last.max(self.base), "what is held ends where the log does");
        Ok(())
    }

    fn append(&mut self, entry: Bytes) {
        self.last = self.last.next();
        if self.last > self.base {
            self.log.append(entry);
        }
    }

    fn adopt_if_whole(&mut self) {
        let whole = |(_, entries, collected): &mut (EntryIndex, u64, Vec<Bytes>)| {
            collected.len() as u64 == *entries || planted!(HalfRecovered)
        };
        if let Some((keep, _, entries)) = self.adopting.take_if(whole) {
            self.log.truncate(keep.max(self.base));
            self.last = keep;
            entries.into_iter().for_each(|entry| self.append(entry));
            self.accepted = self.promised;
        }
    }

    /// Somebody else kept that everything up to here is decided: the checkpoint from which recovery began.
    ///
    /// # Errors
    /// If the log does not go so far.
    pub fn know_decided(&mut self, upto: EntryIndex) -> Result<(), Malformed> {
        if upto > self.last || self.last < self.base {
            return Err(Malformed("a log that lacks what its checkpoint says is decided"));
        }
        self.decided = self.decided.max(upto);
        Ok(())
    }

    pub fn promised(&self) -> Ballot {
        self.promised
    }

    /// Under which ballot the log was accepted.
    pub fn accepted(&self) -> Ballot {
        self.accepted
    }

    /// How far it is known to be decided.
    pub fn decided(&self) -> EntryIndex {
        self.decided
    }

    /// The entries that are held.
    pub fn log(&self) -> &Log {
        &self.log
    }

    fn tail(&self) -> Tail {
        let (first, last) = (self.log.first(), self.log.last());
        Tail { accepted: self.accepted, first, last, decided: self.decided }
    }

    /// How this log becomes the best of all these: what it keeps, and what others have behind that, as far as they lead without a gap.
    /// The best one is the one that a takeover would choose, and its parts are had as there ([`takeover`](super::takeover)).
    fn way_to_best<'a>(&self, others: &[&'a Recovered]) -> (Tail, EntryIndex, Vec<&'a Bytes>) {
        let tails = others.iter().map(|other| other.tail()).chain([self.tail()]);
        let best = tails.max_by_key(Tail::rank).expect("the own log is one");
        let of = |log: &Recovered| Part::of(best.accepted.node, &log.tail(), &best);
        let (keep, mut entries) = (of(self).last, Vec::new());
        let mut next = keep.next();
        while let Some((part, other)) =
            others.iter().map(|other| (of(other), other)).find(|(part, _)| part.has(next))
        {
            let indexes = (next.0..=part.last.0).map(EntryIndex);
            entries.extend(indexes.map(|index| other.log.get(index).expect("it is held")));
            next = part.last.next();
        }
        (best, keep, entries)
    }

    /// Whether all these logs together lead from here to the end of the best one.
    pub fn reaches_best(&self, others: &[&Recovered]) -> bool {
        let (best, keep, entries) = self.way_to_best(others);
        keep.0 + entries.len() as u64 == best.last.0
    }

    /// Becomes the best of all these logs, as far as they lead there. Whether that was another one than this.
    ///
    /// If there is a gap, this log ends in front of it, though it may go on by itself: that was accepted under an older ballot, and nobody
    /// can tell whether it was overruled.
    pub fn take_best(&mut self, others: &[&Recovered]) -> bool {
        let (best, keep, entries) = self.way_to_best(others);
        let own = best.rank() == self.tail().rank();
        let known = others.iter().map(|other| other.decided).max().unwrap_or_default();
        if !own && best.last >= self.decided {
            self.log.truncate(keep);
            entries.into_iter().for_each(|entry| self.log.append(entry.clone()));
            (self.accepted, self.last) = (best.accepted, self.log.last());
            self.promised = self.promised.max(best.accepted);
        }
        self.decided = self.decided.max(known.min(self.log.last()));
        !own
    }

    /// Where a later recovery could begin: behind the changes so far. Not in the middle of an adoption.
    pub fn recovery_point(&self) -> Option<RecoveryPoint> {
        let point = RecoveryPoint { promised: self.promised, accepted: self.accepted, last: self.last };
        (self.adopting.is_none() && self.last >= self.base).then_some(point)
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::{Epoch, NodeId};

    use super::*;

    fn ballot(epoch: u64) -> Ballot {
        Ballot { epoch: Epoch(epoch), node: NodeId(1) }
    }

    fn entry(of: &'static str) -> Change {
        Change::Appended(Bytes::from_static(of.as_bytes()))
    }

    fn recovered(changes: &[Change]) -> Result<Recovered, Malformed> {
        let mut recovered = Recovered::default();
        for change in changes {
            let (head, body) = change.encode();
            let record = Bytes::from([head, body].concat());
            recovered.apply(Change::decode(&record)?)?;
        }
        Ok(recovered)
    }

    fn log(recovered: &Recovered) -> Vec<&[u8]> {
        let log = &recovered.log;
        (log.first().0..=log.last().0).map(|at| log.get(EntryIndex(at)).unwrap().as_ref()).collect()
    }

    #[test]
    fn an_adoption_without_all_of_its_entries_never_happened() {
        let adopted = Change::Adopted { keep: EntryIndex(1), entries: 2 };
        let mut changes = vec![
            Change::Began,
            Change::Promised(ballot(1)),
            Change::Adopted { keep: EntryIndex::NONE, entries: 0 },
            entry("a"),
            entry("b"),
            Change::Decided(EntryIndex(1)),
            Change::Promised(ballot(2)),
            adopted,
            entry("c"),
        ];
        let half = recovered(&changes).unwrap();
        assert_eq!(
            (log(&half), half.accepted, half.promised),
            (vec![b"a".as_ref(), b"b"], ballot(1), ballot(2))
        );
        let mut crashed = changes.clone();
        crashed.extend([Change::Began, entry("x")]);
        assert_eq!(
            log(&recovered(&crashed).unwrap()),
            [b"a".as_ref(), b"b", b"x"],
            "another life goes on without it"
        );
        changes.push(entry("d"));
        let whole = recovered(&changes).unwrap();
        assert_eq!((log(&whole), whole.accepted), (vec![b"a".as_ref(), b"c", b"d"], ballot(2)));
    }

    #[test]
    fn records_that_do_not_fit_are_refused() {
        let began = [Change::Began, Change::Promised(ballot(2)), entry("a"), entry("b")];
        for wrong in [
            Change::Promised(ballot(1)),
            Change::Adopted { keep: EntryIndex(3), entries: 0 },
            Change::Decided(EntryIndex(3)),
        ] {
            let changes: Vec<Change> = began.iter().cloned().chain([wrong]).collect();
            assert!(recovered(&changes).is_err(), "{changes:?}");
        }
        let copied = [Change::Decided(EntryIndex(2)), Change::Restarted(EntryIndex(1))];
        assert!(recovered(&[&began[..], &copied[..]].concat()).is_err());
        for garbage in [&b""[..], b"\x07", b"\x01", b"\x04\x01", b"\x00\x00"] {
            assert!(Change::decode(&Bytes::copy_from_slice(garbage)).is_err());
        }
    }

    #[test]
    fn a_copied_state_takes_the_place_of_what_was_before() {
        let changes = [entry("a"), entry("b"), entry("c"), Change::Restarted(EntryIndex(2))];
        let one = recovered(&changes).unwrap();
        assert_eq!((log(&one), one.decided), (vec![b"c".as_ref()], EntryIndex(2)));
        let far =
            recovered(&[&changes[..], &[Change::Restarted(EntryIndex(9)), entry("j")]].concat()).unwrap();
        assert_eq!(
            (log(&far), far.log.first(), far.decided),
            (vec![b"j".as_ref()], EntryIndex(10), EntryIndex(9))
        );
    }

    #[test]
    fn what_a_checkpoint_holds_may_be_replaced_in_the_changes_behind_its_point() {
        // When the point was taken the log had three entries, of which two were replaced later: four by then, all in the checkpoint.
        let point = RecoveryPoint { promised: ballot(1), accepted: ballot(1), last: EntryIndex(3) };
        let changes = [
            Change::Began,
            Change::Promised(ballot(2)),
            Change::Adopted { keep: EntryIndex(1), entries: 1 },
            entry("B"),
            Change::Decided(EntryIndex(2)),
            entry("C"),
            entry("D"),
            entry("E"),
            Change::Decided(EntryIndex(4)),
        ];
        let mut recovered = Recovered::begin(point);
        for change in changes.clone() {
            recovered.apply(change).unwrap();
        }
        assert_eq!(log(&recovered), [b"D".as_ref(), b"E"]);
        assert_eq!((recovered.accepted, recovered.decided), (ballot(2), EntryIndex(4)));
        assert!(
            recovered.know_decided(EntryIndex(5)).is_ok() && recovered.know_decided(EntryIndex(6)).is_err()
        );
        let mut torn = Recovered::begin(point);
        changes[..4].iter().cloned().for_each(|change| torn.apply(change).unwrap());
        assert!(torn.know_decided(EntryIndex(2)).is_err(), "it does not reach what is in the checkpoint");
        let mut bytes = Vec::new();
        point.encode(&mut bytes);
        assert_eq!(RecoveryPoint::decode(&mut Reader::new(&bytes)), Ok(point));
        assert!(RecoveryPoint::decode(&mut Reader::new(&bytes[1..])).is_err());
    }
}
