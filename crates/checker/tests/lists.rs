//! Each anomaly of lists, told by hand, and beside it what looks like it and is none.

mod common;

use common::{at, expect, fine};
use highwater_checker::AnomalyKind::*;
use highwater_checker::Level::{Serializable, Session, Strict};

#[test]
fn a_plain_run_passes() {
    fine(
        "0 0-10  x+1 x=[1]
         1 5-15  x+2 y+1
         2 20-30 x=[1 2] y=[1]
         0 20-25 z=[]",
    );
}

#[test]
fn g0_overwrites_in_a_circle() {
    // x says 0 then 1, y says 1 then 0.
    let run = |y: &str| format!("0 0-10 x+1 y+1\n 1 0-10 x+2 y+2\n 2 20-30 x=[1 2]\n 3 20-30 y=[{y}]");
    expect(Serializable, &run("2 1"), &[G0]);
    fine(&run("1 2"));
}

#[test]
fn g0_realtime_overwrites_against_the_clock() {
    let run = |first: &str, second: &str| format!("0 {first} x+1\n 1 {second} x+2\n 2 40-50 x=[2 1]");
    expect(Strict, &run("0-10", "11-20"), &[G0Realtime]);
    expect(Serializable, &run("0-10", "11-20"), &[]);
    // They overlap, by a ns.
    fine(&run("0-11", "11-20"));
}

/// Two that are under way together may have any order, unless they were sent over one connection.
#[test]
fn those_of_one_connection_take_effect_in_the_order_in_which_they_were_sent() {
    let writes = |one: &str, other: &str| format!("0 0-30 {one} x+1\n 1 1-29 {other} x+2\n 2 40-50 x=[2 1]");
    let looks = |one: &str, other: &str| format!("0 0-30 {one} x+1\n 1 1-29 {other} x=[]\n 2 40-50 x=[1]");
    for (one, other) in [("", ""), ("#1.1", "#2.2"), ("#1.1", "")] {
        fine(&writes(one, other));
        fine(&looks(one, other));
    }
    for level in [Serializable, Session, Strict] {
        expect(level, &writes("#1.1", "#1.2"), &[G0Process]);
        expect(level, &looks("#1.1", "#1.2"), &[GSingleProcess]);
    }
    // Others may stand between, and what did not happen orders nothing.
    let with_a_third = |third: &str| {
        format!("0 0-30 #1.1 x+1\n 3 1-30 #1.2 {third} y+1\n 1 2-29 #1.3 x+2\n 2 40-50 x=[2 1]")
    };
    for third in ["", "fail"] {
        expect(Serializable, &with_a_third(third), &[G0Process]);
    }
    expect(Strict, "0 1-30 #1.1 x+1\n 1 0-29 #1.2 x+2", &[BrokenHistory]);
    expect(Strict, "0 0-30 #1.1 x+1\n 1 1-29 #1.1 x+2", &[BrokenHistory]);
}

#[test]
fn g0_process_overwrites_against_the_client() {
    // The instants touch, so the clock says nothing; the client's order does.
    expect(Session, "0 0-10 x+1\n 0 10-20 x+2\n 2 40-50 x=[2 1]", &[G0Process]);
    expect(Strict, "0 0-10 x+1\n 0 10-20 x+2\n 2 40-50 x=[2 1]", &[G0Process]);
    expect(Strict, "0 0-10 x+1\n 1 10-20 x+2\n 2 40-50 x=[2 1]", &[]);
}

#[test]
fn g1a_reads_what_was_aborted() {
    expect(Serializable, "0 0-10 fail x+1\n 1 20-30 x=[1]", &[G1a]);
    expect(Serializable, "0 0-10 fail x+1\n 1 20-30 x+2\n 2 40-50 x=[1 2]\n 3 40-50 x=[1]", &[G1a]);
    fine("0 0-10 fail x+1\n 1 20-30 x=[]");
}

#[test]
fn g1b_reads_half_of_a_transaction() {
    expect(Serializable, "0 0-10 x+1 x+2\n 1 0-10 x=[1]\n 2 20-30 x=[1 2]", &[G1b]);
    // The half is hidden behind the reader's own append.
    expect(Serializable, "0 0-10 x+1 x+2\n 1 0-10 x+3 x=[1 3]", &[G1b, G0, G1c]);
    fine("0 0-10 x+1 x+2\n 1 0-10 x=[1 2]\n 2 0-10 x=[]");
    fine("0 0-10 x+1 x=[1] x+2 x=[1 2]");
}

#[test]
fn g1c_information_flows_in_a_circle() {
    expect(Serializable, "0 0-10 x+1 y=[1]\n 1 0-10 y+1 x=[1]", &[G1c]);
    fine("0 0-10 x+1 y=[]\n 1 0-10 y+1 x=[1]");
}

#[test]
fn g1c_realtime_reads_the_future() {
    expect(Strict, "0 0-10 x=[1]\n 1 20-30 x+1", &[G1cRealtime]);
    expect(Serializable, "0 0-10 x=[1]\n 1 20-30 x+1", &[]);
    fine("0 0-20 x=[1]\n 1 20-30 x+1");
}

