//! What a change of epoch decides: who takes part from then on, and what became of every transaction of the epoch before.

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::wire::{Form, Kind, List, Wire};
use highwater_core::{Epoch, Incarnation, NodeId, Random, Timestamp, wire};
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::record::Told;

/// A node in one life of its memory.
pub type Life = (NodeId, Incarnation);

wire! {
    /// The lives of nodes that take part in an epoch.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Members: "members" {
        /// They validate, and coordinate.
        pub voters: Vec<Life> as List<u8>,
        /// They hear outcomes while they copy the state.
        pub learners: Vec<Life> as List<u8>,
        /// They take no part, and have a say in what epoch comes next like all others: their memory is whole, and they have found nothing
        /// valid and accepted nothing in this epoch. So a voter that was left behind does not count as lost.
        pub silent: Vec<Life> as List<u8>,
    }
}

wire! {
    /// A transaction that is over, and how it ended.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Ended: "ended" {
        pub ts: Timestamp,
        /// It committed.
        pub commit: bool,
        /// Its reads and writes, if it committed.
        pub payload: Option<Payload> as MaybePayload,
    }
}

impl Members {
    /// Whether a life of a node votes.
    pub fn has_voter(&self, who: (NodeId, Incarnation)) -> bool {
        self.voters.contains(&who)
    }

    /// Whether a life of a node takes part.
    pub fn has(&self, who: (NodeId, Incarnation)) -> bool {
        self.has_voter(who) || self.learners.contains(&who)
    }

    /// Whether a life of a node has a say in what epoch comes next: its memory goes back to the beginning of this one.
    pub fn has_say(&self, who: (NodeId, Incarnation)) -> bool {
        self.has(who) || self.silent.contains(&who)
    }

    /// All that have a say.
    pub fn all(&self) -> impl Iterator<Item = (NodeId, Incarnation)> + '_ {
        self.voters.iter().chain(&self.learners).chain(&self.silent).copied()
    }
}

/// A change of epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The epoch that begins.
    pub epoch: Epoch,
    /// No transaction of an earlier one is later.
    pub base: Timestamp,
    /// Who takes part.
    pub members: Members,
    /// Of each worker the transactions that may not have been over everywhere. Of those that are not named none committed.
    pub ended: Vec<Vec<Ended>>,
    /// No majority remembered everything: voters go on from what their disks have up to here, and what committed later is lost.
    pub cut: Option<Timestamp>,
}

/// A payload with its length in front; 0: there is none, for a payload has 4 bytes at least.
pub struct MaybePayload;

impl Form<Option<Payload>> for MaybePayload {
    fn put(payload: &Option<Payload>, out: &mut Vec<u8>) {
        (payload.as_ref().map_or(0, |payload| payload.len() as u32)).put(out);
        out.extend_from_slice(payload.as_ref().map_or(&[], |payload| payload.bytes()));
    }

    fn take(from: &mut Reader<'_>) -> Result<Option<Payload>, Malformed> {
        let len = u32::take(from)? as usize;
        let bytes = from.take(len)?;
        // In memory of its own: as a part of what arrived it would keep all of that.
        (len > 0).then(|| Payload::parse(Bytes::copy_from_slice(bytes))).transpose()
    }

    fn form() -> String {
        "u32 × byte (0: none)".into()
    }

    fn draw(random: &mut Random) -> Option<Payload> {
        let some = random.one_in(2);
        some.then(|| Payload::build(Timestamp::draw(random), (&[], 0), (&[], 0), &[]))
    }
}

/// A worker's knowledge of a transaction.
pub struct OfRecord;

