use highwater_consensus::{Members, Voter};
use highwater_core::{Incarnation, NodeId};

use super::*;

fn s(stream: u16) -> StreamId {
    StreamId(stream)
}

fn publish(watermark: &Watermark, stream: u16, decided: u64, closed: u64) {
    watermark.publish(s(stream), EntryIndex(decided), Timestamp(closed), false);
}

fn start(epoch: u64, index: u64, base: u64) -> Start {
    let voter = Voter { node: NodeId(0), incarnation: Incarnation(1) };
    let members = Members::new(Epoch(epoch), vec![voter]);
    Start { epoch: Epoch(epoch), index: EntryIndex(index), base: Timestamp(base), members }
}

fn arrival(epoch: u64, index: u64, base: u64, claims: Vec<OpenClaim>) -> Arrival {
    Arrival { starts: vec![start(epoch, index, base)], last: EntryIndex(index - 1), claims }
}

fn mark(watermark: &Watermark) -> u64 {
    watermark.mark().0
}

#[test]
fn a_silent_stream_holds_the_mark() {
    let watermark = Watermark::new(3);
    publish(&watermark, 0, 5, 100);
    publish(&watermark, 1, 7, 200);
    assert_eq!(mark(&watermark), 0, "stream 2 said nothing: nothing is safe");
    publish(&watermark, 2, 1, 50);
    assert_eq!(mark(&watermark), 50);
}

#[test]
fn a_claim_counts_once_its_index_is_decided() {
    let watermark = Watermark::new(2);
    publish(&watermark, 0, 5, 100);
    let claim = OpenClaim { stream: s(1), index: EntryIndex(3), closed: Timestamp(100) };
    publish(&watermark, 1, 2, 40);
    assert!(!watermark.claim(claim), "entry 3 of stream 1 is not decided here");
    assert_eq!(mark(&watermark), 40);
    publish(&watermark, 1, 3, 60);
    assert!(watermark.claim(claim));
    assert_eq!(mark(&watermark), 100);
}

#[test]
fn paper_figure_7_the_mark_is_the_minimum_over_streams() {
    let watermark = Watermark::new(5);
    for (round, expected) in [([12, 27, 8, 9, 11], 8), ([59, 46, 45, 48, 50], 45), ([85, 80, 75, 73, 70], 70)]
    {
        for (stream, closed) in round.into_iter().enumerate() {
            publish(&watermark, stream as u16, 1, closed);
        }
        assert_eq!(mark(&watermark), expected);
    }
}

#[test]
fn paper_figure_8_the_final_mark_skips_what_may_miss_its_dependencies() {
    let watermark = Watermark::new(5);
    for (stream, closed) in [42, 44, 41, 21, 50].into_iter().enumerate() {
        publish(&watermark, stream as u16, 3, closed);
    }
    for stream in 0..5 {
        assert_eq!(watermark.arrive(s(stream), arrival(1, 4, 1000, vec![])), stream == 4);
    }
    assert_eq!(watermark.final_mark(Epoch(0)), Some(Timestamp(21)), "26 and 41 in stream 3 are skipped");
    assert_eq!((watermark.epoch(), mark(&watermark)), (Epoch(1), 1000));
    assert_eq!(watermark.mark_in(Epoch(0)), None);
}

#[test]
fn a_claim_about_a_lost_tail_does_not_count_at_the_end_of_the_epoch() {
    let watermark = Watermark::new(2);
    publish(&watermark, 0, 5, 100);
    publish(&watermark, 1, 2, 40);
    let lost = OpenClaim { stream: s(1), index: EntryIndex(3), closed: Timestamp(100) };
    let kept = OpenClaim { stream: s(1), index: EntryIndex(2), closed: Timestamp(70) };
    assert!(!watermark.arrive(s(0), arrival(1, 6, 1000, vec![lost, kept])));
    assert!(watermark.arrive(s(1), arrival(1, 3, 1000, vec![])));
    assert_eq!(watermark.final_mark(Epoch(0)), Some(Timestamp(70)));
}

#[test]
fn an_epoch_that_started_in_some_streams_only_is_passed_over() {
    let watermark = Watermark::new(2);
    publish(&watermark, 0, 5, 100);
    publish(&watermark, 1, 2, 40);
    assert!(!watermark.arrive(s(0), arrival(1, 6, 1000, vec![])));
    assert!(!watermark.arrive(s(1), arrival(2, 3, 2000, vec![])));
    let mut later = arrival(1, 6, 1000, vec![]);
    later.starts.push(start(2, 7, 2000));
    assert!(watermark.arrive(s(0), later));
    assert_eq!(watermark.final_mark(Epoch(0)), Some(Timestamp(40)));
    assert_eq!((watermark.epoch(), mark(&watermark)), (Epoch(2), 2000));
}

/// Once: a stream that was silent for a whole epoch announced only the latest epoch that it had passed: the epoch that
/// all had entered, and what it held, was passed over.
#[test]
fn a_stream_that_was_silent_for_a_whole_epoch_does_not_hide_it() {
    let watermark = Watermark::new(2);
    let mut silent = arrival(1, 1, 1000, vec![]);
    silent.starts.push(start(2, 2, 2000));
    assert!(!watermark.arrive(s(0), silent));
    assert!(
        watermark.arrive(s(1), arrival(1, 1, 1000, vec![])),
        "epoch 1 was entered by all and may hold much"
    );
    assert_eq!((watermark.epoch(), mark(&watermark)), (Epoch(1), 1000));
}

#[test]
fn the_applied_floor_waits_for_every_stream() {
    let watermark = Watermark::new(2);
    watermark.publish(s(0), EntryIndex(1), Timestamp(100), true);
    watermark.publish(s(1), EntryIndex(1), Timestamp(90), true);
    assert_eq!(watermark.applied_floor(), Timestamp(0));
    watermark.publish_applied(s(0), Timestamp(90), false);
    watermark.publish_applied(s(1), Timestamp(90), true);
    assert_eq!(watermark.applied_floor(), Timestamp(90));
    publish(&watermark, 1, 2, 95);
    watermark.publish_applied(s(0), Timestamp(95), true);
    assert_eq!(watermark.applied_floor(), Timestamp(95), "an empty entry needs no installing");
}

/// Workers take it for given, and a promise would not name the members that it has just seen decided: nothing but the lock keeps them from asking too
/// early.
#[test]
fn who_sees_that_an_epoch_has_ended_finds_its_final_mark_and_the_next_members() {
    for _ in 0..500 {
        let watermark = Watermark::new(2);
        publish(&watermark, 0, 5, 100);
        publish(&watermark, 1, 2, 40);
        assert!(!watermark.arrive(s(0), arrival(1, 6, 1000, vec![])));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while watermark.mark_in(Epoch(0)).is_some() {
                        std::hint::spin_loop();
                    }
                    assert_eq!(watermark.final_mark(Epoch(0)), Some(Timestamp(40)));
                    assert_eq!(watermark.members().map(|members| members.epoch), Some(Epoch(1)));
                });
            }
            assert!(watermark.arrive(s(1), arrival(1, 3, 1000, vec![])));
        });
    }
}

#[test]
#[should_panic(expected = "under the lock of the ends")]
fn an_epoch_that_changes_without_the_lock_is_noticed() {
    let watermark = Watermark::new(1);
    watermark.epoch.store(5, Ordering::SeqCst);
    watermark.final_mark(Epoch(0));
}