#[test]
fn g1c_process_reads_its_clients_future() {
    expect(Session, "0 0-10 x=[1]\n 0 10-20 x+1", &[G1cProcess]);
}

#[test]
fn g_single_sees_half_of_another() {
    expect(Serializable, "0 0-10 x+1 y+1\n 1 0-10 x=[] y=[1]", &[GSingle]);
    fine("0 0-10 x+1 y+1\n 1 0-10 x=[1] y=[1]");
    fine("0 0-10 x+1 y+1\n 1 0-10 x=[] y=[]\n 2 20-30 x=[1] y=[1]");
}

#[test]
fn g_single_realtime_is_a_stale_read() {
    let run = |read: &str| format!("0 0-10 x+1\n 1 {read} x=[]\n 2 40-50 x=[1]");
    expect(Strict, &run("11-20"), &[GSingleRealtime]);
    expect(Serializable, &run("11-20"), &[]);
    fine(&run("10-20"));
}

#[test]
fn an_acknowledged_append_that_vanishes_is_a_stale_read_that_never_ends() {
    // Nobody ever reads the 2: only that it was acknowledged says that it was there.
    expect(Strict, "0 0-10 x+1\n 1 11-20 x+2\n 2 30-40 x=[1]\n 3 50-60 x=[1]", &[GSingleRealtime]);
    // Many of them, so that a helper stands for them.
    let lost: String = (0..9).map(|at| format!("{at} 11-20 x+{}\n", at + 2)).collect();
    expect(Strict, &format!("20 0-10 x+1\n {lost} 30 30-40 x=[1]\n 31 50-60 x=[1]"), &[GSingleRealtime]);
    // If nobody was told, nothing is lost.
    fine("0 0-10 x+1\n 1 11-? x+2\n 2 30-40 x=[1]");
    fine("0 0-10 x+1\n 1 11-20 fail x+2\n 2 30-40 x=[1]");
    // Read while it was under way.
    fine("0 0-10 x+1\n 1 11-20 x+2\n 2 15-40 x=[1]");
}

#[test]
fn g_single_process_forgets_what_its_client_did() {
    expect(Session, "0 0-10 x+1\n 0 10-20 x=[]", &[GSingleProcess]);
    expect(Serializable, "0 0-10 x+1\n 0 10-20 x=[]", &[]);
}

#[test]
fn g2_write_skew() {
    expect(Serializable, "0 0-10 x=[] y+1\n 1 0-10 y=[] x+1\n 2 20-30 x=[1] y=[1]", &[G2]);
    // Nobody needs to see the writes.
    expect(Serializable, "0 0-10 x=[] y+1\n 1 0-10 y=[] x+1", &[G2]);
    fine("0 0-10 x=[] y+1\n 1 0-10 y=[1] x+1\n 2 20-30 x=[1] y=[1]");
}

#[test]
fn g2_long_fork_two_readers_see_two_orders() {
    // Each reader misses what the other saw; neither writer knows of the other.
    expect(Serializable, "0 0-90 x+1\n 1 0-90 y+1\n 2 0-90 x=[1] y=[]\n 3 0-90 x=[] y=[1]", &[G2]);
    fine("0 0-90 x+1\n 1 0-90 y+1\n 2 0-90 x=[1] y=[]\n 3 0-90 x=[] y=[]");
}

#[test]
fn g2_realtime_a_chain_of_misses_against_the_clock() {
    // T1 missed x, so it comes before T2; T2 missed y, so it comes before T0; but T0 was over when T1 began.
    let run =
        |t1: &str, y: &str| format!("0 0-10 y+1\n 1 {t1} x=[]\n 2 0-40 y={y} x+1\n 3 50-60 x=[1] y=[1]");
    expect(Strict, &run("11-20", "[]"), &[G2Realtime]);
    expect(Serializable, &run("11-20", "[]"), &[]);
    fine(&run("10-20", "[]"));
    fine(&run("11-20", "[1]"));
}

#[test]
fn g2_process_a_chain_of_misses_against_the_client() {
    // The same; the instants touch, so the clock says nothing, but T0 and T1 are one client's.
    let run = |client: u32, y: &str| format!("0 0-10 y+1\n {client} 10-20 x=[]\n 2 0-40 y={y} x+1");
    expect(Session, &run(0, "[]"), &[G2Process]);
    expect(Strict, &run(0, "[]"), &[G2Process]);
    expect(Serializable, &run(0, "[]"), &[]);
    fine(&run(1, "[]"));
    fine(&run(0, "[1]"));
}

