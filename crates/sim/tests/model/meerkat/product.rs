//! The product's own rules, asked by the model.

use std::ops::Bound;

use highwater_core::codec::{put_bytes, put_varint};
use highwater_core::log::{Key, TxWriter};
use highwater_core::{TableId, Timestamp};
use highwater_engine_meerkat::merge::merge;
use highwater_engine_meerkat::safe;
use highwater_kit::validation::own::{Decision, Phase, Tally};
use highwater_kit::validation::payload::{Payload, Read, put_bound, put_read, put_version};
use highwater_kit::validation::quorum::Quorums;
use highwater_kit::validation::record::Told;

use super::rules::Choices;
use super::*;

pub const TABLE: TableId = TableId(0);
pub const NAMES: [&[u8]; KEYS] = [b"x", b"y", b"z"];

/// What the mistake makes of the quorums of a cluster.
pub fn quorums(nodes: usize, strict: bool, mistake: Option<Mistake>) -> Quorums {
    let quorums = Quorums::of(nodes as u8);
    match mistake {
        Some(Mistake::LessThanAll) => quorums,
        _ if strict => quorums.unanimous(),
        _ => quorums,
    }
}

/// What these votes decide, whether more are expected or not.
pub fn decide(quorums: Quorums, yes: Set, no: Set, mistake: Option<Mistake>, choices: &mut Choices) {
    let fast = if mistake == Some(Mistake::MajorityIsFast) { quorums.majority } else { quorums.fast };
    let own = Tally { valid: yes.into(), invalid: no.into(), phase: Phase::Validating };
    for late in [false, true] {
        match own.decide(Quorums { fast, ..quorums }, late) {
            Decision::Wait => {}
            Decision::Settle { commit, .. } => choices.settles |= outcome::of(commit),
            Decision::Propose { commit } => choices.proposes |= outcome::of(commit),
        }
    }
    let early = quorums.all < no.count_ones() + 1 + quorums.shown_of_fast(quorums.majority);
    if mistake == Some(Mistake::RefusalsDecideEarly) && early {
        choices.settles |= outcome::ABORT;
    }
}

/// What a backup coordinator may propose by these promises.
pub fn proposal(bounds: &Bounds, promises: &[Option<Promised>; NODES], of: Set) -> Option<bool> {
    let quorums = quorums(bounds.nodes, bounds.strict, bounds.mistake);
    let promised = |node: usize| promises[node].expect("those that promised were chosen");
    let valid = members(of).filter(|node| promised(*node).0).fold(0, |all, node| all | bit(node));
    let accepted = members(of).filter_map(|node| promised(node).1);
    let accepted = accepted.max().map(|(view, commit)| (u32::from(view), commit));
    let rash = bounds.is(Mistake::BackupRash) && accepted.is_none() && of.count_ones() >= quorums.majority;
    if rash {
        return Some(valid.count_ones() == of.count_ones());
    }
    safe(quorums, of.into(), valid.into(), accepted)
}

/// What a transaction sends to the replicas.
pub fn payload(bounds: &Bounds, tx: usize, versions: [Ts; KEYS], as_of: Ts) -> Payload {
    let Intent { reads, writes, deletes, scans, .. } = bounds.intents[tx];
    let (mut section, mut scan) = (Vec::new(), Vec::new());
    let keys: Vec<usize> = members(reads).collect();
    let deleted = |key: usize| versions[key] > 0 && bounds.is_absent(versions[key], key);
    if scans && let [first, .., last] = keys[..] {
        assert_eq!(keys, (first..=last).collect::<Vec<_>>(), "a scan passes all between its ends");
        let seen: Vec<usize> = keys.iter().copied().filter(|key| versions[*key] > 0).collect();
        scan.push(TABLE.0);
        put_bound(&mut scan, Bound::Included(NAMES[first]));
        put_bound(&mut scan, Bound::Included(NAMES[last]));
        put_varint(&mut scan, seen.len() as u64);
        for key in seen {
            put_bytes(&mut scan, NAMES[key]);
            put_version(&mut scan, Timestamp(versions[key].into()), deleted(key));
        }
    } else {
        for key in &keys {
            let version = Timestamp(versions[*key].into());
            put_read(&mut section, Read { table: TABLE, key: NAMES[*key], version, deleted: false });
        }
    }
    let mut writer = TxWriter::new(Vec::new());
    if writes != 0 {
        writer.begin();
        for key in members(writes) {
            match deletes & bit(key) {
                0 => drop(writer.put(TABLE, Key::Bytes(NAMES[key]), b"v")),
                _ => drop(writer.delete(TABLE, Key::Bytes(NAMES[key]))),
            }
        }
        writer.commit(Timestamp(ts(tx).into()));
    }
    let points = if scan.is_empty() { keys.len() as u64 } else { 0 };
    let scans = u64::from(!scan.is_empty());
    Payload::build(Timestamp(as_of.into()), (&section, points), (&scan, scans), writer.bytes())
}

/// What a change of epoch decides by these records: rules 1 to 5.
pub fn merged(bounds: &Bounds, state: &State, replies: &[[Record; TXS]]) -> [Option<bool>; TXS] {
    let told = |(tx, record): (usize, &Record)| {
        let Record { vote, accepted, outcome, .. } = *record;
        let valid = (vote != Vote::None).then_some(vote == Vote::Yes);
        let knows = valid == Some(true) || outcome == Some(true);
        Told {
            ts: Timestamp(ts(tx).into()),
            valid,
            accepted: accepted.map(|(view, commit)| (view.into(), commit)),
            outcome,
            payload: knows.then(|| payload(bounds, tx, state.txs[tx].versions, state.txs[tx].as_of)),
            kept: false,
        }
    };
    let replies: Vec<Vec<Vec<Told>>> = replies
        .iter()
        .map(|records| {
            vec![records.iter().enumerate().filter(|(_, record)| record.known).map(told).collect()]
        })
        .collect();
    let replies: Vec<&[Vec<Told>]> = replies.iter().map(Vec::as_slice).collect();
    let ended = merge(quorums(bounds.nodes, bounds.strict, bounds.mistake), 1, &replies, &[]);
    let ended =
        ended.expect("somebody of every majority has what a transaction writes, and it has one outcome");
    let mut outcomes = [None; TXS];
    ended[0].iter().for_each(|ended| outcomes[ended.ts.0 as usize - 1] = Some(ended.commit));
    outcomes
}
