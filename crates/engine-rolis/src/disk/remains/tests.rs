use std::sync::Arc;

use highwater_consensus::{Change, Members, RecoveryPoint};
use highwater_core::log::{Claim, ENTRY_HEADER_BYTES, EntryHeader, EntryKind, Key, TxWriter};
use highwater_core::{
    Ballot, Incarnation, IndexKind, KeyKind, Level, NodeId, Schema, StreamId, TableId, TableSpec,
};
use highwater_store::{Applier, Store};

use super::*;

const TABLE: TableId = TableId(0);

fn store() -> Arc<Store> {
    Store::new(Schema::new(vec![TableSpec { name: "rows", keys: KeyKind::U64, index: IndexKind::Hash }]))
}

fn voter(node: u8) -> Voter {
    Voter { node: NodeId(node), incarnation: Incarnation(7) }
}

fn ballot(epoch: u64) -> Ballot {
    Ballot { epoch: Epoch(epoch), node: NodeId(1) }
}

/// An entry with these transactions, each of which puts its own timestamp at the key.
fn batch(
    stream: u16,
    epoch: u64,
    index: u64,
    txs: &[(u64, u64)],
    closed: u64,
    claims: &[(u16, u64)],
) -> Bytes {
    let mut writer = TxWriter::new(vec![0; ENTRY_HEADER_BYTES]);
    for (ts, key) in txs {
        writer.begin();
        writer.put(TABLE, Key::U64(*key), &ts.to_le_bytes());
        writer.commit(Timestamp(*ts));
    }
    let mut bytes = writer.take(Vec::new());
    let first = txs.first().map_or(closed, |(ts, _)| *ts);
    let last = txs.last().map_or(closed, |(ts, _)| *ts);
    let header = EntryHeader {
        kind: EntryKind::Batch,
        level: Level::FIRST,
        stream: StreamId(stream),
        epoch: Epoch(epoch),
        index: EntryIndex(index),
        first_ts: Timestamp(first),
        last_ts: Timestamp(last),
        closed_ts: Timestamp(closed),
        count: txs.len() as u32,
        body_len: 0,
        claims: 0,
    };
    let claims: Vec<Claim> = claims
        .iter()
        .map(|(stream, index)| Claim { stream: StreamId(*stream), index: EntryIndex(*index) })
        .collect();
    header.seal(&mut bytes, &claims);
    bytes.into()
}

/// The first entry of an epoch.
fn change(stream: u16, epoch: u64, index: u64, base: u64) -> Bytes {
    let mut bytes = vec![0; ENTRY_HEADER_BYTES];
    Members::new(Epoch(epoch), vec![voter(0), voter(1)]).encode(&mut bytes);
    let base = Timestamp(base);
    let header = EntryHeader::without_transactions(
        EntryKind::EpochChange,
        Level::FIRST,
        StreamId(stream),
        Epoch(epoch),
        EntryIndex(index),
        base,
    );
    header.seal(&mut bytes, &[]);
    bytes.into()
}

fn give(remains: &mut Remains, stream: usize, change: &Change) {
    let (head, body) = change.encode();
    remains.take(stream, Bytes::from([head, body].concat())).unwrap();
}

/// A disk with these logs, accepted under `accepted`; so many entries of each are known to be decided.
fn disk(accepted: u64, logs: [Vec<Bytes>; 2], decided: [u64; 2]) -> Remains {
    let mut remains = Remains::new(2, None).unwrap();
    for (stream, (log, decided)) in logs.into_iter().zip(decided).enumerate() {
        give(&mut remains, stream, &Change::Promised(ballot(accepted)));
        give(&mut remains, stream, &Change::Adopted { keep: EntryIndex::NONE, entries: 0 });
        log.into_iter().for_each(|entry| give(&mut remains, stream, &Change::Appended(entry)));
        give(&mut remains, stream, &Change::Decided(EntryIndex(decided)));
    }
    remains.finish().unwrap();
    remains
}

/// What the keys 1, 2, .. hold at a moment.
fn rows(remains: &Remains, trust: Trust, moment: u64) -> Vec<u64> {
    let reading = remains.read(trust).unwrap();
    let store = store();
    let mut applier = Applier::new(store.clone());
    for stream in 0..2 {
        reading.install(StreamId(stream), &mut applier, Timestamp(moment)).unwrap();
    }
    let read = |key: u64| {
        use highwater_core::View;
        let value = store.get(TABLE, &key.to_be_bytes())?;
        Some(u64::from_le_bytes(value[..].try_into().unwrap()))
    };
    (1..5).filter_map(read).collect()
}

