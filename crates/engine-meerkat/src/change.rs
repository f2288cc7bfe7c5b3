//! What a change of epoch decides: who takes part from then on, and what became of every transaction of the epoch before.

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Epoch, Incarnation, NodeId, Timestamp};
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::record::Told;

/// Who takes part in an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// They validate, and coordinate.
    pub voters: Vec<(NodeId, Incarnation)>,
    /// They hear outcomes while they copy the state.
    pub learners: Vec<(NodeId, Incarnation)>,
    /// They take no part, and have a say in what epoch comes next like all others: their memory is whole, and they have found nothing
    /// valid and accepted nothing in this epoch. So a voter that was left behind does not count as lost.
    pub silent: Vec<(NodeId, Incarnation)>,
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

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub ts: Timestamp,
    /// It committed.
    pub commit: bool,
    /// What it read and wrote, if it committed.
    pub payload: Option<Payload>,
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

/// Set in the count of workers: a cut follows.
const CUT: u16 = 1 << 15;

/// `count u8, each: node u8, life u64`.
pub fn put_members(out: &mut Vec<u8>, members: &[(NodeId, Incarnation)]) {
    out.push(members.len() as u8);
    for (node, life) in members {
        out.push(node.0);
        out.extend_from_slice(&life.0.to_le_bytes());
    }
}

/// Reads what [`put_members`] wrote.
pub fn take_members(reader: &mut Reader<'_>) -> Result<Vec<(NodeId, Incarnation)>, Malformed> {
    let count = reader.u8()?;
    (0..count).map(|_| Ok((NodeId(reader.u8()?), Incarnation(reader.u64()?)))).collect()
}

fn put_payload(out: &mut Vec<u8>, payload: Option<&Payload>) {
    // A payload has 4 bytes at least.
    out.extend_from_slice(&payload.map_or(0, |payload| payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload.map_or(&[], |payload| payload.bytes()));
}

fn take_payload(whole: &Bytes, reader: &mut Reader<'_>) -> Result<Option<Payload>, Malformed> {
    let len = reader.u32()? as usize;
    let at = whole.len() - reader.rest().len();
    reader.take(len)?;
    (len > 0).then(|| Payload::parse(whole.slice(at..at + len))).transpose()
}

impl Change {
    /// How long it is, about.
    pub fn bytes(&self) -> usize {
        let of = |ended: &Ended| 16 + ended.payload.as_ref().map_or(0, Payload::len);
        self.ended.iter().flatten().map(of).sum()
    }

    /// `epoch u64 | base u64 | voters | learners | silent | workers u16, bit 15: a cut | cut u64, if there is one | each: count u32, each: ts u64, commit u8, payload (u32 length)`;
    /// members are `count u8, each: node u8, life u64`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        out.extend_from_slice(&self.base.0.to_le_bytes());
        put_members(out, &self.members.voters);
        put_members(out, &self.members.learners);
        put_members(out, &self.members.silent);
        let flag = if self.cut.is_some() { CUT } else { 0 };
        out.extend_from_slice(&(self.ended.len() as u16 | flag).to_le_bytes());
        self.cut.iter().for_each(|cut| out.extend_from_slice(&cut.0.to_le_bytes()));
        self.ended.iter().for_each(|ended| put_ended(out, ended));
    }

    /// Reads what [`encode`](Change::encode) wrote; `reader` stands in `whole`.
    pub fn decode(whole: &Bytes, reader: &mut Reader<'_>) -> Result<Change, Malformed> {
        let (epoch, base) = (Epoch(reader.u64()?), Timestamp(reader.u64()?));
        let (voters, learners) = (take_members(reader)?, take_members(reader)?);
        let members = Members { voters, learners, silent: take_members(reader)? };
        let workers = reader.u16()?;
        let cut = if workers & CUT == 0 { None } else { Some(Timestamp(reader.u64()?)) };
        let mut ended = Vec::new();
        for _ in 0..workers & !CUT {
            ended.push(take_ended(whole, reader)?);
        }
        Ok(Change { epoch, base, members, ended, cut })
    }
}

/// Appends what became of transactions: `count u32, each: ts u64, commit u8, payload (u32 length)`.
pub fn put_ended(out: &mut Vec<u8>, ended: &[Ended]) {
    out.extend_from_slice(&(ended.len() as u32).to_le_bytes());
    for Ended { ts, commit, payload } in ended {
        out.extend_from_slice(&ts.0.to_le_bytes());
        out.push((*commit).into());
        put_payload(out, payload.as_ref());
    }
}

/// Reads what [`put_ended`] wrote.
pub fn take_ended(whole: &Bytes, reader: &mut Reader<'_>) -> Result<Vec<Ended>, Malformed> {
    let count = reader.u32()?;
    let mut all = Vec::new();
    for _ in 0..count {
        let (ts, commit) = (Timestamp(reader.u64()?), reader.u8()? != 0);
        all.push(Ended { ts, commit, payload: take_payload(whole, reader)? });
    }
    Ok(all)
}

/// Appends the records of one worker: `count u32, each: ts u64 | flags u8 | view u32 | payload`.
pub fn put_records(out: &mut Vec<u8>, records: &[Told]) {
    let two = |what: Option<bool>, bit: u8| what.map_or(0, |is| bit | if is { bit << 1 } else { 0 });
    out.extend_from_slice(&(records.len() as u32).to_le_bytes());
    for Told { ts, valid, accepted, outcome, payload, kept } in records {
        out.extend_from_slice(&ts.0.to_le_bytes());
        out.push(
            two(*valid, 1)
                | two(accepted.map(|(_, commit)| commit), 4)
                | two(*outcome, 16)
                | if *kept { 64 } else { 0 },
        );
        out.extend_from_slice(&accepted.map_or(0, |(view, _)| view).to_le_bytes());
        put_payload(out, payload.as_ref());
    }
}

/// Reads what [`put_records`] wrote.
pub fn take_records(whole: &Bytes, reader: &mut Reader<'_>) -> Result<Vec<Told>, Malformed> {
    let count = reader.u32()?;
    let mut all = Vec::new();
    for _ in 0..count {
        let (ts, flags, view) = (Timestamp(reader.u64()?), reader.u8()?, reader.u32()?);
        let two = |bit: u8| (flags & bit != 0).then_some(flags & bit << 1 != 0);
        let accepted = two(4).map(|commit| (view, commit));
        let payload = take_payload(whole, reader)?;
        let kept = flags & 64 != 0;
        all.push(Told { ts, valid: two(1), accepted, outcome: two(16), payload, kept });
    }
    Ok(all)
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
        change.encode(&mut bytes);
        let whole = Bytes::from(bytes);
        let mut reader = Reader::new(&whole);
        assert_eq!(Change::decode(&whole, &mut reader), Ok(change));
        assert!(reader.is_empty());
        for len in 0..whole.len() {
            let cut = whole.slice(..len);
            assert!(Change::decode(&cut, &mut Reader::new(&cut)).is_err());
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
        put_records(&mut bytes, &records);
        let whole = Bytes::from(bytes);
        assert_eq!(take_records(&whole, &mut Reader::new(&whole)), Ok(records));
    }
}
