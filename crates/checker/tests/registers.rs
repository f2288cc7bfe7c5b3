//! Each anomaly of registers, told by hand, and beside it what looks like it and is none.

mod common;

use common::{expect, fine};
use highwater_checker::AnomalyKind::*;
use highwater_checker::Level::{Serializable, Session, Strict};

#[test]
fn a_plain_run_passes() {
    fine(
        "0 0-10  x=nil x:1 x=1
         1 5-20  x=1 x:2 y:1
         2 20-30 x=2 y=1
         0 20-25 z=nil",
    );
}

#[test]
fn a_read_between_two_writers_that_overlap_may_see_either() {
    fine("0 0-10 x:1\n 1 5-20 x:2\n 2 30-40 x=1");
    fine("0 0-10 x:1\n 1 5-20 x:2\n 2 30-40 x=2");
}

#[test]
fn g1a_reads_what_was_aborted() {
    expect(Serializable, "0 0-10 fail x:1\n 1 20-30 x=1", &[G1a]);
    fine("0 0-10 fail x:1\n 1 20-30 x=nil");
}

#[test]
fn g1b_reads_what_was_overwritten_at_once() {
    expect(Serializable, "0 0-10 x:1 x:2\n 1 0-10 x=1", &[G1b]);
    fine("0 0-10 x:1 x=1 x:2\n 1 0-10 x=2\n 2 0-10 x=nil");
}

#[test]
fn g1c_information_flows_in_a_circle() {
    expect(Serializable, "0 0-10 x:1 y=2\n 1 0-10 y:2 x=1", &[G1c]);
    expect(Strict, "0 0-10 x=1\n 1 20-30 x:1", &[G1cRealtime]);
    expect(Session, "0 0-10 x=1\n 0 10-30 x:1", &[G1cProcess]);
    fine("0 0-10 x:1 y=nil\n 1 0-10 y:2 x=1");
}

#[test]
fn g_single_sees_half_of_another() {
    expect(Serializable, "0 0-10 x:1 y:1\n 1 0-10 x=nil y=1", &[GSingle]);
    // Written after being read: what was read is older.
    expect(Serializable, "0 0-10 x:1 y:1\n 1 20-30 x=1 x:2 y:2\n 2 40-50 x=1 y=2", &[GSingle]);
    fine("0 0-10 x:1 y:1\n 1 5-30 x=1 x:2 y:2\n 2 10-50 x=1 y=1");
}

#[test]
fn g_single_realtime_is_a_stale_read() {
    expect(Strict, "0 0-10 x:1\n 1 20-30 x=nil", &[GSingleRealtime]);
    expect(Strict, "0 0-10 x:1\n 1 20-30 x:2\n 2 40-50 x=1", &[GSingleRealtime]);
    expect(Serializable, "0 0-10 x:1\n 1 20-30 x:2\n 2 40-50 x=1", &[]);
    fine("0 0-10 x:1\n 1 20-40 x:2\n 2 40-50 x=1");
}

#[test]
fn writers_overlap_and_readers_saw_the_order() {
    // 2 is under way all the time; T2 meets the 1 before T3 meets the 2, so a later 1 is stale.
    let run = |last: &str| format!("0 0-10 x:1\n 1 0-90 x:2\n 2 20-30 x=1\n 3 40-50 x=2\n 4 60-70 x={last}");
    expect(Strict, &run("1"), &[GSingleRealtime]);
    expect(Strict, &run("2"), &[]);
    expect(Serializable, &run("1"), &[]);
}

#[test]
fn an_acknowledged_write_that_vanishes() {
    expect(Strict, "0 0-10 x:1\n 1 11-20 x=1 x:2\n 2 30-40 x=1", &[GSingleRealtime]);
    fine("0 0-10 x:1\n 1 11-? x:2\n 2 30-40 x=1");
}

#[test]
fn g_single_process_goes_back_in_its_clients_time() {
    expect(Session, "0 0-10 x:1\n 1 0-10 x:2\n 2 10-20 x=1\n 2 20-30 x=2\n 2 30-40 x=1", &[GSingleProcess]);
    expect(Serializable, "0 0-10 x:1\n 1 0-10 x:2\n 2 10-20 x=1\n 2 20-30 x=2\n 2 30-40 x=1", &[]);
    expect(Session, "0 0-10 x:1\n 1 0-10 x:2\n 2 10-20 x=1\n 2 20-30 x=2\n 2 30-40 x=2", &[]);
}

#[test]
fn g0_needs_an_order_of_versions_that_registers_show_by_reads_only() {
    // x: 1 then 2, and T1 read the 1; y: 4 then 3, and T0 read the 4.
    expect(Serializable, "0 0-10 x:1 y=4 y:3\n 1 0-10 x=1 x:2 y:4", &[G0, G1c]);
    fine("0 0-10 x:1 y:4\n 1 0-10 x=1 x:2 y=4 y:3");
}

#[test]
fn g2_write_skew() {
    expect(Serializable, "0 0-10 x=nil y:1\n 1 0-10 y=nil x:1", &[G2]);
    expect(Serializable, "9 0-1 x:7 y:8\n 0 2-10 x=7 y=8 y:1\n 1 2-10 x=7 y=8 x:2", &[G2]);
    fine("0 0-10 x=nil y:1\n 1 0-10 y=1 x:1");
}

#[test]
fn g2_with_a_client_or_the_clock() {
    let run = |t1: &str, y: &str| format!("0 0-10 y:1\n {t1} x=nil\n 2 0-40 y={y} x:1");
    expect(Strict, &run("1 11-20", "nil"), &[G2Realtime]);
    expect(Session, &run("0 10-20", "nil"), &[G2Process]);
    fine(&run("1 10-20", "nil"));
    fine(&run("1 11-20", "1"));
}

#[test]
fn lost_update_two_go_on_from_one_version() {
    expect(Serializable, "0 0-10 x=nil x:1\n 1 0-10 x=nil x:2", &[LostUpdate, G2]);
    expect(Serializable, "9 0-1 x:9\n 0 2-10 x=9 x:1\n 1 2-10 x=9 x:2", &[LostUpdate, G2]);
    fine("0 0-10 x=nil x:1\n 1 0-10 x=1 x:2");
}

#[test]
fn internal_contradictions() {
    expect(Serializable, "0 0-10 x:1 x=nil", &[Internal]);
    expect(Serializable, "0 0-10 x=1 x=2\n 1 0-10 x:1\n 2 0-10 x:2", &[Internal]);
    expect(Serializable, "0 0-10 x=1 x:1", &[Internal]);
}

#[test]
fn garbage_and_duplicates() {
    expect(Serializable, "0 0-10 x=5", &[GarbageRead]);
    expect(Serializable, "0 0-10 x:5\n 1 0-10 x:5", &[DuplicateWrite]);
    fine("0 0-10 x:5\n 1 0-10 y:5");
}

#[test]
fn unknown_outcomes_happened_if_they_were_seen() {
    expect(Serializable, "0 0-? x:1 y:1\n 1 10-20 x=1 y=nil", &[GSingle]);
    expect(Strict, "0 50-? x:1\n 1 10-20 x=1", &[G1cRealtime]);
    fine("0 0-? x:1\n 1 10-20 x=nil\n 2 20-30 x=1");
}

#[test]
fn lists_and_registers_share_transactions() {
    expect(Serializable, "0 0-10 x:1 l+1\n 1 0-10 x=1 l=[]", &[GSingle]);
    fine("0 0-10 x:1 l+1\n 1 0-10 x=1 l=[1]");
}