/// Two streams; in stream 1 the epoch ends before what stream 0 has above 30.
fn two_epochs() -> [Vec<Bytes>; 2] {
    [
        vec![
            change(0, 1, 1, 1),
            batch(0, 1, 2, &[(10, 1), (20, 1)], 25, &[]),
            batch(0, 1, 3, &[(28, 2), (35, 2)], 40, &[]),
            change(0, 2, 4, 50),
            batch(0, 2, 5, &[(60, 3)], 65, &[(1, 4)]),
        ],
        vec![
            change(1, 1, 1, 1),
            batch(1, 1, 2, &[(15, 4)], 18, &[]),
            batch(1, 1, 3, &[], 30, &[]),
            change(1, 2, 4, 50),
        ],
    ]
}

#[test]
fn a_moment_holds_what_was_at_or_below_it_and_nothing_that_was_rolled_back() {
    let remains = disk(2, two_epochs(), [5, 4]);
    let reading = remains.read(Trust::Decided).unwrap();
    assert_eq!((reading.earliest(), reading.latest()), (Timestamp(1), Timestamp(65)), "by a claim");
    assert_eq!(rows(&remains, Trust::Decided, 65), [20, 28, 60, 15], "35 is above the final mark");
    assert_eq!(rows(&remains, Trust::Decided, 59), [20, 28, 15]);
    assert_eq!(rows(&remains, Trust::Decided, 28), [20, 28, 15]);
    assert_eq!(rows(&remains, Trust::Decided, 19), [10, 15]);
    assert_eq!(rows(&remains, Trust::Decided, 9), [0; 0]);
    assert_eq!(remains.members().unwrap().epoch, Epoch(2), "of a change in the log");
}

/// Only what is decided in every stream was surely made; until then both memberships have to agree.
#[test]
fn a_change_that_is_not_decided_everywhere_leaves_two_memberships_that_may_be_in_force() {
    let epochs = |decided| -> Vec<u64> {
        disk(2, two_epochs(), decided).memberships().iter().map(|members| members.epoch.0).collect()
    };
    assert_eq!(epochs([5, 4]), [2]);
    assert_eq!(epochs([4, 4]), [2]);
    assert_eq!(epochs([3, 4]), [1, 2], "stream 0 may never have got so far");
    assert_eq!(epochs([3, 3]), [1, 2]);
    assert_eq!(epochs([0, 1]), [1, 2], "nothing is known, so neither is left out");
}

#[test]
fn what_is_only_accepted_counts_if_nobody_can_overrule_it() {
    let remains = disk(2, two_epochs(), [2, 3]);
    assert_eq!(remains.read(Trust::Decided).unwrap().latest(), Timestamp(25));
    assert_eq!(rows(&remains, Trust::Decided, u64::MAX >> 2), [20, 15]);
    assert_eq!(remains.read(Trust::Accepted).unwrap().latest(), Timestamp(65));
    // A stream has entered an epoch that the other one has not: it is not over.
    let [first, mut second] = two_epochs();
    second.truncate(3);
    let half = disk(2, [first, second], [1, 1]);
    assert_eq!(half.read(Trust::Accepted).unwrap().latest(), Timestamp(30));
    assert_eq!(rows(&half, Trust::Accepted, u64::MAX >> 2), [20, 28, 15]);
}

/// A disk whose checkpoint is of `epoch` and holds everything at or below `floor`; its logs begin behind `last`.
fn behind_a_checkpoint(epoch: u64, floor: u64, last: [u64; 2], logs: [Vec<Bytes>; 2]) -> Remains {
    let accepted = ballot(logs.iter().flatten().map(epoch_of).max().unwrap_or_default().max(epoch));
    let stream = |last: &u64| StreamStart {
        start: EntryIndex(last + 1),
        point: RecoveryPoint { promised: accepted, accepted, last: EntryIndex(*last) },
        decided: EntryIndex(*last),
    };
    let members = Members::new(Epoch(epoch), vec![voter(0), voter(1)]);
    let contents = Contents { epoch: Epoch(epoch), members, streams: last.iter().map(stream).collect() };
    let positions = [highwater_seam::LogPosition(0); 3];
    let (floor, engine) = (Timestamp(floor), contents.encode());
    let resume = Resume { floor, complete_at: floor, engine: &engine, positions: &positions };
    let mut remains = Remains::new(2, Some(resume)).unwrap();
    for (stream, log) in logs.into_iter().enumerate() {
        log.into_iter().for_each(|entry| give(&mut remains, stream, &Change::Appended(entry)));
    }
    remains.finish().unwrap();
    remains
}