#[test]
fn two_gaps_of_real_time_in_a_cycle_hold_a_stale_read() {
    // T0 reads x before T1 wrote it; T1 is over when T2 begins; T2 reads y before T3 wrote it; T3 is over when T0 begins.
    let run = |t0: &str| format!("0 {t0} x=[]\n 1 0-20 x+1\n 2 30-40 y=[]\n 3 0-24 y+1\n");
    expect(Strict, &run("25-35"), &[GSingleRealtime]);
    expect(Strict, "0 25-45 x=[] q+1\n 1 22-29 x+1\n 2 30-40 y=[]\n 3 0-24 y+1 w=[]\n", &[GSingleRealtime]);
    expect(Strict, "0 0-10 x+1\n 1 11-20 y=[]\n 2 0-30 y+1\n 3 31-40 x=[]", &[GSingleRealtime]);
    fine("0 0-10 x=[] z=[]\n 1 20-30 y=[] z+1\n 2 0-90 x+1 y+1\n 3 40-50 z=[1] x=[1]");
    fine("0 0-90 y+1 a+1\n 1 0-10 y=[] b+1\n 2 0-10 b=[] c=[1]\n 3 0-90 c+1 z=[]\n 4 20-30 z+1 a=[]\n");
}

#[test]
fn lost_update_two_go_on_from_one_version() {
    expect(Serializable, "0 0-10 x=[] x+1\n 1 0-10 x=[] x+2\n 2 20-30 x=[1 2]", &[LostUpdate, GSingle]);
    fine("0 0-10 x=[] x+1\n 1 0-20 x=[1] x+2\n 2 20-30 x=[1 2]");
    // One of the two did not happen.
    fine("0 0-10 x=[] x+1\n 1 0-10 fail x=[] x+2\n 2 20-30 x=[1]");
}

#[test]
fn internal_contradictions() {
    expect(Serializable, "0 0-10 x+1 x=[]", &[Internal]);
    expect(Serializable, "0 0-10 x=[1] x=[1 2]\n 1 0-10 x+1\n 2 0-10 x+2", &[Internal]);
    expect(Serializable, "0 0-10 x=[1] x+1", &[Internal]);
    expect(Serializable, "0 0-10 x+1 x+2\n 1 20-30 x=[2 1]", &[Internal, G1b]);
    fine("0 0-10 x=[] x+1 x=[1] x+2 x=[1 2]");
}

#[test]
fn incompatible_orders() {
    let writers = "0 0-10 x+1\n 1 0-10 x+2\n 2 0-10 x+3\n";
    expect(Serializable, &format!("{writers} 3 20-30 x=[1 2]\n 4 20-30 x=[1 3]"), &[IncompatibleOrder]);
    fine(&format!("{writers} 3 5-30 x=[1]\n 4 20-30 x=[1 3 2]"));
}

#[test]
fn duplicate_elements() {
    expect(Serializable, "0 0-10 x+1\n 1 20-30 x=[1 1]", &[DuplicateElements]);
    expect(
        Serializable,
        "0 0-10 x+1\n 2 0-10 x+2\n 1 20-30 x=[1 2 1]\n 3 20-30 x=[1 2]",
        &[DuplicateElements],
    );
}

#[test]
fn garbage() {
    expect(Serializable, "0 0-10 x+1\n 1 20-30 x=[7 1]", &[GarbageRead]);
}

#[test]
fn duplicate_writes_are_the_loads_fault_and_taint_their_key_only() {
    expect(Serializable, "0 0-10 x+1\n 1 0-10 x+1\n 2 20-30 x=[5]", &[DuplicateWrite]);
    expect(Strict, "0 0-10 x+1\n 1 0-10 x+1\n 2 0-10 y+1\n 3 20-30 y=[]", &[DuplicateWrite, GSingleRealtime]);
    fine("0 0-10 x+1 y+1\n 1 0-10 z+1");
}

#[test]
fn broken_records() {
    expect(Serializable, "0 0-10 x+1\n 0 5-15 x+2", &[BrokenHistory]);
    expect(Serializable, "0 0-? x+1\n 0 5-15 x+2", &[BrokenHistory]);
    expect(Serializable, "0 10-5 x+1", &[BrokenHistory]);
    assert!(!at(Serializable, "0 0-10 x+1\n 1 20-30 x=1").passed(), "a list read as a register");
    fine("0 0-10 x+1\n 0 10-15 x+2\n 1 0-? x+3");
}

#[test]
fn unknown_outcomes_happened_if_they_were_seen() {
    // Seen: then all of it happened, and the y is missing.
    expect(Serializable, "0 0-? x+1 y+1\n 1 10-20 x=[1] y=[]", &[GSingle]);
    fine("0 0-? x+1 y+1\n 1 10-20 x=[] y=[]\n 2 90-99 x=[1] y=[1]");
    // It may take effect long after, but not before it began.
    expect(Strict, "0 50-? x+1\n 1 10-20 x=[1]", &[G1cRealtime]);
    let verdict = at(Strict, "0 0-? x+1\n 1 0-? x+2\n 2 10-20 x=[1]");
    assert!(verdict.passed());
    assert_eq!((verdict.counts.info, verdict.counts.info_seen), (2, 1));
}

#[test]
fn a_cycle_across_many_is_found_at_its_shortest() {
    let mut lines = String::from("99 0-1000 k0=[] k9+1\n");
    (0..9).for_each(|at| lines.push_str(&format!("{at} 0-1000 k{at}+1 k{}=[]\n", at + 1)));
    let verdict = at(Serializable, &lines);
    assert_eq!(verdict.anomalies[0].kind, G2);
    assert_eq!(verdict.anomalies[0].txns.len(), 10);
    assert_eq!(verdict.counts.knots, 1);
}
