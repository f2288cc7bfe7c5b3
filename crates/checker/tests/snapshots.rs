//! Snapshot reads: serializable, not the latest; what their clients may ask for besides.

mod common;

use common::{at, expect, fine, history, kinds};
use highwater_checker::AnomalyKind::*;
use highwater_checker::Level::{Serializable, Session, Strict};
use highwater_checker::{Options, Sessions, check};

/// The anomalies with session guarantees for snapshot reads.
#[track_caller]
fn asked(monotonic_reads: bool, read_your_writes: bool, lines: &str) -> Vec<highwater_checker::AnomalyKind> {
    let sessions = Sessions { monotonic_reads, read_your_writes };
    kinds(&check(&history(lines), &Options { sessions, ..Options::strict() }))
}

#[test]
fn a_snapshot_may_be_old_but_not_torn() {
    expect(Strict, "0 0-10 x+1\n 1 20-30 snap x=[]", &[]);
    expect(Strict, "0 0-10 x+1 y+1\n 1 20-30 snap x=[] y=[1]", &[GSingle]);
    expect(Strict, "0 0-10 x:1 y:1\n 1 20-30 snap x=nil y=1", &[GSingle]);
    fine("0 0-10 x+1\n 1 20-30 snap x=[1]");
}

#[test]
fn a_snapshot_must_fit_between_transactions_that_real_time_orders() {
    // T1 begins after T0 is over, so no snapshot shows T1 without T0.
    expect(Strict, "0 0-10 x+1\n 1 20-30 y+1\n 2 40-50 snap x=[] y=[1]", &[GSingleRealtime]);
    expect(Serializable, "0 0-10 x+1\n 1 20-30 y+1\n 2 40-50 snap x=[] y=[1]", &[]);
    expect(Strict, "0 0-10 x+1\n 1 20-30 y+1\n 2 40-50 snap x=[1] y=[]", &[]);
    expect(Strict, "0 0-10 x:1\n 1 20-30 x:2 y:1\n 2 40-50 snap x=1 y=1", &[GSingleRealtime]);
}

#[test]
fn snapshots_that_do_not_read_one_order() {
    // The long fork, on two followers.
    expect(Strict, "0 0-10 x+1\n 1 0-10 y+1\n 2 20-30 snap x=[1] y=[]\n 3 20-30 snap x=[] y=[1]", &[G2]);
    expect(Strict, "0 0-10 x+1\n 1 0-10 y+1\n 2 20-30 snap x=[1] y=[]\n 3 20-30 snap x=[] y=[]", &[]);
}

#[test]
fn monotonic_reads_if_asked() {
    let back = "0 0-10 x+1\n 1 20-30 snap x=[1]\n 1 40-50 snap x=[]";
    assert_eq!(asked(false, false, back), []);
    assert_eq!(asked(false, true, back), []);
    assert_eq!(asked(true, false, back), [GSingleProcess]);
    // From the primary to a follower.
    let behind = "0 0-10 x+1\n 1 20-30 x=[1]\n 1 40-50 snap x=[]";
    assert_eq!(asked(true, false, behind), [GSingleProcess]);
    // With others between.
    let later = "0 0-10 x+1\n 1 20-30 x=[1]\n 1 35-36 z+1\n 1 37-38 snap z=[]\n 1 40-50 snap x=[]";
    assert_eq!(asked(true, false, later), [GSingleProcess]);
    // Two clients.
    assert_eq!(asked(true, true, "0 0-10 x+1\n 1 20-30 snap x=[1]\n 2 40-50 snap x=[]"), []);
}

#[test]
fn monotonic_reads_from_a_follower_to_the_primary() {
    // What is read at the primary is the latest anyway; it takes an append still under way to fall behind a snapshot.
    let run = "0 0-90 x+1\n 1 20-30 snap x=[1]\n 1 40-50 x=[]";
    assert_eq!(asked(true, false, run), [GSingleProcess]);
    assert_eq!(asked(false, true, run), []);
}

#[test]
fn read_your_writes_if_asked() {
    let run = "0 0-10 x+1\n 0 20-30 snap x=[]";
    assert_eq!(asked(false, false, run), []);
    assert_eq!(asked(true, false, run), []);
    assert_eq!(asked(false, true, run), [GSingleProcess]);
    assert_eq!(asked(false, true, "0 0-10 x+1\n 0 12-15 y+1\n 0 20-30 snap x=[] y=[]"), [GSingleProcess]);
    assert_eq!(asked(false, true, "0 0-10 x+1\n 1 20-30 snap x=[]"), []);
}

#[test]
fn at_level_session_snapshots_are_in_their_clients_order() {
    expect(Session, "0 0-10 x+1\n 0 20-30 snap x=[]", &[GSingleProcess]);
    let verdict = at(Session, "0 0-10 x+1\n 0 20-30 snap x=[1]");
    assert!(verdict.passed());
    assert_eq!(verdict.counts.snap, 1);
}

#[test]
fn a_snapshot_that_asked_for_freshness_holds_what_ended_before() {
    expect(Strict, "0 0-10 x+1\n 1 20-30 snap>15 x=[]", &[GSingleRealtime]);
    expect(Serializable, "0 0-10 x+1\n 1 20-30 snap>15 x=[]", &[]);
    fine("0 0-10 x+1\n 1 20-30 snap>15 x=[1]");
    fine("0 0-10 x+1\n 1 20-30 snap>10 x=[]");
    // More than it asked for binds nobody: a later reader elsewhere may see less.
    fine("0 0-90 x+1\n 1 20-30 snap>15 x=[1]\n 2 40-50 snap>35 x=[]");
    let run = "0 0-10 x+1\n 0 12-14 y+1\n 1 20-30 snap>11 x=[1] y=[]\n 1 40-50 snap>13 x=[] y=[]";
    expect(Strict, run, &[GSingleRealtime]);
}