fn epoch_of(entry: &Bytes) -> u64 {
    EntryHeader::open(entry, true).unwrap().header.epoch.0
}

fn take(one: &mut Remains, others: &[&Remains]) -> (usize, usize) {
    let Taken { better, short } = one.take_best(others);
    (better, short)
}

#[test]
fn the_best_log_of_each_stream_is_taken() {
    let [long, short] = [two_epochs(), two_epochs()];
    let mut one = disk(2, [long[0].clone(), short[1][..2].to_vec()], [3, 2]);
    let other = disk(2, [long[0][..4].to_vec(), short[1].clone()], [3, 2]);
    assert_eq!(take(&mut one, &[&other]), (1, 0), "of stream 1");
    assert_eq!(one.read(Trust::Accepted).unwrap().latest(), Timestamp(65));
    // A longer log of an older ballot is none.
    let mut newer = disk(3, [long[0][..2].to_vec(), short[1][..2].to_vec()], [1, 1]);
    let mut older = disk(2, two_epochs(), [1, 1]);
    assert_eq!(take(&mut newer, &[&older]), (0, 0));
    assert_eq!(take(&mut older, &[&newer]), (2, 0), "the shorter one was accepted later");
    assert_eq!(older.entries()[0].0, EntryIndex(2));
}

/// A deposed leader went on by itself, up to timestamps that the cluster has not reached (its clock was ahead). The other disk's logs begin
/// behind a checkpoint, so they did not fit behind what the first one knew to be decided: what was overruled was recovered, and what was
/// acknowledged since was not.
#[test]
fn who_holds_most_is_not_the_best_if_that_was_overruled() {
    let deposed = disk(
        1,
        [
            vec![
                change(0, 1, 1, 1),
                batch(0, 1, 2, &[(10, 1)], 20, &[]),
                batch(0, 1, 3, &[(900, 2)], 1000, &[]),
            ],
            vec![change(1, 1, 1, 1), batch(1, 1, 2, &[], 20, &[]), batch(1, 1, 3, &[], 1000, &[])],
        ],
        [1, 1],
    );
    let rest = [vec![batch(0, 2, 5, &[(70, 3)], 80, &[])], vec![batch(1, 2, 5, &[], 80, &[])]];
    let other = behind_a_checkpoint(2, 60, [4, 4], rest);
    let held = |disk: &Remains| disk.read(Trust::Accepted).unwrap().latest();
    assert_eq!((held(&deposed), held(&other)), (Timestamp(1000), Timestamp(80)));
    let disks = [(&deposed, held(&deposed)), (&other, held(&other))];
    assert_eq!(Remains::best(disks), Some(1));
    let mut other = other;
    assert_eq!(take(&mut other, &[&deposed]), (0, 0));
    assert_eq!(held(&other), Timestamp(80));
}

/// Of two disks each has more of one stream, and neither knows that what both hold is decided.
#[test]
fn logs_that_were_accepted_under_one_ballot_fit_wherever_they_begin() {
    let [first, second] = two_epochs();
    let mut one = disk(2, [first.clone(), second[..3].to_vec()], [4, 1]);
    let other = behind_a_checkpoint(1, 18, [2, 2], [first[2..4].to_vec(), second[2..].to_vec()]);
    assert_eq!(
        take(&mut one, &[&other]),
        (1, 0),
        "its log of stream 1 begins behind entry 1, the last that is surely decided here"
    );
    assert_eq!(one.read(Trust::Accepted).unwrap().latest(), Timestamp(65));
}