impl Form<Told> for OfRecord {
    fn put(Told { ts, valid, accepted, outcome, payload, kept }: &Told, out: &mut Vec<u8>) {
        let two = |what: Option<bool>, bit: u8| what.map_or(0, |is| bit | if is { bit << 1 } else { 0 });
        ts.put(out);
        let proposed = accepted.map(|(_, commit)| commit);
        out.push(two(*valid, 1) | two(proposed, 4) | two(*outcome, 16) | if *kept { 64 } else { 0 });
        accepted.map_or(0, |(view, _)| view).put(out);
        MaybePayload::put(payload, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Told, Malformed> {
        let (ts, flags, view) = (Timestamp::take(from)?, from.u8()?, from.u32()?);
        let two = |bit: u8| (flags & bit != 0).then_some(flags & bit << 1 != 0);
        let accepted = two(4).map(|commit| (view, commit));
        let payload = MaybePayload::take(from)?;
        Ok(Told { ts, valid: two(1), accepted, outcome: two(16), payload, kept: flags & 64 != 0 })
    }

    fn form() -> String {
        "told".into()
    }

    fn draw(random: &mut Random) -> Told {
        Told {
            ts: Wire::draw(random),
            valid: Wire::draw(random),
            accepted: Wire::draw(random),
            outcome: Wire::draw(random),
            payload: MaybePayload::draw(random),
            kept: Wire::draw(random),
        }
    }
}

/// The same of each worker.
pub type OfWorkers = List<u16, List<u32, OfRecord>>;

/// Set in the count of workers: a cut follows.
const CUT: u16 = 1 << 15;

impl Wire for Change {
    const NAME: &'static str = "change";

    fn put(&self, out: &mut Vec<u8>) {
        self.epoch.put(out);
        self.base.put(out);
        self.members.put(out);
        let flag = if self.cut.is_some() { CUT } else { 0 };
        (self.ended.len() as u16 | flag).put(out);
        self.cut.iter().for_each(|cut| cut.put(out));
        self.ended.iter().for_each(|ended| List::<u32>::put(ended, out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Change, Malformed> {
        let (epoch, base, members) = (Wire::take(from)?, Wire::take(from)?, Wire::take(from)?);
        let workers = from.u16()?;
        let cut = (workers & CUT != 0).then(|| Timestamp::take(from)).transpose()?;
        let ended = (0..workers & !CUT).map(|_| List::<u32>::take(from)).collect::<Result<_, _>>()?;
        Ok(Change { epoch, base, members, ended, cut })
    }

    fn draw(random: &mut Random) -> Change {
        let (epoch, base, members) = (Wire::draw(random), Wire::draw(random), Wire::draw(random));
        let (ended, cut) = (List::<u16, List<u32>>::draw(random), Wire::draw(random));
        Change { epoch, base, members, ended, cut }
    }
}

impl Change {
    /// Its fields, as documents describe them.
    pub fn kinds() -> Vec<Kind> {
        let ended = <List<u32> as Form<Vec<Ended>>>::form();
        let fields = [
            ("epoch", Epoch::form()),
            ("base", Timestamp::form()),
            ("members", Members::form()),
            ("workers", "u16 (bit 15: a cut)".into()),
            ("cut", "u64, if there is one".into()),
            ("each", ended),
        ];
        vec![Kind::of("Change", fields)]
    }

    /// How long it is, about.
    pub fn bytes(&self) -> usize {
        let of = |ended: &Ended| 16 + ended.payload.as_ref().map_or(0, Payload::len);
        self.ended.iter().flatten().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_records_round_trip() {
        let payload = Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[]);
        let ended = vec![
            vec![Ended { ts: Timestamp(5), commit: true, payload: Some(payload.clone()) }],
            vec![],
            vec![Ended { ts: Timestamp(7), commit: false, payload: None }],
        ];
        let voters = vec![(NodeId(0), Incarnation(9)), (NodeId(2), Incarnation(8))];
        let silent = vec![(NodeId(4), Incarnation(9))];
        let members = Members { voters, learners: vec![(NodeId(1), Incarnation(7))], silent };
        let change =
            Change { epoch: Epoch(4), base: Timestamp(100), members, ended, cut: Some(Timestamp(90)) };
        let mut bytes = Vec::new();
        change.put(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Change::take(&mut reader), Ok(change));
        assert!(reader.is_empty());
        for len in 0..bytes.len() {
            assert!(Change::take(&mut Reader::new(&bytes[..len])).is_err());
        }
        let mut records = Vec::new();
        for valid in [None, Some(true), Some(false)] {
            for accepted in [None, Some((3, true)), Some((0, false))] {
                for outcome in [None, Some(true), Some(false)] {
                    let payload = valid.map(|_| payload.clone());
                    let kept = payload.is_none();
                    records.push(Told { ts: Timestamp(1), valid, accepted, outcome, payload, kept });
                }
            }
        }
        let mut bytes = Vec::new();
        List::<u32, OfRecord>::put(&records, &mut bytes);
        assert_eq!(List::<u32, OfRecord>::take(&mut Reader::new(&bytes)), Ok(records));
    }
}