#[test]
fn the_best_log_may_be_in_parts_and_have_a_gap() {
    let [first, second] = two_epochs();
    let old = || disk(1, [first[..3].to_vec(), second[..3].to_vec()], [1, 3]);
    let end = behind_a_checkpoint(2, 50, [4, 4], [first[4..].to_vec(), Vec::new()]);
    let middle = disk(2, [first[..4].to_vec(), second.clone()], [4, 4]);
    let mut whole = old();
    assert_eq!(take(&mut whole, &[&end, &middle]), (2, 0));
    assert_eq!(whole.read(Trust::Accepted).unwrap().latest(), Timestamp(65));
    // Without the middle nobody can tell which of its own entries were overruled.
    let mut gap = old();
    assert_eq!(take(&mut gap, &[&end]), (2, 2));
    assert_eq!(gap.entries().iter().map(|(last, _)| last.0).collect::<Vec<_>>(), [1, 3]);
    let held = |disk: &Remains| disk.read(Trust::Accepted).unwrap().latest();
    let old = old();
    assert_eq!(
        Remains::best([(&old, held(&old)), (&end, held(&end))]),
        Some(1),
        "the checkpoint is of later"
    );
}

/// As an older build wrote it: stream 0 ends epoch 1 at entry 2, of an epoch that never opened and whose base is below the floor.
#[test]
fn a_checkpoint_that_goes_on_behind_the_end_of_its_epoch_is_refused() {
    let start = |start: u64, last: u64| StreamStart {
        start: EntryIndex(start),
        point: RecoveryPoint { promised: ballot(1), accepted: ballot(1), last: EntryIndex(last) },
        decided: EntryIndex(start - 1),
    };
    let members = Members::new(Epoch(1), vec![voter(0), voter(1)]);
    for (at, refused) in [(3, true), (2, false)] {
        let streams = vec![start(at, 1), start(2, 1)];
        let engine = Contents { epoch: Epoch(1), members: members.clone(), streams }.encode();
        let positions = [highwater_seam::LogPosition(0); 3];
        let floor = Timestamp(30);
        let resume = Resume { floor, complete_at: floor, engine: &engine, positions: &positions };
        let mut remains = Remains::new(2, Some(resume)).unwrap();
        give(&mut remains, 0, &Change::Appended(change(0, 3, 2, 15)));
        assert_eq!(remains.finish().is_err_and(|why| why.contains("behind the end of its epoch")), refused);
    }
}

#[test]
fn records_that_are_none_are_refused() {
    let mut remains = Remains::new(2, None).unwrap();
    assert!(remains.take(0, Bytes::from_static(b"\x09")).unwrap_err().contains("does not fit"));
    assert!(remains.take(2, Bytes::from_static(b"\x09")).is_err());
    assert!(remains.take(2, Moment { unix_ms: 5, mark: Timestamp(6) }.record()).is_ok());
    assert_eq!(remains.moments(), [Moment { unix_ms: 5, mark: Timestamp(6) }]);
    let mut spoiled = batch(0, 1, 2, &[(10, 1)], 25, &[]).to_vec();
    spoiled[70] ^= 1;
    let [mut first, second] = two_epochs();
    first[1] = spoiled.into();
    assert!(disk(2, [first, second], [5, 4]).read(Trust::Decided).err().unwrap().contains("damaged"));
}

#[test]
fn a_new_cluster_begins_with_a_membership_that_is_known_to_all_its_voters() {
    let (words, records) = founding(2, vec![voter(0), voter(2)], Timestamp(9));
    let contents = Contents::decode(&words).unwrap();
    assert_eq!((contents.epoch, contents.streams.len()), (Epoch(0), 2));
    let positions = [highwater_seam::LogPosition(0); 3];
    let with = |complete_at| {
        let complete_at = Timestamp(complete_at);
        let resume = Resume { floor: complete_at, complete_at, engine: &words, positions: &positions };
        Remains::new(2, Some(resume)).unwrap()
    };
    let mut remains = with(9);
    records.iter().for_each(|record| remains.take(2, record.clone()).unwrap());
    remains.finish().unwrap();
    assert_eq!(remains.members(), Some(contents.members.clone()));
    assert_eq!(remains.read(Trust::Decided).unwrap().latest(), Timestamp(9));
    // Without the state that it stands on it is nothing.
    for mut lacking in [with(8), Remains::new(2, None).unwrap()] {
        assert!(lacking.take(2, records[0].clone()).unwrap_err().contains("that holds that is missing"));
    }
}

#[test]
fn reading_may_end_once_a_moment_is_reached() {
    let remains = disk(2, two_epochs(), [5, 4]);
    assert!(remains.reaches(Timestamp(65)) && !remains.reaches(Timestamp(66)));
    assert!(!disk(2, two_epochs(), [3, 2]).reaches(Timestamp(30)));
}
